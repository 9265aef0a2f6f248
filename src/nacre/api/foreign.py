"""Tensors of other libraries as what `as_tensor` takes."""

from __future__ import annotations

from typing import Any

from nacre.base.dtypes import bfloat16
from nacre.base.errors import DTypeError
from nacre.trace.value import Value


def array_of(value: Any) -> Any:
    """A PyTorch tensor in memory as an array of the same numbers; anything else as it is.

    NumPy has no bfloat16, and PyTorch gives it none: such numbers go by way of float32, which has them all.

    Raises DTypeError for a dtype that neither has.
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
        raise DTypeError(f"tensor: a dtype that NumPy has, or bfloat16, is required; got {held.dtype}; convert it; "
                         f"{fault}") from None
