"""Pullbacks of equations: for each form, the values to save and the graphs from cotangents to cotangents.

A `Rule` is derived once for each primitive, parameters, operand types and active operands: forward mode (`push`) is
staged on unknown tangents, and its linear part is transposed.  The graphs of a rule have the saved values and the
cotangents of results as inputs, and cotangents of operands as outputs.  Rules of control flow register in `REVERSE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar

from nacre.base.errors import DepthError, GradientError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.forward import is_empty, push, push_all, zeros
from nacre.interpret.stage import derived
from nacre.interpret.transpose import transpose
from nacre.ir.graph import Atom, Equation, Graph, Var, calls_host
from nacre.ir.primitive import Constant, Primitive, RuleKind, Structural
from nacre.ir.rewrite import live_equations, without_dead_code
from nacre.trace.value import Value

Positions = tuple[int, ...]
Kept = TypeVar("Kept")  # a value, or an atom of a graph


class NoRule(Exception):
    """The derivative of an operation has no form for symbolic sizes; one for fixed sizes may exist."""


@dataclass(frozen=True, eq=False)
class Pull:
    """graph: (saved values, cotangents of some results) → cotangents of the operands `targets`."""

    graph: Graph
    targets: Positions
    places: Positions  # of the targets among the rule's active operands
    direct: Positions | None  # the place of each output among the inputs, if nothing is computed
    single: tuple[Equation, Positions] | None  # the only equation, and the places of its operands among the inputs
    sizes: Mapping[str, int] | None  # of symbols in the graph

    def at(self, sizes: Mapping[str, int]) -> Pull:
        """The pullback for given sizes."""
        return Pull(self.graph, self.targets, self.places, self.direct, None, sizes)


class NativePull(int):
    """The address of a pullback's record for native code, which `refers` keeps alive; `mode` is the mode's number."""

    mode: int
    refers: object

    def __new__(cls, address: int, mode: int, refers: object) -> NativePull:
        made = super().__new__(cls, address)
        made.mode, made.refers = mode, refers
        return made


NOT_SWEPT: Final = NativePull(0, -1, None)


@dataclass(eq=False)
class Rule:
    """How an equation is recorded and pulled back.

    The forward pass runs `primitive` with `params`.  For control flow these return residuals after the `results` of the
    equation.  `traced` are the results that depend on the active operands.  `make(present)` derives the graph from all
    operands, all results and the cotangents of the results `present`; it also returns the targets.

    The equation's node on the tape has this rule.  Its parents are the nodes of the operands `active`.  It saves the
    values `saved`, which are positions among the operands and then the results.  Python (`tape.new_node`) and native
    code (`codegen.entry.recording`) make nodes from these fields alone.

    `onto(present, groups, held)` derives a graph that adds to the cotangents that operands have received so far.  Its
    further inputs are those of the active operands `held`.  `groups` has, for each active operand, the first active
    operand that is the same value.  `onto` is None if each operand receives one cotangent at most.

    `aliases` has, for each result, the operand or the earlier result that it is, as a position among operands and then
    results.  It is None for a value of its own.

    `pulls_residuals` is whether residuals may have cotangents, too, which a recorded backward pass needs.  Those at
    `constants`, positions behind the results, have no derivative.

    `origin` is the equation's own primitive and parameters, where residuals have derivatives that were not recorded: a
    recorded backward pass runs the equation again (`backward.Sweep.again`), from operands that are all saved.

    `swept` is the pullback that the native backward pass calls, made once the rule has had a few nodes (`runs`).
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
    pulls_residuals: bool = False
    constants: Positions = ()
    origin: tuple[Primitive, Mapping[str, Any]] | None = None
    pulls: dict[object, Pull] = field(default_factory=dict[object, Pull])
    forms: dict[object, Rule] = field(default_factory=dict[object, Any])  # for given sizes
    sizes: Mapping[str, int] | None = None  # of symbols, in a form for given sizes
    swept: NativePull = NOT_SWEPT
    runs: int = 0

    @property
    def whole(self) -> Rule:
        """The rule of which this is a form."""
        return self

    def running_again(self, primitive: Primitive, params: Mapping[str, Any]) -> Rule:
        """The rule of an equation that a recorded backward pass runs again, unless it calls the host."""
        self.origin = None if calls_host(primitive, params) else (primitive, params)
        return self

    def prepare(self, others: Sequence[Positions] = ()) -> Rule:
        """Find the values to save.  If a part has no derivative, `pull` raises the error.

        `others` are sets of results for which the pullback may read other values than it does for all.
        """
        try:
            graph, targets = self._made(self.traced)
            partial = [self._made(present)[0] for present in others]
        except GradientError as fault:
            if isinstance(fault, DepthError):
                raise
            return self
        used: set[int] = set() if self.origin is None else set(range(self.operands))
        for each in (graph, *partial):
            _, live = live_equations(each.equations, each.outputs)
            used.update(k for k, v in enumerate(each.inputs[: self.total]) if v in live)
        self.saved = tuple(sorted(used))
        self.keeps_results = any(k >= self.operands for k in self.saved)
        self.keeps_operands = self.saved == tuple(range(self.operands))
        self._restrict(self.traced, graph, targets)
        return self

    def values_to_save(self, operands: Sequence[Kept], results: Sequence[Kept]) -> Sequence[Kept]:
        """The values `saved` of an equation's operands and results."""
        if self.keeps_operands:
            return operands
        n = self.operands
        values: list[Kept] = []
        for k in self.saved:
            values.append(operands[k] if k < n else results[k - n])
        return values

    def _made(self, present: Positions) -> tuple[Graph, Positions]:
        graph, targets = self.make(present)
        return without_dead_code(graph), targets

    def at(self, sizes: Mapping[str, int]) -> Rule:
        """The rule of a call with symbolic sizes for given ones; it differs in its pullbacks."""
        key = tuple(sizes.items())
        found = self.forms.get(key)
        if found is None:
            if len(self.forms) >= FORMS:
                self.forms.clear()
            found = self.forms[key] = _SizedRule(self, sizes)
        return found

    def _restrict(self, key: object, graph: Graph, targets: Positions) -> Pull:
        inputs = tuple(graph.inputs[k] for k in self.saved) + graph.inputs[self.total :]
        kept = Graph(inputs, graph.equations, graph.outputs, graph.name)
        direct = None if graph.equations else _places(inputs, graph.outputs)
        places = tuple(self.active.index(k) for k in targets)
        pull = self.pulls[key] = Pull(kept, targets, places, direct, _single(kept), None)
        return pull

    def pull(self, present: Positions) -> Pull:
        """The pullback where the results `present` have cotangents."""
        found = self.pulls.get(present)
        return self._restrict(present, *self._made(present)) if found is None else found

    def gathering(self, operands: Sequence[object]) -> Positions | None:
        """The groups of the active operands, if the pullback adds cotangents of one value; otherwise None."""
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


