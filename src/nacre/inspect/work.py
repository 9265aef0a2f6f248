"""The work of a compiled program, counted without running it: operations, bytes, instructions, kernels, memory.

Counts depend only on the program, so they can be compared between machines and stored.  An operation is one addition,
multiplication, division, comparison … of floats.  A fused multiply-add counts two; an elementary function counts its
definition.  Bytes are those of the elements that a kernel reads and writes, each once.  Loops count every iteration.
Both sides of a branch count, and one iteration of a loop of unknown length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from nacre.base.dims import Size, evaluate
from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.base.types import bytes_of
from nacre.codegen.loops.operations import CHEAP
from nacre.compile.pipeline import Compiled
from nacre.compile.program.launches import Stage
from nacre.ir.graph import Equation
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Stmt,
    Store,
    While,
    children,
    expressions,
    statements,
)
from nacre.kernel.elementary.expansion import expand, steps_within
from nacre.runtime.plan import Launch, Plan, arena

FREE = frozenset(("cast", "bitcast", "select", "copysign"))  # they move bits
COUNTED = {
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv", "sqrt", "oeq", "olt", "ole", "ogt", "oge", "une", "uno"), 1),
    "fma": 2,
}  # operations that an instruction of a definition counts
INSTRUCTION = re.compile(r"^  (?:%[\w.]+ = )?[a-z]", re.MULTILINE)


@dataclass(frozen=True)
class KernelWork:
    """One kernel of a program, possibly with several launches: its place, name, dtype, and work."""

    first: int
    launches: int
    label: str
    dtype: str
    flops: int
    bytes: int


@dataclass(frozen=True)
class Work:
    """The whole program's work."""

    flops: int
    bytes: int
    launches: int
    kernels: int
    instructions: int
    arena: int


def work(compiled: Compiled, sizes: Mapping[str, int]) -> Work:
    """Count a compiled program's work, for given sizes of its symbols.

    `kernels` counts distinct kernels, `instructions` those of their LLVM text, `arena` the bytes of temporaries.
    """
    counted = steps(compiled, sizes)
    executable = compiled.executable
    return Work(
        sum(s.flops for s in counted),
        sum(s.bytes for s in counted),
        len(executable.plan.steps),
        len(executable.codes),
        sum(instructions(c.text) for c in executable.codes),
        arena(executable.plan, sizes)[1],
    )


def traffic(compiled: Compiled, sizes: Mapping[str, int]) -> int:
    """The bytes that any program must read and write for this result: inputs and outputs, each once."""
    plan = compiled.executable.plan
    return sum(evaluate(v.nbytes, sizes) for v in plan.values if v.kind in ("input", "output"))


def instructions(text: str) -> int:
    """The instructions in a module's LLVM text."""
    return len(INSTRUCTION.findall(text))


def steps(compiled: Compiled, sizes: Mapping[str, int]) -> list[KernelWork]:
    """The program's kernels in order; the launches of one equation count as one."""
    plan = compiled.executable.plan
    times = plan.times(sizes)
    found: list[KernelWork] = []
    for first, stages in _by_equation(compiled.stages):
        launches = plan.steps[first : first + len(stages)]
        often = times[first : first + len(stages)]
        flops = sum(n * evaluate(s.flops, sizes) for n, s in zip(often, launches, strict=True))
        moved = sum(
            n * _bytes(plan, launch, stage, sizes) for n, launch, stage in zip(often, launches, stages, strict=True)
        )
        if stages[0].kernel is not None:
            flops += often[0] * operations(stages[0].kernel, sizes)
        found.append(KernelWork(first, len(stages), launches[-1].label, _dtype(stages[0]), flops, moved))
    return found


def _by_equation(stages: Sequence[Stage]) -> Iterator[tuple[int, list[Stage]]]:
    """Stages with the place of the first; those of one template and equation are together."""
    group: list[Stage] = []
    for k, stage in enumerate(stages):
        same = (
            group and stage.kernel is None and group[-1].kernel is None and _same(stage.equations, group[-1].equations)
        )
        if group and not same:
            yield k - len(group), group
            group = []
        group.append(stage)
    if group:
        yield len(stages) - len(group), group


