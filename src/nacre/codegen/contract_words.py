"""Words: packed short numbers, of which neighbours in k share one 32-bit element, as one instruction takes them.

That instruction multiplies the numbers of two words and adds the products to a sum.  A k without neighbours meets
zeros.

* Integers in pairs or fours are exact in any order, as sums wrap at 32 bits.  Fours are unsigned on one side: A's
  are moved by 128, and a `header`, the first row of each packed panel of B, has what begins the sums instead of 0.
* Pairs of bfloat16 are two fused multiply-adds, the upper half's first, so that the earlier k is the upper half: a
  chain's bits are those of single multiply-adds, except that the instruction takes subnormal numbers and sums for
  zero.  There are none where the factors' least exponents add up to enough, as all sums are multiples of the product
  of the factors' last places (`no_subnormals`); elsewhere tiles take the words apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from nacre.codegen.contract_numbers import Numbers, edge, load_edge
from nacre.native.text import Function, Module, Val, lanes_of, vec

FLIP = 0x80808080  # moves the numbers of a word of four by 128
NONE = 0xFFFF  # `words_least` of zeros alone
NORMAL = 142  # least biased exponents of two factors, added, of which no sum of products is subnormal

# Strides are in bytes.  `flip` is combined with each word; `kc` counts numbers, not words.
ROWS = {
    "from": "ptr", "k_stride": "i64", "to": "ptr", "to_row": "i64", "panel": "i64", "kc": "i64", "columns": "i64",
    "flip": "i32",
}  # fmt: skip
ALONG = {
    "from": "ptr", "row": "i64", "to": "ptr", "to_row": "i64", "kc": "i64", "rows": "i64", "flip": "i32",
}  # fmt: skip
TURNED = {"from": "ptr", "stride": "i64", "to": "ptr", "to_row": "i64", "kc": "i64", "count": "i64"}
GATHER = {
    "from": "ptr", "k_stride": "i64", "stride": "i64", "to": "ptr", "to_k": "i64", "to_i": "i64", "kc": "i64",
    "count": "i64", "flip": "i32",
}  # fmt: skip


def emit_words(module: Module, numbers: Numbers, vectors: int) -> None:
    """Write the functions that pack words, for panels of so many vectors and strips of one."""
    _emit_rows(module, numbers, vectors)
    _emit_rows(module, numbers, 1)
    _emit_along(module, numbers)
    _emit_gather(module, numbers)
    _emit_turned(module, numbers)
    if numbers.flushes:
        _emit_least(module, numbers)
    if numbers.moves:
        _emit_header(module, numbers)


def word_source(numbers: Numbers) -> str:
    """The scalar that a transpose moves for the numbers of a word as they lie in memory."""
    unit = _unit(numbers)
    return unit if unit != "i32" else numbers.wide


def words(f: Function, numbers: Numbers, kc: Val) -> Val:
    """How many elements of packed factors so many numbers fill."""
    return kc if numbers.group == 1 else f.lshr(f.add(kc, numbers.group - 1), numbers.group.bit_length() - 1)


def no_subnormals(f: Function, a: Val, b: Val) -> Val:
    """Whether factors of which `words_least` is known have no products or sums that the instruction would flush."""
    first, second = f.lshr(a, 7), f.lshr(b, 7)
    normal = f.and_(f.icmp("ne", first, 0), f.icmp("ne", second, 0))
    return f.and_(normal, f.icmp("sge", f.add(first, second), NORMAL))


def _function(module: Module, numbers: Numbers, name: str, parameters: dict[str, str], result: str = "void") -> Function:
    return module.function(
        numbers.part(name), result, parameters, linkage="internal", attributes=numbers.isa.attributes,
        noalias=tuple(p for p in ("from", "to") if p in parameters),
    )  # fmt: skip


# ---- words of numbers


def _stored(numbers: Numbers) -> str:
    """The integer that holds a number in memory."""
    return f"i{8 * numbers.stored_bytes}"


def _unit(numbers: Numbers) -> str:
    """The integer that holds a word's numbers in memory, where they are side by side."""
    return f"i{8 * numbers.stored_bytes * numbers.group}"


