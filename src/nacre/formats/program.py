"""`Program`, publicly `nacre.Graph`: a graph with names and weights, which runs without the original Python code.

It is traced from a function, or built of placeholders.  It can then be called, differentiated, run in part, cut and
changed, saved and loaded (`formats/frozen`), and compiled ahead of time (`deploy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from nacre.base import tree
from nacre.base.arguments import shown
from nacre.base.cached_property import cached_property
from nacre.base.errors import ArgumentError, GradientError, KindError, ShapeError, StateError
from nacre.base.hints import closest
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.tree import ReadOnlyMapping
from nacre.base.types import TensorType
from nacre.compile.program.executor import EXECUTOR
from nacre.formats.derived import computed, fitted, of_gradients, simplified
from nacre.formats.freezing import free_name, frozen, paths, plain_structure, without_rules
from nacre.formats.replacement import of_function
from nacre.formats.values import (
    GraphNode,
    Names,
    fed,
    inputs_by_name,
    labels_of,
    names_of,
    nodes_of,
    sizes_of_call,
    tensors_of_call,
)
from nacre.formats.weights import UNCHANGING, GraphWeights, merged
from nacre.interpret.evaluate import to_numpy
from nacre.ir import graph as ir
from nacre.ir.graph import Atom, Builder, Literal, Var
from nacre.ir.rewrite import inline, specialised, substitute, without_dead_code
from nacre.ir.text import print_graph
from nacre.ops.control import call
from nacre.trace.value import Value, is_concrete
from nacre.transform.dynamic import DynamicShapes
from nacre.transform.graphs.parts import part, read, spliced
from nacre.transform.graphs.placeholder import DefinedGraph, defined

__all__ = ["Graph", "freeze"]


@dataclass(frozen=True, eq=False)
class Program:
    """A computation as a value: a graph, the names of its inputs and outputs, and its weights.

    `nc.Graph.trace` makes one of a function, `nc.Graph.build` one of placeholders.  A graph is called like a function,
    also inside `nc.jit`, `nc.grad` and `nc.vmap`.  It never changes; methods return other graphs.

    Values have names: inputs, weights and outputs their own, intermediates those of `nc.name`, and others the letters
    that `print` shows.

    >>> graph = nc.Graph.trace(lambda x: nc.sum(nc.sin(x) ** 2), nc.ones(2))
    >>> print(graph(nc.zeros(2)), graph.inputs, graph.outputs)
    0. ('x',) ('output',)
    """

    graph: ir.Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Value]  # by name, the last inputs of the graph
    structure: tree.Structure  # of a call's result
    named: Mapping[str, Var] = field(default_factory=dict[str, Var])  # values that `nc.name` has named

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", GraphWeights(self.weights))
        object.__setattr__(self, "named", ReadOnlyMapping(self.named, "Graph.named", UNCHANGING))

    def __setattr__(self, name: str, value: object) -> None:
        raise StateError(f"graph: {name} of a graph cannot be assigned; {UNCHANGING}")

    def __delattr__(self, name: str) -> None:
        raise StateError(f"graph: {name} of a graph cannot be deleted; {UNCHANGING}")

    @staticmethod
    def trace(function: Callable[..., Any], *examples: Any, dynamic_shapes: DynamicShapes | None = None) -> Program:
        """The graph of a function, module or jitted function, traced on example arguments; its weights are copied.

        `dynamic_shapes` names the axes whose size a call may choose, as for `nc.jit`.

        Raises TraceError for a function that changes variables (a module in training mode, random numbers), and
        ArgumentError for arguments and results that are not tensors.

        >>> graph = nc.Graph.trace(nn.Linear(3, 2), nc.ones((4, 3)))
        >>> graph
        <graph Linear(x: f32[4, 3]) -> (output: f32[4, 2]), 2 weights>
        """
        if isinstance(function, Program) and not examples:
            return function
        parts = frozen("Graph.trace", function, examples, dynamic_shapes)
        return Program(parts.graph, parts.inputs, parts.outputs, parts.weights, parts.structure, parts.named)

    @staticmethod
    def build(inputs: Any, outputs: Any, *, name: str = "graph") -> Program:
        """The graph of outputs that were computed from placeholders.

        `inputs` is a placeholder, several of them, or a dict of them by name; results computed from placeholders may be
        inputs, too.  `outputs` is a tensor, or a tuple, list or dict of them, which a call of the graph returns.
        Tensors and variables that were read are weights.

        Raises ArgumentError for an output that needs another placeholder, or none, and for an input without use.

        >>> x = nc.placeholder((2,), name="x")
        >>> graph = nc.Graph.build(x, {"double": x * 2, "square": x * x})
        >>> graph(nc.tensor([1.0, 3.0]))["square"].tolist()
        [1.0, 9.0]
        """
        found, structure = tree.flatten(outputs)
        wanted = dict(zip(paths(outputs, "output"), found, strict=True))
        if not found:
            raise ArgumentError(f"Graph.build: outputs must be tensors; got {shown(outputs)}")
        parts = defined("Graph.build", inputs_by_name(inputs), wanted, name)
        return Program._of(parts, tuple(wanted), structure)

    @staticmethod
    def _of(parts: DefinedGraph, outputs: tuple[str, ...], structure: tree.Structure) -> Program:
        """The graph of placeholders with its weights, under names that no other value has."""
        weights: dict[str, Value] = {}
        for k, (label, x) in enumerate(parts.captures):
            taken = (*parts.inputs, *parts.names, *weights)
            weights[free_name(label or f"constant{k}", taken)] = EXECUTOR.dense(x)
        return Program(parts.graph, parts.inputs, outputs, weights, plain_structure(structure), parts.names)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the inputs, without the weights."""
        return self.graph.input_types[: len(self.inputs)]

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs."""
        return self.graph.output_types

    @cached_property
    def names(self) -> Mapping[str, TensorType]:
        """The type of each value by its name: inputs, weights, and results in order."""
        return ReadOnlyMapping({n: v.type for v, n in self._labels.items()}, "Graph.names", UNCHANGING)

    @cached_property
    def nodes(self) -> tuple[GraphNode, ...]:
        """The operations in order.  Operations inside of loops and branches are parameters of these."""
        return nodes_of(self.graph, self._labels)

    @cached_property
    def _labels(self) -> dict[Var, str]:
        """The name of each value."""
        return labels_of(self.graph, (*self.inputs, *self.weights), self.outputs, self.named)

    @cached_property
    def _values(self) -> dict[str, Var]:
        """The values by name, also by second names."""
        return {**self.named, **{n: v for v, n in self._labels.items()}}

    def _value(self, operation: str, name: str) -> Var:
        found = self._values.get(name)
        if found is None:
            listed = ", ".join(list(self._values)[:20])
            raise ArgumentError(
                f"{operation}: the name must be one of a value of {self.graph.name}; got {shown(name)}"
                f"{closest(str(name), self._values) or f'; its values are {listed}'}"
            )
        return found

    def _fetched(self, operation: str, name: str) -> Atom:
        """The value of a name, which is first looked for among the outputs."""
        return self.graph.outputs[self.outputs.index(name)] if name in self.outputs else self._value(operation, name)

    @cached_property
    def closed(self) -> ir.Graph:
        """The graph with its weights as constants."""
        weight_vars = self.graph.inputs[len(self.inputs) :]
        known = {
            v: Literal(np.array(to_numpy(x)), x.type) for v, x in zip(weight_vars, self.weights.values(), strict=True)
        }
        return substitute(self.graph, known)

    def __str__(self) -> str:
        return print_graph(self.graph, names=self._labels)

    def __repr__(self) -> str:
        taken = ", ".join(f"{n}: {t}" for n, t in zip(self.inputs, self.input_types, strict=True))
        given = ", ".join(f"{n}: {t}" for n, t in zip(self.outputs, self.output_types, strict=True))
        return f"<graph {self.graph.name}({taken}) -> ({given}), {len(self.weights)} weights>"

    @property
    def __name__(self) -> str:
        """The name in errors of transformations."""
        return self.graph.name

    def __reduce__(self) -> tuple[Any, ...]:
        weights, named = dict(self.weights), dict(self.named)
        return Program, (self.graph, self.inputs, self.outputs, weights, self.structure, named)

    # ---- calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the graph on tensors or arrays, in the order of `inputs`; nested arguments are flattened.

        Returns tensors in the structure of the original result.  Raises ArgumentError for a wrong number of tensors,
        KindError for keywords, and ShapeError or DTypeError for tensors that do not fit.
        """
        given = tensors_of_call(args, self.input_types)
        sizes = sizes_of_call(self.graph.name, dict(zip(self.inputs, self.input_types, strict=True)), given, named)
        inputs = [*given, *self._held]
        if STATE.word or any(not is_concrete(x) or (x.node is not None and STATE.gradients) for x in given):
            return tree.unflatten(self.structure, call(self._at(sizes), *inputs))  # as one operation
        return tree.unflatten(self.structure, EXECUTOR.execute(self.graph, inputs))

    @cached_property
    def _held(self) -> tuple[Value, ...]:
        """The weights themselves, in order."""
        return tuple(cast("GraphWeights", self.weights).held.values())

    @cached_property
    def _forms(self) -> dict[object, Any]:
        """The graph for sizes of the symbols, and parts of the graph, as they were needed."""
        return {}

    def _at(self, sizes: Mapping[str, Any]) -> ir.Graph:
        key = tuple(sorted((n, str(size)) for n, size in sizes.items()))
        if key not in self._forms:
            self._forms[key] = specialised(self.graph, sizes) if sizes else self.graph
        return self._forms[key]

    def run(self, feeds: Mapping[str, Any], fetch: Names) -> Any:
        """The values of names, computed from those fed, by those operations alone that they need.

        `feeds` has tensors by name: inputs, weights in the place of the graph's own, or intermediates, behind which
        nothing is computed then.  `fetch` is a name, for one tensor, or several, for a tuple of tensors.

        Raises ArgumentError for unknown names and for an input that is needed and not fed.

        >>> graph = nc.Graph.trace(lambda x: nc.sum(nc.name(x * 2, "double")), nc.ones(2))
        >>> graph.run({"x": nc.ones(2)}, "double")
        Tensor([2., 2.], f32[2])
        >>> graph.run({"double": nc.ones(2)}, "output")
        Tensor(2., f32[])
        """
        if not isinstance(cast("object", feeds), Mapping):
            raise KindError(f'Graph.run: feeds must be a dict of tensors by name, as {{"x": x}}; got {shown(feeds)}')
        wanted, structure = names_of("Graph.run: fetch", fetch)
        key = (tuple(feeds), wanted, structure)
        if key not in self._forms:
            self._forms[key] = self._cut("Graph.run", tuple(feeds), wanted, structure, spare=True)
        found: Program = self._forms[key]
        return found(*[fed(feeds[n], t) for n, t in zip(found.inputs, found.input_types, strict=True)])

    # ---- other graphs

    def between(self, inputs: Names, outputs: Names) -> Program:
        """The part of the graph that computes some values from others, as a graph of its own.

        Both are names of inputs, outputs or intermediates.  One output is a tensor of calls, a sequence a tuple.  The
        part has those weights that it needs.

        Raises ArgumentError for unknown names, for an input that is needed and missing, and for one without use.

        >>> graph = nc.Graph.trace(lambda x: nc.exp(nc.name(x * 2, "double")), nc.ones(2))
        >>> graph.between("double", "output")
        <graph <lambda>(double: f32[2]) -> (output: f32[2]), 0 weights>
        """
        given, _ = names_of("Graph.between: inputs", inputs)
        return self._cut("Graph.between", given, *names_of("Graph.between: outputs", outputs))

    def _cut(
        self, operation: str, given: Names, wanted: Names, structure: tree.Structure, *, spare: bool = False
    ) -> Program:
        """The graph of values from others; with `spare`, inputs without use are left out, else refused."""
        places = {n: self._value(operation, n) for n in given}
        if len(set(places.values())) < len(places):
            raise ArgumentError(
                f"{operation}: each value must be given once; two of {', '.join(given)} are the same one"
            )
        graph, more = part(self.graph, list(places.values()), [self._fetched(operation, n) for n in wanted])
        missing = [v for v in more if self._labels[v] not in self.weights]
        if missing:
            raise ArgumentError(
                f"{operation}: every input that {', '.join(wanted)} needs must be given; {self._labels[missing[0]]} "
                f"({missing[0].type}) is not; add it, or a value that is computed from it"
            )
        needed = read(graph, list(places.values()))
        useless = [n for n, v in places.items() if v not in needed]
        if useless and not spare:
            raise ArgumentError(
                f"{operation}: {', '.join(wanted)} must need every input; {useless[0]} is not needed; leave it out"
            )
        graph = replace(graph, inputs=(*(v for v in places.values() if v in needed), *more))
        weights = {n: self.weights[n] for n in map(self._labels.__getitem__, more)}
        made = computed(graph)
        named = {n: v for n, v in self.named.items() if v in made}
        return Program(graph, tuple(n for n in given if n not in useless), tuple(wanted), weights, structure, named)

    def grad(self, wrt: Names | None = None, *, of: str | None = None) -> Program:
        """The graph of the gradients of an output, which must be a floating-point scalar.

        `wrt` names inputs or weights, by default all inputs of a floating-point dtype; for one name a call returns one
        tensor, else a tuple.  `of` names the output, or an intermediate, where the graph has several outputs.  The new
        graph has the inputs, weights and names of this one.

        Raises GradientError and DTypeError as `nc.grad` does, ArgumentError for unknown names.

        >>> graph = nc.Graph.trace(lambda x: nc.sum(x * x), nc.ones(2))
        >>> graph.grad("x")(nc.tensor([1.0, 3.0])).tolist()
        [2.0, 6.0]
        """
        if of is None and len(self.outputs) > 1:
            raise GradientError(
                f"Graph.grad: one output must be differentiated; {self.graph.name} has {', '.join(self.outputs)}; "
                f'write grad(of="{self.outputs[0]}")'
            )
        output = self.graph.outputs[0] if of is None else self._fetched("Graph.grad", of)
        floats = [n for n, t in zip(self.inputs, self.input_types, strict=True) if t.dtype.is_differentiable]
        if wrt is None and not floats:
            raise ArgumentError(
                f"Graph.grad: wrt must name an input or a weight of a float dtype; {self.graph.name} has no float "
                "inputs; trace it on floats, or name a weight"
            )
        names, structure = names_of("Graph.grad: wrt", tuple(floats) if wrt is None else wrt)
        places = [self._place(n) for n in names]
        found, named = of_gradients(self.graph, self.named, output, places)
        outputs = tuple(f"grad.{n}" for n in names)
        return Program(found, self.inputs, outputs, self.weights, structure, named)._without_unused_weights()

    def _place(self, name: str) -> int:
        listed = (*self.inputs, *self.weights)
        if name not in listed:
            self._value("Graph.grad", name)
            raise ArgumentError(
                f"Graph.grad: wrt must name inputs or weights; {name} is computed; write "
                f'graph.between("{name}", …).grad("{name}") for the part behind it'
            )
        return listed.index(name)

    def without_rules(self) -> Program:
        """The graph with functions inlined that have rules (`custom_jvp`); it can be saved, and derives by operations.

        >>> f = nc.custom_jvp(lambda x: nc.sin(x))
        >>> _ = f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        >>> nc.Graph.trace(f, nc.ones(2)).without_rules().nodes[0].operation
        'sin'
        """
        found = without_rules(self.graph)
        made = computed(found)
        return replace(self, graph=found, named={n: v for n, v in self.named.items() if v in made})

    def optimize(self) -> Program:
        """The simplified graph, with the same bits: calls are inlined, equal and unused operations are gone.

        These are the passes that come first when a graph is compiled.  Names of values that are still computed stay.

        >>> graph = nc.Graph.trace(lambda x: nc.sin(x) * nc.sin(x), nc.ones(2))
        >>> len(graph.nodes), len(graph.optimize().nodes)
        (3, 2)
        """
        graph, named = simplified(self.graph, self.named)
        return replace(self, graph=graph, named=named)._without_unused_weights()

    def _without_unused_weights(self) -> Program:
        places = self.graph.inputs[len(self.inputs) :]
        needed = read(self.graph, places)
        graph = replace(
            self.graph, inputs=(*self.graph.inputs[: len(self.inputs)], *(v for v in places if v in needed))
        )
        weights = {n: x for (n, x), v in zip(self.weights.items(), places, strict=True) if v in needed}
        return replace(self, graph=graph, weights=weights)

    def then(self, other: Program) -> Program:
        """The graph of `other(self(…))`: the outputs are the inputs of the other graph, in order.

        Names of the other graph that are taken get a number.  Raises ArgumentError for another number of outputs,
        ShapeError for types that do not fit.

        >>> double = nc.Graph.trace(lambda x: x * 2, nc.ones(2))
        >>> double.then(double)(nc.ones(2)).tolist()
        [4.0, 4.0]
        """
        if not isinstance(cast("object", other), Program):
            raise KindError(
                f"Graph.then: the other must be a graph; got {shown(other)}; write nc.Graph.trace(f, …) first"
            )
        if len(other.inputs) != len(self.outputs):
            raise ArgumentError(
                f"Graph.then: the other graph must take {len(self.outputs)} tensors ({', '.join(self.outputs)}); "
                f"{other.graph.name} takes {len(other.inputs)} ({', '.join(other.inputs)})"
            )
        inner = fitted("Graph.then", other.graph, other.inputs, self.graph.outputs)
        weights, operands = self._with_weights(other)
        builder = Builder(self.graph.name)
        builder.inputs = [*self.graph.inputs, *(v for v in operands if v not in self.graph.inputs)]
        builder.equations = list(self.graph.equations)
        outputs = inline(builder, inner, (*self.graph.outputs, *operands))
        made = builder.equations[len(self.graph.equations) :]
        now = {v: w for e, f in zip(other.graph.equations, made, strict=True) for v, w in zip(e.outputs, f.outputs)}
        named = dict(self.named)
        for n, v in other.named.items():
            if v in now:
                named[free_name(n, (*self.inputs, *weights, *named))] = now[v]
        return Program(builder.finish(outputs), self.inputs, other.outputs, weights, other.structure, named)

    def replace(self, name: str, other: Program | Callable[..., Any], inputs: Names | None = None) -> Program:
        """The graph with another computation of one value; all that reads the value reads the new one.

        `other` is a graph or a function of the old value.  With `inputs`, it takes these values, which must not be
        computed from the replaced one.

        Raises ArgumentError for unknown names and a graph with several outputs, ShapeError for types that do not fit.

        >>> graph = nc.Graph.trace(lambda x: nc.sum(nc.name(nc.tanh(x), "hidden")), nc.ones(2))
        >>> graph.replace("hidden", nc.exp, "x")(nc.zeros(2))
        Tensor(2., f32[])
        """
        operation = "Graph.replace"
        at = self._value(operation, name)
        if at in self.graph.inputs:
            raise self._not_computed(name)
        taken, _ = names_of(f"{operation}: inputs", name if inputs is None else inputs)
        values = {n: self._value(operation, n) for n in taken}
        if not isinstance(other, Program):
            other = Program._of(*of_function(operation, other, values, at.type))
        for what, listed, count in (
            ("have 1 output", other.outputs, 1),
            (f"take {len(taken)}", other.inputs, len(taken)),
        ):
            if len(listed) != count:
                raise ArgumentError(
                    f"{operation}: the new graph must {what}; {other.graph.name} has {', '.join(listed)}; write "
                    "other.between(inputs, output) for a part of it, or name what it takes by inputs="
                )
        inner = fitted(operation, other.graph, other.inputs, [*values.values()])
        if inner.output_types != (at.type,):
            raise ShapeError(
                f"{operation}: the new value must have type {at.type}, as {name} has; {other.graph.name} gives "
                f"{inner.output_types[0]}"
            )
        weights, operands = self._with_weights(other)
        graph, made = spliced(self.graph, at, inner, (*values.values(), *operands))
        named = {n: made if v is at else v for n, v in self.named.items()}
        graph = without_dead_code(graph)
        left = computed(graph)
        named = {n: v for n, v in named.items() if isinstance(v, Var) and v in left}
        return replace(self, graph=graph, weights=weights, named=named)._without_unused_weights()

    def _not_computed(self, name: str) -> ArgumentError:
        """The error for an input or a weight in the place of a computed value."""
        given = ", ".join(f'"{n}"' for n in (*self.inputs, name))
        advice = (
            f'is an input; write other.then(graph) for a graph other of "{name}"'
            if name in self.inputs
            else f'is a weight; write graph.between(({given}), "{self.outputs[0]}"), where it is an input'
        )
        return ArgumentError(f"Graph.replace: the value must be computed; {name} {advice}")

    def _with_weights(self, other: Program) -> tuple[dict[str, Value], list[Var]]:
        """The weights of both, the other's after these, and the other's inputs for them; equal tensors are shared."""
        weights, others = cast("GraphWeights", self.weights), cast("GraphWeights", other.weights)
        return merged(weights, self.graph, others, (*self.inputs, *self.named))


Graph = Program


def freeze(function: Any, *examples: Any, dynamic_shapes: DynamicShapes | None = None) -> Program:
    """The graph of a function, module or jitted function on example arguments; the same as `nc.Graph.trace`.

    Raises TraceError for functions that change variables (a module in training mode, random numbers), ArgumentError for
    arguments and results that are not tensors.

    >>> graph = freeze(nn.Linear(3, 2), nc.ones((4, 3)))
    >>> graph.inputs, graph.output_types, list(graph.weights)
    (('x',), (f32[4, 2],), ['weight', 'bias'])
    """
    if isinstance(function, Program):
        return function
    parts = frozen("freeze", function, examples, dynamic_shapes)
    return Program(parts.graph, parts.inputs, parts.outputs, parts.weights, parts.structure, parts.named)
