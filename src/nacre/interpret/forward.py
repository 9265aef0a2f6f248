"""Forward mode: dual numbers, and `push`, the only function that interprets the kinds of derivative.

A tangent that is structurally zero is None.  `jvp_graph` differentiates a whole graph.  Primitives with graph
parameters (call, cond, while, scan) become the same primitive over differentiated graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nacre.base.errors import GradientError, TraceError
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.changes import Changes
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.ir.primitive import (
    Constant,
    Jvp,
    Linear,
    Multilinear,
    Pointwise,
    Primitive,
    RuleKind,
    Structural,
    register_rule,
)
from nacre.ops import control
from nacre.ops.pointwise import add, fill, mul
from nacre.trace.bind import bind, inside, next_level
from nacre.trace.value import Payload, Value, make

Tangents = list[Value | None]
Mask = tuple[bool, ...]
Flowed = tuple[Sequence[Value], Tangents]

# of control flow: (primitive, xs, ts, params) → (results, tangents)
FORWARD: Final[RuleKind[Callable[[Primitive, Sequence[Value], Tangents, Mapping[str, Any]], Flowed]]] = RuleKind(
    "forward mode"
)


class Dual(Payload):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, interpreter: Forward, primal: Value, tangent: Value) -> None:
        self.level, self.interpreter = interpreter.level, interpreter
        self.primal, self.tangent = primal, tangent


class Forward(Changes):
    """The interpreter that propagates tangents."""

    dynamic = False
    name = "jvp"

    def __init__(self) -> None:
        super().__init__()
        self.level = next_level()
        self.ended = False
        self.stops = STATE.gradients  # whether `no_grad` inside stops tangents: not if the jvp is inside one

    def dual(self, primal: Value, tangent: Value | None) -> Value:
        """A value with a tangent; without one it is the value itself."""
        return primal if tangent is None or is_empty(primal.type) else make(primal.type, Dual(self, primal, tangent))

    def split(self, x: Value) -> tuple[Value, Value | None]:
        """The value and the tangent of the next lower level."""
        data = x.content
        if isinstance(data, Dual) and data.interpreter is self:
            return data.primal, data.tangent
        return x, None

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Apply the primitive's tangent rule; TraceError once the jvp has ended."""
        if self.ended:
            raise TraceError(
                f"{primitive.name}: the value must belong to an active jvp; got one of a jvp that has ended"
            )
        pairs = [self.split(x) for x in inputs]
        xs, ts = [p for p, _ in pairs], [t for _, t in pairs]
        if self.stops and not STATE.gradients:
            return bind(primitive, *xs, **params)
        if isinstance(primitive.derivative, Structural):
            ys, tangents = FORWARD.required(primitive)(primitive, xs, ts, params)
            return tuple(map(self.dual, ys, tangents))
        result = bind(primitive, *xs, **params)
        tangents = push(primitive, result, xs, ts, params)
        if primitive.multiple:
            return tuple(map(self.dual, result, tangents))
        return self.dual(result, tangents[0])


def is_empty(type: TensorType) -> bool:
    """Whether a tensor has no elements: then its tangent is zero, though 0 / 0 in a mean of it is NaN."""
    return 0 in type.shape


def zeros(type: TensorType) -> Value:
    """Zeros of a type."""
    return fill(0, type.shape, type.dtype)


def push(
    primitive: Primitive,
    ys: Any,
    xs: Sequence[Value],
    ts: Sequence[Value | None],
    params: Mapping[str, Any],
) -> Tangents:
    """The tangents of results ys (a value, or a tuple of several) along the tangents ts of operands xs."""
    ts = [None if is_empty(x.type) else t for x, t in zip(xs, ts, strict=True)]
    if all(t is None for t in ts):
        return [None] * (len(ys) if primitive.multiple else 1)
    return push_all(primitive, ys, xs, ts, params)


def push_all(
    primitive: Primitive,
    ys: Any,
    xs: Sequence[Value],
    ts: Tangents,
    params: Mapping[str, Any],
) -> Tangents:
    """The tangents of results, also along those of empty operands."""
    results = ys if primitive.multiple else (ys,)
    tangents = _tangents(primitive, ys, xs, ts, params)
    return [t if y.type.dtype.is_differentiable else None for y, t in zip(results, tangents, strict=True)]


