"""Distributions of integers, bools and orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nacre.api.draws.counts import (
    MOST_EXPECTED,
    MOST_TRIALS,
    binomial_counts,
    geometric_counts,
    multinomial_counts,
    poisson_counts,
)
from nacre.api.draws.keys import Sizes, key_of
from nacre.api.draws.parameters import count_dtype, counted, in_one_shape, require
from nacre.api.draws.standard import standard_gumbel, unit
from nacre.api.elementwise.apply import of_tensors
from nacre.api.operands import TensorLike, as_tensor, filled, is_scalar, numbers, scalar, shape_of, spread
from nacre.api.primitives import identity, pointwise, randomness, view
from nacre.api.searching import argmax
from nacre.api.sorting import argsort
from nacre.api.taking import take
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.conversion import bounds, number
from nacre.base.dims import Dim, Size, require_fitting
from nacre.base.dtypes import as_dtype, float32, float64, int64, uint32, uint64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.types import broadcast_shapes
from nacre.trace.value import is_concrete


def bernoulli(p: TensorLike = 0.5, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Bools that are True with probability p; the shape defaults to that of p.

    >>> nc.random.bernoulli(1.0, (2,), key=nc.random.key(0))
    Tensor([ True,  True], bool[2])
    """
    chance = as_tensor(p)
    sizes = chance.type.shape if shape is None else shape_of(shape, "random.bernoulli")
    advice = "; clip it, or take sigmoid of logits"
    require("random.bernoulli", "p must be in [0, 1]", chance, lambda x: (x >= 0) & (x <= 1), advice)
    drawn = unit(sizes, float32, key_of(key))
    return pointwise.lt(drawn, spread(as_tensor(chance, float32), sizes))


def categorical(logits: TensorLike, shape: Sizes = (), key: TensorLike | None = None) -> Tensor:
    """Classes, drawn with the probabilities softmax(logits) of the last axis, by the maximum of Gumbel numbers.

    The logits have shape [..., classes], and the result [*shape, ...] of int64.

    >>> nc.random.categorical(nc.tensor([-nc.inf, 0.0]), (2,), key=nc.random.key(0))
    Tensor([1, 1], i64[2])
    """
    held = as_tensor(logits)
    if not held.type.dtype.is_float or not held.type.shape:
        raise DTypeError(
            f"random.categorical: logits must be floats with an axis; got {held.type}; take log of probabilities"
        )
    wide = held.type.dtype.arithmetic
    sizes = (*shape_of(shape, "random.categorical"), *held.type.shape)
    noise = standard_gumbel(sizes, wide, key_of(key))
    return argmax(pointwise.add(spread(as_tensor(held, wide), sizes), noise), axis=-1)


def permutation(x: TensorLike, axis: int = 0, key: TensorLike | None = None) -> Tensor:
    """The integers below x in random order, or a tensor's slices along an axis in random order.

    >>> nc.random.permutation(3, key=nc.random.key(0)).shape
    (3,)
    """
    if is_scalar(x):
        count = whole_number(x, "random.permutation", "x")
        if count < 0:
            raise ArgumentError(f"random.permutation: x must be at least 0; got {count}")
        return _order(count, key)
    held = as_tensor(x)
    if not held.type.shape:
        raise ArgumentError(f"random.permutation: a tensor must have an axis; got {held.type}; write int(x)")
    axis = range(len(held.type.shape))[axis]
    return take(held, _order(held.type.shape[axis], key), axis=axis)


def _order(count: Size, key: TensorLike | None) -> Tensor:
    return argsort(randomness.random_bits(key_of(key), (count,), uint64))


