"""Statistics of random tensors against NumPy, over shapes, axes and dtypes: eagerly, compiled and in batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nacre as nc

SHAPES = [(7,), (3, 5), (2, 3, 4), (1, 6)]
FLOATS = [nc.float64, nc.float32, nc.float16, nc.bfloat16]
ULPS = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
AXES: list[Any] = [None, 0, -1, (0, 1)]
REDUCTIONS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian", "median"]
METHODS = ["linear", "lower", "higher", "nearest", "midpoint"]


def _sample(shape: tuple[int, ...], dtype: nc.DType, missing: bool, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A tensor of a few numbers, of which some are equal, and the same numbers in float64."""
    rng = np.random.default_rng(seed)
    held = rng.integers(-6, 7, shape) / 4.0
    if missing:
        held[rng.random(shape) < 0.3] = np.nan
        held[(0,) * len(shape)] = 1.0
    x = nc.tensor(held).astype(dtype)
    return x, x.astype(nc.float64).numpy()


def _axes(shape: tuple[int, ...]) -> Iterator[Any]:
    return (a for a in AXES if not isinstance(a, tuple) or len(shape) > 1)


def _same(found: Any, wanted: Any, dtype: nc.DType) -> None:
    with np.errstate(over="ignore"):
        rounded = nc.tensor(np.asarray(wanted, np.float64)).astype(dtype).astype(nc.float64).numpy()
    tolerance = ULPS[dtype.name]
    np.testing.assert_allclose(found.astype(nc.float64).numpy(), rounded, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: nc.DType) -> None:
    run = getattr(nc, name)
    for seed, shape in enumerate(SHAPES):
        x, held = _sample(shape, dtype, name.startswith("nan"), seed)
        for axis in _axes(shape):
            for keepdims in (False, True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    wanted = getattr(np, name)(held, axis=axis, keepdims=keepdims)
                found = run(x, axis=axis, keepdims=keepdims)
                assert found.shape == np.shape(wanted) and found.dtype is dtype
                _same(found, wanted, dtype)
        assert str(nc.jit(lambda x: run(x, axis=0))(x)) == str(run(x, axis=0))
        if len(shape) > 1:
            assert str(nc.vmap(run)(x)) == str(nc.stack([run(row) for row in x]))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nancumsum", "nancumprod"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64, np.bool_])
def test_integers_have_no_nan(name: str, dtype: Any) -> None:
    held = np.array([3, 1, 2]).astype(dtype)
    assert getattr(nc, name)(held).tolist() == getattr(np, name)(held).tolist()


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod", "nanargmax", "nanargmin"])
def test_along_an_axis_without_nan(name: str) -> None:
    for seed, shape in enumerate(SHAPES):
        x, held = _sample(shape, nc.float64, True, seed)
        if name.startswith("nanarg"):
            held = np.where(np.isnan(held).all(-1, keepdims=True), 0.0, held)
            x = nc.tensor(held)
        found = getattr(nc, name)(x, axis=-1)
        np.testing.assert_allclose(found.numpy(), getattr(np, name)(held, axis=-1), rtol=1e-14)
        assert str(nc.jit(lambda x: getattr(nc, name)(x, axis=-1))(x)) == str(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_quantiles(name: str, method: str) -> None:
    whole = 100 if "percent" in name else 1
    for seed, shape in enumerate(SHAPES):
        x, held = _sample(shape, nc.float64, name.startswith("nan"), seed)
        for axis in _axes(shape):
            for q in (0.3, [0.0, 0.5, 1.0], *([] if name.startswith("nan") else [[[0.125], [0.75]]])):
                places = np.multiply(q, whole)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    wanted = getattr(np, name)(held, places, axis=axis, method=method)
                found = getattr(nc, name)(x, places, axis=axis, method=method)
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13, atol=1e-15)
    x = nc.tensor(np.random.default_rng(0).normal(size=(3, 6)))
    run = lambda x, q: nc.quantile(x, q, 1, method=method)  # noqa: E731
    assert str(nc.jit(run)(x, nc.tensor(0.3))) == str(run(x, nc.tensor(0.3)))
    nc.check_grads(lambda x: run(x, [0.2, 0.6]), (x,), order=2)


def test_a_nan_makes_a_quantile_nan_and_infinities_are_numbers() -> None:
    x = nc.tensor([[1.0, nc.nan], [nc.inf, nc.inf], [-nc.inf, 2.0]])
    assert str(nc.quantile(x, 0.5, 1).tolist()) == "[nan, inf, -inf]"
    assert str(nc.nanmedian(x, axis=1).tolist()) == "[1.0, inf, -inf]"
    assert str(nc.nanquantile([nc.nan, nc.nan], [0.1, 0.9]).tolist()) == "[nan, nan]"


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [*FLOATS, nc.int8, nc.uint64, nc.bool], ids=lambda d: d.name)
def test_running_extrema(name: str, dtype: nc.DType) -> None:
    ufunc = {"cummax": np.maximum, "cummin": np.minimum}[name]
    for seed, shape in enumerate(SHAPES):
        x, held = _sample(shape, nc.float64, dtype.is_float, seed)
        x = (nc.tensor(np.abs(held)) if not dtype.is_float else x).astype(dtype)
        values, places = getattr(nc, name)(x, axis=-1)
        wanted = ufunc.accumulate(x.astype(nc.float64).numpy(), -1)
        np.testing.assert_array_equal(values.astype(nc.float64).numpy(), wanted)
        assert values.dtype is dtype and str(nc.take_along_axis(x, places)) == str(values)
        assert str(nc.jit(lambda x: getattr(nc, name)(x, axis=-1))(x)) == str((values, places))
    nc.check_grads(lambda x: getattr(nc, name)(x, axis=1)[0], (nc.tensor([[0.5, 2.0, 1.0], [3.0, 4.0, -1.0]]),))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_running_logarithms_of_sums(dtype: nc.DType) -> None:
    x, held = _sample((3, 9), dtype, False)
    found = nc.logcumsumexp(x, axis=1)
    _same(found, np.logaddexp.accumulate(held, 1), dtype)
    assert str(nc.jit(lambda x: nc.logcumsumexp(x, axis=1))(x)) == str(found)
    far = nc.tensor([-1000.0, 1000.0, -nc.inf, 999.0])
    np.testing.assert_allclose(nc.logcumsumexp(far).numpy(), np.logaddexp.accumulate(far.numpy()), rtol=1e-6)
    nc.check_grads(lambda x: nc.logcumsumexp(x, axis=0), (nc.tensor(held),), order=2)


