"""Attention's forward kernel over blocks of keys, by the definition of `kernel.order_attention`.

    most     scores → the greatest ones of the block
    level    these, most → most; factor = exp(most before − most)
    raised   scores → weights: exp(score − most)
    joined   weights, total → total · factor + their sum
    scaled   mixed → mixed · factor, to which the weights' products with the values are added

A thread processes a chunk of a head's queries.  It reads the keys block by block, packs each block once, and uses it
for all row panels of the chunk.  Its memory does not grow with the number of keys.
"""

from __future__ import annotations

import math

from nacre.codegen.attention.forward import Attention, AttentionWriter, written
from nacre.codegen.attention.plan import ONLINE, online_cut
from nacre.codegen.attention.rows import COLUMNS, ROWS, I, J, Scores, finish, most, rows_of
from nacre.kernel.ast import Accumulate, Alloc, Buffer, For, Kernel, Let, Load, Local, Store, apply
from nacre.kernel.order_attention import KEYS
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText


def online(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[ModuleText, Attention]:
    """Write the kernel that computes some of `RESULTS`."""
    return written(isa, scores, results, name, ONLINE, online_cut, _Online)


def level(s: Scores) -> Kernel:
    """now, before → most, which may be stored over before, and factor, over now.  All rows are one work item."""
    before, after = Local("b", s.dtype), Local("m", s.dtype)
    body = (
        Let("b", s.row("before")),
        Let("m", apply("maximum", before, s.row("now"))),
        Store("factor", (I,), apply("exp", apply("sub", before, s.base(after)))),
        Store("most", (I,), after),
    )
    inputs = s.column("now"), s.column("before")
    outputs = s.column("most"), s.column("factor")
    return Kernel("attend_level", inputs, outputs, (For("i", ROWS, body, parallel=True, vector=True),))


def raised(s: Scores) -> Kernel:
    """x, most → p, which may be stored over x."""
    power = apply("exp", apply("sub", s(s.element("x")), Local("m", s.dtype)))
    body = (
        Let("m", s.base(s.row("most"))),
        For("j", COLUMNS, (Store("p", (I, J), power),), vector=True),
    )
    return Kernel(
        "attend_raised", (s.row_panel("x"), s.column("most"), *s.buffers), (s.row_panel("p"),), (rows_of(body),)
    )


def joined(s: Scores) -> Kernel:
    """x, before, factor → total, which may be stored over before."""
    body = (
        Alloc(Buffer("b", s.dtype, ())),
        For("j", COLUMNS, (Accumulate("sum", ("b",), (s.element("x"),)),), vector=True),
        Store("total", (I,), apply("add", apply("mul", s.row("before"), s.row("factor")), Load("b", (), s.dtype))),
    )
    inputs = s.row_panel("x"), s.column("before"), s.column("factor")
    return Kernel("attend_joined", inputs, (s.column("total"),), (rows_of(body),))


def scaled(s: Scores) -> Kernel:
    """x, factor → p = x · factor, which may be stored over x."""
    times = Store("p", (I, J), apply("mul", s.element("x"), Local("u", s.dtype)))
    body = Let("u", s.row("factor")), For("j", COLUMNS, (times,), vector=True)
    return Kernel("attend_scaled", (s.row_panel("x"), s.column("factor")), (s.row_panel("p"),), (rows_of(body),))


def copied(s: Scores) -> Kernel:
    """x → y, a value of each row."""
    return Kernel("attend_kept", (s.column("x"),), (s.column("y"),), (rows_of((Store("y", (I,), s.row("x")),)),))


class _Online(AttentionWriter):
    """Writes the kernel function."""

    def kernels(self) -> tuple[Kernel, ...]:
        """The operations on the rows of a row panel."""
        return *(k(self.scores) for k in (most, level, raised, joined, scaled, copied)), finish(self.scores, self.wide)

    def row(self, name: str, start: Val) -> Val:
        """The address of the chunk's row values, from a row on: "most", "total" or "factor"."""
        f, n = self.f, self.parts.numbers
        at = f.mul(self.values["row_apart"], ("most", "total", "factor").index(name))
        return f.gep(f.gep(self.place("row"), at), start, n.wide)

    def chunk(self, levels: list[Val], first: Val, stop: Val) -> None:
        """Write queries `first` to `stop` of one head."""
        f, v, parts, of = self.f, self.values, self.parts, self.of
        q, k, val = (self.slots.at(f, name.upper(), levels, n.stored) for name, n in of.items())
        skips, keys = self.skips(levels, val, first, stop)
        rows = f.sub(stop, first)
        self.begin(rows)
        parts.copy(
            f,
            of["q"],
            f.gep(q, f.mul(first, self.row_stride("q"))),
            self.row_stride("q"),
            self.place("q"),
            v["q_row"],
            rows,
            v["depth"],
        )
        with f.loop("block", 0, keys, KEYS) as block:
            here, count = block.index, f.smin(f.sub(keys, block.index), KEYS)
            source = {x: f.gep(p, f.mul(here, self.row_stride(x))) for x, p in (("k", k), ("v", val))}
            parts.pack(f, of["k"], source["k"], v["k.row"], self.place("k"), v["depth"], count)
            parts.copy(f, of["v"], source["v"], self.row_stride("v"), self.place("v"), v["v_row"], count, v["width"])
            start = f.i64(0)
            if skips is not None:  # row panels before these keys skip them
                band = f.binary("udiv", f.smax(f.sub(here, first), 0), parts.tall)
                start = f.select(skips, f.mul(band, parts.tall), start)
            with f.loop("row_panel", start, rows, parts.tall) as loop:
                self.block(levels, loop.index, f.smin(f.sub(rows, loop.index), parts.tall), first, here, count, skips)
        with f.loop("row_panel", 0, rows, parts.tall) as loop:
            r = loop.index
            c = f.gep(self.place("c"), f.mul(r, v["c_row"]))
            self.write_results(levels, f.add(first, r), f.smin(f.sub(rows, r), parts.tall), c, self.row("total", r))
        self.keep(levels, first, rows)

    def begin(self, rows: Val) -> None:
        """Set the state before the first key: sums are 0, the greatest score is −∞."""
        f, v, n = self.f, self.values, self.parts.numbers
        before = f.i64(-(1 << 40))
        zero, least = f.const(n.wide, 0.0), f.const(n.wide, -math.inf)
        f.call("fill", "void", [self.place("c"), v["c_row"], rows, before, v["width"], zero])
        for name, value in (("most", least), ("total", zero)):
            f.call("fill", "void", [self.row(name, f.i64(0)), f.i64(0), f.i64(1), before, rows, value])

    def block(self, levels: list[Val], r: Val, rows: Val, first: Val, here: Val, count: Val, skips: Val | None) -> None:
        """Write the row panel from row r of the chunk with a block of keys, which begins at `here`."""
        f, v, n, parts = self.f, self.values, self.parts.numbers, self.parts
        i, size, keys, s = f.add(first, r), f.i64(n.bytes), count, self.place("s")
        if skips is not None:
            keys = f.select(skips, f.smin(f.sub(f.add(i, rows), here), count), count)
        parts.row_panel(
            f,
            rows,
            (f.gep(self.place("q"), f.mul(r, v["q_row"])), v["q_row"], size),
            (self.place("k"), f.i64(0)),
            v["depth"],
            (s, v["s_row"]),
            keys,
            count,
        )
        if skips is not None:
            behind = f.sub(f.add(i, 1), here)
            f.call("fill", "void", [s, v["s_row"], rows, behind, keys, f.const(n.wide, -math.inf)])
        high, total, factor = (self.row(name, r) for name in ("most", "total", "factor"))
        mask, mask_sizes = self.masked(levels, i, here)
        buffers = {"x": s, "p": s, "most": high, "factor": factor, "total": total, **mask}
        sizes = {"rows": rows, "columns": keys, "row_stride": self.elements("s_row"), **mask_sizes}
        self.run("attend_most", {**buffers, "most": factor}, sizes, rows)
        self.run("attend_level", {**buffers, "now": factor, "before": high}, {"rows": rows}, f.i64(1))
        self.run("attend_raised", buffers, sizes, rows)
        self.run("attend_joined", {**buffers, "before": total}, sizes, rows)
        c = f.gep(self.place("c"), f.mul(r, v["c_row"]))
        wide = {"rows": rows, "columns": v["width"], "row_stride": self.elements("c_row")}
        self.run("attend_scaled", {"x": c, "p": c, "factor": factor}, wide, rows)
        parts.row_panel(
            f, rows, (s, v["s_row"], size), (self.place("v"), v["v_row"]), keys, (c, v["c_row"]), v["width"], adds=True
        )

    def keep(self, levels: list[Val], first: Val, rows: Val) -> None:
        """Write the greatest scores and sums, if they are results."""
        f, n = self.f, self.parts.numbers
        for name in self.rows:
            target = f.gep(self.slots.at(f, name.capitalize(), levels, n.wide), first, n.wide)
            self.run("attend_kept", {"x": self.row(name, f.i64(0)), "y": target}, {"rows": rows}, rows)
