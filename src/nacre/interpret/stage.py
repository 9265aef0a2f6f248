"""Staging: run Python code on values without numbers and record it as a graph.

Concrete values, and values of lower levels, become captured inputs, once each and in order; concrete scalars become
literals.  Variables that are read become inputs, variables that are written become outputs (see `VariableRecord`).
Every equation carries the user's source line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from weakref import ref

import numpy as np

from nacre.base.errors import TraceError, explain
from nacre.base.progress import progress
from nacre.base.records import dataclass
from nacre.base.state import STATE, record_gradients, without_autocast
from nacre.base.types import TensorType
from nacre.interpret.called import PACKAGE, fault_place, user_line
from nacre.interpret.changes import Changes, mode_left, not_an_argument
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.tape_errors import questioned, refuse_sweep
from nacre.ir import text as text  # so that graphs print
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Constant, Primitive
from nacre.ir.rewrite import substitute
from nacre.ops.identity import detach_p
from nacre.trace.bind import autocast_state, bind, inside, next_level, set_autocast
from nacre.trace.hooks import GradientHooks
from nacre.trace.reads import original
from nacre.trace.value import Payload, Value, fresh, make
from nacre.trace.variable import Leaf, Variable, scope, standing_in

SHOWN: Final = 64  # operations between two updates of the progress line
TRACED: Final = " was traced"


class StagedValue(Payload):
    """A value of a graph that is being recorded."""

    __slots__ = ("atom",)

    def __init__(self, interpreter: Staging, atom: Atom) -> None:
        self.level, self.interpreter, self.atom = interpreter.level, interpreter, atom


class VariableRecord:
    """The uses of one variable in a staged function."""

    __slots__ = (
        "gradient",
        "gradient_input",
        "gradient_known",
        "gradient_output",
        "gradient_was_none",
        "gradient_written",
        "hooks",
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
        self.wanted = variable.wants_gradient  # whether its gradient is wanted, at entry
        self.input: Var | None = None  # its value at entry, if that was read
        self.value: Value | None = None  # its current value
        self.written = False
        self.output: Atom | None = None  # its value at the end, if it was written
        self.leaf: Leaf | None = None
        self.hooks: tuple[GradientHooks | None] | None = None  # at entry, if a backward pass read them
        self.gradient_known = False  # whether `gradient` is the current `.gradient`
        self.gradient: Value | None = None
        self.gradient_was_none: bool | None = None  # at entry; None if it was not read
        self.gradient_input: Var | None = None  # its gradient at entry, if that was read and there was one
        self.gradient_written = False
        self.gradient_output: Atom | None = None  # the gradient at the end, if written; None if it was cleared


@dataclass(frozen=True)
class Trace:
    """The result of staging a function.

    The graph's inputs are the arguments, then the captures, then `variable_inputs`, then `gradient_inputs`; its outputs
    are the function's results, then `variable_outputs`, then `gradient_outputs`.
    """

    graph: Graph
    arguments: int
    results: int
    captures: tuple[Value, ...]
    variables: tuple[VariableRecord, ...]
    swept: tuple[int, ...] = ()  # the arguments that a `backward` inside would reach if they had nodes
    questioned: tuple[int, ...] = ()  # those that must have none, because the function has read `requires_grad`
    fixed: frozenset[int] = frozenset()  # the captures that were made while the function ran
    recorded: bool = False  # results that `enable_grad` lets be recorded, although the trace was in `no_grad`
    names: tuple[tuple[str, Atom, str], ...] = ()  # given by `nc.name` to values, with the lines that gave them

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
        return [r.variable for r in self.variables if r.gradient_written and r.gradient_output is not None]

    @property
    def gradients_cleared(self) -> list[Variable]:
        """The variables whose gradient was cleared inside and is None at the end, in order."""
        return [r.variable for r in self.variables if r.gradient_written and r.gradient_output is None]


class Staging(Changes):
    """The interpreter that records a graph.  While active, it takes every operation up to its level."""

    dynamic = True

    def __init__(self, name: str = "graph", source: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.level = next_level()
        self.ended = False
        self.source = source  # the line of the recorded equations, if not the user's current one
        self.arguments: list[Var] = []
        self.captured: dict[object, tuple[Var, Value, ref[Value]]] = {}
        self.records: dict[Variable, VariableRecord] = {}
        self.equations: list[Equation] = []
        self.swept, self.questioned = set[int](), set[int]()  # arguments that `backward`, `requires_grad` reached
        self.names: list[tuple[str, Atom, str]] = []  # as of the trace
        self.checks: list[Callable[[Sequence[Value]], None]] = []  # of the results, at the end
        self.silent = set[Atom]()  # those made in `no_grad`
        self.detached: dict[Atom, Var] = {}

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Record an equation; its results are staged values."""
        if self.ended:
            raise _leaked(self.name, primitive.name, *(x.content for x in inputs))
        line = user_line() if self.source is None else self.source
        atoms = tuple(map(self.read_atom, inputs))
        outputs = tuple(map(Var, primitive.result_types(tuple(x.type for x in inputs), params)))
        self.equations.append(Equation(primitive, atoms, params, outputs, line))
        if not len(self.equations) % SHOWN:
            progress("tracing, operation", len(self.equations))
        if not STATE.gradients:
            self.silent.update(outputs)
        if primitive.multiple:
            return tuple(map(self.value, outputs))
        return self.value(outputs[0])

    def read_atom(self, x: Value) -> Atom:
        """The atom that an equation or a caller reads: detached, if it was made in `no_grad` and is read outside."""
        found = self.atom(x)
        return self._detached(found) if STATE.gradients and found in self.silent else found

    def _detached(self, found: Atom) -> Var:
        """The atom without derivative."""
        if found not in self.detached:
            known = self.detached[found] = Var(found.type)
            line = user_line() if self.source is None else self.source
            self.equations.append(Equation(detach_p, (found,), {}, (known,), line))
        return self.detached[found]

    def value(self, atom: Atom, node: Any = None) -> Value:
        """The staged value of an atom of this graph."""
        return make(atom.type, StagedValue(self, atom), None, node)

    def argument(self, type: TensorType) -> Value:
        """A new input of the graph."""
        v = Var(type)
        self.arguments.append(v)
        return self.value(v)

    def atom(self, x: Value) -> Atom:
        """The atom of a value in this graph; a value from outside is captured."""
        data, place = x.content, None
        if isinstance(data, Payload):
            if data.interpreter is self:
                return data.atom  # type: ignore[attr-defined]
            if getattr(data.interpreter, "ended", False) or data.level >= self.level:
                raise _leaked(getattr(data.interpreter, "name", "a transformation"), self.name, data)
        else:
            place = original(x)
            if place is not None and x.node is None is not place.node:
                return self._detached(self._captured(id(place), place))
            if place is None and not x.type.shape and x.node is None:
                return Literal(np.array(to_numpy(x)), x.type)
        if place is not None and x.node is place.node:
            return self._captured(id(place), place)
        return self._captured((id(data), id(x.node), x.layout, x.type), x)

    def _captured(self, key: object, x: Value) -> Var:
        if key not in self.captured:
            self.captured[key] = Var(x.type), fresh(x), ref(x)
        return self.captured[key][0]

    def from_outside(self, type: TensorType) -> TraceError:
        """The error for a tensor that is not an argument of the function."""
        return not_an_argument(self.name, type)

    # ---- variables

    def record(self, variable: Variable) -> VariableRecord:
        """The record of a variable, created at its first use."""
        found = self.records.get(variable)
        if found is None:
            found = self.records[variable] = VariableRecord(variable)
        return found

    def read(self, variable: Variable) -> Value:
        """The current value of a variable, with a leaf of this level if its gradient is wanted."""
        r = self.record(variable)
        if r.value is None:
            r.input = Var(variable.type)
            r.value = self.value(r.input, self._leaf(r))
        return r.value if r.leaf is not None else fresh(r.value)

    def _leaf(self, r: VariableRecord) -> Leaf | None:
        if r.leaf is None and r.variable.wants_gradient:
            r.leaf = Leaf(self.level, r.variable)
        return r.leaf

    def write(self, variable: Variable, value: Value) -> None:
        """Replace the value of a variable from here on."""
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
        r.gradient = None if value is None else self.value(self.atom(value), value.node)
        r.gradient_known = r.gradient_written = True

    def written_gradients(self) -> list[Value]:
        """The gradients that were written to variables so far."""
        return [r.gradient for r in self.records.values() if r.gradient_written and r.gradient is not None]

    def sweep(self, outputs: Sequence[Value]) -> None:
        """Record the inputs that `backward` reaches from outputs; GradientError if it would go beyond this graph."""
        self._reach(outputs, self.swept, refuse_sweep)

    def question(self, x: Value) -> None:
        """Record the inputs on which `x.requires_grad` depends; it is False here, so none may require a gradient."""
        self._reach([x] if self.atom(x) not in self.silent else [], self.questioned, refuse_question)

    def _reach(self, outputs: Sequence[Value], reached: set[int], refuse: Callable[[str, Value], None]) -> None:
        """Add the arguments to which derivatives of outputs lead, and refuse such tensors from outside."""
        read = {self.atom(y) for y in outputs}
        for e in reversed(self.equations):
            if not isinstance(e.primitive.derivative, Constant) and not read.isdisjoint(e.outputs):
                read.update(a for a in e.inputs if a.type.dtype.is_differentiable)
        reached.update(k for k, v in enumerate(self.arguments) if v in read)
        for v, x, _ in self.captured.values():
            if v in read:
                refuse(self.name, x)

    # ---- the end

    def finish(self, outputs: Sequence[Value]) -> Trace:
        """The graph, with its captures and variables."""
        for check in self.checks:
            check([*outputs, *self.written_gradients()])
        made = {v for e in self.equations for v in e.outputs} if not STATE.gradients else set[Atom]()
        results = [self.atom(y) for y in outputs]
        recorded = any(a in made and a not in self.silent for a in results)
        if recorded or STATE.gradients:
            results = [self._detached(a) if a in self.silent else a for a in results]
        records = tuple(self.records.values())
        for r in records:
            if r.written:
                assert r.value is not None
                r.output = self.atom(r.value)
            if r.gradient is not None:
                held = self.atom(r.gradient)
                if r.gradient_written or held is not r.gradient_input:  # `p.grad[i] = v` writes it, too
                    r.gradient_written, r.gradient_output = True, held
        results += [r.output for r in records if r.output is not None]
        results += [r.gradient_output for r in records if r.gradient_output is not None]
        captured = list(self.captured.values())
        inputs = self.arguments + [v for v, *_ in captured]
        inputs += [r.input for r in records if r.input is not None]
        inputs += [r.gradient_input for r in records if r.gradient_input is not None]
        graph = Graph(tuple(inputs), tuple(self.equations), tuple(results), self.name)
        swept, questioned = tuple(sorted(self.swept)), tuple(sorted(self.questioned))
        captures, names = tuple(x for _, x, _ in captured), tuple(self.names)
        at = len(self.arguments), len(outputs)
        return Trace(graph, *at, captures, records, swept, questioned, recorded=recorded, names=names)


