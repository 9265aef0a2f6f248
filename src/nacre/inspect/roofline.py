"""The roofline chart: operations per second of kernels by operations per byte, below the machine's limits.

A kernel below the slanted roof is limited by memory, one below the level roof by arithmetic (Williams, Waterman and
Patterson 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nacre.inspect.ceilings import Ceilings
from nacre.inspect.plot import Chart, Series
from nacre.inspect.profile import Profile, Row

GIGA = 1e9
LOWEST, HIGHEST = 0.01, 10_000.0  # operations for each byte, at the ends of the chart
SHOWN = 0.01  # of a program's time: rows below this share are omitted


def chart(profiles: Sequence[Profile], title: str = "Roofline") -> Chart:
    """The chart of some programs' kernels; a point's area is its share of its program's time.

    >>> from nacre.inspect import profile, roofline
    >>> report = profile.profile(lambda a, b: nc.tanh(a @ b), nc.ones((64, 32)), nc.ones((32, 8)), rounds=3)
    >>> roofline.chart([report]).svg()[:4]
    '<svg'
    """
    limits = profiles[0].ceilings
    return Chart(
        f"{title}: {limits.isa}, {limits.threads} thread{'s' if limits.threads > 1 else ''}",
        "operations for each byte",
        "GFLOP/s",
        (*_roofs(limits), *map(_points, profiles)),
    )


def _roofs(limits: Ceilings) -> tuple[Series, ...]:
    peak = limits.flops["f32"] / GIGA
    cache = limits.bandwidth(limits.bandwidths[0][0])
    return (
        _roof("roof: memory, float32", limits.memory / GIGA, peak, False),
        _roof("roof: first cache, float32", cache / GIGA, peak, True),
    )


def _roof(name: str, bandwidth: float, peak: float, dashed: bool) -> Series:
    ridge = peak / bandwidth
    points = ((LOWEST, LOWEST * bandwidth), (ridge, peak), (HIGHEST, peak))
    return Series(name, points, dashed=dashed)


def _points(profile: Profile) -> Series:
    rows = [r for r in profile.rows if r.flops and r.bytes and r.seconds > SHOWN * profile.walked]
    return Series(
        profile.name,
        tuple((min(max(r.intensity, LOWEST), HIGHEST), r.flops / r.seconds / GIGA) for r in rows),
        joined=False,
        radii=tuple(3 + 12 * math.sqrt(r.seconds / profile.walked) for r in rows),
        tips=tuple(_tip(r) for r in rows),
    )


def _tip(row: Row) -> str:
    return (
        f"{row.label}: {row.seconds * 1e6:.1f} µs, {row.flops / row.seconds / GIGA:.1f} GFLOP/s, "
        f"{row.bytes / row.seconds / GIGA:.1f} GB/s, {row.share:.0%} of the roof"
    )
