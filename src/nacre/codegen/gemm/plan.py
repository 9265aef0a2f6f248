"""How a matrix product is cut into work items: an analytical model; no choice changes any bit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import heapreplace
from typing import NamedTuple

from nacre.base.dims import Size
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.runtime.plan import Cut
from nacre.runtime.tunables import choose

BLOCK = 256  # rows of k in a block: chains restart after this number of products
FEW = 8  # rows up to which B is read once, by the GEMV kernel
STRIPS = 4  # vectors of columns that the GEMV kernel advances together where columns are contiguous
FIRST_CACHE = 16 * 1024  # bytes of sums that stay in the L1 cache beside rows of B
CACHE = 512 * 1024  # bytes of packed B that stay in the L2 cache
SMALL = 6000  # vector operations (about 2 µs) below which another thread does not pay
RANKED = 100_000  # those from which on blocks for one thread are ranked
MANY = 16  # items for each thread from which on the load counts as balanced
EACH = 4  # items of a thread that reads columns of B
MEASURED = 8  # blockings of a product that a search measures
ITEM = 60  # vector operations that an item's start costs
CHAINS = 8  # least multiply-add chains of a tile that hide their latency


@dataclass(frozen=True)
class GemmTiling:
    """The properties of a kernel on which its plans depend.

    `spills` says that partial sums are stored in scratch memory, because C cannot hold them; `gemv` that the kernel is
    the GEMV.
    """

    lanes: int
    bytes: int  # of an element of packed factors
    tall: int  # rows of a register tile
    short: int  # rows of the next smaller tile; smaller powers of two follow
    panel: int  # columns of one
    block_at: int  # where packed B begins in scratch memory
    spills: bool
    gemv: bool
    group: int = 1  # numbers of k in an element of packed factors

    def __hash__(self) -> int:
        """A hash that takes less time than that of all fields; each division of a product needs it."""
        return self.block_at


class GemmPlan(NamedTuple):
    """The blocking of one product.

    A kernel takes `items` items, `grain` at least at a time, with `scratch` bytes for each thread;
    the argument slots `rows`, `columns` and `swap` carry the rest.
    """

    items: int
    grain: int
    scratch: int
    rows: int
    columns: int
    swap: int


class Orientation(NamedTuple):
    """A product as a block sees it: sizes and B's contiguous axis, after the factors are swapped or not."""

    m: int
    n: int
    axis: str
    swap: bool

    @property
    def gemv(self) -> bool:
        return 1 <= self.m <= FEW and self.axis != "-"


def orient(tiling: GemmTiling, m: int, n: int, k: int, axes: str) -> Orientation:
    """Compute Cᵀ instead of C where that fills vectors better."""
    a_axis, b_axis = axes
    if n <= tiling.lanes and n < m:
        plain = _cost(tiling, m, n, k, b_axis == "n")
        if _cost(tiling, n, m, k, a_axis == "m") + m * n / 2 < plain:
            return Orientation(n, m, {"m": "n", "k": "k"}.get(a_axis, "-"), True)
    return Orientation(m, n, b_axis, False)


def make_plan(
    tiling: GemmTiling, m: int, n: int, k: int, batch: int, threads: int,
    axes: str,
) -> GemmPlan:  # fmt: skip
    """The division of C[batch, m, n] = A·B into items that the model ranks first; see `make_plans`."""
    return make_plans(tiling, m, n, k, batch, threads, axes)[0]


