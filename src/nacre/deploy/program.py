"""A plan as LLVM text that binds itself; `runtime/plan.Binding` does the same in Python for the sizes of a call.

The text has two functions.  `measure` computes the bytes of the workspace for given sizes and threads.  `start` writes
the tables into it and calls the driver (`runtime/driver`) on them.  The workspace holds, in order: the arena, the
descriptor, the table of rows, the moves in loops, the kernels' arguments, the rows' ends, and each thread's scratch
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from nacre.base.dims import LIMIT, Size
from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.deploy import tables
from nacre.deploy.executable.codes import GOT, GOT_UNSIGNED, HIGH, LOW, MESSAGE
from nacre.deploy.executable.failure import FailureTemplate
from nacre.deploy.image import SECTION
from nacre.deploy.sizes import SizeArithmetic, symbols_of
from nacre.deploy.strings import string
from nacre.native.llvm_values import Operand, Val
from nacre.native.python.initial import at, constant_rows
from nacre.native.python.types import ArrayKind, FunctionKind, i64, size_of, struct_of
from nacre.native.text import Function, ModuleText
from nacre.runtime.flow import UNKNOWN_TRIPS, DriverRow, Loop, Node, loops
from nacre.runtime.grains import CHUNK_COST, SHARE_COST
from nacre.runtime.layouts import Descriptor, Move, PlanRow, PoolFunctions, RowKind
from nacre.runtime.plan import (
    ALIGN,
    ALONE_COST,
    ENDLESS,
    Launch,
    Number,
    Plan,
    Pointer,
    aligned,
    arena,
    divide,
    run_alone,
)

LARGEST_WEIGHTS = 1_900_000_000  # bytes that small-model code reaches
UNBOUNDED = 64  # assumed size without a maximum, where only the order of sizes matters


@dataclass(frozen=True)
class Share:
    """The work of one launch for the sizes of a call."""

    extent: Operand
    grain: Operand
    scratch: Operand
    words: tuple[Operand, ...]


@dataclass(frozen=True)
class WorkspaceLayout:
    """The layout of a call's workspace, in bytes from its start."""

    temporaries: Mapping[int, Operand]
    descriptor: Operand
    rows: Operand
    moves: Operand
    arguments: Operand
    ends: Operand
    scratch: Operand
    stride: Operand
    total: Operand
    team: Operand
    shares: Sequence[Share]


