"""Products with one row: B is read once, in place, in the order in which memory gives it best.

The chains of a block of k go to a buffer of sums; `merge` takes them from there.
"""

from __future__ import annotations

from nacre.codegen.contract_numbers import Numbers, edge, load_edge
from nacre.codegen.contract_pack import Transposer
from nacre.native.text import Function, Module, Val, vec

SWEEP = 8  # rows of B that pass over the sums together

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.
PARAMETERS = {
    "a": "ptr", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "kc": "i64", "columns": "i64",
}  # fmt: skip


def emit_sweep(module: Module, numbers: Numbers) -> None:
    """@sweep: rows of B are contiguous; the sums stay in the first-level cache while B streams by."""
    f = _function(module, numbers, "sweep")
    with f.loop("j", 0, f["columns"], numbers.lanes) as loop:
        f.store(f.zero(numbers.vector), f.gep(f["sums"], loop.index, numbers.wide))
    whole = f.and_(f["kc"], -SWEEP)
    a, b = f["a"], f["b"]
    for start, end, count in ((f.i64(0), whole, SWEEP), (whole, f["kc"], 1)):
        with f.loop("k", start, end, count, carry=[a, b]) as loop:
            a, b = loop.carried
            _sweep_rows(f, numbers, a, b, count)
            loop.next(f.gep(a, f.mul(f["a_k"], count)), f.gep(b, f.mul(f["b_step"], count)))
        a, b = loop.results
    f.ret()


def _sweep_rows(f: Function, numbers: Numbers, a: Val, b: Val, count: int) -> None:
    """Add `count` products to every sum."""
    factors: list[Val] = []
    for _ in range(count):
        factor = numbers.widen(f, f.load(a, numbers.stored))
        factors.append(f.splat(factor, numbers.lanes))
        a = f.gep(a, f["a_k"])
    whole = f.and_(f["columns"], -numbers.lanes)
    for start, end, partial in ((f.i64(0), whole, False), (whole, f["columns"], True)):
        with f.loop("j", start, end, numbers.lanes) as loop:
            _sweep_vector(f, numbers, factors, b, loop.index, partial)


def _sweep_vector(
    f: Function, numbers: Numbers, factors: list[Val], b: Val, j: Val, partial: bool
) -> None:
    ty = vec(numbers.stored, numbers.lanes)
    lanes = edge(f, numbers.isa, f.sub(f["columns"], j), ty) if partial else None
    at = f.gep(f["sums"], j, numbers.wide)
    chain = f.load(at, numbers.vector)
    source = f.gep(b, j, numbers.stored)
    for k, factor in enumerate(factors):
        source = f.gep(source, f["b_step"]) if k else source
        value = numbers.widen(f, load_edge(f, source, ty, lanes))
        chain = numbers.multiply_add(f, factor, value, chain)
    f.store(chain, at)


def emit_dots(module: Module, numbers: Numbers) -> None:
    """@dots: columns of B are contiguous; a vector's width of them is transposed in registers."""
    f = _function(module, numbers, "dots")
    turn = Transposer(f, numbers, numbers.stored)
    spare = f.alloca(numbers.vector, turn.piece)
    with f.loop("j", 0, f["columns"], numbers.lanes) as strip:
        count = f.smin(f.sub(f["columns"], strip.index), numbers.lanes)
        first = f.gep(f["b"], f.mul(strip.index, f["b_step"]))
        turn.begin(first, f["b_step"], count)
        chain, a, start = f.zero(numbers.vector), f["a"], f.i64(0)
        for step in turn.steps:
            end = f.and_(f["kc"], -step)
            with f.loop("k", start, end, step, carry=[chain, a]) as loop:
                chain, a = loop.carried
                for column in turn.columns(loop.index, step):
                    chain, a = _advance(f, numbers, chain, a, column)
                loop.next(chain, a)
            (chain, a), start = loop.results, end
        rest = f.gep(first, f.mul(start, turn.size))
        width = f.i64(numbers.lanes * numbers.bytes)
        f.call(numbers.part("gather"), "void", [
            rest, f.i64(turn.size), f["b_step"], spare, width, f.sub(f["kc"], start), count,
        ])  # fmt: skip
        with f.loop("k", start, f["kc"], carry=[chain, a, spare]) as loop:
            chain, a, row = loop.carried
            chain, a = _advance(f, numbers, chain, a, f.load(row, numbers.vector))
            loop.next(chain, a, f.gep(row, width))
        f.store(loop.results[0], f.gep(f["sums"], strip.index, numbers.wide))
    f.ret()


def _advance(f: Function, numbers: Numbers, chain: Val, a: Val, column: Val) -> tuple[Val, Val]:
    """One k: the chain gets the element of A times the vector of B."""
    factor = f.splat(numbers.widen(f, f.load(a, numbers.stored)), numbers.lanes)
    return numbers.multiply_add(f, factor, column, chain), f.gep(a, f["a_k"])


def _function(module: Module, numbers: Numbers, name: str) -> Function:
    return module.function(
        numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b", "sums"),
    )  # fmt: skip
