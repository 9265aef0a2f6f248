"""A convolutional network learns to read handwritten digits of 8 × 8 pixels.

The data are scikit-learn's 1,797 digits, which its package contains (the extra `demo`).  The split is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from nacre.api import random
from nacre.base.errors import MissingExtra
from nacre.data import DataLoader, TensorDataset
from nacre.data.randomness import permutation
from nacre.examples import Run, Settings
from nacre.nn import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU, Sequential
from nacre.nn.functional import cross_entropy
from nacre.optim import AdamW, CosineAnnealingLR
from nacre.train.loop import Trainer
from nacre.train.metrics import accuracy

EPOCHS = 20
BATCH = 64
HELD_BACK = 360  # images that are not trained on
SPLIT = 0  # the seed of the split, which stays the same


def images() -> tuple[np.ndarray, np.ndarray]:
    """All images (n, 1, 8, 8) as float32 in [0, 1], and their classes (n,) as int64."""
    try:
        raw: Any = import_module("sklearn.datasets").load_digits()
    except ImportError as fault:
        raise MissingExtra(
            f"digits: scikit-learn is required for its handwritten digits; it could not be imported ({fault}); "
            "install it with: pip install 'nacre[demo]'"
        ) from None
    return (raw.images / 16).astype(np.float32)[:, None], raw.target.astype(np.int64)


def split() -> tuple[TensorDataset, TensorDataset]:
    """The training digits and the test digits."""
    x, y = images()
    order = permutation(len(y), SPLIT, 0)
    held, rest = order[:HELD_BACK], order[HELD_BACK:]
    return TensorDataset(x[rest], y[rest]), TensorDataset(x[held], y[held])


def network() -> Sequential:
    """A small convolutional network: (n, 1, 8, 8) → scores (n, 10)."""
    return Sequential(
        Conv2d(1, 16, 3, padding=1), BatchNorm2d(16), ReLU(), MaxPool2d(2),
        Conv2d(16, 32, 3, padding=1), BatchNorm2d(32), ReLU(), MaxPool2d(2),
        Flatten(), Linear(128, 64), ReLU(), Dropout(0.3), Linear(64, 10),
    )  # fmt: skip


def build(settings: Settings) -> Run:
    """The training: AdamW, half a cosine of the learning rate, batches of 64."""
    random.seed(settings.seed)
    model = network()
    optimizer = AdamW(model.parameters(), lr=5e-3)
    trainer = Trainer(
        model,
        optimizer,
        cross_entropy,
        metrics={"accuracy": accuracy},
        schedule=CosineAnnealingLR(optimizer, settings.epochs, eta_min=1e-4),
        **settings.trainer,
    )
    training, held = split()
    batches = DataLoader(training, BATCH, shuffle=True, drop_last=True, seed=settings.seed)
    test = DataLoader(held, HELD_BACK)

    def results() -> Mapping[str, Any]:
        """The accuracy on the test digits."""
        return {"accuracy": trainer.validate(test)["accuracy"], "images": HELD_BACK}

    return Run(trainer, batches, test, results)
