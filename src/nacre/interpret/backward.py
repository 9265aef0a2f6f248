"""The backward pass over the tape, from outputs to leaves.

Nodes are processed in descending order of their numbers.  The cotangents of a value are added in that order, starting
from the given ones, then in the order of operands.  Hooks of a value run when its cotangent is complete.
Where nothing is observed or recorded, native code processes the plain nodes in the same order (`codegen.entry.sweep`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from nacre.base.errors import GradientError, StateError
from nacre.base.state import STATE, without_autocast
from nacre.interpret import tape_errors
from nacre.interpret.conjugation import conjugated
from nacre.interpret.pullback import Positions, Pull, Rule
from nacre.interpret.reverse import FusedRule
from nacre.interpret.stage import Staging, run
from nacre.interpret.tape import (
    CHANGED,
    NUMBERS,
    Alias,
    AnyNode,
    CalledPull,
    Part,
    TapeEnd,
    TapeNode,
    hooks_of,
    lowered,
    note_hooks,
    retain,
)
from nacre.interpret.unfused import merge, unfuse
from nacre.ir.primitive import Primitive
from nacre.ir.rewrite import specialised
from nacre.ops.pointwise import add
from nacre.trace.bind import bind, executor, inside, next_level
from nacre.trace.hooks import LIVE, GradientHooks
from nacre.trace.modes import gradients
from nacre.trace.value import Payload, Value, make
from nacre.trace.variable import Leaf, scope


class TapeScope:
    """A separate level for a functional `vjp`; operations are recorded only through nodes."""

    dynamic = False

    def __init__(self) -> None:
        self.level = next_level()

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Raise an error: the tape records at nodes and never interprets payloads."""
        raise StateError(f"{primitive.name}: values of a tape have nodes, not payloads")


