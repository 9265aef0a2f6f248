"""Parameters that are plain numbers, tensors without elements, dtypes compared with NumPy's, and values in messages."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base import dtypes
from nacre.base.dtypes import DType
from nacre.nn import functional as F

X = nc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
ONE, HALF, SEVERAL = nc.tensor(1), nc.tensor(0.5), nc.tensor([0.5, 1.0])


@pytest.mark.parametrize("one", [1, 1.0, ONE, np.float64(1.0), np.array(1), nc.tensor(1.0)], ids=repr)
@pytest.mark.parametrize("f", [nc.var, nc.std])
def test_corrections_are_numbers(f: Callable[..., Any], one: Any) -> None:
    assert f(X, correction=one).item() == f(X, correction=1).item()


@pytest.mark.parametrize("wrong", [SEVERAL, "1", None, [1.0], nc.ones((1, 1)), 1j, nc.Dim("n")], ids=repr)
@pytest.mark.parametrize("f", [nc.var, nc.std])
def test_other_corrections(f: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(nc.ArgumentError, match=r"correction must be a number; got .*; write float"):
        f(X, correction=wrong)


def test_probabilities_are_numbers() -> None:
    drawn = [F.dropout(X, p, key=nc.random.key(3)).tolist() for p in (0.5, HALF, np.float32(0.5))]
    assert drawn[0] == drawn[1] == drawn[2]
    assert type(nn.Dropout(HALF).p) is float  # type: ignore[arg-type]
    assert F.scaled_dot_product_attention(*[nc.ones((1, 1, 2, 2))] * 3, dropout_p=HALF).shape == (1, 1, 2, 2)  # type: ignore[arg-type]
    for call in (lambda p: F.dropout(X, p), nn.Dropout, lambda p: F.alpha_dropout(X, p)):
        with pytest.raises(nc.KindError, match="p must be a number; got Tensor of shape"):
            call(SEVERAL)


@pytest.mark.parametrize("call", [
    lambda t: nc.var(X, correction=t), lambda t: F.dropout(X, t), lambda t: F.layer_norm(X, (3,), eps=t),
    lambda t: F.leaky_relu(X, t), lambda t: F.elu(X, t), lambda t: F.softmax(X, t),
    lambda t: nc.sum(X, axis=t), lambda t: nc.concat([X, X], axis=t), lambda t: nc.linspace(t, 1, 3),
    lambda t: nc.argmax(X, axis=t), lambda t: nc.logsumexp(X, axis=t), lambda t: F.group_norm(nc.ones((1, 2, 3)), t),
])  # fmt: skip
def test_traced_tensors_are_not_plain_numbers(call: Callable[[Any], Any]) -> None:
    for wrong in (HALF, SEVERAL):
        with pytest.raises(nc.Error) as raised:
            nc.jit(call)(wrong)
        assert "len: " not in str(raised.value) and "index: " not in str(raised.value)
    with pytest.raises(nc.Error):
        call(SEVERAL)


@pytest.mark.parametrize("given", [HALF, SEVERAL], ids=repr)
@pytest.mark.parametrize("name", ["mean", "std"])
def test_means_and_deviations_may_be_traced(name: str, given: nc.Tensor) -> None:
    def draw(t: Any) -> Any:
        return nc.random.normal((2,), key=nc.random.key(3), **{name: t})

    eager = draw(given)
    assert nc.jit(draw)(given).tolist() == eager.tolist()
    assert eager.tolist() == draw(nc.broadcast_to(given, (2,))).tolist() != draw(given + 1).tolist()


def test_linspace_runs_between_numbers() -> None:
    assert nc.linspace(HALF, ONE, 3).tolist() == [0.5, 0.75, 1.0]  # type: ignore[arg-type]
    with pytest.raises(nc.KindError, match="linspace: start must be a number; got Tensor of shape"):
        nc.linspace(SEVERAL, 1, 3)  # type: ignore[arg-type]


# ---- no elements


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("f", [
    nc.mean, nc.var, nc.std, nc.sum, nc.prod, lambda x: nc.mean(x, axis=0), lambda x: nc.std(x, axis=-1),
    lambda x: nc.var(x, axis=0, correction=1), lambda x: nc.sum(x) / x.size if x.size else nc.sum(x) * np.inf,
    lambda x: nc.jit(nc.mean)(x), lambda x: nc.checkpoint(nc.mean)(x), lambda x: F.layer_norm(x, x.shape).sum(),
])  # fmt: skip
def test_tangents_of_empty_tensors_are_zero(f: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    x = nc.zeros(shape)
    value, tangent = nc.jvp(f, (x,), (x,))
    assert not tangent.numpy().any()
    assert tangent.shape == value.shape == f(x).shape
    y, pullback = nc.vjp(f, x)
    assert pullback(nc.ones_like(y))[0].shape == shape
    assert nc.jacfwd(f)(x).shape == nc.jacrev(f)(x).shape == (*y.shape, *shape)


def test_forward_and_reverse_mode_agree_where_a_part_is_empty() -> None:
    def f(x: Any) -> Any:
        return nc.stack([nc.mean(x[:0]), nc.sum(x * x), nc.std(x[3:])])

    x = nc.tensor([1.0, 2.0, 3.0])
    expected = [[0.0, 0.0, 0.0], [2.0, 4.0, 6.0], [0.0, 0.0, 0.0]]
    assert nc.jacfwd(f)(x).tolist() == nc.jacrev(f)(x).tolist() == expected
    assert nc.jit(nc.jacfwd(f))(x).tolist() == nc.jit(nc.jacrev(f))(x).tolist() == expected


# ---- dtypes


@pytest.mark.parametrize("other", ["float32", "f64", float, int, bool, "c64", complex], ids=repr)
def test_dtypes_are_not_compared_with_names_and_types_of_python(other: Any) -> None:
    meant = dtypes.as_dtype(other)
    for compare in (
        lambda: X.dtype == other, lambda: other == X.dtype, lambda: X.dtype != other, lambda: X.dtype in (other, 1),
    ):  # fmt: skip
        with pytest.raises(nc.DTypeError, match=f"dtypes of Nacre or NumPy; got .*; write {meant!r}$"):
            compare()
    assert meant in {d: 1 for d in dtypes.ALL}
    assert isinstance(nc.ones(1).astype(other).numpy(), np.ndarray)


@pytest.mark.parametrize("other", [
    np.float32, np.dtype("float32"), np.float64, np.dtype("int8"), np.bool_, np.complex64, np.dtype("complex128"),
    ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16),
], ids=repr)  # fmt: skip
def test_dtypes_equal_those_of_numpy_with_the_same_elements(other: Any) -> None:
    meant = dtypes.as_dtype(other)
    for dtype in dtypes.ALL:
        same = dtype is meant
        assert (dtype == other) is same and (other == dtype) is same
        assert (dtype != other) is not same and (dtype in (1, other)) is same
    assert nc.float32 != np.dtype(">f4") and nc.float32 != np.dtype("float32, int8")


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older versions do not ask for the dtype")
def test_numpy_takes_dtypes() -> None:
    for dtype in dtypes.ALL:
        assert np.dtype(dtype) == np.zeros(2, dtype).dtype == np.asarray([1, 0]).astype(dtype).dtype == dtype.numpy
    assert np.asarray(X, nc.float64).dtype == np.float64


@pytest.mark.parametrize("dtype", dtypes.NAMED, ids=str)
def test_a_dtype_converts_what_it_is_called_with(dtype: nc.DType) -> None:
    for data in (1, [1, 1], np.array([[1.0, 1.0]]), nc.tensor([1, 1]), np.float64(1)):
        found = dtype(data)
        assert isinstance(found, nc.Tensor) and found.dtype is dtype and found.shape == np.shape(data)
        assert found.astype(dtype.number).tolist() == nc.tensor(data, dtype=dtype).astype(dtype.number).tolist()


def test_dtypes_that_are_called_wrongly() -> None:
    assert nc.float64(0.1).item() == 0.1 and nc.double(0.1).dtype is nc.float64
    assert nc.grad(lambda x: nc.float64(x) * 3.0)(nc.tensor(2.0)).item() == 3.0
    assert nc.jit(lambda x: nc.int8(x))(nc.tensor([1.7])).tolist() == [1]
    for wrong in (lambda: nc.int8(300), lambda: nc.int32(3.7), lambda: nc.float32("a")):
        with pytest.raises(nc.DTypeError):
            wrong()
    for given in ((), (1, 2)):
        with pytest.raises(nc.KindError, match=rf"float32: one number.*got {len(given)}; write nacre.float32\("):
            nc.float32(*given)


def test_dtypes_and_objects_that_are_not_dtypes() -> None:
    for other in (None, "auto", 1, np.clongdouble, np.dtype(np.longdouble), str, list, object, np.float64(1.0)):
        assert X.dtype is not other and not any(d == other for d in (X.dtype, nc.float64))
    assert X.dtype == nc.float32 and nc.float32 != nc.float64 and hash(nc.float32) == hash(X.dtype)
    assert {nc.float32: 1, np.float32: 2, "float32": 3}[nc.float32] == 1
    for d in dtypes.ALL:
        assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d and copy.copy(d) is d
        assert isinstance(d, DType) and d in dtypes.ALL and dtypes.as_dtype(d.numpy) is d


# ---- messages


@pytest.mark.parametrize(("subscripts", "given", "message"), [
    ("ij,jk->ik", (X,), "as many operands as are given, 1; got 'ij,jk->ik', which describes 2"),
    ("ijk->i", (X,), "the operand for 'ijk' must have rank 3, one axis for each letter; got f32[2, 3], of rank 2"),
    ("ij->k", (X,), "each letter of the result must occur in an operand; got 'k' in 'ij->k'"),
    ("ii", (X,), "a letter must have one size; got 2 and 3 for 'i'"),
    ("ij->ii", (X,), "letters of the result must be distinct; got 'ii' in 'ij->ii'; write each once"),
    ("1j", (X,), "must be letters, commas and one `->`; got '1j'"),
    ("..i", (X,), "with at most one `...`"), ("...i...", (X,), "got '...i...' for 1"),
    ("...i,...i", (X,), "for 1; write \"...ij"),
    ("...ijk", (X,), "the operand for '...ijk' must have an axis for each letter; got f32[2, 3]"),
])  # fmt: skip
def test_wrong_subscripts(subscripts: str, given: Any, message: str) -> None:
    with pytest.raises(nc.Error) as raised:
        nc.einsum(subscripts, *given)
    assert message in str(raised.value)


@pytest.mark.parametrize(("counts", "got"), [
    ((1, 2, 3), "one for each of 2 elements; got i64[3]"), ([[1, 2]], "one for each of 2 elements; got i64[1, 2]"),
    ([], "repeats must be integers; got f32[0]"), (nc.ones(2), "repeats must be integers; got f32[2]"),
    ([1, -1], "repeats must be at least 0; got -1"), (-2, "repeats must be at least 0; got -2"),
])  # fmt: skip
def test_wrong_counts(counts: Any, got: str) -> None:
    with pytest.raises(nc.Error) as raised:
        nc.repeat(nc.arange(2), counts)
    assert got in str(raised.value)


@pytest.mark.parametrize(("rows", "got"), [
    (np.array_split(np.arange(10.0), 3), "4 items at x[0] and 3 items at x[1]"),
    (np.array_split(np.ones((7, 2)), 3), "an array of shape (3, 2) at x[0] and an array of shape (2, 2) at x[1]"),
    ([[1, 2], [3]], "2 items at x[0] and 1 item at x[1]"), ([1, [2]], "one number at x[0] and 1 item at x[1]"),
    ([[[1, 2], [3, 4]], [[1, 2], [2]]], "2 items at x[1][0] and 1 item at x[1][1]"),
    ([np.arange(6.0)[::2], np.arange(2.0)], "3 items at x[0] and 2 items at x[1]"),
])  # fmt: skip
def test_ragged_lengths_are_shown(rows: Any, got: str) -> None:
    with pytest.raises(nc.ShapeError) as raised:
        nc.tensor(rows)
    assert f"tensor: nested lists must have equal lengths; got {got}; pad them" in str(raised.value)


def test_cotangents_and_tangents_of_another_type() -> None:
    def double(x: Any) -> Any:
        return x * 2

    calls: list[Callable[[Any], Any]] = [
        lambda c: nc.vjp(double, X)[1](c), lambda c: nc.jvp(double, (X,), (c,)),
        lambda c: (nn.Parameter(X) * 2).backward(c),
    ]  # fmt: skip
    for call in calls:
        for wrong in (nc.ones(3), nc.ones((3,), nc.float64), nc.tensor(1)):
            with pytest.raises(nc.ShapeError, match=r"must have type f32\[2, 3\]; got .*, of another shape; reshape"):
                call(wrong)
        for wrong in (nc.ones((2, 3), nc.float64), nc.ones((2, 3), nc.int64), np.ones((2, 3))):
            with pytest.raises(nc.DTypeError, match=r"must have type f32.*; convert it with astype\(nacre.float32\)"):
                call(wrong)
