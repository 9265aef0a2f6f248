"""Functions that rearrange elements in space: padding, resizing, patches, and channels as pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nacre.api.arranging.margins import padded
from nacre.api.creation import zeros
from nacre.api.elementwise.apply import require
from nacre.api.operands import TensorLike, as_tensor, constant, distinct
from nacre.api.primitives import pointwise, view
from nacre.api.statistical import wide_float
from nacre.api.taking import Positions
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.dims import Size
from nacre.base.dtypes import FLOATING, INEXACT
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functional.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from nacre.nn.functional.max_pooling import Sizes, batched, sizes
from nacre.transform.grad import vjp

__all__ = [
    "channel_shuffle",
    "fold",
    "interpolate",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
]


STEPS = 16  # a symbolic size is multiplied by multiples of 1/16: the product is exact for every size
BYTES_OF_PLACE = 96  # while an axis is resized: positions and weights as int64 and float64, and intermediate results

# ---- padding


def pad(x: TensorLike, pad: Sequence[Size], mode: str = "constant", value: float | None = None) -> Tensor:
    """x with margins: `pad` lists those of the last axis, before and after, then those of the axis before it, …

    The mode "constant" (the default) fills with `value`, 0 by default.  "replicate" repeats the edge, "reflect" mirrors
    the inside, and "circular" continues with the other side of the rest.  Negative margins cut off.  The
    result has the dtype of x.  Raises ArgumentError for other modes and margins out of range.

    >>> F.pad([1.0, 2.0, 3.0], (2, 1), "reflect")
    Tensor([3., 2., 1., 2., 3., 2.], f32[6])
    """
    held: Any = as_tensor(x)
    rank = len(held.type.shape)
    found = whole_numbers(pad, "pad", "pad")
    if len(found) % 2 or len(found) > 2 * rank:
        raise ArgumentError(f"pad: pad must have two margins for each of at most {rank} axes; got {list(found)}")
    margins = list(zip(found[::2], found[1::2], strict=True))
    if mode == "constant":
        return distinct(_filled_margins(held, margins, 0 if value is None else value), held)
    if mode not in _PLACES:
        raise ArgumentError(f"pad: mode must be one of constant, {', '.join(_PLACES)}; got {mode!r}")
    given = held
    if mode == "circular":
        held = _filled_margins(held, [(_cut(before), _cut(after)) for before, after in margins], 0)
        margins = [(before - _cut(before), after - _cut(after)) for before, after in margins]
    for k, (before, after) in enumerate(margins):
        axis = rank - 1 - k
        size = held.type.shape[axis]
        limit = {"reflect": size - 1, "circular": size}.get(mode, math.inf)
        if before != 0 or after != 0:
            if size <= 0 or not (before <= limit and after <= limit) or before + size + after < 0:
                raise ArgumentError(
                    f"pad: margins must be at most {limit} in mode {mode!r} on an axis of {size}, and leave elements; "
                    f"got {before}, {after}"
                )
            p = Positions(size, before, after)
            places = p.counted(before + size + after, BYTES_OF_PLACE) - before
            held = p.taken(held, _PLACES[mode](p.functions, places, size), axis)
    return distinct(held, given)


def _cut(margin: Size) -> Size:
    """A negative margin, and 0 for others."""
    return margin if margin < 0 else 0


def _reflected(f: Any, places: Any, size: Size) -> Any:
    return size - 1 - f.abs(size - 1 - f.abs(places))


def _replicated(f: Any, places: Any, size: Size) -> Any:
    return f.maximum(f.minimum(places, size - 1), 0)


def _circled(f: Any, places: Any, size: Size) -> Any:
    return f.remainder(places, size)


_PLACES = {"reflect": _reflected, "replicate": _replicated, "circular": _circled}


def _filled_margins(x: Any, margins: Sequence[tuple[Size, Size]], value: float) -> Any:
    rank = len(x.type.shape)
    whole = [(0, 0)] * (rank - len(margins)) + list(margins)[::-1]
    return padded(x, whole, constant(value, x.type.dtype))


# ---- other sizes


def interpolate(
    x: TensorLike,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """x [N, C, L], [N, C, H, W] or [N, C, D, H, W] resized to a size, or by a factor.

    Modes are "nearest" (the default), "nearest-exact", "linear" (one axis), "bilinear" and "bicubic" (two axes),
    "trilinear" (three axes), and "area".  With `align_corners` the corner elements keep their positions.  Raises
    ShapeError for another rank, ArgumentError for another mode, or unless exactly one of size and scale_factor is
    given.

    >>> F.interpolate([[[1.0, 3.0]]], size=3, mode="linear", align_corners=True)
    Tensor([[[1., 2., 3.]]], f32[1, 1, 3])
    """
    held: Any = as_tensor(x)
    rank = len(held.type.shape) - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"interpolate: the shape must be [N, C, ...] with one to three more axes; got {held.type}")
    if mode not in _MODES or rank not in _MODES[mode]:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(_MODES)} for {rank} axes; got {mode!r}")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ArgumentError(f"interpolate: mode {mode!r} takes no align_corners; got {align_corners}")
    spatial = held.type.shape[2:]
    counts, factors = _counts(spatial, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1](held, counts)
    if mode not in ("nearest", "nearest-exact"):
        require("interpolate", held.type.dtype, FLOATING)
    wide = wide_float(held)
    for k, (length, count, factor) in enumerate(zip(spatial, counts, factors, strict=True)):
        p = Positions(length, count)
        wide = _resized(p, wide, k + 2, _taps(p, mode, length, count, factor, bool(align_corners)))
    return as_tensor(wide, held.type.dtype)


_MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,), "bilinear": (2,),
    "bicubic": (2,), "trilinear": (3,),
}  # fmt: skip


def _counts(spatial: Any, size: Sizes | None, factor: Any, again: bool) -> tuple[Any, Sequence[float | None]]:
    """The new sizes, and the factors by which positions are divided: None is the quotient of the sizes."""
    rank = len(spatial)
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate: pass either size or scale_factor; got both or neither")
    factors: tuple[float, ...] | None = None
    if size is not None:
        counts = sizes(size, rank, "interpolate", "size")
    else:
        factors = (float(factor),) * rank if isinstance(factor, int | float) else tuple(map(float, factor))
        if len(factors) != rank or min(factors) <= 0:
            raise ArgumentError(f"interpolate: scale_factor must have {rank} positive factors; got {factor}")
        counts = tuple(_scaled(s, f) for s, f in zip(spatial, factors, strict=True))
    if any(n < 1 for n in (*counts, *spatial)):
        raise ArgumentError(f"interpolate: sizes must be above 0; got {list(spatial)} and {list(counts)}")
    return counts, (None,) * rank if factors is None or again else factors


def _scaled(size: Size, factor: float) -> Size:
    """A size times a factor, rounded down."""
    if isinstance(size, int):
        return math.floor(size * factor)
    if factor * STEPS != int(factor * STEPS):
        raise ArgumentError(
            f"interpolate: scale_factor must be a multiple of 1/{STEPS} for the symbolic size {size}; got {factor}; "
            "pass size"
        )
    return size * int(factor * STEPS) // STEPS


Taps = list[tuple[Any, Any]]


def _taps(p: Positions, mode: str, length: Size, count: Size, factor: float | None, aligned: bool) -> Taps:
    """For each new position, its source positions with weights."""
    f = p.functions
    k, last = p.real(p.counted(count, BYTES_OF_PLACE)), length - 1
    step = p.real(length) / p.real(count) if factor is None else 1.0 / factor
    if mode in ("nearest", "nearest-exact"):
        moved = k if mode == "nearest" else k + 0.5
        return [(f.minimum(p.whole(f.floor(moved * step)), last), None)]
    if aligned:
        at = k * (p.real(last) / f.maximum(p.real(count - 1), 1.0))
    else:
        at = (k + 0.5) * step - 0.5
    if mode != "bicubic":
        at = f.maximum(at, 0.0)
    low = f.floor(at)
    part = at - low
    low = p.whole(low)
    if mode != "bicubic":
        low = f.minimum(low, last)
        return [(low, 1.0 - part), (f.minimum(low + 1, last), part)]
    places = [f.maximum(f.minimum(low + n - 1, last), 0) for n in range(4)]
    return [(place, _cubic(f, f.abs(part - (n - 1)))) for n, place in enumerate(places)]


def _cubic(f: Any, d: Any) -> Any:
    """Keys' cubic convolution kernel with a = −3/4."""
    a = -0.75
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return f.where(d <= 1, near, far)


