"""The matrix product gives the canonical bits for all sizes, strides, blockings and instruction sets."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_gemm import (
    ISAS,
    Product,
    axes_of,
    expected,
    expected_sums,
    matrix,
    product,
    same_bits,
    variants,
)
from nacre.base import dtypes
from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError, DTypeError
from nacre.codegen.gemm import prefetch
from nacre.codegen.gemm.kernel import EpilogueOperand, gemm, shared_parts
from nacre.kernel import softfloat
from nacre.native import engine
from nacre.native.isa import AVX2, BY_NAME
from nacre.native.llvm_values import Val
from nacre.native.text import Function

EDGES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 50, 63, 64, 65, 70]
DEPTHS = [0, 1, 2, 3, 5, 15, 16, 17, 33, 64, 255, 256, 257, 513]
FLOATS = [dtypes.float32, dtypes.float64]
sizes = st.sampled_from(EDGES)
layouts = st.sampled_from("ntps")


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, ...]:
    """Factors with any layout, a number of threads, and places at which the items are split."""
    m, n, k = draw(sizes), draw(sizes), draw(st.sampled_from(DEPTHS))
    batch = draw(st.sampled_from([1, 1, 1, 2, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(FLOATS))
    a = matrix(rng, (batch, m, k), draw(layouts), dtype)
    b = matrix(rng, (batch, k, n), draw(layouts), dtype)
    chunks = draw(st.lists(st.integers(1, 12), max_size=3))
    return a, b, draw(st.sampled_from([1, 2, 7])), chunks


@given(problems())
@settings(max_examples=60, deadline=None)
def test_canonical_bits(problem: tuple[Any, ...]) -> None:
    a, b, threads, chunks = problem
    want = expected(a, b)
    for kernel in (k for isa in ISAS for k in variants(isa, a, b)):
        padded = np.full((*want.shape[:2], want.shape[2] + 3), 7, want.dtype)
        got = padded[:, :, :-3]
        kernel(a, b, [got], threads=threads, chunks=chunks)
        assert same_bits(got.copy(), want), kernel.meta
        assert (padded[:, :, -3:] == 7).all(), "wrote beyond a row"


@given(
    st.sampled_from([(130, 300, 64), (40, 10, 300), (257, 5, 33), (9, 600, 257)]),
    st.sampled_from("ntps"),
    st.sampled_from("ntps"),
    st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_blocking_leaves_bits(size: tuple[int, int, int], la: str, lb: str, seed: int) -> None:
    m, n, k = size
    rng = np.random.default_rng(seed)
    a, b = matrix(rng, (1, m, k), la, dtypes.float32), matrix(rng, (1, k, n), lb, dtypes.float32)
    results: list[np.ndarray] = []
    for isa in ISAS:
        kernel = product(isa, dtypes.float32)
        for threads in (1, 3, 16):
            out = np.empty((1, m, n), np.float32)
            plan = kernel(a, b, [out], threads=threads, chunks=rng.integers(0, 9, 2).tolist())
            assert plan.items > 0
            results.append(out)
    assert all(same_bits(results[0], r) for r in results[1:])


@given(
    st.integers(1, 9),
    sizes,
    st.sampled_from(DEPTHS),
    layouts,
    layouts,
    st.booleans(),
    st.sampled_from(["float32", "float64", "bfloat16", "int8"]),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_few_rows(rows: int, n: int, k: int, la: str, lb: str, turned: bool, name: str, threads: int) -> None:
    dtype = dtypes.dtype_named(name)
    rng = np.random.default_rng(7)
    a, b = matrix(rng, (2, rows, k), la, dtype), matrix(rng, (2, k, n), lb, dtype)
    if turned:
        a, b = np.swapaxes(b, 1, 2), np.swapaxes(a, 1, 2)
    want = expected(a, b)
    for kernel in (k for isa in ISAS for k in variants(isa, a, b)):
        out = np.full(want.shape, 7, want.dtype)
        kernel(a, b, [out], threads=threads, chunks=[2])
        assert same_bits(out, want), kernel.meta


@pytest.mark.parametrize("layout", "ntp")
@pytest.mark.parametrize("name", ["int8", "uint16", "bfloat16", "float16"])
def test_a_row_times_a_narrower_matrix(name: str, layout: str) -> None:
    """Whole cache lines, whole vectors and remainders of both; strips and groups of strips, packed or not."""
    narrow = dtypes.dtype_named(name)
    rng = np.random.default_rng(3)
    for n, k in ((1, 1), (15, 7), (70, 16), (64, 47), (200, 300), (300, 513)):
        a = rng.standard_normal((1, 1, k)).astype(np.float32)
        b = matrix(rng, (1, k, n), layout, narrow)
        want = expected(a, b.astype(np.float32))
        for isa in ISAS:
            kernel = narrowed(isa, name)
            for threads, chunks in ((1, []), (3, [1, 2])):
                out = np.full(want.shape, 7, np.float32)
                kernel(a, b, [out], threads=threads, chunks=chunks)
                assert same_bits(out, want), (isa, n, k, threads)


@cache
def narrowed(isa: str, name: str) -> Product:
    """A row of float32 times a matrix of another type."""
    return Product(isa, dtypes.float32, gemv=True, matrix=dtypes.dtype_named(name))


def test_gemv_refuses_other_products() -> None:
    with pytest.raises(ArgumentError, match="at most 8 rows"):
        product(ISAS[0], dtypes.float32, True).meta.plan(100, 100, 100)


def test_larger_than_every_block() -> None:
    rng = np.random.default_rng(1)
    a, b = (
        matrix(rng, (1, 70, 530), "n", dtypes.float32),
        matrix(rng, (1, 530, 900), "t", dtypes.float32),
    )
    want = expected(a, b)
    for isa in ISAS:
        for threads in (1, 4):
            out = np.empty_like(want)
            product(isa, dtypes.float32)(a, b, [out], threads=threads)
            assert same_bits(out, want), isa


@pytest.fixture
def all_far(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every product counts as a large one; the kernels written here are not cached."""
    shared_parts.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(prefetch, "FAR", -1)
        yield
    shared_parts.cache_clear()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.usefixtures("all_far")
