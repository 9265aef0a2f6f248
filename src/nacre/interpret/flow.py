"""Reverse mode through control flow: call, cond and scan become the same primitives over pulled-back graphs.

The forward pass returns the values that the pullback needs as further results.  `call` returns its intermediate values.
`cond` returns those of the branch taken, and zeros for those of the other branch.  `scan` returns those of every
iteration, stacked; loop-invariant carries are not stacked.  The iterations' contributions to cotangents are summed
after the loop if the sum is one product or one reduction (see `interpret/loops/scan_accumulation`).  For `while` see
`interpret/loops/bounded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nacre.base.dims import Dim, Size, lower, upper
from nacre.base.dtypes import bool_
from nacre.base.errors import GradientError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret import tape_errors
from nacre.interpret.check import without_checks
from nacre.interpret.forward import carried
from nacre.interpret.loops import scan_accumulation
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.interpret.reverse import Recomputation, Reverse, reverse
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import Constant, Primitive, register_rule
from nacre.ir.rewrite import inline, live_equations, without_dead_code
from nacre.ops import control
from nacre.ops.identity import detach_p, fence_p
from nacre.ops.parts import complex_p
from nacre.ops.pointwise import dimension_p, fill_p, le_p

Types = tuple[TensorType, ...]
Params = Mapping[str, Any]


def positions(mask: Sequence[bool]) -> Positions:
    """Where a mask is true."""
    return tuple(k for k, m in enumerate(mask) if m)


def fill_zeros(b: Builder, type: TensorType) -> Var:
    """Append zeros of a type."""
    if type.dtype.component is not None:
        parts = [fill_zeros(b, type.with_dtype(type.dtype.component)) for _ in range(2)]
        return b.add(complex_p, parts, {})[0]
    zero = type.dtype.python(0)
    return b.add(fill_p, (), {"value": zero, "shape": type.shape, "dtype": type.dtype})[0]


# ---- call


def _recompute(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    graph: Recomputation = params["graph"]
    back = reverse(graph, active)
    if not back.traced:
        return None
    if graph.calls_host:
        raise GradientError(
            f"checkpoint: the derivative computes {graph.name} again; got a function that calls the host, which must "
            "run once; call nc.host_call outside of nc.checkpoint"
        )
    n, m = len(types), len(graph.outputs)
    again = _again(back, graph.saved)

    def onto(present: Positions, groups: Positions, held: Positions) -> tuple[Graph, Positions]:
        """The pullback graph, which computes the forward values again."""
        b = Builder(f"{graph.name}.recompute")
        inputs = [b.input(t) for t in (*types, *graph.output_types)]
        read = inputs[:n] + inputs[n + m - graph.saved :]
        pull, targets = back.pull(present, groups, held)
        cotangents = [b.input(t) for t in pull.input_types[len(back.needed) :]]
        needed = inline(b, again, [b.add(fence_p, (x,))[0] for x in read])
        return b.finish(inline(b, pull, [*needed, *cotangents])), targets

    return _called(primitive, params, (n, m, n + m), back, onto)


def _again(back: Reverse, saved: int) -> Graph:
    """The graph from the inputs and the last `saved` outputs to the values that the pullback reads."""
    graph = back.graph
    known: dict[Atom, Var] = {}
    given: list[Var] = []
    for a in graph.outputs[len(graph.outputs) - saved :]:
        given.append(Var(a.type))
        known.setdefault(a, given[-1])

    def atom(a: Atom) -> Atom:
        """The saved value in the place of one that is computed."""
        return known.get(a, a)

    equations = [
        Equation(e.primitive, tuple(map(atom, e.inputs)), e.params, e.outputs, e.source) for e in graph.equations
    ]
    whole = Graph((*graph.inputs, *given), tuple(equations), tuple(map(atom, back.needed)), graph.name)
    return without_dead_code(without_checks(whole))


Onto = Callable[[Positions, Positions, Positions], tuple[Graph, Positions]]


def _called(
    primitive: Primitive,
    params: Params,
    counts: tuple[int, int, int],
    back: Reverse,
    onto: Onto,
    own: Params | None = None,
) -> Rule:
    """The rule of a call, whose pullback adds cotangents as the equations would without the call.

    `own` are the parameters of the call, if `params` also give values that were not recorded.
    """
    rule = Rule(primitive, params, *counts, back.traced, back.active, lambda present: onto(present, (), ()))
    rule.onto, rule.repeats, rule.aliases, rule.pulls_residuals = onto, back.repeats, back.aliases, True
    if own is not None and any(s.rule.origin is not None for s in back.steps):
        rule.running_again(primitive, own)
    return rule.prepare()


def _call(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    if isinstance(params["graph"], Recomputation):
        return _recompute(primitive, params, types, active)
    back = reverse(params["graph"], active)
    if not back.traced:
        return None
    given = (*back.graph.inputs, *(a for a in back.graph.outputs))
    residuals = tuple(v for v in back.needed if v not in given)
    graph = back.graph
    forward = Graph(graph.inputs, graph.equations, graph.outputs + residuals, graph.name)
    atoms = (*given, *residuals)
    n, m = len(types), len(graph.outputs)

    def onto(present: Positions, groups: Positions, held: Positions) -> tuple[Graph, Positions]:
        """The pullback graph of the called graph for the cotangents present, among them perhaps of residuals."""
        b = Builder(f"{graph.name}.pull")
        values = dict(zip(reversed(atoms), reversed([b.input(a.type) for a in atoms]), strict=True))
        whole = back if all(k < m for k in present) else reverse(forward, active)
        if not values.keys() >= set(whole.needed):
            raise tape_errors.unrecorded(f"those of {graph.name}")
        pull, targets = whole.pull(present, groups, held)
        cotangents = [b.input(t) for t in pull.input_types[len(whole.needed) :]]
        return b.finish(inline(b, pull, [*(values[v] for v in whole.needed), *cotangents])), targets

    return _called(primitive, {"graph": forward}, (n, m, len(atoms)), back, onto, params)


def _masked(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    return _call(control.call_p, {"graph": params["safe"]}, types, active)


# ---- cond


def _varying(graph: Graph, active: Iterable[int]) -> set[Atom]:
    """The values that may have a derivative by one of some inputs."""
    found: set[Atom] = {graph.inputs[k] for k in active}
    for e in graph.equations:
        if not isinstance(e.primitive.derivative, Constant) and any(a in found for a in e.inputs):
            found.update(v for v in e.outputs if v.type.dtype.is_differentiable)
    return found


def _slots(sides: Sequence[Sequence[tuple[Var, bool]]]) -> tuple[list[TensorType], list[Positions]]:
    """Shared slots for the residuals of branches: their types, and the slot of each residual.

    Each residual has a flag, whether it varies with the operands.  Residuals that share a slot have the same flag: in
    a second derivative, all residuals of a slot vary or none.  A zero tangent times an infinite partial would be NaN.
    """
    slots: list[tuple[TensorType, bool]] = []
    places: list[Positions] = []
    for side in sides:
        free = list(range(len(slots)))
        mine: list[int] = []
        for v, varies in side:
            place = next((k for k in free if slots[k][0] is v.type and slots[k][1] == varies), None)
            if place is None:
                slots.append((v.type, varies))
                place = len(slots) - 1
            else:
                free.remove(place)
            mine.append(place)
        places.append(tuple(mine))
    return [t for t, _ in slots], places


def _cond(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    inner = tuple(k - 1 for k in active if k)
    backs = [reverse(params[name], inner) for name in ("then", "orelse")]
    traced = tuple(sorted({*backs[0].traced, *backs[1].traced}))
    if not traced:
        return None
    residuals = [[v for v in r.needed if v not in r.graph.inputs and v not in r.graph.outputs] for r in backs]
    varying = [_varying(r.graph, inner) for r in backs]
    slots, places = _slots([[(v, v in vs) for v in kept] for kept, vs in zip(residuals, varying, strict=True)])
    constant = [
        {*kept}.difference(_varying(r.graph, range(len(types) - 1))) for r, kept in zip(backs, residuals, strict=True)
    ]
    forward = [_padded(r.graph, kept, at, slots) for r, kept, at in zip(backs, residuals, places, strict=True)]
    results = tuple(a.type for a in backs[0].graph.outputs)
    known = types[1:] + results + tuple(slots)

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The pullback of a cond: a cond of the branches' pullbacks with common targets."""
        pulled = [r.pull(tuple(k for k in present if k in r.traced)) for r in backs]
        targets = tuple(sorted({*pulled[0][1], *pulled[1][1]}))
        branches: list[Graph] = []
        for r, kept, fixed, at, (pull, mine) in zip(backs, residuals, constant, places, pulled, strict=True):
            b = Builder(f"{r.graph.name}.pull")
            inputs = [b.input(t) for t in known]
            cotangents = {k: b.input(results[k]) for k in present}
            values: dict[Atom, Var] = dict(zip((*r.graph.inputs, *r.graph.outputs), inputs, strict=False))
            held = {v: inputs[len(types) - 1 + len(results) + p] for v, p in zip(kept, at, strict=True)}
            values |= {v: b.add(detach_p, (x,), {})[0] if v in fixed else x for v, x in held.items()}
            given = [cotangents[k] for k in present if k in r.traced]
            found = dict(zip(mine, inline(b, pull, [*(values[v] for v in r.needed), *given]), strict=True))
            branches.append(b.finish([found[k] if k in found else fill_zeros(b, types[k + 1]) for k in targets]))
        return _cond_graph(primitive, types[0], branches), tuple(k + 1 for k in targets)

    n, m = len(types), len(results)
    chosen = {"then": forward[0], "orelse": forward[1]}
    rule = Rule(primitive, chosen, n, m, n + m + len(slots), traced, active, make)
    return rule.running_again(primitive, params).prepare() if slots else rule.prepare()


