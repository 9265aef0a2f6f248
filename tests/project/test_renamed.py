"""What was given a better name is gone under its old one.

`renamed.json` maps old qualified names to new ones: of modules, and of classes and functions (`module:name`).
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

TABLE = json.loads(Path(__file__).parents[1].joinpath("renamed.json").read_text(encoding="utf-8"))


def found(module: str) -> bool:
    """Whether there is a module of this name that is not a package made since."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.submodule_search_locations is None


@pytest.mark.parametrize("old", sorted(TABLE["modules"]))
def test_modules(old: str) -> None:
    assert not found(old)
    assert found(TABLE["modules"][old])


@pytest.mark.parametrize("old", sorted(TABLE["names"]))
def test_names(old: str) -> None:
    module, name = old.split(":")
    assert not found(module) or not hasattr(import_module(module), name)
    module, name = TABLE["names"][old].split(":")
    assert hasattr(import_module(module), name)
