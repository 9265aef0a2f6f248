"""The public surface: every public name with its signature, every command with its options, every variable.

.venv/bin/python tests/promised.py            what has changed since it was recorded
.venv/bin/python tests/promised.py --write    record it: it changes on purpose only
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import surface
from nacre.api.namespace import ALIASES
from nacre.cli.commands import commands
from nacre.cli.environment import VARIABLES

FILE = Path(__file__).with_name("promised.json")
OPERATORS = ("__call__", "__getitem__", "__setitem__", "__len__", "__iter__", "__enter__")
PUBLIC = set(surface.CLASSES.values())
Surface = dict[str, dict[str, Any]]


def _default(value: object) -> str:
    """A default as text, without the module in which a class or function happens to be written."""
    named = isinstance(value, type) or inspect.isroutine(value)
    text = value.__qualname__ if named else repr(value)  # type: ignore[union-attr]
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def parameters(function: Any) -> str:
    """A callable's parameters with their defaults, as they are written in a call."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "?"
    words: list[str] = []
    kind, star = None, False
    for p in signature.parameters.values():
        if kind is p.POSITIONAL_ONLY and p.kind is not kind:
            words.append("/")
        star = star or p.kind is p.VAR_POSITIONAL
        if p.kind is p.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(mark + p.name + ("" if p.default is p.empty else f"={_default(p.default)}"))
        kind = p.kind
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        words.append("/")
    return f"({', '.join(words)})"


def _members(held: type) -> dict[str, str]:
    """The public members that a class adds to its public bases: methods with their parameters, and other values."""
    homes = [base for base in held.__mro__ if base.__module__.startswith("nacre")]
    others = [base for base in homes[1:] if base in PUBLIC]
    found: dict[str, str] = {}
    for name in sorted({n for base in homes for n in vars(base) if not n.startswith("_") or n in OPERATORS}):
        member = getattr(held, name, OPERATORS)  # names of other frameworks answer with an error
        if member is not OPERATORS and not any(getattr(base, name, None) is member for base in others):
            found[name] = parameters(member) if callable(member) else "value"
    return found


def names() -> dict[str, Any]:
    """Every public name: a function's parameters, a class with its bases and members, or the type of a value."""
    found: dict[str, Any] = {}
    for name, held in sorted(surface.NAMES.items()):
        if isinstance(held, type):
            bases = [b.__name__ for b in held.__mro__[1:] if b in PUBLIC]
            call = {} if name in surface.MADE else {"call": parameters(held)}
            found[name] = {**call, "bases": bases, "members": _members(held)}
        else:
            found[name] = parameters(held) if name in surface.CALLABLES else type(held).__name__
    found |= {f"nacre.{name}": f"is {getattr(same, '__name__', same)}" for name, same in sorted(ALIASES.items())}
    return found


def command_lines() -> dict[str, Any]:
    """Every command: its arguments, and its options with how many words they take and the words that are allowed."""
    found: dict[str, Any] = {}
    for name, parser in sorted(commands().items()):
        found[name] = sorted(
            " ".join([*(a.option_strings or [str(a.metavar or a.dest)]), str(a.nargs), *map(str, a.choices or ())])
            for a in parser.listed
        )
    return found


def public_surface() -> Surface:
    """The whole surface."""
    return {
        "names": names(),
        "commands": command_lines(),
        "variables": {v.name: v.values for v in sorted(VARIABLES, key=lambda v: v.name)},
    }


def differences(new: Surface, old: Surface) -> list[str]:
    """What became, came and went, a line each."""
    told: list[str] = []
    for part in new:
        for name in sorted(new[part].keys() | old.get(part, {}).keys()):
            one, other = old.get(part, {}).get(name), new[part].get(name)
            if isinstance(one, dict) and isinstance(other, dict):
                told += [f"{name}.{k}: {one.get(k)} became {v}" for k, v in other.items() if one.get(k) != v]
            elif one != other:
                told.append(f"{name}: {one} became {other}")
    return told


def recorded() -> Surface:
    """What was recorded."""
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(public_surface(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for line in differences(public_surface(), recorded()):
        print(line)
