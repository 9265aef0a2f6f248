"""The networks of `nacre.examples.models`: docstrings, same bits, other sizes, the cache, and padding."""

from __future__ import annotations

import doctest
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nacre as nc
from examples.small_networks import NETWORKS, scores
from nacre import nn, optim
from nacre.examples.models import bert, experts, llama, lstm, mobilenet, unet, vit
from nacre.nn import functional as F

PARAMETERS = {  # those of the published models
    vit.VisionTransformer: 86_567_656,
    mobilenet.MobileNetV3: 5_483_032,
    unet.UNet: 31_037_698,
}


@pytest.mark.slow
@pytest.mark.parametrize("module", [vit, mobilenet, unet, lstm, llama, bert, experts], ids=lambda m: m.__name__)
def test_examples_in_docstrings(module: ModuleType) -> None:
    found = doctest.testmod(module, extraglobs={"nc": nc, "nn": nn})
    assert found.attempted and not found.failed


@pytest.mark.slow
@pytest.mark.parametrize("kind", PARAMETERS, ids=lambda kind: kind.__name__)
def test_the_default_sizes_are_those_of_the_published_models(kind: Any) -> None:
    assert sum(math.prod(p.shape) for p in kind().parameters()) == PARAMETERS[kind]


def test_the_small_mobilenet_has_the_size_of_the_published_one() -> None:
    model = mobilenet.MobileNetV3(mobilenet.SMALL, 1024)
    assert sum(math.prod(p.shape) for p in model.parameters()) == 2_542_856


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_three_updates_have_the_same_bits_eagerly_and_compiled(name: str) -> None:
    """Scores, losses, all gradients, and the weights and statistics behind them, for data of several sizes."""
    small = NETWORKS[name]

    def trained(compiled: bool) -> dict[str, np.ndarray]:
        nc.random.seed(5)
        model, rng, found = small.make(), np.random.default_rng(6), dict[str, np.ndarray]()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)

        def step(y: nc.Tensor, *inputs: nc.Tensor) -> tuple[Any, ...]:
            predicted = scores(model(*inputs))
            loss = small.loss(F, predicted, y)
            loss.backward()
            gradients = {n: p.grad for n, p in model.named_parameters()}
            optimizer.step()
            optimizer.zero_grad()
            return predicted, loss, gradients

        run = nc.jit(step) if compiled else step
        for k in range(3):
            y, inputs = small.data(rng, k)
            predicted, loss, gradients = run(*map(single, (y, *inputs)))
            state = {"scores": predicted, "loss": loss, **gradients}
            state |= {f"state {n}": v for n, v in model.state_dict().items()}
            found |= {f"{n} of step {k}": v.numpy().copy() for n, v in state.items()}
        return found

    eager, compiled = trained(False), trained(True)
    assert eager.keys() == compiled.keys()
    assert not [n for n, v in eager.items() if not np.array_equal(v, compiled[n])]
    assert all(np.isfinite(v).all() for v in eager.values())


def single(x: np.ndarray) -> nc.Tensor:
    """A tensor of float32 or int64."""
    return nc.asarray(x.astype(np.float32) if x.dtype.kind == "f" else x)


@pytest.mark.slow
def test_one_program_segments_images_of_all_sizes() -> None:
    model = unet.UNet(1, 2, 2).eval()

    @nc.jit
    @nc.no_grad()
    def segment(x: nc.Tensor) -> nc.Tensor:
        return model(x)

    for rows, columns in ((17, 33), (40, 21), (32, 32), (50, 16)):
        x = nc.random.normal((1, 1, rows, columns))
        with nc.no_grad():
            assert nc.array_equal(segment(x), model(x))
    assert len(segment.concrete_functions) == 2


def test_a_cache_gives_the_bits_of_the_whole_sequence() -> None:
    config = llama.LlamaConfig(30, 16, 24, 2, 4, 2)
    model, cache = llama.Llama(config), llama.LlamaCache(config, 2, 9)
    ids = nc.random.randint(0, 30, (2, 8))

    @nc.jit
    @nc.no_grad()
    def read(ids: nc.Tensor, position: nc.Tensor) -> nc.Tensor:
        return model(ids, cache, position)

    parts = [read(ids[:, :5], nc.tensor(0)), *(read(ids[:, k : k + 1], nc.tensor(k)) for k in range(5, 8))]
    with nc.no_grad():
        np.testing.assert_array_equal(nc.concat(parts, axis=1).numpy(), model(ids).numpy())
    assert len(read.concrete_functions) == 2


@pytest.mark.slow
def test_one_program_reads_sequences_of_all_lengths_and_ignores_padding() -> None:
    model = bert.BertForMaskedLM(bert.BertConfig(30, 16, 2, 2, 24, 12)).eval()

    @nc.jit
    @nc.no_grad()
    def read(ids: nc.Tensor, mask: nc.Tensor) -> nc.Tensor:
        return model(ids, mask)

    for length in (3, 5, 8, 12):
        ids = nc.random.randint(1, 30, (2, length))
        mask = nc.ones((2, length), dtype=nc.int32)
        mask[1, length // 2 :] = 0
        other = nc.where(mask == 1, ids, 7)
        found = read(ids, mask)
        assert nc.array_equal(found[0], read(other, mask)[0])
        assert nc.array_equal(found[1, : length // 2], read(other, mask)[1, : length // 2])
    assert len(read.concrete_functions) == 2


def test_experts_without_room_skip_tokens() -> None:
    """With room for one token, only the first token that chose an expert gets its result."""
    nc.random.seed(3)
    model = experts.MixtureOfExperts(4, 6, count=2, chosen=1, way="onehot", room=0.2)
    x = nc.random.normal((8, 4))
    with nc.no_grad():
        by_onehot = model(x)
        model.way = "scatter"
        by_scatter = model(x)
        model.way = "gather"
        whole = model(x)
        picked = nc.argmax(model.gate(x), axis=1).tolist()
    first = [picked.index(expert) for expert in set(picked)]
    expected = np.zeros((8, 4), np.float32)
    expected[first] = whole.numpy()[first]
    np.testing.assert_allclose(by_onehot.numpy(), expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(by_scatter.numpy(), expected, rtol=1e-5, atol=1e-9)
