"""Attention's backward kernel: the cotangents of queries, keys and values, with recomputed weights.

    p = exp(score(q · kᵀ) − most),   d = p · (g · vᵀ + shift), back through the scores
    dv = pᵀ · g,   dk = dᵀ · q,   dq = d · k

A thread processes a head.  It divides the scores into score tiles, as large as a block of a chain of multiply-adds,
with keys in the outer loop and queries in the inner one.  Each tile adds one chain to each of its sums, in ascending
order.  With few heads, a thread processes some keys of a head and all queries, for dk and dv, or some queries and all
keys, for dq; the weights are then computed twice.
"""

from __future__ import annotations

import math
from functools import partial

from nacre.base.records import dataclass
from nacre.codegen.attention.forward import SIZES, Attention, parts_of
from nacre.codegen.attention.parts import ArgumentSlots, Parts, strides
from nacre.codegen.attention.plan import BACKWARD, backward_cut
from nacre.codegen.attention.rows import GRADS, Scores, emit_nest, gradients
from nacre.codegen.gemm.element_types import edge, load_edge, store_edge
from nacre.codegen.gemm.plan import BLOCK
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText


def backward(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[ModuleText, Attention]:
    """Write the kernel that computes some of `GRADS`.

    Its addresses are `Q K V G Most Shift Mask Dq Dk Dv`: G are the cotangents of p · v, Shift is the common part of the
    cotangents of a row's weights.
    """
    parts = parts_of(isa, scores)
    module = ModuleText(name)
    parts.emit(module, scores.causal, False)
    masked = ("Mask",) if scores.mask is not None else ()
    outputs = tuple(f"D{r}" for r in GRADS if r in results)
    given = [s for n in ("Q", "K", "V", "G", *masked, *outputs) for s in strides(n)]
    given += [s for n in ("Most", "Shift") for s in strides(n, rows=False)]
    slots = ArgumentSlots(("Q", "K", "V", "G", "Most", "Shift", *masked, *outputs, *SIZES, *given, *BACKWARD))
    _emit_join(module, parts)
    _Writer(module, isa, parts, scores, slots, results).write(name)
    return module, Attention(name, slots.names, partial(backward_cut, parts.model), 3, 2)


def _emit_join(module: ModuleText, parts: Parts) -> None:
    """@join(from, from_row, to, to_row, rows, columns, before): add the sums of one score tile to those before it.

    `before` is 0 if there are none, 1 if they are stored in the result, 2 if they are zeros.
    """
    n = parts.numbers
    params = {
        "from": "ptr",
        "from_row": "i64",
        "to": "ptr",
        "to_row": "i64",
        "rows": "i64",
        "columns": "i64",
        "before": "i64",
    }
    f = module.function("join", "void", params, linkage="internal", isa=n.isa)
    some, there = f.icmp("ne", f["before"], 0), f.icmp("eq", f["before"], 1)
    with f.loop("r", 0, f["rows"]) as loop:
        source = f.gep(f["from"], f.mul(loop.index, f["from_row"]))
        target = f.gep(f["to"], f.mul(loop.index, f["to_row"]))
        with f.loop("j", 0, f["columns"], n.lanes) as inner:
            lanes = edge(f, n.isa, f.sub(f["columns"], inner.index), n.vector)
            place = f.gep(target, inner.index, n.wide)
            value = f.load(f.gep(source, inner.index, n.wide), n.vector)
            old = f.select(there, load_edge(f, place, n.vector, lanes), f.zero(n.vector))
            store_edge(f, f.select(some, f.fadd(old, value), value), place, lanes)
    f.ret()


@dataclass(frozen=True)
class _Head:
    """The tensors of one head, whether keys behind the diagonal are skipped, and the results to compute."""

    at: dict[str, Val]
    skips: Val | None
    of_queries: Val
    of_keys: Val
    panel_keys: Val  # queries of a row panel whose keys are read: more if row panels of keys begin elsewhere


@dataclass(frozen=True)
class _ScoreTile:
    """The place of a score tile: its first query and key, and the number of each."""

    query: Val
    key: Val
    queries: Val
    keys: Val


class _Writer:
    """Writes the kernel function."""

    def __init__(
        self, module: ModuleText, isa: Isa, parts: Parts, scores: Scores, slots: ArgumentSlots, results: tuple[str, ...]
    ) -> None:
        self.module, self.isa, self.parts, self.scores, self.slots = module, isa, parts, scores, slots
        self.results = results
        self.of = {**dict(zip("qkv", parts.sources, strict=True)), "g": parts.numbers}
        self.gradients = emit_nest(module, isa, gradients(scores))

    def write(self, name: str) -> None:
        """Write the loop over heads, or parts of them."""
        params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
        f = self.f = self.module.function(name, "void", params, isa=self.isa)
        self.values = {n: self.slots(f, n) for n in self.slots.names}
        self.size = f.i64(self.parts.numbers.bytes)
        self.table = f.alloca("i64", 16)
        v, each, key_items = self.values, self.values["each"], self.values["key_items"]
        whole = f.icmp("eq", key_items, 0)
        query_items = f.binary("udiv", f.add(v["queries"], f.sub(each, 1)), each)
        parts = f.select(whole, f.i64(1), f.add(key_items, query_items))
        with f.loop("item", f["lo"], f["hi"]) as item:
            head = f.binary("udiv", item.index, parts)
            outer = f.binary("udiv", head, v["inner"])
            part = f.sub(item.index, f.mul(head, parts))
            of_keys = f.icmp("slt", part, key_items)
            of_queries = f.sub(f.sub(parts, 1), part)  # the last queries, which have most keys, come first
            first = f.mul(f.select(of_keys, part, of_queries), each)
            self.head([outer, f.sub(head, f.mul(outer, v["inner"]))], whole, of_keys, first)
        f.ret()

    # ---- slots

    def place(self, name: str) -> Val:
        """The address of an area of scratch memory."""
        return self.f.gep(self.f["scratch"], self.values[f"{name}_at"])

    def row_stride(self, name: str) -> Val:
        """The stride of a tensor's rows, in bytes."""
        return self.f.mul(self.values[f"{name}.row"], self.of.get(name, self.parts.numbers).stored_bytes)

    def row(self, head: _Head, name: str, k: Val) -> Val:
        """The address of a tensor's row."""
        return self.f.gep(head.at[name], self.f.mul(k, self.row_stride(name)))

    # ---- the loops

    def head(self, levels: list[Val], whole: Val, of_keys: Val, first: Val) -> None:
        """Write the score tiles of one head, or of its keys or queries from `first` on."""
        f, v, n = self.f, self.values, self.parts.numbers
        of_queries = f.icmp("eq", f.or_(whole, of_keys), f.const("i1", False))
        named = [w for w in self.slots.names if w[0].isupper()]
        scalars = {w: self.of.get(w.lower(), n).stored for w in named}
        if self.scores.mask is not None:
            scalars["Mask"] = self.scores.mask.memory
        at = {w.lower(): self.slots.at(f, w, levels, scalars[w]) for w in named}
        skips = self.skips(at) if self.scores.causal else None
        panel_keys = f.select(of_keys, f.i64(2 * self.parts.tall), f.i64(self.parts.tall))
        head = _Head(at, skips, f.or_(whole, of_queries), f.or_(whole, of_keys), panel_keys)
        from_key, from_query = (f.select(chosen, first, f.i64(0)) for chosen in (of_keys, of_queries))
        to_key, to_query = (
            f.select(chosen, f.smin(f.add(first, v["each"]), v[t]), v[t])
            for chosen, t in ((of_keys, "keys"), (of_queries, "queries"))
        )
        if skips is not None:  # keys behind the last query do not affect the results of queries
            to_key = f.select(f.and_(skips, of_queries), f.smin(to_key, to_query), to_key)
        with f.loop("key", from_key, to_key, BLOCK) as keys:
            count = f.smin(f.sub(f.select(of_queries, v["keys"], to_key), keys.index), BLOCK)
            self.load_keys(head, keys.index, count)
            start = from_query
            if skips is not None:  # the last queries always run: they write the zeros of keys behind them
                last = f.and_(f.sub(v["queries"], 1), -BLOCK)
                reached = f.smax(f.smin(f.and_(keys.index, -BLOCK), last), from_query)
                start = f.select(skips, reached, start)
            with f.loop("query", start, to_query, BLOCK) as queries:
                rows = f.smin(f.sub(to_query, queries.index), BLOCK)
                self.square(head, _ScoreTile(queries.index, keys.index, rows, count), start)

    def skips(self, at: dict[str, Val]) -> Val:
        """Whether keys behind the diagonal may be skipped: every factor of their zeros is finite."""
        f, v, parts = self.f, self.values, self.parts
        rows = {"q": ("queries", "depth"), "k": ("keys", "depth"), "g": ("queries", "width")}
        found = [parts.finite(f, self.of[t], at[t], self.row_stride(t), v[r], v[c]) for t, (r, c) in rows.items()]
        found.append(parts.finite(f, parts.numbers, at["most"], f.i64(0), f.i64(1), v["queries"]))
        return f.icmp("eq", f.add(f.add(found[0], found[1]), f.add(found[2], found[3])), len(found))

    def load_keys(self, head: _Head, first: Val, count: Val) -> None:
        """Pack the keys and values of a score tile as columns; keys also as rows."""
        f, v, parts = self.f, self.values, self.parts
        k, val = self.row(head, "k", first), self.row(head, "v", first)
        parts.pack(f, self.of["k"], k, v["k.row"], self.place("kt"), v["depth"], count)
        parts.pack(f, self.of["v"], val, v["v.row"], self.place("vt"), v["width"], count)
        parts.copy(f, self.of["k"], k, self.row_stride("k"), self.place("k"), v["q_row"], count, v["depth"])

    def square(self, head: _Head, s: _ScoreTile, start: Val) -> None:
        """Write one score tile: weights and cotangents of scores by row panels, then the sums over its queries."""
        f, v, parts = self.f, self.values, self.parts
        for name, columns in (("q", "depth"), ("g", "width")):
            parts.copy(
                f,
                self.of[name],
                self.row(head, name, s.query),
                self.row_stride(name),
                self.place(name),
                v[f"{name}_row"],
                s.queries,
                v[columns],
            )
        with f.loop("row_panel", 0, s.queries, parts.tall) as band:
            self.row_panel(head, s, band.index, f.smin(f.sub(s.queries, band.index), parts.tall))
        if "k" not in self.results and "v" not in self.results:
            return
        with f.when(head.of_keys):
            first = f.icmp("eq", s.query, start)
            before = f.select(first, f.select(f.icmp("eq", start, 0), f.i64(0), f.i64(2)), f.i64(1))
            with f.loop("column", 0, s.keys, parts.tall) as column:
                self.columns(head, s, column.index, before)

    def row_panel(self, head: _Head, s: _ScoreTile, i: Val, rows: Val) -> None:
        """Write the queries of one row panel, from row i of the score tile."""
        f, v, parts = self.f, self.values, self.parts
        keys = s.keys
        if head.skips is not None:
            reached = f.smax(f.sub(f.add(f.add(s.query, i), head.panel_keys), s.key), 0)
            keys = f.select(head.skips, f.smin(reached, keys), keys)
        p, d = (f.gep(self.place(name), f.mul(i, v["s_row"])) for name in "pd")
        for target, name, packed, depth in ((p, "q", "kt", "depth"), (d, "g", "vt", "width")):
            rows_of = f.gep(self.place(name), f.mul(i, v[f"{name}_row"]))
            parts.row_panel(
                f,
                rows,
                (rows_of, v[f"{name}_row"], self.size),
                (self.place(packed), f.i64(0)),
                v[depth],
                (target, v["s_row"]),
                keys,
                s.keys,
            )
        behind = f.sub(f.add(f.add(s.query, i), 1), s.key)
        self.fill(p, rows, behind, keys, -math.inf)
        self.weigh(head, s, i, rows, keys, p, d)
        self.fill(d, rows, behind, keys, 0.0)
        if "q" not in self.results:
            return
        with f.when(f.and_(head.of_queries, f.icmp("sgt", keys, 0))):
            parts.row_panel(
                f,
                rows,
                (d, v["s_row"], self.size),
                (self.place("k"), v["q_row"]),
                keys,
                (self.place("c"), v["c_row"]),
                v["depth"],
            )
            before = f.cast("zext", f.icmp("ne", s.key, 0), "i64")
            dq = self.row(head, "dq", f.add(s.query, i))
            self.join(dq, self.row_stride("dq"), rows, v["depth"], before)
            if head.skips is not None:
                self.settle(head, s, i, dq, rows, keys)

    def fill(self, to: Val, rows: Val, behind: Val, keys: Val, value: float) -> None:
        """Set causal scores behind the diagonal to a value."""
        if self.scores.causal:
            n = self.parts.numbers
            self.f.call("fill", "void", [to, self.values["s_row"], rows, behind, keys, self.f.const(n.wide, value)])

    def weigh(self, head: _Head, s: _ScoreTile, i: Val, rows: Val, keys: Val, p: Val, d: Val) -> None:
        """Convert scores to weights, and cotangents of weights to those of scores, in place."""
        f, v, n = self.f, self.values, self.parts.numbers
        query = f.add(s.query, i)
        buffers = {"x": p, "p": p, "g": d, "d": d}
        buffers |= {name: f.gep(head.at[name], query, n.wide) for name in ("most", "shift")}
        sizes = {"rows": rows, "columns": keys, "row_stride": f.lshr(v["s_row"], n.bytes.bit_length() - 1)}
        mask = self.scores.mask
        if mask is not None:
            at = f.add(f.mul(query, v["mask.row"]), f.mul(s.key, self.scores.mask_columns))
            buffers["mask"] = f.gep(head.at["mask"], at, mask.memory)
            sizes["mask_apart"] = v["mask.row"]
        self.gradients.call(f, self.table, buffers, sizes, rows)

    def join(self, to: Val, row_stride: Val, rows: Val, columns: Val, before: Val) -> None:
        """Add a row panel's products to a result."""
        self.f.call("join", "void", [self.place("c"), self.values["c_row"], to, row_stride, rows, columns, before])

    def settle(self, head: _Head, s: _ScoreTile, i: Val, dq: Val, rows: Val, keys: Val) -> None:
        """In a row panel's last score tile, extend chains at −0 by the skipped keys, of this tile and behind it."""
        f, v = self.f, self.values
        end, reached = f.add(s.key, s.keys), f.add(f.add(s.query, i), rows)
        more = f.cast("zext", f.icmp("slt", end, v["keys"]), "i64")
        skipped = f.icmp("slt", f.add(s.key, keys), v["keys"])
        with f.when(f.and_(skipped, f.icmp("sle", reached, end))):
            self.parts.settle(
                f,
                self.of["k"],
                dq,
                self.row_stride("dq"),
                rows,
                v["depth"],
                head.at["k"],
                self.row_stride("k"),
                f.add(s.key, keys),
                end,
                more,
            )

    def columns(self, head: _Head, s: _ScoreTile, j: Val, before: Val) -> None:
        """Write the sums over a score tile's queries for one row panel of its keys, from column j."""
        f, v, parts = self.f, self.values, self.parts
        count = f.smin(f.sub(s.keys, j), parts.tall)
        first = f.i64(0)
        if head.skips is not None:
            behind = f.smin(f.smax(f.sub(f.add(s.key, j), s.query), 0), s.queries)
            first = f.select(head.skips, behind, first)
        for result, weights, other, size in (("v", "p", "g", "width"), ("k", "d", "q", "depth")):
            if result not in self.results:
                continue
            a = f.gep(self.place(weights), f.add(f.mul(first, v["s_row"]), f.mul(j, self.size)))
            b = f.gep(self.place(other), f.mul(first, v[f"{other}_row"]))
            parts.row_panel(
                f,
                count,
                (a, self.size, v["s_row"]),
                (b, v[f"{other}_row"]),
                f.sub(s.queries, first),
                (self.place("c"), v["c_row"]),
                v[size],
            )
            name = f"d{result}"
            self.join(self.row(head, name, f.add(s.key, j)), self.row_stride(name), count, v[size], before)
