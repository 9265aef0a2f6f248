"""Anomalies of numbers: their kinds, the shares of elements from which they are reported, and what a report says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nacre.base.records import dataclass
from nacre.base.types import TensorType

Kinds = frozenset[str]

KINDS: Final[Mapping[str, tuple[str, str]]] = {  # what the message calls each kind, and what to do
    "division": ("divisions by zero", "keep the operand away from the pole, by nc.clip or a small number added to it"),
    "nan": ("NaN made from numbers", "keep the operands in the domain of the operation"),
    "overflow": ("infinities made from finite numbers", "scale the operands down, or compute in a wider dtype"),
    "input": ("NaN that came in with an operand", "look at the data and parameters; no examined operation made it"),
    "underflow": (
        "zeros made from other numbers",
        "scale the operands up, compute with logarithms, or in a wider dtype",
    ),
    "saturation": ("gradients lost by saturation", "scale the operand down, or normalise it"),
}
ALL: Final[Kinds] = frozenset(KINDS)
MADE: Final[Kinds] = frozenset(("division", "nan", "overflow", "input"))  # all seen as numbers that are not finite
SHARES: Final[Mapping[str, float]] = {  # of a result's elements, from which a kind is reported; others from one element
    "underflow": 0.5,
    "exponentials": 1.0,  # underflow of exp and exp2
    "saturation": 0.5,
}
BACKWARD: Final = " [backward]"  # at the end of the source of an equation of a backward pass
INSIDE: Final = " in "  # between the line and the path of the module


@dataclass(frozen=True)
class OperandRange:
    """The type of an operand, its finite numbers' least and largest, and how many of its elements are not finite."""

    type: TensorType
    least: float | None = None
    largest: float | None = None
    nan: int = 0
    infinite: int = 0

    def __str__(self) -> str:
        if self.least is None:
            held = f"{self.type}"
        else:
            held = f"{self.type} from {self.least:.6g} to {self.largest:.6g}"
        more = [f"{n} {what}" for n, what in ((self.nan, "NaN"), (self.infinite, "infinite")) if n]
        return f"{held} with {' and '.join(more)}" if more else held


@dataclass(frozen=True)
class Anomaly:
    """What the first operation with an anomaly did, and where.

    `share` is the part of the elements of the result, of type `type`, that have the anomaly.  `line` is the user's, as
    `file:line (function)`; `module` is the path of the innermost module, empty outside of modules.  `backward` says
    whether the operation belongs to the backward pass; `line` and `module` are then those of the forward operation.
    `rounds` are the numbers of the rounds of loops in which it ran, outermost first.
    """

    kind: str
    operation: str
    type: TensorType
    count: int
    operands: tuple[OperandRange, ...]
    line: str = ""
    module: str = ""
    backward: bool = False
    rounds: tuple[int, ...] = ()

    @property
    def share(self) -> float:
        """The part of the elements of the result that have the anomaly."""
        return self.count / max(1, int(self.type.size))

    def __str__(self) -> str:
        what, advice = KINDS[self.kind]
        place = f"; at {self.line}" if self.line else ""
        place += f", in {self.module}" if self.module else ""
        place += "".join(f", round {k}" for k in self.rounds)
        found = f"{self.operation} ({'backward' if self.backward else 'forward'})"
        given = "; ".join(f"operand {k}: {each}" for k, each in enumerate(self.operands))
        return (
            f"detect_anomalies: operations must be free of {what}; {found} has them in {self.count} of "
            f"{self.type.size} elements ({self.share:.0%}) of {self.type}{place}; {given}; {advice}"
        )


def placed(source: str) -> tuple[str, str, bool]:
    """The line, the module's path, and whether an equation belongs to a backward pass, from its source."""
    backward = source.endswith(BACKWARD)
    line, _, module = source.removesuffix(BACKWARD).partition(f"){INSIDE}")
    return f"{line})" if module else line, module, backward
