"""Training steps and inference of the networks of `nacre.examples.models`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import nacre as nc
from nacre import optim
from nacre.examples.models.bert import BertConfig, BertForMaskedLM
from nacre.examples.models.experts import MixtureOfExperts
from nacre.examples.models.llama import Llama, LlamaCache, LlamaConfig
from nacre.examples.models.lstm import LstmLanguageModel
from nacre.examples.models.mobilenet import LARGE, SMALL, MobileNetV3
from nacre.examples.models.unet import UNet
from nacre.examples.models.vit import VisionTransformer
from nacre.examples.workloads.steps import inferred, of_tokens, trained
from nacre.examples.workloads.workload import Made, Workload, floats, whole
from nacre.nn import functional as F


def _vit(train: bool, tiny: bool) -> Made:
    side, batch = (16, 2) if tiny else (224, 8 if train else 1)
    model = VisionTransformer(16, 4, 1, 32, 2, 64, classes=10) if tiny else VisionTransformer(224, 16, 12, 384, 6, 1536)
    x = floats(batch, 3, side, side)
    if not train:
        return inferred(model, x)
    return trained(model, F.cross_entropy, optim.AdamW(model.parameters(), lr=1e-3), x, whole(10, batch))


def _mobilenet(train: bool, tiny: bool) -> Made:
    side, batch = (32, 2) if tiny else (224, 16 if train else 1)
    model = MobileNetV3(SMALL[:2] + SMALL[3:4], 32, 10) if tiny else MobileNetV3(LARGE)
    x = floats(batch, 3, side, side)
    if not train:
        return inferred(model, x)
    return trained(model, F.cross_entropy, optim.SGD(model.parameters(), lr=0.05, momentum=0.9), x, whole(10, batch))


def _unet(train: bool, tiny: bool) -> Made:
    rows, columns, batch = (33, 36, 1) if tiny else (256, 256, 2 if train else 1)
    model = UNet(1, 2, 4) if tiny else UNet(3, 2, 32)
    x = floats(batch, 1 if tiny else 3, rows, columns)
    if not train:
        return inferred(model, x)
    y = whole(2, batch, rows, columns)
    return trained(model, F.cross_entropy, optim.Adam(model.parameters(), lr=1e-3), x, y)


def _lstm(train: bool, tiny: bool) -> Made:
    vocabulary, width, length, batch = (50, 16, 5, 3) if tiny else (10000, 650, 35, 20)
    model = LstmLanguageModel(vocabulary, width, width)
    given = whole(vocabulary, length, batch), floats(2, batch, width), floats(2, batch, width, seed=3)
    if not train:
        model.eval()

        @nc.no_grad()
        def read(tokens: Any, hidden: Any, cell: Any) -> Any:
            return model(tokens, (hidden, cell))

        return read, given
    optimizer = optim.SGD(model.parameters(), lr=1.0)

    def step(tokens: Any, hidden: Any, cell: Any, targets: Any) -> Any:
        """An update by a piece of a text; the next piece begins with the state behind it."""
        scores, (hidden, cell) = model(tokens, (hidden, cell))
        loss = of_tokens(scores, targets)
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss, hidden.detach(), cell.detach()

    return step, (*given, whole(vocabulary, length, batch, seed=4))


def _llama(tiny: bool) -> LlamaConfig:
    return LlamaConfig(60, 32, 48, 2, 4, 2) if tiny else LlamaConfig(8192, 512, 1408, 8, 8, 4)


def _llama_training(tiny: bool) -> Made:
    config, (batch, length) = _llama(tiny), (2, 9) if tiny else (4, 256)
    model, ids = Llama(config), whole(config.vocab_size, batch, length + 1)
    return trained(model, of_tokens, optim.AdamW(model.parameters(), lr=1e-3), ids[:, :-1], ids[:, 1:])


def _llama_decode(tiny: bool) -> Made:
    config, (past, length) = _llama(tiny), (9, 12) if tiny else (256, 512)
    model, cache = Llama(config), LlamaCache(config, 1, length)
    for buffers in cache.layers:
        for buffer in buffers:
            buffer.data = nc.random.normal(buffer.shape)

    @nc.no_grad()
    def decode(token: Any, position: Any) -> Any:
        return model(token, cache, position)

    return decode, (whole(config.vocab_size, 1, 1), nc.tensor(past))


def _bert(train: bool, tiny: bool) -> Made:
    config = BertConfig(60, 32, 1, 2, 48, 20) if tiny else BertConfig(30522, 512, 8, 8, 2048)
    batch, length = (2, 7) if tiny else (8 if train else 1, 128)
    model, ids = BertForMaskedLM(config), whole(config.vocab_size, batch, length)
    ends = nc.arange(length, length // 2, -1)[:batch, None]
    mask = (nc.arange(length) < ends).astype(nc.int32)
    if not train:
        return inferred(model, ids, mask)
    targets = whole(config.vocab_size, batch, length, seed=3)
    return trained(model, of_tokens, optim.AdamW(model.parameters(), lr=1e-4), ids, mask, targets)


def _experts(way: Any, train: bool, tiny: bool) -> Made:
    width, hidden, count, tokens = (16, 24, 4, 6) if tiny else (512, 1024, 8, 16 if way == "gather" else 512)
    model, x = MixtureOfExperts(width, hidden, count, 2, way), floats(tokens, width)
    if not train:
        return inferred(model, x)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    return trained(model, F.mse_loss, optimizer, x, floats(tokens, width, seed=2))


def _pair(name: str, make: Callable[[bool, bool], Made], size: str, batches: tuple[str, str], tiny: str) -> Any:
    """A training step and inference of one network."""
    yield Workload(name, f"training step of {size}, {batches[0]}", f"training step of {tiny}", partial(make, True))
    yield Workload(f"{name}-inference", f"{size}, {batches[1]}", tiny, partial(make, False))


NETWORKS: tuple[Workload, ...] = (
    *_pair("vit", _vit, "ViT-S/16", ("batch 8, AdamW", "batch 1"), "a 1-layer ViT, 16 × 16 pixels, batch 2"),
    *_pair(
        "mobilenet",
        _mobilenet,
        "MobileNetV3-large",
        ("batch 16, SGD", "batch 1"),
        "a MobileNetV3 of 3 blocks, 32 × 32 pixels, batch 2",
    ),
    *_pair(
        "unet",
        _unet,
        "U-Net from 32 channels, 256 × 256 pixels",
        ("batch 2, Adam", "batch 1"),
        "U-Net from 4 channels, 33 × 36 pixels, batch 1",
    ),
    *_pair(
        "lstm",
        _lstm,
        "a 2-layer LSTM language model, 35 × 20 tokens",
        ("SGD", "a state from before"),
        "a 2-layer LSTM language model, 5 × 3 tokens",
    ),
    Workload(
        "llama",
        "training step of an 8-layer Llama, 4 × 256 tokens, AdamW",
        "training step of a 2-layer Llama, 2 × 9 tokens, AdamW",
        _llama_training,
    ),
    Workload(
        "llama-decode",
        "an 8-layer Llama, one token after 256",
        "a 2-layer Llama, one token after 9",
        _llama_decode,
    ),
    *_pair(
        "bert",
        _bert,
        "an 8-layer BERT, sequences of up to 128 tokens",
        ("batch 8, AdamW", "batch 1"),
        "a 1-layer BERT, sequences of up to 7 tokens, batch 2",
    ),
    *(
        w
        for way, tokens in (("onehot", 512), ("scatter", 512), ("gather", 16))
        for w in _pair(
            f"experts-{way}",
            partial(_experts, way),
            f"8 experts, {tokens} tokens by {way}",
            ("AdamW", "2 experts each"),
            f"4 experts, 6 tokens by {way}",
        )
    ),
)
