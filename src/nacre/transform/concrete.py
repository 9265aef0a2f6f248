"""`ConcreteFunction`: one compiled variant of a jitted function, its guards, and the reason for its compilation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from nacre.base import tree
from nacre.base.cached_property import cached_property
from nacre.base.dims import Dim, Size, evaluate
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.evaluate import from_numpy, number_tensor, to_numpy
from nacre.interpret.stage import Trace
from nacre.interpret.tape import TapeEnd
from nacre.ir.graph import Graph, Literal, Var
from nacre.runtime.executable import Executable
from nacre.runtime.plan import Plan
from nacre.runtime.recomputation import RecomputationChoice
from nacre.trace.captures import Captures
from nacre.trace.guards import Guard, all_hold
from nacre.trace.hooks import GradientHooks
from nacre.trace.reads import array_capture
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.plain import is_plain
from nacre.transform.remedies import remedy_of

if TYPE_CHECKING:
    from nacre.compile.pipeline import Compiled
    from nacre.transform.ownership import InPlace


@dataclass(frozen=True, slots=True)
class Static:
    """A leaf of the arguments that is part of the signature: a plain Python value."""

    value: Hashable
    shown: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return self.shown or repr(self.value)


@dataclass(frozen=True)
class Memory:
    """The memory that a call needs, in bytes, known before it runs."""

    inputs: int
    outputs: int
    workspace: int
    packed: int = 0  # of weights that stay packed while calls have the same ones
    intermediates: int = 0  # the part of the workspace that has the intermediate values
    recomputation: RecomputationChoice | None = None  # the values computed again, under a memory budget

    @property
    def peak(self) -> int:
        """The total."""
        return self.inputs + self.outputs + self.workspace + self.packed


@dataclass(frozen=True)
class Cost:
    """The work of a call: floating-point operations of products and convolutions alone, bytes moved, kernels.

    The profiler and `nacre explain` also count the operations of kernels without a product.
    """

    product_flops: int
    bytes: int
    kernels: int


class GraphConstant(NamedTuple):
    """A number or array that entered a graph when it was traced, and the line of the first operation that reads it."""

    value: Any
    line: str


@dataclass(frozen=True)
class CallInputs:
    """A compiled program and its inputs: sizes of symbols, dense inputs, and for each output the input it replaces."""

    compiled: Compiled
    sizes: dict[str, int]
    inputs: tuple[Value, ...]
    in_place: dict[int, int]


@dataclass
class ConcreteFunction:
    """One compiled variant of a jitted function, and the reason why it was compiled."""

    signature: str
    reason: str
    key: Hashable
    trace: Trace
    structure: tree.Structure
    statics: list[tuple[int, Any]]  # places of results that are plain Python values
    guards: tuple[Guard, ...]
    captures: Captures
    sources: tuple[int | None, ...]  # for each captured input, its number among the tensors and arrays of `captures`
    tracked: bool  # results that depend on variables' gradients through the call
    changed: tuple[int, ...] = ()  # the arguments that `x[i] = v` changes; their new values follow the results
    superseded: tuple[int, ...] = ()  # the results computed only from variables that the call then overwrites
    calls: int = 0
    used: int = 0  # when a call last found it, as a number that grows
    generation: int = 0  # of the compiler's passes and kernels, see `compile.extensions`
    native: Callable[..., Any] | None = None  # the native way, from the tensors of a call to its answer
    flat: bool = False  # whether these tensors are the arguments of the call; its native way then checks the guards
    given: tuple[int, ...] = ()  # the donated arguments
    in_place: InPlace | None = None  # the memory that a call overwrites
    gradient_none: tuple[tuple[Variable, bool], ...] = ()
    gradient_wanted: tuple[tuple[Variable, bool], ...] = ()
    gradient_hooks: tuple[tuple[Variable, GradientHooks | None], ...] = ()
    variable_types: tuple[tuple[Variable, TensorType], ...] = ()
    gradient_inputs: tuple[Variable, ...] = ()
    variable_inputs: tuple[Variable, ...] = ()
    variable_outputs: tuple[Variable, ...] = ()
    gradient_outputs: tuple[Variable, ...] = ()
    cleared: tuple[Variable, ...] = ()
    whole: ConcreteFunction | None = None  # the variant for all sizes, of which this is the form for given ones
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])  # of the form
    forms: dict[Hashable, ConcreteFunction] = field(default_factory=dict[Hashable, Any])  # for given sizes

    @property
    def bare(self) -> bool:
        """Whether it reads and writes only its arguments and returns one tensor."""
        more = self.statics or self.changed or self.given or self.guards or self.trace.captures or self.trace.variables
        more = more or self.captures.places
        return self.structure == tree.LEAF and not more

    @property
    def remedy(self) -> str:
        """What would have avoided this variant; empty for the first call.

        >>> power = nc.jit(lambda x, n: x**n)
        >>> _ = power(nc.ones(2), 2), power(nc.ones(2), 3)
        >>> power.concrete_functions[1].remedy
        'pass n as a tensor: nc.tensor(n)'
        """
        return remedy_of(self.reason)

    @property
    def overwritten(self) -> dict[int, int]:
        """For each output that takes over the memory of an input, that input."""
        return {} if self.in_place is None else dict(self.in_place.overwritten)

    @property
    def graph(self) -> Graph:
        """The traced graph."""
        return self.trace.graph

    @property
    def symbolic(self) -> bool:
        """Whether arguments have symbolic sizes."""
        return not all([t.static for t in self.graph.input_types])

    def at(self, key: Hashable, sizes: Mapping[str, int]) -> ConcreteFunction:
        """The variant for given sizes and the signature that has them, with the same machine code."""
        trace = replace(self.trace, graph=EXECUTOR.fixed(self.graph, sizes))
        return replace(self, key=key, trace=trace, statics=statics_at(self, sizes), whole=self, sizes=sizes, forms={})

    @property
    def constants(self) -> list[GraphConstant]:
        """The numbers and arrays that entered the graph, in order: these values do not change between calls.

        >>> scale = nc.jit(lambda x: x * 3.0)
        >>> _ = scale(nc.ones(2))
        >>> [c.value.item() for c in scale.concrete_functions[0].constants]
        [3.0]
        """
        fixed = [self.graph.inputs[self.trace.arguments + k] for k in sorted(self.trace.fixed)]
        known = dict(zip(fixed, [self.trace.captures[k] for k in sorted(self.trace.fixed)], strict=True))
        return list(_constants(self.graph, known))

    @property
    def executable(self) -> Executable:
        """The compiled program."""
        return EXECUTOR.program(self.graph)

    @cached_property
    def compiled(self) -> Compiled:
        """The program and its compilation stages, compiled again for inspection."""
        from nacre.compile.pipeline import compile_graph  # noqa: PLC0415 - a warm start does without it

        return compile_graph(self.graph)

    def holds(self) -> bool:
        """Whether all guards hold."""
        return (
            (self.guards_hold is None or self.guards_hold())
            and self.captures.holds()
            and all([(v.gradient is None) == was for v, was in self.gradient_none])
            and all([v.wants_gradient == was for v, was in self.gradient_wanted])
            and all([v.hooks is was or v.hooks == was for v, was in self.gradient_hooks])
            and all([(v.type if STATE.word else v.cell.type) is type for v, type in self.variable_types])
        )

    def captured(self) -> list[Any]:
        """The captured inputs, as the places had them when they were last compared."""
        operands = self.captures.found.operands(self.trace.captures, self.sources)
        return [x if isinstance(x, Value) else _tensor(x) for x in operands]

    @property
    def has_arrays(self) -> bool:
        """Whether some captured input is an array of NumPy, which is read at each call."""
        return any(isinstance(x, np.ndarray) for x in self.captures.found.operands(self.trace.captures, self.sources))

    def serves(self, args: Sequence[Any]) -> bool:
        """Whether a call with these arguments, outside of interpreters, is one of this variant on plain tensors."""
        types = self.graph.input_types[: len(args)]
        return (
            len(args) == self.trace.arguments
            and all(is_plain(x) and x.type is t for x, t in zip(args, types, strict=True))
            and self.holds()
        )

    @cached_property
    def guards_hold(self) -> Callable[[], bool] | None:
        """A function that tests all guards, if there are any."""
        return all_hold(self.guards)

    def answer(self, results: Sequence[Value]) -> Any:
        """The result of a call: tensors and plain Python values in the structure of the function's result."""
        if self.superseded and STATE.gradients and not STATE.word:
            for k in self.superseded:
                results[k].node = results[k].node or TapeEnd()
        if self.structure == tree.LEAF and not self.statics:
            return results[0]
        found: list[Any] = list(results)
        for place, value in self.statics:
            found.insert(place, value)
        return tree.unflatten(self.structure, found)

    def __repr__(self) -> str:
        return f"<concrete function {self.signature}: {self.reason}>"


