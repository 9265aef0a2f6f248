"""Computations that benchmarks commonly have: small networks, ResNet, GPT, and single operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nacre import nn, optim
from nacre.api import creation, manipulation, slices, taking
from nacre.api.creation import asarray
from nacre.api.elementwise import arithmetic, transcendental
from nacre.api.settings import no_grad
from nacre.api.tensor import Tensor
from nacre.base.dtypes import float32
from nacre.examples.workloads.steps import inferred, of_tokens, trained
from nacre.examples.workloads.workload import Made, Workload, floats, whole
from nacre.trace.variable import Variable
from nacre.transform.grad import vjp

F = nn.functional


# ---- models


class ResNetBlock(nn.Module):
    """Two 3 × 3 convolutions with a shortcut (He et al. 2015)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] → [N, width, H / stride, W / stride]."""
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + self.downsample(x))


def resnet18(first: int = 64, classes: int = 1000) -> nn.Module:
    """ResNet-18, whose first stage is `first` channels wide."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, first, 7, 2, 3, bias=False),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = first
    for stage in range(4):
        width = first << stage
        layers += [ResNetBlock(channels, width, 2 if stage else 1), ResNetBlock(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class GptModel(nn.Module):
    """A decoder as GPT-2's: learned positions, pre-norm blocks with tanh-GELU, the embedding as its last layer."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        linear, self.heads = self.linear, heads
        self.tokens, self.positions = self.table(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                (
                    nn.LayerNorm(width),
                    linear(width, 3 * width),
                    linear(width, width),
                    nn.LayerNorm(width),
                    linear(width, 4 * width),
                    linear(4 * width, width),
                )
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def table(self, vocabulary: int, width: int) -> Any:
        """The embedding of tokens."""
        return nn.Embedding(vocabulary, width)

    def linear(self, inward: int, outward: int) -> nn.Module:
        """A layer of a block."""
        return nn.Linear(inward, outward)

    def forward(self, ids: Tensor) -> Tensor:
        """[N, T] → scores [N, T, vocabulary]."""
        return self.scores(self.hidden(ids))

    def scores(self, x: Tensor) -> Tensor:
        """[..., width] → [..., vocabulary]."""
        return x @ self.tokens.weight.value.T

    def hidden(self, ids: Tensor) -> Tensor:
        """[N, T] → [N, T, width]."""
        x = self.tokens(ids) + self.positions.weight.value[: ids.shape[1]]
        for block in self.blocks:
            x = self.mixed(block, x, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.norm(x)

    def mixed(self, block: Any, x: Any, attend: Callable[[Any, Any, Any], Any]) -> Any:
        """One block; `attend` gets queries, keys and values [N, heads, T, size]."""
        norm1, inward, outward, norm2, up, down = block
        n, t, width = x.shape
        parts = manipulation.reshape(inward(norm1(x)), (n, t, 3, self.heads, width // self.heads))
        parts = manipulation.permute_dims(parts, (2, 0, 3, 1, 4))
        joined = manipulation.permute_dims(attend(parts[0], parts[1], parts[2]), (0, 2, 1, 3))
        x = x + outward(manipulation.reshape(joined, (n, t, width)))
        return x + down(F.gelu(up(norm2(x)), approximate="tanh"))

    def decode(self, token: Tensor, place: Tensor, cache_pairs: list[tuple[Variable, Variable]]) -> Tensor:
        """Scores of the token after `token` [1, 1] at a `place` []; each block caches its key and value."""
        x = self.tokens(token) + manipulation.reshape(self.positions(place), (1, 1, -1))
        for block, caches in zip(self.blocks, cache_pairs, strict=True):
            x = self.mixed(block, x, partial(_append_and_attend, place, caches))
        return self.scores(self.norm(x)[:, -1])


class RoundedLinear(nn.Module):
    """A linear layer whose weights are int8, with a scale for each output."""

    def __init__(self, inward: int, outward: int) -> None:
        self.weight, self.scale = _rounded(nn.Linear(inward, outward).weight.value.T, axis=0)
        self.bias = nn.Buffer(floats(outward))

    def forward(self, x: Tensor) -> Tensor:
        """[..., inward] → [..., outward]."""
        return x @ self.weight.value.astype(float32) * self.scale.value + self.bias.value


class RoundedTable(nn.Module):
    """An embedding whose rows are int8, with a scale for each."""

    def __init__(self, rows: int, width: int) -> None:
        self.weight, self.scale = _rounded(nn.Embedding(rows, width).weight.value, axis=1)

    def forward(self, ids: Tensor) -> Tensor:
        """[...] → [..., width]."""
        row, scale = (taking.take(part.value, ids, axis=0) for part in (self.weight, self.scale))
        return row.astype(float32) * manipulation.expand_dims(scale, -1)


class RoundedGpt(GptModel):
    """GPT with int8 weights."""

    def table(self, vocabulary: int, width: int) -> Any:
        """The embedding of tokens."""
        return RoundedTable(vocabulary, width)

    def linear(self, inward: int, outward: int) -> nn.Module:
        """A layer of a block."""
        return RoundedLinear(inward, outward)

    def scores(self, x: Tensor) -> Tensor:
        """[..., width] → [..., vocabulary]."""
        return x @ self.tokens.weight.value.astype(float32).T * self.tokens.scale.value


def _rounded(weights: Tensor, axis: int) -> tuple[nn.Buffer, nn.Buffer]:
    """Integers from −127 to 127, and scales along the other axis."""
    w = weights.numpy()
    scale = np.abs(w).max(axis, keepdims=True) / 127
    return nn.Buffer(asarray(np.rint(w / scale).astype(np.int8))), nn.Buffer(asarray(scale.squeeze(axis)))


def _append_and_attend(place: Tensor, caches: tuple[Variable, Variable], q: Any, k: Any, v: Any) -> Tensor:
    """Store a key and a value in the cache, and attend to all entries up to them."""
    for cache, new in zip(caches, (k, v), strict=True):
        cache.assign(slices.dynamic_update_slice(_value(cache), new, (0, 0, place, 0)))
    keys, values = map(_value, caches)
    return F.scaled_dot_product_attention(q, keys, values, creation.arange(keys.shape[2]) <= place)


def _value(cache: Variable) -> Any:
    return cache.value


# ---- the workloads


def _mlp(tiny: bool) -> Made:
    sizes, batch = ((20, 24, 16, 10), 8) if tiny else ((784, 512, 512, 10), 128)
    a, b, c, d = sizes
    model = nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    return trained(model, F.cross_entropy, optimizer, floats(batch, a), whole(10, batch))


def _convnet(tiny: bool) -> Made:
    side, batch, first = (10, 4, 16) if tiny else (28, 64, 32)
    flat = 2 * first * ((side - 4) // 2) ** 2
    model = nn.Sequential(
        nn.Conv2d(1, first, 3),
        nn.ReLU(),
        nn.Conv2d(first, 2 * first, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(flat, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    return trained(model, F.cross_entropy, optimizer, floats(batch, 1, side, side), whole(10, batch))


def _resnet(batch: int) -> Callable[[bool], Made]:
    def make(tiny: bool) -> Made:
        side = 32 if tiny else 224
        return inferred(resnet18(16, 10) if tiny else resnet18(), floats(batch, 3, side, side))

    return make


def _gpt(tiny: bool) -> Made:
    layers, width, heads, batch, length = (2, 32, 2, 2, 12) if tiny else (6, 384, 6, 8, 256)
    model = GptModel(layers, width, heads, 65, length)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    return trained(model, of_tokens, optimizer, whole(65, batch, length), whole(65, batch, length, seed=3))


def _gpt2(tiny: bool, kind: type[GptModel] = GptModel) -> GptModel:
    return kind(2, 32, 2, 97, 64) if tiny else kind(12, 768, 12, 50257, 1024)


def _prefill(tiny: bool) -> Made:
    model = _gpt2(tiny)

    @no_grad()
    def prefill(ids: Tensor) -> Tensor:
        """The scores of the token after the last one."""
        return model.scores(model.hidden(ids)[:, -1])

    return prefill, (whole(97, 1, 24 if tiny else 256),)


def _decode(kind: type[GptModel], tiny: bool) -> Made:
    model, past = _gpt2(tiny, kind), 24 if tiny else 256
    blocks, width, room = (2, 32, 40) if tiny else (12, 768, 320)
    shape = 1, model.heads, room, width // model.heads
    cache_pairs = [(Variable(floats(*shape, seed=4 + k)), Variable(floats(*shape, seed=40 + k))) for k in range(blocks)]

    @no_grad()
    def decode(token: Tensor, place: Tensor) -> Tensor:
        """One token, and its cached keys and values."""
        return model.decode(token, place, cache_pairs)

    return decode, (whole(97, 1, 1), asarray(np.int32(past)))


def _chain(x: Tensor) -> Tensor:
    """Ten pointwise operations."""
    y = F.relu(x * 1.1 + 0.3)
    y = transcendental.sqrt(arithmetic.abs(y * y - 0.5))
    return transcendental.tanh(y * 0.7) + x


def _product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def _layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, int(x.shape[-1]))


def _matmul(n: int) -> Callable[[bool], Made]:
    def make(tiny: bool) -> Made:
        side = n // 32 if tiny else n
        return _product, (floats(side, side), floats(side, side, seed=2))

    return make


def _attention(backward: bool) -> Callable[[bool], Made]:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def gradients(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Any:
        return vjp(attend, q, k, v)[1](g)

    def make(tiny: bool) -> Made:
        shape = (2, 2, 20, 16) if tiny else (8, 6, 256, 64)
        given = tuple(floats(*shape, seed=k) for k in range(4 if backward else 3))
        return (gradients if backward else attend), given

    return make


def _rows(function: Callable[..., Any], *shape: int) -> Callable[[bool], Made]:
    return lambda tiny: (function, (floats(*((n // 64 + 3 for n in shape) if tiny else shape)),))


STANDARD = (
    Workload(
        "mlp",
        "training step of a 784-512-512-10 MLP, batch 128, Adam",
        "training step of a 20-24-16-10 MLP, batch 8, Adam",
        _mlp,
    ),
    Workload(
        "convnet",
        "training step of a small convnet, batch 64, Adam",
        "training step of a tiny convnet, batch 4, Adam",
        _convnet,
    ),
    Workload(
        "resnet18",
        "ResNet-18 inference, batch 1",
        "narrow ResNet-18 inference, 32 × 32 pixels, batch 1",
        _resnet(1),
    ),
    Workload(
        "resnet18-8",
        "ResNet-18 inference, batch 8",
        "narrow ResNet-18 inference, 32 × 32 pixels, batch 8",
        _resnet(8),
    ),
    Workload(
        "gpt",
        "training step of a 6-layer GPT, 8 × 256 tokens, AdamW",
        "training step of a 2-layer GPT, 2 × 12 tokens, AdamW",
        _gpt,
    ),
    Workload("prefill", "GPT-2-small prefill, 256 tokens", "2-layer GPT prefill, 24 tokens", _prefill),
    Workload(
        "decode", "GPT-2-small, one token after 256", "2-layer GPT, one token after 24", partial(_decode, GptModel)
    ),
    Workload(
        "decode-int8",
        "GPT-2-small, one token after 256, int8 weights",
        "2-layer GPT, one token after 24, int8 weights",
        partial(_decode, RoundedGpt),
    ),
    Workload(
        "chain",
        "ten pointwise operations on 10 M elements",
        "ten pointwise operations on 156253 elements",
        _rows(_chain, 10_000_000),
    ),
    Workload("softmax", "softmax 4096 × 1024", "softmax 67 × 19", _rows(F.softmax, 4096, 1024)),
    Workload("layernorm", "layer norm 4096 × 768", "layer norm 67 × 15", _rows(_layer_norm, 4096, 768)),
    Workload("matmul-1024", "matrix product 1024³", "matrix product 32³", _matmul(1024)),
    Workload("matmul-2048", "matrix product 2048³", "matrix product 64³", _matmul(2048)),
    Workload(
        "attention",
        "causal attention, 8 × 6 heads, 256 × 64",
        "causal attention, 2 × 2 heads, 20 × 16",
        _attention(False),
    ),
    Workload(
        "attention-gradient",
        "causal attention, 8 × 6 heads, 256 × 64, forward and backward",
        "causal attention, 2 × 2 heads, 20 × 16, forward and backward",
        _attention(True),
    ),
)
