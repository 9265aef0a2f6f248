"""Batching: the interpreter of `vmap`.  A batched value has an axis that is hidden from the code running on it.

Primitives define their batch rules.  Control flow is batched here: bodies and branches become graphs over batched
values.  A `cond` with a batched predicate runs both branches and selects.  A `while` with a batched predicate runs
until the last example is finished; finished examples keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nacre.base.dims import Size
from nacre.base.errors import ArgumentError, TraceError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.changes import Changes
from nacre.interpret.check import guarded
from nacre.interpret.forward import as_kind, carried, union, zeros
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.ir.primitive import Constant, Linear, Primitive, RuleKind, Structural, register_rule
from nacre.ops import control
from nacre.ops.gather import take
from nacre.ops.identity import detach
from nacre.ops.pointwise import not_, select
from nacre.ops.reduce import any_, argmax
from nacre.ops.view import broadcast, permute
from nacre.trace.bind import bind, inside, next_level
from nacre.trace.value import Payload, Value, make

Axis = int | None
Mask = tuple[bool, ...]
Flowed = tuple[Sequence[Value], Mask]
Params = Mapping[str, Any]

# of control flow: (primitive, xs with batch axes in front, mask, params, size) → (results, mask)
BATCHED: Final[RuleKind[Callable[[Primitive, Sequence[Value], Mask, Params, Size], Flowed]]] = RuleKind("batching")


class BatchedValue(Payload):
    """A value with a batch axis."""

    __slots__ = ("axis", "value")

    def __init__(self, interpreter: Batch, value: Value, axis: int) -> None:
        self.level, self.interpreter = interpreter.level, interpreter
        self.value, self.axis = value, axis


class Batch(Changes):
    """The interpreter that applies batch rules."""

    dynamic = False
    name = "vmap"

    def __init__(self, size: Size, randomness: str = "same") -> None:
        super().__init__()
        self.level = next_level()
        self.size = size
        self.randomness = randomness  # of draws inside: "same", "different" or "error" (see `randomness`)
        self.ended = False

    def wrap(self, value: Value, axis: Axis) -> Value:
        """A value whose axis is hidden; without one it is the value itself."""
        if axis is None:
            return value
        shape = value.type.shape
        return make(value.type.with_shape(shape[:axis] + shape[axis + 1 :]), BatchedValue(self, value, axis))

    def split(self, x: Value) -> tuple[Value, Axis]:
        """The value of the next lower level, and its batch axis."""
        data = x.content
        if isinstance(data, BatchedValue) and data.interpreter is self:
            return data.value, data.axis
        return x, None

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Apply the primitive's batching rule; TraceError once the vmap has ended."""
        if self.ended:
            raise TraceError(f"{primitive.name}: the value must belong to an active vmap; got one of a vmap that ended")
        pairs = [self.split(x) for x in inputs]
        xs, axes = [x for x, _ in pairs], [a for _, a in pairs]
        if isinstance(primitive.derivative, Structural):
            fronted = [x if a is None else to_front(x, a, self.size) for x, a in pairs]
            batched = tuple(a is not None for a in axes)
            results, mask = BATCHED.required(primitive)(primitive, fronted, batched, params, self.size)
            return tuple(self.wrap(y, 0 if m else None) for y, m in zip(results, mask, strict=True))
        if primitive.batch is None:
            raise ArgumentError(f"vmap: the primitive must have a batch rule; {primitive.name} has none")
        results, places = primitive.batch(xs, axes, **params)
        if primitive.multiple:
            return tuple(map(self.wrap, results, places))
        return self.wrap(results, places)


def to_front(x: Value, axis: Axis, size: Size) -> Value:
    """x with its batch axis first; an unbatched one is repeated."""
    rank = x.type.rank
    if axis is None:
        return broadcast(x, (size, *x.type.shape), tuple(range(1, rank + 1)))
    if axis == 0:
        return x
    return permute(x, (axis, *(k for k in range(rank) if k != axis)))


def to_axis(x: Value, axis: Axis, target: int, size: Size) -> Value:
    """x with its batch axis at a position; an unbatched one is repeated."""
    rank = x.type.rank if axis is None else x.type.rank - 1
    fronted = to_front(x, axis, size)
    order = list(range(1, rank + 1))
    order.insert(target, 0)
    return permute(fronted, order) if order != sorted(order) else fronted


def batch(
    f: Callable[..., Sequence[Value]],
    inputs: Sequence[Value],
    axes: Sequence[Axis],
    size: Size,
    randomness: str = "same",
) -> tuple[list[Value], list[Axis]]:
    """Run f on values with hidden batch axes; returns results with their batch axes (None if not batched)."""
    interpreter = Batch(size, randomness)
    try:
        pairs = inside(interpreter, lambda: [interpreter.split(y) for y in f(*map(interpreter.wrap, inputs, axes))])
    except BaseException:
        interpreter.restore()
        raise
    finally:
        interpreter.ended = True
    interpreter.require_none_outside()
    return [y for y, _ in pairs], [a for _, a in pairs]


