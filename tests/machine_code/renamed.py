"""Digests of programs' machine code when every primitive registers under a number in the place of its name.

.venv/bin/python tests/machine_code/renamed.py [WORD ...]   prints them as JSON
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from nacre.ir.primitive import Primitive, registered

register = Primitive.__post_init__
number = count()


def numbered(primitive: Any) -> None:
    """Register a primitive under a number."""
    object.__setattr__(primitive, "name", f"p{next(number)}")
    register(primitive)


def main(words: list[str]) -> None:
    """Print the digests of the chosen programs' kernels for each target."""
    assert not registered(), "primitives must register after this"
    Primitive.__post_init__ = numbered
    import nacre as nc  # noqa: PLC0415 - primitives register from here on
    from machine_code.digests import TARGETS, chosen, digest, normalised, texts  # noqa: PLC0415

    found: dict[str, dict[str, list[str]]] = {}
    for program in chosen(words):
        made = program.made()
        with nc.numerics(program.numerics):
            found[program.name] = {isa: [digest(normalised(t).encode()) for t in texts(made, isa)] for isa in TARGETS}
    assert all(name == f"p{k}" for k, name in enumerate(registered()))
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(sys.argv[1:])
