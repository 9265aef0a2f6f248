"""The machine on which a picture's times were measured."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.inspect.machine import facts


def machine() -> dict[str, str]:
    """Its processor, instruction set and threads; no paths."""
    known = facts()
    return {
        "processor": known["processor"],
        "instruction set": known["instruction set"].split()[0],
        "threads": known["threads"].split()[0],
        "nacre": known["nacre"],
    }


def note(of: Mapping[str, str]) -> str:
    """The machine in a few words."""
    threads = of["threads"]
    return f"{of['processor']}, {of['instruction set']}, {threads} thread{'s' if threads != '1' else ''}"
