"""Activations as functions.

Each one is an explicit graph of primitives, so its bits do not depend on fusion.  Half types are cast up, computed in
float32, and cast down.
"""

from __future__ import annotations

import math
from typing import Any, Final

from nacre.api import random
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.manipulation import split
from nacre.api.operands import TensorLike, as_tensor, filled, is_scalar
from nacre.api.primitives import pointwise, view
from nacre.api.searching import where
from nacre.api.tensor import Tensor
from nacre.base.dtypes import NUMERIC
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axis
from nacre.nn.functional.composite import composite, of_numbers

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


_ROOT_HALF: Final = math.sqrt(0.5)
_GELU_SCALE: Final = 2 * math.sqrt(2 / math.pi)
SELU_ALPHA: Final = 1.6732632423543772848170429916717
SELU_SCALE: Final = 1.0507009873554804934193349852946


def relu(x: TensorLike) -> Tensor:
    """max(x, 0); NaN stays NaN, and the derivative at 0 is 0.

    `x` has any shape and holds integers or floating-point numbers; the result has its shape and dtype.  Raises
    DTypeError for bools.

    >>> F.relu([-1.0, 2.0])
    Tensor([0., 2.], f32[2])
    """
    return of_tensors("relu", _relu, (x,))


def _relu(x: TensorLike) -> Any:
    held = as_tensor(x)
    require("relu", held.type.dtype, NUMERIC)
    zero = filled(held, 0)
    return pointwise.select(pointwise.le(held, zero), zero, held)


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope · x elsewhere.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.leaky_relu([-1.0, 2.0], 0.5)
    Tensor([-0.5,  2. ], f32[2])
    """

    def compute(v: Any) -> Any:
        """The value above zero, and its part below."""
        return pointwise.select(pointwise.le(v, filled(v, 0.0)), pointwise.mul(v, filled(v, negative_slope)), v)

    return composite("leaky_relu", x, compute, {"negative_slope": negative_slope})


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha · (eˣ − 1) elsewhere.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.elu([0.0, 2.0])
    Tensor([0., 2.], f32[2])
    """

    def compute(v: Any) -> Any:
        """The value on raw values: v above zero, alpha * expm1(v) below."""
        low, zero = pointwise.le(v, filled(v, 0.0)), filled(v, 0.0)
        curved = pointwise.expm1(pointwise.select(low, v, zero))
        return pointwise.select(low, pointwise.mul(curved, filled(v, alpha)), v)

    return composite("elu", x, compute, {"alpha": alpha})


def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """x · Φ(x), as ½x · erfc(−x/√2); `approximate="tanh"` uses the formula of Hendrycks and Gimpel (2016).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes, ArgumentError for another approximation.

    >>> F.gelu([0.0, 100.0])
    Tensor([  0., 100.], f32[2])
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f'gelu: approximate must be "none" or "tanh"; got {approximate!r}')
    return composite("gelu", x, _gelu if approximate == "none" else _gelu_tanh, {"approximate": approximate})


def _gelu(v: Any) -> Any:
    tail = pointwise.erfc(pointwise.mul(v, filled(v, -_ROOT_HALF)))
    return pointwise.mul(pointwise.mul(v, filled(v, 0.5)), tail)


def _gelu_tanh(v: Any) -> Any:
    """½(1 + tanh u) is sigmoid(2u), which does not cancel."""
    cubic = pointwise.fma(pointwise.mul(v, v), filled(v, 0.044715 * _GELU_SCALE), filled(v, _GELU_SCALE))
    return pointwise.mul(v, pointwise.sigmoid(pointwise.mul(v, cubic)))


def silu(x: TensorLike) -> Tensor:
    """x · sigmoid(x).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.silu([0.0])
    Tensor([0.], f32[1])
    """
    return composite("silu", x, lambda v: pointwise.mul(v, pointwise.sigmoid(v)), {})


def softplus(x: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta · x)) / beta, without overflow; x itself where beta · x is above the threshold.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.softplus([100.0])
    Tensor([100.], f32[1])
    """

    def compute(v: Any) -> Any:
        """(max(z, 0) + log1p(exp(-|z|))) / beta for z = beta v, which does not overflow."""
        plain = is_scalar(beta) and beta == 1.0  # a tensor of 1 may have a derivative
        z = v if plain else v * beta
        soft = _soft(z)
        return where(z > threshold, v, soft if plain else soft / beta)

    return composite("softplus", x, compute, {"beta": beta, "threshold": threshold})


def _soft(v: Any) -> Any:
    """log(1 + exp(v)) as max(v, 0) + log1p(exp(-|v|))."""
    return pointwise.add(positive(v), soft_tail(v))


def positive(v: Any) -> Any:
    """max(v, 0), with derivative 0 at 0."""
    zero = filled(v, 0.0)
    return pointwise.select(pointwise.le(v, zero), zero, v)


