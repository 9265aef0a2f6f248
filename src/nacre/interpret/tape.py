"""The tape: one node for each equation on values that need gradients, and the backward pass over nodes.

A node saves the operands and results that the equation's pullback reads (see `linearise.Rule`), and its parents.  Nodes
have the level of their transformation: 0 for plain tensors, a staging's level for variables read while staging, a new
level for each functional `vjp`.  A value with a node of one level keeps its node of the next lower level in `outer`, so
that transformations nest.

The backward pass takes nodes in descending order of their numbers.  The cotangents of a value are added in that order,
starting from the given ones, then in the order of operands.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, finalize

from nacre.base.errors import GradientError, StateError
from nacre.base.records import dataclass
from nacre.base.state import STATE, gradients
from nacre.interpret import flow as flow  # the rules of control flow
from nacre.interpret import tape_errors
from nacre.interpret.changes import Changes
from nacre.interpret.linearise import REMEMBERED, Positions, Pull, Rule, rule_for
from nacre.interpret.stage import Staging, run
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.ops.control import call_p
from nacre.ops.detach import detach
from nacre.ops.pointwise import add
from nacre.trace.bind import PARTS, bind, executor, inside, next_level, register_tape
from nacre.trace.value import Origin, Payload, Value, is_concrete, make, stripped
from nacre.trace.variable import Leaf, Variable, lender, scope

NUMBERS = itertools.count()  # of nodes and changes, in the order in which they are made


class TapeNode(Origin):
    """The origin of a value: the equation's rule, the saved values, and the nodes of its active operands.

    The node of an equation with one result is the value's `node`; with several, values have `Part`s.
    """

    __slots__ = ("number", "outer", "parents", "rule", "saved", "source")
    number: int
    outer: Any  # left unset at level 0, below which there is none
    parents: Sequence[Any]
    rule: Rule
    saved: Sequence[Value] | None  # None when released
    source: str  # the line of the equation, set if it was staged

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed the saved values."""
        return self.saved is None


class Part(Origin):
    """One of several results of a node."""

    __slots__ = ("index", "node", "outer")

    def __init__(self, node: TapeNode, index: int, outer: Any) -> None:
        self.level, self.node, self.index, self.outer = node.level, node, index, outer

    @property
    def released(self) -> bool:
        """Whether a backward pass has freed the node's saved values."""
        return self.node.saved is None


class Alias(Origin):
    """The end of a functional `vjp`'s tape: an input."""

    __slots__ = ("outer",)

    def __init__(self, level: int, outer: Any) -> None:
        self.level, self.outer = level, outer


class TapeEnd(Origin):
    """The end of the tape for results of a compiled function that then overwrote the variables they depend on."""

    __slots__ = ()

    def __init__(self) -> None:
        self.level = 0


AnyNode = TapeNode | Part | Alias | Leaf | TapeEnd


def sources(node: AnyNode) -> set[AnyNode]:
    """The ends of the tape that a node depends on."""
    found: set[AnyNode] = set()
    seen: set[int] = set()
    waiting: list[AnyNode] = [node]
    while waiting:
        at = waiting.pop()
        at = at.node if isinstance(at, Part) else at
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, TapeNode):
            waiting += at.parents
        else:
            found.add(at)
    return found


def lowered(x: Value, level: int) -> Value:
    """A value below a level, with its node of the next lower level."""
    node = x.node
    if node is None or node.level < level:
        return x
    while node is not None and node.level >= level:
        node = getattr(node, "outer", None)  # a leaf has none
    return make(x.type, x.content, x.layout, node)


_changed: dict[int, int] = {}  # by id of a tensor: the number of its latest change by `x[i] = v`


def changed(x: Value) -> None:
    """Record that an object's numbers changed; nodes that saved it can no longer run their pullback."""
    if id(x) not in _changed:
        finalize(x, _changed.pop, id(x), None).atexit = False
    _changed[id(x)] = next(NUMBERS)


