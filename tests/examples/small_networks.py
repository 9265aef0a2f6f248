"""The networks of `nacre.examples.models` with few weights, and data whose sizes differ from step to step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nacre import nn
from nacre.examples.models import bert, experts, llama, lstm, mobilenet, unet, vit

Arrays = tuple[np.ndarray, ...]
ROWS = (
    mobilenet.Bottleneck(3, 16, 16, False, False, 1),
    mobilenet.Bottleneck(5, 40, 24, True, True, 2),
    mobilenet.Bottleneck(5, 72, 24, True, False, 1),
)
LLAMA = llama.LlamaConfig(50, 24, 40, 2, 6, 2)
BERT = bert.BertConfig(50, 24, 2, 3, 40, 20, dropout=0.0)


@dataclass(frozen=True)
class Small:
    """A network, the inputs and the shape of the targets for each step, and the number of the targets' classes.

    Without classes, the targets are numbers.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[np.random.Generator, int], Arrays]
    targets: Callable[[int], tuple[int, ...]]
    classes: int
    channels: int = -1  # the axis of the classes

    def data(self, rng: np.random.Generator, step: int) -> tuple[np.ndarray, Arrays]:
        """The targets and the inputs of a step."""
        inputs, shape = self.inputs(rng, step), self.targets(step)
        return rng.integers(0, self.classes, shape) if self.classes else rng.standard_normal(shape), inputs

    def loss(self, f: Any, found: Any, y: Any) -> Any:
        """The loss by the functions of a library."""
        if not self.classes:
            return f.mse_loss(found, y)
        if self.channels == -1:
            return f.cross_entropy(found.reshape(-1, self.classes), y.reshape(-1))
        return f.cross_entropy(found, y)


def scores(found: Any) -> Any:
    """What a network returns, without its state."""
    return found[0] if isinstance(found, tuple) else found


def images(channels: int, *sizes: tuple[int, int], batch: int = 3) -> Callable[[np.random.Generator, int], Arrays]:
    """Images of a size for each step."""
    return lambda rng, step: (rng.standard_normal((batch, channels, *sizes[step % len(sizes)])),)


def tokens(*shapes: tuple[int, int]) -> Callable[[np.random.Generator, int], Arrays]:
    """Tokens of a shape for each step."""
    return lambda rng, step: (rng.integers(1, 50, shapes[step % len(shapes)]),)


def padded(rng: np.random.Generator, step: int) -> Arrays:
    """Three sequences, and the mask of their tokens."""
    longest = LENGTHS[step % len(LENGTHS)]
    mask = (np.arange(longest) < np.array([longest, longest - 3, longest - 1])[:, None]).astype(np.int64)
    return rng.integers(1, 50, mask.shape) * mask, mask


def _mixture(way: Any) -> Small:
    shapes = (3, 5, 8), (2, 7, 8), (4, 4, 8)

    def rows(rng: np.random.Generator, step: int) -> Arrays:
        return (rng.standard_normal(shapes[step % 3]),)

    return Small(lambda: experts.MixtureOfExperts(8, 12, 4, 2, way, room=None), rows, lambda k: shapes[k % 3], 0)


SIZES = (37, 50), (33, 48), (40, 35)  # of the images of U-Net
LENGTHS = 7, 20, 5, 12  # of the sequences of BERT
LLAMA_SHAPES = (3, 9), (3, 5), (3, 12)
LSTM_SHAPES = (6, 3), (4, 3), (7, 3)
NETWORKS = {
    "vit": Small(lambda: vit.VisionTransformer(16, 4, 2, 24, 3, 40, 0.0, 7), images(3, (16, 16)), lambda _: (3,), 7),
    "mobilenet": Small(
        lambda: mobilenet.MobileNetV3(ROWS, 32, 7, 0.0), images(3, (20, 20), (24, 17)), lambda _: (3,), 7
    ),
    "unet": Small(lambda: unet.UNet(2, 3, 4), images(2, *SIZES, batch=2), lambda k: (2, *SIZES[k % 3]), 3, 1),
    "lstm": Small(
        lambda: lstm.LstmLanguageModel(50, 12, 16, 2, 0.0), tokens(*LSTM_SHAPES), lambda k: LSTM_SHAPES[k % 3], 50
    ),
    "llama": Small(lambda: llama.Llama(LLAMA), tokens(*LLAMA_SHAPES), lambda k: LLAMA_SHAPES[k % 3], 50),
    "bert": Small(lambda: bert.BertForMaskedLM(BERT), padded, lambda k: (3, LENGTHS[k % 4]), 50),
    "experts by onehot": _mixture("onehot"),
    "experts by scatter": _mixture("scatter"),
    "experts by gather": _mixture("gather"),
}