def soft_tail(v: Any) -> Any:
    """log(1 + exp(-|v|)): log(1 + exp(v)) for v ≤ 0, with its derivatives at 0, because `positive` has none there."""
    size = pointwise.select(pointwise.le(v, filled(v, 0.0)), v, pointwise.neg(v))
    return pointwise.log1p(pointwise.exp(size))


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.tanh([0.0])
    Tensor([0.], f32[1])
    """
    return composite("tanh", x, pointwise.tanh)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + e⁻ˣ).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.sigmoid([0.0])
    Tensor([0.5], f32[1])
    """
    return composite("sigmoid", x, pointwise.sigmoid)


def logsigmoid(x: TensorLike) -> Tensor:
    """log(sigmoid(x)), without overflow.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.logsigmoid([-100.0])
    Tensor([-100.], f32[1])
    """
    return composite("logsigmoid", x, lambda v: pointwise.neg(_soft(pointwise.neg(v))), {})


def mish(x: TensorLike) -> Tensor:
    """x · tanh(log(1 + eˣ)) (Misra 2019).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.mish([0.0])
    Tensor([0.], f32[1])
    """
    return composite("mish", x, lambda v: pointwise.mul(v, pointwise.tanh(_soft(v))), {})


def selu(x: TensorLike) -> Tensor:
    """scale · (x above 0, alpha · (eˣ − 1) elsewhere), with the constants of Klambauer et al. (2017).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.selu([0.0, 1.0])
    Tensor([0.      , 1.050701], f32[2])
    """

    def compute(v: Any) -> Any:
        """One scale above zero, another below."""
        high = pointwise.gt(v, filled(v, 0.0))
        curved: Any = pointwise.expm1(pointwise.select(high, filled(v, 0.0), v))
        return where(high, v * SELU_SCALE, curved * (SELU_ALPHA * SELU_SCALE))

    return composite("selu", x, compute, {})


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha · (e^(x/alpha) − 1) elsewhere (Barron 2017).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes, ArgumentError for an alpha of 0.

    >>> F.celu([0.0, 2.0], alpha=0.5)
    Tensor([0., 2.], f32[2])
    """
    if alpha == 0.0:
        raise ArgumentError(f"celu: alpha must not be 0; got {alpha}")

    def compute(v: Any) -> Any:
        """The value above zero, a curve with slope 1 below."""
        high = pointwise.gt(v, filled(v, 0.0))
        curved: Any = pointwise.expm1(pointwise.select(high, filled(v, 0.0), v) / alpha)
        return where(high, v, curved * alpha)

    return composite("celu", x, compute, {"alpha": alpha})


def hardtanh(x: TensorLike, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]; the derivative at the limits is 0.

    `x` has any shape and holds integers or floating-point numbers; the result has its shape and dtype.  Raises
    DTypeError for bools, ArgumentError if min_val is above max_val.

    >>> F.hardtanh([-2.0, 0.5])
    Tensor([-1. ,  0.5], f32[2])
    """
    if not min_val <= max_val:
        raise ArgumentError(f"hardtanh: min_val must not be above max_val; got {min_val} and {max_val}")

    def compute(v: Any) -> Any:
        """The value between the limits."""
        return where(v <= min_val, filled(v, min_val), where(v >= max_val, filled(v, max_val), v))

    return of_numbers("hardtanh", x, compute, {"min_val": min_val, "max_val": max_val})


def relu6(x: TensorLike) -> Tensor:
    """x limited to [0, 6].

    `x` has any shape and holds integers or floating-point numbers; the result has its shape and dtype.  Raises
    DTypeError for bools.

    >>> F.relu6([-1.0, 9.0])
    Tensor([0., 6.], f32[2])
    """
    return hardtanh(x, 0, 6)


def hardsigmoid(x: TensorLike) -> Tensor:
    """x/6 + 1/2 limited to [0, 1].

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.hardsigmoid([-3.0, 0.0])
    Tensor([0. , 0.5], f32[2])
    """
    return composite("hardsigmoid", x, lambda v: hardtanh(v + 3.0, 0.0, 6.0) / 6.0, {})


def hardswish(x: TensorLike) -> Tensor:
    """x · hardsigmoid(x) (Howard et al. 2019).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.hardswish([-3.0, 3.0])
    Tensor([-0.,  3.], f32[2])
    """
    return composite("hardswish", x, lambda v: v * hardtanh(v + 3.0, 0.0, 6.0) / 6.0, {})


