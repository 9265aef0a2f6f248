"""The tape: one node for each equation on values that need gradients.

An equation's `pullback.Rule` defines what its node consists of: the operands whose nodes are the parents, and the
operands and results that the pullback reads, which the node saves.  Nodes have the level of their transformation: 0 for
plain tensors, a staging's level for variables read while staging, a new level for each functional `vjp`.  A value with
a node of one level keeps its node of the next lower level in `outer`, so that transformations nest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import finalize

from nacre.base.dims import noted_needs
from nacre.base.errors import Error
from nacre.base.locks import renewed
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import unlike
from nacre.interpret import flow as flow  # the rules of control flow
from nacre.interpret import tape_errors
from nacre.interpret.called import user_line
from nacre.interpret.changes import Changes
from nacre.interpret.loops import bounded as bounded
from nacre.interpret.pullback import NoRule, Positions, Pull, Rule, rule_for
from nacre.interpret.stage import Staging
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.ops.control import call_p
from nacre.ops.identity import copy_p, detach, with_numbers
from nacre.trace.bind import PARTS, bind, register_tape
from nacre.trace.hooks import GradientHooks
from nacre.trace.loans import loan_of
from nacre.trace.value import Origin, Payload, Value, fresh, is_concrete, make, owned, stripped
from nacre.trace.variable import Leaf, Variable, scope

NUMBERS = itertools.count()  # of nodes and changes, in the order in which they are made
WRITING = renewed()  # held while an object takes another value


class TapeNode(Origin):
    """The origin of a value: the equation's rule, the saved values, and the nodes of its active operands.

    The node of an equation with one result is the value's `node`; with several, values have `Part`s.
    """

    __slots__ = ("hooks", "number", "outer", "parents", "rule", "saved", "source")
    hooks: dict[int, GradientHooks]  # by result; left unset while there are none
    number: float
    outer: Any  # left unset at level 0, below which there is none
    parents: Sequence[Any]
    rule: Rule
    saved: Sequence[Value] | None  # None when released
    source: str  # the line of the equation, set if it was staged, is examined, or inside of `source_lines`

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

    __slots__ = ("hooks", "outer")

    def __init__(self, level: int, outer: Any) -> None:
        self.level, self.outer = level, outer
        self.hooks: GradientHooks | None = None


class TapeEnd(Origin):
    """The end of the tape for a value whose derivative was not recorded; a gradient that reaches it is an error.

    Such values are the results of a compiled function that then overwrote the variables they depend on, and values
    inside of loops and branches for which a recorded backward pass was run.
    """

    __slots__ = ("fault", "outer")

    def __init__(self, level: int = 0, fault: Callable[[], Error] = tape_errors.superseded, outer: Any = None) -> None:
        self.level, self.fault, self.outer = level, fault, outer


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


CHANGED: dict[int, int] = {}  # by id of a tensor: the number of its latest change by `x[i] = v`


def changed(x: Value) -> None:
    """Record that an object's numbers changed; nodes that saved it can no longer run their pullback."""
    if id(x) not in CHANGED:
        finalize(x, CHANGED.pop, id(x), None).atexit = False
    CHANGED[id(x)] = next(NUMBERS)


def require_no_leaf(x: Value) -> None:
    """Raise GradientError if `x[i] = v` would change a variable's leaf, or outside of `no_grad` another leaf."""
    if not isinstance(x.node, Leaf):
        return
    if x.node.owner is not None:
        raise tape_errors.variable_written()
    if STATE.gradients:
        raise tape_errors.leaf_written()


def rebind(x: Value, held: Value) -> None:
    """Give an object another value, as `x[i] = v` does; a leaf stays one."""
    require_no_leaf(x)
    loan = loan_of(x)
    if loan is not None and (isinstance(loan.owner, Value) or is_concrete(x) is (scope() is None)):
        loan.require_current()
        if isinstance(loan.owner, Variable):
            require_no_record("x[i] = v", loan.owner, held)
            loan.owner.assign(held)
        else:
            renumber(loan.owner, held)
        loan.note()
        held = detach(loan.held)
        x.content, x.layout = held.content, held.layout
        changed(x)
    else:
        _replace(x, held, x.node if isinstance(x.node, Leaf) else held.node)