def require_no_leaf(x: Value) -> None:
    """Raise GradientError if `x[i] = v` would change a leaf that accumulates a gradient."""
    if isinstance(x.node, Leaf):
        raise GradientError(
            "x[i] = v: x must not be a leaf with requires_grad; write into `x.detach()` or assign to a variable"
        )


def rebind(x: Value, held: Value) -> None:
    """Give an object another value, as `x[i] = v` does."""
    require_no_leaf(x)
    staging, variable = scope(), lender(x)
    if variable is not None and is_concrete(x) is (staging is None):
        require_no_record("x[i] = v", variable, held)
        variable.take_back(x, held)
        changed(x)
        return
    if isinstance(staging, Staging):
        staging.rebound(x)
    owner = held.content.interpreter if isinstance(held.content, Payload) else None
    if isinstance(owner, Changes) and not isinstance(owner, Staging):
        owner.rebound(x)
    x.content, x.layout, x.node = held.content, held.layout, held.node
    changed(x)


def require_no_record(operation: str, variable: Variable, held: Value) -> None:
    """Raise GradientError if a variable would store a value without the record that gradients need."""
    if held.node is not None and STATE.gradients:
        raise GradientError(
            f"{operation}: the value must not require a gradient, because variable "
            f"{variable.name or variable.number} stores only numbers; got one of type {held.type} that does; "
            "write value.detach(), or do it inside `with nacre.no_grad():`"
        )


UNKNOWN: Any = object()


class Recorder:
    """Evaluates equations and records them; the memo caches rules by the equation's form."""

    def __init__(self) -> None:
        self.rules: dict[object, Rule | None] = {}

    def record(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], level: int) -> Any:
        """Apply a primitive to operands, some of which have nodes of a level, and record it."""
        parents: list[Any] = []
        mask, bit = 0, 1
        for x in inputs:
            node = x.node
            if node is not None and node.level == level:
                parents.append(node)
                mask |= bit
            bit += bit
        if params or len(inputs) != 2:
            key: tuple[Any, ...] = (primitive, mask, *[x.type for x in inputs], *params.items())
        else:
            key = (primitive, mask, inputs[0].type, inputs[1].type)
        rule = self.rules.get(key, UNKNOWN)
        if rule is UNKNOWN:
            if len(self.rules) >= REMEMBERED:
                self.rules.clear()
            rule = self.rules[key] = _rule(primitive, params, inputs, mask)
        if level:
            return _record_above(primitive, inputs, params, rule, parents, level)
        if rule is None:
            return PARTS.executor.evaluate(primitive, inputs, params)
        results = PARTS.executor.evaluate(rule.primitive, inputs, rule.params)
        if primitive.multiple:
            return _record_all(rule, inputs, results, parents, level)
        return attach(rule, inputs, results, parents)


_bare_node = object.__new__  # nodes are made for every eager operation; their slots are set in place


def attach(rule: Rule, inputs: Sequence[Value], y: Value, parents: Sequence[Any]) -> Value:
    """The one result of an equation on plain values, with its node; y is a new value from the executor."""
    node = _bare_node(TapeNode)
    node.level, node.number, node.parents, node.rule = 0, next(NUMBERS), parents, rule
    if not rule.keeps_results:
        saved = rule.saved
        node.saved = inputs if rule.keeps_operands else [inputs[k] for k in saved] if saved else ()
        y.node = node
        return y
    node.saved = _saved(rule, inputs, (y,)) if len(rule.saved) > 1 else (y,)
    noded = _bare_node(type(y))  # y itself is saved, without the node, which it would keep alive
    noded.type, noded.content, noded.layout, noded.node = y.type, y.content, y.layout, node
    return noded


def _rule(primitive: Primitive, params: Mapping[str, Any], inputs: Sequence[Value], mask: int) -> Rule | None:
    active = tuple(k for k in range(len(inputs)) if mask >> k & 1)
    return rule_for(primitive, params, tuple(x.type for x in inputs), active)


