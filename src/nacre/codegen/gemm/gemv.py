"""Products with few rows: B is read once, in place, in the order in which memory gives it best.

The sums go to a buffer, finished: blocks of k are chains of their own, added up in ascending order.  Here rows of B
are contiguous; `gemv_columns` takes contiguous columns.
"""

from __future__ import annotations

from nacre.codegen.gemm.element_types import Edge, Numbers, edge, load_edge
from nacre.codegen.gemm.plan import BLOCK
from nacre.native.text import Function, ModuleText, Val, vec

SWEEP = 8  # rows of B that pass over the sums together
PASS = 2048  # bytes of each that stay in the first-level cache for the next row of A
LINE = 64  # bytes

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.  `chains` has room for a
# block's sums as `sums` has for all: rows of whole vectors, `row` bytes apart, which is their size too.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "chains": "ptr",
    "row": "i64", "k": "i64", "rows": "i64", "columns": "i64",
}  # fmt: skip


def emit_sweep(module: ModuleText, numbers: Numbers, matrix: Numbers) -> None:
    """@sweep: rows of B are contiguous; the sums stay in the first-level cache while B streams by.

    `numbers` are those of the rows, the sums and the result, `matrix` those of B.
    """
    f = gemv_function(module, matrix, "sweep")
    clear(f, numbers)
    with f.loop("block", 0, blocks(f), carry=[f["a"], f["b"]]) as block:
        left = f.sub(f["k"], f.mul(block.index, BLOCK))
        kc = f.smin(left, BLOCK)
        whole = f.and_(kc, -SWEEP)
        a, b = block.carried
        for start, end, count in ((f.i64(0), whole, SWEEP), (whole, kc, 1)):
            with f.loop("k", start, end, count, carry=[a, b]) as loop:
                a, b = loop.carried
                follows = f.icmp("sge", f.sub(left, loop.index), 2 * count)
                ahead = f.select(follows, f.mul(f["b_step"], count), f.i64(0))
                _sweep(f, numbers, matrix, a, b, count, ahead)
                loop.next(f.gep(a, f.mul(f["a_k"], count)), f.gep(b, f.mul(f["b_step"], count)))
            a, b = loop.results
        with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
            add_chain(f, numbers, loop.index)
        block.next(a, b)
    f.ret()


def blocks(f: Function) -> Val:
    """How many chains a sum has; one, of nothing, for k = 0."""
    return f.smax(f.lshr(f.add(f["k"], BLOCK - 1), BLOCK.bit_length() - 1), 1)


def clear(f: Function, numbers: Numbers) -> None:
    """Begin all sums and chains."""
    neutral = f.const(numbers.vector, numbers.neutral)
    with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
        f.store(neutral, f.gep(f["sums"], loop.index))
        f.store(f.zero(numbers.vector), f.gep(f["chains"], loop.index))


def add_chain(f: Function, numbers: Numbers, at: Val) -> None:
    """Add a vector of a block's chains to the sums, and begin them anew."""
    total, chain = f.gep(f["sums"], at), f.gep(f["chains"], at)
    before = f.load(total, numbers.vector)
    f.store(numbers.add(f, before, f.load(chain, numbers.vector)), total)
    f.store(f.zero(numbers.vector), chain)


def _sweep(f: Function, numbers: Numbers, matrix: Numbers, a: Val, b: Val, count: int, ahead: Val) -> None:
    """Add `count` products to every sum: some columns for all rows, then the next columns.

    The first row of A asks for what lies the given number of bytes `ahead` in B.
    """
    most = f.select(f.icmp("eq", f["rows"], 1), f["columns"], f.i64(PASS // matrix.stored_bytes))
    with f.loop("pass", 0, f["columns"], most) as part:
        width = f.smin(f.sub(f["columns"], part.index), most)
        sources = [f.gep(b, part.index, matrix.stored)]
        for _ in range(count - 1):
            sources.append(f.gep(sources[-1], f["b_step"]))
        chains = f.gep(f["chains"], part.index, numbers.wide)
        with f.loop("row", 0, f["rows"], carry=[a, chains, ahead]) as loop:
            a_row, chain, distance = loop.carried
            sweep = _Sweep(f, numbers, matrix, factors_of(f, numbers, a_row, count), sources, chain, width)
            sweep.row(distance)
            loop.next(f.gep(a_row, f["a_row"]), f.gep(chain, f["row"]), f.i64(0))


def factors_of(f: Function, numbers: Numbers, a: Val, count: int) -> list[Val]:
    """Consecutive elements of a row of A, each in all lanes."""
    factors: list[Val] = []
    for _ in range(count):
        factors.append(f.splat(numbers.widen(f, f.load(a, numbers.stored)), numbers.lanes))
        a = f.gep(a, f["a_k"])
    return factors


class _Sweep:
    """Some rows of B, each times its element of a row of A, added to that row's chains."""

    def __init__(
        self,
        f: Function,
        numbers: Numbers,
        matrix: Numbers,
        factors: list[Val],
        sources: list[Val],
        chains: Val,
        width: Val,
    ) -> None:
        self.f, self.numbers, self.matrix, self.width = f, numbers, matrix, width
        self.factors, self.sources, self.chains = factors, sources, chains

    def row(self, ahead: Val) -> None:
        """All columns: vectors, the last of which is partial.

        Whole lines come first where B's elements are narrow: widening them keeps the machine so busy that it sees too
        little of what follows, and has to be told.  It would only be in the way of wide ones.
        """
        f, lanes, size = self.f, self.numbers.lanes, self.matrix.stored_bytes
        start, whole, line = f.i64(0), f.and_(self.width, -lanes), LINE // size
        if len(self.sources) > 1 and size < self.matrix.bytes:
            lines = f.and_(self.width, -line)
            with f.loop("line", start, lines, line) as loop:
                asked = f.add(f.mul(loop.index, size), ahead)
                for source in self.sources:
                    f.prefetch(f.gep(source, asked), level=1)
                for v in range(0, line, lanes):
                    self._vector(f.add(loop.index, v), None)
            start = lines
        with f.loop("j", start, whole, lanes) as loop:
            self._vector(loop.index, None)
        with f.loop("j", whole, self.width, lanes) as loop:
            self._vector(loop.index, edge(f, self.matrix.isa, f.sub(self.width, loop.index), self._type))

    @property
    def _type(self) -> str:
        return vec(self.matrix.stored, self.matrix.lanes)

    def _vector(self, j: Val, lanes: Edge | None) -> None:
        """One vector of chains, of which only `lanes` are read from B."""
        f, matrix = self.f, self.matrix
        place = f.gep(self.chains, j, self.numbers.wide)
        chain = f.load(place, matrix.vector)
        for factor, source in zip(self.factors, self.sources, strict=True):
            value = load_edge(f, f.gep(source, j, matrix.stored), self._type, lanes)
            chain = matrix.multiply_add(f, factor, matrix.widen(f, value), chain)
        f.store(chain, place)


def gemv_function(module: ModuleText, numbers: Numbers, name: str) -> Function:
    """Begin @sweep or @dots."""
    return module.function(
        numbers.part(name), "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