def make_plans(
    tiling: GemmTiling, m: int, n: int, k: int, batch: int, threads: int,
    axes: str,
) -> tuple[GemmPlan, ...]:  # fmt: skip
    """The divisions of C[batch, m, n] = A·B into items that are worth measuring, the model's best first.

    `axes` names the contiguous axis of A ("m", "k" or "-") and of B ("k", "n" or "-").
    """
    if not (m and n and batch):
        return (GemmPlan(0, 1, tiling.block_at, 1, 1, 0),)
    oriented = orient(tiling, m, n, k, axes)
    m, n, b_axis, swap = oriented.m, oriented.n, oriented.axis, int(oriented.swap)
    if tiling.gemv and not oriented.gemv:
        raise ArgumentError(
            f"contract: the gemv kernel needs at most {FEW} rows or columns, and a contiguous axis of the other "
            "factor; "
            f"got {m} × {n} and {axes!r}; use the packed kernel"
        )
    total = batch * _cost(tiling, m, n, k, b_axis == "n")
    threads = int(max(1, min(threads, total // SMALL)))
    if tiling.gemv:
        cuts = [(m, _gemv_columns(tiling, m, n, k, b_axis, batch, threads))]
    else:
        spills = tiling.spills and not swap
        if total < (SMALL if threads > 1 else RANKED):  # ranking would take longer than the product
            cuts = [_cut(tiling, m, n, *_fewest(tiling, m, n, k, spills), bool(swap))]
        else:
            found = _cuts(tiling, m, n, k, threads, spills, bool(swap))
            cuts = sorted(found, key=lambda cut: _makespan(tiling, cut, (m, n, k), batch, threads, b_axis == "n"))
    return tuple([_plan(tiling, cut, (m, n, k), batch, threads, total, swap) for cut in cuts[:MEASURED]])


def _plan(
    tiling: GemmTiling, cut: tuple[int, int], size: tuple[int, int, int], batch: int, threads: int, total: float,
    swap: int,
) -> GemmPlan:  # fmt: skip
    """The plan with blocks of a size, for a product of the given number of vector operations."""
    (rows, columns), (m, n, k) = cut, size
    items = batch * _up(m, rows) * _up(n, columns)
    grain = max(1, min(items // (4 * threads), int(SMALL // max(1.0, total / items))))
    depth = 2 * rows if tiling.gemv else _up(min(k, BLOCK), 16) * 16 // tiling.group + (tiling.group > 1)
    scratch = _scratch(tiling, rows, columns, depth, bool(swap), tiling.spills and k > BLOCK)
    return GemmPlan(items, grain, scratch, rows, columns, swap)


def _gemv_columns(tiling: GemmTiling, m: int, n: int, k: int, axis: str, batch: int, threads: int) -> int:
    """The columns of a GEMV item: whole rows of B, or strips of columns in items long enough for prefetches."""
    share = _up(n, _up(threads, batch))
    if axis == "n":
        return _up(min(share, FIRST_CACHE // (m * tiling.bytes)), tiling.lanes) * tiling.lanes
    strips = STRIPS * tiling.lanes
    least = max(4 * strips, SMALL * tiling.lanes // (6 * max(k, 1)))
    return _up(max(min(share, least), share // EACH), strips) * strips


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _cost(tiling: GemmTiling, m: int, n: int, k: int, rows_contiguous: bool) -> float:
    """Vector operations of a block of m × n: multiplications, packing of B, output."""
    vectors = tiling.panel // tiling.lanes
    full, rest = divmod(_up(n, tiling.lanes), vectors)
    strips = full * vectors + 2 * rest  # a tile of one vector waits for its elements of A
    whole, left = divmod(m, tiling.tall)
    shorts, rest = divmod(left, tiling.short)
    least = max(1.0, CHAINS / vectors)  # rows of the shortest tile that is not limited by latency
    row_panels = whole * tiling.tall + shorts * max(tiling.short, least) + rest.bit_count() * least
    packing = 1.0 if rows_contiguous else 5.6  # rows are packed during multiplications
    return _up(k, tiling.group) * strips * (row_panels + packing) + m * strips * 3 + ITEM


def _fewest(tiling: GemmTiling, m: int, n: int, k: int, spills: bool) -> tuple[int, int, int]:
    """The columns of the widest block, and the least numbers of pieces of n and m."""
    depth = max(1, -(-min(k, BLOCK) // tiling.group) + (tiling.group > 1))
    widest = max(tiling.panel, CACHE // (depth * tiling.bytes) // tiling.panel * tiling.panel)
    return widest, -(-n // widest), -(-m // 256) if spills and k > BLOCK else 1


def _cut(tiling: GemmTiling, m: int, n: int, widest: int, pieces_n: int, pieces_m: int, swap: bool) -> tuple[int, int]:
    """The rows and columns of blocks, of whole tiles and panels or strips, for numbers of pieces of n and m."""
    share = _up(n, pieces_n)
    unit = tiling.panel if share > tiling.panel else tiling.lanes
    columns = min(_up(share, unit) * unit, max(widest, n % tiling.lanes))
    return m if swap else _up(_up(m, pieces_m), tiling.tall) * tiling.tall, columns


def _cuts(
    tiling: GemmTiling, m: int, n: int, k: int, threads: int, spills: bool, swap: bool
) -> Iterator[tuple[int, int]]:
    """Candidate block sizes: even cuts of m and n."""
    widest, fewest_n, fewest_m = _fewest(tiling, m, n, k, spills)
    seen: set[tuple[int, int]] = set()
    for pieces_n in range(fewest_n, fewest_n + 2 * threads):
        for pieces_m in (1,) if swap else range(fewest_m, fewest_m + 2 * threads):
            if pieces_n * pieces_m > fewest_n * fewest_m + 3 * threads:
                break
            cut = _cut(tiling, m, n, widest, pieces_n, pieces_m, swap)
            if cut not in seen:
                seen.add(cut)
                yield cut


def _makespan(
    tiling: GemmTiling, cut: tuple[int, int], size: tuple[int, int, int], batch: int, threads: int,
    rows_contiguous: bool,
) -> float:  # fmt: skip
    """The time of the busiest thread, if each free thread takes the next item."""
    m, n, k = size
    rows, columns = min(cut[0], m), min(cut[1], n)
    down, across = _up(m, rows), _up(n, columns)
    costs = {
        (r, c): _cost(tiling, r, c, k, rows_contiguous)
        for r in (rows, m - (down - 1) * rows)
        for c in (columns, n - (across - 1) * columns)
    }
    each = [costs[r, c] for c in _pieces(n, columns) for r in _pieces(m, rows)]
    if batch * len(each) > MANY * threads:
        return batch * sum(each) / threads + max(each)
    busy = [0.0] * threads
    for cost in each * batch:
        heapreplace(busy, busy[0] + cost)
    return max(busy)


def _pieces(size: int, piece: int) -> list[int]:
    """The sizes of the pieces of a size; the last piece is the remainder."""
    whole, rest = divmod(size, piece)
    return [piece] * whole + [rest] * (rest > 0)


def _scratch(tiling: GemmTiling, rows: int, columns: int, depth: int, swap: bool, waits: bool) -> int:
    """Bytes that `block` uses: the fixed part, packed B, and the partial sums that it stores in scratch."""
    size, lanes = tiling.bytes, tiling.lanes
    wide = _up(columns, lanes) * lanes
    total = tiling.block_at + depth * wide * size
    if swap:
        total += lanes * (wide + 64 // size) * size + wide * lanes * size
    elif waits:
        total += rows * (wide * size + 64)
    return total + 64


def contiguous(am: Size, ak: Size, bk: Size, bn: Size) -> str:
    """The contiguous axis of A and that of B, by their strides."""
    return ("k" if ak == 1 else "m" if am == 1 else "-") + ("n" if bn == 1 else "k" if bk == 1 else "-")


def product_cut(tiling: GemmTiling, sizes: tuple[int, ...], threads: int) -> Cut:
    """How a product of given sizes and strides (m n k batch a.m a.k b.k b.n) is divided among threads."""
    cuts = product_cuts(tiling, sizes, threads)
    if len(cuts) == 1:
        return cuts[0]
    return choose(f"product {tiling.bytes} {tiling.group} {tiling.spills:d} {tiling.gemv:d} {sizes} {threads}", cuts)


@lru_cache(maxsize=4096)
def product_cuts(tiling: GemmTiling, sizes: tuple[int, ...], threads: int) -> tuple[Cut, ...]:
    """The divisions of a product that are worth measuring, the model's best first."""
    m, n, k, batch, am, ak, bk, bn = sizes
    plans = make_plans(tiling, m, n, k, batch, threads, contiguous(am, ak, bk, bn))
    return tuple([Cut(p.items, p.grain, p.scratch, (p.rows, p.columns, p.swap)) for p in plans])


def grouped_cut(tiling: GemmTiling, sizes: tuple[int, ...], threads: int) -> Cut:
    """How a product whose groups of rows have a matrix each is divided (sizes: m n k groups a.m a.k b.k b.n).

    An item is a block of columns for all rows of a group; the GEMV kernel takes `FEW` of them at a time.
    """
    m, n, k, groups, *strides = sizes
    rows = FEW if tiling.gemv else max(1, m)
    plan = make_plan(tiling, min(rows, _up(m, groups) or 1), n, k, 1, threads, contiguous(*strides))
    scratch = _scratch(tiling, rows, plan.columns, 2 * rows, False, False) if tiling.gemv else plan.scratch
    return Cut(groups * _up(n, plan.columns), 1, scratch, (rows, plan.columns, 0))
