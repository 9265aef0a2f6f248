"""Indexing and functional updates against NumPy."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nacre as nc

SHAPE = (3, 4, 2)
X = np.arange(24).reshape(SHAPE)


@given(hnp.basic_indices(SHAPE, allow_newaxis=True, allow_ellipsis=True))
@settings(max_examples=80, deadline=None)
def test_basic_keys(key: Any) -> None:
    np.testing.assert_array_equal(nc.tensor(X)[key].numpy(), X[key])


ARRAY_KEYS = [
    [0, 2], np.array([[0, 1], [2, -1]]), np.array([], int), (slice(None), [3, 0]), ([0, 1], [1, 2]),
    ([0, 1], slice(None), [1, 0]), (slice(None), [0, 1], [1, 0]), ([[0], [1]], [1, 2]), (0, slice(None), [1, 0]),
    (..., [1, 0, 1]), (None, [1, 0]), ([1, 2], None, 0), X[:, 0, 0] > 5, (slice(None), X[0, :, 0] > 1), X > 7,
    (X[:, :, 0] % 4 == 0), ([0, 2], ..., 1), (slice(0, 2), [1, 1], ..., slice(None, None, -1)),
]  # fmt: skip


@pytest.mark.parametrize("key", ARRAY_KEYS, ids=str)
def test_array_keys(key: Any) -> None:
    np.testing.assert_array_equal(nc.tensor(X)[key].numpy(), X[key])


@pytest.mark.parametrize("key", [np.uint8([1, 0]), np.int16([-1])], ids=str)
def test_tensors_as_keys(key: np.ndarray) -> None:
    np.testing.assert_array_equal(nc.tensor(X)[nc.tensor(key)].numpy(), X[key])


@given(hnp.basic_indices(SHAPE, allow_newaxis=False, allow_ellipsis=True), st.booleans())
@settings(max_examples=60, deadline=None)
def test_updates_by_basic_keys(key: Any, scalar: bool) -> None:
    wanted, x = X.copy(), nc.tensor(X)
    value = -1 if scalar else -np.arange(X[key].size).reshape(X[key].shape)
    wanted[key] = value
    x[key] = value
    np.testing.assert_array_equal(x.numpy(), wanted)


@pytest.mark.parametrize(
    "key", [np.s_[::2], np.s_[..., ::-1], np.s_[1, None, -2::-2], np.s_[2:0:-1, ::3], np.s_[3:1:2]], ids=str
)
def test_updates_with_steps_are_compiled_and_have_derivatives(key: Any) -> None:
    def update(x: Any, value: Any) -> Any:
        x = x * 1
        x[key] = value
        return x

    given, value = nc.tensor(X, dtype=nc.float32), nc.tensor(-1.0 - np.arange(X[key].size).reshape(X[key].shape))
    value = value.astype(nc.float32)
    np.testing.assert_array_equal(nc.jit(update)(given, value).numpy(), update(given, value).numpy())
    of_x, of_value = nc.grad(lambda x, v: (update(x, v) * given).sum(), (0, 1))(given, value)
    left = given.numpy().copy()
    left[key] = 0
    np.testing.assert_array_equal(of_x.numpy(), left)
    np.testing.assert_array_equal(of_value.numpy(), given.numpy()[key])


def test_steps_along_axes_of_symbolic_sizes() -> None:
    def f(x: Any) -> Any:
        return x[::2], nc.reshape(x[1::3] + 1, (-1,))

    dynamic = nc.jit(f, dynamic_shapes={"x": {0: nc.Dim("n", min=1, max=40)}})
    for size in (1, 2, 3, 17):
        x = nc.arange(size, dtype=nc.float32)
        for found, wanted in zip(dynamic(x), f(x), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert len(dynamic.concrete_functions) == 1


WITHOUT_NEW_AXES = [k for k in ARRAY_KEYS if not (isinstance(k, tuple) and any(e is None for e in k))]


@pytest.mark.parametrize("key", WITHOUT_NEW_AXES, ids=str)
def test_updates_by_array_keys(key: Any) -> None:
    wanted, x = X.copy(), nc.tensor(X)
    value = -np.arange(X[key].size).reshape(X[key].shape)

    def update(x: Any) -> Any:
        x[key] = value
        return x

    found = nc.jit(lambda x: update(x * 1))(x)
    wanted[key] = value
    np.testing.assert_array_equal(update(x).numpy(), wanted)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_the_last_of_several_updates_wins() -> None:
    x = nc.zeros(3)
    x[[1, 1, 1]] = [5.0, 6.0, 7.0]
    assert x.tolist() == [0.0, 7.0, 0.0]


def test_a_value_for_no_places_must_fit() -> None:
    x = nc.ones(3)
    for key in ([], np.zeros(3, bool), False):
        with pytest.raises(nc.ShapeError, match="must broadcast to shape"):
            nc.index_update(x, key, np.ones((4, 2)))
        assert nc.index_update(x, key, np.ones((1, 1))).tolist() == [1.0, 1.0, 1.0]


def test_masks_and_numbers() -> None:
    x = nc.tensor([1.0, -2.0, 3.0])
    x[x < 0] = 0
    assert x.tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, r"must be in \[-3, 3\)"), ((0, 0, 0, 0), "at most 3 entries"), ((..., ...), "one `...`"),
        (slice(None, None, 0), "must not be 0"), ([0, 3], r"indices .* in \[-3, 3\)"), (1.5, "integers, slices"),
        ([0.5], "an integer or bool dtype"), (np.ones(4, bool), "must have size 3; got 4"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_keys(key: Any, message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        nc.tensor(X)[key]


def test_wrong_values() -> None:
    x = nc.tensor(X)
    with pytest.raises(nc.ShapeError, match="the value must broadcast to shape"):
        x[0] = np.zeros(3, int)
    with pytest.raises(nc.DTypeError, match="index_update"):
        x[0] = nc.tensor(1.5)


def test_take_and_take_along_axis() -> None:
    x, index = nc.tensor(X), np.array([[1, 0], [-1, 2]])
    np.testing.assert_array_equal(nc.take(x, nc.tensor(index), axis=1).numpy(), np.take(X, index, axis=1))
    order = np.argsort(-X, axis=1)
    np.testing.assert_array_equal(
        nc.take_along_axis(x, nc.tensor(order), axis=1).numpy(), np.take_along_axis(X, order, axis=1)
    )


def test_gradients_of_repeated_indices_are_summed() -> None:
    x = nc.tensor([1.0, 2.0, 3.0]).requires_grad_()
    (x[[0, 0, 2]] * nc.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [11.0, 0.0, 100.0]


@pytest.mark.parametrize(("shape", "mask"), [((3,), (0,)), ((2, 3), (0, 3)), ((2, 3), (2, 0)), ((2, 3), (0,))])
def test_masks_without_elements_select_none(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    a, key = np.ones(shape, np.float32), np.zeros(mask, bool)
    assert tuple(nc.tensor(a)[nc.asarray(key)].shape) == a[key].shape


def test_keys_of_wrong_shapes_are_index_errors() -> None:
    for shape, key in (((), np.zeros(0, bool)), ((3,), np.zeros(2, bool)), ((3,), (0, 0))):
        with pytest.raises(IndexError):
            _ = nc.ones(shape)[key]
        with pytest.raises(nc.AxisError):
            _ = nc.ones(shape)[key]


def test_traced_indices_and_masks() -> None:
    x = nc.tensor([1.0, 2.0, 3.0])
    assert nc.jit(lambda v, i: v[i])(x, nc.tensor(2)).item() == 3.0
    assert nc.jit(lambda v, i: v[i])(x, nc.tensor([-1, 0])).tolist() == [3.0, 1.0]
    with pytest.raises(nc.TraceError, match=r"(?s)a mask must have known numbers.*nc.where"):
        nc.jit(lambda v: v[v > 1])(x)


@pytest.mark.parametrize("key", [
    slice(None, None, 2**63), slice(2**63, None), slice(None, 2**100), slice(None, None, -(2**63)),
    slice(-(2**100), None), slice(None, None, -(2**100)), slice(1, None, 2**62), slice(4, None, -(2**62)),
    slice(None, -(2**100)), slice(None, None, 2**64), slice(2**70, -(2**70), -1), slice(np.int64(1), np.uint8(3)),
    (slice(None), slice(None, None, 2**63)),
])  # fmt: skip
def test_slices_beyond_machine_numbers_are_clipped_as_in_numpy(key: Any) -> None:
    x = np.arange(10.0).reshape(5, 2)
    given, expected = nc.tensor(x), x[key]
    assert given[key].tolist() == expected.tolist()
    assert nc.jit(lambda y: y[key])(given).tolist() == expected.tolist()
    slope = np.zeros_like(x)
    slope[key] = 1.0
    for grad in (nc.grad(lambda y: y[key].sum()), nc.jit(nc.grad(lambda y: y[key].sum()))):
        assert grad(given).tolist() == slope.tolist()
    x[key] = -1.0
    assert nc.index_update(given, key, -1.0).tolist() == x.tolist()


@pytest.mark.parametrize("key", [2**63, -(2**70), np.uint64(2**63), 5, -6])
def test_indices_beyond_machine_numbers_are_out_of_range(key: Any) -> None:
    for f in (lambda y: y[key], nc.jit(lambda y: y[key]), lambda y: nc.index_update(y, key, 0.0)):
        with pytest.raises(nc.AxisError, match=rf"must be in \[-5, 5\); got {int(key)}") as raised:
            f(nc.arange(5.0))
        assert isinstance(raised.value, IndexError)


@pytest.mark.parametrize("key", [slice(0.5, None), slice("a", None), slice(None, None, 0.5), slice(None, (1,))])
def test_parts_of_slices_are_whole_numbers(key: Any) -> None:
    with pytest.raises(nc.KindError, match="index: the parts of a slice must be integers; got"):
        nc.arange(5.0)[key]


@pytest.mark.parametrize("key", [
    slice(None, 9), slice(9, None), slice(-9, None), slice(None, -9), slice(2**63, None), slice(None, 2**100),
    slice(None, None, 2**63), slice(3, 1), slice(np.int64(1), np.int64(3)), slice(1, None, 2**62),
])  # fmt: skip
def test_slices_of_symbolic_sizes_are_clipped(key: Any) -> None:
    sliced = nc.jit(lambda y: y[key], dynamic_shapes={"y": {0: nc.Dim("m", min=4, max=9)}})
    for count in (4, 9):
        x = np.arange(float(count))
        assert sliced(nc.tensor(x)).tolist() == x[key].tolist()
    assert len(sliced.concrete_functions) == 1


def test_several_threads_write_into_one_tensor() -> None:
    rows, columns = 25, 4
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(8):
            x = nc.zeros((columns, rows)).T
            together = threading.Barrier(columns)

            def write(column: int, x: Any = x, together: threading.Barrier = together) -> None:
                together.wait()
                for row in range(rows):
                    x[row, column] = row + 1.0

            threads = [threading.Thread(target=write, args=(column,)) for column in range(columns)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert x.tolist() == [[row + 1.0] * columns for row in range(rows)]
    finally:
        sys.setswitchinterval(kept)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["gather", "index_select", "take_along_dim"])
def test_functions_of_pytorch_count_from_zero(name: str, compiled: bool) -> None:
    x, run = nc.tensor([10.0, 20.0, 30.0]), nc.jit if compiled else lambda f: f
    for owner in (getattr(nc, name), lambda v, *a, **k: getattr(v, name)(*a, **k)):

        def f(v: Any, i: Any, owner: Any = owner) -> Any:
            return owner(v, i, axis=0) if name == "take_along_dim" else owner(v, 0, i)

        assert run(f)(x, nc.tensor([2, 0])).tolist() == [30.0, 10.0]
        for wrong in (-1, 3):
            with pytest.raises(nc.AxisError, match=rf"{name}: indices must be in \[0, 3\); got {wrong}; "):
                run(f)(x, nc.tensor([0, wrong]))
        with pytest.raises(nc.DTypeError, match=f"{name}: indices must be integers"):
            run(f)(x, nc.tensor([0.0]))


def test_without_an_axis_take_along_dim_flattens() -> None:
    assert nc.take_along_dim([[1, 2], [3, 4]], [[3], [0]]).tolist() == [4, 1]
