"""Strings as constants of LLVM modules."""

from __future__ import annotations

from nacre.native.llvm_values import Val
from nacre.native.text import ModuleText


def string(module: ModuleText, name: str, text: str | bytes) -> Val:
    """A constant string of UTF-8 text or of bytes, with a zero at its end."""
    data = (text.encode() if isinstance(text, str) else text) + b"\0"
    shown = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
    return module.constant(name, f"[{len(data)} x i8]", f'c"{shown}"', 1)