def _word(f: Function, numbers: Numbers, parts: list[Val], flip: Val) -> Val:
    """The words of numbers that follow each other in k."""
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


def _word_of_unit(f: Function, numbers: Numbers, unit: Val, flip: Val) -> Val:
    """The words of numbers as they lie side by side in memory; units fill the low bits of an i32."""
    if numbers.rounds:  # the earlier k comes to the upper half
        return f.or_(f.shl(unit, f.const(unit.ty, 16)), f.lshr(unit, f.const(unit.ty, 16)))
    if numbers.stored_bytes * numbers.group == 4:
        return _flipped(f, numbers, unit, flip)
    shift = f.ashr if numbers.dtype.is_signed else f.lshr
    low = shift(f.shl(unit, f.const(unit.ty, 24)), f.const(unit.ty, 24))
    high = shift(f.shl(unit, f.const(unit.ty, 16)), f.const(unit.ty, 24))
    return f.or_(f.and_(low, f.const(unit.ty, 0xFFFF)), f.shl(high, f.const(unit.ty, 16)))


def _flipped(f: Function, numbers: Numbers, word: Val, flip: Val) -> Val:
    return f.xor(word, f.splat(flip, lanes_of(word.ty))) if numbers.moves else word


# ---- packing


def _emit_rows(module: Module, numbers: Numbers, vectors: int) -> None:
    """@words_rows_N(from, k_stride, to, to_row, panel, kc, columns, flip): panels of N vectors of contiguous columns.

    Words of a k are contiguous, `to_row` bytes from those of the next k; panels are `panel` bytes apart.  Columns of
    more than one vector are whole panels; strips of one vector end with any number of columns, and zeros.
    """
    f = _function(module, numbers, f"words_rows_{vectors}", ROWS)
    whole = f.lshr(f["kc"], numbers.group.bit_length() - 1)
    step = f.mul(f["k_stride"], numbers.group)
    with f.loop("w", 0, whole, carry=[f["from"], f["to"]]) as loop:
        source, target = loop.carried
        rows = [f.gep(source, f.mul(f["k_stride"], p)) for p in range(numbers.group)]
        _row(f, numbers, vectors, rows, None, target)
        loop.next(f.gep(source, step), f.gep(target, f["to_row"]))
    source, target = loop.results
    rest = f.and_(f["kc"], numbers.group - 1)
    with f.when(f.icmp("ne", rest, 0)):
        there = [f.icmp("sgt", rest, p) for p in range(numbers.group)]
        rows = [f.select(there[p], f.gep(source, f.mul(f["k_stride"], p)), source) for p in range(numbers.group)]
        _row(f, numbers, vectors, rows, there, target)
    f.ret()


def _row(f: Function, numbers: Numbers, vectors: int, rows: list[Val], there: list[Val] | None, target: Val) -> None:
    """The words of some rows of k; of the last word's, only some are `there`."""
    lanes, width = numbers.lanes, numbers.lanes * numbers.bytes
    ty = vec(_stored(numbers), lanes)
    with f.loop("j", 0, f["columns"], vectors * lanes, carry=[target]) as loop:
        last = edge(f, numbers.isa, f.sub(f["columns"], loop.index), ty) if vectors == 1 else None
        for v in range(vectors):
            at = f.mul(f.add(loop.index, v * lanes), numbers.stored_bytes)
            parts = [load_edge(f, f.gep(row, at), ty, last) for row in rows]
            if there is not None:
                parts = [f.select(held, part, f.zero(ty)) for held, part in zip(there, parts, strict=True)]
            f.store(_word(f, numbers, parts, f["flip"]), f.gep(loop.carried[0], v * width))
        loop.next(f.gep(loop.carried[0], f["panel"]))


