"""Programs made ahead, on another thread: those of the pullbacks of eager operations that are recorded.

The backward pass runs these graphs after the forward pass, in which other processors are often idle.  A thread that
needs a program before it is complete waits for it, or makes it itself.  The program is the same in each case.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from nacre.base.locks import Turns, once
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.codegen.entry.texts import begin_text, sweep_text
from nacre.compile.extensions import forget_on_change, generation, versions
from nacre.compile.program.cache import made, program
from nacre.interpret.pullback import Positions, Rule, rule_for
from nacre.interpret.reverse import fused_rule
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.native import compile_workers
from nacre.runtime.executable import Executable

MOST: Final = 1024  # programs that no backward pass has used so far

_made: dict[Graph, Executable] = {}  # in exact numerics
_turns = Turns()
forget_on_change(lambda: _turns.clear(_made))


def equation_rule(
    primitive: Primitive, params: Mapping[str, Any], types: tuple[TensorType, ...], active: Positions
) -> Rule | None:
    """The rule of an operation that is an equation, whose pullback will be needed."""
    return _begun(rule_for(primitive, params, types, active))


def function_rule(graph: Graph, active: Positions) -> Rule | None:
    """The rule of an operation that is a graph of several equations, whose pullback will be needed."""
    return _begun(fused_rule(graph, active))


def _begun(rule: Rule | None) -> Rule | None:
    """The rule; the program of its pullback is made on another thread, if it has one of its own."""
    pull = None if rule is None else rule.pulls.get(rule.traced)
    if pull is None or pull.direct is not None or STATE.word or STATE.numerics != "exact":
        return rule
    graph, key = pull.graph, ("begun", generation())
    shared = pull.single is not None and all([t.static for t in graph.input_types])  # with the operation it consists of
    if not (shared or graph.needs_python or key in graph.kept):
        graph.kept[key] = True
        if versions(graph) == []:  # code of users runs in their own threads alone
            _begin_sweep()
            compile_workers.begin_later(partial(_make, graph))
    return rule


@once
def _begin_sweep() -> None:
    """Compile the native backward pass on another thread."""
    begin_text(sweep_text)


def _make(graph: Graph) -> None:
    """Make a program, and load its code."""
    _turns.fill(_made, graph, MOST, lambda: made(graph), generation).load()


def program_of(graph: Graph) -> Executable:
    """The program of a graph, perhaps made ahead."""
    found = None
    if STATE.numerics == "exact":
        found = _turns.take((id(_made), hash(graph)), lambda: _made.pop(graph, None))
    return program(graph, made_ahead=found)