def renumber(x: Value, held: Value) -> None:
    """Give an object the numbers of another value of its type; its record, and derivatives through it, stay."""
    if loan_of(x) is not None:
        rebind(x, stripped(held))
    else:
        _replace(x, with_numbers(x, held), x.node)


def _replace(x: Value, held: Value, node: AnyNode | None) -> None:
    staging = scope()
    if isinstance(staging, Staging):
        staging.rebound(x)
    owner = held.content.interpreter if isinstance(held.content, Payload) else None
    if isinstance(owner, Changes) and not isinstance(owner, Staging):
        owner.rebound(x)
    x.content, x.layout, x.node = held.content, held.layout, node
    changed(x)


def write(x: Value, change: Callable[[Value], Value]) -> None:
    """Give an object the value change(x), as `x[i] = v` does.

    Of several threads that write into one tensor, each changes the value that the others have left.
    """
    if scope() is not None or loan_of(x) is not None or not is_concrete(x):
        rebind(x, change(x))
        return
    while True:
        with WRITING():
            before = fresh(x)
        held = change(before)
        with WRITING():
            if x.content is before.content and x.node is before.node:
                rebind(x, held)
                return


def updated(operation: str, x: Value, held: Value) -> Value:
    """A leaf that requires a gradient, with another value of its type; the other value itself for other tensors."""
    if not isinstance(x.node, Leaf):
        return held
    if held.type is not x.type:
        raise unlike(f"{operation}: x is a leaf with requires_grad, so the result", x.type, held.type)
    rebind(x, held)
    return x


def require_no_record(operation: str, variable: Variable, held: Value) -> None:
    """Raise GradientError if a variable would store a value without the record that gradients need."""
    if held.node is not None and STATE.gradients:
        raise tape_errors.record_lost(operation, variable.name or variable.number, held.type)


def active_operands(inputs: Sequence[Value], level: int) -> Positions:
    """The positions of the operands that have nodes of a level."""
    active: list[int] = []
    for k, x in enumerate(inputs):
        node = x.node
        if node is not None and node.level == level:
            active.append(k)
    return tuple(active)


def rule_of_call(inputs: Sequence[Value], rule: Callable[[Positions], Rule | None]) -> Rule | None:
    """How a call outside of interpreters is recorded; None if it is not.  `rule` takes the operands that have nodes."""
    active = active_operands(inputs, 0) if STATE.gradients else ()
    return rule(active) if active else None


def record(primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], level: int) -> Any:
    """Apply a primitive to operands, some of which have nodes of a level, and record it."""
    types = (inputs[0].type, inputs[1].type) if len(inputs) == 2 else tuple([x.type for x in inputs])
    active = active_operands(inputs, level)
    rule: Rule | None
    if level:
        rule = rule_for(primitive, params, types, active)
    else:
        rule = PARTS.executor.rule(primitive, types, params, active)
    chosen, chosen_params = primitive, params
    if rule is not None and primitive.multiple:  # which also computes what the rule saves
        chosen, chosen_params = rule.primitive, rule.params
    if level:
        results = bind(chosen, *[lowered(x, level) for x in inputs], **chosen_params)
    else:
        results = PARTS.executor.evaluate(chosen, inputs, chosen_params)
    if rule is None:
        return results
    if primitive.multiple:
        return _with_parts(new_node(rule, inputs, results, level), inputs, results)
    return recorded(rule, inputs, results, level)


def recorded(rule: Rule, inputs: Sequence[Value], y: Value, level: int = 0) -> Value:
    """The only result of an equation with its node; at level 0, y is a new value from the executor."""
    node = new_node(rule, inputs, (y,), level)
    if level:
        node.outer = y.node
    elif not rule.keeps_results:
        y.node = node
        return y
    return make(y.type, y.content, y.layout, node)  # y without the node, which it would keep alive, may be saved


