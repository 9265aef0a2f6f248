"""The backward pass over the tape, from outputs to leaves.

Nodes are processed in descending order of their numbers.  The cotangents of a value are added in that order, starting
from the given ones, then in the order of operands.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nacre.base.errors import GradientError
from nacre.base.state import STATE
from nacre.interpret import tape_errors
from nacre.interpret.conjugation import conjugated
from nacre.interpret.pullback import Positions, Pull
from nacre.interpret.reverse import FusedRule
from nacre.interpret.stage import Staging, run
from nacre.interpret.tape import CHANGED, RETAINED, AnyNode, CotangentFunction, Part, TapeEnd, TapeNode, lowered
from nacre.interpret.unfused import unfuse
from nacre.ir.rewrite import specialised
from nacre.ops.pointwise import add
from nacre.trace.bind import executor
from nacre.trace.value import Payload, Value, make
from nacre.trace.variable import Leaf, scope


class Sweep:
    """One backward pass, with the cotangents that nodes, leaves and targets have received."""

    def __init__(self, level: int, retain_graph: bool, create_graph: bool, targets: Sequence[AnyNode]) -> None:
        self.level, self.create = level, create_graph
        self.keep = retain_graph or create_graph
        self.wanted = {id(t) for t in targets}
        self.pending: dict[TapeNode, dict[int, Value]] = {}
        self.queue: list[tuple[float, TapeNode]] = []
        # cotangents of leaves and targets, by identity
        self.ends: dict[int, tuple[AnyNode, Value]] = {}
        self.parts: dict[tuple[int, int], Part] = {}

    def put(self, node: AnyNode, cotangent: Value) -> None:
        """Add to the cotangent of a node."""
        if isinstance(node, Part):
            if id(node) in self.wanted or node in RETAINED:
                self.parts[id(node.node), node.index] = node
            target, index = node.node, node.index
        elif isinstance(node, TapeNode):
            target, index = node, 0
        else:
            before = self.ends.get(id(node))
            if before is None and isinstance(node, TapeEnd):
                raise node.fault()
            self.ends[id(node)] = node, cotangent if before is None else add(before[1], cotangent)
            return
        waiting = self.pending.get(target)
        if waiting is None:
            waiting = self.pending[target] = {}
            heapq.heappush(self.queue, (-target.number, target))
        before = waiting.get(index)
        waiting[index] = cotangent if before is None else add(before, cotangent)

    def run(self) -> None:
        """Process every node that has cotangents, latest first."""
        while self.queue:
            _, node = heapq.heappop(self.queue)
            given = self.pending.pop(node)
            self.note(node, given)
            if self.create and isinstance(node.rule.whole, FusedRule):
                unfuse(node, node.rule.whole.reverse, self.saved(node))
            present = tuple(sorted(given)) if len(given) > 1 else tuple(given)
            parents, rule = node.parents, node.rule
            if rule.onto is None or (not rule.repeats and len(parents) == 1):
                pull = rule.pull(present)
                values = [*self.saved(node), *(given[k] for k in present)]
            else:
                pull, held = self.gathered(node, present)
                values = [*self.saved(node), *(given[k] for k in present), *held]
            if not self.keep:
                node.saved, node.parents = None, ()
            if pull.direct is not None:
                found: Sequence[Value] = [values[k] for k in pull.direct]
            else:
                found = self.evaluate(pull, values, getattr(node, "source", ""))
            for k, cotangent in zip(pull.places, found, strict=True):
                self.put(parents[k], cotangent)

    def gathered(self, node: TapeNode, present: Positions) -> tuple[Pull, Sequence[Value]]:
        """The pullback that adds to the cotangents that operands have received, and these cotangents."""
        parents, rule = node.parents, node.rule
        together = (0,) if len(parents) == 1 else rule.gathering(list(map(_place, parents)))
        if together is None:
            return rule.pull(present), ()
        held: dict[int, Value] = {}
        for k in dict.fromkeys(together):
            c = self.take(parents[k])
            if c is not None:
                held[k] = c
        return rule.pull_onto(present, together, tuple(held)), tuple(held.values())

    def take(self, node: AnyNode) -> Value | None:
        """Remove and return the cotangent of a node; None if there is none."""
        if isinstance(node, TapeNode | Part):
            target, index = _place(node)
            return self.pending.get(target, {}).pop(index, None)
        found = self.ends.pop(id(node), None)
        return None if found is None else found[1]

    def note(self, node: TapeNode, given: Mapping[int, Value]) -> None:
        """Store cotangents that the caller requested."""
        if RETAINED or self.wanted:
            for k, cotangent in given.items():
                place = node if not node.rule.primitive.multiple else self.parts.get((id(node), k))
                if place is None:
                    continue
                if place in RETAINED:
                    RETAINED[place] = cotangent
                if id(place) in self.wanted:
                    self.ends[id(place)] = place, cotangent

    def saved(self, node: TapeNode) -> Sequence[Value]:
        """The values that a node saved, with nodes of its level only if the backward pass itself is recorded."""
        held = node.saved
        if held is None:
            raise tape_errors.released()
        if CHANGED and any(CHANGED.get(id(x), -1) > node.number for x in held):
            raise tape_errors.overwritten(node.rule.primitive.name)
        if not self.create:
            return [lowered(x, self.level) for x in held]
        n = node.rule.operands
        return [x if k < n else _with_node(x, node, k - n) for k, x in zip(node.rule.saved, held, strict=True)]

    def evaluate(self, pull: Pull, values: Sequence[Value], source: str) -> Sequence[Value]:
        """Run a pullback: as one compiled program for plain values, otherwise equation by equation."""
        if isinstance(pull, CotangentFunction):
            return pull.intercepted(values)
        if STATE.word == 0 or scope() is None:
            for x in values:
                if isinstance(x.content, Payload) or (x.node is not None and STATE.gradients):
                    break
            else:
                if pull.sizes is not None:
                    return executor().execute_at(pull.graph, values, pull.sizes)
                if pull.single is None:
                    return executor().execute(pull.graph, values)
                e, places = pull.single
                return (executor().evaluate(e.primitive, [values[k] for k in places], e.params),)
        return run(pull.graph if pull.sizes is None else specialised(pull.graph, pull.sizes), values, source)


def _place(node: AnyNode) -> tuple[Any, int]:
    """The accumulator of a node's cotangents: the node of its equation, and the index of the result."""
    return (node.node, node.index) if isinstance(node, Part) else (node, 0)