class _SizedRule(Rule):
    """A rule with symbolic sizes, for given ones."""

    def __init__(self, whole: Rule, sizes: Mapping[str, int]) -> None:
        self.__dict__.update(whole.__dict__)
        self._whole, self.sizes, self.pulls = whole, sizes, {}
        self.swept, self.runs = NOT_SWEPT, 0

    @property
    def whole(self) -> Rule:
        """The rule of which this is a form."""
        return self._whole

    def pull(self, present: Positions) -> Pull:
        """The pullback where the results `present` have cotangents."""
        found = self.pulls.get(present)
        if found is None:
            found = self.pulls[present] = self.whole.pull(present).at(self.sizes or {})
        return found

    def pull_onto(self, present: Positions, groups: Positions, held: Positions) -> Pull:
        """The pullback that adds to the cotangents that the active operands `held` have so far."""
        key = present, groups, held
        found = self.pulls.get(key)
        if found is None:
            found = self.pulls[key] = self.whole.pull_onto(*key).at(self.sizes or {})
        return found


def _places(inputs: Sequence[Var], atoms: Sequence[Atom]) -> Positions | None:
    """The positions of atoms among inputs; None if an atom is not an input."""
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


FORMS: Final = 256  # sizes of one rule
REMEMBERED: Final = 8192  # rules in the cache, which is emptied when it is full
UNKNOWN: Final[Any] = object()
_rules: dict[object, Rule | None] = {}


