"""Sets and positions: `isin`, `unique_…`, `nonzero`, `searchsorted` and `repeat`, against NumPy and in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from same_bits import canonical

RNG = np.random.default_rng(3)
DTYPES = [nc.bool, nc.int8, nc.int64, nc.uint16, nc.uint64, nc.float16, nc.bfloat16, nc.float32, nc.float64]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (7,), (3, 0), (4, 5), (150,)]


def numbers(shape: tuple[int, ...], dtype: nc.DType, low: int = -4, high: int = 5) -> np.ndarray:
    """Small whole numbers, with repetitions, zeros of both signs, and NaN for floats."""
    x = RNG.integers(low if dtype.is_signed else 0, high, shape).astype(dtype.numpy)
    if dtype.is_float and x.size > 3:
        x.reshape(-1)[RNG.integers(0, x.size, x.size // 4)] = np.nan
        x.reshape(-1)[0] = -0.0
    return x


def by_numpy(x: np.ndarray) -> Any:
    """NumPy's distinct elements, each NaN by itself; it has no bfloat16."""
    wide = x.astype(np.float64) if x.dtype.kind in "Vf" else x
    return np.unique(wide, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_distinct_elements(dtype: nc.DType, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    values, indices, inverse, counts = by_numpy(x)
    found = nc.unique_all(nc.tensor(x))
    assert found.values.dtype is dtype
    np.testing.assert_array_equal(found.values.numpy().astype(values.dtype), values)
    for mine, theirs in ((found.indices, indices), (found.inverse_indices, inverse), (found.counts, counts)):
        assert mine.dtype is nc.int64
        np.testing.assert_array_equal(mine.numpy(), theirs.reshape(mine.shape))
    assert found.inverse_indices.shape == shape
    one, two, three = nc.unique_values(x), nc.unique_counts(x), nc.unique_inverse(x)
    assert canonical(one) == canonical(two.values) == canonical(three.values) == canonical(found.values)
    assert canonical(two.counts) == canonical(found.counts)
    assert canonical(three.inverse_indices) == canonical(found.inverse_indices)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nonzero(dtype: nc.DType, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    wanted = np.nonzero(x.astype(np.float64))
    found = nc.nonzero(nc.tensor(x))
    assert isinstance(found, tuple) and len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype is nc.int64
        np.testing.assert_array_equal(mine.numpy(), theirs)
    count = len(wanted[0])
    for size in (0, count // 2, count, count + 3):
        for mine, theirs in zip(nc.nonzero(x, size=size, fill_value=-1), wanted, strict=True):
            np.testing.assert_array_equal(mine.numpy(), np.append(theirs, [-1] * 3)[: min(size, count + 3)])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_searchsorted(dtype: nc.DType, side: Any) -> None:
    for size in (0, 1, 9, 100):
        row, wanted = np.sort(numbers((size,), dtype)), numbers((3, 4), dtype, -6, 8)
        row = row if dtype is not nc.bfloat16 else nc.sort(nc.tensor(row)).numpy()
        wide = row.astype(np.float64) if dtype.is_float else row
        found = nc.searchsorted(nc.tensor(row), nc.tensor(wanted), side=side)
        assert found.dtype is nc.int64
        np.testing.assert_array_equal(found.numpy(), np.searchsorted(wide, wanted.astype(wide.dtype), side=side))
        shuffled = RNG.permutation(size)
        sorter = np.argsort(shuffled)
        again = nc.searchsorted(nc.tensor(row[shuffled]), nc.tensor(wanted), side=side, sorter=nc.tensor(sorter))
        assert canonical(again) == canonical(found)
        assert canonical(nc.searchsorted(nc.tensor(row), nc.tensor(wanted)[0, 0])) == canonical(
            nc.searchsorted(nc.tensor(row), nc.tensor(wanted))[0, 0]
        )


@pytest.mark.parametrize("count", [0, 1, 5, 16, 17, 90])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_isin(dtype: nc.DType, count: int) -> None:
    for shape in SHAPES:
        x, values = numbers(shape, dtype), numbers((count,), dtype, 0, 3)
        wanted = np.isin(x.astype(np.float64), values.astype(np.float64))
        np.testing.assert_array_equal(nc.isin(nc.tensor(x), nc.tensor(values)).numpy(), wanted)
        np.testing.assert_array_equal(nc.isin(nc.tensor(x), nc.tensor(values), invert=True).numpy(), ~wanted)
    assert nc.isin(nc.tensor([1, 2]), 2).tolist() == [False, True] and nc.isin(2, nc.tensor([1, 2])).item() is True


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat_by_counts(axis: Any) -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    size = 12 if axis is None else x.shape[axis]
    for counts in (RNG.integers(0, 4, size), np.array([2]), np.zeros(size, np.int64), np.uint8(3)):
        wanted = np.repeat(x, counts, axis)
        for given in (counts, nc.tensor(counts), counts.tolist()):
            np.testing.assert_array_equal(nc.repeat(nc.tensor(x), given, axis=axis).numpy(), wanted)


MODES: dict[str, Callable[[Any], Any]] = {
    "unique_all": lambda x: nc.unique_all(x, size=6),
    "unique_counts": lambda x: nc.unique_counts(x, size=40),
    "unique_inverse": lambda x: nc.unique_inverse(x, size=30),
    "unique_values": lambda x: nc.unique_values(x * 2, size=3),
    "nonzero": lambda x: nc.nonzero(x > 0, size=9, fill_value=-1),
    "searchsorted": lambda x: nc.searchsorted(nc.tensor([-2.0, 0.0, 0.0, 3.0]), x, side="right"),
    "searchsorted rows": lambda x: nc.searchsorted(nc.sort(x), nc.tensor([[0.5, 2.0]])),
    "isin few": lambda x: nc.isin(x, nc.tensor([1.0, nc.nan, 0.0])),
    "isin many": lambda x: nc.isin(x, nc.arange(-2.0, 20.0)),
    "isin rows": lambda x: nc.isin(nc.arange(30.0), x),
    "repeat": lambda x: nc.repeat(x, nc.tensor([0, 2] * 12), axis=0),
}


@pytest.mark.parametrize("name", MODES)
def test_the_same_bits_in_every_mode(name: str) -> None:
    f = MODES[name]
    x = nc.tensor(numbers((3, 24), nc.float32))

    def bits(result: Any) -> list[Any]:
        """The bits of one tensor or several."""
        return [canonical(y) for y in (result if isinstance(result, tuple) else (result,))]

    rows = [f(row) for row in x]
    compiled = nc.jit(f)
    assert [bits(compiled(row)) for row in x] == [bits(row) for row in rows]
    stacked = nc.stack(rows) if not isinstance(rows[0], tuple) else tuple(nc.stack(r) for r in zip(*rows, strict=True))
    assert bits(nc.vmap(f)(x)) == bits(stacked)


def test_compiled_for_several_sizes() -> None:
    f = nc.jit(lambda x: (nc.searchsorted(nc.sort(x), x), nc.isin(x, x + 1), *nc.nonzero(x, size=4)))
    for n in (5, 20, 33, 70):
        x = nc.tensor(numbers((n,), nc.int32))
        assert [canonical(y) for y in f(x)] == [
            canonical(y) for y in (nc.searchsorted(nc.sort(x), x), nc.isin(x, x + 1), *nc.nonzero(x, size=4))
        ]
    assert len(f.concrete_functions) <= 3


def test_gradients_are_those_of_the_elements_places() -> None:
    x = nc.tensor([3.0, 1.0, 3.0, 2.0])
    weights = nc.tensor([1.0, 10.0, 100.0])
    found = nc.grad(lambda v: nc.sum(nc.unique_values(v) * weights))(x)
    assert found.tolist() == [100.0, 1.0, 0.0, 10.0]
    assert nc.grad(lambda v: nc.sum(nc.repeat(v, [1, 0, 2, 3])))(x).tolist() == [1.0, 0.0, 2.0, 3.0]
    picked = nc.grad(lambda v: nc.sum(v[nc.nonzero(v > 1.5)] * 2.0))(x)
    assert picked.tolist() == [2.0, 0.0, 2.0, 2.0]


def test_traced_numbers_need_a_size() -> None:
    for f in (nc.nonzero, nc.unique_values, nc.unique_counts, nc.unique_inverse, nc.unique_all):
        with pytest.raises(nc.TraceError, match=f"{f.__name__}: without size=, the tensor must have known numbers"):
            nc.jit(f)(nc.ones(3))
    with pytest.raises(nc.TraceError, match="repeat: a count for each element must be a known number"):
        nc.jit(nc.repeat)(nc.ones(3), nc.tensor([1, 2, 3]))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: nc.nonzero(nc.tensor(1)), nc.ShapeError, "x must have at least one axis"),
        (lambda: nc.nonzero([1], size=-1), nc.ArgumentError, "size must be at least 0"),
        (lambda: nc.unique_values([1], size=-1), nc.ArgumentError, "size must be at least 0"),
        (lambda: nc.unique_values(nc.zeros(0), size=2), nc.ShapeError, "an x without elements has size 0"),
        (lambda: nc.unique_values([1], size=1.5), nc.KindError, "size must be an integer"),  # type: ignore[arg-type]
        (lambda: nc.searchsorted(nc.zeros((2, 2)), 1.0), nc.ShapeError, "x must be a vector"),
        (lambda: nc.searchsorted([1, 2], 1, side="middle"), nc.ArgumentError, 'side must be "left" or "right"'),
        (lambda: nc.searchsorted([1, 2], 1, sorter=[0]), nc.ShapeError, "sorter must be integers of shape"),
        (lambda: nc.searchsorted([1, 2], 1.5, sorter=[0.0, 1.0]), nc.ShapeError, "sorter must be integers"),
        (lambda: nc.searchsorted(nc.tensor([1, 2]), nc.tensor(1.0)), nc.DTypeError, "dtypes must be of one kind"),
        (lambda: nc.isin(nc.tensor([1, 2]), nc.tensor([1.0])), nc.DTypeError, "dtypes must be of one kind"),
        (lambda: nc.repeat([1, 2], [1, 2, 3]), nc.ShapeError, "one for each of 2 elements"),
        (lambda: nc.repeat([1, 2], [[1, 2]]), nc.ShapeError, "one for each of 2 elements"),
        (lambda: nc.repeat([1, 2], [1, -2]), nc.ArgumentError, "repeats must be at least 0; got -2"),
        (lambda: nc.repeat([1, 2], -1), nc.ArgumentError, "repeats must be at least 0; got -1"),
        (lambda: nc.repeat([1, 2], [0.5, 1.0]), nc.DTypeError, "repeats must be integers"),
    ],
)
def test_refused_arguments(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_counts_of_the_first_distinct_elements_are_theirs_alone() -> None:
    x = nc.tensor([1, 2, 2, 3, 3, 3])
    for size, counts in ((2, [1, 2]), (3, [1, 2, 3]), (5, [1, 2, 3, 0, 0]), (0, [])):
        assert nc.unique_counts(x, size=size).counts.tolist() == counts
        assert nc.jit(lambda v, size=size: nc.unique_all(v, size=size).counts)(x).tolist() == counts
