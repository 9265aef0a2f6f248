"""Nodes that a recorded backward pass rewrites, so that it has one node for each value.

A recorded backward pass reads values inside of fused operations, branches and loops.  If it computed such a value
again, the cotangents of the copies would be added in another order than those of one value in a compiled function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.interpret.evaluate import from_numpy
from nacre.interpret.pullback import Rule
from nacre.interpret.reverse import Reverse
from nacre.interpret.tape import Part, TapeNode, new_node
from nacre.ir.graph import Atom, Graph, Literal
from nacre.ir.rewrite import live_equations
from nacre.trace.bind import executor
from nacre.trace.value import Value, make, stripped


def unfuse(node: TapeNode, back: Reverse, saved: Sequence[Value]) -> None:
    """Turn the node of a fused operation into that of its last equation, behind nodes of the others.

    `back` has the equations, and `saved` are the values that the node saved.
    """
    rule, sizes = node.rule, node.rule.sizes
    last = next((s for s in back.steps if s.results[0] is back.outputs[0]), None)
    known = _values(back, dict(zip(rule.saved, saved, strict=True)), sizes)
    if last is None or known is None:
        return
    nodes: dict[Atom, TapeNode | Part] = {
        back.graph.inputs[k]: parent for k, parent in zip(rule.active, node.parents, strict=True)
    }

    def value(a: Atom) -> Value:
        """The value of an atom with its node; one that no pullback reads has no numbers."""
        if isinstance(a, Literal):
            return from_numpy(a.array)
        x = known.get(a)
        if x is None:
            return make(a.type, None, None, nodes.get(a))
        return x if x.node is nodes.get(a) else make(x.type, x.content, x.layout, nodes.get(a))

    for k, step in enumerate(back.steps):
        own = _at(step.rule, sizes)
        made = new_node(own, [value(a) for a in step.inputs], [value(a) for a in step.results], 0)
        if step is last:
            node.rule, node.parents, node.saved = own, made.parents, made.saved
            return
        made.number = node.number - 1 + (k + 1) / (len(back.steps) + 1)  # behind all earlier nodes
        for i in own.traced:
            nodes[step.results[i]] = Part(made, i, None) if own.primitive.multiple else made


def merge(node: TapeNode, results: Sequence[Value], since: float) -> None:
    """Turn a node into that of the same equation, which ran again at a higher level with these results.

    Nodes of the second run have numbers above `since`.  Its node also has derivatives of residuals, which the nodes of
    higher levels saved.
    """
    copies: list[Part] = []
    waiting, seen = [x.node for x in results], set[int]()
    while waiting:
        at = waiting.pop()
        while at is not None and at.level > node.level:
            owner = at.node if isinstance(at, Part) else at
            if isinstance(owner, TapeNode) and owner.number > since and id(owner) not in seen:
                seen.add(id(owner))
                waiting += [x.node for x in owner.saved or ()]
            at = getattr(at, "outer", None)
        if isinstance(at, Part) and at.node.number > since:
            copies.append(at)
    for part in copies:
        again, part.node = part.node, node
        if again is not node:  # for the first part
            node.rule, node.parents, node.saved = again.rule, again.parents, again.saved


def _at(rule: Rule, sizes: Mapping[str, int] | None) -> Rule:
    """A rule, or its form for given sizes."""
    return rule if sizes is None else rule.at(sizes)


def _values(back: Reverse, saved: Mapping[int, Value], sizes: Mapping[str, int] | None) -> dict[Atom, Value] | None:
    """The values that pullbacks of equations read, computed from those that were saved; None if these are too few."""
    inputs = back.graph.inputs
    known: dict[Atom, Value] = {inputs[k]: x for k, x in saved.items()}
    missing = [v for v in back.needed if v not in known]
    if not missing:
        return known
    again = back.graph.kept.get("again")
    if again is None:
        equations, live = live_equations(back.graph.equations, missing)
        read = tuple(v for v in inputs if v in live)
        again = back.graph.kept["again"] = Graph(read, tuple(equations), tuple(missing), back.graph.name)
    if not all(v in known for v in again.inputs):
        return None
    operands = [stripped(known[v]) for v in again.inputs]
    run = executor()
    found = run.execute(again, operands) if sizes is None else run.execute_at(again, operands, sizes)
    return known | dict(zip(missing, found, strict=True))
