"""Kernels of Fourier transforms give the bits of their definition with the lanes of every instruction set."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from nacre.base.dtypes import DType, float32, float64
from nacre.codegen.fft.kernel import complex_length, fourier_kernel, items, steps
from nacre.kernel import order_fft
from nacre.native.engine import compile_text, host_target, load
from nacre.native.isa import INSTRUCTION_SETS, Isa
from ops.samples import Array, generator

pytestmark = pytest.mark.sampled(3)

# rows shorter than vectors, radices that are straight code and loops, several passes, and Bluestein's algorithm
CASES = (
    ("fft", 6, True),
    ("fft", 127, False),
    ("rfft", 64, False),
    ("irfft", 34, False),
    ("fft", 128, False),
    ("fft", 226, False),
    ("fft", 445, True),
)
ROWS = 19  # a few units of as many transforms as lanes, and a rest


def run(kind: str, n: int, inverse: bool, isa: Isa, dtype: DType, x: Array, shape: tuple[int, ...]) -> Array:
    """The result of the kernel for an instruction set, compiled for this machine."""
    kernel = fourier_kernel(kind, n, inverse, isa, dtype)
    library = load(compile_text(kernel.module.text(), host_target()))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    y, passes = np.empty(shape, dtype.numpy), steps(kind, n, isa, dtype)
    roots = order_fft.table(complex_length(kind, n), dtype.numpy)
    scratch = np.full(kernel.scratch + 64, 0xFF, np.uint8)  # NaN, which no result may have
    addresses = [array.ctypes.data for array in (x, roots, passes, y)]
    arguments = np.array([*addresses, len(x)], np.int64)
    aligned = -(-scratch.ctypes.data // 64) * 64
    count: Any = items(len(x), kernel)
    function(library.address("nacre_kernel"))(arguments.ctypes.data, 0, count, aligned)
    return y


@pytest.mark.parametrize("isa", INSTRUCTION_SETS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize(("kind", "n", "inverse"), CASES)
def test_lanes_do_not_change_bits(isa: Isa, dtype: DType, kind: str, n: int, inverse: bool) -> None:
    bins = n // 2 + 1
    taken, given, reference = {
        "fft": ((n, 2), (n, 2), lambda x: order_fft.fft(x, inverse)),
        "rfft": ((n,), (bins, 2), order_fft.rfft),
        "irfft": ((bins, 2), (n,), lambda x: order_fft.irfft(x, n)),
    }[kind]
    x = generator(n).normal(size=(ROWS, *taken)).astype(dtype.numpy)
    found = run(kind, n, inverse, isa, dtype, x, (ROWS, *given))
    np.testing.assert_array_equal(found, reference(x))
