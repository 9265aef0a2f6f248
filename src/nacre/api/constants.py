"""Constants.  Names follow the array API standard."""

from __future__ import annotations

import math
from typing import Final

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