def choice(
    x: TensorLike,
    shape: Sizes = (),
    replace: bool = True,
    p: TensorLike | None = None,
    key: TensorLike | None = None,
) -> Tensor:
    """Integers below x, or a tensor's rows, drawn with equal probabilities or in proportion to the vector p.

    The sum of p need not be 1.  Without `replace` nothing is drawn twice.  Raises ArgumentError for known p that are
    negative, not finite, or all 0.

    >>> nc.random.choice(nc.tensor([5.0, 5.0]), (2,), key=nc.random.key(0))
    Tensor([5., 5.], f32[2])
    """
    held = None if is_scalar(x) else as_tensor(x)
    count = whole_number(x, "random.choice", "x") if held is None else held.type.shape[0] if held.type.shape else 0
    sizes = shape_of(shape, "random.choice")
    total = math.prod(sizes)
    if count <= 0 or (not replace and total > count):
        raise ArgumentError(
            f"random.choice: x must have at least {1 if replace else total} rows; got {count}; "
            "write replace=True to draw rows several times"
        )
    if p is None:
        drawn = randint(0, count, sizes, key=key) if replace else view.reshape(_order(count, key)[:total], sizes)
        return drawn if held is None else take(held, drawn, axis=0)
    chances = as_tensor(p)
    if not chances.type.dtype.is_float or chances.type.shape != (count,):
        raise DTypeError(f"random.choice: p must be {count} floats; got {chances.type}")
    require("random.choice", "p must be finite and not negative", chances, lambda p: (p >= 0) & np.isfinite(p))
    if is_concrete(chances) and not numbers(chances, "random.choice").any():
        raise ArgumentError(f"random.choice: some element of p must be positive; got {count} zeros")
    logits = pointwise.log(as_tensor(chances, chances.type.dtype.arithmetic))
    if replace:
        drawn = categorical(logits, sizes, key)
    else:
        noisy = pointwise.add(logits, standard_gumbel((count,), logits.type.dtype, key_of(key)))
        drawn = view.reshape(argsort(noisy, descending=True)[:total], sizes)
    return drawn if held is None else take(held, drawn, axis=0)


def randint(low: Size, high: Size, shape: Sizes = (), dtype: Any = int64, key: TensorLike | None = None) -> Tensor:
    """Integers uniformly distributed in [low, high), from the high half of a product; the bias is below (high − low) /
    2^32.

    >>> nc.random.randint(5, 6, (2,), key=nc.random.key(0))
    Tensor([5, 5], i64[2])
    """
    span = high - low
    if not 0 < span <= 1 << 32:
        raise ArgumentError(
            f"random.randint: low must be less than high, and high - low at most 2^32; got {low} and {high}"
        )
    found = as_dtype(dtype)
    for end in (low, high - 1):
        if isinstance(end, Dim):
            require_fitting(end, *bounds(found))
        else:
            number(end, found, "random.randint")
    drawn = pointwise.cast(randomness.random_bits(key_of(key), shape_of(shape, "random.randint"), uint32), uint64)
    scaled = pointwise.shr(pointwise.mul(drawn, _everywhere(drawn, span)), filled(drawn, 32))
    moved = scaled if found is uint64 else pointwise.cast(scaled, int64)
    return as_tensor(pointwise.add(moved, _everywhere(moved, low)), found)


def _everywhere(x: Any, value: Size) -> Any:
    """A number or a size in every element of a tensor like x."""
    return spread(scalar(value, x.type.dtype), x.type.shape) if isinstance(value, Dim) else filled(x, value)


def poisson(rate: TensorLike, shape: Sizes | None = None, dtype: Any = int64, key: TensorLike | None = None) -> Tensor:
    """Counts of the Poisson distribution with a mean of `rate`, from 0 to 2^62; the shape defaults to that of rate.

    `dtype` is a signed integer or a float.  Floats refuse a derivative by the rate, integers have none.  In compiled
    code, rates that are not possible give −1, or NaN as floats.  Source: Hörmann, Insurance Math. Econom. 12 (1993).

    >>> nc.random.poisson(0.0, (2,), key=nc.random.key(0))
    Tensor([0, 0], i64[2])
    """
    found = count_dtype("random.poisson", dtype)
    held = _real_parameter("random.poisson", "rate", rate)
    (moving,) = in_one_shape("random.poisson", shape, held)
    require("random.poisson", "rates must be from 0 to 2^62", held, lambda x: (x >= 0) & (x <= MOST_EXPECTED))
    drawn = of_tensors("random.poisson", poisson_counts, (identity.detach(moving), key_of(key)))
    return counted("poisson", drawn, found, moving)


