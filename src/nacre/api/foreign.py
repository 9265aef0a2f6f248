"""Conversion of other libraries' tensors for `as_tensor`."""

from __future__ import annotations

from typing import Any

from nacre.base.dtypes import bfloat16
from nacre.base.errors import DTypeError
from nacre.trace.value import Value


def array_of(value: Any) -> Any:
    """A PyTorch tensor in memory as a NumPy array; any other object unchanged.

    NumPy has no bfloat16.  Such tensors are converted to float32, which represents every bfloat16 number.

    Raises DTypeError for a dtype that neither library has.
    """
    if isinstance(value, Value) or not hasattr(value, "detach"):
        return value
    held = value.detach()
    held = held.cpu() if hasattr(held, "cpu") else held
    try:
        if str(held.dtype) == "torch.bfloat16":
            return held.float().numpy().astype(bfloat16.numpy)
        return held.numpy()
    except TypeError as fault:
        raise DTypeError(
            f"tensor: dtype must be bfloat16 or one of NumPy's; got {held.dtype}; convert it; {fault}"
        ) from None
