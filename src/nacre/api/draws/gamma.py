"""Numbers of the gamma distribution by rejection (Marsaglia and Tsang, ACM TOMS 26 (2000)), with implicit gradients.

A round proposes a number for each element that has none.  Its bits depend on the key, the round and the place alone.
"""

from __future__ import annotations

from math import nan
from typing import Any

from nacre.api.draws.standard import inside, keys_of, normals_of
from nacre.api.operands import (
    DEFAULT_FLOAT,
    TensorLike,
    as_tensor,
    filled,
    is_scalar,
    numbers,
    operands,
    shape_of,
    spread,
)
from nacre.api.primitives import control, identity, pointwise, reduce, special, view
from nacre.base.dtypes import DType, bool_
from nacre.base.errors import ArgumentError, DTypeError
from nacre.interpret.stage import derived
from nacre.trace.value import is_concrete


def parameters(operation: str, shape: Any, *xs: TensorLike) -> tuple[list[Any], DType]:
    """Positive parameters in the dtype of computation and in the shape of the result, and the dtype of the result."""
    held = operands(operation, *(as_tensor(x, DEFAULT_FLOAT) if is_scalar(x) else x for x in xs))
    dtype: DType = held[0].type.dtype
    if not dtype.is_float:
        raise DTypeError(f"{operation}: parameters must be floats; got {dtype.name}")
    for x in held:
        if is_concrete(x) and not (numbers(x, operation) > 0).all():
            raise ArgumentError(f"{operation}: parameters must be positive; got {numbers(x, operation).min()}")
    sizes = held[0].type.shape if shape is None else shape_of(shape, operation)
    return [spread(as_tensor(x, dtype.arithmetic), sizes) for x in held], dtype


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
    shape, dtype = a.type.shape, a.type.dtype

    def missing(key: Any, done: Any, found: Any, a: Any) -> list[Any]:
        """Whether an element has no number yet."""
        return [pointwise.not_(reduce.all_(done, tuple(range(len(shape)))) if shape else done)]

    def propose(key: Any, done: Any, found: Any, a: Any) -> list[Any]:
        """A round."""
        following, own = keys_of(key, 2)
        for_normal, for_chance = keys_of(own, 2)
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
        accepted = pointwise.and_(positive, pointwise.lt(chance, bound))
        found = pointwise.select(done, found, pointwise.mul(d, cube))
        return [following, pointwise.or_(done, accepted), found, a]

    start = (key, pointwise.fill(False, shape, bool_), filled(a, 1.0), a)
    types = [x.type for x in start]
    loop = derived(missing, types, "missing"), derived(propose, types, "propose")
    return control.while_loop(*loop, *start)[2]
