"""Layers: shapes, initial distributions, errors, and the transformer's parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn

SHAPES: list[tuple[Callable[[], nn.Module], tuple[int, ...], tuple[int, ...]]] = [
    (lambda: nn.Linear(4, 3), (2, 5, 4), (2, 5, 3)),
    (lambda: nn.Conv2d(4, 6, (3, 5), stride=2, padding=(1, 2), groups=2), (2, 4, 9, 9), (2, 6, 5, 5)),
    (lambda: nn.Conv2d(4, 6, 3, padding="same", dilation=2, bias=False), (4, 9, 9), (6, 9, 9)),
    (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (2, 4, 5, 5), (2, 6, 12, 12)),
    (lambda: nn.MaxPool2d(2), (2, 4, 9, 9), (2, 4, 4, 4)),
    (lambda: nn.AvgPool2d(3, 1, 1), (2, 4, 9, 9), (2, 4, 9, 9)),
    (lambda: nn.AdaptiveAvgPool2d(3), (2, 4, 9, 9), (2, 4, 3, 3)),
    (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3), (2, 4, 3, 3)),
    (lambda: nn.GroupNorm(2, 4), (2, 4, 3), (2, 4, 3)),
    (lambda: nn.LayerNorm((3, 4)), (2, 3, 4), (2, 3, 4)),
    (lambda: nn.RMSNorm(4), (2, 4), (2, 4)),
    (lambda: nn.Flatten(), (2, 3, 4), (2, 12)),
    (lambda: nn.Sequential(nn.Identity(), nn.SiLU(), nn.Softmax(), nn.LogSoftmax(), nn.ELU()), (2, 3), (2, 3)),
    (lambda: nn.Sequential(nn.Sigmoid(), nn.Softplus(), nn.LeakyReLU(), nn.Tanh(), nn.ReLU()), (2, 3), (2, 3)),
    (lambda: nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True), nn.Mish()), (3, 5, 8), (3, 5, 8)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16), (3, 5, 8), (3, 5, 8)),
]


@pytest.mark.parametrize(("make", "given", "wanted"), SHAPES, ids=lambda v: str(v) if isinstance(v, tuple) else "")
def test_shapes(make: Callable[[], nn.Module], given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    layer = make()
    out = layer(nc.random.normal(given))
    assert out.shape == wanted
    if list(layer.parameters()):
        out.sum().backward()
        assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize(
    ("layer", "fan"), [(lambda: nn.Linear(64, 500), 64), (lambda: nn.Conv2d(16, 200, 3, groups=2), 72)]
)
def test_initial_distribution_is_uniform_within_the_fan(layer: Callable[[], Any], fan: int) -> None:
    nc.random.seed(0)
    made, bound = layer(), 1 / math.sqrt(fan)
    w = made.weight.numpy()
    assert np.abs(w).max() < bound and abs(w.std() - bound / math.sqrt(3)) < 0.01 * bound and abs(w.mean()) < bound / 50
    assert np.abs(made.bias.numpy()).max() < bound
    nc.random.seed(0)
    np.testing.assert_array_equal(layer().weight.numpy(), w)


def test_embedding_starts_normal_with_zeros_at_the_padding() -> None:
    nc.random.seed(0)
    table = nn.Embedding(1000, 16, padding_idx=-1)
    w = table.weight.numpy()
    assert abs(w.std() - 1) < 0.02 and not w[999].any()
    assert table(nc.tensor([[1, 2]])).shape == (1, 2, 16)
    with pytest.raises(nc.ShapeError, match="indices"):
        table(nc.tensor([1000]))


def test_batch_norm_without_momentum_averages_the_batches() -> None:
    norm = nn.BatchNorm1d(2, momentum=None)
    batches = [np.random.default_rng(k).normal(size=(8, 2)).astype("f") for k in range(3)]
    for batch in batches:
        norm(nc.tensor(batch))
    wanted = np.mean([b.mean(0) for b in batches], 0)
    np.testing.assert_allclose(norm.running_mean.numpy(), wanted, rtol=1e-5, atol=1e-7)
    wanted = np.mean([b.var(0, ddof=1) for b in batches], 0)
    np.testing.assert_allclose(norm.running_var.numpy(), wanted, rtol=1e-5)


def test_attention_heads_against_separate_products() -> None:
    nc.random.seed(1)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f")
    w, b = layer.in_proj_weight.numpy(), layer.in_proj_bias.numpy()
    q, k, v = np.split(x @ w.T + b, 3, -1)
    heads = []
    for h in (slice(0, 2), slice(2, 4)):
        scores = q[..., h] @ k[..., h].swapaxes(1, 2) / math.sqrt(2)
        raised = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(raised / raised.sum(-1, keepdims=True) @ v[..., h])
    wanted = np.concatenate(heads, -1) @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()
    t = nc.tensor(x)
    np.testing.assert_allclose(layer(t)[0].numpy(), wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer(t, nc.tensor(x.copy()))[0].numpy(), wanted, rtol=1e-4, atol=1e-6)
    causal = layer(t, is_causal=True)[0].numpy()
    np.testing.assert_allclose(causal[:, 2], wanted[:, 2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(causal[:, :1], layer(t[:, :1])[0].numpy(), rtol=1e-4, atol=1e-6)


def test_sequences_of_modules() -> None:
    net = nn.Sequential(nn.Linear(2, 2)).append(nn.ReLU())
    assert len(net) == 2 and isinstance(net[-1], nn.ReLU) and isinstance(net[:1], nn.Sequential)
    assert [type(m).__name__ for m in net] == ["Linear", "ReLU"]
    with pytest.raises(nc.ArgumentError, match=r"must be a Module|instances of nn\.Module"):
        nn.Sequential(nc.exp)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Dropout(2.0), "probability"), (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups must divide"),
        (lambda: nn.MultiheadAttention(5, 2), "num_heads must divide"), (lambda: nn.Embedding(3, 2, 5), "padding_idx"),
        (lambda: nn.BatchNorm2d(3)(nc.ones((2, 3))), "the rank must be"),
        (lambda: nn.BatchNorm2d(3)(nc.ones((2, 4, 2, 2))), r"must have shape \[4\] .* got shape \[3\]"),
        (lambda: nn.Conv2d(1, 1, (1, 2, 3)), "one number or 2"),
        (lambda: nn.MaxPool2d(2, padding=2)(nc.ones((1, 1, 4, 4))), "at most half"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()


def test_criteria() -> None:
    a, b = nc.tensor([[1.0, 2.0]]), nc.tensor([[0.0, 4.0]])
    assert nn.MSELoss()(a, b).item() == 2.5 and nn.L1Loss("sum")(a, b).item() == 3.0
    assert nn.HuberLoss(delta=1.0)(a, b).item() == 1.0 and nn.BCEWithLogitsLoss()(a, nc.ones((1, 2))).shape == ()
    t = nc.tensor([1])
    picked = nn.NLLLoss()(nn.LogSoftmax()(a), t).item()
    assert picked == pytest.approx(nn.CrossEntropyLoss()(a, t).item(), rel=1e-6)
    assert nn.CrossEntropyLoss(weight=[1.0, 2.0], reduction="none")(a, t).item() == pytest.approx(2 * picked, rel=1e-6)
