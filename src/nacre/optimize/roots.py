"""`root` and `root_scalar`: solutions of equations, with implicit derivatives."""

from __future__ import annotations

from typing import Any, Final

from nacre.api.manipulation import stack
from nacre.api.operands import as_tensor
from nacre.base.arguments import require_flag
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.optimize.bracketing import bisection, chandrupatla
from nacre.optimize.implicit import Solver, solve
from nacre.optimize.linear import LinearMethod, linear_method
from nacre.optimize.newton import SolverLimits, broyden, newton, newton_krylov
from nacre.optimize.problem import (
    Function,
    Unknowns,
    called,
    limit_of,
    number_of_equations,
    over_vector,
    require_choice,
    tolerance_of,
)
from nacre.optimize.solution import Solution, finished

__all__ = ["root", "root_scalar"]

LARGE: Final = 256  # unknowns above which "auto" does not compute the Jacobian
METHODS: Final[dict[str, Solver]] = {"newton": newton, "newton-krylov": newton_krylov, "broyden": broyden}
BRACKETING: Final[dict[str, Solver]] = {"chandrupatla": chandrupatla, "bisection": bisection}


def root(
    f: Function,
    x0: Any,
    *args: Any,
    method: str = "auto",
    tolerance: float | None = None,
    max_iterations: int = 100,
    linear_solver: str = "auto",
    strict: bool = False,
) -> Solution:
    """The solution x of f(x, *args) = 0, from the start `x0`, with derivatives by all tensors that f reads.

    `x0` is a tree of float32, or of float64, tensors.  f returns a tree with as many numbers.  `method` is "newton" (LU
    factors of the Jacobian), "newton-krylov" (GMRES on products with the Jacobian), "broyden" (no Jacobian), or "auto":
    "newton" up to 256 unknowns, and else "newton-krylov".  All of them shorten steps until the residual decreases.
    Iterations end when no equation is larger than `tolerance`, by default 1e-10 in float64 and 1e-5 in float32.

    The derivatives are those of the solution (implicit function theorem), in both modes and of any order.  The start
    has none.  `linear_solver` names the method of `linear_solve` for them.

    A result that has not converged says so by `converged` and `status`; with `strict` it raises ConvergenceError.
    Where the derivative's system is singular, or does not converge, the derivative is NaN.  Raises ArgumentError if f
    returns another number of equations, and DTypeError for other dtypes.

    >>> import nacre as nc
    >>> def kepler(anomaly, eccentricity):
    ...     found = nc.optimize.root(lambda E: E - eccentricity * nc.sin(E) - anomaly, anomaly)
    ...     return found.x
    >>> kepler(nc.tensor(1.0), nc.tensor(0.5)).tolist()
    1.4987...
    >>> nc.grad(kepler)(nc.tensor(1.0), nc.tensor(0.5)).tolist()  # 1 / (1 − e·cos E)
    1.0373...
    """
    require_flag(strict, "root")
    unknowns = Unknowns("root", x0)
    staged, graph, operands = unknowns.stage(called(unknowns.operation, f, args))
    number_of_equations(unknowns, staged)
    start = unknowns.vector
    name = require_choice("root", "method", method, ("auto", *METHODS))
    if name == "auto":
        name = "newton" if unknowns.size <= LARGE else "newton-krylov"
    least = tolerance_of("root", tolerance, 1e-10 if unknowns.dtype is float64 else 1e-5)
    limits = SolverLimits(least, limit_of("root", max_iterations))
    system = linear_method(unknowns, linear_solver)
    equations = over_vector(graph, len(unknowns.types))
    x, *ends = solve((equations, equations), start, operands, METHODS[name], limits, system)
    return finished("root", unknowns.tree(x), ends, bool(strict))


def root_scalar(
    f: Function,
    bracket: Any,
    *args: Any,
    method: str = "chandrupatla",
    tolerance: float = 0.0,
    max_iterations: int = 200,
    strict: bool = False,
) -> Solution:
    """The root x of the scalar function f(x, *args) between two points at which it has different signs.

    `bracket` is a pair of float32, or float64, scalars.  `method` is "chandrupatla" (inverse quadratic interpolation
    where it is safe, as in Brent's method) or "bisection".  Iterations end when the bracket is at most `tolerance`
    plus four units in the last place wide; this width is the residual.  For many equations at once, use `nacre.vmap`.

    Derivatives, `strict` and the result are as those of `root`.  A bracket without a change of sign gives status 5.
    Raises ArgumentError or ShapeError for a bracket that is not a pair of scalars, or if f does not return a scalar.

    >>> import nacre as nc
    >>> nc.optimize.root_scalar(lambda x, a: x * x - a, (nc.tensor(0.0), 2.0), nc.tensor(2.0)).x.tolist()
    1.41421...
    """
    require_flag(strict, "root_scalar")
    if not isinstance(bracket, tuple | list) or len(bracket) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError("root_scalar: the bracket must be a pair of numbers; write bracket=(low, high)")
    low, high = (as_tensor(end) for end in bracket)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if low.shape != () or high.shape != ():
        raise ShapeError(
            f"root_scalar: the ends of the bracket must be scalars; got {low.type} and {high.type}; for many equations "
            "at once, use nc.vmap"
        )
    start = stack([low, high]) if low.type is high.type else stack(list((low + 0 * high, high + 0 * low)))
    unknowns = Unknowns("root_scalar", start[0])
    staged, graph, operands = unknowns.stage(called(unknowns.operation, f, args))
    number_of_equations(unknowns, staged)
    name = require_choice("root_scalar", "method", method, tuple(BRACKETING))
    limits = SolverLimits(tolerance_of("root_scalar", tolerance, 0.0), limit_of("root_scalar", max_iterations))
    system = LinearMethod("dense", 0.0, 1)
    equations = over_vector(graph, 1)
    x, *ends = solve((equations, equations), start, operands, BRACKETING[name], limits, system)
    return finished("root_scalar", unknowns.tree(x), ends, bool(strict))
