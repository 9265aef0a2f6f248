"""Numbers of the gamma distribution by rejection (Marsaglia and Tsang, ACM TOMS 26 (2000)), with implicit gradients."""

from __future__ import annotations

from math import nan
from typing import Any

from nacre.api.data_types import finfo
from nacre.api.draws.rejection import accepted
from nacre.api.draws.standard import inside, keys_of, normals_of
from nacre.api.operands import filled
from nacre.api.primitives import identity, pointwise, reduce, special, view
from nacre.base.dtypes import bool_


def gamma_numbers(a: Any, key: Any) -> Any:
    """A number for each parameter; NaN for parameters that are not positive and finite."""
    return special.implicit_gamma(a, _with_logs(a, key)[0])


def _with_logs(a: Any, key: Any) -> tuple[Any, Any]:
    """The numbers without gradients, and their logarithms, which small parameters make too small for numbers."""
    fixed = identity.detach(a)
    one = filled(fixed, 1.0)
    valid = pointwise.and_(pointwise.gt(fixed, filled(fixed, 0.0)), pointwise.isfinite(fixed))
    safe = pointwise.select(valid, fixed, one)
    few = pointwise.lt(safe, one)
    first, second = keys_of(key, 2)
    drawn = _from_one_on(pointwise.select(few, pointwise.add(safe, one), safe), first)
    # for a < 1, a number for a + 1 times u^(1/a)
    exponent = pointwise.div(pointwise.log(inside(a.type.shape, a.type.dtype, second)), safe)
    exponent = pointwise.select(few, exponent, filled(exponent, 0.0))
    logs = pointwise.maximum(pointwise.add(pointwise.log(drawn), exponent), filled(drawn, _least(drawn)))
    drawn = pointwise.select(few, pointwise.mul(drawn, pointwise.exp(exponent)), drawn)
    drawn = pointwise.select(valid, drawn, filled(drawn, nan))
    return identity.detach(drawn), identity.detach(logs)


def _least(x: Any) -> float:
    return float(finfo(x.type.dtype).min)


def dirichlet_numbers(a: Any, key: Any) -> Any:
    """Numbers of the gamma distribution over their sum along the last axis."""
    return _shares(a, *_with_logs(a, key))


def beta_numbers(a: Any, b: Any, first: Any, second: Any) -> Any:
    """Numbers of the gamma distribution with parameters a, over the sums of these and of those with parameters b."""
    axis = len(a.type.shape)
    pairs = zip((a, *_with_logs(a, first)), (b, *_with_logs(b, second)), strict=True)
    both = [view.concatenate([view.reshape(x, (*x.type.shape, 1)) for x in pair], axis) for pair in pairs]
    return view.reshape(view.slice_axis(_shares(*both), axis, 0, 1), a.type.shape)


def _shares(a: Any, drawn: Any, logs: Any) -> Any:
    """Numbers of the gamma distribution over their sum along the last axis.

    Where all are too small for the dtype, the shares come from the logarithms, and have no gradient.
    """
    shape = a.type.shape
    axis = len(shape) - 1

    def wide(x: Any) -> Any:
        """A number for each vector, beside its elements."""
        return view.broadcast(x, shape, tuple(range(axis)))

    smallest = float(finfo(a.type.dtype).smallest_normal)
    sums = reduce.sum_(drawn, (axis,))
    lost = wide(pointwise.lt(sums, filled(sums, smallest)))
    parts = pointwise.exp(pointwise.sub(logs, wide(reduce.max_(logs, (axis,)))))
    of_logs = pointwise.div(parts, wide(reduce.sum_(parts, (axis,))))
    held = special.implicit_gamma(a, pointwise.select(lost, filled(drawn, 1.0), drawn))
    return pointwise.select(lost, of_logs, pointwise.div(held, wide(reduce.sum_(held, (axis,)))))


def _from_one_on(a: Any, key: Any) -> Any:
    """Numbers for parameters from 1 on."""
    return accepted(_proposed, pointwise.fill(False, a.type.shape, bool_), (a,), key)


def _proposed(key: Any, a: Any) -> tuple[Any, Any]:
    """The cube of a normally distributed number, times a − ⅓."""
    shape, dtype = a.type.shape, a.type.dtype
    for_normal, for_chance = keys_of(key, 2)
    one = filled(a, 1.0)
    d = pointwise.sub(a, filled(a, 1 / 3))
    x = normals_of(shape, dtype, for_normal)
    root = pointwise.add(one, pointwise.div(x, pointwise.sqrt(pointwise.mul(d, filled(d, 9.0)))))
    positive = pointwise.gt(root, filled(root, 0.0))
    root = pointwise.select(positive, root, one)
    cube = pointwise.mul(root, pointwise.mul(root, root))
    bound = pointwise.add(
        pointwise.mul(pointwise.mul(x, x), filled(x, 0.5)),
        pointwise.mul(d, pointwise.add(pointwise.sub(one, cube), pointwise.log(cube))),
    )
    chance = pointwise.log(inside(shape, dtype, for_chance))
    return pointwise.mul(d, cube), pointwise.and_(positive, pointwise.lt(chance, bound))