def _with_node(x: Value, node: TapeNode, result: int) -> Value:
    """A result that was saved, with its node; residuals depend on the operands, too."""
    rule = node.rule
    if result >= rule.results and not rule.pulls_residuals:
        fault = partial(tape_errors.unrecorded, rule.primitive.name)
        return make(x.type, x.content, x.layout, TapeEnd(node.level, fault))
    if result not in rule.traced and result < rule.results:
        return x
    return make(
        x.type,
        x.content,
        x.layout,
        Part(node, result, x.node) if rule.primitive.multiple else node,
    )


def backward(
    outputs: Sequence[Value],
    cotangents: Sequence[Value],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Add the gradients of outputs to the leaves that they were computed from.

    With `create_graph` the backward pass itself is recorded.  Raises GradientError if an output has no node, or depends
    on an input of a functional `vjp`; StateError if its computation was released.
    """
    level = level_of(outputs)
    staging = scope()
    if isinstance(staging, Staging) and staging.level == level:
        staging.sweep(outputs)
    sweep = Sweep(level, retain_graph, create_graph, ())
    for y, c in zip(outputs, cotangents, strict=True):
        sweep.put(y.node, conjugated(c))
    sweep.run()
    for leaf, cotangent in sweep.ends.values():
        if not isinstance(leaf, Leaf):
            raise tape_errors.followed()
        held = conjugated(cotangent if create_graph else lowered(cotangent, level))
        place = leaf if leaf.owner is None else leaf.owner
        before = place.gradient
        place.gradient = held if before is None else add(before, held)


def gradients_of(
    outputs: Sequence[Value],
    cotangents: Sequence[Value],
    inputs: Sequence[Value],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> list[Value | None]:
    """The gradients of outputs with respect to values that they were computed from; leaves are unchanged."""
    level = level_of(outputs)
    for x in inputs:
        if x.node is None or x.node.level != level:
            raise GradientError("gradient: inputs must have been tracked when the outputs were computed")
    sweep = Sweep(level, retain_graph, create_graph, [x.node for x in inputs])
    for y, c in zip(outputs, cotangents, strict=True):
        sweep.put(y.node, conjugated(c))
    sweep.run()
    found = [sweep.ends.get(id(x.node)) for x in inputs]
    return [None if f is None else conjugated(f[1]) for f in found]


def level_of(outputs: Sequence[Value]) -> int:
    levels = {y.node.level for y in outputs if y.node is not None}
    if len(levels) != 1 or any(y.node is None for y in outputs):
        raise GradientError(
            "backward: the tensor must be computed from a tensor or parameter with "
            "requires_grad; got one that "
            "was not recorded; use requires_grad_(), and compute it outside no_grad()"
        )
    return levels.pop()
