"""Positions along an axis, computed with NumPy where sizes are known and as tensors where they are symbolic.

Whole numbers are int64, and others float64.  Both ways give the same bits, because each operation rounds once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nacre.api.operands import as_tensor, scalar
from nacre.api.primitives import picking, pointwise
from nacre.api.taking import take
from nacre.api.tensor import FUNCTIONS
from nacre.base.dims import Dim, Size
from nacre.base.dtypes import float64, int64
from nacre.runtime.buffer import require_room


class Positions:
    """Arithmetic for positions that depend on sizes; `functions` are those of NumPy, or of tensors."""

    def __init__(self, *sizes: Size) -> None:
        self.symbolic: Final = any(isinstance(s, Dim) for s in sizes)
        self.functions: Final[Any] = FUNCTIONS if self.symbolic else np
        self.float64: Final[Any] = float64 if self.symbolic else np.float64

    def counted(self, count: Size, nbytes: int = 0) -> Any:
        """0, 1, … count − 1; `nbytes` are what each of them needs until the result is made."""
        if self.symbolic:
            return pointwise.iota((count,), 0, int64)
        assert isinstance(count, int)
        require_room(count * nbytes)
        return np.arange(count)

    def real(self, value: Any) -> Any:
        """A size or positions as float64."""
        if not self.symbolic:
            return np.float64(value)
        return scalar(value, float64) if isinstance(value, int | Dim) else pointwise.cast(value, float64)

    def whole(self, values: Any) -> Any:
        """The whole parts of positions."""
        return pointwise.cast(values, int64) if self.symbolic else values.astype(np.int64)

    def taken(self, x: Any, places: Any, axis: int) -> Any:
        """The slices of x at positions within an axis."""
        return picking.take(x, places, axis) if self.symbolic else take(x, as_tensor(places), axis=axis)
