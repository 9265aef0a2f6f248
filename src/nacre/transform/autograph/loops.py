"""Loops on traced values: `while_loop` where the number of iterations is traced, else `scan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nacre.base.conversion import element
from nacre.base.dims import Size
from nacre.base.dtypes import int64
from nacre.base.errors import TraceError
from nacre.interpret.closures.environment import Environment
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.stage import Trace
from nacre.interpret.tape import rebind
from nacre.ir.graph import Atom, Graph, Var
from nacre.ops import control, pointwise
from nacre.ops.check import check
from nacre.ops.shape import broadcast_p
from nacre.trace.bind import bind
from nacre.trace.value import Value, fresh
from nacre.transform.autograph.appends import Meter, escaped
from nacre.transform.autograph.branches import condition
from nacre.transform.autograph.cells import MISSING, Variables, read
from nacre.transform.autograph.filling import Filling, measured, meters_of
from nacre.transform.autograph.forms import (
    TRUTH,
    Ends,
    FormLeaf,
    Held,
    VariableForm,
    alone,
    carried,
    form_of,
    opened,
    same,
)
from nacre.transform.autograph.messages import (
    append_refused,
    at,
    endless,
    mismatch,
    note_mismatch,
    note_unbound,
    outside,
)
from nacre.transform.autograph.parts import RECORDING, RecordedPart, Request, recorded, stored_tensors
from nacre.transform.autograph.statements import SourcePlace, Statement

ROUNDS: Final = 6  # a leaf goes from a constant over an int and a float to a tensor


class TracedLoop:
    """A loop whose body is recorded."""

    def __init__(
        self, place: SourcePlace, statement: Statement, variables: Variables, body: Callable[..., Any]
    ) -> None:
        self.place, self.statement, self.variables, self.body = place, statement, variables, body
        if statement.outside:
            raise outside(place, statement, statement.outside[0])
        self.filling = Filling(place, statement, variables)
        self.stored = stored_tensors(statement, variables)
        names = {*statement.names, *(n for n, x in variables.values().items() if any(x is s for s in self.stored))}
        self.names = sorted(names & variables.cells.keys())
        self.begin = {name: opened(read(variables.cells[name])) for name in self.names}
        self.forms = {name: carried(o) for name, o in self.begin.items() if o.structure is not None}

    def _give(self, values: Mapping[str, Any]) -> None:
        """Set variables before the loop."""
        self.variables.set(dict(values))
        self.begin |= {name: opened(value) for name, value in values.items()}
        self.forms = {name: carried(o) for name, o in self.begin.items() if o.structure is not None}

    def _filled(
        self, record: Callable[[], RecordedPart], length: Size | None, run: Callable[[RecordedPart], None]
    ) -> None:
        """Record the body and run the loop, with room in the lists that it appends to."""
        with self.filling.restored():
            if self.filling.own:
                self._give(self.filling.probes())
                _, counts = measured(self.filling.meters.values(), record)
                for m, (appends, conditional) in counts.items():
                    m.appends, m.is_conditional = appends, conditional
                self._give(self.filling.rooms(RECORDING.bounds[-1] if length is None else length))
            others = [m for m in meters_of(self.variables) if m not in self.filling.meters.values()]
            part, counts = measured([*others, *self.filling.meters.values()], record)
            self._count(length, {m: counts[m] for m in others})
            run(part)
        self.filling.end(length is not None)

    def _count(self, length: Size | None, counts: Mapping[Meter, tuple[Size, bool]]) -> None:
        """Add the appends of all iterations to those of the code around the loop."""
        most = RECORDING.bounds[-1] if length is None else length
        for m, (appends, conditional) in counts.items():
            if appends == 0:
                continue
            if most is None:
                raise append_refused(self.place, self.statement, self.statement.line, "a list")
            m.appends = m.appends + appends * most
            m.is_conditional = m.is_conditional or conditional or length is None

    # ---- recording

    @property
    def types(self) -> list[Any]:
        """The types of the carried tensors."""
        return [t for form in self.forms.values() for t in form.types]

    def values(self, arguments: Iterator[Value]) -> tuple[dict[str, Any], dict[int, Any]]:
        """The variables' values in an iteration, and the objects for which arguments stand."""
        found: dict[str, Any] = {}
        known: dict[int, Any] = {}
        stored: dict[int, Value] = {}
        for name, form in self.forms.items():
            value = form.value(arguments)
            before = self.begin[name].value
            if isinstance(before, Value) and any(before is s for s in self.stored):
                value = stored.setdefault(id(before), value)  # one object stays one
                known[id(value)] = before
            found[name] = value
        return found, known

    def record(self, part: Callable[..., Any], rows: Sequence[Any] = (), names: Sequence[str] = ()) -> RecordedPart:
        """Record a part for the current forms; rows are the types of further arguments, which the part gets."""
        request = Request(self.place, self.statement, part, self.variables, names)

        def begin(arguments: Sequence[Value]) -> tuple[Mapping[str, Any], Mapping[int, Any], Sequence[Any]]:
            """The carried values, none for variables that begin in the loop, and rows."""
            count = len(arguments) - len(rows)
            found, known = self.values(iter(arguments[:count]))
            flags = {} if rows or part is not self.body else dict.fromkeys(self.statement.flags, False)
            return {**dict.fromkeys(self.names, MISSING), **found, **flags}, known, arguments[count:]

        return recorded(request, [*self.types, *rows], begin)

    def settled(self, rows: Sequence[Any] = (), body: Callable[..., Any] | None = None) -> RecordedPart:
        """The recorded body, with forms that an iteration does not change."""
        for _ in range(ROUNDS):
            part = self.record(body or self.body, rows, self.names)
            forms = self._widened(part)
            known = self.forms
            if forms.keys() == known.keys() and all(_equal(form, known[name]) for name, form in forms.items()):
                return part
            self.forms = forms
        raise TraceError(f"{self.statement.kind}: types must settle; got ones that change in each iteration")

    def _widened(self, part: RecordedPart) -> dict[str, VariableForm]:
        """The forms for values from before the loop and from the end of an iteration."""
        found: dict[str, VariableForm] = {}
        for name in self.names:
            a, b = self.begin[name], part.ends[name]
            if a.structure is None:
                if name == self.statement.result and b.structure is not None:
                    found[name] = alone(b)
                continue
            if b.value is a.value and any(a.value is s for s in self.stored):
                found[name] = self.forms[name]
                continue
            form = form_of(a, b)
            if form is None and name == self.statement.result:
                raise mismatch(self.place, self.statement, name, a, b)
            if form is None:
                note_mismatch(self.place, self.statement, name, a, b)
                self.begin[name] = opened(MISSING)
                continue
            known = self.forms[name]
            found[name] = VariableForm(
                form.structure, [_wider(old, new) for old, new in zip(known.parts, form.parts, strict=True)], form.whole
            )
        return found

    # ---- values

    def initial(self) -> list[Value]:
        """The carried tensors before the loop."""
        found: list[Value] = []
        for name, form in self.forms.items():
            begin = self.begin[name]
            leaves: list[FormLeaf | None] = list(begin.leaves) or [None] * len(form.parts)
            found += [_initial(leaf, p) for leaf, p in zip(leaves, form.parts, strict=True) if isinstance(p, Held)]
        return found

    def finish(self, found: Sequence[Value], part: RecordedPart) -> None:
        """Set the variables to the program's results."""
        results = iter(found)
        for name in self.names:
            if name not in self.forms:
                if part.ends[name].structure is not None:
                    note_unbound(self.place, self.statement, name)
                self.variables.set({name: MISSING})
                continue
            value, before = self.forms[name].value(results), self.begin[name].value
            if part.ends[name].value is before and isinstance(before, Value) and any(before is s for s in self.stored):
                rebind(before, value)
            else:
                self.variables.set({name: value})

    def carry(self, part: RecordedPart) -> tuple[list[Atom], Ends]:
        """The carried atoms at the end of an iteration."""
        ends = Ends(part.atoms)
        return [
            a
            for name, form in self.forms.items()
            for a in ends.of(part.ends[name] if part.ends[name].structure is not None else None, form)
        ], ends

    # ---- programs

    def run_while(self, test: Callable[[], Any]) -> None:
        """A loop until a condition is false."""
        self._filled(self.settled, None, lambda part: self._run_while(test, part))

    def _run_while(self, test: Callable[[], Any], part: RecordedPart) -> None:
        bound = RECORDING.bounds[-1]
        asked = self.record(test)
        more = condition_atom(asked)
        if more is None:
            raise endless(self.place, self.statement)
        atoms, ends = self.carry(part)
        traces = asked.with_results([more]), part.with_results(atoms, ends.equations)
        around = Environment("while", traces)
        graphs: list[Graph] = []
        for t, whole in zip(traces, (False, True), strict=True):
            inner = around.inputs(t)
            results = t.graph.outputs[: t.results] + (tuple(around.outputs(t, inner)) if whole else ())
            graphs.append(Graph((*t.graph.inputs[: t.arguments], *inner), t.graph.equations, results, t.graph.name))
        if bound is None and not _changes(*graphs):
            raise endless(self.place, self.statement)
        found = control.while_loop(graphs[0], graphs[1], *self.initial(), *around.operands(), bound=bound)
        around.put_back(around.changed(found[len(atoms) :]))
        self.finish(found[: len(atoms)], part)
        if bound is not None:
            self._require_end(test, bound)

    def _require_end(self, test: Callable[[], Any], bound: Size) -> None:
        """Check that the loop has ended because its condition is false."""
        left = condition(test())
        if left is not None:
            text = f"while: the loop must end within the {bound} iterations that set_loop_options allows "
            text += f"({escaped(at(self.place, self.statement.line))}); allow more"
            check(pointwise.cast(left, int64), 0, 1, "assertion", text)

    def run_scan(self, body: Callable[..., Any], rows: Sequence[Value], length: Size) -> None:
        """A loop over the rows of tensors."""
        types = [x.type.with_shape(x.type.shape[1:]) for x in rows]
        self._filled(lambda: self.settled(types, body), length, lambda part: self._run_scan(part, rows, length))

    def _run_scan(self, part: RecordedPart, rows: Sequence[Value], length: Size) -> None:
        atoms, ends = self.carry(part)
        count = len(atoms)
        t: Trace = part.with_results(atoms, ends.equations)
        around = Environment("for", (t,))
        more = around.inputs(t)
        n = t.arguments - len(rows)
        inputs = (*t.graph.inputs[:n], *more, *t.graph.inputs[n : t.arguments])
        outputs = (*t.graph.outputs[:count], *around.outputs(t, more))
        graph = Graph(inputs, t.graph.equations, outputs, t.graph.name)
        found = control.scan(graph, [*self.initial(), *around.operands()], rows, length)
        around.put_back(around.changed(found[count : count + len(more)]))
        self.finish(found[:count], part)