def binomial(
    n: TensorLike, p: TensorLike, shape: Sizes | None = None, dtype: Any = int64, key: TensorLike | None = None
) -> Tensor:
    """Numbers of successes in n trials with probability p; the shape defaults to that of n and p together.

    n is a whole number up to 2^53, or a tensor of integers.  `dtype` is a signed integer or a float.  Floats refuse a
    derivative by p, integers have none.  In compiled code, parameters that are not possible give −1, or NaN as floats.
    Source: Hörmann, J. Stat. Comput. Simul. 46 (1993).

    >>> nc.random.binomial(5, 1.0, (2,), key=nc.random.key(0))
    Tensor([5, 5], i64[2])
    """
    found = count_dtype("random.binomial", dtype)
    trials, chance = _trials("random.binomial", n), _real_parameter("random.binomial", "p", p)
    require("random.binomial", "p must be in [0, 1]", chance, lambda x: (x >= 0) & (x <= 1))
    count, moving = in_one_shape("random.binomial", shape, trials, chance)
    drawn = of_tensors("random.binomial", binomial_counts, (count, identity.detach(moving), key_of(key)))
    return counted("binomial", drawn, found, moving)


def multinomial(
    n: TensorLike, p: TensorLike, shape: Sizes | None = None, dtype: Any = int64, key: TensorLike | None = None
) -> Tensor:
    """Counts [*shape, classes] of n trials, each of which is in a class in proportion to the vectors p [..., classes].

    The shape defaults to that of n and of the other axes of p together.  The sum of p need not be 1.  n and `dtype` are
    those of `binomial`, which draws the parts of halves of the classes.  Raises ArgumentError for known p that are
    negative, not finite, or all 0.  In compiled code, such p give −1, or NaN as floats.

    >>> nc.random.multinomial(5, nc.tensor([0.0, 1.0, 0.0]), (2,), key=nc.random.key(0))
    Tensor([[0, 5, 0],
            [0, 5, 0]], i64[2, 3])
    """
    found = count_dtype("random.multinomial", dtype)
    trials, weights = _trials("random.multinomial", n), _real_parameter("random.multinomial", "p", p)
    if not weights.type.shape or weights.type.shape[-1] == 0:
        raise DTypeError(f"random.multinomial: p must have an axis of classes; got {weights.type}")
    require("random.multinomial", "p must be finite and not negative", weights, lambda p: (p >= 0) & np.isfinite(p))
    if is_concrete(weights) and not numbers(weights, "random.multinomial").any(axis=-1).all():
        raise ArgumentError("random.multinomial: each vector of p must have a positive element; got only zeros")
    *rows, classes = weights.type.shape
    common = broadcast_shapes(trials.type.shape, tuple(rows), operation="random.multinomial")
    sizes = common if shape is None else shape_of(shape, "random.multinomial")
    (count,) = in_one_shape("random.multinomial", sizes, trials)
    (moving,) = in_one_shape("random.multinomial", (*sizes, classes), weights)
    drawn = of_tensors("random.multinomial", multinomial_counts, (count, identity.detach(moving), key_of(key)))
    return counted("multinomial", drawn, found, moving)


def geometric(p: TensorLike, shape: Sizes | None = None, dtype: Any = int64, key: TensorLike | None = None) -> Tensor:
    """Numbers of trials up to the first success, from 1 on, with probability p in (0, 1]; the shape defaults to p's.

    `dtype` is a signed integer or a float.  Floats refuse a derivative by p, integers have none.  In compiled code,
    other p give −1, or NaN as floats.

    >>> nc.random.geometric(1.0, (2,), key=nc.random.key(0))
    Tensor([1, 1], i64[2])
    """
    found = count_dtype("random.geometric", dtype)
    held = _real_parameter("random.geometric", "p", p)
    require("random.geometric", "p must be in (0, 1]", held, lambda x: (x > 0) & (x <= 1))
    (moving,) = in_one_shape("random.geometric", shape, held)
    drawn = of_tensors("random.geometric", geometric_counts, (identity.detach(moving), key_of(key)))
    return counted("geometric", drawn, found, moving)


def _trials(operation: str, n: TensorLike) -> Any:
    """Numbers of trials."""
    held = as_tensor(n)
    if not held.type.dtype.is_integer:
        raise DTypeError(f"{operation}: n must be integers; got {held.type}; write n.astype(nacre.int64)")
    require(operation, "n must be from 0 to 2^53", held, lambda x: (x >= 0) & (x <= MOST_TRIALS))
    return held


def _real_parameter(operation: str, name: str, x: TensorLike) -> Any:
    """A parameter of floats, as float64; a Python number keeps its digits."""
    held = as_tensor(x, float64) if is_scalar(x) else as_tensor(x)
    if not held.type.dtype.is_float:
        raise DTypeError(f"{operation}: {name} must be floats; got {held.type}; write {name}.astype(nacre.float32)")
    return as_tensor(held, float64)