class ProgramWriter:
    """Writes the program of a plan into a module; kernels are called by the names in `kernels`."""

    def __init__(
        self,
        module: ModuleText,
        plan: Plan,
        inputs: Sequence[TensorType],
        kernels: Sequence[str],
        constants: Sequence[np.ndarray],
    ) -> None:
        self.module, self.plan, self.kernels = module, plan, kernels
        self.symbols = symbols_of(inputs)
        self.pool = self._pool_functions()
        self.single = [tables.table(s, 1) if s.cut is not None else None for s in plan.steps]
        self.shared = [tables.table(s, tables.TEAM) if s.cut is not None else None for s in plan.steps]
        self.constants, self.weights = self._place(constants)
        self.rows = plan.rows
        self.argument_words = sum(map(self._words, self.rows)) + len(list(loops(plan.tree)))
        self.first_move: dict[int, int] = {}  # of each loop, and the number of its moves
        self.moves = 0
        for loop in loops(plan.tree):
            self.first_move[loop.number] = self.moves
            self.moves += self._moves(loop.number)
        largest = self._largest()
        cuts = [divide(s, largest, tables.TEAM) for s in plan.steps] if plan.tree else []
        self.alone = run_alone(plan, cuts) if plan.tree else set[int]()

    def write(self) -> None:
        """Write `measure` and `start`."""
        for k in dict.fromkeys(self.kernels):
            self.module.declare(k, "void", ["ptr", "i64", "i64", "ptr"])
        if self.plan.failures:
            self.module.declare("nacre.failure", "void", ["ptr", "ptr", "ptr"])
            self.module.variable("core.message", f"[{MESSAGE} x i8]", "", 1, "external thread_local")
        numbers = {f"n.{s.name}": "i64" for s in self.symbols} | {"threads": "i64"}
        f = self.module.function("core.measure", "i64", numbers)
        a = self._arithmetic(f)
        f.ret(a.value(self.layout(a, f["threads"]).total))
        f = self.module.function("core.start", "i64", {"bases": "ptr", "workspace": "ptr"} | numbers)
        a = self._arithmetic(f)
        self._start(a, self.layout(a, f["threads"]))

    def _pool_functions(self) -> Val:
        """The address of the functions of the program's pool, for the driver."""
        functions: dict[str, Any] = {}
        for name, field in struct_of(PoolFunctions).fields.items():
            assert isinstance(field.kind, FunctionKind)
            self.module.declare(f"nacre.pool_{name}", field.kind.result.llvm, [k.llvm for k in field.kind.kinds])
            functions[name] = at(Val(f"@nacre.pool_{name}", "ptr"))
        return constant_rows(self.module, "pool.functions", [PoolFunctions(**functions)])

    def templates(self) -> Val:
        """The address of the texts of checks."""
        rows: list[Any] = []
        for k, failure in enumerate(self.plan.failures):
            got = GOT if failure.signed else GOT_UNSIGNED
            text = failure.text.format(low=chr(LOW), high=chr(HIGH), got=chr(got))
            rows.append(FailureTemplate(text=at(string(self.module, f"core.failure{k}", text))))
        return constant_rows(self.module, "core.failures", rows)

    def _arithmetic(self, f: Function) -> SizeArithmetic:
        return SizeArithmetic(f, {s.name: f[f"n.{s.name}"] for s in self.symbols})

    def _largest(self) -> dict[str, int]:
        """The largest sizes that are considered."""
        return {s.name: max(s.low, UNBOUNDED) if s.high >= LIMIT else s.high for s in self.symbols}

    def _words(self, row: DriverRow) -> int:
        """The number of argument words of a row."""
        if row.kind is not RowKind.LAUNCH:
            return int(row.kind is RowKind.BRANCH)
        answers = self.shared[row.step]
        more = len(answers.rows[0]) - 3 if answers is not None else 0
        return len(self.plan.steps[row.step].slots) + more

    def _pointers(self, row: DriverRow) -> list[Pointer]:
        """The addresses among a row's arguments."""
        if row.kind is RowKind.BRANCH:
            return [Pointer(row.cell)]
        slots = self.plan.steps[row.step].slots if row.kind is RowKind.LAUNCH else ()
        return [s for s in slots if isinstance(s, Pointer)]

    def _moves(self, loop: int) -> int:
        """The number of addresses that change after each round of a loop."""
        located = [self.plan.located(slot, row) for row in self.rows for slot in self._pointers(row)]
        return sum(number == loop for where in located for number, _ in (*where.moves, *where.swaps))

    # ---- constants

    def _place(self, arrays: Sequence[np.ndarray]) -> tuple[dict[int, int], list[tuple[int, np.ndarray]]]:
        """The place of each constant value in the weights (equal constants share one), and the bytes to write there."""
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
            raise CompileError(
                f"deploy: the weights must take at most {LARGEST_WEIGHTS:,} bytes; they take {total:,}; store them in "
                "a smaller dtype"
            )
        if total:
            self.module.section("core.weights", total, SECTION, ALIGN)
        constant_values = [v for v, s in enumerate(self.plan.values) if s.kind == "constant"]
        return dict(zip(constant_values, found, strict=True)), written

    # ---- the layout of the workspace

    def layout(self, a: SizeArithmetic, threads: Val) -> WorkspaceLayout:
        """Compute the layout."""
        work = self.work(a, self.plan.tree or tuple(range(len(self.plan.steps))))
        little = a.f.icmp("slt", a.value(work), ALONE_COST)
        team = a.choose(little, 1, threads)
        shares = [self.share(a, k, s, little, threads) for k, s in enumerate(self.plan.steps)]
        stride: Operand = 0
        for s in shares:
            stride = a.max(stride, a.aligned(s.scratch))
        temporaries, descriptor = self.arena(a)
        rows = a.add(descriptor, aligned(size_of(Descriptor)))
        moves = a.add(rows, aligned(size_of(PlanRow) * len(self.rows)))
        arguments = a.add(moves, aligned(size_of(Move) * self.moves))
        ends = a.add(arguments, aligned(size_of(i64) * self.argument_words))
        scratch = a.add(ends, aligned(size_of(i64) * len(self.rows)))
        total = a.add(scratch, a.mul(stride, team))
        return WorkspaceLayout(
            temporaries, descriptor, rows, moves, arguments, ends, scratch, stride, total, team, shares
        )

    def work(self, a: SizeArithmetic, nodes: Sequence[Node]) -> Operand:
        """The work of nodes, without loops that one thread runs alone."""
        total: Operand = 0
        for node in nodes:
            if isinstance(node, int):
                s = self.plan.steps[node]
                total = a.add(total, a.mul(a.size(s.extent), a.max(a.size(s.cost), 1)))
            elif isinstance(node, Loop):
                if node.number not in self.alone:
                    trips = UNKNOWN_TRIPS if node.trips is None else a.max(a.size(node.trips), 0)
                    total = a.add(total, a.mul(self.work(a, (*node.test, *node.body)), trips))
                    total = a.add(total, self.work(a, node.epilogue))
            else:
                total = a.add(total, self.work(a, (*node.then, *node.orelse)))
        return total

    def arena(self, a: SizeArithmetic) -> tuple[Mapping[int, Operand], Operand]:
        """Places of the temporaries; each is above those that are live with it and lower in the arena."""
        lives = self.plan.lifetimes()
        planned, _ = arena(self.plan, self._largest())
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

    def share(self, a: SizeArithmetic, k: int, step: Launch, little: Val, threads: Val) -> Share:
        """Extent, grain, scratch and further arguments of a launch."""
        alone, shared = self.single[k], self.shared[k]
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

    def _start(self, a: SizeArithmetic, at: WorkspaceLayout) -> None:
        _Start(self, a, at).write()


