"""Training steps in float32 and in `autocast` to bfloat16, beside torch's autocast where it is installed.

python benchmarks/mixed_precision.py [mlp convnet gpt] [--seconds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import nacre as nc
from nacre.inspect.timing import interleaved

THREADS = 2
ROUNDS = 10
NAMES = ("mlp", "convnet", "gpt")

Step = Callable[[], Any]


def _same(logits: Any) -> Any:
    return logits


def _flat(logits: Any) -> Any:
    return logits.reshape(-1, logits.shape[-1])


def mlp(lib: Any) -> tuple[Any, Any, Any, Any]:
    """Four layers of width 1024, 256 examples."""
    nn = lib.nn
    hidden = [nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(3)]
    model = nn.Sequential(*hidden, nn.Linear(1024, 10))
    x, y = np.random.default_rng(0).normal(size=(256, 1024)).astype(np.float32), np.arange(256) % 10
    return model, x, y, _same


def convnet(lib: Any) -> tuple[Any, Any, Any, Any]:
    """Four convolutions of 64 and 128 channels, 32 images of 32 × 32."""
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128 * 8 * 8, 10),
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(32, 3, 32, 32)).astype(np.float32)
    return model, x, np.arange(32) % 10, _same


def gpt(lib: Any) -> tuple[Any, Any, Any, Any]:
    """Two transformer blocks of width 384, 8 sequences of 128 tokens."""
    nn = lib.nn
    blocks = [
        nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        for _ in range(2)
    ]
    model = nn.Sequential(nn.Embedding(512, 384), *blocks, nn.LayerNorm(384), nn.Linear(384, 512))
    x = np.random.default_rng(0).integers(0, 512, (8, 128))
    return model, x, np.roll(x, -1, 1).reshape(-1), _flat


def of_nacre(make: Any, low: bool) -> Step:
    """A compiled training step of Nacre."""
    nc.random.seed(0)
    model, x, y, flat = make(nc)
    opt = nc.optim.SGD(model.parameters(), lr=1e-3)
    x, y = nc.asarray(x), nc.asarray(y)

    @nc.jit
    def step(x: Any, y: Any) -> Any:
        with nc.autocast(nc.bfloat16, enabled=low):
            loss = nc.nn.functional.cross_entropy(flat(model(x)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return lambda: step(x, y)


def of_torch(torch: Any, make: Any, low: bool) -> Step:
    """An eager training step of torch."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    model, x, y, flat = make(torch)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = torch.nn.functional.cross_entropy(flat(model(x)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


def main() -> None:
    """Run the steps in turn, and print the least time of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    nc.set_threads(THREADS)
    torch: Any = __import__("torch") if find_spec("torch") else None
    for name in given.names:
        make = globals()[name]
        steps = {f"nacre {kind}": of_nacre(make, kind == "bfloat16") for kind in ("float32", "bfloat16")}
        if torch is not None:
            steps |= {f"torch {kind}": of_torch(torch, make, kind == "bfloat16") for kind in ("float32", "bfloat16")}
        times = interleaved(steps, ROUNDS, given.seconds / ROUNDS / len(steps))
        print(f"{name:8}", "  ".join(f"{kind} {1e3 * t.least:.1f} ms" for kind, t in times.items()), flush=True)


if __name__ == "__main__":
    main()
