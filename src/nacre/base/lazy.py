"""Packages that load a name when it is first used, and modules that are loaded when their user needs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

# The import of a package is free: the checks of arguments and the advice for names, which need NumPy, are imported with
# its first name.


class LateModule:
    """A module that is imported when one of its names is first used.

    A file has it in place of a module that few programs need.  Type checkers import the module itself, under
    `TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def names_of(homes: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module, separated by blanks."""
    return {name: module for module, names in homes.items() for name in names.split()}


def listed(homes: Mapping[str, str]) -> list[str]:
    """The public names of a package: those of its modules, and modules without names, which are public themselves."""
    return sorted([*names_of(homes), *(module for module, names in homes.items() if not names)])


def listing(homes: Mapping[str, str]) -> Callable[[], list[str]]:
    """A package's `__dir__`."""
    return lambda: listed(homes)


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: imports a name's module, or a submodule, at the first use.

    Names are listed only in the table; type checkers find them by `from … import *` of their modules.
    """
    names, modules = names_of(homes), frozenset(homes)

    def load(name: str) -> Any:
        """The value of a public name."""
        if name == "__all__":
            return listed(homes)
        if name in names:
            found = import_module("nacre.base.boundary").publish(import_module(f"{package}.{names[name]}"), name)
        elif name in modules:
            found = import_module(f"{package}.{name}")
        else:
            raise import_module("nacre.base.hints").MissingName(package, name)
        setattr(sys.modules[package], name, found)
        return found

    return load
