# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Special functions of each element: of the gamma, beta, error and Bessel functions and of the normal distribution.

A definition is one line: the kernel IR's operation and the partial derivatives, functions of the result and the
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold
from math import pi as _pi
from math import sqrt as _sqrt

from nacre.base.dtypes import FLOATING
from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.ir.primitive import SINGLE, Derivative, Element, Jvp, Pointwise, Primitive
from nacre.ops.elementwise import ELEMENTARY_COST, element_of, lined_up, of_one, of_three, of_two, type_rule_of
from nacre.ops.pointwise import (
    abs_,
    add,
    and_,
    cos,
    div,
    eq,
    exp,
    fill,
    fma,
    full_like,
    isfinite,
    log,
    log1p,
    lt,
    mul,
    neg,
    reciprocal,
    scale,
    select,
    sign,
    sub,
    zeros_like,
)
from nacre.trace.value import Value


def _special(name: str, derivative: Derivative, times: int = 4) -> Primitive:
    """A primitive that costs several elementary functions."""
    rule = type_rule_of(name, name, FLOATING)

    def type_rule(*types: TensorType) -> TensorType:
        """The operands' common type."""
        return rule(*types)

    element = Element(element_of(name), cost=times * ELEMENTARY_COST, op=name)
    primitive = Primitive(name, type_rule, element, derivative, lined_up(lambda: primitive), precision=SINGLE)
    return primitive


# ---- the gamma function

lgamma_p = _special("lgamma", Pointwise((lambda y, x: digamma(x),)))
lgamma = of_one(lgamma_p)
gamma_p = _special("gamma", Pointwise((lambda y, x: mul(y, digamma(x)),)))
gamma = of_one(gamma_p)
digamma_p = _special("digamma", Pointwise((lambda y, x: zeta(full_like(x, 2), x),)))
digamma = of_one(digamma_p)


def _partly(name: str, partials: Sequence[Callable[..., Value] | None], unknown: str) -> Jvp:
    """A derivative by some operands only; one by others is refused."""

    def rule(y: Value, xs: Sequence[Value], ts: Sequence[Value | None]) -> Value:
        """The sum of the partial derivatives times the tangents."""
        terms: list[Value] = []
        for partial, t in zip(partials, ts, strict=True):
            if t is None:
                continue
            if partial is None:
                raise GradientError(
                    f"special.{name}: no derivative by {unknown} is known; got one that is wanted; detach it, as in "
                    f"{unknown.split(' ')[0]}.detach()"
                )
            terms.append(mul(t, partial(y, *xs)))
        return fold(add, terms)

    return Jvp(rule)


zeta_p = _special(
    "zeta",
    _partly("zeta", (None, lambda y, s, q: neg(mul(s, zeta(add(s, full_like(s, 1)), q)))), "s"),
    20,
)
zeta = of_two(zeta_p)
betaln_p = _special(
    "betaln",
    Pointwise(
        (
            lambda y, a, b: sub(digamma(a), digamma(add(a, b))),
            lambda y, a, b: sub(digamma(b), digamma(add(a, b))),
        )
    ),
    20,
)
betaln = of_two(betaln_p)

# ---- the incomplete gamma and beta functions

gammainc_p = _special(
    "gammainc", Pointwise((lambda y, a, x: gammainc_slope(a, x), lambda y, a, x: gamma_density(a, x))), 30
)
gammainc = of_two(gammainc_p)
gammaincc_p = _special(
    "gammaincc", Pointwise((lambda y, a, x: neg(gammainc_slope(a, x)), lambda y, a, x: neg(gamma_density(a, x)))), 30
)
gammaincc = of_two(gammaincc_p)


def _density_by_parameter(y: Value, a: Value, x: Value) -> Value:
    """The density y times (log x − ψ(a))."""
    return mul(y, sub(log(x), digamma(a)))


def _less_one(x: Value) -> Value:
    return sub(x, full_like(x, 1))


gammainc_slope_p = _special(  # of the lower function by a
    "gammainc_slope",
    _partly("gammainc", (None, lambda y, a, x: _density_by_parameter(gamma_density(a, x), a, x)), "a twice"),
    30,
)
gammainc_slope = of_two(gammainc_slope_p)
gamma_density_p = _special(
    "gamma_density", Pointwise((_density_by_parameter, lambda y, a, x: mul(y, _less_one(div(_less_one(a), x))))), 10
)
gamma_density = of_two(gamma_density_p)


def _implicit(y: Value, a: Value, x: Value) -> Value:
    """−(∂P/∂a) / (∂P/∂x) for the distribution function P; 0 where its density is 0 or infinite."""
    density, zero = gamma_density(a, x), zeros_like(x)
    usable = and_(lt(zero, density), isfinite(density))
    quotient = div(gammainc_slope(a, x), select(usable, density, full_like(x, 1)))
    return select(usable, neg(quotient), zero)


implicit_gamma_p = _special(  # of numbers x whose distribution depends on a (Figurnov, Mohamed, Mnih 2018)
    "implicit_gamma", Pointwise((_implicit, lambda y, a, x: full_like(x, 1))), 1
)
implicit_gamma = of_two(implicit_gamma_p)
betainc_p = _special(
    "betainc", _partly("betainc", (None, None, lambda y, a, b, x: beta_density(a, b, x)), "a and b"), 100
)
betainc = of_three(betainc_p)