def test_no_elements_have_the_quantile_nan_where_nan_is_left_out() -> None:
    assert np.isnan(nc.nanmedian(nc.zeros(0)).item())
    for f in (nc.nanmedian, nc.jit(nc.nanmedian)):
        assert np.isnan(f(nc.zeros((2, 0)), axis=1).numpy()).tolist() == [True, True]
    assert nc.nanmedian(nc.zeros((2, 0)), axis=0).shape == (0,)
    assert nc.nanquantile(nc.zeros((2, 0)), [0.0, 0.5, 1.0], axis=1, keepdims=True).shape == (3, 2, 1)
    with pytest.raises(nc.ShapeError, match="median: x must not be empty"):
        nc.median(nc.zeros(0))


def test_a_running_sum_of_a_matrix_says_what_to_write() -> None:
    for f in (nc.nancumsum, nc.nancumprod, nc.cummax):
        with pytest.raises(nc.ShapeError, match=f"^{f.__name__}: axis must be given for x of rank 2.*write axis=0"):
            f(nc.zeros((2, 2)))


def test_modes() -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.int64, np.float32, np.bool_, np.uint8):
        for shape in SHAPES:
            held = rng.integers(0, 3, shape).astype(dtype)
            for axis in range(-len(shape), len(shape)):
                value, place = nc.mode(held, axis)

                def most(row: np.ndarray) -> Any:
                    numbers, counts = np.unique(row, return_counts=True)
                    return numbers[counts.argmax()]

                def last(row: np.ndarray) -> Any:
                    return np.flatnonzero(row == most(row))[-1]

                np.testing.assert_array_equal(value.numpy(), np.apply_along_axis(most, axis, held))
                np.testing.assert_array_equal(place.numpy(), np.apply_along_axis(last, axis, held))
    assert nc.mode([[1, 1, 2]], keepdims=True)[0].shape == (1, 1)
    assert nc.grad(lambda x: nc.mode(x)[0])(nc.tensor([1.0, 2.0, 1.0])).tolist() == [0, 0, 1]