def is_written(variable: Variable) -> bool:
    """Whether a function that is being staged has given a variable another value."""
    records = [i.records.get(variable) for i in STATE.interpreters if isinstance(i, Staging)]
    return any(r is not None and r.written for r in records)


def refuse_question(name: str, x: Value) -> None:
    """Raise GradientError for a tensor that requires a gradient, which a staged function reads as False."""
    if x.node is None and isinstance(x.content, Payload) and isinstance(x.content.interpreter, Staging):
        x.content.interpreter.question(x)
    elif x.node is not None and STATE.gradients and x.type.dtype.is_differentiable:
        raise questioned(name, x.type)


def refuse_arguments(name: str, trace: Trace, values: Sequence[Value]) -> None:
    """Raise GradientError for arguments of which a trace is not true, because they require a gradient."""
    for k in trace.swept:
        refuse_sweep(name, values[k])
    for k in trace.questioned:
        refuse_question(name, values[k])


def stage(
    f: Callable[..., Sequence[Value]],
    types: Sequence[TensorType],
    name: str = "graph",
    source: str | None = None,
) -> Trace:
    """Record what f does to arguments of the given types; f returns a flat sequence of values.

    The source line of equations is `source`, or by default the user's line.
    """
    staging = Staging(name, source)
    ambient, precision = STATE.ambient, autocast_state()

    def recorded() -> Trace:
        """What f did, unless it leaves another mode behind."""
        outputs = f(*map(staging.argument, types))
        if STATE.ambient is not ambient:
            raise mode_left(name)
        return staging.finish(outputs)

    try:
        trace = inside(staging, recorded)
    except BaseException:
        staging.restore()
        raise
    finally:
        staging.ended = True
        record_gradients(ambient[0], ambient[2])
        if autocast_state() != precision:
            set_autocast(precision)
    staging.require_none_outside()
    objects = [(x, given()) for _, x, given in staging.captured.values()]
    fixed = frozenset(k for k, (_, now) in enumerate(objects) if now is None)
    return replace(trace, captures=tuple([x if now is None else now for x, now in objects]), fixed=fixed)


