"""Trainings in bfloat16 and float16 beside the same ones in float32, and in compiled code beside eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from same_bits import canonical

F = nn.functional
DTYPES = {"bfloat16": nc.bfloat16, "float16": nc.float16}


class GPT(nn.Module):
    """A small decoder on characters."""

    def __init__(self, classes: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(classes, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                )
                for _ in range(layers)
            ]
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        mask = nc.triu(nc.ones((length, length), dtype=nc.bool), k=1)
        h = self.tokens(x) + self.places(nc.arange(length))
        for block in self.blocks:
            h = block(h, mask)
        return self.head(self.norm(h))


Batches = list[tuple[Any, ...]]
Case = tuple[nn.Module, Batches, Callable[..., Any], Callable[[nn.Module], optim.Optimizer], int]


def mlp() -> Case:
    x = nc.random.normal((256, 16))
    y = nc.sin(x @ nc.random.normal((16, 1)) * 0.5)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def loss(x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y) + 0.05

    return model, [(x, y)], loss, lambda m: optim.SGD(m.parameters(), lr=0.05, momentum=0.9), 100


def convnet() -> Case:
    images = nc.random.normal((96, 1, 8, 8))
    classes = (images[:, 0, :4].mean(axis=(1, 2)) > images[:, 0, 4:].mean(axis=(1, 2))).astype(nc.int64)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 2),
    )  # fmt: skip

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y, label_smoothing=0.2)

    batches: Batches = [(images[k : k + 32], classes[k : k + 32]) for k in (0, 32, 64)]
    return model, batches, loss, lambda m: optim.AdamW(m.parameters(), lr=3e-3), 90


def gpt() -> Case:
    sentences = b"the quick brown fox jumps over the lazy dog. pack my box with five dozen jugs. " * 12
    text = np.unique(np.frombuffer(sentences, np.uint8), return_inverse=True)[1].astype(np.int64)
    model = GPT(int(text.max()) + 1, 32, 2, 2, 24)

    def batch(k: int, shift: int) -> Any:
        starts = [(37 * k + 53 * j) % 800 + shift for j in range(8)]
        return nc.tensor(np.stack([text[s : s + 24] for s in starts]))

    def loss(x: Any, y: Any) -> Any:
        logits = model(x)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), label_smoothing=0.1)

    batches: Batches = [(batch(k, 0), batch(k, 1)) for k in range(12)]
    return model, batches, loss, lambda m: optim.AdamW(m.parameters(), lr=3e-3), 120


def trained(make: Callable[[], Case], dtype: nc.DType | None, steps: int | None = None, compiled: bool = True) -> Any:
    """The losses, the weights and the number of skipped steps."""
    nc.random.seed(0)
    model, batches, loss_of, optimizer, count = make()
    opt, scaler = optimizer(model), optim.GradScaler(enabled=dtype is nc.float16)

    def step(*batch: Any) -> Any:
        with nc.autocast(dtype or nc.bfloat16, enabled=dtype is not None):
            loss = loss_of(*batch)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        return loss

    run = nc.jit(step) if compiled else step
    losses, skipped = [], 0
    for k in range(steps or count):
        before = scaler.get_scale()
        losses.append(run(*batches[k % len(batches)]).item())
        skipped += scaler.get_scale() < before
    return losses, [canonical(p.value) for p in model.parameters()], skipped


@pytest.mark.parametrize("make", [mlp, convnet])
def test_some_steps_have_the_same_bits_eagerly_and_compiled(make: Callable[[], Case]) -> None:
    for dtype in DTYPES.values():
        eager, compiled = (trained(make, dtype, 4, compiled) for compiled in (False, True))
        assert eager == compiled


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [mlp, convnet, gpt])
def test_trainings_reach_the_loss_of_float32(make: Callable[[], Case], dtype: str) -> None:
    wanted, _, _ = trained(make, None)
    found, _, skipped = trained(make, DTYPES[dtype])
    assert wanted[-1] < 0.6 * wanted[0]
    assert np.mean(found[-12:]) == pytest.approx(np.mean(wanted[-12:]), rel=0.01)
    assert skipped < 12


def test_a_quick_training_reaches_the_loss_of_float32() -> None:
    wanted, found = (trained(mlp, dtype, 40)[0] for dtype in (None, nc.bfloat16))
    assert found[-1] < 0.5 * found[0]
    assert found[-1] == pytest.approx(wanted[-1], rel=0.05)