def _tangents(
    primitive: Primitive,
    ys: Any,
    xs: Sequence[Value],
    ts: Tangents,
    params: Mapping[str, Any],
) -> Tangents:
    nothing: Tangents = [None] * (len(ys) if primitive.multiple else 1)
    match primitive.derivative:
        case Constant():
            return nothing
        case Pointwise(partials):
            terms = [
                mul(partial(ys, *xs, **params), t)
                for partial, t in zip(partials, ts, strict=True)
                if partial is not None and t is not None
            ]
            return [_total(terms)]
        case Multilinear(_, together) if together is not None:
            return [_total(_terms(primitive, together, xs, ts, params))]
        case Multilinear(transposes):
            terms = [
                bind(primitive, *xs[:i], t, *xs[i + 1 :], **params)
                for i, t in enumerate(ts)
                if t is not None and transposes[i] is not None
            ]
            return [_total(terms)]
        case Linear(transposes, alone):
            moved = [transposes[i] is not None for i in range(len(xs))]
            if all(t is None or not m for t, m in zip(ts, moved, strict=True)):
                return nothing
            return _push_linear(primitive, alone, xs, ts, moved, params)
        case Jvp(rule):
            found = rule(ys, xs, ts, **params)
            return list(found) if primitive.multiple else [found]
        case Structural():
            return FORWARD.required(primitive)(primitive, xs, ts, params)[1]


def _total(terms: Sequence[Value]) -> Value | None:
    total: Value | None = None
    for t in terms:
        total = t if total is None else add(total, t)
    return total


def _terms(
    primitive: Primitive,
    together: Callable[[int, Sequence[TensorType], Mapping[str, Any]], frozenset[int]],
    xs: Sequence[Value],
    ts: Sequence[Value | None],
    params: Mapping[str, Any],
) -> list[Value]:
    """The terms of a tangent: one for each group of operands in which the operation is linear together."""
    groups: dict[frozenset[int], dict[int, Value]] = {}
    for i, t in enumerate(ts):
        if t is not None:
            groups.setdefault(together(i, [x.type for x in xs], params) | {i}, {})[i] = t
    terms: list[Value] = []
    for group, moved in groups.items():
        held = [moved[k] if k in moved else zeros(x.type) if k in group else x for k, x in enumerate(xs)]
        terms.append(bind(primitive, *held, **params))
    return terms


def _push_linear(
    primitive: Primitive,
    alone: Sequence[Callable[[Value], Value]] | None,
    xs: Sequence[Value],
    ts: Sequence[Value | None],
    moved: Sequence[bool],
    params: Mapping[str, Any],
) -> Tangents:
    present = [i for i, t in enumerate(ts) if t is not None and moved[i]]
    if alone is not None and len(present) == 1:
        (i,) = present
        t = ts[i]
        assert t is not None
        return [alone[i](t)]
    operands = [x if not m else zeros(x.type) if t is None else t for x, t, m in zip(xs, ts, moved, strict=True)]
    found = bind(primitive, *operands, **params)
    return list(found) if primitive.multiple else [found]


# ---- functions and graphs


def jvp(
    f: Callable[..., Sequence[Value]], primals: Sequence[Value], tangents: Sequence[Value | None]
) -> tuple[list[Value], Tangents]:
    """f's results at the primals, and their tangents along the given ones (None if zero)."""
    forward = Forward()
    try:
        pairs = inside(forward, lambda: [forward.split(y) for y in f(*map(forward.dual, primals, tangents))])
    except BaseException:
        forward.restore()
        raise
    finally:
        forward.ended = True
    forward.require_none_outside()
    return [y for y, _ in pairs], [t for _, t in pairs]


@dataclass(frozen=True)
class PushedGraph:
    """A differentiated graph: (inputs, tangents of active inputs) → (outputs, tangents of active outputs)."""

    graph: Graph
    active: Mask  # of the outputs


@kept_with_graph(1024)
def jvp_graph(graph: Graph, active: Mask, forced: Mask | None = None) -> PushedGraph:
    """The derivative of a graph along its active inputs; outputs in `forced` have a tangent even if it is zero."""
    found: list[bool] = []

    def f(*values: Value) -> list[Value]:
        """The graph's outputs and their tangents, from inputs and tangents."""
        xs, rest = values[: len(active)], iter(values[len(active) :])
        ys, ts = jvp(lambda *inner: run(graph, inner), xs, [next(rest) if a else None for a in active])
        if forced is not None:
            ts = [zeros(y.type) if t is None and force else t for y, t, force in zip(ys, ts, forced, strict=True)]
        found[:] = [t is not None for t in ts]
        return [*ys, *(t for t in ts if t is not None)]

    types = graph.input_types + chosen(graph.input_types, active)
    return PushedGraph(derived(f, types, f"{graph.name}.jvp"), tuple(found))


def as_kind(kind: Graph, graph: Graph) -> Graph:
    """The graph as an instance of the class of `kind`, which determines its treatment in reverse mode."""
    return kind.remade(graph)


