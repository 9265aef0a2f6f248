"""Operands of LLVM instructions: a text with its type, and the exact text of constants."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from nacre.base.conversion import element
from nacre.base.dtypes import FLOATS_BY_LLVM


class Val(NamedTuple):
    """An LLVM operand: its text (`%x`, `3`, `zeroinitializer` …) and its type."""

    text: str
    ty: str

    def __str__(self) -> str:
        return f"{self.ty} {self.text}"


Operand = Val | int


def literal(scalar: str, value: float | int | bool) -> str:
    """The text of a scalar constant; floating-point values are exact (rounded once to their type)."""
    if scalar in ("half", "bfloat"):
        held = element(float(value), FLOATS_BY_LLVM[scalar])
        return f"0x{'H' if scalar == 'half' else 'R'}{int(held.view(np.uint16)):04X}"
    if scalar in FLOATS_BY_LLVM:
        exact = float(value) if scalar == "double" else float(element(float(value), FLOATS_BY_LLVM[scalar]))
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    if scalar == "i1":
        return "true" if value else "false"
    if scalar == "ptr":
        return "null"
    return str(int(value))
