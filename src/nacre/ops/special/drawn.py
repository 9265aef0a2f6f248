# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Random numbers with the derivatives by the parameters of their distribution.

`drawn` returns the numbers.  Its derivative by a parameter moves a number along its quantile: −(∂F/∂p) / (∂F/∂x) for
the distribution function F (Figurnov, Mohamed, Mnih 2018).  Counts jump, so they have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as fold
from math import pi
from typing import Any, Final

from nacre.base.dtypes import FLOATING, float64
from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.ir.primitive import Element, Jvp, Primitive
from nacre.kernel.ast import Expr
from nacre.ops.elementwise import lined_up
from nacre.ops.pointwise import (
    abs_,
    add,
    cast,
    div,
    exp,
    fma,
    full_like,
    gt,
    iota,
    le,
    maximum,
    minimum,
    mul,
    neg,
    reciprocal,
    scale,
    select,
    sign,
    sin,
    sinh,
    sqrt,
    sub,
)
from nacre.ops.reduce import sum_
from nacre.ops.rules import require_kind, require_same
from nacre.ops.special import i0e, i1e
from nacre.ops.view import broadcast
from nacre.trace.bind import bind
from nacre.trace.value import Value

Rule = Callable[..., Value]  # (numbers, parameters) → the derivative of the numbers by a parameter
STEPS: Final = 32  # on each side of the middle; the error is below 1e-7
STEP: Final = 0.1
LARGE: Final = 1e3  # from here on, the asymptotic series is more accurate


def drawn(law: str, x: Value, *parameters: Value) -> Any:
    """Numbers x of a distribution of `LAWS` with these parameters, all of one type."""
    return bind(drawn_p, x, *parameters, law=law)


def _type(x: TensorType, *parameters: TensorType, law: str) -> TensorType:
    found = require_same("drawn", (x, *parameters))
    require_kind("drawn", found, FLOATING)
    return found


def _first(index: Any, operands: Any, types: Any, result: TensorType, law: str) -> Expr:
    return operands[0](index)


def _tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value | None], law: str) -> Value:
    terms = [] if ts[0] is None else [ts[0]]
    for rule, t in zip(LAWS[law], ts[1:], strict=True):
        if t is not None:
            terms.append(mul(t, rule(y, *xs[1:])))  # y has derivatives of its own, for the second ones
    return fold(add, terms)


def _refuse(law: str, *numbers: Value) -> Value:
    raise GradientError(
        f"random.{law}: the derivative of counts by a parameter does not exist, because counts jump; got a parameter "
        "with a gradient; detach it, or weight the loss with the logarithm of the probability"
    )


# ---- the von Mises distribution


def _shortfall(kappa: Value) -> Value:
    """1 − I₁(κ) / I₀(κ), the mean of 1 − cos x."""
    large = gt(kappa, full_like(kappa, LARGE))
    inverse = reciprocal(select(large, kappa, full_like(kappa, LARGE)))
    series = full_like(kappa, 25 / 128)
    for c in (1 / 8, 1 / 8, 1 / 2):
        series = fma(series, inverse, full_like(kappa, c))
    near = select(large, full_like(kappa, LARGE), kappa)
    level = i0e(near)
    return select(large, mul(series, inverse), div(sub(level, i1e(near)), level))


def _interval(kappa: Value, far: Value, short: Value) -> tuple[Value, Value]:
    """Where the derivative of F is integrated: [0, x] near the mode, else from x to where the density is small."""
    half = sin(scale(far, 0.5))
    inner = le(scale(mul(half, half), 2.0), short)
    safe = maximum(kappa, full_like(kappa, 1e-300))
    by_slope = fma(full_like(far, 63.0), reciprocal(mul(safe, maximum(sin(far), full_like(far, 1e-8)))), far)
    by_width = sqrt(fma(far, far, div(full_like(far, 377.0), safe)))
    end = minimum(minimum(by_slope, by_width), full_like(far, pi))
    end = select(gt(far, full_like(far, 1.5)), full_like(far, pi), end)
    return select(inner, full_like(far, 0.0), far), select(inner, far, end)


def _by_concentration(x: Value, kappa: Value) -> Value:
    """The derivative of numbers by κ, in float64: −∫ |cos t − A| exp(κ (cos t − cos x)) dt, by the tanh-sinh rule."""
    wide, k = cast(x, float64), cast(kappa, float64)
    far, short = abs_(wide), _shortfall(k)
    low, high = _interval(k, far, short)
    shape = (*x.type.shape, 2 * STEPS + 1)
    axes = tuple(range(len(x.type.shape)))
    far_, short_, low_, width_, k_ = (broadcast(v, shape, axes) for v in (far, short, low, sub(high, low), k))
    place = scale(sub(iota(shape, len(axes), float64), full_like(far_, STEPS)), STEP)
    arc = scale(sinh(place), pi)
    share = reciprocal(add(exp(neg(arc)), full_like(arc, 1.0)))
    slope = scale(sqrt(fma(arc, arc, full_like(arc, pi * pi))), STEP)  # π cosh of the place
    weight = mul(slope, mul(share, reciprocal(add(exp(arc), full_like(arc, 1.0)))))
    t = fma(width_, share, low_)
    half = sin(scale(t, 0.5))
    distance = abs_(fma(scale(half, -2.0), half, short_))
    fall = mul(sin(scale(add(far_, t), 0.5)), sin(scale(sub(far_, t), 0.5)))
    density = exp(scale(mul(k_, fall), 2.0))
    area = mul(sum_(mul(mul(distance, density), weight), (len(axes),)), sub(high, low))
    return cast(neg(mul(sign(wide), area)), x.type.dtype)


LAWS: Final[dict[str, tuple[Rule, ...]]] = {
    "von_mises": (_by_concentration,),
    "poisson": (partial(_refuse, "poisson"),),
    "binomial": (partial(_refuse, "binomial"),),
    "multinomial": (partial(_refuse, "multinomial"),),
    "geometric": (partial(_refuse, "geometric"),),
}
drawn_p = Primitive("drawn", _type, Element(_first), Jvp(_tangent), lined_up(lambda: drawn_p))
