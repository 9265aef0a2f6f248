"""Numbers of the gamma distribution by rejection (Marsaglia and Tsang, ACM TOMS 26 (2000)), with implicit gradients."""

from __future__ import annotations

from math import nan
from typing import Any

from nacre.api.draws.rejection import accepted
from nacre.api.draws.standard import inside, keys_of, normals_of
from nacre.api.operands import filled
from nacre.api.primitives import identity, pointwise, reduce, special, view
from nacre.base.dtypes import bool_


def gamma_numbers(a: Any, key: Any) -> Any:
    """A number for each parameter; NaN for parameters that are not positive and finite."""
    fixed = identity.detach(a)
    one = filled(fixed, 1.0)
    valid = pointwise.and_(pointwise.gt(fixed, filled(fixed, 0.0)), pointwise.isfinite(fixed))
    safe = pointwise.select(valid, fixed, one)
    few = pointwise.lt(safe, one)
    first, second = keys_of(key, 2)
    drawn = _from_one_on(pointwise.select(few, pointwise.add(safe, one), safe), first)
    # for a < 1, a number for a + 1 times u^(1/a)
    power = pointwise.exp(pointwise.div(pointwise.log(inside(a.type.shape, a.type.dtype, second)), safe))
    drawn = pointwise.select(few, pointwise.mul(drawn, power), drawn)
    drawn = pointwise.select(valid, drawn, filled(drawn, nan))
    return special.implicit_gamma(a, identity.detach(drawn))


def dirichlet_numbers(a: Any, key: Any) -> Any:
    """Numbers of the gamma distribution over their sum along the last axis."""
    drawn = gamma_numbers(a, key)
    axis = len(a.type.shape) - 1
    total = reduce.sum_(drawn, (axis,))
    return pointwise.div(drawn, view.broadcast(total, drawn.type.shape, tuple(range(axis))))


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
