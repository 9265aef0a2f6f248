"""A training with everything that a resume must restore; `python training.py OUT [EVENT]` runs or resumes it.

With EVENT the process kills itself before its EVENT-th change to the folder (a file created, renamed, removed, cut …).
`digest` compares the folders of such runs: every byte of every file.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import nacre as nc
from nacre import data, nn, optim, train

EPOCHS = 4
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate", "os.link", "os.chmod"}


class Blinking(nn.Module):
    """A network with dropout, running statistics, and a count that its state dict lacks."""

    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
        self.calls = nn.Buffer(nc.tensor(0), persistent=False)

    def forward(self, x: Any) -> Any:
        if self.training:
            self.calls.assign(self.calls.value + 1)
        return self.body(x)


def noisy(item: tuple[Any, Any]) -> tuple[Any, Any]:
    """An item with noise of its own."""
    x, y = item
    return x + data.rng().normal(0, 0.1, x.shape).astype(x.dtype), y


def rows(count: int, seed: int) -> data.TensorDataset:
    """Points, and the classes they belong to."""
    x = nc.random.normal((count, 6), key=nc.random.key(seed))
    return data.TensorDataset(x, nc.argmax(x[:, :3] + x[:, 3:], axis=1))


def build(out: Path | None, **options: Any) -> tuple[train.Trainer, data.DataLoader, data.DataLoader]:
    """The trainer and its data; its report has a fixed date, so that runs can be compared."""
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    nc.random.seed(11)
    model = Blinking()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedules = [
        optim.OneCycleLR(optimizer, 2e-2, total_steps=EPOCHS * 6 + 1),
        optim.ReduceLROnPlateau(optimizer, patience=0),
    ]
    chosen = {
        "accumulate": 2,
        "clip_norm": 1.0,
        "schedule": schedules,
        "schedule_every": "step",
        "save_every": 2,
        "keep": 1,
        "log_every": 1,
        "early_stopping": train.EarlyStopping(patience=9, restore_best=True),
    }
    trainer = train.Trainer(
        model,
        optimizer,
        nn.functional.cross_entropy,
        metrics={"accuracy": train.accuracy},
        out=out,
        progress=False,
        name="Blinking",
        **{**chosen, **options},
    )
    loader = data.DataLoader(rows(90, 1).map(noisy), batch_size=8, shuffle=True, num_workers=2, seed=3)
    return trainer, loader, data.DataLoader(rows(32, 2), batch_size=16)


def run(out: Path, event: int = 0) -> None:
    """Train to the end, from the state of the folder."""
    trainer, loader, validation = build(out)
    if event:
        die_before(out, event)
    trainer.fit(loader, validation, EPOCHS, resume=True)


def die_before(out: Path, event: int) -> None:
    """Kill this process before it changes the folder for the event-th time."""
    left = [event]

    def watch(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open":
            path, _, flags = arguments
            if not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif name in CHANGES:
            path = arguments[0]
        else:
            return
        if str(out) in str(path):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def digest(out: Path) -> str:
    """The SHA-256 of every file's and link's name and bytes."""
    found = hashlib.sha256()
    for path in sorted(p for p in out.rglob("*") if not p.is_dir() or p.is_symlink()):
        held = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        found.update(f"{path.relative_to(out)} {len(held)}\n".encode() + held)
    return found.hexdigest()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
