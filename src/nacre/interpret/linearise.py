"""Reverse mode on equations and graphs, by transposing forward mode.

For one equation: stage `push` on unknown tangents, and transpose the linear part.  The result, a `Rule`, is derived
once for each primitive, parameters, operand types and active operands.  It lists the values to save, and has graphs
from saved values and cotangents to cotangents of the operands.

For a graph (`reverse`): apply its equations' rules backwards.  Cotangents of a value are added in descending order of
the equations that read it, then in the order of operands.  The tape does the same, so both give equal bits.  Calling a
graph changes no order: its pullback adds to the cotangents that the operands have received so far (`Rule.onto`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Final

from nacre.base.cached_property import cached_property
from nacre.base.errors import GradientError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.forward import PushedGraph, jvp_graph, push
from nacre.interpret.stage import constant, derived
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import (
    Constant,
    Linear,
    LinearInput,
    Multilinear,
    Pointwise,
    Primitive,
    RuleKind,
    Structural,
)
from nacre.ir.rewrite import inline, live_equations, without_calls, without_dead_code
from nacre.ops.pointwise import add, add_p, fill_p, mul
from nacre.trace.bind import bind
from nacre.trace.value import Value

Positions = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pull:
    """graph: (kept values, cotangents of some results) → cotangents of the operands `targets`."""

    graph: Graph
    targets: Positions
    places: Positions  # of the targets among the rule's active operands
    direct: Positions | None  # where each output stands among the inputs, if nothing is computed
    single: tuple[Equation, Positions] | None  # the only equation, and where its operands stand


@dataclass(eq=False)
class Rule:
    """How an equation is recorded and pulled back.

    `primitive` and `params` are what runs forward; for control flow they give residuals after the
    `results` of the original.  `saved` are the positions, among operands and then results, of what
    must be kept.  `traced` are the results that depend on the active operands.  `make(present)`
    derives the graph from all operands, all results and the cotangents of the results `present`,
    with its targets.

    `onto(present, groups, held)` derives one that has further inputs, what the active operands
    `held` have received so far, and adds to that; `groups` gives, for each active operand, the
    first one that is the same value.  None where an operand receives one cotangent at most.
    `aliases` says of each result which operand, or which earlier result behind all operands, it is;
    None for those of their own.
    """

    primitive: Primitive
    params: Mapping[str, Any]
    operands: int
    results: int
    total: int  # operands and results, residuals included
    traced: Positions
    active: Positions
    make: Callable[[Positions], tuple[Graph, Positions]]
    saved: Positions = ()
    keeps_results: bool = False
    keeps_operands: bool = False  # all of them, and no results
    onto: Callable[[Positions, Positions, Positions], tuple[Graph, Positions]] | None = None
    repeats: bool = False  # whether an operand alone may receive several cotangents
    aliases: tuple[int | None, ...] = ()
    pulls: dict[object, Pull] = field(default_factory=dict[object, Pull])

    def prepare(self) -> Rule:
        """Find out what must be kept."""
        graph, targets = self._made(self.traced)
        _, live = live_equations(graph.equations, graph.outputs)
        self.saved = tuple(k for k, v in enumerate(graph.inputs[: self.total]) if v in live)
        self.keeps_results = any(k >= self.operands for k in self.saved)
        self.keeps_operands = self.saved == tuple(range(self.operands))
        self._restrict(self.traced, graph, targets)
        return self

    def _made(self, present: Positions) -> tuple[Graph, Positions]:
        graph, targets = self.make(present)
        return without_dead_code(graph), targets

    def _restrict(self, key: object, graph: Graph, targets: Positions) -> Pull:
        inputs = tuple(graph.inputs[k] for k in self.saved) + graph.inputs[self.total :]
        kept = Graph(inputs, graph.equations, graph.outputs, graph.name)
        direct = None if graph.equations else _places(inputs, graph.outputs)
        places = tuple(self.active.index(k) for k in targets)
        pull = self.pulls[key] = Pull(kept, targets, places, direct, _single(kept))
        return pull

    def pull(self, present: Positions) -> Pull:
        """The pullback where the results `present` have cotangents."""
        found = self.pulls.get(present)
        return self._restrict(present, *self._made(present)) if found is None else found

    def gathering(self, operands: Sequence[object]) -> Positions | None:
        """The groups of the active operands, where cotangents meet within the pullback; None where they do not."""
        if self.onto is None:
            return None
        first: dict[object, int] = {}
        groups = tuple(first.setdefault(x, k) for k, x in enumerate(operands))
        return groups if self.repeats or len(first) < len(groups) else None

    def pull_onto(self, present: Positions, groups: Positions, held: Positions) -> Pull:
        """The pullback that adds to the cotangents that the active operands `held` have so far."""
        key = present, groups, held
        found = self.pulls.get(key)
        if found is None:
            assert self.onto is not None
            graph, targets = self.onto(*key)
            found = self._restrict(key, without_dead_code(graph), targets)
        return found


def _places(inputs: Sequence[Var], atoms: Sequence[Atom]) -> Positions | None:
    """Where atoms stand among inputs, or None if one does not."""
    at: dict[Atom, int] = {v: k for k, v in enumerate(inputs)}
    return tuple(at[a] for a in atoms) if all(a in at for a in atoms) else None


def _single(graph: Graph) -> tuple[Equation, Positions] | None:
    if len(graph.equations) != 1:
        return None
    (e,) = graph.equations
    places = _places(graph.inputs, e.inputs)
    if places is None or e.primitive.multiple or graph.outputs != e.outputs:
        return None
    return e, places


REMEMBERED: Final = 8192  # rules; where shapes keep changing, old ones are derived again
UNKNOWN: Final[Any] = object()
_rules: dict[object, Rule | None] = {}


def rule_for(
    primitive: Primitive,
    params: Mapping[str, Any],
    types: tuple[TensorType, ...],
    active: Positions,
) -> Rule | None:
    """The rule of an equation for the operands `active`, or None where no result depends on
    them."""
    if isinstance(primitive.derivative, Constant):
        return None
    key = (primitive, tuple(sorted(params.items())), types, active)
    known = _rules.get(key, UNKNOWN)
    if known is not UNKNOWN:
        return known
    if isinstance(primitive.derivative, Structural):
        rule = REVERSE.required(primitive)(primitive, params, types, active)
    else:
        rule = _equation(primitive, params, types, active)
    if len(_rules) >= REMEMBERED:
        _rules.clear()
    _rules[key] = rule
    return rule


# ---- one equation


def _equation(
    primitive: Primitive,
    params: Mapping[str, Any],
    types: tuple[TensorType, ...],
    active: Positions,
) -> Rule | None:
    results = primitive.result_types(types, params)
    n, total = len(types), len(types) + len(results)
    traced: list[int] = []

    def pushed(*values: Value) -> list[Value]:
        """The active outputs' tangents; notes which outputs have one."""
        ys: Any = values[n:total] if primitive.multiple else values[n]
        ts: list[Value | None] = [None] * n
        for position, t in zip(active, values[total:], strict=True):
            ts[position] = t
        tangents = push(primitive, ys, values[:n], ts, params)
        traced[:] = [k for k, t in enumerate(tangents) if t is not None]
        return [t for t in tangents if t is not None]

    known = types + results
    graph = derived(pushed, known + tuple(types[k] for k in active), f"{primitive.name}.push")
    if not traced:
        return None
    outputs = tuple(traced)

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The graph that pulls the present cotangents back, with its targets."""
        targets: list[int] = []

        def pulled(*values: Value) -> list[Value]:
            """The cotangents of active inputs that are not zero."""
            given = dict(zip(present, values[total:], strict=True))
            cotangents = transpose(graph, values[:total], [given.get(k) for k in outputs])
            targets[:] = [k for k, c in zip(active, cotangents, strict=True) if c is not None]
            return [c for c in cotangents if c is not None]

        cotangent_types = tuple(results[k] for k in present)
        pull = derived(pulled, known + cotangent_types, f"{primitive.name}.pull")
        return pull, tuple(targets)

    return Rule(primitive, params, n, len(results), total, outputs, active, make).prepare()


def transpose(graph: Graph, known: Sequence[Value], cotangents: Sequence[Value | None]) -> list[Value | None]:
    """Cotangents of the inputs that follow the known ones, in which the graph is linear; None where
    zero.

    Raises GradientError where an equation on them is not linear.
    """
    values: dict[Var, Value] = dict(zip(graph.inputs, known, strict=False))
    inputs = graph.inputs[len(known) :]
    linear: set[Atom] = set(inputs)
    equations: list[Equation] = []
    for e in graph.equations:
        if linear.isdisjoint(e.inputs):
            xs = (values[a] if isinstance(a, Var) else constant(a) for a in e.inputs)
            found = bind(e.primitive, *xs, **e.params)
            values.update(zip(e.outputs, found if e.primitive.multiple else (found,), strict=True))
        else:
            linear.update(e.outputs)
            equations.append(e)
    pending = _Sums()
    for a, c in zip(graph.outputs, cotangents, strict=True):
        if a in linear and c is not None:
            pending.put(a, c)
    for e in reversed(equations):
        gs = [pending.values.pop(v, None) for v in e.outputs]
        if any(g is not None for g in gs):
            for i, c in _transposed(e, gs, values, linear):
                pending.put(e.inputs[i], c)
    return [pending.values.get(v) for v in inputs]


class _Sums:
    """Cotangents by atom, added as they come."""

    def __init__(self) -> None:
        self.values: dict[Atom, Value] = {}

    def put(self, a: Atom, c: Value) -> None:
        """Add a cotangent to what the atom has received."""
        before = self.values.get(a)
        self.values[a] = c if before is None else add(before, c)


def _transposed(
    e: Equation, gs: list[Value | None], values: Mapping[Var, Value], linear: set[Atom]
) -> Iterable[tuple[int, Value]]:
    operands: list[Any] = [
        LinearInput(a.type) if a in linear else values[a] if isinstance(a, Var) else constant(a) for a in e.inputs
    ]
    g: Any = tuple(gs) if e.primitive.multiple else gs[0]
    for i, a in enumerate(e.inputs):
        if a not in linear:
            continue
        match e.primitive.derivative:
            case Linear(transposes) | Multilinear(transposes) if (f := transposes[i]) is not None:
                c = f(g, *operands, **e.params)
            case Pointwise(partials, linear=numbers) if i in numbers and (partial := partials[i]) is not None:
                c = mul(partial(LinearInput(e.outputs[0].type), *operands, **e.params), g)
            case _:
                raise _not_linear(e, i)
        if c is not None:
            if c.type is not a.type:
                raise GradientError(
                    f"transpose of {e.primitive.name}: the cotangent must have type {a.type} "
                    f"for operand {i}; "
                    f"its rule gave {c.type}"
                )
            yield i, c


def _not_linear(e: Equation, operand: int) -> GradientError:
    return GradientError(
        f"transpose: the equation must be linear in operand {operand}; got {e.primitive.name}; "
        "write the rule of the derivative with linear primitives"
    )


@dataclass(frozen=True)
class Linearisation:
    """primal: inputs → outputs and residuals;  linear: residuals and tangents → tangents of
    `active` outputs."""

    primal: Graph
    linear: Graph
    active: tuple[bool, ...]


def linearise(graph: Graph, active: tuple[bool, ...]) -> Linearisation:
    """Split the derivative of a graph along its active inputs into what tangents enter and what
    they do not."""
    pushed: PushedGraph = jvp_graph(graph, active)
    count = len(graph.inputs)
    moving: set[Atom] = set(pushed.graph.inputs[count:])
    still: list[Equation] = []
    moved: list[Equation] = []
    for e in pushed.graph.equations:
        part = still if moving.isdisjoint(e.inputs) else moved
        part.append(e)
        if part is moved:
            moving.update(e.outputs)
    ys, ts = pushed.graph.outputs[: len(graph.outputs)], pushed.graph.outputs[len(graph.outputs) :]
    moved, read = live_equations(moved, ts)
    inputs, tangents = pushed.graph.inputs[:count], pushed.graph.inputs[count:]
    available = [*inputs, *(v for e in still for v in e.outputs)]
    residuals = tuple(v for v in available if v in read)
    primal = Graph(inputs, tuple(still), (*ys, *residuals), graph.name)
    linear = Graph((*residuals, *tangents), tuple(moved), ts, f"{graph.name}.linear")
    return Linearisation(without_dead_code(primal), linear, pushed.active)


# ---- graphs


class Recomputation(Graph):
    """A graph to be called whose intermediate values reverse mode computes again instead of keeping
    them."""

    @cached_property
    def key(self) -> Hashable:
        """The graph's key, different from that of the graph it copies."""
        return "recomputed", Graph.key.function(self)


