"""Prepacked factors that are reused between calls: the same bits, without reading the factor itself."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.run_gemm import ISAS, Array, axes_of, expected, matrix, plan_of, product, same_bits
from nacre.base import dtypes
from nacre.base.dtypes import DType
from nacre.codegen.gemm.prepack import prepacked_bytes
from nacre.runtime.plan import READY

FILL = 0x7F


def room(nbytes: int) -> tuple[Array, Array]:
    """Memory of a number of bytes behind a word that says "not ready", and the bytes behind it."""
    whole = np.full(READY + nbytes + 2 * 64, FILL, np.uint8)
    start = -whole.ctypes.data % 64
    memory = whole[start:]
    memory[:READY] = 0
    return memory, memory[READY + nbytes :]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16, dtypes.int8])
@pytest.mark.parametrize("layout", ["n", "t", "p", "s"])
@pytest.mark.parametrize("size", [(20, 300, 600), (9, 97, 259), (40, 70, 256), (15, 1100, 70), (300, 33, 270)])
@pytest.mark.parametrize("threads", [1, 3])
def test_bits(isa: str, dtype: DType, layout: str, size: tuple[int, int, int], threads: int) -> None:
    m, n, k = size
    rng = np.random.default_rng(3)
    kernel = product(isa, dtype)
    a, b = matrix(rng, (1, m, k), "n", dtype), matrix(rng, (1, k, n), layout, dtype)
    if dtype is dtypes.bfloat16 and n == 97:  # numbers that the packed dot instruction would flush
        a, b = (x * np.array(1e-19, np.float32).astype(x.dtype) for x in (a, b))
    nbytes = prepacked_bytes(kernel.meta.tiling, m, n, k, axes_of(a, b)[1] == "n")
    if not nbytes:
        return
    want = expected(a, b)
    memory, guard = room(nbytes)
    plan = plan_of(kernel.meta, a, b, threads)
    for ready in range(2):
        memory.view(np.int64)[0] = ready
        out = np.zeros(want.shape, want.dtype)
        kernel(a, b, [out], plan=plan, chunks=[1, 2], packed=memory)
        assert same_bits(out, want)
        assert (guard == FILL).all()
        if plan.rows >= m and not plan.swap:  # otherwise several items would write the prepacked blocks
            b[...] = 7


def test_small_and_contiguous_factors_are_not_prepacked() -> None:
    tiling = product(ISAS[0], dtypes.float32).meta.tiling
    assert prepacked_bytes(tiling, 64, 768, 768, False) >= 4 * 768 * 768
    assert prepacked_bytes(tiling, 64, 768, 768, True) == 0
    assert prepacked_bytes(tiling, 64, 16, 16, False) == 0
