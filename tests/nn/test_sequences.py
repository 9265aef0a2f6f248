"""Recurrent networks and transformers: compiled bits, states that are passed on, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn, optim

X = np.random.default_rng(0).normal(size=(5, 3, 6)).astype("f")
KINDS: list[Callable[[], nn.Module]] = [
    lambda: nn.LSTM(6, 4, num_layers=2, dropout=0.3, bidirectional=True),
    lambda: nn.GRU(6, 4),
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8), 2, nn.LayerNorm(6)),
    lambda: nn.MultiheadAttention(6, 2, dropout=0.2, add_bias_kv=True),
]


def first(result: Any) -> nc.Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("make", [
    pytest.param(make, marks=[] if name == "gru" else [pytest.mark.slow], id=name)
    for name, make in zip(("lstm", "gru", "encoder", "attention"), KINDS, strict=True)
])  # fmt: skip
def test_compiled_training_has_the_eager_bits(make: Callable[[], nn.Module]) -> None:
    def train(compiled: bool) -> list[np.ndarray]:
        nc.random.seed(3)
        net = make()
        opt = optim.SGD(net.parameters(), lr=0.1)

        def step(x: nc.Tensor) -> nc.Tensor:
            loss = (first(net(x)) ** 2).sum()
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        run = nc.jit(step) if compiled else step
        losses = [run(nc.tensor(X)).numpy() for _ in range(2)]
        return [*losses, *(p.numpy() for p in net.parameters())]

    for a, b in zip(train(True), train(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_states_are_passed_on() -> None:
    net = nn.LSTM(6, 4, num_layers=2)
    x = nc.tensor(X)
    whole, (h, c) = net(x)
    _, state = net(x[:2])
    rest, (h2, c2) = net(x[2:], state)
    np.testing.assert_array_equal(rest.numpy(), whole.numpy()[2:])
    np.testing.assert_array_equal(h2.numpy(), h.numpy())
    np.testing.assert_array_equal(c2.numpy(), c.numpy())
    cell = nn.LSTMCell(6, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in net.state_dict().items() if k.endswith("_l0")})
    held = None
    for row in x:
        held = cell(row, held)
    one = nn.LSTM(6, 4)
    one.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
    assert held is not None
    np.testing.assert_array_equal(one(x)[1][0].numpy()[0], held[0].numpy())


def test_a_batch_does_not_change_a_sequence() -> None:
    net = nn.GRU(6, 4, bidirectional=True)
    whole, _ = net(nc.tensor(X))
    alone, _ = net(nc.tensor(X[:, 1]))
    np.testing.assert_array_equal(alone.numpy(), whole.numpy()[:, 1])


def test_padding_and_causality_exclude_keys() -> None:
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval()
    x = nc.tensor(X.swapaxes(0, 1))
    mask = nc.broadcast_to(nc.tensor(np.arange(5) >= 3), (3, 5))
    short = layer(x[:, :3])
    np.testing.assert_allclose(layer(x, src_key_padding_mask=mask).numpy()[:, :3], short.numpy(), rtol=1e-5, atol=1e-6)
    upper = nn.Transformer.generate_square_subsequent_mask(5)
    causal = layer(x, is_causal=True).numpy()
    np.testing.assert_allclose(layer(x, src_mask=upper).numpy(), causal, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(x[:, :2], is_causal=True).numpy(), causal[:, :2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LSTM(3, 0), "hidden_size"), (lambda: nn.LSTM(3, 4, proj_size=4), "proj_size"),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), "nonlinearity"), (lambda: nn.GRU(3, 4, dropout=2.0), "dropout"),
        (lambda: nn.GRU(3, 4)(nc.ones((2, 2, 5))), "last axis of 3"), (lambda: nn.GRUCell(3, 0), "hidden_size"),
        (lambda: nn.GRU(3, 4)(nc.ones((2, 2, 3)), nc.ones((1, 3, 4))), "states must have shape"),
        (lambda: nn.MultiheadAttention(4, 2)(nc.ones((2, 2, 3))), "last axis of 4"),
        (lambda: nn.MultiheadAttention(4, 2)(nc.ones((2, 1, 4)), attn_mask=nc.ones(2)), "attn_mask"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), "relu"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 0), "num_layers"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()


@pytest.mark.slow
def test_training_has_the_same_bits_everywhere() -> None:
    def digest(threads: int, how: str, **more: str) -> str:
        paths = os.pathsep.join(p for p in sys.path if p)
        command = [sys.executable, str(Path(__file__).with_name("run_training.py")), str(threads), how]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, **more}, check=True,
                              capture_output=True, text=True).stdout  # fmt: skip

    told = {digest(n, "jit") for n in (1, 2, 5)} | {digest(2, "eager"), digest(2, "jit", NACRE_ISA="avx2")}
    assert len(told) == 1 and told != {""}
