"""Constants.  Names follow the array API standard."""

from __future__ import annotations

import math
from typing import Final

from nacre.base.errors import ArgumentError

__all__ = [
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
]


pi: Final = math.pi
e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # of the standard


def require_version(version: str | None) -> None:
    """Raise ArgumentError for a version of the standard that does not exist.

    >>> require_version("2024.12")
    """
    if version is not None and version not in VERSIONS:
        raise ArgumentError(
            f"__array_namespace__: api_version must be one of {', '.join(VERSIONS)}, or None; got {version!r}"
        )
