"""Products with matrices that indices select are computed by groups of rows, with the bits of the products by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.passes.grouped_products import group_products
from nacre.compile.passes.simplify import simplify
from nacre.compile.pipeline import compile_graph
from nacre.ir.graph import Graph
from nacre.native.pool import pool
from nacre.runtime.plan import arena

Case = tuple[Any, tuple[int, ...], tuple[int, ...], int, range, Any]
CASES: dict[str, Case] = {  # dtype, groups and sizes of matrices, rows, the axis summed over, indices and their dtype
    "many rows of a group": (np.float32, (8, 128, 72), (37, 2), 2, range(8), np.int64),
    "few rows of a group": (np.float32, (8, 70, 128), (32,), 1, range(8), np.int32),
    "long sums": (np.float64, (5, 64, 515), (48,), 2, range(5), np.int64),
    "indices out of range": (np.float64, (5, 80, 64), (64,), 1, range(-3, 9), np.int64),
    "many groups": (np.float64, (300, 72, 70), (64,), 2, range(300), np.int64),
    "groups without rows": (np.float32, (3, 100, 70), (3, 50), 2, range(1, 2), np.int64),
    "two rows": (np.float32, (3, 600, 301), (2,), 2, range(3), np.int64),
}


def functions(case: Case) -> tuple[Callable[..., nc.Tensor], Callable[..., Any], tuple[nc.Tensor, nc.Tensor]]:
    """The product, its gradients, and the operands."""
    dtype, (groups, first, second), rows, axis, indices, of = case
    rng = np.random.default_rng(3)
    result, summed = (first, second) if axis == 2 else (second, first)
    k = nc.asarray(rng.choice(np.array(indices), rows).astype(of))
    w = nc.asarray(rng.standard_normal((groups, first, second)).astype(dtype))
    x, weights = (nc.asarray(rng.standard_normal((*rows, n)).astype(dtype)) for n in (summed, result))
    equation = "...ij,...j->...i" if axis == 2 else "...ij,...i->...j"

    def product(w: nc.Tensor, x: nc.Tensor) -> nc.Tensor:
        return nc.einsum(equation, nc.take(w, k, axis=0, mode="clip"), x)

    gradients = nc.grad(lambda w, x: nc.sum(product(w, x) * weights), argnums=(0, 1))
    return product, gradients, (w, x)


def grouped(graph: Graph) -> list[str]:
    """The names of the primitives by groups that the pass writes."""
    found = group_products(simplify(graph))
    return [e.primitive.name for e in found.equations if e.primitive.name.startswith("grouped")]


@pytest.mark.parametrize("name", CASES)
def test_groups_have_the_bits_of_rows(name: str, divided: None) -> None:
    product, gradients, operands = functions(CASES[name])
    assert grouped(nc.jit(product).trace(*operands)) == ["grouped_dot"]
    assert sorted(grouped(nc.jit(gradients).trace(*operands))) == ["grouped_dot", "grouped_outer"]
    expected = [product(*operands), *gradients(*operands)]
    for threads in (1, 2):
        pool().set_threads(threads)
        found = [nc.jit(product)(*operands), *nc.jit(gradients)(*operands)]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours.numpy().view(np.uint8), theirs.numpy().view(np.uint8))


def test_no_matrix_is_copied_for_a_row() -> None:
    _, gradients, operands = functions(CASES["many rows of a group"])
    program = compile_graph(nc.jit(gradients).trace(*operands)).executable
    rows, matrices = 74 * 128 * 72 * 4, 8 * 128 * 72 * 4
    assert arena(program.plan, {})[1] < 2 * matrices < rows / 4


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x, k: nc.einsum("tij,tj->ti", w[k], x),  # matrices of few bytes
        lambda w, x, k: nc.einsum("tij,sj->tsi", w[k], x),  # several rows for each matrix
        lambda w, x, k: nc.einsum("tij,ti->tj", nc.take(w, k, axis=1).transpose((1, 0, 2)), x[:, :8]),  # another axis
        lambda w, x, k: w[k] @ w[k].mT,  # no rows
    ],
)
def test_other_products_stay(function: Callable[..., nc.Tensor]) -> None:
    rng = np.random.default_rng(4)
    w, x = (nc.asarray(rng.standard_normal(shape).astype(np.float32)) for shape in ((8, 64, 16), (9, 16)))
    k = nc.asarray(rng.integers(0, 8, 9))
    assert not grouped(nc.jit(function).trace(w, x, k))
