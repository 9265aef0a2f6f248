"""One block of a matrix product on one thread: pack, run register tiles, merge.

The block function reads the kernel's arguments; with `swap` it computes Cᵀ = Bᵀ·Aᵀ, in which a
product with few columns fills its vectors.  The products of a chain are the same, so are its
bits.

All products of a type share it: a kernel passes its ending and the functions that compute it.
"""

from __future__ import annotations

from dataclasses import replace

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import Slots
from nacre.codegen.gemm.gemv_integer import integer_numbers
from nacre.codegen.gemm.packed_dot import PackedDot, packed_count
from nacre.codegen.gemm.panel import RowPanel, RowPanels, make_row_panels
from nacre.codegen.gemm.pipelined_epilogue import PendingTile, is_pipelined, no_pending_tile
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.gemm.prefetch import BlockPrefetch, Stretches, begin, is_far, prefetch_of_b, share, stretches_of
from nacre.codegen.gemm.prepack import Prepacked, prepacked
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.tile import Shape, tile_name
from nacre.codegen.gemm.work_items import HOW, End, common_slots, end_of
from nacre.native.text import Function, ModuleText, Val


@dataclass(frozen=True)
class _Block:
    """The values that the loops of a block share."""

    f: Function
    layout: ScratchLayout
    rows: Val  # of this block
    columns: Val
    tiles: Val  # of a band of rows
    depth: Val  # rows of k a packed panel has room for
    stride_a: tuple[Val, Val]  # m, k; elements
    stride_b: tuple[Val, Val]  # k, n
    direct: Val  # whether B is read in place, as there is one band
    fused: Val  # whether the first band of tiles packs the full panels of B
    packed: Val  # address of packed B
    home: Val  # where sums stand between blocks of k: C or scratch
    home_row: Val  # bytes
    swap: Val
    far: Val  # whether matrices of the product wait in memory
    words: PackedDot | None  # what packs factors as words of several numbers
    end: End
    waiting: PendingTile | None  # the tile whose ending waits for the next one, where endings may be slow


_TRUE, _FALSE = Val("true", "i1"), Val("false", "i1")
PARAMETERS = {
    "args": "ptr", "how": "ptr", "scratch": "ptr", "outer": "i64", "inner": "i64",
    "m0": "i64", "m1": "i64", "n0": "i64", "n1": "i64",
}  # fmt: skip


def emit_block(module: ModuleText, layout: ScratchLayout, thin: bool, name: str, stay: str) -> None:
    """@block(args, how, scratch, outer, inner, m0, m1, n0, n1): the elements of one rectangle of C, or of Cᵀ.

    A `thin` block has few rows, and reads B in place.
    """
    f = module.function(name, "void", PARAMETERS, linkage="internal", attributes=layout.numbers.isa.attributes)
    slots = Slots(common_slots(thin))
    swap = f.icmp("ne", HOW.load(f, "swap"), 0)
    a, b, stride_a, stride_b = _factors(f, layout, slots, swap)
    end = end_of(f, stay, f.mul(slots.load(f, "m"), slots.load(f, "n")))
    block, transposed_at = _prepare(f, layout, end, slots, swap, stride_a, stride_b, thin)
    if not thin and is_pipelined(layout.numbers):
        block = replace(block, waiting=no_pending_tile(f, layout))
    k = slots.load(f, "k")
    if thin:
        _gemv(block, a, b, k)
    else:
        _blocks_of_k(block, a, b, k, slots)
    with f.when(swap):
        _write_swapped(block, slots, transposed_at)
    f.ret()


@dataclass(frozen=True)
class _Part:
    """One block of k."""

    index: Val
    last: Val  # whether it is the last one
    kc: Val  # how many k
    a: Val  # where it begins in A
    bands: Val  # of A in the blocks before
    following: tuple[Val, Val]  # where the next one begins in A, and how many k it has
    ahead: BlockPrefetch  # the next one of B
    packed: Val  # where that of B is packed


