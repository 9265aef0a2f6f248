"""Reductions over the taps of each output pixel, with pixels in vector lanes, one plane at a time.

Depthwise convolution, pooling and their gradients are such reductions.  A `TapReduction` defines the state carried
from tap to tap.  The kernel finds the taps of each output row and column (`Correlation`), loads them a vector of pixels
at a time, and passes the lanes that have the tap to the reduction as a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from nacre.codegen.convolution.correlation import Correlation, Tile, column_tiles, tile_runs
from nacre.codegen.convolution.direct import row_table
from nacre.codegen.convolution.sequence import (
    ConvolutionEpilogue,
    ConvolutionStep,
    Count,
    ResultPlace,
    SequenceKernel,
    ceil_div,
    product,
    round_up,
    split,
    total,
)
from nacre.codegen.window.prologue import Prologue, ResultStrips
from nacre.native.llvm_types import scalar_of
from nacre.native.llvm_values import Operand, Val
from nacre.native.text import Function

Loader = Callable[[Val], Val]  # the pixels of one tap, from a plane at the given address
Placed = tuple[Tile, Operand]  # a tile, and its number in a run of equal ones

TOGETHER = 4  # tiles that are interleaved, because the taps of one tile depend on each other


class TapReduction(Protocol):
    """The reduction over the taps of a vector of output pixels."""

    def begin(self, k: SequenceKernel, plane: Val, scratch: Val) -> None:
        """Prepare for an output plane; called once for each."""
        ...

    def read_from(self, plane: Val) -> None:
        """Read the input plane from another address."""
        ...

    def start(self, f: Function, vector: str) -> list[Val]:
        """The state before the first tap."""
        ...

    def step(self, f: Function, state: Sequence[Val], load: Loader, mask: Val | None, tap: Operand) -> list[Val]:
        """The state after one more tap (kh · KW + kw), in the lanes of the mask."""
        ...

    def finish(self, state: Sequence[Val]) -> Val:
        """The result after the last tap."""
        ...


def pixel_tiles(c: Correlation, lanes: int) -> list[Tile]:
    """The vectors of pixels of an output row, whole except the last one of a phase."""
    return column_tiles(c, lanes, even=False)


def line_pitch(c: Correlation, lanes: int) -> int:
    """Elements of the line of one phase, with room for whole vectors."""
    return round_up(ceil_div(len(c.columns), c.phase), lanes) + lanes


def lane_set(f: Function, lanes: int, present: Sequence[int]) -> Val | None:
    """A constant mask of the given lanes, None for all."""
    chosen = set(present)
    return None if len(chosen) == lanes else f.vector("i1", [i in chosen for i in range(lanes)])


def masked_load(k: SequenceKernel, f: Function, pointer: Val, mask: Val | None) -> Val:
    """Load a vector, or the lanes of a mask."""
    if mask is None:
        return f.load(pointer, k.vector)
    return f.masked_load(pointer, mask, k.vector)


def store_lanes(f: Function, value: Val, pointer: Val, mask: Val | None) -> None:
    """Store a vector, or the lanes of a mask."""
    if mask is None:
        f.store(value, pointer)
    else:
        f.masked_store(value, pointer, mask)


def load_pixels(k: SequenceKernel, f: Function, pointer: Val, pixels: Sequence[int], reach: int) -> Val:
    """Lane p = pointer[p · reach] for the given lanes; no other element is touched."""
    lanes = k.lanes
    if reach == 1:
        return masked_load(k, f, pointer, lane_set(f, lanes, pixels))
    if reach == 2:
        low = lane_set(f, lanes, [2 * p for p in pixels if 2 * p < lanes])
        high = lane_set(f, lanes, [2 * p - lanes for p in pixels if 2 * p >= lanes])
        if len(pixels) == lanes:
            low = None
        a = masked_load(k, f, pointer, low)
        b = masked_load(k, f, f.gep(pointer, lanes, k.scalar), high)
        return f.shuffle(a, b, range(0, 2 * lanes, 2))
    mask = lane_set(f, lanes, pixels) or f.const(f"<{lanes} x i1>", True)
    return f.gather(spread_pointers(k, f, pointer, reach), mask, k.vector)


def spread_pointers(k: SequenceKernel, f: Function, pointer: Val, reach: int) -> Val:
    """The addresses pointer + lane · reach."""
    index = f.vector("i64", [p * reach for p in range(k.lanes)])
    return f.gep(pointer, index, k.scalar)


class DepthwiseKernel:
    """Writes the loops over the rows and pixels of an output plane."""

    def __init__(
        self,
        k: SequenceKernel,
        c: Correlation,
        reduction: TapReduction,
        *,
        descending: bool = False,
        scratch: int = 0,
        epilogue: ConvolutionEpilogue | None = None,
        operands: Sequence[str] = (),
        prologue: Prologue | None = None,
    ) -> None:
        self.k, self.c, self.reduction, self.epilogue = k, c, reduction, epilogue
        self.operands = tuple(k.pointers[name] for name in operands)
        self.tiles = pixel_tiles(c, k.lanes)
        self.descending = descending
        self.pitch = line_pitch(c, k.lanes)
        self.line_bytes = self.pitch * c.phase * k.element if c.phase > 1 else 0
        self.scratch = self.line_bytes + scratch
        self.row_panels = ResultStrips(k, c.rows, c.in_shape, prologue, self.scratch) if prologue is not None else None
        ordered = [taps[::-1] if descending else taps for taps in c.rows]
        self.row_table = row_table(k, ordered)

    def write(self, out: str, planes: int, channels: Val | None = None) -> ConvolutionStep:
        """Write a kernel whose items are planes, `planes` of them in one image, which it may read as `channels`."""
        k, c, f = self.k, self.c, self.k.f
        height, width = c.out_shape
        with f.loop("plane", f["lo"], f["hi"]) as plane:
            self.reduction.begin(k, plane.index, f.gep(f["scratch"], self.line_bytes))
            _, channel = split(f, plane.index, planes if channels is None else channels)
            offset = f.mul(plane.index, height * width)
            if self.row_panels is None:
                self.plane(k.pointers[out], offset, channel)
            else:
                self._computed_plane(self.row_panels, plane.index, k.pointers[out], offset, channel)
        scratch = self.scratch if self.row_panels is None else self.row_panels.end
        return k.finish([out], Count(0, planes if height * width else 0), scratch)

    def _computed_plane(self, row_panels: ResultStrips, plane: Val, out: Val, offset: Val, channel: Operand) -> None:
        """Write one output plane of an input plane that is computed row panel by row panel."""

        def rows(source: Val, span: tuple[Operand, Operand]) -> None:
            """Write the rows of a row panel."""
            self.reduction.read_from(source)
            self.plane(out, offset, channel, span)

        row_panels.write(plane, channel, rows)

    def plane(
        self, out: Val, offset: Operand, channel: Operand = 0, rows: tuple[Operand, Operand] | None = None
    ) -> None:
        """Write one output plane, which begins at the element `offset` of `out`, or some of its rows."""
        f = self.k.f
        self.out, self.channel = out, channel
        with f.loop("row", *(rows or (0, len(self.c.rows)))) as row:
            at = f.i64(total(f, offset, f.mul(row.index, len(self.c.columns))))
            self._row(row.index, at)

    def _row(self, row: Val, offset: Val) -> None:
        """Write one output row, whose first element has the index `offset`."""
        c, f = self.c, self.k.f
        entry = f.gep(self.row_table, f.mul(row, 3), "i64")
        first, count, line = (f.load(f.gep(entry, i, "i64"), "i64") for i in range(3))
        start = f.mul(line, c.in_shape[1])
        rest: list[Placed] = []
        for tile, times in tile_runs(self.tiles, c):
            whole = times - times % TOGETHER if times > TOGETHER else 0
            if whole:
                with f.loop("tile", 0, whole, TOGETHER) as t:
                    self._tiles([(tile, f.add(t.index, i)) for i in range(TOGETHER)], start, first, count, offset)
            rest += [(tile, i) for i in range(whole, times)]
        for at in range(0, len(rest), TOGETHER):
            self._tiles(rest[at : at + TOGETHER], start, first, count, offset)
        if c.phase > 1:
            self._write_line(offset)

    def _tiles(self, tiles: Sequence[Placed], start: Val, first: Val, count: Val, offset: Val) -> None:
        """Write the pixels of a few tiles, whose tap reductions are interleaved."""
        c, f = self.c, self.k.f
        bases = [total(f, start, product(f, index, tile.pixels * c.reach), tile.base) for tile, index in tiles]
        states = self._reduce_taps([tile for tile, _ in tiles], bases, first, count)
        for (tile, index), state in zip(tiles, states, strict=True):
            self._finish(tile, index, self.reduction.finish(state), offset)

    def _finish(self, tile: Tile, index: Operand, value: Val, offset: Val) -> None:
        """Store the results of one tile, the index-th of a run of equal tiles."""
        k, c, f = self.k, self.c, self.k.f
        column = total(f, product(f, index, tile.pixels * c.phase), tile.column)
        mask = lane_set(f, k.lanes, range(tile.pixels))
        if c.phase == 1:
            self._store(value, f.add(offset, f.i64(column)), mask)
        else:
            residue = tile.column % c.phase
            at = total(f, product(f, index, tile.pixels), tile.column // c.phase, residue * self.pitch)
            f.store(value, f.gep(f["scratch"], at, k.scalar))

    def _reduce_taps(self, tiles: Sequence[Tile], bases: Sequence[Operand], first: Val, count: Val) -> list[list[Val]]:
        """Reduce all taps of the tiles' pixels; `bases` are their places in the input plane."""
        c, f = self.c, self.k.f
        kh_step, row_step = c.row_step
        if self.descending:
            kh_step, row_step = -kh_step, -row_step
        states = [self.reduction.start(f, self.k.vector) for _ in tiles]
        size = len(states[0])
        with f.loop("kh", 0, count, carry=[value for state in states for value in state]) as kh:
            tap_row = f.mul(total(f, first, product(f, kh.index, kh_step)), c.kernel[1])
            down = product(f, kh.index, row_step * c.in_shape[1])
            following: list[Val] = []
            for i, (tile, base) in enumerate(zip(tiles, bases, strict=True)):
                state = kh.carried[i * size : (i + 1) * size]
                following += self._reduce_row(tile, total(f, base, down), tap_row, state)
            kh.next(*following)
        return [kh.results[i * size : (i + 1) * size] for i in range(len(tiles))]

    def _reduce_row(self, tile: Tile, line: Operand, tap_row: Val, state: list[Val]) -> list[Val]:
        """Reduce the taps of one row of the window, which begins at `line` of the input plane."""
        k, c, f = self.k, self.c, self.k.f
        for kw, column, pixels in reversed(tile.taps) if self.descending else tile.taps:
            at = total(f, line, column)
            mask = lane_set(f, k.lanes, pixels) if len(pixels) < tile.pixels else None

            def load(plane: Val, at: Operand = at, pixels: Sequence[int] = pixels) -> Val:
                """The pixels of the plane that one tap reads."""
                return load_pixels(k, f, f.gep(plane, at, k.scalar), pixels, c.reach)

            state = self.reduction.step(f, state, load, mask, total(f, tap_row, kw))
        return state

    def _store(self, value: Val, offset: Val, mask: Val | None) -> None:
        """Send a vector through the epilogue to the output."""
        f = self.k.f
        if self.epilogue is not None:
            place = ResultPlace(f.i64(self.channel), offset, mask, self.operands)
            value = self.epilogue(f, value, place)
        store_lanes(f, value, f.gep(self.out, offset, scalar_of(value.ty)), mask)

    def _write_line(self, offset: Val) -> None:
        """Interleave the lines of the phases into one output row."""
        f = self.k.f

        def store(value: Val, at: Val, mask: Val) -> None:
            """Store the masked lanes of one line."""
            self._store(value, f.add(offset, at), mask)

        write_line(self.k, f["scratch"], self.pitch, self.c, store)


