"""The graph IR: an ordered list of equations in single assignment, its verifier and its builder.

There is one kind of graph.  Constants are literals; control flow is a primitive whose parameters are graphs.
`str(graph)` prints it and `nacre.ir.parse.parse` reads it back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from nacre.base.cached_property import cached_property
from nacre.base.conversion import element
from nacre.base.errors import Error, GraphError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.ir.declared import declared_types
from nacre.ir.primitive import Flow, Host, Primitive


class Var:
    """A value of a graph.  Printing the graph gives it a name.  Compared by identity."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Var({self.type})"


class Literal:
    """A constant of a graph: an immutable NumPy array."""

    __slots__ = ("array", "type")

    def __init__(self, array: np.ndarray, type: TensorType) -> None:
        self.array, self.type = array, type
        array.flags.writeable = False

    @property
    def key(self) -> Hashable:
        """Equal for literals of equal type and bits."""
        return self.type, self.array.tobytes()

    def __repr__(self) -> str:
        return f"Literal({self.type})"


Atom = Var | Literal


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """results = primitive[params](inputs); `source` is the user's line, as `file:line (function)`."""

    primitive: Primitive
    inputs: tuple[Atom, ...]
    params: Mapping[str, Any]
    outputs: tuple[Var, ...]
    source: str = ""

    @property
    def has_effects(self) -> bool:
        """Whether it must run even if its results are unused: its primitive has effects, or a graph within it."""
        return has_effects(self.primitive, self.params)

    @property
    def calls_host(self) -> bool:
        """Whether it calls a Python function of the user, or a graph within it does."""
        return calls_host(self.primitive, self.params)

    @property
    def needs_python(self) -> bool:
        """Whether it calls any Python function, or a graph within it does."""
        if isinstance(self.primitive.lowering, Flow):
            return any(isinstance(p, Graph) and p.needs_python for p in self.params.values())
        return isinstance(self.primitive.lowering, Host)


def has_effects(primitive: Primitive, params: Mapping[str, Any]) -> bool:
    """Whether an equation of a primitive with these parameters has effects."""
    if isinstance(primitive.lowering, Flow):
        return any(isinstance(p, Graph) and p.has_effects for p in params.values())
    return primitive.effects


def calls_host(primitive: Primitive, params: Mapping[str, Any]) -> bool:
    """Whether an equation of a primitive with these parameters calls a Python function of the user."""
    if isinstance(primitive.lowering, Flow):
        return any(isinstance(p, Graph) and p.calls_host for p in params.values())
    return isinstance(primitive.lowering, Host) and primitive.lowering.function is None


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs, equations in order, outputs.  Graphs are equal if they differ only in the names of values."""

    inputs: tuple[Var, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]
    name: str = "graph"

    @property
    def memory_budget(self) -> int | None:
        """The bytes in which the intermediate values of its program must fit; None for no bound."""
        return None

    def remade(self, graph: Graph) -> Graph:
        """Another graph, made of this one, as an instance of this one's class if that has a meaning for it."""
        return Graph(graph.inputs, graph.equations, graph.outputs, graph.name)

    @cached_property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the inputs, in order."""
        return tuple(v.type for v in self.inputs)

    @cached_property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs, in order."""
        return tuple(v.type for v in self.outputs)

    @cached_property
    def has_effects(self) -> bool:
        """Whether an equation of it has effects, or one of a graph within it."""
        return any(e.has_effects for e in self.equations)

    @cached_property
    def calls_host(self) -> bool:
        """Whether an equation of it calls a Python function, or one of a graph within it."""
        return any(e.calls_host for e in self.equations)

    @cached_property
    def needs_python(self) -> bool:
        """Whether an equation of it calls any Python function, or one of a graph within it."""
        return any(e.needs_python for e in self.equations)

    def __getstate__(self) -> dict[str, Any]:
        """All except cached data: compiled code belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "kept"}

    @cached_property
    def kept(self) -> dict[object, Any]:
        """Data cached with this graph, by name; it lives as long as the graph."""
        return {}

    @cached_property
    def key(self) -> Hashable:
        """The graph's structure as a hashable value: equal exactly for equal graphs."""
        number: dict[Var, int] = {v: k for k, v in enumerate(self.inputs)}

        def atom(a: Atom) -> Hashable:
            """The number of a variable, or the key of a literal."""
            return number[a] if isinstance(a, Var) else a.key

        lines: list[Hashable] = []
        for e in self.equations:
            lines.append((e.primitive, tuple(map(atom, e.inputs)), params_key(e.params)))
            for v in e.outputs:
                number[v] = len(number)
        return self.input_types, tuple(lines), tuple(map(atom, self.outputs))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self.key == other.key)

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def verify(self) -> Graph:
        """Check definitions and rerun every type rule; raises GraphError with the lines around a fault."""
        for position, fault in _faults(self):
            raise GraphError(f"graph {self.name}: {fault}\n{_around(self, position)}")
        return self

    def symbols(self) -> tuple[str, ...]:
        """The names of the symbolic sizes of its inputs, sorted."""
        found = {s.name for t in self.input_types for d in t.shape if not isinstance(d, int) for s in d.symbols()}
        return tuple(sorted(found))

    def __str__(self) -> str:
        return _printer(self)