def _same(a: tuple[Equation, ...], b: tuple[Equation, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _dtype(stage: Stage) -> str:
    """The dtype whose arithmetic a stage is about: the first float among its results (or operands)."""
    dtypes = [v.type.dtype for e in reversed(stage.equations) for v in e.outputs or e.inputs]
    return next((d.short for d in dtypes if d.is_inexact), dtypes[0].short if dtypes else "copy")


# ---- bytes


def _bytes(plan: Plan, launch: Launch, stage: Stage, sizes: Mapping[str, int]) -> int:
    if launch.idle:
        return 0  # omitted where a value is updated in place
    if stage.kernel is not None:
        return moved(stage.kernel, sizes)
    given = [evaluate(plan.values[v].nbytes, sizes) for v in launch.reads]
    for k, x in enumerate(stage.equations[0].inputs[: len(given)]):  # a view reads a part of its operand
        given[k] = min(given[k], evaluate(x.type.nbytes, sizes))
    return sum(given) + sum(evaluate(plan.values[v].nbytes, sizes) for v in launch.writes)


def moved(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes that a kernel reads and writes: the elements of each buffer, but no more than its accesses."""
    accesses: dict[str, int] = {}
    _count_accesses(kernel.body, 1, sizes, accesses)
    return sum(int(bytes_of(min(_elements(b, sizes), accesses.get(b.name, 0)), b.dtype)) for b in kernel.buffers)


def _elements(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """The different elements of a buffer: axes of stride 0 repeat them."""
    strides = buffer.strides or (1,) * len(buffer.shape)
    return prod(evaluate(n, sizes) for n, s in zip(buffer.shape, strides, strict=True) if not _is_zero(s))


def _is_zero(size: Size) -> bool:
    return isinstance(size, int) and size == 0


def _count_accesses(body: Sequence[Stmt], times: int, sizes: Mapping[str, int], found: dict[str, int]) -> None:
    for s in body:
        for e in expressions(s):
            for name in _loads(e):
                found[name] = found.get(name, 0) + times
        match s:
            case Store():
                found[s.buffer] = found.get(s.buffer, 0) + times
            case For():
                _count_accesses(s.body, times * evaluate(s.extent, sizes), sizes, found)
            case If():
                _count_accesses((*s.body, *s.orelse), times, sizes, found)
            case While():
                _count_accesses(s.body, times, sizes, found)
            case _:
                pass


def _loads(e: Expr) -> Iterator[str]:
    if isinstance(e, Load):
        yield e.buffer
    for c in children(e):
        yield from _loads(c)


# ---- operations


def operations(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Floating-point operations of a kernel; both sides of a branch count, and one iteration of a search."""
    types = {s.buffer.name: s.buffer.dtype for s in statements(kernel.body) if isinstance(s, Alloc)}
    types |= {b.name: b.dtype for b in kernel.buffers}
    return _operations(kernel.body, sizes, types)


def _operations(body: Sequence[Stmt], sizes: Mapping[str, int], types: Mapping[str, DType]) -> int:
    total = 0
    for s in body:
        total += sum(map(_weight, expressions(s)))
        match s:
            case Accumulate():
                total += int(types[s.accumulators[0]].is_inexact)
            case For():
                total += evaluate(s.extent, sizes) * _operations(s.body, sizes, types)
            case If():
                total += _operations((*s.body, *s.orelse), sizes, types)
            case While():
                total += _operations(s.body, sizes, types)
            case _:
                pass
    return total


def _weight(e: Expr) -> int:
    inside = sum(map(_weight, children(e)))
    if not isinstance(e, Apply) or e.op in FREE:
        return inside
    source = e.args[-1].dtype
    return inside + (of_operation(e.op, source, len(e.args)) if source.is_inexact else 0)


@lru_cache(maxsize=512)
def of_operation(op: str, dtype: DType, operands: int) -> int:
    """The float operations in the straight-line definition of an operation; at least one."""
    if op in CHEAP:
        return 2 if op == "fma" else 1
    return max(1, sum(COUNTED.get(s.name, 0) for s in steps_within(expand(op, dtype, operands).steps)))
