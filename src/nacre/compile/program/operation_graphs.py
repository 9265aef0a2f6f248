"""Operations as graphs: of a primitive, and of a public function; for given operands, and for all sizes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nacre.base.types import TensorType, row_major
from nacre.compile.program.ahead import equation_rule, function_rule
from nacre.compile.program.functions import single, traced
from nacre.compile.program.kinds import Strides, Writer, Written
from nacre.interpret.evaluate import view
from nacre.ir.graph import Builder, Graph
from nacre.ir.primitive import Element, Layout, Primitive
from nacre.trace.value import Value, make

Function = Callable[..., Any]
Types = tuple[TensorType, ...]


def strides_or_dense(types: Types, strides: Strides) -> list[tuple[int, ...]]:
    """The strides of operands, dense ones included."""
    return [s or row_major(t.shape) for s, t in zip(strides, types, strict=True)]  # type: ignore[misc]


def may_be_view(primitive: Primitive) -> bool:
    """Whether the result of a primitive may be a view of its operand."""
    low = primitive.lowering
    return isinstance(low, Element) and low.view is not None and not low.resized


def written(primitive: Primitive, types: Types, params: Mapping[str, Any], strides: Strides | None) -> Written | None:
    """A primitive with one result: its program, or the view that it is."""
    if primitive.multiple or primitive.effects or primitive.expansion is not None:
        return None
    graph = graph_of(primitive, types, params)
    layouts = [None if s is None else Layout(0, s) for s in strides or [None] * len(types)]  # type: ignore[arg-type]
    inputs = [make(t, None, layout) for t, layout in zip(types, layouts, strict=True)]
    viewed = view(primitive, inputs, params, graph.output_types[0])
    return Written(graph if viewed is None else viewed, lambda active: equation_rule(primitive, params, types, active))


def writer_of(primitive: Primitive) -> Writer:
    """The writer of a primitive for other sizes of operands and parameters."""
    return lambda types, params, strides: written(primitive, tuple(types), params, strides)


def written_function(function: Function, types: Types, strides: Strides | None) -> Written | None:
    """A public function with one result."""
    graph = traced(function, types)
    if graph is None:
        return None
    one = single(graph)
    if one is not None:
        return written(one.primitive, types, one.params, strides)
    return Written(graph, partial(function_rule, graph))


def graph_of(primitive: Primitive, types: Types, params: Mapping[str, Any]) -> Graph:
    """The graph of one primitive on operands of these types."""
    builder = Builder(primitive.name)
    return builder.finish(builder.add(primitive, [builder.input(t) for t in types], params))


def view_of(graph: Graph) -> Value | None:
    """The view of a dense operand that a chain of equations with one operand each makes; None if it needs a copy."""
    if len(graph.inputs) != 1:
        return None
    at, held = graph.inputs[0], make(graph.input_types[0], None)
    for e in graph.equations:
        found = view(e.primitive, (held,), e.params, e.outputs[0].type) if e.inputs == (at,) else None
        if found is None:
            return None
        at, held = e.outputs[0], found
    return held if list(graph.outputs) == [at] else None
