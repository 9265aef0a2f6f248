"""Random programs of images: convolutions, windows, normalisations, and pointwise operations and moves between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nacre as nc
from nacre import nn
from nacre.api.primitives import convolve, window, winograd

F = nn.functional
CHANNELS = (1, 3, 15, 16, 16, 17, 32, 32, 48)
SIDES = (1, 2, 4, 5, 8, 9, 16, 17)
LARGEST = 12_000  # elements of a value
KERNELS = ((3, 3), (3, 3), (1, 1), (2, 3), (5, 1))
Chosen = tuple[int, ...]  # the number of a step, and numbers that choose its operands and parameters
Weights = Callable[..., Any]  # a new weight of a shape


@dataclass(frozen=True)
class Images:
    """A function of two images and of weights, which are created when it first runs."""

    shape: tuple[int, int, int, int]
    steps: tuple[Chosen, ...]
    dtype: Any
    seed: int

    def __call__(self, x: Any, y: Any, *weights: Any) -> tuple[Any, ...]:
        given = iter(weights)
        return self.run(x, y, lambda *shape: next(given))

    def run(self, x: Any, y: Any, weight: Weights) -> tuple[Any, ...]:
        """The last values, and some of the others."""
        known = [x, y]
        for kind, *numbers in self.steps:
            made = STEPS[kind](known, weight, *numbers)
            if made is not None and made.type.size <= LARGEST:
                known.append(made)
        return (*known[-2:], *(known[s[1] % len(known)] for s in self.steps if s[-1] % 5 == 0))

    def operands(self) -> list[Any]:
        """Images and weights: small numbers, some of them equal, with zeros of both signs."""
        rng = np.random.default_rng(self.seed)
        made: list[Any] = []

        def new(*shape: int) -> Any:
            numbers = np.round(rng.normal(size=shape) * 4) / 4 * rng.choice([1, -1, 0.1], shape)
            made.append(nc.asarray(numbers.astype(self.dtype.numpy)))
            return made[-1]

        images = new(*self.shape), new(*self.shape)
        self.run(*images, new)
        return made


def random_images(seed: int) -> Images:
    """A program of up to a dozen steps; sizes are often equal, so that shapes do not distinguish axes."""
    rng = np.random.default_rng(seed)
    n, c, h, w = int(rng.choice([1, 2, 3])), *(int(rng.choice(s)) for s in (CHANNELS, SIDES, SIDES))
    if rng.random() < 0.3:
        n, h, w = (2, 16, 16) if c == 16 else (c, c, c) if c < 8 else (n, 4, 4)
    dtype = rng.choice(np.array([nc.float32] * 6 + [nc.float64, nc.bfloat16], object))
    numbers = rng.integers(0, [3, 3, 1000, 1000, 1000, 1000], (int(rng.integers(3, 12)), 6))
    kinds = rng.integers(0, len(STEPS), len(numbers))
    steps = tuple((int(k), *map(int, row)) for k, row in zip(kinds, numbers, strict=True))
    return Images((n, c, min(h, LARGEST // (n * c * w)), w), steps, dtype, seed)


def _convolution(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    _, channels, h, w = x.shape
    out, (kh, kw) = CHANNELS[b * 3 + c % 3], KERNELS[d % len(KERNELS)]
    stride, dilation = ((1, 1), (1, 1), (2, 2), (1, 2))[e % 4], ((1, 1), (1, 1), (1, 1), (2, 1))[f % 4]
    groups = channels if e % 7 == 1 else 1
    padding = ((kh // 2, kh // 2), (kw // 2, kw // 2)) if f % 3 else ((d % 3, 1), (0, e % 3))
    spans = [(k - 1) * step for k, step in zip((kh, kw), dilation, strict=True)]
    if any(n + sum(pad) <= span for n, pad, span in zip((h, w), padding, spans, strict=True)):
        return None
    out = channels * (1 + c % 2) if groups > 1 else out
    return winograd.correlate(x, weight(out, channels // groups, kh, kw), stride, padding, dilation, groups)


def _transposed(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x, stride = known[-1 - a % len(known)], ((1, 1), (2, 2), (2, 1))[b]
    n, channels, *plane = x.shape
    sides = [(size - 1) * s + 2 for size, s in zip(plane, stride, strict=True)]
    out = CHANNELS[c % len(CHANNELS)]
    return convolve.convolve_input_grad(x, weight(channels, out, 2, 2), shape=(n, out, *sides), stride=stride)


def _block(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    """A convolution, scaled, shifted and added to its operand, one of which may be flipped."""
    x = known[-1 - a % len(known)]
    channels = x.shape[1]
    scale, shift = weight(1, channels, 1, 1), weight(1, channels, 1, 1)
    padding = ((1, 1), (1, 1))
    y = winograd.correlate(x, weight(channels, channels, 3, 3), (1, 1), padding, (1, 1), 1) * scale + shift
    if b == 0:
        known.append(y)
    return (
        lambda: F.relu(y + x),
        lambda: F.relu(y) + x,
        lambda: F.relu(y + nc.flip(x, axis=d % 4)),
        lambda: F.relu(nc.flip(y, axis=d % 4) + x),
        lambda: y + nc.flip(y, axis=d % 4),
        lambda: y * y,
    )[c % 6]()


def _window(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    size, stride = ((2, 2), (3, 3), (1, 2))[b], ((1, 1), (2, 2), (2, 1))[c % 3]
    padding = ((d % 2, d % 3), (e % 2, 0))
    if any(n + sum(pad) < k for n, pad, k in zip(x.shape[2:], padding, size, strict=True)):
        return None
    return (window.window_sum if f % 2 else window.window_max)(x, size, stride, padding)


def _pointwise(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    return (
        lambda: F.relu(x),
        lambda: -x,
        lambda: nc.tanh(x),
        lambda: nc.where(x > 0, x, x * 0.1),
        lambda: F.gelu(x),
        lambda: x.astype(nc.bfloat16).astype(x.dtype),
        lambda: (x > 0.25).astype(x.dtype),
    )[c % 7]()


def _binary(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    n, channels, h, w = x.shape
    mates = [y for y in known if y.shape == x.shape]
    shapes = (1, channels, 1, 1), (n, channels, 1, 1), (1, 1, h, w), (1, 1, 1, w), (n, 1, 1, 1), (1, channels, h, w)
    y = mates[c % len(mates)] if b else weight(*shapes[c % len(shapes)])
    return (lambda: x + y, lambda: x - y, lambda: x * y, lambda: nc.maximum(x, y), lambda: F.relu(y * x + y))[d % 5]()


def _move(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    n, channels, h, w = x.shape
    orders = (0, 1, 3, 2), (1, 0, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0)
    return (
        lambda: nc.permute_dims(x, orders[d % 4]),
        lambda: nc.flip(x, axis=d % 4),
        lambda: nc.roll(x, 1, axis=d % 4),
        lambda: x[:, channels // 2 :],
        lambda: x[:, :, ::2, : max(1, w - 1)],
        lambda: nc.concat([x, -x], axis=d % 2),
        lambda: nc.reshape(x, (n, channels, w, h)),
        lambda: nc.reshape(x, (1, n * channels, h, w)),
        lambda: nc.broadcast_to(x[:, :1], x.shape),
        lambda: nc.reshape(nc.permute_dims(x, (0, 2, 1, 3)), (n, h, channels * w, 1)),
    )[c % 10]()


def _normalised(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x = known[-1 - a % len(known)]
    scale, shift, mean, variance = (weight(x.shape[1]) for _ in range(4))
    if b:
        return F.batch_norm(x, mean, nc.abs(variance), scale, shift, training=False)
    return F.batch_norm(x, None, None, scale, shift, training=True)


def _reduced(known: list[Any], weight: Weights, a: int, b: int, c: int, d: int, e: int, f: int) -> Any:
    x, axes = known[-1 - a % len(known)], ((2, 3), (2, 3), (0, 2, 3), (1,))[c % 4]
    y = nc.mean(x, axis=axes, keepdims=True) if d % 2 else nc.max(x, axis=axes, keepdims=True)
    return (y, x * F.sigmoid(y), nc.broadcast_to(y, x.shape))[b]


STEPS = (
    _convolution,
    _convolution,
    _convolution,
    _block,
    _block,
    _transposed,
    _window,
    _window,
    _pointwise,
    _pointwise,
    _binary,
    _binary,
    _move,
    _move,
    _normalised,
    _reduced,
)
