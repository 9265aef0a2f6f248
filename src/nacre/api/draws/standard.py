"""Numbers of simple distributions, made of uniformly distributed ones."""

from __future__ import annotations

import math
from typing import Any, Final

from nacre.api.draws.whole import whole
from nacre.api.operands import TensorLike, as_tensor, filled, spread
from nacre.api.primitives import pointwise, randomness, special, view
from nacre.base.dtypes import DType, float64, uint32, uint64

PRECISION: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@whole
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
    factor, shift = (everywhere(x, drawn) for x in (scale, loc))
    return as_tensor(pointwise.fma(drawn, factor, shift), dtype)


def everywhere(x: TensorLike, drawn: Any) -> Any:
    """A parameter in the type of the numbers."""
    if isinstance(x, int | float):
        return filled(drawn, float(x))
    held: DType = drawn.type.dtype
    return spread(as_tensor(x, held), drawn.type.shape)


def keys_of(key: Any, count: int) -> tuple[Any, ...]:
    """Independent keys made from one."""
    return rows_of(randomness.random_bits(key, (count, 2), uint32))


def rows_of(x: Any) -> tuple[Any, ...]:
    """The slices of a tensor along its first axis, without that axis."""
    count, *sizes = x.type.shape
    zeros, steps = (0,) * len(sizes), (1,) * (len(sizes) + 1)
    return tuple(view.reshape(view.slice_(x, (k, *zeros), (k + 1, *sizes), steps), sizes) for k in range(count))


@whole
def inside(shape: Any, dtype: DType, held: Any) -> Any:
    """Numbers in (0, 1): those of `unit`, with half of the least one for 0."""
    drawn = unit(shape, dtype, held)
    return pointwise.maximum(drawn, filled(drawn, 2.0 ** -(PRECISION[dtype.name] + 1)))


@whole
def standard_exponential(shape: Any, dtype: DType, held: Any) -> Any:
    """−log(1 − u) for u in [0, 1)."""
    return pointwise.neg(pointwise.log1p(pointwise.neg(unit(shape, dtype, held))))


@whole
def standard_laplace(shape: Any, dtype: DType, held: Any) -> Any:
    """Exponential numbers with random signs."""
    first, second = keys_of(held, 2)
    size = standard_exponential(shape, dtype, first)
    chance = unit(shape, dtype, second)
    return pointwise.select(pointwise.lt(chance, filled(chance, 0.5)), pointwise.neg(size), size)


@whole
def standard_logistic(shape: Any, dtype: DType, held: Any) -> Any:
    """log(u / (1 − u)) for u in (0, 1)."""
    return special.logit(inside(shape, dtype, held))


@whole
def standard_cauchy(shape: Any, dtype: DType, held: Any) -> Any:
    """tan(π(u − ½)) for u in (0, 1)."""
    drawn = inside(shape, dtype, held)
    return pointwise.tan(pointwise.mul(pointwise.sub(drawn, filled(drawn, 0.5)), filled(drawn, math.pi)))


@whole
def standard_gumbel(shape: Any, dtype: DType, held: Any) -> Any:
    """−log(−log u) for u in (0, 1)."""
    logarithm = pointwise.log(inside(shape, dtype, held))
    return pointwise.neg(pointwise.log(pointwise.neg(logarithm)))


@whole
def normals_of(shape: Any, dtype: DType, held: Any) -> Any:
    """√(−2 log(1 − u)) cos(2πv) (Box and Muller 1958)."""
    first, second = rows_of(unit((2, *shape), dtype, held))
    above_zero = pointwise.sub(filled(first, 1.0), first)
    radius = pointwise.sqrt(pointwise.mul(filled(first, -2.0), pointwise.log(above_zero)))
    return pointwise.mul(radius, pointwise.cos(pointwise.mul(second, filled(second, 2 * math.pi))))
