"""Statements and loops of a kernel as LLVM code: serial and vector loops, reductions, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.base.dims import Size
from nacre.base.errors import CompileError
from nacre.codegen.loops.analysis import LIGHT, lanes_for, weight
from nacre.codegen.loops.expressions import Storage
from nacre.codegen.loops.operations import register
from nacre.codegen.loops.reduction_loops import STRAIGHT, ReductionLoops
from nacre.kernel.affine import names
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
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
from nacre.native.text import Val

ON_STACK = 4096  # bytes of scratch that may lie on the machine stack


class Statements(ReductionLoops):
    """The statements of one kernel function."""

    scratch: Val
    scratch_size: Size = 0

    # ---- statements

    def block(self, body: Sequence[Stmt]) -> None:
        """Emit the statements in order."""
        for s in body:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        """Emit one statement."""
        match s:
            case Let():
                self.value(s.value)
                self.bind(s.name, s.value)
            case Alloc():
                self.alloc(s.buffer)
            case Store() if s.buffer in self.states:
                self.set_state(s.buffer, self.row(s.value))
            case Store():
                self.store(s.buffer, s.index, s.value)
            case Accumulate():
                self.accumulate(s)
            case For():
                self.loop(s)
            case If():
                self.condition(s)
            case While():
                self.repeat(s)

    def alloc(self, b: Buffer) -> None:
        """Make room for scratch: a register for shape (), stack memory if small, else the thread's scratch."""
        if b.shape == ():
            fold = self.folds.get(b.name)
            if fold is None:
                self.states[b.name] = self.f.zero(vec(register(b.dtype), self.lanes))
            else:
                self.take(fold.slots, fold.start(self.f, self.lanes))
            return
        count: Size = 1
        for s in b.shape:
            count = count * s
        size = count * (b.dtype.itemsize * self.lanes)
        if isinstance(size, int) and size <= ON_STACK:
            pointer = self.f.alloca("i8", max(size, 1))
        else:
            pointer = self.f.gep(self.scratch, self.size(self.scratch_size))
            self.scratch_size = self.scratch_size + (size + 63) // 64 * 64
        self.storage[b.name] = Storage(b, pointer, self.lanes)
        self.written(b.name)

    def set_state(self, name: str, v: Val) -> None:
        """Give an accumulator a new value, in the lanes where the mask holds."""
        old = self.states[name]
        if lanes_of(old.ty) != lanes_of(v.ty):
            raise CompileError(f"kernel: a scalar must belong to the vector loop itself; got {name} from outside")
        self.states[name] = v if self.mask is None else self.f.select(self.mask, v, old)

    def accumulate(self, s: Accumulate) -> None:
        """Combine the values with the accumulators' states."""
        fold = self.folds[s.accumulators[0]]
        new = fold.element([self.row(v) for v in s.values])
        if not fold.is_tree:
            new = fold.combine(self.f, self.current(fold.slots), new)
        for name, v in zip(fold.slots, new, strict=True):
            self.set_state(name, v)

    # ---- serial loops

    def loop(self, s: For) -> None:
        """Emit a loop: in vector strips where lanes are independent, else in rounds."""
        if s.vector and self.vector is None and self.lane_obstacle(s) is None:
            folded = [n for n in written(s.body) if n in self.states]
            with self.reading(s):
                if folded:
                    self.fold_row(s, folded)
                else:
                    self.strips(s, self.f.i64(0), self.size(s.extent))
            return
        self.serial(s)

    def lane_obstacle(self, s: For) -> str | None:
        """Why the rounds of a loop cannot be lanes; None if they can."""
        return lane_obstacle(s, self.states, self.known_buffers(), self.known())

    def serial(self, s: For) -> None:
        """A loop done round by round."""
        trees = self.trees(s)
        if isinstance(s.extent, int) and s.extent <= STRAIGHT and trees:
            self.straight(s, trees)
        elif trees:
            self.fold_rounds(s, trees)
        else:
            self.rounds(s)

    def rounds(self, s: For) -> None:
        """Emit a scalar loop that carries the accumulators its body writes."""
        f, kept = self.f, self.carried(s.body)
        self.hoist(s)
        self.stretch(s, kept, f.i64(0), self.size(s.extent), 1)
        self.forget(s.body)

    def stretch(self, s: For, kept: Sequence[str], start: Val, end: Val, step: int) -> None:
        """Rounds [start, end) of a loop that carries accumulators, `step` at a time."""
        f = self.f
        with f.loop(s.index, start, end, step, carry=self.current(kept)) as loop:
            self.take(kept, loop.carried)
            self.forget(s.body)
            for k in range(step):
                with self.index(s.index, f.add(loop.index, k), s.extent):
                    self.block(s.body)
            loop.next(*self.current(kept))
        self.take(kept, loop.results)

    # ---- vector loops

    def widths(self, s: For) -> list[int]:
        """How many lanes the parts of a vector loop have, the widest first.

        A loop around light loops takes several vectors at a time: longer runs of memory in each round.  So does one
        with elementary functions: what waits for a result has another vector's work beside it.
        """
        lanes = lanes_for(s.body, self.known_buffers(), self.isa)
        inner = any(isinstance(t, For) for t in s.body)
        factors = (self.isa.registers // 4, 4, 1) if inner and weight(s.body) <= 4 * LIGHT else (1,)
        if not inner:
            factors = (self.abreast(s.body), 1)
        found = [lanes * k for k in factors]
        if isinstance(s.extent, int):
            least = 1 << max(s.extent - 1, 0).bit_length()
            found = [min(w, least) for w in found]
        return sorted(set(found), reverse=True)

    def strips(self, s: For, start: Val, end: Val) -> None:
        """A vector loop over [start, end): full vectors, then the rest under a mask or one by one."""
        f = self.f
        if len(s.body) == 1 and isinstance(s.body[0], If) and self.cases(s, s.body[0], start, end):
            return
        widths = self.widths(s)
        changing = self.hoist(s)
        for lanes in widths:
            self.spread(s, changing, lanes)
        masked = self.isa.masks and widths[-1] > 1
        stores = self.streamed_stores(s)
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
        self.forget(s.body)

    def cases(self, s: For, choice: If, start: Val, end: Val) -> bool:
        """A vector loop for each case of a choice that its index or none of its lanes makes; whether it is such."""
        f, condition = self.f, choice.condition
        then, other = replace(s, body=choice.body), replace(s, body=choice.orelse)
        match condition:
            case Apply(op="lt", args=(Index(name=name), Const() | Extent() as size)) if name == s.index:
                middle = f.smin(f.smax(self.value(size), start), end)
                with self.scope():
                    self.strips(then, start, middle)
                with self.scope():
                    self.strips(other, middle, end)
                return True
            case _:
                pass
        if names(condition, {}) & varying(s.body, s.index):
            return False
        stem = f.fresh("case")
        f.branch(self.value(condition), f"{stem}.then", f"{stem}.else")
        for label, loop in ((f"{stem}.then", then), (f"{stem}.else", other)):
            f.label(label)
            with self.scope():
                self.strips(loop, start, end)
            f.jump(f"{stem}.end")
        f.label(f"{stem}.end")
        self.forget(s.body)
        return True

    def past_caches(
        self, s: For, stores: Sequence[Store], start: Val, end: Val, widths: Sequence[int], masked: bool
    ) -> Val:
        """The aligned whole vectors of a loop, written past the caches, and the rounds before them."""
        f = self.f
        first, aligned = self.before_line(s, stores, start, end)
        if masked:
            self.masked_strip(s, start, first, widths[-1])
        else:
            self.strip(s, start, first, 1)
        whole = f.select(aligned, f.add(first, f.and_(f.sub(end, first), -widths[0])), first)
        self.streaming = True
        self.strip(s, first, whole, widths[0])
        self.streaming = False
        return whole

    def masked_strip(self, s: For, start: Val, end: Val, lanes: int) -> None:
        """Emit the rounds from start to end, `lanes` at a time under a mask."""
        f = self.f
        with f.loop(s.index, start, end, lanes) as loop:
            self.forget(s.body)
            mask = f.lane_mask(f.sub(end, loop.index), lanes)
            with self.lanes_are(s.index, lanes, loop.index, s.extent, mask):
                self.block(s.body)
        self.forget(s.body)

    def strip(self, s: For, start: Val, end: Val, lanes: int) -> None:
        """Emit the rounds from start to end, `lanes` at a time."""
        with self.f.loop(s.index, start, end, lanes) as loop:
            self.forget(s.body)
            with self.lanes_are(s.index, lanes, loop.index, s.extent):
                self.block(s.body)
        self.forget(s.body)

    # ---- conditions

    def condition(self, s: If) -> None:
        """Emit an if: under a mask where the condition differs by lane, else a branch."""
        holds = self.value(s.condition)
        if lanes_of(holds.ty) > 1:
            self.masked(holds, s)
        else:
            self.branch(holds, s)

    def masked(self, holds: Val, s: If) -> None:
        """Both branches, each in its own lanes."""
        f, before, guarded = self.f, self.mask, self.guarded
        self.guarded = True
        nots = f.xor(holds, f.const(holds.ty, True)) if s.orelse else holds
        for lanes, body in ((holds, s.body), (nots, s.orelse)):
            if body:
                self.mask = lanes if before is None else f.and_(before, lanes)
                with self.scope():
                    self.block(body)
                self.forget(body)
        self.mask, self.guarded = before, guarded

    def branch(self, holds: Val, s: If) -> None:
        """One branch or the other."""
        f = self.f
        kept = list(dict.fromkeys(self.carried(s.body) + self.carried(s.orelse)))
        before = self.current(kept)
        stem = f.fresh("if")
        f.branch(holds, f"{stem}.then", f"{stem}.else")
        arms: list[tuple[list[Val], str]] = []
        for label, body in ((f"{stem}.then", s.body), (f"{stem}.else", s.orelse)):
            f.label(label)
            self.take(kept, before)
            with self.scope():
                self.block(body)
            arms.append((self.current(kept), f.block))
            f.jump(f"{stem}.end")
        f.label(f"{stem}.end")
        for k, name in enumerate(kept):
            self.states[name] = f.phi(before[k].ty, [(values[k], block) for values, block in arms])
        self.forget((*s.body, *s.orelse))
        self._seen.clear()

    def repeat(self, s: While) -> None:
        """A loop that lasts as long as its condition."""
        f = self.f
        kept = self.carried(s.body)
        stem = f.fresh("while")
        start, before = self.current(kept), f.block
        f.jump(f"{stem}.head")
        f.label(f"{stem}.head")
        place = len(f.lines)
        phis = [Val(f"%{stem}.carry{k}", v.ty) for k, v in enumerate(start)]
        self.take(kept, phis)
        self.forget(s.body)
        with self.scope():
            holds = self.value(s.condition)
            if lanes_of(holds.ty) > 1:
                raise CompileError("kernel: the condition of a while must be the same in every lane")
            f.branch(holds, f"{stem}.body", f"{stem}.done")
            f.label(f"{stem}.body")
            self.block(s.body)
        latch, after = f.block, self.current(kept)
        f.jump(f"{stem}.head")
        f.lines[place:place] = [
            f"  {p.text} = phi {p.ty} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"
            for p, a, b in zip(phis, start, after, strict=True)
        ]
        f.label(f"{stem}.done")
        self.take(kept, phis)
        self.forget(s.body)
