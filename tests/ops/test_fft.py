"""Fourier transforms: the same bits however they run, long transforms, derivatives by each other, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.kernel import order_fft
from nacre.ops.fft import fft, irfft, rfft
from ops.samples import generator

pytestmark = pytest.mark.sampled(3)

LENGTHS = (5, 16, 100, 118, 254, 339, 512)


def bits(x: Any) -> Any:
    """The bits of a result, as whole numbers."""
    array = np.ascontiguousarray(to_numpy(x))
    return array.view(np.uint32 if array.dtype == np.float32 else np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_of_a_batch_have_the_bits_of_single_transforms(n: int, dtype: Any) -> None:
    z = generator(n).normal(size=(21, n, 2)).astype(dtype)
    x = np.ascontiguousarray(z[..., 0])
    half = np.ascontiguousarray(np.concatenate([z, z], 1)[:, : n // 2 + 1])
    cases = ((lambda v: fft(v, True), z), (rfft, x), (lambda v: irfft(v, n), half))
    for function, operand in cases:
        many = bits(function(from_numpy(operand)))
        for row in (0, 7, 20):
            np.testing.assert_array_equal(many[row], bits(function(from_numpy(operand[row].copy()))))


@pytest.mark.parametrize("n", LENGTHS)
def test_compiled_code_and_threads_do_not_change_bits(n: int) -> None:
    z = from_numpy(generator(n).normal(size=(67, n, 2)).astype(np.float32))
    wanted = bits(fft(z * 2.0))
    np.testing.assert_array_equal(bits(nc.jit(lambda v: fft(v * 2.0))(z)), wanted)
    threads = nc.get_threads()
    try:
        nc.set_threads(1)
        np.testing.assert_array_equal(bits(fft(z * 2.0)), wanted)
    finally:
        nc.set_threads(threads)


@pytest.mark.parametrize("n", [1 << 14, 10007, 3**9])
def test_long_transforms(n: int) -> None:
    z = generator(n).normal(size=(n, 2)).astype(np.float32)
    np.testing.assert_array_equal(to_numpy(fft(from_numpy(z))), order_fft.fft(z, False))
    back = to_numpy(fft(fft(from_numpy(z)), True)) / n
    np.testing.assert_allclose(back, z, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 12, 59, 131])
def test_transposes(n: int) -> None:
    rng = generator(n)
    z, x, half = (rng.normal(size=shape) for shape in ((n, 2), (n,), (n // 2 + 1, 2)))
    for function, operand in ((fft, z), (rfft, x), (lambda v: irfft(v, n), half)):
        y, pullback = nc.vjp(function, from_numpy(operand))
        cotangent = rng.normal(size=y.type.shape)
        (found,) = pullback(from_numpy(cotangent))
        tangent = rng.normal(size=operand.shape)
        moved = to_numpy(function(from_numpy(tangent)))
        np.testing.assert_allclose((to_numpy(found) * tangent).sum(), (moved * cotangent).sum(), rtol=1e-12)


def test_empty_batches() -> None:
    assert fft(from_numpy(np.zeros((0, 3, 2), np.float32))).type.shape == (0, 3, 2)
    assert rfft(from_numpy(np.zeros((2, 0, 5)))).type.shape == (2, 0, 3, 2)
    assert irfft(from_numpy(np.zeros((0, 3, 2))), 5).type.shape == (0, 5)


def test_errors_say_what_to_do() -> None:
    ones = from_numpy(np.ones((4, 2), np.float32))
    with pytest.raises(nc.DTypeError, match=r"fft: the dtype must be float32 or float64; got i64.*convert"):
        fft(from_numpy(np.ones((4, 2), np.int64)))
    with pytest.raises(nc.ShapeError, match=r"fft: x must have a last axis of size 2.*got \[4, 3\]"):
        fft(from_numpy(np.ones((4, 3), np.float32)))
    with pytest.raises(nc.ShapeError, match="fft: the length must be at least 1; got 0"):
        fft(from_numpy(np.ones((0, 2), np.float32)))
    with pytest.raises(nc.ShapeError, match=r"irfft: x must have n//2 \+ 1 = 5 pairs for n = 8; got 4"):
        irfft(ones, 8)
    with pytest.raises(nc.ShapeError, match="rfft: the length must be a number; got n; compile without dynamic_shapes"):
        nc.jit(lambda v: rfft(v), dynamic_shapes={"v": {0: nc.Dim("n", min=1)}})(from_numpy(np.ones(4, np.float32)))


def test_batches_of_any_size_share_a_program() -> None:
    compiled = nc.jit(lambda v: rfft(v))
    for rows in (2, 3, 4, 5):
        compiled(from_numpy(np.ones((rows, 6), np.float32)))
    assert len(compiled.concrete_functions) == 2