def _padded(graph: Graph, residuals: Sequence[Var], places: Positions, slots: Sequence[TensorType]) -> Graph:
    """The branch with its residuals in their slots, zeros in the others."""
    b = Builder(graph.name)
    b.inputs, b.equations = list(graph.inputs), list(graph.equations)
    at = dict(zip(places, residuals, strict=True))
    extra = [at[k] if k in at else fill_zeros(b, t) for k, t in enumerate(slots)]
    return b.finish([*graph.outputs, *extra])


def _cond_graph(primitive: Primitive, predicate: TensorType, branches: Sequence[Graph]) -> Graph:
    """A graph of one cond over branches with equal inputs; it passes only inputs that a branch reads."""
    used: set[int] = set()
    needed: list[tuple[Equation, ...]] = []
    for g in branches:
        equations, live = live_equations(g.equations, g.outputs)
        needed.append(tuple(equations))
        used.update(k for k, v in enumerate(g.inputs) if v in live)
    kept = sorted(used)
    then, orelse = (
        Graph(tuple(g.inputs[k] for k in kept), equations, g.outputs, g.name)
        for g, equations in zip(branches, needed, strict=True)
    )
    b = Builder("cond.pull")
    chosen = b.input(predicate)
    inputs = [b.input(t) for t in branches[0].input_types]
    return b.finish(b.add(primitive, [chosen, *(inputs[k] for k in kept)], {"then": then, "orelse": orelse}))


