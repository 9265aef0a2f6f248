"""Recorded parts of a function: they run on placeholders, and the values of variables at their end are results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.stage import Trace, stage
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.trace.value import Value
from nacre.transform.autograph.cells import MISSING, Variables, cells_of, read
from nacre.transform.autograph.forms import Opened, opened
from nacre.transform.autograph.messages import require_no_effects
from nacre.transform.autograph.side_effects import SideEffects
from nacre.transform.autograph.statements import SourcePlace, Statement


class _Recording(threading.local):
    def __init__(self) -> None:
        self.depth = 0  # parts that are being recorded
        self.filled: list[list[Any]] = []  # for each loop, variables with zeros for values that do not exist
        self.bounds: list[Size | None] = []  # for each loop, the most iterations, if the body says so


RECORDING = _Recording()


@dataclass
class RecordedPart:
    """A recorded part: the values of variables at its end, and the atoms of their tensors."""

    trace: Trace
    ends: dict[str, Opened]
    value: Opened  # the result
    atoms: dict[int, Atom]  # by the identities of tensors
    changed: dict[int, Atom]  # the arguments that `x[i] = v` changed, with their values
    kept: list[Value]  # the tensors, so that no others have their identities

    def with_results(self, atoms: Sequence[Atom], more: Sequence[Equation] = ()) -> Trace:
        """The trace with these results, and without captures that they do not need."""
        graph, t = self.trace.graph, self.trace
        equations = (*graph.equations, *more)
        outputs = (*atoms, *graph.outputs[t.results :])
        used: set[Atom] = {a for e in equations for a in e.inputs} | set(outputs)
        at, end = t.arguments, t.arguments + len(t.captures)
        needed = [v in used for v in graph.inputs[at:end]]
        captures = tuple(x for x, keep in zip(t.captures, needed, strict=True) if keep)
        kept = tuple(v for v, keep in zip(graph.inputs[at:end], needed, strict=True) if keep)
        inputs = (*graph.inputs[:at], *kept, *graph.inputs[end:])
        made = Graph(inputs, equations, outputs, graph.name)
        return replace(t, graph=made, results=len(atoms), captures=captures, fixed=frozenset[int]())

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The arguments of the graph."""
        return self.trace.graph.inputs[: self.trace.arguments]


@dataclass
class Request:
    """A part of a statement to record, the names whose values at its end are results, and the tensors of the function
    that are arguments."""

    place: SourcePlace
    statement: Statement
    part: Callable[..., Any] | None
    variables: Variables  # all that the parts of the statement name
    names: Sequence[str]


def recorded(
    request: Request,
    types: Sequence[TensorType],
    begin: Callable[[Sequence[Value]], tuple[Mapping[str, Any], Mapping[int, Any], Sequence[Any]]],
) -> RecordedPart:
    """Record a part.

    `begin` says for the placeholders which values variables have, which objects placeholders stand for, and what the
    part gets.
    """
    ends: dict[str, Opened] = {}
    values: list[Opened] = []
    tensors: list[Value] = []
    changed: list[int] = []
    variables, names = request.variables, frozenset((*request.names, *request.statement.names))

    def run(*arguments: Value) -> list[Value]:
        """The part on placeholders; returns all tensors that may be results."""
        before, contents = variables.values(), [x.content for x in arguments]
        given, known, items = begin(arguments)
        variables.set(dict(given))
        effects = SideEffects(request.part, names) if request.part is not None else None
        RECORDING.depth += 1
        try:
            value = request.part(*items) if request.part is not None else MISSING
            values.append(opened(value))
            ends.update({name: opened(read(variables.cells[name]), known) for name in request.names})
            if effects is not None:
                require_no_effects(request.place, request.statement, effects)
        finally:
            RECORDING.depth -= 1
            variables.set(before)
        changed.extend(k for k, x in enumerate(arguments) if x.content is not contents[k])
        tensors.extend(t for o in (*values, *ends.values()) for t in o.tensors)
        tensors.extend(arguments[k] for k in changed)
        return tensors

    trace = stage(run, types, request.place.name.rpartition(".")[2])
    atoms = {id(x): a for x, a in zip(tensors, trace.graph.outputs, strict=False)}
    first = trace.results - len(changed)
    new = {k: trace.graph.outputs[first + n] for n, k in enumerate(changed)}
    return RecordedPart(trace, ends, values[0], atoms, new, tensors)


def stored_tensors(statement: Statement, variables: Variables) -> list[Value]:
    """The tensors whose elements a statement may assign, as `x[i] = v`."""
    roots = {w.root for w in statement.writes if w.is_item}
    found = {id(x): x for name in roots & variables.cells.keys() if isinstance(x := read(variables.cells[name]), Value)}
    return list(found.values())


def standing_for(tensors: Sequence[Value], arguments: Sequence[Value], variables: Variables) -> dict[str, Any]:
    """The values of variables that hold these tensors, with arguments in their place."""
    stands = {id(x): a for x, a in zip(tensors, arguments, strict=True)}
    return {name: stands[id(x)] for name, x in variables.values().items() if id(x) in stands}


def all_variables(*parts: Callable[..., Any] | None) -> Variables:
    """The variables that parts of a function name."""
    cells = cells_of(*parts)
    return Variables(cells, cells)