def derived(f: Callable[..., Sequence[Value]], types: Sequence[TensorType], name: str) -> Graph:
    """A graph that is built from other graphs or rules: without own source lines, and with literals as captures."""
    return closed(without_autocast(lambda: stage(f, types, name, "")))


def closed(trace: Trace) -> Graph:
    """The graph of a trace with its captures, which must be concrete, as literals."""
    known = {
        v: Literal(np.array(to_numpy(x)), x.type)
        for v, x in zip(trace.graph.inputs[trace.arguments :], trace.captures, strict=True)
    }
    return substitute(trace.graph, known) if known else trace.graph


@contextmanager
def holding(values: Mapping[Variable, Value]) -> Generator[None]:
    """Give variables other values inside the block, nodes included; assignments in the block persist.

    Transformations use this to differentiate with respect to variables that a function reads, but does not receive as
    arguments.
    """
    staging = scope()
    if not isinstance(staging, Staging):
        with standing_in(values):
            yield
        return
    places = [staging.record(v) for v in values]
    before = [(place.value, place.leaf) for place in places]
    for place, value in zip(places, values.values(), strict=True):
        place.value = value
        place.leaf = value.node or place.leaf
    held = [place.value for place in places]
    try:
        yield
    finally:
        for place, (value, leaf), given in zip(places, before, held, strict=True):
            place.leaf = leaf
            if place.value is not None and given is not None and place.value.content is given.content:
                place.value = value


