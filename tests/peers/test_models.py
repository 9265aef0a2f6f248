"""The networks of `nacre.examples.models` have PyTorch's state dicts, values, gradients and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from examples.small_networks import BERT, LLAMA, NETWORKS, ROWS, scores
from nacre import optim
from nacre.examples.models.experts import MixtureOfExperts
from nacre.examples.models.llama import Llama, LlamaCache
from nacre.nn import functional as F

torch = pytest.importorskip("torch")

from peers import torch_models as twins  # noqa: E402 - it needs PyTorch

EPSILON = 1e-3  # of AdamW: far above the rounding errors in gradients that are 0, as those of the keys' biases
TWINS: dict[str, Callable[[], Any]] = {
    "vit": lambda: twins.VisionTransformer(16, 4, 2, 24, 3, 40, 7),
    "mobilenet": lambda: twins.MobileNetV3(ROWS, 32, 7),
    "unet": lambda: twins.UNet(2, 3, 4),
    "lstm": lambda: twins.LstmLanguageModel(50, 12, 16, 2),
    "llama": lambda: twins.Llama(LLAMA),
    "bert": lambda: twins.BertForMaskedLM(BERT),
    **{f"experts by {way}": lambda: twins.MixtureOfExperts(8, 12, 4, 2) for way in ("onehot", "scatter", "gather")},
}
TOLERANCES = {  # relative to the largest number
    "mobilenet": 1e-9,  # PyTorch's derivative of hardsigmoid has float32's sixth also for float64
    "llama": 1e-6,
}


def compare(ours: Any, theirs: Any, tolerance: float, name: str) -> None:
    """Numbers within a tolerance, relative to the largest."""
    expected = theirs.detach().numpy()
    np.testing.assert_allclose(ours.numpy(), expected, 0, tolerance * max(1e-3, np.abs(expected).max()), err_msg=name)


@pytest.mark.parametrize("name", NETWORKS)
def test_values_gradients_and_three_updates_are_pytorchs(name: str) -> None:
    small, tolerance, rng = NETWORKS[name], TOLERANCES.get(name, 1e-10), np.random.default_rng(1)
    torch.manual_seed(1)
    twin, model = TWINS[name]().double(), small.make().double()
    model.load_state_dict(twin.state_dict())
    twin.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in model.state_dict().items()})
    theirs = dict(twin.named_parameters())
    assert theirs.keys() == dict(model.named_parameters()).keys()
    update = optim.AdamW(model.parameters(), lr=1e-2, eps=EPSILON, weight_decay=0.1)
    their_update = torch.optim.AdamW(twin.parameters(), lr=1e-2, eps=EPSILON, weight_decay=0.1)

    @nc.jit
    def step(y: nc.Tensor, *inputs: nc.Tensor) -> tuple[Any, ...]:
        found = scores(model(*inputs))
        loss = small.loss(F, found, y)
        loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters()}
        update.step()
        update.zero_grad()
        return found, loss, gradients

    for k in range(3):
        y, inputs = small.data(rng, k)
        found, loss, gradients = step(nc.asarray(y), *map(nc.asarray, inputs))
        expected = scores(twin(*map(torch.from_numpy, inputs)))
        their_loss = small.loss(torch.nn.functional, expected, torch.from_numpy(y))
        their_loss.backward()
        compare(found, expected, tolerance, "values")
        compare(loss, their_loss, tolerance, "loss")
        for n, p in theirs.items():
            compare(gradients[n], p.grad, 100 * tolerance, n)
        their_update.step()
        their_update.zero_grad()
        for n, p in twin.state_dict().items():
            compare(model.state_dict()[n], p, 100 * tolerance, n)
    model.eval(), twin.eval()
    _, inputs = small.data(rng, 3)
    with nc.no_grad():
        found = scores(nc.jit(model)(*map(nc.asarray, inputs)))
    compare(found, scores(twin(*map(torch.from_numpy, inputs))), 100 * tolerance, "values of the trained network")


def test_tokens_behind_a_cache_have_pytorchs_values() -> None:
    """A beginning of five tokens, then one after the other, beside the twin that reads all of them at once."""
    torch.manual_seed(2)
    twin = twins.Llama(LLAMA).double()
    model, cache = Llama(LLAMA).double(), LlamaCache(LLAMA, 2, 10, nc.float64)
    model.load_state_dict(twin.state_dict())
    ids = np.random.default_rng(3).integers(0, 50, (2, 9))

    @nc.jit
    @nc.no_grad()
    def read(ids: nc.Tensor, position: nc.Tensor) -> nc.Tensor:
        return model(ids, cache, position)

    given = nc.asarray(ids)
    parts = [read(given[:, :5], nc.tensor(0)), *(read(given[:, k : k + 1], nc.tensor(k)) for k in range(5, 9))]
    compare(nc.concat(parts, axis=1), twin(torch.from_numpy(ids)), TOLERANCES["llama"], "values")


def test_experts_by_one_hot_matrices_with_room_have_pytorchs_values() -> None:
    """Tokens beyond the room of their expert skip it in both."""
    torch.manual_seed(4)
    twin = twins.OneHotExperts(8, 12, 4, 2, 0.75).double()
    model = MixtureOfExperts(8, 12, 4, 2, "onehot", room=0.75).double()
    model.load_state_dict(twin.state_dict())
    x = np.random.default_rng(5).standard_normal((13, 8))
    compare(nc.jit(model)(nc.asarray(x)), twin(torch.from_numpy(x)), 1e-10, "values")
