"""The functions of Fourier transforms beside NumPy's: norms, lengths, axes, dtypes, derivatives and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.api import fft
from ops.samples import generator

pytestmark = pytest.mark.sampled(3)

NORMS = (None, "backward", "ortho", "forward")
Z = (generator(1).normal(size=(4, 6, 5)) + 1j * generator(2).normal(size=(4, 6, 5))).astype(np.complex64)
X = np.ascontiguousarray(Z.real)


def assert_like(found: Any, wanted: Any) -> None:
    """Equal shapes and kinds of numbers, and numbers within the rounding of float32."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.shape, found.dtype.kind) == (wanted.shape, wanted.dtype.kind)
    np.testing.assert_allclose(found, wanted, atol=4e-6 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name: str, norm: str | None) -> None:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    for operand in (X,) if name in ("rfft", "ihfft") else (Z, X):
        for n, axis in ((None, -1), (3, 1), (9, 0)):
            assert_like(ours(nc.asarray(operand), n, axis, norm), theirs(operand, n, axis, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name: str, norm: str | None) -> None:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    operand = X if name == "rfftn" else Z
    for settings in ({}, {"axes": (2, 0)}, {"s": (4, 7), "axes": (1, 0)}, {"s": (3, -1), "axes": (0, 1)}):
        assert_like(ours(nc.asarray(operand), norm=norm, **settings), theirs(operand, norm=norm, **settings))
    assert_like(ours(nc.asarray(operand), s=(4, 3)), theirs(operand, s=(4, 3), axes=(-2, -1)))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_two_axes(name: str) -> None:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    operand = X if name == "rfft2" else Z
    for settings in ({}, {"s": (5, 4)}, {"axes": (0, 1), "norm": "ortho"}):
        assert_like(ours(nc.asarray(operand), **settings), theirs(operand, **settings))


def test_frequencies() -> None:
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.25, 3):
            assert_like(fft.fftfreq(n, d=d), np.fft.fftfreq(n, d))
            assert_like(fft.rfftfreq(n, d=d), np.fft.rfftfreq(n, d))
    assert fft.fftfreq(4, dtype=nc.float64).dtype is nc.float64
    assert fft.fftfreq(4).dtype is nc.float32


def test_shifts() -> None:
    for axes in (None, 0, (0, 2)):
        assert_like(fft.fftshift(nc.asarray(Z), axes), np.fft.fftshift(Z, axes))
        assert_like(fft.ifftshift(nc.asarray(Z), axes), np.fft.ifftshift(Z, axes))


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("float64", "complex128"), ("float32", "complex64"), ("float16", "complex64")],
)
def test_dtypes(dtype: str, wanted: str) -> None:
    x = nc.asarray([1, 2, 3, 4]).astype(getattr(nc, dtype))
    for name in ("fft", "ifft", "rfft", "ihfft"):
        assert getattr(fft, name)(x).dtype is getattr(nc, wanted)
    assert fft.irfft(x).dtype is getattr(nc, "float64" if wanted == "complex128" else "float32")


def test_gradient_of_power_is_that_of_parseval() -> None:
    x = generator(3).normal(size=(3, 12))
    for function in (fft.fft, lambda v: fft.fft2(v, norm="ortho")):
        found = nc.grad(lambda v, function=function: (nc.abs(function(v)) ** 2).sum())(nc.asarray(x))
        factor = 2 * 12 if function is fft.fft else 2
        np.testing.assert_allclose(np.asarray(found), factor * x, rtol=1e-9, atol=1e-9)


def test_vmap_is_a_batch() -> None:
    z = nc.asarray(Z)
    np.testing.assert_array_equal(np.asarray(nc.vmap(lambda v: fft.fft(v, axis=0))(z)), np.asarray(fft.fft(z, axis=1)))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: fft.fft(nc.asarray(Z), 0), nc.ShapeError, "fft: the length must be at least 1; got 0"),
        (lambda: fft.fft(nc.asarray(Z), axis=5), nc.AxisError, "fft: axis must be in .*got 5"),
        (lambda: fft.ifft(nc.asarray(Z), norm="x"), nc.ArgumentError, "ifft: norm must be one of backward.*got 'x'"),
        (lambda: fft.rfft(nc.asarray(Z)), nc.DTypeError, "rfft: x must be real; got c64.*take `nacre.real`"),
        (lambda: fft.fft(1.0), nc.ArgumentError, "fft: x must have an axis to transform"),
        (lambda: fft.fftn(nc.asarray(Z), (1, 2), (0,)), nc.ArgumentError, "fftn: s must have one length.*got 2 for 1"),
        (lambda: fft.irfft(nc.ones((1,))), nc.ShapeError, "irfft: the length must be at least 1; got 0"),
        (lambda: fft.fftn(nc.asarray(Z), axes=(0, 0)), nc.ShapeError, "fftn: axes must be distinct"),
        (lambda: fft.fftfreq(4, d=0.0), nc.ArgumentError, "fftfreq: d must not be 0"),
    ],
)
def test_errors_say_what_to_do(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
