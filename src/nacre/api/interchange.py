"""Tensors as text: printing in the manner of NumPy, with dtype and shape."""

from __future__ import annotations

import numpy as np

from nacre.base.dtypes import bfloat16
from nacre.interpret.evaluate import to_numpy
from nacre.trace.value import GivenUp, Value, is_concrete


def printable(x: Value) -> np.ndarray:
    """The numbers in a form that NumPy prints well."""
    array = to_numpy(x)
    return array.astype(np.float32) if x.type.dtype is bfloat16 else array


def represent(x: Value) -> str:
    """`Tensor([1., 2.], f32[2])`; a traced tensor shows its type alone."""
    if not is_concrete(x):
        return f"Tensor({x.type}, {'donated' if isinstance(x.data, GivenUp) else 'traced'})"
    body = np.array2string(printable(x), separator=", ", prefix="Tensor(", floatmode="maxprec")
    return f"Tensor({body}, {x.type})"


def as_text(x: Value) -> str:
    """The numbers alone, as `print` shows them."""
    return str(printable(x)) if is_concrete(x) else represent(x)
