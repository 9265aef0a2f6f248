"""The register tile of the matrix product: rows × vectors of chains over one block of k."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.codegen.contract_numbers import Numbers
from nacre.codegen.isa import Isa
from nacre.native.text import Function, Module, Val, vec


@dataclass(frozen=True)
class Shape:
    """The tile of an instruction set: row counts tried in turn, and vectors of a full panel.

    The counts after the first are all powers of two from some one down.  Accumulators, one row of B
    and a broadcast element of A must fit the registers: a spill halves the speed.
    """

    rows: tuple[int, ...]
    vectors: int

    @property
    def tall(self) -> int:
        return self.rows[0]

    @property
    def short(self) -> int:
        """Rows of the next tile, for what fills none of the tallest."""
        return self.rows[1]


def tile_shape(isa: Isa) -> Shape:
    """14 × 2 vectors where they are so wide that sizes seldom fill three, else 8 × 3 on 32 registers, 6 × 2 on 16."""
    if isa.registers < 32:
        return Shape((6, 4, 2, 1), 2)
    return Shape((14, 4, 2, 1), 2) if isa.vector_bits >= 512 else Shape((8, 4, 2, 1), 3)


# Parameters of a tile function; strides are in bytes, `add` tells to add to C instead of setting it.
PARAMETERS = {
    "a": "ptr", "a_row": "i64", "a_k": "i64",
    "b": "ptr", "b_k": "i64",
    "c": "ptr", "c_row": "i64",
    "kc": "i64", "add": "i64",
}  # fmt: skip


def tile_name(numbers: Numbers, rows: int, vectors: int) -> str:
    return numbers.part(f"tile_{rows}x{vectors}")


def emit_tile(module: Module, numbers: Numbers, rows: int, vectors: int) -> None:
    """C[rows, vectors·lanes] (+)= A[rows, kc] · B[kc, vectors·lanes], k ascending from +0.

    A has any strides; B's and C's rows are contiguous.  The element type is the accumulator's;
    where packed factors are pairs, kc counts those.
    """
    f = module.function(
        tile_name(numbers, rows, vectors), "void", PARAMETERS, linkage="internal",
        attributes=numbers.isa.attributes, noalias=("a", "b"),
    )  # fmt: skip
    chains = [f.zero(numbers.vector)] * (rows * vectors)
    triple = f.mul(f["a_row"], 3)
    bases = [f["a"]]
    for _ in range(3, rows, 3):
        bases.append(f.gep(bases[-1], triple))
    with f.loop("k", 0, f["kc"], carry=[*chains, *bases, f["b"]]) as loop:
        *following, b = loop.carried
        chains, bases = following[: rows * vectors], following[rows * vectors :]
        chains = tile_step(f, numbers, chains, bases, b, vectors)
        bases = [f.gep(p, f["a_k"]) for p in bases]
        loop.next(*chains, *bases, f.gep(b, f["b_k"]))
    _write(f, numbers, loop.results[: rows * vectors], vectors)


def tile_step(
    f: Function, numbers: Numbers, chains: list[Val], bases: list[Val], b: Val, vectors: int
) -> list[Val]:
    """One k: every chain gets a·b.  Rows are addressed as base, base + stride, base + 2·stride."""
    width = numbers.lanes * numbers.bytes
    row = [f.load(f.gep(b, j * width), numbers.vector) for j in range(vectors)]
    twice = f.mul(f["a_row"], 2)
    offsets = (0, f["a_row"], twice)
    result: list[Val] = []
    for i in range(len(chains) // vectors):
        element = f.load(f.gep(bases[i // 3], offsets[i % 3]), numbers.wide)
        a = f.splat(element, numbers.lanes)
        for j in range(vectors):
            result.append(numbers.multiply_add_packed(f, a, row[j], chains[i * vectors + j]))
    return result


def _write(f: Function, numbers: Numbers, chains: list[Val], vectors: int) -> None:
    """Add the block's sums to C, or to a row of neutral elements, and store them in C.

    Neutral is −0.0, which alone leaves every sum as it is.
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
