"""Parts of graphs: what some values need of others, and another computation in the place of a value's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nacre.base.errors import ArgumentError
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import RangeCheck
from nacre.ir.rewrite import inline, substitute


def part(graph: Graph, inputs: Sequence[Var], outputs: Sequence[Atom]) -> tuple[Graph, list[Var]]:
    """The graph of outputs from inputs, which may be any values, and the inputs of the whole graph that it also needs.

    These follow the given ones.  A check is in the part if its operands are; other effects are if an output needs
    a result of theirs.
    """
    given = set(inputs)
    made = {v: e for e in graph.equations for v in e.outputs if v not in given}
    reached: set[Var] = set()
    kept: set[int] = set()
    queue = [a for a in outputs if isinstance(a, Var)]
    while queue:
        v = queue.pop()
        if v in reached:
            continue
        reached.add(v)
        e = made.get(v)
        if e is not None and id(e) not in kept:
            kept.add(id(e))
            queue += [a for a in e.inputs if isinstance(a, Var)]
    known = reached | {v for e in graph.equations if id(e) in kept for v in e.outputs}
    equations = [e for e in graph.equations if id(e) in kept or _checks(e, known)]
    more = [v for v in graph.inputs if v in reached and v not in given]
    return Graph((*inputs, *more), _without_defined(equations, given), tuple(outputs), graph.name), more


def _checks(e: Equation, known: set[Var]) -> bool:
    return isinstance(e.primitive.lowering, RangeCheck) and all(a in known for a in e.inputs if isinstance(a, Var))


def _without_defined(equations: Sequence[Equation], given: set[Var]) -> tuple[Equation, ...]:
    """Equations with new results in the place of those that are inputs, as one of several results may be."""
    return tuple(
        Equation(e.primitive, e.inputs, e.params, tuple(Var(v.type) if v in given else v for v in e.outputs), e.source)
        if not given.isdisjoint(e.outputs)
        else e
        for e in equations
    )


def read(graph: Graph, inputs: Sequence[Var]) -> set[Var]:
    """Those inputs of a graph that an equation or an output reads."""
    found = {a for e in graph.equations for a in e.inputs} | set(graph.outputs)
    return {v for v in inputs if v in found}


def spliced(graph: Graph, at: Var, other: Graph, operands: Sequence[Atom]) -> tuple[Graph, Atom]:
    """The graph with the output of another one in the place of a value, and that output.

    `operands` are the other graph's inputs: values of the graph, the value itself among them, or new inputs of both.
    """
    builder = Builder()
    (found,) = inline(builder, other, operands)
    changed = substitute(Graph((), graph.equations, graph.outputs, graph.name), {at: found})
    equations = _in_order([*changed.equations, *builder.equations])
    more = [v for v in operands if isinstance(v, Var) and v not in graph.inputs and v not in _made(graph)]
    return Graph((*graph.inputs, *more), tuple(equations), changed.outputs, graph.name), found


def _made(graph: Graph) -> set[Var]:
    return {v for e in graph.equations for v in e.outputs}


def _in_order(equations: Sequence[Equation]) -> Iterator[Equation]:
    """Equations, each behind those that compute its operands, and else in the order given."""
    made: Mapping[Var, Equation] = {v: e for e in equations for v in e.outputs}
    done: set[int] = set()
    open_: set[int] = set()
    for first in equations:
        stack = [first]
        while stack:
            e = stack[-1]
            if id(e) in done:
                stack.pop()
                continue
            waiting = [made[a] for a in e.inputs if isinstance(a, Var) and a in made and id(made[a]) not in done]
            if not waiting:
                done.add(id(stack.pop()))
                yield e
                continue
            if id(e) in open_:
                raise ArgumentError(
                    "Graph.replace: the new graph must not read a value that is computed from the replaced one; "
                    f"{e.primitive.name} at {e.source or 'no line of your own'} would need its own result"
                )
            open_.add(id(e))
            stack += reversed(waiting)