@dataclass(frozen=True, eq=False)
class _Step:
    """An equation that is pulled back: its rule, its operands, its results, and the atoms it
    keeps."""

    rule: Rule
    inputs: tuple[Atom, ...]
    results: tuple[Var, ...]
    saved: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Reverse:
    """A graph made ready for reverse mode.

    `graph` computes the same outputs; `needed` are those of its values that `pull` reads; `traced`
    are the outputs that depend on the active inputs.
    """

    graph: Graph
    active: Positions
    traced: Positions
    needed: tuple[Var, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[Atom, ...]  # the graph's, each value under one name

    @property
    def repeats(self) -> bool:
        """Whether an active input alone receives several cotangents."""
        read = Counter([*self.outputs, *(a for s in self.steps for a in s.inputs)])
        return any(read[self.graph.inputs[k]] > 1 for k in self.active)

    @cached_property
    def aliases(self) -> tuple[int | None, ...]:
        """For each output the input that it is, or the earlier output, counted behind the inputs; else None."""
        seen: dict[Atom, int] = {v: k for k, v in enumerate(self.graph.inputs)}
        n = len(seen)
        found = [seen.setdefault(a, n + k) for k, a in enumerate(self.outputs)]
        return tuple(None if at == n + k else at for k, at in enumerate(found))

    def pull(self, present: Positions, groups: Positions = (), held: Positions = ()) -> tuple[Graph, Positions]:
        """(needed values, cotangents of the outputs `present`, those that the active inputs `held`
        have received) → cotangents of the inputs that have one.

        Active inputs of one group (see `Rule`) are one value.
        """
        b = Builder(f"{self.graph.name}.pull")
        values: dict[Var, Atom] = {v: b.input(v.type) for v in self.needed}
        pending: dict[Atom, Atom] = {}
        own = [self.graph.inputs[k] for k in self.active]
        one: dict[Atom, Atom] = {v: own[k] for v, k in zip(own, groups, strict=False)}

        def put(a: Atom, c: Atom) -> None:
            """Add a cotangent, as an equation, to what the atom has received."""
            a = one.get(a, a)
            before = pending.get(a)
            pending[a] = c if before is None else b.add(add_p, (before, c))[0]

        given_outputs = [(self.outputs[k], b.input(self.graph.outputs[k].type)) for k in present]
        pending.update((own[k], b.input(own[k].type)) for k in held)
        for a, c in given_outputs:
            put(a, c)
        for step in reversed(self.steps):
            given = tuple(k for k in step.rule.traced if step.results[k] in pending)
            if not given:
                continue
            operands = [one.get(step.inputs[k], step.inputs[k]) for k in step.rule.active]
            together = step.rule.gathering(operands)
            if together is None:
                pull, so_far = step.rule.pull(given), ()
            else:
                so_far = tuple(k for k in dict.fromkeys(together) if operands[k] in pending)
                pull = step.rule.pull_onto(given, together, so_far)
            kept = [values[a] if isinstance(a, Var) else a for a in step.saved]
            kept += [pending.pop(step.results[k]) for k in given]
            found = inline(b, pull.graph, [*kept, *(pending.pop(operands[k]) for k in so_far)])
            for i, c in zip(pull.targets, found, strict=True):
                put(step.inputs[i], c)
        targets = tuple(k for k in self.active if self.graph.inputs[k] in pending)
        return without_dead_code(b.finish([pending[self.graph.inputs[k]] for k in targets])), targets


@lru_cache(maxsize=1024)
def reverse(graph: Graph, active: Positions) -> Reverse:
    """Make a graph ready to be pulled back to its inputs `active`."""
    if any(e.primitive.expansion is not None for e in graph.equations):
        graph = without_calls(graph, Recomputation)
    moving: set[Atom] = {graph.inputs[k] for k in active}
    same: dict[Atom, Atom] = {}  # results of calls that are operands, or other results of theirs
    equations: list[Equation] = []
    steps: list[_Step] = []
    for e in graph.equations:
        mine = tuple(k for k, a in enumerate(e.inputs) if a in moving)
        rule = rule_for(e.primitive, e.params, tuple(a.type for a in e.inputs), mine) if mine else None
        if rule is None:
            equations.append(e)
            continue
        results = e.outputs
        if rule.primitive is not e.primitive or rule.params is not e.params:
            types = rule.primitive.result_types(tuple(a.type for a in e.inputs), rule.params)
            results += tuple(map(Var, types[rule.results :]))
        equations.append(Equation(rule.primitive, e.inputs, rule.params, results, e.source))
        atoms = (*e.inputs, *results)
        inputs = tuple(same.get(a, a) for a in e.inputs)
        steps.append(_Step(rule, inputs, results, tuple(atoms[k] for k in rule.saved)))
        moving.update(results[k] for k in rule.traced)
        same.update(
            (v, (*inputs, *results)[at]) for v, at in zip(results, rule.aliases, strict=False) if at is not None
        )
    traced = tuple(k for k, a in enumerate(graph.outputs) if a in moving)
    outputs = tuple(same.get(a, a) for a in graph.outputs)
    live = _live_steps(steps, moving, {outputs[k] for k in traced})
    needed = tuple(dict.fromkeys(a for s in live for a in s.saved if isinstance(a, Var)))
    written = Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)
    return Reverse(written, active, traced, needed, tuple(live), outputs)


