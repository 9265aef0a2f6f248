"""Rules of derivatives and of batching from outside: each is recorded as a graph, checked, and then run as that graph.

A rule is recorded for the types of its arguments and the parameters, when a program needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from nacre.api.extending.parameters import plain_params
from nacre.api.extending.recording import recorded_graph
from nacre.api.extending.running import running
from nacre.api.operands import filled
from nacre.base.arguments import is_whole, shown
from nacre.base.dims import Dim, lower
from nacre.base.errors import AxisError, GradientError, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import TensorType, normal_axis, unlike
from nacre.interpret.linearity import obstacle
from nacre.interpret.stage import run
from nacre.ir.graph import Graph
from nacre.ir.primitive import LinearInput
from nacre.ir.rewrite import live_equations, without_dead_code
from nacre.trace.value import Value

Rule = Callable[..., Any]
Types = tuple[TensorType, ...]
KEPT: Final = 1024  # recorded graphs of a rule; then it starts again


class Recorded:
    """The recorded graphs of a rule, by types and parameters."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.known: dict[object, Any] = {}

    def take(self, key: object, make: Callable[[], Any]) -> Any:
        """The entry of a key, made at its first use."""
        found = self.known.get(key)
        if found is None:
            found = make()
            if len(self.known) >= KEPT:
                self.known.clear()
            self.known[key] = found
        return found

    def graph(self, rule: Callable[..., list[Value]], types: Sequence[TensorType]) -> Graph:
        """The graph of a rule for arguments of these types.  Raises TraceError if it reads anything else."""
        with running(self.what):
            return without_dead_code(recorded_graph(self.what, rule, types, self.what, "make it an operand"))

    def tensor(self, found: object, wanted: TensorType, what: str) -> Value:
        """The result of a rule, which must be a tensor of a type."""
        if not isinstance(found, Value):
            raise KindError(f"{self.what}: the rule must return {what}, a tensor; got {shown(found)}")
        if found.type is not wanted:
            raise unlike(f"{self.what}: {what}", wanted, found.type)
        return found


def _key(types: Sequence[TensorType], params: Mapping[str, Any]) -> tuple[object, ...]:
    return (*types, *params.items())


# ---- derivatives


def partial_rule(name: str, number: int, rule: Rule | None) -> Rule:
    """The rule of a partial derivative, checked."""
    if rule is None:
        return _absent(name, f"partials[{number}]", number, "`lambda y, *xs: 0`")
    recorded = Recorded(f"partials[{number}] of {name}")

    def made(types: Types, params: dict[str, Any]) -> Graph:
        def f(y: Value, *xs: Value) -> list[Value]:
            """The partial derivative; a number stands for a tensor of it."""
            found = rule(y, *xs, **params)
            if isinstance(found, bool | int | float):
                found = filled(y, float(found))
            return [recorded.tensor(found, types[0], "the derivative of the result")]

        return recorded.graph(f, types)

    def checked(y: Value, /, *xs: Value, **params: Any) -> Any:
        """The partial derivative."""
        types = (y.type, *(x.type for x in xs))
        graph = recorded.take(_key(types, params), lambda: made(types, plain_params(params)))
        return run(graph, (y, *xs))[0]

    return checked


def _absent(name: str, word: str, number: int, zero: str) -> Rule:
    def refused(*args: Any, **params: Any) -> Any:
        """Raise GradientError."""
        raise GradientError(
            f"{name}: {word} must be a rule to differentiate by operand {number}; got None; give it one ({zero} where "
            "the derivative is zero), or pass x.detach()"
        )

    return refused


def no_derivative(name: str) -> Rule:
    """The rule of an operation without a derivative: a GradientError where a derivative is wanted."""

    def refused(y: Value, xs: Any, ts: Any, /, **params: Any) -> Any:
        """Raise GradientError for a result that may have a derivative."""
        if not y.type.dtype.is_differentiable:
            return None
        raise GradientError(
            f"{name}: a derivative must be defined to differentiate it; got none; give `primitive` its partials, "
            "transposes or jvp"
        )

    return refused


