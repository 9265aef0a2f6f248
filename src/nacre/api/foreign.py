"""Conversion of other libraries' tensors for `as_tensor`."""

from __future__ import annotations

import sys
from typing import Any, Final

from nacre.base.dtypes import BYTE, STORED_FLOATS, bfloat16
from nacre.base.errors import DTypeError
from nacre.trace.value import Value

STORED: Final = {f"torch.{d.name}": d.numpy for d in STORED_FLOATS if d.bits == BYTE}  # by PyTorch's names


def array_of(value: Any) -> Any:
    """A PyTorch tensor in memory as a NumPy array; any other object unchanged.

    NumPy has no bfloat16.  Such tensors are converted to float32, which represents every bfloat16 number.  Of float8
    the bytes are taken.

    Raises DTypeError for a dtype that neither library has.
    """
    if isinstance(value, Value) or not hasattr(value, "detach"):
        return value
    held = value.detach()
    held = held.cpu() if hasattr(held, "cpu") else held
    try:
        if str(held.dtype) == "torch.bfloat16":
            return held.float().numpy().astype(bfloat16.numpy)
        stored = STORED.get(str(held.dtype))
        if stored is not None and "torch" in sys.modules and hasattr(held, "view"):
            return held.view(sys.modules["torch"].uint8).numpy().view(stored)
        return held.numpy()
    except TypeError as fault:
        raise DTypeError(
            f"tensor: dtype must be bfloat16 or one of NumPy's; got {held.dtype}; convert it; {fault}"
        ) from None
