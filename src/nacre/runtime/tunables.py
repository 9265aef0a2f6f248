"""Free choices: how a kernel's work is divided, which affects its speed and never its bits.

The code that divides work names the choice and lists the options, the analytical model's first.  `choose` returns that
one, unless autotuning has measured a faster one on this machine.  Results are stored beside the code cache
(`tuned.json`), by processor.

    >>> choose("grain of an example", (8, 4, 16))
    8

    >>> choose("grain of an example", (8, 4, 16))
    8
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from nacre.native import cache as objects
from nacre.native import trust
from nacre.native.engine import host_target

Option = TypeVar("Option")
FILE = "tuned.json"
LARGEST = 16 << 20  # bytes of it

_trying: dict[str, Any] = {}  # while a search is on, what it tries
_asked: list[dict[str, tuple[Any, ...]]] = []  # while it looks for choices, those it has met


def choose(name: str, options: Sequence[Option]) -> Option:
    """The option to use: the one on trial, else the autotuned one, else the first."""
    if len(options) == 1:
        return options[0]
    for found in _asked:
        found[name] = tuple(options)
    if name in _trying:
        return _trying[name]
    kept = best().get(name)
    if kept is not None:
        for option in options:
            if _plain(option) == kept:
                return option
    return options[0]


@contextlib.contextmanager
def asked() -> Generator[dict[str, tuple[Any, ...]]]:
    """Collect the choices that are requested in the block, with their options."""
    found: dict[str, tuple[Any, ...]] = {}
    _asked.append(found)
    try:
        yield found
    finally:
        _asked.remove(found)


@contextlib.contextmanager
def trying(options: Mapping[str, Any]) -> Generator[None]:
    """Use these options in the block."""
    before = dict(_trying)
    _trying.update(options)
    try:
        yield
    finally:
        _trying.clear()
        _trying.update(before)


# ---- what is kept


@cache
def best() -> dict[str, Any]:
    """The autotuned options on this processor, by choice."""
    found = _read().get(_processor(), {})
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def keep(found: Mapping[str, Any]) -> None:
    """Use these options from now on, in this process and, if the cache's folder is writable, in later ones."""
    best().update({name: _plain(option) for name, option in found.items()})
    path = _path()
    if path is None:
        return
    try:
        trust.replace(path, json.dumps({**_read(), _processor(): best()}).encode())
    except OSError as fault:
        trust.warn(
            f"tune: the folder for tuning results must be writable; got {path}: "
            f"{fault.strerror}; set NACRE_CACHE_DIR to another"
        )


def forget() -> int:
    """Delete the autotuned choices of this processor; returns their number."""
    number = len(best())
    best().clear()
    keep({})
    return number


def _plain(option: Any) -> Any:
    """An option as JSON gives it back."""
    return [_plain(x) for x in cast("tuple[Any, ...]", option)] if isinstance(option, tuple) else option


def _path() -> str | None:
    directory = objects.shared().disk.directory
    return None if directory is None else os.path.join(directory, FILE)


def _processor() -> str:
    target = host_target()
    return f"{target.cpu} {target.isa}"


def _read() -> dict[str, Any]:
    """What the file says; nothing where it is damaged, or where others could have written it."""
    path = _path()
    kept = None if path is None else trust.read(path, LARGEST)
    if kept is None:
        return {}
    try:
        found = json.loads(kept[0])
        json.dumps(found)  # as it will be written again
    except (ValueError, RecursionError, MemoryError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
