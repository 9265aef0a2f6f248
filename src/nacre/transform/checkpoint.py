"""`checkpoint`: recompute a part of a function in reverse mode, to use less memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from nacre.base import tree
from nacre.base.errors import ArgumentError, KindError
from nacre.interpret.closures.environment import Environment
from nacre.interpret.reverse import Recomputation
from nacre.interpret.stage import Trace
from nacre.ir.graph import Atom, Graph, Var
from nacre.ir.primitive import Multilinear, Template
from nacre.ir.rewrite import without_calls
from nacre.ops.control import call
from nacre.trace.function_types import P, R
from nacre.transform.arguments import like, name_of
from nacre.transform.closure_conversion import Operands, stage_function

__all__ = ["checkpoint"]


def checkpoint(f: Callable[P, R], *, save: str | Collection[str] = "nothing") -> Callable[P, R]:
    """A function for which reverse mode saves only the inputs, and what `save` says, and recomputes the rest.

    `save` is "nothing", "products" for the results of matrix products and convolutions outside of loops, or names that
    `nc.name` gives to values inside f.

    Results, gradients and tangents have the same bits as without it.  Higher derivatives differentiate both
    computations and are equal up to rounding.  f is staged; its captured values and the variables that it reads count
    as inputs.

    Raises ArgumentError for a name that f does not give.

    >>> import nacre as nc
    >>> block = nc.checkpoint(lambda x: nc.sin(nc.name(nc.exp(x), "grown")), save=["grown"])
    >>> nc.grad(lambda x: block(x).sum())(nc.tensor([0.0, 1.0]))
    Tensor([ 0.5403023, -2.4783497], f32[2])
    """

    inner: Callable[..., Any] = f
    names = _checked(save)

    @like(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        """The function, recomputed in the backward pass."""
        given = Operands("checkpoint", [list(args), kwargs])

        def function(both: Any) -> Any:
            """The function on its positional and keyword arguments together."""
            return inner(*both[0], **both[1])

        function.__name__ = name_of(f, "checkpoint")

        staged = stage_function("checkpoint", function, [given], given.types, keep=True)
        trace = staged.trace
        around = Environment("checkpoint", (trace,))
        graph = _saving(around.graph(trace), trace, names)
        count = len(trace.graph.outputs)
        recomputation = Recomputation(graph, name_of(f, "checkpoint"), len(graph.outputs) - count)
        found = call(recomputation, *given.unaliased(staged.changed), *around.operands())
        around.put_back(found[trace.results : count])
        given.put_back(staged.changed, found[staged.results : trace.results])
        return tree.unflatten(staged.structures[0], found[: staged.results])

    return checkpointed


def _checked(save: Any) -> frozenset[str] | str:
    """The policy "nothing" or "products", or the names of the values to save."""
    if isinstance(save, str):
        if save not in ("nothing", "products"):
            raise ArgumentError(
                f'checkpoint: save must be "nothing", "products" or a list of names; got {save!r}; '
                f"write save=[{save!r}] for the value that nc.name(x, {save!r}) names"
            )
        return save
    if not isinstance(save, Collection) or not all(isinstance(x, str) for x in cast("Collection[object]", save)):
        raise KindError(f'checkpoint: save must be "nothing", "products" or a list of names; got {save!r}')
    return frozenset(cast("Collection[str]", save))


def _saving(graph: Graph, trace: Trace, policy: frozenset[str] | str) -> Graph:
    """The graph with the values that a policy saves as further outputs."""
    if policy == "nothing":
        return graph
    if isinstance(policy, frozenset):
        missing = policy.difference(name for name, _, _ in trace.names)
        if missing:
            known = ", ".join(sorted({repr(name) for name, _, _ in trace.names})) or "no names"
            raise ArgumentError(
                f"checkpoint: save must have names that {graph.name} gives by nc.name; got {sorted(missing)[0]!r}; "
                f"it gives {known}"
            )
        return _with_outputs(graph, [a for name, a, _ in trace.names if name in policy])
    graph = without_calls(graph, lambda e: "rule" in e.params or isinstance(e.params["graph"], Recomputation))
    return _with_outputs(graph, [v for e in graph.equations if _is_product(e.primitive) for v in e.outputs])


def _is_product(primitive: Any) -> bool:
    return isinstance(primitive.lowering, Template) and isinstance(primitive.derivative, Multilinear)


def _with_outputs(graph: Graph, more: Collection[Atom]) -> Graph:
    """The graph with more outputs: the variables among these atoms that are neither inputs nor outputs, each once."""
    known = {*graph.inputs, *graph.outputs}
    new = [a for a in dict.fromkeys(more) if isinstance(a, Var) and a not in known]
    return Graph(graph.inputs, graph.equations, (*graph.outputs, *new), graph.name)
