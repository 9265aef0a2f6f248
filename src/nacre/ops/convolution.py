"""Two-dimensional convolution and its transposes: three bilinear maps between image, filter and result.

The image x is [N, C, H, W], the filter w [O, C/groups, kh, kw], the result y [N, O, OH, OW].  Each primitive computes
one of them from the other two, and its transposes are the other two primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nacre.base.dims import Dim, Size, lower, require_known
from nacre.base.dtypes import FLOATING
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import LOW, BatchRule, Multilinear, Primitive, Template
from nacre.ops.rules import require_dtype, require_kind, require_shape, show
from nacre.ops.shape import Source, batch_size, front, permute, reshape
from nacre.trace.bind import bind
from nacre.trace.value import Value

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
NO_PADDING: Padding = ((0, 0), (0, 0))


def convolve(
    x: Value,
    w: Value,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Value:
    """Correlate images [N, C, H, W] with filters [O, C/groups, kh, kw].

    Padding is ((top, bottom), (left, right)); padded positions are ignored.  Sums are in the order of
    `kernel.order_convolution`.
    """
    return bind(convolve_p, x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)


def convolve_input_grad(
    g: Value,
    w: Value,
    *,
    shape: Shape,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Value:
    """The cotangent of images of the given shape, from that of the result."""
    return bind(
        input_grad_p,
        g,
        w,
        shape=tuple(shape),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


def convolve_weight_grad(
    x: Value,
    g: Value,
    *,
    shape: Shape,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Value:
    """The cotangent of filters of the given shape, from that of the result."""
    return bind(
        weight_grad_p,
        x,
        g,
        shape=tuple(shape),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


# ---- types


def window_count(operation: str, size: Size, kernel: Size, stride: int, pad: Pair, dilation: int) -> Size:
    """The number of positions of a window along an axis."""
    if stride < 1 or dilation < 1 or min(pad) < 0:
        raise ArgumentError(
            f"{operation}: stride and dilation must be positive, and padding at least 0; "
            f"got stride {stride}, dilation {dilation}, padding {pad}"
        )
    span = size + pad[0] + pad[1] - ((kernel - 1) * dilation + 1)
    if not _fits(operation, span, size):
        raise ShapeError(
            f"{operation}: the window must fit the padded axis; got size {size} with padding "
            f"{pad} for a window of {kernel} with dilation {dilation}; "
            "use more padding or a smaller window"
        )
    return span // stride + 1


def _fits(operation: str, span: Size, size: Size) -> bool:
    """Whether a window fits an axis of a size, which leaves it `span` steps."""
    try:
        return span >= 0
    except ShapeError:
        raise ShapeError(
            f"{operation}: the window must fit every size of an axis; got {size}, which may be as small as "
            f"{lower(size)}, where {span} must be at least 0; give its Dim a greater `min`"
        ) from None


def _require_numbers(operation: str, x: Shape, w: Shape) -> None:
    """Refuse symbols as channels, filters and windows: the order of sums depends on them."""
    symbols = [n for n in (x[1], *w) if isinstance(n, Dim)]
    if symbols:
        require_known(*symbols)
        raise ShapeError(
            f"{operation}: channels, filters and windows must have fixed sizes; got images {show(x)} and filters "
            f"{show(w)}; give numbers in place of {', '.join(map(str, symbols))}"
        )


def result_shape(
    operation: str, x: Shape, w: Shape, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Shape:
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(
            f"{operation}: images must be [N, C, H, W] and filters [O, C/groups, kh, kw]; got {show(x)} and {show(w)}"
        )
    _require_numbers(operation, x, w)
    if groups < 1 or w[0] % groups != 0:
        raise ShapeError(
            f"{operation}: output channels must be divisible by groups; got {w[0]} and {groups} "
            f"(shapes {show(x)} and {show(w)})"
        )
    if x[1] != w[1] * groups:
        raise ShapeError(
            f"{operation}: input channels must match: {x[1]} and {w[1] * groups} (images {show(x)}, filters {show(w)}, "
            f"groups {groups}); axis 1 of images is the channels"
        )
    spatial = (window_count(operation, x[k + 2], w[k + 2], stride[k], padding[k], dilation[k]) for k in (0, 1))
    return (x[0], w[0], *spatial)


LARGEST: Final = {"kernel": 1024, "padding": 1024, "dilation": 1024, "stride": 256}  # the code grows with these numbers


def _require_small(operation: str, **numbers: Sequence[Any]) -> None:
    """Refuse numbers whose code would take minutes to compile; strides matter only if the images are the result."""
    for what, given in numbers.items():
        if any(isinstance(n, int) and n > LARGEST[what] for n in given):
            raise ArgumentError(
                f"{operation}: {what} must be at most {LARGEST[what]}; got {max(given)}; cut the work into smaller ones"
            )


def _require_window(operation: str, filters: Shape, params: Mapping[str, Any]) -> None:
    pads = [n for pair in params["padding"] for n in pair]
    _require_small(operation, kernel=filters[2:], padding=pads, dilation=params["dilation"])


def _convolve_type(x: TensorType, w: TensorType, **params: Any) -> TensorType:
    require_kind("convolve", x, FLOATING)
    require_dtype("convolve", "filters", w, x.dtype)
    result = x.with_shape(result_shape("convolve", x.shape, w.shape, **params))
    _require_window("convolve", w.shape, params)
    return result


def _input_grad_type(g: TensorType, w: TensorType, shape: Shape, **params: Any) -> TensorType:
    operation = "convolve_input_grad"
    require_kind(operation, g, FLOATING)
    require_dtype(operation, "filters", w, g.dtype)
    wanted = result_shape(operation, shape, w.shape, **params)
    _require_window(operation, w.shape, params)
    _require_small(operation, stride=params["stride"])
    require_shape(operation, "the cotangent", g.shape, wanted)
    return g.with_shape(shape)


def fitted_input_grad(types: Sequence[TensorType], params: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """The operands' types, where the parameter `shape` decides the cotangent's."""
    g, w = types
    about = {name: value for name, value in params.items() if name != "shape"}
    return g.with_shape(result_shape("convolve_input_grad", params["shape"], w.shape, **about)), w


def filter_sizes(types: Sequence[TensorType], params: Mapping[str, Any]) -> Shape:
    """The sizes of filters, which are an operand."""
    return types[1].shape


def result_sizes(types: Sequence[TensorType], params: Mapping[str, Any]) -> Shape:
    """The sizes of filters, which are the result."""
    return tuple(params["shape"])


def _weight_grad_type(x: TensorType, g: TensorType, shape: Shape, **params: Any) -> TensorType:
    operation = "convolve_weight_grad"
    require_kind(operation, x, FLOATING)
    require_dtype(operation, "the cotangent", g, x.dtype)
    wanted = result_shape(operation, x.shape, shape, **params)
    _require_window(operation, shape, params)
    require_shape(operation, "the cotangent", g.shape, wanted)
    return x.with_shape(shape)


# ---- transposes


def _x_of(g: Value, x: Source, w: Value, **params: Any) -> Value:
    return convolve_input_grad(g, w, shape=x.type.shape, **params)


def _w_of(g: Value, x: Value, w: Source, **params: Any) -> Value:
    return convolve_weight_grad(x, g, shape=w.type.shape, **params)


def _input_grad_of_g(h: Value, g: Source, w: Value, shape: Shape, **params: Any) -> Value:
    return convolve(h, w, **params)


def _input_grad_of_w(h: Value, g: Value, w: Source, shape: Shape, **params: Any) -> Value:
    return convolve_weight_grad(h, g, shape=w.type.shape, **params)


def _weight_grad_of_x(h: Value, x: Source, g: Value, shape: Shape, **params: Any) -> Value:
    return convolve_input_grad(g, h, shape=x.type.shape, **params)


def _weight_grad_of_g(h: Value, x: Value, g: Source, shape: Shape, **params: Any) -> Value:
    return convolve(x, h, **params)


# ---- batching: an example becomes an image, a channel or a group; examples are never summed together

Place = tuple[int, bool]  # an axis to merge the batch into, and whether inside each group
Places = tuple[Place | None, Place | None, Place]  # of the operands (None if not batched) and of the result


@dataclass(frozen=True)
class _Merge:
    """The axes that the batch is merged into, if both operands are batched, only the first, or only the second."""

    both: Places  # the group count grows
    first: Places
    second: Places


OUTER_0, OUTER_1, INNER_0, INNER_1 = (0, False), (1, False), (0, True), (1, True)
FORWARD = _Merge((OUTER_1, OUTER_0, OUTER_1), (OUTER_0, None, OUTER_0), (None, INNER_0, INNER_1))
INPUT_GRAD = _Merge((OUTER_1, OUTER_0, OUTER_1), (OUTER_0, None, OUTER_0), (None, OUTER_1, INNER_1))
WEIGHT_GRAD = _Merge((OUTER_1, OUTER_1, OUTER_0), (INNER_1, None, OUTER_1), (None, INNER_1, INNER_0))


def _merged(x: Value, axis: int, place: int, groups: int) -> Value:
    """Merge a batch axis into an axis, whose elements then are in the order [groups, batch, elements of a group]."""
    size, *rest = front(x, axis).type.shape
    split = (size, *rest[:place], groups, rest[place] // groups, *rest[place + 1 :])
    order = (*range(1, place + 2), 0, *range(place + 2, len(split)))
    inner = permute(reshape(front(x, axis), split), order)
    return reshape(inner, (*rest[:place], size * rest[place], *rest[place + 1 :]))


def _unmerged(y: Value, size: Size, place: int, groups: int) -> Value:
    """Undo `_merged`, with the batch axis in front."""
    shape = y.type.shape
    inner = shape[place] // groups // size
    split = (*shape[:place], groups, size, inner, *shape[place + 1 :])
    apart = front(reshape(y, split), place + 1)
    return reshape(apart, (size, *shape[:place], groups * inner, *shape[place + 1 :]))


def batch_rule(primitive: Callable[[], Primitive], merge: _Merge) -> BatchRule:
    def rule(inputs: Sequence[Value], axes: Sequence[int | None], groups: int, **params: Any) -> tuple[Value, int]:
        """Merge batch axes into a batch, channel or group axis and convolve once."""
        size = batch_size(inputs, axes)
        together = None not in axes
        places = merge.both if together else merge.second if axes[0] is None else merge.first
        operands = [
            x if a is None or at is None else _merged(x, a, at[0], groups if at[1] else 1)
            for x, a, at in zip(inputs, axes, places, strict=False)
        ]
        place, inside = places[2]
        if "shape" in params:
            shape = list(params["shape"])
            shape[place] = shape[place] * size
            params["shape"] = tuple(shape)
        many = _group_count(groups, size) if together else groups
        result = bind(primitive(), *operands, groups=many, **params)
        return _unmerged(result, size, place, groups if inside else 1), 0

    return rule


def _group_count(groups: int, size: Size) -> int:
    if not isinstance(size, int):
        raise ShapeError(f"convolve: the batch must have a fixed size if images and filters are batched; got {size}")
    return groups * size


convolve_p = Primitive(
    "convolve",
    _convolve_type,
    Template("convolve"),
    Multilinear((_x_of, _w_of)),
    batch_rule(lambda: convolve_p, FORWARD),
    numbers=filter_sizes,
    takes_epilogue=True,
    precision=LOW,
)
input_grad_p = Primitive(
    "convolve_input_grad",
    _input_grad_type,
    Template("convolve_input_grad"),
    Multilinear((_input_grad_of_g, _input_grad_of_w)),
    batch_rule(lambda: input_grad_p, INPUT_GRAD),
    fitted=fitted_input_grad,
    numbers=filter_sizes,
    takes_epilogue=True,
    precision=LOW,
)
weight_grad_p = Primitive(
    "convolve_weight_grad",
    _weight_grad_type,
    Template("convolve_weight_grad"),
    Multilinear((_weight_grad_of_x, _weight_grad_of_g)),
    batch_rule(lambda: weight_grad_p, WEIGHT_GRAD),
    numbers=result_sizes,
    precision=LOW,
)
