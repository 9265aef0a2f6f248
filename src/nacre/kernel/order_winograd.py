"""An executable definition of Winograd's convolution F(4×4, 3×3): the bits of 3×3 convolution in `numerics("fast")`.

The result is split into tiles of 4×4 pixels, beginning at its first pixel.  A tile is computed from the 6×6 pixels that
it reads, which are zeros outside the image.  Image and filter are represented by values of polynomials at the points 0,
±3/4, ±3/2 and ∞ in each direction, where convolution is a product of numbers (Lavin and Gray, arXiv:1509.09308; the
points keep the error low):

* each column and then each row of the 6×6 pixels is transformed by `of_input`;
* each column and then each row of the 3×3 filter is transformed by `of_filter`, then each value is multiplied by
  `FILTER_SCALE`;
* the 36 products are summed over the channels of the group, ascending, in chains of fused multiply-adds from +0 that
  restart every 256 channels, and the sums of the chains are added in ascending order;
* each column and then each row of the 36 sums is transformed by `of_product`, then each pixel is multiplied by
  `RESULT_SCALE`.

The gradient of the image is the same algorithm on the result's gradient and the filter rotated by 180°.  The gradient
of the filter is the transpose of the algorithm:

* the result's gradient, 4×4 pixels multiplied by `RESULT_SCALE`, is transformed by `of_gradient`;
* its products with the pixels' values are summed over tiles, ascending, in chains of `chain_rows` rows of tiles;
* the sums of the chains are added in the order of image and row within each 8 images, and these sums in order;
* the totals are multiplied by `FILTER_SCALE` and transformed by `of_sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from nacre.base.records import dataclass
from nacre.kernel.order_convolution import Convolution
from nacre.kernel.softfloat import fma

TILE = 4  # side of a tile of the result, in pixels
PATCH = 6  # side of the pixels that a tile reads
CHAIN = 256  # channels in one chain
CHAIN_TILES = 64  # tiles in one chain of the filter's gradient, about
BLOCK_IMAGES = 8  # images of the filter's gradient that are summed separately

Array = npt.NDArray[Any]
T = TypeVar("T")

# the points ±_A and ±_B, their squares, and the factors of the filter's values at 0, ±_A, ±_B and ∞
_A, _B = 3 / 4, 3 / 2
_AA, _BB = _A * _A, _B * _B
_FACTORS = (1 / (_AA * _BB), *[1 / (2 * _AA * (_AA - _BB))] * 2, *[1 / (2 * _BB * (_BB - _AA))] * 2, 1 / _A**3)

FILTER_POINTS = _A, -_A, _B, -_B
FILTER_SCALE = tuple(tuple(a * b for b in _FACTORS) for a in _FACTORS)
RESULT_SCALE = tuple(tuple(_A ** (i + j) for j in range(TILE)) for i in range(TILE))


class Arithmetic(Protocol[T]):
    """The operations that the transforms need, on arrays or on values of generated code."""

    def fma(self, a: T, c: float, b: T) -> T:
        """a · c + b, rounded once."""
        ...

    def add(self, a: T, b: T) -> T:
        """a + b."""
        ...

    def sub(self, a: T, b: T) -> T:
        """a − b."""
        ...

    def mul(self, a: T, c: float) -> T:
        """a · c."""
        ...


def of_input(k: Arithmetic[T], x: Sequence[T]) -> list[T]:
    """Six pixels in a line as values at the six points."""
    first, middle = _AA * _BB, -(_AA + _BB)
    even_a, odd_a = k.fma(x[2], -_BB, x[4]), k.fma(x[1], -_BB, x[3])
    even_b, odd_b = k.fma(x[2], -_AA, x[4]), k.fma(x[1], -_AA, x[3])
    return [
        k.fma(x[0], first, k.fma(x[2], middle, x[4])),
        k.fma(odd_a, _A, even_a),
        k.fma(odd_a, -_A, even_a),
        k.fma(odd_b, _B, even_b),
        k.fma(odd_b, -_B, even_b),
        k.fma(x[1], first, k.fma(x[3], middle, x[5])),
    ]


def of_filter(k: Arithmetic[T], g: Sequence[T]) -> list[T]:
    """Three taps in a line as values at the six points, before scaling."""
    return [g[0], *(at_point(k, g, p, p * p) for p in FILTER_POINTS), g[2]]


def at_point(k: Arithmetic[T], g: Sequence[T], p: Any, square: Any) -> T:
    """Three taps in a line as the value at a point that is neither 0 nor ∞; its square is given."""
    return k.fma(g[1], p, k.fma(g[2], square, g[0]))


def of_product(k: Arithmetic[T], m: Sequence[T]) -> list[T]:
    """Values at the six points as four pixels in a line, before scaling."""
    even_a, odd_a = k.add(m[1], m[2]), k.sub(m[1], m[2])
    even_b, odd_b = k.add(m[3], m[4]), k.sub(m[3], m[4])
    return [
        k.add(k.add(even_a, even_b), m[0]),
        k.fma(odd_b, 2.0, odd_a),
        k.fma(even_b, 4.0, even_a),
        k.add(k.fma(odd_b, 8.0, odd_a), m[5]),
    ]


def of_gradient(k: Arithmetic[T], y: Sequence[T]) -> list[T]:
    """The transpose of `of_product`: four scaled pixels of a result's gradient as values at the six points."""
    even_a, odd_a = k.add(y[0], y[2]), k.add(y[1], y[3])
    even_b, odd_b = k.fma(y[2], 4.0, y[0]), k.fma(y[3], 4.0, y[1])
    return [
        y[0],
        k.add(even_a, odd_a),
        k.sub(even_a, odd_a),
        k.fma(odd_b, 2.0, even_b),
        k.fma(odd_b, -2.0, even_b),
        y[3],
    ]


