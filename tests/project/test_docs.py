"""The documents' examples run and print what stands under them; their commands and files exist."""

from __future__ import annotations

import importlib.util
import re
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


GENERATE = load(ROOT / "docs" / "generate.py")
DOCUMENTS = [ROOT / name for name in GENERATE.DOCUMENTS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_examples_print_what_is_written(path: Path) -> None:
    if path.name in ("tutorial.md", "quickstart.md") and not can_link():
        pytest.skip("nothing here links the executable at its end")
    assert not (found := GENERATE.difference(path)), f"run `python3 run.py docs`:\n{found}"


def test_a_wrong_output_is_found_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "wrong.md"
    path.write_text("```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\nprint(x + 1)\n```\n")
    assert "-3\n+2" in GENERATE.difference(path)
    path.write_text(GENERATE.renewed(path.read_text()))
    assert not GENERATE.difference(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_files_that_are_named_exist(path: Path) -> None:
    text = GENERATE.BLOCK.sub("", path.read_text())
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", re.sub("`[^`]*`", "", text)) if not re.match(r"\w+:", link)}
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
