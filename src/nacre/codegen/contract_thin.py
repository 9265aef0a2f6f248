"""Products with few rows: B is read once, in place, in the order in which memory gives it best.

The sums go to a buffer, finished: blocks of k are chains of their own, added up in ascending order.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from nacre.codegen.contract_numbers import Numbers, edge, load_edge
from nacre.codegen.contract_pack import Transposer
from nacre.codegen.contract_plan import BLOCK, STRIPS
from nacre.native.text import Function, Module, Val, vec

SWEEP = 8  # rows of B that pass over the sums together
PASS = 512  # columns of them that stay in the first-level cache for the next row of A

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.  `chains` has room for a
# block's sums as `sums` has for all: rows of whole vectors, `row` bytes apart, which is their size too.  `far` tells
# that B waits in memory.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "chains": "ptr",
    "row": "i64", "k": "i64", "rows": "i64", "columns": "i64", "far": "i64",
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
    """@dots: columns of B are contiguous; a vector's width of them is transposed in registers, for all rows.

    In a cache two such strips advance side by side, as each product of a chain waits for the one before it.  Where B
    is `far` one strip at a time asks for the next, whose columns follow each other too far apart for the machine to
    see a pattern in time.
    """
    f = _function(module, matrix, "dots")
    far = f.icmp("ne", f["far"], 0)
    turns = [Transposer(f, matrix, matrix.stored) for _ in range(STRIPS)]
    spare = f.alloca(numbers.vector, turns[0].piece)
    _clear(f, numbers)
    step = f.select(far, f.i64(numbers.lanes), f.i64(STRIPS * numbers.lanes))
    with f.loop("j", 0, f["columns"], step) as loop:
        near = f.icmp("slt", loop.index, f.select(far, f.i64(0), f.sub(f["columns"], numbers.lanes)))
        strips = [_strip(f, numbers, turns[0], loop.index, None),
                  _strip(f, numbers, turns[1], f.add(loop.index, numbers.lanes), near)]  # fmt: skip
        for strip in strips:
            with strip.present(f):
                strip.turn.begin(strip.first, f["b_step"], strip.count)
        with f.loop("block", 0, _blocks(f)) as block:
            start = f.mul(block.index, BLOCK)
            end = f.smin(f.add(start, BLOCK), f["k"])
            for many in turns[0].steps:
                stop = f.add(start, f.and_(f.sub(end, start), -many))
                with f.loop("k", start, stop, many) as k:
                    with f.when(far):
                        turns[0].ask(k.index, f.mul(f["b_step"], numbers.lanes))
                    for strip in strips:
                        with strip.present(f):
                            _advance(f, numbers, strip.turn.columns(k.index, many), k.index, strip.at)
                start = stop
            for strip in strips:
                with strip.present(f):
                    _rest(f, numbers, strip, (start, end), spare)
                    with f.loop("row", 0, f["rows"], carry=[strip.at]) as row:
                        _add_chain(f, numbers, row.carried[0])
                        row.next(f.add(row.carried[0], f["row"]))
    f.ret()


@dataclass(frozen=True)
class _Strip:
    """Columns of B that fill a vector: what transposes them, the first, how many, and their place in a row of sums."""

    turn: Transposer
    first: Val
    count: Val
    at: Val  # bytes
    condition: Val | None  # under which there is such a strip; None for always

    def present(self, f: Function) -> AbstractContextManager[None]:
        """Write what follows for a strip that is there."""
        return nullcontext() if self.condition is None else f.when(self.condition)


def _strip(f: Function, numbers: Numbers, turn: Transposer, column: Val, condition: Val | None) -> _Strip:
    """The strip that begins at a column."""
    first = f.gep(f["b"], f.mul(column, f["b_step"]))
    count = f.smin(f.sub(f["columns"], column), numbers.lanes)
    return _Strip(turn, first, count, f.mul(column, numbers.bytes), condition)


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
    f: Function, numbers: Numbers, strip: _Strip, span: tuple[Val, Val], spare: Val
) -> None:
    """The columns of k that fill no piece, gathered element by element."""
    turn, (start, end) = strip.turn, span
    width = f.i64(numbers.lanes * numbers.bytes)
    f.call(turn.numbers.part("gather"), "void", [
        f.gep(strip.first, f.mul(start, turn.size)), f.i64(turn.size), f["b_step"], spare, width,
        f.sub(end, start), strip.count,
    ])  # fmt: skip
    with f.loop("k", start, end, carry=[spare]) as loop:
        _advance(f, numbers, [f.load(loop.carried[0], numbers.vector)], loop.index, strip.at)
        loop.next(f.gep(loop.carried[0], width))


def _function(module: Module, numbers: Numbers, name: str) -> Function:
    return module.function(
        numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
