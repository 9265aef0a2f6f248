"""Reverse mode of graphs: the pullbacks of the equations, from the last equation to the first.

Cotangents of a value are added in descending order of the equations that read it, then in the order of operands.  The
tape does the same, so both give equal bits.  A call of a graph does not change this order: its pullback adds to the
cotangents that the operands have received so far (`Rule.onto`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.interpret.pullback import Positions, Rule, rule_for
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var, kept_with_graph
from nacre.ir.rewrite import inline, without_calls, without_dead_code
from nacre.ops.pointwise import add_p


class Recomputation(Graph):
    """A graph whose intermediate values reverse mode computes again, except the last `saved` outputs."""

    def __init__(self, graph: Graph, name: str, saved: int = 0) -> None:
        super().__init__(graph.inputs, graph.equations, graph.outputs, name)
        self.__dict__["saved"] = saved

    saved: int

    def remade(self, graph: Graph) -> Graph:
        """Another graph, made of this one, which saves the same outputs if it has as many."""
        same = len(graph.outputs) == len(self.outputs)
        return Recomputation(graph, graph.name, self.saved if same else 0)

    @cached_property
    def key(self) -> Hashable:
        """The graph's key, different from that of the graph it copies."""
        return "recomputed", self.saved, Graph.key.function(self)


def _has_own_pullback(e: Equation) -> bool:
    """Whether an equation with an expansion is pulled back as a whole: by a rule of its own, or computed again."""
    return len(e.params) > 1 or isinstance(e.params["graph"], Recomputation)


@dataclass(frozen=True, eq=False)
class _Step:
    """An equation that is pulled back: its rule, its operands, its results, and its saved atoms."""

    rule: Rule
    inputs: tuple[Atom, ...]
    results: tuple[Var, ...]
    saved: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Reverse:
    """A graph prepared for reverse mode.

    `graph` computes the outputs of the original.  `needed` are the values of `graph` that `pull` reads.  `traced` are
    the outputs that depend on the active inputs.
    """

    graph: Graph
    active: Positions
    traced: Positions
    needed: tuple[Var, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[Atom, ...]  # of the graph; aliases of one value are one atom

    @property
    def repeats(self) -> bool:
        """Whether an active input alone receives several cotangents."""
        read = Counter([*self.outputs, *(a for s in self.steps for a in s.inputs)])
        return any(read[self.graph.inputs[k]] > 1 for k in self.active)

    @cached_property
    def aliases(self) -> tuple[int | None, ...]:
        """For each output the position, among inputs and then outputs, of the earlier atom that it is; or None."""
        seen: dict[Atom, int] = {v: k for k, v in enumerate(self.graph.inputs)}
        n = len(seen)
        found = [seen.setdefault(a, n + k) for k, a in enumerate(self.outputs)]
        return tuple(None if at == n + k else at for k, at in enumerate(found))

    def pull(self, present: Positions, groups: Positions = (), held: Positions = ()) -> tuple[Graph, Positions]:
        """The graph from needed values and cotangents to cotangents of the inputs that have one, and these inputs.

        The cotangents are those of the outputs `present`, then those that the active inputs `held` have received so
        far.  Active inputs of one group (see `Rule`) are one value.
        """
        b = Builder(f"{self.graph.name}.pull")
        values: dict[Var, Atom] = {v: b.input(v.type) for v in self.needed}
        pending: dict[Atom, Atom] = {}
        own = [self.graph.inputs[k] for k in self.active]
        one: dict[Atom, Atom] = {v: own[k] for v, k in zip(own, groups, strict=False)}

        def put(a: Atom, c: Atom) -> None:
            """Add a cotangent, by an equation, to the cotangent of an atom."""
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


@kept_with_graph(1024)
def reverse(graph: Graph, active: Positions) -> Reverse:
    """Prepare a graph to be pulled back to its inputs `active`; the values are those of this graph or an equal one."""
    return own_reverse(graph, active)


def own_reverse(graph: Graph, active: Positions) -> Reverse:
    """As `reverse`; the values are those of this graph, for code that has others of them."""
    if any(e.primitive.expansion is not None for e in graph.equations):
        graph = without_calls(graph, _has_own_pullback)
    moving: set[Atom] = {graph.inputs[k] for k in active}
    same: dict[Atom, Atom] = {}  # results of a call that are operands of it, or its earlier results
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
        inputs = tuple(same.get(a, a) for a in e.inputs)
        steps.append(_Step(rule, inputs, results, tuple(rule.values_to_save(e.inputs, results))))
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
    """The steps that contribute to a wanted cotangent, in order."""
    live: list[_Step] = []
    for step in reversed(steps):
        if any(step.results[k] in wanted for k in step.rule.traced):
            live.append(step)
            wanted.update(a for a in step.inputs if a in moving)
    live.reverse()
    return live


class FusedRule(Rule):
    """The rule of a graph that runs as one equation, with the rules of its equations."""

    reverse: Reverse


def fused_rule(graph: Graph, active: Positions) -> Rule | None:
    """The rule of a graph with one result that runs as one equation; its pullback computes the needed values again.

    None if the result does not depend on the operands `active`.
    """
    back = own_reverse(graph, active)
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
    rule = FusedRule(last.primitive, last.params, n, 1, n + 1, back.traced, active, make)
    rule.onto, rule.repeats, rule.reverse = onto, back.repeats, back
    return rule.prepare()
