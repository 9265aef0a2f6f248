"""Staging: run Python code on values without numbers and record what it does as a graph.

Concrete values, and values of lower levels, that are met inside become captured inputs, once each
and in order; concrete scalars become literals.  Variables read become inputs, variables written
become outputs (see `VariableRecord`).  Every equation carries the user's line.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import ref

import numpy as np

from nacre.base.errors import TraceError, explain
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir import text as text  # so that graphs print
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Primitive
from nacre.ir.rewrite import substitute
from nacre.ops.detach import detach_p
from nacre.trace.bind import bind, inside, next_level
from nacre.trace.value import Payload, Value, fresh, make
from nacre.trace.variable import Leaf, Variable, scope

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
COMMAND_LINE: Final = os.path.join(PACKAGE, "cli", "main.py")


class Staged(Payload):
    """A value of a graph that is being recorded."""

    __slots__ = ("atom",)

    def __init__(self, interpreter: Staging, atom: Atom) -> None:
        self.level, self.interpreter, self.atom = interpreter.level, interpreter, atom


class VariableRecord:
    """What a staged function did to one variable."""

    __slots__ = (
        "gradient",
        "gradient_input",
        "gradient_known",
        "gradient_output",
        "gradient_was_none",
        "gradient_written",
        "input",
        "leaf",
        "output",
        "value",
        "variable",
        "wanted",
        "written",
    )

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self.wanted = variable.requires_grad  # whether its gradient is wanted, at entry
        self.input: Var | None = None  # its value at entry, if that was read
        self.value: Value | None = None  # what it holds now
        self.written = False
        self.output: Atom | None = None  # what it holds at the end, if it was written
        self.leaf: Leaf | None = None
        self.gradient_known = False  # `gradient` is what `.gradient` holds now
        self.gradient: Value | None = None
        self.gradient_was_none: bool | None = None  # at entry; None if that was never asked
        self.gradient_input: Var | None = (
            None  # its gradient at entry, if that was read and there was one
        )
        self.gradient_written = False
        self.gradient_output: Atom | None = (
            None  # the gradient at the end, if written; None if it was cleared
        )


@dataclass(frozen=True)
class Trace:
    """The result of staging a function.

    The graph's inputs are the arguments, then the captures, then `variable_inputs`, then
    `gradient_inputs`; its outputs are the function's results, then `variable_outputs`, then
    `gradient_outputs`.
    """

    graph: Graph
    arguments: int
    results: int
    captures: tuple[Value, ...]
    variables: tuple[VariableRecord, ...]

    @property
    def variable_inputs(self) -> list[Variable]:
        """The variables whose value at entry is an input, in order."""
        return [r.variable for r in self.variables if r.input is not None]

    @property
    def gradient_inputs(self) -> list[Variable]:
        """The variables whose gradient at entry is an input, in order."""
        return [r.variable for r in self.variables if r.gradient_input is not None]

    @property
    def variable_outputs(self) -> list[Variable]:
        """The variables that were written, in order."""
        return [r.variable for r in self.variables if r.written]

    @property
    def gradient_outputs(self) -> list[Variable]:
        """The variables whose gradient at the end is an output, in order."""
        return [
            r.variable
            for r in self.variables
            if r.gradient_written and r.gradient_output is not None
        ]

    @property
    def gradients_cleared(self) -> list[Variable]:
        """The variables whose gradient is None at the end and was set so inside, in order."""
        return [
            r.variable for r in self.variables if r.gradient_written and r.gradient_output is None
        ]


class Staging:
    """The interpreter that records a graph.  While it is active it takes every operation up to its
    level."""

    dynamic = True

    def __init__(self, name: str = "graph", source: str | None = None) -> None:
        self.name = name
        self.level = next_level()
        self.ended = False
        self.source = source  # the line of what is recorded now, if not the user's current one
        self.arguments: list[Var] = []
        self.captured: dict[object, tuple[Var, Value]] = {}
        self.records: dict[Variable, VariableRecord] = {}
        self.equations: list[Equation] = []
        self.changed: list[tuple[ref[Value], Any, Any, Any]] = []  # objects of lower levels, as they were
        self.silent: dict[Atom, Var | None] = {}  # made in `no_grad`, and as what other equations read them

    # ---- equations

    def process(
        self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]
    ) -> Any:
        """Record an equation; its results are staged values."""
        if self.ended:
            raise _leaked(self.name, primitive.name)
        atoms = tuple(map(self.read_atom, inputs))
        outputs = tuple(map(Var, primitive.result_types(tuple(x.type for x in inputs), params)))
        line = user_line() if self.source is None else self.source
        self.equations.append(Equation(primitive, atoms, params, outputs, line))
        if not STATE.gradients:
            self.silent.update(dict.fromkeys(outputs))
        if primitive.multiple:
            return tuple(map(self.value, outputs))
        return self.value(outputs[0])

    def read_atom(self, x: Value) -> Atom:
        """The atom that an equation or a caller reads: detached, if it was made in `no_grad` and this is not."""
        found = self.atom(x)
        if not STATE.gradients or found not in self.silent:
            return found
        known = self.silent[found]
        if known is None:
            known = self.silent[found] = Var(found.type)
            line = user_line() if self.source is None else self.source
            self.equations.append(Equation(detach_p, (found,), {}, (known,), line))
        return known

    def value(self, atom: Atom, node: Any = None) -> Value:
        """The staged value of an atom of this graph."""
        return make(atom.type, Staged(self, atom), None, node)

    def argument(self, type: TensorType) -> Value:
        """A new input of the graph."""
        v = Var(type)
        self.arguments.append(v)
        return self.value(v)

    def atom(self, x: Value) -> Atom:
        """What stands for a value in this graph; anything from outside is captured."""
        data = x.data
        if isinstance(data, Payload):
            if data.interpreter is self:
                return data.atom  # type: ignore[attr-defined]
            if getattr(data.interpreter, "ended", False) or data.level >= self.level:
                raise _leaked(getattr(data.interpreter, "name", "a transformation"), self.name)
        elif not x.type.shape and x.node is None:
            return Literal(np.array(to_numpy(x)), x.type)
        key = (id(data), id(x.node), x.layout, x.type)
        found = self.captured.get(key)
        if found is None:
            found = self.captured[key] = Var(x.type), fresh(x)
        return found[0]

    # ---- objects that `x[i] = v` changes

    def rebound(self, x: Value) -> None:
        """Note that an object is about to hold another value."""
        if not isinstance(x.data, Payload) or x.data.level < self.level:
            self.changed.append((ref(x), x.data, x.layout, x.node))

    def restore(self) -> list[Value]:
        """Let objects of lower levels hold again what they held; those that still exist are from outside."""
        found: list[Value] = []
        for place, data, layout, node in reversed(self.changed):
            x = place()
            if x is not None:
                x.data, x.layout, x.node = data, layout, node
                found.append(x)
        return found

    # ---- variables

    def record(self, variable: Variable) -> VariableRecord:
        """The record of a variable, made at its first mention."""
        found = self.records.get(variable)
        if found is None:
            found = self.records[variable] = VariableRecord(variable)
        return found

    def read(self, variable: Variable) -> Value:
        """What a variable holds now, with a leaf of this level if its gradient is wanted."""
        r = self.record(variable)
        if r.value is None:
            r.input = Var(variable.type)
            r.value = self.value(r.input, self._leaf(r))
        return r.value if r.leaf is not None else fresh(r.value)

    def _leaf(self, r: VariableRecord) -> Leaf | None:
        if r.leaf is None and r.variable.requires_grad:
            r.leaf = Leaf(self.level, r.variable)
        return r.leaf

    def write(self, variable: Variable, value: Value) -> None:
        """Replace what a variable holds from here on."""
        r = self.record(variable)
        r.value = self.value(self.atom(value), self._leaf(r))
        r.written = True

    def read_gradient(self, variable: Variable) -> Value | None:
        """The gradient of a variable now, or None."""
        r = self.record(variable)
        if not r.gradient_known:
            r.gradient_known = True
            r.gradient_was_none = self._outer_gradient(variable) is None
            if not r.gradient_was_none:
                r.gradient_input = Var(variable.type)
                r.gradient = self.value(r.gradient_input)
        return r.gradient

    def _outer_gradient(self, variable: Variable) -> Value | None:
        for interpreter in reversed(STATE.interpreters):
            if interpreter.dynamic and interpreter.level < self.level:
                return interpreter.read_gradient(variable)
        return variable.gradient_cell

    def write_gradient(self, variable: Variable, value: Value | None) -> None:
        """Replace the gradient of a variable from here on."""
        r = self.record(variable)
        r.gradient = None if value is None else self.value(self.atom(value))
        r.gradient_known = r.gradient_written = True

    # ---- the end

    def finish(self, outputs: Sequence[Value]) -> Trace:
        """The graph and what it captured."""
        results = [self.read_atom(y) for y in outputs]
        records = tuple(self.records.values())
        for r in records:
            if r.written:
                assert r.value is not None
                r.output = self.atom(r.value)
            if r.gradient_written and r.gradient is not None:
                r.gradient_output = self.atom(r.gradient)
        results += [r.output for r in records if r.output is not None]
        results += [r.gradient_output for r in records if r.gradient_output is not None]
        captured = list(self.captured.values())
        inputs = self.arguments + [v for v, _ in captured]
        inputs += [r.input for r in records if r.input is not None]
        inputs += [r.gradient_input for r in records if r.gradient_input is not None]
        graph = Graph(tuple(inputs), tuple(self.equations), tuple(results), self.name)
        return Trace(
            graph, len(self.arguments), len(outputs), tuple(x for _, x in captured), records
        )


def stage(
    f: Callable[..., Sequence[Value]],
    types: Sequence[TensorType],
    name: str = "graph",
    source: str | None = None,
) -> Trace:
    """Record what f does to arguments of the given types; f returns a flat sequence of values.

    Equations are said to come from `source`, or else from the user's line.
    """
    staging = Staging(name, source)
    try:
        trace = inside(staging, lambda: staging.finish(f(*map(staging.argument, types))))
    except BaseException:
        staging.restore()
        raise
    finally:
        staging.ended = True
    if staging.restore():
        gc.collect()  # what the function made for itself may be part of a cycle
        outside = staging.restore()
        if outside:
            raise _from_outside(name, outside[0].type)
    return trace


def derived(f: Callable[..., Sequence[Value]], types: Sequence[TensorType], name: str) -> Graph:
    """A graph that is made of other graphs or of rules: from no line of its own, captures become
    literals."""
    trace = stage(f, types, name, "")
    known = {
        v: Literal(np.array(to_numpy(x)), x.type)
        for v, x in zip(trace.graph.inputs[trace.arguments :], trace.captures, strict=True)
    }
    return substitute(trace.graph, known) if known else trace.graph


@contextmanager
def holding(values: Mapping[Variable, Value]) -> Generator[None]:
    """Let variables hold other values inside, nodes included; what the block assigns to them stays.

    This is how transformations differentiate with respect to variables that a function reads by
    itself.
    """
    staging = scope()
    places: list[Any] = [staging.record(v) if isinstance(staging, Staging) else v for v in values]
    field = "value" if isinstance(staging, Staging) else "cell"
    before = [(getattr(place, field), place.leaf) for place in places]
    for place, value in zip(places, values.values(), strict=True):
        setattr(place, field, value)
        place.leaf = value.node or place.leaf
    held = [getattr(place, field) for place in places]
    try:
        yield
    finally:
        for place, (value, leaf), given in zip(places, before, held, strict=True):
            place.leaf = leaf
            if getattr(place, field).data is given.data:
                setattr(place, field, value)


# ---- running a graph equation by equation


def constant(literal: Literal) -> Value:
    """The value of a literal: a literal of the graph being recorded, or a concrete value."""
    staging = scope()
    if isinstance(staging, Staging):
        return staging.value(literal)
    return from_numpy(literal.array)


def run(graph: Graph, inputs: Sequence[Value], source: str = "") -> list[Value]:
    """Bind the equations of a graph one by one, under whatever interpreters are active.

    Where they are recorded, equations without a line are said to come from `source`.
    """
    known: dict[Var, Value] = dict(zip(graph.inputs, inputs, strict=True))

    def value(a: Atom) -> Value:
        """The value of a variable computed so far, or of a literal."""
        return known[a] if isinstance(a, Var) else constant(a)

    staging = scope()
    recording = staging if isinstance(staging, Staging) else None
    line = recording.source if recording is not None else None
    try:
        for e in graph.equations:
            if recording is not None:
                recording.source = e.source or source or line
            results = bind(e.primitive, *map(value, e.inputs), **e.params)
            known.update(
                zip(e.outputs, results if e.primitive.multiple else (results,), strict=True)
            )
    finally:
        if recording is not None:
            recording.source = line
    return [value(a) for a in graph.outputs]


# ---- where the user is

_lines: dict[tuple[str, int, str], str] = {}


def user_line() -> str:
    """The innermost line outside the package, as `file:line (function)`; empty below the package's command line."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # CPython's own name for it
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_code.co_filename == COMMAND_LINE:
            return ""
        frame = frame.f_back
    key = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    found = _lines.get(key)
    if found is None:
        found = _lines[key] = f"{key[0]}:{key[1]} ({key[2]})"
    return found


def _from_outside(name: str, type: TensorType) -> TraceError:
    return TraceError(
        explain(
            f"x[i] = v: an argument of {name}, or a tensor made inside it, is required; got one of type {type} from "
            "outside",
            "seen = nc.zeros(3)\n@nc.jit\ndef f(x):\n    seen[0] = x.sum()\n    return x",
            "What a function is traced with from outside is a constant of its graph; only arguments and variables "
            "change from call to call.",
            "seen = nc.zeros(3)\n@nc.jit\ndef f(x, seen):\n    seen[0] = x.sum()\n    return x\nf(x, seen)",
        )
    )


def _leaked(name: str, where: str) -> TraceError:
    return TraceError(
        explain(
            f"{where}: a value of the function being traced is required; got one left over from "
            f"{name}, which has ended",
            "kept = []\n@nc.jit\ndef f(x):\n    kept.append(x * 2)      # x * 2 has no numbers "
            "yet\n    return x\n"
            "f(x); kept[0] + 1",
            "While a function is traced, its values stand for numbers that do not exist yet; they "
            "mean nothing outside.",
            "@nc.jit\ndef f(x):\n    return x, x * 2\nx, doubled = f(x); doubled + 1",
        )
    )
