"""A plan as LLVM text that binds itself: what `runtime/plan.bind` does in Python for the sizes of a call.

The text has two functions.  `measure` gives the bytes of the workspace for given sizes and threads; `start` writes
the tables into it and has the driver (`codegen/program`) walk them.  The workspace is, in order: the arena, the
descriptor, the table of steps, the kernels' arguments, the steps' ends, and each thread's scratch memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from nacre.base.dims import LIMIT, Size
from nacre.base.errors import CompileError
from nacre.base.types import TensorType
from nacre.deploy import tables
from nacre.deploy.image import SECTION
from nacre.deploy.sizes import Arithmetic, symbols_of
from nacre.native.text import Function, Module, Operand, Val
from nacre.runtime.plan import (
    ALIGN,
    ALONE_COST,
    CHUNK_COST,
    DESCRIPTOR_WORDS,
    SHARE_COST,
    STEP_WORDS,
    Launch,
    Number,
    Plan,
    aligned,
    arena,
)

LARGEST_WEIGHTS = 1_900_000_000  # bytes that small-model code reaches
UNBOUNDED = 64  # what a size without a maximum is taken for where only the order of sizes matters


@dataclass(frozen=True)
class Share:
    """One launch's work for the sizes of a call."""

    extent: Operand
    grain: Operand
    scratch: Operand
    words: tuple[Operand, ...]


@dataclass(frozen=True)
class Layout:
    """Where everything of a call lies in its workspace, in bytes from its start."""

    temporaries: Mapping[int, Operand]
    descriptor: Operand
    rows: Operand
    arguments: Operand
    ends: Operand
    scratch: Operand
    stride: Operand
    total: Operand
    team: Operand
    shares: Sequence[Share]