class BudgetedGraph(Graph):
    """A graph whose program has a memory budget.  A graph that is made of it has none."""

    def __init__(self, graph: Graph, budget: int) -> None:
        super().__init__(graph.inputs, graph.equations, graph.outputs, graph.name)
        self.__dict__["budget"] = budget

    @property
    def memory_budget(self) -> int | None:
        """The bytes in which the intermediate values of its program must fit."""
        return self.__dict__["budget"]

    @cached_property
    def key(self) -> Hashable:
        """The graph's key, different from those of the graph without a budget and with another one."""
        return "budget", self.memory_budget, Graph.key.function(self)


def params_key(params: Mapping[str, Any]) -> Hashable:
    """Parameters as a hashable value."""
    return tuple(sorted((k, v.key if isinstance(v, Graph) else v) for k, v in params.items()))


def _printer(graph: Graph) -> str:
    return PRINT[0](graph)


# `ir.text` stores its function that prints graphs here, so that `str(graph)` works wherever graphs are created
PRINT: list[Any] = [repr]


def _faults(graph: Graph) -> Iterator[tuple[int, str]]:
    known: set[Var] = set()
    plain: dict[object, tuple[TensorType, ...]] = {}  # the results of equations without parameters, which often repeat
    for v in graph.inputs:
        if v in known:
            yield 0, "an input is listed twice"
        known.add(v)
    for k, e in enumerate(graph.equations):
        for a in e.inputs:
            if isinstance(a, Var) and a not in known:
                yield k, f"{e.primitive.name} reads a value of type {a.type} before it is defined"
        operands = tuple([a.type for a in e.inputs])
        types = None if e.params else plain.get((e.primitive, operands))
        try:
            types = types or declared_types(e.primitive, operands, e.params)
        except Error as error:
            yield k, f"{e.primitive.name} breaks its type rule: {error}"
            continue
        if not e.params:
            plain[e.primitive, operands] = types
        found = tuple(v.type for v in e.outputs)
        if types != found:
            yield k, f"{e.primitive.name} gives {list(types)} but its results are declared {list(found)}"
        for v in e.outputs:
            if v in known:
                yield k, f"{e.primitive.name} defines a value that is already defined"
            known.add(v)
        for p in e.params.values():
            if isinstance(p, Graph):
                p.verify()
    for a in graph.outputs:
        if isinstance(a, Var) and a not in known:
            yield len(graph.equations), f"an output of type {a.type} is never defined"


def _around(graph: Graph, position: int) -> str:
    lines = str(graph).splitlines()
    at = position + 1
    shown = range(max(0, at - 3), min(len(lines), at + 3))
    return "\n".join(("> " if k == at else "  ") + lines[k] for k in shown)


Rest = ParamSpec("Rest")
Found = TypeVar("Found")
OfGraph = Callable[Concatenate[Graph, Rest], Found]


def kept_with_graph(maxsize: int) -> Callable[[OfGraph[Rest, Found]], OfGraph[Rest, Found]]:
    """A decorator of a pure function of a graph, whose latest results are cached for all equal graphs.

    Those of a graph that calls the host live as long as that graph, because it refers to objects of its program alone.
    """

    def decorated(function: OfGraph[Rest, Found]) -> OfGraph[Rest, Found]:
        latest: Any = lru_cache(maxsize)(function)

        def cached(graph: Graph, *rest: Rest.args, **named: Rest.kwargs) -> Found:
            if not graph.calls_host:
                return latest(graph, *rest, **named)
            key = (function, rest, *named.items())
            if key not in graph.kept:
                graph.kept[key] = function(graph, *rest, **named)
            return graph.kept[key]

        return update_wrapper(cached, function)

    return decorated


class Builder:
    """Builds a graph equation by equation.

    >>> from nacre.base.dtypes import float32
    >>> b = Builder("empty")
    >>> x = b.input(TensorType((2,), float32))
    >>> b.finish([x]).output_types
    (f32[2],)
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []

    def input(self, type: TensorType) -> Var:
        """Append an input of a type."""
        v = Var(type)
        self.inputs.append(v)
        return v

    def add(
        self, primitive: Primitive, inputs: Sequence[Atom], params: Mapping[str, Any] | None = None, source: str = ""
    ) -> tuple[Var, ...]:
        """Append an equation; its results' types come from the type rule."""
        held = dict(params or {})
        types = primitive.result_types(tuple(a.type for a in inputs), held)
        outputs = tuple(map(Var, types))
        self.equations.append(Equation(primitive, tuple(inputs), held, outputs, source))
        return outputs

    def finish(self, outputs: Sequence[Atom]) -> Graph:
        """The finished graph with the given outputs."""
        return Graph(tuple(self.inputs), tuple(self.equations), tuple(outputs), self.name)


def scalar(value: float | int | bool, type: TensorType) -> Literal:
    """A rank-0 literal."""
    return Literal(element(value, type.dtype), TensorType((), type.dtype))