# ---- graphs


@dataclass(frozen=True)
class BatchedGraph:
    """A graph over batched values, batch axes first; `mask` says which outputs are batched."""

    graph: Graph
    mask: Mask


def batched_type(type: TensorType, size: Size) -> TensorType:
    """The type with a batch axis in front."""
    return type.with_shape((size, *type.shape))


@kept_with_graph(1024)
def batch_graph(graph: Graph, mask: Mask, size: Size, forced: Mask | None = None) -> BatchedGraph:
    """A graph for inputs, of which those in `mask` are batched; outputs in `forced` are always batched."""
    found: list[bool] = []

    def f(*values: Value) -> list[Value]:
        """The graph over a leading batch axis; records which outputs have one."""
        ys, axes = batch(lambda *xs: run(graph, xs), values, [0 if m else None for m in mask], size)
        keep = forced or (False,) * len(ys)
        found[:] = [a is not None or k for a, k in zip(axes, keep, strict=True)]
        return [to_front(y, a, size) if m else y for y, a, m in zip(ys, axes, found, strict=True)]

    return BatchedGraph(derived(f, _operand_types(graph, mask, size), f"{graph.name}.batched"), tuple(found))


def _as_masked(xs: Sequence[Value], mask: Mask, wanted: Mask, size: Size) -> list[Value]:
    """Values with a batch axis in front where `mask`, repeated if they are `wanted` with one."""
    return [to_front(x, None, size) if w and not m else x for x, m, w in zip(xs, mask, wanted, strict=True)]


# ---- control flow


