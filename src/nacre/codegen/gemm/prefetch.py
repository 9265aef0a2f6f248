"""Prefetching: the data that a block of a large product needs next is loaded while its tiles multiply.

Each tile has a list of addresses: its ending's operands, and its share of the next bands of A and C, and of the next
block of B.  It prefetches one at a time, because processors drop more than a few at once.  Small products are in cache
already.

A list is the number of its addresses, the addresses, and its own address, which is prefetched when the others are used.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.native.text import Function, ModuleText, Val

FAR = 3 << 20  # bytes of a factor or the product beyond which it does not stay near a processor
FAR_THIN = 24 << 20  # bytes of all three, for products of few rows
LINE = 64  # bytes
MOST = 128  # lines of one kind that a tile asks for
ROOM = 8 << 10  # bytes of a list, which has three kinds and what an ending reads

PARAMETERS = {"wanted": "ptr", "from": "ptr", "stride": "i64", "rows": "i64", "bytes": "i64"}


def emit_prefetch(module: ModuleText, numbers: Numbers) -> None:
    """@want(wanted, from, stride, rows, bytes): add rows of some bytes, a stride of bytes apart, to a list."""
    f = module.function(numbers.part("want"), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes)
    lanes = numbers.isa.lanes("i64")
    count = f.load(f["wanted"], "i64")
    lines = share(f, f["bytes"], LINE)
    steps = f.vector("i64", [LINE * i for i in range(lanes)])
    with f.loop("r", 0, f["rows"], carry=[f["from"], f.gep(f["wanted"], f.add(count, 1), "i64")]) as outer:
        row, place = outer.carried
        with f.loop("i", 0, lines, lanes) as inner:
            first = f.cast("ptrtoint", f.gep(row, f.mul(inner.index, LINE)), "i64")
            f.store(f.add(f.splat(first, lanes), steps), f.gep(place, inner.index, "i64"))
        outer.next(f.gep(row, f["stride"]), f.gep(place, lines, "i64"))
    f.store(f["wanted"], outer.results[1])
    f.store(f.add(count, f.mul(f["rows"], lines)), f["wanted"])
    f.ret()


def begin(f: Function, wanted: Val) -> None:
    """An empty list."""
    f.store(f.i64(0), wanted)
    f.store(wanted, f.gep(wanted, 1, "i64"))


def share(f: Function, amount: Val, parts: Val | int) -> Val:
    """The share of each of several parts; the shares cover the amount.  Also the number of parts of a given size."""
    return f.binary("udiv", f.sub(f.add(amount, parts), 1), parts)


def is_far(f: Function, numbers: Numbers, m: Val, n: Val, k: Val, thin: bool) -> Val:
    """Whether matrices of a product of a size wait in memory."""
    sizes = f.mul(m, k), f.mul(k, n), f.mul(m, n)
    if thin:
        return f.icmp("sgt", f.add(f.add(*sizes[:2]), sizes[2]), FAR_THIN // numbers.stored_bytes)
    return f.icmp("sgt", f.smax(f.smax(*sizes[:2]), sizes[2]), FAR // numbers.stored_bytes)


@dataclass(frozen=True)
class Stretches:
    """Stretches of memory, of which the tiles of a band ask for some each."""

    start: Val
    apart: Val  # bytes from one to the next
    count: Val
    size: Val  # bytes
    each: Val  # how many a tile asks for

    def add(self, f: Function, numbers: Numbers, wanted: Val, tile: Val) -> None:
        """Put the share of a tile of some number on its list."""
        first = f.mul(tile, self.each)
        count = f.smax(f.smin(f.sub(self.count, first), self.each), 0)
        start = f.gep(self.start, f.mul(first, self.apart))
        f.call(numbers.part("want"), "void", [wanted, start, self.apart, count, self.size])


def stretches_of(f: Function, start: Val, apart: Val, count: Val, size: Val, tiles: Val) -> Stretches:
    """Runs of which the given number of tiles ask for what they can."""
    size = f.smin(size, MOST * LINE)
    each = f.smin(share(f, count, tiles), f.binary("udiv", MOST * LINE, f.smax(size, LINE)))
    return Stretches(start, apart, count, size, each)


@dataclass(frozen=True)
class BlockPrefetch:
    """The following block of B, of which each band asks for a part."""

    start: Val
    apart: Val  # bytes from run to run: its rows, or columns if these are contiguous
    count: Val  # of runs
    size: Val  # bytes of a run
    each: Val  # runs of a band's part

    def part(self, f: Function, band: Val, tiles: Val) -> Stretches:
        """The part of a band of some number, for its tiles."""
        first = f.mul(band, self.each)
        count = f.smax(f.smin(f.sub(self.count, first), self.each), 0)
        return stretches_of(f, f.gep(self.start, f.mul(first, self.apart)), self.apart, count, self.size, tiles)


def prefetch_of_b(
    f: Function, numbers: Numbers, start: Val, stride: tuple[Val, Val], depth: Val, columns: Val, bands: Val
) -> BlockPrefetch:  # fmt: skip
    """A block of B of the given number of k and columns."""
    by_row = f.icmp("eq", stride[1], 1)
    count, length = f.select(by_row, depth, columns), f.select(by_row, columns, depth)
    apart = f.mul(f.select(by_row, stride[0], stride[1]), numbers.stored_bytes)
    count = f.select(f.icmp("sgt", depth, 0), count, f.i64(0))
    return BlockPrefetch(start, apart, count, f.mul(length, numbers.stored_bytes), share(f, count, bands))