def test_prefetching_changes_nothing(isa: str, name: str) -> None:
    dtype = dtypes.dtype_named(name)
    kernel = Product(isa, dtype)
    rng = np.random.default_rng(5)
    for m, n, k in ((6, 40, 3), (14, 33, 256), (45, 300, 513), (29, 230, 1024)):
        for layout in ("nn", "nt", "tn", "tt"):
            a, b = matrix(rng, (2, m, k), layout[0], dtype), matrix(rng, (2, k, n), layout[1], dtype)
            out = np.full((2, m, n), 7, dtype.numpy)
            kernel(a, b, [out], threads=2)
            assert same_bits(out, expected(a, b)), (m, n, k, layout)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("isa", ISAS)
def test_other_types(isa: str, name: str) -> None:
    dtype = dtypes.dtype_named(name)
    kernel = Product(isa, dtype)
    rng = np.random.default_rng(2)
    for m, n, k in ((13, 53, 300), (37, 5, 20), (1, 1, 0), (9, 70, 513)):
        for layout in ("nn", "nt", "tn", "ss"):
            a = matrix(rng, (2, m, k), layout[0], dtype)
            b = matrix(rng, (2, k, n), layout[1], dtype)
            out = np.full((2, m, n), 7, dtype.numpy)
            kernel(a, b, [out], threads=3, chunks=[1])
            assert same_bits(out, expected(a, b)), (m, n, k, layout)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("isa", ISAS)
def test_extreme_integers_wrap(isa: str, name: str) -> None:
    """The greatest products of neighbours in k, and a k without a neighbour."""
    dtype = dtypes.dtype_named(name)
    info = np.iinfo(dtype.numpy)
    rng = np.random.default_rng(5)
    for k in (1, 2, 255, 257, 513):
        for layout in ("nn", "tt"):
            a, b = matrix(rng, (1, 17, k), layout[0], dtype), matrix(rng, (1, k, 49), layout[1], dtype)
            a[:] = rng.choice([info.min, info.max], a.shape)
            b[:] = rng.choice([info.min, info.max], b.shape)
            a[0, 0], b[0, :, 0] = info.min, info.min
            out = np.empty((1, 17, 49), np.int32)
            Product(isa, dtype, outputs=[dtypes.int32])(a, b, [out])
            with np.errstate(over="ignore"):
                want = a.astype(np.int64) @ b.astype(np.int64)
            assert same_bits(out, want.astype(np.int32)), (k, layout)