class Sweep:
    """One backward pass, with the cotangents that nodes, leaves and targets have received."""

    def __init__(self, level: int, retain_graph: bool, create_graph: bool, targets: Sequence[AnyNode]) -> None:
        self.level, self.create = level, create_graph
        self.keep = retain_graph or create_graph
        self.plain = not (level or create_graph or STATE.word)  # it runs without recording, on values with numbers
        self.targets = targets
        self.wanted = {_key(t) for t in targets}
        self.pending: dict[TapeNode, dict[int, Value]] = {}
        self.queue: list[tuple[float, TapeNode]] = []
        # cotangents of leaves and targets, by their keys
        self.ends: dict[object, tuple[AnyNode, Value]] = {}
        self.idle: dict[int, AnyNode] = {}  # by identity: the nodes that lead to no target, which are left as they are
        self.last: list[tuple[float, AnyNode]] = []  # ends with hooks, by the number of the last node that adds to them

    def put(self, node: AnyNode, cotangent: Value) -> None:
        """Add to the cotangent of a node."""
        if isinstance(node, Part):
            target, index = node.node, node.index
        elif isinstance(node, TapeNode):
            target, index = node, 0
        else:
            if self.idle and id(node) in self.idle and id(node) not in self.wanted:
                return
            before = self.ends.get(id(node))
            if before is None and isinstance(node, TapeEnd):
                raise node.fault()
            self.ends[id(node)] = node, cotangent if before is None else add(before[1], cotangent)
            return
        if self.idle and id(target) in self.idle and (id(target), index) not in self.wanted:
            return
        waiting = self.pending.get(target)
        if waiting is None:
            waiting = self.pending[target] = {}
            heapq.heappush(self.queue, (-target.number, target))
        before = waiting.get(index)
        waiting[index] = cotangent if before is None else add(before, cotangent)

    def run(self) -> None:
        """Process every node that has cotangents, latest first."""
        detector = STATE.detector
        without_autocast(self.process if detector is None else lambda: detector.in_backward(self.process))

    def process(self) -> None:
        """The nodes and their pullbacks, and the ends with hooks."""
        observed = bool(self.wanted or len(LIVE))
        if observed:
            self.prepare()
        native, mode = (executor().sweep(), executor().mode()) if self.plain else (None, 0)
        while self.queue:
            if native is not None and not observed:
                if native(self.pending, self.queue, self.ends, self.put, self.keep, mode):
                    continue
                if not self.queue:
                    break
            if self.last:
                self.complete(-self.queue[0][0])
            _, node = heapq.heappop(self.queue)
            given = self.pending.pop(node)
            if observed:
                self.observe(node, given)
                if id(node) in self.idle:
                    continue
            if self.create and isinstance(node.rule.whole, FusedRule):
                unfuse(node, node.rule.whole.reverse, self.saved(node))
            if self.create and node.rule.origin is not None:
                self.again(node, given)
                continue
            present = tuple(sorted(given)) if len(given) > 1 else tuple(given)
            parents, rule = node.parents, node.rule
            if rule.onto is None or (not rule.repeats and len(parents) == 1):
                pull = self.whole(rule, present)
                values = [*self.saved(node), *(given[k] for k in present)]
            else:
                pull, held = self.gathered(node, present)
                values = [*self.saved(node), *(given[k] for k in present), *held]
            if not self.keep:
                node.saved, node.parents = None, ()
            if isinstance(pull, CalledPull):
                self.call(pull, values, parents)
                observed = observed or bool(len(LIVE))
                continue
            if pull.direct is not None:
                found: Sequence[Value] = [values[k] for k in pull.direct]
            else:
                found = self.evaluate(pull, values, getattr(node, "source", ""))
            for k, cotangent in zip(pull.places, found, strict=True):
                self.put(parents[k], cotangent)
        self.complete(-inf)

    def whole(self, rule: Rule, present: Positions) -> Pull:
        """The pullback that adds nothing; after a few nodes, native code runs it for nodes with one cotangent."""
        pull = rule.pull(present)
        if self.plain and present == (0,) and not isinstance(pull, CalledPull):
            executor().prepare(rule, pull)
        return pull

    def gathered(self, node: TapeNode, present: Positions) -> tuple[Pull, Sequence[Value]]:
        """The pullback that adds to the cotangents that operands have received, and these cotangents."""
        parents, rule = node.parents, node.rule
        together = (0,) if len(parents) == 1 else rule.gathering(list(map(_place, parents)))
        if together is None:
            return self.whole(rule, present), ()
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

    # ---- hooks and targets

    def prepare(self) -> None:
        """Find the nodes that lead to no target, and the ends with hooks, before the first node is processed."""
        nodes = reachable(self.pending)
        ends = {id(p): p for node in nodes for p in node.parents if not isinstance(p, TapeNode | Part)}
        if self.wanted:
            wanted = {id(_place(t)[0]) for t in self.targets} | {k for k, end in ends.items() if type(end) is TapeEnd}
            leading: set[int] = set()  # to a target behind it
            for node in sorted(nodes, key=_number):
                parents = [id(_place(p)[0]) for p in node.parents]
                if not leading.isdisjoint(parents) or not wanted.isdisjoint(parents):
                    leading.add(id(node))
            self.idle = {id(n): n for n in nodes if id(n) not in leading}  # a TapeEnd may depend on a target
            self.idle |= {k: end for k, end in ends.items() if type(end) is not TapeEnd}
            self.ends = {k: end for k, end in self.ends.items() if k in self.wanted}
        last = {k: inf for k, (end, _) in self.ends.items() if hooks_of(end) is not None}
        watched = {k for k, end in ends.items() if hooks_of(end) is not None}
        if watched:
            for node in nodes:
                for p in node.parents:
                    if id(p) in watched:
                        last[id(p)] = min(node.number, last.get(id(p), inf))
        known = {**ends, **{k: end for k, (end, _) in self.ends.items()}}
        self.last = sorted(((number, known[k]) for k, number in last.items()), key=lambda pair: pair[0])  # type: ignore[index]

    def complete(self, number: float) -> None:
        """Complete the ends with hooks to which only nodes after a number add."""
        while self.last and self.last[-1][0] > number:
            _, end = self.last.pop()
            if id(end) in self.ends:
                self.end(end)

    def end(self, node: AnyNode) -> None:
        """Let the hooks of an end see its cotangent, which is complete."""
        hooks = hooks_of(node)
        if hooks is not None:
            self.ends[id(node)] = node, self.heard(hooks, self.ends[id(node)][1])

    def observe(self, node: TapeNode, given: dict[int, Value]) -> None:
        """Let hooks see the cotangents of a node, and store those that the caller requested."""
        hooks: Mapping[int, GradientHooks] = getattr(node, "hooks", {})
        for k in list(given):
            if k in hooks:
                given[k] = self.heard(hooks[k], given[k])
            if (id(node), k) in self.wanted:
                self.ends[id(node), k] = node, given[k]

    def heard(self, hooks: GradientHooks, cotangent: Value) -> Value:
        """A cotangent after the hooks of its value."""
        gradient = first = conjugated(cotangent if self.create else lowered(cotangent, self.level))
        for _, function in hooks.before:
            answer = self.quietly(function, gradient)
            if answer is not None:
                gradient = _answered(answer, gradient)
        gradient = gradient if self.create else lowered(gradient, self.level)
        if hooks.retains:
            hooks.gradient = gradient if hooks.gradient is None else add(hooks.gradient, gradient)
        return cotangent if gradient is first else conjugated(gradient)

    def quietly(self, function: Any, *given: Any) -> Any:
        """The result of a user's function, which is recorded only if the backward pass is."""
        if self.level:
            return function(*given)
        with gradients(self.create):
            return function(*given)

    def call(self, pull: CalledPull, values: Sequence[Value], parents: Sequence[AnyNode]) -> None:
        """Call a function with its saved values and gradients, and put the gradients that it returns."""
        count = len(values) - len(pull.present)
        given = [conjugated(c if self.create else lowered(c, self.level)) for c in values[count:]]
        found: list[tuple[int, Value]] = self.quietly(pull.called, [*values[:count], *given])
        for k, c in found:
            self.put(parents[k], conjugated(c if self.create else lowered(c, self.level)))

    # ---- saved values and pullbacks

    def saved(self, node: TapeNode) -> Sequence[Value]:
        """The values that a node saved, with nodes of its level only if the backward pass itself is recorded."""
        held = node.saved
        if held is None:
            raise tape_errors.released()
        if CHANGED and any(CHANGED.get(id(x), -1) > node.number for x in held):
            raise tape_errors.overwritten(node.rule.primitive.name)
        if self.plain:
            return held
        if not self.create:
            return [lowered(x, self.level) for x in held]
        n = node.rule.operands
        return [x if k < n else _with_node(x, node, k - n) for k, x in zip(node.rule.saved, held, strict=True)]

    def again(self, node: TapeNode, given: Mapping[int, Value]) -> None:
        """Put the cotangents of the operands of an equation, which runs again so that all of its values have nodes."""
        rule, own = node.rule, TapeScope()
        assert rule.origin is not None
        primitive, params = rule.origin
        if rule.sizes is not None:
            params = {**params, "graph": specialised(params["graph"], rule.sizes)}
        operands, sweep = list(self.saved(node)[: rule.operands]), Sweep(own.level, True, False, ())
        ends: dict[object, tuple[AnyNode, Alias]] = {}
        for place, (k, parent) in enumerate(zip(rule.active, node.parents, strict=True)):
            key = place if rule.onto is None else _key(parent)  # a call adds to the cotangents of one value
            if key not in ends:
                ends[key] = parent, Alias(own.level, operands[k].node)
                before = None if rule.onto is None else self.take(parent)
                if before is not None:
                    sweep.put(ends[key][1], before)
            x = operands[k]
            operands[k] = make(x.type, x.content, x.layout, ends[key][1])
        since = next(NUMBERS)
        results = inside(own, lambda: bind(primitive, *operands, **params))
        merge(node, results, since)
        for k, c in given.items():
            if results[k].node is not None and results[k].node.level == own.level:
                sweep.put(results[k].node, c)
        sweep.run()
        for parent, end in ends.values():
            if id(end) in sweep.ends:
                self.put(parent, sweep.ends[id(end)][1])

    def evaluate(self, pull: Pull, values: Sequence[Value], source: str) -> Sequence[Value]:
        """Run a pullback: as one compiled program for plain values, otherwise equation by equation."""
        if STATE.detector is not None:
            STATE.detector.source = source
        if self.plain or STATE.word == 0 or scope() is None:
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


