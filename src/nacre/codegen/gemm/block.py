"""One block of a matrix product on one thread: pack, run register tiles, merge.

The block function reads the kernel's arguments.  With `swap` it computes Cᵀ = Bᵀ·Aᵀ, in which a product with few
columns fills its vectors.  Each chain multiplies the same factors in the same order, so the bits do not change.

All products of a type share the block function: a kernel passes its epilogue and the functions that compute it.
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
from nacre.codegen.gemm.prefetch import BlockPrefetch, PrefetchRuns, begin, is_far, prefetch_of_b, prefetch_runs, share
from nacre.codegen.gemm.prepack import Prepacked, prepacked
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.tile import Shape, tile_name
from nacre.codegen.gemm.work_items import HOW, End, common_slots, end_of
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText


@dataclass(frozen=True)
class _Block:
    """The values that the loops of a block share."""

    f: Function
    layout: ScratchLayout
    rows: Val  # of this block
    columns: Val
    tiles: Val  # of a row panel
    depth: Val  # rows of k that a packed panel has room for
    stride_a: tuple[Val, Val]  # m, k; elements
    stride_b: tuple[Val, Val]  # k, n
    direct: Val  # whether B is read in place, because there is one row panel
    fused: Val  # whether the tiles of the first row panel pack the full panels of B
    packed: Val  # address of packed B
    partial: Val  # where the partial sums between blocks of k are stored: C or scratch
    partial_row: Val  # bytes
    swap: Val
    far: Val  # whether matrices of the product are in memory instead of a cache
    packed_dot: PackedDot | None  # packs factors for the packed dot instruction
    end: End
    pending: PendingTile | None  # the tile whose epilogue is still to run, where epilogues may be slow


_TRUE, _FALSE = Val("true", "i1"), Val("false", "i1")
PARAMETERS = {
    "args": "ptr", "how": "ptr", "scratch": "ptr", "outer": "i64", "inner": "i64",
    "m0": "i64", "m1": "i64", "n0": "i64", "n1": "i64",
}  # fmt: skip


def emit_block(module: ModuleText, layout: ScratchLayout, gemv: bool, name: str, store_sums: str) -> None:
    """@block(args, how, scratch, outer, inner, m0, m1, n0, n1): the elements of one rectangle of C, or of Cᵀ.

    A GEMV block (`gemv`) has few rows, and reads B in place.
    """
    f = module.function(name, "void", PARAMETERS, linkage="internal", isa=layout.numbers.isa)
    slots = Slots(common_slots(gemv))
    swap = f.icmp("ne", HOW.load(f, "swap"), 0)
    a, b, stride_a, stride_b = _factors(f, layout, slots, swap)
    end = end_of(f, store_sums, f.mul(slots.load(f, "m"), slots.load(f, "n")))
    block, transposed_at = _prepare(f, layout, end, slots, swap, stride_a, stride_b, gemv)
    if not gemv and is_pipelined(layout.numbers):
        block = replace(block, pending=no_pending_tile(f, layout))
    k = slots.load(f, "k")
    if gemv:
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
    last: Val  # whether it is the last block
    kc: Val  # its depth in k
    a: Val  # where it begins in A
    row_panels: Val  # row panels of A in the blocks before
    following: tuple[Val, Val]  # where the next block begins in A, and its depth
    b_prefetch: BlockPrefetch  # of the next block of B
    packed: Val  # where its block of B is packed


def _blocks_of_k(block: _Block, a: Val, b: Val, k: Val, slots: Slots) -> None:
    """Compute the chains of each block of k in turn, and add them to the sums so far."""
    f, stored = block.f, block.layout.numbers.stored
    blocks = f.smax(f.lshr(f.add(k, BLOCK - 1), BLOCK.bit_length() - 1), 1)
    row_panels = make_row_panels(
        f, block.layout, block.stride_a, block.rows, block.columns, block.tiles, k, block.far, block.packed_dot
    )
    row_panels.first(a, f.smin(k, BLOCK))
    down = share(f, block.rows, block.layout.shape.tall)
    prepack = prepacked(f, block.layout, slots, block.swap, block.depth, block.columns, blocks, block.packed)
    with f.loop("block", 0, blocks) as loop:
        k0 = f.mul(loop.index, BLOCK)
        kc = f.smin(f.sub(k, k0), BLOCK)
        following = f.smax(f.smin(f.sub(f.sub(k, k0), kc), BLOCK), 0)
        here, after = (f.gep(a, f.mul(x, block.stride_a[1]), stored) for x in (k0, f.add(k0, BLOCK)))
        b_here, b_after = (f.gep(b, f.mul(x, block.stride_b[0]), stored) for x in (k0, f.add(k0, BLOCK)))
        packed = prepack.place(loop.index)
        _pack_b(block, prepack, b_here, kc, packed)
        prefetch = prefetch_of_b(f, block.layout.numbers, b_after, block.stride_b, following, block.columns, down)
        prefetch = prepack.prefetch(f.add(loop.index, 1), f.icmp("sgt", following, 0), prefetch, down)
        last = f.icmp("eq", loop.index, f.sub(blocks, 1))
        part = _Part(loop.index, last, kc, here, f.mul(loop.index, down), (after, following), prefetch, packed)
        _row_panels(block, row_panels, b_here, part)
    if block.pending is not None:
        block.pending.finish(block.end.merge, block.partial_row, f.cast("zext", f.icmp("sgt", blocks, 1), "i64"))


def _factors(
    f: Function, layout: ScratchLayout, slots: Slots, swap: Val
) -> tuple[Val, Val, tuple[Val, Val], tuple[Val, Val]]:
    """A and B at this block's first row and column, and their strides; exchanged with `swap`."""

    def role(plain: Val, swapped: Val) -> Val:
        return f.select(swap, swapped, plain)

    stored = layout.numbers.stored, layout.matrix.stored  # equal wherever factors may be exchanged
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
    stride_a: tuple[Val, Val], stride_b: tuple[Val, Val], gemv: bool,
) -> tuple[_Block, Val]:  # fmt: skip
    """Divide the scratch memory, and select the operands to pack."""
    numbers, size = layout.numbers, layout.numbers.bytes
    rows, columns = f.sub(f["m1"], f["m0"]), f.sub(f["n1"], f["n0"])
    whole = f.and_(f.add(f.smin(slots.load(f, "k"), BLOCK), 15), -16)
    depth = f.mul(rows, 2) if gemv else f.add(packed_count(f, numbers, whole), int(numbers.offsets))
    wide = f.and_(f.add(columns, layout.lanes - 1), -layout.lanes)
    packed = f.gep(f["scratch"], layout.block_at)
    sums = f.gep(packed, f.mul(f.mul(depth, wide), size))
    sums_row = f.mul(f.add(wide, 64 // size), size)
    transposed_at = f.gep(sums, f.mul(sums_row, layout.lanes))
    there = f.and_(end.in_place, f.xor(swap, _TRUE))
    partial, partial_row = _partial_sums(f, numbers, slots, there, ("m0", "n0"), (sums, sums_row))
    by_row, single = f.icmp("eq", stride_b[1], 1), f.icmp("slt", rows, layout.shape.tall)
    direct = f.const("i1", False) if numbers.widens else f.and_(by_row, single)
    fused = f.const("i1", False) if numbers.group > 1 or gemv else f.and_(by_row, f.xor(single, f.const("i1", True)))
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
        partial,
        partial_row,
        swap,
        is_far(f, numbers, m, n, k, gemv=gemv),
        PackedDot(f, numbers, layout.panel, depth) if numbers.group > 1 else None,
        end,
        None,
    )
    return block, transposed_at


def _partial_sums(
    f: Function, numbers: Numbers, slots: Slots, there: Val, first: tuple[str, str], scratch: tuple[Val, Val]
) -> tuple[Val, Val]:  # fmt: skip
    """Where partial sums are stored, and the bytes of a row: in the output if allowed, else in scratch."""
    stride = slots.load(f, "output0.m")
    row, column = (f[name] for name in first)
    c = f.gep(slots.matrix(f, "Output0", numbers.wide), f.add(f.mul(row, stride), column), numbers.wide)
    return f.select(there, c, scratch[0]), f.select(there, f.mul(stride, numbers.bytes), scratch[1])


def _tile_count(f: Function, layout: ScratchLayout, columns: Val) -> Val:
    """The number of full panels and strips of one vector in a row panel."""
    whole = f.binary("udiv", columns, layout.panel)
    return f.add(whole, share(f, f.sub(columns, f.mul(whole, layout.panel)), layout.lanes))


def _gemv(block: _Block, a: Val, b: Val, k: Val) -> None:
    """Compute a product with few rows: all sums into a buffer, with their chains behind, then the epilogue."""
    f, numbers, matrix = block.f, block.layout.numbers, block.layout.matrix
    sums = block.packed
    wide = f.and_(f.add(block.columns, numbers.lanes - 1), -numbers.lanes)
    row = f.mul(wide, numbers.bytes)
    a_m, a_k = (f.mul(s, numbers.stored_bytes) for s in block.stride_a)
    b_k, b_n = (f.mul(s, matrix.stored_bytes) for s in block.stride_b)
    by_row = f.icmp("eq", block.stride_b[1], 1)
    pick = f.select(by_row, Val(f"@{matrix.part('sweep')}", "ptr"), Val(f"@{matrix.part('dots')}", "ptr"))
    integer = integer_numbers(numbers) if block.layout.narrow is None else None
    if integer is not None:
        both = f.and_(f.icmp("eq", block.stride_a[1], 1), f.icmp("eq", block.stride_b[0], 1))
        pick = f.select(both, Val(f"@{integer.part('runs')}", "ptr"), pick)
        by_row = f.and_(by_row, f.xor(both, f.const("i1", True)))
    step = f.select(by_row, b_k, b_n)
    chains = f.gep(sums, f.mul(block.rows, row))
    f.call_value(pick, "void", [
        a, a_m, a_k, b, step, sums, chains, row, k, block.rows, block.columns,
    ])  # fmt: skip
    f.call_value(f.select(block.swap, block.end.store_sums, block.end.merge), "void", [
        f["args"], sums, row, block.partial, block.partial_row, f["outer"], f["inner"],
        f["m0"], f["n0"], block.rows, block.columns, f.i64(0),
    ])  # fmt: skip


def _pack_b(block: _Block, prepack: Prepacked, b: Val, kc: Val, to: Val) -> None:
    """Pack the columns of B's block that are neither prepacked, nor read in place, nor packed by tiles."""
    f, lanes = block.f, block.layout.lanes
    stride_k, stride_n = block.stride_b
    if block.packed_dot is not None:
        with f.when(prepack.ready):
            prepack.recall(to, block.packed_dot)
        with f.when(f.xor(prepack.ready, _TRUE)):
            block.packed_dot.matrix(b, stride_k, stride_n, to, kc, block.columns)
            prepack.note(to, block.packed_dot)
        return
    ragged = f.and_(block.columns, -lanes)
    start = f.select(block.direct, ragged, f.select(block.fused, _full(block), f.i64(0)))
    with f.when(f.and_(f.icmp("slt", start, block.columns), f.xor(prepack.ready, _TRUE))):
        f.call(block.layout.numbers.part("pack"), "void", [
            b, stride_k, stride_n, to, block.depth, kc, start, block.columns,
        ])  # fmt: skip


def _full(block: _Block) -> Val:
    """The columns that fill whole panels."""
    f, panel = block.f, block.layout.panel
    return f.mul(f.binary("udiv", block.columns, panel), panel)


def _row_panels(block: _Block, row_panels: RowPanels, b: Val, part: _Part) -> None:
    """Run the tiles of each row panel, and prefetch the next row panel meanwhile."""
    f, shape = block.f, block.layout.shape
    tall, short = shape.tall, shape.short
    with f.loop("band", 0, block.rows, tall) as loop:
        i = loop.index
        here, following = row_panels.at(
            part.a, i, part.kc, f.add(part.row_panels, f.binary("udiv", i, tall)), part.following
        )
        prefetches = _prefetches(block, row_panels, part, i, following)
        a, a_row, a_k = row_panels.begin(here)
        whole = f.icmp("eq", here.count, tall)
        steps = f.add(f.lshr(here.count, short.bit_length() - 1),
                      f.intrinsic("ctpop", "i64", [f.and_(here.count, short - 1)]))  # fmt: skip
        steps = f.select(whole, f.i64(1), steps)
        with f.loop("step", 0, steps, carry=[f.i64(0)]) as step:
            row = step.carried[0]
            rows = _tile_rows(f, shape, f.sub(here.count, row))
            following_work = _Following(row_panels, following, prefetches, f.icmp("eq", row, 0))
            tiles = (f.gep(a, f.mul(row, a_row)), a_row, a_k)
            _tiles(block, tiles, b, f.add(i, row), rows, part, following_work)
            step.next(f.add(row, rows))


def _prefetches(
    block: _Block, row_panels: RowPanels, part: _Part, i: Val, following: RowPanel
) -> tuple[PrefetchRuns, ...]:
    """The prefetches of the row panel at row i: the next row panels of A and C, and a part of B's next block."""
    f, numbers, tall = block.f, block.layout.numbers, block.layout.shape.tall
    below = f.add(i, tall)
    row = f.select(f.icmp("slt", below, block.rows), below, f.i64(0))
    start = f.gep(block.partial, f.mul(row, block.partial_row))
    size = f.mul(block.columns, numbers.bytes)
    count = f.select(f.icmp("sgt", following.depth, 0), following.count, f.i64(0))
    c = prefetch_runs(f, start, block.partial_row, count, size, block.tiles)
    return c, row_panels.prefetch(following), part.b_prefetch.part(f, f.binary("udiv", i, tall), block.tiles)


@dataclass(frozen=True)
class _Following:
    """The work that the tiles of a row panel do for later tiles."""

    row_panels: RowPanels
    row_panel: RowPanel
    prefetches: tuple[PrefetchRuns, ...]
    first: Val  # whether this is the first row of tiles in the panel; only these do the work

    def begin(self, block: _Block, addresses: Val, tile: Val) -> None:
        """Prefetch and copy a tile's share before the tile begins."""
        f = block.f
        with f.when(f.and_(self.first, block.far)):
            for prefetches in self.prefetches:
                prefetches.add(f, block.layout.numbers, addresses, tile)
        with f.when(f.and_(self.first, self.row_panels.copies)):
            self.row_panels.prepare(self.row_panel, tile)


def _tile_rows(f: Function, shape: Shape, left: Val) -> Val:
    """The rows of the tallest tile that the remaining rows fill."""
    rows = f.i64(1)
    for r in reversed(shape.rows[:-1]):
        rows = f.select(f.icmp("sge", left, r), f.i64(r), rows)
    return rows


def _tiles(
    block: _Block, a: tuple[Val, Val, Val], b: Val, row: Val, rows: Val, part: _Part, following_work: _Following,
) -> None:  # fmt: skip
    """Run the tiles of one row of tiles: full panels, then strips."""
    f, layout, numbers = block.f, block.layout, block.layout.numbers
    wide, narrow = (_choose(block, rows, vectors) for vectors in (layout.shape.vectors, 1))
    whole = f.binary("udiv", block.columns, layout.panel)
    partial = f.gep(block.partial, f.mul(row, block.partial_row))
    later = f.cast("zext", f.icmp("ne", part.index, 0), "i64")
    end = block.end
    merge, expects = f.select(part.last, end.merge, end.store_sums), f.and_(part.last, end.prefetches)
    slow = _may_wait(block, part, rows)
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
        stores_partial = _stores_partial(block, fits, part.last)
        c = f.gep(partial, j, numbers.wide)
        spare = f["scratch"] if block.pending is None else block.pending.place
        target = f.select(stores_partial, c, spare)
        target_row = f.select(stores_partial, block.partial_row, f.i64(layout.panel * numbers.bytes))
        adds = f.select(stores_partial, later, f.i64(0))
        addresses = f.gep(f["scratch"], layout.list_at)
        begin(f, addresses)
        packs, merges = f.and_(first, panel), f.xor(stores_partial, f.const("i1", True))
        waits = f.and_(slow, f.and_(merges, f.and_(panel, f.xor(packs, _TRUE))))
        joins = f.and_(waits, block.pending.some) if block.pending is not None else _FALSE
        place = (f.add(f["m0"], row), f.add(f["n0"], j))
        with f.when(f.and_(f.and_(merges, expects), f.xor(joins, _TRUE))):
            f.call_value(end.prefetch, "void", [f["args"], f["outer"], f["inner"], *place, rows, width, addresses])
        following_work.begin(block, addresses, loop.index)
        with f.when(packs):
            _packing_tile(block, a, f.gep(b, j, numbers.stored), (target, target_row, kc, adds, addresses), panel_at)
        with f.when(f.xor(f.or_(packs, joins), _TRUE)):
            f.call_value(f.select(panel, wide, narrow), "void",
                         [*a, b_at, b_k, target, target_row, depth, adds, addresses])  # fmt: skip
        if block.pending is not None:
            with f.when(waits):
                with f.when(joins):
                    f.call_value(end.pipelined, "void", [
                        *a, b_at, b_k, target, target_row, depth, addresses, f["args"], *block.pending.before(),
                        block.partial_row, later, *place,
                    ])  # fmt: skip
                block.pending.wait(c, *place)
        with f.when(f.and_(merges, f.xor(waits, _TRUE))):
            f.call_value(merge, "void", [
                f["args"], target, target_row, c, block.partial_row, f["outer"], f["inner"],
                *place, rows, f.smin(left, width), later,
            ])  # fmt: skip
        loop.next(f.add(j, width))


def _may_wait(block: _Block, part: _Part, rows: Val) -> Val:
    """Whether the epilogues of tiles with some rows wait for the next tile after the last block of k."""
    f = block.f
    if block.pending is None:
        return _FALSE
    slow = f.icmp("ne", block.end.pipelined, f.const("ptr", 0))
    return f.and_(f.and_(slow, part.last), f.icmp("eq", rows, block.layout.shape.tall))


def _packing_tile(
    block: _Block, a: tuple[Val, Val, Val], b: Val, rest: tuple[Val, Val, Val, Val, Val], to: Val
) -> None:
    """Run a tile of the first row panel, which packs its panel of B."""
    f, shape, numbers = block.f, block.layout.shape, block.layout.numbers
    if block.packed_dot is not None:
        return
    b_k = f.mul(block.stride_b[0], numbers.stored_bytes)
    leap = f.sub(block.layout.panel * numbers.stored_bytes, f.mul(rest[2], b_k))
    f.call(tile_name(numbers, shape.tall, shape.vectors, "packing_"), "void", [*a, b, b_k, *rest, to, leap])


def _choose(block: _Block, rows: Val, vectors: int) -> Val:
    """The tile function for a number of rows; unpacks elements where the packed dot would flush subnormals."""
    f, numbers, shape = block.f, block.layout.numbers, block.layout.shape
    chosen = _tile(f, numbers, shape, rows, vectors)
    if block.packed_dot is None or not numbers.flushes:
        return chosen
    return f.select(block.packed_dot.safe(), chosen, _tile(f, replace(numbers, unpacks=True), shape, rows, vectors))


def _tile(f: Function, numbers: Numbers, shape: Shape, rows: Val, vectors: int) -> Val:
    tiles = {r: Val("@" + tile_name(numbers, r, vectors, "prefetching_"), "ptr") for r in shape.rows}
    chosen = tiles[shape.rows[-1]]
    for r in reversed(shape.rows[:-1]):
        chosen = f.select(f.icmp("eq", rows, r), tiles[r], chosen)
    return chosen


def _stores_partial(block: _Block, fits: Val, last: Val) -> Val:
    """Whether a tile stores its sums in the buffer of partial sums itself, instead of a function after it.

    In scratch memory there is room for whole vectors.
    """
    f, end = block.f, block.end
    room = f.or_(fits, f.xor(end.in_place, _TRUE))
    return f.or_(block.swap, f.and_(room, f.or_(end.plain, f.xor(last, _TRUE))))


def _write_swapped(block: _Block, slots: Slots, transposed_at: Val) -> None:
    """Transpose the Cᵀ of a swapped block, and send its rows through the epilogue."""
    f, numbers = block.f, block.layout.numbers
    row = f.i64(block.layout.lanes * numbers.bytes)
    transpose = numbers.part("transpose_sums" if numbers.widens else "transpose")
    f.call(transpose, "void", [
        block.partial, block.partial_row, transposed_at, row, block.columns, block.rows,
    ])  # fmt: skip
    partial, partial_row = _partial_sums(f, numbers, slots, block.end.in_place, ("n0", "m0"), (transposed_at, row))
    f.call_value(block.end.merge, "void", [
        f["args"], transposed_at, row, partial, partial_row, f["outer"], f["inner"],
        f["n0"], f["m0"], block.columns, block.rows, f.i64(0),
    ])  # fmt: skip