def _live_steps(steps: Sequence[_Step], moving: set[Atom], wanted: set[Atom]) -> list[_Step]:
    """The steps that pass a cotangent on to something, in order."""
    live: list[_Step] = []
    for step in reversed(steps):
        if any(step.results[k] in wanted for k in step.rule.traced):
            live.append(step)
            wanted.update(a for a in step.inputs if a in moving)
    live.reverse()
    return live


def fused_rule(graph: Graph, active: Positions) -> Rule | None:
    """The rule of a graph with one result that runs as one equation; what the pullback reads is computed again.

    None where the result does not depend on the operands `active`.
    """
    back = reverse(graph, active)
    if not back.traced:
        return None
    again = Graph(back.graph.inputs, back.graph.equations, back.needed, graph.name)

    def onto(present: Positions, groups: Positions, held: Positions) -> tuple[Graph, Positions]:
        """The pullback graph, which computes the forward values again."""
        b = Builder(f"{graph.name}.pull")
        needed = inline(b, again, [b.input(t) for t in graph.input_types])
        b.input(graph.output_types[0])
        pull, targets = back.pull(present, groups, held)
        return b.finish(inline(b, pull, [*needed, *(b.input(t) for t in pull.input_types[len(needed) :])])), targets

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The pullback graph, which computes the forward values again."""
        return onto(present, (), ())

    n = len(graph.inputs)
    last = graph.equations[-1]
    rule = Rule(last.primitive, last.params, n, 1, n + 1, back.traced, active, make)
    rule.onto, rule.repeats = onto, back.repeats
    return rule.prepare()


def positions(mask: Sequence[bool]) -> Positions:
    """Where a mask is true."""
    return tuple(k for k, m in enumerate(mask) if m)


def fill_zeros(b: Builder, type: TensorType) -> Var:
    """Append zeros of a type."""
    zero = type.dtype.python(0)
    return b.add(fill_p, (), {"value": zero, "shape": type.shape, "dtype": type.dtype})[0]


# of control flow: (primitive, params, types, active) → rule
REVERSE: RuleKind[Callable[[Primitive, Mapping[str, Any], tuple[TensorType, ...], Positions], Rule | None]] = RuleKind(
    "reverse mode"
)


def types_of(atoms: Iterable[Atom]) -> tuple[TensorType, ...]:
    """The types of atoms."""
    return tuple(a.type for a in atoms)
