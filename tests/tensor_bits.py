"""The bits of results, which tests of equal numbers compare."""

from __future__ import annotations

from typing import Any

import nacre as nc


def bits(result: Any) -> list[bytes]:
    """The bits of each tensor of a tree."""
    return [x.numpy().tobytes() for x in nc.tree.leaves(result)]
