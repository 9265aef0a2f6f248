"""GEMV: products with few rows, in which B is read once, in place, in the order of memory.

The final sums go to a buffer: each block of k is a chain of its own, and chains are added in ascending order.  Here
rows of B are contiguous; `gemv_columns` reads contiguous columns.
"""

from __future__ import annotations

from nacre.codegen.gemm.element_types import Edge, Numbers, edge, load_edge
from nacre.codegen.gemm.plan import BLOCK
from nacre.native.llvm_types import vec
from nacre.native.text import Function, ModuleText, Val

SWEEP = 8  # rows of B that are added to the sums together
PASS = 2048  # bytes of each row that stay in the L1 cache for the next row of A
LINE = 64  # bytes

# Strides are in bytes; `b_step` is B's stride along k for `sweep`, along n for `dots`.  `sums` holds all sums, `chains`
# those of one block of k: rows of whole vectors, `row` bytes each.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64", "b": "ptr", "b_step": "i64", "sums": "ptr", "chains": "ptr",
    "row": "i64", "k": "i64", "rows": "i64", "columns": "i64",
}  # fmt: skip


def emit_sweep(module: ModuleText, numbers: Numbers, matrix: Numbers) -> None:
    """@sweep: rows of B are contiguous; the sums stay in the L1 cache while B is read.

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
                lead = f.select(follows, f.mul(f["b_step"], count), f.i64(0))
                _sweep(f, numbers, matrix, a, b, count, lead)
                loop.next(f.gep(a, f.mul(f["a_k"], count)), f.gep(b, f.mul(f["b_step"], count)))
            a, b = loop.results
        with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
            add_chain(f, numbers, loop.index)
        block.next(a, b)
    f.ret()


def blocks(f: Function) -> Val:
    """The number of chains of a sum; one, without products, for k = 0."""
    return f.smax(f.lshr(f.add(f["k"], BLOCK - 1), BLOCK.bit_length() - 1), 1)


def clear(f: Function, numbers: Numbers) -> None:
    """Set all sums and chains to zero."""
    neutral = f.const(numbers.vector, numbers.neutral)
    with f.loop("at", 0, f.mul(f["rows"], f["row"]), numbers.lanes * numbers.bytes) as loop:
        f.store(neutral, f.gep(f["sums"], loop.index))
        f.store(f.zero(numbers.vector), f.gep(f["chains"], loop.index))


def add_chain(f: Function, numbers: Numbers, at: Val) -> None:
    """Add a vector of a block's chains to the sums, and reset the chains."""
    total, chain = f.gep(f["sums"], at), f.gep(f["chains"], at)
    before = f.load(total, numbers.vector)
    f.store(numbers.add(f, before, f.load(chain, numbers.vector)), total)
    f.store(f.zero(numbers.vector), chain)


def _sweep(f: Function, numbers: Numbers, matrix: Numbers, a: Val, b: Val, count: int, lead: Val) -> None:
    """Add `count` products to every sum: some columns for all rows, then the next columns.

    The first row of A prefetches B `lead` bytes further on.
    """
    most = f.select(f.icmp("eq", f["rows"], 1), f["columns"], f.i64(PASS // matrix.stored_bytes))
    with f.loop("pass", 0, f["columns"], most) as part:
        width = f.smin(f.sub(f["columns"], part.index), most)
        sources = [f.gep(b, part.index, matrix.stored)]
        for _ in range(count - 1):
            sources.append(f.gep(sources[-1], f["b_step"]))
        chains = f.gep(f["chains"], part.index, numbers.wide)
        with f.loop("row", 0, f["rows"], carry=[a, chains, lead]) as loop:
            a_row, chain, distance = loop.carried
            sweep = _Sweep(f, numbers, matrix, factors_of(f, numbers, a_row, count), sources, chain, width)
            sweep.row(distance)
            loop.next(f.gep(a_row, f["a_row"]), f.gep(chain, f["row"]), f.i64(0))


def factors_of(f: Function, numbers: Numbers, a: Val, count: int) -> list[Val]:
    """Consecutive elements of a row of A, each broadcast."""
    factors: list[Val] = []
    for _ in range(count):
        factors.append(f.splat(numbers.widen(f, f.load(a, numbers.stored)), numbers.lanes))
        a = f.gep(a, f["a_k"])
    return factors


class _Sweep:
    """Adds some rows of B, each times its element of a row of A, to that row's chains."""

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

    def row(self, lead: Val) -> None:
        """Write the loop over all columns, of which the last vector is partial.

        Narrow elements of B are read by whole cache lines with explicit prefetches: widening fills the instruction
        window, so the hardware runs too little ahead.  Prefetches would only slow down wide elements.
        """
        f, lanes, size = self.f, self.numbers.lanes, self.matrix.stored_bytes
        start, whole, line = f.i64(0), f.and_(self.width, -lanes), LINE // size
        if len(self.sources) > 1 and size < self.matrix.bytes:
            lines = f.and_(self.width, -line)
            with f.loop("line", start, lines, line) as loop:
                at = f.add(f.mul(loop.index, size), lead)
                for source in self.sources:
                    f.prefetch(f.gep(source, at), level=1)
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
        """Update one vector of chains; only `lanes` are read from B."""
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
        numbers.part(name), "void", PARAMETERS, linkage="internal", isa=numbers.isa,
        noalias=("a", "b", "sums", "chains"),
    )  # fmt: skip
