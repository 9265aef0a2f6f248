"""Tensor types, strides, axes and the broadcasting rule."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.base.dims import Dim
from nacre.base.dtypes import ALL, float32, int64
from nacre.base.errors import KindError, ShapeError
from nacre.base.types import TensorType, broadcast_shapes, normal_axes, normal_axis, row_major

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@given(shapes, st.sampled_from(ALL))
def test_equal_types_are_one_object(shape: tuple[int, ...], dtype: object) -> None:
    t = TensorType(shape, dtype)  # type: ignore[arg-type]
    assert t is TensorType(list(shape), dtype)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(t)) is t and deepcopy(t) is t
    assert t.size == int(np.prod(shape)) and t.nbytes == t.size * t.dtype.numpy.itemsize
    assert t.rank == len(shape) and t.static


def test_a_bool_is_not_a_size_although_it_equals_one() -> None:
    for shape in ((1, True), (3, True), (False,)):  # the first equals the shape of a type that may exist
        with pytest.raises(KindError, match="sizes must be integers"):
            TensorType(shape, float32)
    assert TensorType((1, 1), float32).static


def test_symbolic_types() -> None:
    b = Dim.symbol("B")
    t = TensorType((b, 784), float32)
    assert t is TensorType((Dim.symbol("B"), 784), float32) and not t.static
    assert repr(t) == "f32[B, 784]" and t.nbytes == 3136 * b
    assert t.with_shape((2,)) is TensorType((2,), float32) and t.with_dtype(int64).dtype is int64


@given(shapes)
def test_strides_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    if 0 not in shape:
        wanted = tuple(s // 8 for s in np.zeros(shape, np.int64).strides)
        assert row_major(shape) == wanted


@given(shapes, shapes)
def test_broadcasting_is_that_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="must be equal or 1"):
            broadcast_shapes(a, b)
    else:
        assert broadcast_shapes(a, b) == wanted


def test_symbolic_sizes_broadcast_with_themselves_and_one() -> None:
    b, c = Dim.symbol("B"), Dim.symbol("C")
    assert broadcast_shapes((b, 1), (1, c)) == (b, c) and broadcast_shapes((b,), (b,)) == (b,)
    with pytest.raises(ShapeError):
        broadcast_shapes((b,), (c,))


def test_axes_are_normalised() -> None:
    assert normal_axis(-1, 3, "f") == 2 and normal_axes(None, 2, "f") == (0, 1)
    assert normal_axes((-1, 0), 3, "f") == (0, 2) and normal_axes(1, 3, "f") == (1,) and normal_axes((), 3, "f") == ()
    for axis, rank in ((3, 3), (-4, 3), (0, 0)):
        with pytest.raises(ShapeError, match="f:"):
            normal_axis(axis, rank, "f")
    with pytest.raises(ShapeError, match="distinct"):
        normal_axes((0, -3), 3, "f")
