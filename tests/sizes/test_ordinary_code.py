"""Ordinary code over sizes that change: one variant for all of them, with the bits of numbers, and clear reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical

F = nn.functional
SIZES = (5, 8, 4, 9, 14)
Make = Callable[[int], Any]


def numbers(*shape: int) -> Any:
    return nc.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def rows(n: int) -> Any:
    return numbers(n, 3)


def images(n: int) -> Any:
    return numbers(2, 3, n, n + 1)


def signals(n: int) -> Any:
    return numbers(2, 3, n)


def volumes(n: int) -> Any:
    return numbers(1, 2, n, 4, 3)


def heads(n: int) -> Any:
    return numbers(2, 2, n, 8)


def real(x: Any) -> Any:
    return x.astype(nc.float32)


def present(x: Any) -> Any:
    """A mask of padding: the first example has four keys, the second three."""
    return (nc.arange(x.shape[-2])[None, :] < nc.tensor([4, 3])[:, None])[:, None, None, :]


KEY = nc.random.key(3)
CODE: dict[str, tuple[Callable[[Any], Any], Make]] = {
    "last": (lambda x: x[x.shape[0] - 1] * x[-1], rows),
    "middle": (lambda x: x[x.shape[0] // 2, 1] * 2, rows),
    "end": (lambda x: x[x.shape[0] - 3 : x.shape[0]] + x[-3:] + x[-4:-1], rows),
    "every second": (lambda x: x[::2] * 2, rows),
    "backwards by two": (lambda x: x[::-2] * 2, rows),
    "backwards from the middle": (lambda x: x[x.shape[0] // 2 :: -1] * 2, rows),
    "halves": (lambda x: nc.concat([x[: x.shape[0] // 2], x[x.shape[0] // 2 :] * 2]), rows),
    "size of another": (lambda x: numbers(4, 40)[:, : x.shape[0]] * x[:, 0], rows),
    "assigned": (lambda x: nc.index_update(nc.index_update(x, x.shape[0] - 1, 0.0), slice(None, None, 2), 1.0), rows),
    "linspace": (lambda x: nc.linspace(-1, 1, x.shape[0]) * x[:, 0], rows),
    "linspace to a size": (lambda x: nc.linspace(0, x.shape[0] - 1, 2 * x.shape[0], endpoint=False) * x[0, 0], rows),
    "arange": (lambda x: real(nc.arange(1, x.shape[0] + 1)) * real(nc.arange(x.shape[0] - 1, -1, -1)) * x[:, 0], rows),
    "arange by steps": (lambda x: nc.arange(0.5, x.shape[0], 0.25) * x[0, 0] + real(nc.arange(0, 1)), rows),
    "arange by a size": (lambda x: real(nc.arange(0, 3 * x.shape[0], x.shape[0])) * x[0], rows),
    "filled": (lambda x: nc.full(x.shape, x[0, 0]) + nc.zeros(x.shape) + nc.ones_like(x) * x, rows),
    "diagonals": (lambda x: nc.eye(x.shape[0], k=x.shape[0] - 2) @ x, rows),
    "triangles": (lambda x: nc.tril(x @ x.T) + nc.triu(x @ x.T, k=x.shape[0] - 2), rows),
    "constant margins": (lambda x: nc.pad(F.pad(x, (-1, 2)), ((0, 0), (0, 0), (1, x.shape[2])), 1.5), signals),
    "reflection": (lambda x: F.pad(x, (2, 1, 1, 2), "reflect") * 2, images),
    "replication": (lambda x: F.pad(x, (2, 1, 1, 2), "replicate") * 2, images),
    "circle": (lambda x: F.pad(x, (2, 1, 1, 2), "circular") * 2, images),
    "nearest": (lambda x: F.interpolate(x, scale_factor=(1.5, 2)), images),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), images),
    "aligned": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), images),
    "bicubic": (lambda x: F.interpolate(x, size=(7, x.shape[3] // 2), mode="bicubic"), images),
    "linear": (lambda x: F.interpolate(x, size=5, mode="linear"), signals),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), volumes),
    "to a size": (lambda x: F.interpolate(numbers(2, 2, 6, 6), size=x.shape[2:], mode="bilinear") * x[:1, :1], images),
    "means": (lambda x: nc.flatten(nn.AdaptiveAvgPool2d(1)(x), 1), images),
    "means of signals": (lambda x: F.adaptive_avg_pool1d(x, 1) * F.avg_pool1d(x, x.shape[2]), signals),
    "means of volumes": (lambda x: F.adaptive_avg_pool3d(x, (1, 2, None)), volumes),
    "maxima": (lambda x: F.adaptive_max_pool2d(x, (1, None)), images),
    "maxima of volumes": (lambda x: F.adaptive_max_pool3d(x, 1), volumes),
    "patches": (lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2)), images),
    "patches added": (lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2), images),
    "rolled": (lambda x: nc.roll(nc.roll(x, x.shape[0] // 2, axis=0), -3, axis=0), rows),
    "repeated": (lambda x: nc.tile(nc.flip(nc.repeat(x, 2, axis=0)), (2, 1)), rows),
    "sections": (lambda x: nc.concat(nc.split(nc.concat([x, x * 2]), sections=2)[::-1], axis=1), rows),
    "parts": (lambda x: nc.concat(nc.split(x, [1, x.shape[0] // 2, -1])[::-1]), rows),
    "ordered": (lambda x: nc.cumulative_sum(nc.sort(x, axis=0), axis=0), rows),
    "largest": (lambda x: nc.topk(x, x.shape[0] // 2, axis=0)[0] * 2, rows),
    "one hot": (lambda x: real(F.one_hot(nc.tensor([0, 1, 2]), x.shape[0])) @ x, rows),
    "windows of rows": (lambda x: nc.reshape(nc.pad(x, ((0, -x.shape[0] % 4), (0, 0))), (-1, 4, 3)), rows),
    "last rows": (lambda x: nc.pad(x, ((1 - x.shape[0], x.shape[0] % 3), (0, 0)), 1) * 2, rows),
    "gated": (lambda x: F.glu(nc.concat([x, x * 2]), 0), rows),
    "grid": (lambda x: F.grid_sample(x, F.affine_grid(numbers(2, 2, 3), x.shape)), images),
    "loop": (lambda x: nc.fori_loop(1, x.shape[0], lambda k, c: c * 0.5 + x[k], x[0]), rows),
    "half a loop": (lambda x: nc.fori_loop(x.shape[0] // 2, x.shape[0], lambda k, c: c * real(k) + x[1], x[0]), rows),
    "scan": (lambda x: nc.scan(lambda c, r: (nc.tanh(c @ x[:3] + r), c), nc.zeros(3), x, reverse=True)[1], rows),
    "scan of a length": (lambda x: nc.scan(lambda c, _: (c * 0.5 + x[0], c), nc.zeros(3), length=x.shape[0])[1], rows),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1, attn_mask=present(x), is_causal=True), heads
    ),
    "random": (
        lambda x: x * nc.random.normal(x.shape, key=KEY) + real(nc.random.randint(0, x.shape[0], (3,), key=KEY)), rows
    ),
}  # fmt: skip


def gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def weighted(x: Any) -> Any:
        y = nc.reshape(f(x), (-1,))
        return nc.sum(y * nc.cos(y.detach()))

    return nc.grad(weighted)


def require_one(f: Callable[[Any], Any], make: Make) -> None:
    """Require the eager bits of one variant for all sizes, made at the second size, and of one for a range."""
    n = nc.Dim("n", min=4, max=16)
    shapes = zip(make(SIZES[0]).shape, make(SIZES[1]).shape, strict=True)
    axes = {k: n + (a - SIZES[0]) for k, (a, b) in enumerate(shapes) if a != b}

    def named(x: Any) -> Any:
        return f(x)

    automatic, ranged = nc.jit(f), nc.jit(named, dynamic_shapes={"x": axes})
    for size in SIZES:
        x = make(size)
        wanted = canonical(f(x))
        assert canonical(automatic(x)) == wanted, size
        assert canonical(ranged(x)) == wanted, size
    assert [c.symbolic for c in automatic.concrete_functions] == [False, True], automatic.concrete_functions
    assert len(ranged.concrete_functions) == 1


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CODE)
def test_one_variant_serves_all_sizes(name: str) -> None:
    require_one(*CODE[name])


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CODE)
def test_gradients_have_one_variant(name: str) -> None:
    f, make = CODE[name]
    require_one(gradient(f), make)


# ---- networks


class Padded(nn.Module):
    """A network for sequences of which the first four and three elements count."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        padding = nc.arange(x.shape[1])[None, :] >= nc.tensor([4, 3])[:, None]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) < 0
        if isinstance(self.inner, nn.MultiheadAttention):
            return self.inner(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=False)[0]
        return self.inner(x, src_key_padding_mask=padding)


