"""Products with one row: B is read once, in place, in the order in which memory gives it best.

The sums go to a buffer, finished: blocks of k are chains of their own, added up in ascending order.
"""

from __future__ import annotations

from nacre.codegen.contract_numbers import Numbers, edge, load_edge
from nacre.codegen.contract_pack import Transposer
from nacre.codegen.contract_plan import BLOCK
from nacre.native.text import Function, Module, Val, vec

SWEEP = 8  # rows of B that pass over the sums together

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.  `chains` has room for a
# block's sums of all columns.
PARAMETERS = {
    "a": "ptr", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "chains": "ptr", "k": "i64",
    "columns": "i64",
}  # fmt: skip


def emit_sweep(module: Module, numbers: Numbers, matrix: Numbers) -> None:
    """@sweep: rows of B are contiguous; the sums stay in the first-level cache while B streams by.

    `numbers` are those of the row, the sums and the result, `matrix` those of B.
    """
    f = _function(module, matrix, "sweep")
    neutral = f.const(numbers.vector, numbers.neutral)
    with f.loop("j", 0, f["columns"], numbers.lanes) as loop:
        f.store(neutral, f.gep(f["sums"], loop.index, numbers.wide))
        f.store(f.zero(numbers.vector), f.gep(f["chains"], loop.index, numbers.wide))
    with f.loop("block", 0, _blocks(f), carry=[f["a"], f["b"]]) as block:
        kc = f.smin(f.sub(f["k"], f.mul(block.index, BLOCK)), BLOCK)
        whole = f.and_(kc, -SWEEP)
        a, b = block.carried
        for start, end, count in ((f.i64(0), whole, SWEEP), (whole, kc, 1)):
            with f.loop("k", start, end, count, carry=[a, b]) as loop:
                a, b = loop.carried
                _sweep_rows(f, numbers, matrix, a, b, count)
                loop.next(f.gep(a, f.mul(f["a_k"], count)), f.gep(b, f.mul(f["b_step"], count)))
            a, b = loop.results
        _add_chains(f, numbers)
        block.next(a, b)
    f.ret()


def _blocks(f: Function) -> Val:
    """How many chains a sum has; one, of nothing, for k = 0."""
    return f.smax(f.lshr(f.add(f["k"], BLOCK - 1), BLOCK.bit_length() - 1), 1)


def _add_chains(f: Function, numbers: Numbers) -> None:
    """Add the block's chains to the sums, and begin them anew."""
    with f.loop("j", 0, f["columns"], numbers.lanes) as loop:
        total, chain = (f.gep(f[name], loop.index, numbers.wide) for name in ("sums", "chains"))
        before = f.load(total, numbers.vector)
        f.store(numbers.add(f, before, f.load(chain, numbers.vector)), total)
        f.store(f.zero(numbers.vector), chain)


def _sweep_rows(
    f: Function, numbers: Numbers, matrix: Numbers, a: Val, b: Val, count: int
) -> None:
    """Add `count` products to every sum."""
    factors: list[Val] = []
    for _ in range(count):
        factor = numbers.widen(f, f.load(a, numbers.stored))
        factors.append(f.splat(factor, numbers.lanes))
        a = f.gep(a, f["a_k"])
    whole = f.and_(f["columns"], -numbers.lanes)
    for start, end, partial in ((f.i64(0), whole, False), (whole, f["columns"], True)):
        with f.loop("j", start, end, numbers.lanes) as loop:
            _sweep_vector(f, matrix, factors, b, loop.index, partial)


def _sweep_vector(
    f: Function, numbers: Numbers, factors: list[Val], b: Val, j: Val, partial: bool
) -> None:
    ty = vec(numbers.stored, numbers.lanes)
    lanes = edge(f, numbers.isa, f.sub(f["columns"], j), ty) if partial else None
    at = f.gep(f["chains"], j, numbers.wide)
    chain = f.load(at, numbers.vector)
    source = f.gep(b, j, numbers.stored)
    for k, factor in enumerate(factors):
        source = f.gep(source, f["b_step"]) if k else source
        value = numbers.widen(f, load_edge(f, source, ty, lanes))
        chain = numbers.multiply_add(f, factor, value, chain)
    f.store(chain, at)


def emit_dots(module: Module, numbers: Numbers, matrix: Numbers) -> None:
    """@dots: columns of B are contiguous; a vector's width of them is transposed in registers."""
    f = _function(module, matrix, "dots")
    turn = Transposer(f, matrix, matrix.stored, ahead=True)
    spare = f.alloca(numbers.vector, turn.piece)
    with f.loop("j", 0, f["columns"], numbers.lanes) as strip:
        count = f.smin(f.sub(f["columns"], strip.index), numbers.lanes)
        first = f.gep(f["b"], f.mul(strip.index, f["b_step"]))
        turn.begin(first, f["b_step"], count)
        neutral = f.const(numbers.vector, numbers.neutral)
        with f.loop("block", 0, _blocks(f), carry=[neutral, f["a"]]) as block:
            total, a = block.carried
            start = f.mul(block.index, BLOCK)
            end = f.smin(f.add(start, BLOCK), f["k"])
            chain = f.zero(numbers.vector)
            for step in turn.steps:
                stop = f.add(start, f.and_(f.sub(end, start), -step))
                with f.loop("k", start, stop, step, carry=[chain, a]) as loop:
                    chain, a = loop.carried
                    for column in turn.columns(loop.index, step):
                        chain, a = _advance(f, numbers, chain, a, column)
                    loop.next(chain, a)
                (chain, a), start = loop.results, stop
            chain, a = _rest(f, numbers, turn, first, (start, end), count, spare, (chain, a))
            block.next(numbers.add(f, total, chain), a)
        f.store(block.results[0], f.gep(f["sums"], strip.index, numbers.wide))
    f.ret()


def _rest(
    f: Function, numbers: Numbers, turn: Transposer, first: Val, span: tuple[Val, Val], count: Val,
    spare: Val, carry: tuple[Val, Val],
) -> tuple[Val, Val]:  # fmt: skip
    """The columns of k that fill no piece, gathered element by element."""
    start, end = span
    width = f.i64(numbers.lanes * numbers.bytes)
    f.call(turn.numbers.part("gather"), "void", [
        f.gep(first, f.mul(start, turn.size)), f.i64(turn.size), f["b_step"], spare, width,
        f.sub(end, start), count,
    ])  # fmt: skip
    with f.loop("k", start, end, carry=[*carry, spare]) as loop:
        chain, a, row = loop.carried
        chain, a = _advance(f, numbers, chain, a, f.load(row, numbers.vector))
        loop.next(chain, a, f.gep(row, width))
    return loop.results[0], loop.results[1]


def _advance(f: Function, numbers: Numbers, chain: Val, a: Val, column: Val) -> tuple[Val, Val]:
    """One k: the chain gets the element of A times the vector of B."""
    factor = f.splat(numbers.widen(f, f.load(a, numbers.stored)), numbers.lanes)
    return numbers.multiply_add(f, factor, column, chain), f.gep(a, f["a_k"])


def _function(module: Module, numbers: Numbers, name: str) -> Function:
    return module.function(
        numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
