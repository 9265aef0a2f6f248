"""Attention's forward kernel: softmax(scores of Q · Kᵀ) · V without a matrix of scores in memory.

    p = exp(score(q · kᵀ) − most),   mixed = p · v,   out = mixed · (1 / Σ p)

A thread processes a chunk of a head's queries, packs the keys once, and works by row panels.  A row panel's scores are
whole rows, and stay in scratch memory.  Every element has the same bits as with separate products, exponentials and
sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from nacre.base.records import dataclass
from nacre.codegen.attention.parts import ArgumentSlots, Parts, strides
from nacre.codegen.attention.plan import FORWARD, PanelModel, forward_cut, line
from nacre.codegen.attention.rows import RESULTS, Scores, emit_nest, finish, most, raised, total
from nacre.codegen.gemm.element_types import numbers
from nacre.codegen.gemm.plan import BLOCK
from nacre.kernel.ast import Kernel
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText
from nacre.runtime.plan import Cut

SIZES = ("inner", "queries", "keys", "depth", "width")  # depth: of queries and keys; width: of values


@dataclass(frozen=True)
class Attention:
    """The interface of an attention kernel for its callers.

    `slots` names the argument slots: addresses (`Q K V Mask Lengths Out Mixed Most Total` as far as used), then the
    sizes, and strides in elements.  Columns, and results with one value for each row, are contiguous.  Last are the
    slots of the `Cut` that `cut` returns for (heads, queries, keys, depth, width) and threads.
    """

    name: str
    slots: tuple[str, ...]
    cut: Callable[[tuple[int, ...], int], Cut]
    depths: int  # products whose other sizes are queries, keys and depth
    widths: int  # products with queries, keys and width


def forward(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[ModuleText, Attention]:
    """Write the kernel that computes some of `RESULTS`."""
    return written(isa, scores, results, name, FORWARD, forward_cut, AttentionWriter)


def written(
    isa: Isa,
    scores: Scores,
    results: tuple[str, ...],
    name: str,
    cut_slots: tuple[str, ...],
    cut: Callable[[PanelModel, tuple[int, ...], int], Cut],
    writer: type[AttentionWriter],
) -> tuple[ModuleText, Attention]:
    """Write a forward kernel, given the slots of its `Cut` and the function that computes it."""
    parts = parts_of(isa, scores)
    module = ModuleText(name)
    writer.emit(module, parts, scores)
    masked = ("Mask",) if scores.mask is not None else ()
    wide = [r for r in ("out", "mixed") if r in results]
    rows = [r for r in ("most", "total") if r in results]
    lengths = ("Lengths",) if scores.bounded else ()
    places = ("Q", "K", "V", *masked, *lengths, *(r.capitalize() for r in RESULTS if r in results))
    given = [s for n in ("Q", "K", "V", *masked, *wide) for s in strides(n)]
    given += [s for r in (*lengths, *rows) for s in strides(r, rows=False)]
    slots = ArgumentSlots((*places, *SIZES, *given, *cut_slots))
    writer(module, isa, parts, scores, slots, tuple(wide), tuple(rows)).write(name)
    return module, Attention(name, slots.names, partial(cut, parts.model), 1, 1)


def parts_of(isa: Isa, scores: Scores) -> Parts:
    """The parts of a kernel for the operands' dtypes."""
    given = scores.operands or (scores.dtype,) * 3
    return Parts(numbers(isa, scores.dtype), tuple(numbers(isa, d) for d in given))


