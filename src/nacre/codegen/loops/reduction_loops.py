"""Loops that reduce values into accumulators, in the canonical order of `kernel.order`.

A reduction along a serial loop has a value for each lane: groups of iterations are unrolled into a small tree, and the
groups' sums are on a stack.  A reduction along the vector index takes blocks of `BLOCK` elements, pairs lanes by
shuffles, and puts the blocks' sums on a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.base.dims import upper
from nacre.codegen.loops.analysis import LIGHT, abreast, lanes_for, weight
from nacre.codegen.loops.block_sums import filled_sum, push_function, row_function, sum_function, tree, vectors
from nacre.codegen.loops.expressions import Values
from nacre.codegen.loops.licm import LoopInvariants
from nacre.codegen.loops.non_temporal import NonTemporalStores
from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reductions import Lanes, LaneStack, Leaves, Reduction, Stack
from nacre.kernel.ast import For, Stmt, While, statements
from nacre.kernel.order import BLOCK
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Val

HELD = 4  # most vectors of a block that wait in registers
STRAIGHT = 8  # most iterations of a loop around a tree that is unrolled


def group_of(s: For) -> int:
    """The iterations of a loop around trees that are unrolled: one where the body has loops, whose code is long."""
    if any(isinstance(t, For | While) for t in statements(s.body)):
        return 1
    return 8 if weight(s.body) <= LIGHT else 2


class ReductionLoops:
    """The reduction loops of one kernel function; `block` writes the statements of a body."""

    def __init__(
        self,
        values: Values,
        invariants: LoopInvariants,
        stores: NonTemporalStores,
        block: Callable[[Sequence[Stmt]], None],
    ) -> None:
        self.values, self.f, self.isa, self.accumulators = values, values.f, values.isa, values.accumulators
        self.invariants, self.stores, self.block = invariants, stores, block

    # ---- over a serial loop

    def straight(self, s: For, trees: Sequence[Reduction]) -> None:
        """Unroll a short loop and its trees."""
        assert isinstance(s.extent, int)
        leaves = [Leaves(self.f, r) for r in trees]
        for i in range(s.extent):
            self.round(s, self.f.i64(i), leaves)
        for r, sums in zip(trees, leaves, strict=True):
            self.accumulators.states[r.names[0]] = sums.result() if s.extent else r.nothing(self.f, self.values.lanes)

    def round(self, s: For, index: Val, leaves: Sequence[Leaves]) -> None:
        """One iteration of a loop, whose values are added to the trees."""
        for sums in leaves:
            self.values.take(sums.reduction.names, sums.reduction.start(self.f, self.values.lanes))
        with self.values.index(s.index, index, s.extent):
            self.block(s.body)
        for sums in leaves:
            sums.add(self.accumulators.states[sums.reduction.names[0]])

    def fold_rounds(self, s: For, trees: Sequence[Reduction]) -> None:
        """A loop around canonical trees: groups of iterations, then the remaining ones, on a stack of sums."""
        f, group = self.f, group_of(s)
        kept = self.accumulators.carried(s.body, trees)
        self.invariants.hoist(s)
        depth = max(upper(s.extent), 1).bit_length() + 1
        kinds = [vec(register(r.dtype), self.values.lanes) for r in trees]
        stacks = [Stack(f, r, ty, f.alloca(ty, depth)) for r, ty in zip(trees, kinds, strict=True)]
        extent = self.values.size(s.extent)
        whole = f.and_(extent, -group) if group > 1 else extent
        top = f.i64(0)
        for start, end, step in ((f.i64(0), whole, group), (whole, extent, 1)) if group > 1 else ((top, extent, 1),):
            with f.loop(s.index, start, end, step, carry=[*self.accumulators.current(kept), top]) as loop:
                self.values.take(kept, loop.carried[:-1])
                self.values.forget(s.body)
                leaves = [Leaves(f, r) for r in trees]
                for k in range(step):
                    self.round(s, f.add(loop.index, k), leaves)
                number = f.lshr(f.sub(loop.index, start), step.bit_length() - 1)
                tops = [t.push(n.result(), loop.carried[-1], number) for t, n in zip(stacks, leaves, strict=True)]
                loop.next(*self.accumulators.current(kept), tops[0])
            self.values.take(kept, loop.results[:-1])
            top = loop.results[-1]
        for r, stack in zip(trees, stacks, strict=True):
            self.accumulators.states[r.names[0]] = stack.result(top)
        self.values.forget(s.body)

    # ---- over the vector index

    def fold_row(self, s: For, folded: Sequence[str]) -> None:
        """A vector loop that reduces its values to scalars."""
        groups = list({id(self.accumulators.folds[n]): self.accumulators.folds[n] for n in folded}.values())
        trees = [r for r in groups if r.is_tree]
        free = [r for r in groups if not r.is_tree]
        changing = self.invariants.hoist(s)
        outer = {n: self.accumulators.states[n] for r in free for n in r.slots}
        lanes = lanes_for(s.body, self.values.known_buffers(), self.isa)
        wide = lanes if trees or weight(s.body) > LIGHT else 4 * lanes
        if isinstance(s.extent, int):
            least = max(2, 1 << max(s.extent - 1, 0).bit_length())
            lanes, wide = min(lanes, least), min(wide, least)
        together = lanes if free or not trees else min(BLOCK, lanes * abreast(s.body, self.isa))
        for width in {lanes, wide, together}:
            self.invariants.spread(s, changing, width)
        for r in free:
            self.values.take(r.slots, r.start(self.f, wide))
        if trees:
            self.blocks(s, trees, free, min(lanes, BLOCK), together)
        else:
            self.sweep(s, free, wide, lanes)
        for r in free:
            found, before = r.lanes(self.f, self.accumulators.current(r.slots)), [outer[n] for n in r.slots]
            self.values.take(r.slots, found if before == r.start(self.f, 1) else r.combine(self.f, before, found))
        self.values.forget(s.body)

    def sweep(self, s: For, free: Sequence[Reduction], wide: int, lanes: int) -> None:
        """A row without trees: several vectors at a time, whose states are reduced to one vector for the rest."""
        extent, start = self.values.size(s.extent), self.f.i64(0)
        if wide > lanes:
            whole = self.f.and_(extent, -wide)
            self.sweep_part(s, free, start, whole, wide, self.f.i64(0), [], [], masked=False)
            for r in free:
                self.values.take(r.slots, r.narrowed(self.f, self.accumulators.current(r.slots), lanes))
            start = whole
        self.span(s, start, extent, lanes, free, [], [])

    def blocks(self, s: For, trees: Sequence[Reduction], free: Sequence[Reduction], lanes: int, together: int) -> None:
        """The canonical trees of a row: full blocks of `BLOCK` elements, `together` at a time, then the rest."""
        f = self.f
        kept = [n for r in free for n in r.slots]
        extent = self.values.size(s.extent)
        kinds = [vec(register(r.dtype), lanes) for r in trees]
        rows = [f.alloca(ty, BLOCK // lanes) for ty in kinds]
        depth = (max(upper(s.extent), 1) // BLOCK + 1).bit_length() + 2
        stacks = [LaneStack(f, r, ty, f.alloca(ty, depth)) for r, ty in zip(trees, kinds, strict=True)]
        if together == lanes < BLOCK and weight(s.body) > LIGHT and upper(s.extent) >= BLOCK:
            return self.stored_blocks(s, trees, free, lanes, rows, stacks)
        whole, top = f.and_(extent, -BLOCK), f.i64(0)
        if not isinstance(s.extent, int) or s.extent >= BLOCK:
            with f.loop("block", 0, whole, BLOCK, carry=[*self.accumulators.current(kept), top]) as loop:
                self.values.take(kept, loop.carried[:-1])
                self.stores.ask_next(s, loop.index, BLOCK)
                sums = self.whole_block(s, loop.index, lanes, together, trees, free, rows)
                number = f.lshr(loop.index, BLOCK.bit_length() - 1)
                tops = [stack.push(v, loop.carried[-1], number) for v, stack in zip(sums, stacks, strict=True)]
                loop.next(*self.accumulators.current(kept), tops[0])
            self.values.take(kept, loop.results[:-1])
            top = loop.results[-1]
        self.span(s, whole, extent, lanes, free, trees, rows)
        rest = f.sub(extent, whole)
        for r, row, stack in zip(trees, rows, stacks, strict=True):
            last = self.choose(
                f.icmp("sgt", rest, 0),
                lambda r=r, row=row: self.part_of_block(r, row, rest, lanes),
                lambda r=r: r.start(f, 1)[0],
            )
            self.accumulators.states[r.names[0]] = self.choose(
                f.icmp("sgt", whole, 0),
                lambda stack=stack, last=last: stack.fold_with(last, top),
                lambda r=r, last=last: f.select(f.icmp("sgt", rest, 0), last, r.nothing(f, 1)),
            )

    def stored_blocks(
        self,
        s: For,
        trees: Sequence[Reduction],
        free: Sequence[Reduction],
        lanes: int,
        rows: Sequence[Val],
        stacks: Sequence[LaneStack],
    ) -> None:
        """The canonical trees of a row whose iterations are heavy: a block's values are in memory.

        Functions that kernels share sum them.  A short row needs no call.
        """
        f, extent = self.f, self.values.size(s.extent)
        kept = [n for r in free for n in r.slots]
        vectors_end = f.and_(extent, -lanes)
        with f.loop("block", 0, vectors_end, BLOCK, carry=[*self.accumulators.current(kept), f.i64(0)]) as loop:
            self.values.take(kept, loop.carried[:-1])
            start, top = loop.index, loop.carried[-1]
            end = f.add(start, BLOCK)
            full = f.icmp("sle", end, extent)
            with f.when(full), self.values.scope():
                self.stores.ask_next(s, start, BLOCK)
            self.sweep_part(s, free, start, f.smin(end, vectors_end), lanes, start, trees, rows, masked=False)
            number = f.lshr(start, BLOCK.bit_length() - 1)
            following = self.choose(full, lambda: self.pushed(trees, lanes, rows, stacks, top, number), lambda: top)
            loop.next(*self.accumulators.current(kept), following)
        self.values.take(kept, loop.results[:-1])
        self.sweep_part(s, free, vectors_end, extent, lanes, f.and_(extent, -BLOCK), trees, rows, masked=True)
        for r, row, stack in zip(trees, rows, stacks, strict=True):
            function = row_function(self.isa, r.anonymous, lanes)
            f.module.include(function)
            self.accumulators.states[r.names[0]] = self.choose(
                f.icmp("ult", f.sub(extent, 1), lanes),
                lambda r=r, row=row: filled_sum(f, r, row, extent, 1, lanes),
                lambda r=r, row=row, stack=stack, name=function.name: f.call(
                    name, register(r.dtype), [row, extent, stack.pointer, loop.results[-1]]
                ),
            )

    def pushed(
        self,
        trees: Sequence[Reduction],
        lanes: int,
        rows: Sequence[Val],
        stacks: Sequence[LaneStack],
        top: Val,
        number: Val,
    ) -> Val:
        """The top of the stacks with the sums of a full block."""
        tops: list[Val] = []
        for r, row, stack in zip(trees, rows, stacks, strict=True):
            function = push_function(self.isa, r.anonymous, lanes)
            self.f.module.include(function)
            tops.append(self.f.call(function.name, "i64", [row, stack.pointer, top, number]))
        return tops[0]

    def choose(self, holds: Val, yes: Callable[[], Val], no: Callable[[], Val]) -> Val:
        """A value that one of two branches computes."""
        f, stem = self.f, self.f.fresh("choose")
        f.branch(holds, f"{stem}.yes", f"{stem}.no")
        arms: list[tuple[Val, str]] = []
        for label, write in ((f"{stem}.yes", yes), (f"{stem}.no", no)):
            f.label(label)
            with self.values.scope():
                value = write()
            arms.append((value, f.block))
            f.jump(f"{stem}.end")
        f.label(f"{stem}.end")
        return f.phi(arms[0][0].ty, arms)

    def whole_block(
        self,
        s: For,
        start: Val,
        lanes: int,
        together: int,
        trees: Sequence[Reduction],
        free: Sequence[Reduction],
        rows: Sequence[Val],
    ) -> list[Val]:
        """The trees' sums of a full block, by lanes: light iterations are unrolled, others store their values."""
        f = self.f
        if together > lanes:
            return self.sums_abreast(s, start, lanes, together, trees, rows)
        if weight(s.body) > LIGHT:
            self.sweep_part(s, free, start, f.add(start, BLOCK), lanes, start, trees, rows, masked=False)
            count = BLOCK // lanes
            return [
                tree(f, r, vectors(f, r, row, count, lanes), count).result() for r, row in zip(trees, rows, strict=True)
            ]
        self.values.forget(s.body)
        leaves = [Lanes(f, r, lanes, BLOCK // lanes) for r in trees]
        for k in range(0, BLOCK, lanes):
            self.values.take([r.names[0] for r in trees], [r.start(f, lanes)[0] for r in trees])
            with self.values.lanes_are(s.index, lanes, f.add(start, k), s.extent):
                self.block(s.body)
            for sums in leaves:
                sums.add(self.accumulators.states[sums.reduction.names[0]])
        self.values.forget(s.body)
        return [sums.result() for sums in leaves]

    def sums_abreast(
        self, s: For, start: Val, lanes: int, together: int, trees: Sequence[Reduction], rows: Sequence[Val]
    ) -> list[Val]:
        """The trees' sums of a full block, by lanes; an iteration adds one vector, which is stored with the others.

        If they are few, they stay in registers.
        """
        f, level, rounds = self.f, (together // lanes).bit_length() - 1, BLOCK // together
        held = rounds if rounds <= HELD else 0
        waiting = [f.zero(vec(register(r.dtype), lanes)) for r in trees for _ in range(held)]
        with f.loop(s.index, start, f.add(start, BLOCK), together, carry=waiting) as loop:
            self.values.forget(s.body)
            self.values.take([r.names[0] for r in trees], [r.start(f, together)[0] for r in trees])
            with self.values.lanes_are(s.index, together, loop.index, s.extent):
                self.block(s.body)
            sums: list[Val] = []
            for r in trees:
                whole = Lanes(f, r, lanes, BLOCK // lanes)
                whole.add_lanes(self.accumulators.states[r.names[0]])
                sums.append(whole.result())
            if held:
                parts = [[*loop.carried[k * held + 1 : (k + 1) * held], v] for k, v in enumerate(sums)]
                loop.next(*(v for part in parts for v in part))
            else:
                place = f.lshr(f.sub(loop.index, start), level)
                for r, row, v in zip(trees, rows, sums, strict=True):
                    f.store(v, f.gep(row, place, register(r.dtype)))
        return [
            tree(
                f,
                r,
                loop.results[k * held : (k + 1) * held] if held else vectors(f, r, row, rounds, lanes),
                BLOCK // lanes,
                level,
            ).result()
            for k, (r, row) in enumerate(zip(trees, rows, strict=True))
        ]

    def part_of_block(self, r: Reduction, row: Val, used: Val, lanes: int) -> Val:
        """The tree over the elements of a block that are there; a function for those that fill several vectors."""
        f = self.f
        if lanes >= BLOCK:
            return filled_sum(f, r, row, used, 1, lanes)
        function = sum_function(self.isa, r.anonymous, lanes)
        f.module.include(function)
        return self.choose(
            f.icmp("sle", used, lanes),
            lambda: filled_sum(f, r, row, used, 1, lanes),
            lambda: f.call(function.name, register(r.dtype), [row, used]),
        )

    def span(
        self,
        s: For,
        start: Val,
        end: Val,
        lanes: int,
        free: Sequence[Reduction],
        trees: Sequence[Reduction],
        rows: Sequence[Val],
    ) -> None:
        """Iterations [start, end) of a row: trees' values are stored in rows, the others are reduced at once."""
        at = self.f.add(start, self.f.and_(self.f.sub(end, start), -lanes))
        self.sweep_part(s, free, start, at, lanes, start, trees, rows, masked=False)
        self.sweep_part(s, free, at, end, lanes, start, trees, rows, masked=True)

    def sweep_part(
        self,
        s: For,
        free: Sequence[Reduction],
        first: Val,
        end: Val,
        lanes: int,
        start: Val,
        trees: Sequence[Reduction],
        rows: Sequence[Val],
        masked: bool,
    ) -> None:
        """Iterations [first, end) of a row whose values in memory begin at `start`, full vectors unless masked."""
        f = self.f
        kept = [n for r in free for n in r.slots]
        with f.loop(s.index, first, end, lanes, carry=self.accumulators.current(kept)) as loop:
            self.values.take(kept, loop.carried)
            self.values.forget(s.body)
            self.values.take([r.names[0] for r in trees], [r.start(f, lanes)[0] for r in trees])
            mask = f.lane_mask(f.sub(end, loop.index), lanes) if masked else None
            with self.values.lanes_are(s.index, lanes, loop.index, s.extent, mask):
                self.block(s.body)
            for r, row in zip(trees, rows, strict=True):
                f.store(self.accumulators.states[r.names[0]], f.gep(row, f.sub(loop.index, start), register(r.dtype)))
            loop.next(*self.accumulators.current(kept))
        self.values.take(kept, loop.results)