def test_int8_into_int32() -> None:
    rng = np.random.default_rng(3)
    a, b = matrix(rng, (1, 9, 300), "n", dtypes.int8), matrix(rng, (1, 300, 20), "t", dtypes.int8)
    for isa in ISAS:
        out = np.empty((1, 9, 20), np.int32)
        Product(isa, dtypes.int8, outputs=[dtypes.int32])(a, b, [out])
        assert same_bits(out, expected_sums(a, b).astype(np.int32))


@pytest.mark.parametrize("isa", ISAS)
def test_special_values(isa: str) -> None:
    """NaN, infinities, subnormals and signed zeros go through; +0 starts every chain."""
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38, 1.0], np.float32)
    rng = np.random.default_rng(4)
    a, b = rng.choice(values, (1, 21, 6)), rng.choice(values, (1, 6, 19))
    with np.errstate(all="ignore"):
        want = expected(a, b)
    out = np.empty_like(want)
    product(isa, dtypes.float32)(a, b, [out])
    nan = np.isnan(want)
    assert (np.isnan(out) == nan).all()
    assert same_bits(np.where(nan, 0, out), np.where(nan, 0, want))
    tiny = np.full((1, 3, 1), -1e-30, np.float32)
    product(isa, dtypes.float32)(tiny, -np.swapaxes(tiny, 1, 2), [small := np.ones((1, 3, 3), np.float32)])
    assert np.signbit(small).any() == np.signbit(expected(tiny, -np.swapaxes(tiny, 1, 2))).any()


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0, 0)])
def test_empty_products(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    out = np.empty((1, m, n), np.float32)
    plan = product(ISAS[0], dtypes.float32)(np.ones((1, m, k), np.float32), np.ones((1, k, n), np.float32), [out])
    assert plan.items == 0


def residual(f: Function, sums: Val, loads: list[Val]) -> list[Val]:
    """(sums + bias) where positive, and its sum with residual · column + scalar; operands by kind."""
    bias, full, column, scalar = loads
    before = f.fadd(sums, bias)
    positive = f.fcmp("ogt", before, f.zero(before.ty))
    rectified = f.select(positive, before, f.zero(before.ty))
    return [before, f.fadd(f.fma(full, column, rectified), scalar), f.cast("zext", positive, "i8")]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [(19, 70, 20), (50, 7, 300), (8, 48, 256), (33, 64, 513), (1, 1, 0)])
