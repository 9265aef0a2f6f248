"""Winograd convolutions of images whose sizes are symbols, as transforms and products.

The values at the 36 points are stored for all tiles, and a product of matrices for each point sums over channels in the
order that `kernel.order_winograd` defines.  The sums over tiles, for the gradient of filters, are a nest of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import FLOATING, DType, bool_
from nacre.base.errors import ShapeError
from nacre.base.records import dataclass
from nacre.base.types import Shape, TensorType
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Nest, Primitive, RuleKind, register_rule
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.order_winograd import (
    BLOCK_IMAGES,
    CHAIN_TILES,
    FILTER_SCALE,
    PATCH,
    RESULT_SCALE,
    TILE,
    both_ways,
    of_filter,
    of_gradient,
    of_input,
    of_product,
    of_sums,
)
from nacre.ops.dot import dot_p
from nacre.ops.identity import copy_p
from nacre.ops.reduce import loops
from nacre.ops.shape import reshape_p
from nacre.ops.winograd import winograd_input_grad_p, winograd_p, winograd_weight_grad_p

Types = Sequence[TensorType]
Pair = tuple[int, int]

POINTS: Final = PATCH * PATCH
G, O, C, N, DOWN, ACROSS = (Index(name) for name in ("g", "o", "c", "n", "down", "across"))


class Lets:
    """Arithmetic on expressions, each result of which is bound to a name."""

    def __init__(self, dtype: DType) -> None:
        self.dtype, self.statements = dtype, list[Stmt]()

    def bound(self, value: Expr) -> Expr:
        """The name of a value."""
        name = f"v{len(self.statements)}"
        self.statements.append(Let(name, value))
        return Local(name, self.dtype)

    def fma(self, a: Expr, c: float, b: Expr) -> Expr:
        """a · c + b, rounded once."""
        return self.bound(apply("fma", a, Const(c, self.dtype), b))

    def add(self, a: Expr, b: Expr) -> Expr:
        """a + b."""
        return self.bound(apply("add", a, b))

    def sub(self, a: Expr, b: Expr) -> Expr:
        """a − b."""
        return self.bound(apply("sub", a, b))

    def mul(self, a: Expr, c: float) -> Expr:
        """a · c."""
        return self.bound(apply("mul", a, Const(c, self.dtype)))


def _buffer(name: str, type: TensorType) -> Buffer:
    return Buffer(name, type.dtype, type.shape)


def _kernel(name: str, types: Types, result: TensorType, nest: tuple[Stmt, ...]) -> Kernel:
    inputs = tuple(_buffer(n, t) for n, t in zip(("x", "z"), types, strict=False))
    return Kernel(name, inputs, (_buffer("y", result),), nest)


def _tiles(type: TensorType, size: int, low: Pair, start: Expr, each: int) -> list[list[Expr]]:
    """The elements of the tile of images [N, C, H, W] at (down, across), `size` on a side; zeros outside."""
    found: list[list[Expr]] = []
    channel = index_add(index_mul(G, const(each)), start)
    for i in range(size):
        row, rows = _inside(DOWN, i - low[0], type.shape[2])
        line: list[Expr] = []
        for j in range(size):
            column, columns = _inside(ACROSS, j - low[1], type.shape[3])
            value = Load("x", (N, channel, row, column), type.dtype)
            line.append(apply("select", apply("and", rows, columns), value, Const(0, type.dtype)))
        found.append(line)
    return found


def _inside(tile: Expr, offset: int, size: Size) -> tuple[Expr, Expr]:
    """A place of a tile along an axis, moved into the image, and whether it was there."""
    at = index_add(index_mul(tile, const(TILE)), const(offset))
    last = size_expr(size - 1)
    clamped = apply("minimum", apply("maximum", at, const(0)), last)
    return clamped, apply("eq", at, clamped)


def _points(grid: Sequence[Sequence[Expr]], place: Callable[[Expr], tuple[Expr, ...]]) -> list[Stmt]:
    """The statements that store a grid of values, each at the place of its number."""
    flat = [value for row in grid for value in row]
    return [Store("y", place(const(k)), value) for k, value in enumerate(flat)]


# ---- primitives: [36, groups, channels, N, rows of tiles, columns of tiles] are the values of images; in products over
# tiles, channels are last


def _require(holds: bool, what: str, *types: TensorType) -> None:
    """Raise ShapeError unless operands fit; graphs read from files may have any."""
    if not holds:
        raise ShapeError(f"winograd: {what}; got {', '.join(map(str, types))}")


def _is_filled(x: TensorType, rank: int) -> bool:
    """Whether x has a floating-point dtype and a rank, and elements."""
    return x.dtype in FLOATING and x.rank == rank and all(isinstance(n, Dim) or n > 0 for n in x.shape)


def _values_type(x: TensorType, groups: int, low: Pair, tiles: Shape, last: bool, gradient: bool) -> TensorType:
    _require(_is_filled(x, 4), "images must be [N, C, H, W] and not empty", x)
    _require(groups > 0 and x.shape[1] % groups == 0, f"channels must be divisible by the {groups} groups", x)
    _require(len(tiles) == len(low) == 2 and all(n >= 0 for n in tiles), f"there must be two counts of {tiles}", x)
    images, channels = x.shape[0], x.shape[1] // groups
    return x.with_shape((POINTS, groups, *((images, *tiles, channels) if last else (channels, images, *tiles))))


def _values(types: Types, results: Types, groups: int, low: Pair, tiles: Shape, last: bool, gradient: bool) -> Kernel:
    """The values of image tiles at the points, or those of a result's gradient."""
    (x,), (y,) = types, results
    k, order = Lets(x.dtype), (G, N, DOWN, ACROSS, C) if last else (G, C, N, DOWN, ACROSS)
    each = int(x.shape[1]) // groups
    pixels = [[k.bound(v) for v in row] for row in _tiles(x, TILE if gradient else PATCH, low, C, each)]
    if gradient:
        pixels = [[k.mul(v, RESULT_SCALE[i][j]) for j, v in enumerate(row)] for i, row in enumerate(pixels)]
    grid = both_ways(k, of_gradient if gradient else of_input, pixels)
    body = [*k.statements, *_points(grid, lambda p: (p, *order))]
    return _kernel("winograd_values", types, y, loops(order, y.shape[1:], body))


