"""Implicit derivatives: those of x with F(x, a) = 0, from F alone, whatever solver found x.

With F(x, a) = 0 the tangents satisfy ∂F/∂x · dx = −∂F/∂a · da.  This is the rule of a `custom_jvp` whose system is a
`linear_solve`, so reverse mode, and derivatives of derivatives, follow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nacre.base.types import TensorType
from nacre.interpret.custom import forward_rule as forward_rule  # the rules of the primitive
from nacre.interpret.custom import structure as structure
from nacre.interpret.forward import jvp_graph
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.ops.control import DerivativeRule, call, custom_jvp_p, with_derivative
from nacre.ops.identity import detach
from nacre.ops.pointwise import neg, zeros_like
from nacre.optimize.linear import LinearMethod, solve_system
from nacre.trace.value import Value

Function = Callable[[Any], Any]
Solver = Callable[[Function, Any, Any], tuple[Any, tuple[Any, Any, Any, Any]]]  # (f, start, settings) → x, its end


def solve(
    graphs: tuple[Graph, Graph],
    start: Any,
    operands: Sequence[Value],
    solver: Solver,
    settings: Hashable,
    system: LinearMethod,
) -> tuple[Any, ...]:
    """(x, status, iterations, evaluations, residual) of a solver, with the derivatives of F(x, operands) = 0.

    `graphs` are F and the function that the solver gets, both of (x, operands), for vectors.
    """
    of_solver, equations = graphs
    graph, rule = _solver(of_solver, equations, start.type, solver, settings, system)
    return with_derivative(custom_jvp_p, graph, rule, detach(start), *operands)


@kept_with_graph(256)
def _solver(
    f: Graph, equations: Graph, start: TensorType, solver: Solver, settings: Hashable, system: LinearMethod
) -> tuple[Graph, DerivativeRule]:
    """The graph of a solver of (start, operands), and its derivative by the operands."""
    types = (start, *f.input_types[1:])

    def solved(first: Any, *operands: Any) -> list[Value]:
        """The solution, and how the solver ended."""

        def function(x: Any) -> Any:
            """The function that the solver gets: one result, or a tuple."""
            found = run(f, [x, *operands])
            return found[0] if len(found) == 1 else tuple(found)

        x, ends = solver(function, first, settings)
        return [x, *ends]

    graph = derived(solved, types, f"{f.name}.solve")
    places = tuple(k for k, t in enumerate(types) if k and t.dtype.is_differentiable)
    moving = (False, *(k in places for k in range(1, len(types))))

    def pushed(*values: Any) -> list[Value]:
        """The solution and its tangent, from (start, operands, tangents)."""
        operands, tangents = values[1 : len(types)], values[len(types) :]
        results = with_derivative(custom_jvp_p, graph, rule, *values[: len(types)])
        x = results[0]
        along = jvp_graph(equations, moving)
        rest = [zeros_like(y) for y in results[1:] if y.type.dtype.is_differentiable]
        if not along.active[0]:
            return [*results, zeros_like(x), *rest]
        change = call(along.graph, x, *operands, *tangents)[1]
        return [*results, solve_system(jacobian(equations), system, neg(change), (x, *operands))[0], *rest]

    rule = DerivativeRule(
        graph.name, places, lambda: (derived(pushed, (*types, *(types[k] for k in places)), f"{graph.name}.rule"),)
    )
    return graph, rule


@kept_with_graph(256)
def jacobian(equations: Graph) -> Graph:
    """(v, x, operands) → ∂F/∂x · v."""
    types = equations.input_types
    along = jvp_graph(equations, (True, *(False,) * (len(types) - 1)), (True,))

    def product(v: Any, *given: Any) -> list[Value]:
        """The derivative of F along v."""
        return [call(along.graph, *given, v)[1]]

    return derived(product, (types[0], *types), f"{equations.name}.jacobian")
