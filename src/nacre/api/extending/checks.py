"""Checks of arguments that definitions from outside share."""

from __future__ import annotations

from nacre.base.arguments import shown
from nacre.base.errors import KindError


def require_text(operation: str, word: str, given: object, advice: str) -> None:
    """Raise KindError for an argument that is not a str."""
    if not isinstance(given, str):
        raise KindError(f"{operation}: {word} must be a str; got {shown(given)}; {advice}")


def require_version(operation: str, given: object) -> None:
    """Raise KindError for a version that is not a str."""
    require_text(operation, "version", given, "write, for example, '1'")


def require_function(operation: str, word: str, given: object) -> None:
    """Raise KindError for a rule that is not a function."""
    if not callable(given):
        raise KindError(f"{operation}: {word} must be a function; got {shown(given)}; pass a lambda or a def")