# ---- bins


VALUES = np.random.default_rng(4).normal(size=50)
WHOLE = np.random.default_rng(5).integers(0, 9, 40)
BINS: list[dict[str, Any]] = [
    {}, {"bins": 5}, {"bins": [-1.0, 0.0, 0.5, 2.0]}, {"bins": 7, "range": (-1, 1)}, {"bins": 4, "density": True},
    {"bins": 3, "weights": np.linspace(0, 1, 50)}, {"bins": [-1.0, 1.0, 4.0], "density": True},
]  # fmt: skip


@pytest.mark.parametrize("settings", BINS, ids=str)
@pytest.mark.parametrize("values", [VALUES, VALUES.astype(np.float32), np.resize(WHOLE, 50)], ids=["f64", "f32", "i64"])
def test_histograms(values: np.ndarray, settings: dict[str, Any]) -> None:
    counts, edges = np.histogram(values, **settings)
    found, ends = nc.histogram(values, **settings)
    np.testing.assert_allclose(found.numpy(), counts, rtol=1e-5)
    np.testing.assert_allclose(ends.numpy(), edges, rtol=1e-6)
    compiled = nc.jit(lambda x: nc.histogram(x, **settings))(nc.tensor(values))
    assert str(compiled) == str((found, ends))
    assert found.dtype is nc.tensor(counts).dtype or settings


def test_histograms_of_points() -> None:
    points = np.random.default_rng(6).normal(size=(60, 3))
    for bins in (4, [2, 3, 4], [np.linspace(-2, 2, 4)] * 3):
        for density in (False, True):
            counts, edges = np.histogramdd(points, bins, density=density)
            found, ends = nc.histogramdd(points, bins, density=density)
            np.testing.assert_allclose(found.numpy(), counts, rtol=1e-12)
            assert all(np.allclose(a.numpy(), b) for a, b in zip(ends, edges, strict=True))
    counts, first, second = np.histogram2d(points[:, 0], points[:, 1], [3, 4], [(-1, 1), (-2, 2)])
    found = nc.histogram2d(points[:, 0], points[:, 1], [3, 4], [(-1, 1), (-2, 2)])
    for one, other in zip(found, (counts, first, second), strict=True):
        np.testing.assert_allclose(one.numpy(), other)


def test_edge_cases_of_histograms() -> None:
    assert nc.histogram([2, 2])[1].tolist() == np.histogram([2, 2])[1].tolist()
    assert nc.histogram(nc.zeros(0), 3)[1].tolist() == nc.tensor(np.histogram([], 3)[1], dtype=nc.float32).tolist()
    assert nc.histogram([1.0, nc.nan, 3.0], [0.0, 1.0, 3.0])[0].tolist() == [0, 2]
    assert nc.histc([1.0, 2.0, 1.0, 5.0], 4, 0, 3).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.5, 4.0], [4.0, 2.5, 1.0, 0.0], [1.0], [1.0, 1.0]])
@pytest.mark.parametrize("right", [False, True])
def test_digitize(bins: list[float], right: bool) -> None:
    values = np.array([[0.0, 1.0, 2.0], [2.5, 4.0, 9.0], [-1.0, 0.5, 3.0]])
    wanted = np.digitize(values, bins, right).tolist()
    assert nc.digitize(values, bins, right=right).tolist() == wanted
    assert (
        nc.jit(lambda x, b: nc.digitize(x, b, right=right))(nc.tensor(values), nc.tensor(bins, nc.float64)).tolist()
        == wanted
    )
    ascending = sorted(bins)
    side: Any = "right" if right else "left"
    assert nc.bucketize(values, ascending, right=right).tolist() == np.searchsorted(ascending, values, side).tolist()


