"""Flags: a graph with one more result, which says whether an equation of it had an anomaly.

The result is a bool scalar.  It may also be true if there was none, where operands had numbers that are not finite.
NaN and infinities that certainly reach a value with a flag need none of their own.  Equations in bodies of loops and
branches have flags, too.  Equations that no output needs have flags like others, as they run in eager code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from nacre.base.dtypes import bool_, float32
from nacre.base.types import TensorType
from nacre.interpret.anomalies import traits
from nacre.interpret.anomalies.examine import least_count
from nacre.interpret.anomalies.kinds import MADE, SHARES, Kinds
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var, kept_with_graph, scalar
from nacre.ir.primitive import Flow, RuleKind, applying, register_rule
from nacre.ops.control import call_p, cond_p, masked_p, scan_p, while_p
from nacre.ops.pointwise import fill_p

FLAG: Final = TensorType((), bool_)
ROW: Final = 64  # elements of a row, over which a flag is computed first


@kept_with_graph(1024)
def with_flag(
    graph: Graph, kinds: Kinds, unusual: frozenset[int] = frozenset(), infinite: frozenset[int] = frozenset()
) -> Graph:
    """The graph with a flag as a further last result.

    `unusual` are the positions of the inputs that may have NaN or infinities.  Those of them that are `infinite` had
    infinities only, so that a NaN in one of them sets the flag.
    """
    return _Flags(graph, kinds, unusual, infinite).graph()


class _Flags:
    """The equations of a graph, and those that find anomalies among their results."""

    def __init__(
        self, graph: Graph, kinds: Kinds, unusual: Collection[int], infinite: Collection[int] = frozenset()
    ) -> None:
        self.source, self.kinds = graph, kinds
        self.unusual: set[Atom] = _unusual(graph, unusual)
        self.sealed = self._sealed() if kinds & MADE else set[Atom]()
        self.b = Builder(graph.name)
        self.known: dict[Atom, Atom] = {v: self.b.input(v.type) for v in graph.inputs}
        self.flags: list[Atom] = []
        if "input" in kinds:
            given = [self.known[graph.inputs[k]] for k in sorted(infinite)]
            self.flags += [self.reduced("any", self.add("isnan", x)) for x in given if traits.is_float(x)]

    def _sealed(self) -> set[Atom]:
        """The values whose NaN and infinities certainly reach a later value that has a flag."""
        sealed: set[Atom] = set()
        flagged: set[Atom] = set()
        for e in reversed(self.source.equations):
            makes = traits.may_make(e)
            if makes and not self.unusual.isdisjoint(e.inputs):
                continue  # its flag is not set by operands that are not finite
            if makes:
                flagged.update(y for y in e.outputs if traits.is_float(y) and y not in sealed)
            if e.outputs and (e.outputs[0] in sealed or e.outputs[0] in flagged):
                sealed.update(a for k in traits.passing(e) if isinstance(a := e.inputs[k], Var))
        return sealed

    def graph(self) -> Graph:
        """The graph with the flag."""
        for e in self.source.equations:
            inputs = [self.known.get(a, a) for a in e.inputs]
            made = self._flow(e, inputs) if isinstance(e.primitive.lowering, Flow) else None
            outputs = self.b.add(e.primitive, inputs, e.params, e.source) if made is None else made
            self.known.update(zip(e.outputs, outputs, strict=True))
            if made is None:
                self._examine(e, inputs, outputs)
        outputs = [self.known.get(a, a) for a in self.source.outputs]
        return self.b.finish([*outputs, self._total()])

    def _total(self) -> Atom:
        return self.both("or", self.flags) if self.flags else scalar(False, FLAG)

    # ---- equations

    def add(self, op: str, *inputs: Atom, **params: Any) -> Var:
        """Append an equation that applies an operation of kernel IR, or reduces with it."""
        return self.b.add(applying(op), inputs, params)[0]

    def fill(self, value: float, like: Atom) -> Var:
        """A number in each element of a type."""
        return self.b.add(fill_p, (), {"value": value, "shape": like.type.shape, "dtype": like.type.dtype})[0]

    def reduced(self, op: str, x: Atom) -> Atom:
        """A reduction over all axes: first over rows, so that it is computed with what else is computed on them."""
        rank, size = x.type.rank, 1
        rows = rank
        while rows > 1 and size < ROW:
            rows -= 1
            size *= int(x.type.shape[rows])
        for axes in (range(rows, rank), range(min(rows, rank))):
            x = self.add(op, x, axes=tuple(axes)) if axes else x
        return x

    def not_finite(self, x: Atom) -> Atom:
        """Whether a tensor has NaN or infinities."""
        return self.reduced("any", self.add("not", self.add("isfinite", x)))

    def both(self, op: str, given: Sequence[Atom]) -> Atom:
        """Conditions combined by "and" or "or"."""
        found = given[0]
        for g in given[1:]:
            found = self.add(op, found, g)
        return found

    def none(self, op: str, given: Sequence[Atom]) -> list[Atom]:
        """The elements of tensors for which a predicate is false."""
        return [self.add("not", self.add(op, a)) for a in given]

    def flag_at_share(self, condition: Atom, share: float) -> None:
        """Append the flag of a condition that holds for a share of the elements."""
        like = Var(TensorType(condition.type.shape, float32))
        count = self.reduced("sum", self.add("select", condition, self.fill(1.0, like), self.fill(0.0, like)))
        least = least_count(share, int(condition.type.size))
        self.flags.append(self.add("ge", count, self.fill(least, count)))

    # ---- examined results

    def _examine(self, e: Equation, inputs: Sequence[Atom], outputs: Sequence[Atom]) -> None:
        if self.kinds & MADE and traits.may_make(e):
            for y, own in zip(outputs, e.outputs, strict=True):
                if traits.is_float(y) and own not in self.sealed:
                    self._made(e, inputs, y)
        if not outputs or not traits.is_real_float(outputs[0].type) or outputs[0].type.size == 0:
            return
        if "underflow" in self.kinds:
            self._underflow(e, inputs, outputs[0])
        bounds = traits.numerics(e).bounds
        if "saturation" in self.kinds and bounds:
            ends = [self.add("eq", outputs[0], self.fill(n, outputs[0])) for n in bounds]
            self.flag_at_share(self.both("or", ends), SHARES["saturation"])

    def _made(self, e: Equation, inputs: Sequence[Atom], y: Atom) -> None:
        """A flag for NaN and infinities that come from other numbers."""
        given = [a for a in inputs if traits.is_float(a)]
        if self.unusual.isdisjoint(e.inputs):
            self.flags.append(self.not_finite(y))
        elif traits.is_pointwise(e):
            wrong, nan = self.add("not", self.add("isfinite", y)), self.add("isnan", y)
            made = self.both("and", [wrong, *(self.add("isfinite", a) for a in given)])
            nan = self.both("and", [nan, *self.none("isnan", given)])
            self.flags.append(self.reduced("any", self.add("or", made, nan)))
        else:
            before = [self.add("not", self.not_finite(a)) for a in given]
            self.flags.append(self.both("and", [self.not_finite(y), *before]))
            nan = [self.reduced("any", self.add("isnan", a)) for a in (y, *given)]
            self.flags.append(self.both("and", [nan[0], *(self.add("not", n) for n in nan[1:])]))

    def _underflow(self, e: Equation, inputs: Sequence[Atom], y: Atom) -> None:
        """A flag for zeros that come from numbers that are not zero."""
        known = traits.numerics(e)
        if known.exponential:
            small = self.add("gt", inputs[0], self.fill(-math.inf, inputs[0]))
            share = SHARES["exponentials"]
        elif traits.shrinks(e):
            axes = traits.reduced_axes(e)
            factors = dict.fromkeys(inputs[k] for k in known.factors)
            parts = [self.add("ne", a, self.fill(0.0, a)) for a in factors]
            parts = [self.add("all", part, axes=axes) for part in parts] if axes else parts
            small = self.both("and", [*parts, *(self.add("isfinite", inputs[k]) for k in known.divisors)])
            share = SHARES["underflow"]
        else:
            return
        self.flag_at_share(self.add("and", self.add("eq", y, self.fill(0.0, y)), small), share)

    # ---- control flow

    def _flow(self, e: Equation, inputs: Sequence[Atom]) -> Sequence[Atom]:
        """The results of control flow whose bodies have flags."""
        given = [k for k, a in enumerate(e.inputs) if a in self.unusual]
        if FLAGGED.of(e.primitive) is None and e.primitive.expansion is not None:
            write = _expanded
        else:
            write = FLAGGED.required(e.primitive)
        made, flag = write(self, e, inputs, given)
        self.flags.append(flag)
        return made


Flagged = tuple[Sequence[Atom], Atom]  # the results of control flow, and the flag of its bodies
# of control flow whose equations are not those of its expansion: appends it with flags in its bodies
FLAGGED: Final[RuleKind[Callable[[_Flags, Equation, Sequence[Atom], Sequence[int]], Flagged]]] = RuleKind("flags")


def _called(self: _Flags, graph: Graph, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    """A graph with flags in an equation's place."""
    flagged = with_flag(graph, self.kinds, frozenset(given))
    *made, flag = self.b.add(call_p, inputs, {"graph": flagged}, e.source)
    return made, flag


