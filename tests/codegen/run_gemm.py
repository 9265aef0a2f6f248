"""Runs matrix product kernels on NumPy arrays, and computes the bits that they must return."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nacre.base import dtypes
from nacre.base.dtypes import DType
from nacre.base.errors import DeviceError
from nacre.codegen.gemm.kernel import Gemm, GemmPlan, gemm, is_gemv
from nacre.codegen.gemm.plan import BLOCK
from nacre.kernel import softfloat
from nacre.native import engine
from nacre.native.engine import isa_of
from nacre.native.isa import BY_NAME, Isa
from nacre.native.text import ModuleText

Array = npt.NDArray[Any]
Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
SCRATCH_FILL = 0x7F  # a NaN in every float type, for memory that is read before it is written


def machines() -> list[str]:
    """The instruction sets that this machine runs."""
    found: list[str] = []
    for isa in ("avx512", "avx2"):
        try:
            engine.host_target(isa)
        except DeviceError:
            continue
        found.append(isa)
    return found


ISAS = machines()


class Product:
    """A compiled matrix product."""

    def __init__(
        self, isa: str | Isa, dtype: DType, symbols: Mapping[str, int] | None = None,
        parts: ModuleText | None = None, **options: Any,
    ) -> None:  # fmt: skip
        isa = isa_of(engine.host_target(isa)) if isinstance(isa, str) else isa
        module, self.meta = gemm(isa, dtype, **options)
        module = module if parts is None else module.without(parts)
        self.text = module.text()
        image = engine.compile_text(self.text, engine.host_target(isa.name))
        self.library = engine.load(image, symbols)
        self.function = Kernel(self.library.address(self.meta.name))

    def __call__(
        self, a: Array, b: Array, outputs: Sequence[Array], operands: Sequence[Array] = (), *,
        plan: GemmPlan | None = None, threads: int = 1, chunks: Sequence[int] = (), packed: Array | None = None,
    ) -> GemmPlan:  # fmt: skip
        """Run on a[…, m, k], b[…, k, n] with one or two axes of batch.

        `chunks` are the items at which to split; `packed` is memory for prepacked b.
        """
        plan = plan or plan_of(self.meta, a, b, threads)
        values = arguments(self.meta, a, b, outputs, operands, plan, packed)
        slots = (ctypes.c_int64 * len(values))(*values)
        scratch = np.full(plan.scratch + 4096, SCRATCH_FILL, np.uint8)
        start = -scratch.ctypes.data % 64
        guard = scratch[start + plan.scratch :]
        cuts = sorted({0, *(c for c in chunks if c < plan.items), plan.items})
        for lo, hi in pairwise(cuts):
            self.function(ctypes.addressof(slots), lo, hi, scratch.ctypes.data + start)
        assert (guard == SCRATCH_FILL).all(), "wrote beyond its scratch memory"
        return plan


@cache
def product(isa: str, dtype: DType, gemv: bool = False) -> Product:
    """The product without an epilogue, compiled once."""
    return Product(isa, dtype, gemv=gemv)


def variants(isa: str, a: Array, b: Array) -> list[Product]:
    """The kernels that take these factors."""
    dtype = dtypes.dtype_named(a.dtype.name)
    gemv = is_gemv(BY_NAME[isa], dtype, a.shape[1], b.shape[2], a.shape[2], axes_of(a, b))
    return [product(isa, dtype), *([product(isa, dtype, True)] if gemv else [])]


def elements(array: Array) -> list[int]:
    return [s // array.itemsize for s in array.strides]


def axes_of(a: Array, b: Array) -> str:
    """The contiguous axes, in the notation of `Gemm.plan`."""
    sa, sb = elements(a), elements(b)
    first = "k" if sa[-1] == 1 else "m" if sa[-2] == 1 else "-"
    return first + ("n" if sb[-1] == 1 else "k" if sb[-2] == 1 else "-")


def plan_of(meta: Gemm, a: Array, b: Array, threads: int) -> GemmPlan:
    *batch, m, k = a.shape
    return meta.plan(m, b.shape[-1], k, prod(batch), threads, axes_of(a, b))


def arguments(
    meta: Gemm,
    a: Array,
    b: Array,
    outputs: Sequence[Array],
    operands: Sequence[Array],
    plan: GemmPlan,
    packed: Array | None = None,
) -> list[int]:
    """The argument slots; a batch of one axis is all of the inner level, and outer strides are arbitrary.

    An operand array's first strides are those of the batch and of m, as far as it has them.
    """
    *batch, m, k = a.shape
    levels = ("outer", "inner")[-len(batch) :]
    values = {name: 1 << 40 for name in meta.slots if name.endswith(".outer")}
    values |= {"A": a.ctypes.data, "B": b.ctypes.data, "Packed": 0 if packed is None else packed.ctypes.data}
    values |= {"batch": prod(batch), "inner": batch[-1], "m": m, "k": k, "n": b.shape[-1]}
    for name, axes, array in (("a", ("m", "k"), a), ("b", ("k", "n"), b)):
        for axis, stride in zip((*levels, *axes), elements(array), strict=True):
            values[f"{name}.{axis}"] = stride
    for role, arrays in (("output", outputs), ("operand", operands)):
        for index, array in enumerate(arrays):
            values[f"{role.capitalize()}{index}"] = array.ctypes.data
            for axis, stride in zip((*levels, "m"), elements(array), strict=False):
                values[f"{role}{index}.{axis}"] = stride
    values |= {"rows": plan.rows, "columns": plan.columns, "swap": plan.swap}
    return [values[name] for name in meta.slots]


def expected_sums(a: Array, b: Array) -> Array:
    """The canonical sums: fma chains over 256 k at a time from +0, added in ascending order."""
    dtype = dtypes.dtype_named(a.dtype.name)
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if dtype.is_integer:
        return np.matmul(a.astype(np.int64), b.astype(np.int64))
    wide = np.float64 if dtype.bits == 64 else np.float32
    a, b = a.astype(wide), b.astype(wide)
    total = np.zeros(shape, wide)
    for start in range(0, a.shape[2], BLOCK):
        chain = np.zeros(shape, wide)
        for k in range(start, min(start + BLOCK, a.shape[2])):
            chain = softfloat.fma(a[:, :, k, None], b[:, None, k, :], chain)
        total = total + chain if start else chain
    return total


def expected(a: Array, b: Array) -> Array:
    """The product rounded once to the type of its factors."""
    return expected_sums(a, b).astype(a.dtype)


def same_bits(x: Array, y: Array) -> bool:
    """Whether two arrays hold the same bits."""
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def matrix(rng: np.random.Generator, shape: tuple[int, int, int], layout: str, dtype: DType) -> Array:
    """A random [batch, rows, columns] array; `layout` is n, t (transposed), p (padded rows) or s (strided)."""
    batch, rows, columns = shape
    if layout == "t":
        return np.swapaxes(_values(rng, (batch, columns, rows), dtype), 1, 2)
    if layout == "p":
        return _values(rng, (batch, rows, columns + 3), dtype)[:, :, :columns]
    if layout == "s":
        return _values(rng, (batch, 2 * rows, 3 * columns), dtype)[:, ::2, ::3]
    return _values(rng, shape, dtype)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
    return rng.standard_normal(shape).astype(dtype.numpy)


requires_both = pytest.mark.skipif(len(ISAS) < 2, reason="one instruction set only")