def test_bincount() -> None:
    weights = np.linspace(0.5, 2, 40)
    assert nc.bincount(WHOLE).tolist() == np.bincount(WHOLE).tolist()
    np.testing.assert_allclose(nc.bincount(WHOLE, weights, 12).numpy(), np.bincount(WHOLE, weights, 12), rtol=1e-14)
    assert nc.bincount([], minlength=2).tolist() == [0, 0] and nc.bincount(nc.zeros(0, nc.int32)).shape == (0,)
    compiled = nc.jit(lambda x: nc.bincount(x, length=10))
    assert compiled(nc.tensor(WHOLE)).tolist() == np.bincount(WHOLE, minlength=10).tolist()
    with pytest.raises(nc.AxisError, match=r"must be in \[0, 10\); got 10"):
        compiled(nc.tensor([10]))
    nc.check_grads(lambda w: nc.bincount(WHOLE, w), (nc.tensor(weights),))


# ---- covariances and interpolation


@pytest.mark.parametrize("kind", ["real", "complex", "vector", "half"])
def test_covariances(kind: str) -> None:
    rng = np.random.default_rng(7)
    x: Any = rng.normal(size=(3, 8))
    x = {"real": x, "complex": x + 1j * rng.normal(size=(3, 8)), "vector": x[0], "half": x.astype(np.float16)}[kind]
    close = {"rtol": 2e-3, "atol": 2e-3} if kind == "half" else {"rtol": 1e-12, "atol": 1e-14}
    for rowvar in (True, False):
        np.testing.assert_allclose(nc.corrcoef(x, rowvar=rowvar).numpy(), np.corrcoef(x, rowvar=rowvar), **close)
        for correction in (0, 1):
            found = nc.cov(x, rowvar=rowvar, correction=correction)
            np.testing.assert_allclose(found.numpy(), np.cov(x, rowvar=rowvar, ddof=correction), **close)
    f, a = rng.integers(1, 4, 8), rng.uniform(0.5, 2, 8)
    found = nc.cov(x, x, fweights=f, aweights=a)
    np.testing.assert_allclose(found.numpy(), np.cov(x, x, fweights=f, aweights=a), **close)
    if kind == "real":
        nc.check_grads(nc.cov, (nc.tensor(x),), order=2)
        nc.check_grads(nc.corrcoef, (nc.tensor(x),), modes=("rev",))
        assert str(nc.jit(nc.corrcoef)(nc.tensor(x))) == str(nc.corrcoef(x))


def test_bins_that_neither_ascend_nor_descend_are_refused() -> None:
    bins, wanted = nc.tensor([0.0, 3.0, 1.0]), "element 2 is out of this order"
    for f in (lambda b: nc.digitize([1.0], b), nc.jit(lambda b: nc.digitize([1.0], b))):
        with pytest.raises(nc.ArgumentError, match=wanted):
            f(bins)


def test_weights_of_elements_outside_of_all_bins_have_no_gradient() -> None:
    x, weights = nc.tensor([-5.0, 0.5, 0.2, 9.0]), nc.ones(4)

    def line(w: Any) -> Any:
        return nc.sum(nc.histogram(x, 2, (0.0, 1.0), weights=w)[0] * nc.tensor([10.0, 20.0]))

    def grid(w: Any) -> Any:
        return nc.sum(nc.histogram2d(x, x, 2, [(0.0, 1.0)] * 2, weights=w)[0] * nc.tensor([[10.0, 0.0], [0.0, 20.0]]))

    for f in (line, grid, nc.jit(line), nc.jit(grid)):
        assert nc.grad(f)(weights).tolist() == [0.0, 20.0, 10.0, 0.0]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64"])
def test_counts_of_all_integer_dtypes(dtype: str) -> None:
    values = np.array([2, 4, 0, 2], dtype)
    assert nc.bincount(nc.tensor(values)).tolist() == np.bincount(values.astype(np.int64)).tolist()
    assert nc.bincount(nc.tensor(values[:0])).shape == (0,)
    assert nc.segment_sum([1.0, 2.0, 3.0, 4.0], nc.tensor(values)).tolist() == [3.0, 0.0, 5.0, 0.0, 2.0]


def test_the_columns_of_a_row_are_its_variables() -> None:
    row = np.array([[1.0, 2.0, 4.0]])
    found = nc.cov(row, rowvar=False, correction=0)
    assert found.tolist() == np.cov(row, rowvar=False, ddof=0).tolist()


