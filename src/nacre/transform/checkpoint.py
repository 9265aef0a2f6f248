"""`checkpoint`: recompute a part of a function in reverse mode, to use less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.base import tree
from nacre.interpret.closures.environment import Environment
from nacre.interpret.reverse import Recomputation
from nacre.ops.control import call
from nacre.trace.function_types import P, R
from nacre.transform.arguments import like, name_of
from nacre.transform.closure_conversion import Operands, stage_function

__all__ = ["checkpoint"]


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """A function for which reverse mode saves only the inputs and recomputes the rest.

    Results, gradients and tangents have the same bits as without it.  Higher derivatives differentiate both
    computations and are equal up to rounding.  f is staged; its captured values and the variables that it reads count
    as inputs.

    >>> import nacre as nc
    >>> block = nc.checkpoint(lambda x: nc.sin(nc.exp(x)))
    >>> nc.grad(lambda x: block(x).sum())(nc.tensor([0.0, 1.0]))
    Tensor([ 0.5403023, -2.4783497], f32[2])
    """

    inner: Callable[..., Any] = f

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
        graph = around.graph(trace)
        recomputation = Recomputation(graph.inputs, graph.equations, graph.outputs, name_of(f, "checkpoint"))
        found = call(recomputation, *given.unaliased(staged.changed), *around.operands())
        around.put_back(found[trace.results :])
        given.put_back(staged.changed, found[staged.results : trace.results])
        return tree.unflatten(staged.structures[0], found[: staged.results])

    return checkpointed
