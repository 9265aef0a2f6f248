"""Prefetching: the data that a block of a large product needs next is loaded while its tiles multiply.

Each tile has a list of addresses: its epilogue's operands, and its share of the next row panels of A and C, and of the
next block of B.  It prefetches one at a time, because processors drop more than a few at once.  Small products are in
cache already.

A list is the number of its addresses, the addresses, and its own address, which is prefetched when the others are used.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

FAR = 3 << 20  # bytes of a factor or the product beyond which it does not stay in cache
FAR_THIN = 24 << 20  # bytes of all three, for GEMV
LINE = 64  # bytes
MOST = 128  # lines of one kind that a tile prefetches
ROOM = 8 << 10  # bytes of a list, which has three kinds and the epilogue's operands

PARAMETERS = {"addresses": "ptr", "from": "ptr", "stride": "i64", "rows": "i64", "bytes": "i64"}


def emit_prefetch(module: ModuleText, numbers: Numbers) -> None:
    """@append(addresses, from, stride, rows, bytes): append rows of some bytes, a stride of bytes apart, to a list."""
    f = module.function(numbers.part("append"), "void", PARAMETERS, linkage="internal", isa=numbers.isa)
    lanes = numbers.isa.lanes("i64")
    count = f.load(f["addresses"], "i64")
    lines = share(f, f["bytes"], LINE)
    steps = f.vector("i64", [LINE * i for i in range(lanes)])
    with f.loop("r", 0, f["rows"], carry=[f["from"], f.gep(f["addresses"], f.add(count, 1), "i64")]) as outer:
        row, place = outer.carried
        with f.loop("i", 0, lines, lanes) as inner:
            first = f.cast("ptrtoint", f.gep(row, f.mul(inner.index, LINE)), "i64")
            f.store(f.add(f.splat(first, lanes), steps), f.gep(place, inner.index, "i64"))
        outer.next(f.gep(row, f["stride"]), f.gep(place, lines, "i64"))
    f.store(f["addresses"], outer.results[1])
    f.store(f.add(count, f.mul(f["rows"], lines)), f["addresses"])
    f.ret()


def begin(f: Function, addresses: Val) -> None:
    """Empty the list."""
    f.store(f.i64(0), addresses)
    f.store(addresses, f.gep(addresses, 1, "i64"))


def share(f: Function, amount: Val, parts: Val | int) -> Val:
    """The amount divided by the parts, rounded up; also the number of parts of a given size."""
    return f.binary("udiv", f.sub(f.add(amount, parts), 1), parts)


def is_far(f: Function, numbers: Numbers, m: Val, n: Val, k: Val, gemv: bool) -> Val:
    """Whether the matrices of a product of a size are in memory instead of a cache."""
    sizes = f.mul(m, k), f.mul(k, n), f.mul(m, n)
    if gemv:
        return f.icmp("sgt", f.add(f.add(*sizes[:2]), sizes[2]), FAR_THIN // numbers.stored_bytes)
    return f.icmp("sgt", f.smax(f.smax(*sizes[:2]), sizes[2]), FAR // numbers.stored_bytes)


@dataclass(frozen=True)
class PrefetchRuns:
    """Equal pieces of memory, which the tiles of a row panel prefetch, some each."""

    start: Val
    stride: Val  # bytes from one to the next
    count: Val
    size: Val  # bytes
    each: Val  # pieces that a tile prefetches

    def add(self, f: Function, numbers: Numbers, addresses: Val, tile: Val) -> None:
        """Append the share of the tile of some number to its list."""
        first = f.mul(tile, self.each)
        count = f.smax(f.smin(f.sub(self.count, first), self.each), 0)
        start = f.gep(self.start, f.mul(first, self.stride))
        f.call(numbers.part("append"), "void", [addresses, start, self.stride, count, self.size])


def prefetch_runs(f: Function, start: Val, stride: Val, count: Val, size: Val, tiles: Val) -> PrefetchRuns:
    """Runs that the given number of tiles prefetch, up to the limit."""
    size = f.smin(size, MOST * LINE)
    each = f.smin(share(f, count, tiles), f.binary("udiv", MOST * LINE, f.smax(size, LINE)))
    return PrefetchRuns(start, stride, count, size, each)


@dataclass(frozen=True)
class BlockPrefetch:
    """The next block of B, of which each row panel prefetches a part."""

    start: Val
    stride: Val  # bytes from run to run: its rows, or columns if these are contiguous
    count: Val  # of runs
    size: Val  # bytes of a run
    each: Val  # runs of a row panel's part

    def part(self, f: Function, row_panel: Val, tiles: Val) -> PrefetchRuns:
        """The part of the row panel of some number, for its tiles."""
        first = f.mul(row_panel, self.each)
        count = f.smax(f.smin(f.sub(self.count, first), self.each), 0)
        return prefetch_runs(f, f.gep(self.start, f.mul(first, self.stride)), self.stride, count, self.size, tiles)


def prefetch_of_b(
    f: Function, numbers: Numbers, start: Val, stride: tuple[Val, Val], depth: Val, columns: Val, row_panels: Val
) -> BlockPrefetch:  # fmt: skip
    """A block of B of the given number of k and columns."""
    by_row = f.icmp("eq", stride[1], 1)
    count, length = f.select(by_row, depth, columns), f.select(by_row, columns, depth)
    run_stride = f.mul(f.select(by_row, stride[0], stride[1]), numbers.stored_bytes)
    count = f.select(f.icmp("sgt", depth, 0), count, f.i64(0))
    return BlockPrefetch(start, run_stride, count, f.mul(length, numbers.stored_bytes), share(f, count, row_panels))
