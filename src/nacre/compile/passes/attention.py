"""Attention in graphs: softmax between two products becomes one equation, and its derivative another.

`attend` returns those of out, mixed, max and sum that are read (see `attention_pattern`).  `attend_grads` returns the
cotangents of q, k and v; it recomputes the weights.  Half-type operands are read directly and computed in float32; out
is written in its own dtype.  Neither stores a matrix of scores, and both give the bits of the equations they replace.
They exist only in the compiler: differentiation and batching happen before.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dtypes import DType
from nacre.base.types import TensorType
from nacre.compile.passes.attention_pattern import Finder, Match
from nacre.compile.passes.simplify import own_constants
from nacre.ir.graph import Equation, Graph, Var
from nacre.ir.primitive import Primitive, Template
from nacre.ir.rewrite import uses, without_dead_code
from nacre.ops.attention import online_p

RESULTS = ("out", "mixed", "most", "total")


def computed(q: TensorType) -> DType:
    """The dtype of the computation."""
    return q.dtype.arithmetic


def _attend_type(
    q: TensorType, k: TensorType, v: TensorType, *mask: TensorType, results: tuple[str, ...], out: DType, **_: object
) -> tuple[TensorType, ...]:
    rows, wide = q.shape[:-1], computed(q)
    dtypes = {"out": out}
    return tuple(
        TensorType((*rows, v.shape[-1]) if r in ("out", "mixed") else rows, dtypes.get(r, wide)) for r in results
    )


def _grads_type(
    q: TensorType, k: TensorType, v: TensorType, *rest: TensorType, results: tuple[str, ...], **_: object
) -> tuple[TensorType, ...]:
    shapes = {"q": q.shape, "k": k.shape, "v": v.shape}
    return tuple(TensorType(shapes[r], computed(q)) for r in results)


attend_p = Primitive("attend", _attend_type, Template("attend"), multiple=True)
attend_grads_p = Primitive("attend_grads", _grads_type, Template("attend_grads"), multiple=True)


def fuse_attention(graph: Graph) -> Graph:
    """The graph with every attention as one equation, or two with its derivative."""
    if not any(e.primitive.name == "exp" or e.primitive is online_p for e in graph.equations):
        return graph
    found, finder = graph, Finder(graph)
    # of attention over blocks first the derivative, which begins with an exponential
    begins = [e for e in graph.equations if e.primitive.name == "exp"]
    for e in begins + [e for e in graph.equations if e.primitive is online_p]:
        other = _replaced(found, finder.again(), e)
        if other is not None:
            found, finder = other, Finder(other)
    return found if found is graph else own_constants(found)


def _replaced(graph: Graph, finder: Finder, e: Equation) -> Graph | None:
    """The graph with the attention around an exponential, or over blocks, replaced; None if there is none."""
    if e.primitive is online_p:
        match = finder.online(e)
    else:
        match = finder.forward(e)
        if match is None or not finder.rest_is_derivative(match):
            return None
    gone = {id(e) for e in match.taken}
    kept = [e for e in graph.equations if id(e) not in gone]
    ordered = _ordered([*kept, *finder.made, *_equations(match)])
    if ordered is None:
        return None
    live = without_dead_code(Graph(graph.inputs, tuple(ordered), graph.outputs, graph.name))
    trimmed = _trimmed(live)
    if any(e.primitive is attend_p and not {"out", "mixed"}.intersection(e.params["results"]) for e in trimmed):
        return None
    return Graph(graph.inputs, tuple(trimmed), graph.outputs, graph.name)


def _trimmed(graph: Graph) -> list[Equation]:
    """The equations, with attentions without unused results."""
    read = {*uses(graph), *graph.outputs}
    found: list[Equation] = []
    for e in graph.equations:
        if e.primitive in (attend_p, attend_grads_p):
            pairs = [(r, v) for r, v in zip(e.params["results"], e.outputs, strict=True) if v in read]
            params = {**e.params, "results": tuple(r for r, _ in pairs)}
            e = Equation(e.primitive, e.inputs, params, tuple(v for _, v in pairs), e.source)
        found.append(e)
    return found


def _ordered(equations: Sequence[Equation]) -> list[Equation] | None:
    """The equations so that each follows what it reads, otherwise as they are; None if they go in circles."""
    producer = {v: e for e in equations for v in e.outputs}
    state: dict[int, bool] = {}  # being placed, or placed
    order: list[Equation] = []
    for start in equations:
        if all(state.get(id(producer[a])) for a in start.inputs if a in producer) and id(start) not in state:
            state[id(start)] = True  # most stand where they are
            order.append(start)
            continue
        todo = [(start, False)]
        while todo:
            e, finished = todo.pop()
            if finished:
                state[id(e)] = True
                order.append(e)
                continue
            if id(e) in state:
                if not state[id(e)]:
                    return None
                continue
            state[id(e)] = False
            todo.append((e, True))
            needed = [producer[a] for a in e.inputs if isinstance(a, Var) and a in producer]
            if any(state.get(id(n)) is False for n in needed):
                return None
            todo += [(n, False) for n in reversed(needed) if id(n) not in state]
    return order


def _equations(match: Match) -> list[Equation]:
    """What takes an attention's place."""
    masks = () if match.mask is None else (match.mask,)
    names = tuple(r for r in RESULTS if r in match.results)
    found: list[Equation] = []
    if match.mixes:
        out = match.results["out"].type.dtype if "out" in match.results else match.results["most"].type.dtype
        params = {**match.params, "online": match.online, "results": names, "out": out}
        found.append(
            Equation(attend_p, (*match.stored, *masks), params, tuple(match.results[r] for r in names), match.source)
        )
    if match.grads:
        assert match.cotangent is not None and match.shift is not None
        inputs = (*match.stored, match.cotangent, match.results["most"], match.shift, *masks)
        found.append(
            Equation(
                attend_grads_p,
                inputs,
                {**match.params, "results": tuple(match.grads)},
                tuple(match.grads.values()),
                match.source,
            )
        )
    return found
