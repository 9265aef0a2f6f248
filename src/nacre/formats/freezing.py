"""Freezing: a function traced once on example arguments, as a graph with names and weights."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base import tree
from nacre.base.errors import ArgumentError, TraceError
from nacre.base.records import dataclass
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.forward import as_kind
from nacre.interpret.stage import Trace, stage
from nacre.ir.graph import Graph, Var
from nacre.ir.primitive import Flow, Host, ProcessParameter
from nacre.ir.rewrite import without_calls
from nacre.nn.module import Module
from nacre.ops.control import DerivativeRule
from nacre.trace.modes import gradients
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.arguments import name_of
from nacre.transform.dynamic import DynamicShapes, checked, dynamic_type
from nacre.transform.graphs.placeholder import require_no_placeholder, twice
from nacre.transform.jit import Jitted


@dataclass(frozen=True, eq=False)
class FrozenParts:
    """What a program consists of, as `freeze` finds it."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Value]
    structure: tree.Structure
    named: Mapping[str, Var]


def frozen(operation: str, function: Any, examples: Sequence[Any], dynamic_shapes: DynamicShapes | None) -> FrozenParts:
    """The parts of a function, module or jitted function on example arguments; errors begin with the operation."""
    if isinstance(function, Jitted):
        dynamic_shapes = dynamic_shapes or function.dynamic_shapes
        function = function.function
    name = name_of(function)
    names, leaves = _named_arguments(operation, function, examples, name)
    dynamic = checked(operation, name, _signature(function).parameters, dynamic_shapes)
    types = [
        dynamic_type(name, path, x.type, dynamic.get(path.partition(".")[0]))
        for path, x in zip(names, leaves, strict=True)
    ]
    _, structure = tree.flatten(tuple(examples))
    results: list[tree.Structure] = []
    outputs: list[str] = []

    def flat(*staged: Value) -> Sequence[Value]:
        """The function on flat values; it records the names and the structure of its result."""
        answer = function(*tree.unflatten(structure, staged))
        found, shape = tree.flatten(answer)
        results.append(shape)
        outputs.extend(paths(answer, "output"))
        if not all(isinstance(x, Value | Variable) for x in found):
            raise ArgumentError(f"{operation}: {name} must return tensors; got {answer!r}")
        return [x.value if isinstance(x, Variable) else x for x in found]

    with gradients(True):  # so that what `no_grad` leaves out is left out of the graph's derivatives
        trace = stage(flat, types, name)
    require_no_placeholder(operation, trace.captures)
    _require_unchanging(operation, trace, name)
    weights = _weights(function, trace, names)
    named = _named(operation, trace, [*names, *weights])
    return FrozenParts(trace.graph, tuple(names), tuple(outputs), weights, plain_structure(results[0]), named)


def _named(operation: str, trace: Trace, taken: Sequence[str]) -> dict[str, Var]:
    """The values that `nc.name` has named.  Raises ArgumentError for a name of two."""
    found: dict[str, tuple[Var, str]] = {}
    for name, atom, line in trace.names:
        if isinstance(atom, Var) and not (name in taken and atom is trace.graph.inputs[taken.index(name)]):
            other = found.setdefault(name, (atom, line))
            if other[0] is not atom or name in taken:
                raise twice(operation, name, (other[1], line))
    return {name: v for name, (v, _) in found.items()}


def without_rules(graph: Graph) -> Graph:
    """The graph with functions inlined that have derivative rules of their own."""

    def inner(p: object) -> object:
        """A parameter, if it is a graph in the same way."""
        return as_kind(p, without_rules(p)) if isinstance(p, Graph) else p

    graph = without_calls(graph, lambda e: "rule" not in e.params)
    equations = [
        replace(e, params={k: inner(p) for k, p in e.params.items()}) if isinstance(e.primitive.lowering, Flow) else e
        for e in graph.equations
    ]
    return replace(graph, equations=tuple(equations))