def of_sums(k: Arithmetic[T], u: Sequence[T]) -> list[T]:
    """The transpose of `of_filter`: scaled values at the six points as three taps."""
    even_a, odd_a = k.add(u[1], u[2]), k.sub(u[1], u[2])
    even_b, odd_b = k.add(u[3], u[4]), k.sub(u[3], u[4])
    return [
        k.add(k.add(even_a, even_b), u[0]),
        k.fma(odd_b, _B, k.mul(odd_a, _A)),
        k.fma(even_b, _BB, k.fma(even_a, _AA, u[5])),
    ]


def chain_rows(across: int) -> int:
    """The number of rows of tiles in one chain of the filter's gradient."""
    return max(1, CHAIN_TILES // max(1, across))


def both_ways(
    k: Arithmetic[T], line: Callable[[Arithmetic[T], Sequence[T]], list[T]], grid: Sequence[Sequence[T]]
) -> list[list[T]]:
    """A transform of the columns of a grid [row][column], then of its rows."""
    columns = [line(k, column) for column in zip(*grid, strict=True)]
    return [line(k, row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Sides:
    """A correlation by tiles, forward or transposed: the sizes of one group, and its access to w.

    `low` is the number of pixels from the beginning of the first tile to the image.  `strides` are those of the output
    and the input channels in w, whose taps are read in reverse order if it is `turned`.
    """

    groups: int
    inputs: int
    outputs: int
    in_shape: tuple[int, int]
    out_shape: tuple[int, int]
    low: tuple[int, int]
    strides: tuple[int, int]
    turned: bool

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles of one image."""
        height, width = self.out_shape
        return -(-height // TILE), -(-width // TILE)


def forward_sides(conv: Convolution) -> Sides:
    """The forward convolution."""
    rows, columns = conv.rows, conv.columns
    return Sides(
        conv.groups,
        conv.group_channels,
        conv.group_filters,
        (rows.size, columns.size),
        (rows.out, columns.out),
        (rows.low, columns.low),
        (conv.group_channels * 9, 9),
        False,
    )


def gradient_sides(conv: Convolution) -> Sides:
    """The gradient of the image."""
    rows, columns = conv.rows, conv.columns
    return Sides(
        conv.groups,
        conv.group_filters,
        conv.group_channels,
        (rows.out, columns.out),
        (rows.size, columns.size),
        (2 - rows.low, 2 - columns.low),
        (9, conv.group_channels * 9),
        True,
    )


class _Arrays:
    """Arithmetic on arrays."""

    def fma(self, a: Array, c: float, b: Array) -> Array:
        return fma(a, a.dtype.type(c), b)

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def sub(self, a: Array, b: Array) -> Array:
        return a - b

    def mul(self, a: Array, c: float) -> Array:
        return a * a.dtype.type(c)


def _patches(sides: Sides, x: Array) -> list[list[Array]]:
    """The 6×6 pixels of every tile of x [N,C,·,·], each as an array [N,C,rows of tiles,columns of tiles]."""
    down, across = sides.tiles
    held = np.zeros((*x.shape[:2], TILE * down + 2, TILE * across + 2), x.dtype)
    at = [np.arange(-low, n - low) for low, n in zip(sides.low, held.shape[2:], strict=True)]
    inside = [np.flatnonzero((p >= 0) & (p < n)) for p, n in zip(at, sides.in_shape, strict=True)]
    rows, columns = inside
    held[:, :, rows[:, None], columns] = x[:, :, at[0][rows][:, None], at[1][columns]]
    return [
        [
            held[:, :, i : i + TILE * down : TILE, j : j + TILE * across : TILE][:, :, :down, :across]
            for j in range(PATCH)
        ]
        for i in range(PATCH)
    ]


def _sums(v: Array, u: Array) -> Array:
    """The sums over channels of v [N,C,·,·] times u [O,C]: [N,O,·,·]."""
    shape = (v.shape[0], u.shape[0], *v.shape[2:])
    total = np.zeros(shape, v.dtype)
    for start in range(0, v.shape[1], CHAIN):
        chain = np.zeros(shape, v.dtype)
        for c in range(start, min(v.shape[1], start + CHAIN)):
            chain = fma(v[:, None, c], u[None, :, c, None, None], chain)
        total = chain if start == 0 else total + chain
    return total


def _correlate(sides: Sides, x: Array, w: Array) -> Array:
    """One group: x [N,R,·,·] with w [Q,R,3,3]."""
    k = _Arrays()
    v = both_ways(k, of_input, _patches(sides, x))
    taps = [[w[:, :, i, j] for j in range(3)] for i in range(3)]
    u = both_ways(k, of_filter, [row[::-1] for row in taps[::-1]] if sides.turned else taps)
    m = [[_sums(v[i][j], k.mul(u[i][j], FILTER_SCALE[i][j])) for j in range(PATCH)] for i in range(PATCH)]
    pixels = both_ways(k, of_product, m)
    down, across = sides.tiles
    y = np.zeros((x.shape[0], w.shape[0], TILE * down, TILE * across), x.dtype)
    for i in range(TILE):
        for j in range(TILE):
            y[:, :, i::TILE, j::TILE] = k.mul(pixels[i][j], RESULT_SCALE[i][j])
    return y[:, :, : sides.out_shape[0], : sides.out_shape[1]]


def forward(conv: Convolution, x: Array, w: Array) -> Array:
    """y [N,O,OH,OW] of x [N,C,H,W] and w [O,C/groups,3,3]."""
    c, o, sides = conv.group_channels, conv.group_filters, forward_sides(conv)
    with np.errstate(all="ignore"):
        parts = [_correlate(sides, x[:, g * c : (g + 1) * c], w[g * o : (g + 1) * o]) for g in range(conv.groups)]
    return np.concatenate(parts, 1)


def input_grad(conv: Convolution, dy: Array, w: Array) -> Array:
    """dx [N,C,H,W] of dy [N,O,OH,OW] and w [O,C/groups,3,3]."""
    o, sides = conv.group_filters, gradient_sides(conv)
    with np.errstate(all="ignore"):
        parts = [
            _correlate(sides, dy[:, g * o : (g + 1) * o], w[g * o : (g + 1) * o].transpose(1, 0, 2, 3))
            for g in range(conv.groups)
        ]
    return np.concatenate(parts, 1)


def weight_grad(conv: Convolution, x: Array, dy: Array) -> Array:
    """dw [O,C/groups,3,3] of x [N,C,H,W] and dy [N,O,OH,OW]."""
    c, o, sides = conv.group_channels, conv.group_filters, forward_sides(conv)
    with np.errstate(all="ignore"):
        parts = [_weights(sides, x[:, g * c : (g + 1) * c], dy[:, g * o : (g + 1) * o]) for g in range(conv.groups)]
    return np.concatenate(parts)


def _weights(sides: Sides, x: Array, dy: Array) -> Array:
    """One group: [Q,R,3,3] of x [N,R,·,·] and dy [N,Q,·,·]."""
    k, (down, across) = _Arrays(), sides.tiles
    held = np.zeros((*dy.shape[:2], TILE * down, TILE * across), dy.dtype)
    held[:, :, : dy.shape[2], : dy.shape[3]] = dy
    tiles = [[k.mul(held[:, :, i::TILE, j::TILE], RESULT_SCALE[i][j]) for j in range(TILE)] for i in range(TILE)]
    v, z = both_ways(k, of_input, _patches(sides, x)), both_ways(k, of_gradient, tiles)
    u = [[k.mul(_total(v[i][j], z[i][j]), FILTER_SCALE[i][j]) for j in range(PATCH)] for i in range(PATCH)]
    taps = both_ways(k, of_sums, u)
    return np.stack([np.stack(row, -1) for row in taps], -2)


def _total(v: Array, z: Array) -> Array:
    """The sums over images and tiles of z [N,Q,·,·] times v [N,R,·,·]: [Q,R]."""
    images, _, down, across = v.shape
    step, zeros = chain_rows(across), np.zeros((z.shape[1], v.shape[1]), v.dtype)
    total: Array | None = None
    for first in range(0, images, BLOCK_IMAGES):
        block: Array | None = None
        for n in range(first, min(images, first + BLOCK_IMAGES)):
            for start in range(0, down, step):
                chain = zeros
                for i in range(start, min(down, start + step)):
                    for j in range(across):
                        chain = fma(z[n, :, None, i, j], v[n, None, :, i, j], chain)
                block = chain if block is None else block + chain
        if block is not None:
            total = block if total is None else total + block
    return zeros if total is None else total
