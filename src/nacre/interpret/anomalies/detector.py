"""The mode in which every operation is examined, eager or compiled: its state, and the executor that examines.

While a thread is in the mode, an interpreter that takes no operation is on its stack, so that no native code answers.
All operations then reach the executor, which runs them with flags (see `flags`).  Where a flag is true, the operations
run again one by one, with the same bits, until the first anomaly is found (see `search`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nacre.base.errors import Error, StateError
from nacre.base.locks import forkable
from nacre.base.size_binding import solve
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.anomalies.flags import with_flag
from nacre.interpret.anomalies.kinds import BACKWARD, Kinds
from nacre.interpret.anomalies.search import Search
from nacre.interpret.called import user_line
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import Staging
from nacre.ir.graph import Builder, Equation, Graph, Literal
from nacre.ir.primitive import Flow, Primitive
from nacre.ir.rewrite import specialised
from nacre.trace.bind import PARTS, Executor, enter, leave, next_level
from nacre.trace.value import Value
from nacre.trace.variable import scope

REMEMBERED: Final = 4096  # operations whose graphs are cached
NAN, INFINITE = "NaN", "infinite"  # what a tensor has that is not finite


_UNKNOWN: Final[Any] = object()
_graphs: dict[object, Graph | None] = {}  # of operations: those with something to examine, in all blocks


class Detector:
    """The mode of a thread, as an interpreter that takes no operation."""

    dynamic = False

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.level = next_level()
        self.backward = False
        self.source = ""  # of the forward operation whose pullback runs

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Raise an error: no value belongs to this interpreter."""
        raise StateError(f"{primitive.name}: values must not belong to detect_anomalies; got some that do")

    def in_backward(self, sweep: Callable[[], None]) -> None:
        """Run a backward pass: its operations are reported, or recorded, as such."""
        staging = scope()
        recorded = staging.equations if isinstance(staging, Staging) else []
        begun, before = len(recorded), self.backward
        self.backward = True
        try:
            sweep()
        finally:
            self.backward, self.source = before, ""
            for k in range(begun, len(recorded)):
                recorded[k] = _in_backward(recorded[k])

    def place(self) -> str:
        """The source of the operation that runs."""
        return (self.source if self.backward else "") or user_line()


def _in_backward(e: Equation) -> Equation:
    if e.source.endswith(BACKWARD):
        return e
    return Equation(e.primitive, e.inputs, e.params, e.outputs, e.source + BACKWARD)


