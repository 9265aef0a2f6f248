"""Numbers of the von Mises distribution by rejection (Best and Fisher, Appl. Stat. 28 (1979)).

The envelope's parameter is written so that no concentration cancels: small ones give uniform angles, large ones normal
deviations.
"""

from __future__ import annotations

from math import nan, pi
from typing import Any

from nacre.api.draws.rejection import accepted
from nacre.api.draws.standard import inside, keys_of, unit
from nacre.api.operands import filled
from nacre.api.primitives import drawing, identity, pointwise


def angles(kappa: Any, key: Any) -> Any:
    """An angle about 0 in [−π, π] for each concentration; NaN where it is negative or not finite."""
    fixed = identity.detach(kappa)
    zero, one = filled(fixed, 0.0), filled(fixed, 1.0)
    twice = pointwise.mul(fixed, filled(fixed, 2.0))
    valid = pointwise.and_(pointwise.ge(twice, zero), pointwise.isfinite(twice))
    twice = pointwise.select(valid, twice, zero)
    large = pointwise.gt(twice, one)
    inverse = pointwise.div(one, pointwise.select(large, twice, one))  # √(1 + x²) without overflow
    near = pointwise.select(large, one, twice)
    above = pointwise.mul(twice, pointwise.sqrt(pointwise.fma(inverse, inverse, one)))
    root = pointwise.select(large, above, pointwise.sqrt(pointwise.fma(near, near, one)))
    gap = pointwise.add(one, pointwise.div(one, pointwise.add(root, twice)))
    drawn = accepted(_proposed, pointwise.not_(valid), (twice, root, gap), key)
    drawn = pointwise.select(valid, drawn, filled(drawn, nan))
    return drawing.drawn("von_mises", identity.detach(drawn), kappa)


def _proposed(key: Any, twice: Any, root: Any, gap: Any) -> tuple[Any, Any]:
    """An angle of the wrapped Cauchy distribution."""
    shape, dtype = twice.type.shape, twice.type.dtype
    for_angle, for_chance = keys_of(key, 2)
    one = filled(twice, 1.0)
    u = pointwise.fma(unit(shape, dtype, for_angle), filled(twice, 2.0), filled(twice, -1.0))
    half = pointwise.sin(pointwise.mul(u, filled(u, pi / 2)))
    square = pointwise.mul(half, half)  # (1 − z) / 2 for the cosine z of a uniform angle
    z = pointwise.fma(square, filled(u, -2.0), one)
    share = pointwise.div(pointwise.mul(gap, square), pointwise.add(pointwise.add(one, root), pointwise.mul(twice, z)))
    excess = pointwise.mul(share, filled(u, 2.0))  # (1 − cos x) / 2 is the share
    c = pointwise.fma(pointwise.mul(twice, excess), filled(u, 0.5), pointwise.mul(gap, filled(u, 0.5)))
    chance = pointwise.log(pointwise.div(c, inside(shape, dtype, for_chance)))
    angle = pointwise.asin(pointwise.sqrt(pointwise.minimum(share, one)))
    angle = pointwise.mul(angle, filled(u, 2.0))
    return pointwise.copysign(angle, u), pointwise.ge(pointwise.add(chance, one), c)


def wrapped(angle: Any) -> Any:
    """An angle in [−π, π], from which it differs by whole turns."""
    turns = pointwise.floor(pointwise.fma(angle, filled(angle, 1 / (2 * pi)), filled(angle, 0.5)))
    return pointwise.fma(turns, filled(angle, -2 * pi), angle)
