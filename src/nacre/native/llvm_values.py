"""Operands of LLVM instructions: a text with its type, and the exact text of constants."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple


class Val(NamedTuple):
    """An LLVM operand: its text (`%x`, `3`, `zeroinitializer` …) and its type."""

    text: str
    ty: str

    def __str__(self) -> str:
        return f"{self.ty} {self.text}"


Operand = Val | int


@cache
def _rounding(scalar: str) -> Callable[[float], Any]:
    """The conversion of a number to a floating-point type."""
    # Imported only here: the runtime's text is written while NumPy is being imported, and has none of these types.
    conversion, dtypes = import_module("nacre.base.conversion"), import_module("nacre.base.dtypes")
    return partial(conversion.element, dtype=dtypes.FLOATS_BY_LLVM[scalar])


def literal(scalar: str, value: float | int | bool) -> str:
    """The text of a scalar constant; floating-point values are exact (rounded once to their type)."""
    if scalar == "i1":
        return "true" if value else "false"
    if scalar == "ptr":
        return "null"
    if scalar.startswith("i"):
        return str(int(value))
    if scalar in ("half", "bfloat"):
        bits = int.from_bytes(_rounding(scalar)(float(value)).tobytes(), "little")
        return f"0x{'H' if scalar == 'half' else 'R'}{bits:04X}"
    exact = float(value) if scalar == "double" else float(_rounding(scalar)(float(value)))
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
