"""A definition as a list of instructions, to read, to count, or to translate for another machine.

print(expand("exp", float32))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from nacre.base.dtypes import DType, float64, int64
from nacre.base.records import dataclass
from nacre.kernel import elementary
from nacre.kernel.ast import OPERATIONS
from nacre.kernel.elementary.emitter import Emitter, Writer, held
from nacre.kernel.elementary.instructions import INSTRUCTIONS


class Register(NamedTuple):
    """The result of a step, or an argument of the definition."""

    name: str
    dtype: DType

    def __str__(self) -> str:
        return self.name


class ConstantOperand(NamedTuple):
    """A constant."""

    value: float | int | bool
    dtype: DType

    def __str__(self) -> str:
        return f"{self.value!r}:{self.dtype}"


Operand = Register | ConstantOperand


@dataclass(frozen=True)
class ExpansionStep:
    """An instruction, or a `lookup` in a table, or a block: `rarely` executed, or a `repeat`.

    A block's operands are the condition or the number of iterations, and the values without the block or before its
    first iteration.  It starts from the carried registers (of a `repeat`) and ends with the `following` values.
    """

    name: str
    operands: tuple[Operand, ...]
    results: tuple[Register, ...]
    table: tuple[float, ...] = ()
    carried: tuple[Register, ...] = ()
    body: tuple[ExpansionStep, ...] = ()
    following: tuple[Operand, ...] = ()

    def lines(self, indent: str = "  ") -> Iterator[str]:
        """The step as text."""
        left = ", ".join(f"{r}: {r.dtype}" for r in self.results)
        size = f" of {len(self.table)} numbers" if self.table else ""
        yield f"{indent}{left} = {self.name}{size} {', '.join(map(str, self.operands))}"
        if self.following:
            yield f"{indent}  ({', '.join(map(str, self.carried))}) {{"
            for step in self.body:
                yield from step.lines(indent + "    ")
            yield f"{indent}  }} -> {', '.join(map(str, self.following))}"


def steps_within(steps: Sequence[ExpansionStep]) -> Iterator[ExpansionStep]:
    """All steps, including those inside blocks."""
    for step in steps:
        yield step
        yield from steps_within(step.body)


def recorded(name: str) -> Writer:
    """An instruction as a step."""

    def write(e: Expansion, args: Sequence[Operand], source: DType, dtype: DType) -> Register:
        """The step's result."""
        return e.step(name, args, [dtype])[0]

    return write


class Expansion(Emitter):
    """Lists the instructions of a definition."""

    table: ClassVar = {name: recorded(name) for name in INSTRUCTIONS}

    def __init__(self, name: str, arguments: Sequence[DType]) -> None:
        self.name = name
        self.arguments = [Register(f"x{k}", held(d)) for k, d in enumerate(arguments)]
        self.steps: list[ExpansionStep] = []
        self.result: Operand | None = None
        self.count = 0

    def __str__(self) -> str:
        head = ", ".join(f"{a}: {a.dtype}" for a in self.arguments)
        lines = [f"{self.name}({head})", *(line for s in self.steps for line in s.lines()), f"  return {self.result}"]
        return "\n".join(lines)

    def registers(self, dtypes: Sequence[DType]) -> list[Register]:
        """New registers."""
        first = self.count
        self.count += len(dtypes)
        return [Register(f"v{first + k}", d) for k, d in enumerate(dtypes)]

    def step(
        self, name: str, operands: Sequence[Operand], dtypes: Sequence[DType], table: Sequence[float] = ()
    ) -> list[Register]:
        """Add a step, and return its results."""
        results = self.registers(dtypes)
        self.steps.append(ExpansionStep(name, tuple(operands), tuple(results), tuple(table)))
        return results

    def block(
        self,
        name: str,
        operands: Sequence[Operand],
        dtypes: Sequence[DType],
        carried: Sequence[Register],
        write: Callable[[], Sequence[Operand]],
    ) -> list[Register]:
        """Add the steps that `write` adds as a block, and return its results."""
        outside, self.steps = self.steps, []
        following = write()
        inside, self.steps = self.steps, outside
        results = self.registers(dtypes)
        step = ExpansionStep(name, tuple(operands), tuple(results), (), tuple(carried), tuple(inside), tuple(following))
        self.steps.append(step)
        return results

    def constant(self, value: float | int | bool, dtype: DType, like: Operand) -> ConstantOperand:
        """The number itself."""
        return ConstantOperand(value, dtype)

    def lookup(self, name: str, table: Sequence[float], index: Operand) -> Register:
        """A step."""
        return self.step("lookup", [index], [float64], table)[0]

    def rarely(
        self, cond: Operand, fast: Sequence[Operand], slow: Callable[[], Sequence[Operand]], dtypes: Sequence[DType]
    ) -> list[Operand]:
        """A block that runs if the condition holds in some lane."""
        defined = super().rarely
        return [*self.block("rarely", [cond, *fast], dtypes, [], lambda: defined(cond, fast, slow, dtypes))]

    def repeat(
        self,
        count: int,
        values: Sequence[Operand],
        step: Callable[..., Sequence[Operand]],
        dtypes: Sequence[DType],
    ) -> list[Operand]:
        """A block that is executed `count` times."""
        carried = self.registers(dtypes)
        operands = [ConstantOperand(count, int64), *values]
        return [*self.block("repeat", operands, dtypes, carried, lambda: step(*carried))]

    def known(self, x: Operand) -> float | None:
        """The value of a constant."""
        value = float(x.value) if isinstance(x, ConstantOperand) else None
        return value if value == value else None


def expand(op: str, dtype: DType, operands: int | None = None) -> Expansion:
    """The instructions of an operation of the kernel IR on operands of a dtype, for one lane."""
    e = Expansion(op, [dtype] * (operands or OPERATIONS[op][0]))
    e.result = elementary.apply(e, op, e.arguments, dtype)
    return e
