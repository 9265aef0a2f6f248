"""Minima of functions: L-BFGS, and Newton's method with conjugate gradients in a trust region.

A solver gets the function (x → value and gradient), the start and its settings.  It returns x and (status, iterations,
evaluations, residual).  The residual is the greatest magnitude of the gradient over max(1, |value|).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.creation import zeros, zeros_like
from nacre.api.elementwise.arithmetic import maximum, minimum
from nacre.api.elementwise.logic import isfinite
from nacre.api.elementwise.transcendental import sqrt
from nacre.api.searching import where
from nacre.optimize.krylov import Solved, count, false, norm, put_row
from nacre.optimize.line_search import wolfe
from nacre.optimize.newton import SolverLimits, largest
from nacre.optimize.problem import EPSILON
from nacre.optimize.solution import ended
from nacre.transform.control import fori_loop, while_loop
from nacre.transform.grad import jvp

Slope = Callable[[Any], tuple[Any, Any]]
RADIUS, GREATEST = 1.0, 1e3  # of the trust region, over the size of x


def relative(f: Any, g: Any) -> Any:
    """The size of the gradient over that of the value."""
    return largest(g) / maximum(abs(f), 1.0)


def lbfgs(slope: Slope, start: Any, limits: SolverLimits) -> Solved:
    """L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions.

    Row k of `moves` and `changes` has the step and the change of the gradient of iteration k, modulo the memory, and
    `inverse` one over their product; zero is no row.
    """
    m, size = limits.memory, int(start.shape[0])

    def direction(s: Any) -> Any:
        """−H · gradient, by the two-loop recursion; the newest row is that of iteration k − 1."""

        def down(k: Any, carry: Any) -> Any:
            """From the newest row to the oldest."""
            q, factors = carry
            at = (s["k"] + (m - 1) - k) % m
            factor = s["inverse"][at] * (s["moves"][at] * q).sum()
            return q - factor * s["changes"][at], put_row(factors, factor[None], at)

        def up(k: Any, q: Any) -> Any:
            """From the oldest row to the newest."""
            at = (s["k"] + k) % m
            back = s["inverse"][at] * (s["changes"][at] * q).sum()
            return q + (factors[at, 0] - back) * s["moves"][at]

        q, factors = fori_loop(0, m, down, (s["g"], zeros((m, 1), start.dtype)))
        return -fori_loop(0, m, up, s["scale"] * q)

    def more(s: Any) -> Any:
        """Whether the gradient is too large."""
        return (relative(s["f"], s["g"]) > limits.tolerance) & (s["k"] < limits.iterations) & ~s["stalled"]

    def step(s: Any) -> Any:
        """One line search, and one row; a search that fails is repeated along the gradient alone."""
        found = direction(s)
        downhill = (found * s["g"]).sum() < 0
        d = where(downhill & ~s["failed"], found, -s["g"])
        steepest = (s["k"] == 0) | s["failed"] | ~downhill
        first = where(steepest, minimum(1.0, 1.0 / norm(s["g"])), 1.0)
        t, f, g, n, fell = wolfe(lambda t: slope(s["x"] + t * d), s["f"], s["g"], d, first)
        move, change = t * d, g - s["g"]
        product, square = (move * change).sum(), (change * change).sum()
        usable = fell & (product > EPSILON[start.dtype] * square)
        at = s["k"] % m
        inverse = where(fell, s["inverse"], 0.0)
        row = where(usable, 1.0 / where(usable, product, 1.0), 0.0)
        return {
            "x": s["x"] + where(fell, move, 0.0), "f": where(fell, f, s["f"]), "g": where(fell, g, s["g"]),
            "moves": put_row(s["moves"], move, at), "changes": put_row(s["changes"], change, at),
            "inverse": put_row(inverse[:, None], row[None], at)[:, 0],
            "scale": where(usable, product / where(usable, square, 1.0), s["scale"]),
            "k": s["k"] + 1, "n": s["n"] + n, "failed": ~fell, "stalled": ~fell & steepest,
        }  # fmt: skip

    f, g = slope(start)
    rows = zeros((m, size), start.dtype)
    s = while_loop(more, step, {
        "x": start, "f": f, "g": g, "moves": rows, "changes": zeros_like(rows), "inverse": zeros((m,), start.dtype),
        "scale": zeros((), start.dtype) + 1.0, "k": count(), "n": count(1), "failed": false(), "stalled": false(),
    })  # fmt: skip
    return s["x"], _end(s, limits)


def _end(s: Any, limits: SolverLimits) -> tuple[Any, Any, Any, Any]:
    rest = relative(s["f"], s["g"])
    return ended(rest <= limits.tolerance, isfinite(rest) & isfinite(s["f"]), s["stalled"]), s["k"], s["n"], rest


def newton_cg(slope: Slope, start: Any, limits: SolverLimits) -> Solved:
    """Newton's method: conjugate gradients on Hessian products in a trust region (Steihaug 1983).

    Each product counts as one evaluation.
    """

    def more(s: Any) -> Any:
        """Whether the gradient is too large."""
        return (relative(s["f"], s["g"]) > limits.tolerance) & (s["k"] < limits.iterations) & ~s["stalled"]

    def step(s: Any) -> Any:
        """One step within the region, which grows or shrinks by how well the quadratic model predicted the value."""

        def gradient(x: Any) -> Any:
            """The gradient alone."""
            return slope(x)[1]

        move, products, edge = _steihaug(lambda v: jvp(gradient, (s["x"],), (v,))[1], s["g"], s["radius"])
        x = s["x"] + move["p"]
        f, g = slope(x)
        predicted = -((s["g"] * move["p"]).sum() + 0.5 * (move["p"] * move["hp"]).sum())
        noise = 10.0 * EPSILON[start.dtype] * maximum(abs(s["f"]), 1.0)  # of the two values
        ratio = (s["f"] - f + noise) / (predicted + noise)
        better = isfinite(f) & isfinite(g).all() & (ratio > 0.1)
        radius = where(~better | (ratio < 0.25), 0.25 * norm(move["p"]), s["radius"])
        radius = where(better & (ratio > 0.75) & edge, minimum(2.0 * s["radius"], s["most"]), radius)
        return {
            "x": where(better, x, s["x"]), "f": where(better, f, s["f"]), "g": where(better, g, s["g"]),
            "radius": radius, "most": s["most"], "k": s["k"] + 1, "n": s["n"] + products + 1,
            "stalled": radius <= EPSILON[start.dtype] * norm(s["x"]) * 0.01,
        }  # fmt: skip

    f, g = slope(start)
    scale = maximum(norm(start), 1.0)
    s = while_loop(more, step, {
        "x": start, "f": f, "g": g, "radius": RADIUS * scale, "most": GREATEST * scale, "k": count(), "n": count(1),
        "stalled": false(),
    })  # fmt: skip
    return s["x"], _end(s, limits)


def _steihaug(product: Callable[[Any], Any], g: Any, radius: Any) -> tuple[Any, Any, Any]:
    """The step of conjugate gradients to the edge of a region, with its product; the products; whether at the edge."""
    size, limit = norm(g), 2 * int(g.shape[0]) + 10
    small = minimum(0.5, sqrt(size)) * size  # the accuracy grows as the gradient falls

    def edge(p: Any, d: Any) -> Any:
        """The length along d at which p + length · d reaches the edge."""
        dd, pd = (d * d).sum(), (p * d).sum()
        rest = maximum(radius * radius - (p * p).sum(), 0.0)
        return (-pd + sqrt(pd * pd + dd * rest)) / where(dd == 0, 1.0, dd)

    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (norm(s["r"]) > small) & ~s["edge"] & (s["k"] < limit)

    def step(s: Any) -> Any:
        """One direction; one of negative curvature, or one that is too long, ends at the edge."""
        q = product(s["d"])
        curvature, rr = (s["d"] * q).sum(), (s["r"] * s["r"]).sum()
        upward = curvature > 0
        alpha = rr / where(upward, curvature, 1.0)
        outside = ~upward | (norm(s["p"] + alpha * s["d"]) >= radius)
        alpha = where(outside, edge(s["p"], s["d"]), alpha)
        r = s["r"] + alpha * q
        d = -r + ((r * r).sum() / rr) * s["d"]
        return {
            "p": s["p"] + alpha * s["d"], "hp": s["hp"] + alpha * q, "r": r, "d": d, "edge": outside, "k": s["k"] + 1,
        }  # fmt: skip

    none = zeros_like(g)
    first = {"p": none, "hp": zeros_like(g), "r": g, "d": -g, "edge": false(), "k": count()}
    s = while_loop(more, step, first)
    return s, s["k"], s["edge"]
