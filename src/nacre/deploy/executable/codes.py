"""Exit statuses of executables, and the error codes of the C functions."""

from __future__ import annotations

from typing import Final

DONE: Final = 0  # exit statuses
FAILED: Final = 1
MISUSED: Final = 2
UNSUPPORTED: Final = 3

SIZE: Final = 1  # error codes
POINTER: Final = 2
ALIGNMENT: Final = 3
WORKSPACE: Final = 4
MEMORY: Final = 5
PROCESSOR: Final = 6
THREADS: Final = 7
