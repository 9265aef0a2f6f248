"""`hvp` and `derivative_graph`: products with the matrix of second derivatives, and derivatives to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.compile.passes.simplify import simplify
from nacre.ir.graph import Atom, Equation, Graph
from nacre.ir.primitive import copies
from nacre.ir.rewrite import Rewriter, rewrite, without_dead_code
from nacre.transform.arguments import Argnums
from nacre.transform.grad import directional, grad, jacrev
from nacre.transform.jit import jit

__all__ = ["derivative_graph", "hvp"]

Function = Callable[..., Any]


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The product of the matrix of second derivatives of f, whose result is a scalar, and a direction.

    `primals` and `tangents` are tuples of f's arguments, as for `jvp`; None in a tangent's tree is zero.  The result is
    a tuple with the structure of the primals.  It takes one pass of forward mode over reverse mode; the matrix itself
    is never computed.  Raises the errors of `grad` and `jvp`.

    >>> import nacre as nc
    >>> x, v = nc.tensor([1.0, 2.0]), nc.tensor([1.0, 0.0])
    >>> nc.hvp(lambda x: (x * x * x).sum(), (x,), (v,))
    (Tensor([6., 0.], f32[2]),)
    """
    count = len(primals) if isinstance(primals, tuple | list) else 0
    return directional("hvp", grad(f, argnums=tuple(range(count))), primals, tangents)[1]


def derivative_graph(f: Function, *args: Any, argnums: Argnums = 0) -> Graph:
    """The derivative of f as a simplified graph, which prints as text: symbolic differentiation that one can read.

    It is the graph of `grad(f, argnums)` if the result of f is a real scalar, otherwise that of `jacrev(f, argnums)`.
    Only the types of the arguments matter.  Raises the errors of `grad` and `jacrev`.

    >>> import nacre as nc
    >>> graph = nc.derivative_graph(lambda x: nc.sin(x) * x, nc.tensor(1.0))
    >>> [e.primitive.name for e in graph.equations]
    ['sin', 'cos', 'mul', 'add']
    """
    results = jit(f).trace(*args).output_types
    scalar = len(results) == 1 and results[0].shape == () and results[0].dtype.is_float
    derivative = grad(f, argnums) if scalar else jacrev(f, argnums)
    graph = rewrite(simplify(jit(derivative).trace(*args)), _without_copy)
    graph = without_dead_code(graph)
    return Graph(graph.inputs, graph.equations, graph.outputs, f"{graph.name}.derivative")


def _without_copy(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
    """The operand of a copy, which only a program needs."""
    return e.inputs if copies(e.primitive) and e.inputs[0].type is e.outputs[0].type else None
