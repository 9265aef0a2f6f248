"""The native functions of one module that Python calls for programs and views."""

from __future__ import annotations

from nacre.codegen.entry.call import entry
from nacre.codegen.entry.prepacked import forget
from nacre.codegen.entry.view import view

__all__ = ["entry", "forget", "view"]
