"""Reverse mode through `while`: a bounded loop stores what its pullback needs, for the iterations that happen.

The forward pass is a loop with further carries: the number of iterations so far, and for each value that the pullback
of the body needs a tensor with a row for each possible iteration.  An iteration writes its row in place.  The pullback
is a loop from the last row that was written to the first.  A loop without a bound has no derivative in reverse mode,
unless its iterations may be computed again (see `recomputed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.dims import Size, lower
from nacre.base.types import TensorType
from nacre.interpret.flow import fill_zeros, positions, traced_mask
from nacre.interpret.forward import carried, no_derivative
from nacre.interpret.loops.recomputed import recomputed_rule
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.interpret.reverse import reverse
from nacre.ir.graph import Atom, Builder, Graph, Var, scalar
from nacre.ir.primitive import Primitive, applying, register_rule
from nacre.ir.rewrite import inline, without_dead_code
from nacre.ops import control
from nacre.ops.index import dynamic_slice_p, dynamic_update_slice_p
from nacre.ops.shape import reshape_p

Types = tuple[TensorType, ...]
Params = Mapping[str, Any]


class _Bounded:
    """The data of a bounded loop from which its forward pass and its pullbacks are built."""

    def __init__(self, params: Params, types: Types, moving: Positions, bound: Size) -> None:
        self.params, self.types, self.moving = params, types, moving
        self.back = reverse(params["body"], moving)
        graph = self.back.graph
        same = {v: k for k, (v, a) in enumerate(zip(graph.inputs, graph.outputs, strict=True)) if v is a}
        self.fixed = {v: same[v] for v in self.back.needed if v in same}  # loop-invariant: operands of the loop
        self.stacked = [v for v in self.back.needed if v not in same]
        rows = bound if lower(bound) > 0 else bound + 1  # an axis of which a row can be written
        self.stacks = tuple(v.type.with_shape((rows, *v.type.shape)) for v in self.stacked)

    def forward(self) -> Graph:
        """The loop that also returns the number of its iterations, and the stacked values."""
        g, test = self.back.graph, self.params["cond"]
        more = control.INDEX, *self.stacks
        b = Builder(g.name)
        carry, k, *stacks = [b.input(t) for t in g.input_types], *(b.input(t) for t in more)
        found = inline(b, Graph(g.inputs, g.equations, (*g.outputs, *self.stacked), g.name), carry)
        results, rows = found[: len(carry)], found[len(carry) :]
        written = [_with_row(b, s, k, row) for s, row in zip(stacks, rows, strict=True)]
        body = b.finish([*results, _moved(b, k, 1), *written])
        condition = Graph((*test.inputs, *map(Var, more)), test.equations, test.outputs, test.name)
        b = Builder(g.name)
        start = [b.input(t) for t in self.types]
        start += [fill_zeros(b, t) for t in more]
        return b.finish(b.add(control.while_p, start, {**self.params, "cond": condition, "body": body}))

    def pull(self, known: Types, present: Positions) -> tuple[Graph, Positions]:
        """The loop over the rows from the last one, as a graph of (operands, results, cotangents of `present`)."""
        b = Builder("while.pull")
        inputs = [b.input(t) for t in known]
        cotangents = {k: b.input(self.types[k]) for k in present}
        n = len(self.types)
        count, *stacks = inputs[2 * n :]
        carry: list[Atom] = [cotangents[k] if k in cotangents else fill_zeros(b, self.types[k]) for k in self.moving]
        carry += [count, *(inputs[k] for k in self.fixed.values()), *stacks]
        types = tuple(a.type for a in carry)
        found = b.add(
            control.while_p, carry, {**self.params, "cond": self.rows_left(types), "body": self.backward_body(types)}
        )
        return b.finish(found[: len(self.moving)]), self.moving

    def rows_left(self, types: Types) -> Graph:
        """The condition of the backward loop."""
        b = Builder("while.rows")
        inputs = [b.input(t) for t in types]
        return b.finish(b.add(applying("lt"), (scalar(0, control.INDEX), inputs[len(self.moving)])))

    def backward_body(self, types: Types) -> Graph:
        """One iteration of the backward loop, on (cotangents of carries, rows left, fixed values, stacked values)."""
        given = tuple(k for k in self.moving if k in self.back.traced)
        pull, found = self.back.pull(given)
        b = Builder(pull.name)
        inputs = [b.input(t) for t in types]
        m = len(self.moving)
        incoming = dict(zip(self.moving, inputs, strict=False))
        k = _moved(b, inputs[m], -1)
        rest = inputs[m + 1 :]
        values: dict[Var, Atom] = dict(zip(self.fixed, rest, strict=False))
        rows = zip(self.stacked, rest[len(self.fixed) :], strict=True)
        values |= {v: _row(b, stack, k, v.type) for v, stack in rows}
        pulled = inline(b, pull, [*(values[v] for v in self.back.needed), *(incoming[j] for j in given)])
        cotangents = dict(zip(found, pulled, strict=True))
        out = [cotangents[j] if j in cotangents else fill_zeros(b, self.types[j]) for j in self.moving]
        return without_dead_code(b.finish([*out, k, *rest]))


def _moved(b: Builder, k: Atom, by: int) -> Var:
    return b.add(applying("add"), (k, scalar(by, control.INDEX)))[0]


def _starts(k: Atom, rank: int) -> list[Atom]:
    """The place of a row in a tensor of rows with this rank."""
    return [k, *(scalar(0, control.INDEX) for _ in range(rank - 1))]


def _with_row(b: Builder, stack: Var, k: Atom, row: Atom) -> Var:
    """A tensor of rows with row k replaced."""
    (whole,) = b.add(reshape_p, (row,), {"shape": (1, *row.type.shape)})
    return b.add(dynamic_update_slice_p, (stack, whole, *_starts(k, stack.type.rank)), {})[0]


def _row(b: Builder, stack: Var, k: Atom, type: TensorType) -> Var:
    sizes = (1, *type.shape)
    (whole,) = b.add(dynamic_slice_p, (stack, *_starts(k, stack.type.rank)), {"sizes": sizes})
    return b.add(reshape_p, (whole,), {"shape": type.shape})[0]


def _while(primitive: Primitive, params: Params, types: Types, active: Positions) -> Rule | None:
    body: Graph = params["body"]
    n = len(types)

    def after_iteration(mask: Sequence[bool]) -> tuple[bool, ...]:
        """The carries that are traced after one more iteration, from those before it."""
        return traced_mask(reverse(body, positions(mask)), n)

    moving = positions(carried(after_iteration, tuple(k in active for k in range(n))))
    if params.get("recompute"):
        return recomputed_rule(primitive, params, types, moving, active)
    bound: Size | None = params.get("bound")
    if bound is None:

        def refuse(present: Positions) -> tuple[Graph, Positions]:
            """Refuse reverse mode through a loop without a bound."""
            raise no_derivative(
                primitive,
                "reverse mode needs the values of all iterations, and their number is not known in advance",
                "give the most iterations, as in while_loop(..., max_iterations=100) or "
                "set_loop_options(max_iterations=100), let reverse mode compute the iterations again, as in "
                'while_loop(..., reverse="recompute"), use scan, which has a fixed length, or forward mode (jvp)',
            )

        return Rule(primitive, params, n, n, 2 * n, moving, active, refuse)
    loop = _Bounded(params, types, moving, bound)
    forward = loop.forward()
    known = types + forward.output_types

    def make(present: Positions) -> tuple[Graph, Positions]:
        """The pullback to the active operands."""
        graph, targets = loop.pull(known, present)
        found = dict(zip(targets, graph.outputs, strict=True))
        return Graph(graph.inputs, graph.equations, tuple(found[k] for k in active), graph.name), active

    rule = Rule(control.call_p, {"graph": forward}, n, n, len(known), moving, active, make)
    return rule.running_again(primitive, params).prepare()


register_rule(control.while_p, REVERSE, _while)
