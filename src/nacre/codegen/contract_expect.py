"""Asking for what an ending reads while its tile multiplies, so that whole matrices cost no wait.

All lines at once would keep the tile's own loads waiting; a tile that `expects` asks for a row of each every few k.
"""

from __future__ import annotations

from nacre.codegen.contract_finish import Ending, Slots, matrix
from nacre.codegen.contract_numbers import Numbers
from nacre.codegen.contract_tile import PARAMETERS, Shape, tile_step
from nacre.native.text import Function, Module, Val

LINE = 64  # bytes
CELL = 16  # bytes of what is noted of a matrix: the next row's address, and bytes from row to row
EXPECTING = "expecting_tile"


def cells(f: Function, ending: Ending) -> Val:
    """Memory for what is noted of the full operands."""
    return f.alloca("i64", 2 * len(ending.full))


def emit_expect(module: Module, numbers: Numbers, ending: Ending, slots: Slots) -> None:
    """@expect(args, outer, inner, m, n, cells): note where the full operands of an ending lie for the tile at m, n."""
    params = {"args": "ptr", **dict.fromkeys(("outer", "inner", "m", "n"), "i64"), "cells": "ptr"}
    f = module.function("expect", "void", params, linkage="internal", attributes=numbers.isa.attributes)
    for j, k in enumerate(ending.full):
        operand = matrix(f, slots, f"Operand{k}", "full", ending.operands[k].dtype)
        assert operand.step is not None
        cell = f.gep(f["cells"], j * CELL)
        f.store(operand.at(f, f["m"]), cell)
        f.store(f.mul(operand.step, operand.dtype.itemsize), f.gep(cell, CELL // 2))
    f.ret()


def emit_expecting_tile(module: Module, numbers: Numbers, shape: Shape, ending: Ending) -> None:
    """@expecting_tile: the tallest tile, which asks for a row of each full operand in turn (`cells`) as it goes.

    Its sums are new ones: nothing is to `add` to.
    """
    rows, vectors = shape.tall, shape.vectors
    count = rows * vectors
    f = module.function(
        EXPECTING, "void", {**PARAMETERS, "cells": "ptr"}, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b"),
    )  # fmt: skip
    bases = [f["a"]]
    for _ in range(3, rows, 3):
        bases.append(f.gep(bases[-1], f.mul(f["a_row"], 3)))
    few = f.smax(f.binary("udiv", f["kc"], rows), 1)
    start = [f.zero(numbers.vector)] * count
    with f.loop("ask", 0, f["kc"], few, carry=[*start, *bases, f["b"]]) as outer:
        _ask(f, numbers, ending, vectors)
        stop = f.smin(f.add(outer.index, few), f["kc"])
        with f.loop("k", outer.index, stop, carry=outer.carried) as loop:
            chains, bases, b = loop.carried[:count], loop.carried[count:-1], loop.carried[-1]
            chains = tile_step(f, numbers, chains, bases, b, vectors)
            loop.next(*chains, *(f.gep(p, f["a_k"]) for p in bases), f.gep(b, f["b_k"]))
        outer.next(*loop.results)
    row = f["c"]
    for i in range(count):
        f.store(outer.results[i], f.gep(row, i % vectors, numbers.vector))
        row = f.gep(row, f["c_row"]) if (i + 1) % vectors == 0 else row
    f.ret()


def _ask(f: Function, numbers: Numbers, ending: Ending, vectors: int) -> None:
    """Ask for the next row of each full operand."""
    for j, k in enumerate(ending.full):
        cell = f.gep(f["cells"], j * CELL)
        row = f.load(cell, "ptr")
        for at in range(0, vectors * numbers.lanes * ending.operands[k].dtype.itemsize, LINE):
            f.prefetch(f.gep(row, at))
        f.store(f.gep(row, f.load(f.gep(cell, CELL // 2), "i64")), cell)
