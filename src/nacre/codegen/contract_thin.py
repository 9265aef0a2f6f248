"""Products with few rows: B is read once, in place, in the order in which memory gives it best.

The sums go to a buffer, finished: blocks of k are chains of their own, added up in ascending order.
"""

from __future__ import annotations

from nacre.codegen.contract_numbers import Numbers, edge, load_edge
from nacre.codegen.contract_pack import Transposer
from nacre.codegen.contract_plan import BLOCK
from nacre.native.text import Function, Module, Val, vec

SWEEP = 8  # rows of B that pass over the sums together
PASS = 512  # columns of them that stay in the first-level cache for the next row of A

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.  `chains` has room for a
# block's sums as `sums` has for all: rows of whole vectors, `row` bytes apart, which is their size too.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "chains": "ptr",
    "row": "i64", "k": "i64", "rows": "i64", "columns": "i64",
}  # fmt: skip


def emit_sweep(module: Module, numbers: Numbers, matrix: Numbers) -> None:
    """@sweep: rows of B are contiguous; the sums stay in the first-level cache while B streams by.

    `numbers` are those of the rows, the sums and the result, `matrix` those of B.
    """
    f = _function(module, matrix, "sweep")
    _clear(f, numbers)
    with f.loop("block", 0, _blocks(f), carry=[f["a"], f["b"]]) as block:
        kc = f.smin(f.sub(f["k"], f.mul(block.index, BLOCK)), BLOCK)
        whole = f.and_(kc, -SWEEP)
        a, b = block.carried
        for start, end, count in ((f.i64(0), whole, SWEEP), (whole, kc, 1)):
            with f.loop("k", start, end, count, carry=[a, b]) as loop:
                a, b = loop.carried
                _sweep(f, numbers, matrix, a, b, count)
                loop.next(f.gep(a, f.mul(f["a_k"], count)), f.gep(b, f.mul(f["b_step"], count)))
            a, b = loop.results
        with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
            _add_chain(f, numbers, loop.index)
        block.next(a, b)
    f.ret()


def _blocks(f: Function) -> Val:
    """How many chains a sum has; one, of nothing, for k = 0."""
    return f.smax(f.lshr(f.add(f["k"], BLOCK - 1), BLOCK.bit_length() - 1), 1)


def _clear(f: Function, numbers: Numbers) -> None:
    """Begin all sums and chains."""
    neutral = f.const(numbers.vector, numbers.neutral)
    with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
        f.store(neutral, f.gep(f["sums"], loop.index))
        f.store(f.zero(numbers.vector), f.gep(f["chains"], loop.index))


def _add_chain(f: Function, numbers: Numbers, at: Val) -> None:
    """Add a vector of a block's chains to the sums, and begin them anew."""
    total, chain = f.gep(f["sums"], at), f.gep(f["chains"], at)
    before = f.load(total, numbers.vector)
    f.store(numbers.add(f, before, f.load(chain, numbers.vector)), total)
    f.store(f.zero(numbers.vector), chain)


def _sweep(f: Function, numbers: Numbers, matrix: Numbers, a: Val, b: Val, count: int) -> None:
    """Add `count` products to every sum: some columns for all rows, then the next columns."""
    with f.loop("pass", 0, f["columns"], PASS) as part:
        width = f.smin(f.sub(f["columns"], part.index), PASS)
        source = f.gep(b, part.index, matrix.stored)
        chains = f.gep(f["chains"], part.index, numbers.wide)
        with f.loop("row", 0, f["rows"], carry=[a, chains]) as loop:
            a_row, chain = loop.carried
            factors = _factors(f, numbers, a_row, count)
            whole = f.and_(width, -numbers.lanes)
            for start, end, partial in ((f.i64(0), whole, False), (whole, width, True)):
                with f.loop("j", start, end, numbers.lanes) as inner:
                    left = f.sub(width, inner.index) if partial else None
                    place = f.gep(chain, inner.index, numbers.wide)
                    _sweep_vector(f, matrix, factors, f.gep(source, inner.index, matrix.stored), place, left)
            loop.next(f.gep(a_row, f["a_row"]), f.gep(chain, f["row"]))