def _emit_along(module: Module, numbers: Numbers) -> None:
    """@words_along(from, row, to, to_row, kc, rows, flip): rows of contiguous k; each ends with zeros in its last vector."""
    f = _function(module, numbers, "words_along", ALONG)
    size = numbers.lanes * numbers.group
    ty, units = vec(_stored(numbers), size), vec(_unit(numbers), numbers.lanes)
    whole = f.and_(f["kc"], -size)
    rest = f.sub(f["kc"], whole)
    spare = f.alloca(ty)
    with f.loop("r", 0, f["rows"], carry=[f["from"], f["to"]]) as loop:
        source, target = loop.carried

        def put(k: Val, numbers_: Val) -> None:
            unit = f.cast("zext", f.bitcast(numbers_, units), "i32")
            place = f.gep(target, f.mul(f.lshr(k, numbers.group.bit_length() - 1), numbers.bytes))
            f.store(_word_of_unit(f, numbers, unit, f["flip"]), place)

        with f.loop("k", 0, whole, size) as inner:
            put(inner.index, f.load(f.gep(source, f.mul(inner.index, numbers.stored_bytes)), ty))
        with f.when(f.icmp("ne", rest, 0)):
            start = f.gep(source, f.mul(whole, numbers.stored_bytes))
            put(whole, _filled(f, numbers, start, ty, rest, spare))
        loop.next(f.gep(source, f["row"]), f.gep(target, f["to_row"]))
    f.ret()


def _filled(f: Function, numbers: Numbers, pointer: Val, ty: str, count: Val, spare: Val) -> Val:
    """The first numbers of a vector, and zeros."""
    if numbers.isa.masks:
        return f.masked_load(pointer, f.lane_mask(count, lanes_of(ty)), ty)
    f.store(f.zero(ty), spare)
    with f.loop("lane", 0, count) as loop:
        at = f.mul(loop.index, numbers.stored_bytes)
        f.store(f.load(f.gep(pointer, at), _stored(numbers)), f.gep(spare, at))
    return f.load(spare, ty)


def _emit_gather(module: Module, numbers: Numbers) -> None:
    """@words_gather(from, k_stride, stride, to, to_k, to_i, kc, count, flip): `count` runs of k, any strides."""
    f = _function(module, numbers, "words_gather", GATHER)
    stored, group = _stored(numbers), numbers.group
    with f.loop("i", 0, f["count"], carry=[f["from"], f["to"]]) as loop:
        source, target = loop.carried
        with f.loop("k", 0, f["kc"], group, carry=[source, target]) as inner:
            at, place = inner.carried
            parts: list[Val] = []
            for p in range(group):
                there = f.icmp("slt", f.add(inner.index, p), f["kc"])
                x = f.load(f.select(there, f.gep(at, f.mul(f["k_stride"], p)), at), stored)
                parts.append(f.select(there, x, f.zero(stored)))
            f.store(_word(f, numbers, parts, f["flip"]), place)
            inner.next(f.gep(at, f.mul(f["k_stride"], group)), f.gep(place, f["to_k"]))
        loop.next(f.gep(source, f["stride"]), f.gep(target, f["to_i"]))
    f.ret()


def _emit_turned(module: Module, numbers: Numbers) -> None:
    """@words_turned(from, stride, to, to_row, kc, count): a vector's width of columns whose k are contiguous.

    Words of a k are contiguous, zeros behind the last.
    """
    f = _function(module, numbers, "words_turned", TURNED)
    shift = numbers.group.bit_length() - 1
    whole = f.lshr(f["kc"], shift)
    f.call(numbers.part("transpose_words"), "void", [
        f["from"], f["stride"], f["to"], f["to_row"], whole, f["count"],
    ])  # fmt: skip
    mask = f.lane_mask(f["count"], numbers.lanes)
    ty = vec("i32", numbers.lanes)
    with f.loop("w", 0, whole, carry=[f["to"]]) as loop:
        place = loop.carried[0]
        word = _word_of_unit(f, numbers, f.load(place, ty), Val("0", "i32"))
        f.store(f.select(mask, word, f.zero(ty)), place)
        loop.next(f.gep(place, f["to_row"]))
    done = f.shl(whole, shift)
    with f.when(f.icmp("ne", f.sub(f["kc"], done), 0)):
        f.store(f.zero(ty), loop.results[0])
        size = numbers.stored_bytes
        f.call(numbers.part("words_gather"), "void", [
            f.gep(f["from"], f.mul(done, size)), f.i64(size), f["stride"], loop.results[0], f["to_row"],
            f.i64(numbers.bytes), f.sub(f["kc"], done), f["count"], Val("0", "i32"),
        ])  # fmt: skip
    f.ret()


