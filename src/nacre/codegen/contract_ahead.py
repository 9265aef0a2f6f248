"""Asking for memory ahead: what a block of a large product needs next is on its way while its tiles multiply.

Each tile asks for its share of the following band of A and of the following block of B, into the second-level cache,
and for the rows of C that it is about to change.  Small products lie in caches already, and would only lose time.
"""

from __future__ import annotations

from dataclasses import dataclass

from nacre.codegen.contract_numbers import Numbers
from nacre.codegen.contract_plan import BLOCK
from nacre.native.text import Function, Module, Val

FAR = 24 << 20  # bytes of both factors and the product from which on they do not stay in a processor's caches
LINE = 64  # bytes

PARAMETERS = {"from": "ptr", "stride": "i64", "rows": "i64", "bytes": "i64"}


def emit_ahead(module: Module, numbers: Numbers) -> None:
    """@ahead_read, @ahead_write(from, stride, rows, bytes): ask for rows of some bytes, a stride of bytes apart."""
    for name, writes, level in (("ahead_read", False, 2), ("ahead_write", True, 1)):
        f = module.function(
            numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes
        )
        with f.loop("r", 0, f["rows"], carry=[f["from"]]) as outer:
            row = outer.carried[0]
            with f.loop("i", 0, f["bytes"], LINE) as inner:
                f.prefetch(f.gep(row, inner.index), writes, level)
            outer.next(f.gep(row, f["stride"]))
        f.ret()


def is_far(f: Function, numbers: Numbers, m: Val, n: Val, k: Val) -> Val:
    """Whether the matrices of a product of a size wait in memory."""
    elements = f.add(f.mul(f.add(m, n), k), f.mul(m, n))
    return f.icmp("sgt", elements, FAR // numbers.stored_bytes)


@dataclass(frozen=True)
class Reach:
    """A block, as far as it matters here: its size, and the strides of its factors in elements."""

    f: Function
    numbers: Numbers
    tall: int
    panel: int
    far: Val
    rows: Val
    columns: Val
    stride_a: tuple[Val, Val]  # m, k
    stride_b: tuple[Val, Val]  # k, n

    def share(self, amount: Val, parts: Val) -> Val:
        """What each of so many parts asks for, so that all is asked for in the end."""
        return self.f.binary("udiv", self.f.sub(self.f.add(amount, parts), 1), parts)


@dataclass(frozen=True)
class Ahead:
    """What the tiles of one block of k ask for: bands of A below them, and A and B of the next block of k."""

    reach: Reach
    a_runs: Val  # contiguous runs of a band of A: its rows, or one for each k
    a_bytes: Val  # of a run
    a_apart: Val  # bytes from run to run
    a_share: Val  # runs that one tile asks for
    a_after: Val  # where the next block of k begins in the first band of A
    b_after: Val  # and in B
    depth: Val  # of the next block of k; 0 if there is none
    b_share: Val  # k that a band's tiles ask for

    def band(self, index: Val, source: Val, more: Val) -> Following:
        """For a band of A at `source`: what its tiles ask for; `more` tells that another band follows."""
        reach = self.reach
        f, numbers = reach.f, reach.numbers
        below = f.gep(source, f.mul(reach.stride_a[0], reach.tall), numbers.stored)
        runs = f.select(f.or_(more, f.icmp("sgt", self.depth, 0)), self.a_runs, f.i64(0))
        start = f.mul(index, self.b_share)
        b = f.gep(self.b_after, f.mul(start, reach.stride_b[0]), numbers.stored)
        left = f.smax(f.smin(f.sub(self.depth, start), self.b_share), 0)
        return Following(self, f.select(more, below, self.a_after), runs, b, left)


@dataclass(frozen=True)
class Following:
    """What the tiles of one band of A ask for."""

    ahead: Ahead
    a: Val
    a_runs: Val
    b: Val
    depth: Val  # rows of k of B

    def ask(self, tile: Val, column: Val, width: Val, c: tuple[Val, Val, Val]) -> None:
        """Ask for a tile's share: `width` columns from `column` on, and its C: address, bytes from row to row, rows."""
        ahead, reach = self.ahead, self.ahead.reach
        f, numbers = reach.f, reach.numbers
        with f.when(reach.far):
            f.call(numbers.part("ahead_write"), "void", [*c, f.mul(width, numbers.bytes)])
            done = f.mul(tile, ahead.a_share)
            f.call(numbers.part("ahead_read"), "void", [
                f.gep(self.a, f.mul(done, ahead.a_apart)), ahead.a_apart,
                f.smin(ahead.a_share, f.sub(self.a_runs, done)), ahead.a_bytes,
            ])  # fmt: skip
            by_row = f.icmp("eq", reach.stride_b[1], 1)
            b = f.gep(self.b, f.mul(column, reach.stride_b[1]), numbers.stored)
            runs, run = f.select(by_row, self.depth, width), f.select(by_row, width, self.depth)
            apart = f.select(by_row, reach.stride_b[0], reach.stride_b[1])
            f.call(numbers.part("ahead_read"), "void", [
                b, f.mul(apart, numbers.stored_bytes), runs, f.mul(run, numbers.stored_bytes),
            ])  # fmt: skip


def make_ahead(reach: Reach, a: Val, b: Val, depth: Val, following: Val) -> Ahead:
    """What to ask for during a block of k of some depth that begins at a and b; `following` is the next one's depth."""
    f, size = reach.f, reach.numbers.stored_bytes
    by_row = f.icmp("eq", reach.stride_a[1], 1)
    runs = f.select(by_row, f.i64(reach.tall), depth)
    tiles = reach.share(reach.columns, f.i64(reach.panel))
    bands = reach.share(reach.rows, f.i64(reach.tall))
    return Ahead(
        reach,
        runs,
        f.mul(f.select(by_row, depth, f.i64(reach.tall)), size),
        f.mul(f.select(by_row, reach.stride_a[0], reach.stride_a[1]), size),
        reach.share(runs, tiles),
        f.gep(a, f.mul(reach.stride_a[1], BLOCK), reach.numbers.stored),
        f.gep(b, f.mul(reach.stride_b[0], BLOCK), reach.numbers.stored),
        f.smax(following, 0),
        reach.share(f.smax(following, 0), bands),
    )