class First(nn.Module):
    """The results of a recurrent network without its state."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


NETWORKS: dict[str, tuple[Callable[[], Any], Make]] = {
    "attention": (lambda: Padded(nn.MultiheadAttention(8, 2, batch_first=True)), lambda n: numbers(2, n, 8)),
    "encoder": (
        lambda: Padded(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)), lambda n: numbers(2, n, 8)
    ),
    "gated": (lambda: First(nn.GRU(3, 4)), lambda n: numbers(n, 2, 3)),
    "batch of gated": (lambda: First(nn.GRU(3, 6)), lambda n: numbers(5, n, 3)),
    "recurrent": (lambda: First(nn.LSTM(5, 4, bidirectional=True)), lambda n: numbers(n, n + 1, 5)),
    "dropout": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), rows),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("name", NETWORKS)
def test_trainings_have_one_variant(name: str, mode: Any) -> None:
    """The sizes go across all limits at which the gradient of a loop changes its order of sums."""
    make, data = NETWORKS[name]
    nc.random.seed(0)
    model = make().train()
    parameters = list(model.parameters())

    def step(x: Any) -> list[Any]:
        model.zero_grad()
        with nc.numerics(mode):
            y = model(x)
            nc.sum(y * y).backward()
        return [y.detach(), *(p.grad * 1 for p in parameters)]

    automatic, exact = nc.jit(step), nc.jit(step, dynamic=False)
    for n in (5, 7, 2, 3, 4, 6, 9):
        found = []
        for f in (automatic, exact):
            nc.random.seed(n)
            found.append([canonical(g) for g in f(data(n))])
        assert found[0] == found[1], n
    assert [c.symbolic for c in automatic.concrete_functions] == [False, True], automatic.concrete_functions


# ---- limits

LIMITS: dict[str, tuple[Callable[[Any], Any], Make, str]] = {
    "windows": (lambda x: F.adaptive_avg_pool1d(x, 2), signals, "adaptive_avg_pool1d"),
    "area": (lambda x: F.interpolate(x, scale_factor=2, mode="area"), signals, "interpolate"),
    "factor": (lambda x: F.interpolate(x, scale_factor=0.3), signals, "interpolate"),
    "integers": (lambda x: nc.linspace(0, 0, x.shape[0], dtype=nc.int64), rows, "linspace"),
    "steps": (lambda x: nc.arange(0.0, x.shape[0], 0.3), rows, "arange"),
    "product": (lambda x: nc.grad(nc.prod)(x), rows, "gradient"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_code_without_a_form_for_all_sizes_has_variants_with_a_reason(name: str) -> None:
    f, make, operation = LIMITS[name]
    automatic = nc.jit(f)
    for n in SIZES[:3]:
        assert canonical(automatic(make(n))) == canonical(f(make(n)))
    assert [c.symbolic for c in automatic.concrete_functions] == [False] * 3
    why = automatic.concrete_functions[-1].reason
    assert f"{operation} has no form for symbolic sizes" in why and __file__ in why
    axis = next(k for k, (a, b) in enumerate(zip(make(4).shape, make(5).shape, strict=True)) if a != b)
    ranged = nc.jit(lambda x: f(x), dynamic_shapes={"x": {axis: nc.Dim("n", min=4, max=16)}})
    with pytest.raises(nc.Error) as found:
        ranged(make(5))
    assert any(f"{__file__}:" in note for note in found.value.__notes__)


def test_bounds_of_sizes_with_quotients_and_products() -> None:
    n, m = nc.Dim("n", min=2, max=9), nc.Dim("m", min=3)
    assert (n - n // 2).bounds() == (1, 5)
    assert (n + 1 - 2 * ((n + 1) // 2)).bounds() == (0, 1)
    assert (-n % 4).bounds() == (0, 3)
    assert ((n - 1) * (m - 1)).bounds()[0] == 2