def require_no_host_calls(operation: str, graph: Graph) -> None:
    """Raise ArgumentError for a program that calls Python functions, which exist only in this process."""
    for e in graph.equations:
        for p in e.params.values():
            if isinstance(p, Graph):
                require_no_host_calls(operation, p)
            elif isinstance(p, DerivativeRule):
                raise ArgumentError(
                    f"{operation}: a program must not need this process; got one with {p.name}, whose derivative rule "
                    "is Python code; write nc.freeze(f, …).without_rules(), whose derivatives are those of its "
                    "operations"
                )
            elif isinstance(p, ProcessParameter):
                raise ArgumentError(
                    f"{operation}: a program must not need this process; got one with {e.primitive.name}, which calls "
                    f"{p}, a Python function; leave the call out, or call the function before or after the program"
                )
        if isinstance(e.primitive.lowering, Host):
            raise ArgumentError(
                f"{operation}: a program must not need Python; got one with {e.primitive.name}, which NumPy computes; "
                "compute it before or after the program"
            )


def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function.forward if isinstance(function, Module) else function)


def _named_arguments(operation: str, function: Any, examples: Sequence[Any], name: str) -> tuple[list[str], list[Any]]:
    """The tensors among the arguments, and their names: the parameter's, and the path into nested ones."""
    try:
        signature = _signature(function)
        bound = signature.bind(*examples)
    except (TypeError, ValueError) as fault:
        raise ArgumentError(f"{operation}: pass an example of every argument of {name}; {fault}") from None
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        several = signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
        names += paths(list(value) if several else value, parameter)
    found, _ = tree.flatten(tuple(examples))
    tensors = Value | np.ndarray | np.generic | Variable
    wrong = [n for n, x in zip(names, found, strict=True) if not isinstance(x, tensors)]
    if wrong:
        raise ArgumentError(
            f"{operation}: the examples must be tensors or arrays; {wrong[0]} is not; make it part of the function, as "
            "functools.partial does"
        )
    return names, [as_tensor(x) for x in found]


def paths(value: Any, name: str) -> Iterator[str]:
    """A name for each leaf of a container: keys and positions, joined by dots."""
    if isinstance(value, dict):
        for key, child in value.items():  # type: ignore[reportUnknownVariableType]
            yield from paths(child, f"{name}.{key}" if name != "output" else str(key))  # type: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for k, child in enumerate(value):  # type: ignore[reportUnknownVariableType]
            yield from paths(child, f"{name}.{k}")
    else:
        count = tree.flatten(value)[1].leaves
        yield from [name] if count == 1 else [f"{name}.{k}" for k in range(count)]


def _require_unchanging(operation: str, trace: Trace, name: str) -> None:
    changed = [*trace.variable_outputs, *trace.gradient_outputs]
    if changed:
        shown = ", ".join(sorted({v.name or f"a variable of {v.type}" for v in changed}))
        raise TraceError(
            f"{operation}: the function must not change variables; {name} changes {shown}; call `.eval()` on the model "
            "first, and pass random keys as arguments"
        )


def _weights(function: Callable[..., Any], trace: Trace, inputs: Sequence[str]) -> dict[str, Value]:
    """The inputs of the graph besides the arguments: captured tensors, then variables by their names."""
    found: dict[str, Value] = {}
    known: dict[int, str] = {}
    if isinstance(function, Module):
        known = {id(v): n for n, v in (*function.named_parameters(), *function.named_buffers())}

    def add(name: str, value: Value) -> None:
        """Enter a value under a name that no other has."""
        found[free_name(name, (*inputs, *found))] = EXECUTOR.dense(value)

    for k, x in enumerate(trace.captures):
        add(f"constant{k}", x)
    for v in trace.variable_inputs:
        add(known.get(id(v)) or v.name or "variable", v.value)
    for v in trace.gradient_inputs:
        add(f"{v.name or 'variable'}.grad", v.gradient)  # type: ignore[arg-type]
    return found


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if it is taken."""
    held = set(taken)
    return next(n for n in itertools.chain([name], (f"{name}.{k}" for k in itertools.count(1))) if n not in held)


def plain_structure(structure: tree.Structure) -> tree.Structure:
    """The structure with tuples in place of all containers except tuples, lists, dicts and None."""
    kind = structure.kind
    if kind not in (None, tuple, list, dict, type(None)):
        kind = tuple
    children = tuple(map(plain_structure, structure.children))
    return tree.Structure(kind, structure.data if kind is dict else None, children)
