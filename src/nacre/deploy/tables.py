"""Tables of how templates divide their work, computed at compile time for every size.

A template's `cut` is Python code that chooses block sizes.  Its answers for the sizes that a program admits become
columns of numbers.  A column that does not change becomes one number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from nacre.base.dims import LIMIT, Dim, Symbol, evaluate
from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.deploy.sizes import SizeArithmetic
from nacre.native.llvm_values import Operand, Val
from nacre.runtime.plan import Cut, Launch

MOST = 1 << 16  # combinations of sizes for which a table is written
TEAM = 8  # threads that work is divided for; any number of threads may share it


@dataclass(frozen=True)
class LaunchTable:
    """The answers of one launch's `cut` for all values of its symbols: extent, grain, scratch, words."""

    symbols: tuple[Symbol, ...]
    rows: tuple[tuple[int, ...], ...]

    def column(self, k: int) -> Sequence[int]:
        """One of the numbers for all values; the last symbol's value changes fastest."""
        return [row[k] for row in self.rows]


def table(step: Launch, threads: int) -> LaunchTable:
    """Call a launch's `cut` for every value of the symbols that it depends on."""
    assert step.cut is not None
    found = {s for n in step.cut_sizes if isinstance(n, Dim) for s in n.symbols()}
    symbols = tuple(sorted(found, key=lambda s: s.name))
    count = 1
    for s in symbols:
        count *= s.high - s.low + 1
        if s.high >= LIMIT or count > MOST:
            shown = ", ".join(f"{q.name} from {q.low} to {'any size' if q.high >= LIMIT else q.high}" for q in symbols)
            raise CompileError(
                f"deploy: symbolic sizes need bounds with at most {MOST} combinations; {step.label} depends on "
                f"{shown}; write nc.Dim({s.name!r}, max=512)"
            )
    answers: dict[tuple[int, ...], tuple[int, ...]] = {}
    rows: list[tuple[int, ...]] = []
    for values in itertools.product(*(range(s.low, s.high + 1) for s in symbols)):
        sizes = dict(zip((s.name for s in symbols), values, strict=True))
        given = tuple(evaluate(n, sizes) for n in step.cut_sizes)
        if given not in answers:
            answers[given] = _flat(step.cut(given, threads))
        rows.append(answers[given])
    return LaunchTable(symbols, tuple(rows))


def _flat(cut: Cut) -> tuple[int, ...]:
    return (cut.extent, cut.grain, cut.scratch, *cut.arguments)


def read(a: SizeArithmetic, name: str, answers: LaunchTable) -> Iterator[Operand]:
    """The answers for the current sizes: numbers, or loads from constant arrays."""
    index: Operand = 0
    for s in answers.symbols:
        index = a.add(a.mul(index, s.high - s.low + 1), a.sub(a.symbols[s.name], s.low))
    for k in range(len(answers.rows[0])):
        column = answers.column(k)
        if len(set(column)) == 1:
            yield column[0]
        else:
            yield _load(a, f"{name}.{k}", column, index)


def _load(a: SizeArithmetic, name: str, column: Sequence[int], index: Operand) -> Val:
    bits = next(b for b in (8, 16, 32, 64) if -(1 << (b - 1)) <= min(column) and max(column) < 1 << (b - 1))
    kind = f"i{bits}"
    numbers = ", ".join(f"{kind} {n}" for n in column)
    array = a.f.module.constant(name, f"[{len(column)} x {kind}]", f"[{numbers}]", 16)
    return a.f.cast("sext", a.f.load(a.f.gep(array, index, kind), kind), "i64")