# ---- running a graph equation by equation


def constant(literal: Literal) -> Value:
    """The value of a literal: a literal of the graph being recorded, or a concrete value."""
    staging = scope()
    if isinstance(staging, Staging):
        return staging.value(literal)
    return from_numpy(literal.array)


def run(graph: Graph, inputs: Sequence[Value], source: str = "") -> list[Value]:
    """Bind the equations of a graph one by one, under the active interpreters.

    If they are recorded, equations without a source line get `source`.
    """
    if STATE.autocast is not None:  # the graph has the conversions that are due
        return without_autocast(lambda: run(graph, inputs, source))
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
            known.update(zip(e.outputs, results if e.primitive.multiple else (results,), strict=True))
    finally:
        if recording is not None:
            recording.source = line
    return [value(a) for a in graph.outputs]


# ---- the user's source line


def outer_level() -> int:
    """The `stacklevel` of a warning for which the caller's caller outside the package is responsible."""
    frame, level = sys._getframe(1), 1  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def note_line(fault: Exception, name: str) -> None:
    """Add a note to an error during tracing: the operation that raised it, and the user's line that called it."""
    if any(note.endswith(TRACED) for note in getattr(fault, "__notes__", ())):
        return  # added for a traced function that it calls
    place, operation = fault_place(fault)
    if place is not None:
        called = f"{operation}, called at" if operation else "at"
        fault.add_note(f"{called} {place}, as {name}{TRACED}")


def _leaked(name: str, where: str, *given: Any) -> TraceError:
    left = [x for x in given if isinstance(x, StagedValue) and x.interpreter.ended]
    made = [e.source for x in left for e in x.interpreter.equations if x.atom in e.outputs and e.source]
    return TraceError(
        explain(
            f"{where}: the value must belong to the function being traced; got one left over from "
            f"{name}, which has ended" + (f"; it was made at {made[0]}" if made else ""),
            "kept = []\n@nc.jit\ndef f(x):\n    kept.append(x * 2)      # x * 2 has no numbers "
            "yet\n    return x\n"
            "f(x); kept[0] + 1",
            "While a function is traced, its values are placeholders without numbers; they mean nothing outside.",
            "@nc.jit\ndef f(x):\n    return x, x * 2\nx, doubled = f(x); doubled + 1",
        )
    )
