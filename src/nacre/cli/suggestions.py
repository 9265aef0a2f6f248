"""What a mistyped word may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.base.errors import ArgumentError
from nacre.base.hints import closest

CLOSE = 0.55  # how alike two words must be, from 0 to 1


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: the known word that is most like it, if one is.

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