class Writer:
    """Writes the program of a plan into a module; kernels are called by the names in `kernels`."""

    def __init__(self, module: Module, plan: Plan, inputs: Sequence[TensorType],
                 kernels: Sequence[str], constants: Sequence[np.ndarray]) -> None:
        self.module, self.plan, self.kernels = module, plan, kernels
        self.symbols = symbols_of(inputs)
        self.alone = [tables.table(s, 1) if s.cut is not None else None for s in plan.steps]
        self.shared = [tables.table(s, tables.TEAM) if s.cut is not None else None for s in plan.steps]
        self.constants, self.weights = self._place(constants)
        self.argument_words = sum(len(s.slots) + len(t.rows[0]) - 3 if t is not None else len(s.slots)
                                  for s, t in zip(plan.steps, self.shared, strict=True))

    def write(self) -> None:
        """Write `measure` and `start`."""
        for k in dict.fromkeys(self.kernels):
            self.module.declare(k, "void", ["ptr", "i64", "i64", "ptr"])
        numbers = {f"n.{s.name}": "i64" for s in self.symbols} | {"threads": "i64"}
        f = self.module.function("core.measure", "i64", numbers)
        a = self._arithmetic(f)
        f.ret(a.value(self.layout(a, f["threads"]).total))
        f = self.module.function("core.start", "void", {"bases": "ptr", "workspace": "ptr"} | numbers)
        a = self._arithmetic(f)
        self._start(a, self.layout(a, f["threads"]))

    def _arithmetic(self, f: Function) -> Arithmetic:
        return Arithmetic(f, {s.name: f[f"n.{s.name}"] for s in self.symbols})

    # ---- constants

    def _place(self, arrays: Sequence[np.ndarray]) -> tuple[dict[int, int], list[tuple[int, np.ndarray]]]:
        """Where each constant value lies in the weights, equal ones once, and what is to be written there."""
        places: dict[bytes, int] = {}
        written: list[tuple[int, np.ndarray]] = []
        found: list[int] = []
        total = 0
        for array in arrays:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            mark = sha256(data.data).digest()
            if mark not in places:
                places[mark] = total
                written.append((total, data))
                total += aligned(data.nbytes)
            found.append(places[mark])
        if total > LARGEST_WEIGHTS:
            raise CompileError(f"deploy: weights of {LARGEST_WEIGHTS:,} bytes at most are required; these are "
                               f"{total:,}; store them in a smaller type")
        if total:
            self.module.section("core.weights", total, SECTION, ALIGN)
        held = [v for v, s in enumerate(self.plan.values) if s.kind == "constant"]
        return dict(zip(held, found, strict=True)), written

    # ---- the layout of the workspace

    def layout(self, a: Arithmetic, threads: Val) -> Layout:
        """Compute where everything lies."""
        work: Operand = 0
        for s in self.plan.steps:
            work = a.add(work, a.mul(a.size(s.extent), a.max(a.size(s.cost), 1)))
        little = a.f.icmp("slt", a.value(work), ALONE_COST)
        team = a.choose(little, 1, threads)
        shares = [self.share(a, k, s, little, threads) for k, s in enumerate(self.plan.steps)]
        stride: Operand = 0
        for s in shares:
            stride = a.max(stride, a.aligned(s.scratch))
        temporaries, descriptor = self.arena(a)
        rows = a.add(descriptor, 8 * DESCRIPTOR_WORDS)
        arguments = a.add(rows, aligned(8 * STEP_WORDS * len(self.plan.steps)))
        ends = a.add(arguments, aligned(8 * self.argument_words))
        scratch = a.add(ends, aligned(8 * len(self.plan.steps)))
        total = a.add(scratch, a.mul(stride, team))
        return Layout(temporaries, descriptor, rows, arguments, ends, scratch, stride, total, team, shares)

    def arena(self, a: Arithmetic) -> tuple[Mapping[int, Operand], Operand]:
        """Places of the temporaries: each above those that are alive with it and lie below it in the plan's arena."""
        lives = self.plan.lifetimes()
        largest = {s.name: max(s.low, UNBOUNDED) if s.high >= LIMIT else s.high for s in self.symbols}
        planned, _ = arena(self.plan, largest)
        order = sorted(planned, key=lambda v: (planned[v], v))
        ends: dict[int, Operand] = {}
        found: dict[int, Operand] = {}
        beneath: dict[int, set[int]] = {}
        total: Operand = 0
        for k, v in enumerate(order):
            first, last = lives[v]
            below = {u for u in order[:k] if lives[u][0] <= last and first <= lives[u][1]}
            beneath[v] = below
            implied = {w for u in below for w in beneath[u]}
            at: Operand = 0
            for u in sorted(below - implied):
                at = a.max(at, ends[u])
            found[v] = at
            ends[v] = a.add(at, a.aligned(a.size(self.plan.values[v].nbytes)))
            total = a.max(total, ends[v])
        return found, total

    def share(self, a: Arithmetic, k: int, step: Launch, little: Val, threads: Val) -> Share:
        """Extent, grain, scratch and further arguments of a launch."""
        alone, shared = self.alone[k], self.shared[k]
        if alone is not None and shared is not None:
            one = tables.read(a, f"core.alone{k}", alone)
            many = tables.read(a, f"core.shared{k}", shared)
            extent, grain, scratch, *words = (a.choose(little, x, y) for x, y in zip(one, many, strict=True))
            return Share(extent, grain, scratch, tuple(words))
        extent, cost, together = a.size(step.extent), a.max(a.size(step.cost), 1), a.size(step.grain)
        parts = a.max(a.max(a.ceil(extent, a.mul(threads, 4)), a.floor(CHUNK_COST, cost)), 1)
        grain = a.mul(a.ceil(parts, together), together)
        small = a.f.icmp("slt", a.value(a.mul(extent, cost)), SHARE_COST)
        return Share(extent, a.choose(small, a.max(extent, 1), grain), a.size(step.scratch), ())

    # ---- the tables

    def _start(self, a: Arithmetic, at: Layout) -> None:
        f = a.f
        workspace = f["workspace"]
        arguments, rows = f.gep(workspace, at.arguments), f.gep(workspace, at.rows)
        bases = [f.load(f.gep(f["bases"], k, "ptr"), "ptr") for k in range(self.plan.inputs + self.plan.outputs)]

        def put(table: Val, word: int, value: Operand) -> None:
            """Write a word of a table."""
            f.store(a.value(value), f.gep(table, word, "i64"))

        words = before = 0
        for k, (step, epoch, share) in enumerate(zip(self.plan.steps, self.plan.epochs, at.shares, strict=True)):
            f.comment(step.label)
            f.store(Val(f"@{self.kernels[step.code]}", "ptr"), f.gep(rows, STEP_WORDS * k, "i64"))
            row = (words, share.extent, share.grain, int(epoch != before), int(step.idle))
            for place, value in enumerate(itertools.chain(row, (0,) * (STEP_WORDS - 1 - len(row))), 1):
                put(rows, STEP_WORDS * k + place, value)
            before = epoch
            for slot in step.slots:
                if isinstance(slot, Number):
                    put(arguments, words, a.size(slot.size))
                else:
                    address = self.address(a, at, bases, workspace, slot.value, slot.offset)
                    f.store(address, f.gep(arguments, words, "ptr"))
                words += 1
            for value in share.words:
                put(arguments, words, value)
                words += 1
        descriptor = f.gep(workspace, at.descriptor)
        f.comment("the descriptor")
        written = {1: words, 5: len(self.plan.steps), 6: at.arguments, 7: at.ends, 9: at.scratch, 10: at.stride,
                   12: at.total, 14: at.team}
        for word in range(DESCRIPTOR_WORDS):
            put(descriptor, word, written.get(word, 0))
        for word, table in ((0, arguments), (2, arguments), (4, rows)):
            f.store(table, f.gep(descriptor, word, "i64"))
        f.call("nacre_run", "void", [descriptor, f["bases"], workspace])
        f.ret()

    def address(self, a: Arithmetic, at: Layout, bases: Sequence[Val], workspace: Val, value: int, offset: Size) -> Val:
        """Where a value lies, moved by some bytes."""
        kind = self.plan.values[value].kind
        if kind == "constant":
            return a.f.gep(Val("@core.weights", "ptr"), a.add(self.constants[value], a.size(offset)))
        if kind == "temporary":
            place = at.temporaries.get(self.plan.root(value), 0)
            return a.f.gep(workspace, a.add(place, a.size(offset)))
        return a.f.gep(bases[value], a.size(offset))
