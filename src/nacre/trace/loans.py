"""Objects that share the numbers of a variable or tensor, as `x.data`: `x.data[i] = v` changes the owner."""

from __future__ import annotations

from typing import Any
from weakref import ref

from nacre.base.errors import StateError
from nacre.trace.value import Value
from nacre.trace.variable import Variable


class Loan:
    """The numbers that an owner has lent to another object."""

    __slots__ = ("content", "layout", "lent", "owner")

    def __init__(self, lent: Value, owner: Variable | Value) -> None:
        key = id(lent)
        self.lent, self.owner = ref(lent, lambda _: _LENT.pop(key, None)), owner
        self.note()
        _LENT[key] = self

    @property
    def held(self) -> Value:
        """The value that the owner has now."""
        return self.owner.value if isinstance(self.owner, Variable) else self.owner

    def note(self) -> None:
        """Note which numbers the owner has now."""
        held = self.held
        self.content: Any = held.content
        self.layout: Any = held.layout

    def require_current(self) -> None:
        """Raise StateError if the owner has other numbers than those that it lent."""
        held, owner = self.held, self.owner
        if held.content is self.content and held.layout == self.layout:
            return
        of = f"variable {owner.name or owner.number}" if isinstance(owner, Variable) else "its tensor"
        raise StateError(
            f"x[i] = v: x must be the current value of {of}; it is an old value; read `.data` again, or change "
            "`x.copy()`"
        )


_LENT: dict[int, Loan] = {}  # by the identity of the lent object


def loan_of(x: Value) -> Loan | None:
    """The loan of an object, if it was lent."""
    found = _LENT.get(id(x))
    return found if found is not None and found.lent() is x else None
