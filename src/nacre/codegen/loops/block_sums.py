"""Canonical trees over rows in memory: over a block of at most `BLOCK` elements, and over the sums of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reductions import Lanes, LaneStack, Reduction
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


@lru_cache(maxsize=64)
def push_function(isa: Isa, r: Reduction, lanes: int) -> ModuleText:
    """A function that adds the sums of a full block, given by its number, to a stack; it returns the new top."""
    module = ModuleText(f"block_push_{r.op}_{r.dtype.name}_{lanes}")
    params = {"row": "ptr", "stack": "ptr", "top": "i64", "number": "i64"}
    f = module.function(module.name, "i64", params, linkage="internal", attributes="noinline", isa=isa)
    count = BLOCK // lanes
    sums = tree(f, r, vectors(f, r, f["row"], count, lanes), count).result()
    f.ret(LaneStack(f, r, sums.ty, f["stack"]).push(sums, f["top"], f["number"]))
    return module


@lru_cache(maxsize=64)
def row_function(isa: Isa, r: Reduction, lanes: int) -> ModuleText:
    """A function that returns the reduction of a row of `extent` elements.

    The sums of its full blocks are on a stack, and the elements after them are in memory.
    """
    scalar, rest_sum = register(r.dtype), sum_function(isa, r, lanes)
    module = ModuleText(f"row_{r.op}_{r.dtype.name}_{lanes}")
    module.include(rest_sum)
    params = {"row": "ptr", "extent": "i64", "stack": "ptr", "top": "i64"}
    f = module.function(module.name, scalar, params, linkage="internal", attributes="noinline", isa=isa)
    rest = f.and_(f["extent"], BLOCK - 1)
    f.branch(f.icmp("sgt", rest, 0), "rest", "last")
    arms = [(r.start(f, 1)[0], f.block)]
    f.label("rest")
    f.branch(f.icmp("sle", rest, lanes), "one", "several")
    f.label("one")
    arms.append((filled_sum(f, r, f["row"], rest, 1, lanes), f.block))
    f.jump("last")
    f.label("several")
    arms.append((f.call(rest_sum.name, scalar, [f["row"], rest]), f.block))
    f.jump("last")
    f.label("last")
    total = LaneStack(f, r, vec(scalar, lanes), f["stack"]).fold_with(f.phi(scalar, arms), f["top"])
    f.ret(f.select(f.icmp("sgt", f["extent"], 0), total, r.nothing(f, 1)))
    return module
