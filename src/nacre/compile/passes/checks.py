"""Checks become positions of the first failure, and one step that ends the program at the first of them.

Checks that intervals prove, or that are there twice, are gone.  Others move up to where their integers are ready, in
their order, and neighbours are one step: it needs a barrier, and results are written over operands only behind it.
They also move before the updates of parts of operands, if few operations compute their integers.
Small values of checked integers alone, such as the number of labels that count, are computed behind the step.  A choice
that the bounds of a check decide, such as that of negative indices, is gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any, Final

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import int64, uint64
from nacre.base.records import dataclass
from nacre.compile.passes.intervals import Intervals, at_least
from nacre.compile.passes.simplify import simplify
from nacre.compile.primitives import checks_p
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import Element, Nest, RangeCheck, Reduce, applying, operation
from nacre.ops.pointwise import cast_p, dimension_p, fill_p, iota_p, select_p
from nacre.ops.shape import broadcast_p, reshape_p

NONE: Final = (1 << 63) - 1  # the position where no integer fails
FEW: Final = 32  # integers among which the step itself looks for the first failure
MANY: Final = 1 << 17  # elements of a value that is computed early, so that it takes memory for longer
MOST: Final = 16  # equations that move to an earlier place for a check


def place_checks(graph: Graph) -> Graph:
    """The graph with steps in place of checks; the same one if there are none."""
    if not any(_is_open(e) for e in graph.equations):
        return graph
    return simplify(_Placing(graph).graph())


class _Placing:
    """The equations of a graph that are no checks, and the steps between them."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.others: list[Equation] = []  # the equations that are no checks
        self.at: dict[Var, int] = {}  # how many of the others there are up to the one that computes a value
        self.made: dict[Var, Equation] = {}
        self.steps: list[_Step] = []
        self.floor = 0  # how many of the others there are up to the last effect
        self.met: set[Hashable] = set()
        self.decided: dict[Var, Atom] = {}  # the results of choices with one outcome, and that outcome
        self.intervals = Intervals(graph)
        for e in graph.equations:
            if not self.decided.keys().isdisjoint(e.inputs):
                e = Equation(e.primitive, tuple(map(self.final, e.inputs)), e.params, e.outputs, e.source)
            if _is_open(e):
                self.check(e)
            elif not (self.steps and self.decides(e)):
                self.add(e)

    def final(self, a: Atom) -> Atom:
        """An atom, or what a choice that is gone has chosen."""
        return self.decided.get(a, a) if isinstance(a, Var) else a

    def check(self, e: Equation) -> None:
        """Place a check that may fail, and take it from here on that it did not."""
        key = tuple(map(id, e.inputs)), e.params["low"], e.params["high"]
        if key not in self.met and not _is_proven(e, self.intervals):
            self.met.add(key)
            self.place(e)
        if len(e.inputs) == 1:
            self.intervals.assume(e.inputs[0], (e.params["low"], e.params["high"] - 1))

    def decides(self, e: Equation) -> bool:
        """Whether an equation is a choice of integers with one outcome, which then stands for it."""
        if operation(e.primitive) != "select" or not e.outputs[0].type.dtype.is_integer:
            return False
        truth = self.intervals.truth(e.inputs[0])
        if truth is not None:
            self.decided[e.outputs[0]] = e.inputs[1 if truth else 2]
        return truth is not None

    def add(self, e: Equation) -> None:
        """Add an equation that is no check."""
        self.others.append(e)
        self.at.update(dict.fromkeys(e.outputs, len(self.others)))
        self.made.update(dict.fromkeys(e.outputs, e))
        if e.has_effects:
            self.floor = len(self.others)

    def place(self, e: Equation) -> None:
        """Put a check into the last step, if its integers are or can be ready there, or into a new one."""
        last = self.steps[-1] if self.steps else None
        if last is not None and last.place >= self.floor:
            early = self.early(e, last.place)
            if early is not None:
                self.join(last, e, early)
                return
        ready = max([self.floor, *(self.at.get(a, 0) for a in e.inputs if isinstance(a, Var))])
        updates = (k for k in range(self.floor, ready) if _updates(self.others[k]))
        first = next(updates, ready)
        early = self.early(e, first)
        self.steps.append(_Step(ready if early is None else first))
        self.join(self.steps[-1], e, early or [])

    def join(self, step: _Step, e: Equation, early: list[Equation]) -> None:
        """Put a check into a step, and before it the equations that compute its integers."""
        for moved in early:
            self.at.update(dict.fromkeys(moved.outputs, step.place))
        step.early += early
        step.checks.append(e)

    def early(self, e: Equation, place: int) -> list[Equation] | None:
        """The elementwise equations, no larger than a check, that must move to a place for it; None if others must."""
        found: dict[int, Equation] = {}
        todo = [a for a in e.inputs if isinstance(a, Var)]
        while todo:
            v = todo.pop()
            if self.at.get(v, 0) <= place:
                continue
            needed = self.made[v]
            pointwise = isinstance(needed.primitive.lowering, Element) and not needed.has_effects
            if not pointwise or v.type.size != e.inputs[0].type.size or len(found) == MOST:
                return None
            found[self.at[v]] = needed
            todo += [a for a in needed.inputs if isinstance(a, Var)]
        return [needed for _, needed in sorted(found.items())]

    def derived(self, step: _Step, moved: set[int]) -> list[Equation]:
        """The equations behind a step that compute small values of its integers and of constants alone.

        `moved` are those that have another place, by id.
        """
        near = [*step.checks, *step.early]
        known: set[Atom] = {a for e in near for a in (*e.inputs, *e.outputs) if isinstance(a, Var)}
        sizes = {1, *(s for e in step.checks if isinstance(s := e.inputs[0].type.size, Dim) or s <= MANY)}
        constants: set[Atom] = set()
        found: list[Equation] = []
        for e in self.others[step.place :]:
            plain = isinstance(e.primitive.lowering, (Element, Reduce)) and not e.has_effects
            if id(e) in moved or not plain or e.outputs[0].type.size not in sizes:
                continue
            operands = {a for a in e.inputs if isinstance(a, Var)}
            if operands <= constants:
                constants.update(e.outputs)
            elif operands <= known | constants:
                known.update(e.outputs)
            else:
                continue
            found.append(e)
        return _needed(found, known)

    def graph(self) -> Graph:
        """The graph with the steps."""
        moved = {id(e) for step in self.steps for e in step.early}
        equations: list[Equation] = []
        begun = 0
        for step in [*self.steps, _Step(len(self.others))]:
            equations += [e for e in self.others[begun : step.place] if id(e) not in moved]
            equations += step.equations()
            if step.checks:
                derived = self.derived(step, moved)
                moved.update(map(id, derived))
                equations += derived
            begun = step.place
        outputs = tuple(map(self.final, self.source.outputs))
        return Graph(self.source.inputs, tuple(equations), outputs, self.source.name)


