"""The values of a graph for its user: their names, and the operations as nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from nacre.api.operands import as_tensor, is_scalar
from nacre.base import tree
from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, DTypeError, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.size_binding import solve
from nacre.base.tree import ReadOnlyMapping
from nacre.base.types import TensorType
from nacre.ir.graph import Graph, Var
from nacre.ir.text import literal_text, value_names
from nacre.trace.value import Value
from nacre.transform.graphs.placeholder import DefinedValue, twice

Names = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class GraphNode:
    """An operation of a graph: its name, parameters and line, the values that it reads, and its results."""

    names: tuple[str, ...]
    operation: str
    inputs: tuple[str, ...]
    types: tuple[TensorType, ...]
    params: Mapping[str, Any]
    source: str

    @property
    def name(self) -> str:
        """The name of the result, or of the first one."""
        return self.names[0] if self.names else ""

    @property
    def shape(self) -> Any:
        """The shape of the result, or of the first one."""
        return self.types[0].shape if self.types else ()

    @property
    def dtype(self) -> Any:
        """The dtype of the result, or of the first one; None for a check, which has none."""
        return self.types[0].dtype if self.types else None

    def __repr__(self) -> str:
        results = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.types, strict=True))
        return f"<{results or 'no result'} = {self.operation}({', '.join(self.inputs)})>"


def labels_of(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], named: Mapping[str, Var]) -> dict[Var, str]:
    """The name of each value: its own, or that of the output that it is, or letters."""
    found: dict[Var, str] = dict(zip(graph.inputs, inputs, strict=True))
    taken = set(found.values())
    results_named = [(n, a) for n, a in zip(outputs, graph.outputs, strict=True) if isinstance(a, Var)]
    results = {v for e in graph.equations for v in e.outputs}
    for n, v in (*named.items(), *results_named):
        if v in results and v not in found and n not in taken:
            found[v] = n
            taken.add(n)
    letters = (n for n in value_names() if n not in taken)
    fresh = {v: found.get(v) or next(letters) for e in graph.equations for v in e.outputs}
    return {**{v: found[v] for v in graph.inputs}, **fresh}


def nodes_of(graph: Graph, names: Mapping[Var, str]) -> tuple[GraphNode, ...]:
    """The operations of a graph in order."""
    return tuple(
        GraphNode(
            tuple(names[v] for v in e.outputs),
            e.primitive.name,
            tuple(names[a] if isinstance(a, Var) else literal_text(a) for a in e.inputs),
            tuple(v.type for v in e.outputs),
            ReadOnlyMapping(e.params, "GraphNode.params", "write graph.replace, which returns another graph"),
            e.source,
        )
        for e in graph.equations
    )


def inputs_by_name(inputs: Any) -> dict[str, Any]:
    """The inputs of a graph that is built, by their names."""
    if isinstance(inputs, Mapping):
        return dict(cast("Mapping[str, Any]", inputs))
    listed = cast("Iterable[Any]", inputs if isinstance(inputs, tuple | list) else (inputs,))
    found: dict[str, Any] = {}
    for k, x in enumerate(listed):
        content = x.content if isinstance(x, Value) else None
        n = (content.name if isinstance(content, DefinedValue) else "") or f"input{k}"
        if n in found:
            raise twice("Graph.build", n, [v.content.source for v in (found[n], x)])
        found[n] = x
    return found


def names_of(what: str, given: object) -> tuple[tuple[str, ...], tree.Structure]:
    """Names as a tuple, each once, and the structure of their tensors in a result."""
    names = cast("Sequence[Any]", (given,) if isinstance(given, str) else given)
    if not isinstance(names, tuple | list) or not all(isinstance(n, str) for n in names):
        raise KindError(f"{what} must be a name or a sequence of names; got {shown(given)}")
    if not names:
        raise ArgumentError(f"{what} must have at least one name; got none")
    for n in names:
        if names.count(n) > 1:
            raise ArgumentError(f"{what} must have each name once; got {n!r} twice")
    one = isinstance(given, str)
    return tuple(names), tree.LEAF if one else tree.Structure(tuple, None, (tree.LEAF,) * len(names))


def fed(x: Any, wanted: TensorType) -> Value:
    """The tensor that a user gives for a value of a type; Python numbers, also in lists, take its dtype."""
    return as_tensor(x, wanted.dtype) if _is_numbers(x) else as_tensor(x)


def _is_numbers(x: object) -> bool:
    """Whether x is a Python number, or a list or tuple of them."""
    leaves = tree.flatten(x)[0]
    return is_scalar(x) or (isinstance(x, list | tuple) and bool(leaves) and all(map(is_scalar, leaves)))


def _depth(x: object) -> int:
    """The number of axes of a list or tuple of numbers; -1 for anything else."""
    if is_scalar(x):
        return 0
    depths = set(map(_depth, cast("Sequence[object]", x))) if isinstance(x, list | tuple) else set[int]()
    return depths.pop() + 1 if len(depths) == 1 and -1 not in depths else -1


def tensors_of_call(args: tuple[Any, ...], inputs: Sequence[TensorType]) -> list[Value]:
    """The tensors in the arguments of a call, in order; a list of numbers is one for an input that has axes."""
    leaves, _ = tree.flatten(args)
    if not any(map(is_scalar, leaves)):
        return [as_tensor(x) for x in leaves]
    found: list[Value] = []

    def take(x: Any) -> None:
        """Add the tensors of an argument, or of a part of one."""
        wanted = inputs[len(found)] if len(found) < len(inputs) else None
        parts = tree.opened(x)
        if parts is None or (wanted is not None and wanted.rank and _depth(x) == wanted.rank):
            found.append(as_tensor(x) if wanted is None else fed(x, wanted))
        else:
            for each in parts[0]:
                take(each)

    for x in args:
        take(x)
    return found


def sizes_of_call(
    program: str, inputs: Mapping[str, TensorType], given: Sequence[Value], named: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The sizes of symbols in a call.  Raises an error unless it has one tensor for each input, of its type."""
    if named or len(given) != len(inputs):
        listed, feeds = ", ".join(inputs), ", ".join(f'"{n}": {n}' for n in inputs)
        if named:
            raise KindError(
                f"{program}: the call takes tensors by position ({listed}); got the keyword {next(iter(named))!r}; "
                f"write {program}({listed}), or {program}.run({{{feeds}}}, fetch)"
            )
        raise ArgumentError(
            f"{program}: the call takes {len(inputs)} tensors ({listed}); got {len(given)}; write {program}({listed})"
        )
    for (name, wanted), x in zip(inputs.items(), given, strict=True):
        if x.type.rank != wanted.rank:
            raise ShapeError(f"{program}: {name} must be {wanted}; got {x.type}; reshape it")
        if x.type.dtype is not wanted.dtype:
            advice = f"convert it with astype(nacre.{wanted.dtype.name})"
            raise DTypeError(f"{program}: {name} must be {wanted}; got {x.type}; {advice}")
    return fitting_sizes(program, inputs, [x.type for x in given])


def fitting_sizes(program: str, inputs: Mapping[str, TensorType], given: Sequence[TensorType]) -> Mapping[str, Any]:
    """The sizes of symbols for given types, of the inputs' ranks.  Raises ShapeError if they do not fit."""
    sizes = solve(list(inputs.values()), [t.shape for t in given])
    for (name, wanted), found in zip(inputs.items(), given, strict=True):
        _require_fit(program, name, wanted, found, sizes)
    return sizes


def _require_fit(program: str, name: str, wanted: TensorType, found: TensorType, sizes: Mapping[str, Any]) -> None:
    for n, actual in zip(wanted.shape, found.shape, strict=True):
        low, high = (n, n) if isinstance(n, int) else n.bounds()
        exact = n if isinstance(n, int) else n.substitute(sizes)
        least, most = (exact, exact) if isinstance(exact, int) else exact.bounds()
        if actual != exact or not low <= least <= most <= high:
            bounds = "" if isinstance(n, int) else f" with {n} from {low} to {high}"
            advice = "; for other sizes, write None in nc.placeholder, or dynamic_shapes in nc.Graph.trace"
            raise ShapeError(f"{program}: {name} must be {wanted}{bounds}; got {found}{'' if bounds else advice}")
