"""`minimize`: minima of functions, with implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.base.arguments import require_flag
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.optimize.descent import Slope, lbfgs, newton_cg
from nacre.optimize.implicit import Solver, solve
from nacre.optimize.krylov import Operator, Solved
from nacre.optimize.linear import linear_method
from nacre.optimize.newton import Limits
from nacre.optimize.problem import Function, Unknowns, limit_of, over_vector, require_choice, tolerance_of
from nacre.optimize.solution import Solution, finished
from nacre.trace.value import Value
from nacre.transform.grad import grad

__all__ = ["minimize"]


def _with_slope(method: Callable[[Slope, Any, Limits], Solved]) -> Solver:
    """The solver of a function whose first element is the value, and the others the gradient."""

    def solver(f: Operator, start: Any, limits: Limits) -> Solved:
        """The minimum, and how the solver ended."""

        def slope(x: Any) -> tuple[Any, Any]:
            """The value and the gradient."""
            return f(x)

        return method(slope, start, limits)

    return solver


METHODS: Final[dict[str, Solver]] = {"l-bfgs": _with_slope(lbfgs), "newton-cg": _with_slope(newton_cg)}
