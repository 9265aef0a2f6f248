"""The memory budget of a jitted function: its notation, and the graph that has it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from nacre.base.arguments import is_whole
from nacre.base.errors import ArgumentError, StateError, explain
from nacre.ir.graph import BudgetedGraph
from nacre.transform.concrete import ConcreteFunction

UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
WRITTEN: Final = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})\s*")


def checked_budget(budget: Any, sizes_change: bool) -> int | None:
    """A budget in bytes; ArgumentError for anything but a number, a text such as "512MiB", or None."""
    if budget is None:
        return None
    if sizes_change:
        raise ArgumentError(
            "jit: memory_budget needs the sizes of a program as numbers; got dynamic_shapes, too; leave one of them out"
        )
    written = WRITTEN.fullmatch(budget) if isinstance(budget, str) else None
    if written is not None:
        return int(float(written[1]) * UNITS[written[2]])
    if not isinstance(budget, str) and is_whole(budget) and budget >= 0:
        return int(budget)
    raise ArgumentError(
        f"jit: memory_budget must be a number of bytes, or a text with a unit of {', '.join(UNITS)}; got {budget!r}; "
        'write memory_budget="512MiB", for example'
    )


def budgeted(concrete: ConcreteFunction, name: str, budget: int | None) -> ConcreteFunction:
    """The concrete function with the budget; StateError if a backward pass outside needs values of its calls."""
    if budget is None:
        return concrete
    if concrete.tracked:
        require_not_recorded(name, budget)
    graph = BudgetedGraph(concrete.trace.graph, budget)
    return replace(concrete, trace=replace(concrete.trace, graph=graph))


def require_not_recorded(name: str, budget: int | None) -> None:
    """StateError for a call whose values a later backward pass needs, if there is a budget."""
    if budget is None:
        return
    raise StateError(
        explain(
            f"{name}: a function with a memory_budget must contain its backward pass; got a call that is recorded for "
            "a `backward` outside",
            'loss = nc.jit(loss_of, memory_budget="64MiB")(x)\nloss.backward()',
            "A backward pass outside needs values of the call, so the compiler cannot choose to compute them again.",
            '@nc.jit(memory_budget="64MiB")\ndef step(x):\n    loss = loss_of(x)\n    loss.backward()\n    '
            "optimiser.step()\n    optimiser.zero_grad()\n    return loss",
        )
    )
