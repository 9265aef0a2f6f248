"""Roots of systems of equations: Newton's method, with factors or with GMRES, and Broyden's.

A solver gets the function of a vector, the start and its settings.  It returns x and (status, iterations, evaluations,
residual); the residual is the greatest magnitude of an equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.api.creation import zeros, zeros_like
from nacre.api.elementwise.logic import isfinite
from nacre.api.searching import where
from nacre.base.records import dataclass
from nacre.optimize.krylov import Operator, Solved, count, false, gmres, put_row, solve_matrix
from nacre.optimize.solution import ended
from nacre.transform.control import while_loop
from nacre.transform.grad import jacfwd, jvp

HALVINGS: Final = 30  # of one step
DECREASE: Final = 1e-4  # of the norm, for a step of length 1
MEMORY: Final = 32  # updates of Broyden's method before it starts again


@dataclass(frozen=True)
class SolverLimits:
    """The tolerance of a solver and its greatest number of iterations."""

    tolerance: float
    iterations: int
    memory: int = 0


def largest(x: Any) -> Any:
    """The greatest magnitude."""
    return abs(x).max()


def newton(f: Operator, start: Any, limits: SolverLimits) -> Solved:
    """Newton's method with LU factors of the Jacobian, and steps halved until the residual decreases."""

    def direction(x: Any, r: Any) -> tuple[Any, Any, int]:
        """The Newton step, whether it exists, and its evaluations."""
        step, regular = solve_matrix(jacfwd(f)(x), r)
        return step, regular, int(start.shape[0])

    return _newton(f, start, limits, direction)


def newton_krylov(f: Operator, start: Any, limits: SolverLimits) -> Solved:
    """Newton's method with GMRES on products with the Jacobian, which is never computed (Knoll and Keyes 2004)."""

    def direction(x: Any, r: Any) -> tuple[Any, Any, Any]:
        """An inexact Newton step, with a tenth of a per mille of the residual left."""
        step, (_, _, used, rest) = gmres(lambda v: jvp(f, (x,), (v,))[1], r, 1e-4, 200)
        return step, isfinite(rest), used

    return _newton(f, start, limits, direction)


def _newton(f: Operator, start: Any, limits: SolverLimits, direction: Callable[..., Any]) -> Solved:
    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (s["size"] > limits.tolerance) & (s["k"] < limits.iterations) & ~s["stalled"] & ~s["singular"]

    def step(s: Any) -> Any:
        """One step."""
        move, regular, used = direction(s["x"], s["r"])
        x, r, halvings, found = shortened(f, s["x"], s["r"], move)
        better = regular & found
        return {
            "x": where(better, x, s["x"]), "r": where(better, r, s["r"]), "k": s["k"] + 1,
            "size": where(better, largest(r), s["size"]), "n": s["n"] + used + halvings,
            "stalled": regular & ~found, "singular": ~regular,
        }  # fmt: skip

    r = f(start)
    s = while_loop(more, step, {
        "x": start, "r": r, "k": count(), "size": largest(r), "n": count(1), "stalled": false(), "singular": false(),
    })  # fmt: skip
    status = ended(s["size"] <= limits.tolerance, isfinite(s["size"]), s["stalled"], s["singular"])
    return s["x"], (status, s["k"], s["n"], s["size"])


def shortened(f: Operator, x: Any, r: Any, move: Any, growth: Any = 0.0) -> tuple[Any, Any, Any, Any]:
    """x − move, halved until the norm decreases: the point, its residual, the evaluations, and whether it decreased.

    With `growth`, the square of the norm may grow by this share.
    """
    before = (r * r).sum()

    def falls(s: Any) -> Any:
        """Whether the residual decreased enough; not if it is NaN."""
        return (s["r"] * s["r"]).sum() <= (1.0 - 2.0 * DECREASE * s["length"] + growth) * before

    def shorter(s: Any) -> Any:
        """Half of the step."""
        length = s["length"] * 0.5
        return {"length": length, "r": f(x - length * move), "k": s["k"] + 1}

    first = {"length": zeros((), x.dtype) + 1.0, "r": f(x - move), "k": count(1)}
    s = while_loop(lambda s: ~falls(s) & (s["k"] <= HALVINGS), shorter, first)
    return x - s["length"] * move, s["r"], s["k"], falls(s)


def broyden(f: Operator, start: Any, limits: SolverLimits) -> Solved:
    """Broyden's good method (1965), with the inverse as updates of a multiple of the identity, started again when full.

    The multiple is the best one along the residual, by one product with the Jacobian.  Steps are accepted as by Li and
    Fukushima (2000): the residual may grow, by shares whose sum is finite.
    """
    size = int(start.shape[0])

    def product(s: Any, v: Any) -> Any:
        """The approximated inverse times a vector."""
        return s["scale"] * v + (s["right"] @ v) @ s["left"]

    def scale_at(x: Any, r: Any) -> Any:
        """The multiple a for which a · J·r is nearest to r."""
        image = jvp(f, (x,), (r,))[1]
        square = (image * image).sum()
        found = (image * r).sum() / where(square == 0, 1.0, square)
        return where(found == 0, 1.0, found)

    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (largest(s["r"]) > limits.tolerance) & (s["k"] < limits.iterations) & ~s["stalled"]

    def step(s: Any) -> Any:
        """One step and one update; a step that finds no decrease starts the approximation again."""
        place = s["age"] % MEMORY
        again = (place == 0) & (s["age"] > 0) | s["failed"]
        s = {
            **s, "left": where(again, 0.0, s["left"]), "right": where(again, 0.0, s["right"]),
            "scale": where(again, scale_at(s["x"], s["r"]), s["scale"]), "age": where(again, 0, s["age"]),
        }  # fmt: skip
        grown = 1.0 / (s["k"].astype(start.dtype) + 1.0) ** 2  # a direction may be none of descent
        x, r, used, found = shortened(f, s["x"], s["r"], product(s, s["r"]), grown)
        move, change = x - s["x"], r - s["r"]
        image = product(s, change)
        along = (move * image).sum()
        usable = found & (along != 0)
        left = where(usable, (move - image) / where(along == 0, 1.0, along), 0.0)
        right = where(usable, s["scale"] * move + (s["left"] @ move) @ s["right"], 0.0)
        fresh = s["age"] == 0
        return {
            "x": where(found, x, s["x"]), "r": where(found, r, s["r"]), "scale": s["scale"],
            "left": put_row(s["left"], left, s["age"]), "right": put_row(s["right"], right, s["age"]),
            "age": s["age"] + 1, "k": s["k"] + 1, "n": s["n"] + used + where(again, 1, 0),
            "failed": ~found, "stalled": ~found & fresh,
        }  # fmt: skip

    r = f(start)
    rows = zeros((MEMORY, size), start.dtype)
    s = while_loop(more, step, {
        "x": start, "r": r, "scale": scale_at(start, r), "left": rows, "right": zeros_like(rows), "age": count(),
        "k": count(), "n": count(2), "failed": false(), "stalled": false(),
    })  # fmt: skip
    rest = largest(s["r"])
    return s["x"], (ended(rest <= limits.tolerance, isfinite(rest), s["stalled"]), s["k"], s["n"], rest)