def _call(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    batched = batch_graph(params["graph"], mask, size)
    return bind(primitive, *xs, graph=as_kind(params["graph"], batched.graph)), batched.mask


def _masked(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    graphs = params["graph"], params["safe"]
    either = union(*(batch_graph(g, mask, size).mask for g in graphs))
    graph, safe = (batch_graph(g, mask, size, either).graph for g in graphs)
    return control.masked(graph, safe, *xs), either


def _cond(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    then, orelse, inner = params["then"], params["orelse"], mask[1:]
    if mask[0]:
        chosen = xs[0], not_(xs[0])
        sides = [_side(g, inner, size, p, xs[1:]) for g, p in zip((then, orelse), chosen, strict=True)]
        results = [_choose(xs[0], a, b) for a, b in zip(*sides, strict=True)]
        passed = [_passed(then, orelse, inner, k) for k in range(len(results))]
        results = [y if at is None else xs[1 + at] for y, at in zip(results, passed, strict=True)]
        return results, tuple(at is None for at in passed)
    either = union(batch_graph(then, inner, size).mask, batch_graph(orelse, inner, size).mask)
    yes, no = (batch_graph(g, inner, size, either).graph for g in (then, orelse))
    return bind(primitive, *xs, then=yes, orelse=no), either


def _passed(then: Graph, orelse: Graph, mask: Mask, output: int) -> int | None:
    """The operand, one for all examples, that both branches return as an output; None if they do not."""
    a, b = then.outputs[output], orelse.outputs[output]
    pairs = enumerate(zip(then.inputs, orelse.inputs, mask, strict=True))
    return next((k for k, (x, y, batched) in pairs if a is x and b is y and not batched), None)


def _guarded(graph: Graph, mask: Mask, size: Size, active: Value, xs: Sequence[Value]) -> list[Value]:
    """The batched outputs of a graph; its checks count for the examples that are active."""
    forced = (True,) * len(graph.outputs)
    if not graph.has_effects:
        return run(batch_graph(graph, mask, size, forced).graph, xs)
    return run(batch_graph(guarded(graph), (True, *mask), size, forced).graph, [active, *xs])


def _side(graph: Graph, mask: Mask, size: Size, active: Value, xs: Sequence[Value]) -> Sequence[Value]:
    """The batched outputs of a graph, which are read where the examples are active (perhaps nowhere)."""
    if size == 0 or not _multiplies(graph):
        return _guarded(graph, mask, size, active, xs)
    return control.masked(*_masked_graphs(graph, mask, size, False), active, *xs)


def _multiplies(graph: Graph) -> bool:
    """Whether reverse mode through a graph is possible, and may multiply a cotangent of zero by a derivative."""
    if graph.calls_host or not any(t.dtype.is_differentiable for t in graph.output_types):
        return False
    return not all(isinstance(e.primitive.derivative, Constant | Linear) for e in graph.equations)


@kept_with_graph(1024)
def _masked_graphs(graph: Graph, mask: Mask, size: Size, certain: bool) -> tuple[Graph, Graph]:
    """Two graphs of (active, operands), with outputs that are read for the active examples alone.

    In the second one the operands of the other examples are constants.  If there are operands for all examples, to
    whose derivatives the other examples would contribute, these have the operands of the first active example.  If not
    `certain`, there may be no active example; then its outputs are zeros.
    """
    types = (batched_type(control.CONDITION, size), *_operand_types(graph, mask, size))
    shared = any(t.dtype.is_differentiable and not m for t, m in zip(graph.input_types, mask, strict=True))

    def outputs(active: Value, *xs: Value) -> list[Value]:
        """The outputs for all examples."""
        return _guarded(graph, mask, size, active, xs)

    def safe_outputs(active: Value, *xs: Value) -> list[Value]:
        """The outputs, of which only those of the active examples have derivatives."""
        others = xs
        if shared:
            first = argmax(active, 0)
            others = [to_front(take(x, first, 0), None, size) if m else x for x, m in zip(xs, mask, strict=True)]
        pairs = zip(xs, others, mask, strict=True)
        return outputs(active, *(_choose(active, x, detach(other)) if m else x for x, other, m in pairs))

    whole, safe = derived(outputs, types, graph.name), derived(safe_outputs, types, f"{graph.name}.safe")
    if certain or not shared:
        return whole, safe
    nothing = derived(lambda *_: [zeros(t) for t in safe.output_types], types, f"{graph.name}.none")

    def if_any(*xs: Value) -> Sequence[Value]:
        """The outputs, if there are active examples."""
        return control.cond(any_(xs[0], (0,)), safe, nothing, *xs)

    return whole, derived(if_any, types, safe.name)


def _operand_types(graph: Graph, mask: Mask, size: Size) -> list[TensorType]:
    return [batched_type(t, size) if m else t for t, m in zip(graph.input_types, mask, strict=True)]


def _choose(condition: Value, yes: Value, no: Value) -> Value:
    """Select by one condition for each example."""
    return select(broadcast(condition, yes.type.shape, (0,)), yes, no)


def _while(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    cond, body = params["cond"], params["body"]
    start = mask
    mask = carried(lambda m: batch_graph(body, m, size).mask, start)
    if batch_graph(cond, mask, size).mask[0]:
        mask = (True,) * len(xs)
        whole = _while_all(batch_graph(cond, mask, size).graph, body, size)
    else:
        whole = batch_graph(cond, mask, size).graph, batch_graph(body, mask, size, mask).graph
    graphs = {**params, "cond": whole[0], "body": whole[1]}
    results = bind(primitive, *_as_masked(xs, start, mask, size), **graphs)
    return results, mask


def _while_all(cond: Graph, body: Graph, size: Size) -> tuple[Graph, Graph]:
    """A loop that continues while any example does; finished examples keep their values.

    The condition is batched already.
    """

    def stepped(continues: Value, carry: Sequence[Value]) -> Sequence[Value]:
        """The body's results, which are read for the examples that continue."""
        every = (True,) * len(carry)
        if not _multiplies(body):
            return _guarded(body, every, size, continues, carry)
        return control.masked(*_masked_graphs(body, every, size, True), continues, *carry)

    def any_continues(*carry: Value) -> list[Value]:
        """Whether any example of the batch is unfinished."""
        return [any_(run(cond, carry)[0], (0,))]

    def step(*carry: Value) -> list[Value]:
        """One iteration for the examples that continue; the others keep their carry."""
        continues = run(cond, carry)[0]
        found = stepped(continues, carry)
        return [_choose(continues, new, old) for new, old in zip(found, carry, strict=True)]

    types = cond.input_types
    return derived(any_continues, types, cond.name), derived(step, types, body.name)


def _scan(primitive: Primitive, xs: Sequence[Value], mask: Mask, params: Params, size: Size) -> Flowed:
    body, n = params["body"], params["carries"]
    start, rows = mask[:n], mask[n:]
    carries = carried(lambda m: batch_graph(body, m + rows, size).mask[:n], start)
    outputs = carries + batch_graph(body, carries + rows, size).mask[n:]
    graph = batch_graph(body, carries + rows, size, outputs).graph
    moved = [to_axis(x, 0, 1, size) if m else x for x, m in zip(xs[n:], rows, strict=True)]
    results = bind(
        primitive,
        *_as_masked(xs[:n], start, carries, size),
        *moved,
        body=graph,
        carries=n,
        length=params["length"],
        reverse=params["reverse"],
    )
    ys = [to_front(y, 1, size) if m else y for y, m in zip(results[n:], outputs[n:], strict=True)]
    return [*results[:n], *ys], outputs


register_rule(control.call_p, BATCHED, _call)
register_rule(control.masked_p, BATCHED, _masked)
register_rule(control.cond_p, BATCHED, _cond)
register_rule(control.while_p, BATCHED, _while)
register_rule(control.scan_p, BATCHED, _scan)
