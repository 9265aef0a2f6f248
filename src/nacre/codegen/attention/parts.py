"""Parts of attention's kernels: products of row panels, and exact treatment of skipped keys.

A row panel has as many rows as a register tile.  Its products read and write a thread's scratch memory, in whole
vectors, so that one tile and its narrow variant serve every size.

Causal attention skips keys behind the diagonal.  Their weights are +0, so they would add ±0 to a chain of
multiply-adds.  That has an effect only if a factor is not finite (`finite` tests this first) or the chain's sum is −0
(`settle` adds the skipped keys to such chains).  A mask added behind the diagonal must be below +∞ there, or the weight
is NaN (`below` tests this).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nacre.base.records import dataclass
from nacre.codegen.attention.plan import PanelModel
from nacre.codegen.gemm.element_types import Numbers, edge, load_edge, store_edge
from nacre.codegen.gemm.pack import emit_copy, emit_gather, emit_pack, emit_transpose
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.gemm.tile import Shape, emit_tile, tile_name, tile_shape
from nacre.native.llvm_types import vec
from nacre.native.text import Function, ModuleText, Val


@dataclass(frozen=True)
class Parts:
    """The functions that attention's kernels call, for one arithmetic and the stored types of the operands."""

    numbers: Numbers
    sources: tuple[Numbers, ...] = ()  # of operands; narrower ones are widened

    @property
    def shape(self) -> Shape:
        """The register tile."""
        return tile_shape(self.numbers.isa)

    @property
    def tall(self) -> int:
        """Rows of a row panel."""
        return self.shape.tall

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.numbers.lanes

    @property
    def model(self) -> PanelModel:
        """The properties of these parts on which the kernels' plans depend."""
        return PanelModel(self.lanes, self.numbers.bytes, self.tall)

    def emit(self, module: ModuleText, exact_skips: bool, bounds_masks: bool) -> None:
        """Write the functions; those for skipped keys and for tests of a mask only if required."""
        for rows in (self.tall, self.shape.few):
            for vectors in (self.shape.vectors, 1):
                emit_tile(module, self.numbers, rows, vectors)
        for n in dict.fromkeys((self.numbers, *self.sources)):
            emit_gather(module, n, "gather", n.stored)
            emit_transpose(module, n, "transpose", n.stored)
            emit_copy(module, n)
            emit_pack(module, n, self.shape.vectors)
            if exact_skips:
                self._emit_finite(module, n)
                self._emit_settle(module, n)
        self._emit_row_panel(module)
        self._emit_fill(module)
        if bounds_masks:
            self._emit_below(module)

    # ---- calls

    def copy(
        self,
        f: Function,
        n: Numbers,
        source: Val,
        row_stride: Val,
        target: Val,
        target_stride: Val,
        rows: Val,
        count: Val,
    ) -> None:
        """Copy rows of contiguous elements, and widen them; strides are in bytes."""
        f.call(n.part("copy"), "void", [source, row_stride, target, target_stride, rows, count])

    def pack(self, f: Function, n: Numbers, b: Val, b_n: Val, target: Val, depth: Val, columns: Val) -> None:
        """Pack the transpose of a matrix whose rows, `b_n` elements apart, have `depth` contiguous elements."""
        f.call(n.part("pack"), "void", [b, f.i64(1), b_n, target, depth, depth, f.i64(0), columns])

    def finite(self, f: Function, n: Numbers, x: Val, row: Val, rows: Val, columns: Val) -> Val:
        """1 if every element of a matrix is finite, else 0; its row is in bytes."""
        return f.call(n.part("finite"), "i64", [x, row, rows, columns])

    def below(self, f: Function, x: Val, row: Val, rows: Val, columns: Val) -> Val:
        """1 if every element of a matrix is a number below +∞, else 0; its row is in bytes."""
        return f.call("below", "i64", [x, row, rows, columns])

    def settle(self, f: Function, n: Numbers, *rest: Val) -> None:
        """Extend chains at −0 by the skipped keys; see `_emit_settle`."""
        f.call(n.part("settle"), "void", [*rest])

    def row_panel(
        self,
        f: Function,
        rows: Val,
        a: tuple[Val, Val, Val],
        b: tuple[Val, Val],
        depth: Val,
        c: tuple[Val, Val],
        columns: Val,
        packed_columns: Val | None = None,
        adds: bool = False,
    ) -> None:
        """C (+)= A · B for `rows` of a row panel: A's address and strides, B's and C's addresses and rows, in bytes.

        A row of 0 bytes means that B is packed, with `packed_columns` columns.
        """
        f.call("row_panel", "void", [rows, *a, *b, packed_columns or f.i64(0), depth, *c, columns, f.i64(int(adds))])

    # ---- functions

    def _emit_row_panel(self, module: ModuleText) -> None:
        """@row_panel(rows, a, a_row, a_k, b, b_row, packed_columns, depth, c, c_row, columns, adds): tiles over
        columns, then k.

        The tile is the tallest, or the smallest that has enough chains if that has enough rows.  See `pack.pack` for
        the layout of a packed B: full panels, then strips.
        """
        n, vectors = self.numbers, self.shape.vectors
        params = {
            "rows": "i64",
            "a": "ptr",
            "a_row": "i64",
            "a_k": "i64",
            "b": "ptr",
            "b_row": "i64",
            "packed_columns": "i64",
            "depth": "i64",
            "c": "ptr",
            "c_row": "i64",
            "columns": "i64",
            "adds": "i64",
        }
        f = module.function("row_panel", "void", params, linkage="internal", isa=n.isa)
        panel = vectors * self.lanes
        full, panels = (f.mul(f.binary("udiv", f[c], panel), panel) for c in ("columns", "packed_columns"))
        packed = f.icmp("eq", f["b_row"], 0)

        def row(width: int) -> Val:
            """Bytes of a row of B in panels or strips of a width."""
            return f.select(packed, f.i64(width * n.bytes), f["b_row"])

        with f.loop("panel", 0, full, panel) as loop:
            at = f.select(packed, f.mul(loop.index, f["depth"]), loop.index)
            self._blocks(f, vectors, f.gep(f["b"], at, n.wide), row(panel), loop.index)
        inside = f.icmp("slt", full, panels)  # the remaining strips belong to a panel
        with f.loop("strip", full, f["columns"], self.lanes) as loop:
            part = f.add(f.mul(full, f["depth"]), f.sub(loop.index, full))
            at = f.select(packed, f.select(inside, part, f.mul(loop.index, f["depth"])), loop.index)
            self._blocks(f, 1, f.gep(f["b"], at, n.wide), f.select(inside, row(panel), row(self.lanes)), loop.index)
        f.ret()

    def _blocks(self, f: Function, vectors: int, b: Val, b_k: Val, column: Val) -> None:
        """Write the blocks of k of one tile of a row panel."""
        n = self.numbers
        c = f.gep(f["c"], column, n.wide)
        blocks = f.smax(f.lshr(f.add(f["depth"], BLOCK - 1), BLOCK.bit_length() - 1), 1)
        tall, few = (Val(f"@{tile_name(n, rows, vectors)}", "ptr") for rows in (self.tall, self.shape.few))
        tile = f.select(f.icmp("sgt", f["rows"], self.shape.few), tall, few)
        with f.loop("block", 0, blocks) as block:
            k = f.mul(block.index, BLOCK)
            f.call_value(
                tile,
                "void",
                [
                    f.gep(f["a"], f.mul(k, f["a_k"])),
                    f["a_row"],
                    f["a_k"],
                    f.gep(b, f.mul(k, b_k)),
                    b_k,
                    c,
                    f["c_row"],
                    f.smin(f.sub(f["depth"], k), BLOCK),
                    f.or_(block.index, f["adds"]),
                ],
            )

    def _emit_fill(self, module: ModuleText) -> None:
        """@fill(to, row, rows, first, columns, value): set columns from `first` + r on of row r to the value."""
        n = self.numbers
        params = {"to": "ptr", "row": "i64", "rows": "i64", "first": "i64", "columns": "i64", "value": n.wide}
        f = module.function("fill", "void", params, linkage="internal", isa=n.isa)
        value = f.splat(f["value"], self.lanes)
        with f.loop("r", 0, f["rows"]) as loop:
            start = f.smax(f.add(f["first"], loop.index), 0)
            row = f.gep(f["to"], f.mul(loop.index, f["row"]))
            with f.loop("j", start, f["columns"], self.lanes) as inner:
                mask = f.lane_mask(f.sub(f["columns"], inner.index), self.lanes)
                f.masked_store(value, f.gep(row, inner.index, n.wide), mask)
        f.ret()

    def _emit_finite(self, module: ModuleText, n: Numbers) -> None:
        """@finite(x, row, rows, columns): 1 if every element is finite, else 0."""
        params = {"x": "ptr", "row": "i64", "rows": "i64", "columns": "i64"}
        f = module.function(n.part("finite"), "i64", params, linkage="internal", isa=n.isa)
        scalar, infinity = f"i{8 * n.bytes}", (0xFF << 23 if n.bytes == 4 else 0x7FF << 52)
        bits = vec(scalar, self.lanes)
        unsigned = f.const(bits, (1 << (8 * n.bytes - 1)) - 1)
        with f.loop("r", 0, f["rows"], carry=[f.zero(bits)]) as loop:
            row = f.gep(f["x"], f.mul(loop.index, f["row"]))
            with f.loop("j", 0, f["columns"], self.lanes, carry=loop.carried) as inner:
                x = f.bitcast(self._load(f, n, row, inner.index, f["columns"]), bits)
                inner.next(f.smax(inner.carried[0], f.and_(x, unsigned)))
            loop.next(*inner.results)
        found = f.intrinsic("vector.reduce.smax", scalar, [loop.results[0]], overload=[bits])
        f.ret(f.cast("zext", f.icmp("slt", found, infinity), "i64"))

    def _emit_below(self, module: ModuleText) -> None:
        """@below(x, row, rows, columns): 1 if every element is a number below +∞, else 0."""
        n = self.numbers
        params = {"x": "ptr", "row": "i64", "rows": "i64", "columns": "i64"}
        f = module.function("below", "i64", params, linkage="internal", isa=n.isa)
        top, none = f.const(n.vector, math.inf), f.zero(vec("i32", self.lanes))
        with f.loop("r", 0, f["rows"], carry=[none]) as loop:
            row = f.gep(f["x"], f.mul(loop.index, f["row"]))
            with f.loop("j", 0, f["columns"], self.lanes, carry=loop.carried) as inner:
                x = self._load(f, n, row, inner.index, f["columns"])
                inner.next(f.or_(inner.carried[0], f.cast("zext", f.fcmp("uge", x, top), "i32")))
            loop.next(*inner.results)
        found = f.intrinsic("vector.reduce.or", "i32", [loop.results[0]], overload=[none.ty])
        f.ret(f.cast("zext", f.icmp("eq", found, 0), "i64"))

    def _emit_settle(self, module: ModuleText, source: Numbers) -> None:
        """@settle(c, c_row, rows, columns, b, b_row, next, stop, more): extend chains at −0 by the skipped keys.

        These are rows `next` to `stop` of B in the unfinished chain, and more chains if `more` is not 0.
        """
        n = self.numbers
        params = {
            "c": "ptr",
            "c_row": "i64",
            "rows": "i64",
            "columns": "i64",
            "b": "ptr",
            "b_row": "i64",
            "next": "i64",
            "stop": "i64",
            "more": "i64",
        }
        f = module.function(source.part("settle"), "void", params, linkage="internal", isa=n.isa)
        bits = vec(f"i{8 * n.bytes}", self.lanes)
        low, zero = f.const(bits, -(1 << (8 * n.bytes - 1))), f.zero(n.vector)
        more = f.icmp("ne", f["more"], 0)
        with f.loop("r", 0, f["rows"]) as loop:
            row = f.gep(f["c"], f.mul(loop.index, f["c_row"]))
            with f.loop("j", 0, f["columns"], self.lanes) as inner:
                x = self._load(f, n, row, inner.index, f["columns"])
                below = f.cast("zext", f.icmp("eq", f.bitcast(x, bits), low), "i32")
                found = f.intrinsic("vector.reduce.or", "i32", [below], overload=[below.ty])
                with f.when(f.icmp("ne", found, 0)):
                    with f.loop("k", f["next"], f["stop"], carry=[x]) as key:
                        b = f.gep(f["b"], f.mul(key.index, f["b_row"]))
                        y = self._load(f, source, b, inner.index, f["columns"])
                        key.next(f.fma(zero, y, key.carried[0]))
                    settled = key.results[0]
                    settled = f.select(more, f.fadd(settled, zero), settled)
                    lanes = edge(f, n.isa, f.sub(f["columns"], inner.index), n.vector)
                    store_edge(f, settled, f.gep(row, inner.index, n.wide), lanes)
        f.ret()

    def _load(self, f: Function, n: Numbers, row: Val, j: Val, columns: Val) -> Val:
        """Columns from j on, widened; zeros beyond the row."""
        stored, left = vec(n.stored, self.lanes), f.sub(columns, j)
        x = n.widen(f, load_edge(f, f.gep(row, j, n.stored), stored, edge(f, n.isa, left, stored)))
        return f.select(f.lane_mask(left, self.lanes), x, f.zero(n.vector)) if n.widens else x


@dataclass(frozen=True)
class ArgumentSlots:
    """The names of a kernel's argument slots in order, and their values."""

    names: tuple[str, ...]

    def __call__(self, f: Function, name: str) -> Val:
        """Read a slot through the parameter `args`; names of addresses begin with a capital."""
        return f.load(f.gep(f["args"], self.names.index(name), "i64"), "ptr" if name[0].isupper() else "i64", 8)

    def at(self, f: Function, name: str, levels: Sequence[Val], scalar: str) -> Val:
        """Where a tensor's matrix at a place of the batch begins."""
        outer, inner = (f.mul(v, self(f, f"{name.lower()}.{s}")) for v, s in zip(levels, LEVELS, strict=True))
        return f.gep(self(f, name), f.add(outer, inner), scalar)


LEVELS = ("outer", "inner")


def strides(name: str, rows: bool = True) -> tuple[str, ...]:
    """The names of a tensor's stride slots."""
    return tuple(f"{name.lower()}.{s}" for s in (*LEVELS, *(("row",) if rows else ())))
