"""Every operation of the table agrees with its reference in every dtype and memory layout."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest

from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.primitive import registered
from nacre.ops import view
from nacre.trace.value import Value
from ops.row import Row
from ops.samples import Array, generator
from ops.table import ROWS

CONTROL = {"call", "masked", "cond", "while", "scan", "scalar_loop", "custom_jvp", "custom_vjp", "linear_solve"}
CONTROL |= {"refused"}


def apply(row: Row, arrays: tuple[Array, ...]) -> Array:
    """The row's operation on arrays."""
    return to_numpy(row.apply(*map(from_numpy, arrays)))


def seed(row: Row) -> int:
    """The row's own seed, so that rows do not depend on each other."""
    return crc32(row.name.encode())


def assert_close(found: Array, wanted: Any, ulps: float, what: str) -> None:
    """Equal dtype, shape, NaNs, and numbers within units in the last place (0: the same bits)."""
    wanted = np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    if found.dtype.kind == "c":
        found, wanted = (np.stack((x.real, x.imag), axis=-1) for x in (found, wanted))
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted, what)
        return
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    with np.errstate(all="ignore"):
        wrong = np.isnan(a) != np.isnan(b)
        wrong |= (a != b) & ~(np.abs(a - b) <= ulps * _spacing(b, found.dtype)) & ~np.isnan(a)
        wrong |= (a == b) & (np.signbit(a) != np.signbit(b)) & (ulps == 0)
    if wrong.any():
        k = np.flatnonzero(wrong)
        raise AssertionError(f"{what}: {len(k)} differ, first at {k[:5]}: {a[k[:5]]} for {b[k[:5]]}")


def _spacing(b: Array, dtype: Any) -> Array:
    """The unit in the last place of each number."""
    info = ml_dtypes.finfo(dtype)
    size = np.maximum(np.abs(b), float(info.tiny))
    return np.exp2(np.floor(np.log2(np.where(np.isfinite(size), size, 1)))) * float(info.eps)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_results_agree_with_the_reference(row: Row) -> None:
    for dtype in row.dtypes:
        for arrays in row.inputs(dtype, generator(seed(row))):
            what = f"{row.name} of {dtype.name} {[x.shape for x in arrays]}"
            assert_close(apply(row, arrays), row.reference(*arrays), row.ulps, what)


def scattered(x: Array) -> Value:
    """The numbers of x at every second position of larger memory, with the axes in reverse order there."""
    reversed_axes = np.array(x.T, order="C")
    apart = np.zeros([2 * n + 1 for n in reversed_axes.shape], x.dtype)
    apart[tuple(slice(1, 2 * n + 1, 2) for n in reversed_axes.shape)] = reversed_axes
    whole = from_numpy(apart)
    steps = (2,) * x.ndim
    inner = view.slice_(whole, (1,) * x.ndim, [2 * n + 1 for n in reversed_axes.shape], steps)
    return view.permute(inner, tuple(reversed(range(x.ndim))))


def backwards(x: Array) -> Value:
    """The numbers of x in reverse order in memory."""
    return view.flip(from_numpy(np.array(np.flip(x), order="C")), tuple(range(x.ndim)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_layout_does_not_change_bits(row: Row) -> None:
    for dtype in row.dtypes[-2:]:
        arrays = row.inputs(dtype, generator(seed(row)))[-1]
        dense = apply(row, arrays)
        for layout in (scattered, backwards):
            found = to_numpy(row.apply(*map(layout, arrays)))
            assert_close(found, dense, 0, f"{row.name} of {dtype.name} {layout.__name__}")


def test_every_primitive_is_in_the_table() -> None:
    ours = {name for name, p in registered().items() if p.type_rule.__module__.startswith("nacre.ops")}
    assert ours - CONTROL - {"check", "copy", "detach", "fence", "host_call", "with_numbers"} <= {
        row.primitive for row in ROWS
    }