def _filters_type(w: TensorType, groups: int, turned: bool) -> TensorType:
    _require(_is_filled(w, 4) and w.shape[2:] == (3, 3), "filters must be [O, I, 3, 3]", w)
    _require(groups > 0 and w.shape[0] % groups == 0, f"filters must be divisible by the {groups} groups", w)
    filters, channels = int(w.shape[0]) // groups, w.shape[1]
    return w.with_shape((POINTS, groups, *((channels, filters) if turned else (filters, channels))))


def _filters(types: Types, results: Types, groups: int, turned: bool) -> Kernel:
    """The values of filters at the points: [36, groups, outputs, inputs]."""
    (w,), (y,) = types, results
    k, each = Lets(w.dtype), int(w.shape[0]) // groups
    filter = index_add(index_mul(G, const(each)), C if turned else O)

    def tap(i: int, j: int) -> Expr:
        """A tap, counted from the last one if the filter is turned."""
        at = (const(2 - i), const(2 - j)) if turned else (const(i), const(j))
        return k.bound(Load("x", (filter, O if turned else C, *at), w.dtype))

    grid = both_ways(k, of_filter, [[tap(i, j) for j in range(3)] for i in range(3)])
    scaled = [[k.mul(v, FILTER_SCALE[i][j]) for j, v in enumerate(row)] for i, row in enumerate(grid)]
    body = [*k.statements, *_points(scaled, lambda p: (p, G, O, C))]
    return _kernel("winograd_filters", types, y, loops((G, O, C), y.shape[1:], body))


def _results_type(m: TensorType) -> TensorType:
    _require(_is_filled(m, 6) and m.shape[0] == POINTS, f"sums must have {POINTS} points and six axes", m)
    _, groups, outputs, images, down, across = m.shape
    return m.with_shape((images, groups, outputs, down, TILE, across, TILE))


def _results(types: Types, results: Types) -> Kernel:
    """The tiles of images, [N, groups, C, rows of tiles, 4, columns of tiles, 4], of sums of products at the points."""
    (m,), (y,) = types, results
    k = Lets(m.dtype)
    sums = [
        [k.bound(Load("x", (const(i * PATCH + j), G, O, N, DOWN, ACROSS), m.dtype)) for j in range(PATCH)]
        for i in range(PATCH)
    ]
    stores: list[Stmt] = []
    for i, row in enumerate(both_ways(k, of_product, sums)):
        for j, pixel in enumerate(row):
            at = (N, G, O, DOWN, const(i), ACROSS, const(j))
            stores.append(Store("y", at, k.mul(pixel, RESULT_SCALE[i][j])))
    body = [*k.statements, *stores]
    return _kernel("winograd_results", types, y, loops((G, O, N, DOWN, ACROSS), m.shape[1:], body))


