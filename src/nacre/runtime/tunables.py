"""Tunable choices: the division of a kernel's work, which affects its speed but not its bits.

The code that divides work names the choice and lists the options, the analytical model's first.  `choose` returns that
option, unless autotuning has measured a faster one on this machine.  Results are stored beside the code cache
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
LARGEST = 16 << 20  # bytes of the file

_trying: dict[str, Any] = {}  # the options that a running search measures
_requested: list[dict[str, tuple[Any, ...]]] = []  # the choices that a running search has collected


def choose(name: str, options: Sequence[Option]) -> Option:
    """The option to use: the one being measured, else the autotuned one, else the first."""
    if len(options) == 1:
        return options[0]
    for found in _requested:
        found[name] = tuple(options)
    if name in _trying:
        return _trying[name]
    stored = best().get(name)
    if stored is not None:
        for option in options:
            if _plain(option) == stored:
                return option
    return options[0]


@contextlib.contextmanager
def asked() -> Generator[dict[str, tuple[Any, ...]]]:
    """Collect the choices requested in the block, with their options."""
    found: dict[str, tuple[Any, ...]] = {}
    _requested.append(found)
    try:
        yield found
    finally:
        _requested.remove(found)


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


# ---- stored options


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
    """An option as JSON returns it."""
    return [_plain(x) for x in cast("tuple[Any, ...]", option)] if isinstance(option, tuple) else option


def _path() -> str | None:
    directory = objects.shared().disk.directory
    return None if directory is None else os.path.join(directory, FILE)


def _processor() -> str:
    target = host_target()
    return f"{target.cpu} {target.isa}"


def _read() -> dict[str, Any]:
    """The contents of the file; empty if it is damaged, or if other users could have written it."""
    path = _path()
    stored = None if path is None else trust.read(path, LARGEST)
    if stored is None:
        return {}
    try:
        found = json.loads(stored[0])
        json.dumps(found)  # must be writable again
    except (ValueError, RecursionError, MemoryError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
