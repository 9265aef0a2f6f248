"""Winograd's 3×3 convolution as primitives, and the choice between it and direct convolution.

It computes the same map with fewer multiplications, so its bits differ; `kernel.order_winograd` defines them.  It is
chosen only under `numerics("fast")`, by types and parameters alone: float32, a 3×3 window of stride and dilation 1, one
group, and at least `FEWEST` input and output channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nacre.base.dtypes import float32, float64
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.state import STATE
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Multilinear, Primitive, Template
from nacre.ops.convolution import (
    FORWARD,
    INPUT_GRAD,
    NO_PADDING,
    WEIGHT_GRAD,
    Padding,
    Pair,
    batch_rule,
    convolve,
    convolve_input_grad,
    convolve_weight_grad,
    filter_sizes,
    fitted_input_grad,
    result_shape,
    result_sizes,
)
from nacre.ops.rules import require_dtype, require_shape, show
from nacre.ops.shape import Source
from nacre.trace.bind import bind
from nacre.trace.value import Value

FEWEST: Final = 16  # the least number of input and of output channels for Winograd's convolution
LARGEST: Final = 128 * 128  # the most filters of a group with Winograd's gradient: its sums take 16 values a filter
DENSE: Final[dict[str, Any]] = {"stride": (1, 1), "dilation": (1, 1)}


def correlate(x: Value, w: Value, stride: Pair, padding: Padding, dilation: Pair, groups: int) -> Value:
    """`convolve`, by Winograd's algorithm if the numerics mode and the types allow it."""
    if chosen(w.type, stride, dilation, groups):
        return winograd(x, w, padding, groups)
    return convolve(x, w, stride, padding, dilation, groups)


def correlate_input_grad(
    g: Value, w: Value, *, shape: Shape, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Value:
    """`convolve_input_grad`, by Winograd's algorithm if the numerics mode and the types allow it."""
    if chosen(w.type, stride, dilation, groups):
        return winograd_input_grad(g, w, shape=shape, padding=padding, groups=groups)
    return convolve_input_grad(g, w, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups)


def chosen(w: TensorType, stride: Pair, dilation: Pair, groups: int) -> bool:
    """Whether Winograd's algorithm is used for filters of a type."""
    if STATE.numerics != "fast" or STATE.autocast is not None or w.dtype is not float32 or groups != 1:
        return False
    ones, channels = (1, 1), w.shape[:2]
    large = all(isinstance(n, int) and n >= FEWEST for n in channels)
    return large and w.shape[2:] == (3, 3) and stride == ones and dilation == ones


def winograd(x: Value, w: Value, padding: Padding = NO_PADDING, groups: int = 1) -> Value:
    """Correlate images [N, C, H, W] with filters [O, C/groups, 3, 3]."""
    return bind(winograd_p, x, w, padding=padding, groups=groups)


def winograd_input_grad(g: Value, w: Value, *, shape: Shape, padding: Padding = NO_PADDING, groups: int = 1) -> Value:
    """The cotangent of images of the given shape, from that of the result."""
    return bind(winograd_input_grad_p, g, w, shape=tuple(shape), padding=padding, groups=groups)


def winograd_weight_grad(x: Value, g: Value, *, shape: Shape, padding: Padding = NO_PADDING, groups: int = 1) -> Value:
    """The cotangent of filters of the given shape, from that of the result."""
    return bind(winograd_weight_grad_p, x, g, shape=tuple(shape), padding=padding, groups=groups)


# ---- types


def _require_filters(operation: str, x: TensorType, w: TensorType) -> None:
    if x.dtype not in (float32, float64):
        raise DTypeError(f"{operation}: the dtype must be float32 or float64; got {x.dtype.name}")
    require_dtype(operation, "filters", w, x.dtype)
    if w.shape[2:] != (3, 3):
        raise ShapeError(f"{operation}: filters must be [O, C/groups, 3, 3]; got {show(w.shape)}")


def _type(x: TensorType, w: TensorType, padding: Padding, groups: int) -> TensorType:
    _require_filters("winograd", x, w)
    return x.with_shape(result_shape("winograd", x.shape, w.shape, padding=padding, groups=groups, **DENSE))


def _input_grad_type(g: TensorType, w: TensorType, shape: Shape, padding: Padding, groups: int) -> TensorType:
    operation = "winograd_input_grad"
    _require_filters(operation, g, w)
    wanted = result_shape(operation, shape, w.shape, padding=padding, groups=groups, **DENSE)
    require_shape(operation, "the cotangent", g.shape, wanted)
    return g.with_shape(shape)


def _weight_grad_type(x: TensorType, g: TensorType, shape: Shape, padding: Padding, groups: int) -> TensorType:
    operation = "winograd_weight_grad"
    _require_filters(operation, x, x.with_shape(shape))
    require_dtype(operation, "the cotangent", g, x.dtype)
    wanted = result_shape(operation, x.shape, shape, padding=padding, groups=groups, **DENSE)
    require_shape(operation, "the cotangent", g.shape, wanted)
    return x.with_shape(shape)


def _fitted(types: Sequence[TensorType], params: Mapping[str, Any]) -> tuple[TensorType, ...]:
    return fitted_input_grad(types, {**params, **DENSE})


# ---- transposes


def _x_of(g: Value, x: Source, w: Value, **params: Any) -> Value:
    return winograd_input_grad(g, w, shape=x.type.shape, **params)


def _w_of(g: Value, x: Value, w: Source, **params: Any) -> Value:
    return _filters_grad(x, g, w.type.shape, **params)


def _filters_grad(x: Value, g: Value, shape: Shape, groups: int, **params: Any) -> Value:
    """The gradient of filters; that of more than `LARGEST` is computed directly."""
    if shape[0] // groups * shape[1] <= LARGEST:
        return winograd_weight_grad(x, g, shape=shape, groups=groups, **params)
    return convolve_weight_grad(x, g, shape=shape, groups=groups, **DENSE, **params)


def _input_grad_of_g(h: Value, g: Source, w: Value, shape: Shape, **params: Any) -> Value:
    return winograd(h, w, **params)


def _input_grad_of_w(h: Value, g: Value, w: Source, shape: Shape, **params: Any) -> Value:
    return _filters_grad(h, g, w.type.shape, **params)


def _weight_grad_of_x(h: Value, x: Source, g: Value, shape: Shape, **params: Any) -> Value:
    return winograd_input_grad(g, h, shape=x.type.shape, **params)


def _weight_grad_of_g(h: Value, x: Value, g: Source, shape: Shape, **params: Any) -> Value:
    return winograd(x, h, **params)


winograd_p = Primitive(
    "winograd",
    _type,
    Template("winograd"),
    Multilinear((_x_of, _w_of)),
    batch_rule(lambda: winograd_p, FORWARD),
    numbers=filter_sizes,
    takes_epilogue=True,
)
winograd_input_grad_p = Primitive(
    "winograd_input_grad",
    _input_grad_type,
    Template("winograd_input_grad"),
    Multilinear((_input_grad_of_g, _input_grad_of_w)),
    batch_rule(lambda: winograd_input_grad_p, INPUT_GRAD),
    numbers=filter_sizes,
    fitted=_fitted,
    takes_epilogue=True,
)
winograd_weight_grad_p = Primitive(
    "winograd_weight_grad",
    _weight_grad_type,
    Template("winograd_weight_grad"),
    Multilinear((_weight_grad_of_x, _weight_grad_of_g)),
    batch_rule(lambda: winograd_weight_grad_p, WEIGHT_GRAD),
    numbers=result_sizes,
)
