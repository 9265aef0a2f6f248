"""The variables of a function that is being run: the cells that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType
from typing import Any, Final

MISSING: Final = object()  # the content of a cell without one


def cells_of(*parts: Callable[..., Any] | None) -> dict[str, CellType]:
    """The cells of parts of a function, by the names of their variables."""
    found: dict[str, CellType] = {}
    for part in parts:
        for f in users_parts(part):
            found |= zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    return found


def around(part: Any, *users: Any) -> Any:
    """A part that is made around parts of the user's function, with their variables."""
    part.users = users
    return part


def users_parts(part: Any) -> list[FunctionType]:
    """The parts of the user's function in a part."""
    if part is None:
        return []
    return [f for inner in part.users for f in users_parts(inner)] if hasattr(part, "users") else [part]


def read(cell: CellType) -> Any:
    """The content of a cell; MISSING if it has none."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def write(cell: CellType, value: Any) -> None:
    """Set the content of a cell, or remove it."""
    if value is not MISSING:
        cell.cell_contents = value
    elif read(cell) is not MISSING:
        del cell.cell_contents


class Variables:
    """Some variables of a function, by name."""

    def __init__(self, cells: dict[str, CellType], names: Iterable[str]) -> None:
        self.cells = {name: cells[name] for name in names if name in cells}

    def values(self) -> dict[str, Any]:
        """Their values; MISSING where a variable has none."""
        return {name: read(cell) for name, cell in self.cells.items()}

    def set(self, values: dict[str, Any]) -> None:
        """Set those that are named."""
        for name, value in values.items():
            write(self.cells[name], value)
