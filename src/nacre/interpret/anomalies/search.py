"""The search for the first anomaly: a graph runs equation by equation, and each one's numbers are examined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.base.errors import AnomalyError
from nacre.interpret.anomalies.examine import examined
from nacre.interpret.anomalies.kinds import Anomaly, Kinds, placed
from nacre.interpret.anomalies.steps import Rounds, StepwiseRun, stack
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Equation, Literal, Var
from nacre.trace.bind import Executor
from nacre.trace.value import Value

Values = Sequence[Value]


class Search(StepwiseRun[Value]):
    """A run of a graph that ends with an AnomalyError at the first anomaly in program order.

    `source` returns the source of equations that have none: the line that runs the graph, as an equation's.
    """

    def __init__(self, executor: Executor, kinds: Kinds, source: Callable[[], str], backward: bool) -> None:
        self.executor, self.kinds, self.source, self.backward = executor, kinds, source, backward

    def constant(self, a: Literal) -> Value:
        """The value of a constant."""
        return from_numpy(a.array)

    def step(self, e: Equation, given: Values, rounds: Rounds, source: str) -> Values:
        """The results of an equation, if they have no anomaly."""
        found = self.executor.evaluate(e.primitive, given, e.params)
        results: Values = found if e.primitive.multiple else (found,)
        self.examine(e, given, results, rounds, source)
        return results

    def holds(self, x: Value) -> bool:
        """Whether a condition is true."""
        return bool(to_numpy(x))

    def rows(self, x: Value) -> Values:
        """The rows along the first axis."""
        return list(map(from_numpy, to_numpy(x)))

    def stacked(self, rows: Values, v: Var) -> Value:
        """The value of a variable with these rows."""
        return stack(rows, v.type.shape, v.type.dtype)

    def examine(self, e: Equation, given: Values, results: Values, rounds: Rounds, source: str) -> None:
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
