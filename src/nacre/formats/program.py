"""`Program`: a function frozen to one graph with its weights, which runs without the original Python code.

`freeze` traces a function or module once.  A program can then be run, saved and loaded (`formats/frozen`), and compiled
ahead of time (`deploy`).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base import tree
from nacre.base.cached_property import cached_property
from nacre.base.errors import ArgumentError, GradientError, ShapeError, TraceError
from nacre.base.records import dataclass
from nacre.base.size_binding import solve
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import Trace, stage
from nacre.ir.graph import Graph, Literal
from nacre.ir.primitive import Host, ProcessParameter
from nacre.ir.rewrite import substitute
from nacre.nn.module import Module
from nacre.trace.modes import gradients
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable
from nacre.transform.arguments import name_of
from nacre.transform.dynamic import DynamicShapes, checked, dynamic_type
from nacre.transform.jit import Jitted

__all__ = ["freeze"]


@dataclass(frozen=True)
class Program:
    """A graph, the names of its inputs and outputs, and its weights, which are the last inputs of the graph."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Value]
    structure: tree.Structure  # of a call's result

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the inputs, without the weights."""
        return self.graph.input_types[: len(self.inputs)]

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs."""
        return self.graph.output_types

    @cached_property
    def closed(self) -> Graph:
        """The graph with its weights as constants."""
        weight_vars = self.graph.inputs[len(self.inputs) :]
        known = {
            v: Literal(np.array(to_numpy(x)), x.type) for v, x in zip(weight_vars, self.weights.values(), strict=True)
        }
        return substitute(self.graph, known)

    def __call__(self, *args: Any) -> Any:
        """Run the program on tensors or arrays, in the order of `inputs`; nested arguments are flattened.

        Returns tensors in the structure of the original result.  Raises ArgumentError for a wrong number of tensors,
        ShapeError for shapes or dtypes that do not fit.
        """
        given = [as_tensor(x) for x in tree.flatten(args)[0]]
        if len(given) != len(self.inputs):
            raise ArgumentError(
                f"{self.graph.name}: the call takes {len(self.inputs)} tensors ({', '.join(self.inputs)}); got "
                f"{len(given)}"
            )
        for name, type, x in zip(self.inputs, self.input_types, given, strict=True):
            if x.type.dtype is not type.dtype or x.type.rank != type.rank:
                raise ShapeError(f"{self.graph.name}: {name} must be {type}; got {x.type}")
        sizes = solve(self.input_types, [x.type.shape for x in given])
        for name, type, x in zip(self.inputs, self.input_types, given, strict=True):
            _fits(self.graph.name, name, type, x.type, sizes)
        self._require_plain(given)
        return tree.unflatten(self.structure, EXECUTOR.execute(self.graph, [*given, *self.weights.values()]))

    def _require_plain(self, given: Sequence[Value]) -> None:
        """Raise an error for tensors that are traced, or whose gradient would be lost."""
        for name, x in zip(self.inputs, given, strict=True):
            if not is_concrete(x):
                raise TraceError(
                    f"{self.graph.name}: a program must be called outside of traced functions; got a "
                    f"traced tensor for {name}; call the function that the program was made from"
                )
            if x.node is not None and STATE.gradients:
                raise GradientError(
                    f"{self.graph.name}: a program has no derivative; got a tensor that requires a "
                    f"gradient for {name}; write x.detach(), or call the function that the program was "
                    "made from"
                )

    def __repr__(self) -> str:
        taken = ", ".join(f"{n}: {t}" for n, t in zip(self.inputs, self.input_types, strict=True))
        given = ", ".join(f"{n}: {t}" for n, t in zip(self.outputs, self.output_types, strict=True))
        return f"<program {self.graph.name}({taken}) -> ({given}), {len(self.weights)} weights>"


def _fits(program: str, name: str, wanted: TensorType, found: TensorType, sizes: Mapping[str, int]) -> None:
    for n, actual in zip(wanted.shape, found.shape, strict=True):
        low, high = (n, n) if isinstance(n, int) else n.bounds()
        exact = n if isinstance(n, int) else n.evaluate(sizes)
        if actual != exact or not low <= exact <= high:
            bounds = "" if isinstance(n, int) else f" with {n} from {low} to {high}"
            raise ShapeError(f"{program}: {name} must be {wanted}{bounds}; got {found}")