# ---- scan


def traced_mask(back: Reverse, count: int) -> tuple[bool, ...]:
    return tuple(k in back.traced for k in range(count))


class _Scan:
    """The data of a scan from which its pullbacks are built."""

    def __init__(self, params: Params, types: Types, active: Positions) -> None:
        body: Graph = params["body"]
        self.params, self.types, self.active = params, types, active
        self.n: int = params["carries"]
        rows = tuple(k for k in active if k >= self.n)

        def after_iteration(mask: tuple[bool, ...]) -> tuple[bool, ...]:
            """The carries that are traced after one more iteration, from those before it."""
            return traced_mask(reverse(body, positions(mask) + rows), self.n)

        self.moving = positions(carried(after_iteration, tuple(k in active for k in range(self.n))))
        self.back = reverse(body, self.moving + rows)
        graph = self.graph = self.back.graph
        self.traced = self.moving + tuple(k for k in self.back.traced if k >= self.n)
        self.results = len(graph.outputs)
        invariant = {v for v, a in zip(graph.inputs[: self.n], graph.outputs, strict=False) if v is a}
        inputs = {v: k for k, v in enumerate(graph.inputs)}
        outputs = {a: k for k, a in enumerate(graph.outputs) if k >= self.n}
        # sources of the values that pullbacks need: operands of the scan, its stacked results, or stacked residuals
        self.fixed: dict[Var, int] = {}
        self.rows: dict[Var, int] = {}
        self.stacked: list[Var] = []
        for v in self.back.needed:
            if v in invariant:
                self.fixed[v] = inputs[v]
            elif inputs.get(v, -1) >= self.n:
                self.rows[v] = inputs[v]
            elif v in outputs:
                self.rows[v] = len(types) + outputs[v]
            else:
                self.rows[v] = len(types) + self.results + len(self.stacked)
                self.stacked.append(v)

    def forward(self) -> dict[str, Any]:
        """The parameters of the scan that also stacks residuals."""
        g = self.graph
        return {
            **self.params,
            "body": Graph(g.inputs, g.equations, (*g.outputs, *self.stacked), g.name),
        }

    def known_types(self, primitive: Primitive, forward: Params) -> Types:
        """The types of operands and of all results of the scan."""
        return self.types + primitive.result_types(self.types, forward)

    def pull(
        self, primitive: Primitive, known: Types, present: Positions, answers: Mapping[Dim, bool]
    ) -> tuple[Graph, Positions]:
        """The backward scan, as a graph of (operands, results, cotangents of `present`).

        Where the order of sums depends on symbolic sizes, it is a cond of the scans for either order; `answers` has the
        sizes that are known to be at most 0, or above it.
        """
        try:
            return self.backward_scan(primitive, known, present, answers)
        except _OpenQuestion as question:
            excess = question.excess
        yes, no = (self.pull(primitive, known, present, {**answers, excess: answer}) for answer in (True, False))
        b = Builder("scan.pull")
        inputs = [b.input(v.type) for v in yes[0].inputs]
        number = b.add(dimension_p, (), {"size": excess})[0]
        small = b.add(le_p, (number, fill_zeros(b, number.type)))[0]
        choice = _cond_graph(control.cond_p, TensorType((), bool_), (yes[0], no[0]))
        return b.finish(inline(b, choice, (small, *inputs))), yes[1]

    def backward_scan(
        self, primitive: Primitive, known: Types, present: Positions, answers: Mapping[Dim, bool]
    ) -> tuple[Graph, Positions]:
        """The backward scan with one order of sums."""
        ys = tuple(k for k in present if k >= self.n)
        back = self.backward_body(ys, answers)
        b = Builder("scan.pull")
        inputs = [b.input(t) for t in known]
        cotangents = {k: b.input(known[len(self.types) + k]) for k in present}
        carries = [cotangents[k] if k in cotangents else fill_zeros(b, self.types[k]) for k in self.moving]
        carries += [inputs[k] for k in self.fixed.values()]
        rows: list[Atom] = [inputs[k] for k in self.rows.values()]
        rows += [cotangents[k] for k in ys]
        found = b.add(
            primitive,
            [*carries, *rows],
            {
                "body": back.body,
                "carries": len(carries),
                "length": self.params["length"],
                "reverse": not self.params["reverse"],
            },
        )
        stacked = dict(zip((*self.rows, *ys), rows, strict=True))
        given: dict[Atom, Atom] = {back.inputs[v]: x for v, x in stacked.items()}
        given |= zip(back.body.outputs[len(carries) :], found[len(carries) :], strict=True)
        results: dict[int, Atom] = dict(zip(self.moving, found, strict=False))
        results |= zip(back.targets, found[len(carries) :], strict=False)
        for k, terms in back.terms.items():
            start = results[k] if k in cotangents or k in back.staying else None
            whole = [t.whole(b, [given[a] for a in t.operands]) for t in terms]
            results[k] = scan_accumulation.added(b, start, whole)
        out = [k for k in self.active if k < self.n] + list(back.targets)
        return b.finish([results[k] for k in out]), tuple(out)

    def backward_body(self, ys: Positions, answers: Mapping[Dim, bool]) -> _Back:
        """The body of the backward scan.

        It maps (cotangents of carries, fixed values, saved rows, cotangents of ys) to (the first two, cotangents of xs,
        values that are summed after the scan).
        """
        carries = tuple(k for k in self.moving if k in self.back.traced)
        pull, found = self.back.pull(carries + ys)
        b = Builder(pull.name)
        incoming = {k: b.input(self.types[k]) for k in self.moving}
        values = {v: b.input(v.type) for v in (*self.fixed, *self.rows)}
        incoming |= {k: b.input(self.graph.outputs[k].type) for k in ys}
        given = [*(values[v] for v in self.back.needed), *(incoming[k] for k in carries + ys)]
        cotangents = dict(zip(found, inline(b, pull, given), strict=True))
        targets = tuple(k for k in found if k >= self.n)
        own: dict[Var | int, Var] = {v: values[v] for v in self.rows}
        own |= {k: incoming[k] for k in ys}
        stacked: dict[Atom, None] = dict.fromkeys(own.values())
        stacked |= dict.fromkeys(cotangents[k] for k in targets)
        invariant = [k for k in self.moving if self.graph.inputs[k] is self.graph.outputs[k]]
        fixed = {values[v] for v in self.fixed} | {incoming[k] for k in invariant}
        already = len(stacked)
        terms: dict[int, list[scan_accumulation.Term]] = {}
        staying: set[int] = set()
        for k in (k for k in invariant if k in cotangents):

            def small(term: scan_accumulation.Term, room: Size = self.types[k].size) -> bool:
                """Whether the values to be stacked for a term are no larger than the sum that it is added to."""
                fresh = [a.type.size for a in term.operands if a not in stacked]
                return fixed.isdisjoint(term.operands) and (not fresh or _is_within(sum(fresh), room, answers))

            stay, late = scan_accumulation.summands(b.equations, cotangents[k], incoming[k], small)
            if late:
                cotangents[k] = scan_accumulation.added(b, incoming[k], stay)
                terms[k] = late
                staying |= {k} if stay else set()
                stacked.update(dict.fromkeys(a for t in late for a in t.operands))
        outputs: list[Atom] = [cotangents[k] if k in cotangents else fill_zeros(b, self.types[k]) for k in self.moving]
        outputs += [values[v] for v in self.fixed]
        body = b.finish([*outputs, *(cotangents[k] for k in targets), *list(stacked)[already:]])
        return _Back(without_dead_code(body), targets, own, terms, staying)


