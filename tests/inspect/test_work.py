"""Counted work: operations and bytes of known kernels."""

from __future__ import annotations

import pytest

import nacre as nc
from nacre.base.dtypes import bfloat16, float32
from nacre.inspect.work import KernelWork, Work, instructions, of_operation, steps, work


def counted(f: object, *args: nc.Tensor) -> list[KernelWork]:
    prepared = nc.jit(f).prepare(*args)
    return steps(prepared.compiled, prepared.sizes)


def test_operations_by_element() -> None:
    (only,) = counted(lambda x, y: x * y + 1.0 - y, nc.ones((30, 7)), nc.ones((30, 7)))
    assert only.flops == 3 * 210 and only.bytes == 3 * 4 * 210 and only.dtype == "f32"


def test_elementary_functions_count_their_operations() -> None:
    assert of_operation("fma", float32, 3) == 2 and of_operation("add", bfloat16, 2) == 1
    assert 10 < of_operation("exp", float32, 1) < of_operation("erf", float32, 1) < 100


def test_a_reduction_counts_its_elements() -> None:
    (only,) = counted(lambda x: nc.sum(x, axis=1), nc.ones((5, 100)))
    assert only.flops == 500 and only.bytes == 4 * 505


def test_integers_are_not_counted_as_floating_point() -> None:
    (only,) = counted(lambda x: x + 1, nc.ones(10, dtype=nc.int32))
    assert only.flops == 0 and only.bytes == 80


def test_a_lookup_reads_rows_and_not_the_table() -> None:
    found = counted(lambda t, k: nc.take(t, k, axis=0), nc.ones((1000, 16)), nc.asarray([3, 5], dtype=nc.int32))
    assert sum(s.bytes for s in found) < 1000


def test_a_product_reads_its_views() -> None:
    found = counted(lambda x: x[:4] @ x[4:8].T, nc.ones((400, 16)))
    assert found[-1].bytes == 4 * (2 * 4 * 16 + 16)


def test_launches_of_one_convolution_are_one_kernel() -> None:
    found = counted(lambda x, w: nc.nn.functional.conv2d(x, w), nc.ones((2, 20, 9, 9)), nc.ones((40, 20, 3, 3)))
    assert sum(s.flops for s in found) == 2 * 2 * 40 * 20 * 9 * 49
    assert len(found) == 1 and found[0].launches >= 1


def test_all_counts_of_a_program() -> None:
    prepared = nc.jit(lambda x: nc.sum(nc.exp(x @ x), axis=0)).prepare(nc.ones((40, 40)))
    total = work(prepared.compiled, prepared.sizes)
    assert isinstance(total, Work) and total.launches == len(prepared.compiled.stages) >= total.kernels >= 2
    assert total.instructions > 100 and total.arena >= 4 * 1600


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("define void @f() {\nentry:\n  ; note\n  %x = add i64 1, 2\n  ret void\n}\n", 2)]
)
def test_instructions(text: str, number: int) -> None:
    assert instructions(text) == number
