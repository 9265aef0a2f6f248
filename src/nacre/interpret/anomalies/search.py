"""The search for the first anomaly: a graph runs equation by equation, and each one's numbers are examined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nacre.base.errors import AnomalyError
from nacre.interpret.anomalies.examine import examined
from nacre.interpret.anomalies.kinds import Anomaly, Kinds, placed
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Flow
from nacre.trace.bind import Executor
from nacre.trace.value import Value

Values = Sequence[Value]


class Search:
    """A run of a graph that ends with an AnomalyError at the first anomaly in program order.

    `source` returns the source of equations that have none: the line that runs the graph, as an equation's.
    """

    def __init__(self, executor: Executor, kinds: Kinds, source: Callable[[], str], backward: bool) -> None:
        self.executor, self.kinds, self.source, self.backward = executor, kinds, source, backward

    def run(self, graph: Graph, inputs: Values, rounds: tuple[int, ...] = (), outer: str = "") -> list[Value]:
        """The outputs of a graph, if no equation has an anomaly."""
        known: dict[Atom, Value] = dict(zip(graph.inputs, inputs, strict=True))

        def value(a: Atom) -> Value:
            """The value of an atom."""
            return known[a] if isinstance(a, Var) else from_numpy(a.array)

        for e in graph.equations:
            given = [value(a) for a in e.inputs]
            if isinstance(e.primitive.lowering, Flow):
                results: Values = FLOWS[e.primitive.name](self, e, given, rounds, e.source or outer)
            else:
                found = self.executor.evaluate(e.primitive, given, e.params)
                results = found if e.primitive.multiple else (found,)
                self.examine(e, given, results, rounds, e.source or outer)
            known.update(zip(e.outputs, results, strict=True))
        return [value(a) for a in graph.outputs]

    def examine(self, e: Equation, given: Values, results: Values, rounds: tuple[int, ...], source: str) -> None:
        """Raise AnomalyError if an equation's results have an anomaly."""
        anomaly = examined(e, given, results, self.kinds)
        if anomaly is not None:
            line, module, backward = placed(source or self.source())
            raise error(replace(anomaly, line=line, module=module, backward=backward or self.backward, rounds=rounds))


def error(anomaly: Anomaly) -> AnomalyError:
    """The error that reports an anomaly."""
    found = AnomalyError(str(anomaly))
    found.anomaly = anomaly
    return found


def _call(self: Search, e: Equation, given: Values, rounds: tuple[int, ...], source: str) -> Values:
    return self.run(e.params["graph"], given, rounds, source)


def _cond(self: Search, e: Equation, given: Values, rounds: tuple[int, ...], source: str) -> Values:
    side = e.params["then" if bool(to_numpy(given[0])) else "orelse"]
    return self.run(side, given[1:], rounds, source)


def _while(self: Search, e: Equation, given: Values, rounds: tuple[int, ...], source: str) -> Values:
    bound, k, carry = e.params.get("bound"), 0, list(given)
    while (bound is None or k < int(bound)) and bool(
        to_numpy(self.run(e.params["cond"], carry, (*rounds, k), source)[0])
    ):
        carry = self.run(e.params["body"], carry, (*rounds, k), source)
        k += 1
    return carry


def _scan(self: Search, e: Equation, given: Values, rounds: tuple[int, ...], source: str) -> Values:
    body, count, length = e.params["body"], e.params["carries"], int(e.params["length"])
    carry, xs = list(given[:count]), [to_numpy(x) for x in given[count:]]
    stacked: list[list[np.ndarray]] = [[] for _ in body.outputs[count:]]
    order = range(length)[::-1] if e.params["reverse"] else range(length)
    for k in order:
        found = self.run(body, [*carry, *(from_numpy(x[k]) for x in xs)], (*rounds, k), source)
        carry = found[:count]
        for rows, y in zip(stacked, found[count:], strict=True):
            rows.append(to_numpy(y))
    types = [v.type for v in e.outputs[count:]]
    made: list[Value] = []
    for rows, t in zip(stacked, types, strict=True):
        rows = rows[::-1] if e.params["reverse"] else rows
        made.append(from_numpy(np.stack(rows) if rows else np.zeros(t.shape, t.dtype.numpy)))  # type: ignore[call-overload]
    return [*carry, *made]


FLOWS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("call", "custom_jvp", "custom_vjp"), _call),
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
