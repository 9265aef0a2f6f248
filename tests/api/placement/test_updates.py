"""Functions that store and combine at indices, and `x.at[key]`: values, derivatives, batches, compiled code, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

UFUNCS: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "mul": np.multiply, "divide": np.divide,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
KEYS: dict[str, Any] = {
    "integer": 1,
    "slice": slice(1, None),
    "step": (slice(None, None, 2), slice(None, None, -1)),
    "dots": (..., 0),
    "new axis": (None, 1),
    "indices": np.array([2, 0, 2]),
    "negative": np.array([[-1, 0], [2, -1]]),
    "beside a slice": (np.array([2, 0, 2]), slice(1, 3)),
    "behind a slice": (slice(0, 2), np.array([3, 3, 0])),
    "pairs": (np.array([0, 0, 2]), np.array([1, 1, 3])),
    "grid": (np.array([[0], [2]]), np.array([1, 1])),
    "apart": (np.array([0, 0]), slice(None), None, np.array([1, 1])),
    "integer and indices": (0, np.array([1, 1, 3])),
    "mask": np.array([[True, False, True, False]] * 3),
    "none": np.zeros(0, np.int64),
}
DTYPES = [nc.float32, nc.float64, nc.float16, nc.bfloat16, nc.int8, nc.int64, nc.uint16]


def _case(key: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (3, 4, 2) if isinstance(key, tuple) and len(key) == 4 else (3, 4)
    x = rng.integers(1, 9, shape).astype(np.float64)
    return x, rng.integers(1, 5, x[key].shape).astype(np.float64)


@pytest.mark.parametrize("method", UFUNCS)
@pytest.mark.parametrize("name", KEYS)
def test_an_update_is_that_of_numpys_at(name: str, method: str) -> None:
    x, value = _case(KEYS[name])
    wanted = x.copy()
    UFUNCS[method].at(wanted, KEYS[name], value)
    key = KEYS[name]

    def run(x: Any, value: Any) -> Any:
        return getattr(x.at[key], method)(value)

    found = run(nc.tensor(x), nc.tensor(value))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-15)
    assert nc.jit(run)(nc.tensor(x), nc.tensor(value)).tolist() == found.tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("method", ["add", "multiply", "min", "max"])
def test_updates_keep_the_dtype(method: str, dtype: nc.DType) -> None:
    x, value = _case(KEYS["indices"])
    wanted = x.copy()
    UFUNCS[method].at(wanted, KEYS["indices"], value)
    found = getattr(nc.tensor(x, dtype=dtype).at[KEYS["indices"]], method)(nc.tensor(value, dtype=dtype))
    assert found.dtype is dtype
    np.testing.assert_array_equal(
        found.numpy().astype(np.float64), nc.tensor(wanted).astype(dtype).numpy().astype(float)
    )


def test_get_and_set_are_reading_and_assignment() -> None:
    x = nc.tensor(np.arange(12.0).reshape(3, 4))
    y = x.at[1:, 0].set(7.0)
    assert x.at[1].get().tolist() == x[1].tolist() and y[:, 0].tolist() == [0.0, 7.0, 7.0] and x[1, 0].item() == 4.0
    assert x.at[x > 5].set(0.0).tolist() == nc.where(x > 5, 0.0, x).tolist()
    assert x.at[True].add(1.0).tolist() == (x + 1).tolist() and "x.at[key].add" in repr(x.at)
    assert nc.tensor([True, False]).at[nc.tensor([1, 1])].max(True).tolist() == [True, True]


@pytest.mark.parametrize("method", ["add", "multiply", "min", "max", "set", "divide"])
def test_updates_at_traced_indices_have_derivatives(method: str) -> None:
    x, value = nc.tensor([1.5, -2.0, 3.25, 0.75], nc.float64), nc.tensor([2.5, 0.3, -4.0], nc.float64)

    def run(x: Any, value: Any, i: Any) -> Any:
        return getattr(x.at[i], method)(value)

    i = nc.tensor([1, 3, 1])
    nc.check_grads(lambda x, v: run(x, v, i), (x, value), order=2)
    assert nc.jit(run)(x, value, i).tolist() == run(x, value, i).tolist()
    rows = nc.stack([i, nc.flip(i)])
    each = [run(x, value, row).tolist() for row in rows]
    assert nc.vmap(run, in_axes=(None, None, 0))(x, value, rows).tolist() == each


def test_a_product_with_zeros_has_derivatives() -> None:
    x, value, i = nc.tensor([2.0, 3.0], nc.float64), nc.tensor([0.0, 5.0, 0.0, 0.0], nc.float64), [0, 0, 1, 1]
    nc.check_grads(lambda x, v: nc.scatter_reduce(x, 0, i, v, "prod"), (x, value), order=3)


def test_extremes_share_the_gradient() -> None:
    found = nc.grad(lambda x, v: nc.scatter_reduce(x, 0, [0, 0, 1], v, "amax").sum(), (0, 1))(
        nc.tensor([3.0, 9.0]), nc.tensor([3.0, 3.0, 1.0])
    )
    np.testing.assert_allclose(np.concatenate([g.numpy() for g in found]), [1 / 3, 1, 1 / 3, 1 / 3, 0], rtol=1e-6)


# ---- along an axis


REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum, "prod": lambda v: float(np.prod(v)), "mean": lambda v: sum(v) / len(v), "amax": max, "amin": min,
}  # fmt: skip


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_reduce_is_its_definition(axis: int, reduce: str, include_self: bool) -> None:
    rng = np.random.default_rng(axis + 1)
    x, src = rng.integers(1, 6, (3, 4, 5)) * 1.0, rng.integers(1, 6, (4, 4, 4)) * 1.0
    shape = [2, 3, 4]
    shape[axis] = 4
    i = rng.integers(0, x.shape[axis], shape)
    lists: dict[Any, list[float]] = {}
    for p in np.ndindex(*shape):
        at = list(p)
        at[axis] = i[p]
        lists.setdefault(tuple(at), [x[tuple(at)]] if include_self else []).append(src[p])
    wanted = x.copy()
    for at, values in lists.items():
        wanted[at] = REDUCTIONS[reduce](values)

    def run(x: Any, i: Any, src: Any) -> Any:
        return nc.scatter_reduce(x, axis, i, src, reduce, include_self=include_self)

    given = nc.tensor(x), nc.tensor(i), nc.tensor(src)
    np.testing.assert_allclose(run(*given).numpy(), wanted, rtol=1e-14)
    assert nc.jit(run)(*given).tolist() == run(*given).tolist()
    short = {"sum": "add", "prod": "multiply"}.get(reduce)
    if short and include_self:
        np.testing.assert_array_equal(nc.scatter(given[0], axis, *given[1:], reduce=short).numpy(), run(*given).numpy())
    if reduce == "sum" and include_self:
        assert nc.scatter_add(x, axis, i, src).tolist() == run(*given).tolist()


def test_a_mean_of_integers_is_rounded_down() -> None:
    assert nc.scatter_reduce([1, -3], 0, [0, 1], [2, 0], "mean").tolist() == [1, -2]


def test_the_last_of_several_updates_is_stored() -> None:
    x = nc.zeros((3, 2))
    assert nc.scatter(x, 0, [[0, 1], [0, 2]], [[1.0, 2.0], [3.0, 4.0]]).tolist() == [[3, 0], [0, 2], [0, 4]]
    assert nc.scatter(x, 0, [[1]], 5).tolist() == [[0, 0], [5, 0], [0, 0]]
    assert nc.index_copy(x, 1, [1, 1], nc.tensor([[1.0, 2.0]] * 3)).tolist() == [[0, 2]] * 3
    nc.check_grads(lambda x, v: nc.index_copy(x, 0, [2, 2], v), (x, nc.ones((2, 2))), order=2)


def test_slices_are_added_and_filled() -> None:
    x = np.arange(6.0).reshape(3, 2)
    wanted = x.copy()
    np.add.at(wanted, [2, 0, 2], 2.0)
    assert nc.tensor(x).index_add(0, nc.tensor([2, 0, 2]), nc.ones((3, 2)), alpha=2).tolist() == wanted.tolist()
    assert nc.index_fill(x, 1, [0], -1.0).tolist() == [[-1, 1], [-1, 3], [-1, 5]]
    assert nc.index_add(nc.zeros((0, 2)), 1, [1, 0], nc.ones((0, 2))).shape == (0, 2)
    assert nc.scatter(nc.zeros((0, 2)), 1, nc.zeros((0, 1), nc.int64), 1.0).shape == (0, 2)
    assert nc.scatter_add(nc.zeros(2), 0, nc.zeros(0, nc.int64), nc.zeros(0)).tolist() == [0, 0]


SEGMENTS: dict[str, tuple[Any, float]] = {
    "sum": (np.sum, 0), "prod": (np.prod, 1), "max": (np.max, -np.inf), "min": (np.min, np.inf), "mean": (np.mean, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min"])
def test_dropped_rows_have_no_gradient(name: str) -> None:
    run = getattr(nc, f"segment_{name}")
    x, ids = nc.tensor([1.0, 2.0, 3.0, 4.0]), nc.tensor([-1, 0, 1, 7])

    def weighted(x: Any) -> Any:
        return nc.sum(run(x, ids, 2, mode="drop") * nc.tensor([10.0, 20.0]))

    for f in (weighted, nc.jit(weighted)):
        assert nc.grad(f)(x).tolist() == [0.0, 10.0, 20.0, 0.0]
        assert nc.jvp(f, (x,), (nc.ones(4),))[1].item() == 30.0
    assert nc.grad(lambda x: nc.sum(run(x, ids, 0, mode="drop")))(x).tolist() == [0.0] * 4


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_reduced_row_by_row(name: str) -> None:
    rng = np.random.default_rng(3)
    x, ids = rng.normal(size=(9, 2)), rng.choice([0, 1, 3], 9)
    run = getattr(nc, f"segment_{name}")
    reduce, none = SEGMENTS[name]
    wanted = [reduce(x[ids == k], axis=0) if (ids == k).any() else np.full(2, none) for k in range(5)]
    np.testing.assert_allclose(run(x, ids, 5).numpy(), wanted, rtol=1e-14)
    assert run(x, ids).shape == (4, 2)
    assert nc.jit(lambda x, k: run(x, k, 5))(nc.tensor(x), nc.tensor(ids)).tolist() == run(x, ids, 5).tolist()
    assert run(x, np.where(ids == 3, 99, ids), 2, mode="drop").tolist() == run(x, ids, 5)[:2].tolist()
    nc.check_grads(lambda x: run(x, ids, 4)[:2], (nc.tensor(x),), order=2)
    assert run(nc.zeros((0, 3)), nc.zeros(0, nc.int64)).shape == (0, 3)


# ---- complex products


def test_complex_products_are_those_of_numpy_and_have_gradients() -> None:
    rng = np.random.default_rng(4)
    z, u = (rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2)) for _ in range(2))
    i = np.array([0, 2, 0])
    wanted = z.copy()
    np.multiply.at(wanted, i, u)
    places = np.stack([i, i], axis=1)
    for run in (lambda z, u: z.at[i].multiply(u), lambda z, u: nc.scatter_reduce(z, 0, places, u, "prod")):
        held = nc.tensor(z), nc.tensor(u)
        found = run(*held)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13)
        assert nc.jit(run)(*held).tolist() == found.tolist()
        assert nc.vmap(run)(*(nc.stack([x, x]) for x in held))[1].tolist() == found.tolist()
        nc.check_grads(run, held, order=2)
    rows = nc.segment_prod(u, i, 3).numpy()
    np.testing.assert_allclose(rows, [u[0] * u[2], [1, 1], u[1]], rtol=1e-13)
    whole = nc.tensor(z).at[nc.tensor(i)].divide(u).numpy()
    np.testing.assert_allclose(whole, np.stack([z[0] / (u[0] * u[2]), z[1], z[2] / u[1]]), rtol=1e-12)
    with pytest.raises(nc.DTypeError, match="take its abs"):
        nc.tensor(z).at[nc.tensor(i)].max(u)


# ---- indices out of range


ROOM = 9  # elements before and behind each axis of x, to which the second key of each pair belongs
OUTSIDE: dict[str, Any] = {
    "one axis": (np.array([0, 5, -1, -7]), (np.array([9, 14, 11, 5]), slice(9, 13))),
    "an integer": (7, (16, slice(9, 13))),
    "two axes": (
        (np.array([0, 2, 3, -1]), np.array([3, 4, 0, -5])),
        (np.array([9, 11, 12, 11]), np.array([12, 13, 9, 8])),
    ),
    "behind dots": ((..., np.array([1, 4])), (slice(9, 12), np.array([10, 13]))),
    "beside a slice": ((None, np.array([3, 1]), slice(1, 3)), (None, np.array([12, 10]), slice(10, 12))),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max", "subtract", "divide"])
def test_updates_out_of_range_are_left_out(name: str, method: str) -> None:
    key, inner = OUTSIDE[name]
    x = nc.tensor(_case(None)[0])
    room = nc.tensor(np.pad(x.numpy(), ROOM, constant_values=1.0))

    def run(x: Any, v: Any) -> Any:
        return getattr(x.at[key], method)(v, mode="drop")

    wanted = getattr(room.at[inner], method)(3.0)[9:12, 9:13]
    assert run(x, 3.0).tolist() == wanted.tolist()
    assert nc.jit(run)(x, nc.tensor(3.0, dtype=x.dtype)).tolist() == wanted.tolist()
    apart = x + 0.01 * nc.arange(12.0, dtype=nc.float64).reshape(3, 4)  # no ties
    nc.check_grads(run, (apart, nc.tensor(3.207, dtype=x.dtype)))


def test_elements_out_of_range_are_zeros_a_number_or_the_nearest() -> None:
    x = nc.tensor([1.0, 2.0, 3.0])
    i = nc.tensor([0, 5, -1, -7])
    for run in (lambda f: f, nc.jit):
        assert run(lambda x, i: x.at[i].get(mode="drop"))(x, i).tolist() == [1, 0, 3, 0]
        assert run(lambda x, i: x.at[i].get(mode="clip"))(x, i).tolist() == [1, 3, 3, 1]
        assert run(lambda x, i: x.at[i].get(mode="fill", fill_value=9.0))(x, i).tolist() == [1, 9, 3, 9]
        assert run(lambda x, i: x.at[i].set(7.0, mode="clip"))(x, i).tolist() == [7, 2, 7]
    assert np.isnan(x.at[4].get(mode="fill").item()) and nc.tensor([1, 2]).at[4].get(mode="fill").item() == 0
    assert nc.grad(lambda x: x.at[i].get(mode="fill").sum())(x).tolist() == [1, 0, 1]
    assert nc.grad(lambda v: x.at[i].set(v, mode="drop").sum())(nc.ones(4)).tolist() == [1, 0, 1, 0]
    mask = nc.tensor([True, False, True])
    assert x.at[mask].set(0.0, mode="drop").tolist() == [0, 2, 0]
    with pytest.raises(nc.AxisError, match="the mask for axis 0 must have size 3"):
        x.at[nc.tensor([True]), ...].add(1.0, mode="drop")


# ---- errors


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nc.scatter(nc.zeros(3), 0, [3], 1.0), nc.AxisError, "indices must be in [0, 3); got 3"),
        (lambda: nc.scatter_add(nc.zeros(3), 0, [-1], 1.0), nc.AxisError, "got -1"),
        (lambda: nc.scatter(nc.zeros((3, 2)), 0, [1], 1.0), nc.ShapeError, "index_add takes whole slices"),
        (lambda: nc.scatter(nc.zeros((3, 2)), 0, [[1, 1, 1]], 1.0), nc.ShapeError, "at most its sizes"),
        (lambda: nc.scatter(nc.zeros(3), 0, [1, 2], [1.0]), nc.ShapeError, "at least the sizes of the index"),
        (lambda: nc.scatter(nc.zeros(3), 0, [0.5], 1.0), nc.DTypeError, "must be integers"),
        (lambda: nc.scatter(nc.zeros(3, nc.int64), 0, [0], 0.5), nc.DTypeError, "0.5"),
        (lambda: nc.scatter_reduce(nc.zeros(3), 0, [0], 1.0, "max"), nc.ArgumentError, "sum, prod, mean, amax, amin"),
        (lambda: nc.index_add(nc.zeros((3, 2)), 0, [0], nc.zeros(2)), nc.ShapeError, "source must have shape (1, 2)"),
        (lambda: nc.index_add([1, 2], 0, [0], [1], alpha=0.5), nc.DTypeError, "0.5"),
        (lambda: nc.index_fill(nc.zeros(3), 0, [0], [1.0, 2.0]), nc.ShapeError, "one number"),
        (lambda: nc.segment_sum([1.0], [1], 1), nc.AxisError, "segment_sum: indices must be in [0, 1)"),
        (lambda: nc.segment_sum([1.0, 2.0], [1]), nc.ShapeError, "a number for each row"),
        (lambda: nc.segment_sum([1.0], [0.0]), nc.DTypeError, "must be integers"),
        (lambda: nc.zeros(3).at[5].add(1.0), nc.AxisError, "index"),
        (lambda: nc.zeros(3).at[nc.tensor([0])].add([1.0, 2.0]), nc.ShapeError, "must broadcast"),
        (lambda: nc.tensor([1, 2]).at[nc.tensor([0])].add(0.5), nc.DTypeError, "0.5"),
        (lambda: nc.tensor([True]).at[nc.tensor([0])].add(True), nc.DTypeError, "numeric"),
        (lambda: nc.zeros(3).at[0].set(1.0, mode="promise"), nc.ArgumentError, "one of raise, clip, drop"),
        (lambda: nc.zeros(3).at[0].get(fill_value=1.0), nc.ArgumentError, 'fill_value needs mode "fill"'),
        (lambda: nc.zeros(3).at[0].set(1.0, unique_indices=True), nc.KindError, "Leave it out; indices may repeat"),
        (lambda: nc.zeros(3).at[0].apply(nc.sin), nc.MissingAttribute, "write x.at[key].set(f(x[key]))"),
        (lambda: nc.zeros(3).at[0].power(2), nc.MissingAttribute, "write x.at[key].set(x[key] ** v)"),
    ],
)  # fmt: skip
def test_bad_updates_are_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value), found.value


def test_traced_indices_out_of_range_are_errors_when_they_run() -> None:
    f = nc.jit(lambda i: nc.zeros(3).at[i].add(1.0))
    assert f(nc.tensor([0, 0])).tolist() == [2, 0, 0]
    with pytest.raises(nc.AxisError, match="got 3"):
        f(nc.tensor([0, 3]))
    g = nc.jit(lambda i: nc.scatter_add(nc.zeros(3), 0, i, 1.0))
    with pytest.raises(nc.AxisError, match="got -1"):
        g(nc.tensor([-1]))
