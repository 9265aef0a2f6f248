"""The native functions of one module: the entries that Python calls, and those that the entry with variables shares."""

from __future__ import annotations

from nacre.codegen.entry.call import entry
from nacre.codegen.entry.perform import hold, interrupted, new_tensor
from nacre.codegen.entry.prepacked import forget, keep, packed
from nacre.codegen.entry.view import view

__all__ = ["entry", "forget", "hold", "interrupted", "keep", "new_tensor", "packed", "view"]