class Transposes:
    """The transposes of an operation.  Which operands' values each one reads says how the operation is linear.

    If the rule of operand i does not read operand j, the operation is linear in both together.
    """

    def __init__(self, name: str, rules: Sequence[Rule | None], result: Callable[[Types, Mapping[str, Any]], Any]):
        self.name, self.rules, self.result = name, tuple(rules), result
        self.recorded = [Recorded(f"transposes[{k}] of {name}") for k in range(len(self.rules))]

    def graph(self, i: int, types: Types, params: Mapping[str, Any]) -> tuple[Graph, frozenset[int]]:
        """The graph of a rule, from the result's cotangent and the operands, and the operands that it reads."""
        rule, recorded = self.rules[i], self.recorded[i]
        if rule is None:
            _absent(self.name, f"transposes[{i}]", i, "`lambda g, *xs: None`")()
            raise AssertionError
        return recorded.take(_key(types, params), lambda: self._made(i, rule, types, params))

    def _made(self, i: int, rule: Rule, types: Types, params: Mapping[str, Any]) -> tuple[Graph, frozenset[int]]:
        recorded, given = self.recorded[i], plain_params(params)

        def f(g: Value, *xs: Value) -> list[Value]:
            """The cotangent, or nothing where it is zero."""
            found = rule(g, *xs, **given)
            return [] if found is None else [recorded.tensor(found, types[i], f"the cotangent of operand {i}")]

        graph = recorded.graph(f, (self.result(types, params), *types))
        _, read = live_equations(graph.equations, graph.outputs)
        reads = frozenset(k for k, v in enumerate(graph.inputs[1:]) if v in read)
        if i in reads:
            raise GradientError(
                f"{recorded.what}: the operation must be linear in operand {i}, so its rule must not read this "
                "operand's value; got one that does; write partials or jvp for an operation that is not linear"
            )
        _require_linear(recorded.what, graph, graph.inputs[:1], "the cotangent of the result")
        return graph, reads

    def together(self, i: int, types: Sequence[TensorType], params: Mapping[str, Any]) -> frozenset[int]:
        """The operands in which the operation is linear together with operand i."""
        _, reads = self.graph(i, tuple(types), params)
        return frozenset(k for k, rule in enumerate(self.rules) if rule is not None and k != i and k not in reads)

    def transposed(self, i: int) -> Rule:
        """The rule of operand i."""

        def pulled(g: Value, /, *xs: Any, **params: Any) -> Any:
            """The cotangent of the operand."""
            graph, reads = self.graph(i, tuple(x.type for x in xs), params)
            if any(isinstance(xs[k], LinearInput) for k in reads):
                raise GradientError(
                    f"{self.name}: the operation must be linear in what it gets here; got a product of tangents"
                )
            found = run(graph, (g, *cast("tuple[Value, ...]", xs)))
            return found[0] if found else None

        return pulled


def tangent_rule(name: str, rule: Rule) -> Rule:
    """The rule of a tangent, checked."""
    recorded = Recorded(f"jvp of {name}")

    def made(types: Types, present: tuple[bool, ...], params: dict[str, Any]) -> Graph:
        n = 1 + len(present)

        def f(y: Value, *values: Value) -> list[Value]:
            """The tangent, or nothing where it is zero."""
            rest = iter(values[n - 1 :])
            found = rule(y, list(values[: n - 1]), [next(rest) if p else None for p in present], **params)
            return [] if found is None else [recorded.tensor(found, types[0], "the tangent of the result")]

        graph = recorded.graph(f, (*types, *(t for t, p in zip(types[1:], present, strict=True) if p)))
        _require_linear(recorded.what, graph, graph.inputs[n:], "the tangents of the operands")
        return graph

    def checked(y: Value, xs: Sequence[Value], ts: Sequence[Value | None], /, **params: Any) -> Any:
        """The tangent."""
        if not y.type.dtype.is_differentiable:
            return None
        present = tuple(t is not None for t in ts)
        types = (y.type, *(x.type for x in xs))
        key = (present, *_key(types, params))
        graph = recorded.take(key, lambda: made(types, present, plain_params(params)))
        found = run(graph, (y, *xs, *(t for t in ts if t is not None)))
        return found[0] if found else None

    return checked


