"""Canonical trees over a row of at most `BLOCK` elements in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reductions import Lanes, Reduction
from nacre.kernel.order import BLOCK
from nacre.native.isa import Isa
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText


def vectors(f: Function, r: Reduction, row: Val, count: int, lanes: int) -> list[Val]:
    """The first vectors of a row in memory."""
    scalar = register(r.dtype)
    return [f.load(f.gep(row, k * lanes, scalar), vec(scalar, lanes)) for k in range(count)]


def tree(f: Function, r: Reduction, vectors: Sequence[Val], count: int, level: int = 0) -> Lanes:
    """The tree over the given number of vectors, given as subtrees with a number of levels."""
    sums = Lanes(f, r, lanes_of(vectors[0].ty), count)
    for v in vectors:
        sums.add(v, level)
    return sums


def filled_sum(f: Function, r: Reduction, row: Val, used: Val, count: int, lanes: int) -> Val:
    """The sum of the used elements of a row, whose absent lanes are filled up to a number of vectors."""
    absent = r.start(f, lanes)[0]
    start = f.and_(f.add(used, lanes - 1), -lanes)
    if count > 1:
        with f.loop("absent", start, count * lanes, lanes) as loop:
            f.store(absent, f.gep(row, loop.index, register(r.dtype)))
    return tree(f, r, vectors(f, r, row, count, lanes), count).lane_sum()


@lru_cache(maxsize=64)
def sum_function(isa: Isa, r: Reduction, lanes: int) -> ModuleText:
    """A function that sums the used elements of a row; its tree has at most twice the vectors that are there."""
    module = ModuleText(f"block_{r.op}_{r.dtype.name}_{lanes}")
    params = {"row": "ptr", "used": "i64"}
    f = module.function(module.name, register(r.dtype), params, linkage="internal", attributes="noinline", isa=isa)
    count = 2
    while count < BLOCK // lanes:
        stem = f.fresh("size")
        f.branch(f.icmp("sle", f["used"], count * lanes), f"{stem}.yes", f"{stem}.no")
        f.label(f"{stem}.yes")
        f.ret(filled_sum(f, r, f["row"], f["used"], count, lanes))
        f.label(f"{stem}.no")
        count *= 2
    f.ret(filled_sum(f, r, f["row"], f["used"], BLOCK // lanes, lanes))
    return module
