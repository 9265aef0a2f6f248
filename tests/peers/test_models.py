"""The networks of `nacre.examples.models` have PyTorch's state dicts, values, gradients and updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.examples.models import bert, experts, llama, lstm, mobilenet, unet, vit
from nacre.nn import functional as F

torch = pytest.importorskip("torch")

from peers import torch_models as twins  # noqa: E402 - it needs PyTorch

ROWS = (
    mobilenet.Bottleneck(3, 16, 16, False, False, 1),
    mobilenet.Bottleneck(5, 40, 24, True, True, 2),
    mobilenet.Bottleneck(5, 72, 24, True, False, 1),
)
LLAMA = llama.LlamaConfig(50, 24, 40, 2, 6, 2)
EPSILON = 1e-3  # of AdamW: far above the rounding errors in gradients that are 0, as those of the keys' biases
BERT = bert.BertConfig(50, 24, 2, 3, 40, 20, dropout=0.0)


@dataclass(frozen=True)
class Pair:
    """A network and its twin, its inputs, and the shape and the number of its targets' classes.

    Without classes, the targets are numbers.  `tolerance` is relative to the largest number.
    """

    ours: Callable[[], nn.Module]
    theirs: Callable[[], Any]
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    targets: tuple[int, ...]
    classes: int
    channels: int = -1  # the axis of the classes
    tolerance: float = 1e-10


def images(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.standard_normal(shape),)


def tokens(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.integers(1, 50, shape),)


def padded(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    lengths = np.array([7, 4, 6])
    mask = (np.arange(7) < lengths[:, None]).astype(np.int64)
    return rng.integers(1, 50, mask.shape) * mask, mask


def mixture(way: Any) -> Pair:
    return Pair(
        lambda: experts.MixtureOfExperts(8, 12, 4, 2, way, room=None),
        lambda: twins.MixtureOfExperts(8, 12, 4, 2),
        images(3, 5, 8),
        (3, 5, 8),
        0,
    )


PAIRS = {
    "vit": Pair(
        lambda: vit.VisionTransformer(16, 4, 2, 24, 3, 40, 0.0, 7),
        lambda: twins.VisionTransformer(16, 4, 2, 24, 3, 40, 7),
        images(3, 3, 16, 16),
        (3,),
        7,
    ),
    "mobilenet": Pair(
        lambda: mobilenet.MobileNetV3(ROWS, 32, 7, 0.0),
        lambda: twins.MobileNetV3(ROWS, 32, 7),
        images(3, 3, 20, 20),
        (3,),
        7,
        tolerance=1e-9,  # PyTorch's derivative of hardsigmoid has float32's sixth also for float64
    ),
    "unet": Pair(lambda: unet.UNet(2, 3, 4), lambda: twins.UNet(2, 3, 4), images(2, 2, 37, 50), (2, 37, 50), 3, 1),
    "lstm": Pair(
        lambda: lstm.LstmLanguageModel(50, 12, 16, 2, 0.0),
        lambda: twins.LstmLanguageModel(50, 12, 16, 2),
        tokens(6, 3),
        (6, 3),
        50,
    ),
    "llama": Pair(lambda: llama.Llama(LLAMA), lambda: twins.Llama(LLAMA), tokens(3, 9), (3, 9), 50, tolerance=1e-6),
    "bert": Pair(lambda: bert.BertForMaskedLM(BERT), lambda: twins.BertForMaskedLM(BERT), padded, (3, 7), 50),
    "experts by onehot": mixture("onehot"),
    "experts by scatter": mixture("scatter"),
    "experts by gather": mixture("gather"),
}


def scores(found: Any) -> Any:
    """What a network returns, without its state."""
    return found[0] if isinstance(found, tuple) else found


def loss_of(f: Any, pair: Pair, found: Any, y: Any) -> Any:
    """The loss by the functions of a library."""
    if not pair.classes:
        return f.mse_loss(found, y)
    if pair.channels == -1:
        return f.cross_entropy(found.reshape(-1, pair.classes), y.reshape(-1))
    return f.cross_entropy(found, y)


def compare(ours: Any, theirs: Any, tolerance: float, name: str) -> None:
    """Numbers within a tolerance, relative to the largest."""
    expected = theirs.detach().numpy()
    np.testing.assert_allclose(ours.numpy(), expected, 0, tolerance * max(1e-3, np.abs(expected).max()), err_msg=name)


@pytest.mark.parametrize("name", PAIRS)
def test_values_gradients_and_three_updates_are_pytorchs(name: str) -> None:
    pair, rng = PAIRS[name], np.random.default_rng(1)
    torch.manual_seed(1)
    twin, model = pair.theirs().double(), pair.ours().double()
    model.load_state_dict(twin.state_dict())
    twin.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in model.state_dict().items()})
    theirs = dict(twin.named_parameters())
    assert theirs.keys() == dict(model.named_parameters()).keys()
    update = optim.AdamW(model.parameters(), lr=1e-2, eps=EPSILON, weight_decay=0.1)
    their_update = torch.optim.AdamW(twin.parameters(), lr=1e-2, eps=EPSILON, weight_decay=0.1)

    @nc.jit
    def step(y: nc.Tensor, *inputs: nc.Tensor) -> tuple[Any, ...]:
        found = scores(model(*inputs))
        loss = loss_of(F, pair, found, y)
        loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters()}
        update.step()
        update.zero_grad()
        return found, loss, gradients

    for _ in range(3):
        inputs = pair.inputs(rng)
        y = rng.integers(0, pair.classes, pair.targets) if pair.classes else rng.standard_normal(pair.targets)
        found, loss, gradients = step(nc.asarray(y), *map(nc.asarray, inputs))
        expected = scores(twin(*map(torch.from_numpy, inputs)))
        their_loss = loss_of(torch.nn.functional, pair, expected, torch.from_numpy(y))
        their_loss.backward()
        compare(found, expected, pair.tolerance, "values")
        compare(loss, their_loss, pair.tolerance, "loss")
        for n, p in theirs.items():
            compare(gradients[n], p.grad, 100 * pair.tolerance, n)
        their_update.step()
        their_update.zero_grad()
        for n, p in twin.state_dict().items():
            compare(model.state_dict()[n], p, 100 * pair.tolerance, n)
    model.eval(), twin.eval()
    inputs = pair.inputs(rng)
    with nc.no_grad():
        found = scores(nc.jit(model)(*map(nc.asarray, inputs)))
    compare(found, scores(twin(*map(torch.from_numpy, inputs))), 100 * pair.tolerance, "values of the trained network")
