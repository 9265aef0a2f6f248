"""Closure conversion: what staged functions capture, read and write becomes operands and results of their graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.errors import GradientError
from nacre.interpret.randomness import differs, operand
from nacre.interpret.stage import Trace, VariableRecord
from nacre.ir.graph import Atom, Graph, Var
from nacre.trace.value import Value
from nacre.trace.variable import Variable


class Environment:
    """The captures, variables and gradients that staged functions use; every function gets all of them."""

    def __init__(self, operation: str, traces: Sequence[Trace]) -> None:
        self.captures: dict[object, Value] = {}
        self.written: dict[Variable, None] = {}
        self.written_gradients: dict[Variable, None] = {}
        read: dict[Variable, None] = {}
        read_gradients: dict[Variable, None] = {}
        for t in traces:
            self.captures |= {_identity(x): x for x in t.captures}
            read |= dict.fromkeys([r.variable for r in t.variables if r.input is not None or r.written])
            self.written |= dict.fromkeys(t.variable_outputs)
            read_gradients |= dict.fromkeys([*t.gradient_inputs, *t.gradient_outputs])
            self.written_gradients |= dict.fromkeys(t.gradient_outputs)
            for r in t.variables:
                _require_settled(operation, r)
        self.variables, self.gradients = list(read), list(read_gradients)

    def operands(self) -> list[Value]:
        """The current values of all of them."""
        values = [*self.captures.values(), *map(operand, self.variables)]
        return values + [v.gradient for v in self.gradients]

    def inputs(self, t: Trace) -> list[Var]:
        """A graph input for each operand: the trace's own if it has one."""
        at = t.arguments
        own = {_identity(x): v for x, v in zip(t.captures, t.graph.inputs[at:], strict=False)}
        found = [own.get(key) or Var(x.type) for key, x in self.captures.items()]
        records = {r.variable: r for r in t.variables}
        for v in self.variables:
            found.append((v in records and records[v].input) or Var(v.type))
        for v in self.gradients:
            found.append((v in records and records[v].gradient_input) or Var(v.type))
        return found

    def graph(self, t: Trace) -> Graph:
        """(arguments, operands) → (results, written values)."""
        more = self.inputs(t)
        results = [*t.graph.outputs[: t.results], *self.changed(self.outputs(t, more))]
        inputs = (*t.graph.inputs[: t.arguments], *more)
        return Graph(inputs, t.graph.equations, tuple(results), t.graph.name)

    def outputs(self, t: Trace, inputs: Sequence[Var]) -> list[Atom]:
        """The value of each operand at the end of a trace."""
        records = {r.variable: r for r in t.variables}
        found: list[Atom] = list(inputs)
        at = len(self.captures)
        for k, v in enumerate(self.variables, at):
            if v in records and records[v].output is not None:
                found[k] = records[v].output  # type: ignore[call-overload]
        for k, v in enumerate(self.gradients, at + len(self.variables)):
            if v in records and records[v].gradient_output is not None:
                found[k] = records[v].gradient_output  # type: ignore[call-overload]
        return found

    def changed(self, outputs: Sequence[Any]) -> list[Any]:
        """From one item for each operand, those of variables and gradients that were written."""
        at = len(self.captures)
        of_variables = outputs[at : at + len(self.variables)]
        of_gradients = outputs[at + len(self.variables) :]
        values = [x for v, x in zip(self.variables, of_variables, strict=True) if v in self.written]
        return values + [x for v, x in zip(self.gradients, of_gradients, strict=True) if v in self.written_gradients]

    def put_back(self, values: Sequence[Value]) -> None:
        """Assign the values that `changed` selects."""
        rest = iter(values)
        for v in self.variables:
            if v in self.written:
                written = next(rest)
                if not differs(v):
                    v.assign(written)
        for v in self.gradients:
            if v in self.written_gradients:
                v.gradient = next(rest)


def _identity(x: Value) -> object:
    return id(x.content), id(x.node), x.layout, x.type


def _require_settled(operation: str, r: VariableRecord) -> None:
    if r.gradient_written and (r.gradient_output is None) != (r.variable.gradient is None):
        v = r.variable
        shown = v.name or f"variable {v.number}"
        if v.gradient is None:
            raise GradientError(
                f"{operation}: the gradient of {shown} must be a tensor before the call, because "
                f"`backward` adds to it inside; it is None; set `p.grad = nc.zeros_like(p)` before, or call "
                f"`backward` outside of {operation}"
            )
        raise GradientError(
            f"{operation}: the gradient of {shown} must stay a tensor; it is a tensor before the call "
            "and is set to None inside; do that outside, or use `zero_grad(set_to_none=False)`"
        )
