"""The executor: runs primitives and graphs on concrete values, always as compiled code.

An eager operation is a graph of one equation, cached by its types (see `compile/program/operations`); its machine code
serves every shape (see `compile/lowering/symbolic_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.locks import Turns
from nacre.base.progress import compiling
from nacre.base.state import STATE
from nacre.base.types import row_major
from nacre.codegen.entry.points import entry, sweep_function
from nacre.codegen.entry.pulls import may_sweep, native_pull
from nacre.compile.extensions import forget_on_change, generation
from nacre.compile.program.ahead import program_of
from nacre.compile.program.cache import program
from nacre.compile.program.kinds import strides_of
from nacre.compile.program.operations import Operations
from nacre.compile.program.sized import OFTEN, SizedProgram, answer, run_fixed
from nacre.interpret.pullback import Pull, Rule
from nacre.ir.graph import Graph
from nacre.ir.rewrite import FixedGraph
from nacre.native.engine import host_target
from nacre.ops.identity import copy_p
from nacre.runtime.executable import Executable
from nacre.trace.bind import register_executor
from nacre.trace.value import Value, make

SHARED = 256  # cached programs that equal graphs share


class CompilingExecutor:
    """Evaluates by compiling, and caches compiled code."""

    def __init__(self) -> None:
        self.operations = Operations(self.execute)
        self.first, self.evaluate, self.rule = self.operations.first, self.operations.evaluate, self.operations.rule
        self.equal: dict[tuple[Graph, str], Executable] = {}  # the latest programs, for equal graphs
        self.turns = Turns()  # one thread compiles a graph that several need at the same time
        self.modes: dict[object, int] = {}  # numbers of numerics modes and generations
        forget_on_change(self.forget)

    def forget(self) -> None:
        """Drop all programs, because code is compiled in another way from now on."""
        self.turns.clear(self.equal)

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph, compiled at the first call, on its inputs."""
        key = "runner", STATE.numerics, generation()
        runner = graph.kept.get(key)
        if runner is None:
            runner = graph.kept[key] = self.runner(graph)
        return runner(inputs)

    def execute_on_views(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph of fixed sizes, compiled for the strides of its inputs, of which none is copied."""
        strides = strides_of(inputs)
        key = "entry", strides, STATE.numerics, generation()
        native = graph.kept.get(key)
        if native is None:
            layouts = [s or row_major(x.type.shape) for s, x in zip(strides, inputs, strict=True)]
            with compiling(graph.name):
                executable = program(graph, layouts)  # type: ignore[arg-type]
            native = entry(executable, lambda *xs: answer(run_fixed(executable, xs)), False, strided=True)
            graph.kept[key] = native
        found = native(*inputs)
        return list(found) if len(graph.outputs) > 1 else [found]

    def runner(self, graph: Graph) -> Callable[[Sequence[Value]], list[Value]]:
        """A callable that runs a graph: a native entry if its shapes are fixed, else one for each sizes of inputs."""
        executable = self.program(graph)
        if not graph.output_types:
            return lambda inputs: self.run_sized(executable, inputs)
        if not all(t.static for t in graph.input_types):
            return lambda inputs: self.execute_at(
                graph,
                inputs,
                executable.sizes([x.type.shape for x in inputs]),  # type: ignore[misc]
            )
        native = self.native(graph)
        if len(graph.output_types) == 1:
            return lambda inputs: [native(*inputs)]
        return lambda inputs: list(native(*inputs))

    def native(self, graph: Graph) -> Callable[..., Any]:
        """The native entry of a graph with fixed shapes, made once."""
        key = "entry", STATE.numerics, generation()
        found = graph.kept.get(key)
        if found is None:
            executable = self.program(graph)
            found = entry(executable, lambda *xs: answer(self.run_sized(executable, xs)), False, keeps=True)
            graph.kept[key] = found
        return found

    def execute_at(self, graph: Graph, inputs: Sequence[Value], sizes: Mapping[str, int]) -> list[Value]:
        """Run a graph for given numbers of its symbols, always in the same order."""
        return self.sized(graph, sizes)([self.dense(x) for x in inputs], tuple(sizes.values()))

    def sized(self, graph: Graph, sizes: Mapping[str, int]) -> SizedProgram:
        """The program of a graph for any numbers of its symbols."""
        key = "sized", *sizes, STATE.numerics, generation()
        found = graph.kept.get(key)
        if found is None:
            found = graph.kept[key] = SizedProgram(self.program(graph), tuple(sizes))
        return found

    # ---- the native backward pass

    def mode(self) -> int:
        """The number of this thread's numerics mode and of the generation of compiled code."""
        key = STATE.numerics, generation()
        return self.modes.setdefault(key, len(self.modes) + 1)

    def sweep(self) -> Callable[..., Any]:
        """The native backward pass over plain nodes."""
        return sweep_function(host_target())

    def prepare(self, rule: Rule, pull: Pull) -> None:
        """Let the native backward pass process the nodes of a rule whose one pullback this is, after a few nodes."""
        rule.runs += 1
        if rule.runs > OFTEN and rule.swept.mode != self.mode() and may_sweep(rule):
            function = None if pull.direct is not None else self.function(pull)
            if pull.direct is not None or function is not None:
                rule.swept = native_pull(rule, pull, function, self.mode())

    def function(self, pull: Pull) -> Callable[..., Any] | None:
        """The native function that computes a pullback; None if only Python does."""
        graph = pull.graph
        if pull.sizes is not None:
            return self.sized(graph, pull.sizes).form(tuple(pull.sizes.values()))
        if graph.calls_host or not graph.outputs or not all(t.static for t in graph.input_types):
            return None
        return self.native(graph) if pull.single is None else self.operations.plain(pull.single[0])

    def fixed(self, graph: Graph, sizes: Mapping[str, int]) -> FixedGraph:
        """A graph with numbers for its symbolic sizes, whose program has the machine code of the graph's."""
        found = FixedGraph(graph, sizes)
        found.kept["program", STATE.numerics, generation()] = self.program(graph).at(sizes)
        return found

    def answer(self, graph: Graph, *inputs: Value) -> Any:
        """The results of a graph as native code returns them: one, or a tuple."""
        return answer(self.execute(graph, inputs))

    def run_sized(self, executable: Executable, inputs: Sequence[Value]) -> list[Value]:
        """Run for the sizes of these inputs."""
        dense = [self.dense(x) for x in inputs]
        sizes = executable.sizes([x.type.shape for x in dense])  # type: ignore[misc]
        held = [x.content for x in dense]  # other threads may assign another value to x meanwhile
        buffers = executable.run([b.address for b in held], sizes)
        types = [t.at(sizes) for t in executable.output_types]
        return [make(t, b) for t, b in zip(types, buffers, strict=True)]

    def program(self, graph: Graph) -> Executable:
        """The executable of a graph, which is cached with it; equal graphs may share it."""
        place = "program", STATE.numerics, generation()
        found: Executable | None = graph.kept.get(place)
        if found is None:
            key = graph, STATE.numerics
            if graph.calls_host:
                found = graph.kept[place] = _made(graph)
                return found
            found = self.equal.get(key) or self.turns.fill(self.equal, key, SHARED, lambda: _made(graph), generation)
            graph.kept[place] = found
        return found

    def dense(self, x: Value) -> Value:
        """x itself if its elements are dense, else a dense copy."""
        return x if x.layout is None else self.evaluate(copy_p, (x,), {})


def _made(graph: Graph) -> Executable:
    """The program of a graph, compiled now."""
    with compiling(graph.name):
        return program_of(graph)


EXECUTOR = CompilingExecutor()
register_executor(EXECUTOR)
OPERATIONS = EXECUTOR.operations
