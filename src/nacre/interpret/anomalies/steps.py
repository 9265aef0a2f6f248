"""Runs of a graph equation by equation, also in bodies of loops and branches, on values of any kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

from nacre.base.dtypes import DType
from nacre.base.types import Shape
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Flow, RuleKind, register_rule
from nacre.ops.control import cond_p, masked_p, scan_p, while_p
from nacre.trace.value import Value

V = TypeVar("V")
Rounds = tuple[int, ...]  # of loops, outermost first


class StepwiseRun(ABC, Generic[V]):
    """A run of a graph; subclasses say how the equations that are no control flow are run."""

    @abstractmethod
    def constant(self, a: Literal) -> V:
        """The value of a constant."""

    @abstractmethod
    def step(self, e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
        """The results of an equation that is no control flow."""

    @abstractmethod
    def holds(self, x: V) -> bool:
        """Whether a condition is true."""

    @abstractmethod
    def rows(self, x: V) -> Sequence[V]:
        """The rows along the first axis."""

    @abstractmethod
    def stacked(self, rows: Sequence[V], v: Var) -> V:
        """The value of a variable with these rows."""

    def run(self, graph: Graph, inputs: Sequence[V], rounds: Rounds = (), outer: str = "") -> list[V]:
        """The outputs of a graph; `outer` is the source of equations that have none."""
        known: dict[Atom, V] = dict(zip(graph.inputs, inputs, strict=True))

        def value(a: Atom) -> V:
            """The value of an atom."""
            return known[a] if isinstance(a, Var) else self.constant(a)

        for e in graph.equations:
            flow = isinstance(e.primitive.lowering, Flow)
            results = (self.flow if flow else self.step)(e, list(map(value, e.inputs)), rounds, e.source or outer)
            known.update(zip(e.outputs, results, strict=True))
        return list(map(value, graph.outputs))

    def flow(self, e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
        """The results of control flow."""
        if STEPPED.of(e.primitive) is None and e.primitive.expansion is not None:
            return self.run(e.primitive.expansion(e.params), given, rounds, source)
        return STEPPED.required(e.primitive)(self, e, given, rounds, source)


def stack(rows: Sequence[Value], shape: Shape, dtype: DType) -> Value:
    """The value of a shape and a dtype with these rows along its first axis."""
    return from_numpy(np.array([to_numpy(x) for x in rows], dtype.numpy).reshape(shape))  # type: ignore[arg-type]


# of control flow whose equations are not those of its expansion
STEPPED: Final[RuleKind[Callable[[StepwiseRun[Any], Equation, Sequence[Any], Rounds, str], Sequence[Any]]]] = RuleKind(
    "runs by steps"
)


def _masked(run: StepwiseRun[V], e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
    return run.run(e.params["safe"], given, rounds, source)


def _cond(run: StepwiseRun[V], e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
    return run.run(e.params["then" if run.holds(given[0]) else "orelse"], given[1:], rounds, source)


def _while(run: StepwiseRun[V], e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
    bound, k, carry = e.params.get("bound"), 0, list(given)
    while bound is None or k < int(bound):
        if not run.holds(run.run(e.params["cond"], carry, (*rounds, k), source)[0]):
            break
        carry = run.run(e.params["body"], carry, (*rounds, k), source)
        k += 1
    return carry


def _scan(run: StepwiseRun[V], e: Equation, given: Sequence[V], rounds: Rounds, source: str) -> Sequence[V]:
    body, count, length = e.params["body"], e.params["carries"], int(e.params["length"])
    carry, xs = list(given[:count]), [run.rows(x) for x in given[count:]]
    order = range(length)[::-1] if e.params["reverse"] else range(length)
    made: dict[int, list[V]] = {}
    for k in order:
        found = run.run(body, [*carry, *(rows[k] for rows in xs)], (*rounds, k), source)
        carry, made[k] = found[:count], found[count:]
    stacked = ([made[k][n] for k in range(length)] for n in range(len(body.outputs) - count))
    return [*carry, *map(run.stacked, stacked, e.outputs[count:])]


register_rule(masked_p, STEPPED, _masked)
register_rule(cond_p, STEPPED, _cond)
register_rule(while_p, STEPPED, _while)
register_rule(scan_p, STEPPED, _scan)
