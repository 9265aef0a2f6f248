"""Images and volumes sampled at the points of a grid, and the grids of affine maps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from nacre.api.creation import zeros_like
from nacre.api.elementwise import arithmetic as f
from nacre.api.elementwise.apply import require
from nacre.api.elementwise.logic import isnan
from nacre.api.manipulation import permute_dims, reshape
from nacre.api.operands import TensorLike, as_tensor, scalar
from nacre.api.primitives import pointwise
from nacre.api.searching import where
from nacre.api.statistical import wide_float
from nacre.api.taking import Positions, take
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.dims import Size, product
from nacre.base.dtypes import FLOATING, int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.interpret.precision.functions import autocasting
from nacre.runtime.buffer import require_room

__all__ = ["affine_grid", "grid_sample"]

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


@autocasting
def grid_sample(
    input: TensorLike,
    grid: TensorLike,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Samples input [N, C, H, W] at the points of grid [N, h, w, 2] → [N, C, h, w]; volumes have one more axis.

    A point is (x, y) or (x, y, z), from −1 to 1 across the image: from the centre of the first pixel to that of the
    last with `align_corners`, else from edge to edge.  `mode` interpolates between pixels: "bilinear" (trilinear for
    volumes), "nearest", or "bicubic" (images only).  `padding_mode` gives values outside the image: "zeros", the
    "border", or the "reflection" of the inside.  NaN counts as −1.  Both arguments have gradients.

    Raises ShapeError and DTypeError for arguments that do not fit together, ArgumentError for other modes.

    >>> image, middle = nc.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), nc.tensor([[[[0.0, 0.0], [0.5, 0.5]]]])
    >>> F.grid_sample(image, middle).tolist()
    [[[[2.5, 4.0]]]]
    """
    held, places = as_tensor(input), as_tensor(grid)
    _check(held, places, mode, padding_mode)
    wide, at = wide_float(held), wide_float(places)
    shape, spatial = held.type.shape, held.type.shape[2:]
    rank, count, around = len(spatial), shape[0], places.type.shape[1:-1]
    rows = reshape(permute_dims(wide, (0, *range(2, rank + 2), 1)), (count * product(spatial), shape[1]))
    flat: Any = reshape(at, (count, product(around), rank))
    flat = where(isnan(flat), zeros_like(flat) - 1, flat)
    axes = [_Axis(flat[..., rank - 1 - k], n, mode, padding_mode, align_corners) for k, n in enumerate(spatial)]
    first: Any = reshape(pointwise.iota((count,), 0, int64), (count, 1)) * product(spatial)
    found: Any = None
    for taps in itertools.product(*(axis.taps for axis in axes)):
        value = _tap(rows, first, taps, spatial)
        found = value if found is None else found + value
    made = reshape(found, (count, *around, shape[1]))
    return as_tensor(permute_dims(made, (0, rank + 1, *range(1, rank + 1))), held.type.dtype)


def _check(held: Tensor, places: Tensor, mode: str, padding_mode: str) -> None:
    rank = len(held.type.shape) - 2
    if mode not in MODES or (mode == "bicubic" and rank != 2):
        raise ArgumentError(
            f"grid_sample: mode must be one of {', '.join(MODES)} (bicubic for images only); got {mode!r}"
        )
    if padding_mode not in PADDINGS:
        raise ArgumentError(f"grid_sample: padding_mode must be one of {', '.join(PADDINGS)}; got {padding_mode!r}")
    if (
        rank not in (2, 3)
        or len(places.type.shape) != rank + 2
        or places.type.shape[-1] != rank
        or places.type.shape[0] != held.type.shape[0]
    ):
        raise ShapeError(
            "grid_sample: input must be [N, C, H, W] with a grid [N, h, w, 2], or [N, C, D, H, W] with [N, d, h, w, "
            f"3]; got {held.type} and {places.type}"
        )
    if any(n == 0 for n in held.type.shape[2:]):
        raise ShapeError(f"grid_sample: the image must have pixels; got {held.type}")
    require("grid_sample", held.type.dtype, FLOATING)
    if places.type.dtype is not held.type.dtype:
        raise DTypeError(
            f"grid_sample: input and grid must have one dtype; got {held.type} and {places.type}; convert one of them "
            "with `astype`"
        )


