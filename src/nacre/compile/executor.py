"""The executor: runs primitives and graphs on values that have numbers, by compiled code alone.

An eager operation is a graph of one equation.  What was compiled for a primitive, its parameters and its operands'
types and layouts is remembered; the machine code behind it serves every shape (see `compile/generalise`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.types import TensorType, row_major
from nacre.codegen.entry import entry
from nacre.compile.flow import run_flow, segments
from nacre.compile.stored import program
from nacre.interpret.evaluate import view
from nacre.ir.graph import Builder, Graph, params_key
from nacre.ir.primitive import Flow, Primitive
from nacre.ops.copy import copy_p
from nacre.runtime.executable import Executable
from nacre.trace.bind import register_executor
from nacre.trace.value import Value, is_concrete, layout_of, make


class CompilingExecutor:
    """Evaluates by compiling; remembers what it compiled."""

    def __init__(self) -> None:
        self.kernels: dict[object, Callable[..., Any]] = {}
        self.strided: dict[object, Executable] = {}
        self.runners: dict[int, tuple[Graph, Callable[[Sequence[Value]], list[Value]]]] = {}
        self.programs: dict[int, tuple[Graph, Executable]] = {}
        self.equal: dict[Graph, Executable] = {}

    # ---- one primitive

    def evaluate(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run one primitive with a kernel for these types, compiled at the first call."""
        if params:
            key = (primitive, *[x.type for x in inputs], *params.items())
        else:
            key = (primitive, *[x.type for x in inputs])
        kernel = self.kernels.get(key)
        return self.first(key, primitive, inputs, params) if kernel is None else kernel(*inputs)

    def first(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """An operation not seen before, a view, control flow, or operands that are views."""
        types = tuple(x.type for x in inputs)
        results = primitive.result_types(types, params)
        if not primitive.multiple:
            viewed = view(primitive, list(inputs), params, results[0])
            if viewed is not None:
                if inputs[0].layout is None:
                    self.kernels[key] = self.remembered(key, primitive, params, viewed)
                return viewed
        if isinstance(primitive.lowering, Flow):
            return tuple(run_flow(self, primitive, inputs, params))
        if any(x.layout is not None for x in inputs):
            return self.evaluate_strided(primitive, inputs, params, types)
        kernel = self.kernels[key] = self.prepare(primitive, types, params)
        return kernel(*inputs)

    def remembered(self, key: object, primitive: Primitive, params: Mapping[str, Any],
                   viewed: Value) -> Callable[..., Any]:
        """A view of dense memory, as it was found once for the same type and parameters."""
        result, layout = viewed.type, viewed.layout

        def again(x: Value, *rest: Value) -> Any:
            """A result of the same data: the operand with another layout."""
            if x.layout is None:
                return make(result, x.data, layout)
            return self.first(key, primitive, (x, *rest), params)

        return again

    def evaluate_strided(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any],
                         types: Sequence[TensorType]) -> Any:
        """Operands that are views: their strides belong to what is compiled, their offsets to the call."""
        for x in inputs:
            if not is_concrete(x):  # left over from a trace that has ended, which says so
                return x.data.interpreter.process(primitive, inputs, params)
        strides = tuple(layout_of(x).strides for x in inputs)
        key = (primitive, params_key(params), types, strides)
        executable = self.strided.get(key)
        if executable is None:
            executable = self.strided[key] = self.build(primitive, types, strides, params)
        addresses = [x.data.address + layout_of(x).offset * x.type.dtype.itemsize for x in inputs]
        buffers = executable.run(addresses, {})
        outputs = [make(t, b) for t, b in zip(executable.output_types, buffers, strict=True)]
        return tuple(outputs) if primitive.multiple else outputs[0]

    def build(self, primitive: Primitive, types: Sequence[TensorType], strides: Sequence[tuple[int, ...]],
              params: Mapping[str, Any]) -> Executable:
        """The executable of one primitive for operands of these types and strides."""
        builder = Builder(primitive.name)
        results = builder.add(primitive, [builder.input(t) for t in types], params)
        return program(builder.finish(results), strides)

    def prepare(self, primitive: Primitive, types: Sequence[TensorType], params: Mapping[str, Any],
                check_nodes: bool = False, fallback: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """A native callable for a primitive on dense operands of the given types; `fallback` serves all others."""
        strides = [row_major(t.shape) for t in types]
        executable = self.build(primitive, types, strides, params)  # type: ignore[arg-type]

        def strided(*inputs: Value) -> Any:
            """Run the primitive on operands that are not all dense."""
            return self.evaluate_strided(primitive, inputs, params, tuple(types))

        made = entry(executable, fallback or strided, check_nodes)
        if primitive.multiple and len(executable.output_types) == 1:
            return lambda *inputs: (made(*inputs),)
        return made

    # ---- graphs

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph, compiled at the first call, on its inputs."""
        runner = self.runners.get(id(graph))
        if runner is None:
            runner = self.runners[id(graph)] = graph, self.runner(graph)
        return runner[1](inputs)

    def runner(self, graph: Graph) -> Callable[[Sequence[Value]], list[Value]]:
        """What runs a graph: its parts if it has control flow, a native entry if its shapes are fixed."""
        parts = segments(graph)
        if parts is not None:
            return lambda inputs: parts.run(self, inputs)
        executable = self.program(graph)
        if not all(t.static for t in graph.input_types) or not graph.outputs:
            return lambda inputs: self.run_sized(executable, inputs)
        native = entry(executable, lambda *xs: self.run_strided(graph, xs), False)
        if len(graph.outputs) == 1:
            return lambda inputs: [native(*inputs)]
        return lambda inputs: list(native(*inputs))

    def run_strided(self, graph: Graph, inputs: Sequence[Value]) -> Any:
        """Operands of a graph that are views are made dense first."""
        outputs = self.run_sized(self.program(graph), inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_sized(self, executable: Executable, inputs: Sequence[Value]) -> list[Value]:
        """Run for the sizes of these inputs."""
        dense = [self.dense(x) for x in inputs]
        sizes = executable.sizes([x.type.shape for x in dense])  # type: ignore[misc]
        buffers = executable.run([x.data.address for x in dense], sizes)
        types = [_fixed(t, sizes) for t in executable.output_types]
        return [make(t, b) for t, b in zip(types, buffers, strict=True)]

    def program(self, graph: Graph) -> Executable:
        """The executable of a graph; equal graphs share it."""
        found = self.programs.get(id(graph))
        if found is not None:
            return found[1]
        executable = self.equal.get(graph)
        if executable is None:
            executable = self.equal[graph] = program(graph)
        self.programs[id(graph)] = graph, executable
        return executable

    def dense(self, x: Value) -> Value:
        """x itself if its elements are dense, else a dense copy."""
        return x if x.layout is None else self.evaluate(copy_p, (x,), {})


def _fixed(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    if type.static:
        return type
    return type.with_shape([n if isinstance(n, int) else n.evaluate(sizes) for n in type.shape])


EXECUTOR = CompilingExecutor()
register_executor(EXECUTOR)

