"""Functions of trees as graphs over one vector of unknowns, and the arguments that all solvers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.api.manipulation import concat, reshape
from nacre.base import tree
from nacre.base.arguments import plain_number, shown, whole_number
from nacre.base.dtypes import DType, float32, float64
from nacre.base.errors import ArgumentError, DTypeError, KindError, TraceError
from nacre.base.types import TensorType
from nacre.interpret.closures.environment import Environment
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.trace.value import Value
from nacre.transform.arguments import name_of, require_function
from nacre.transform.closure_conversion import Operands, StagedFunction, stage_function

Function = Callable[..., Any]
MEMORY: Final = 100  # past iterates or steps that a method may combine
EPSILON: Final = {float32: 2.0**-23, float64: 2.0**-52}


class Unknowns:
    """The tree of unknowns of a solver, and its one vector."""

    def __init__(self, operation: str, start: Any) -> None:
        self.operation, self.given = operation, Operands(operation, start, numbers=True)
        types = self.given.types
        if len(types) != len(self.given.leaves) or not types:
            raise KindError(f"{operation}: the start must be a tree of tensors or numbers; got {shown(start)}")
        self.dtype: DType = types[0].dtype
        for t in types:
            if t.dtype not in EPSILON or t.dtype is not self.dtype:
                raise DTypeError(
                    f"{operation}: unknowns must all be float32, or all float64; got {', '.join(map(str, types))}; "
                    "convert the start with astype"
                )
        self.types = tuple(types)

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return sum([int(t.size) for t in self.types])

    @property
    def vector(self) -> Any:
        """The start as one vector."""
        return joined(self.given.values)

    def tree(self, vector: Any) -> Any:
        """The tree of a vector."""
        return self.given.filled(parted(vector, self.types))

    def stage(self, f: Function) -> tuple[StagedFunction, Graph, list[Value]]:
        """f as a graph of the leaves and of the operands that it captures, and these operands."""
        staged = stage_function(self.operation, f, [self.given], self.types)
        trace = staged.trace
        if trace.variable_outputs or any(r.gradient_written for r in trace.variables):
            raise TraceError(
                f"{self.operation}: f must not assign variables, call backward or draw random numbers without a key; "
                "return new values, or pass a key"
            )
        around = Environment(self.operation, (trace,))
        return staged, around.graph(trace), around.operands()


def called(operation: str, f: Any, args: Sequence[Any]) -> Function:
    """A function of the unknowns alone; raises KindError for anything else than a function."""
    if not callable(f):
        raise KindError(f"{operation}: f must be a function; got {shown(f)}")
    require_function(f, operation)

    def of_unknowns(x: Any) -> Any:
        """The function with its other arguments."""
        return f(x, *args)

    of_unknowns.__name__ = name_of(f, operation)
    return of_unknowns


def joined(leaves: Sequence[Any]) -> Any:
    """Tensors as one vector."""
    return concat([reshape(x, (-1,)) for x in leaves])


def parted(vector: Any, types: Sequence[TensorType]) -> list[Any]:
    """The parts of a vector, in their shapes."""
    at, found = 0, list[Any]()
    for t in types:
        size = int(t.size)
        found.append(reshape(vector[at : at + size], t.shape))
        at += size
    return found


@kept_with_graph(1024)
def over_vector(graph: Graph, count: int) -> Graph:
    """The graph with its first `count` inputs as one vector, and its results as another."""
    types = graph.input_types[:count]
    vector = TensorType((sum(int(t.size) for t in types),), types[0].dtype)

    def f(x: Any, *rest: Any) -> list[Value]:
        """The graph over a vector."""
        return [joined(run(graph, [*parted(x, types), *rest]))]

    return derived(f, (vector, *graph.input_types[count:]), graph.name)


def applied(graph: Graph, operands: Sequence[Any]) -> Callable[[Any], Any]:
    """A graph with one result as a function of its first input, for given other operands."""
    return lambda x: run(graph, [x, *operands])[0]


def number_of_equations(unknowns: Unknowns, staged: StagedFunction) -> None:
    """Raise ArgumentError or DTypeError unless a function has as many results as unknowns, in their dtype."""
    wanted, got = (sum(int(t.size) for t in types) for types in (unknowns.types, staged.types))
    if wanted != got:
        raise ArgumentError(
            f"{unknowns.operation}: f must return as many equations as there are unknowns; got {got} for {wanted} "
            "unknowns; for more equations than unknowns, minimise the sum of squares"
        )
    for t in staged.types:
        if t.dtype is not unknowns.dtype:
            raise DTypeError(
                f"{unknowns.operation}: the results of f must have the unknowns' dtype, {unknowns.dtype.name}; got "
                f"{t}; convert it with astype"
            )


def require_choice(operation: str, what: str, given: object, choices: Sequence[str]) -> str:
    """One of several texts; raises ArgumentError for others."""
    if not isinstance(given, str) or given not in choices:
        listed = ", ".join(f'"{c}"' for c in choices)
        raise ArgumentError(f"{operation}: {what} must be one of {listed}; got {shown(given)}")
    return given


def tolerance_of(operation: str, given: Any, default: float) -> float:
    """A tolerance; raises ArgumentError unless it is a finite number of at least 0."""
    found = default if given is None else float(plain_number(given, operation, "tolerance"))
    if not 0 <= found < float("inf"):
        raise ArgumentError(f"{operation}: tolerance must be finite and at least 0; got {found}")
    return found


def limit_of(operation: str, given: Any, what: str = "max_iterations") -> int:
    """A number of iterations; raises ArgumentError unless it is at least 1."""
    found = whole_number(given, operation, what)
    if found < 1:
        raise ArgumentError(f"{operation}: {what} must be at least 1; got {found}")
    return found


def memory_of(operation: str, given: Any) -> int:
    """A number of past iterates or steps; raises ArgumentError unless it is between 1 and `MEMORY`."""
    found = whole_number(given, operation, "memory")
    if not 1 <= found <= MEMORY:
        raise ArgumentError(f"{operation}: memory must be between 1 and {MEMORY}; got {found}")
    return found


def same_structure(unknowns: Unknowns, staged: StagedFunction) -> None:
    """Raise ArgumentError unless a function returns the tree of its unknowns."""
    if staged.structures[0] != tree.flatten(unknowns.given.given)[1] or staged.types != unknowns.types:
        raise ArgumentError(
            f"{unknowns.operation}: f must return a tree like its argument, {unknowns.given.structure} of "
            f"{', '.join(map(str, unknowns.types))}; got {staged.structures[0]} of {', '.join(map(str, staged.types))}"
        )
