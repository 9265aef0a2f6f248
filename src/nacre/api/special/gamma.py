"""The gamma and beta functions, their logarithms and derivatives, and the zeta function."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from nacre.api.elementwise.apply import binary, of_float, of_tensors, require
from nacre.api.operands import TensorLike, as_tensor, default_float, filled, in_double, operands
from nacre.api.primitives import pointwise, reduce, special, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import FLOATING, float64
from nacre.base.errors import ArgumentError

MOST_DERIVATIVES = 170  # whose factorial is below the largest float64
MOST_DIMENSIONS = 1 << 20


def gammaln(x: TensorLike, /) -> Tensor:
    """log |Γ(x)|: +∞ at 0 and the negative whole numbers.

    `lgamma` is the same function.

    >>> nc.special.gammaln(10.0)
    Tensor(12.801827, f32[])
    """
    return of_float(special.lgamma, "special.gammaln", x, FLOATING)


def gamma(x: TensorLike, /) -> Tensor:
    """Γ(x): ±∞ at ±0, NaN at the negative whole numbers.

    >>> nc.special.gamma(5.0)
    Tensor(24., f32[])
    """
    return of_float(special.gamma, "special.gamma", x, FLOATING)


def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of log Γ(x): ∓∞ at ±0, NaN at the negative whole numbers.

    `psi` is the same function.

    >>> nc.special.digamma(1.0)
    Tensor(-0.5772157, f32[])
    """
    return of_float(special.digamma, "special.digamma", x, FLOATING)


def polygamma(n: int, x: TensorLike, /) -> Tensor:
    """The n-th derivative of digamma, (−1)ⁿ⁺¹ n! ζ(n + 1, x), for n up to 170.

    Raises ArgumentError for other n.

    >>> nc.special.polygamma(1, 1.0)
    Tensor(1.644934, f32[])
    """
    order = whole_number(n, "special.polygamma", "n")
    if not 0 <= order <= MOST_DERIVATIVES:
        raise ArgumentError(f"special.polygamma: n must be from 0 to {MOST_DERIVATIVES}; got {order}")
    if order == 0:
        return digamma(x)
    return of_tensors("special.polygamma", partial(_polygamma, order), (default_float(x),), n=order)


def zeta(s: TensorLike, q: TensorLike, /) -> Tensor:
    """Hurwitz's zeta function Σ (q + k)⁻ˢ over k ≥ 0; with q = 1, Riemann's.

    It is +∞ for s = 1 and for whole q ≤ 0; it is NaN for s < 1, and for q < 0 unless s is whole.  The derivative is by
    q only; one by s raises GradientError.

    >>> nc.special.zeta(2.0, 1.0)
    Tensor(1.644934, f32[])
    """
    return binary(special.zeta, "special.zeta", s, q, FLOATING)


def betaln(a: TensorLike, b: TensorLike, /) -> Tensor:
    """log |B(a, b)|, accurate for large numbers.

    >>> nc.special.betaln(1e6, 2e6)
    Tensor(-1.9095482e+06, f32[])
    """
    return binary(special.betaln, "special.betaln", a, b, FLOATING)


def beta(a: TensorLike, b: TensorLike, /) -> Tensor:
    """B(a, b) = Γ(a) Γ(b) / Γ(a + b) for a, b ≥ 0; NaN for negative numbers.

    >>> nc.special.beta(2.0, 3.0)
    Tensor(0.08333334, f32[])
    """
    return of_tensors("special.beta", _beta, (a, b))


def multigammaln(a: TensorLike, d: int, /) -> Tensor:
    """The logarithm of the gamma function of dimension d, for a > (d − 1) / 2.

    Raises ArgumentError for d < 1 or d > 2^20.

    >>> nc.special.multigammaln(3.0, 2)
    Tensor(1.550195, f32[])
    """
    count = whole_number(d, "special.multigammaln", "d")
    if not 1 <= count <= MOST_DIMENSIONS:
        raise ArgumentError(f"special.multigammaln: d must be from 1 to {MOST_DIMENSIONS}; got {count}")
    return of_tensors("special.multigammaln", partial(_multigammaln, count), (default_float(a),), d=count)


def _polygamma(order: int, x: TensorLike) -> Any:
    held = as_tensor(x)
    require("special.polygamma", held.type.dtype, FLOATING)
    factor = math.factorial(order) * (1.0 if order % 2 else -1.0)

    def of_wide(wide: Any) -> Any:
        return pointwise.mul(filled(wide, factor), special.zeta(filled(wide, order + 1.0), wide))

    return in_double(of_wide, held)


def _beta(a: TensorLike, b: TensorLike) -> Any:
    x, y = operands("special.beta", a, b)
    require("special.beta", x.type.dtype, FLOATING)
    return in_double(_wide_beta, x, y)


def _wide_beta(p: Any, q: Any) -> Any:
    zero = filled(p, 0.0)
    negative = pointwise.or_(pointwise.lt(p, zero), pointwise.lt(q, zero))
    return pointwise.select(negative, filled(p, math.nan), pointwise.exp(special.betaln(p, q)))


def _multigammaln(count: int, a: TensorLike) -> Any:
    held = as_tensor(a)
    require("special.multigammaln", held.type.dtype, FLOATING)
    return in_double(partial(_wide_multigammaln, count), held)


def _wide_multigammaln(count: int, a: Any) -> Any:
    """d(d − 1)/4 log π + Σ log Γ(a − k/2) over k < d."""
    shape = a.type.shape
    terms = view.broadcast(a, (*shape, count), tuple(range(len(shape))))
    steps = pointwise.iota(terms.type.shape, len(shape), float64)
    shifted = pointwise.sub(terms, pointwise.mul(steps, filled(steps, 0.5)))
    total = reduce.sum_(special.lgamma(shifted), (len(shape),))
    return pointwise.add(total, filled(total, count * (count - 1) / 4 * math.log(math.pi)))
