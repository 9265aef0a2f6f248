"""Rows of sorting and of binary search."""

from __future__ import annotations

import numpy as np

from nacre.base.dtypes import DType
from nacre.ops import search, sort
from ops import samples
from ops.row import ORDERED, Row
from ops.samples import Array, Arrays


def positions(x: Array, axis: int, descending: bool) -> Array:
    """The permutation that sorts x: NumPy's stable order of the numbers, negated or inverted if descending."""
    wide = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    if descending:
        wide = -wide if wide.dtype.kind == "f" else ~wide
    return np.argsort(wide, axis, kind="stable").astype(np.int64)


def _rows(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    """Rows that are short, long, empty, of equal elements, and of edge cases."""
    long = samples.random(dtype, (3, 300), rng)
    long[:, 100:200] = long[:, :100]
    edges = rng.permuted(np.stack([samples.edges(dtype)] * 5), axis=1)
    return [
        (long,),
        (edges,),
        (samples.random(dtype, (33, 7), rng),),
        (samples.random(dtype, (0, 3), rng),),
        (samples.random(dtype, (3, 1), rng),),
    ]


ROWS = [
    Row(
        f"argsort-{axis}-{descending}",
        lambda x, axis=axis, descending=descending: sort.argsort(x, axis, descending),
        lambda x, axis=axis, descending=descending: positions(x, axis, descending),
        _rows,
        ORDERED,
    )
    for axis, descending in ((1, False), (0, True))
]

ROWS += [
    Row(
        f"first_positions-{count}-{descending}",
        lambda x, count=count, descending=descending: sort.first_positions(x, count, 1, descending),
        lambda x, count=count, descending=descending: positions(x, 1, descending)[:, :count],
        lambda dtype, rng: [rows for rows in _rows(dtype, rng) if rows[0].shape[1] >= 3],
        ORDERED,
    )
    for count, descending in ((1, True), (3, False))
] + [
    Row(
        "first_positions-100-along-0",
        lambda x: sort.first_positions(x, 100, 0, True),
        lambda x: positions(x, 0, True)[:100],
        lambda dtype, rng: [(_rows(dtype, rng)[0][0].T.copy(),)],
        ORDERED,
    )
]


def _sorted_rows(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    """Sorted rows and numbers to look for, some of which are in them."""
    made: list[Arrays] = []
    for (x,) in _rows(dtype, rng)[:2]:
        row = np.take_along_axis(x, positions(x, 1, False), 1)
        made.append((row, np.concatenate([x[:, ::3], samples.random(dtype, (len(x), 5), rng)], axis=1)))
    return made


def _places(x: Array, v: Array, right: bool) -> Array:
    """NumPy's binary search in each row."""
    wide = (x.astype(np.float64), v.astype(np.float64)) if x.dtype.kind not in "iub" else (x, v)
    side = "right" if right else "left"
    return np.stack([np.searchsorted(row, wanted, side=side) for row, wanted in zip(*wide, strict=True)])


ROWS += [
    Row(
        f"search-{right}",
        lambda x, v, right=right: search.search(x, v, 1, right),
        lambda x, v, right=right: _places(x, v, right),
        _sorted_rows,
        ORDERED,
    )
    for right in (False, True)
]