# ---- what is known of packed words


def _emit_least(module: Module, numbers: Numbers) -> None:
    """@words_least(at, row, rows, count): the least of |x| as an integer, less one, of the words' numbers but zeros.

    `rows` rows have `count` words, `row` bytes apart; NONE where all are zero.
    """
    f = _function(
        module, numbers, "words_least", {"at": "ptr", "row": "i64", "rows": "i64", "count": "i64"}, "i64"
    )
    lanes = numbers.lanes
    halves = vec("i16", 2 * lanes)
    with f.loop("r", 0, f["rows"], carry=[f["at"], f.const(halves, -1)]) as loop:
        with f.loop("i", 0, f["count"], lanes, carry=[loop.carried[1]]) as inner:
            mask = f.lane_mask(f.sub(f["count"], inner.index), lanes)
            word = f.masked_load(f.gep(loop.carried[0], inner.index, "i32"), mask, vec("i32", lanes))
            size = f.and_(f.bitcast(word, halves), f.const(halves, 0x7FFF))
            inner.next(f.minmax("umin", inner.carried[0], f.add(size, f.const(halves, -1))))
        loop.next(f.gep(loop.carried[0], f["row"]), inner.results[0])
    f.ret(f.cast("zext", f.intrinsic("vector.reduce.umin", "i16", [loop.results[1]], overload=[halves]), "i64"))


def _emit_header(module: Module, numbers: Numbers) -> None:
    """@words_header(at, row, count): what begins the sums of a panel of B, whose words follow at + row.

    A's numbers are 128 too great where both are signed, too small where they are not; so is a sum by 128 times the
    sum of B's numbers.
    """
    f = _function(module, numbers, "words_header", {"at": "ptr", "row": "i64", "count": "i64"})
    ones, zero = f.const(numbers.vector, 0x01010101), f.zero(numbers.vector)
    with f.loop("j", 0, f["row"], numbers.lanes * numbers.bytes) as column:
        start = f.gep(f["at"], column.index)
        with f.loop("w", 0, f["count"], carry=[f.gep(start, f["row"]), zero]) as loop:
            place, total = loop.carried
            loop.next(f.gep(place, f["row"]), numbers.multiply_add_words(f, ones, f.load(place, numbers.vector), total))
        total = f.shl(loop.results[1], f.const(numbers.vector, 7))
        f.store(f.sub(zero, total) if numbers.dtype.is_signed else total, start)
    f.ret()


# ---- blocks