def test_epilogue(isa: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    f32 = dtypes.float32
    kinds = ("row", "full", "column", "scalar")
    kernel = Product(
        isa, f32, outputs=[f32, f32, dtypes.bool_], operands=[EpilogueOperand(q, f32) for q in kinds],
        epilogue=residual,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    a, b = matrix(rng, (2, m, k), "n", f32), matrix(rng, (2, k, n), "t", f32)
    bias, full = matrix(rng, (2, 1, n), "n", f32)[:, 0], matrix(rng, (2, m, n), "p", f32)
    column, scalar = matrix(rng, (2, m, 1), "n", f32)[..., 0], np.array([0.25], np.float32)
    outs = [np.full((2, m, n), 7, t) for t in (np.float32, np.float32, np.bool_)]
    kernel(a, b, outs, [bias, full, column, scalar], threads=3, chunks=[1, 2])
    before = expected(a, b) + bias[:, None, :]
    after = softfloat.fma(full, column[..., None], np.maximum(before, 0)) + np.float32(0.25)
    assert same_bits(outs[0], before)
    assert same_bits(outs[1], after)
    assert same_bits(outs[2], before > 0)


@cache
def updating(isa: str, level: bool) -> Product:
    """A product whose epilogue updates two matrices in place, as an optimiser's step does."""

    def ending(f: Function, sums: Val, loads: list[Val]) -> list[Val]:
        mean = f.fma(f.fsub(sums, loads[0]), loads[2], loads[0])
        return [mean, f.fma(f.fdiv(mean, f.fma(sums, sums, loads[2])), loads[2], loads[1])]

    f32 = dtypes.float32
    kinds = [EpilogueOperand(kind, f32) for kind in ("full", "full", "scalar")]
    return Product(isa, f32, outputs=[f32, f32], operands=kinds, epilogue=ending, over=True, level=level)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "size", [(30, 70, 20), (57, 96, 300), (8, 48, 256), (64, 65, 513), (40, 3, 600), (70, 64, 3), (73, 97, 0)]
)  # fmt: skip
@pytest.mark.parametrize("padded", ["nn", "pn"])
def test_an_epilogue_updates_its_operands_in_place(isa: str, size: tuple[int, int, int], padded: str) -> None:
    """Partial sums are stored elsewhere, and each element is read before it is written."""
    m, n, k = size
    f32, rng = dtypes.float32, np.random.default_rng(7)
    a, b = matrix(rng, (2, m, k), "t", f32), matrix(rng, (2, k, n), "n", f32)
    share = np.array([0.25], np.float32)
    mean, weight = (matrix(rng, (2, m, n), layout, f32) for layout in padded)
    sums = expected(a, b)
    new = softfloat.fma(sums - mean, np.broadcast_to(share, sums.shape), mean)
    ratio = new / softfloat.fma(sums, sums, np.broadcast_to(share, sums.shape))
    want = softfloat.fma(ratio, np.broadcast_to(share, sums.shape), weight)
    updating(isa, padded == "nn")(a, b, [mean, weight], [mean, weight, share], threads=2, chunks=[1, 3])
    assert same_bits(np.ascontiguousarray(mean), new)
    assert same_bits(np.ascontiguousarray(weight), want)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([(5, 7, 9), (20, 50, 33), (40, 3, 260), (1, 30, 16)]),
    st.integers(1, 4),
    st.lists(st.integers(1, 20), max_size=3),
    st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_two_levels_of_batch(
    batch: tuple[int, int], size: tuple[int, int, int], threads: int, chunks: list[int], seed: int
) -> None:
    """Attention heads are read and written in place, [examples, rows, heads, …], operands of an epilogue too."""
    (outer, inner), (m, n, k) = batch, size
    f32, rng = dtypes.float32, np.random.default_rng(seed)
    a = rng.standard_normal((outer, m, inner, k), np.float32).swapaxes(1, 2)
    b = rng.standard_normal((inner, k, outer, n), np.float32).transpose(2, 0, 1, 3)
    whole = matrix(rng, (outer * inner, m, k), "n", f32), matrix(rng, (outer * inner, k, n), "n", f32)
    for x, dense in zip((a, b), whole, strict=True):
        dense[...] = x.reshape(dense.shape)
    want = expected(*whole).reshape(outer, inner, m, n)
    bias, column = rng.standard_normal((inner, n), np.float32), rng.standard_normal((outer, m), np.float32)
    row = np.broadcast_to(bias, (outer, inner, n))
    per_m = np.broadcast_to(column[:, None], (outer, inner, m))
    for isa in ISAS:
        out = np.full((outer, m, inner, n), 7, np.float32)
        product(isa, f32)(a, b, [out.swapaxes(1, 2)], threads=threads, chunks=chunks)
        assert same_bits(np.ascontiguousarray(out.swapaxes(1, 2)), want)
        got = np.full((outer, m, inner, n), 7, np.float32)
        added(isa)(a, b, [got.swapaxes(1, 2)], [row, per_m], threads=threads, chunks=chunks)
        after = want + row[:, :, None] + per_m[..., None]
        assert same_bits(np.ascontiguousarray(got.swapaxes(1, 2)), after)


@cache
def added(isa: str) -> Product:
    """A product with a row and a column added to it."""

    def ending(f: Function, sums: Val, loads: list[Val]) -> list[Val]:
        return [f.fadd(f.fadd(sums, loads[0]), loads[1])]

    f32 = dtypes.float32
    kinds = [EpilogueOperand("row", f32), EpilogueOperand("column", f32)]
    return Product(isa, f32, outputs=[f32], operands=kinds, epilogue=ending)


@pytest.mark.parametrize("isa", ISAS)
def test_epilogue_rounds_to_half_types(isa: str) -> None:
    """Partial sums stay float32 where the output cannot hold them."""
    bf16, f32 = dtypes.bfloat16, dtypes.float32

    def scaled(f: Function, sums: Val, loads: list[Val]) -> list[Val]:
        half = f.fmul(sums, f.const(sums.ty, 0.5))
        return [f.cast("fptrunc", half, "half"), f.fadd(half, loads[0])]

    kernel = Product(isa, bf16, outputs=[dtypes.float16, f32], operands=[EpilogueOperand("row", f32)], epilogue=scaled)
    rng = np.random.default_rng(6)
    for m, n, k in ((21, 50, 600), (40, 3, 40)):
        a, b = matrix(rng, (1, m, k), "n", bf16), matrix(rng, (1, k, n), "n", bf16)
        bias = matrix(rng, (1, 1, n), "n", f32)[:, 0]
        outs = [np.full((1, m, n), 7, t) for t in (np.float16, np.float32)]
        kernel(a, b, outs, [bias], threads=5, chunks=[1])
        half = expected_sums(a, b) * np.float32(0.5)
        assert same_bits(outs[0], half.astype(np.float16))
        assert same_bits(outs[1], half + bias[:, None, :])


@pytest.mark.parametrize("isa", ISAS)
def test_threads_share_one_kernel(isa: str) -> None:
    """Several products at once, on threads of their own, have the same bits."""
    rng = np.random.default_rng(9)
    a = matrix(rng, (1, 150, 270), "t", dtypes.float32)
    b = matrix(rng, (1, 270, 190), "n", dtypes.float32)
    outs = [np.empty((1, 150, 190), np.float32) for _ in range(24)]
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(product(isa, dtypes.float32), a, b, [out], threads=4) for out in outs]
        assert all(call.result().items > 1 for call in calls)
    want = expected(a, b)
    assert all(same_bits(out, want) for out in outs)