def _cut_type(x: TensorType, shape: Shape) -> TensorType:
    fits = x.rank == len(shape) == 4 and all(n >= 0 and n <= whole for n, whole in zip(shape, x.shape, strict=True))
    _require(fits, f"images must have four axes, from which {shape} can be cut", x)
    return x.with_shape(shape)


def _cut(types: Types, results: Types, shape: Shape) -> Kernel:
    """Images without the pixels beyond them, which the last tiles have."""
    (x,), (y,) = types, results
    at = (N, C, DOWN, ACROSS)
    return _kernel("winograd_cut", types, y, loops(at, shape, [Store("y", at, Load("x", at, x.dtype))]))


def _sums_type(v: TensorType, z: TensorType) -> TensorType:
    fits = _is_filled(v, 6) and z.rank == 6 and v.dtype is z.dtype and v.shape[:5] == z.shape[:5]
    _require(fits and v.shape[0] == POINTS, f"values must have {POINTS} points and the same tiles", v, z)
    return v.with_shape((POINTS, v.shape[1], z.shape[5], v.shape[5]))


def _sums(types: Types, results: Types) -> Kernel:
    """The sums over images and tiles of the products of both values: [36, groups, outputs, inputs]."""
    v, (y,) = types[0], results
    dtype, point = v.dtype, Index("p")
    chain, block, total = (Load(name, (), dtype) for name in ("chain", "block", "total"))
    factors = (Load("z", (point, G, N, DOWN, ACROSS, O), dtype), Load("x", (point, G, N, DOWN, ACROSS, C), dtype))
    images, down, across = v.shape[2:5]
    rows = apply("maximum", apply("idiv", const(CHAIN_TILES), size_expr(across)), const(1))
    chain_ends = _ends(DOWN, down, rows)
    block_ends = _ends(N, images, const(BLOCK_IMAGES))
    line = (
        For("across", across, (Store("chain", (), apply("fma", *factors, chain)),)),
        If(chain_ends, _moved("chain", chain, "block", block)),
    )
    image = (For("down", down, line), If(block_ends, _moved("block", block, "total", total)))
    names = ("chain", "block", "total")
    body = (
        *(Alloc(Buffer(name, dtype, ())) for name in names),
        *(Alloc(Buffer(f"{name}_seen", bool_, ())) for name in names),
        *(Store(name, (), Const(0, dtype)) for name in names),
        *(Store(f"{name}_seen", (), Const(False, bool_)) for name in names),
        For("n", images, image),
        Store("y", (point, G, O, C), total),
    )
    return _kernel("winograd_sums", types, y, loops((point, G, O, C), y.shape, body))


def _ends(index: Expr, size: Size, step: Expr) -> Expr:
    """Whether an index is the last one of `step` successive ones, or of all."""
    following = index_add(index, const(1))
    return apply("or", apply("eq", apply("rem", following, step), const(0)), apply("eq", following, size_expr(size)))


def _moved(name: str, value: Expr, to: str, held: Expr) -> tuple[Stmt, ...]:
    """The statements that add a sum to another, of which it may be the first, and begin again."""
    seen = Load(f"{to}_seen", (), bool_)
    return (
        Store(to, (), apply("select", seen, apply("add", held, value), value)),
        Store(f"{to}_seen", (), Const(True, bool_)),
        Store(name, (), Const(0, value.dtype)),
        Store(f"{name}_seen", (), Const(False, bool_)),
    )


def _taps_type(s: TensorType) -> TensorType:
    _require(_is_filled(s, 4) and s.shape[0] == POINTS, f"sums must have {POINTS} points and four axes", s)
    return s.with_shape((*s.shape[1:], 3, 3))


def _taps(types: Types, results: Types) -> Kernel:
    """The gradient of filters [groups, O, C, 3, 3] from sums at the points."""
    (s,), (y,) = types, results
    k = Lets(s.dtype)
    grid = [
        [k.mul(Load("x", (const(i * PATCH + j), G, O, C), s.dtype), FILTER_SCALE[i][j]) for j in range(PATCH)]
        for i in range(PATCH)
    ]
    taps = both_ways(k, of_sums, grid)
    stores = [Store("y", (G, O, C, const(i), const(j)), taps[i][j]) for i in range(3) for j in range(3)]
    return _kernel("winograd_taps", types, y, loops((G, O, C), s.shape[1:], [*k.statements, *stores]))


