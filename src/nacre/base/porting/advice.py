"""The form of the tables, and the advice that several of them have.

A value of a table is code to write, or a sentence where no code replaces the name; sentences begin with a capital
letter.  A name that is public elsewhere in Nacre, and a name that is almost spelt right, need no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CPU: Final = "Every tensor is in the memory of the CPU; leave this out"
DEVICES: Final = ("cpu", "cuda", "mps", "xpu", "gpu", "tpu", "meta")


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """A table with one name to a key, from one with several names to a key, separated by blanks."""
    return {name: advice for names, advice in table.items() for name in names.split()}