def _beta_by_parameter(y: Value, a: Value, b: Value, logarithm: Value) -> Value:
    """The density y times the logarithm − ψ(a) + ψ(a + b)."""
    return mul(y, add(sub(logarithm, digamma(a)), digamma(add(a, b))))


def _beta_by_argument(y: Value, a: Value, b: Value, x: Value) -> Value:
    return mul(y, sub(div(_less_one(a), x), div(_less_one(b), neg(_less_one(x)))))


beta_density_p = _special(
    "beta_density",
    Pointwise(
        (
            lambda y, a, b, x: _beta_by_parameter(y, a, b, log(x)),
            lambda y, a, b, x: _beta_by_parameter(y, b, a, log1p(neg(x))),
            _beta_by_argument,
        )
    ),
    20,
)
beta_density = of_three(beta_density_p)

# ---- the error function and the normal distribution


def _inverse_slope(y: Value) -> Value:
    """√π/2 · exp(y²)."""
    return scale(exp(mul(y, y)), _sqrt(_pi) / 2)


def _density(x: Value) -> Value:
    """exp(−x²/2) / √2π."""
    return scale(exp(scale(mul(x, x), -0.5)), 1 / _sqrt(2 * _pi))


erfinv_p = _special("erfinv", Pointwise((lambda y, x: _inverse_slope(y),)))
erfinv = of_one(erfinv_p)
erfcinv_p = _special("erfcinv", Pointwise((lambda y, x: neg(_inverse_slope(y)),)))
erfcinv = of_one(erfcinv_p)
erfcx_p = _special("erfcx", Pointwise((lambda y, x: fma(scale(x, 2), y, full_like(x, -2 / _sqrt(_pi))),)))
erfcx = of_one(erfcx_p)
ndtr_p = _special("ndtr", Pointwise((lambda y, x: _density(x),)))
ndtr = of_one(ndtr_p)
log_ndtr_p = _special(
    "log_ndtr", Pointwise((lambda y, x: div(full_like(x, _sqrt(2 / _pi)), erfcx(scale(x, -_sqrt(0.5)))),))
)
log_ndtr = of_one(log_ndtr_p)

# ---- Bessel functions


def _over(y: Value, x: Value) -> Value:
    """y / x, and ½ for x = 0, the limit for functions that begin with x/2."""
    origin = eq(x, zeros_like(x))
    return select(origin, full_like(x, 0.5), div(y, select(origin, full_like(x, 1), x)))


i0_p = _special("i0", Pointwise((lambda y, x: i1(x),)))
i0 = of_one(i0_p)
i1_p = _special("i1", Pointwise((lambda y, x: sub(i0(x), _over(y, x)),)))
i1 = of_one(i1_p)
i0e_p = _special("i0e", Pointwise((lambda y, x: sub(i1e(x), mul(sign(x), y)),)))
i0e = of_one(i0e_p)
i1e_p = _special("i1e", Pointwise((lambda y, x: sub(sub(i0e(x), mul(sign(x), y)), _over(y, x)),)))
i1e = of_one(i1e_p)

# ---- logarithms and sines


def _by_factor(x: Value, y: Value, logarithm: Value, pole: float) -> Value:
    """log y or log(1 + y), and 0 where x = 0 meets its pole."""
    at_pole = and_(eq(x, zeros_like(x)), eq(y, full_like(y, pole)))
    return select(at_pole, zeros_like(x), logarithm)


def _by_argument(x: Value, y: Value) -> Value:
    """x / y, and 0 for 0 / 0."""
    zero = zeros_like(x)
    both = and_(eq(x, zero), eq(y, zero))
    return div(x, select(both, full_like(y, 1), y))


xlogy_p = _special(
    "xlogy",
    Pointwise((lambda z, x, y: _by_factor(x, y, log(y), 0.0), lambda z, x, y: _by_argument(x, y))),
    1,
)
xlogy = of_two(xlogy_p)
xlog1py_p = _special(
    "xlog1py",
    Pointwise(
        (
            lambda z, x, y: _by_factor(x, y, log1p(y), -1.0),
            lambda z, x, y: _by_argument(x, add(y, full_like(y, 1))),
        )
    ),
    1,
)
xlog1py = of_two(xlog1py_p)
entr_p = _special("entr", Pointwise((lambda y, x: neg(add(log(x), full_like(x, 1))),)), 1)
entr = of_one(entr_p)
logit_p = _special("logit", Pointwise((lambda y, x: reciprocal(mul(x, sub(full_like(x, 1), x))),)), 2)
logit = of_one(logit_p)

_SINC = tuple((-1) ** k * 2 * k * _pi ** (2 * k) for k in range(1, 6))
_SINC_SERIES = tuple(c / f for c, f in zip(_SINC, (6, 120, 5040, 362880, 39916800), strict=True))


def _sinc_slope(y: Value, x: Value) -> Value:
    """(cos πx − sinc x) / x, and its series up to 0.1."""
    near = lt(abs_(x), full_like(x, 0.1))
    square, series = mul(x, x), fill(_SINC_SERIES[-1], x.type.shape, x.type.dtype)
    for c in reversed(_SINC_SERIES[:-1]):
        series = fma(series, square, full_like(x, c))
    far = div(sub(cos(scale(x, _pi)), y), select(near, full_like(x, 1), x))
    return select(near, mul(x, series), far)


sinc_p = _special("sinc", Pointwise((_sinc_slope,)), 1)
sinc = of_one(sinc_p)
