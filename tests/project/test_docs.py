"""The documents' examples run and print what stands under them; their commands and files exist."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deploy.calls import can_link

ROOT = Path(__file__).parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


sys.path.insert(0, str(ROOT / "docs"))
GENERATE = load(ROOT / "docs" / "generate.py")
FOREIGN: Any = import_module("foreign_names")
sys.path.remove(str(ROOT / "docs"))
DOCUMENTS = [ROOT / name for name in GENERATE.DOCUMENTS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_examples_print_what_is_written(path: Path) -> None:
    if path.name in ("tutorial.md", "quickstart.md") and not can_link():
        pytest.skip("nothing here links the executable at its end")
    assert not (found := GENERATE.difference(path)), f"run `python3 run.py docs`:\n{found}"


@pytest.mark.parametrize("library", FOREIGN.LIBRARIES)
def test_every_foreign_name_has_a_meaning_that_still_holds(library: str) -> None:
    names = 0
    for part in FOREIGN.parts(library):
        names += len(part.names)
        for name in part.names:
            assert part.meaning(name)
        for name in part.differs.keys() & FOREIGN.public(part.place):
            told = part.differs[name]
            assert "missing" not in told and not told.startswith("NumPy"), f"{part.call.format(name)} exists now"
    assert names > 250


@pytest.mark.parametrize(
    ("advice", "text"),
    [
        ("nacre.tensor(data)", "`nc.tensor(data)`"),
        ("nacre.min(x) and nacre.max(x)", "`nc.min(x)` and `nc.max(x)`"),
        ("nacre.sum(x, axis=(0, 1)), with all axes at once", "`nc.sum(x, axis=(0, 1))`, with all axes at once"),
        ("x - nacre.trunc(x)", "`x - nc.trunc(x)`"),
        ("Leave this out; nacre.name(x, name) names a value", "Leave this out; `nc.name(x, name)` names a value"),
        ("nacre.random.Generator(seed), or keys: nacre.random.key(seed)",
         "`nc.random.Generator(seed)`, or keys: `nc.random.key(seed)`"),
    ],
)  # fmt: skip
def test_advice_of_errors_becomes_text_of_pages(advice: str, text: str) -> None:
    assert FOREIGN.marked(advice) == text


def test_a_wrong_output_is_found_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "wrong.md"
    path.write_text("```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\nprint(x + 1)\n```\n")
    assert "-3\n+2" in GENERATE.difference(path)
    path.write_text(GENERATE.renewed(path.read_text()))
    assert not GENERATE.difference(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_files_that_are_named_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", text)
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", prose) if not re.match(r"\w+:", link)}
    assert all((path.parent / link).exists() for link in links), links
    named = set(re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+)`", text))
    assert all((ROOT / name).exists() for name in named), {n for n in named if not (ROOT / n).exists()}


def test_the_example_with_pyarrow_writes_the_file_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "data.md").read_text(encoding="utf-8"), re.DOTALL)
    block = next(block for block in blocks if "read_csv" in block)
    read = re.findall(r"read_csv\((.+?)\)", block)
    assert read and all(f"Path({name}).write_text(" in block for name in read)
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(block, made)
    assert made["x"].type.shape == (2, 2) and made["y"].tolist() == [0, 1]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_commands_of_run_py_exist(path: Path) -> None:
    known = load(ROOT / "run.py").EXTRAS
    assert set(re.findall(r"run\.py (\w+)", path.read_text())) <= set(known)


def test_every_benchmark_is_described() -> None:
    listed = (ROOT / "benchmarks" / "README.md").read_text()
    assert all(f"`{p.name}`" in listed for p in (ROOT / "benchmarks").glob("*.py"))
