"""`Solution`: the solution that a solver returns, and how it ended."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from nacre.api.elementwise.comparison import equal
from nacre.api.operands import as_tensor
from nacre.api.searching import where
from nacre.ops.check import check

__all__ = ["Solution"]

CONVERGED, EXHAUSTED, NOT_FINITE, STALLED, SINGULAR, NO_BRACKET = range(6)
REASONS: Final = {
    CONVERGED: "converged: the residual is within the tolerance",
    EXHAUSTED: "max_iterations reached before the residual was within the tolerance",
    NOT_FINITE: "a value is infinite or NaN",
    STALLED: "no step made progress, because of rounding or a point that is not smooth",
    SINGULAR: "a linear system is singular, or its operator is not as the method requires",
    NO_BRACKET: "the function has one sign at both ends of the bracket",
}


class Solution(NamedTuple):
    """The result of a solver: a tree of tensors, which `jit` returns and `vmap` batches.

    `x` has the structure of the start, `converged` is a bool tensor, and `status` an integer, for which `reason` is the
    text.  `iterations` and `evaluations` are numbers of iterations and of calls of the function, a derivative in the
    same pass included.  `residual` is the number that the tolerance bounds.  `value` is the minimum of `minimize`, and
    None for other solvers.  Only `x` and `value` have derivatives.

    >>> import nacre as nc
    >>> found = nc.optimize.root(lambda x: x * x - 2.0, nc.tensor(1.0))
    >>> found.reason
    'converged: the residual is within the tolerance'
    """

    x: Any
    converged: Any
    status: Any
    iterations: Any
    evaluations: Any
    residual: Any
    value: Any = None

    @property
    def reason(self) -> Any:
        """How the solver ended, as text; a list of texts for a batch.  Only outside of compiled code."""
        codes = self.status.tolist()
        return REASONS[codes] if isinstance(codes, int) else [_reasons(code) for code in codes]


def _reasons(code: Any) -> Any:
    return REASONS[code] if isinstance(code, int) else [_reasons(c) for c in code]


def finished(operation: str, x: Any, ends: Any, strict: bool, value: Any = None) -> Solution:
    """The solution from how a solver ended: (status, iterations, evaluations, residual).

    With `strict`, the program raises ConvergenceError unless the status is 0.
    """
    status, iterations, evaluations, residual = ends
    if strict:
        known = "; ".join(f"{code} is: {text}" for code, text in REASONS.items() if code)
        require_zero(
            status, f"{operation}: the solver must converge, because strict is True; got status {{got}} ({known})"
        )
    return Solution(x, equal(status, CONVERGED), status, iterations, evaluations, residual, value)


def require_zero(status: Any, text: str) -> None:
    """End the program with ConvergenceError unless a status is 0."""
    check(as_tensor(status), 0, 1, "convergence", text)


def ended(converged: Any, finite: Any, stalled: Any = False, singular: Any = False) -> Any:
    """The status of a solver that has ended."""
    code = where(stalled, STALLED, EXHAUSTED)
    code = where(singular, SINGULAR, code)
    code = where(finite, code, NOT_FINITE)
    return where(converged, CONVERGED, code)
