"""Loops that fold values into accumulators, in the canonical order of `kernel.order`.

A fold over a serial loop keeps a value for each lane: groups of rounds are written out as a small tree, and the
groups' sums lie on a stack.  A fold over the vector index takes blocks of `BLOCK` elements, pairs lanes by shuffles,
and keeps the blocks' sums on a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from nacre.base.dims import Size, upper
from nacre.base.errors import CompileError
from nacre.codegen.loops.analysis import LIGHT, chained, directly, elementary, lanes_for, weight
from nacre.codegen.loops.licm import LoopInvariants
from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reductions import Lanes, LaneStack, Leaves, Reduction, Stack
from nacre.kernel.ast import Buffer, For, Stmt
from nacre.kernel.dependence import written
from nacre.kernel.order import BLOCK
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.text import Val

HEAVY = 120  # instructions for an element from which on vectors side by side have no registers left
HELD = 4  # vectors of a block that wait in registers
STRAIGHT = 8  # loops of at most so many rounds around a tree are written out


class ReductionLoops(LoopInvariants):
    """Folding loops of one kernel function."""

    buffers: dict[str, Buffer]
    folds: dict[str, Reduction]

    def block(self, body: Sequence[Stmt]) -> None:
        """Write the statements of a body."""
        raise NotImplementedError

    def known_buffers(self) -> dict[str, Buffer]:
        """The kernel's buffers and the scratch buffers in use, by name."""
        return {**self.buffers, **{n: p.buffer for n, p in self.storage.items()}}

    def trees(self, s: For) -> list[Reduction]:
        """The reductions of a loop that go by the canonical tree."""
        outer = [n for n in written(s.body) if n in self.states and n in self.folds and self.folds[n].is_tree]
        here = {a for acc in directly(s.body) for a in acc.accumulators}
        if any(n not in here for n in outer):
            raise CompileError(f"kernel: sums must be directly in their loop; got {outer} in an inner loop")
        return [self.folds[n] for n in outer]

    def carried(self, body: Sequence[Stmt], besides: Sequence[Reduction] = ()) -> list[str]:
        """The scalars from outside that a body changes, other than the given accumulators."""
        skip = {n for r in besides for n in r.names}
        names = [n for n in written(body) if n in self.states and n not in skip]
        return [slot for n in names for slot in self.slots_of(n)]

    def slots_of(self, name: str) -> Sequence[str]:
        """The registers that a scalar is held in; what accumulates together is held by the first name."""
        fold = self.folds.get(name)
        if fold is None:
            return (name,)
        return fold.slots if name == fold.names[0] else ()

    def state(self, name: str) -> Val:
        """The value of an accumulator, finished where its fold keeps partial results."""
        fold = self.folds.get(name)
        if fold is None or name != fold.names[0]:
            return self.states[name]
        return fold.finish(self.f, self.current(fold.slots))

    def take(self, names_: Sequence[str], values: Sequence[Val]) -> None:
        """Make the values the accumulators' states."""
        self.states.update(zip(names_, values, strict=True))
        self._seen.clear()

    def current(self, names_: Sequence[str]) -> list[Val]:
        """The states of accumulators, in order."""
        return [self.states[n] for n in names_]

    def forget(self, body: Sequence[Stmt]) -> None:
        """What a body stores to memory is not known any more."""
        for n in written(body):
            if n not in self.states:
                self.written(n)

    @contextmanager
    def lanes_are(self, index: str, lanes: int, first: Val, extent: Size, mask: Val | None = None) -> Generator[None]:
        """Inside, lanes count an index from `first`."""
        before = self.lanes, self.vector, self.mask
        self.lanes, self.vector, self.mask = lanes, index, mask
        with self.index(index, first, extent):
            yield
        self.lanes, self.vector, self.mask = before

    def abreast(self, body: Sequence[Stmt]) -> int:
        """How many vectors the rounds of a loop without loops inside take side by side.

        Elementary functions are long chains of instructions: alone, a vector would leave most of the machine waiting.
        So are the rounds of a random number.
        """
        load = weight(body)
        if not elementary(body):
            return self.isa.registers // 8 if chained(body) else 1
        if not LIGHT < load <= HEAVY:
            return 1
        return self.isa.registers // (8 if load <= HEAVY // 2 else 16)

    # ---- over a serial loop

    def straight(self, s: For, trees: Sequence[Reduction]) -> None:
        """A short loop written out, its trees too."""
        assert isinstance(s.extent, int)
        leaves = [Leaves(self.f, r) for r in trees]
        for i in range(s.extent):
            self.round(s, self.f.i64(i), leaves)
        for r, sums in zip(trees, leaves, strict=True):
            self.states[r.names[0]] = sums.result() if s.extent else r.nothing(self.f, self.lanes)

    def round(self, s: For, index: Val, leaves: Sequence[Leaves]) -> None:
        """One round of a loop, its values added to the trees."""
        for sums in leaves:
            self.take(sums.reduction.names, sums.reduction.start(self.f, self.lanes))
        with self.index(s.index, index, s.extent):
            self.block(s.body)
        for sums in leaves:
            sums.add(self.states[sums.reduction.names[0]])

    def fold_rounds(self, s: For, trees: Sequence[Reduction]) -> None:
        """A loop around canonical trees: groups of rounds, then the rounds left, on a stack of sums."""
        f, group = self.f, 8 if weight(s.body) <= LIGHT else 2
        kept = self.carried(s.body, trees)
        self.hoist(s)
        depth = max(upper(s.extent), 1).bit_length() + 1
        stacks = [Stack(f, r, vec(register(r.dtype), self.lanes), depth) for r in trees]
        extent = self.size(s.extent)
        whole = f.and_(extent, -group)
        top = f.i64(0)
        for start, end, step in ((f.i64(0), whole, group), (whole, extent, 1)):
            with f.loop(s.index, start, end, step, carry=[*self.current(kept), top]) as loop:
                self.take(kept, loop.carried[:-1])
                self.forget(s.body)
                leaves = [Leaves(f, r) for r in trees]
                for k in range(step):
                    self.round(s, f.add(loop.index, k), leaves)
                number = f.lshr(f.sub(loop.index, start), step.bit_length() - 1)
                tops = [t.push(n.result(), loop.carried[-1], number) for t, n in zip(stacks, leaves, strict=True)]
                loop.next(*self.current(kept), tops[0])
            self.take(kept, loop.results[:-1])
            top = loop.results[-1]
        for r, stack in zip(trees, stacks, strict=True):
            self.states[r.names[0]] = stack.result(top)
        self.forget(s.body)

    # ---- over the vector index

    def fold_row(self, s: For, folded: Sequence[str]) -> None:
        """A vector loop that folds its values into scalars."""
        groups = list({id(self.folds[n]): self.folds[n] for n in folded}.values())
        trees = [r for r in groups if r.is_tree]
        free = [r for r in groups if not r.is_tree]
        changing = self.hoist(s)
        outer = {n: self.states[n] for r in free for n in r.slots}
        lanes = lanes_for(s.body, self.known_buffers(), self.isa)
        wide = lanes if trees or weight(s.body) > LIGHT else 4 * lanes
        if isinstance(s.extent, int):
            least = max(2, 1 << max(s.extent - 1, 0).bit_length())
            lanes, wide = min(lanes, least), min(wide, least)
        abreast = lanes if free or not trees else min(BLOCK, lanes * self.abreast(s.body))
        for width in {lanes, wide, abreast}:
            self.spread(s, changing, width)
        for r in free:
            self.take(r.slots, r.start(self.f, wide))
        if trees:
            self.blocks(s, trees, free, min(lanes, BLOCK), abreast)
        else:
            self.sweep(s, free, wide, lanes)
        for r in free:
            found, before = r.lanes(self.f, self.current(r.slots)), [outer[n] for n in r.slots]
            self.take(r.slots, found if before == r.start(self.f, 1) else r.combine(self.f, before, found))
        self.forget(s.body)

    def sweep(self, s: For, free: Sequence[Reduction], wide: int, lanes: int) -> None:
        """A row without trees: several vectors at a time, their states folded into one vector for the rest."""
        extent, start = self.size(s.extent), self.f.i64(0)
        if wide > lanes:
            whole = self.f.and_(extent, -wide)
            self.sweep_part(s, free, start, whole, wide, self.f.i64(0), [], [], masked=False)
            for r in free:
                self.take(r.slots, r.narrowed(self.f, self.current(r.slots), lanes))
            start = whole
        self.span(s, start, extent, lanes, free, [], [])

    def blocks(self, s: For, trees: Sequence[Reduction], free: Sequence[Reduction], lanes: int, abreast: int) -> None:
        """The canonical trees of a row: whole blocks of `BLOCK` elements, `abreast` at a time, then the rest."""
        f = self.f
        kept = [n for r in free for n in r.slots]
        extent = self.size(s.extent)
        rows = [f.alloca(vec(register(r.dtype), lanes), BLOCK // lanes) for r in trees]
        depth = (max(upper(s.extent), 1) // BLOCK + 1).bit_length() + 2
        stacks = [LaneStack(f, r, vec(register(r.dtype), lanes), depth) for r in trees]
        whole, top = f.and_(extent, -BLOCK), f.i64(0)
        if not isinstance(s.extent, int) or s.extent >= BLOCK:
            with f.loop("block", 0, whole, BLOCK, carry=[*self.current(kept), top]) as loop:
                self.take(kept, loop.carried[:-1])
                self.ask_next(s, loop.index, BLOCK)
                sums = self.whole_block(s, loop.index, lanes, abreast, trees, free, rows)
                number = f.lshr(loop.index, BLOCK.bit_length() - 1)
                tops = [stack.push(v, loop.carried[-1], number) for v, stack in zip(sums, stacks, strict=True)]
                loop.next(*self.current(kept), tops[0])
            self.take(kept, loop.results[:-1])
            top = loop.results[-1]
        self.span(s, whole, extent, lanes, free, trees, rows)
        rest = f.sub(extent, whole)
        for r, row, stack in zip(trees, rows, stacks, strict=True):
            last = self.choose(
                f.icmp("sgt", rest, 0),
                lambda r=r, row=row: self.part_of_block(r, row, rest, lanes),
                lambda r=r: r.start(f, 1)[0],
            )
            self.states[r.names[0]] = self.choose(
                f.icmp("sgt", whole, 0),
                lambda stack=stack, last=last: stack.fold_with(last, top),
                lambda r=r, last=last: f.select(f.icmp("sgt", rest, 0), last, r.nothing(f, 1)),
            )

    def choose(self, holds: Val, yes: Callable[[], Val], no: Callable[[], Val]) -> Val:
        """A value that is computed in one way or the other."""
        f, stem = self.f, self.f.fresh("choose")
        f.branch(holds, f"{stem}.yes", f"{stem}.no")
        arms: list[tuple[Val, str]] = []
        for label, write in ((f"{stem}.yes", yes), (f"{stem}.no", no)):
            f.label(label)
            with self.scope():
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
        abreast: int,
        trees: Sequence[Reduction],
        free: Sequence[Reduction],
        rows: Sequence[Val],
    ) -> list[Val]:
        """The trees' sums of a whole block, by lanes: light rounds are written out, others go through memory."""
        f = self.f
        if abreast > lanes:
            return self.sums_abreast(s, start, lanes, abreast, trees, rows)
        if weight(s.body) > LIGHT:
            self.sweep_part(s, free, start, f.add(start, BLOCK), lanes, start, trees, rows, masked=False)
            count = BLOCK // lanes
            return [
                self.tree(r, self.vectors(r, row, count, lanes), count).result()
                for r, row in zip(trees, rows, strict=True)
            ]
        self.forget(s.body)
        leaves = [Lanes(f, r, lanes, BLOCK // lanes) for r in trees]
        for k in range(0, BLOCK, lanes):
            self.take([r.names[0] for r in trees], [r.start(f, lanes)[0] for r in trees])
            with self.lanes_are(s.index, lanes, f.add(start, k), s.extent):
                self.block(s.body)
            for sums in leaves:
                sums.add(self.states[sums.reduction.names[0]])
        self.forget(s.body)
        return [sums.result() for sums in leaves]

    def sums_abreast(
        self, s: For, start: Val, lanes: int, abreast: int, trees: Sequence[Reduction], rows: Sequence[Val]
    ) -> list[Val]:
        """The trees' sums of a whole block, by lanes; a round adds one vector, which waits for the others in memory.

        Few of them wait in registers.
        """
        f, level, rounds = self.f, (abreast // lanes).bit_length() - 1, BLOCK // abreast
        held = rounds if rounds <= HELD else 0
        waiting = [f.zero(vec(register(r.dtype), lanes)) for r in trees for _ in range(held)]
        with f.loop(s.index, start, f.add(start, BLOCK), abreast, carry=waiting) as loop:
            self.forget(s.body)
            self.take([r.names[0] for r in trees], [r.start(f, abreast)[0] for r in trees])
            with self.lanes_are(s.index, abreast, loop.index, s.extent):
                self.block(s.body)
            sums: list[Val] = []
            for r in trees:
                tree = Lanes(f, r, lanes, BLOCK // lanes)
                tree.add_lanes(self.states[r.names[0]])
                sums.append(tree.result())
            if held:
                parts = [[*loop.carried[k * held + 1 : (k + 1) * held], v] for k, v in enumerate(sums)]
                loop.next(*(v for part in parts for v in part))
            else:
                place = f.lshr(f.sub(loop.index, start), level)
                for r, row, v in zip(trees, rows, sums, strict=True):
                    f.store(v, f.gep(row, place, register(r.dtype)))
        return [
            self.tree(
                r,
                loop.results[k * held : (k + 1) * held] if held else self.vectors(r, row, rounds, lanes),
                BLOCK // lanes,
                level,
            ).result()
            for k, (r, row) in enumerate(zip(trees, rows, strict=True))
        ]

    def part_of_block(self, r: Reduction, row: Val, used: Val, lanes: int) -> Val:
        """The tree over the elements of a block that are there; a tree no larger than a few times that is written."""
        f = self.f
        absent = r.start(f, lanes)[0]

        def at_least(vectors: int) -> Val:
            """The sum of the row's used lanes, for which at least the given number of vectors are read."""
            if vectors >= BLOCK // lanes:
                return filled(BLOCK // lanes)
            enough = f.icmp("sle", used, vectors * lanes)
            return self.choose(enough, lambda: filled(vectors), lambda: at_least(4 * vectors))

        def filled(vectors: int) -> Val:
            """The sum of the row, its absent lanes filled up to the given number of vectors."""
            start = f.and_(f.add(used, lanes - 1), -lanes)
            if vectors > 1:
                with f.loop("absent", start, vectors * lanes, lanes) as loop:
                    f.store(absent, f.gep(row, loop.index, register(r.dtype)))
            return self.tree(r, self.vectors(r, row, vectors, lanes), vectors).lane_sum()

        return at_least(1)

    def vectors(self, r: Reduction, row: Val, count: int, lanes: int) -> list[Val]:
        """The first vectors of a row in memory."""
        f, scalar = self.f, register(r.dtype)
        return [f.load(f.gep(row, k * lanes, scalar), vec(scalar, lanes)) for k in range(count)]

    def tree(self, r: Reduction, vectors: Sequence[Val], count: int, level: int = 0) -> Lanes:
        """The tree over the given number of vectors, given as subtrees with a number of levels."""
        sums = Lanes(self.f, r, lanes_of(vectors[0].ty), count)
        for v in vectors:
            sums.add(v, level)
        return sums

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
        """Rounds [start, end) of a row: trees' values go to rows in memory, the rest is folded at once."""
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
        """Rounds [first, end) of a row whose values in memory begin at `start`, whole vectors unless masked."""
        f = self.f
        kept = [n for r in free for n in r.slots]
        with f.loop(s.index, first, end, lanes, carry=self.current(kept)) as loop:
            self.take(kept, loop.carried)
            self.forget(s.body)
            self.take([r.names[0] for r in trees], [r.start(f, lanes)[0] for r in trees])
            mask = f.lane_mask(f.sub(end, loop.index), lanes) if masked else None
            with self.lanes_are(s.index, lanes, loop.index, s.extent, mask):
                self.block(s.body)
            for r, row in zip(trees, rows, strict=True):
                f.store(self.states[r.names[0]], f.gep(row, f.sub(loop.index, start), register(r.dtype)))
            loop.next(*self.current(kept))
        self.take(kept, loop.results)
