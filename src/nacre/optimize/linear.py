"""`linear_solve`: linear systems whose operator is a matrix or a function, with derivatives of every order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.api.linear_algebra import matmul
from nacre.api.operands import as_tensor
from nacre.api.searching import where
from nacre.base.arguments import require_flag
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.records import dataclass
from nacre.interpret.custom import linear_solve as linear_solve_rules
from nacre.interpret.linearity import obstacle
from nacre.interpret.reverse import reverse
from nacre.interpret.stage import derived
from nacre.ir.graph import Builder, Graph, kept_with_graph
from nacre.ir.rewrite import inline
from nacre.ops.control import DerivativeRule
from nacre.ops.pointwise import zeros_like
from nacre.optimize.krylov import METHODS
from nacre.optimize.problem import (
    Function,
    Unknowns,
    applied,
    called,
    limit_of,
    over_vector,
    require_choice,
    same_structure,
    tolerance_of,
)
from nacre.optimize.solution import CONVERGED, Solution, finished
from nacre.trace.value import Value
from nacre.trace.variable import Variable

__all__ = ["linear_solve"]

SMALL: Final = 128  # unknowns for which the method is "dense" unless another is given
ITERATIONS: Final = 10  # for each unknown, at most
bind_solve: Final[Callable[..., tuple[Value, ...]]] = linear_solve_rules.linear_solve


@dataclass(frozen=True)
class LinearMethod:
    """How a linear system is solved."""

    name: str
    tolerance: float
    limit: int
    symmetric: bool = False


def linear_solve(
    operator: Any,
    b: Any,
    *,
    method: str = "auto",
    symmetric: bool = False,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    strict: bool = False,
) -> Solution:
    """The solution x of operator(x) = b, where the operator is a linear function of trees, or a matrix [n, n].

    `b` is a tree of float32, or of float64, tensors.  The operator takes and returns such trees.  x has
    derivatives by b and by all tensors that the operator reads, in both modes and of any order.  They solve systems
    with the operator, and with its transpose, which is derived.

    `method` is "cg" (symmetric positive definite operators), "bicgstab", "gmres", "dense" (LU factors of the operator's
    matrix), or "auto": "dense" up to 128 unknowns, and else "cg" if `symmetric`, "gmres" if not.  `symmetric` promises
    that the operator equals its transpose.  Iterations end when |b − A·x| ≤ tolerance · |b|, by default 1e-10 in
    float64 and 1e-5 in float32, or after `max_iterations`, by default 10 for each unknown.

    A solution that has not converged says so by `converged` and `status`; with `strict` it raises ConvergenceError.  A
    derivative whose own system does not converge is NaN.  Raises ArgumentError for an operator that is not linear, or
    returns another tree, and ShapeError for a matrix that does not fit.

    >>> import nacre as nc
    >>> d = nc.tensor([2.0, 4.0])
    >>> nc.optimize.linear_solve(lambda x: d * x, nc.tensor([2.0, 2.0]), symmetric=True).x.tolist()
    [1.0, 0.5]
    >>> nc.grad(lambda d: nc.optimize.linear_solve(lambda x: d * x, nc.ones(2)).x.sum())(d).tolist()
    [-0.25, -0.0625]
    """
    for flag in (symmetric, strict):
        require_flag(flag, "linear_solve")
    unknowns = Unknowns("linear_solve", b)
    side = unknowns.vector
    chosen = linear_method(unknowns, method, bool(symmetric), tolerance, max_iterations)
    f = operator if callable(operator) and not isinstance(operator, Value | Variable) else _product(operator, unknowns)
    staged, graph, operands = unknowns.stage(called("linear_solve", f, ()))
    same_structure(unknowns, staged)
    fault = obstacle(graph, graph.inputs[: len(unknowns.types)])
    if fault is not None:
        raise ArgumentError(
            f"linear_solve: the operator must be linear; got {fault} of its argument; for equations that are not "
            "linear, write nc.optimize.root"
        )
    x, *ends = solve_system(over_vector(graph, len(unknowns.types)), chosen, side, operands)
    return finished("linear_solve", unknowns.tree(x), ends, bool(strict))


def _product(matrix: Any, unknowns: Unknowns) -> Function:
    """The operator of a matrix."""
    a = as_tensor(matrix)
    size = unknowns.types[0].shape[0] if unknowns.types[0].shape else None
    if len(unknowns.types) != 1 or len(unknowns.types[0].shape) != 1 or a.shape != (size, size):
        raise ShapeError(
            f"linear_solve: a matrix [n, n] needs one vector b [n]; got {a.type} and "
            f"{', '.join(map(str, unknowns.types))}; give the operator as a function"
        )

    def product(x: Any) -> Any:
        """The matrix times a vector."""
        return matmul(a, x)

    return product


def linear_method(
    unknowns: Unknowns, name: str, symmetric: bool = False, tolerance: Any = None, limit: Any = None
) -> LinearMethod:
    """The method for a system of unknowns, with its defaults.

    Raises ArgumentError or KindError for invalid settings.
    """
    operation, size = unknowns.operation, unknowns.size
    name = require_choice(operation, "method", name, ("auto", *METHODS))
    if name == "auto":
        name = "dense" if size <= SMALL else "cg" if symmetric else "gmres"
    most = ITERATIONS * size if limit is None else limit_of(operation, limit)
    least = tolerance_of(operation, tolerance, 1e-10 if unknowns.dtype is float64 else 1e-5)
    return LinearMethod(name, least, max(most, 1), symmetric or name == "cg")


def solve_system(apply: Graph, method: LinearMethod, b: Any, operands: Any) -> tuple[Value, ...]:
    """(x, status, iterations, evaluations, residual) of a system; `apply` is (v, operands) → A·v for vectors."""
    graph, rule = _system(apply, method)
    return bind_solve(graph, rule, b, *operands)


@kept_with_graph(256)
def _system(apply: Graph, method: LinearMethod) -> tuple[Graph, DerivativeRule]:
    """The graph of a solver, and its derivative."""
    types = apply.input_types

    def solver(of: Graph, checked: bool) -> Graph:
        """The graph that solves a system with one operator; a `checked` one gives NaN where it does not converge."""

        def solve(b: Any, *rest: Any) -> list[Value]:
            """The solution, and how the solver ended."""
            x, ends = METHODS[method.name](applied(of, rest), b, method.tolerance, method.limit)
            return [where(ends[0] == CONVERGED, x, float("nan")) if checked else x, *ends]

        return derived(solve, types, f"{method.name}.solve")

    def rules() -> tuple[Graph, ...]:
        """The graphs for derivatives."""
        turned = apply if method.symmetric else transposed(apply)
        return apply, turned, solver(apply, True), solver(turned, True)

    return solver(apply, False), DerivativeRule("linear_solve", (0,), rules, linear=True)


def _nothing(w: Any, *rest: Any) -> list[Value]:
    """Zeros."""
    return [zeros_like(w)]


def transposed(apply: Graph) -> Graph:
    """The graph of (w, operands) → Aᵀ·w."""
    back = reverse(apply, (0,))
    b = Builder(f"{apply.name}.transposed")
    inputs = [b.input(t) for t in apply.input_types]
    if not back.traced:
        return derived(_nothing, apply.input_types, b.name)
    pull, _ = back.pull((0,))
    again = Graph(back.graph.inputs, back.graph.equations, back.needed, apply.name)
    return b.finish(inline(b, pull, [*inline(b, again, inputs), inputs[0]]))
