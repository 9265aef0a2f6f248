"""The register tile of the matrix product: rows × vectors of chains over one block of k."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.plan import CHAINS
from nacre.native.isa import Isa
from nacre.native.llvm_types import vec
from nacre.native.text import Function, ModuleText, Val


@dataclass(frozen=True)
class Shape:
    """The tile of an instruction set: row counts tried in turn, and vectors of a full panel.

    The counts after the first are consecutive powers of two, descending to 1.  Accumulators, one row of B and a
    broadcast element of A must fit the registers: a spill halves the speed.
    """

    rows: tuple[int, ...]
    vectors: int

    @property
    def tall(self) -> int:
        return self.rows[0]

    @property
    def short(self) -> int:
        """Rows of the second tallest tile, for rows that do not fill the tallest."""
        return self.rows[1]

    @property
    def few(self) -> int:
        """Rows of the smallest tile with enough chains to hide the latency of multiply-adds."""
        return min(rows for rows in self.rows if rows * self.vectors >= CHAINS)


def tile_shape(isa: Isa) -> Shape:
    """12 × 2 for wide vectors, as sizes seldom fill three; else 8 × 3 with 32 registers, 6 × 2 with 16."""
    if isa.registers < 32:
        return Shape((6, 4, 2, 1), 2)
    return Shape((12, 8, 4, 2, 1), 2) if isa.vector_bits >= 512 else Shape((8, 4, 2, 1), 3)


# Parameters of a tile function; strides are in bytes, `add` says whether to add to C instead of setting it.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64",
    "b": "ptr", "b_k": "i64",
    "c": "ptr", "c_row": "i64",
    "kc": "i64", "add": "i64",
}  # fmt: skip


PREFETCHING = {**PARAMETERS, "addresses": "ptr"}
PACKING = {**PREFETCHING, "to": "ptr", "leap": "i64"}
LINE = 64  # bytes
DISTANCE = 48  # distance, in rows of B, of a packing tile's prefetches


def tile_name(numbers: Numbers, rows: int, vectors: int, kind: str = "") -> str:
    return numbers.part(f"{kind}tile_{rows}x{vectors}")


def emit_tile(module: ModuleText, numbers: Numbers, rows: int, vectors: int, kind: str = "") -> None:
    """C[rows, vectors·lanes] (+)= A[rows, kc] · B[kc, vectors·lanes], k ascending from +0.

    A has any strides; B's and C's rows are contiguous.  The element type is the accumulator's.  With packed dot groups,
    kc counts groups, and B may begin with a row of initial sums.

    A "prefetching" tile has a list of addresses, and prefetches one of them with each k: more at a time would be
    ignored.  A "packing" tile does so too.  It reads B in place, in its own type, and stores its rows one after the
    other at `to`, which the multiplications hide.  It prefetches later rows of B, and those `leap` bytes behind its
    last row.
    """
    parameters = {"": PARAMETERS, "prefetching_": PREFETCHING, "packing_": PACKING}[kind]
    f = module.function(
        tile_name(numbers, rows, vectors, kind), "void", parameters, linkage="internal",
        isa=numbers.isa, noalias=("a", "b"),
    )  # fmt: skip
    count = f.load(f["addresses"], "i64") if kind else f.i64(0)
    chains, start = [f.zero(numbers.vector)] * vectors, f["b"]
    if numbers.offsets:
        chains = [f.load(f.gep(start, j * numbers.lanes * numbers.bytes), numbers.vector) for j in range(vectors)]
        start = f.gep(start, f["b_k"])
    chains, bases = chains * rows, row_bases(f, rows)
    with f.loop("k", 0, f["kc"], carry=[*chains, *bases, start]) as loop:
        *following, b = loop.carried
        chains, bases = following[: rows * vectors], following[rows * vectors :]
        if kind:
            prefetch_one(f, loop.index, count)
        packs = kind == "packing_"
        row = _packed(f, numbers, loop.index, b, vectors) if packs else read_row(f, b, numbers.vector, vectors)
        chains = multiply(f, numbers, chains, bases, row)
        bases = [f.advance(p, f["a_k"]) for p in bases]
        loop.next(*chains, *bases, f.gep(b, f["b_k"]))
    _write(f, numbers, loop.results[: rows * vectors], vectors)


def prefetch_one(f: Function, k: Val, count: Val) -> None:
    """Prefetch one of the given number of addresses of a list, with each k."""
    f.prefetch(f.load(f.gep(f["addresses"], f.add(f.smin(k, count), 1), "i64"), "ptr"))


def row_bases(f: Function, rows: int) -> list[Val]:
    """Where every third row of A begins."""
    triple = f.mul(f["a_row"], 3)
    bases = [f["a"]]
    for _ in range(3, rows, 3):
        bases.append(f.gep(bases[-1], triple))
    return bases


def read_row(f: Function, b: Val, ty: str, vectors: int) -> list[Val]:
    """The consecutive vectors at b."""
    return [f.load(f.gep(b, j, ty), ty) for j in range(vectors)]


def _packed(f: Function, numbers: Numbers, k: Val, b: Val, vectors: int) -> list[Val]:
    """Load row k of B, store it in packed B, and prefetch a later row."""
    size = vectors * numbers.lanes * numbers.stored_bytes
    distance = f.mul(f["b_k"], DISTANCE)
    within = f.icmp("slt", k, f.sub(f["kc"], DISTANCE))
    later = f.gep(b, f.select(within, distance, f.add(distance, f["leap"])))
    for at in range(0, size, LINE):
        f.prefetch(f.gep(later, at))
    row = [numbers.widen(f, v) for v in read_row(f, b, vec(numbers.stored, numbers.lanes), vectors)]
    place = f.gep(f["to"], f.mul(k, vectors * numbers.lanes * numbers.bytes))
    for j, value in enumerate(row):
        f.store(value, f.gep(place, j, numbers.vector))
    return row


def multiply(f: Function, numbers: Numbers, chains: list[Val], bases: list[Val], row: list[Val]) -> list[Val]:
    """Update every chain for one k.  Rows are addressed as base, base + stride, base + 2·stride."""
    vectors = len(row)
    twice = f.mul(f["a_row"], 2)
    offsets = (0, f["a_row"], twice)
    result: list[Val] = []
    for i in range(len(chains) // vectors):
        element = f.load(f.gep(bases[i // 3], offsets[i % 3]), numbers.wide)
        a = f.splat(element, numbers.lanes)
        for j in range(vectors):
            result.append(numbers.multiply_add_groups(f, a, row[j], chains[i * vectors + j]))
    return result


def _write(f: Function, numbers: Numbers, chains: list[Val], vectors: int) -> None:
    """Add the block's sums to C, or to a row of neutral elements, and store them in C.

    The neutral element is −0.0, which leaves every sum unchanged.
    """
    width = numbers.lanes * numbers.bytes
    adds = f.icmp("ne", f["add"], 0)
    neutral = f.const(vec(numbers.wide, vectors * numbers.lanes), numbers.neutral)
    start = f.module.constant(f"neutral_{vectors}", neutral.ty, neutral.text)
    before, step = f.select(adds, f["c"], start), f.select(adds, f["c_row"], f.i64(0))
    row = f["c"]
    for i in range(len(chains) // vectors):
        if i:
            row, before = f.gep(row, f["c_row"]), f.gep(before, step)
        for j in range(vectors):
            old = f.load(f.gep(before, j * width), numbers.vector)
            f.store(numbers.add(f, old, chains[i * vectors + j]), f.gep(row, j * width))
    f.ret()
