"""Attention to no keys gives 0 with derivative 0, and an empty axis of features gives an empty result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

F = nn.functional
SHAPES = [(3, 4), (2, 3, 4), (2, 2, 3, 4)]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"is_causal": True},
    {"attn_mask": nc.ones((3, 0), dtype=nc.bool)},
    {"attn_mask": nc.zeros((3, 0))},
    {"lengths": nc.tensor(0)},
    {"dropout_p": 0.5},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_keys(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    q = nc.random.normal(shape)

    def results(q: Any, k: Any) -> tuple[Any, ...]:
        out, pull = nc.vjp(lambda q, k: F.scaled_dot_product_attention(q, k, k, **settings), q, k)
        return (out, *pull(nc.ones(out.shape)))

    for found in (results(q, q[..., :0, :]), nc.jit(results)(q, q[..., :0, :])):
        assert [x.shape for x in found] == [shape, shape, (*shape[:-2], 0, 4)]
        assert not any(x.numpy().any() for x in found)


def test_one_variant_serves_no_keys_and_some() -> None:
    q, k = nc.random.normal((2, 3, 4)), nc.random.normal((2, 9, 4))
    rows = nc.Dim("rows", max=9)
    attend = nc.jit(lambda q, k: F.scaled_dot_product_attention(q, k, k), dynamic_shapes={"k": {1: rows}})
    for n in (0, 1, 2, 9):
        eager = F.scaled_dot_product_attention(q, k[:, :n], k[:, :n])
        np.testing.assert_array_equal(attend(q, k[:, :n]).numpy(), eager.numpy())
    assert len(attend.concrete_functions) == 1


@pytest.mark.parametrize("settings", [{}, {"is_causal": True}, {"scale": 2.0}], ids=str)
def test_no_features(settings: dict[str, Any]) -> None:
    q, v = nc.ones((2, 3, 0)), nc.ones((2, 3, 5))
    attend = nc.jit(lambda *xs: F.scaled_dot_product_attention(*xs, **settings))
    assert attend(q, q, q).shape == F.scaled_dot_product_attention(q, q, q, **settings).shape == (2, 3, 0)
    np.testing.assert_array_equal(F.scaled_dot_product_attention(q, q, v, **settings).numpy(), np.ones((2, 3, 5)))
