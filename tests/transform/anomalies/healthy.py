"""Seven models that train well, on handwritten digits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import nacre as nc
from nacre import nn, optim
from nacre.examples.digits import images

F = nn.functional
BATCH = 64


class Rows(nn.Module):
    """An LSTM over the rows of an image."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x.reshape((-1, 8, 8)))[0][:, -1])


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self, width: int) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.body(x))


class GPTBlock(nn.Module):
    """Causal attention and a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        n, t, width = x.shape
        shape = n, t, self.heads, width // self.heads
        qkv = self.qkv(self.first(x))
        q, k, v = (
            nc.permute_dims(qkv[:, :, j * width : (j + 1) * width].reshape(shape), (0, 2, 1, 3)) for j in range(3)
        )
        scores = q @ nc.permute_dims(k, (0, 1, 3, 2)) / (width // self.heads) ** 0.5
        seen = nc.arange(t)[:, None] >= nc.arange(t)
        mixed = F.softmax(nc.where(seen, scores, -nc.inf)) @ v
        x = x + self.out(nc.permute_dims(mixed, (0, 2, 1, 3)).reshape((n, t, width)))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """A language model of pixels: 17 grey levels, 64 positions."""

    def __init__(self) -> None:
        self.tokens, self.places = nn.Embedding(17, 32), nn.Embedding(63, 32)
        self.blocks = nn.Sequential(GPTBlock(32, 4), GPTBlock(32, 4))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 17)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(nc.arange(63)))))


def classes(model: nn.Module, x: Any, y: Any) -> Any:
    """The loss of a classifier of flat images."""
    return F.cross_entropy(model(x), y)


def classes_of_images(model: nn.Module, x: Any, y: Any) -> Any:
    """The loss of a classifier of images with a channel."""
    return F.cross_entropy(model(x.reshape((-1, 1, 8, 8))), y)


def reconstruction(model: nn.Module, x: Any, y: Any) -> Any:
    """The loss of an autoencoder."""
    return F.mse_loss(model(x), x)


def next_pixel(model: nn.Module, x: Any, y: Any) -> Any:
    """The loss of a language model of pixels."""
    levels = nc.round(x * 16).astype(nc.int64)
    return F.cross_entropy(model(levels[:, :-1]).reshape((-1, 17)), levels[:, 1:].reshape((-1,)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 10),
    )  # fmt: skip


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), Residual(16), Residual(16), nn.Flatten(), nn.Linear(1024, 10)
    )


def autoencoder() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 16), nn.Sigmoid(), nn.Linear(16, 64), nn.Sigmoid())


def logistic_regression() -> nn.Module:
    return nn.Linear(64, 10)


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Any, Any], Any], float]] = {
    "mlp": (mlp, classes, 3e-3),
    "convnet": (convnet, classes_of_images, 3e-3),
    "gpt": (GPT, next_pixel, 3e-3),
    "lstm": (Rows, classes, 3e-3),
    "autoencoder": (autoencoder, reconstruction, 3e-3),
    "resnet": (resnet, classes_of_images, 3e-3),
    "logistic regression": (logistic_regression, classes, 1e-1),
}


@cache
def digits() -> tuple[Any, Any]:
    """Flat images with numbers from 0 to 1, and their classes."""
    x, y = images()
    return nc.tensor(x.reshape(-1, 64)), nc.tensor(y)


def training(name: str) -> Callable[[Any, Any], Any]:
    """A training step of a new model: from a batch to its loss."""
    nc.random.seed(0)
    make, loss, rate = HEALTHY[name]
    model = make()
    optimiser = optim.AdamW(model.parameters(), lr=rate)

    def step(x: Any, y: Any) -> Any:
        """One step; the loss."""
        found = loss(model, x, y)
        found.backward()
        optimiser.step()
        optimiser.zero_grad()
        return found

    return step


def batch(k: int) -> tuple[Any, Any]:
    """A batch of the digits."""
    x, y = digits()
    at = k * BATCH % (x.shape[0] - BATCH)
    return x[at : at + BATCH], y[at : at + BATCH]
