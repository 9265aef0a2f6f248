"""Non-temporal stores: the same bits from any start, for any type and length; only for large results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_loops import ISAS, check, numbers
from nacre.base.dims import Dim
from nacre.base.dtypes import DType, bool_, float16, float32, float64, int8, int64
from nacre.codegen.loops.kernel import generate
from nacre.codegen.loops.non_temporal import LARGE, large_results
from nacre.kernel.ast import Accumulate, Alloc, Buffer, Expr, For, Index, Kernel, Load, Store, apply, cast
from nacre.native.isa import BY_NAME

N, M = Dim.symbol("N"), Dim.symbol("M")
I, J, K = Index("i"), Index("j"), Index("k")


def converted(dtypes: tuple[DType, ...], rows: bool) -> Kernel:
    """Each output is the doubled input in another type; along rows of M elements, or along all."""
    shape, index = ((N, M), (I, J)) if rows else ((M,), (J,))
    source = Buffer("x", float32, shape)
    outputs = tuple(Buffer(f"y{k}", d, shape) for k, d in enumerate(dtypes))
    twice = apply("add", Load("x", index, float32), Load("x", index, float32))
    body = tuple(Store(b.name, index, cast(twice, b.dtype)) for b in outputs)
    loop = For("j", M, body, parallel=True, vector=True)
    return Kernel("converted", (source,), outputs, (For("i", N, (loop,), parallel=True),) if rows else (loop,))


@pytest.mark.parametrize(
    "dtypes",
    [
        (float32,),
        (float64,),
        (float16,),
        (int64,),
        (bool_,),
        (int8,),
        (float32, float32),
        (float32, float64),
        (float16, int64, float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [False, True])
@settings(max_examples=12)
@given(
    n=st.integers(0, 4),
    m=st.sampled_from((0, 1, 3, 15, 16, 17, 64, 100, 257, 1024, 1037)),
    cuts=st.lists(st.integers(0, 5000), max_size=3),
)
def test_non_temporal_stores_have_the_same_bits(
    dtypes: tuple[DType, ...], rows: bool, n: int, m: int, cuts: list[int]
) -> None:
    kernel = converted(dtypes, rows)
    x = numbers((n, m) if rows else (m,), float32, special=False)
    check(kernel, [x], {"N": n, "M": m}, cuts, frozenset(b.name for b in kernel.outputs))


@pytest.mark.parametrize("isa", ISAS)
def test_whole_lines_are_stored_non_temporally(isa: str) -> None:
    kernel = converted((float32,), True)
    plain = generate(kernel, BY_NAME[isa]).text
    streamed = generate(kernel, BY_NAME[isa], frozenset(("y0",))).text
    assert "nontemporal" not in plain and "sfence" not in plain
    assert "nontemporal" in streamed and ("sfence" in streamed) == isa.startswith("avx")


def test_only_large_results_without_a_reader_are_non_temporal() -> None:
    def kernel(size: int | Dim, reads: str) -> Kernel:
        buffers = [Buffer(name, float32, (size,)) for name in "xy"]
        body = For("j", size, (Store("y", (J,), Load(reads, (J,), float32)),), vector=True)
        return Kernel("copied", (buffers[0],), (buffers[1],), (body,))

    count = LARGE // 4
    assert large_results(kernel(count, "x")) == {"y"}
    assert not large_results(kernel(count - 1, "x"))
    assert not large_results(kernel(count, "y"))
    assert not large_results(kernel(N, "x"))


def test_rows_of_whole_lines_may_be_short() -> None:
    def copied(row: int) -> Kernel:
        shape = LARGE // row, row // 4
        loop = For("j", shape[1], (Store("y", (I, J), Load("x", (I, J), float32)),), parallel=True, vector=True)
        buffers = [Buffer(name, float32, shape) for name in "xy"]
        return Kernel("copied", (buffers[0],), (buffers[1],), (For("i", shape[0], (loop,), parallel=True),))

    assert large_results(copied(256)) == {"y"}
    assert not large_results(copied(128))
    assert not large_results(copied(260))


@pytest.mark.parametrize("isa", ISAS)
def test_strided_rows_are_prefetched(isa: str) -> None:
    def turned(index: tuple[Expr, ...]) -> str:
        x, k, y = Buffer("x", float32, (N, M, 64)), Buffer("k", int64, (N,)), Buffer("y", float32, (M, N, 64))
        loop = For("j", 64, (Store("y", (I, K, J), Load("x", index, float32)),), parallel=True, vector=True)
        nest = For("i", M, (For("k", N, (loop,), parallel=True),), parallel=True)
        return generate(Kernel("turned", (x, k), (y,), (nest,)), BY_NAME[isa], frozenset("y")).text

    assert "llvm.prefetch" in turned((K, I, J))
    somewhere = Load("x", (I, K, I), int64)  # the distance between such rows is unknown
    assert "llvm.prefetch" not in turned((somewhere, I, J))


def shifted(row: int | Dim, times: int) -> Kernel:
    """y[i] = Σⱼ (… x[i, j] - Σⱼ x[i, j] …), with the given number of reads of the input."""
    x, y = Buffer("x", float32, (N, row)), Buffer("y", float32, (N,))
    body: list[Alloc | For | Store] = []
    value: Expr = Load("x", (I, J), float32)
    for k in range(times):
        total = Buffer(f"a{k}", float32, ())
        body += [Alloc(total), For("j", row, (Accumulate("sum", (total.name,), (value,)),), vector=True)]
        value = apply("sub", Load("x", (I, J), float32), Load(total.name, (), float32))
    body.append(Store("y", (I,), Load(f"a{times - 1}", (), float32)))
    return Kernel("shifted", (x,), (y,), (For("i", N, tuple(body), parallel=True),))


@pytest.mark.parametrize("isa", ISAS)
def test_the_next_row_is_prefetched_during_the_second_read(isa: str) -> None:
    def asked(row: int | Dim, times: int) -> int:
        return generate(shifted(row, times), BY_NAME[isa]).text.count("call void @llvm.prefetch")

    assert asked(M, 1) == 0
    assert asked(M, 2) == asked(M, 3) == asked(1024, 2) == 16
    assert asked(1 << 20, 2) == 0  # would evict this row


@settings(max_examples=20)
@given(
    n=st.integers(0, 4),
    m=st.sampled_from((0, 1, 16, 255, 256, 257, 1024, 1037, 4096)),
    cuts=st.lists(st.integers(0, 4), max_size=2),
)
def test_bits_of_rows_that_are_read_twice(n: int, m: int, cuts: list[int]) -> None:
    check(shifted(M, 2), [numbers((n, m), float32, special=False)], {"N": n, "M": m}, cuts)


def test_a_small_part_of_a_large_result_stays_in_the_cache() -> None:
    y, rows = Buffer("y", float32, (LARGE, 1024)), LARGE // 4096
    for count, streams in ((1, False), (rows - 1, False), (rows, True), (M, True)):
        update = Buffer("u", float32, (count, 1024))
        stored = Store("y", (Load("k", (I,), int64), J), Load("u", (I, J), float32))
        loop = For("i", count, (For("j", 1024, (stored,), vector=True),))
        kernel = Kernel("rows", (update, Buffer("k", int64, (count,))), (y,), (loop,))
        assert large_results(kernel) == (frozenset(("y",)) if streams else frozenset())
