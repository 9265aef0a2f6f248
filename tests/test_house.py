"""The floors of the house hold: imports go up the list only, rooms of a floor keep apart, nothing imports late."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "nacre"
FLOORS = (
    "base",
    "native",
    "runtime",
    "kernel",
    "ir",
    "trace",
    "ops",
    "interpret",
    "codegen",
    "compile",
    "transform",
    "api",
    "nn",
    "optim",
    "data",
    "formats",
    "inspect",
    "deploy",
    "train",
    "examples",
    "cli",
)
FILES = sorted(ROOT.rglob("*.py"))
LIMIT = 800  # lines; about 500 is the aim


def module(path: Path) -> str:
    return ".".join(("nacre", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module(p): p for p in FILES}


def imports(path: Path) -> dict[str, bool]:
    """The package's modules that a file imports, and whether at the top."""
    found: dict[str, bool] = {}
    text = path.read_text()
    whole, lines = ast.parse(text), text.splitlines()
    top = set(map(id, whole.body))
    for node in ast.walk(whole):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module for a in node.names
            ]
        for name in names:
            if name.startswith("nacre"):
                placed = id(node) in top or "noqa: PLC0415 - " in lines[node.lineno - 1]  # or it says why not
                found[name] = found.get(name, True) and placed
    return found


def floor(name: str) -> int:
    parts = name.split(".")
    return FLOORS.index(parts[1]) if len(parts) > 1 and parts[1] in FLOORS else -1


@pytest.mark.parametrize("path", [p for p in FILES if p != ROOT / "__init__.py"], ids=module)
def test_imports_go_up_and_stand_at_the_top(path: Path) -> None:
    here = floor(module(path))
    for name, at_top in imports(path).items():
        assert at_top or "TYPE_CHECKING" in path.read_text(), f"{name} is imported inside a function"
        assert floor(name) <= here, f"{module(path)} imports {name} from a lower floor"


def test_the_architecture_page_lists_the_floors_in_order() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", " ".join(rows))) == FLOORS


def test_no_cycles() -> None:
    edges = {m: {n for n in imports(p) if n in MODULES and n != m} for m, p in MODULES.items() if m != "nacre"}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"import cycle: {' -> '.join((*path, name))}"
        if name not in done:
            for other in edges.get(name, ()):
                visit(other, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LIMIT
    if path.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{path} needs a first docstring line"


def test_llvmlite_is_imported_in_one_place() -> None:
    users = [
        module(p)
        for p in FILES
        if "llvmlite" in p.read_text()
        and "import" in p.read_text()
        and any("llvmlite" in line and "import" in line for line in p.read_text().splitlines())
    ]
    assert users == ["nacre.native.llvm"]


def test_dataclasses_are_made_in_one_place() -> None:
    assert [p for p in FILES if re.search(r"from dataclasses import .*\bdataclass\b", p.read_text())] == []


def _texts_of_the_locale(path: Path) -> list[str]:
    """Calls that read or write text in whatever encoding the locale has."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        of_module = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if name == "open" and of_module:
            continue  # os.open
        if name not in ("open", "read_text", "write_text") or any(k.arg == "encoding" for k in node.keywords):
            continue
        modes = [
            a.value
            for a in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
            if isinstance(a, ast.Constant)
        ]
        if name != "open" or not any("b" in str(mode) for mode in modes):
            found.append(f"{path.name}:{node.lineno}: {name}")
    return found


def test_texts_have_an_encoding() -> None:
    root = Path(__file__).parents[1]
    files = [root / "run.py", *(p for part in ("src", "docs", "benchmarks") for p in (root / part).rglob("*.py"))]
    assert [line for path in files for line in _texts_of_the_locale(path)] == []
