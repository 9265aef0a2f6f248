"""Statements and loops of a kernel as LLVM code: serial and vector loops, reductions, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from nacre.base.dims import Size
from nacre.base.dtypes import bool_
from nacre.base.errors import CompileError
from nacre.codegen.loops.analysis import LIGHT, abreast, lanes_for, weight
from nacre.codegen.loops.expressions import Storage, Values
from nacre.codegen.loops.interleaved import are_both
from nacre.codegen.loops.licm import LoopInvariants
from nacre.codegen.loops.non_temporal import NonTemporalStores
from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reduction_loops import STRAIGHT, ReductionLoops
from nacre.codegen.loops.transposed_scan import TransposedScans
from nacre.kernel.affine import names
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Let,
    Stmt,
    Store,
    While,
)
from nacre.kernel.dependence import lane_obstacle, varying, written
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val

ON_STACK = 4096  # most bytes of scratch on the machine stack


class Statements:
    """The statements of one kernel function."""

    def __init__(self, values: Values, streams: frozenset[str]) -> None:
        self.values, self.f, self.isa, self.accumulators = values, values.f, values.isa, values.accumulators
        self.stores = values.hints = NonTemporalStores(values, streams)
        self.invariants = LoopInvariants(values)
        self.reductions = ReductionLoops(values, self.invariants, self.stores, self.block)
        self.scans = TransposedScans(values, self.invariants, self.block, self.stretch)

    # ---- statements

    def block(self, body: Sequence[Stmt]) -> None:
        """Emit the statements in order."""
        skipped: Stmt | None = None
        for s, after in zip_longest(body, body[1:]):
            if s is skipped:
                continue
            skipped = after if after is not None and self.both_stored(s, after) else None
            if skipped is None:
                self.statement(s)

    def both_stored(self, first: Stmt, second: Stmt) -> bool:
        """Emit two stores of adjacent elements as one, where lanes allow it; returns whether they were emitted."""
        if not isinstance(first, Store) or not isinstance(second, Store) or not are_both(first, second):
            return False
        if first.buffer in self.accumulators.states or self.scans.results is not None:
            return False
        return self.values.store_both(first, second)

    def statement(self, s: Stmt) -> None:
        """Emit one statement."""
        match s:
            case Let():
                self.values.value(s.value)
                self.values.bind(s.name, s.value)
            case Alloc():
                self.alloc(s.buffer)
            case Store() if s.buffer in self.accumulators.states:
                self.set_state(s.buffer, self.values.row(s.value))
            case Store():
                if not self.scans.holds_back(s):
                    self.values.store(s.buffer, s.index, s.value)
            case Accumulate():
                self.accumulate(s)
            case For():
                self.loop(s)
            case If():
                self.condition(s)
            case While():
                self.repeat(s)

    def alloc(self, b: Buffer) -> None:
        """Allocate scratch: a register for shape (), stack memory if small, else the thread's scratch."""
        if b.shape == ():
            fold = self.accumulators.folds.get(b.name)
            if fold is None:
                self.accumulators.states[b.name] = self.f.zero(vec(register(b.dtype), self.values.lanes))
            else:
                self.values.take(fold.slots, fold.start(self.f, self.values.lanes))
            return
        count: Size = 1
        for s in b.shape:
            count = count * s
        size = count * (b.dtype.itemsize * self.values.lanes)
        if isinstance(size, int) and size <= ON_STACK:
            pointer = self.f.alloca("i8", max(size, 1))
        else:
            pointer = self.values.room(size)
        self.values.storage[b.name] = Storage(b, pointer, self.values.lanes)
        self.values.written(b.name)

    def set_state(self, name: str, v: Val) -> None:
        """Set an accumulator to a new value, in the lanes where the mask holds."""
        old = self.accumulators.states[name]
        if lanes_of(old.ty) != lanes_of(v.ty):
            raise CompileError(f"kernel: a scalar must belong to the vector loop itself; got {name} from outside")
        self.accumulators.states[name] = v if self.values.mask is None else self.f.select(self.values.mask, v, old)

    def accumulate(self, s: Accumulate) -> None:
        """Combine the values with the accumulators' states."""
        fold = self.accumulators.folds[s.accumulators[0]]
        new = fold.element([self.values.row(v) for v in s.values])
        if not fold.is_tree:
            new = fold.follow(self.f, self.accumulators.current(fold.slots), new)
        for name, v in zip(fold.slots, new, strict=True):
            self.set_state(name, v)

    # ---- serial loops

    def loop(self, s: For) -> None:
        """Emit a loop: in vector strips if lanes are independent, else one iteration at a time."""
        if s.vector and self.values.vector is None and self.lane_obstacle(s) is None:
            folded = [n for n in written(s.body) if n in self.accumulators.states]
            with self.stores.reading(s):
                if folded:
                    self.reductions.fold_row(s, folded)
                else:
                    self.strips(s, self.f.i64(0), self.values.size(s.extent))
            return
        self.serial(s)

    def lane_obstacle(self, s: For) -> str | None:
        """The reason why the iterations of a loop cannot be lanes; None if they can."""
        return lane_obstacle(s, self.accumulators.states, self.values.known_buffers(), self.values.known())

    def serial(self, s: For) -> None:
        """Emit a loop that runs one iteration at a time."""
        trees = self.accumulators.trees(s)
        if isinstance(s.extent, int) and s.extent <= STRAIGHT and trees:
            self.reductions.straight(s, trees)
        elif trees:
            self.reductions.fold_rounds(s, trees)
        else:
            self.rounds(s)

    def rounds(self, s: For) -> None:
        """Emit a scalar loop that carries the accumulators its body writes."""
        if self.scans.rounds(s):
            return
        f, kept = self.f, self.accumulators.carried(s.body)
        self.invariants.hoist(s)
        self.stretch(s, kept, f.i64(0), self.values.size(s.extent))
        self.values.forget(s.body)

    def stretch(self, s: For, kept: Sequence[str], start: Val, end: Val) -> None:
        """Iterations [start, end) of a loop that carries accumulators."""
        f = self.f
        with f.loop(s.index, start, end, carry=self.accumulators.current(kept)) as loop:
            self.values.take(kept, loop.carried)
            self.values.forget(s.body)
            with self.values.index(s.index, loop.index, s.extent):
                self.block(s.body)
            loop.next(*self.accumulators.current(kept))
        self.values.take(kept, loop.results)

    # ---- vector loops

    def widths(self, s: For) -> list[int]:
        """The numbers of lanes of the parts of a vector loop, the widest first.

        A loop around light loops takes several vectors at a time: an iteration then accesses longer runs of memory.  So
        does one with elementary functions: latencies are hidden by the work of other vectors.  A loop around a loop
        along rows takes one vector.
        """
        lanes = lanes_for(s.body, self.values.known_buffers(), self.isa)
        if self.scans.inside(s, lanes):
            return [lanes]
        inner = any(isinstance(t, For) for t in s.body)
        factors = (self.isa.registers // 4, 4, 1) if inner and weight(s.body) <= 4 * LIGHT else (1,)
        if not inner:
            factors = (abreast(s.body, self.isa), 1)
        found = [lanes * k for k in factors]
        if isinstance(s.extent, int):
            least = 1 << max(s.extent - 1, 0).bit_length()
            found = [min(w, least) for w in found]
        return sorted(set(found), reverse=True)

    def strips(self, s: For, start: Val, end: Val) -> None:
        """A vector loop over [start, end): full vectors, then the rest, masked or one by one."""
        f = self.f
        if len(s.body) == 1 and isinstance(s.body[0], If) and self.cases(s, s.body[0], start, end):
            return
        widths = self.widths(s)
        changing = self.invariants.hoist(s)
        for lanes in widths:
            self.invariants.spread(s, changing, lanes)
        masked = self.isa.masks and widths[-1] > 1
        stores = self.stores.streamed_stores(s)
        if stores and widths[-1] > 1:
            start = self.past_caches(s, stores, start, end, widths, masked)
        for lanes in widths[:-1] if masked and len(widths) > 1 else widths:
            whole = f.add(start, f.and_(f.sub(end, start), -lanes))
            self.strip(s, start, whole, lanes)
            start = whole
        if masked:
            self.masked_strip(s, start, end, widths[-1])
        elif widths[-1] > 1:
            self.strip(s, start, end, 1)
        self.values.forget(s.body)

    def cases(self, s: For, choice: If, start: Val, end: Val) -> bool:
        """Emit a vector loop for each side of an if on the index or an invariant; returns whether it is such an if."""
        f, condition = self.f, choice.condition
        then, other = replace(s, body=choice.body), replace(s, body=choice.orelse)
        match condition:
            case Apply(op="lt", args=(Index(name=name), Const() | Extent() as size)) if name == s.index:
                middle = f.smin(f.smax(self.values.value(size), start), end)
                with self.values.scope():
                    self.strips(then, start, middle)
                with self.values.scope():
                    self.strips(other, middle, end)
                return True
            case _:
                pass
        if names(condition, {}) & varying(s.body, s.index):
            return False
        stem = f.fresh("case")
        f.branch(self.values.value(condition), f"{stem}.then", f"{stem}.else")
        for label, loop in ((f"{stem}.then", then), (f"{stem}.else", other)):
            f.label(label)
            with self.values.scope():
                self.strips(loop, start, end)
            f.jump(f"{stem}.end")
        f.label(f"{stem}.end")
        self.values.forget(s.body)
        return True

    def past_caches(
        self, s: For, stores: Sequence[Store], start: Val, end: Val, widths: Sequence[int], masked: bool
    ) -> Val:
        """Emit the aligned vectors of a loop with non-temporal stores, and the iterations before them."""
        f = self.f
        first, aligned = self.stores.before_line(s, stores, start, end)
        if masked:
            self.masked_strip(s, start, first, widths[-1])
        else:
            self.strip(s, start, first, 1)
        whole = f.select(aligned, f.add(first, f.and_(f.sub(end, first), -widths[0])), first)
        self.stores.streaming = True
        self.strip(s, first, whole, widths[0])
        self.stores.streaming = False
        return whole

    def masked_strip(self, s: For, start: Val, end: Val, lanes: int) -> None:
        """Emit the iterations from start to end, `lanes` at a time under a mask."""
        f = self.f
        with f.loop(s.index, start, end, lanes) as loop:
            self.values.forget(s.body)
            mask = f.lane_mask(f.sub(end, loop.index), lanes)
            with self.values.lanes_are(s.index, lanes, loop.index, s.extent, mask):
                self.block(s.body)
        self.values.forget(s.body)

    def strip(self, s: For, start: Val, end: Val, lanes: int) -> None:
        """Emit the iterations from start to end, `lanes` at a time."""
        with self.f.loop(s.index, start, end, lanes) as loop:
            self.values.forget(s.body)
            with self.values.lanes_are(s.index, lanes, loop.index, s.extent):
                self.block(s.body)
        self.values.forget(s.body)

    # ---- conditions

    def condition(self, s: If) -> None:
        """Emit an if: under a mask where the condition differs by lane, else a branch."""
        holds = self.values.value(s.condition)
        if lanes_of(holds.ty) > 1:
            self.masked(holds, s)
        else:
            self.branch(holds, s)

    def masked(self, holds: Val, s: If) -> None:
        """Both branches, each in its own lanes."""
        f, before, guarded = self.f, self.values.mask, self.values.guarded
        self.values.guarded = True
        nots = f.xor(holds, f.const(holds.ty, True)) if s.orelse else holds
        for lanes, body in ((holds, s.body), (nots, s.orelse)):
            if body:
                self.values.mask = lanes if before is None else f.and_(before, lanes)
                with self.values.scope():
                    self.block(body)
                self.values.forget(body)
        self.values.mask, self.values.guarded = before, guarded

    def branch(self, holds: Val, s: If) -> None:
        """One branch or the other."""
        f = self.f
        kept = list(dict.fromkeys(self.accumulators.carried(s.body) + self.accumulators.carried(s.orelse)))
        before = self.accumulators.current(kept)
        stem = f.fresh("if")
        f.branch(holds, f"{stem}.then", f"{stem}.else")
        arms: list[tuple[list[Val], str]] = []
        for label, body in ((f"{stem}.then", s.body), (f"{stem}.else", s.orelse)):
            f.label(label)
            self.values.take(kept, before)
            with self.values.scope():
                self.block(body)
            arms.append((self.accumulators.current(kept), f.block))
            f.jump(f"{stem}.end")
        f.label(f"{stem}.end")
        for k, name in enumerate(kept):
            self.accumulators.states[name] = f.phi(before[k].ty, [(values[k], block) for values, block in arms])
        self.values.forget((*s.body, *s.orelse))
        self.values.forget_numbers()

    def repeat(self, s: While) -> None:
        """A loop that runs while its condition holds; it is tested before the loop and at the end of the body."""
        f = self.f
        carried = self.accumulators.carried(s.body)
        stem = f.fresh("while")
        start = self.accumulators.current(carried)
        left = self.enter_if(s.condition, stem, "enter")
        before = left[-1]
        phis = [f.phi_later(v.ty, f"{stem}.carry") for v in start]
        self.values.take(carried, phis)
        self.values.forget(s.body)
        with self.values.scope():
            self.block(s.body)
        after = self.accumulators.current(carried)
        self.values.forget(s.body)
        ended = self.enter_if(s.condition, stem, "again")
        for phi, first, later in zip(phis, start, after, strict=True):
            f.complete_phi(phi, [(first, before), (later, ended[-1])])
        f.label(f"{stem}.done")
        arms = [[*((x, b) for b in left), *((y, b) for b in ended)] for x, y in zip(start, after, strict=True)]
        self.values.take(carried, [f.phi(v.ty, each, f"{stem}.last") for v, each in zip(start, arms, strict=True)])
        self.values.forget(s.body)

    def enter_if(self, condition: Expr, stem: str, name: str) -> list[str]:
        """Go to a loop's body if its condition holds, otherwise behind the loop; the blocks that may go there.

        Each part of a conjunction is a branch of its own, because a processor predicts branches faster than it
        combines their conditions.  The first time, the body begins here.
        """
        f = self.f
        parts = _conjuncts(condition)
        blocks: list[str] = []
        with self.values.scope():
            for k, part in enumerate(parts):
                holds = self.values.value(part)
                if lanes_of(holds.ty) > 1:
                    raise CompileError("kernel: the condition of a while must be the same in every lane")
                last = k == len(parts) - 1
                following = f"{stem}.body" if last else f"{stem}.{name}.{k}"
                f.branch(holds, following, f"{stem}.done")
                blocks.append(f.block)
                if not last or name == "enter":
                    f.label(following)
        return blocks


def _conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that must all hold for a condition to hold."""
    if isinstance(condition, Apply) and condition.op == "and" and condition.dtype is bool_:
        return [part for each in condition.args for part in _conjuncts(each)]
    return [condition]
