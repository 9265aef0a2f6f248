"""Roots of one equation between two points: bisection, and Chandrupatla's method.

Both keep an interval with a sign change, so they converge for every continuous function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.creation import zeros
from nacre.api.elementwise.arithmetic import sign
from nacre.api.elementwise.logic import isfinite
from nacre.api.manipulation import reshape
from nacre.api.searching import where
from nacre.optimize.krylov import Operator, Solved, count
from nacre.optimize.newton import SolverLimits
from nacre.optimize.problem import EPSILON
from nacre.optimize.solution import NO_BRACKET, ended
from nacre.transform.control import while_loop


def bisection(f: Operator, ends: Any, limits: SolverLimits) -> Solved:
    """Halves the interval, which gains one binary digit for each evaluation."""
    return _bracketed(f, ends, limits, lambda s: zeros((), ends.dtype) + 0.5)


def chandrupatla(f: Operator, ends: Any, limits: SolverLimits) -> Solved:
    """Inverse quadratic interpolation where it is safe, and bisection elsewhere (Chandrupatla 1997)."""

    def share(s: Any) -> Any:
        """The place of the next point between a (0) and b (1)."""
        a, b, c, fa, fb, fc = (s[name] for name in ("a", "b", "c", "fa", "fb", "fc"))
        width = where(b == c, 1.0, c - b)
        drop = where(fb == fc, 1.0, fc - fb)
        xi, phi = (a - b) / width, (fa - fb) / drop
        safe = (phi * phi < xi) & ((1.0 - phi) * (1.0 - phi) < 1.0 - xi) & (fb != fc) & (fa != fc) & (fa != fb)
        first = fa / where(fb == fa, 1.0, fb - fa) * (fc / where(fb == fc, 1.0, fb - fc))
        second = (c - a) / where(b == a, 1.0, b - a)
        second = second * (fa / where(fc == fa, 1.0, fc - fa)) * (fb / where(fc == fb, 1.0, fc - fb))
        return where(safe, first + second, 0.5)

    return _bracketed(f, ends, limits, share)


def _bracketed(f: Operator, ends: Any, limits: SolverLimits, share: Callable[[Any], Any]) -> Solved:
    """The root between two ends, where `share` chooses the next point; a is the newest point, b the opposite one."""

    def at(x: Any) -> Any:
        """The function at a point."""
        return reshape(f(reshape(x, (1,))), ())

    def margin(s: Any) -> Any:
        """Half of the least width of the interval."""
        return 2.0 * EPSILON[ends.dtype] * abs(s["x"]) + 0.5 * limits.tolerance

    def more(s: Any) -> Any:
        """Whether the interval is too wide."""
        return (abs(s["b"] - s["a"]) > 2.0 * margin(s)) & (s["fx"] != 0) & (s["k"] < limits.iterations) & s["open"]

    def step(s: Any) -> Any:
        """One evaluation, which makes the interval smaller."""
        width = where(s["b"] == s["a"], 1.0, s["b"] - s["a"])
        least = margin(s) / abs(width)
        t = share(s)
        t = where(t < least, least, where(t > 1.0 - least, 1.0 - least, t))
        x = s["a"] + t * (s["b"] - s["a"])
        fx = at(x)
        same = sign(fx) == sign(s["fa"])
        b, fb = where(same, s["b"], s["a"]), where(same, s["fb"], s["fa"])
        nearer = abs(fx) < abs(fb)
        return {
            "a": x, "b": b, "c": where(same, s["a"], s["b"]), "fa": fx, "fb": fb, "fc": where(same, s["fa"], s["fb"]),
            "x": where(nearer, x, b), "fx": where(nearer, fx, fb), "k": s["k"] + 1, "open": isfinite(fx),
        }  # fmt: skip

    a, b = ends[1], ends[0]
    fa, fb = at(a), at(b)
    nearer = abs(fa) < abs(fb)
    opposite = sign(fa) * sign(fb) <= 0
    s = while_loop(more, step, {
        "a": a, "b": b, "c": b, "fa": fa, "fb": fb, "fc": fb, "x": where(nearer, a, b), "fx": where(nearer, fa, fb),
        "k": count(), "open": opposite & isfinite(fa) & isfinite(fb),
    })  # fmt: skip
    narrow = (abs(s["b"] - s["a"]) <= 2.0 * margin(s)) | (s["fx"] == 0)
    finite = isfinite(s["fa"]) & isfinite(s["fb"])
    status = where(finite & ~opposite, NO_BRACKET, ended(narrow & finite, finite))
    return reshape(s["x"], (1,)), (status, s["k"], s["k"] + 2, abs(s["b"] - s["a"]))
