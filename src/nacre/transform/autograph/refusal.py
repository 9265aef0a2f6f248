"""The reasons why a function is not converted."""

from __future__ import annotations

import os
from types import CodeType


class NotConverted(Exception):
    """A function cannot be converted; the argument is the reason."""


def shown_name(code: CodeType) -> str:
    """A function's name with its file and line, for messages."""
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
