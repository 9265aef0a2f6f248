"""Reverse mode through `while` by computing iterations again, for any number of them in bounded memory.

The forward pass is the loop, which also counts its iterations.  The pullback goes through them from the last one.  It
computes the carry before each of them again, from the nearest carry that it saved.  On the way it saves further
carries: one halfway to the iteration, one halfway from there, and so on.  So n iterations have about log₂(n) saved
carries at a time, and are computed about log₂(n) / 2 times (A. Griewank and A. Walther, Algorithm 799: Revolve, 2000).
There is memory for `SLOTS` carries.  Loops of more than 2**SLOTS iterations compute more of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nacre.base.errors import GradientError
from nacre.base.types import TensorType
from nacre.interpret.check import without_checks
from nacre.interpret.forward import zeros
from nacre.interpret.pullback import Positions, Rule
from nacre.interpret.reverse import reverse
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.ir.rewrite import without_dead_code
from nacre.ops import control
from nacre.ops.index import dynamic_slice, dynamic_update_slice
from nacre.ops.pointwise import add, and_, eq, fill, gt, lt, select, shr, sub
from nacre.ops.shape import reshape
from nacre.trace.value import Value

SLOTS: Final = 24  # carries that are saved at a time, the first one and the latest one included

Types = tuple[TensorType, ...]
Values = Sequence[Value]


def _number(value: int) -> Value:
    return fill(value, (), control.INDEX.dtype)


def _starts(k: Value, rank: int) -> list[Value]:
    return [k, *(_number(0) for _ in range(rank - 1))]


def _row(stack: Value, k: Value) -> Value:
    """Row k of a tensor."""
    shape = stack.type.shape[1:]
    return reshape(dynamic_slice(stack, _starts(k, stack.type.rank), (1, *shape)), shape)


def _with_row(stack: Value, k: Value, row: Value) -> Value:
    """The tensor with row k replaced."""
    return dynamic_update_slice(stack, reshape(row, (1, *row.type.shape)), _starts(k, stack.type.rank))


def _stack(first: Value) -> Value:
    """Memory for saved values, with the first one."""
    return _with_row(zeros(first.type.with_shape((SLOTS, *first.type.shape))), _number(0), first)


def _halfway(k: Value, target: Value) -> Value:
    """The iteration in the middle between k and a later one, or the later one where they are neighbours."""
    return add(k, shr(add(sub(target, k), _number(1)), _number(1)))


class _Recomputed:
    """The data of a loop from which its forward pass and its pullbacks are built."""

    def __init__(self, params: Mapping[str, Any], types: Types, moving: Positions) -> None:
        self.params, self.types, self.moving = params, types, moving
        body: Graph = params["body"]
        self.body = without_checks(body)
        self.back = reverse(self.body, moving)
        graph = self.back.graph
        self.again = without_dead_code(Graph(graph.inputs, graph.equations, self.back.needed, graph.name))
        pairs = zip(body.inputs, body.outputs, strict=True)
        self.varying = tuple(k for k, (v, a) in enumerate(pairs) if v is not a)

    def loop(self, more: Callable[..., Value], body: Callable[..., Values], *carry: Value) -> Values:
        """A loop of functions, of which reverse mode computes iterations again, too."""
        types = [x.type for x in carry]
        test, step = derived(lambda *xs: [more(*xs)], types, "more"), derived(body, types, self.body.name)
        return control.while_loop(test, step, *carry, recompute=True)

    def forward(self) -> Graph:
        """The loop that also returns the number of its iterations."""
        test, body = self.params["cond"], self.params["body"]
        types = (*self.types, control.INDEX)
        more = derived(lambda *xs: run(test, xs[:-1]), types, test.name)
        step = derived(lambda *xs: [*run(body, xs[:-1]), add(xs[-1], _number(1))], types, body.name)
        bound = self.params.get("bound")

        def counted(*xs: Value) -> Values:
            """The loop from a count of 0."""
            return control.while_loop(more, step, *xs, _number(0), bound=bound, recompute=True)

        return derived(counted, self.types, body.name)

    def pull(self, present: Positions) -> Graph:
        """The loop over the iterations from the last one: (operands, results, count, cotangents) → cotangents."""
        n, m = len(self.types), len(self.moving)

        def pulled(*values: Value) -> Values:
            """The cotangents of the operands `moving`."""
            start, count = values[:n], values[2 * n]
            given = dict(zip(present, values[2 * n + 1 :], strict=True))
            cotangents = [given[k] if k in given else zeros(self.types[k]) for k in self.moving]
            saved = [_stack(_number(0)), *(_stack(start[k]) for k in self.varying)]
            return self.loop(
                lambda *xs: gt(xs[m], _number(0)), self.iteration, *cotangents, count, _number(0), *start, *saved
            )[:m]

        types = [*self.types, *self.types, control.INDEX, *(self.types[k] for k in present)]
        return derived(pulled, types, f"{self.body.name}.pull")

    def iteration(self, *values: Value) -> list[Value]:
        """One iteration, on cotangents, the number of iterations left, the last slot in use, a carry, and the slots."""
        n, m = len(self.types), len(self.moving)
        cotangents, left, last = values[:m], values[m], values[m + 1]
        carry, saved = values[m + 2 : m + 2 + n], values[m + 2 + n :]
        target = sub(left, _number(1))
        behind = gt(_row(saved[0], last), target)  # the slot of the iteration before
        last = select(behind, sub(last, _number(1)), last)
        k = _row(saved[0], last)
        at = dict(zip(self.varying, (_row(s, last) for s in saved[1:]), strict=True))
        carry = [at.get(i, x) for i, x in enumerate(carry)]
        found = self.loop(
            lambda *xs: lt(xs[0], xs[1]), self.advance, k, target, _halfway(k, target), last, *carry, *saved
        )
        last, carry, saved = found[3], found[4 : 4 + n], found[4 + n :]
        given = tuple(i for i in self.moving if i in self.back.traced)
        pull, targets = self.back.pull(given)
        own = dict(zip(self.moving, cotangents, strict=True))
        results = run(pull, [*run(self.again, carry), *(own[i] for i in given)])
        new = dict(zip(targets, results, strict=True))
        moved = [new[i] if i in new else zeros(self.types[i]) for i in self.moving]
        return [*moved, target, last, *carry, *saved]

    def advance(self, *values: Value) -> list[Value]:
        """One iteration towards the target, whose carry is saved if it is halfway."""
        n = len(self.types)
        k, target, halfway, last, *rest = values
        carry, saved = run(self.body, rest[:n]), rest[n:]
        k = add(k, _number(1))
        free = add(last, _number(1))
        saved = [_with_row(s, free, x) for s, x in zip(saved, (k, *(carry[i] for i in self.varying)), strict=True)]
        hit = and_(eq(k, halfway), lt(free, _number(SLOTS - 1)))
        return [k, target, select(hit, _halfway(k, target), halfway), select(hit, free, last), *carry, *saved]


def recomputed_rule(
    primitive: Primitive, params: Mapping[str, Any], types: Types, moving: Positions, active: Positions
) -> Rule:
    """The rule of a loop whose iterations reverse mode computes again."""
    n = len(types)
    if any(params[name].calls_host for name in ("cond", "body")):

        def refuse(present: Positions) -> tuple[Graph, Positions]:
            """Refuse to call the host again."""
            raise GradientError(
                'while_loop: reverse="recompute" computes the iterations again; got a loop that calls the host, which '
                "must run once; call nc.host_call outside of the loop, or give max_iterations instead"
            )

        return Rule(primitive, params, n, n, 2 * n, moving, active, refuse)
    loop = _Recomputed(params, types, moving)

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The pullback to the active operands."""
        graph = loop.pull(present)
        found = dict(zip(moving, graph.outputs, strict=True))
        return Graph(graph.inputs, graph.equations, tuple(found[k] for k in active), graph.name), active

    forward = {"graph": loop.forward()}
    rule = Rule(control.call_p, forward, n, n, 2 * n + 1, moving, active, make)
    return rule.running_again(primitive, params).prepare()