def _expanded(self: _Flags, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    assert e.primitive.expansion is not None
    return _called(self, e.primitive.expansion(e.params), e, inputs, given)


def _masked(self: _Flags, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    return _called(self, e.params["safe"], e, inputs, given)


def _cond(self: _Flags, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    inner = frozenset(k - 1 for k in given if k)
    sides = {name: with_flag(e.params[name], self.kinds, inner) for name in ("then", "orelse")}
    *made, flag = self.b.add(e.primitive, inputs, sides, e.source)
    return made, flag


def _scan(self: _Flags, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    body: Graph = e.params["body"]
    inner = _stable(body, given, e.params["carries"])
    *made, flags = self.b.add(e.primitive, inputs, {**e.params, "body": with_flag(body, self.kinds, inner)}, e.source)
    return made, self.reduced("any", flags)


def _while(self: _Flags, e: Equation, inputs: Sequence[Atom], given: Sequence[int]) -> Flagged:
    cond, body = e.params["cond"], e.params["body"]
    flagged = with_flag(body, self.kinds, _stable(body, given, len(inputs)))
    b = Builder(body.name)
    before = b.input(FLAG)
    known: dict[Atom, Atom] = {v: b.input(v.type) for v in flagged.inputs}
    for each in flagged.equations:
        made = b.add(each.primitive, [known.get(a, a) for a in each.inputs], each.params, each.source)
        known.update(zip(each.outputs, made, strict=True))
    *results, flag = (known.get(a, a) for a in flagged.outputs)
    (after,) = b.add(applying("or"), (before, flag), {})
    carrying = b.finish([after, *results])
    test = Graph((Var(FLAG), *cond.inputs), cond.equations, cond.outputs, cond.name)
    flag, *made = self.b.add(
        e.primitive, [scalar(False, FLAG), *inputs], {**e.params, "cond": test, "body": carrying}, e.source
    )
    return made, flag


register_rule(masked_p, FLAGGED, _masked)
register_rule(cond_p, FLAGGED, _cond)
register_rule(while_p, FLAGGED, _while)
register_rule(scan_p, FLAGGED, _scan)


# ---- values that may have NaN and infinities from the start


def _unusual(graph: Graph, inputs: Collection[int]) -> set[Atom]:
    """The values that may have NaN or infinities which no equation made: from constants or inputs."""
    found: set[Atom] = {graph.inputs[k] for k in inputs if traits.is_float(graph.inputs[k])}
    for e in graph.equations:
        constants = [a for a in e.inputs if traits.special_numbers(a)]
        found.update(constants)
        value = e.params.get("value")
        given = bool(constants) or (isinstance(value, float) and not math.isfinite(value))
        if given or not found.isdisjoint(e.inputs):
            found.update(y for y in e.outputs if traits.is_float(y) and not traits.numerics(e).clears)
    return found


def _stable(body: Graph, given: Sequence[int], carries: int) -> frozenset[int]:
    """The inputs of a loop's body that may have NaN or infinities, if these operands may."""
    inner = frozenset(given)
    while True:
        found = _unusual(body, inner)
        more = inner | {k for k, a in enumerate(body.outputs[:carries]) if a in found or traits.special_numbers(a)}
        if more == inner:
            return inner
        inner = more
