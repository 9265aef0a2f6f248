"""Files as an earlier Nacre wrote them: programs, a checkpoint, inputs of executables, tuned choices, graphs as text.

    .venv/bin/python tests/formats/written_before.py --write    record them anew, which gives up what was promised

The files are stored in base64: a program with inputs and the bits of its results, and a checkpoint with the digest of
the training that continued from it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import nacre as nc
from machine_code.programs import programs
from nacre import nn
from nacre.ir.text import print_graph
from nacre.native.engine import host_target
from nacre.runtime import tunables
from train import training  # type: ignore[import-not-found]

FILE = Path(__file__).with_name("written_before.json")
F = nn.functional
EPOCHS = 2  # of the training, before its checkpoint is saved
Case = tuple[Any, tuple[Any, ...], Any]  # the function, examples, and its dynamic shapes


def _draw(*shape: int, seed: int = 1) -> Any:
    return nc.random.normal(shape, key=nc.random.key(seed))


class Vision(nn.Module):
    """A small network for images, with statistics of its training."""

    def __init__(self) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 8, 3, groups=8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
        )  # fmt: skip
        self.body(_draw(4, 3, 12, 12, seed=7))

    def forward(self, x: Any) -> Any:
        return self.body(x)


class Reader(nn.Module):
    """Tokens through a layer of a transformer."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
        self.head = nn.Linear(16, 30)

    def forward(self, tokens: Any) -> Any:
        return F.log_softmax(self.head(self.layer(self.tokens(tokens))), axis=-1)


def _control(x: Any, n: Any) -> Any:
    doubled = nc.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (nc.tensor(0), x))[1]
    total, steps = nc.scan(lambda c, row: (c + row, nc.tanh(c)), nc.zeros_like(x[0]), doubled)
    return nc.cond(nc.sum(total) > 0, lambda v: nc.sort(v), lambda v: -v, total), steps, nc.argmax(x, axis=1)


def _indices(x: Any, at: Any) -> Any:
    held = x.at[at].add(1.0) if hasattr(x, "at") else x
    return held[at], nc.cumulative_sum(x, axis=0), nc.where(x > 0, x, 0.5), nc.concat([x, x[::-1]]), nc.topk(x, 2)[0]


def _halves(x: Any) -> Any:
    a, b = x.astype(nc.bfloat16), x.astype(nc.float16)
    return a @ a.T, nc.exp(b), nc.sum(a, axis=0), (b * 3).astype(nc.int8), x.astype(nc.float64) / 3


def _drawn(key: Any) -> Any:
    return nc.random.normal((5,), key=key), nc.random.bits((3,), key=key)


def cases() -> dict[str, Callable[[], Case]]:
    """The functions to write as programs, by name."""
    at, key = nc.tensor([2, 0]), nc.random.key(3)
    return {
        "mlp": lambda: (
            nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3), nn.Softmax()),
            (_draw(4, 6),), {"x": {0: nc.Dim("batch", max=512)}},
        ),
        "vision": lambda: (Vision(), (_draw(2, 3, 12, 12),), None),
        "reader": lambda: (Reader(), (nc.tensor([[3, 4, 5, 29], [0, 1, 2, 3]]),), None),
        "control": lambda: (_control, (_draw(4, 3), nc.tensor(3)), None),
        "indices": lambda: (_indices, (_draw(3, 4), at), None),
        "halves": lambda: (_halves, (_draw(3, 3),), None),
        "drawn": lambda: (_drawn, (key,), None),
        "derived": lambda: (nc.grad(lambda x: nc.sum(F.softmax(nc.tanh(x @ x.T)) ** 2)), (_draw(4, 3),), None),
    }  # fmt: skip


def packed(path: Path) -> dict[str, str]:
    """The files of a folder, or one file, by their names within it."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return {p.relative_to(path).as_posix(): base64.b64encode(p.read_bytes()).decode() for p in files}


def unpack(files: dict[str, str], path: Path) -> Path:
    """Write files into a folder."""
    for name, held in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(base64.b64decode(held))
    return path


def bits(found: Any) -> list[list[str]]:
    """Tensors as their types and the digests of their bytes."""
    return [[str(x.type), hashlib.sha256(x.numpy().tobytes()).hexdigest()] for x in nc.tree.leaves(found)]


def went_on(out: Path) -> str:
    """Continue the training in a folder; returns the digest of the resulting model."""
    trainer, loader, validation = training.build(out)
    trainer.fit(loader, validation, training.EPOCHS, resume=True)
    whole = hashlib.sha256()
    for name, value in sorted(trainer.model.state_dict().items()):
        whole.update(name.encode() + value.numpy().tobytes())
    return whole.hexdigest()


def graphs() -> Iterator[tuple[str, str]]:
    """For every primitive in a trace, the text of the smallest graph that has it."""
    found: dict[str, str] = {}
    for program in programs():
        graph = program.made().graph
        text = print_graph(graph)
        for name in {e.primitive.name for e in graph.equations}:
            if name not in found or len(text) < len(found[name]):
                found[name] = text
    return iter(sorted(found.items()))


def tunable() -> list[str]:
    """The names of a program's tunable choices, with two threads."""
    before = nc.get_threads()
    nc.set_threads(2)
    x = _draw(300, 300)
    try:
        with tunables.asked() as asked:
            nc.jit(lambda x: F.softmax(x @ x))(x)
    finally:
        nc.set_threads(before)
    return sorted(name for name, options in asked.items() if len(options) > 1)


def _write(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = {"programs": {}, "graphs": dict(graphs())}
    for name, case in cases().items():
        nc.random.seed(5)
        function, examples, dynamic = case()
        if isinstance(function, nn.Module):
            function.eval()
        path = folder / f"{name}.safetensors"
        nc.save_program(function, path, *examples, dynamic_shapes=dynamic)
        inputs = folder / name
        inputs.mkdir()
        for k, x in enumerate(examples):
            np.save(inputs / f"{k}.npy", x.numpy())
        made["programs"][name] = {
            "file": base64.b64encode(path.read_bytes()).decode(),
            "inputs": packed(inputs),
            "results": bits(nc.load_program(path)(*examples)),
        }
    out = folder / "training"
    trainer, loader, validation = training.build(out)
    trainer.fit(loader, validation, EPOCHS)
    kept = packed(out)
    made["training"] = {"files": kept, "model": went_on(out)}
    made["tuned"] = {"isa": host_target().isa, "names": tunable()}
    return made


def recorded() -> dict[str, Any]:
    """The recorded files."""
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if "--write" in sys.argv:
        with tempfile.TemporaryDirectory() as made:
            FILE.write_text(json.dumps(_write(Path(made)), indent=1, sort_keys=True) + "\n", encoding="utf-8")