def _require_linear(what: str, graph: Graph, inputs: Any, words: str) -> None:
    found = obstacle(graph, inputs)
    if found is not None:
        raise GradientError(
            f"{what}: the result must be linear in {words}; got {found}, which makes it not linear; "
            "multiply by values that do not depend on them, and add only such products"
        )


# ---- batching


@dataclass(frozen=True)
class _Batched:
    graph: Graph
    axis: int | None


def batch_rule(name: str, rule: Rule, result: Callable[[Types, Mapping[str, Any]], TensorType]) -> Rule:
    """The rule of batching, checked."""
    recorded = Recorded(f"batch of {name}")

    def made(types: Types, axes: tuple[int | None, ...], params: Mapping[str, Any]) -> _Batched:
        wanted = result(tuple(map(_unbatched, types, axes)), params)
        size = next(t.shape[a] for t, a in zip(types, axes, strict=True) if a is not None)
        place: list[int | None] = []

        def f(*xs: Value) -> list[Value]:
            """The result; sets `place` to its batch axis."""
            found: Any = rule(list(xs), list(axes), **plain_params(params))
            if type(found) is not tuple or len(cast("tuple[Any, ...]", found)) != 2:
                raise KindError(
                    f"{recorded.what}: the rule must return a tensor and its batch axis; got "
                    f"{shown(cast('object', found))}; write, for example, `return y, 0`"
                )
            y, axis = cast("tuple[Any, Any]", found)
            place.append(_axis(recorded.what, axis, len(wanted.shape) + 1))
            shape = list(wanted.shape)
            if place[0] is not None:
                shape.insert(place[0], size)
            words = "the result of the batch" if place[0] is None else f"the result of the batch, along axis {place[0]}"
            return [recorded.tensor(y, wanted.with_shape(shape), words)]

        return _Batched(recorded.graph(f, types), place[0] if place else None)

    def checked(xs: Sequence[Value], axes: Sequence[int | None], /, **params: Any) -> tuple[Value, int | None]:
        """The result, and its batch axis."""
        types, places = tuple(x.type for x in xs), tuple(axes)
        key = (places, *_key(types, params))
        batched = recorded.take(key, lambda: made(types, places, params))
        return run(batched.graph, xs)[0], batched.axis

    return checked


def _unbatched(type: TensorType, axis: int | None) -> TensorType:
    return type if axis is None else type.with_shape(type.shape[:axis] + type.shape[axis + 1 :])


def _axis(what: str, axis: Any, rank: int) -> int | None:
    """The batch axis that a rule returned, from the front."""
    if axis is None:
        return None
    if not is_whole(axis):
        raise KindError(f"{what}: the batch axis must be an integer, or None; got {shown(axis)}")
    if not -rank <= axis < rank:
        raise AxisError(f"{what}: the batch axis must be in [{-rank}, {rank}); got {axis}")
    return normal_axis(axis, rank, what)


# ---- types


def require_sizes(name: str, shape: Sequence[Any]) -> None:
    """Raise ShapeError if a size of a result is negative, or may be negative in some call."""
    for k, size in enumerate(shape):
        low = lower(size) if isinstance(size, int | Dim) else 0  # the type refuses others
        if low < 0:
            known = "" if isinstance(size, int) else f", which may be as small as {low}"
            remedy = (
                "pass larger operands"
                if isinstance(size, int)
                else "give the symbolic size a bound, as in nc.Dim('n', min=4)"
            )
            raise ShapeError(
                f"{name}: sizes of the result must be at least 0; got {size}{known}, in axis {k}; {remedy}"
            )
