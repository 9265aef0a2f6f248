"""Rows of Fourier transforms; the references are the definitions of their bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nacre.kernel import order_fft
from nacre.ops import fft
from ops import samples
from ops.row import SINGLE, Row, normal, several, shaped
from ops.samples import Array

LENGTHS = (1, 2, 3, 12, 17, 40)
BATCHES = ((), (3,), (0,), (2, 9))


def _pairs(n: int) -> Callable[..., list[tuple[Array, ...]]]:
    return several(*(shaped((*batch, n, 2)) for batch in BATCHES))


def _numbers(n: int) -> Callable[..., list[tuple[Array, ...]]]:
    return several(*(shaped((*batch, n)) for batch in BATCHES))


def _with_edges(n: int) -> Callable[..., list[tuple[Array, ...]]]:
    """Pairs among which are infinities, NaN, subnormal and extreme numbers."""

    def make(dtype: object, rng: np.random.Generator) -> list[tuple[Array, ...]]:
        x = samples.random(dtype, (5, n, 2), rng)  # type: ignore[arg-type]
        for row, value in zip(x[1:], (np.inf, np.nan, 1e-310, -0.0), strict=True):
            row[n // 2, 0] = value
        return [(x,)]

    return make


ROWS = [
    Row(
        f"fft-{n}-{inverse}",
        lambda x, inverse=inverse: fft.fft(x, inverse),
        lambda x, inverse=inverse: order_fft.fft(x, inverse),
        several(_pairs(n), _with_edges(n)),
        SINGLE,
        active=(0,),
        smooth=normal((2, n, 2)),
    )
    for n in LENGTHS
    for inverse in (False, True)
]

ROWS += [
    Row(f"rfft-{n}", fft.rfft, order_fft.rfft, _numbers(n), SINGLE, active=(0,), smooth=normal((2, n))) for n in LENGTHS
]

ROWS += [
    Row(
        f"irfft-{n}",
        lambda x, n=n: fft.irfft(x, n),
        lambda x, n=n: order_fft.irfft(x, n),
        _pairs(n // 2 + 1),
        SINGLE,
        active=(0,),
        smooth=normal((2, n // 2 + 1, 2)),
    )
    for n in LENGTHS
]
