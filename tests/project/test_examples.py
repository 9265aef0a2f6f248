"""The example of the README gives the same bits with `nc.jit` and without."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
STEPS = 3


def source() -> str:
    text = (ROOT / "README.md").read_text()
    return next(block.split("\n```")[0] for block in text.split("```python\n")[1:] if "@nc.jit" in block)


def weights(code: str) -> tuple[str, list[float]]:
    """The SHA-256 of the model's weights after the example, and the losses of some more steps."""
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(code, "example.py", "exec"), names)
    losses = [names["step"](names["x"], names["y"]).item() for _ in range(STEPS)]
    digest = hashlib.sha256()
    for name, value in sorted(names["model"].state_dict().items()):
        digest.update(name.encode() + np.ascontiguousarray(value.numpy()).tobytes())
    return digest.hexdigest(), losses


def test_same_bits_with_and_without_jit() -> None:
    code = source()
    plain = "\n".join(line for line in code.splitlines() if not line.startswith("@nc.jit"))
    assert plain != code
    assert weights(code) == weights(plain)


def test_training_changes_the_weights_and_lowers_the_loss() -> None:
    hashed, losses = weights(source())
    more, _ = weights(source() + "\nstep(x, y)")
    assert hashed != more
    assert losses == sorted(losses, reverse=True)
