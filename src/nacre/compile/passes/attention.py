"""Attention in graphs: softmax between two products becomes one equation, and its derivative another.

`attend` returns those of out, mixed, max and sum that are read (see `attention_pattern`).  `attend_grads` returns the
cotangents of q, k and v; it recomputes the weights.  Half-type operands are read directly and computed in float32; out
is written in its own dtype.  Neither stores a matrix of scores, and both give the bits of the equations they replace.
They exist only in the compiler: differentiation and batching come before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.compile.passes.attention_pattern import Finder, Match
from nacre.compile.passes.simplify import own_constants
from nacre.compile.primitives import attend_grads_p, attend_p
from nacre.ir.graph import Equation, Graph, Var
from nacre.ir.primitive import RuleKind, register_rule
from nacre.ir.rewrite import uses, without_dead_code
from nacre.ops.attention import bounded_p, online_p
from nacre.ops.pointwise import exp_p
from nacre.ops.shape import broadcast_p

RESULTS = ("out", "mixed", "most", "total")


@dataclass(frozen=True)
class Seed:
    """A search for an attention that starts at an equation of a primitive; searches of a lower order come first."""

    find: Callable[[Finder, Equation], Match | None]
    order: int


SEEDS: Final[RuleKind[Seed]] = RuleKind("attention")


def _around_exponential(finder: Finder, e: Equation) -> Match | None:
    match = finder.forward(e)
    return match if match is not None and finder.rest_is_derivative(match) else None


def _online(finder: Finder, e: Equation) -> Match:
    return finder.whole(e, True, *e.inputs[3:])


def _bounded(finder: Finder, e: Equation) -> Match:
    """The attention of an equation with lengths, which the kernels read as [..., 1]."""
    q, _, _, lengths, *masks = e.inputs
    wide = Var(TensorType((*q.type.shape[:-2], 1), lengths.type.dtype))
    axes = tuple(range(lengths.type.rank))
    finder.views.append(Equation(broadcast_p, (lengths,), {"shape": wide.type.shape, "axes": axes}, (wide,)))
    return finder.whole(e, False, *masks, lengths=finder.owned(wide))


# the derivative of attention over blocks begins with an exponential, and must be found before the attention
register_rule(exp_p, SEEDS, Seed(_around_exponential, 0))
register_rule(online_p, SEEDS, Seed(_online, 1))
register_rule(bounded_p, SEEDS, Seed(_bounded, 1))


def fuse_attention(graph: Graph) -> Graph:
    """The graph with every attention as one equation, or two with its derivative."""
    seeds = [(seed, e) for e in graph.equations if (seed := SEEDS.of(e.primitive)) is not None]
    if not seeds:
        return graph
    found, finder = graph, Finder(graph)
    for seed, e in sorted(seeds, key=lambda pair: pair[0].order):
        other = _replaced(found, finder.again(), seed, e)
        if other is not None:
            found, finder = other, Finder(other)
    return found if found is graph else own_constants(found)


def _replaced(graph: Graph, finder: Finder, seed: Seed, e: Equation) -> Graph | None:
    """The graph with the attention around an equation replaced; None if there is none."""
    match = seed.find(finder, e)
    if match is None:
        return None
    gone = {id(e) for e in match.taken}
    kept = [e for e in graph.equations if id(e) not in gone]
    ordered = _ordered([*kept, *finder.views, *_equations(match)])
    if ordered is None or [e for e in ordered if e.has_effects] != [e for e in kept if e.has_effects]:
        return None
    live = without_dead_code(Graph(graph.inputs, tuple(ordered), graph.outputs, graph.name))
    trimmed = _trimmed(live)
    if any(e.primitive.main_results and e.primitive.main_results.isdisjoint(e.params["results"]) for e in trimmed):
        return None
    return Graph(graph.inputs, tuple(trimmed), graph.outputs, graph.name)


def _trimmed(graph: Graph) -> list[Equation]:
    """The equations; attentions are without unused results."""
    read = {*uses(graph), *graph.outputs}
    found: list[Equation] = []
    for e in graph.equations:
        if e.primitive.main_results is not None:
            pairs = [(r, v) for r, v in zip(e.params["results"], e.outputs, strict=True) if v in read]
            params = {**e.params, "results": tuple(r for r, _ in pairs)}
            e = Equation(e.primitive, e.inputs, params, tuple(v for _, v in pairs), e.source)
        found.append(e)
    return found


def _ordered(equations: Sequence[Equation]) -> list[Equation] | None:
    """The equations, each after those that it reads, otherwise in their order; None if there is a cycle."""
    producer = {v: e for e in equations for v in e.outputs}
    state: dict[int, bool] = {}  # being placed, or placed
    order: list[Equation] = []
    for start in equations:
        if all(state.get(id(producer[a])) for a in start.inputs if a in producer) and id(start) not in state:
            state[id(start)] = True  # most keep their place
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
    """The equations that replace an attention."""
    masks = () if match.mask is None else (match.mask,)
    lengths = () if match.lengths is None else (match.lengths,)
    names = tuple(r for r in RESULTS if r in match.results)
    found: list[Equation] = []
    if match.mixes:
        out = match.results["out"].type.dtype if "out" in match.results else match.results["most"].type.dtype
        params = {**match.params, "online": match.online, "results": names, "out": out}
        params |= {"bounded": True} if lengths else {}
        inputs = (*match.stored, *masks, *lengths)
        found.append(Equation(attend_p, inputs, params, tuple(match.results[r] for r in names), match.source))
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
