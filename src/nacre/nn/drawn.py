"""Random numbers of any floating-point or complex dtype, with which parameters begin."""

from __future__ import annotations

import math
from typing import Any

from nacre.api import random
from nacre.api.elementwise.complex_numbers import view_as_complex
from nacre.api.tensor import Tensor
from nacre.base.dtypes import as_dtype


def uniform(shape: tuple[Any, ...], a: float, b: float, dtype: Any = None) -> Tensor:
    """Uniform random numbers in [a, b); those of a complex dtype have such parts."""
    found = None if dtype is None else as_dtype(dtype)
    if found is not None and found.is_complex:
        return view_as_complex(random.uniform((*shape, 2), a, b, found.real))
    return random.uniform(shape, a, b, found)


def normal(shape: tuple[Any, ...], mean: float, std: float, dtype: Any = None) -> Tensor:
    """Normal random numbers; those of a complex dtype have independent parts of half the variance."""
    found = None if dtype is None else as_dtype(dtype)
    if found is not None and found.is_complex:
        return view_as_complex(random.normal((*shape, 2), 0.0, std / math.sqrt(2.0), found.real)) + mean
    return random.normal(shape, mean, std, found)