def chosen(items: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    """The items where the mask is true."""
    return tuple(x for x, m in zip(items, mask, strict=True) if m)


def union(a: Sequence[bool], b: Sequence[bool]) -> Mask:
    """The mask that is true where either mask is."""
    return tuple(x or y for x, y in zip(a, b, strict=True))


def spread(tangents: Sequence[Value], mask: Sequence[bool]) -> Tangents:
    """Tangents where the mask is true, None elsewhere."""
    rest = iter(tangents)
    return [next(rest) if m else None for m in mask]


def _present(ts: Sequence[Value | None]) -> Mask:
    return tuple(t is not None for t in ts)


def _given(ts: Sequence[Value | None]) -> list[Value]:
    return [t for t in ts if t is not None]


# ---- control flow


def _call(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Mapping[str, Any]) -> Flowed:
    pushed = jvp_graph(params["graph"], _present(ts))
    n = len(pushed.active)
    results = bind(primitive, *xs, *_given(ts), graph=as_kind(params["graph"], pushed.graph))
    return results[:n], spread(results[n:], pushed.active)


def _masked(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Mapping[str, Any]) -> Flowed:
    graph, safe, moving = params["graph"], params["safe"], _present(ts)
    either = union(jvp_graph(graph, moving).active, jvp_graph(safe, moving).active)
    graph, safe = (jvp_graph(g, moving, either).graph for g in (graph, safe))
    results = control.masked(graph, safe, *xs, *_given(ts))
    n = len(either)
    return results[:n], spread(results[n:], either)


def _cond(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Mapping[str, Any]) -> Flowed:
    then, orelse, moving = params["then"], params["orelse"], _present(ts[1:])
    either = union(jvp_graph(then, moving).active, jvp_graph(orelse, moving).active)
    branches = [jvp_graph(g, moving, either).graph for g in (then, orelse)]
    n = len(either)
    results = bind(primitive, *xs, *_given(ts), then=branches[0], orelse=branches[1])
    return results[:n], spread(results[n:], either)


def carried(step: Callable[[Mask], Mask], start: Mask) -> Mask:
    """The least mask of carries that contains `start` and is closed under `step`, one iteration."""
    while (grown := union(start, step(start))) != start:
        start = grown
    return start


def _instantiated(xs: Sequence[Value], ts: Sequence[Value | None], mask: Mask) -> list[Value]:
    return [zeros(x.type) if t is None else t for x, t, m in zip(xs, ts, mask, strict=True) if m]


def _while(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Mapping[str, Any]) -> Flowed:
    cond, body = params["cond"], params["body"]
    moving = carried(lambda mask: jvp_graph(body, mask).active, _present(ts))
    pushed = jvp_graph(body, moving, moving).graph
    n = len(xs)
    ignoring = _with_inputs(cond, chosen(cond.input_types, moving))
    graphs = {**params, "cond": ignoring, "body": pushed}
    results = bind(primitive, *xs, *_instantiated(xs, ts, moving), **graphs)
    return results[:n], spread(results[n:], moving)


def _with_inputs(graph: Graph, types: Sequence[TensorType]) -> Graph:
    """The graph with additional inputs, which it does not read."""
    return derived(lambda *xs: run(graph, xs[: len(graph.inputs)]), (*graph.input_types, *types), graph.name)


def _scan(primitive: Primitive, xs: Sequence[Value], ts: Tangents, params: Mapping[str, Any]) -> Flowed:
    body, n = params["body"], params["carries"]
    rows = _present(ts[n:])
    moving = carried(lambda mask: jvp_graph(body, mask + rows).active[:n], _present(ts[:n]))
    outputs = moving + jvp_graph(body, moving + rows).active[n:]
    pushed = jvp_graph(body, moving + rows, outputs).graph
    graph = _scan_order(pushed, n, moving, rows, outputs)
    carries = [*xs[:n], *_instantiated(xs[:n], ts[:n], moving)]
    results = bind(
        primitive,
        *carries,
        *xs[n:],
        *_given(ts[n:]),
        body=graph,
        carries=len(carries),
        length=params["length"],
        reverse=params["reverse"],
    )
    k, total = len(carries), len(body.outputs)
    ys = [*results[:n], *results[k : k + total - n]]
    return ys, spread([*results[n:k], *results[k + total - n :]], outputs)


def _scan_order(pushed: Graph, n: int, moving: Mask, rows: Mask, outputs: Mask) -> Graph:
    """(carries, rows, tangents of both) in a scan's order: carries and their tangents before rows and theirs."""
    m, r = sum(moving), len(rows)
    i, o = pushed.inputs, pushed.outputs
    inputs = i[:n] + i[n + r : n + r + m] + i[n : n + r] + i[n + r + m :]
    total = len(outputs)
    results = o[:n] + o[total : total + m] + o[n:total] + o[total + m :]
    return Graph(inputs, pushed.equations, results, pushed.name)


register_rule(control.call_p, FORWARD, _call)
register_rule(control.masked_p, FORWARD, _masked)
register_rule(control.cond_p, FORWARD, _cond)
register_rule(control.while_p, FORWARD, _while)
register_rule(control.scan_p, FORWARD, _scan)


def no_derivative(primitive: Primitive, reason: str, remedy: str) -> GradientError:
    """The error for a primitive without the requested derivative."""
    return GradientError(f"{primitive.name}: the derivative does not exist; {reason}; {remedy}")