def _needed(equations: list[Equation], results: set[Atom]) -> list[Equation]:
    """Those of some equations that compute results, or what others of them read."""
    needed = set(results)
    found: list[Equation] = []
    for e in reversed(equations):
        if not needed.isdisjoint(e.outputs):
            needed.update(e.inputs)
            found.append(e)
    return found[::-1]


def _is_open(e: Equation) -> bool:
    """Whether an equation is a check that has not become a step."""
    return isinstance(e.primitive.lowering, RangeCheck) and "bounds" not in e.params


def _updates(e: Equation) -> bool:
    """Whether an equation changes a part of an operand, in place if all checks come before."""
    return isinstance(e.primitive.lowering, Nest) and e.primitive.lowering.onto is not None


def _is_proven(e: Equation, intervals: Intervals) -> bool:
    """Whether a check cannot fail."""
    values, (low, high) = e.inputs[0], (e.params["low"], e.params["high"])
    if values.type.size == 0:
        return True
    found = intervals.of(values)
    return found is not None and at_least(found[0] - low, 0) and at_least(high - 1 - found[1], 0)


@dataclass
class _Step:
    """Checks that are made together, behind some of the other equations."""

    place: int
    checks: list[Equation] = field(default_factory=list[Equation])
    early: list[Equation] = field(default_factory=list[Equation])  # what the checks need from behind the place

    def equations(self) -> list[Equation]:
        """The equations that find the positions, and the step."""
        if not self.checks:
            return []
        b = Builder()
        b.equations += self.early
        operands: list[Atom] = []
        bounds: list[tuple[Any, ...]] = []
        for e in self.checks:
            few = len(e.inputs) == 1 and not isinstance(e.inputs[0].type.size, Dim) and e.inputs[0].type.size <= FEW
            operands += e.inputs if few else _Position(b, e.source).operands(e)
            bounds.append((*(e.params[name] for name in ("low", "high", "kind", "text")), few))
        b.add(checks_p, operands, {"bounds": tuple(bounds)}, self.checks[0].source)
        return b.equations


