"""Larger programs for the comparison between machines: what models compute, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import nacre as nc
import nacre.nn.functional as F
from aarch64.programs import Case, case
from nacre.base.dims import Dim
from nacre.interpret.evaluate import from_numpy
from nacre.nn.functional import class_losses, softmaxes
from ops.samples import Array, generator

Shapes = Sequence[Sequence[int]]
FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)


def normal(shapes: Shapes, dtype: Any = np.float32) -> list[Array]:
    """Normal numbers, the same ones at every call."""
    rng = generator(7)
    return [np.asarray(rng.normal(size=tuple(s)) * 0.5).astype(dtype) for s in shapes]


def layer(x: Any, weight: Any, bias: Any) -> Any:
    return F.relu(x @ weight + bias)


def trained(loss: Callable[..., Any], parameters: int) -> Callable[..., Any]:
    """One step of gradient descent on the first operands: the loss and the new parameters."""

    def step(*xs: Any) -> Any:
        value, gradients = nc.value_and_grad(loss, tuple(range(parameters)))(*xs)
        return value, *(p - g * 0.1 for p, g in zip(xs, gradients, strict=False))

    return step


def perceptron(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, target: Any) -> Any:
    return class_losses.cross_entropy(F.gelu(x @ w1 + b1) @ w2 + b2, target)


def images(w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
    """Convolution, pooling, and a layer on what is left."""
    h = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
    h = F.avg_pool2d(h, 2)
    return ((h.reshape(h.shape[0], -1) @ w2 + b2) ** 2).mean()


def block(wq: Any, wk: Any, wv: Any, wo: Any, scale: Any, shift: Any, x: Any) -> Any:
    """Attention on what is normalised, added to it."""
    h = F.layer_norm(x, (x.shape[-1],), scale, shift)
    mixed = F.scaled_dot_product_attention(h @ wq, h @ wk, h @ wv, is_causal=True)
    return ((x + mixed @ wo) ** 2).mean()


INFERENCE: tuple[tuple[str, Callable[..., Any], Shapes], ...] = (
    ("softmax", lambda x: F.softmax(x), [(5, 77)]),
    ("log softmax", lambda x: softmaxes.log_softmax(x, 0), [(33, 6)]),
    ("layer norm", lambda x, w, b: F.layer_norm(x, (70,), w, b), [(9, 70), (70,), (70,)]),
    ("layer", layer, [(37, 130), (130, 53), (53,)]),
    ("layer of many", layer, [(70, 600), (600, 40), (40,)]),
    ("layer of one", layer, [(1, 300), (300, 65), (65,)]),
    ("distances", lambda x, y: ((x[:, None] - y[None]) ** 2).sum(2).argmin(1), [(20, 19), (7, 19)]),
    ("long sum", lambda x: (x * x).sum(), [(50_001,)]),
    ("moments", lambda x: (x.mean(0), x.var(axis=0), x.max(axis=1)), [(300, 21)]),
    ("activations", lambda x: F.silu(x) + F.gelu(x, "tanh") * F.softplus(x) - F.elu(x), [(1003,)]),
)


def inference() -> Iterator[Case]:
    """Programs without derivatives, in all floating-point dtypes."""
    for label, f, shapes in INFERENCE:
        for dtype in FLOATS:
            yield case(f"{label} of {np.dtype(dtype).name}", f, normal(shapes, dtype))


def symbolic() -> Iterator[Case]:
    """The programs of inference for any number of rows."""
    for label, f, shapes in INFERENCE:
        inputs = normal(shapes)
        first, *rest = (from_numpy(x).type for x in inputs)
        rows = Dim.symbol("rows", min=1, max=100_000)
        types = [first.with_shape([rows, *first.shape[1:]]), *rest]
        yield case(f"{label} of any rows", f, inputs, types)


def training() -> Iterator[Case]:
    """Steps of gradient descent."""
    target = generator(3).integers(0, 10, 24)
    shapes = [(50, 40), (40,), (40, 10), (10,), (24, 50)]
    for dtype in (np.float32, np.float64):
        label = f"of {np.dtype(dtype).name}"
        yield case(f"perceptron {label}", trained(perceptron, 4), [*normal(shapes, dtype), target])
        convolved = [(8, 3, 3, 3), (8,), (128, 10), (10,), (2, 3, 16, 16)]
        yield case(f"images {label}", trained(images, 4), normal(convolved, dtype))
        attended = [(24, 24)] * 4 + [(24,), (24,), (2, 19, 24)]
        yield case(f"attention {label}", trained(block, 6), normal(attended, dtype))
