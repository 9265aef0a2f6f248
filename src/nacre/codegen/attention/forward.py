"""Attention's forward kernel: softmax(scores of Q · Kᵀ) · V without a matrix of scores in memory.

    p = exp(score(q · kᵀ) − most),   mixed = p · v,   out = mixed · (1 / Σ p)

A thread takes a chunk of a head's queries, packs the keys once, and works band by band.  A band's scores, whole rows,
stay in its scratch memory.  Every element is computed as by separate products, exponentials and sums, with the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from nacre.base.records import dataclass
from nacre.codegen.attention.parts import ArgumentSlots, Parts, strides
from nacre.codegen.attention.plan import FORWARD, PanelModel, forward_cut, line
from nacre.codegen.attention.rows import Scores, emit_nest, finish, most, raised, total
from nacre.codegen.gemm.element_types import numbers
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.isa import Isa
from nacre.kernel.ast import Kernel
from nacre.native.text import ModuleText, Val
from nacre.runtime.plan import Cut

RESULTS = ("out", "mixed", "most", "total")

SIZES = ("inner", "queries", "keys", "depth", "width")  # depth: of queries and keys; width: of values


@dataclass(frozen=True)
class Attention:
    """What a caller of a kernel needs to know.

    `slots` names the argument slots: addresses (forward `Q K V Mask Out Mixed Most Total`, as far as used), then
    the sizes, and strides in elements.  Columns, and results with one value for each row, are contiguous.  Last are
    the words of the `Cut` that `cut` gives for (heads, queries, keys, depth, width) and threads.
    """

    name: str
    slots: tuple[str, ...]
    cut: Callable[[tuple[int, ...], int], Cut]
    depths: int  # products whose other sizes are queries, keys and depth
    widths: int  # and those of queries, keys and width


def forward(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[ModuleText, Attention]:
    """Write the kernel that computes some of `RESULTS`."""
    return written(isa, scores, results, name, FORWARD, forward_cut, AttentionWriter)


def written(
    isa: Isa,
    scores: Scores,
    results: tuple[str, ...],
    name: str,
    cut_words: tuple[str, ...],
    cut: Callable[[PanelModel, tuple[int, ...], int], Cut],
    writer: type[AttentionWriter],
) -> tuple[ModuleText, Attention]:
    """Write a forward kernel, given the words of its `Cut` and what gives that."""
    parts = parts_of(isa, scores)
    module = ModuleText(name)
    writer.emit(module, parts, scores)
    masked = ("Mask",) if scores.mask is not None else ()
    wide = [r for r in ("out", "mixed") if r in results]
    rows = [r for r in ("most", "total") if r in results]
    places = ("Q", "K", "V", *masked, *(r.capitalize() for r in RESULTS if r in results))
    given = [s for n in ("Q", "K", "V", *masked, *wide) for s in strides(n)]
    given += [s for r in rows for s in strides(r, rows=False)]
    words = ArgumentSlots((*places, *SIZES, *given, *cut_words))
    writer(module, isa, parts, scores, words, tuple(wide), tuple(rows)).write(name)
    return module, Attention(name, words.names, partial(cut, parts.bands), 1, 1)


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
        words: ArgumentSlots,
        wide: tuple[str, ...],
        rows: tuple[str, ...],
    ) -> None:
        self.module, self.isa, self.parts, self.scores, self.words = module, isa, parts, scores, words
        self.wide, self.rows = wide, rows
        self.of = dict(zip("qkv", parts.sources, strict=True))
        self.scalars = {"out": (scores.out or scores.dtype).memory, "mixed": parts.numbers.wide}
        self.nests = {k.name: emit_nest(module, isa, k) for k in self.kernels()}

    @staticmethod
    def emit(module: ModuleText, parts: Parts, scores: Scores) -> None:
        """Write the functions that the kernel calls."""
        parts.emit(module, scores.causal, scores.causal and scores.adds)

    def kernels(self) -> tuple[Kernel, ...]:
        """What is done to the rows of a band."""
        return *(k(self.scores) for k in (most, raised, total)), finish(self.scores, self.wide)

    def write(self, name: str) -> None:
        """The loop over items: chunks of a head's queries, then heads."""
        params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
        f = self.f = self.module.function(name, "void", params, attributes=self.isa.attributes)
        self.values = {n: self.words(f, n) for n in self.words.names}
        self.table = f.alloca("i64", 16)
        with f.loop("item", f["lo"], f["hi"]) as item:
            head = f.binary("udiv", item.index, self.values["chunks"])
            outer = f.binary("udiv", head, self.values["inner"])
            levels = [outer, f.sub(head, f.mul(outer, self.values["inner"]))]
            number = f.sub(item.index, f.mul(head, self.values["chunks"]))
            if self.scores.causal:  # the last queries, which have most keys, come first
                number = f.sub(f.sub(self.values["chunks"], 1), number)
            first = f.mul(number, self.values["chunk"])
            self.chunk(levels, first, f.smin(f.add(first, self.values["chunk"]), self.values["queries"]))
        f.ret()

    def place(self, name: str) -> Val:
        """An area of scratch memory."""
        return self.f.gep(self.f["scratch"], self.values[f"{name}_at"])

    def apart(self, name: str) -> Val:
        """From row to row of a tensor, in bytes."""
        return self.f.mul(self.values[f"{name}.row"], self.of[name].stored_bytes)

    def chunk(self, levels: list[Val], first: Val, stop: Val) -> None:
        """Queries `first` to `stop` of one head."""
        f, v, parts, of = self.f, self.values, self.parts, self.of
        q, k, val = (self.words.at(f, name.upper(), levels, n.stored) for name, n in of.items())
        skips, keys = self.skips(levels, val, first, stop)
        parts.pack(f, of["k"], k, v["k.row"], self.place("k"), v["depth"], keys)
        parts.copy(f, of["v"], val, self.apart("v"), self.place("v"), v["v_row"], keys, v["width"])
        with f.loop("band", first, stop, parts.tall) as band:
            rows = f.smin(f.sub(stop, band.index), parts.tall)
            source = f.gep(q, f.mul(band.index, self.apart("q")))
            parts.copy(f, of["q"], source, self.apart("q"), self.place("q"), v["q_row"], rows, v["depth"])
            self.band(levels, band.index, rows, val, keys, skips)

    def skips(self, levels: list[Val], val: Val, first: Val, stop: Val) -> tuple[Val | None, Val]:
        """Whether causal queries skip keys behind them, if it does not show; and the keys that some queries take."""
        f, v = self.f, self.values
        if not self.scores.causal:
            return None, v["keys"]
        skips = f.icmp("ne", self.parts.finite(f, self.of["v"], val, self.apart("v"), v["keys"], v["width"]), 0)
        if self.scores.adds:
            skips = f.and_(skips, self.below(levels, first, stop))
        return skips, f.select(skips, f.smin(v["keys"], stop), v["keys"])

    def below(self, levels: list[Val], first: Val, stop: Val) -> Val:
        """Whether the mask of some queries is below +∞ everywhere; a row that is repeated is looked at once."""
        f, v, n = self.f, self.values, self.parts.numbers
        row = f.mul(v["mask.row"], n.bytes)
        start = f.gep(self.words.at(f, "Mask", levels, n.wide), f.mul(first, row))
        rows = f.select(f.icmp("eq", row, 0), f.i64(1), f.sub(stop, first))
        columns = v["keys"] if self.scores.mask_columns else f.i64(1)
        return f.icmp("ne", self.parts.below(f, start, row, rows, columns), 0)

    def band(self, levels: list[Val], i: Val, rows: Val, val: Val, held: Val, skips: Val | None) -> None:
        """The queries of one band, which begins at row i, with the keys that are held packed."""
        f, v, n, parts = self.f, self.values, self.parts.numbers, self.parts
        size, keys = f.i64(n.bytes), v["keys"]
        if skips is not None:
            keys = f.select(skips, f.smin(f.add(i, rows), keys), keys)
        parts.band(
            f,
            rows,
            (self.place("q"), v["q_row"], size),
            (self.place("k"), f.i64(0)),
            v["depth"],
            (self.place("s"), v["s_row"]),
            keys,
            held,
        )
        if skips is not None:
            f.call("fill", "void", [self.place("s"), v["s_row"], rows, f.add(i, 1), keys, f.const(n.wide, -math.inf)])
        total = self.weigh(levels, i, rows, keys)
        parts.band(
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
                    self.apart("v"),
                    keys,
                    stop,
                    more,
                )
        self.finished(levels, i, rows, self.place("c"), total)

    def finished(self, levels: list[Val], i: Val, rows: Val, c: Val, total: Val) -> None:
        """The results of a band, given its products with the values and the sums of its weights."""
        f, v = self.f, self.values
        buffers = {"c": c, "total": total}
        sizes = {"rows": rows, "columns": v["width"], "apart": self.elements("c_row")}
        for r in self.wide:
            start = self.words.at(f, r.capitalize(), levels, self.scalars[r])
            buffers[r] = f.gep(start, f.mul(i, v[f"{r}.row"]), self.scalars[r])
            sizes[f"{r}_apart"] = v[f"{r}.row"]
        self.run("attend_finish", buffers, sizes, rows)

    def run(self, name: str, buffers: Mapping[str, Val], sizes: Mapping[str, Val], rows: Val) -> None:
        """Do something to some rows."""
        self.nests[name].call(self.f, self.table, buffers, sizes, rows)

    def elements(self, word: str) -> Val:
        """A distance in scratch memory, which is given in bytes, in elements."""
        return self.f.lshr(self.values[word], self.parts.numbers.bytes.bit_length() - 1)

    def masked(self, levels: list[Val], i: Val, first: Val | None = None) -> tuple[dict[str, Val], dict[str, Val]]:
        """The mask's buffer and size for queries from i on and keys from `first` on, if there is a mask."""
        f, v, mask = self.f, self.values, self.scores.mask
        if mask is None:
            return {}, {}
        at = f.mul(i, v["mask.row"])
        if first is not None:
            at = f.add(at, f.mul(first, self.scores.mask_columns))
        start = f.gep(self.words.at(f, "Mask", levels, mask.memory), at, mask.memory)
        return {"mask": start}, {"mask_apart": v["mask.row"]}

    def weigh(self, levels: list[Val], i: Val, rows: Val, keys: Val) -> Val:
        """Scores become weights in place; returns where their sums are."""
        f, n = self.f, self.parts.numbers
        buffers = {"x": self.place("s"), "p": self.place("s")}
        for k, r in enumerate(("most", "total")):
            if r in self.rows:
                buffers[r] = f.gep(self.words.at(f, r.capitalize(), levels, n.wide), i, n.wide)
            else:
                buffers[r] = f.gep(self.place("row"), k * line(self.parts.tall * n.bytes))
        mask, mask_sizes = self.masked(levels, i)
        sizes = {"rows": rows, "columns": keys, "apart": self.elements("s_row"), **mask_sizes}
        for name in ("attend_most", "attend_raised", "attend_total"):
            self.run(name, {**buffers, **mask}, sizes, rows)
        return buffers["total"]
