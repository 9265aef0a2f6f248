"""Values that are only read permuted are written in that order; all others are row-major; bits do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from codegen.run_steps import assert_same_bits
from nacre.compile.passes.layout import layouts

HEADS = (2, 3, 5, 4)  # examples, heads, rows, features


def tensor(*shape: int) -> nc.Tensor:
    return nc.asarray(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def merged(x: Any) -> Any:
    """[B, H, T, D] as [B, T, H·D]."""
    b, h, t, d = x.shape
    return nc.reshape(nc.permute_dims(x, (0, 2, 1, 3)), (b, t, h * d))


P, V, W = tensor(2, 3, 5, 5), tensor(*HEADS), tensor(12, 7)
Case = tuple[Callable[..., Any], list[nc.Tensor], int, int]
CASES: dict[str, Case] = {  # function, operands, launches, values that are not row-major
    "product": (lambda p, v: merged(p @ v) + 1.0, [P, V], 2, 1),
    "product as the result": (lambda p, v: merged(p @ v), [P, V], 2, 1),
    "finished product": (lambda p, v, w: merged((p @ v) * 2.0) @ w, [P, V, W], 2, 1),
    "cluster": (lambda p, v: nc.sum(merged(nc.exp(v) * 2.0), axis=1), [P, V], 2, 1),
    "rows": (lambda x: merged(nc.sum(x, axis=4) * 2.0) + 1.0, [tensor(2, 3, 5, 4, 6)], 2, 1),
    "few long rows": (lambda x: merged(nc.sum(x, axis=4) * 2.0) + 1.0, [tensor(1, 2, 3, 2, 9000)], 3, 1),
    "read twice": (lambda p, v: (lambda y: merged(y) + nc.sum(y))(p @ v), [P, V], 4, 0),
    "a view": (lambda p, v: nc.reshape(nc.permute_dims(v * 2.0, (1, 0, 2, 3)), (3, 2, 20)) + 1.0, [P, V], 2, 0),
    "columns not last": (lambda p, v: nc.reshape(nc.permute_dims(p @ v, (0, 3, 1, 2)), (2, 60)) + 1.0, [P, V], 3, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_and_launches(name: str) -> None:
    f, operands, launches, moved = CASES[name]
    concrete = nc.jit(f).concrete(*operands)
    compiled = concrete.compiled
    labels = [s.label for s in compiled.stages]
    assert len(layouts(compiled.simplified)) == moved, labels
    assert len(labels) <= launches, labels
    assert_same_bits(nc.jit(f)(*operands).numpy(), f(*operands).numpy())


def test_three_levels_of_batch_stay_row_major() -> None:
    """A result that the product's kernel cannot write is copied as before."""
    p, v = tensor(2, 2, 2, 5, 5), tensor(2, 2, 2, 5, 4)

    def f(p: nc.Tensor, v: nc.Tensor) -> Any:
        return nc.reshape(nc.permute_dims(p @ v, (1, 3, 0, 2, 4)), (2, 5, 16)) + 1.0

    compiled = nc.jit(f).concrete(p, v).compiled
    assert not layouts(compiled.simplified)
    assert_same_bits(nc.jit(f)(p, v).numpy(), f(p, v).numpy())


def test_a_product_that_is_read_elsewhere_too() -> None:
    """The raw product is stored for its reader, in addition to the result of its epilogue."""

    def f(p: nc.Tensor, v: nc.Tensor) -> Any:
        y = p @ v
        return merged(nc.maximum(y, 0.0)), merged(y * 3.0), y

    for got, want in zip(nc.jit(f)(P, V), f(P, V), strict=True):
        assert_same_bits(got.numpy(), want.numpy())


def test_any_number_of_examples() -> None:
    batch = nc.Dim("batch", max=8)
    f = nc.jit(lambda p, v: merged(p @ v) * 0.5, dynamic_shapes={"p": {0: batch}, "v": {0: batch}})
    for n in (1, 2):
        want = merged(P[:n] @ V[:n]) * 0.5
        assert_same_bits(f(P[:n], V[:n]).numpy(), want.numpy())
    assert len(f.concrete_functions) == 1


def test_gradients_of_split_heads() -> None:
    """The gradients of queries, keys and values are combined in the layout of the projection."""

    def loss(x: nc.Tensor) -> Any:
        q, k, v = (nc.permute_dims(x.reshape(2, 5, 3, 3, 4)[:, :, i], (0, 2, 1, 3)) for i in range(3))
        return nc.sum(merged(q @ nc.permute_dims(k, (0, 1, 3, 2)) @ v) ** 2)

    x = tensor(2, 5, 36)
    assert_same_bits(nc.jit(nc.grad(loss))(x).numpy(), nc.grad(loss)(x).numpy())