def _blocks_of_k(block: _Block, a: Val, b: Val, k: Val, slots: Slots) -> None:
    """Chains of each block of k in turn, added to those before."""
    f, stored = block.f, block.layout.numbers.stored
    blocks = f.smax(f.lshr(f.add(k, BLOCK - 1), BLOCK.bit_length() - 1), 1)
    bands = make_row_panels(
        f, block.layout, block.stride_a, block.rows, block.columns, block.tiles, k, block.far, block.words
    )
    bands.first(a, f.smin(k, BLOCK))
    down = share(f, block.rows, block.layout.shape.tall)
    kept = prepacked(f, block.layout, slots, block.swap, block.depth, block.columns, blocks, block.packed)
    with f.loop("block", 0, blocks) as loop:
        k0 = f.mul(loop.index, BLOCK)
        kc = f.smin(f.sub(k, k0), BLOCK)
        following = f.smax(f.smin(f.sub(f.sub(k, k0), kc), BLOCK), 0)
        here, after = (f.gep(a, f.mul(x, block.stride_a[1]), stored) for x in (k0, f.add(k0, BLOCK)))
        b_here, b_after = (f.gep(b, f.mul(x, block.stride_b[0]), stored) for x in (k0, f.add(k0, BLOCK)))
        packed = kept.place(loop.index)
        _pack_b(block, kept, b_here, kc, packed)
        ahead = prefetch_of_b(f, block.layout.numbers, b_after, block.stride_b, following, block.columns, down)
        ahead = kept.ahead(f.add(loop.index, 1), f.icmp("sgt", following, 0), ahead, down)
        last = f.icmp("eq", loop.index, f.sub(blocks, 1))
        part = _Part(loop.index, last, kc, here, f.mul(loop.index, down), (after, following), ahead, packed)
        _row_panels(block, bands, b_here, part)
    if block.waiting is not None:
        block.waiting.finish(block.end.merge, block.home_row, f.cast("zext", f.icmp("sgt", blocks, 1), "i64"))


