"""Packed dot instructions (VNNI, bfloat16): groups of short numbers, neighbours in k, in one 32-bit element.

The instruction multiplies the numbers of two groups and adds the products to a sum.  A partial group is filled with
zeros; in A's bfloat16 with −0, the neutral element of addition.

* Integers in pairs or fours are exact in any order, as sums wrap at 32 bits.  Fours are unsigned on one side: A's are
  offset by 128, and a `header`, the first row of each packed panel of B, has the initial sums that correct for it.
* Pairs of bfloat16 have the earlier k in the upper half (see `bfloat_pairs`).  Where sums may be subnormal, tiles
  unpack the groups.
"""

from __future__ import annotations

from nacre.codegen.bfloat_pairs import MINUS_ZERO, are_normal, least_of, lesser, no_least, swapped
from nacre.codegen.gemm.element_types import Numbers, edge, load_edge
from nacre.codegen.gemm.pack import Transposer
from nacre.codegen.gemm.tile import PREFETCHING, Shape, emit_tile, tile_name
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

FLIP = 0x80808080  # offsets the numbers of a group of four by 128

# Strides are in bytes; `kc` counts numbers, not groups.  `flip` is combined with each group of four by xor; for
# bfloat16 it is the number that fills partial groups.  At `least` is the least |x| of bfloat16 numbers without zeros,
# as an integer less one.
ROWS = {
    "from": "ptr", "k_stride": "i64", "to": "ptr", "to_row": "i64", "panel": "i64", "kc": "i64", "columns": "i64",
    "flip": "i32", "least": "ptr",
}  # fmt: skip
ALONG = {
    "from": "ptr", "row": "i64", "to": "ptr", "to_row": "i64", "kc": "i64", "rows": "i64", "flip": "i32",
    "least": "ptr",
}  # fmt: skip
TRANSPOSED = {
    "from": "ptr", "stride": "i64", "to": "ptr", "to_row": "i64", "kc": "i64", "count": "i64", "least": "ptr",
}  # fmt: skip
GATHER = {
    "from": "ptr", "k_stride": "i64", "stride": "i64", "to": "ptr", "to_k": "i64", "to_i": "i64", "kc": "i64",
    "count": "i64", "flip": "i32", "least": "ptr",
}  # fmt: skip