def call_rule(graph: Graph, inputs: Sequence[Value]) -> Rule | None:
    """How a call of a graph with symbolic sizes is recorded; raises NoRule if its derivative has no form for them."""
    active = active_operands(inputs, 0)
    key = "rule", active
    found = graph.kept.get(key)
    if found is None:
        try:
            with noted_needs():
                found = rule_for(call_p, {"graph": graph}, graph.input_types, active), None
        except Error as fault:
            found = None, NoRule(str(fault))
        graph.kept[key] = found
    rule, refused = found
    if refused is not None:
        raise refused
    return rule


def record_call(rule: Rule | None, graph: Graph, sizes: Mapping[str, int], inputs: Sequence[Value]) -> Sequence[Value]:
    """Call a graph with symbolic sizes on plain operands of given sizes, and record it by its rule."""
    if rule is None:
        return PARTS.executor.execute(graph, inputs)
    results = PARTS.executor.execute(rule.params["graph"], inputs)
    return _with_parts(new_node(rule.at(sizes), inputs, results, 0), inputs, results)


def another(x: Value) -> Any:
    """x as another object in the same memory, whose gradient, hooks and further record are its own."""
    if isinstance(x.content, Payload):
        return bind(copy_p, x)
    if x.node is None or not STATE.gradients:
        return make(x.type, x.content, x.layout)
    if any(interpreter.dynamic for interpreter in STATE.interpreters):
        return bind(copy_p, x)
    level = x.node.level
    rule: Any = rule_for(copy_p, {}, (x.type,), (0,))
    below = lowered(x, level)
    return recorded(rule, (x,), make(x.type, x.content, x.layout) if below.node is None else another(below), level)


_bare_node = object.__new__  # the slots of nodes are set in place


def new_node(rule: Rule, operands: Sequence[Value], results: Sequence[Value], level: int) -> TapeNode:
    """A node, which consists of what its rule says; `codegen.entry.tape_stub` makes the same in native code."""
    node = _bare_node(TapeNode)
    parents: list[Any] = []
    for k in rule.active:  # a comprehension takes longer for so few
        parents.append(operands[k].node)
    node.level, node.number, node.parents, node.rule = level, next(NUMBERS), parents, rule
    node.saved = [owned(x) for x in rule.values_to_save(operands, results)]
    staging = scope() if level else None
    if isinstance(staging, Staging) and staging.equations:
        node.source = staging.equations[-1].source
    elif STATE.lines or STATE.detector is not None:
        node.source = user_line()
    return node


def _with_parts(node: TapeNode, inputs: Sequence[Value], results: Sequence[Value]) -> tuple[Value, ...]:
    """The results of a primitive that has several: those that are traced, with their parts of the node."""
    rule = node.rule
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
class CalledPull(Pull):
    """A pullback that is a function of a user."""

    present: Positions  # the results that have cotangents

    def called(self, values: Sequence[Value]) -> list[tuple[int, Value]]:
        """Places of parents and their gradients, from the saved values and the gradients of the results `present`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class CotangentFunction(CalledPull):
    """The gradients of watched values, some of which may be missing, passed through a function."""

    function: CotangentHook
    slots: Positions  # positions of the watched values among the given ones
    count: int

    def called(self, values: Sequence[Value]) -> list[tuple[int, Value]]:
        """The function's result for the gradients that are present."""
        every: list[Value | None] = [None] * self.count
        for k, c in zip(self.present, values, strict=True):
            every[self.slots[k]] = c
        answer = self.function(every)
        return [(k, x) for k in self.present if (x := answer[self.slots[k]]) is not None]


_NOTHING = Graph((), (), (), "watched")


