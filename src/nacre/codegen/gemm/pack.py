"""Copies of blocks of A and B in the order in which the register tile reads them.

A block of B is stored as full panels of `panel` columns, then as strips of one vector.  Column j's panel begins at
element j · depth, and row k of it follows row k − 1.  Columns beyond the matrix are undefined.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.gemm.element_types import Edge, Numbers, edge, load_edge
from nacre.native.llvm_types import bits_of, lanes_of, vec
from nacre.native.text import Function, ModuleText, Val


def emit_transpose(module: ModuleText, numbers: Numbers, name: str, source: str) -> None:
    """@name(from, stride, to, to_stride, length, count): to[k][i] = from[i][k] for up to `lanes` rows i.

    Strides are in bytes; `source` is the element type read.  Lanes from `count` on are undefined.
    """
    params = {
        "from": "ptr", "stride": "i64", "to": "ptr", "to_stride": "i64",
        "length": "i64", "count": "i64",
    }  # fmt: skip
    f = module.function(
        numbers.part(name), "void", params, linkage="internal", isa=numbers.isa,
        noalias=("from", "to"),
    )  # fmt: skip
    transposer = Transposer(f, numbers, source)
    transposer.begin(f["from"], f["stride"], f["count"])
    whole = f.and_(f["length"], -transposer.piece)
    with f.loop("k", 0, whole, transposer.piece, carry=[f["to"]]) as loop:
        place = loop.carried[0]
        for value in transposer.columns(loop.index, transposer.piece):
            f.store(value, place)
            place = f.gep(place, f["to_stride"])
        loop.next(place)
    gather = numbers.part("gather" if source == numbers.stored else "gather_sums")
    size = transposer.size
    rest = f.gep(f["from"], f.mul(whole, size))
    left, place = f.sub(f["length"], whole), loop.results[0]
    f.call(gather, "void", [rest, f.i64(size), f["stride"], place, f["to_stride"], left, f["count"]])
    f.ret()


class Transposer:
    """Reads `lanes` rows as columns, a square block or a 128-bit piece of each row at a time.

    Pieces of 128 bits are loaded into their final lanes, so that only transposes within 128 bits remain.  A square
    block reads all of a row's pieces close in time, because rows a power of two apart evict each other from the cache.
    """

    def __init__(
        self, f: Function, numbers: Numbers, source: str, starts: Val | None = None, align: int | None = None
    ) -> None:
        self.f, self.numbers, self.source, self.align = f, numbers, source, align
        self.size = bits_of(source) // 8
        self.piece = 16 // numbers.bytes
        self.starts = starts or f.alloca("ptr", numbers.lanes)

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of columns that can be read at once, greatest first."""
        return tuple(sorted({self.numbers.lanes, self.piece}, reverse=True))

    def begin(self, first: Val, stride: Val, count: Val) -> None:
        """Store the addresses of the rows; the last of `count` rows fills the remaining lanes."""
        f, last = self.f, self.f.sub(count, 1)
        with f.loop("row", 0, self.numbers.lanes) as loop:
            row = f.gep(first, f.mul(f.smin(loop.index, last), stride))
            f.store(row, f.gep(self.starts, loop.index, "ptr"))

    def columns(self, k: Val, step: int) -> list[Val]:
        """Columns k to k + step, each as a vector of the rows."""
        f, piece = self.f, self.piece
        offset = f.mul(k, self.size)
        squares: list[list[Val]] = [[] for _ in range(step // piece)]
        for group in range(piece):
            rows = [self._row(i, offset) for i in range(group, self.numbers.lanes, piece)]
            for p, square in enumerate(squares):
                ty, at = vec(self.source, piece), p * piece * self.size
                pieces = [f.load(f.gep(row, at), ty, self.align) for row in rows]
                square.append(self.numbers.widen(f, _concatenated(f, pieces)))
        return [column for square in squares for column in _transposed_pieces(f, square)]

    def _row(self, i: int, offset: Val) -> Val:
        start = self.f.load(self.f.gep(self.starts, i, "ptr"), "ptr")
        return self.f.gep(start, offset)


def _concatenated(f: Function, pieces: Sequence[Val]) -> Val:
    """The pieces, a power of two of them, as one vector."""
    current = list(pieces)
    while len(current) > 1:
        n = 2 * lanes_of(current[0].ty)
        current = [f.shuffle(a, b, range(n)) for a, b in zip(current[::2], current[1::2], strict=True)]
    return current[0]


def _transposed_pieces(f: Function, rows: Sequence[Val]) -> list[Val]:
    """Transpose the square block of each 128-bit piece, by interleaving rows that are half the rows apart."""
    n, lanes = len(rows), lanes_of(rows[0].ty)
    result = list(rows)
    for _ in range(n.bit_length() - 1):
        following: list[Val] = []
        for i in range(n // 2):
            for half in (0, n // 2):
                order = [start + half + j // 2 + (j % 2) * lanes for start in range(0, lanes, n) for j in range(n)]
                following.append(f.shuffle(result[i], result[i + n // 2], order))
        result = following
    return result


def emit_gather(module: ModuleText, numbers: Numbers, name: str, source: str) -> None:
    """@name(from, row_stride, stride, to, to_row, rows, count): to[r][i] = from[r][i], any strides.

    All strides are in bytes; the elements of one target row are contiguous; `source` is the type
    read.
    """
    params = {
        "from": "ptr", "row_stride": "i64", "stride": "i64", "to": "ptr", "to_row": "i64",
        "rows": "i64", "count": "i64",
    }  # fmt: skip
    f = module.function(
        numbers.part(name), "void", params, linkage="internal", isa=numbers.isa,
        noalias=("from", "to"),
    )  # fmt: skip
    with f.loop("r", 0, f["rows"], carry=[f["from"], f["to"]]) as outer:
        start, target = outer.carried
        with f.loop("i", 0, f["count"], carry=[start]) as inner:
            value = numbers.widen(f, f.load(inner.carried[0], source))
            f.store(value, f.gep(target, inner.index, numbers.wide))
            inner.next(f.gep(inner.carried[0], f["stride"]))
        outer.next(f.gep(start, f["row_stride"]), f.gep(target, f["to_row"]))
    f.ret()


def emit_copy(module: ModuleText, numbers: Numbers) -> None:
    """@copy(from, from_row, to, to_row, rows, count): rows of contiguous elements, widened.

    Strides are in bytes.  Whole vectors are written; the last may contain zeros.
    """
    params = {
        "from": "ptr", "from_row": "i64", "to": "ptr", "to_row": "i64", "rows": "i64", "count": "i64",
    }  # fmt: skip
    f = module.function(
        numbers.part("copy"), "void", params, linkage="internal", isa=numbers.isa,
        noalias=("from", "to"),
    )  # fmt: skip
    whole = f.and_(f["count"], -numbers.lanes)
    rest = f.sub(f["count"], whole)
    last = edge(f, numbers.isa, rest, vec(numbers.stored, numbers.lanes))
    with f.loop("r", 0, f["rows"], carry=[f["from"], f["to"]]) as loop:
        source, target = loop.carried
        with f.loop("i", 0, whole, numbers.lanes) as inner:
            _move(f, numbers, source, target, inner.index, None)
        with f.when(f.icmp("ne", rest, 0)):
            _move(f, numbers, source, target, whole, last)
        loop.next(f.gep(source, f["from_row"]), f.gep(target, f["to_row"]))
    f.ret()


def emit_pack(module: ModuleText, numbers: Numbers, vectors: int) -> None:
    """@pack(b, b_k, b_n, to, depth, kc, start, columns): columns from `start` on of a block of B.

    `start` is 0 or begins the last strip.  b_k and b_n are in elements; the module's docstring describes the layout.
    """
    params = {
        "b": "ptr", "b_k": "i64", "b_n": "i64", "to": "ptr", "depth": "i64", "kc": "i64",
        "start": "i64", "columns": "i64",
    }  # fmt: skip
    f = module.function(
        numbers.part("pack"), "void", params, linkage="internal", isa=numbers.isa,
        noalias=("b", "to"),
    )  # fmt: skip
    panel = vectors * numbers.lanes
    full = f.mul(f.binary("udiv", f["columns"], panel), panel)
    rows = f.icmp("eq", f["b_n"], 1)
    f.branch(rows, "rows", "strips")
    f.label("rows")
    _pack_rows(f, numbers, panel, full)
    f.ret()
    f.label("strips")
    _pack_strips(f, numbers, panel, full)
    f.ret()


def _pack_rows(f: Function, numbers: Numbers, panel: int, full: Val) -> None:
    """Rows of B are contiguous: distribute each row to the panels."""
    lanes, width = numbers.lanes, numbers.lanes * numbers.bytes
    stride = f.mul(f["b_k"], numbers.stored_bytes)
    panel_bytes = f.mul(f["depth"], panel * numbers.bytes)
    strip_bytes = f.mul(f["depth"], width)
    strips = f.smax(full, f["start"])
    strips_at = f.gep(f["to"], f.mul(f.mul(strips, f["depth"]), numbers.bytes))
    final = f.and_(f.sub(f["columns"], 1), -lanes)
    last = edge(f, numbers.isa, f.sub(f["columns"], final), vec(numbers.stored, lanes))
    with f.loop("k", 0, f["kc"], carry=[f["b"], f["to"], strips_at]) as loop:
        source, target, strip = loop.carried
        with f.loop("j", f["start"], full, panel, carry=[target]) as inner:
            place = inner.carried[0]
            for v in range(panel // lanes):
                value = load_edge(f, f.gep(source, f.add(inner.index, v * lanes), numbers.stored),
                                  vec(numbers.stored, lanes), None)  # fmt: skip
                f.store(numbers.widen(f, value), f.gep(place, v * width))
            inner.next(f.gep(place, panel_bytes))
        with f.loop("j", strips, final, lanes, carry=[strip]) as inner:
            value = f.load(f.gep(source, inner.index, numbers.stored), vec(numbers.stored, lanes))
            f.store(numbers.widen(f, value), inner.carried[0])
            inner.next(f.gep(inner.carried[0], strip_bytes))
        with f.when(f.icmp("sge", final, strips)):
            place = f.gep(source, final, numbers.stored)
            value = load_edge(f, place, vec(numbers.stored, lanes), last)
            behind = f.mul(f.sub(final, strips), f["depth"])
            f.store(numbers.widen(f, value), f.gep(strip, f.mul(behind, numbers.bytes)))
        row = f.gep(source, stride)
        loop.next(row, f.gep(target, panel * numbers.bytes), f.gep(strip, width))


def _pack_strips(f: Function, numbers: Numbers, panel: int, full: Val) -> None:
    """Columns of B are contiguous, or no axis is: pack one strip of a vector's width at a time."""
    lanes, size = numbers.lanes, numbers.bytes
    stride_k = f.mul(f["b_k"], numbers.stored_bytes)
    stride_n = f.mul(f["b_n"], numbers.stored_bytes)
    columns_contiguous = f.icmp("eq", f["b_k"], 1)
    with f.loop("j", f["start"], f["columns"], lanes) as loop:
        j = loop.index
        count = f.smin(f.sub(f["columns"], j), lanes)
        in_panel = f.icmp("slt", j, full)
        within = f.select(in_panel, f.binary("urem", j, panel), f.i64(0))
        row = f.select(in_panel, f.i64(panel * size), f.i64(lanes * size))
        first = f.mul(f.sub(j, within), f["depth"])
        target = f.gep(f["to"], f.mul(f.add(first, within), size))
        source = f.gep(f["b"], f.mul(j, stride_n))
        with f.when(columns_contiguous):
            f.call(numbers.part("transpose"), "void", [source, stride_n, target, row, f["kc"], count])
        with f.when(f.icmp("ne", f["b_k"], 1)):
            f.call(
                numbers.part("gather"),
                "void",
                [source, stride_k, stride_n, target, row, f["kc"], count],
            )


def _move(f: Function, numbers: Numbers, source: Val, target: Val, index: Val, lanes: Edge | None) -> None:
    place = f.gep(source, index, numbers.stored)
    value = load_edge(f, place, vec(numbers.stored, numbers.lanes), lanes)
    f.store(numbers.widen(f, value), f.gep(target, index, numbers.wide))
