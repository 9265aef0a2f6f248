"""Slow endings run while the next tile multiplies: divisions and roots wait for a unit that products do not need.

A tile's sums stay in scratch memory until the tile beside it in the block runs, which sends a row of them through the
ending after each share of its own k.  There are two places for them, in turn.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import GemmEpilogue, Matrix, Merge, Slots
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.tile import ASKING, ask, multiply, read_row, row_bases
from nacre.native.text import Function, ModuleText, Val, vec

LINE = 64  # bytes
SLOW = ("fdiv", "sqrt")
BEFORE = {"outer": "i64", "inner": "i64", "from": "ptr", "home": "ptr", "m": "i64", "n": "i64"}
PARAMETERS = {
    **{name: ty for name, ty in ASKING.items() if name != "add"}, "args": "ptr", **BEFORE, "home_row": "i64",
    "add": "i64", "next_m": "i64", "next_n": "i64",
}  # fmt: skip


def is_pipelined(numbers: Numbers) -> bool:
    """Whether the products of a type have an ending run beside a tile."""
    return numbers.group == 1


def is_slow(numbers: Numbers, ending: GemmEpilogue) -> bool:
    """Whether an ending waits for divisions or roots; tiles of words have none beside them."""
    if ending.epilogue is None or not is_pipelined(numbers):
        return False
    f = ModuleText("ending").function("ending", "void", {})
    ending.epilogue(f, f.zero(numbers.vector), [f.zero(vec(o.dtype.memory, numbers.lanes)) for o in ending.operands])
    return any(word in line for line in f.lines for word in SLOW)


def emit_pipelined_epilogue(module: ModuleText, layout: ScratchLayout, ending: GemmEpilogue, slots: Slots) -> None:
    """@weave(tile's, args, outer, inner, from, home, m, n, home_row, add, next_m, next_n).

    The tallest tile of a whole panel, whose own sums go to `c`.  Meanwhile those of another one, which are at `from`
    and belong to m, n, join those at home, if these are to be added, and pass through the ending.  What the ending
    will read of this tile, at next_m and next_n, is asked for.  Rows of both tiles' sums are c_row bytes apart.
    """
    numbers, rows, vectors = layout.numbers, layout.shape.tall, layout.shape.vectors
    f = module.function("weave", "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes)
    merge = Merge(f, numbers, ending, slots, vectors, f.icmp("ne", f["add"], 0))
    buffers = merge.buffers()
    strips = merge.strip_list(f.i64(0), vectors, False, buffers)
    wanted = f.load(f["wanted"], "i64")
    each = f.binary("udiv", f.add(f["kc"], rows - 1), rows)
    chains, bases = [f.zero(numbers.vector)] * (rows * vectors), row_bases(f, rows)
    with f.loop("r", 0, rows, carry=[*chains, *bases, f["b"], f["from"], f["home"]]) as outer:
        *state, source, home = outer.carried
        _ask_operands(f, ending, buffers[0], outer.index, layout.panel)
        first = f.mul(outer.index, each)
        with f.loop("k", first, f.smin(f.add(first, each), f["kc"]), carry=state) as loop:
            *following, b = loop.carried
            chains, bases = following[: rows * vectors], following[rows * vectors :]
            ask(f, loop.index, wanted)
            chains = multiply(f, numbers, chains, bases, read_row(f, b, numbers.vector, vectors))
            loop.next(*chains, *(f.advance(p, f["a_k"]) for p in bases), f.gep(b, f["b_k"]))
        merge.row(strips, outer.index, (source, home), buffers)
        outer.next(*loop.results, f.gep(source, f["c_row"]), f.gep(home, f["home_row"]))
    row = f["c"]
    for i in range(rows):
        row = f.gep(row, f["c_row"]) if i else row
        for j, chain in enumerate(outer.results[i * vectors : (i + 1) * vectors]):
            f.store(chain, f.gep(row, j, numbers.vector))
    f.ret()


def _ask_operands(f: Function, ending: GemmEpilogue, inputs: list[Matrix], r: Val, columns: int) -> None:
    """Ask for a row of what this tile's ending will read, and write if it is one over its operands."""
    for k in ending.full:
        operand, size = inputs[k], ending.operands[k].dtype.itemsize
        start = f.gep(operand.at(f, f.add(f["next_m"], r)), f.mul(f.sub(f["next_n"], f["n"]), size))
        for at in range(0, columns * size, LINE):
            f.prefetch(f.gep(start, at), ending.over, 1)


@dataclass(frozen=True)
class PendingTile:
    """The tile of a block whose sums wait for their ending, if there is one."""

    f: Function
    layout: ScratchLayout
    there: Val  # addresses of variables: whether there is one, which of the two places is free, where the tile is
    free: Val
    home: Val
    m: Val
    n: Val

    @property
    def some(self) -> Val:
        """Whether a tile waits."""
        return self.f.icmp("ne", self.f.load(self.there, "i64"), 0)

    @property
    def place(self) -> Val:
        """Where the sums of the next tile belong."""
        return self.f.gep(self.f["scratch"], self.f.load(self.free, "i64"))

    def wait(self, home: Val, m: Val, n: Val) -> None:
        """The tile whose sums were put there waits from now on."""
        f = self.f
        for value, at in ((f.i64(1), self.there), (home, self.home), (m, self.m), (n, self.n)):
            f.store(value, at)
        f.store(f.sub(self.layout.tile, f.load(self.free, "i64")), self.free)

    def before(self) -> list[Val]:
        """The arguments that tell of it, in the order of `BEFORE`."""
        f = self.f
        source = f.gep(f["scratch"], f.sub(self.layout.tile, f.load(self.free, "i64")))
        return [f["outer"], f["inner"], source, f.load(self.home, "ptr"), f.load(self.m, "i64"), f.load(self.n, "i64")]

    def finish(self, merge: Val, home_row: Val, adds: Val) -> None:
        """Send the last one through its ending, by the function @merge."""
        f, layout = self.f, self.layout
        with f.when(self.some):
            outer, inner, source, home, m, n = self.before()
            f.call_value(merge, "void", [
                f["args"], source, f.i64(layout.panel * layout.numbers.bytes), home, home_row, outer, inner, m, n,
                f.i64(layout.shape.tall), f.i64(layout.panel), adds,
            ])  # fmt: skip


def no_pending_tile(f: Function, layout: ScratchLayout) -> PendingTile:
    """No tile waits yet."""
    waiting = PendingTile(f, layout, *(f.alloca(ty, align=8) for ty in ("i64", "i64", "ptr", "i64", "i64")))
    f.store(f.i64(0), waiting.there)
    f.store(f.i64(0), waiting.free)
    return waiting