class _Start:
    """Writes the function that fills the tables of a call and runs it."""

    def __init__(self, writer: ProgramWriter, a: SizeArithmetic, at: WorkspaceLayout) -> None:
        self.writer, self.plan, self.a, self.f, self.at = writer, writer.plan, a, a.f, at
        self.workspace = self.f["workspace"]
        self.arguments, self.rows, self.moves, self.descriptor = (
            self.f.gep(self.workspace, place) for place in (at.arguments, at.rows, at.moves, at.descriptor)
        )
        count = self.plan.inputs + self.plan.outputs
        self.bases = [self.f.load(self.f.gep(self.f["bases"], k, "ptr"), "ptr") for k in range(count)]
        self.words = 0
        self.moved = dict(writer.first_move)

    def put(self, table: Val, owner: type[Any], k: int, fields: Mapping[str, Operand | list[Operand]]) -> None:
        """Write a structure of a table; fields that are not given become zero."""
        kind = struct_of(owner)
        for name, field in kind.fields.items():
            given = fields.get(name, 0)
            element = field.kind.element if isinstance(field.kind, ArrayKind) else field.kind
            for n, value in enumerate(given if isinstance(given, list) else [given]):
                place = self.f.gep(table, k * kind.nbytes + field.offset + n * element.nbytes)
                self.f.store(self.f.like(value, element.memory), place)

    def word(self, value: Operand) -> int:
        """Write the next word of arguments; returns its place."""
        self.f.store(self.a.value(value), self.f.gep(self.arguments, self.words, "i64"))
        self.words += 1
        return self.words - 1

    def write(self) -> None:
        """Write rows, arguments, moves and the descriptor; then run."""
        firsts = [self.row_arguments(row) for row in self.writer.rows]
        turns = {number: self.word(0) for number in self.writer.first_move}
        for k, row in enumerate(self.writer.rows):
            work = self.launch(row) if row.kind is RowKind.LAUNCH else self.control(row, turns)
            self.put(
                self.rows,
                PlanRow,
                k,
                {"kind": row.kind, "barrier": row.sync, "first_argument": firsts[k], **work},
            )
        self.run()

    def row_arguments(self, row: DriverRow) -> int:
        """Write the arguments of a row; returns the place of the first."""
        first = self.words
        if row.kind is RowKind.BRANCH:
            self.pointer(row, Pointer(row.cell))
        elif row.kind is RowKind.LAUNCH:
            for slot in self.plan.steps[row.step].slots:
                if isinstance(slot, Number):
                    self.word(self.a.size(slot.size))
                else:
                    self.pointer(row, slot)
            for value in self.at.shares[row.step].words:
                self.word(value)
        return first

    def pointer(self, row: DriverRow, slot: Pointer) -> None:
        """Write an address, and how it moves in the loops around the row."""
        a = self.a
        value, offset, moves, swaps = self.plan.located(slot, row)
        for loop, stride in moves:
            self.move(loop, a.size(stride), a.size(stride))
        for loop, other in swaps:
            here, there = self.at.temporaries[value], self.at.temporaries[other]
            self.move(loop, a.sub(there, here), a.sub(here, there))
        self.f.store(self.address(value, offset), self.f.gep(self.arguments, self.words, "ptr"))
        self.words += 1

    def move(self, loop: int, even: Operand, odd: Operand) -> None:
        """Write how the next word of arguments changes after each round of a loop."""
        self.put(self.moves, Move, self.moved[loop], {"argument": self.words, "distances": [even, odd]})
        self.moved[loop] += 1

    def address(self, value: int, offset: Size) -> Val:
        """The address of a value, plus an offset in bytes."""
        a, kind = self.a, self.plan.values[value].kind
        if kind == "constant":
            return self.f.gep(Val("@core.weights", "ptr"), a.add(self.writer.constants[value], a.size(offset)))
        if kind == "packed":
            return Val("null", "ptr")
        if kind == "temporary":
            place = self.at.temporaries.get(self.plan.root(value), 0)
            return self.f.gep(self.workspace, a.add(place, a.size(offset)))
        return self.f.gep(self.bases[value], a.size(offset))

    def launch(self, row: DriverRow) -> dict[str, Operand]:
        """The fields of a launch's row."""
        step, share = self.plan.steps[row.step], self.at.shares[row.step]
        self.f.comment(step.label)
        kernel = Val(f"@{self.writer.kernels[step.code]}", "ptr")
        return {
            "kernel": kernel,
            "extent": share.extent,
            "grain": share.grain,
            "idle": step.idle,
            "may_stop": step.may_stop,
        }

    def control(self, row: DriverRow, turns: Mapping[int, int]) -> dict[str, Operand]:
        """The fields of a row that changes the control flow."""
        if row.loop is None:
            return {"target": row.target}
        number, most = row.loop.number, row.loop.most(ENDLESS)
        first_move = self.writer.first_move[number]
        return {
            "target": row.target,
            "first_argument": turns[number],
            "extent": self.a.size(most),
            "moves": self.f.gep(self.moves, first_move * size_of(Move)),
            "move_count": self.moved[number] - first_move,
            "alone": number in self.writer.alone,
        }

    def run(self) -> None:
        """Write the descriptor and call the driver."""
        f, at = self.f, self.at
        f.comment("the descriptor")
        descriptor: dict[str, Operand] = {
            "arguments": self.arguments,
            "argument_count": self.words,
            "fixups": self.arguments,
            "rows": self.rows,
            "row_count": len(self.writer.rows),
            "arguments_offset": at.arguments,
            "ends_offset": at.ends,
            "scratch_offset": at.scratch,
            "scratch_stride": at.stride,
            "workspace_bytes": at.total,
            "team": at.team,
            "pool": self.writer.pool,
        }
        self.put(self.descriptor, Descriptor, 0, descriptor)
        stopped = f.call("nacre.run", "i64", [self.descriptor, f["bases"], self.workspace])
        if self.plan.failures:
            with f.when(f.icmp("ne", stopped, 0)):
                outcome = f.gep(self.workspace, at.scratch)
                f.call("nacre.failure", "void", [outcome, self.writer.templates(), Val("@core.message", "ptr")])
        f.ret(stopped)
