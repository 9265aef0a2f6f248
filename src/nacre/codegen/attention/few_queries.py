"""Attention with few queries, such as a decoder's one per token: keys and values are read once, without packing.

The products are GEMVs: `dots` with the keys and `sweep` over the values.  The operations on rows are those of all
attention kernels, so the bits are the same.
"""

from __future__ import annotations

from nacre.codegen.attention.forward import Attention, AttentionWriter, written
from nacre.codegen.attention.parts import Parts
from nacre.codegen.attention.plan import PanelModel, line
from nacre.codegen.attention.rows import Scores
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.gemv import emit_sweep
from nacre.codegen.gemm.gemv_columns import emit_gemv_columns
from nacre.codegen.gemm.pack import emit_gather
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText
from nacre.runtime.plan import Cut

WORDS = ("chunk", "chunks", "s_at", "c_at", "row_at", "s_row", "c_row")


def few_queries(isa: Isa, scores: Scores, results: tuple[str, ...], name: str) -> tuple[ModuleText, Attention]:
    """Write the kernel that computes some of `RESULTS` for up to `FEW` queries that see every key."""
    return written(isa, scores, results, name, WORDS, _cut, _Few)


def _cut(model: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are heads; the cut's slots are `WORDS`, in bytes except the first two.  Sizes as in `forward_cut`."""
    heads, queries, keys, _, width = sizes
    s_row, c_row = (line(model.wide(n)) for n in (keys, width))
    areas = (2 * queries * s_row, 2 * queries * c_row, 2 * line(model.tall * model.bytes))
    starts = (sum(areas[:k]) for k in range(len(areas)))
    return Cut(heads, 1, sum(areas), (queries, 1, *starts, s_row, c_row))


class _Few(AttentionWriter):
    """Writes the kernel function."""

    @staticmethod
    def emit(module: ModuleText, parts: Parts, scores: Scores) -> None:
        """Write the two products, each for the stored types of its factors."""
        q, k, v = parts.sources
        emit_gather(module, k, "gather", k.stored)
        emit_gemv_columns(module, q, k)
        emit_sweep(module, parts.numbers, v)

    def chunk(self, levels: list[Val], first: Val, stop: Val) -> None:
        """Write all queries of a head, which are one chunk."""
        f, v, of = self.f, self.values, self.of
        q, k, val = (self.slots.at(f, name.upper(), levels, n.stored) for name, n in of.items())
        rows, keys = v["queries"], v["keys"]
        self._product(
            "dots",
            of["k"],
            (q, self.row_stride("q"), of["q"].stored_bytes),
            (k, self.row_stride("k")),
            "s",
            "depth",
            "keys",
        )
        total = self.weigh(levels, first, rows, keys)
        weights = self.place("s"), v["s_row"], self.parts.numbers.bytes
        self._product("sweep", of["v"], weights, (val, self.row_stride("v")), "c", "keys", "width")
        self.write_results(levels, first, rows, self.place("c"), total)

    def _product(
        self, name: str, matrix: Numbers, a: tuple[Val, Val, int], b: tuple[Val, Val], c: str, depth: str, columns: str
    ) -> None:
        """C = A · B for addresses, rows in bytes, and the size of A's elements; chains follow the sums."""
        f, v, row = self.f, self.values, self.values[f"{c}_row"]
        chains = f.gep(self.place(c), f.mul(v["queries"], row))
        f.call(
            matrix.part(name),
            "void",
            [*a[:2], f.i64(a[2]), *b, self.place(c), chains, row, v[depth], v["queries"], v[columns]],
        )