class _Position:
    """Writes equations that find the position of the first failure of a check."""

    def __init__(self, builder: Builder, source: str) -> None:
        self.builder, self.source = builder, source

    def add(self, primitive: Any, inputs: list[Atom], params: Mapping[str, Any] | None = None) -> Var:
        """Append an equation; returns its result."""
        return self.builder.add(primitive, inputs, params, self.source)[0]

    def named(self, name: str, *inputs: Atom) -> Var:
        """Append an operation of kernel IR."""
        return self.add(applying(name), [*inputs])

    def number(self, value: Size, shape: tuple[Size, ...]) -> Var:
        """An int64 in each element of a shape."""
        if not isinstance(value, Dim):
            return self.add(fill_p, [], {"value": value, "shape": shape, "dtype": int64})
        return self.add(broadcast_p, [self.add(dimension_p, [], {"size": value})], {"shape": shape, "axes": ()})

    def operands(self, e: Equation) -> list[Atom]:
        """The position, and the integers as a vector or a scalar."""
        values, *masks = e.inputs
        shape, size = values.type.shape, values.type.size
        flat = values
        if len(shape) > 1:
            flat = self.add(reshape_p, [values], {"shape": (size,)})
        short = flat.type.shape
        wrong = self.outside(values if masks else flat, e.params["low"], e.params["high"])
        for mask in masks:
            axes = tuple(range(mask.type.rank))
            wide = self.add(broadcast_p, [mask], {"shape": shape, "axes": axes}) if mask.type.shape != shape else mask
            wrong = self.named("and", wrong, wide)
        if wrong.type.shape != short:
            wrong = self.add(reshape_p, [wrong], {"shape": short})
        here = self.number(0, ())
        if short:
            here = self.add(iota_p, [], {"shape": short, "axis": 0, "dtype": int64})
        position = self.add(select_p, [wrong, here, self.number(NONE, short)])
        if short:
            position = self.add(applying("min"), [position], {"axes": (0,)})
        return [position, flat]

    def outside(self, x: Atom, low: Size, high: Size) -> Var:
        """Which integers are out of bounds."""
        if x.type.dtype is uint64:  # so that numbers beyond int64 are too large, not negative
            most = self.add(fill_p, [], {"value": NONE, "shape": x.type.shape, "dtype": uint64})
            x = self.named("minimum", x, most)
        if x.type.dtype is not int64:
            x = self.add(cast_p, [x], {"dtype": int64})
        shape = x.type.shape
        below, above = (self.named(name, x, self.number(n, shape)) for name, n in (("lt", low), ("ge", high)))
        return self.named("or", below, above)