def threshold(x: TensorLike, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, `value` elsewhere.

    `x` has any shape and holds integers or floating-point numbers; the result has its shape and dtype.  Raises
    DTypeError for bools.

    >>> F.threshold([0.5, 2.0], 1.0, -1.0)
    Tensor([-1.,  2.], f32[2])
    """
    settings = {"threshold": threshold, "value": value}
    return of_numbers("threshold", x, lambda v: where(v <= threshold, filled(v, value), v), settings)


def hardshrink(x: TensorLike, lambd: float = 0.5) -> Tensor:
    """x where |x| is above lambd, else 0.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.hardshrink([0.3, -2.0])
    Tensor([ 0., -2.], f32[2])
    """

    def compute(v: Any) -> Any:
        """Zero between the two limits, limits included."""
        return where((v >= -lambd) & (v <= lambd), filled(v, 0.0), v)

    return composite("hardshrink", x, compute, {"lambd": lambd})


def softshrink(x: TensorLike, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd; 0 where |x| is at most lambd.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes, ArgumentError for a negative lambd.

    >>> F.softshrink([0.25, -2.0])
    Tensor([ 0. , -1.5], f32[2])
    """
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambd must not be negative; got {lambd}")

    def compute(v: Any) -> Any:
        """The value less lambd above it, plus lambd below its negative."""
        return where(v > lambd, v - lambd, where(v < -lambd, v + lambd, v * 0.0))

    return composite("softshrink", x, compute, {"lambd": lambd})


def tanhshrink(x: TensorLike) -> Tensor:
    """x − tanh(x).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.tanhshrink([0.0])
    Tensor([0.], f32[1])
    """
    return composite("tanhshrink", x, lambda v: pointwise.sub(v, pointwise.tanh(v)), {})


def softsign(x: TensorLike) -> Tensor:
    """x / (1 + |x|).

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes.

    >>> F.softsign([1.0, -3.0])
    Tensor([ 0.5 , -0.75], f32[2])
    """
    return composite("softsign", x, lambda v: v / (pointwise.abs_(v) + 1.0), {})


def prelu(x: TensorLike, weight: TensorLike) -> Tensor:
    """x above 0, weight · x elsewhere, for a weight of one number or one for each channel (axis 1).

    `x` has a floating-point dtype; the result has its shape and dtype.  Raises ShapeError for another number of
    weights.

    >>> F.prelu([[-1.0, -1.0]], [0.5, 0.25])
    Tensor([[-0.5 , -0.25]], f32[1, 2])
    """
    held: Any = as_tensor(x)
    w: Any = as_tensor(weight, held.type.dtype)
    channels = held.type.shape[1] if len(held.type.shape) > 1 else 1
    if w.type.shape not in ((1,), (), (channels,)):
        raise ShapeError(f"prelu: weight must have 1 or {channels} numbers; got {w.type}")

    def compute(v: Any) -> Any:
        """The channel's own slope below zero."""
        slope = as_tensor(w, v.type.dtype)
        if slope.type.shape == (channels,) and len(v.type.shape) > 1:
            slope = view.broadcast(slope, v.type.shape, (1,))
        else:
            slope = view.broadcast(view.reshape(slope, ()), v.type.shape, ())
        return where(v > 0.0, v, slope * v)

    return composite("prelu", held, compute)


def rrelu(x: TensorLike, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """x above 0, a · x elsewhere; in training a is drawn from [lower, upper), in evaluation it is their mean.

    `x` has any shape and a floating-point dtype; the result has its shape and dtype.  Raises DTypeError for other
    dtypes, ArgumentError if lower is above upper.

    >>> F.rrelu([-1.0, 2.0], 0.25, 0.75)
    Tensor([-0.5,  2. ], f32[2])
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu: lower must not be above upper; got {lower} and {upper}")

    def compute(v: Any) -> Any:
        """The slope is drawn for each element."""
        slope: Any = (
            random.uniform(v.type.shape, lower, upper, v.type.dtype)
            if training and lower != upper
            else (lower + upper) / 2
        )
        return where(v > 0.0, v, v * slope)

    return composite("rrelu", x, compute)


def glu(x: TensorLike, dim: int = -1) -> Tensor:
    """a · sigmoid(b) for the halves a and b of x along an axis (Dauphin et al. 2017).

    `x` has a floating-point dtype.  The axis `dim`, the last one by default, has half the size in the result.  Raises
    ShapeError for an odd size.

    >>> F.glu([2.0, 0.0])
    Tensor([1.], f32[1])
    """
    held = as_tensor(x)
    at = normal_axis(dim, len(held.type.shape), "glu")
    if held.type.shape[at] % 2 != 0:
        raise ShapeError(f"glu: axis {dim} must have an even size; got {held.type}")

    def compute(v: Any) -> Any:
        """The first half times the sigmoid of the second."""
        first, second = split(v, sections=2, axis=at)
        return pointwise.mul(first, pointwise.sigmoid(second))

    return composite("glu", held, compute, {"dim": at})