def _resized(p: Positions, x: Any, axis: int, taps: Taps) -> Any:
    """The weighted sum of an axis' elements at the taps, in ascending order."""
    total: Any = None
    for places, weights in taps:
        part = p.taken(x, places, axis)
        if weights is None:
            return part
        held = view.broadcast(as_tensor(weights, x.type.dtype), part.type.shape, (axis,))
        total = pointwise.mul(part, held) if total is None else pointwise.fma(part, held, total)
    return total


# ---- patches


def unfold(x: TensorLike, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The patches of images [N, C, H, W] as columns [N, C · kh · kw, patches].

    Raises ShapeError for images smaller than a patch, ArgumentError for sizes out of range.

    >>> F.unfold(nc.ones((1, 3, 4, 4)), 2, stride=2).shape
    (1, 12, 4)
    """
    held, single = batched(x, 2, "unfold")
    size, spacing, margin, steps = (
        sizes(v, 2, "unfold", what)
        for v, what in ((kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride"))
    )
    _require_margins("unfold", margin)
    whole: Any = pad(held, (margin[1], margin[1], margin[0], margin[0]))
    counts = tuple(_patches(whole.shape[k + 2], size[k], spacing[k], steps[k], "unfold") for k in (0, 1))
    for k in (0, 1):
        p = Positions(counts[k])
        places = p.counted(size[k])[:, None] * spacing[k] + p.counted(counts[k]) * steps[k]
        whole = p.taken(whole, places.reshape((size[k] * counts[k],)), k + 2)
    count, channels = held.type.shape[:2]
    parts = view.reshape(whole, (count, channels, size[0], counts[0], size[1], counts[1]))
    columns = view.reshape(
        view.permute(parts, (0, 1, 2, 4, 3, 5)), (count, channels * size[0] * size[1], counts[0] * counts[1])
    )
    return view.reshape(columns, columns.type.shape[1:]) if single else columns


def _require_margins(operation: str, margin: Sequence[int]) -> None:
    if min(margin) < 0:
        raise ArgumentError(
            f"{operation}: padding must be 0 or more; got {tuple(margin)}; slice the images to remove their edges"
        )


def _patches(length: Size, size: int, dilation: int, stride: int, operation: str) -> Size:
    if min(size, dilation, stride) < 1:
        raise ArgumentError(
            f"{operation}: size, dilation and stride must be positive; got {size}, {dilation}, {stride}"
        )
    span = dilation * (size - 1) + 1
    if length < span:
        raise ShapeError(f"{operation}: a patch needs at least {span} elements; got {length}")
    return (length - span) // stride + 1


def fold(
    x: TensorLike,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Patches [N, C · kh · kw, patches] added up to images [N, C, *output_size]: the adjoint of `unfold`.

    Raises ShapeError for columns that do not fit, ArgumentError for sizes out of range.

    >>> F.fold(nc.ones((1, 4, 4)), 3, 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    held: Any = as_tensor(x)
    dtype = held.type.dtype
    require("fold", dtype, INEXACT)
    held = wide_float(held)
    single = len(held.type.shape) == 2
    held = view.reshape(held, (1, *held.type.shape)) if single else held
    size = sizes(kernel_size, 2, "fold", "kernel_size")
    if len(held.type.shape) != 3 or held.type.shape[1] % (size[0] * size[1]):
        raise ShapeError(f"fold: columns must be [N, C · {size[0] * size[1]}, patches]; got {held.type}")
    _require_margins("fold", sizes(padding, 2, "fold", "padding"))
    channels = held.type.shape[1] // (size[0] * size[1])
    image = zeros((held.type.shape[0], channels, *sizes(output_size, 2, "fold", "output_size")), held.type.dtype)

    def patches(v: Any) -> Tensor:
        """The function whose adjoint `fold` computes."""
        return unfold(v, size, dilation, padding, stride)

    columns, pull = vjp(patches, image)
    if columns.shape != held.type.shape:
        raise ShapeError(f"fold: columns must have shape {list(columns.shape)}; got {held.type}")
    found = as_tensor(pull(held)[0], dtype)
    return view.reshape(found, found.type.shape[1:]) if single else found


# ---- channels and pixels


def _image(x: TensorLike, operation: str) -> Any:
    held: Any = as_tensor(x)
    if len(held.type.shape) < 3:
        raise ShapeError(f"{operation}: the shape must be [..., C, H, W]; got {held.type}")
    return held


def pixel_shuffle(x: TensorLike, upscale_factor: int) -> Tensor:
    """[..., C · r², H, W] → [..., C, H · r, W · r]: channels become pixels (Shi et al. 2016).

    Raises ShapeError unless r² divides the channels.

    >>> F.pixel_shuffle(nc.ones((1, 8, 2, 3)), 2).shape
    (1, 2, 4, 6)
    """
    held, r = _image(x, "pixel_shuffle"), upscale_factor
    *outer, channels, height, width = held.type.shape
    if r < 1 or channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {r * r} must divide the channels; got {held.type}")
    n = len(outer)
    parts = view.reshape(held, (*outer, channels // (r * r), r, r, height, width))
    moved = view.permute(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return view.reshape(moved, (*outer, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: TensorLike, downscale_factor: int) -> Tensor:
    """[..., C, H · r, W · r] → [..., C · r², H, W], the inverse of `pixel_shuffle`.

    Raises ShapeError unless r divides height and width.

    >>> F.pixel_unshuffle(nc.ones((1, 2, 4, 6)), 2).shape
    (1, 8, 2, 3)
    """
    held, r = _image(x, "pixel_unshuffle"), downscale_factor
    *outer, channels, height, width = held.type.shape
    if r < 1 or height % r or width % r:
        raise ShapeError(f"pixel_unshuffle: {r} must divide height and width; got {held.type}")
    n = len(outer)
    parts = view.reshape(held, (*outer, channels, height // r, r, width // r, r))
    moved = view.permute(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return view.reshape(moved, (*outer, channels * r * r, height // r, width // r))


def channel_shuffle(x: TensorLike, groups: int) -> Tensor:
    """Reorders the channels of [N, C, ...]: the first of each group, then the second of each group, and so on.

    Raises ShapeError unless groups divides the channels.

    >>> F.channel_shuffle([[[0.0], [1.0], [2.0], [3.0]]], 2).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    held: Any = as_tensor(x)
    if len(held.type.shape) < 3 or groups < 1 or held.type.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups must divide the channels; got {held.type}")
    count, channels, *spatial = held.type.shape
    parts = view.reshape(held, (count, groups, channels // groups, *spatial))
    moved = view.permute(parts, (0, 2, 1, *range(3, 3 + len(spatial))))
    return view.reshape(moved, held.type.shape)