def test_a_period_of_zero_is_refused() -> None:
    with pytest.raises(nc.ArgumentError, match="period must not be 0"):
        nc.interp([0.5], [0.0, 1.0], [0.0, 10.0], period=0.0)


def test_interpolation() -> None:
    rng = np.random.default_rng(8)
    xp, fp, x = np.sort(rng.normal(size=6)), rng.normal(size=6), rng.normal(size=(3, 5)) * 2
    settings: list[dict[str, Any]] = [{}, {"left": -1.0, "right": 5.0}, {"period": 1.5}, {"period": -1.5}]
    for given in settings:
        found = nc.interp(x, xp, fp, **given)
        np.testing.assert_allclose(found.numpy(), np.interp(x, xp, fp, **given), rtol=1e-12, atol=1e-14)
        assert str(
            nc.jit(lambda x, a, b, given=given: nc.interp(x, a, b, **given))(*map(nc.tensor, (x, xp, fp)))
        ) == str(found)
    assert nc.interp(xp, xp, fp).tolist() == fp.tolist()
    assert nc.interp([0.0, nc.inf, nc.nan], [0.0], [3.0]).tolist()[:2] == [3, 3]
    assert nc.interp([1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 5.0, 6.0]).tolist() == [5, 6]
    points = nc.tensor([0.25, 1.5]), nc.tensor([0.0, 1.0, 2.5]), nc.tensor([1.0, -2.0, 4.0])
    nc.check_grads(nc.interp, points, order=2)
    assert nc.grad(lambda x: nc.interp(x, points[1], points[2]))(nc.tensor(1.0)).item() == 4.0


# ---- errors


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nc.quantile([1.0], 1.5), nc.ArgumentError, "q must be in [0, 1]"),
        (lambda: nc.percentile([1.0], nc.nan), nc.ArgumentError, "q must be in [0, 100]"),
        (lambda: nc.quantile([1.0], 0.5, method="best"), nc.ArgumentError, "linear, lower, higher, nearest, midpoint"),
        (lambda: nc.quantile([1, 2], 0.5), nc.DTypeError, "floating-point"),
        (lambda: nc.median(nc.zeros((2, 0)), axis=1), nc.ShapeError, "must not be empty"),
        (lambda: nc.median(nc.zeros((2, 2)), dim=1), nc.KindError, 'method="lower"'),
        (lambda: nc.mode(nc.zeros((2, 0))), nc.ShapeError, "must not be empty"),
        (lambda: nc.nanargmax([nc.nan]), nc.ArgumentError, "must not be NaN"),
        (lambda: nc.jit(nc.nanargmin)(nc.tensor([nc.nan])), nc.ArgumentError, "must not be NaN"),
        (lambda: nc.nanmean([1, 2]), nc.DTypeError, "floating-point"),
        (lambda: nc.cummax(nc.zeros((2, 2))), nc.ShapeError, "axis must be given"),
        (lambda: nc.bincount([-1]), nc.AxisError, "got -1"),
        (lambda: nc.bincount([0.5]), nc.DTypeError, "integer"),
        (lambda: nc.bincount([1, 2], [1.0]), nc.ShapeError, "the weights must have the shape"),
        (lambda: nc.histogram([1.0], 0), nc.ArgumentError, "at least 1 bin"),
        (lambda: nc.histogram([1.0], "auto"), nc.KindError, "numpy.histogram_bin_edges"),
        (lambda: nc.histogram([1.0], [2.0, 1.0]), nc.ArgumentError, "must ascend"),
        (lambda: nc.histogram([1.0, nc.nan]), nc.ArgumentError, "finite ends"),
        (lambda: nc.cov(nc.zeros((2, 2, 2))), nc.ShapeError, "at most two axes"),
        (lambda: nc.cov([1, 2]), nc.DTypeError, "floating-point or complex"),
        (lambda: nc.interp([0.0], [], []), nc.ShapeError, "must not be empty"),
        (lambda: nc.interp([0.0], [0.0, 1.0], [0.0]), nc.ShapeError, "vectors of one size"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value), found.value