@dataclass(frozen=True)
class Words:
    """Packs the blocks of one product: bands of A, and panels of B with `depth` rows of room."""

    f: Function
    numbers: Numbers
    panel: int  # columns
    depth: Val

    def matrix(self, b: Val, stride_k: Val, stride_n: Val, to: Val, kc: Val, columns: Val) -> Val:
        """Pack a block of B, strides in elements: full panels, then strips; returns `words_least` of it."""
        f, numbers = self.f, self.numbers
        k_bytes, n_bytes = (f.mul(s, numbers.stored_bytes) for s in (stride_k, stride_n))
        full = f.mul(f.binary("udiv", columns, self.panel), self.panel)
        rest = f.sub(columns, full)
        parts = (f.i64(0), full, self.panel), (full, columns, numbers.lanes)
        by_row = f.icmp("eq", stride_n, 1)
        with f.when(by_row):
            for (start, _, width), count in zip(parts, (full, rest), strict=True):
                row = width * numbers.bytes
                f.call(numbers.part(f"words_rows_{width // numbers.lanes}"), "void", [
                    f.gep(b, f.mul(start, numbers.stored_bytes)), k_bytes, self._place(to, start, width), f.i64(row),
                    f.mul(self.depth, row), kc, count, Val("0", "i32"),
                ])  # fmt: skip
        with f.when(f.xor(by_row, f.const("i1", True))):
            for start, end, width in parts:
                self._strips(b, (k_bytes, n_bytes), to, kc, (start, end, width))
        least = f.i64(NONE)
        for start, end, width in parts:
            with f.loop("known", start, end, width, carry=[least]) as loop:
                loop.next(self._known(to, loop.index, width, kc, loop.carried[0]))
            least = loop.results[0]
        return least

    def band(self, a: Val, stride_m: Val, stride_k: Val, to: Val, steps: tuple[int, int], kc: Val, count: Val) -> Val:
        """Pack rows of A, strides in elements; returns `words_least` of them.

        Where its columns are contiguous so are a k's words, else those of a row; `steps` are the elements from k to
        k and from row to row.
        """
        f, numbers = self.f, self.numbers
        m_bytes, k_bytes = (f.mul(s, numbers.stored_bytes) for s in (stride_m, stride_k))
        across, row = (f.i64(step * numbers.bytes) for step in steps)
        flip = Val(str(FLIP if numbers.moves else 0), "i32")
        by_row, by_column = f.icmp("eq", stride_k, 1), f.icmp("eq", stride_m, 1)
        by_column = f.and_(by_column, f.xor(by_row, f.const("i1", True)))
        with f.when(by_row):
            f.call(numbers.part("words_along"), "void", [a, m_bytes, to, row, kc, count, flip])
        with f.when(by_column):
            f.call(numbers.part("words_rows_1"), "void", [
                a, k_bytes, to, across, f.i64(numbers.lanes * numbers.bytes), kc, count, flip,
            ])  # fmt: skip
        with f.when(f.icmp("eq", f.or_(by_row, by_column), f.const("i1", False))):
            f.call(numbers.part("words_gather"), "void", [
                a, k_bytes, m_bytes, to, f.i64(numbers.bytes), row, kc, count, flip,
            ])  # fmt: skip
        if not numbers.flushes:
            return f.i64(NONE)
        filled = words(f, numbers, kc)
        return f.call(numbers.part("words_least"), "i64", [
            to, f.select(by_column, across, row), f.select(by_column, filled, count),
            f.select(by_column, f.i64(steps[0]), filled),
        ])  # fmt: skip

    def _place(self, to: Val, column: Val, width: int) -> Val:
        """Where the words of the panel or strip of some width begin that begins with a column."""
        f, numbers = self.f, self.numbers
        header = width * numbers.bytes if numbers.moves else 0
        return f.gep(f.gep(to, f.mul(f.mul(column, self.depth), numbers.bytes)), header)

    def _strips(self, b: Val, strides: tuple[Val, Val], to: Val, kc: Val, part: tuple[Val, Val, int]) -> None:
        """Pack columns of B, which are not contiguous, a vector's width of them at a time."""
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
                f.call(numbers.part("words_turned"), "void", [source, n_bytes, target, row, kc, count])
            with f.when(f.xor(along, f.const("i1", True))):
                self._clear(target, row, kc)
                f.call(numbers.part("words_gather"), "void", [
                    source, k_bytes, n_bytes, target, row, f.i64(numbers.bytes), kc, count, Val("0", "i32"),
                ])  # fmt: skip

    def _clear(self, target: Val, row: Val, kc: Val) -> None:
        """Zeros where a vector of columns will not be filled, as numbers there would be taken for B's."""
        f, numbers = self.f, self.numbers
        if numbers.flushes:
            with f.loop("w", 0, words(f, numbers, kc), carry=[target]) as loop:
                f.store(f.zero(numbers.vector), loop.carried[0])
                loop.next(f.gep(loop.carried[0], row))

    def _known(self, to: Val, column: Val, width: int, kc: Val, least: Val) -> Val:
        """Note what is to be known of a packed panel: its header, or its least number beside that of others."""
        f, numbers = self.f, self.numbers
        count, row = words(f, numbers, kc), width * numbers.bytes
        start = self._place(to, column, width)
        if numbers.moves:
            f.call(numbers.part("words_header"), "void", [f.gep(start, -row), f.i64(row), count])
        if not numbers.flushes:
            return least
        mine = f.call(numbers.part("words_least"), "i64", [start, f.i64(0), f.i64(1), f.mul(count, width)])
        return f.minmax("umin", least, mine)