def _factors(
    f: Function, layout: ScratchLayout, slots: Slots, swap: Val
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
    f: Function, layout: ScratchLayout, end: End, slots: Slots, swap: Val,
    stride_a: tuple[Val, Val], stride_b: tuple[Val, Val], thin: bool,
) -> tuple[_Block, Val]:  # fmt: skip
    """Divide the scratch memory, and decide what is packed."""
    numbers, size = layout.numbers, layout.numbers.bytes
    rows, columns = f.sub(f["m1"], f["m0"]), f.sub(f["n1"], f["n0"])
    whole = f.and_(f.add(f.smin(slots.load(f, "k"), BLOCK), 15), -16)
    depth = f.mul(rows, 2) if thin else f.add(packed_count(f, numbers, whole), int(numbers.moves))
    wide = f.and_(f.add(columns, layout.lanes - 1), -layout.lanes)
    packed = f.gep(f["scratch"], layout.block_at)
    sums = f.gep(packed, f.mul(f.mul(depth, wide), size))
    sums_row = f.mul(f.add(wide, 64 // size), size)
    transposed_at = f.gep(sums, f.mul(sums_row, layout.lanes))
    there = f.and_(end.in_place, f.xor(swap, _TRUE))
    home, home_row = _home(f, numbers, slots, there, ("m0", "n0"), (sums, sums_row))
    by_row, single = f.icmp("eq", stride_b[1], 1), f.icmp("slt", rows, layout.shape.tall)
    direct = f.const("i1", False) if numbers.widens else f.and_(by_row, single)
    fused = f.const("i1", False) if numbers.group > 1 or thin else f.and_(by_row, f.xor(single, f.const("i1", True)))
    m, n, k = (slots.load(f, s) for s in ("m", "n", "k"))
    block = _Block(
        f,
        layout,
        rows,
        columns,
        _tile_count(f, layout, columns),
        depth,
        stride_a,
        stride_b,
        direct,
        fused,
        packed,
        home,
        home_row,
        swap,
        is_far(f, numbers, m, n, k, thin=thin),
        PackedDot(f, numbers, layout.panel, depth) if numbers.group > 1 else None,
        end,
        None,
    )
    return block, transposed_at


def _home(
    f: Function, numbers: Numbers, slots: Slots, there: Val, first: tuple[str, str], scratch: tuple[Val, Val]
) -> tuple[Val, Val]:  # fmt: skip
    """Where sums stand, and bytes from row to row: in the output, if they may, from an element on, else in scratch."""
    stride = slots.load(f, "output0.m")
    row, column = (f[name] for name in first)
    c = f.gep(slots.matrix(f, "Output0", numbers.wide), f.add(f.mul(row, stride), column), numbers.wide)
    return f.select(there, c, scratch[0]), f.select(there, f.mul(stride, numbers.bytes), scratch[1])


def _tile_count(f: Function, layout: ScratchLayout, columns: Val) -> Val:
    """Full panels, then strips of one vector."""
    whole = f.binary("udiv", columns, layout.panel)
    return f.add(whole, share(f, f.sub(columns, f.mul(whole, layout.panel)), layout.lanes))


def _gemv(block: _Block, a: Val, b: Val, k: Val) -> None:
    """A product with few rows: its sums into a buffer, and on from there; their chains stand behind them."""
    f, numbers, matrix = block.f, block.layout.numbers, block.layout.matrix
    sums = block.packed
    wide = f.and_(f.add(block.columns, numbers.lanes - 1), -numbers.lanes)
    row = f.mul(wide, numbers.bytes)
    a_m, a_k = (f.mul(s, numbers.stored_bytes) for s in block.stride_a)
    b_k, b_n = (f.mul(s, matrix.stored_bytes) for s in block.stride_b)
    by_row = f.icmp("eq", block.stride_b[1], 1)
    pick = f.select(by_row, Val(f"@{matrix.part('sweep')}", "ptr"), Val(f"@{matrix.part('dots')}", "ptr"))
    along = integer_numbers(numbers) if block.layout.narrow is None else None
    if along is not None:
        both = f.and_(f.icmp("eq", block.stride_a[1], 1), f.icmp("eq", block.stride_b[0], 1))
        pick = f.select(both, Val(f"@{along.part('runs')}", "ptr"), pick)
        by_row = f.and_(by_row, f.xor(both, f.const("i1", True)))
    step = f.select(by_row, b_k, b_n)
    chains = f.gep(sums, f.mul(block.rows, row))
    f.call_value(pick, "void", [
        a, a_m, a_k, b, step, sums, chains, row, k, block.rows, block.columns,
    ])  # fmt: skip
    f.call_value(f.select(block.swap, block.end.stay, block.end.merge), "void", [
        f["args"], sums, row, block.home, block.home_row, f["outer"], f["inner"],
        f["m0"], f["n0"], block.rows, block.columns, f.i64(0),
    ])  # fmt: skip


def _pack_b(block: _Block, kept: Prepacked, b: Val, kc: Val, to: Val) -> None:
    """Pack the block of B, or what of it is neither kept, nor read in place, nor packed by tiles: its ragged end."""
    f, lanes = block.f, block.layout.lanes
    stride_k, stride_n = block.stride_b
    if block.words is not None:
        with f.when(kept.ready):
            kept.recall(to, block.words)
        with f.when(f.xor(kept.ready, _TRUE)):
            block.words.matrix(b, stride_k, stride_n, to, kc, block.columns)
            kept.note(to, block.words)
        return
    ragged = f.and_(block.columns, -lanes)
    start = f.select(block.direct, ragged, f.select(block.fused, _full(block), f.i64(0)))
    with f.when(f.and_(f.icmp("slt", start, block.columns), f.xor(kept.ready, _TRUE))):
        f.call(block.layout.numbers.part("pack"), "void", [
            b, stride_k, stride_n, to, block.depth, kc, start, block.columns,
        ])  # fmt: skip


def _full(block: _Block) -> Val:
    """The columns that fill whole panels."""
    f, panel = block.f, block.layout.panel
    return f.mul(f.binary("udiv", block.columns, panel), panel)


def _row_panels(block: _Block, bands: RowPanels, b: Val, part: _Part) -> None:
    """Go down the rows a band of tiles at a time, and ask for the next one meanwhile."""
    f, shape = block.f, block.layout.shape
    tall, short = shape.tall, shape.short
    with f.loop("band", 0, block.rows, tall) as loop:
        i = loop.index
        here, following = bands.at(part.a, i, part.kc, f.add(part.bands, f.binary("udiv", i, tall)), part.following)
        asked = _asked(block, bands, part, i, following)
        a, a_row, a_k = bands.begin(here)
        whole = f.icmp("eq", here.count, tall)
        steps = f.add(f.lshr(here.count, short.bit_length() - 1),
                      f.intrinsic("ctpop", "i64", [f.and_(here.count, short - 1)]))  # fmt: skip
        steps = f.select(whole, f.i64(1), steps)
        with f.loop("step", 0, steps, carry=[f.i64(0)]) as step:
            row = step.carried[0]
            rows = _tile_rows(f, shape, f.sub(here.count, row))
            ahead = _Following(bands, following, asked, f.icmp("eq", row, 0))
            tiles = (f.gep(a, f.mul(row, a_row)), a_row, a_k)
            _tiles(block, tiles, b, f.add(i, row), rows, part, ahead)
            step.next(f.add(row, rows))


def _asked(block: _Block, bands: RowPanels, part: _Part, i: Val, following: RowPanel) -> tuple[Stretches, ...]:
    """What the tiles of the band at row i ask for: the following ones of A and C, and some of B's next block."""
    f, numbers, tall = block.f, block.layout.numbers, block.layout.shape.tall
    below = f.add(i, tall)
    row = f.select(f.icmp("slt", below, block.rows), below, f.i64(0))
    start = f.gep(block.home, f.mul(row, block.home_row))
    size = f.mul(block.columns, numbers.bytes)
    count = f.select(f.icmp("sgt", following.depth, 0), following.count, f.i64(0))
    c = stretches_of(f, start, block.home_row, count, size, block.tiles)
    return c, bands.ask(following), part.ahead.part(f, f.binary("udiv", i, tall), block.tiles)


@dataclass(frozen=True)
class _Following:
    """What the tiles of a band do for later ones."""

    bands: RowPanels
    band: RowPanel
    asked: tuple[Stretches, ...]
    first: Val  # whether they are the first of the band; only these do it

    def begin(self, block: _Block, wanted: Val, tile: Val) -> None:
        """What one of them does before it begins."""
        f = block.f
        with f.when(f.and_(self.first, block.far)):
            for asked in self.asked:
                asked.add(f, block.layout.numbers, wanted, tile)
        with f.when(f.and_(self.first, self.bands.copies)):
            self.bands.prepare(self.band, tile)


def _tile_rows(f: Function, shape: Shape, left: Val) -> Val:
    """The tallest tile that the rows left fill."""
    rows = f.i64(1)
    for r in reversed(shape.rows[:-1]):
        rows = f.select(f.icmp("sge", left, r), f.i64(r), rows)
    return rows


def _tiles(
    block: _Block, a: tuple[Val, Val, Val], b: Val, row: Val, rows: Val, part: _Part, ahead: _Following,
) -> None:  # fmt: skip
    """Run the tiles of one band of rows: full panels, then strips."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    wide, narrow = (_choose(block, rows, vectors) for vectors in (layout.shape.vectors, 1))
    whole = f.binary("udiv", block.columns, layout.panel)
    home = f.gep(block.home, f.mul(row, block.home_row))
    later = f.cast("zext", f.icmp("ne", part.index, 0), "i64")
    end = block.end
    merge, expects = f.select(part.last, end.merge, end.stay), f.and_(part.last, end.expects)
    slow = _slow(block, part, rows)
    kc = part.kc
    depth = packed_count(f, numbers, kc)
    first = f.and_(block.fused, f.icmp("eq", row, 0))
    with f.loop("panel", 0, block.tiles, carry=[f.i64(0)]) as loop:
        j = loop.carried[0]
        panel = f.icmp("slt", loop.index, whole)
        width = f.select(panel, f.i64(layout.panel), f.i64(layout.lanes))
        left = f.sub(block.columns, j)
        fits = f.icmp("sge", left, width)
        direct = f.and_(block.direct, fits)
        panel_at = f.gep(part.packed, f.mul(j, block.depth), numbers.wide)
        b_at = f.select(direct, f.gep(b, j, numbers.stored), panel_at)
        b_k = f.mul(f.select(direct, block.stride_b[0], width), numbers.bytes)
        at_home = _stays_home(block, fits, part.last)
        c = f.gep(home, j, numbers.wide)
        spare = f["scratch"] if block.waiting is None else block.waiting.place
        target = f.select(at_home, c, spare)
        target_row = f.select(at_home, block.home_row, f.i64(layout.panel * numbers.bytes))
        adds = f.select(at_home, later, f.i64(0))
        wanted = f.gep(f["scratch"], layout.list_at)
        begin(f, wanted)
        packs, merges = f.and_(first, panel), f.xor(at_home, f.const("i1", True))
        waits = f.and_(slow, f.and_(merges, f.and_(panel, f.xor(packs, _TRUE))))
        joins = f.and_(waits, block.waiting.some) if block.waiting is not None else _FALSE
        place = (f.add(f["m0"], row), f.add(f["n0"], j))
        with f.when(f.and_(f.and_(merges, expects), f.xor(joins, _TRUE))):
            f.call_value(end.expect, "void", [f["args"], f["outer"], f["inner"], *place, rows, width, wanted])
        ahead.begin(block, wanted, loop.index)
        with f.when(packs):
            _packing_tile(block, a, f.gep(b, j, numbers.stored), (target, target_row, kc, adds, wanted), panel_at)
        with f.when(f.xor(f.or_(packs, joins), _TRUE)):
            f.call_value(f.select(panel, wide, narrow), "void",
                         [*a, b_at, b_k, target, target_row, depth, adds, wanted])  # fmt: skip
        if block.waiting is not None:
            with f.when(waits):
                with f.when(joins):
                    f.call_value(end.weave, "void", [
                        *a, b_at, b_k, target, target_row, depth, wanted, f["args"], *block.waiting.before(),
                        block.home_row, later, *place,
                    ])  # fmt: skip
                block.waiting.wait(c, *place)
        with f.when(f.and_(merges, f.xor(waits, _TRUE))):
            f.call_value(merge, "void", [
                f["args"], target, target_row, c, block.home_row, f["outer"], f["inner"],
                *place, rows, f.smin(left, width), later,
            ])  # fmt: skip
        loop.next(f.add(j, width))


def _slow(block: _Block, part: _Part, rows: Val) -> Val:
    """Whether endings of tiles of some rows, after the last block of k, wait for the next tile, which runs them."""
    f = block.f
    if block.waiting is None:
        return _FALSE
    slow = f.icmp("ne", block.end.weave, f.const("ptr", 0))
    return f.and_(f.and_(slow, part.last), f.icmp("eq", rows, block.layout.shape.tall))


def _packing_tile(
    block: _Block, a: tuple[Val, Val, Val], b: Val, rest: tuple[Val, Val, Val, Val, Val], to: Val
) -> None:
    """Run a tile of the first band, which packs its panel of B."""
    f, shape, numbers = block.f, block.layout.shape, block.layout.numbers
    if block.words is not None:
        return
    b_k = f.mul(block.stride_b[0], numbers.stored_bytes)
    leap = f.sub(block.layout.panel * numbers.stored_bytes, f.mul(rest[2], b_k))
    f.call(tile_name(numbers, shape.tall, shape.vectors, "packing_"), "void", [*a, b, b_k, *rest, to, leap])


def _choose(block: _Block, rows: Val, vectors: int) -> Val:
    """The tile function for a number of rows; words that the instruction does not suit are taken apart."""
    f, numbers, shape = block.f, block.layout.numbers, block.layout.shape
    chosen = _tile(f, numbers, shape, rows, vectors)
    if block.words is None or not numbers.flushes:
        return chosen
    return f.select(block.words.safe(), chosen, _tile(f, replace(numbers, apart=True), shape, rows, vectors))


def _tile(f: Function, numbers: Numbers, shape: Shape, rows: Val, vectors: int) -> Val:
    tiles = {r: Val("@" + tile_name(numbers, r, vectors, "asking_"), "ptr") for r in shape.rows}
    chosen = tiles[shape.rows[-1]]
    for r in reversed(shape.rows[:-1]):
        chosen = f.select(f.icmp("eq", rows, r), tiles[r], chosen)
    return chosen


def _stays_home(block: _Block, fits: Val, last: Val) -> Val:
    """Whether a tile writes its sums straight to where they stand (else a function takes them there).

    In scratch memory there is room for whole vectors.
    """
    f, end = block.f, block.end
    room = f.or_(fits, f.xor(end.in_place, _TRUE))
    return f.or_(block.swap, f.and_(room, f.or_(end.plain, f.xor(last, _TRUE))))


def _write_swapped(block: _Block, slots: Slots, transposed_at: Val) -> None:
    """Turn the finished Cᵀ of a swapped block, and send its rows through the epilogue."""
    f, numbers = block.f, block.layout.numbers
    row = f.i64(block.layout.lanes * numbers.bytes)
    transpose = numbers.part("transpose_sums" if numbers.widens else "transpose")
    f.call(transpose, "void", [
        block.home, block.home_row, transposed_at, row, block.columns, block.rows,
    ])  # fmt: skip
    home, home_row = _home(f, numbers, slots, block.end.in_place, ("n0", "m0"), (transposed_at, row))
    f.call_value(block.end.merge, "void", [
        f["args"], transposed_at, row, home, home_row, f["outer"], f["inner"],
        f["n0"], f["m0"], block.columns, block.rows, f.i64(0),
    ])  # fmt: skip
