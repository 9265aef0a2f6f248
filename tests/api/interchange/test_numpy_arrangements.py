"""NumPy's functions that arrange, round and choose elements of tensors; Python's float as a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

A = np.array([[3.25, -1.125, 2.0], [4.0, 0.5, 6.375]])
CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.vstack([x, x]), lambda x: np.hstack((x, x)), lambda x: np.dstack([x, x]), lambda x: np.vstack(x),
    lambda x: np.column_stack([x[0], x[1]]), lambda x: np.inner(x, x), lambda x: np.dot(x, x.T),
    lambda x: np.dot(x[0], x[1]), np.fix, np.deg2rad, np.rad2deg, np.degrees, np.radians, lambda x: np.argwhere(x > 1),
    lambda x: np.flatnonzero(x > 1), lambda x: np.split(x, 3, 1), lambda x: np.split(x, [1, 2], axis=1),
    lambda x: np.array_split(x, 2, axis=1), lambda x: np.array_split(x[0], 5), lambda x: np.hsplit(x, 3),
    lambda x: np.vsplit(x, 2), lambda x: np.hsplit(x[0], [1]), lambda x: np.dsplit(x[None], 3),
    lambda x: np.cross(x, x[0]), lambda x: np.cross(x.T, x.T[:, ::-1], axis=0),
    lambda x: np.cross(x, x.T, axisb=0, axisc=0), np.rint, lambda x: np.round(x, 2), lambda x: np.around(x, -1),
    lambda x: np.round(x, decimals=1), lambda x: np.squeeze(x[None, :, None]), lambda x: np.squeeze(x[:, None], 1),
    lambda x: np.outer(x, x[0]), lambda x: np.rot90(x), lambda x: np.rot90(x, 2), lambda x: np.rot90(x, -1, (1, 0)),
    lambda x: np.rot90(x, 4), lambda x: np.select([x > 3, x > 1], [x, -x]),
    lambda x: np.select([x[0] > 2], [x], default=9.0), lambda x: np.diff(x, prepend=0.0),
    lambda x: np.diff(x, axis=0, append=x[:1]), lambda x: np.sum(x, dtype=float),
    lambda x: np.ones_like(x, dtype=float),
    lambda x: np.cumsum(x, 0, float), lambda x: np.add.reduce(x, dtype=None), lambda x: np.trace(x, dtype=complex),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_have_the_meaning_and_the_dtype_of_numpy(number: int) -> None:
    found, wanted = CALLS[number](nc.tensor(A)), CALLS[number](A)
    listed = isinstance(wanted, list | tuple)
    pairs = zip(found, wanted, strict=True) if listed else [(found, wanted)]
    for x, a in pairs:
        assert isinstance(x, nc.Tensor) and x.dtype == np.asarray(a).dtype
        assert tuple(x.shape) == np.shape(a)
        np.testing.assert_allclose(x.numpy(), a, rtol=1e-14)


def test_dtypes_that_can_be_cast_are_those_of_numpy() -> None:
    for to in (np.float32, np.int64, np.float64):
        assert np.can_cast(nc.ones(2, dtype=nc.int32), to) == np.can_cast(np.int32, to)


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: np.sum(x, initial=3.0), r"write nacre.sum\(x\) \+ value"),
    (lambda x: np.max(x, initial=3.0), r"write nacre.maximum\(nacre.max\(x\), value\)"),
    (lambda x: np.sum(x, where=x > 1), r"write nacre.sum\(nacre.where\(mask, x, 0\)\)"),
    (lambda x: np.add(x, x, where=x > 1), r"write nacre.where\(mask, y, z\), with y of nacre.add"),
    (lambda x: np.pad(x, 1, mode="edge"), r"got 'edge'; pass x.numpy\(\)"),
    (lambda x: np.linalg.svd(x, compute_uv=False), r"write nacre.linalg.svdvals\(x\)"),
    (lambda x: np.einsum(x, [0, 1], x, [0, 1], [0]), "einsum: the subscripts must be text"),
    (lambda x: np.split(x, 2, axis=1), "must be at least 1 and divide the size of axis 1, 3; got 2"),
    (lambda x: np.rint(nc.arange(3)), "rint: operands must have a floating-point or complex dtype"),
    (lambda x: np.deg2rad(nc.arange(3)), "deg2rad: operands must have a floating-point dtype; got int64"),
    (lambda x: np.fft.fft(nc.arange(3)), "fft: operands must have a floating-point or complex dtype; got int64"),
    (lambda x: np.fft.rfft(nc.arange(3)), "rfft: operands must have a floating-point dtype; got int64"),
    (lambda x: np.round(nc.arange(30), -1), r"write x.astype\(nacre.float64\) first"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_other_settings_are_refused_with_what_to_write(number: int) -> None:
    call, words = REFUSED[number]
    with pytest.raises(nc.Error, match=words):
        call(nc.tensor(A))


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "rfft", "ihfft", "fft2", "fftn", "rfftn", "irfftn"])
def test_transforms_of_integers_are_refused(name: str) -> None:
    with pytest.raises(nc.DTypeError, match=f"{name}: operands must have .* got int64; convert it"):
        getattr(nc.fft, name)(nc.ones((4, 4), dtype=nc.int64))
    assert "Raises DTypeError for" in getattr(nc.fft, name).__doc__


NARROWING: list[Callable[[Any], Any]] = [
    lambda x: x.astype(float), lambda x: nc.astype(x, complex), lambda x: x.to(float), lambda x: x.sum(dtype=float),
    lambda x: nc.prod(x, dtype=float), lambda x: nc.cumulative_sum(x, axis=0, dtype=float),
    lambda x: nc.ones_like(x, dtype=float), lambda x: nc.tensor(x, dtype=float), lambda x: nc.asarray(A, dtype=float),
    lambda x: nc.matmul(x, x.T, dtype=float), lambda x: nc.jit(lambda y: y.astype(float))(x),
    lambda x: nn.Linear(2, 2, dtype=nc.float64).to(float), lambda x: nc.astype(x + 0j, complex),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NARROWING)))
def test_pythons_float_never_takes_digits_of_float64(number: int) -> None:
    with pytest.raises(
        nc.DTypeError, match=r"as a dtype means (float32|complex64).*write nacre\.\w+ to keep its digits"
    ):
        NARROWING[number](nc.tensor(A))


def test_pythons_float_is_float32_where_no_digits_are_lost() -> None:
    assert nc.ones(2).astype(float).dtype is nc.float32
    assert nc.arange(3).astype(float).dtype is nc.float32
    assert nc.tensor([1.5], dtype=float).dtype is nc.float32
    assert nc.tensor(A).astype(int).dtype is nc.int64
