"""Loops over scalars are kernels: the carry is in registers, and an iteration is a few instructions.

A `while` whose condition and body compute real scalars element by element runs its iterations in one kernel, up to
`ROUNDS` of them.  The loop around this kernel continues it, so that a program can be interrupted between two launches.
A scan without rows and stacked results is such a loop, too.  Each value is computed as before, so bits do not change.
With passes from outside, which see the bodies of loops as graphs, loops stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.base.dims import Dim, Size
from nacre.base.records import dataclass
from nacre.compile.extensions import PASSES as OUTSIDE
from nacre.ir.graph import Atom, Builder, Equation, Graph, scalar
from nacre.ir.primitive import RuleKind, applying, register_rule
from nacre.ir.rewrite import inline
from nacre.ops import control
from nacre.ops.identity import copy_p
from nacre.ops.pointwise import dimension_p

ROUNDS = 1 << 14  # iterations of one launch


@dataclass(frozen=True)
class Iterations:
    """The iterations of a loop that has neither rows nor stacked results."""

    body: Graph
    test: Graph | None  # whether there is another one
    most: Size | None  # the most of them

    @property
    def are_scalar(self) -> bool:
        """Whether one kernel can run them: they change scalars."""
        pairs = zip(self.body.outputs, self.body.inputs, strict=True)
        graphs = [self.body] if self.test is None else [self.body, self.test]
        return any(a is not v for a, v in pairs) and all(map(control.is_scalar_graph, graphs))


ITERATIONS: Final[RuleKind[Callable[[Equation], Iterations | None]]] = RuleKind("iterations of a loop")


def fuse_scalar_loops(graph: Graph) -> Graph:
    """The graph with the iterations of loops over scalars in kernels."""
    if OUTSIDE:
        return graph
    loops = {e: found for e in graph.equations if (found := _scalar_iterations(e)) is not None}
    if not loops:
        return graph
    b = Builder(graph.name)
    b.inputs = list(graph.inputs)
    known: dict[Atom, Atom] = {}
    for e in graph.equations:
        inputs = tuple(known.get(a, a) for a in e.inputs)
        if e in loops:
            known.update(zip(e.outputs, _Writer(b, e, loops[e], inputs).results(), strict=True))
        else:
            b.equations.append(Equation(e.primitive, inputs, e.params, e.outputs, e.source))
    return b.finish([known.get(a, a) for a in graph.outputs])


def _scalar_iterations(e: Equation) -> Iterations | None:
    rule = ITERATIONS.of(e.primitive)
    found = None if rule is None else rule(e)
    return found if found is not None and found.are_scalar else None


class _Writer:
    """Appends the loop that launches the kernel.

    Its operands are the carries that change, the number of iterations left if that is bounded, and the other carries.
    """

    def __init__(self, b: Builder, e: Equation, loop: Iterations, inputs: Sequence[Atom]) -> None:
        self.b, self.loop, self.source = b, loop, e.source
        pairs = list(zip(loop.body.outputs, loop.body.inputs, strict=True))
        self.moving = [k for k, (a, v) in enumerate(pairs) if a is not v]
        fixed = [k for k, (a, v) in enumerate(pairs) if a is v]
        self.order = [*self.moving, *fixed]
        self.counted = [] if loop.most is None else [_number(b, loop.most)]
        self.starts = [*(inputs[k] for k in self.moving), *self.counted, *(inputs[k] for k in fixed)]
        self.types = [a.type for a in self.starts]

    def placed(self, values: Sequence[Atom]) -> list[Atom]:
        """The carries in their order, from those of this loop."""
        m = len(self.moving)
        rest = [*values[:m], *values[m + len(self.counted) :]]
        return [rest[self.order.index(k)] for k in range(len(self.order))]

    def results(self) -> list[Atom]:
        """Append the loop; returns the last carries."""
        primitive = control.while_p
        graphs = dict(cond=self.condition(), body=self.body())
        return self.placed(self.b.add(primitive, self.starts, graphs, self.source))

    def condition(self) -> Graph:
        """Whether there is another iteration."""
        b = Builder(self.loop.body.name if self.loop.test is None else self.loop.test.name)
        given: list[Atom] = [b.input(t) for t in self.types]
        parts: list[Atom] = [] if self.loop.test is None else inline(b, self.loop.test, self.placed(given))
        if self.counted:
            parts += b.add(applying("lt"), (scalar(0, control.INDEX), given[len(self.moving)]))
        return b.finish(parts if len(parts) == 1 else b.add(applying("and"), parts))

    def iteration(self) -> Graph:
        """The carries after one more iteration that change, and the number of those left."""
        b = Builder(self.loop.body.name)
        given: list[Atom] = [b.input(t) for t in self.types]
        found = inline(b, self.loop.body, self.placed(given))
        changed = [found[k] for k in self.moving]
        if self.counted:
            changed += b.add(applying("sub"), (given[len(self.moving)], scalar(1, control.INDEX)))
        return b.finish(changed)

    def body(self) -> Graph:
        """One launch of the kernel."""
        b = Builder(self.loop.body.name)
        given: list[Atom] = [b.input(t) for t in self.types]
        graphs: dict[str, Any] = dict(cond=self.condition(), body=self.iteration(), rounds=ROUNDS)
        changed = b.add(control.scalar_loop_p, given, graphs, self.source)
        return b.finish([*changed, *given[len(changed) :]])


def _number(b: Builder, size: Size) -> Atom:
    """A number of iterations as an atom, which has memory."""
    if not isinstance(size, Dim):
        return scalar(size, control.INDEX)
    return b.add(copy_p, b.add(dimension_p, (), {"size": size}))[0]


def _of_while(e: Equation) -> Iterations | None:
    return Iterations(e.params["body"], e.params["cond"], e.params.get("bound"))


def _of_scan(e: Equation) -> Iterations | None:
    body: Graph = e.params["body"]
    if not e.params["carries"] == len(body.inputs) == len(body.outputs):
        return None
    return Iterations(body, None, e.params["length"])


register_rule(control.while_p, ITERATIONS, _of_while)
register_rule(control.scan_p, ITERATIONS, _of_scan)
