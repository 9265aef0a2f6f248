"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.base.errors import ArgumentError
from nacre.base.hints import closest

CLOSE = 0.55  # least similarity of two words, from 0 to 1


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: the most similar known word, if one is similar.

    >>> nearest("comple", ["compile", "cache"]), nearest("xyz", ["compile"])
    ('; did you mean compile?', '')
    """
    return closest(word, known, cutoff=CLOSE)


def require_known(names: Iterable[str], known: Iterable[str], subject: str, also: str = "") -> None:
    """Raise ArgumentError, with a suggestion, for a name that is not among the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"{subject} must be {also}one of {', '.join(known)}; got {name!r}{nearest(name, known)}"
            )
