"""The native functions that Python calls for programs: the entries of one module."""

from __future__ import annotations

from nacre.codegen.entry.call import entry
from nacre.codegen.entry.prepacked import forget

__all__ = ["entry", "forget"]
