"""run.py: it sets up once, says what is missing, and passes arguments on.  Nothing is installed here."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "run.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """run.py as a module, with its environment in a folder of the test."""
    spec = importlib.util.spec_from_file_location("run", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    home = tmp_path / "venv"
    for name, value in {"HOME": home, "PYTHON": home / "bin" / "python", "STAMP": home / "stamp.json"}.items():
        monkeypatch.setattr(made, name, value)
    return made


class Pip:
    """Stands for subprocess.run; remembers the command lines."""

    def __init__(self, version: str = "23.0.1", status: int = 0) -> None:
        self.lines: list[list[str]] = []
        self.version, self.status = version, status

    def __call__(self, line: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if line[-1] == "--version":
            return subprocess.CompletedProcess(line, 0, f"pip {self.version} from somewhere", "")
        self.lines.append(line)
        return subprocess.CompletedProcess(line, self.status, "", "")


def test_it_needs_the_standard_library_alone() -> None:
    for node in ast.walk(ast.parse(FILE.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert all(n.split(".")[0] in sys.stdlib_module_names for n in names), names


def test_it_parses_on_older_pythons_to_say_so() -> None:
    ast.parse(FILE.read_text(), feature_version=(3, 8))


def test_setting_up_once_for_each_extra(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip()
    monkeypatch.setattr(run.subprocess, "run", pip)
    run.set_up({"lint"})
    run.set_up({"lint"})
    assert len(pip.lines) == 1
    assert pip.lines[0][-1] == ".[lint]" and "--python" in pip.lines[0]
    run.set_up({"test"})
    assert pip.lines[1][-1] == ".[lint,test]"
    assert json.loads(run.STAMP.read_text())["extras"] == ["lint", "test"]
    monkeypatch.setattr(run, "fingerprint", lambda now=run.fingerprint(): [now[0], "another pyproject.toml"])
    run.set_up({"lint"})
    assert len(pip.lines) == 3 and pip.lines[2][-1] == ".[lint,test]"


def test_the_environment_has_no_pip_of_its_own(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip())
    run.set_up({"lint"})
    assert run.PYTHON.exists() and not list(run.HOME.rglob("site-packages/pip"))


def test_a_failed_installation_is_explained_and_tried_again(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip(status=1))
    with pytest.raises(run.SetupError, match="network"):
        run.set_up({"lint"})
    assert not run.STAMP.exists()


def test_an_old_pip(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip("20.3.4"))
    with pytest.raises(run.SetupError, match=r"22\.3 .*20\.3\.4"):
        run.find_pip()


def test_no_pip_at_all(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", lambda line, **_: subprocess.CompletedProcess(line, 1, "", ""))
    with pytest.raises(run.SetupError, match="apt-get install python3-pip"):
        run.set_up({"lint"})
    assert not run.STAMP.exists()


def test_the_pip_that_python_carries_is_the_last_resort(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []

    def carried(line: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        lines.append(line)
        return subprocess.CompletedProcess(line, int(line[-1] == "--version"), "", "")

    monkeypatch.setattr(run.subprocess, "run", carried)
    run.set_up({"lint"})
    assert lines[-2] == [str(run.PYTHON), "-m", "ensurepip"]
    assert lines[-1][:4] == [str(run.PYTHON), "-m", "pip", "install"]


@pytest.mark.parametrize("arguments", [["demo", "--epochs", "1"], ["test", "--all", "-k", "x"], ["docs", "--check"]])
def test_arguments_are_passed_on(run: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(run, "set_up", lambda _: None)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: called.append(line) or 0)
    assert run.main(arguments) == 0
    assert called[0][-len(arguments) + 1 :] == arguments[1:]


def test_the_demo_gets_a_linker_where_there_is_none(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[set[str]] = []
    monkeypatch.setattr(run, "set_up", wanted.append)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: 0)
    monkeypatch.delenv("NACRE_CC", raising=False)
    for found in (None, "/usr/bin/cc"):
        monkeypatch.setattr(run.shutil, "which", lambda _, found=found: found)
        assert run.main(["demo"]) == run.main(["test"]) == 0
    assert wanted == [{"demo", "deploy"}, {"demo", "test"}, {"demo"}, {"demo", "test"}]


def test_lint_runs_both_linters_and_tells_failure(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(run, "set_up", lambda _: None)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: called.append(line) or 3 - len(called))
    assert run.main(["lint"]) == 2
    assert [line[2:4] for line in called] == [["ruff", "check"], ["ruff", "format"], ["pyright", "-p"]]


def test_wrong_use(run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run, "set_up", lambda _: None)
    assert run.main([]) == run.main(["fly"]) == 2
    assert run.main(["--help"]) == 0
    assert run.main(["bench", "absent"]) == 2
    assert "there are" in capsys.readouterr().err


def test_an_old_python(run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run.sys, "version_info", (3, 10, 2))
    assert run.main(["demo"]) == 2
    assert "3.11 or newer is required" in capsys.readouterr().err