class _Axis:
    """The pixels around points along one axis: their indices, their weights, and whether they are inside."""

    def __init__(self, at: Any, size: Size, mode: str, padding: str, aligned: bool) -> None:
        self.size, self.padding, self.aligned = size, padding, aligned
        n = scalar(size, at.dtype)
        self.last: Any = n - 1
        exact = (at + 1) / 2 * self.last if aligned else ((at + 1) * n - 1) / 2
        if mode == "bicubic":
            low = f.floor(exact)
            part = exact - low
            self.taps = [
                self._tap(self._moved(low + (k - 1)), _cubic(f.abs(part - (k - 1)), k in (1, 2))) for k in range(4)
            ]
            return
        exact = self._moved(exact)
        if mode == "nearest":
            self.taps = [self._tap(f.round(exact), None)]
        else:
            low = f.floor(exact)
            self.taps = [self._tap(low, low + 1 - exact), self._tap(low + 1, exact - low)]

    def _moved(self, at: Any) -> Any:
        """The position inside the image from which a point outside takes its value."""
        if self.padding == "zeros":
            return at
        if self.padding == "reflection":
            at = self._reflected(at)
        return f.clip(at, zeros_like(self.last), self.last)

    def _reflected(self, at: Any) -> Any:
        begin = 0.0 if self.aligned else -0.5
        span: Any = self.last if self.aligned else self.last + 1
        if self.aligned and self.size == 1:
            return zeros_like(at)
        away = f.abs(at - begin)
        turns = f.floor(away / span)
        rest = away - turns * span
        back = turns - 2 * f.floor(turns / 2) > 0
        return where(back, span - rest, rest) + begin

    def _tap(self, at: Any, weight: Any) -> tuple[Any, Any, Any]:
        inside = None
        if self.padding == "zeros":
            inside = (at >= 0) & (at <= self.last)
        number = f.clip(at, zeros_like(self.last), self.last).astype(int64)
        return number, weight, inside


def _cubic(d: Any, near: bool) -> Any:
    """Keys' cubic convolution kernel with a = −3/4, of distances up to 1 or beyond."""
    a = -0.75
    return ((a + 2) * d - (a + 3)) * d * d + 1 if near else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _tap(rows: Any, first: Any, taps: Sequence[tuple[Any, Any, Any]], spatial: Sequence[Size]) -> Any:
    """One pixel for each point, in all its channels, times its weight."""
    number: Any = 0
    for (at, _, _), size in zip(taps, spatial, strict=True):
        number = number * size + at
    value = take(rows, reshape(number + first, (-1,)), axis=0)
    value = reshape(value, (*number.shape, value.shape[-1]))
    inside = _joined((mask for _, _, mask in taps), lambda x, y: x & y)
    weight = _joined((weight for _, weight, _ in taps), lambda x, y: x * y)
    if inside is not None:
        value = where(inside[..., None], value, zeros_like(value))
    return value if weight is None else value * weight[..., None]


def _joined(parts: Any, join: Callable[[Any, Any], Any]) -> Any:
    found: Any = None
    for part in parts:
        if part is not None:
            found = part if found is None else join(found, part)
    return found


def affine_grid(theta: TensorLike, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid for `grid_sample` from affine maps theta [N, 2, 3], for images of size [N, C, H, W] → [N, H, W, 2].

    For volumes, theta is [N, 3, 4], size [N, C, D, H, W] and the grid [N, D, H, W, 3].  theta has a floating-point
    dtype, which is also that of the grid.  Raises ShapeError for other shapes, ArgumentError for sizes below 1.

    >>> turned = nc.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> F.affine_grid(turned, (1, 1, 2, 2), align_corners=True)[0, 0].tolist()
    [[1.0, -1.0], [1.0, 1.0]]
    """
    held = as_tensor(theta)
    wanted = whole_numbers(size, "affine_grid", "size")
    rank = len(wanted) - 2
    if rank not in (2, 3) or tuple(held.type.shape) != (wanted[0], rank, rank + 1):
        raise ShapeError(
            "affine_grid: theta must be [N, 2, 3] with a size [N, C, H, W], or [N, 3, 4] with [N, C, D, H, W]; got "
            f"{held.type} and {list(wanted)}"
        )
    if any(n < 1 for n in wanted):
        raise ArgumentError(f"affine_grid: sizes must be above 0; got {list(wanted)}")
    require("affine_grid", held.type.dtype, FLOATING)
    p = Positions(*wanted[2:])
    f = p.functions
    if not p.symbolic:
        require_room(int(product(wanted[2:])) * (2 * rank + 1) * 8)
    lines = [f.linspace(-1, 1, n, dtype=p.float64) if n > 1 else f.zeros(1, dtype=p.float64) for n in wanted[2:]]
    if not align_corners:
        lines = [line * p.real(n - 1) / p.real(n) for line, n in zip(lines, wanted[2:], strict=True)]
    mesh = [m.reshape((product(wanted[2:]),)) for m in f.meshgrid(*lines, indexing="ij")]
    places = f.stack([*reversed(mesh), f.ones_like(mesh[0])], axis=-1)
    wide: Any = wide_float(held)
    made = as_tensor(places, wide.type.dtype) @ permute_dims(wide, (0, 2, 1))
    return as_tensor(reshape(made, (wanted[0], *wanted[2:], rank)), held.type.dtype)