def _saved(rule: Rule, inputs: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    n = rule.operands
    return [inputs[k] if k < n else results[k - n] for k in rule.saved]


def _record_above(
    primitive: Primitive,
    inputs: Sequence[Value],
    params: Mapping[str, Any],
    rule: Rule | None,
    parents: Sequence[Any],
    level: int,
) -> Any:
    """Record an equation at a level above others."""
    operands = [lowered(x, level) for x in inputs]
    if rule is None:
        return bind(primitive, *operands, **params)
    results = bind(rule.primitive, *operands, **rule.params)
    if primitive.multiple:
        return _record_all(rule, inputs, results, parents, level)
    node = _node(rule, parents, _saved(rule, inputs, (results,)), level)
    node.outer = results.node
    return make(results.type, results.content, results.layout, node)


def _node(rule: Rule, parents: Sequence[Any], saved: Sequence[Value], level: int) -> TapeNode:
    node = _bare_node(TapeNode)
    node.level, node.number, node.parents, node.rule = level, next(NUMBERS), parents, rule
    node.saved = saved
    staging = scope()
    if isinstance(staging, Staging) and staging.equations:
        node.source = staging.equations[-1].source
    return node


def _record_all(
    rule: Rule,
    inputs: Sequence[Value],
    results: Sequence[Value],
    parents: Sequence[Any],
    level: int,
) -> tuple[Value, ...]:
    node = _node(rule, parents, _saved(rule, inputs, results), level)
    made: list[Value] = []
    for k, y in enumerate(results[: rule.results]):
        if k in rule.traced:
            at = rule.aliases[k] if rule.aliases else None
            same = None if at is None else (*inputs, *made)[at].node
            y = make(y.type, y.content, y.layout, same or Part(node, k, y.node))
        made.append(y)
    return tuple(made)


# ---- values whose cotangents a function observes, and may change

CotangentHook = Callable[[list[Value | None]], Sequence[Value | None]]


@dataclass(frozen=True, eq=False)
class CotangentFunction(Pull):
    """The cotangents of watched values, some of which may be missing, passed through a function."""

    function: CotangentHook
    slots: Positions  # positions of the watched values among the given ones
    count: int
    present: Positions

    def intercepted(self, cotangents: Sequence[Value]) -> Sequence[Value]:
        """The function's result for the cotangents that are present."""
        every: list[Value | None] = [None] * self.count
        for k, c in zip(self.present, cotangents, strict=True):
            every[self.slots[k]] = c
        answer = self.function(every)
        return [x for k in self.present if (x := answer[self.slots[k]]) is not None]


_NOTHING = Graph((), (), (), "watched")


class _CotangentRule(Rule):
    """The rule of an identity whose cotangents are intercepted."""

    def __init__(self, function: CotangentHook, slots: Positions, count: int) -> None:
        every = tuple(range(len(slots)))
        super().__init__(call_p, {}, len(slots), len(slots), len(slots), every, every, lambda _: (_NOTHING, ()))
        self.hook = function, slots, count

    def pull(self, present: Positions) -> Pull:
        """The function applied to the cotangents that are present."""
        return CotangentFunction(_NOTHING, present, present, None, None, *self.hook, present)


def watched(values: Sequence[Value], function: CotangentHook) -> list[Value]:
    """The same values; in the backward pass, their cotangents pass through a function together.

    The function gets a cotangent for each value, or None, and returns cotangents of the same types.  Only values with a
    node of the innermost level are watched.
    """
    made = list(values)
    levels = [x.node.level for x in values if x.node is not None]
    if not STATE.gradients or not levels:
        return made
    level = max(levels)
    slots = tuple(k for k, x in enumerate(values) if x.node is not None and x.node.level == level)
    node = _node(_CotangentRule(function, slots, len(values)), [values[k].node for k in slots], (), level)
    for place, k in enumerate(slots):
        x = values[k]
        made[k] = make(x.type, x.content, x.layout, Part(node, place, lowered(x, level).node))
    return made


# ---- gradients that are stored on request for results of operations

_retained: WeakKeyDictionary[Any, Value | None] = WeakKeyDictionary()


def retain(node: AnyNode) -> None:
    """Store the cotangent of a node in a backward pass."""
    _retained.setdefault(node, None)


def retained(node: AnyNode) -> Value | None:
    """The stored cotangent of a node, or None."""
    return _retained.get(node)


# ---- the backward pass


class _Sweep:
    """One backward pass, which propagates cotangents from the outputs to the leaves."""

    def __init__(self, level: int, retain_graph: bool, create_graph: bool, targets: Sequence[AnyNode]) -> None:
        self.level, self.create = level, create_graph
        self.keep = retain_graph or create_graph
        self.wanted = {id(t) for t in targets}
        self.pending: dict[TapeNode, dict[int, Value]] = {}
        self.queue: list[tuple[int, TapeNode]] = []
        # cotangents of leaves and targets, by identity
        self.ends: dict[int, tuple[AnyNode, Value]] = {}
        self.parts: dict[tuple[int, int], Part] = {}

    def put(self, node: AnyNode, cotangent: Value) -> None:
        """Add to the cotangent of a node."""
        if isinstance(node, Part):
            if id(node) in self.wanted or node in _retained:
                self.parts[id(node.node), node.index] = node
            target, index = node.node, node.index
        elif isinstance(node, TapeNode):
            target, index = node, 0
        else:
            before = self.ends.get(id(node))
            if before is None and isinstance(node, TapeEnd):
                raise tape_errors.superseded()
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
        """The pullback that adds to the cotangents that a node's operands have so far, and those cotangents."""
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
        if _retained or self.wanted:
            for k, cotangent in given.items():
                place = node if not node.rule.primitive.multiple else self.parts.get((id(node), k))
                if place is None:
                    continue
                if place in _retained:
                    _retained[place] = cotangent
                if id(place) in self.wanted:
                    self.ends[id(place)] = place, cotangent

    def saved(self, node: TapeNode) -> Sequence[Value]:
        """The values that a node saved; differentiable at its level only if the backward pass itself is recorded."""
        held = node.saved
        if held is None:
            raise tape_errors.released()
        if _changed and any(_changed.get(id(x), -1) > node.number for x in held):
            raise tape_errors.overwritten(node.rule.primitive.name)
        if not self.create:
            return [lowered(x, self.level) for x in held]
        n = node.rule.operands
        return [x if k < n else _with_node(x, node, k - n) for k, x in zip(node.rule.saved, held, strict=True)]

    def evaluate(self, pull: Pull, values: Sequence[Value], source: str) -> Sequence[Value]:
        """Run a pullback: compiled as a whole for plain values, else equation by equation."""
        if isinstance(pull, CotangentFunction):
            return pull.intercepted(values)
        if STATE.word == 0 or scope() is None:
            for x in values:
                if isinstance(x.content, Payload) or (x.node is not None and STATE.gradients):
                    break
            else:
                if pull.single is None:
                    return executor().execute(pull.graph, values)
                e, places = pull.single
                return (executor().evaluate(e.primitive, [values[k] for k in places], e.params),)
        return run(pull.graph, values, source)


def _place(node: AnyNode) -> tuple[Any, int]:
    """The accumulator of a node's cotangents: the node of its equation, and the index of the result."""
    return (node.node, node.index) if isinstance(node, Part) else (node, 0)


def _with_node(x: Value, node: TapeNode, result: int) -> Value:
    if result not in node.rule.traced:
        return x
    return make(
        x.type,
        x.content,
        x.layout,
        Part(node, result, x.node) if node.rule.primitive.multiple else node,
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
    level = _level(outputs)
    staging = scope()
    if isinstance(staging, Staging) and staging.level == level:
        staging.sweep(outputs)
    sweep = _Sweep(level, retain_graph, create_graph, ())
    for y, c in zip(outputs, cotangents, strict=True):
        sweep.put(y.node, c)
    sweep.run()
    for leaf, cotangent in sweep.ends.values():
        if not isinstance(leaf, Leaf):
            raise tape_errors.followed()
        held = cotangent if create_graph else lowered(cotangent, level)
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
    level = _level(outputs)
    for x in inputs:
        if x.node is None or x.node.level != level:
            raise GradientError("gradient: inputs must have been tracked when the outputs were computed")
    sweep = _Sweep(level, retain_graph, create_graph, [x.node for x in inputs])
    for y, c in zip(outputs, cotangents, strict=True):
        sweep.put(y.node, c)
    sweep.run()
    found = [sweep.ends.get(id(x.node)) for x in inputs]
    return [None if f is None else f[1] for f in found]


def _level(outputs: Sequence[Value]) -> int:
    levels = {y.node.level for y in outputs if y.node is not None}
    if len(levels) != 1 or any(y.node is None for y in outputs):
        raise GradientError(
            "backward: the tensor must be computed from a tensor or parameter with "
            "requires_grad; got one that "
            "was not recorded; use requires_grad_(), and compute it outside no_grad()"
        )
    return levels.pop()


# ---- the functional form


class TapeScope:
    """A separate level for a functional `vjp`; operations are recorded only through nodes."""

    dynamic = False

    def __init__(self) -> None:
        self.level = next_level()

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Raise an error: the tape records at nodes and never interprets payloads."""
        raise StateError(f"{primitive.name}: values of a tape have nodes, not payloads")


def tracked(x: Value, level: int) -> Value:
    """The value as an input of a level's tape."""
    return make(x.type, x.content, x.layout, Alias(level, x.node))


def vjp(
    f: Callable[..., Sequence[Value]], primals: Sequence[Value]
) -> tuple[list[Value], Callable[..., list[Value | None]]]:
    """The result of f, and the function from its cotangents (None is zero) to those of the primals.

    Lower levels record both, unless gradients are disabled with `no_grad`.
    """
    own = TapeScope()
    below = primals if STATE.gradients else list(map(stripped, primals))
    inputs = [tracked(x, own.level) if x.type.dtype.is_differentiable else x for x in below]
    ends = [x.node for x in inputs]  # f may write into its arguments, which then have other nodes

    def recorded() -> list[Value]:
        with gradients(True):
            return list(f(*inputs))

    outputs = inside(own, recorded)
    results = [lowered(y, own.level) for y in outputs]
    if not STATE.gradients:
        results = list(map(detach, results))
    return results, Pullback(ends, outputs, own.level)


class Pullback:
    """From cotangents of a function's results (None is zero) to those of its inputs (None is zero)."""

    def __init__(self, ends: Sequence[AnyNode | None], outputs: Sequence[Value], level: int) -> None:
        self.inputs = [n if isinstance(n, Alias) and n.level == level else None for n in ends]
        self.outputs = [(y.type, y.node if y.node is not None and y.node.level == level else None) for y in outputs]
        self.level = level

    def __call__(self, cotangents: Sequence[Value | None], retain_graph: bool = True) -> list[Value | None]:
        targets = [n for n in self.inputs if n is not None]
        sweep = _Sweep(self.level, retain_graph, False, targets)
        for (type, node), c in zip(self.outputs, cotangents, strict=True):
            if c is not None and c.type is not type:
                raise GradientError(f"vjp: the cotangent must have type {type}; got {c.type}")
            if c is not None and node is not None:
                sweep.put(node, c)
        sweep.run()
        found = [None if n is None else sweep.ends.get(id(n)) for n in self.inputs]
        return [None if f is None else f[1] for f in found]


RECORDER = Recorder()
register_tape(RECORDER)
