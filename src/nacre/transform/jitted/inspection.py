"""The graph, memory, work and stages of a jitted function's variants, without running them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nacre.base.size_binding import solve
from nacre.ir.graph import Graph
from nacre.trace.variable import settled
from nacre.transform.concrete import CallInputs, ConcreteFunction, Cost, Memory, cost_of, memory_of
from nacre.transform.plain import bare
from nacre.transform.signature import Signatures
from nacre.transform.sizes import Call

if TYPE_CHECKING:
    from nacre.compile.explanation import Explanation


class JitInspection:
    """The methods of a jitted function that show a variant for some arguments, which they compile if necessary."""

    _signatures: Signatures

    def _serving(self, of: Call) -> ConcreteFunction:
        """The variant that serves a call."""
        raise NotImplementedError

    def concrete(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The compiled variant for these arguments, compiled if necessary, but not run."""
        raise NotImplementedError

    def trace(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments."""
        return self.concrete(*args, **kwargs).graph

    def memory(self, *args: Any, **kwargs: Any) -> Memory:
        """The bytes that a call needs, known without running it."""
        concrete, sizes = self._sized(args, kwargs)
        return memory_of(concrete, sizes)

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """The work of a call, known without running it."""
        concrete, sizes = self._sized(args, kwargs)
        return cost_of(concrete.executable.plan, sizes)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Every stage of the compiled variant for these arguments, as text; `print` shows all of them."""
        from nacre.compile.explanation import Explanation  # noqa: PLC0415 - it brings the compiler

        concrete, sizes = self._sized(args, kwargs)
        return Explanation(repr(concrete), concrete.compiled, sizes)

    def prepare(self, *args: Any, **kwargs: Any) -> CallInputs:
        """The compiled program for these arguments and its inputs, for callers that run it themselves."""
        values = self._signatures.of(args, kwargs).values
        concrete, sizes = self._sized(args, kwargs)
        inputs = [*values, *concrete.captured(), *(v.value for v in concrete.variable_inputs)]
        inputs += [v.gradient for v in concrete.gradient_inputs]
        return CallInputs(concrete.compiled, sizes, tuple(bare(settled(x)) for x in inputs), concrete.overwritten)

    def _sized(self, args: Any, kwargs: Any) -> tuple[ConcreteFunction, dict[str, int]]:
        of = self._signatures.of(args, kwargs)
        concrete = self._serving(of)
        return concrete, solve(concrete.graph.input_types[: len(of.values)], of.shapes)