@pytest.mark.parametrize("gemv", [False, True])
@pytest.mark.parametrize("isa", ISAS)
def test_shared_parts_link(isa: str, gemv: bool) -> None:
    """Kernels linked to one module of shared functions give the bits of a kernel with its own."""
    target = engine.host_target(isa)
    parts = shared_parts(BY_NAME[isa], dtypes.float32, gemv)[-1]
    library = engine.load(engine.compile_text(parts.exported(), target))
    symbols = {name: library.address(name) for name in parts.functions}
    kernel = Product(isa, dtypes.float32, gemv=gemv, parts=parts, symbols=symbols)
    rng = np.random.default_rng(8)
    m = 1 if gemv else 21
    for layout in "nt":
        a, b = (
            matrix(rng, (1, m, 300), "n", dtypes.float32),
            matrix(rng, (1, 300, 60), layout, dtypes.float32),
        )
        out = np.empty((1, m, 60), np.float32)
        kernel(a, b, [out])
        assert same_bits(out, expected(a, b))


def test_arguments_are_checked() -> None:
    with pytest.raises(DTypeError, match="bool"):
        gemm(AVX2, dtypes.bool_)
    with pytest.raises(ArgumentError, match="diagonal"):
        gemm(AVX2, dtypes.float32, operands=[EpilogueOperand("diagonal", dtypes.float32)])
    with pytest.raises(ArgumentError, match="epilogue"):
        gemm(AVX2, dtypes.float32, outputs=[dtypes.float32, dtypes.float32])


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 3000), st.integers(1, 4),
       st.integers(1, 16), st.sampled_from(["kn", "kk", "mn", "mk", "--"]))  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_plan_covers_the_product(m: int, n: int, k: int, batch: int, threads: int, axes: str) -> None:
    meta = product(ISAS[0], dtypes.float32).meta
    plan = meta.plan(m, n, k, batch, threads, axes)
    across, down = (n, m) if plan.swap else (m, n)
    assert plan.items == batch * -(-across // plan.rows) * -(-down // plan.columns)
    assert 1 <= plan.grain <= max(1, plan.items)
    assert plan.scratch <= 2 << 20
    assert not plan.swap or n <= meta.tiling.lanes


def test_axes_of_views() -> None:
    a = np.zeros((1, 4, 6), np.float32)
    assert axes_of(a, a.swapaxes(1, 2)) == "kk"
    assert axes_of(a[:, :, ::2], a) == "-n"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("isa", list(BY_NAME))
def test_text_for_every_instruction_set(isa: str, dtype: DType) -> None:
    module, meta = gemm(BY_NAME[isa], dtype, name="product")
    assert "define void @product(ptr %args, i64 %lo, i64 %hi, ptr %scratch)" in module.text()
    assert meta.slots[:4] == ("A", "B", "Packed", "Output0")
