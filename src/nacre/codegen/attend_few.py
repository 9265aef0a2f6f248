"""Attention of few queries, as a decoder has one for each token: keys and values are read once, where they lie.

The products are those of few rows, `dots` with the keys and `sweep` over the values; what lies between them is what
every attention does to its rows, and so are all bits.
"""

from __future__ import annotations

from functools import partial

from nacre.codegen.attend import RESULTS, SIZES, Attention
from nacre.codegen.attend_parts import Words, strides
from nacre.codegen.attend_plan import Bands, line
from nacre.codegen.attend_rows import Scores, emit_nest, finish, weights
from nacre.codegen.contract_dots import emit_dots
from nacre.codegen.contract_numbers import numbers
from nacre.codegen.contract_pack import emit_gather
from nacre.codegen.contract_plan import FEW
from nacre.codegen.contract_thin import emit_sweep
from nacre.codegen.isa import Isa
from nacre.native.text import Function, Module, Val
from nacre.runtime.plan import Cut

WORDS = ("s_at", "c_at", "row_at", "s_row", "c_row")


def few_queries(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[Module, Attention]:
    """Write the kernel that computes some of `RESULTS` for up to `FEW` queries that see every key."""
    n = numbers(isa, scores.dtype)
    module = Module(name)
    emit_gather(module, n, "gather", n.stored)
    emit_dots(module, n, n)
    emit_sweep(module, n, n)
    masked = ("Mask",) if scores.mask is not None else ()
    wide = tuple(r for r in ("out", "mixed") if r in results)
    rows = tuple(r for r in ("most", "total") if r in results)
    places = ("Q", "K", "V", *masked, *(r.capitalize() for r in RESULTS if r in results))
    given = [s for p in ("Q", "K", "V", *masked, *wide) for s in strides(p)]
    given += [s for r in rows for s in strides(r, rows=False)]
    words = Words((*places, *SIZES, *given, *WORDS))
    _Writer(module, isa, scores, words, wide, rows).write(name)
    return module, Attention(name, words.names, partial(_cut, Bands(n.lanes, n.bytes, FEW)), 1, 1)


def _cut(bands: Bands, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are heads; the words are `WORDS`, in bytes.  Sizes as in `forward_cut`."""
    heads, queries, keys, _, width = sizes
    s_row, c_row = (line(bands.wide(n)) for n in (keys, width))
    areas = (2 * queries * s_row, 2 * queries * c_row, 2 * line(queries * bands.bytes))
    starts = (sum(areas[:k]) for k in range(len(areas)))
    return Cut(heads, 1, sum(areas), (*starts, s_row, c_row))


class _Writer:
    """Writes the kernel function."""

    def __init__(self, module: Module, isa: Isa, scores: Scores, words: Words, wide: tuple[str, ...],
                 rows: tuple[str, ...]) -> None:
        self.module, self.isa, self.scores, self.words = module, isa, scores, words
        self.numbers, self.wide, self.rows = numbers(isa, scores.dtype), wide, rows
        self.weights = emit_nest(module, isa, weights(scores))
        self.finish = emit_nest(module, isa, finish(scores, wide))

    def write(self, name: str) -> None:
        """The loop over items, which are heads."""
        params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
        f = self.f = self.module.function(name, "void", params, attributes=self.isa.attributes)
        self.values = {n: self.words(f, n) for n in self.words.names}
        self.table = f.alloca("i64", 16)
        with f.loop("head", f["lo"], f["hi"]) as head:
            outer = f.binary("udiv", head.index, self.values["inner"])
            self.head([outer, f.sub(head.index, f.mul(outer, self.values["inner"]))])
        f.ret()

    def head(self, levels: list[Val]) -> None:
        """All queries of a head."""
        f, v, n = self.f, self.values, self.numbers
        q, k, val = (self.words.at(f, name, levels, n.wide) for name in "QKV")
        scores, mixed = self.place("s"), self.place("c")
        self.product(f, "dots", (q, self.apart("q")), (k, self.apart("k")), (scores, "s_row"), "depth", "keys")
        total = self.weigh(levels, scores)
        self.product(f, "sweep", (scores, v["s_row"]), (val, self.apart("v")), (mixed, "c_row"), "keys", "width")
        buffers = {"c": mixed, "total": total}
        sizes = {"rows": v["queries"], "columns": v["width"], "apart": self.elements("c_row")}
        for r in self.wide:
            buffers[r] = self.words.at(f, r.capitalize(), levels, n.wide)
            sizes[f"{r}_apart"] = v[f"{r}.row"]
        self.finish.call(f, self.table, buffers, sizes, v["queries"])

    def product(self, f: Function, name: str, a: tuple[Val, Val], b: tuple[Val, Val], c: tuple[Val, str], depth: str,
                columns: str) -> None:
        """C = A · B for addresses and rows in bytes; the chains stand behind the sums."""
        v, (sums, row) = self.values, c
        chains = f.gep(sums, f.mul(v["queries"], v[row]))
        f.call(self.numbers.part(name), "void", [
            *a, f.i64(self.numbers.bytes), *b, sums, chains, v[row], v[depth], v["queries"], v[columns]])

    def weigh(self, levels: list[Val], scores: Val) -> Val:
        """Scores become weights in place; returns where their sums are."""
        f, v, n = self.f, self.values, self.numbers
        buffers = {"x": scores, "p": scores}
        for k, r in enumerate(("most", "total")):
            kept = f.gep(self.place("row"), f.mul(f.i64(k * n.bytes), v["queries"]))
            buffers[r] = self.words.at(f, r.capitalize(), levels, n.wide) if r in self.rows else kept
        sizes = {"rows": v["queries"], "columns": v["keys"], "apart": self.elements("s_row")}
        if self.scores.mask is not None:
            buffers["mask"] = self.words.at(f, "Mask", levels, self.scores.mask.memory)
            sizes["mask_apart"] = v["mask.row"]
        self.weights.call(f, self.table, buffers, sizes, v["queries"])
        return buffers["total"]

    def place(self, name: str) -> Val:
        """An area of scratch memory."""
        return self.f.gep(self.f["scratch"], self.values[f"{name}_at"])

    def apart(self, name: str) -> Val:
        """From row to row of a tensor, in bytes."""
        return self.f.mul(self.values[f"{name}.row"], self.numbers.bytes)

    def elements(self, name: str) -> Val:
        """A distance in scratch memory, in elements."""
        return self.f.lshr(self.values[name], self.numbers.bytes.bit_length() - 1)
