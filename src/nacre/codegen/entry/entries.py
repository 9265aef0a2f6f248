"""The native functions that Python calls for programs and views: the entries of one module."""

from __future__ import annotations

from nacre.codegen.entry.call import entry
from nacre.codegen.entry.prepacked import forget
from nacre.codegen.entry.view import view

__all__ = ["entry", "forget", "view"]
