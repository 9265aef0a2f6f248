"""Pipelined epilogues: a slow epilogue runs during the next tile, as divisions and roots use a unit of their own.

A tile's sums stay in scratch memory until the next tile of the block runs.  That tile sends one row of them through the
epilogue after each share of its own k.  Two buffers for the sums alternate.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import GemmEpilogue, Matrix, Merge, Slots
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.tile import PREFETCHING, multiply, prefetch_one, read_row, row_bases
from nacre.native.llvm_types import vec
from nacre.native.text import Function, ModuleText, Val

LINE = 64  # bytes
SLOW = ("fdiv", "sqrt")
BEFORE = {"outer": "i64", "inner": "i64", "from": "ptr", "partial": "ptr", "m": "i64", "n": "i64"}
PARAMETERS = {
    **{name: ty for name, ty in PREFETCHING.items() if name != "add"}, "args": "ptr", **BEFORE, "partial_row": "i64",
    "add": "i64", "next_m": "i64", "next_n": "i64",
}  # fmt: skip


def is_pipelined(numbers: Numbers) -> bool:
    """Whether the products of a type can run an epilogue during a tile."""
    return numbers.group == 1


def is_slow(numbers: Numbers, epilogue: GemmEpilogue) -> bool:
    """Whether an epilogue waits for divisions or roots; packed dot tiles run none of them."""
    if epilogue.function is None or not is_pipelined(numbers):
        return False
    f = ModuleText("ending").function("ending", "void", {})
    epilogue.function(
        f, f.zero(numbers.vector), [f.zero(vec(o.dtype.memory, numbers.lanes)) for o in epilogue.operands]
    )
    return any(word in line for line in f.lines for word in SLOW)


def emit_pipelined_epilogue(module: ModuleText, layout: ScratchLayout, epilogue: GemmEpilogue, slots: Slots) -> None:
    """@pipelined(tile's, args, outer, inner, from, partial, m, n, partial_row, add, next_m, next_n).

    The tallest tile of a whole panel, whose own sums go to `c`.  Meanwhile the pending tile's sums at `from`, which
    belong to m, n, pass through the epilogue; with `add`, the partial sums at `partial` are added first.  The operands
    that this tile's epilogue will read, at next_m and next_n, are prefetched.  Rows of both tiles' sums are c_row bytes
    apart.
    """
    numbers, rows, vectors = layout.numbers, layout.shape.tall, layout.shape.vectors
    f = module.function("pipelined", "void", PARAMETERS, linkage="internal", isa=numbers.isa)
    merge = Merge(f, numbers, epilogue, slots, vectors, f.icmp("ne", f["add"], 0))
    buffers = merge.buffers()
    strips = merge.strip_list(f.i64(0), vectors, False, buffers)
    count = f.load(f["addresses"], "i64")
    each = f.binary("udiv", f.add(f["kc"], rows - 1), rows)
    chains, bases = [f.zero(numbers.vector)] * (rows * vectors), row_bases(f, rows)
    with f.loop("r", 0, rows, carry=[*chains, *bases, f["b"], f["from"], f["partial"]]) as outer:
        *state, source, partial = outer.carried
        _prefetch_operands(f, epilogue, buffers[0], outer.index, layout.panel)
        first = f.mul(outer.index, each)
        with f.loop("k", first, f.smin(f.add(first, each), f["kc"]), carry=state) as loop:
            *following, b = loop.carried
            chains, bases = following[: rows * vectors], following[rows * vectors :]
            prefetch_one(f, loop.index, count)
            chains = multiply(f, numbers, chains, bases, read_row(f, b, numbers.vector, vectors))
            loop.next(*chains, *(f.advance(p, f["a_k"]) for p in bases), f.gep(b, f["b_k"]))
        merge.row(strips, outer.index, (source, partial), buffers)
        outer.next(*loop.results, f.gep(source, f["c_row"]), f.gep(partial, f["partial_row"]))
    row = f["c"]
    for i in range(rows):
        row = f.gep(row, f["c_row"]) if i else row
        for j, chain in enumerate(outer.results[i * vectors : (i + 1) * vectors]):
            f.store(chain, f.gep(row, j, numbers.vector))
    f.ret()


def _prefetch_operands(f: Function, epilogue: GemmEpilogue, inputs: list[Matrix], r: Val, columns: int) -> None:
    """Prefetch a row of this tile's operands, and of its output if that shares memory with them."""
    for k in epilogue.full:
        operand, size = inputs[k], epilogue.operands[k].dtype.itemsize
        start = f.gep(operand.at(f, f.add(f["next_m"], r)), f.mul(f.sub(f["next_n"], f["n"]), size))
        for at in range(0, columns * size, LINE):
            f.prefetch(f.gep(start, at), epilogue.over, 1)


@dataclass(frozen=True)
class PendingTile:
    """The tile of a block whose epilogue has not run yet, if any."""

    f: Function
    layout: ScratchLayout
    there: Val  # addresses of variables: whether one is pending, which buffer is free, where the tile is
    free: Val
    partial: Val
    m: Val
    n: Val

    @property
    def some(self) -> Val:
        """Whether a tile is pending."""
        return self.f.icmp("ne", self.f.load(self.there, "i64"), 0)

    @property
    def place(self) -> Val:
        """The buffer for the next tile's sums."""
        return self.f.gep(self.f["scratch"], self.f.load(self.free, "i64"))

    def wait(self, partial: Val, m: Val, n: Val) -> None:
        """Make the tile that has just run the pending one."""
        f = self.f
        for value, at in ((f.i64(1), self.there), (partial, self.partial), (m, self.m), (n, self.n)):
            f.store(value, at)
        f.store(f.sub(self.layout.tile, f.load(self.free, "i64")), self.free)

    def before(self) -> list[Val]:
        """The arguments that describe it, in the order of `BEFORE`."""
        f = self.f
        source = f.gep(f["scratch"], f.sub(self.layout.tile, f.load(self.free, "i64")))
        return [
            f["outer"],
            f["inner"],
            source,
            f.load(self.partial, "ptr"),
            f.load(self.m, "i64"),
            f.load(self.n, "i64"),
        ]

    def finish(self, merge: Val, partial_row: Val, adds: Val) -> None:
        """Run the epilogue of the last tile, by the function @merge."""
        f, layout = self.f, self.layout
        with f.when(self.some):
            outer, inner, source, partial, m, n = self.before()
            f.call_value(merge, "void", [
                f["args"], source, f.i64(layout.panel * layout.numbers.bytes), partial, partial_row, outer, inner, m, n,
                f.i64(layout.shape.tall), f.i64(layout.panel), adds,
            ])  # fmt: skip


def no_pending_tile(f: Function, layout: ScratchLayout) -> PendingTile:
    """The initial state: no tile is pending."""
    pending = PendingTile(f, layout, *(f.alloca(ty, align=8) for ty in ("i64", "i64", "ptr", "i64", "i64")))
    f.store(f.i64(0), pending.there)
    f.store(f.i64(0), pending.free)
    return pending
