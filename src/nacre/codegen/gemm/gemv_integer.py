"""GEMV of short integers where k is contiguous in both factors: vectors of k, added in any order.

Sums that wrap at 32 bits have the same bits in every order, so nothing is transposed.  Where the packed dot instruction
needs one unsigned side, B's numbers are offset by 128; a correction for each row of A undoes this.
"""

from __future__ import annotations

from collections.abc import Callable

from nacre.codegen.gemm.element_types import Numbers, grouped
from nacre.codegen.gemm.gemv import PARAMETERS
from nacre.codegen.gemm.packed_dot import FLIP, filled
from nacre.native.llvm_types import vec
from nacre.native.text import Function, ModuleText, Val

COLUMNS = 4  # of B that advance together

Step = Callable[[Function, Numbers, list[Val], list[Val]], list[Val]]
"""Adds products of some vectors of groups to sums."""


def integer_numbers(numbers: Numbers) -> Numbers | None:
    """The arithmetic of packed dots along k for factors of a type; None if there is no such instruction."""
    found = grouped(numbers)
    return found if found.group > 1 and not found.rounds else None


def emit_gemv_integer(module: ModuleText, numbers: Numbers) -> None:
    """Write @runs, with the parameters of the other GEMV functions: k is contiguous in A and in B."""
    f = module.function(
        numbers.part("runs"), "void", PARAMETERS, linkage="internal", isa=numbers.isa,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
    spare = f.alloca(numbers.vector)
    if numbers.offsets:
        _note_moved(f, numbers, spare)
    with f.loop("column", 0, f["columns"], COLUMNS) as column:
        last = f.sub(f.sub(f["columns"], column.index), 1)
        first = f.gep(f["b"], f.mul(column.index, f["b_step"]))
        bs = [f.gep(first, f.mul(f.smin(f.i64(j), last), f["b_step"])) for j in range(COLUMNS)]
        sums = f.gep(f["sums"], column.index, "i32")
        with f.loop("row", 0, f["rows"], carry=[f["a"], sums, f["chains"]]) as row:
            a, target, moved = row.carried
            for j, total in enumerate(_sums(f, numbers, spare, [a, *bs], _products)):
                if numbers.offsets:
                    more = f.load(moved, "i32")
                    total = f.sub(total, more) if numbers.dtype.is_signed else f.add(total, more)
                f.store(total, f.gep(target, j, "i32"))
            row.next(f.gep(a, f["a_row"]), f.gep(target, f["row"]), f.gep(moved, f["row"]))
    f.ret()


def _note_moved(f: Function, numbers: Numbers, spare: Val) -> None:
    """Store the correction of each row's sums for the offset of B: 128 times the sum of A's numbers."""
    with f.loop("row", 0, f["rows"], carry=[f["a"], f["chains"]]) as row:
        a, place = row.carried
        (total,) = _sums(f, numbers, spare, [a], _ones)
        f.store(f.shl(total, 7), place)
        row.next(f.gep(a, f["a_row"]), f.gep(place, f["row"]))


def _ones(f: Function, numbers: Numbers, vectors: list[Val], sums: list[Val]) -> list[Val]:
    return [numbers.multiply_add_groups(f, f.const(numbers.vector, 0x01010101), vectors[0], sums[0])]


def _products(f: Function, numbers: Numbers, vectors: list[Val], sums: list[Val]) -> list[Val]:
    """Products of A's numbers and those of each column; as many sums as columns."""
    a, *bs = vectors
    if numbers.offsets:
        bs = [f.xor(b, f.splat(Val(str(FLIP), "i32"), numbers.lanes)) for b in bs]
    return [numbers.multiply_add_groups(f, b, a, total) for b, total in zip(bs, sums, strict=True)]


def _sums(f: Function, numbers: Numbers, spare: Val, starts: list[Val], step: Step) -> list[Val]:
    """The sums over all k that `step` accumulates, for the numbers at some addresses."""
    size, count = numbers.lanes * numbers.group, max(1, len(starts) - 1)
    whole = f.and_(f["k"], -size)
    sums = [f.zero(numbers.vector)] * count
    for start, end, partial in ((f.i64(0), whole, False), (whole, f["k"], True)):
        with f.loop("k", start, end, size, carry=sums) as loop:
            left = f.sub(end, loop.index) if partial else None
            at = f.mul(loop.index, numbers.stored_bytes)
            vectors = [_load(f, numbers, f.gep(p, at), left, spare) for p in starts]
            loop.next(*step(f, numbers, vectors, loop.carried))
        sums = loop.results
    return [f.intrinsic("vector.reduce.add", "i32", [x], overload=[x.ty]) for x in sums]


def _load(f: Function, numbers: Numbers, pointer: Val, left: Val | None, spare: Val) -> Val:
    """A vector of groups of the numbers at an address, with zeros from the number `left` on."""
    ty = vec(f"i{8 * numbers.stored_bytes}", numbers.lanes * numbers.group)
    run = f.load(pointer, ty) if left is None else filled(f, numbers, pointer, ty, left, spare)
    extend = "sext" if numbers.dtype.is_signed else "zext"
    return f.bitcast(f.cast(extend, run, f"i{32 // numbers.group}"), numbers.vector)