class _OpenQuestion(Exception):
    """Whether a symbolic size is at most 0 decides an order of sums."""

    def __init__(self, excess: Dim) -> None:
        super().__init__(excess)
        self.excess = excess


def _is_within(size: Size, room: Size, answers: Mapping[Dim, bool]) -> bool:
    """Whether a size is at most another; raises _OpenQuestion where bounds and answers leave it open."""
    excess = size - room
    if upper(excess) <= 0 or any(yes and upper(excess - known) <= 0 for known, yes in answers.items()):
        return True
    if lower(excess) > 0 or any(not yes and lower(excess - known) >= 0 for known, yes in answers.items()):
        return False
    assert isinstance(excess, Dim)
    raise _OpenQuestion(excess)


@dataclass(frozen=True)
class _Back:
    """The body of a backward scan, and the sums that are added after it.

    `inputs` are the body's inputs that are rows.  The sums of terms are added to the cotangents of the carries in
    `terms`; those in `staying` also have summands that are added in each iteration.
    """

    body: Graph
    targets: Positions
    inputs: dict[Var | int, Var]
    terms: dict[int, list[scan_accumulation.Term]]
    staying: set[int]


def _scan(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    scan = _Scan(params, types, active)
    if not scan.traced:
        return None
    forward = scan.forward()
    known = scan.known_types(primitive, forward)
    rule = Rule(
        primitive,
        forward,
        len(types),
        scan.results,
        len(known),
        scan.traced,
        active,
        lambda present: scan.pull(primitive, known, present, {}),
    )
    return rule.running_again(primitive, params).prepare() if scan.stacked else rule.prepare()


register_rule(control.call_p, REVERSE, _call)
register_rule(control.masked_p, REVERSE, _masked)
register_rule(control.cond_p, REVERSE, _cond)
register_rule(control.scan_p, REVERSE, _scan)
