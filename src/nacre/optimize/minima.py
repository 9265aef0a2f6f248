"""`minimize`: minima of functions, with implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.base.arguments import require_flag
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.optimize.descent import lbfgs, newton_cg
from nacre.optimize.implicit import Solver, solve
from nacre.optimize.linear import linear_method
from nacre.optimize.newton import SolverLimits
from nacre.optimize.problem import (
    Function,
    Unknowns,
    called,
    limit_of,
    memory_of,
    over_vector,
    require_choice,
    tolerance_of,
)
from nacre.optimize.solution import Solution, finished
from nacre.trace.value import Value
from nacre.transform.grad import grad, value_and_grad

__all__ = ["minimize"]


METHODS: Final[dict[str, Solver]] = {"l-bfgs": lbfgs, "newton-cg": newton_cg}


def minimize(
    f: Function,
    x0: Any,
    *args: Any,
    method: str = "l-bfgs",
    memory: int = 10,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    linear_solver: str = "auto",
    strict: bool = False,
) -> Solution:
    """The x at which f(x, *args) has a local minimum, from the start `x0`, with derivatives by all tensors f reads.

    `x0` is a tree of float32, or of float64, tensors, and f returns a real scalar of their dtype.  `method` is "l-bfgs"
    (Liu and Nocedal 1989: the last `memory` steps, at most 100, and a line search for the strong Wolfe conditions) or
    "newton-cg" (Steihaug 1983: conjugate gradients on Hessian products in a trust region).  Iterations end when
    max|gradient| ≤ tolerance · max(1, |f|), by default 1e-8 in float64 and 1e-4 in float32.

    The solution has the minimum in `value`.  Its derivatives are those of the point where the gradient is zero, by
    systems with the Hessian there.  An optimiser for training, which sees a batch at a time, is in `nacre.optim`.
    `linear_solver`, `strict`, the result and the errors are as those of `root`.  Raises ArgumentError or DTypeError
    unless f returns such a scalar.

    >>> import nacre as nc
    >>> def rosenbrock(x, a):
    ...     return (a - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2
    >>> start, a = nc.tensor([-1.2, 1.0], dtype=nc.float64), nc.tensor(1.0, dtype=nc.float64)
    >>> [round(v, 6) for v in nc.optimize.minimize(rosenbrock, start, a).x.tolist()]
    [1.0, 1.0]
    >>> slope = nc.jacrev(lambda a: nc.optimize.minimize(rosenbrock, start, a).x)(a)  # of (a, a²)
    >>> [round(v, 5) for v in slope.tolist()]
    [1.0, 2.0]
    """
    require_flag(strict, "minimize")
    unknowns = Unknowns("minimize", x0)
    staged, graph, operands = unknowns.stage(called(unknowns.operation, f, args))
    if len(staged.types) != 1 or staged.types[0].shape != ():
        raise ArgumentError(
            f"minimize: f must return a scalar; got {', '.join(map(str, staged.types))}; reduce it with sum() or mean()"
        )
    if staged.types[0].dtype is not unknowns.dtype:
        raise DTypeError(
            f"minimize: f must return the unknowns' dtype, {unknowns.dtype.name}; got {staged.types[0]}; convert it "
            "with astype"
        )
    name = require_choice("minimize", "method", method, tuple(METHODS))
    least = tolerance_of("minimize", tolerance, 1e-8 if unknowns.dtype is float64 else 1e-4)
    limits = SolverLimits(least, limit_of("minimize", max_iterations), memory_of("minimize", memory))
    start = unknowns.vector
    system = linear_method(unknowns, linear_solver, symmetric=True)
    whole = over_vector(graph, len(unknowns.types))
    x, *ends = solve((_slope(whole), _gradient(whole)), start, operands, METHODS[name], limits, system)
    value: Any = run(whole, [x, *operands])[0]
    return finished("minimize", unknowns.tree(x), ends, bool(strict), value[0])


def _value(graph: Graph, operands: tuple[Any, ...]) -> Callable[[Any], Any]:
    """The value as a function of the vector."""

    def value(x: Any) -> Any:
        """A scalar."""
        found: Any = run(graph, [x, *operands])[0]
        return found[0]

    return value


@kept_with_graph(1024)
def _slope(graph: Graph) -> Graph:
    """(x, operands) → the value and the gradient."""

    def f(x: Any, *operands: Any) -> list[Value]:
        """Both, in one pass."""
        return list(value_and_grad(_value(graph, operands))(x))

    return derived(f, graph.input_types, f"{graph.name}.slope")


@kept_with_graph(1024)
def _gradient(graph: Graph) -> Graph:
    """(x, operands) → the gradient."""

    def f(x: Any, *operands: Any) -> list[Value]:
        """The gradient alone."""
        return [grad(_value(graph, operands))(x)]

    return derived(f, graph.input_types, f"{graph.name}.gradient")
