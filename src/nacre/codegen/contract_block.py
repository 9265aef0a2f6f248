"""One block of a matrix product on one thread: pack, run register tiles, merge.

The block function reads the kernel's arguments; with `swap` it computes Cᵀ = Bᵀ·Aᵀ, in which a
product with few columns fills its vectors.  The products of a chain are the same, and so are its
bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from nacre.codegen.contract_ahead import Ahead, Following, Reach, is_far, make_ahead
from nacre.codegen.contract_expect import EXPECTING, cells
from nacre.codegen.contract_finish import Ending, Slots
from nacre.codegen.contract_numbers import Numbers
from nacre.codegen.contract_plan import BLOCK, DIRECT_ROWS, Tiling
from nacre.codegen.contract_tile import Shape, tile_name
from nacre.native.text import Function, Module, Val

NEAR_ROWS = 128  # the same, where rows of B are so near that a panel lies in few pages of memory
NEAR = 3072  # bytes
ALIASING = 1024  # rows of A this many bytes apart, or a multiple, share too few cache sets
REUSED = 192  # columns: so many pay for a copy of aliasing rows


@dataclass(frozen=True)
class Layout:
    """The sizes, in elements and bytes, of what a block keeps in a thread's scratch memory."""

    numbers: Numbers
    shape: Shape
    narrow: Numbers | None = None  # of a matrix of a narrower type, which the kernel for few rows takes

    @property
    def matrix(self) -> Numbers:
        """Of B."""
        return self.narrow or self.numbers

    @property
    def lanes(self) -> int:
        return self.numbers.lanes

    @property
    def panel(self) -> int:
        return self.shape.vectors * self.lanes

    @property
    def row(self) -> int:
        """Elements from row to row of a packed band of A; the odd cache line keeps rows from aliasing."""
        return BLOCK + 64 // self.numbers.bytes

    @property
    def across(self) -> int:
        """Elements from k to k of a packed band of a transposed A: whole vectors."""
        return -(-self.shape.tall // self.lanes) * self.lanes

    @property
    def band_at(self) -> int:
        """Where a packed band of A begins: behind one tile."""
        return _line(self.shape.tall * self.panel * self.numbers.bytes)

    @property
    def block_at(self) -> int:
        """Where packed B begins."""
        return self.band_at + _line(max(self.shape.tall * self.row, BLOCK * self.across) * self.numbers.bytes)

    def tiling(self, spills: bool, thin: bool) -> Tiling:
        """What of it decides plans."""
        return Tiling(self.lanes, self.numbers.bytes, self.shape.tall, self.shape.short, self.panel,
                      self.block_at, spills, thin)


def _line(size: int) -> int:
    return -(-size // 64) * 64


@dataclass(frozen=True)
class _Block:
    """The values that the loops of a block share."""

    f: Function
    layout: Layout
    rows: Val  # of this block
    columns: Val
    depth: Val  # rows of k a packed panel has room for
    stride_a: tuple[Val, Val]  # m, k; elements
    stride_b: tuple[Val, Val]  # k, n
    direct: Val  # whether B is read in place
    packed: Val  # address of packed B
    home: Val  # where sums stand between blocks of k: C or scratch
    home_row: Val  # bytes
    swap: Val
    far: Val  # whether the product is so large that its matrices wait in memory


PARAMETERS = {
    "args": "ptr", "scratch": "ptr", "outer": "i64", "inner": "i64",
    "m0": "i64", "m1": "i64", "n0": "i64", "n1": "i64",
}  # fmt: skip


def emit_block(module: Module, layout: Layout, ending: Ending, slots: Slots, thin: bool) -> None:
    """@block(args, scratch, outer, inner, m0, m1, n0, n1): the elements of one rectangle of C, or of Cᵀ.

    A `thin` block has few rows, and reads B in place.
    """
    numbers = layout.numbers
    f = module.function(
        "block", "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes
    )
    swap = f.icmp("ne", slots.load(f, "swap"), 0)
    a, b, stride_a, stride_b = _factors(f, layout, slots, swap)
    block, transposed_at = _prepare(f, layout, ending, slots, swap, stride_a, stride_b, thin)
    k = slots.load(f, "k")
    if thin:
        _thin(block, a, b, k)
    else:
        _blocks_of_k(block, ending, a, b, k)
    with f.when(swap):
        _finish_swapped(block, ending, slots, transposed_at)
    f.ret()


def _blocks_of_k(block: _Block, ending: Ending, a: Val, b: Val, k: Val) -> None:
    """Chains of each block of k in turn, added to those before."""
    f, stored = block.f, block.layout.numbers.stored
    blocks = f.smax(f.lshr(f.add(k, BLOCK - 1), BLOCK.bit_length() - 1), 1)
    with f.loop("block", 0, blocks) as loop:
        k0 = f.mul(loop.index, BLOCK)
        kc = f.smin(f.sub(k, k0), BLOCK)
        last = f.icmp("eq", loop.index, f.sub(blocks, 1))
        a_here = f.gep(a, f.mul(k0, block.stride_a[1]), stored)
        b_here = f.gep(b, f.mul(k0, block.stride_b[0]), stored)
        _pack_b(block, b_here, kc)
        ahead = make_ahead(_reach(block), a_here, b_here, kc, f.smin(f.sub(f.sub(k, k0), kc), BLOCK))
        _bands(block, ending, a_here, b_here, kc, loop.index, last, ahead)


def _factors(
    f: Function, layout: Layout, slots: Slots, swap: Val
) -> tuple[Val, Val, tuple[Val, Val], tuple[Val, Val]]:
    """A and B at this block's first row and column, and their strides; exchanged with `swap`."""

    def role(plain: Val, swapped: Val) -> Val:
        return f.select(swap, swapped, plain)

    stored = layout.numbers.stored, layout.matrix.stored  # the same, unless no factors are exchanged
    pointers = [slots.matrix(f, name, ty) for name, ty in zip("AB", stored, strict=True)]
    a_m, a_k, b_k, b_n = (slots.load(f, s) for s in ("a.m", "a.k", "b.k", "b.n"))
    stride_a = (role(a_m, b_n), role(a_k, b_k))
    stride_b = (role(b_k, a_k), role(b_n, a_m))
    a, b = role(pointers[0], pointers[1]), role(pointers[1], pointers[0])
    a = f.gep(a, f.mul(f["m0"], stride_a[0]), stored[0])
    b = f.gep(b, f.mul(f["n0"], stride_b[1]), stored[1])
    return a, b, stride_a, stride_b


def _prepare(
    f: Function, layout: Layout, ending: Ending, slots: Slots, swap: Val,
    stride_a: tuple[Val, Val], stride_b: tuple[Val, Val], thin: bool,
) -> tuple[_Block, Val]:  # fmt: skip
    """Divide the scratch memory, and decide what is packed."""
    numbers, size = layout.numbers, layout.numbers.bytes
    rows, columns = f.sub(f["m1"], f["m0"]), f.sub(f["n1"], f["n0"])
    whole = f.and_(f.add(f.smin(slots.load(f, "k"), BLOCK), 15), -16)
    depth = f.mul(rows, 2) if thin else whole
    wide = f.and_(f.add(columns, layout.lanes - 1), -layout.lanes)
    packed = f.gep(f["scratch"], layout.block_at)
    sums = f.gep(packed, f.mul(f.mul(depth, wide), size))
    sums_row = f.mul(f.add(wide, 64 // size), size)
    transposed_at = f.gep(sums, f.mul(sums_row, layout.lanes))
    home, home_row = sums, sums_row
    if ending.in_place(numbers):
        stride = slots.load(f, "output0.m")
        offset = f.add(f.mul(f["m0"], stride), f["n0"])
        c = f.gep(slots.matrix(f, "Output0", numbers.wide), offset, numbers.wide)
        home = f.select(swap, sums, c)
        home_row = f.select(swap, sums_row, f.mul(stride, size))
    near = f.icmp("sle", f.mul(stride_b[0], size), NEAR)
    most = f.select(near, f.i64(NEAR_ROWS), f.i64(DIRECT_ROWS))
    direct = f.and_(f.icmp("eq", stride_b[1], 1), f.icmp("sle", rows, most))
    if numbers.widens:
        direct = f.const("i1", False)
    block = _Block(
        f, layout, rows, columns, depth, stride_a, stride_b, direct, packed, home, home_row, swap,
        is_far(f, numbers, *(slots.load(f, s) for s in ("m", "n", "k"))),
    )
    return block, transposed_at


def _thin(block: _Block, a: Val, b: Val, k: Val) -> None:
    """A product with few rows: its sums into a buffer, and on from there; their chains stand behind them."""
    f, numbers, matrix = block.f, block.layout.numbers, block.layout.matrix
    sums = block.packed
    wide = f.and_(f.add(block.columns, numbers.lanes - 1), -numbers.lanes)
    row = f.mul(wide, numbers.bytes)
    a_m, a_k = (f.mul(s, numbers.stored_bytes) for s in block.stride_a)
    b_k, b_n = (f.mul(s, matrix.stored_bytes) for s in block.stride_b)
    by_row = f.icmp("eq", block.stride_b[1], 1)
    pick = f.select(
        by_row, Val(f"@{matrix.part('sweep')}", "ptr"), Val(f"@{matrix.part('dots')}", "ptr")
    )
    step = f.select(by_row, b_k, b_n)
    chains = f.gep(sums, f.mul(block.rows, row))
    f.call_value(pick, "void", [
        a, a_m, a_k, b, step, sums, chains, row, k, block.rows, block.columns,
        f.cast("zext", block.far, "i64"),
    ])  # fmt: skip
    f.call("merge", "void", [
        f["args"], sums, row, block.home, block.home_row, f["outer"], f["inner"],
        f["m0"], f["n0"], block.rows, block.columns, f.i64(0),
        f.cast("zext", f.xor(block.swap, f.const("i1", True)), "i64"),
    ])  # fmt: skip


def _pack_b(block: _Block, b: Val, kc: Val) -> None:
    """Pack the block of B; where B is read in place, only its ragged last strip."""
    f, lanes = block.f, block.layout.lanes
    ragged = f.and_(block.columns, -lanes)
    start = f.select(block.direct, ragged, f.i64(0))
    with f.when(f.icmp("slt", start, block.columns)):
        stride_k, stride_n = block.stride_b
        f.call(block.layout.numbers.part("pack"), "void", [
            b, stride_k, stride_n, block.packed, block.depth, kc, start, block.columns,
        ])  # fmt: skip
    if block.layout.numbers.pairs:
        _pair_b(block, kc)


def _pair_b(block: _Block, kc: Val) -> None:
    """Join neighbours in k of a packed block of B: in its panels, then in its strips."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    full = f.mul(f.binary("udiv", block.columns, layout.panel), layout.panel)
    for start, end, width in ((f.i64(0), full, layout.panel), (full, block.columns, layout.lanes)):
        with f.loop("pairs", start, end, width) as loop:
            at = f.gep(block.packed, f.mul(loop.index, block.depth), numbers.wide)
            f.call(numbers.part("pair_rows"), "void", [at, f.i64(width * numbers.bytes), kc])


def _reach(block: _Block) -> Reach:
    """What decides how a block asks for memory ahead."""
    return Reach(block.f, block.layout.numbers, block.layout.shape.tall, block.layout.panel, block.far, block.rows,
                 block.columns, block.stride_a, block.stride_b)


def _bands(
    block: _Block, ending: Ending, a: Val, b: Val, kc: Val, index: Val, last: Val, ahead: Ahead
) -> None:
    """Go down the rows a band of tiles at a time, which is packed first where that pays."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    tall = layout.shape.tall
    by_row, by_column = (f.icmp("eq", s, 1) for s in reversed(block.stride_a))
    copies = _copy_pays(block, by_row, by_column, kc)
    columns_first = f.and_(by_column, f.icmp("ne", block.stride_a[1], 1))
    packed_m = f.select(columns_first, f.i64(1), f.i64(layout.row))
    packed_k = f.select(columns_first, f.i64(layout.across), f.i64(1))
    a_row = f.mul(f.select(copies, packed_m, block.stride_a[0]), numbers.bytes)
    a_k = f.mul(f.select(copies, packed_k, block.stride_a[1]), numbers.bytes)
    store = f.gep(f["scratch"], layout.band_at)
    with f.loop("band", 0, block.rows, tall) as loop:
        i = loop.index
        count = f.smin(f.sub(block.rows, i), tall)
        source = f.gep(a, f.mul(i, block.stride_a[0]), numbers.stored)
        with f.when(copies):
            _pack_a(block, source, store, count, kc, by_row, by_column)
            if numbers.pairs:
                _pair_a(block, store, count, kc, columns_first)
        address = f.select(copies, store, source)
        following = ahead.band(f.binary("udiv", i, tall), source, f.icmp("slt", f.add(i, tall), block.rows))
        whole = f.icmp("eq", count, tall)
        short = layout.shape.short
        steps = f.add(f.lshr(count, short.bit_length() - 1), f.intrinsic("ctpop", "i64", [f.and_(count, short - 1)]))
        steps = f.select(whole, f.i64(1), steps)
        with f.loop("step", 0, steps, carry=[f.i64(0)]) as step:
            row = step.carried[0]
            rows = _tile_rows(f, layout.shape, f.sub(count, row))
            here = f.gep(address, f.mul(row, a_row))
            _tiles(block, ending, (here, a_row, a_k), b, kc, f.add(i, row), rows, index, last,
                   following)
            step.next(f.add(row, rows))


def _copy_pays(block: _Block, by_row: Val, by_column: Val, kc: Val) -> Val:
    """Whether A is packed: always if it changes type; else if lines are shared or alias, and reused."""
    f, numbers = block.f, block.layout.numbers
    if numbers.widens:
        return f.const("i1", True)
    stride = f.mul(block.stride_a[0], numbers.bytes)
    aliases = f.and_(f.icmp("eq", f.and_(stride, ALIASING - 1), 0), f.icmp("sgt", kc, BLOCK // 2))
    aliases = f.and_(aliases, f.icmp("sgt", block.columns, REUSED))
    better = f.select(by_row, aliases, by_column)
    return f.and_(better, f.icmp("sgt", block.columns, block.layout.lanes))


def _pack_a(
    block: _Block, source: Val, store: Val, count: Val, kc: Val, by_row: Val, by_column: Val
) -> None:
    """Rows stay rows; a transposed A becomes one short row of the band's elements for each k."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    stride_m, stride_k = (f.mul(s, numbers.stored_bytes) for s in block.stride_a)
    row = f.i64(layout.row * numbers.bytes)
    with f.when(by_row):
        f.call(numbers.part("copy"), "void", [source, stride_m, store, row, count, kc])
    other = f.xor(by_row, f.const("i1", True))
    with f.when(f.and_(other, by_column)):
        step = f.i64(layout.across * numbers.bytes)
        f.call(numbers.part("copy"), "void", [source, stride_k, store, step, kc, count])
    if numbers.widens:
        with f.when(f.and_(other, f.xor(by_column, f.const("i1", True)))):
            f.call(
                numbers.part("gather"), "void", [source, stride_m, stride_k, store, row, count, kc]
            )


def _pair_a(block: _Block, store: Val, count: Val, kc: Val, columns_first: Val) -> None:
    """Join neighbours in k of a packed band of A."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    with f.when(columns_first):
        f.call(numbers.part("pair_rows"), "void", [store, f.i64(layout.across * numbers.bytes), kc])
    with f.when(f.xor(columns_first, f.const("i1", True))):
        f.call(numbers.part("pair_along"), "void", [store, f.i64(layout.row * numbers.bytes), kc, count])


def _tile_rows(f: Function, shape: Shape, left: Val) -> Val:
    """The tallest tile that the rows left fill."""
    rows = f.i64(1)
    for r in reversed(shape.rows[:-1]):
        rows = f.select(f.icmp("sge", left, r), f.i64(r), rows)
    return rows


def _tiles(
    block: _Block, ending: Ending, a: tuple[Val, Val, Val], b: Val, kc: Val, row: Val, rows: Val,
    index: Val, last: Val, following: Following,
) -> None:  # fmt: skip
    """Run the tiles of one band of rows: full panels, then strips."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    wide, narrow = (
        _choose(f, numbers, layout.shape, rows, vectors) for vectors in (layout.shape.vectors, 1)
    )
    whole = f.binary("udiv", block.columns, layout.panel)
    rest = f.sub(block.columns, f.mul(whole, layout.panel))
    strips = f.binary("udiv", f.add(rest, layout.lanes - 1), layout.lanes)
    home = f.gep(block.home, f.mul(row, block.home_row))
    later = f.cast("zext", f.icmp("ne", index, 0), "i64")
    final = f.cast("zext", last, "i64")
    depth = f.lshr(f.add(kc, 1), 1) if numbers.pairs else kc
    with f.loop("panel", 0, f.add(whole, strips), carry=[f.i64(0)]) as loop:
        j = loop.carried[0]
        panel = f.icmp("slt", loop.index, whole)
        width = f.select(panel, f.i64(layout.panel), f.i64(layout.lanes))
        left = f.sub(block.columns, j)
        fits = f.icmp("sge", left, width)
        place = f.and_(block.direct, fits)
        panel_at = f.gep(block.packed, f.mul(j, block.depth), numbers.wide)
        b_at = f.select(place, f.gep(b, j, numbers.stored), panel_at)
        b_k = f.mul(f.select(place, block.stride_b[0], width), numbers.bytes)
        at_home = _stays_home(block, ending, fits, last)
        c = f.gep(home, j, numbers.wide)
        target = f.select(at_home, c, f["scratch"])
        target_row = f.select(at_home, block.home_row, f.i64(layout.panel * numbers.bytes))
        adds = f.select(at_home, later, f.i64(0))
        following.ask(loop.index, j, width, (c, block.home_row, rows))
        _tile(block, ending, f.select(panel, wide, narrow), [*a, b_at, b_k, target, target_row, depth, adds],
              f.and_(f.and_(panel, f.xor(at_home, f.const("i1", True))), f.icmp("eq", rows, layout.shape.tall)),
              (f.add(f["m0"], row), f.add(f["n0"], j)))  # fmt: skip
        with f.when(f.icmp("eq", at_home, f.const("i1", False))):
            f.call("merge", "void", [
                f["args"], target, target_row, c, block.home_row, f["outer"], f["inner"],
                f.add(f["m0"], row), f.add(f["n0"], j), rows, f.smin(left, width), later, final,
            ])  # fmt: skip
        loop.next(f.add(j, width))


def _tile(block: _Block, ending: Ending, tile: Val, arguments: list[Val], whole: Val, place: tuple[Val, Val]) -> None:
    """Run a tile; a `whole` one before an ending that reads matrices asks for them meanwhile."""
    f = block.f
    if not ending.full:
        f.call_value(tile, "void", arguments)
        return
    with f.when(whole):
        noted = cells(f, ending)
        f.call("expect", "void", [f["args"], f["outer"], f["inner"], *place, noted])
        f.call(EXPECTING, "void", [*arguments, noted])
    with f.when(f.xor(whole, f.const("i1", True))):
        f.call_value(tile, "void", arguments)


def _choose(f: Function, numbers: Numbers, shape: Shape, rows: Val, vectors: int) -> Val:
    """The tile function for a number of rows."""
    chosen = Val(f"@{tile_name(numbers, shape.rows[-1], vectors)}", "ptr")
    for r in reversed(shape.rows[:-1]):
        tile = Val(f"@{tile_name(numbers, r, vectors)}", "ptr")
        chosen = f.select(f.icmp("eq", rows, r), tile, chosen)
    return chosen


def _stays_home(block: _Block, ending: Ending, fits: Val, last: Val) -> Val:
    """Whether a tile writes its sums straight to where they stand (else `merge` takes them there)."""
    f = block.f
    if not ending.in_place(block.layout.numbers):
        fits = f.const("i1", True)  # scratch memory has room for whole vectors
    if ending.epilogue is not None or not ending.in_place(block.layout.numbers):
        fits = f.and_(fits, f.xor(last, f.const("i1", True)))
    return f.or_(block.swap, fits)


def _finish_swapped(block: _Block, ending: Ending, slots: Slots, transposed_at: Val) -> None:
    """Turn the finished Cᵀ of a swapped block, and send its rows through the epilogue."""
    f, numbers = block.f, block.layout.numbers
    row = f.i64(block.layout.lanes * numbers.bytes)
    transpose = numbers.part("transpose_sums" if numbers.widens else "transpose")
    f.call(transpose, "void", [
        block.home, block.home_row, transposed_at, row, block.columns, block.rows,
    ])  # fmt: skip
    home, home_row = transposed_at, row
    if ending.in_place(numbers):
        stride = slots.load(f, "output0.m")
        offset = f.add(f.mul(f["n0"], stride), f["m0"])
        home = f.gep(slots.matrix(f, "Output0", numbers.wide), offset, numbers.wide)
        home_row = f.mul(stride, numbers.bytes)
    f.call("merge", "void", [
        f["args"], transposed_at, row, home, home_row, f["outer"], f["inner"],
        f["n0"], f["m0"], block.columns, block.rows, f.i64(0), f.i64(1),
    ])  # fmt: skip