class ExaminingExecutor:
    """An executor whose operations are examined in threads that detect anomalies."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def first(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """As the executor's: native code, which threads that detect anomalies do not reach."""
        return self.executor.first(key, primitive, inputs, params)

    def rule(
        self, primitive: Primitive, types: tuple[TensorType, ...], params: Mapping[str, Any], active: tuple[int, ...]
    ) -> Any:
        """As the executor's."""
        return self.executor.rule(primitive, types, params, active)

    def mode(self) -> int:
        """As the executor's."""
        return self.executor.mode()

    def sweep(self) -> Callable[..., Any]:
        """As the executor's: native code, which threads that detect anomalies do not run."""
        return self.executor.sweep()

    def prepare(self, rule: Any, pull: Any) -> None:
        """As the executor's."""
        self.executor.prepare(rule, pull)

    def evaluate(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run a primitive on concrete values, and examine its results."""
        detector: Detector | None = STATE.detector
        graph = None if detector is None else self._graph(primitive, inputs, params, detector.kinds)
        if graph is None or detector is None:
            return self.executor.evaluate(primitive, inputs, params)
        results = self._run(graph, inputs, detector)
        return tuple(results) if primitive.multiple else results[0]

    def execute_on_views(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """As the executor's; examined graphs run by `execute`."""
        return self.executor.execute_on_views(graph, inputs)

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph on concrete values, and examine its equations' results."""
        detector: Detector | None = STATE.detector
        if detector is None:
            return self.executor.execute(graph, inputs)
        if ("flagged", detector.kinds) not in graph.kept and not all(t.static for t in graph.input_types):
            return self.execute_at(graph, inputs, solve(graph.input_types, [x.type.shape for x in inputs]))  # type: ignore[arg-type]
        return self._run(graph, inputs, detector)

    def execute_at(self, graph: Graph, inputs: Sequence[Value], sizes: Mapping[str, int]) -> list[Value]:
        """Run a graph for given numbers of its symbols, and examine its equations' results."""
        if STATE.detector is None:
            return self.executor.execute_at(graph, inputs, sizes)
        key = "examined", *sizes.items()
        fixed = graph.kept.get(key)
        if fixed is None:
            fixed = graph.kept[key] = specialised(graph, sizes)
        return self._run(fixed, inputs, STATE.detector)

    def _graph(
        self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], kinds: Kinds
    ) -> Graph | None:
        """The graph of an operation; None if there is nothing to examine."""
        key = (primitive, kinds, *[x.type for x in inputs], *params.items())
        if isinstance(primitive.lowering, Flow):
            return _one_equation(primitive, tuple([x.type for x in inputs]), params)
        found = _graphs.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            graph = _one_equation(primitive, tuple([x.type for x in inputs]), params)
            if len(_graphs) >= REMEMBERED:
                _graphs.clear()
            found = _graphs[key] = graph if _has_flag(with_flag(graph, kinds)) else None
        return found

    def _run(self, graph: Graph, inputs: Sequence[Value], detector: Detector) -> list[Value]:
        """Run a graph of fixed sizes with a flag, and search for the first anomaly if it is true."""
        form = "flagged", detector.kinds
        flagged: Graph | None = graph.kept.get(form, _UNKNOWN)
        if flagged is _UNKNOWN:
            flagged = graph.kept[form] = self._flagged(graph, detector.kinds)
        if flagged is None:
            return self.executor.execute(graph, inputs)
        if flagged is graph:  # which calls the host
            return self._search(detector).run(graph, inputs)
        viewed = any([x.layout is not None for x in inputs])
        try:
            results = (self.executor.execute_on_views if viewed else self.executor.execute)(flagged, inputs)
        except Error:  # a check failed, perhaps because of an anomaly before
            self._search(detector).run(graph, inputs)
            raise
        if memoryview(results.pop().content)[0]:
            self._search(detector).run(graph, inputs)
            graph.kept["unusual", detector.kinds] = tuple(map(_how_unusual, inputs))
            graph.kept.pop(form, None)
        return results

    def _flagged(self, graph: Graph, kinds: Kinds) -> Graph | None:
        """A graph with a flag; None if it has nothing to examine, the graph itself if it must not run twice."""
        if graph.calls_host:
            return graph
        known: Sequence[str] = graph.kept.get(("unusual", kinds), ())
        unusual = frozenset(k for k, what in enumerate(known) if what)
        found = with_flag(graph, kinds, unusual, frozenset(k for k in unusual if known[k] == INFINITE))
        return found if _has_flag(found) else None

    def _search(self, detector: Detector) -> Search:
        return Search(self.executor, detector.kinds, detector.place, detector.backward)


def _one_equation(primitive: Primitive, types: tuple[TensorType, ...], params: Mapping[str, Any]) -> Graph:
    b = Builder(primitive.name)
    return b.finish(b.add(primitive, list(map(b.input, types)), params))


def _has_flag(graph: Graph) -> bool:
    return not isinstance(graph.outputs[-1], Literal)


def _how_unusual(x: Value) -> str:
    """Whether a tensor has NaN, or infinities only; empty for finite numbers."""
    if not x.type.dtype.is_differentiable:
        return ""
    numbers = to_numpy(x)
    return "" if bool(np.isfinite(numbers).all()) else NAN if bool(np.isnan(numbers).any()) else INFINITE


def is_examined() -> bool:
    """Whether operations are examined, and no transformation is in progress."""
    return STATE.detector is not None and STATE.interpreters[-1] is STATE.detector


# ---- the mode

_counting = forkable()
_blocks: list[Detector] = []  # in all threads


def begin(kinds: Kinds) -> Detector:
    """Begin to examine this thread's operations."""
    detector = Detector(kinds)
    with _counting:
        _blocks.append(detector)
        if not isinstance(PARTS.executor, ExaminingExecutor):
            PARTS.executor = ExaminingExecutor(PARTS.executor)
    STATE.detector = detector
    STATE.settle()
    enter(detector)
    return detector


def end(detector: Detector, before: Detector | None) -> None:
    """End it, or go back to the examination before."""
    leave(detector)
    STATE.detector = before
    STATE.settle()
    with _counting:
        _blocks[:] = [d for d in _blocks if d is not detector]
        if not _blocks and isinstance(PARTS.executor, ExaminingExecutor):
            PARTS.executor = PARTS.executor.executor
