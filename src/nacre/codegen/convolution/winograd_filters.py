"""Winograd filters as values at a row of points; one code for the rows at 0 and ∞, one for the rows between."""

from __future__ import annotations

from typing import NamedTuple

from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import SequenceKernel
from nacre.kernel.order_winograd import (
    FILTER_POINTS,
    FILTER_SCALE,
    PATCH,
    Arithmetic,
    at_point,
    of_filter,
)
from nacre.native.llvm_values import Val, literal
from nacre.native.text import Function

KINDS = "edge", "inner"
NUMBERS = 2 + PATCH  # of a row: its point, the point's square, and the factors of its values


class Vectors(Arithmetic[Val]):
    """Arithmetic on vectors of generated code."""

    def __init__(self, f: Function, vector: str) -> None:
        self.f, self.vector = f, vector

    def fma(self, a: Val, c: float | Val, b: Val) -> Val:
        return self.f.fma(a, c if isinstance(c, Val) else self.f.const(self.vector, c), b)

    def add(self, a: Val, b: Val) -> Val:
        return self.f.fadd(a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.f.fsub(a, b)

    def mul(self, a: Val, c: float) -> Val:
        return a if c == 1 else self.f.fmul(a, self.f.const(self.vector, c))


@dataclass(frozen=True)
class FilterRow:
    """Code for the rows of a kind, for filters staged as [channel][tap][lane], possibly read backwards."""

    k: SequenceKernel
    f: Function
    width: int
    turned: bool
    kind: str

    def numbers(self, place: Val) -> list[Val]:
        """The row's numbers, broadcast."""
        k, f = self.k, self.f
        return [f.splat(f.load(f.gep(place, i, k.scalar), k.scalar), k.lanes) for i in range(NUMBERS)]

    def values(self, source: Val, numbers: list[Val]) -> list[Val]:
        """A vector of filters as values at the row, before scaling; at 0 and ∞ the first ones are the taps read."""
        k, f, vectors = self.k, self.f, Vectors(self.f, self.k.vector)
        taps = [
            [f.load(f.gep(source, (i * 3 + j) * self.width, k.scalar), k.vector) for j in range(3)]
            for i in range(1 if self.kind == "edge" else 3)
        ]
        if self.turned:
            taps = [line[::-1] for line in taps[::-1]]
        line = (
            taps[0]
            if self.kind == "edge"
            else [at_point(vectors, column, *numbers[:2]) for column in zip(*taps, strict=True)]
        )
        return of_filter(vectors, line)

    def scaled(self, values: list[Val], point: int, numbers: list[Val]) -> Val:
        """The value at a point of the row."""
        same = FILTER_SCALE[0].index(FILTER_SCALE[0][point])  # the first point with this point's scale
        return self.f.fmul(values[point], numbers[2 + same])


class RowSource(NamedTuple):
    """The arguments of a kind's code for a row: whether it applies, the staged filters, and the row's numbers."""

    chosen: Val
    source: Val
    numbers: Val


def rows_by_kind(k: SequenceKernel, row: Val, stage: Val, width: int, flipped: bool) -> dict[str, RowSource]:
    """The arguments of each kind's code for a row of points of staged filters."""
    f, scalar = k.f, k.scalar
    points = 0.0, *FILTER_POINTS, 0.0
    table = [x for p, scales in zip(points, FILTER_SCALE, strict=True) for x in (p, p * p, *scales)]
    text = ", ".join(f"{scalar} {literal(scalar, x)}" for x in table)
    numbers = f.gep(
        k.module.constant("numbers", f"[{len(table)} x {scalar}]", f"[{text}]"), f.mul(row, NUMBERS), scalar
    )
    first, end = f.icmp("eq", row, 0), f.icmp("eq", row, PATCH - 1)
    edge, later = f.or_(first, end), f.gep(stage, 6 * width, scalar)
    source = f.select(end if not flipped else first, later, stage)
    return {
        "edge": RowSource(edge, source, numbers),
        "inner": RowSource(f.xor(edge, f.const("i1", True)), stage, numbers),
    }
