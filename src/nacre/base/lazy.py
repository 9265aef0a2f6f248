"""Packages that load a name when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from nacre.base.boundary import publish
from nacre.base.hints import MissingName


def names_of(homes: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module, separated by blanks."""
    return {name: module for module, names in homes.items() for name in names.split()}


def loader(package: str, homes: Mapping[str, str], within: str | None = None) -> Callable[[str], Any]:
    """A package's `__getattr__`: imports a name's module, or a submodule, at the first use.

    The modules are those of the package `within`, by default the same one.
    """
    names, modules, within = names_of(homes), frozenset(homes), within or package

    def load(name: str) -> Any:
        """The value of a public name."""
        if name in names:
            found = publish(import_module(f"{within}.{names[name]}"), name)
        elif name in modules:
            found = import_module(f"{within}.{name}")
        else:
            raise MissingName(package, name)
        setattr(sys.modules[package], name, found)
        return found

    return load