class Accumulation(Sweep):
    """A backward pass that adds the cotangents of leaves to their gradients, as soon as they are complete."""

    def end(self, node: AnyNode) -> None:
        """Add to the gradient of a leaf, between its hooks."""
        super().end(node)
        _, cotangent = self.ends.pop(id(node))
        if not isinstance(node, Leaf):
            raise tape_errors.followed()
        held = conjugated(cotangent if self.create else lowered(cotangent, self.level))
        place = node if node.owner is None else node.owner
        before = place.gradient
        place.gradient = held if before is None else add(before, held)
        if STATE.word and node.owner is not None:
            note_hooks(node.owner)
        hooks = hooks_of(node)
        for _, function in () if hooks is None else hooks.after:
            with gradients(self.create):
                function()


def _number(node: TapeNode) -> float:
    return node.number


def _answered(answer: Any, gradient: Value) -> Value:
    """The gradient that a hook returned; its type must be that of the gradient that it got."""
    if not isinstance(answer, Value) or answer.type is not gradient.type:
        given = answer.type if isinstance(answer, Value) else type(answer).__name__
        raise GradientError(
            f"register_hook: the hook must return a gradient of type {gradient.type}, or None to leave it; got {given}"
        )
    return answer


def reachable(starts: Sequence[AnyNode] | Mapping[TapeNode, Any]) -> list[TapeNode]:
    """The nodes of equations that a backward pass from some nodes can reach."""
    found: dict[int, TapeNode] = {}
    waiting: list[AnyNode] = list(starts)
    while waiting:
        at = waiting.pop()
        at = at.node if isinstance(at, Part) else at
        if isinstance(at, TapeNode) and id(at) not in found:
            found[id(at)] = at
            waiting += at.parents
    return list(found.values())


