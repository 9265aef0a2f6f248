"""Programs of PyTorch's autograd whose steps are compiled in Nacre; the `.txt` files of this folder have their texts.

A program assigns `out`: lists, numbers, booleans and tensors.  `t` is torch or nacre.  `jit(f)` is f, or `nc.jit(f)`.
`param(data)` makes a parameter, `leaf(data)` a tensor that requires a gradient, and `tensor(data)` one that does not.
`assign(p, data)` gives a parameter other contents.  `raises(f)` is whether f() raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARK = "# ---- "


def programs() -> dict[str, str]:
    """The texts by name."""
    found: dict[str, str] = {}
    for file in sorted(HERE.glob("*.txt")):
        for part in file.read_text().split(MARK)[1:]:
            name, _, text = part.partition("\n")
            assert name not in found, name
            found[name] = text
    return found


def names(t: Any, jit: Callable[[Any], Any], error: type[Exception]) -> dict[str, Any]:
    """The names that a program may use, for torch or nacre."""

    def leaf(data: Any) -> Any:
        x = t.tensor(data)
        x.requires_grad_()
        return x

    def assign(p: Any, data: Any) -> None:
        p.data = t.tensor(data)

    def raises(f: Callable[[], object]) -> bool:
        try:
            f()
        except error:
            return True
        return False

    return {
        "t": t,
        "nn": t.nn,
        "F": t.nn.functional,
        "tensor": t.tensor,
        "param": lambda data: t.nn.Parameter(t.tensor(data)),
        "jit": jit,
        "leaf": leaf,
        "assign": assign,
        "raises": raises,
    }


def plain(x: Any) -> Any:
    """A result as lists, numbers and booleans."""
    x = x.tolist() if hasattr(x, "tolist") else x
    return [plain(part) for part in x] if isinstance(x, list | tuple) else x


def result(name: str, text: str, given: dict[str, Any]) -> Any:
    """What a program gives."""
    exec(compile(text, name, "exec"), given)
    return plain(given["out"])
