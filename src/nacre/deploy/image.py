"""Weights in an object file: LLVM emits a section of zeros, and the numbers are written over it.

As LLVM text, and again as the compiler's own constants, weights would take tens of times their size in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from nacre.base.errors import CompileError

SECTION = ".rodata.nacre"
HEADERS, HEADER_SIZE = 0x28, 0x3A  # places of the section headers' offset and size in a 64-bit ELF header
PROGBITS = 1


def filled(image: bytes, parts: Iterable[tuple[int, np.ndarray]]) -> bytearray:
    """A little-endian ELF object whose section of zeros contains each array at its offset."""
    whole = bytearray(image)
    start, size = _section(whole)
    for offset, array in parts:
        if offset + array.nbytes > size:
            raise CompileError(
                f"deploy: the section for weights must hold {offset + array.nbytes:,} bytes; it holds {size:,}; "
                "please report it"
            )
        if array.nbytes:
            np.frombuffer(whole, np.uint8, array.nbytes, start + offset)[:] = array.reshape(-1).view(np.uint8)
    return whole


def _section(image: bytearray) -> tuple[int, int]:
    """Offset and size of the weights' section in the file."""
    (table,) = struct.unpack_from("<Q", image, HEADERS)
    each, count, names = struct.unpack_from("<HHH", image, HEADER_SIZE)
    rows = [struct.unpack_from("<IIQQQQ", image, table + each * k) for k in range(count)]
    strings = rows[names][4]
    for name, kind, _, _, offset, size in rows:
        if kind == PROGBITS and image.startswith(SECTION.encode() + b"\0", strings + name):
            return offset, size
    raise CompileError(f"deploy: the object has no section {SECTION}; please report it")