def _key(node: AnyNode) -> object:
    """The key of a node's cotangent among `ends`."""
    return (id(_place(node)[0]), _place(node)[1]) if isinstance(node, TapeNode | Part) else id(node)


def _place(node: AnyNode) -> tuple[Any, int]:
    """The accumulator of a node's cotangents: the node of its equation, and the index of the result."""
    return (node.node, node.index) if isinstance(node, Part) else (node, 0)


def _with_node(x: Value, node: TapeNode, result: int) -> Value:
    """A result that was saved, with its node; residuals depend on the operands, too."""
    rule = node.rule
    if result in rule.constants:
        return x
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
    inputs: Sequence[Value] | None = None,
) -> None:
    """Add the gradients of outputs to the leaves that they were computed from, or to `inputs` alone.

    With `create_graph` the backward pass itself is recorded.  Raises GradientError if an output has no node, or depends
    on an input of a functional `vjp`; StateError if its computation was released.
    """
    level = level_of(outputs)
    staging = scope()
    if isinstance(staging, Staging) and staging.level == level:
        staging.sweep(outputs)
    targets = [_tracked(x, level, "backward") for x in inputs or ()]
    for node in targets:
        if not isinstance(node, Leaf):
            retain(node)
    sweep = Accumulation(level, retain_graph, create_graph, targets)
    _run(sweep, outputs, cotangents)
    for node, _ in list(sweep.ends.values()):
        if not isinstance(node, TapeNode):
            sweep.end(node)


def gradients_of(
    outputs: Sequence[Value],
    cotangents: Sequence[Value],
    inputs: Sequence[Value],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> list[Value | None]:
    """The gradients of outputs with respect to values that they were computed from; leaves are unchanged.

    Only nodes between the outputs and these values are processed, and their saved values released.
    """
    level = level_of(outputs)
    sweep = Sweep(level, retain_graph, create_graph, [_tracked(x, level, "grad") for x in inputs])
    _run(sweep, outputs, cotangents)
    for node in sweep.targets if STATE.word else ():
        if isinstance(node, Leaf) and node.owner is not None:
            note_hooks(node.owner)
    found = [sweep.ends.get(_key(node)) for node in sweep.targets]
    return [None if f is None else conjugated(f[1] if create_graph else lowered(f[1], level)) for f in found]


def _run(sweep: Sweep, outputs: Sequence[Value], cotangents: Sequence[Value]) -> None:
    for y, c in zip(outputs, cotangents, strict=True):
        sweep.put(y.node, conjugated(c))
    if sweep.plain or (sweep.create and not (STATE.gradients or STATE.inference)):
        with gradients(sweep.create):
            sweep.run()
    else:
        sweep.run()


def _tracked(x: Value, level: int, operation: str) -> Any:
    """The node of an input, which must have one of this level."""
    if x.node is None or x.node.level != level:
        raise GradientError(
            f"{operation}: inputs must require a gradient, and the outputs must be computed from them; got a tensor of "
            f"type {x.type} that "
            + ("requires none" if x.node is None else "belongs to another transformation, or to code outside of it")
            + "; compute the outputs from `x = x.detach().requires_grad_()`"
        )
    return x.node


def level_of(outputs: Sequence[Value]) -> int:
    levels = {y.node.level for y in outputs if y.node is not None}
    if len(levels) != 1 or any(y.node is None for y in outputs):
        raise GradientError(
            "backward: the tensor must be computed from a tensor or parameter with "
            "requires_grad; got one that "
            "was not recorded; use requires_grad_(), and compute it outside no_grad()"
        )
    return levels.pop()
