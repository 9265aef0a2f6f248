"""Numbers of simple distributions, made of uniformly distributed ones."""

from __future__ import annotations

import math
from typing import Any, Final

from nacre.api.operands import TensorLike, as_tensor, filled, spread
from nacre.api.primitives import pointwise, randomness, view
from nacre.base.dtypes import DType, float32, float64, uint32, uint64

PRECISION: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def unit(shape: Any, dtype: DType, held: Any) -> Any:
    """Numbers in [0, 1): as many leading random bits as the fraction has, times a power of two."""
    precision = PRECISION[dtype.name]
    drawn = randomness.random_bits(held, shape, uint64 if dtype is float64 else uint32)
    top = pointwise.shr(drawn, filled(drawn, drawn.type.dtype.bits - precision))
    number = pointwise.cast(top, dtype)
    return pointwise.mul(number, filled(number, 2.0**-precision))


def located(drawn: Any, loc: TensorLike, scale: TensorLike, dtype: DType) -> Any:
    """loc + scale · drawn, of a dtype; loc and scale broadcast to the shape of the numbers."""
    if isinstance(loc, int | float) and isinstance(scale, int | float) and loc == 0 and scale == 1:
        return as_tensor(drawn, dtype)
    held: DType = drawn.type.dtype
    factor, shift = (spread(as_tensor(x, held), drawn.type.shape) for x in (scale, loc))
    return as_tensor(pointwise.fma(drawn, factor, shift), dtype)


def arithmetic(dtype: DType) -> DType:
    """The dtype in which numbers are computed: float32 for shorter ones."""
    return float64 if dtype is float64 else float32


def inside(shape: Any, dtype: DType, held: Any) -> Any:
    """Numbers in (0, 1): those of `unit`, with half of the least one for 0."""
    drawn = unit(shape, dtype, held)
    return pointwise.maximum(drawn, filled(drawn, 2.0 ** -(PRECISION[dtype.name] + 1)))


def standard_exponential(shape: Any, dtype: DType, held: Any) -> Any:
    """−log(1 − u) for u in [0, 1)."""
    return pointwise.neg(pointwise.log1p(pointwise.neg(unit(shape, dtype, held))))


def standard_gumbel(shape: Any, dtype: DType, held: Any) -> Any:
    """−log(−log u) for u in (0, 1)."""
    logarithm = pointwise.log(inside(shape, dtype, held))
    return pointwise.neg(pointwise.log(pointwise.neg(logarithm)))


def normals_of(shape: Any, dtype: DType, held: Any) -> Any:
    """√(−2 log(1 − u)) cos(2πv) (Box and Muller 1958)."""
    drawn = unit((2, *shape), dtype, held)
    first, second = (
        view.reshape(view.slice_(drawn, (k, *(0 for _ in shape)), (k + 1, *shape), (1,) * (len(shape) + 1)), shape)
        for k in (0, 1)
    )
    above_zero = pointwise.sub(filled(first, 1.0), first)
    radius = pointwise.sqrt(pointwise.mul(filled(first, -2.0), pointwise.log(above_zero)))
    return pointwise.mul(radius, pointwise.cos(pointwise.mul(second, filled(second, 2 * math.pi))))