def statics_at(concrete: ConcreteFunction, sizes: Mapping[str, Size]) -> list[tuple[int, Any]]:
    """The plain results for sizes of the symbols; a size of other symbols is left as it is."""
    return [(k, x.substitute(sizes) if _is_size_of(x, sizes) else x) for k, x in concrete.statics]


def _is_size_of(x: object, sizes: Mapping[str, Size]) -> TypeGuard[Dim]:
    """Whether a plain result is a size of given symbols."""
    return isinstance(x, Dim) and all(s.name in sizes for s in x.symbols())


def _tensor(array: Any) -> Value:
    """The tensor of a captured number or array: for an array the capture of a calling function that is being traced."""
    if not isinstance(array, np.ndarray):
        return number_tensor(array)
    found = array_capture(array, lambda: from_numpy(array)) if STATE.word else None
    return from_numpy(array) if found is None else found


def _constants(graph: Graph, known: dict[Var, Value]) -> Iterator[GraphConstant]:
    """The literals of a graph, and the captures with known values, where they are first read."""
    seen = set[int]()
    for e in graph.equations:
        for x in e.inputs:
            if (isinstance(x, Literal) or x in known) and id(x) not in seen:
                seen.add(id(x))
                yield GraphConstant(x.array if isinstance(x, Literal) else to_numpy(known[x]), e.source)
        for p in e.params.values():
            if isinstance(p, Graph):
                yield from _constants(p, known)


def memory_of(concrete: ConcreteFunction, sizes: Mapping[str, int]) -> Memory:
    """The memory of a variant's calls for these sizes."""
    bound = concrete.executable.bound(sizes)
    given = sum(evaluate(t.nbytes, sizes) for t in concrete.graph.input_types)
    overwritten = concrete.overwritten
    fresh = sum(n for k, n in enumerate(bound.output_bytes) if k not in overwritten)
    packed = 0 if overwritten else bound.packed.nbytes
    chosen = concrete.executable.plan.recomputation
    return Memory(given, fresh, bound.workspace_bytes, packed, bound.arena_bytes, chosen)


def cost_of(plan: Plan, sizes: Mapping[str, int]) -> Cost:
    """The work of a plan for these sizes."""
    flops = moved = 0
    for step, times in zip(plan.steps, plan.times(sizes), strict=True):
        flops += times * evaluate(step.flops, sizes)
        moved += times * sum(evaluate(plan.values[v].nbytes, sizes) for v in (*step.reads, *step.writes))
    return Cost(flops, moved, len(plan.steps))
