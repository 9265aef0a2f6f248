"""Pairs: packed short integers, of which two neighbours in k share one 32-bit element.

One instruction multiplies both halves of such elements and adds the products: exactly, as 16 bits hold the factors
and sums wrap at 32 bits in any order.  A k without a neighbour meets a zero.
"""

from __future__ import annotations

from nacre.codegen.contract_numbers import Numbers
from nacre.native.text import Function, Module, Val

HALF = 0xFFFF


def emit_pairs(module: Module, numbers: Numbers) -> None:
    """Write both functions, which work in place.

    @pair_rows(at, row, count): of `count` rows of `row` bytes (whole vectors), one for each k, two become one.
    @pair_along(at, row, count, rows): of the `count` elements of each of `rows` rows, `row` bytes apart, two become
    one; rows have room for whole pairs of vectors.
    """
    _emit_rows(module, numbers)
    _emit_along(module, numbers)


def _emit_rows(module: Module, numbers: Numbers) -> None:
    f = module.function(
        numbers.part("pair_rows"), "void", {"at": "ptr", "row": "i64", "count": "i64"}, linkage="internal",
        attributes=numbers.isa.attributes,
    )  # fmt: skip
    whole = f.lshr(f["count"], 1)
    with f.loop("pair", 0, whole, carry=[f["at"], f["at"]]) as loop:
        source, target = loop.carried
        following = f.gep(source, f["row"])
        with f.loop("j", 0, f["row"], numbers.lanes * numbers.bytes) as inner:
            first, second = (f.load(f.gep(p, inner.index), numbers.vector) for p in (source, following))
            f.store(_paired(f, first, second), f.gep(target, inner.index))
        loop.next(f.gep(following, f["row"]), f.gep(target, f["row"]))
    source, target = loop.results
    with f.when(f.icmp("ne", f.and_(f["count"], 1), 0)), f.loop(
        "j", 0, f["row"], numbers.lanes * numbers.bytes
    ) as inner:
        first = f.load(f.gep(source, inner.index), numbers.vector)
        f.store(_paired(f, first, f.zero(numbers.vector)), f.gep(target, inner.index))
    f.ret()


def _emit_along(module: Module, numbers: Numbers) -> None:
    lanes = numbers.lanes
    f = module.function(
        numbers.part("pair_along"), "void", {"at": "ptr", "row": "i64", "count": "i64", "rows": "i64"},
        linkage="internal", attributes=numbers.isa.attributes,
    )  # fmt: skip
    with f.loop("r", 0, f["rows"], carry=[f["at"]]) as loop:
        row = loop.carried[0]
        with f.when(f.icmp("ne", f.and_(f["count"], 1), 0)):
            f.store(f.const(numbers.wide, 0), f.gep(row, f["count"], numbers.wide))
        with f.loop("k", 0, f["count"], 2 * lanes) as inner:
            source = f.gep(row, inner.index, numbers.wide)
            low, high = (f.load(f.gep(source, n, numbers.wide), numbers.vector) for n in (0, lanes))
            first, second = (f.shuffle(low, high, range(odd, 2 * lanes, 2)) for odd in (0, 1))
            f.store(_paired(f, first, second), f.gep(row, f.lshr(inner.index, 1), numbers.wide))
        loop.next(f.gep(row, f["row"]))
    f.ret()


def _paired(f: Function, first: Val, second: Val) -> Val:
    """The low halves of two vectors of integers, the first's below."""
    return f.or_(f.and_(first, f.const(first.ty, HALF)), f.shl(second, f.const(first.ty, 16)))