def _factors(f: Function, numbers: Numbers, a: Val, count: int) -> list[Val]:
    """Consecutive elements of a row of A, each in all lanes."""
    factors: list[Val] = []
    for _ in range(count):
        factors.append(f.splat(numbers.widen(f, f.load(a, numbers.stored)), numbers.lanes))
        a = f.gep(a, f["a_k"])
    return factors


def _sweep_vector(
    f: Function, matrix: Numbers, factors: list[Val], source: Val, place: Val, left: Val | None
) -> None:
    """Add a product for each factor to one vector of chains; only the columns `left` are read of the last one."""
    ty = vec(matrix.stored, matrix.lanes)
    lanes = None if left is None else edge(f, matrix.isa, left, ty)
    chain = f.load(place, matrix.vector)
    for k, factor in enumerate(factors):
        source = f.gep(source, f["b_step"]) if k else source
        value = matrix.widen(f, load_edge(f, source, ty, lanes))
        chain = matrix.multiply_add(f, factor, value, chain)
    f.store(chain, place)


def emit_dots(module: Module, numbers: Numbers, matrix: Numbers) -> None:
    """@dots: columns of B are contiguous; a vector's width of them is transposed in registers, for all rows."""
    f = _function(module, matrix, "dots")
    turn = Transposer(f, matrix, matrix.stored, ahead=True)
    spare = f.alloca(numbers.vector, turn.piece)
    _clear(f, numbers)
    with f.loop("j", 0, f["columns"], numbers.lanes) as strip:
        count = f.smin(f.sub(f["columns"], strip.index), numbers.lanes)
        first = f.gep(f["b"], f.mul(strip.index, f["b_step"]))
        turn.begin(first, f["b_step"], count)
        at = f.mul(strip.index, numbers.bytes)
        with f.loop("block", 0, _blocks(f)) as block:
            start = f.mul(block.index, BLOCK)
            end = f.smin(f.add(start, BLOCK), f["k"])
            for step in turn.steps:
                stop = f.add(start, f.and_(f.sub(end, start), -step))
                with f.loop("k", start, stop, step) as loop:
                    _advance(f, numbers, turn.columns(loop.index, step), loop.index, at)
                start = stop
            _rest(f, numbers, turn, first, (start, end), count, spare, at)
            with f.loop("row", 0, f["rows"], carry=[at]) as loop:
                _add_chain(f, numbers, loop.carried[0])
                loop.next(f.add(loop.carried[0], f["row"]))
    f.ret()


def _advance(f: Function, numbers: Numbers, columns: list[Val], k: Val, at: Val) -> None:
    """Some k: each row's chains get its elements of A times the vectors of B."""
    a = f.gep(f["a"], f.mul(k, f["a_k"]))
    with f.loop("row", 0, f["rows"], carry=[a, f.gep(f["chains"], at)]) as loop:
        a, place = loop.carried
        chain = f.load(place, numbers.vector)
        for factor, column in zip(_factors(f, numbers, a, len(columns)), columns, strict=True):
            chain = numbers.multiply_add(f, factor, column, chain)
        f.store(chain, place)
        loop.next(f.gep(a, f["a_row"]), f.gep(place, f["row"]))


def _rest(
    f: Function, numbers: Numbers, turn: Transposer, first: Val, span: tuple[Val, Val], count: Val,
    spare: Val, at: Val,
) -> None:  # fmt: skip
    """The columns of k that fill no piece, gathered element by element."""
    start, end = span
    width = f.i64(numbers.lanes * numbers.bytes)
    f.call(turn.numbers.part("gather"), "void", [
        f.gep(first, f.mul(start, turn.size)), f.i64(turn.size), f["b_step"], spare, width,
        f.sub(end, start), count,
    ])  # fmt: skip
    with f.loop("k", start, end, carry=[spare]) as loop:
        _advance(f, numbers, [f.load(loop.carried[0], numbers.vector)], loop.index, at)
        loop.next(f.gep(loop.carried[0], width))


def _function(module: Module, numbers: Numbers, name: str) -> Function:
    return module.function(
        numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