def write_line(
    k: SequenceKernel, lines: Val, pitch: int, c: Correlation, store: Callable[[Val, Val, Val], None]
) -> None:
    """Interleave the lines of the phases; `store` takes a vector, its column and its mask."""
    f, width = k.f, len(c.columns)
    with f.loop("at", 0, width, k.lanes * c.phase) as at:
        start = f.binary("udiv", at.index, c.phase)
        parts = [f.load(f.gep(lines, f.add(start, p * pitch), k.scalar), k.vector) for p in range(c.phase)]
        for part, value in enumerate(interleaved(f, parts)):
            here = f.add(at.index, part * k.lanes)
            store(value, here, f.lane_mask(f.sub(f.i64(width), here), k.lanes))


def interleaved(f: Function, lines: Sequence[Val]) -> list[Val]:
    """The vectors a0 b0 … a1 b1 … of equally long vectors a, b, …"""
    n, lanes = len(lines), int(lines[0].ty[1:].split(" ")[0])
    if n == 2:
        pairs = [i // 2 + lanes * (i % 2) for i in range(2 * lanes)]
        return [f.shuffle(lines[0], lines[1], pairs[:lanes]), f.shuffle(lines[0], lines[1], pairs[lanes:])]
    result: list[Val] = []
    for part in range(n):
        value = f.zero(lines[0].ty)
        for lane in range(lanes):
            index, line = divmod(part * lanes + lane, n)
            value = f.insert(value, f.extract(lines[line], index), lane)
        result.append(value)
    return result


class DepthwiseReduction:
    """The chain of a convolution that reduces one channel; one output plane has one kernel."""

    def __init__(self, k: SequenceKernel, c: Correlation, source: str) -> None:
        self.c, self.source = c, source
        self.groups = k.read({"groups": c.groups})["groups"]
        self.planes = k.f.mul(self.groups, c.outputs)

    def begin(self, k: SequenceKernel, plane: Val, scratch: Val) -> None:
        """Find the weights and the input plane of the output plane."""
        f, c = k.f, self.c
        self.k = k
        image, channel = split(f, plane, self.planes)
        taps = c.kernel[0] * c.kernel[1]
        self.weights = f.gep(k.pointers["w"], product(f, channel, taps), k.scalar)
        group, _ = split(f, channel, c.outputs)
        index = total(f, product(f, image, self.groups), group)
        at = product(f, index, c.in_shape[0] * c.in_shape[1])
        self.read_from(f.gep(k.pointers[self.source], at, k.scalar))

    def read_from(self, plane: Val) -> None:
        """Read the input plane from an address."""
        self.plane = plane

    def start(self, f: Function, vector: str) -> list[Val]:
        """The state before the first tap: zero."""
        return [f.zero(vector)]

    def step(self, f: Function, state: Sequence[Val], load: Loader, mask: Val | None, tap: Operand) -> list[Val]:
        """The state after one tap; masked-off lanes are unchanged."""
        weight = f.load(f.gep(self.weights, tap, self.k.scalar), self.k.scalar)
        result = f.fma(load(self.plane), f.splat(weight, self.k.lanes), state[0])
        return [result if mask is None else f.select(mask, result, state[0])]

    def finish(self, state: Sequence[Val]) -> Val:
        """The result of the state after the last tap."""
        return state[0]


def write_depthwise(
    k: SequenceKernel,
    c: Correlation,
    source: str,
    out: str,
    epilogue: ConvolutionEpilogue | None,
    operands: Sequence[str],
) -> ConvolutionStep:
    """A correlation that reduces one channel, as a tap reduction; the weights have w's layout."""
    reduction = DepthwiseReduction(k, c, source)
    kernel = DepthwiseKernel(k, c, reduction, epilogue=epilogue, operands=operands)
    return kernel.write(out, c.groups * c.outputs, reduction.planes)
