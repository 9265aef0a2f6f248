"""Branches on traced conditions: both sides are recorded, and `cond` runs one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nacre.base.dims import Size
from nacre.base.dtypes import bool_
from nacre.base.errors import ShapeError
from nacre.interpret.closures.environment import Environment
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.stage import Trace
from nacre.interpret.tape import rebind
from nacre.ir.graph import Atom
from nacre.ops import control
from nacre.trace.value import Value, fresh, is_concrete
from nacre.trace.variable import Variable
from nacre.transform.autograph.appends import Meter
from nacre.transform.autograph.cells import MISSING, write
from nacre.transform.autograph.filling import Filling, measured, meters_of
from nacre.transform.autograph.forms import Ends, Opened, VariableForm, alone, form_of
from nacre.transform.autograph.messages import VALUE, mismatch, note_mismatch, note_unbound, outside
from nacre.transform.autograph.parts import (
    RECORDING,
    RecordedPart,
    Request,
    all_variables,
    recorded,
    standing_for,
    stored_tensors,
)
from nacre.transform.autograph.statements import SourcePlace, Statement


def condition(test: Any) -> Value | None:
    """A traced condition as a bool scalar; None for what Python can decide itself."""
    if isinstance(test, Variable):
        test = test.value
    if type(test) is StagedNumber:
        test = test.held
    if not isinstance(test, Value) or is_concrete(test):
        return None
    if test.type.static and test.type.size != 1:
        raise ShapeError(f"bool: the tensor must have one element; got shape {test.shape}; use .any() or .all()")
    x: Any = test
    x = x if x.type.dtype is bool_ else x != 0
    return x if x.type.shape == () else x.reshape(())


class TracedBranch:
    """A decision between two parts of a function."""

    def __init__(
        self,
        place: SourcePlace,
        statement: Statement,
        parts: tuple[Callable[..., Any] | None, Callable[..., Any] | None],
        flags: Sequence[str] = (),
    ) -> None:
        self.place, self.statement = place, statement
        self.variables = all_variables(*parts)
        self.names = [n for n in statement.names if n in self.variables.cells]
        self.parts = parts
        # of flags, one of which is set where the second part runs
        self.known = dict.fromkeys(flags, False), dict.fromkeys(flags if len(flags) == 1 else (), True)

    def run(self, chosen: Value) -> Any:
        """Record both parts, choose, and set the variables; returns the value of the expression."""
        if self.statement.outside:
            raise outside(self.place, self.statement, self.statement.outside[0])
        filling = Filling(self.place, self.statement, self.variables)
        with filling.restored():
            given = stored_tensors(self.statement, self.variables)
            if filling.own:
                self.variables.set(filling.probes())
                self._sides(given)
                self.variables.set(filling.rooms(1))
            answer = self._run(chosen, given, *self._sides(given))
        filling.end(is_counted=True)
        return answer

    def _sides(self, given: Sequence[Value]) -> list[RecordedPart]:
        """Both parts, recorded; the number of appends to a list is that of the part with more."""
        sides: list[RecordedPart] = []
        counts: list[dict[Meter, tuple[Size, bool]]] = []
        for part, values in zip(self.parts, self.known, strict=True):
            side, count = measured(meters_of(self.variables), partial(self._side, part, given, values))
            sides.append(side)
            counts.append(count)
        for m, (appends, conditional) in counts[0].items():
            others, differs = counts[1][m]
            more = appends if appends == others else _larger(appends, others)
            m.appends = m.appends + more
            m.is_conditional = m.is_conditional or conditional or differs or appends != others
        return sides

    def _run(self, chosen: Value, given: Sequence[Value], yes: RecordedPart, no: RecordedPart) -> Any:
        forms = self._forms(yes, no)
        changed = sorted(yes.changed.keys() | no.changed.keys())
        found = self._chosen(chosen, given, (yes, no), forms, changed)
        count = len(found) - len(changed)
        for k, x in zip(changed, found[count:], strict=True):
            rebind(given[k], x)
        values = iter(found[:count])
        made = {name: form.value(values) for name, (form, _, _) in forms.items()}
        answer = made.pop(VALUE)
        self.variables.set(made)
        return answer

    def _side(self, part: Callable[..., Any] | None, given: Sequence[Value], values: Mapping[str, Any]) -> RecordedPart:
        request = Request(self.place, self.statement, part, self.variables, self.names)

        def begin(arguments: Sequence[Value]) -> tuple[Mapping[str, Any], Mapping[int, Any], Sequence[Any]]:
            """Arguments stand for tensors that the part may write."""
            known = {id(a): x for a, x in zip(arguments, given, strict=True)}
            return {**standing_for(given, arguments, self.variables), **values}, known, ()

        return recorded(request, [x.type for x in given], begin)

    def _forms(
        self, yes: RecordedPart, no: RecordedPart
    ) -> dict[str, tuple[VariableForm, Opened | None, Opened | None]]:
        """For each name the form, and its values at both ends; None for one that is never read."""
        found: dict[str, tuple[VariableForm, Opened | None, Opened | None]] = {}
        for name in [*self.names, VALUE]:
            a, b = (side.value if name == VALUE else side.ends[name] for side in (yes, no))
            if name == VALUE and self.statement.kind != "expression":
                found[name] = VariableForm(None, []), a, b
                continue
            form = form_of(a, b)
            if form is not None:
                found[name] = form, a, b
            elif self._is_dead(yes, name, a):
                found[name] = alone(b), None, b
            elif self._is_dead(no, name, b):
                found[name] = alone(a), a, None
            elif a.structure is None or b.structure is None:
                note_unbound(self.place, self.statement, name)
                found[name] = VariableForm(None, []), a, b
            elif name in (VALUE, self.statement.result):
                raise mismatch(self.place, self.statement, name, a, b)
            else:
                note_mismatch(self.place, self.statement, name, a, b)
                found[name] = VariableForm(None, []), a, b
        return found

    def _is_dead(self, side: RecordedPart, name: str, end: Opened) -> bool:
        """Whether a value is never read where a side ends: the function has returned, or has no result yet."""
        st = self.statement
        flags = {flag: side.ends[flag].value for flag in (st.returned, *st.exits) if flag in side.ends}
        for flag in (st.returned, *st.exits):
            if flag and flag not in flags and flag in self.variables.cells:
                flags[flag] = self.variables.values()[flag]
        if name == st.result:
            return flags.get(st.returned, False) is False
        if name in flags or name in (st.returned, *st.exits):
            return False
        if flags.get(st.returned) is True:
            return True
        if end.structure is None and any(flags.get(flag) is True for flag in st.exits):
            if RECORDING.filled:
                RECORDING.filled[-1].append(self.variables.cells[name])
            return True
        return False

    def _chosen(
        self,
        chosen: Value,
        given: Sequence[Value],
        sides: tuple[RecordedPart, RecordedPart],
        forms: Mapping[str, Any],
        changed: Sequence[int],
    ) -> Sequence[Value]:
        """The results of the program's branch."""
        traces: list[Trace] = []
        for n, side in enumerate(sides):
            ends = Ends(side.atoms)
            atoms: list[Atom] = [a for form, *values in forms.values() for a in ends.of(values[n], form)]
            atoms += [side.changed.get(k, side.inputs[k]) for k in changed]
            traces.append(side.with_results(atoms, ends.equations))
        around = Environment("if", traces)
        operands = [fresh(x) if k in changed else x for k, x in enumerate(given)]
        graphs = [around.graph(t) for t in traces]
        found = control.cond(chosen, graphs[0], graphs[1], *operands, *around.operands())
        around.put_back(found[traces[0].results :])
        return found[: traces[0].results]


def _larger(a: Size, b: Size) -> Size:
    """At least both numbers."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else a + b


def unfill(filled: Sequence[Any]) -> None:
    """A loop has ended: variables with zeros for values that do not exist have none."""
    for cell in filled:
        write(cell, MISSING)
