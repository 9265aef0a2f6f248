"""Every operation of the table: both modes and finite differences agree, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import pytest

from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.forward import jvp
from nacre.interpret.vjp import vjp
from nacre.ops.pointwise import zeros_like
from nacre.trace.value import Value
from ops.row import Row
from ops.samples import Array
from ops.table import ROWS

SMOOTH = [row for row in ROWS if row.active and row.smooth is not None]
STEP, TOLERANCE = 1e-5, 2e-5

Function = Callable[..., list[Value]]


def setup(row: Row) -> tuple[list[Array], Function, list[Array], Array]:
    """The active operands, the operation as their function, a direction, and a cotangent."""
    rng = np.random.default_rng(crc32(row.name.encode()))
    assert row.smooth is not None
    arrays = list(row.smooth(rng))
    values = [from_numpy(a) for a in arrays]

    def f(*xs: Value) -> list[Value]:
        operands = list(values)
        for k, x in zip(row.active, xs, strict=True):
            operands[k] = x
        return [row.apply(*operands)]

    active = [arrays[k] for k in row.active]
    y = to_numpy(row.apply(*values))
    return (
        active,
        f,
        [np.asarray(rng.normal(size=a.shape)) for a in active],
        np.asarray(rng.normal(size=y.shape)),
    )


def values_of(arrays: Sequence[Array]) -> list[Value]:
    return [from_numpy(np.asarray(a)) for a in arrays]


def filled(found: Sequence[Value | None], like: Sequence[Value]) -> list[Value]:
    return [zeros_like(x) if g is None else g for g, x in zip(found, like, strict=True)]


def inner(a: Sequence[Array], b: Sequence[Array]) -> float:
    return float(sum(np.sum(x * y) for x, y in zip(a, b, strict=True)))


def shifted(f: Function, xs: Sequence[Array], ts: Sequence[Array], step: float) -> list[Array]:
    found = f(*values_of([x + step * t for x, t in zip(xs, ts, strict=True)]))
    return [np.array(to_numpy(y)) for y in found]


def differences(f: Function, xs: Sequence[Array], ts: Sequence[Array]) -> list[Array]:
    """Central differences along a direction."""
    pairs = zip(shifted(f, xs, ts, STEP), shifted(f, xs, ts, -STEP), strict=True)
    return [(a - b) / (2 * STEP) for a, b in pairs]


def assert_near(found: Array | float, wanted: Array | float) -> None:
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE * scale, rtol=TOLERANCE)


def gradient(f: Function, cotangent: Array) -> Function:
    """The gradient of <cotangent, f> as a function."""

    def g(*xs: Value) -> list[Value]:
        _, pull = vjp(f, xs)
        return filled(pull([from_numpy(cotangent)]), xs)

    return g


@pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
def test_first_order(row: Row) -> None:
    xs, f, ts, c = setup(row)
    outputs, tangents = jvp(f, values_of(xs), values_of(ts))
    (moved,) = [to_numpy(t) for t in filled(tangents, outputs)]
    assert_near(moved, differences(f, xs, ts)[0])
    gs = [to_numpy(g) for g in gradient(f, c)(*values_of(xs))]
    assert [g.shape for g in gs] == [x.shape for x in xs]
    assert_near(inner(gs, ts), inner([moved], [c]))


@pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
def test_second_order(row: Row) -> None:
    xs, f, ts, c = setup(row)
    g = gradient(f, c)
    wanted = differences(g, xs, ts)
    gs, over = jvp(g, values_of(xs), values_of(ts))
    forward = [to_numpy(t) for t in filled(over, gs)]
    for a, b in zip(forward, wanted, strict=True):
        assert_near(a, b)
    _, pull = vjp(g, values_of(xs))
    back = [to_numpy(t) for t in filled(pull(values_of(ts)), gs)]
    for a, b in zip(back, forward, strict=True):  # the matrix of second derivatives is symmetric
        assert_near(a, b)
