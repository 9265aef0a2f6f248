"""The native way of a call: one entry reads arguments and variables, runs the program and stores results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.base import tree
from nacre.codegen.entry.points import entry, step_entry
from nacre.codegen.entry.variables import ProgramVariables
from nacre.trace.variable import Variable
from nacre.transform.concrete import ConcreteFunction

# the slots that native code reads and sets
_SLOTS = ("cell", "gradient_cell", "gradient", "requires_grad", "wants_gradient")


def native(concrete: ConcreteFunction, fallback: Callable[..., Any]) -> Callable[..., Any] | None:
    """The native callable of a concrete function of fixed sizes, from the tensors in its arguments to its answer.

    Calls with arguments that are not plain, or in another state, go to the fallback.  The guards are checked too if the
    function is flat.  Returns None for functions that only Python runs: those that change or donate arguments, whose
    results have nodes, or whose variables have custom slots.
    """
    gradients = concrete.key[2][0]  # type: ignore[index]
    if (
        concrete.changed
        or concrete.given
        or (concrete.tracked and gradients)
        or concrete.trace.recorded
        or concrete.has_arrays
    ):
        return None
    if not all(
        getattr(type(r.variable), name) is getattr(Variable, name) for r in concrete.trace.variables for name in _SLOTS
    ):
        return None
    if concrete.bare:
        return entry(concrete.executable, fallback, keeps=True, any_mode=True)
    overwrites = concrete.in_place
    if overwrites is None:
        program = entry(concrete.executable, fallback, keeps=True, any_mode=True)
    else:
        program = overwrites.native
    number = {v: k for k, v in enumerate(concrete.variable_inputs)}
    around = ProgramVariables(
        captures=concrete.trace.captures,
        watched=concrete.captures,
        numbers=concrete.sources,
        read=_slots(concrete.variable_inputs, "cell") + _slots(concrete.gradient_inputs, "gradient_cell"),
        written=_slots(concrete.variable_outputs, "cell") + _slots(concrete.gradient_outputs, "gradient_cell"),
        cleared=_slots(concrete.cleared, "gradient_cell"),
        kept=[((v, "gradient_cell"), None, was) for v, was in concrete.gradient_none]
        + [((v, "wants_gradient"), was, True) for v, was in concrete.gradient_wanted]
        + [((v, "hooks"), was, True) for v, was in concrete.gradient_hooks],
        hidden={} if overwrites is None else {number[v]: place for v, place in overwrites.hides},
    )
    seen = number.keys() >= {*concrete.variable_outputs, *concrete.gradient_outputs}
    holds = None if not concrete.flat else concrete.guards_hold if seen else concrete.holds
    return step_entry(program, concrete.trace.results, around, holds, _finish(concrete), fallback)


def _slots(variables: tuple[Variable, ...], name: str) -> list[tuple[Variable, str]]:
    return [(v, name) for v in variables]


def _finish(concrete: ConcreteFunction) -> object:
    """The function that converts the tuple of a call's results to its answer, for `step_entry`."""
    structure = concrete.structure
    if concrete.statics or concrete.superseded:
        return concrete.answer
    if structure == tree.LEAF:
        return None
    return tuple if structure.kind is tuple and all(c == tree.LEAF for c in structure.children) else concrete.answer
