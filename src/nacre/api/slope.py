"""Derivatives at points where a formula has none:  0 · ∞ for the square root at 0, ∞ for the logarithm at 0.

The bits of the value do not change.  The condition selects before and after the function, so that neither a tangent
nor a cotangent is multiplied by the infinite slope, in any order of derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.operands import filled
from nacre.api.primitives import pointwise
from nacre.ops.identity import detach


def with_slope(f: Callable[[Any], Any], x: Any, fixed: Any, slope: float = 0.0) -> Any:
    """f(x), elementwise.  Where `fixed` holds, the derivative is `slope`."""
    constant = detach(x)
    y = f(pointwise.select(fixed, constant, x))
    flat = detach(y)
    if slope:
        flat = pointwise.fma(pointwise.sub(x, constant), filled(x, slope), flat)
    return pointwise.select(fixed, flat, y)


def root(x: Any) -> Any:
    """The square root with derivative 0 at 0, as for the norm of zeros and the deviation of constants."""
    return with_slope(pointwise.sqrt, x, pointwise.eq(x, filled(x, 0.0)))


def power_root(x: Any, p: float) -> Any:
    """x to the power 1/p with derivative 0 at 0."""
    return with_slope(lambda v: pointwise.pow_(v, filled(v, 1.0 / p)), x, pointwise.eq(x, filled(x, 0.0)))
