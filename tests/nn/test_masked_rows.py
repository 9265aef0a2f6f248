"""Queries whose keys are all masked have result 0 and gradients 0, in all functions, layers and modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

F = nn.functional
PADDED = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)  # the last sequence is only padding


def normal(*shape: int, dtype: Any = nc.float32) -> Any:
    return nc.asarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)).astype(dtype)


def masked(kind: str, length: int, keys: int) -> Any:
    """A mask that excludes all keys in row 1 and, if there is one, row 5."""
    allowed = np.random.default_rng(0).random((length, keys)) < 0.7
    allowed[:, 0] = True
    allowed[1::4] = False
    return nc.asarray(allowed if kind == "bool" else np.where(allowed, 0, -np.inf).astype(np.float32))


@pytest.mark.parametrize("length", [2, 6], ids=["few", "several"])
@pytest.mark.parametrize("dtype", [nc.float32, nc.float64, nc.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_attention(kind: str, causal: bool, dtype: Any, length: int) -> None:
    q, k, v, g = (normal(2, 3, n, 4, dtype=dtype) for n in (length, 9, 9, length))
    mask = masked(kind, length, 9)

    def results(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        out, pull = nc.vjp(lambda *xs: F.scaled_dot_product_attention(*xs, mask, is_causal=causal), q, k, v)
        return (out, *pull(g))

    found = [x.astype(nc.float64).numpy() for x in results(q, k, v)]
    assert all(np.isfinite(x).all() for x in found)
    assert not found[0][..., 1::4, :].any() and not found[1][..., 1::4, :].any()
    assert found[0][..., 0, :].any()
    for eager, compiled in zip(found, nc.jit(results)(q, k, v), strict=True):
        np.testing.assert_array_equal(eager, compiled.astype(nc.float64).numpy())


def test_rows_with_keys_keep_their_bits() -> None:
    q, k, v = (normal(2, n, 4) for n in (6, 9, 9))
    whole = F.scaled_dot_product_attention(q, k, v).numpy()
    mask = np.ones((6, 9), bool)
    mask[1] = False
    found = F.scaled_dot_product_attention(q, k, v, nc.asarray(mask)).numpy()
    np.testing.assert_array_equal(np.delete(found, 1, 1), np.delete(whole, 1, 1))


def test_fast_numerics_over_blocks_of_keys() -> None:
    q, k, v = normal(1, 256, 4), normal(1, 4096, 4), normal(1, 4096, 4)
    mask = np.ones((256, 4096), bool)
    mask[3] = False
    with nc.numerics("fast"):

        def f(q: Any, k: Any, v: Any) -> Any:
            return nc.sum(F.scaled_dot_product_attention(q, k, v, nc.asarray(mask)) ** 2)

        for run in (nc.grad(f, argnums=(0, 1, 2)), nc.jit(nc.grad(f, argnums=(0, 1, 2)))):
            dq, *rest = (x.numpy() for x in run(q, k, v))
            assert not dq[0, 3].any() and dq[0, 2].any() and all(np.isfinite(x).all() for x in rest)


def test_forward_mode_second_order_and_batches() -> None:
    q, k, v = (normal(2, n, 4) for n in (6, 9, 9))
    mask = masked("bool", 6, 9)

    def f(q: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask)

    tangent = nc.jvp(f, (q,), (nc.ones_like(q),))[1].numpy()
    assert np.isfinite(tangent).all() and not tangent[:, 1].any() and tangent[:, 0].any()
    twice = nc.grad(lambda q: nc.sum(nc.grad(lambda q: nc.sum(f(q) ** 2))(q) ** 2))(q).numpy()
    assert np.isfinite(twice).all() and not twice[:, 1].any() and twice[:, 0].any()
    each = nc.vmap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask))(q, k, v)
    np.testing.assert_array_equal(each.numpy(), f(q).numpy())


def test_dropout() -> None:
    q, k, v = (normal(2, n, 4) for n in (6, 9, 9))
    found = F.scaled_dot_product_attention(q, k, v, masked("bool", 6, 9), dropout_p=0.5).numpy()
    assert np.isfinite(found).all() and not found[:, 1].any()


def test_plain_softmax_of_masked_rows_is_nan() -> None:
    assert np.isnan(F.softmax(nc.full((2, 3), -np.inf)).numpy()).all()


def eagerly(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


@pytest.mark.parametrize("run", [eagerly, nc.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("weights", [False, True], ids=["mixed", "with weights"])
def test_multihead_attention_of_padded_batches(weights: bool, run: Callable[..., Any]) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    padding = nc.asarray(PADDED)

    def step(x: Any) -> Any:
        layer.zero_grad()
        out, shares = layer(x, x, x, key_padding_mask=padding, need_weights=weights)
        loss = nc.sum(out * out) + (nc.sum(shares * shares) if weights else 0.0)
        loss.backward()
        return out

    out = run(step)(normal(3, 5, 8)).numpy()
    bias = layer.out_proj.bias.numpy()
    assert np.isfinite(out).all() and (out[2] == bias).all()
    for p in layer.parameters():
        assert p.grad is not None and np.isfinite(p.grad.numpy()).all()


@pytest.mark.parametrize("run", [eagerly, nc.jit], ids=["eager", "compiled"])
def test_a_transformer_learns_from_padded_batches(run: Callable[..., Any]) -> None:
    nc.random.seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
    rate = nc.optim.SGD(model.parameters(), lr=0.05)
    padding = nc.asarray(PADDED)

    @run
    def step(x: Any) -> Any:
        out = model(x, x, src_key_padding_mask=padding, tgt_key_padding_mask=padding, memory_key_padding_mask=padding)
        loss = nc.mean((out - x) ** 2)
        loss.backward()
        rate.step()
        rate.zero_grad()
        return loss

    losses = [step(normal(3, 5, 8)).item() for _ in range(4)]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert all(np.isfinite(p.numpy()).all() for p in model.parameters())