values_p: Final = Primitive("winograd_values", _values_type, Nest(_values))
filters_p: Final = Primitive("winograd_filters", _filters_type, Nest(_filters))
results_p: Final = Primitive("winograd_results", _results_type, Nest(_results))
cut_p: Final = Primitive("winograd_cut", _cut_type, Nest(_cut))
sums_p: Final = Primitive("winograd_sums", _sums_type, Nest(_sums))
taps_p: Final = Primitive("winograd_taps", _taps_type, Nest(_taps))


# ---- the pass

PARTS: Final[RuleKind[Callable[[_Writer, Equation], None]]] = RuleKind("parts of a convolution")


def divide_winograd(graph: Graph) -> Graph:
    """The graph in which Winograd convolutions of images with symbolic sizes are several equations."""
    if not any(map(_parts, graph.equations)):
        return graph
    writer = _Writer()
    for e in graph.equations:
        write = _parts(e)
        if write is None:
            writer.equations.append(e)
        else:
            write(writer, e)
    return Graph(graph.inputs, tuple(writer.equations), graph.outputs, graph.name)


def _parts(e: Equation) -> Callable[[_Writer, Equation], None] | None:
    """The function that writes the parts of an equation; None for one that stays."""
    found = PARTS.of(e.primitive)
    if found is None:
        return None
    types = (*(x.type for x in e.inputs), e.outputs[0].type)
    return found if any(isinstance(n, Dim) for type in types for n in type.shape[2:]) else None


def _tile_counts(shape: Shape) -> Shape:
    return tuple((n + (TILE - 1)) // TILE for n in shape[2:])


@dataclass
class _Writer:
    """Collects equations."""

    def __post_init__(self) -> None:
        self.equations: list[Equation] = []

    def value(self, e: Equation, primitive: Primitive, inputs: Sequence[Atom], params: Mapping[str, Any]) -> Var:
        """The value of a new equation in place of e."""
        (type,) = primitive.result_types(tuple(x.type for x in inputs), params)
        found = Var(type)
        self.equations.append(Equation(primitive, tuple(inputs), dict(params), (found,), e.source))
        return found

    def result(self, e: Equation, primitive: Primitive, inputs: Sequence[Atom], params: Mapping[str, Any]) -> None:
        """Define the result of e by a new equation."""
        self.equations.append(Equation(primitive, tuple(inputs), dict(params), e.outputs, e.source))

    def correlation(self, e: Equation, turned: bool) -> None:
        """A convolution, or the gradient of its image."""
        (x, w), y, groups = e.inputs, e.outputs[0].type.shape, e.params["groups"]
        lows = [pad[0] for pad in e.params["padding"]]
        low = tuple(2 - n for n in lows) if turned else tuple(lows)
        about = {"groups": groups, "tiles": _tile_counts(y), "last": False, "gradient": False}
        v = self.value(e, values_p, (x,), {**about, "low": low})
        u = self.value(e, filters_p, (w,), {"groups": groups, "turned": turned})
        m = self.value(e, dot_p, (u, v), {"batch": ((0, 1), (0, 1)), "contract": ((3,), (2,))})
        tiles = self.value(e, results_p, (m,), {})
        plane = tuple(TILE * n for n in _tile_counts(y))
        plain = self.value(e, reshape_p, (tiles,), {"shape": (*y[:2], *plane)})
        self.result(e, cut_p, (plain,), {"shape": y})

    def filters_grad(self, e: Equation) -> None:
        """The gradient of filters."""
        (x, g), groups = e.inputs, e.params["groups"]
        low = tuple(pad[0] for pad in e.params["padding"])
        about = {"groups": groups, "tiles": _tile_counts(g.type.shape), "last": True}
        v = self.value(e, values_p, (x,), {**about, "low": low, "gradient": False})
        z = self.value(e, values_p, (g,), {**about, "low": (0, 0), "gradient": True})
        s = self.value(e, sums_p, (v, z), {})
        taps = self.value(e, taps_p, (s,), {})
        self.result(e, copy_p, (self.value(e, reshape_p, (taps,), {"shape": e.outputs[0].type.shape}),), {})


register_rule(winograd_p, PARTS, lambda writer, e: writer.correlation(e, False))
register_rule(winograd_input_grad_p, PARTS, lambda writer, e: writer.correlation(e, True))
register_rule(winograd_weight_grad_p, PARTS, _Writer.filters_grad)
