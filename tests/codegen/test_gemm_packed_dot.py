"""Packed dot products give the bits of single multiply-adds: for all layouts and edges, and for subnormal sums."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_gemm import ISAS, Array, Product, expected, expected_sums, matrix, same_bits
from nacre.base import dtypes
from nacre.base.errors import ArgumentError
from nacre.codegen.gemm.element_types import grouped, numbers
from nacre.native import engine
from nacre.native.engine import isa_of
from nacre.native.isa import BY_NAME, Isa

MACHINES = [isa for name in ISAS for isa in dict.fromkeys((isa_of(engine.host_target(name)), BY_NAME[name]))]
DEPTHS = [0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 33, 62, 63, 64, 65, 127, 254, 255, 256, 257, 513]
bf16 = np.dtype(ml_dtypes.bfloat16)
machines = pytest.mark.parametrize(
    "isa", MACHINES, ids=[f"{m.name}{'-able' if m is not BY_NAME[m.name] else ''}" for m in MACHINES]
)


@cache
def _product(isa: Isa, name: str, result: str) -> Product:
    return Product(isa, dtypes.dtype_named(name), outputs=[dtypes.dtype_named(result)])


def _bits_agree(got: Array, want: Array) -> bool:
    """Whether the bits agree, NaNs counting as equal."""
    nan = np.isnan(want)
    return bool((np.isnan(got) == nan).all()) and same_bits(np.where(nan, 0, got), np.where(nan, 0, want))


def test_packed_dot_instructions_by_instruction_set() -> None:
    plain = BY_NAME["avx512"]
    able = replace(plain, fours="fours", halves="halves")
    sizes = {
        name: grouped(numbers(able, dtypes.dtype_named(name))).group
        for name in ("bfloat16", "float16", "float32", "int8", "uint8", "int16", "uint16", "int32", "int64")
    }
    assert list(sizes.values()) == [2, 1, 1, 4, 4, 2, 1, 1, 1]
    assert grouped(numbers(plain, dtypes.int8)).group == grouped(numbers(plain, dtypes.uint8)).group == 2
    assert grouped(numbers(plain, dtypes.bfloat16)).group == grouped(numbers(BY_NAME["neon"], dtypes.int8)).group == 1


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, ...]:
    """Factors of a short type with any layout, a number of threads, and places at which the items are split."""
    size = st.sampled_from([1, 2, 3, 6, 7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 48, 63, 65, 70])
    m, n, k = draw(size), draw(size), draw(st.sampled_from(DEPTHS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = dtypes.dtype_named(draw(st.sampled_from(["bfloat16", "int8", "uint8", "int16"])))
    layouts = st.sampled_from("ntps")
    a = matrix(rng, (2, m, k), draw(layouts), dtype)
    b = matrix(rng, (2, k, n), draw(layouts), dtype)
    return a, b, draw(st.sampled_from([1, 2, 7])), draw(st.lists(st.integers(1, 12), max_size=3))


@given(problems())
@settings(max_examples=100, deadline=None)
def test_canonical_bits(problem: tuple[Any, ...]) -> None:
    a, b, threads, chunks = problem
    sums = expected_sums(a, b)
    wide = "float32" if a.dtype == bf16 else "int32"
    for result in (a.dtype.name, wide):
        want = sums.astype(a.dtype if result == a.dtype.name else wide)
        for isa in MACHINES:
            padded = np.full((*want.shape[:2], want.shape[2] + 3), 7, want.dtype)
            _product(isa, a.dtype.name, result)(a, b, [padded[:, :, :-3]], threads=threads, chunks=chunks)
            assert same_bits(padded[:, :, :-3].copy(), want), (isa, result)
            assert (padded[:, :, -3:] == 7).all(), "wrote beyond a row"


@given(
    st.integers(-126, 0), st.integers(-126, 0), st.integers(0, 12), st.sampled_from([1, 2, 3, 17, 64, 257]),
    st.sampled_from("nts"), st.sampled_from("nts"), st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_subnormal_numbers_and_sums(low_a: int, low_b: int, spread: int, k: int, la: str, lb: str, seed: int) -> None:
    """Factors of such small exponents that products, or what remains after cancellation, may be subnormal."""
    rng = np.random.default_rng(seed)
    a, b = (matrix(rng, (1, *s), layout, dtypes.bfloat16) for s, layout in (((19, k), la), ((k, 50), lb)))
    for x, low in ((a, low_a), (b, low_b)):
        exponents = np.minimum(rng.integers(low, low + spread + 1, x.shape), 0)
        x[:] = np.ldexp(rng.choice([-1, 1], x.shape) * rng.integers(128, 256, x.shape) / 128, exponents).astype(bf16)
        x[rng.random(x.shape) < 0.2] = 0
    want = expected_sums(a, b)
    for isa in MACHINES:
        got = np.empty(want.shape, np.float32)
        _product(isa, "bfloat16", "float32")(a, b, [got])
        assert same_bits(got, want), isa


@machines
@pytest.mark.parametrize("k", [1, 2, 5, 256, 300])
def test_special_numbers(isa: Isa, k: int) -> None:
    info = ml_dtypes.finfo(bf16)
    some = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.5, info.max, -info.max, info.tiny, -info.tiny,
            info.smallest_subnormal, 3 * float(info.smallest_subnormal)]  # fmt: skip
    rng = np.random.default_rng(k)
    for values in (some, some[3:], some[3:9], some[4:5], [0.0, *some[-2:]], [*some[9:], 1.0]):
        chosen = np.array(values, np.float64).astype(bf16)
        a, b = rng.choice(chosen, (1, 21, k)), rng.choice(chosen, (1, k, 37))
        with np.errstate(all="ignore"):
            want = expected_sums(a, b)
            half = want.astype(bf16)
        got, rounded = np.empty(want.shape, np.float32), np.empty(want.shape, bf16)
        _product(isa, "bfloat16", "float32")(a, b, [got])
        _product(isa, "bfloat16", "bfloat16")(a, b, [rounded])
        assert _bits_agree(got, want)
        assert _bits_agree(rounded.astype(np.float32), half.astype(np.float32))


@machines
def test_one_subnormal_number_among_large_ones(isa: Isa) -> None:
    """Each row panel and block has its own test for subnormals; a chain may become subnormal and grow again."""
    rng = np.random.default_rng(1)
    a, b = matrix(rng, (1, 60, 600), "n", dtypes.bfloat16), matrix(rng, (1, 600, 70), "n", dtypes.bfloat16)
    a[0, 33, 300] = 1e-39
    a[0, 47, 510:514] = b[0, 510:514, 5] = np.array([1e-20, 1e-19, -1e-19, 1e-21]).astype(bf16)
    want = expected(a, b)
    got = np.empty_like(want)
    _product(isa, "bfloat16", "bfloat16")(a, b, [got], threads=2)
    assert same_bits(got, want)


@machines
@pytest.mark.parametrize("name", ["int8", "uint8", "int16"])
def test_gemv_along_k(isa: Isa, name: str) -> None:
    """k contiguous on both sides or on one; few rows, or few columns."""
    dtype = dtypes.dtype_named(name)
    kernel = Product(isa, dtype, outputs=[dtypes.int32], gemv=True)
    rng = np.random.default_rng(3)
    sizes = [(1, 1, 1), (1, 7, 63), (2, 33, 64), (3, 50, 65), (8, 5, 300), (1, 100, 1027), (5, 2, 0), (70, 1, 130)]
    for m, n, k in sizes:
        for layout in ("nt", "np", "nn", "tt", "pt"):
            a, b = matrix(rng, (2, m, k), layout[0], dtype), matrix(rng, (2, k, n), layout[1], dtype)
            got = np.full((2, m, n), 7, np.int32)
            try:
                kernel(a, b, [got], threads=2, chunks=[1])
            except ArgumentError:  # few columns, and rows of A that are not contiguous
                continue
            assert same_bits(got, expected_sums(a, b).astype(np.int32)), (m, n, k, layout)


@machines
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
def test_extreme_integers_wrap(isa: Isa, name: str) -> None:
    info = np.iinfo(name)
    rng = np.random.default_rng(2)
    for k in (1, 3, 4, 255, 257, 514):
        a, b = (rng.choice(np.array([info.min, info.max], name), s) for s in ((1, 17, k), (1, k, 49)))
        a[0, 0], b[0, :, 0] = info.min, info.min
        for factors in ((a, b), (np.swapaxes(b, 1, 2), np.swapaxes(a, 1, 2))):
            want = expected_sums(*factors).astype(np.int32)
            got = np.empty(want.shape, np.int32)
            _product(isa, name, "int32")(*factors, [got])
            assert same_bits(got, want), k