class AttentionWriter:
    """Writes the kernel function."""

    def __init__(
        self,
        module: ModuleText,
        isa: Isa,
        parts: Parts,
        scores: Scores,
        slots: ArgumentSlots,
        wide: tuple[str, ...],
        rows: tuple[str, ...],
    ) -> None:
        self.module, self.isa, self.parts, self.scores, self.slots = module, isa, parts, scores, slots
        self.wide, self.rows = wide, rows
        self.of = dict(zip("qkv", parts.sources, strict=True))
        self.scalars = {"out": (scores.out or scores.dtype).memory, "mixed": parts.numbers.wide}
        self.nests = {k.name: emit_nest(module, isa, k) for k in self.kernels()}

    @staticmethod
    def emit(module: ModuleText, parts: Parts, scores: Scores) -> None:
        """Write the functions that the kernel calls."""
        parts.emit(module, scores.causal, scores.causal and scores.adds)

    def kernels(self) -> tuple[Kernel, ...]:
        """The operations on the rows of a row panel."""
        return *(k(self.scores) for k in (most, raised, total)), finish(self.scores, self.wide)

    def write(self, name: str) -> None:
        """Write the loop over items: chunks of a head's queries, then heads."""
        params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
        f = self.f = self.module.function(name, "void", params, isa=self.isa)
        self.values = {n: self.slots(f, n) for n in self.slots.names}
        self.table = f.alloca("i64", 16)
        with f.loop("item", f["lo"], f["hi"]) as item:
            head = f.binary("udiv", item.index, self.values["chunks"])
            outer = f.binary("udiv", head, self.values["inner"])
            levels = [outer, f.sub(head, f.mul(outer, self.values["inner"]))]
            if self.scores.bounded:
                self.values["keys"] = self.length(levels)
            number = f.sub(item.index, f.mul(head, self.values["chunks"]))
            if self.scores.causal:  # the last queries, which have most keys, come first
                number = f.sub(f.sub(self.values["chunks"], 1), number)
            first = f.mul(number, self.values["chunk"])
            self.chunk(levels, first, f.smin(f.add(first, self.values["chunk"]), self.values["queries"]))
        f.ret()

    def length(self, levels: list[Val]) -> Val:
        """The number of keys that a head reads, from 0 to all."""
        f = self.f
        given = f.load(self.slots.at(f, "Lengths", levels, "i64"), "i64", 8)
        return f.smin(f.smax(given, 0), self.slots(f, "keys"))

    def place(self, name: str) -> Val:
        """The address of an area of scratch memory."""
        return self.f.gep(self.f["scratch"], self.values[f"{name}_at"])

    def row_stride(self, name: str) -> Val:
        """The stride of a tensor's rows, in bytes."""
        return self.f.mul(self.values[f"{name}.row"], self.of[name].stored_bytes)

    def chunk(self, levels: list[Val], first: Val, stop: Val) -> None:
        """Write queries `first` to `stop` of one head."""
        f, v, parts, of = self.f, self.values, self.parts, self.of
        q, k, val = (self.slots.at(f, name.upper(), levels, n.stored) for name, n in of.items())
        skips, keys = self.skips(levels, val, first, stop)
        parts.pack(f, of["k"], k, v["k.row"], self.place("k"), v["depth"], keys)
        parts.copy(f, of["v"], val, self.row_stride("v"), self.place("v"), v["v_row"], keys, v["width"])
        with f.loop("row_panel", first, stop, parts.tall) as band:
            rows = f.smin(f.sub(stop, band.index), parts.tall)
            source = f.gep(q, f.mul(band.index, self.row_stride("q")))
            parts.copy(f, of["q"], source, self.row_stride("q"), self.place("q"), v["q_row"], rows, v["depth"])
            self.row_panel(levels, band.index, rows, val, keys, skips)

    def skips(self, levels: list[Val], val: Val, first: Val, stop: Val) -> tuple[Val | None, Val]:
        """Whether causal queries may skip keys behind them without effect, and the keys that some queries need."""
        f, v = self.f, self.values
        if not self.scores.causal:
            return None, v["keys"]
        skips = f.icmp("ne", self.parts.finite(f, self.of["v"], val, self.row_stride("v"), v["keys"], v["width"]), 0)
        if self.scores.adds:
            skips = f.and_(skips, self.below(levels, first, stop))
        return skips, f.select(skips, f.smin(v["keys"], stop), v["keys"])

    def below(self, levels: list[Val], first: Val, stop: Val) -> Val:
        """Whether the mask of some queries is below +∞ everywhere; a repeated row is read once."""
        f, v, n = self.f, self.values, self.parts.numbers
        row = f.mul(v["mask.row"], n.bytes)
        start = f.gep(self.slots.at(f, "Mask", levels, n.wide), f.mul(first, row))
        rows = f.select(f.icmp("eq", row, 0), f.i64(1), f.sub(stop, first))
        columns = v["keys"] if self.scores.mask_columns else f.i64(1)
        return f.icmp("ne", self.parts.below(f, start, row, rows, columns), 0)

    def row_panel(self, levels: list[Val], i: Val, rows: Val, val: Val, packed_columns: Val, skips: Val | None) -> None:
        """Write the queries of one row panel, which begins at row i; `packed_columns` keys are packed."""
        f, v, n, parts = self.f, self.values, self.parts.numbers, self.parts
        size, keys = f.i64(n.bytes), v["keys"]
        if skips is not None:
            keys = f.select(skips, f.smin(f.add(i, rows), keys), keys)
        parts.row_panel(
            f,
            rows,
            (self.place("q"), v["q_row"], size),
            (self.place("k"), f.i64(0)),
            v["depth"],
            (self.place("s"), v["s_row"]),
            keys,
            packed_columns,
        )
        if skips is not None:
            f.call("fill", "void", [self.place("s"), v["s_row"], rows, f.add(i, 1), keys, f.const(n.wide, -math.inf)])
        total = self.weigh(levels, i, rows, keys)
        parts.row_panel(
            f,
            rows,
            (self.place("s"), v["s_row"], size),
            (self.place("v"), v["v_row"]),
            keys,
            (self.place("c"), v["c_row"]),
            v["width"],
        )
        if skips is not None:
            stop = f.smin(f.and_(f.add(keys, BLOCK - 1), -BLOCK), v["keys"])
            more = f.cast("zext", f.icmp("slt", stop, v["keys"]), "i64")
            with f.when(f.icmp("slt", keys, v["keys"])):
                parts.settle(
                    f,
                    self.of["v"],
                    self.place("c"),
                    v["c_row"],
                    rows,
                    v["width"],
                    val,
                    self.row_stride("v"),
                    keys,
                    stop,
                    more,
                )
        self.write_results(levels, i, rows, self.place("c"), total)

    def write_results(self, levels: list[Val], i: Val, rows: Val, c: Val, total: Val) -> None:
        """Write the results of a row panel, given its products with the values and the sums of its weights."""
        f, v = self.f, self.values
        buffers = {"c": c, "total": total}
        sizes = {"rows": rows, "columns": v["width"], "row_stride": self.elements("c_row")}
        for r in self.wide:
            start = self.slots.at(f, r.capitalize(), levels, self.scalars[r])
            buffers[r] = f.gep(start, f.mul(i, v[f"{r}.row"]), self.scalars[r])
            sizes[f"{r}_apart"] = v[f"{r}.row"]
        self.run("attend_finish", buffers, sizes, rows)

    def run(self, name: str, buffers: Mapping[str, Val], sizes: Mapping[str, Val], rows: Val) -> None:
        """Run an operation on some rows."""
        self.nests[name].call(self.f, self.table, buffers, sizes, rows)

    def elements(self, slot: str) -> Val:
        """A distance in scratch memory, stored in bytes, as elements."""
        return self.f.lshr(self.values[slot], self.parts.numbers.bytes.bit_length() - 1)

    def masked(self, levels: list[Val], i: Val, first: Val | None = None) -> tuple[dict[str, Val], dict[str, Val]]:
        """The mask's buffer and size for queries from i on and keys from `first` on, if there is a mask."""
        f, v, mask = self.f, self.values, self.scores.mask
        if mask is None:
            return {}, {}
        at = f.mul(i, v["mask.row"])
        if first is not None:
            at = f.add(at, f.mul(first, self.scores.mask_columns))
        start = f.gep(self.slots.at(f, "Mask", levels, mask.memory), at, mask.memory)
        return {"mask": start}, {"mask_apart": v["mask.row"]}

    def weigh(self, levels: list[Val], i: Val, rows: Val, keys: Val) -> Val:
        """Convert scores to weights in place; returns the address of their sums."""
        f, n = self.f, self.parts.numbers
        buffers = {"x": self.place("s"), "p": self.place("s")}
        for k, r in enumerate(("most", "total")):
            if r in self.rows:
                buffers[r] = f.gep(self.slots.at(f, r.capitalize(), levels, n.wide), i, n.wide)
            else:
                buffers[r] = f.gep(self.place("row"), k * line(self.parts.tall * n.bytes))
        mask, mask_sizes = self.masked(levels, i)
        sizes = {"rows": rows, "columns": keys, "row_stride": self.elements("s_row"), **mask_sizes}
        for name in ("attend_most", "attend_raised", "attend_total"):
            self.run(name, {**buffers, **mask}, sizes, rows)
        return buffers["total"]
