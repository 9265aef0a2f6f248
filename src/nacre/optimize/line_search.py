"""A line search for the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 3.5 and 3.6), as one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.api.creation import zeros
from nacre.api.elementwise.arithmetic import maximum, minimum, sign
from nacre.api.elementwise.logic import isfinite
from nacre.api.elementwise.transcendental import sqrt
from nacre.api.searching import where
from nacre.optimize.krylov import count, false
from nacre.transform.control import while_loop

DECREASE: Final = 1e-4  # of the value, as a share of the first slope
CURVATURE: Final = 0.9  # of the slope, as a share of the first one
EVALUATIONS: Final = 24  # of one search
Along = Callable[[Any], tuple[Any, Any]]  # a step → the value and the gradient there


def wolfe(along: Along, value: Any, gradient: Any, direction: Any, first: Any) -> tuple[Any, Any, Any, Any, Any]:
    """(step, value, gradient, evaluations, whether the value fell) of a search that begins with the step `first`.

    `low` is the best point so far, and `high` the other end of the bracket.  There is a bracket once a point is too
    high, or rises.
    """
    slope = (gradient * direction).sum()

    def more(s: Any) -> Any:
        """Whether no point is good yet."""
        return ~s["good"] & (s["n"] < EVALUATIONS)

    def step(s: Any) -> Any:
        """One evaluation."""
        t = s["t"]
        f, g = along(t)
        d = (g * direction).sum()
        usable = isfinite(f) & isfinite(d)
        high = ~usable | (f > value + DECREASE * t * slope) | (f >= s["f"])
        good = ~high & (abs(d) <= -CURVATURE * slope)
        turns = where(s["closed"], d * (s["t1"] - s["t0"]) >= 0, d >= 0)
        new = {
            "t0": where(high, s["t0"], t), "f": where(high, s["f"], f), "d": where(high, s["d"], d),
            "g": where(high, s["g"], g),
            "t1": where(high, t, where(turns, s["t0"], s["t1"])), "f1": where(high, f, where(turns, s["f"], s["f1"])),
            "d1": where(high, d, where(turns, s["d"], s["d1"])),
            "closed": s["closed"] | high | turns, "good": good, "n": s["n"] + 1, "t": t,
        }  # fmt: skip
        inside = _between(new)
        beyond = _cubic(s["t0"], s["f"], s["d"], t, f, d)
        width = t - s["t0"]
        beyond = where(isfinite(beyond), minimum(maximum(beyond, t + width), t + 8.0 * width), t + 2.0 * width)
        return {**new, "t": where(new["closed"], inside, beyond)}

    none = zeros((), value.dtype)
    s = while_loop(more, step, {
        "t0": none, "f": value, "d": slope, "g": gradient, "t1": none, "f1": value, "d1": slope,
        "closed": false(), "good": false(), "n": count(), "t": first,
    })  # fmt: skip
    return s["t0"], s["f"], s["g"], s["n"], s["good"] | (s["f"] < value)


def _between(s: Any) -> Any:
    """A point between the ends of a bracket, not too near to one of them."""
    t0, t1 = s["t0"], s["t1"]
    found = _cubic(t0, s["f"], s["d"], t1, s["f1"], s["d1"])
    low, width = minimum(t0, t1), abs(t1 - t0)
    inside = minimum(maximum(found, low + 0.1 * width), low + 0.9 * width)
    return where(isfinite(found), inside, t0 + 0.5 * (t1 - t0))


def _cubic(a: Any, fa: Any, da: Any, b: Any, fb: Any, db: Any) -> Any:
    """The minimum of the cubic through two values and slopes; not finite if there is none (ibid., equation 3.59)."""
    first = da + db - 3.0 * (fa - fb) / (a - b)
    second = sign(b - a) * sqrt(first * first - da * db)
    return b - (b - a) * (db + second - first) / (db - da + 2.0 * second)