def freeze(function: Any, *examples: Any, dynamic_shapes: DynamicShapes | None = None) -> Program:
    """Trace a function, module or jitted function on example arguments into a program; its weights are copied.

    `dynamic_shapes` names the axes whose size may change, as for `jit`; a jitted function has its own.

    Raises TraceError for functions that change variables (a module in training mode, random numbers), ArgumentError for
    arguments and results that are not tensors.

    >>> program = freeze(nn.Linear(3, 2), nc.ones((4, 3)))
    >>> program.inputs, program.output_types, list(program.weights)
    (('x',), (f32[4, 2],), ['weight', 'bias'])
    """
    if isinstance(function, Program):
        return function
    if isinstance(function, Jitted):
        dynamic_shapes = dynamic_shapes or function.dynamic_shapes
        function = function.function
    name = name_of(function)
    names, leaves = _named_arguments(function, examples, name)
    dynamic = checked("freeze", name, _signature(function).parameters, dynamic_shapes)
    types = [
        dynamic_type(name, path, x.type, dynamic.get(path.partition(".")[0]))
        for path, x in zip(names, leaves, strict=True)
    ]
    _, structure = tree.flatten(examples)
    results: list[tree.Structure] = []
    outputs: list[str] = []

    def flat(*staged: Value) -> Sequence[Value]:
        """The function on flat values; it records the names and the structure of its result."""
        answer = function(*tree.unflatten(structure, staged))
        found, shape = tree.flatten(answer)
        results.append(shape)
        outputs.extend(_paths(answer, "output"))
        if not all(isinstance(x, Value | Variable) for x in found):
            raise ArgumentError(f"freeze: {name} must return tensors; got {answer!r}")
        return [x.value if isinstance(x, Variable) else x for x in found]

    with gradients(False):
        trace = stage(flat, types, name)
    _require_unchanging(trace, name)
    return Program(trace.graph, tuple(names), tuple(outputs), _weights(function, trace), _plain(results[0]))


def require_no_host_calls(operation: str, graph: Graph) -> None:
    """Raise ArgumentError for a program that calls Python functions, which exist only in this process."""
    for e in graph.equations:
        for p in e.params.values():
            if isinstance(p, Graph):
                require_no_host_calls(operation, p)
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


def _named_arguments(function: Any, examples: Sequence[Any], name: str) -> tuple[list[str], list[Any]]:
    """The tensors among the arguments, and their names: the parameter's, and the path into nested ones."""
    try:
        signature = _signature(function)
        bound = signature.bind(*examples)
    except (TypeError, ValueError) as fault:
        raise ArgumentError(f"freeze: pass an example of every argument of {name}; {fault}") from None
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        several = signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
        names += _paths(list(value) if several else value, parameter)
    found, _ = tree.flatten(tuple(examples))
    tensors = Value | np.ndarray | np.generic | Variable
    wrong = [n for n, x in zip(names, found, strict=True) if not isinstance(x, tensors)]
    if wrong:
        raise ArgumentError(
            f"freeze: the examples must be tensors or arrays; {wrong[0]} is not; make it part of the function, as "
            "functools.partial does"
        )
    return names, [as_tensor(x) for x in found]


def _paths(value: Any, name: str) -> Iterator[str]:
    """A name for each leaf of a container: keys and positions, joined by dots."""
    if isinstance(value, dict):
        for key, child in value.items():  # type: ignore[reportUnknownVariableType]
            yield from _paths(child, f"{name}.{key}" if name != "output" else str(key))  # type: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for k, child in enumerate(value):  # type: ignore[reportUnknownVariableType]
            yield from _paths(child, f"{name}.{k}")
    else:
        count = tree.flatten(value)[1].leaves
        yield from [name] if count == 1 else [f"{name}.{k}" for k in range(count)]


def _require_unchanging(trace: Trace, name: str) -> None:
    changed = [*trace.variable_outputs, *trace.gradient_outputs]
    if changed:
        shown = ", ".join(sorted({v.name or f"a variable of {v.type}" for v in changed}))
        raise TraceError(
            f"freeze: the function must not change variables; {name} changes {shown}; call `.eval()` on the model "
            "first, and pass random keys as arguments"
        )


def _weights(function: Callable[..., Any], trace: Trace) -> dict[str, Value]:
    """The inputs of the graph besides the arguments: captured tensors, then variables by their names."""
    found: dict[str, Value] = {}
    paths: dict[int, str] = {}
    if isinstance(function, Module):
        paths = {id(v): n for n, v in (*function.named_parameters(), *function.named_buffers())}

    def add(name: str, value: Value) -> None:
        """Enter a value under a name that no other has."""
        numbered = (f"{name}.{k}" for k in itertools.count(1))
        found[next(n for n in itertools.chain([name], numbered) if n not in found)] = EXECUTOR.dense(value)

    for k, x in enumerate(trace.captures):
        add(f"constant{k}", x)
    for v in trace.variable_inputs:
        add(paths.get(id(v)) or v.name or "variable", v.value)
    for v in trace.gradient_inputs:
        add(f"{v.name or 'variable'}.grad", v.gradient)  # type: ignore[arg-type]
    return found


def _plain(structure: tree.Structure) -> tree.Structure:
    """The structure with tuples in place of all containers except tuples, lists, dicts and None."""
    kind = structure.kind
    if kind not in (None, tuple, list, dict, type(None)):
        kind = tuple
    children = tuple(map(_plain, structure.children))
    return tree.Structure(kind, structure.data if kind is dict else None, children)
