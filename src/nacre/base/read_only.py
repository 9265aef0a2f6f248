"""Mappings that their owner's users read and cannot change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, NoReturn, TypeVar

from nacre.base.arguments import shown
from nacre.base.errors import MissingKey, StateError
from nacre.base.hints import closest

T = TypeVar("T")
CHANGES: Final = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
)  # fmt: skip


class ReadOnlyMapping(Mapping[str, T], Generic[T]):
    """Values by name that only their owner makes; `advice` in errors says what changes them instead.

    >>> sizes = ReadOnlyMapping({"rows": 2}, "sizes", "write Shape(rows=3)")
    >>> sizes["rows"] = 3
    Traceback (most recent call last):
    nacre.base.errors.StateError: sizes: entries cannot be changed; write Shape(rows=3)
    """

    __slots__ = ("advice", "held", "what")

    def __init__(self, held: Mapping[str, T], what: str, advice: str) -> None:
        self.held, self.what, self.advice = dict(held), what, advice

    def lent(self, value: T) -> T:
        """The object of a value that a user gets."""
        return value

    def __getitem__(self, name: str) -> T:
        try:
            return self.lent(self.held[name])
        except KeyError:
            raise MissingKey(
                f"{self.what}: the name must be one of {', '.join(list(self.held)[:20]) or 'none'}; got {shown(name)}"
                f"{closest(str(name), self.held)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __eq__(self, other: object) -> bool:
        return self.held == (other.held if isinstance(other, ReadOnlyMapping) else other)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def copy(self) -> dict[str, T]:
        """A dict of the same values, which can be changed."""
        return dict(self)

    def __repr__(self) -> str:
        return repr(self.held)


def _refusal(name: str) -> Callable[..., NoReturn]:
    """The method of a dict that changes it, which raises StateError."""

    def refuse(self: ReadOnlyMapping[Any], *given: Any, **named: Any) -> NoReturn:
        raise StateError(f"{self.what}: entries cannot be changed; {self.advice}")

    refuse.__name__ = name
    return refuse


for change in CHANGES:
    setattr(ReadOnlyMapping, change, _refusal(change))
