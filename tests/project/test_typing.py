"""What type checkers and editors see: all public names, and the programs in `typing`, which run as they are checked.

`python3 run.py lint` checks these programs strictly; `wrong.py` has the faults that a checker must report.
"""

from __future__ import annotations

import ast
import importlib
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "typing").glob("*.py"))
PACKAGES = ("nacre", "nacre.nn", "nacre.nn.functional", "nacre.optim", "nacre.train")  # which load names late
NAMESPACES = {
    "fft": "rfft",
    "linalg": "solve",
    "random": "normal",
    "sparse": "csr",
    "special": "gammaln",
    "tree": "map",
}  # with one of their names


def seen(module: ModuleType) -> Iterator[str]:
    """The names that a package shows to checkers: those of `from … import` and of assignments under TYPE_CHECKING."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    for node in block.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            assert node.module is not None
            yield from importlib.import_module(node.module).__all__
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.asname is not None)


@pytest.mark.parametrize("package", PACKAGES)
def test_checkers_see_every_public_name_and_no_other(package: str) -> None:
    module = importlib.import_module(package)
    found, wanted = ({name for name in names if not name.startswith("_")} for names in (seen(module), module.__all__))
    assert found == wanted


@pytest.mark.parametrize("package", PACKAGES)
def test_checkers_do_not_see_that_names_are_loaded_late(package: str) -> None:
    """With a `__getattr__`, they would take every wrong name for a right one."""
    found = importlib.import_module(package).__file__
    assert found is not None
    tree = ast.parse(Path(found).read_text(encoding="utf-8"))
    assert not [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "__getattr__"]
    assert not [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__getattr__"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_that_are_checked_run(path: Path) -> None:
    runpy.run_path(str(path))


def test_linters_check_the_programs() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    assert settings["typeCheckingMode"] == "strict" and "tests/project/typing" in settings["include"]


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespaces_are_modules(name: str) -> None:
    one = NAMESPACES[name]
    lines = (
        f"from nacre.{name} import {one}",
        f"import nacre.{name} as held, nacre as nc",
        f"assert held is nc.{name} and held.{one} is {one} and held.__name__ == 'nacre.api.{name}'",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
