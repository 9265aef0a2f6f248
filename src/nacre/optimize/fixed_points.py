"""`fixed_point`: solutions of x = f(x), with implicit derivatives."""

from __future__ import annotations

from typing import Any, Final

from nacre.api.creation import eye, zeros, zeros_like
from nacre.api.elementwise.logic import isfinite
from nacre.api.linear_algebra import matrix_transpose
from nacre.api.searching import where
from nacre.base.arguments import require_flag
from nacre.base.dtypes import float64
from nacre.interpret.stage import derived, run
from nacre.ir.graph import Graph, kept_with_graph
from nacre.ops.pointwise import sub
from nacre.optimize.implicit import Solver, solve
from nacre.optimize.krylov import Operator, Solved, count, put_row, solve_matrix
from nacre.optimize.linear import linear_method
from nacre.optimize.newton import SolverLimits, largest
from nacre.optimize.problem import (
    EPSILON,
    Function,
    Unknowns,
    called,
    limit_of,
    memory_of,
    over_vector,
    require_choice,
    same_structure,
    tolerance_of,
)
from nacre.optimize.solution import Solution, ended, finished
from nacre.trace.value import Value
from nacre.transform.control import while_loop

__all__ = ["fixed_point"]


def plain(f: Operator, start: Any, limits: SolverLimits) -> Solved:
    """x ← f(x)."""

    def step(s: Any) -> Any:
        """One iteration."""
        y = f(s["y"])
        return {"x": s["y"], "y": y, "k": s["k"] + 1}

    return _iterated(f, start, limits, step, {})


def anderson(f: Operator, start: Any, limits: SolverLimits) -> Solved:
    """Anderson's acceleration (1965): the combination of the last iterates that has the least residual."""
    size, m = int(start.shape[0]), limits.memory
    dtype = start.dtype

    def step(s: Any) -> Any:
        """One iteration; rows without a difference yet are zero, and get no weight."""
        r = s["y"] - s["x"]
        gram = s["dr"] @ matrix_transpose(s["dr"])
        scale = (gram * eye(m, dtype=dtype)).sum(axis=1)
        used = scale > 0
        ridge = where(used, scale.max() * (16.0 * EPSILON[dtype]), 1.0)
        weights, _ = solve_matrix(gram + eye(m, dtype=dtype) * ridge, s["dr"] @ r)
        x = s["y"] - (s["dx"] + s["dr"]).T @ where(used, weights, 0.0)
        y = f(x)
        place = s["k"] % m
        return {
            "x": x, "y": y, "k": s["k"] + 1, "dx": put_row(s["dx"], x - s["x"], place),
            "dr": put_row(s["dr"], (y - x) - r, place),
        }  # fmt: skip

    rows = zeros((m, size), dtype)
    return _iterated(f, start, limits, step, {"dx": rows, "dr": zeros_like(rows)})


def _iterated(f: Operator, start: Any, limits: SolverLimits, step: Operator, more: dict[str, Any]) -> Solved:
    """Iterations until x and y = f(x) agree; the solution is y."""

    def margin(s: Any) -> Any:
        """The greatest change over the size of x."""
        return largest(s["y"] - s["x"]) / (1.0 + largest(s["y"]))

    def continues(s: Any) -> Any:
        """Whether the change is too large."""
        change = margin(s)
        return (change > limits.tolerance) & isfinite(change) & (s["k"] < limits.iterations)

    s = while_loop(continues, step, {"x": start, "y": f(start), "k": count(), **more})
    change = margin(s)
    return s["y"], (ended(change <= limits.tolerance, isfinite(change)), s["k"], s["k"] + 1, change)


METHODS: Final[dict[str, Solver]] = {"anderson": anderson, "plain": plain}


def fixed_point(
    f: Function,
    x0: Any,
    *args: Any,
    method: str = "anderson",
    memory: int = 5,
    tolerance: float | None = None,
    max_iterations: int = 500,
    linear_solver: str = "auto",
    strict: bool = False,
) -> Solution:
    """The solution x of x = f(x, *args), from the start `x0`, with derivatives by all tensors that f reads.

    `x0` is a tree of float32, or of float64, tensors, and f returns such a tree.  `method` is "anderson", which
    combines the last `memory` iterates, at most 100 (Anderson 1965; Walker and Ni 2011), or "plain", which converges
    only where f is a contraction.  Iterations end when max|f(x) − x| ≤ tolerance · (1 + max|f(x)|), by default 1e-10 in
    float64 and 1e-5 in float32.

    The derivatives are those of the solution, whatever number of iterations found it: no memory grows with them.
    `linear_solver`, `strict`, the result and the errors are as those of `root`.

    >>> import nacre as nc
    >>> found = nc.optimize.fixed_point(lambda x, a: (x + a / x) / 2, nc.tensor(1.0), nc.tensor(2.0))
    >>> found.x.tolist()
    1.41421...
    >>> nc.grad(lambda a: nc.optimize.fixed_point(lambda x: nc.cos(a * x), 1.0).x)(nc.tensor(1.0)).tolist()
    -0.2974...
    """
    require_flag(strict, "fixed_point")
    unknowns = Unknowns("fixed_point", x0)
    staged, graph, operands = unknowns.stage(called(unknowns.operation, f, args))
    same_structure(unknowns, staged)
    name = require_choice("fixed_point", "method", method, tuple(METHODS))
    least = tolerance_of("fixed_point", tolerance, 1e-10 if unknowns.dtype is float64 else 1e-5)
    limits = SolverLimits(least, limit_of("fixed_point", max_iterations), memory_of("fixed_point", memory))
    start = unknowns.vector
    system = linear_method(unknowns, linear_solver)
    step = over_vector(graph, len(unknowns.types))
    x, *ends = solve((step, _difference(step)), start, operands, METHODS[name], limits, system)
    return finished("fixed_point", unknowns.tree(x), ends, bool(strict))


@kept_with_graph(1024)
def _difference(step: Graph) -> Graph:
    """(x, operands) → f(x, operands) − x."""

    def f(*xs: Any) -> list[Value]:
        """The change of one iteration."""
        return [sub(run(step, xs)[0], xs[0])]

    return derived(f, step.input_types, f"{step.name}.change")
