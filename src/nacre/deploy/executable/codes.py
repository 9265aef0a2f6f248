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
CHECK: Final = 8

MESSAGE: Final = 512  # bytes for the text of a check that failed
LOW: Final = 1  # bytes in such a text that stand for numbers
HIGH: Final = 2
GOT: Final = 3
GOT_UNSIGNED: Final = 4