def condition_atom(part: RecordedPart) -> Atom | None:
    """The condition that a recorded part returns; None if it is constant."""
    leaf = part.value.leaves[0] if part.value.leaves else None
    return part.atoms[id(leaf.held)] if leaf is not None and leaf.held is not None and leaf.type is TRUTH else None


def _changes(test: Graph, body: Graph) -> bool:
    """Whether the body changes a value that the condition reads."""
    if test.calls_host:
        return True
    read: set[Any] = {v for v in test.outputs if isinstance(v, Var)}
    for e in reversed(test.equations):
        if not read.isdisjoint(e.outputs):
            read.update(v for v in e.inputs if isinstance(v, Var))
    return any(v in read and body.outputs[k] is not body.inputs[k] for k, v in enumerate(test.inputs))


def _equal(a: VariableForm, b: VariableForm) -> bool:
    if a.structure != b.structure:
        return False
    return all(
        x == y if isinstance(x, Held) or isinstance(y, Held) else same(x.object, y.object)
        for x, y in zip(a.parts, b.parts, strict=True)
    )


def _wider(old: Any, new: Any) -> Any:
    """The wider of two forms of a leaf, so that they settle."""
    if isinstance(old, Held) and isinstance(new, Held) and old.kind is None and new.kind is not None:
        return old
    return old if isinstance(old, Held) and isinstance(new, Held) and (old.kind, new.kind) == (float, int) else new


def _initial(leaf: FormLeaf | None, part: Held) -> Value:
    wanted = part.type
    if leaf is None:
        zero = from_numpy(np.zeros((), wanted.dtype.numpy))
        return zero if not wanted.shape else bind(broadcast_p, zero, shape=wanted.shape, axes=())
    if leaf.held is None:
        return from_numpy(np.array(element(leaf.object, wanted.dtype)))
    x = leaf.held if leaf.held.type is wanted else pointwise.cast(leaf.held, wanted.dtype)
    return fresh(x)


def staged_int(x: Value) -> StagedNumber:
    """A scalar of int64 as the number of an iteration."""
    return StagedNumber(int, x)


def asked(test: Any) -> Any:
    """A condition as a bool scalar where it is traced."""
    found = condition(test)
    return test if found is None else found
