"""The demo's data, network and training step; `python -m nacre.cli.digits EPOCHS` trains and prints the weights' hash.

The data are scikit-learn's 1,797 handwritten digits of 8 × 8 pixels, which its package contains, split once for all.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

import nacre as nc
from nacre import nn, optim
from nacre.api.tensor import Tensor
from nacre.base.errors import MissingExtra
from nacre.trace.variable import Variable

BATCH = 64
TESTED = 360  # images held back
SEED = 0
EPOCHS = 20


@dataclass(frozen=True)
class Digits:
    """Images in [0, 1] as (n, 1, 8, 8) float32, and their classes as (n,) int64."""

    train_images: np.ndarray
    train_classes: np.ndarray
    test_images: np.ndarray
    test_classes: np.ndarray

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The full batches of an epoch, shuffled by its number."""
        order = np.random.default_rng([SEED, epoch]).permutation(len(self.train_classes))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at:at + BATCH]
            yield nc.asarray(self.train_images[chosen]), nc.asarray(self.train_classes[chosen])

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return len(self.train_classes) // BATCH


def load() -> Digits:
    """Read the digits; raises MissingExtra without scikit-learn."""
    try:
        raw = import_module("sklearn.datasets").load_digits()
    except ImportError as fault:
        raise MissingExtra("demo: scikit-learn is required for its handwritten digits; it could not be imported "
                           f"({fault}); install it with: pip install 'nacre[demo]'") from None
    images = (raw.images / 16).astype(np.float32)[:, None]
    classes = raw.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(classes))
    test, train = order[:TESTED], order[TESTED:]
    return Digits(images[train], classes[train], images[test], classes[test])


def network() -> nn.Sequential:
    """A small convolutional network for 8 × 8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )


@dataclass
class Training:
    """A network at its seeded start, its optimiser, and the step, eager or compiled."""

    compiled: bool
    model: nn.Sequential = field(init=False)
    optimiser: optim.AdamW = field(init=False)
    step: Callable[[Tensor, Tensor], Tensor] = field(init=False)
    seconds: list[float] = field(default_factory=list[float])
    losses: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        nc.random.seed(SEED)
        self.model = network()
        self.optimiser = optim.AdamW(self.model.parameters(), lr=5e-3)
        self.step = nc.jit(self._step) if self.compiled else self._step

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss

    def timed(self, x: Tensor, y: Tensor) -> float:
        """One step; the loss.  Its time is appended to `seconds`."""
        start = time.perf_counter()
        loss = self.step(x, y).item()
        self.seconds.append(time.perf_counter() - start)
        return float(loss)

    def variables(self) -> list[Variable]:
        """What the step reads and writes besides the batch: weights, and the optimiser's state."""
        return [*self.model.parameters(), *self.optimiser.variables()]

    def weights(self) -> str:
        """The SHA-256 of all weights, by name."""
        digest = hashlib.sha256()
        for name, value in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + np.ascontiguousarray(value.numpy()).tobytes())
        return digest.hexdigest()

    def accuracy(self, digits: Digits) -> float:
        """The share of the test images that are classified rightly."""
        self.model.eval()
        with nc.no_grad():
            scores = nc.jit(self.model)(nc.asarray(digits.test_images))
        self.model.train()
        return float((scores.numpy().argmax(1) == digits.test_classes).mean())


def train(digits: Digits, epochs: int = EPOCHS, *, compiled: bool = True,
          seen: Callable[[float], object] = float) -> Training:
    """A training from the start to its end; `seen` is called with the loss of each step."""
    training = Training(compiled)
    for epoch in range(epochs):
        for x, y in digits.batches(epoch):
            training.losses.append(training.timed(x, y))
            seen(training.losses[-1])
    return training


if __name__ == "__main__":
    print(train(load(), int(sys.argv[1])).weights())