def emit_wide_tiles(module: ModuleText, numbers: Numbers, shape: Shape) -> None:
    """Write the tiles that unpack groups; the tallest calls shorter ones, because it is rarely run."""
    for vectors in (shape.vectors, 1):
        for rows in shape.rows[1:]:
            emit_tile(module, numbers, rows, vectors, "prefetching_")
        f = module.function(
            tile_name(numbers, shape.tall, vectors, "prefetching_"), "void", PREFETCHING, linkage="internal",
            isa=numbers.isa,
        )  # fmt: skip
        a, c, left = f["a"], f["c"], shape.tall
        for rows in shape.rows[1:]:
            for _ in range(left // rows):
                given = {**{name: f[name] for name in PREFETCHING}, "a": a, "c": c}
                f.call(tile_name(numbers, rows, vectors, "prefetching_"), "void", list(given.values()))
                a, c = f.gep(a, f.mul(f["a_row"], rows)), f.gep(c, f.mul(f["c_row"], rows))
            left %= rows
        f.ret()


def emit_packed_dot(module: ModuleText, numbers: Numbers, vectors: int) -> None:
    """Write the functions that pack groups, for panels of the given number of vectors and strips of one."""
    _emit_rows(module, numbers, vectors)
    _emit_rows(module, numbers, 1)
    _emit_along(module, numbers)
    _emit_gather(module, numbers)
    _emit_transposed(module, numbers)
    if numbers.offsets:
        _emit_header(module, numbers)


def packed_count(f: Function, numbers: Numbers, kc: Val) -> Val:
    """The number of packed elements for a number of values."""
    return kc if numbers.group == 1 else f.lshr(f.add(kc, numbers.group - 1), numbers.group.bit_length() - 1)


def _function(module: ModuleText, numbers: Numbers, name: str, parameters: dict[str, str]) -> Function:
    return module.function(
        numbers.part(name), "void", parameters, linkage="internal", isa=numbers.isa,
        noalias=tuple(p for p in ("from", "to") if p in parameters),
    )  # fmt: skip


# ---- groups


def _stored(numbers: Numbers) -> str:
    """The integer type of a number in memory."""
    return f"i{8 * numbers.stored_bytes}"


def _unit(numbers: Numbers) -> str:
    """The integer type of a group in memory, where its numbers are adjacent."""
    return f"i{8 * numbers.stored_bytes * numbers.group}"


def _group(f: Function, numbers: Numbers, parts: list[Val], flip: Val) -> Val:
    """Groups of the numbers of consecutive k."""
    width = 32 // numbers.group
    extend = "sext" if numbers.dtype.is_signed else "zext"
    places = range(0, 32, width)
    whole: Val | None = None
    for part, place in zip(parts, reversed(places) if numbers.rounds else places, strict=True):
        x = f.cast("zext", f.cast(extend, part, f"i{width}"), "i32")
        x = f.shl(x, f.const(x.ty, place)) if place else x
        whole = x if whole is None else f.or_(whole, x)
    assert whole is not None
    return _flipped(f, numbers, whole, flip)


def _group_of_unit(f: Function, numbers: Numbers, unit: Val, flip: Val) -> Val:
    """Groups of numbers that are adjacent in memory; the low bits of each i32 of `unit` hold them."""
    if numbers.rounds:  # the earlier k goes to the upper half
        return swapped(f, unit)
    if numbers.stored_bytes * numbers.group == 4:
        return _flipped(f, numbers, unit, flip)
    shift = f.ashr if numbers.dtype.is_signed else f.lshr
    low = shift(f.shl(unit, f.const(unit.ty, 24)), f.const(unit.ty, 24))
    high = shift(f.shl(unit, f.const(unit.ty, 16)), f.const(unit.ty, 24))
    return f.or_(f.and_(low, f.const(unit.ty, 0xFFFF)), f.shl(high, f.const(unit.ty, 16)))


def _flipped(f: Function, numbers: Numbers, groups: Val, flip: Val) -> Val:
    return f.xor(groups, f.splat(flip, lanes_of(groups.ty))) if numbers.offsets else groups


# ---- the least magnitude of bfloat16


def _no_groups(f: Function, numbers: Numbers) -> list[Val]:
    """The initial least magnitude, before any group."""
    return no_least(f, numbers.lanes) if numbers.flushes else []


def _note(f: Function, minima: list[Val]) -> None:
    """Store the least magnitude of a packed part."""
    for least in minima:
        _note_one(f, least_of(f, least))


def _note_one(f: Function, least: Val) -> None:
    f.store(f.minmax("umin", f.load(f["least"], "i64"), least), f["least"])


# ---- packing


def _absent(f: Function, numbers: Numbers, ty: str) -> Val:
    """The number that fills a partial group."""
    if not numbers.rounds:
        return f.zero(ty)
    return f.splat(f.cast("trunc", f["flip"], _stored(numbers)), lanes_of(ty))


def _emit_rows(module: ModuleText, numbers: Numbers, vectors: int) -> None:
    """@groups_rows_N(from, k_stride, to, to_row, panel, kc, columns, flip, least): panels of N vectors of columns.

    Columns are contiguous.  The groups of one k are contiguous, `to_row` bytes before those of the next; panels are
    `panel` bytes apart.  With more than one vector, columns are whole panels; strips of one vector are filled with
    zeros.
    """
    f = _function(module, numbers, f"groups_rows_{vectors}", ROWS)
    whole = f.lshr(f["kc"], numbers.group.bit_length() - 1)
    step = f.mul(f["k_stride"], numbers.group)
    with f.loop("w", 0, whole, carry=[f["from"], f["to"], *_no_groups(f, numbers)]) as loop:
        source, target, *minima = loop.carried
        rows = [f.gep(source, f.mul(f["k_stride"], p)) for p in range(numbers.group)]
        minima = _row(f, numbers, vectors, rows, None, target, minima)
        loop.next(f.gep(source, step), f.gep(target, f["to_row"]), *minima)
    source, target, *minima = loop.results
    _note(f, minima)
    rest = f.and_(f["kc"], numbers.group - 1)
    with f.when(f.icmp("ne", rest, 0)):
        there = [f.icmp("sgt", rest, p) for p in range(numbers.group)]
        rows = [f.select(there[p], f.gep(source, f.mul(f["k_stride"], p)), source) for p in range(numbers.group)]
        _note(f, _row(f, numbers, vectors, rows, there, target, _no_groups(f, numbers)))
    f.ret()


def _row(
    f: Function, numbers: Numbers, vectors: int, rows: list[Val], there: list[Val] | None, target: Val,
    minima: list[Val],
) -> list[Val]:  # fmt: skip
    """Pack the groups of some rows of k; in the last group, only some rows are `there`."""
    lanes, width = numbers.lanes, numbers.lanes * numbers.bytes
    ty = vec(_stored(numbers), lanes)
    with f.loop("j", 0, f["columns"], vectors * lanes, carry=[target, *minima]) as loop:
        place, *minima = loop.carried
        last = edge(f, numbers.isa, f.sub(f["columns"], loop.index), ty) if vectors == 1 else None
        for v in range(vectors):
            at = f.mul(f.add(loop.index, v * lanes), numbers.stored_bytes)
            parts = [load_edge(f, f.gep(row, at), ty, last) for row in rows]
            if there is not None:
                parts = [
                    f.select(present, part, _absent(f, numbers, ty)) for present, part in zip(there, parts, strict=True)
                ]
            packed = _group(f, numbers, parts, f["flip"])
            minima = lesser(f, minima, packed)
            f.store(packed, f.gep(place, v * width))
        loop.next(f.gep(place, f["panel"]), *minima)
    return loop.results[1:]


def _emit_along(module: ModuleText, numbers: Numbers) -> None:
    """@groups_along(from, row, to, to_row, kc, rows, flip, least): rows of contiguous k; each fills a last vector."""
    f = _function(module, numbers, "groups_along", ALONG)
    size = numbers.lanes * numbers.group
    ty = vec(_stored(numbers), size)
    whole = f.and_(f["kc"], -size)
    rest = f.sub(f["kc"], whole)
    spare = f.alloca(ty)
    with f.loop("r", 0, f["rows"], carry=[f["from"], f["to"], *_no_groups(f, numbers)]) as loop:
        source, target, *minima = loop.carried
        with f.loop("k", 0, whole, size, carry=[source, target, *minima]) as inner:
            at, place, *minima = inner.carried
            minima = lesser(f, minima, _put(f, numbers, place, f.load(at, ty)))
            inner.next(f.gep(at, size * numbers.stored_bytes), f.gep(place, numbers.lanes * numbers.bytes), *minima)
        at, place, *minima = inner.results
        loop.next(f.gep(source, f["row"]), f.gep(target, f["to_row"]), *minima)
        with f.when(f.icmp("ne", rest, 0)):
            last = _put(f, numbers, place, filled(f, numbers, at, ty, rest, spare))
            _note(f, lesser(f, _no_groups(f, numbers), last))
    _note(f, loop.results[2:])
    f.ret()


def _put(f: Function, numbers: Numbers, place: Val, run: Val) -> Val:
    """Store a run of numbers as groups, and return these."""
    unit = f.cast("zext", f.bitcast(run, vec(_unit(numbers), numbers.lanes)), "i32")
    groups = _group_of_unit(f, numbers, unit, f["flip"])
    f.store(groups, place)
    return groups


def filled(f: Function, numbers: Numbers, pointer: Val, ty: str, count: Val, spare: Val) -> Val:
    """The first `count` numbers of a vector, filled up."""
    if numbers.isa.masks:
        return f.masked_load(pointer, f.lane_mask(count, lanes_of(ty)), ty, _absent(f, numbers, ty))
    f.store(f.zero(ty), spare)
    with f.loop("lane", 0, count) as loop:
        at = f.mul(loop.index, numbers.stored_bytes)
        f.store(f.load(f.gep(pointer, at), _stored(numbers)), f.gep(spare, at))
    return f.load(spare, ty)


def _emit_gather(module: ModuleText, numbers: Numbers) -> None:
    """@groups_gather(from, k_stride, stride, to, to_k, to_i, kc, count, flip, least): runs of k, any strides."""
    f = _function(module, numbers, "groups_gather", GATHER)
    stored, group = _stored(numbers), numbers.group
    with f.loop("i", 0, f["count"], carry=[f["from"], f["to"]]) as loop:
        source, target = loop.carried
        with f.loop("k", 0, f["kc"], group, carry=[source, target]) as inner:
            at, place = inner.carried
            parts: list[Val] = []
            for p in range(group):
                there = f.icmp("slt", f.add(inner.index, p), f["kc"])
                x = f.load(f.select(there, f.gep(at, f.mul(f["k_stride"], p)), at), stored)
                parts.append(f.select(there, x, _absent(f, numbers, stored)))
                if numbers.flushes:
                    size = f.add(f.and_(x, f.const(stored, 0x7FFF)), f.const(stored, -1))
                    _note_one(f, f.cast("zext", size, "i64"))
            f.store(_group(f, numbers, parts, f["flip"]), place)
            inner.next(f.gep(at, f.mul(f["k_stride"], group)), f.gep(place, f["to_k"]))
        loop.next(f.gep(source, f["stride"]), f.gep(target, f["to_i"]))
    f.ret()


def _emit_transposed(module: ModuleText, numbers: Numbers) -> None:
    """@groups_transposed(from, stride, to, to_row, kc, count, least): a vector of columns whose k are contiguous.

    The groups of one k are contiguous; behind `count` of them follow other numbers of the matrix, or zeros.
    """
    f = _function(module, numbers, "groups_transposed", TRANSPOSED)
    unit, shift = _unit(numbers), numbers.group.bit_length() - 1
    transposer = Transposer(f, numbers, unit if unit != "i32" else numbers.wide)
    transposer.begin(f["from"], f["stride"], f["count"])
    whole, start = f.lshr(f["kc"], shift), f.i64(0)
    state = [f["to"], *_no_groups(f, numbers)]
    for many in transposer.steps:
        stop = f.add(start, f.and_(f.sub(whole, start), -many))
        with f.loop("w", start, stop, many, carry=state) as loop:
            place, *minima = loop.carried
            for column in transposer.columns(loop.index, many):
                raw = f.bitcast(column, vec("i32", numbers.lanes))
                groups = _group_of_unit(f, numbers, raw, Val("0", "i32"))
                minima = lesser(f, minima, groups)
                f.store(groups, place)
                place = f.gep(place, f["to_row"])
            loop.next(place, *minima)
        start, state = stop, loop.results
    place, *minima = state
    _note(f, minima)
    done, size = f.shl(start, shift), numbers.stored_bytes
    clear(f, numbers, place, f["to_row"], f.sub(f["kc"], done))
    f.call(numbers.part("groups_gather"), "void", [
        f.gep(f["from"], f.mul(done, size)), f.i64(size), f["stride"], place, f["to_row"], f.i64(numbers.bytes),
        f.sub(f["kc"], done), f["count"], Val("0", "i32"), f["least"],
    ])  # fmt: skip
    f.ret()


def clear(f: Function, numbers: Numbers, target: Val, row: Val, kc: Val) -> None:
    """Set vectors of rows that will not be filled to zero."""
    with f.loop("clear", 0, packed_count(f, numbers, kc), carry=[target]) as loop:
        f.store(f.zero(numbers.vector), loop.carried[0])
        loop.next(f.gep(loop.carried[0], row))


# ---- the initial sums


def _emit_header(module: ModuleText, numbers: Numbers) -> None:
    """@groups_header(at, row, count): the initial sums of a panel of B, whose groups follow at + row.

    A's numbers are offset by +128 if both sides are signed, else by −128.  This changes each sum by 128 times the sum
    of B's numbers.
    """
    f = _function(module, numbers, "groups_header", {"at": "ptr", "row": "i64", "count": "i64"})
    ones, zero = f.const(numbers.vector, 0x01010101), f.zero(numbers.vector)
    with f.loop("j", 0, f["row"], numbers.lanes * numbers.bytes) as column:
        start = f.gep(f["at"], column.index)
        with f.loop("w", 0, f["count"], carry=[f.gep(start, f["row"]), zero]) as loop:
            place, total = loop.carried
            loop.next(
                f.gep(place, f["row"]), numbers.multiply_add_groups(f, ones, f.load(place, numbers.vector), total)
            )
        total = f.shl(loop.results[1], f.const(numbers.vector, 7))
        f.store(f.sub(zero, total) if numbers.dtype.is_signed else total, start)
    f.ret()


# ---- blocks


class PackedDot:
    """Packs the blocks of one product: row panels of A, and panels of B of some columns with `depth` rows of room."""

    def __init__(self, f: Function, numbers: Numbers, panel: int, depth: Val) -> None:
        self.f, self.numbers, self.panel, self.depth = f, numbers, panel, depth
        self.least_a, self.least_b = (f.alloca("i64") for _ in range(2))

    def safe(self) -> Val:
        """Whether no product and no sum of the last packed blocks is subnormal, which the instruction would flush."""
        f = self.f
        if not self.numbers.flushes:
            return f.const("i1", True)
        return are_normal(f, *(f.load(minima, "i64") for minima in (self.least_a, self.least_b)))

    def matrix(self, b: Val, stride_k: Val, stride_n: Val, to: Val, kc: Val, columns: Val) -> None:
        """Pack a block of B, strides in elements: full panels, then strips."""
        f, numbers = self.f, self.numbers
        f.store(f.i64(-1), self.least_b)
        k_bytes, n_bytes = (f.mul(s, numbers.stored_bytes) for s in (stride_k, stride_n))
        full = f.mul(f.binary("udiv", columns, self.panel), self.panel)
        parts = (f.i64(0), full, self.panel), (full, columns, numbers.lanes)
        by_row = f.icmp("eq", stride_n, 1)
        with f.when(by_row):
            for start, end, width in parts:
                row = width * numbers.bytes
                f.call(numbers.part(f"groups_rows_{width // numbers.lanes}"), "void", [
                    f.gep(b, f.mul(start, numbers.stored_bytes)), k_bytes, self._place(to, start, width), f.i64(row),
                    f.mul(self.depth, row), kc, f.sub(end, start), Val("0", "i32"), self.least_b,
                ])  # fmt: skip
        with f.when(f.xor(by_row, f.const("i1", True))):
            for part in parts:
                self._strips(b, (k_bytes, n_bytes), to, kc, part)
        if numbers.offsets:
            for start, end, width in parts:
                row = width * numbers.bytes
                with f.loop("header", start, end, width) as loop:
                    at = f.gep(self._place(to, loop.index, width), -row)
                    f.call(numbers.part("groups_header"), "void", [at, f.i64(row), packed_count(f, numbers, kc)])

    def row_panel(
        self, a: Val, stride_m: Val, stride_k: Val, to: Val, steps: tuple[int, int], kc: Val, count: Val
    ) -> None:
        """Pack rows of A, strides in elements.

        If A's columns are contiguous, so are the groups of one k, else those of a row; `steps` are the elements from k
        to k and from row to row.
        """
        f, numbers = self.f, self.numbers
        f.store(f.i64(-1), self.least_a)
        m_bytes, k_bytes = (f.mul(s, numbers.stored_bytes) for s in (stride_m, stride_k))
        across, row = (f.i64(step * numbers.bytes) for step in steps)
        flip = Val(str(FLIP if numbers.offsets else MINUS_ZERO if numbers.rounds else 0), "i32")
        by_row, by_column = f.icmp("eq", stride_k, 1), f.icmp("eq", stride_m, 1)
        neither = f.icmp("eq", f.or_(by_row, by_column), f.const("i1", False))
        with f.when(by_row):
            f.call(numbers.part("groups_along"), "void", [a, m_bytes, to, row, kc, count, flip, self.least_a])
        with f.when(f.and_(by_column, f.xor(by_row, f.const("i1", True)))):
            f.call(numbers.part("groups_rows_1"), "void", [
                a, k_bytes, to, across, f.i64(numbers.lanes * numbers.bytes), kc, count, flip, self.least_a,
            ])  # fmt: skip
        with f.when(neither):
            f.call(numbers.part("groups_gather"), "void", [
                a, k_bytes, m_bytes, to, f.i64(numbers.bytes), row, kc, count, flip, self.least_a,
            ])  # fmt: skip

    def _place(self, to: Val, column: Val, width: int) -> Val:
        """Where the groups of the panel or strip that begins with a column begin; `width` is its width."""
        f, numbers = self.f, self.numbers
        header = width * numbers.bytes if numbers.offsets else 0
        return f.gep(f.gep(to, f.mul(f.mul(column, self.depth), numbers.bytes)), header)

    def _strips(self, b: Val, strides: tuple[Val, Val], to: Val, kc: Val, part: tuple[Val, Val, int]) -> None:
        """Pack columns of B that are not contiguous, a vector's width of them at a time."""
        f, numbers, (start, end, width) = self.f, self.numbers, part
        k_bytes, n_bytes = strides
        row = f.i64(width * numbers.bytes)
        along = f.icmp("eq", k_bytes, numbers.stored_bytes)
        with f.loop("j", start, end, numbers.lanes) as loop:
            within = f.binary("urem", f.sub(loop.index, start), width)
            target = f.gep(self._place(to, f.sub(loop.index, within), width), f.mul(within, numbers.bytes))
            source = f.gep(b, f.mul(loop.index, n_bytes))
            count = f.smin(f.sub(end, loop.index), numbers.lanes)
            with f.when(along):
                f.call(
                    numbers.part("groups_transposed"), "void", [source, n_bytes, target, row, kc, count, self.least_b]
                )
            with f.when(f.xor(along, f.const("i1", True))):
                f.call(numbers.part("groups_gather"), "void", [
                    source, k_bytes, n_bytes, target, row, f.i64(numbers.bytes), kc, count, Val("0", "i32"),
                    self.least_b,
                ])  # fmt: skip
