"""The special values of C's Annex G for numbers with re ≥ +0 and im ≥ +0, NaN included; others follow by symmetry.

`ANY` stands for a finite number above 0.  A result's part is a number, NaN, or ±number where its sign is not specified.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, inf, nan, pi, sin

from nacre.base.records import dataclass


@dataclass(frozen=True)
class EitherSign:
    """A number of either sign."""

    size: float


Part = float | EitherSign
Wanted = tuple[Part, Part]
Row = tuple[str, str, Wanted | Callable[[float], Wanted]]  # re, im, the result, which may be a function of im

ZERO, INF = EitherSign(0.0), EitherSign(inf)
UNKNOWN = (nan, nan)
NUMBERS = {"0": (0.0,), "any": (0.5, 1.0, 3.0, 40.0), "inf": (inf,), "nan": (nan,)}
FINITE_ABOVE_ZERO, FINITE = "any", "0 any"


def cis(y: float) -> Wanted:
    """The signs of e^(iy) at ∞, and +0 where y is."""
    return inf * cos(y), y if y == 0 else inf * sin(y)


def small_cis(y: float) -> Wanted:
    """The signs of e^(iy) at 0."""
    return 0.0 * cos(y), 0.0 * sin(y)


ANNEX_G: dict[str, list[Row]] = {
    "acos": [
        ("0", "0", (pi / 2, -0.0)), ("0", "nan", (pi / 2, nan)), (FINITE, "inf", (pi / 2, -inf)),
        ("any", "nan", UNKNOWN), ("inf", FINITE, (0.0, -inf)), ("inf", "inf", (pi / 4, -inf)),
        ("inf", "nan", (nan, INF)), ("nan", FINITE, UNKNOWN), ("nan", "inf", (nan, -inf)), ("nan", "nan", UNKNOWN),
    ],
    "acosh": [
        ("0", "0", (0.0, pi / 2)), (FINITE, "inf", (inf, pi / 2)), ("any", "nan", UNKNOWN),
        ("0", "nan", (nan, EitherSign(pi / 2))), ("inf", FINITE, (inf, 0.0)), ("inf", "inf", (inf, pi / 4)),
        ("inf", "nan", (inf, nan)), ("nan", FINITE, UNKNOWN), ("nan", "inf", (inf, nan)), ("nan", "nan", UNKNOWN),
    ],
    "asinh": [
        ("0", "0", (0.0, 0.0)), (FINITE, "inf", (inf, pi / 2)), (FINITE, "nan", UNKNOWN), ("inf", FINITE, (inf, 0.0)),
        ("inf", "inf", (inf, pi / 4)), ("inf", "nan", (inf, nan)), ("nan", "0", (nan, 0.0)), ("nan", "any", UNKNOWN),
        ("nan", "inf", (INF, nan)), ("nan", "nan", UNKNOWN),
    ],
    "atanh": [
        ("0", "0", (0.0, 0.0)), ("0", "nan", (0.0, nan)), (FINITE, "inf", (0.0, pi / 2)), ("any", "nan", UNKNOWN),
        ("inf", FINITE, (0.0, pi / 2)), ("inf", "inf", (0.0, pi / 2)), ("inf", "nan", (0.0, nan)),
        ("nan", FINITE, UNKNOWN), ("nan", "inf", (ZERO, pi / 2)), ("nan", "nan", UNKNOWN),
    ],
    "cosh": [
        ("0", "0", (1.0, 0.0)), ("0", "inf", (nan, ZERO)), ("0", "nan", (nan, ZERO)), ("any", "inf", UNKNOWN),
        ("any", "nan", UNKNOWN), ("inf", FINITE, cis), ("inf", "inf", (INF, nan)), ("inf", "nan", (inf, nan)),
        ("nan", "0", (nan, ZERO)), ("nan", "any", UNKNOWN), ("nan", "inf", UNKNOWN), ("nan", "nan", UNKNOWN),
    ],
    "sinh": [
        ("0", "0", (0.0, 0.0)), ("0", "inf", (ZERO, nan)), ("0", "nan", (ZERO, nan)), ("any", "inf", UNKNOWN),
        ("any", "nan", UNKNOWN), ("inf", FINITE, cis), ("inf", "inf", (INF, nan)), ("inf", "nan", (INF, nan)),
        ("nan", "0", (nan, 0.0)), ("nan", "any", UNKNOWN), ("nan", "inf", UNKNOWN), ("nan", "nan", UNKNOWN),
    ],
    "tanh": [
        ("0", "0", (0.0, 0.0)), ("0", "inf", (0.0, nan)), ("0", "nan", (0.0, nan)), ("any", "inf", UNKNOWN),
        ("any", "nan", UNKNOWN), ("inf", FINITE, lambda y: (1.0, 0.0 * sin(2 * y))), ("inf", "inf", (1.0, ZERO)),
        ("inf", "nan", (1.0, ZERO)), ("nan", "0", (nan, 0.0)), ("nan", "any", UNKNOWN), ("nan", "inf", UNKNOWN),
        ("nan", "nan", UNKNOWN),
    ],
    "exp": [
        ("0", "0", (1.0, 0.0)), (FINITE, "inf", UNKNOWN), (FINITE, "nan", UNKNOWN), ("inf", FINITE, cis),
        ("-inf", FINITE, small_cis), ("-inf", "inf", (ZERO, ZERO)), ("inf", "inf", (INF, nan)),
        ("-inf", "nan", (ZERO, ZERO)), ("inf", "nan", (INF, nan)), ("nan", "0", (nan, 0.0)), ("nan", "any", UNKNOWN),
        ("nan", "inf", UNKNOWN), ("nan", "nan", UNKNOWN),
    ],
    "log": [
        ("-0", "0", (-inf, pi)), ("0", "0", (-inf, 0.0)), (FINITE, "inf", (inf, pi / 2)), (FINITE, "nan", UNKNOWN),
        ("-inf", FINITE, (inf, pi)), ("inf", FINITE, (inf, 0.0)), ("-inf", "inf", (inf, 3 * pi / 4)),
        ("inf", "inf", (inf, pi / 4)), ("inf", "nan", (inf, nan)), ("-inf", "nan", (inf, nan)),
        ("nan", FINITE, UNKNOWN), ("nan", "inf", (inf, nan)), ("nan", "nan", UNKNOWN),
    ],
    "sqrt": [
        ("0", "0", (0.0, 0.0)), ("-0", "0", (0.0, 0.0)), (FINITE, "inf", (inf, inf)), ("-inf", "inf", (inf, inf)),
        ("inf", "inf", (inf, inf)), ("nan", "inf", (inf, inf)), (FINITE, "nan", UNKNOWN),
        ("-inf", FINITE, (0.0, inf)), ("inf", FINITE, (inf, 0.0)), ("-inf", "nan", (nan, INF)),
        ("inf", "nan", (inf, nan)), ("nan", FINITE, UNKNOWN), ("nan", "nan", UNKNOWN),
    ],
    # functions that Annex G does not have, by the same rules
    "exp2": [
        ("0", "0", (1.0, 0.0)), (FINITE, "inf", UNKNOWN), ("inf", "0", (inf, 0.0)), ("-inf", "any", (ZERO, ZERO)),
        ("-inf", "nan", (ZERO, ZERO)), ("inf", "inf", (INF, nan)), ("nan", "0", (nan, 0.0)), ("nan", "nan", UNKNOWN),
    ],
    "expm1": [
        ("0", "0", (0.0, 0.0)), ("-0", "0", (-0.0, 0.0)), (FINITE, "inf", UNKNOWN), ("inf", FINITE, cis),
        ("-inf", FINITE, lambda y: (-1.0, small_cis(y)[1])), ("-inf", "inf", (-1.0, ZERO)),
        ("-inf", "nan", (-1.0, ZERO)), ("inf", "inf", (INF, nan)), ("inf", "nan", (INF, nan)),
        ("nan", "0", (nan, 0.0)), ("nan", "nan", UNKNOWN),
    ],
    "sigmoid": [
        ("0", "0", (0.5, 0.0)), (FINITE, "inf", UNKNOWN), ("inf", "0 any inf nan", (1.0, ZERO)),
        ("-inf", "0 any inf nan", (ZERO, ZERO)), ("nan", "0", (nan, 0.0)), ("nan", "any inf nan", UNKNOWN),
    ],
    "log2": [("0", "0", (-inf, 0.0)), (FINITE, "nan", UNKNOWN), ("inf", "nan", (inf, nan)), ("inf", "0", (inf, 0.0))],
    "log10": [("0", "0", (-inf, 0.0)), (FINITE, "nan", UNKNOWN), ("inf", "nan", (inf, nan)), ("inf", "0", (inf, 0.0))],
    "log1p": [
        ("0", "0", (0.0, 0.0)), ("-0", "0", (-0.0, 0.0)), ("-1", "0", (-inf, 0.0)), (FINITE, "inf", (inf, pi / 2)),
        (FINITE, "nan", UNKNOWN), ("-inf", FINITE, (inf, pi)), ("inf", FINITE, (inf, 0.0)),
        ("-inf", "inf", (inf, 3 * pi / 4)), ("inf", "inf", (inf, pi / 4)), ("inf", "nan", (inf, nan)),
        ("nan", FINITE, UNKNOWN), ("nan", "inf", (inf, nan)), ("nan", "nan", UNKNOWN),
    ],
    "rsqrt": [
        ("0", "0", (inf, nan)), ("-0", "0", (inf, nan)), ("0 any -inf inf nan", "inf", (0.0, -0.0)),
        ("-inf inf", "0 any", (0.0, -0.0)), ("-inf inf", "nan", (0.0, ZERO)), ("nan", "0 any nan", UNKNOWN),
    ],
}  # fmt: skip


def numbers(name: str) -> tuple[float, ...]:
    """The numbers that a row's column stands for."""
    return tuple(v for each in name.split() for v in NUMBERS.get(each, ()) or (float(each),))


def cases(op: str) -> list[tuple[complex, Wanted]]:
    """Arguments with their results."""
    return [
        (complex(x, y), wanted(y) if callable(wanted) else wanted)
        for re, im, wanted in ANNEX_G[op]
        for x in numbers(re)
        for y in numbers(im)
    ]
