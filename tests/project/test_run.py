"""run.py: it sets up once, says what is missing, and passes arguments on.  Nothing is installed here."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "run.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """run.py as a module, with its environments in folders of the test."""
    spec = importlib.util.spec_from_file_location("run", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made, "USUAL", made.Environment(tmp_path / "venv"))
    monkeypatch.setattr(made, "ENVIRONMENTS", {"peers": made.Environment(tmp_path / "peers")})
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
    run.set_up({"lint"}, run.USUAL)
    run.set_up({"lint"}, run.USUAL)
    assert len(pip.lines) == 1
    assert pip.lines[0][-1] == ".[lint]" and "--python" in pip.lines[0]
    run.set_up({"test"}, run.USUAL)
    assert pip.lines[1][-1] == ".[lint,test]"
    assert json.loads(run.USUAL.stamp.read_text())["extras"] == ["lint", "test"]
    monkeypatch.setattr(run, "fingerprint", lambda now=run.fingerprint(): [now[0], "another pyproject.toml"])
    run.set_up({"lint"}, run.USUAL)
    assert len(pip.lines) == 3 and pip.lines[2][-1] == ".[lint,test]"


def test_the_environment_has_no_pip_of_its_own(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip())
    run.set_up({"lint"}, run.USUAL)
    assert run.USUAL.python.exists() and not list(run.USUAL.home.rglob("site-packages/pip"))


def test_a_failed_installation_is_explained_and_tried_again(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip(status=1))
    with pytest.raises(run.SetupError, match="network"):
        run.set_up({"lint"}, run.USUAL)
    assert not run.USUAL.stamp.exists()


def test_an_old_pip(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", Pip("20.3.4"))
    with pytest.raises(run.SetupError, match=r"22\.3 .*20\.3\.4"):
        run.find_pip()


def test_no_pip_at_all(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", lambda line, **_: subprocess.CompletedProcess(line, 1, "", ""))
    with pytest.raises(run.SetupError, match="apt-get install python3-pip"):
        run.set_up({"lint"}, run.USUAL)
    assert not run.USUAL.stamp.exists()


def test_the_pip_that_python_carries_is_the_last_resort(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []

    def carried(line: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        lines.append(line)
        return subprocess.CompletedProcess(line, int(line[-1] == "--version"), "", "")

    monkeypatch.setattr(run.subprocess, "run", carried)
    run.set_up({"lint"}, run.USUAL)
    assert lines[-2] == [str(run.USUAL.python), "-m", "ensurepip"]
    assert lines[-1][:4] == [str(run.USUAL.python), "-m", "pip", "install"]


@pytest.mark.parametrize("arguments", [["demo", "--epochs", "1"], ["test", "--all", "-k", "x"], ["docs", "--check"]])
def test_arguments_are_passed_on(run: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(run, "set_up", lambda *_: None)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: called.append(line) or 0)
    assert run.main(arguments) == 0
    assert called[0][-len(arguments) + 1 :] == arguments[1:]


def test_the_demo_gets_a_linker_where_there_is_none(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[set[str]] = []
    monkeypatch.setattr(run, "set_up", lambda extras, _: wanted.append(extras))
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: 0)
    monkeypatch.delenv("NACRE_CC", raising=False)
    for found in (None, "/usr/bin/cc"):
        monkeypatch.setattr(run.shutil, "which", lambda _, found=found: found)
        assert run.main(["demo"]) == run.main(["test"]) == 0
    assert wanted == [{"demo", "deploy"}, {"demo", "test"}, {"demo"}, {"demo", "test"}]


def test_lint_runs_both_linters_and_tells_failure(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(run, "set_up", lambda *_: None)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: called.append(line) or 3 - len(called))
    assert run.main(["lint"]) == 2
    assert [line[2:4] for line in called] == [["ruff", "check"], ["ruff", "format"], ["pyright", "-p"]]


def test_the_peers_have_an_environment_of_their_own(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pip, called = Pip(), []
    monkeypatch.setattr(run.subprocess, "run", pip)
    monkeypatch.setattr(run.subprocess, "call", lambda line, **_: called.append(line) or 0)
    one = "tests/peers/test_dlpack.py"
    for rest in ([], ["-k", "torch"], [one], [f"{one}::test_torch_reads"]):
        assert run.main(["peers", *rest]) == 0
    peers = run.ENVIRONMENTS["peers"]
    assert {line[0] for line in called} == {str(peers.python)} and not run.USUAL.home.exists()
    assert [line[-1] for line in pip.lines] == [".[peers,test]"] and str(peers.python) in pip.lines[0]
    assert [line.count("tests/peers") for line in called] == [1, 1, 0, 0]
    assert run.commands("lint", [])[-1][-1] == str(run.USUAL.python)  # type checkers see what users have


def test_what_needs_a_peer_is_among_the_tests_of_peers() -> None:
    extras = tomllib.loads((FILE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [re.split(r"[<>=]", line)[0] for line in extras["optional-dependencies"]["peers"]]
    asked = re.compile(rf"importorskip\(\"({'|'.join(needed)})\b".replace("-", "_"))
    folder = FILE.parent / "tests"
    for path in folder.rglob("*.py"):
        assert folder / "peers" in path.parents or not asked.search(path.read_text(encoding="utf-8")), path


def test_wrong_use(run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run, "set_up", lambda *_: None)
    assert run.main([]) == run.main(["fly"]) == 2
    assert run.main(["--help"]) == 0
    assert run.main(["bench", "absent"]) == 2
    assert "there are" in capsys.readouterr().err


def test_an_old_python(run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run.sys, "version_info", (3, 10, 2))
    assert run.main(["demo"]) == 2
    assert "3.11 or newer is required" in capsys.readouterr().err