def rule_for(
    primitive: Primitive,
    params: Mapping[str, Any],
    types: tuple[TensorType, ...],
    active: Positions,
) -> Rule | None:
    """The rule of an equation for the operands `active`; None if no result depends on them."""
    key = (primitive, tuple(sorted(params.items())) if params else (), types, active)
    known = _rules.get(key, UNKNOWN)
    if known is not UNKNOWN:
        return known
    index = _index(primitive, params)
    if key in index:
        return index[key]
    if isinstance(primitive.derivative, Constant):
        rule = None
    elif isinstance(primitive.derivative, Structural):
        rule = REVERSE.required(primitive)(primitive, params, types, active)
    else:
        rule = _equation(primitive, params, types, active)
    if len(index) >= REMEMBERED:
        index.clear()
    index[key] = rule
    return rule


def _index(primitive: Primitive, params: Mapping[str, Any]) -> dict[object, Rule | None]:
    """Where a rule is cached: that of a graph with host calls with it, which alone may keep its functions alive."""
    if not calls_host(primitive, params):
        return _rules
    return next((p.kept for p in params.values() if isinstance(p, Graph) and p.calls_host), dict[object, Any]())


def _equation(
    primitive: Primitive,
    params: Mapping[str, Any],
    types: tuple[TensorType, ...],
    active: Positions,
) -> Rule | None:
    results = primitive.result_types(types, params)
    n, total = len(types), len(types) + len(results)
    known = types + results

    def tangents(pushing: Callable[..., Sequence[Value | None]]) -> tuple[Graph, Positions]:
        """The graph of the tangents of the outputs that have one, and the positions of these outputs."""
        traced: list[int] = []

        def pushed(*values: Value) -> list[Value]:
            """These tangents."""
            ys: Any = values[n:total] if primitive.multiple else values[n]
            ts: list[Value | None] = [None] * n
            for position, t in zip(active, values[total:], strict=True):
                ts[position] = t
            found = pushing(primitive, ys, values[:n], ts, params)
            traced[:] = [k for k, t in enumerate(found) if t is not None]
            return [t for t in found if t is not None]

        graph = derived(pushed, known + tuple(types[k] for k in active), f"{primitive.name}.push")
        return graph, tuple(traced)

    graph, moving = tangents(push)
    empty = any(is_empty(types[k]) for k in active)
    outputs = tangents(push_all)[1] if empty else moving  # the cotangents of empty operands are zeros
    if not outputs:
        return None

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The graph that pulls the cotangents of the results `present` back, and its targets."""
        targets: list[int] = []

        def pulled(*values: Value) -> list[Value]:
            """The cotangents of active inputs that are not zero."""
            given = dict(zip(present, values[total:], strict=True))
            cotangents = transpose(graph, values[:total], [given.get(k) for k in moving])
            pairs = zip(active, cotangents, strict=True)
            cotangents = [zeros(types[k]) if c is None and is_empty(types[k]) else c for k, c in pairs]
            targets[:] = [k for k, c in zip(active, cotangents, strict=True) if c is not None]
            return [c for c in cotangents if c is not None]

        cotangent_types = tuple(results[k] for k in present)
        pull = derived(pulled, known + cotangent_types, f"{primitive.name}.pull")
        return pull, tuple(targets)

    return Rule(primitive, params, n, len(results), total, outputs, active, make).prepare()


# the rules of control flow: (primitive, params, types, active) → rule
REVERSE: RuleKind[Callable[[Primitive, Mapping[str, Any], tuple[TensorType, ...], Positions], Rule | None]] = RuleKind(
    "reverse mode"
)