class _CotangentRule(Rule):
    """The rule of an identity whose cotangents are intercepted."""

    def __init__(self, function: CotangentHook, slots: Positions, count: int) -> None:
        every = tuple(range(len(slots)))
        super().__init__(call_p, {}, len(slots), len(slots), len(slots), every, every, lambda _: (_NOTHING, ()))
        self.hook = function, slots, count

    def pull(self, present: Positions) -> Pull:
        """The function applied to the cotangents that are present."""
        return CotangentFunction(_NOTHING, present, present, None, None, None, present, *self.hook)


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
    slots = active_operands(values, level)
    node = new_node(_CotangentRule(function, slots, len(values)), [values[k] for k in slots], (), level)
    require_heard("register_full_backward_hook", node)
    for place, k in enumerate(slots):
        x = values[k]
        made[k] = make(x.type, x.content, x.layout, Part(node, place, lowered(x, level).node))
    return made


# ---- hooks of values: functions of their gradients, and gradients that are stored on request


def hooks_of(node: AnyNode) -> GradientHooks | None:
    """What a backward pass does with the gradient of a value with this node, if anything."""
    if isinstance(node, TapeNode | Part):
        owner, index = (node.node, node.index) if isinstance(node, Part) else (node, 0)
        return getattr(owner, "hooks", _NO_HOOKS).get(index)
    if isinstance(node, Leaf):
        return node.hooks if node.owner is None else node.owner.hooks
    return node.hooks if isinstance(node, Alias) else None


_NO_HOOKS: dict[int, GradientHooks] = {}


def set_hooks(node: AnyNode, hooks: GradientHooks | None) -> None:
    """Replace what a backward pass does with the gradient of a value."""
    if isinstance(node, TapeNode | Part):
        owner, index = (node.node, node.index) if isinstance(node, Part) else (node, 0)
        others = {k: held for k, held in getattr(owner, "hooks", _NO_HOOKS).items() if k != index}
        owner.hooks = others if hooks is None else {**others, index: hooks}
    elif isinstance(node, Leaf):
        place = node if node.owner is None else node.owner
        place.hooks = hooks
    elif isinstance(node, Alias):
        node.hooks = hooks


def note_hooks(variable: Variable) -> None:
    """Note that functions which are being staged depend on the hooks of a variable's gradient."""
    for interpreter in STATE.interpreters:
        if isinstance(interpreter, Staging):
            record = interpreter.record(variable)
            record.hooks = record.hooks or (variable.hooks,)


def retain(node: AnyNode) -> None:
    """Accumulate the gradient of a result in backward passes."""
    held = hooks_of(node)
    if held is None or not held.retains:
        set_hooks(node, GradientHooks(() if held is None else held.before, (), True))


def retained(node: AnyNode) -> Value | None:
    """The accumulated gradient of a result, or None."""
    held = hooks_of(node)
    return None if held is None else held.gradient


def reaches(starts: Sequence[AnyNode], end: AnyNode) -> bool:
    """Whether a backward pass from some nodes would reach a node."""
    end = end.node if isinstance(end, Part) else end
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        at = waiting.pop()
        at = at.node if isinstance(at, Part) else at
        if at is end:
            return True
        if id(at) not in seen and isinstance(at, TapeNode):
            waiting += at.parents
        seen.add(id(at))
    return False


def require_heard(what: str, node: AnyNode) -> None:
    """Let the function that is being traced raise GradientError at its end, if only a later `backward` reaches a node.

    The recorded call has no such hooks.
    """
    staging = scope()
    if not isinstance(staging, Staging) or node.level != staging.level:
        return

    def check(outputs: Sequence[Value]) -> None:
        """Raise GradientError if a backward pass from the results would reach the node."""
        released = isinstance(node, TapeNode | Part) and node.released
        if not released and reaches([y.node for y in outputs if y.node is not None], node):
            within = sum(isinstance(x, Staging) for x in STATE.interpreters) > 1
            raise (tape_errors.unheard_part if within else tape_errors.unheard)(what, staging.name)

    staging.checks.append(check)


register_tape(record)
