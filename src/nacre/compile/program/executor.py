"""The executor: runs primitives and graphs on concrete values, always as compiled code.

An eager operation is a graph of one equation.  Compiled operations are cached by primitive, parameters, and operand
types and layouts; their machine code serves every shape (see `compile/lowering/symbolic_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.locks import Turns
from nacre.base.progress import compiling
from nacre.base.state import STATE
from nacre.base.types import TensorType, row_major
from nacre.codegen.entry.points import entry, view_entry
from nacre.codegen.entry.recording import MOST, Recording
from nacre.compile.extensions import forget_on_change, generation
from nacre.compile.program.cache import program
from nacre.interpret.evaluate import view
from nacre.interpret.pullback import rule_for
from nacre.ir.graph import Builder, Graph
from nacre.ir.primitive import Primitive
from nacre.ops.copy import copy_p
from nacre.runtime.executable import Executable
from nacre.trace.bind import NATIVE, apply, register_executor
from nacre.trace.value import Value, is_concrete, layout_of, make

SHARED = 256  # cached programs that equal graphs share
REMEMBERED = 2048  # cached operations; where shapes keep changing, old ones are prepared again


class CompilingExecutor:
    """Evaluates by compiling, and caches compiled code."""

    def __init__(self) -> None:
        self.kernels: dict[object, Callable[..., Any]] = {}
        self.met: set[object] = set()
        self.strided: dict[object, Callable[..., Any]] = {}
        self.equal: dict[tuple[Graph, str], Executable] = {}  # the latest programs, for equal graphs
        self.turns = Turns()  # one thread compiles an operation that several need at the same time

    def forget(self) -> None:
        """Drop all programs, because code is compiled in another way from now on."""
        self.met.clear()
        self.turns.clear(self.kernels, self.strided, self.equal, NATIVE)

    # ---- one primitive

    def remember(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> None:
        """At the second call of an operation, let `bind` call native code directly."""
        if STATE.numerics != "exact":
            return
        if key not in self.met:
            if len(self.met) >= REMEMBERED:
                self.met.clear()
            self.met.add(key)
        elif all(map(is_concrete, inputs)):
            types = tuple(x.type for x in inputs)
            self.turns.fill(NATIVE, key, REMEMBERED, lambda: self.quick(primitive, types, params), generation)

    def quick(
        self, primitive: Primitive, types: tuple[TensorType, ...], params: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """The target of `bind` for operands of these types: native for plain dense tensors; it records their nodes."""

        def general(*inputs: Value) -> Any:
            """The operation on any operands."""
            return apply(primitive, inputs, params)

        if primitive.multiple or len(types) > MOST:
            return general
        viewed = view(primitive, [make(t, None) for t in types], params, primitive.type_rule(*types, **params))
        recording = Recording(len(types), lambda active: rule_for(primitive, params, types, active))
        if viewed is not None:
            return view_entry(types[0], viewed, recording.fallback(general), recording)
        return self.prepare(primitive, types, params, recording, recording.fallback(general))

    def evaluate(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run one primitive with a kernel for these types, compiled at the first call."""
        if params:
            key = (primitive, *[x.type for x in inputs], *params.items())
        else:
            key = (primitive, *[x.type for x in inputs])
        if STATE.numerics != "exact":
            key = (*key, STATE.numerics)
        kernel = self.kernels.get(key)
        return self.first(key, primitive, inputs, params) if kernel is None else kernel(*inputs)

    def first(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run an operation that has no cached kernel: a new one, a view, a call, or one on operands that are views."""

        def again(*inputs: Value) -> Any:
            """The operation on other operands of these types."""
            return self.first(key, primitive, inputs, params)

        types = tuple(x.type for x in inputs)
        results = primitive.result_types(types, params)
        if not primitive.multiple:
            viewed = view(primitive, list(inputs), params, results[0])
            if viewed is not None:
                if inputs[0].layout is None:
                    self.keep(key, view_entry(types[0], viewed, again, False))
                return viewed
        if primitive.expansion is not None:
            return tuple(self.execute(primitive.expansion(params), inputs))
        if not results:
            return ()
        if any(x.layout is not None for x in inputs):
            return self.evaluate_strided(primitive, inputs, params, types)
        kernel = self.turns.fill(
            self.kernels, key, REMEMBERED, lambda: self.prepare(primitive, types, params), generation
        )
        return kernel(*inputs)

    def keep(self, key: object, kernel: Callable[..., Any]) -> None:
        """Cache the target of an operation."""
        if len(self.kernels) >= REMEMBERED:
            self.kernels.clear()
        self.kernels[key] = kernel

    def evaluate_strided(
        self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], types: tuple[TensorType, ...]
    ) -> Any:
        """Run on operands that are views: their strides are part of the kernel, their offsets arguments of the call."""
        key = (
            primitive,
            types,
            tuple([x.layout and x.layout.strides for x in inputs]),
            *params.items(),
            STATE.numerics,
        )
        kernel = self.strided.get(key)
        if kernel is None:
            kernel = self.turns.fill(
                self.strided,
                key,
                REMEMBERED,
                lambda: self.prepare_strided(primitive, inputs, params, types),
                generation,
            )
        return kernel(*inputs)

    def prepare_strided(
        self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], types: tuple[TensorType, ...]
    ) -> Callable[..., Any]:
        """A native callable for a primitive on operands of these types and strides."""
        executable = self.build(primitive, types, [layout_of(x).strides for x in inputs], params)

        def general(*inputs: Value) -> Any:
            """Run on operands that are not plain tensors."""
            for x in inputs:
                if not is_concrete(x):  # a leftover of a trace that has ended, which reports that
                    return x.content.interpreter.process(primitive, inputs, params)
            held = [(x.content, layout_of(x).offset * x.type.dtype.itemsize) for x in inputs]
            outputs = map(make, executable.output_types, executable.run([b.address + n for b, n in held], {}))
            return tuple(outputs) if primitive.multiple else next(outputs)

        return _results(primitive, entry(executable, general, False, None, True))

    def build(
        self,
        primitive: Primitive,
        types: Sequence[TensorType],
        strides: Sequence[tuple[int, ...]],
        params: Mapping[str, Any],
    ) -> Executable:
        """The executable of one primitive for operands of these types and strides."""
        builder = Builder(primitive.name)
        results = builder.add(primitive, [builder.input(t) for t in types], params)
        return program(builder.finish(results), strides)

    def prepare(
        self,
        primitive: Primitive,
        types: Sequence[TensorType],
        params: Mapping[str, Any],
        nodes: bool | Recording = False,
        fallback: Callable[..., Any] | None = None,
    ) -> Callable[..., Any]:
        """A native callable for a primitive on dense operands of the given types; `fallback` serves all others."""
        strides = [row_major(t.shape) for t in types]
        executable = self.build(primitive, types, strides, params)  # type: ignore[arg-type]

        def strided(*inputs: Value) -> Any:
            """Run the primitive on operands that are not all dense."""
            return self.evaluate_strided(primitive, inputs, params, tuple(types))

        return _results(primitive, entry(executable, fallback or strided, nodes))

    # ---- graphs

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph, compiled at the first call, on its inputs."""
        key = "runner", STATE.numerics, generation()
        runner = graph.kept.get(key)
        if runner is None:
            runner = graph.kept[key] = self.runner(graph)
        return runner(inputs)

    def runner(self, graph: Graph) -> Callable[[Sequence[Value]], list[Value]]:
        """A callable that runs a graph: a native entry if its shapes are fixed."""
        executable = self.program(graph)
        if not all(t.static for t in graph.input_types) or not graph.outputs:
            return lambda inputs: self.run_sized(executable, inputs)
        native = entry(executable, lambda *xs: self.run_strided(graph, xs), False, keeps=True)
        if len(graph.outputs) == 1:
            return lambda inputs: [native(*inputs)]
        return lambda inputs: list(native(*inputs))

    def run_strided(self, graph: Graph, inputs: Sequence[Value]) -> Any:
        """Run a graph on operands that may be views, which are made dense first."""
        outputs = self.run_sized(self.program(graph), inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_sized(self, executable: Executable, inputs: Sequence[Value]) -> list[Value]:
        """Run for the sizes of these inputs."""
        dense = [self.dense(x) for x in inputs]
        sizes = executable.sizes([x.type.shape for x in dense])  # type: ignore[misc]
        held = [x.content for x in dense]  # other threads may assign another value to x meanwhile
        buffers = executable.run([b.address for b in held], sizes)
        types = [_fixed(t, sizes) for t in executable.output_types]
        return [make(t, b) for t, b in zip(types, buffers, strict=True)]

    def program(self, graph: Graph) -> Executable:
        """The executable of a graph, which is cached with it; equal graphs may share it."""
        place = "program", STATE.numerics, generation()
        found: Executable | None = graph.kept.get(place)
        if found is None:
            key = graph, STATE.numerics
            found = self.equal.get(key) or self.turns.fill(self.equal, key, SHARED, lambda: _made(graph), generation)
            graph.kept[place] = found
        return found

    def dense(self, x: Value) -> Value:
        """x itself if its elements are dense, else a dense copy."""
        return x if x.layout is None else self.evaluate(copy_p, (x,), {})


def _made(graph: Graph) -> Executable:
    """The program of a graph, compiled now."""
    with compiling(graph.name):
        return program(graph)


def _results(primitive: Primitive, made: Callable[..., Any]) -> Callable[..., Any]:
    """A native callable that returns a tuple for a primitive of several results, even if there is only one."""
    if not primitive.multiple:
        return made

    def several(*inputs: Value) -> Any:
        """All results."""
        found = made(*inputs)
        return found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]

    return several


def _fixed(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    if type.static:
        return type
    return type.with_shape([n if isinstance(n, int) else n.evaluate(sizes) for n in type.shape])


EXECUTOR = CompilingExecutor()
register_executor(EXECUTOR)
forget_on_change(EXECUTOR.forget)
