"""What a memory budget made of a plan: the values that are computed twice, and what that costs."""

from __future__ import annotations

from typing import Final

from nacre.base.records import dataclass

SHOWN: Final = 12  # lines of the text


@dataclass(frozen=True)
class RecomputedValue:
    """Values of one operation and type, from one line, that are dropped and computed again, and how many."""

    operation: str
    type: str
    source: str
    nbytes: int
    count: int


@dataclass(frozen=True)
class RecomputationChoice:
    """The choice under a memory budget.

    `unconstrained` and `intermediates` are the bytes of intermediate values without the budget and with it.  `work` is
    the estimated work with the budget, divided by that without it.
    """

    budget: int
    unconstrained: int
    intermediates: int
    work: float
    values: tuple[RecomputedValue, ...]

    def __str__(self) -> str:
        rest = f"budget {self.budget:,} bytes: intermediate values take {self.intermediates:,} bytes"
        if not self.values:
            return f"{rest}, and nothing is computed again"
        lines = [f"{rest} instead of {self.unconstrained:,}, for about {self.work:.2f} times the work"]
        for v in self.values[:SHOWN]:
            place = f"  # {v.source}" if v.source else ""
            lines.append(f"  again: {v.count} x {v.operation} {v.type} ({v.nbytes:,} bytes){place}")
        if len(self.values) > SHOWN:
            lines.append(f"  and {len(self.values) - SHOWN} more")
        return "\n".join(lines)
