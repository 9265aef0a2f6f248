"""Command lines in any order, suggestions for mistyped words, and errors that show the user's lines of code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.cli import completion, environment, main, source
from nacre.cli.commands import commands
from nacre.cli.suggestions import nearest

ROOT = Path(__file__).parents[2]
SOURCE = """
import nacre as nc
from beside import scale

def affine(x, w):
    return nc.tanh(x @ w) * scale

def product(x, w):
    return x @ w.T

def outer(x, w):
    return product(nc.tanh(x), w)

def broken(x):
    return {}["key"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("beside.py").write_text("scale = 2.0\n")
    Path("model.py").write_text(SOURCE)
    return tmp_path


ORDERS = (
    "explain model.py:affine --show work f32[4,3] --json f32[3,2]",
    "explain --json --show work model.py:affine f32[4,3] f32[3,2]",
    "explain model.py:affine f32[4,3] f32[3,2] --json --show=work",
    "explain --show work model.py:affine --json f32[4,3] f32[3,2] --no-color",
    "--json explain --show work model.py:affine float32[4,3] float32[3,2]",
)


@pytest.mark.parametrize("line", ORDERS)
def test_options_and_arguments_in_any_order(line: str) -> None:
    name, rest = main.split(line.split(), commands())
    assert name == "explain"
    given = commands()["explain"].parse(rest)
    assert (given.function, [t[-5:] for t in given.types]) == ("model.py:affine", ["[4,3]", "[3,2]"])
    assert given.json and given.show == ["work"]


def test_every_long_name_is_a_type() -> None:
    for name in source.BY_NAME:
        made, _ = source.argument(f"{name}[4, 4]", "explain")
        assert made.shape == (4, 4) and name in (made.dtype.name, made.dtype.short)


WRONG: dict[str, tuple[str, str]] = {
    "a command": ("comple model.py:f", "unknown command comple; did you mean compile?"),
    "an option": ("train --epohcs 3 digits", "unknown option --epohcs; did you mean --epochs?"),
    "an option with a value": ("train --epohcs=3 digits", "unknown option --epohcs; did you mean --epochs?"),
    "an option without a command": ("--versoin", "unknown option --versoin; did you mean --version?"),
    "a value": ("explain model.py:affine --show grpah", "did you mean graph?"),
    "a shell": ("completion bsh", "did you mean bash?"),
    "an example": ("train digit", "did you mean digits?"),
    "a workload": ("bench softmx", "did you mean softmax?"),
    "a target": ("compile model.py:affine --target aarch", "did you mean aarch64?"),
    "a function": ("explain model.py:afine", "did you mean affine?"),
    "a type": ("explain model.py:affine flaot32[2] f32[2]", "did you mean float32?"),
    "a file": ("run mode.py", "mode.py does not exist; did you mean model.py?"),
    "a topic": ("help enviroment", "did you mean environment?"),
    "a training of one's own": ("train model.py", "run a training of your own with python model.py"),
    "too many arguments": ("cache everything", "too many arguments: everything"),
    "no arguments": ("explain", "the following arguments are required: FILE.py:FUNCTION Run"),
}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=WRONG)
def test_the_error_of_a_mistyped_word_suggests_the_right_one(
    folder: Path, line: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main.main(line.split()) == 2
    except SystemExit as end:
        assert end.code == 2
    assert words in " ".join(capfd.readouterr().err.split())


def test_a_word_without_a_similar_one_has_no_suggestion() -> None:
    assert nearest("zzz", ["compile", "run"]) == "" and nearest("", []) == ""


def test_errors_show_only_the_frames_of_the_user(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = ["explain", "model.py:outer", "f32[4, 3]", "f32[3, 2]"]
    assert main.main(line) == 2
    said = capfd.readouterr().err
    assert said.startswith("nacre explain: error in model.py, line 9\n")
    assert re.findall(r"^  (\S+)", said, re.MULTILINE) == ["model.py:12,", "model.py:9,"]
    assert "return product(nc.tanh(x), w)" in said and "matmul: " in said and "Traceback" not in said
    assert main.main([*line, "--traceback"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("Traceback") and "jit.py" in said and "model.py" in said


@pytest.mark.parametrize("command", ["explain", "compile", "tune"])
def test_any_error_in_the_users_code(folder: Path, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([command, "model.py:broken", "f32[2]"]) == 2
    said = capfd.readouterr().err
    assert f"nacre {command}: error in model.py, line 15" in said and "KeyError: 'key'" in said


def test_files_that_cannot_be_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for text, words in (
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "sys.exit(3)"),
        ("def f(:", "line 1: invalid syntax\n    def f(:"),
        ("import nothing_at_all", "nothing_at_all"),
    ):
        Path("wrong.py").write_text(text)
        assert main.main(["explain", "wrong.py:f"]) == 2
        said = capfd.readouterr().err
        assert words in said and "Traceback" not in said and len(said.splitlines()) < 7


def test_an_internal_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise AssertionError

    monkeypatch.setattr("nacre.inspect.machine.facts", wrong)
    monkeypatch.setattr("nacre.cli.faults.is_users", lambda file: False)
    with pytest.raises(AssertionError):
        main.main(["doctor"])


# ---- environment variables


def read_variables() -> set[str]:
    """The environment variables that the package reads, from its source code."""
    found: set[str] = set()
    for path in (ROOT / "src" / "nacre").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\bNACRE_[A-Z_]+[A-Z]\b", node.value))
                found |= {node.value} & {"XDG_CACHE_HOME"}
    return found


def test_the_table_has_every_variable_that_is_read() -> None:
    named = {v.name for v in environment.VARIABLES}
    assert read_variables() <= named and named - read_variables() == {"COLUMNS", "NO_COLOR"}


def test_the_page_has_the_same_variables_and_all_commands() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = [
        tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))
        for line in page.splitlines()
        if re.match(r"\| `[A-Z_]+` ", line)
    ]
    plain = [tuple(cell.replace("`", "") for cell in row) for row in rows]
    assert plain == [(v.name, v.values, v.default, v.effect) for v in environment.VARIABLES]
    headings = re.findall(r"^## `nacre (\w+)`", page, re.MULTILINE)
    assert headings == list(commands())
    for name, command in commands().items():
        part = page.split(f"\n## `nacre {name}`")[1].split("\n## ")[0]
        shared = {"--no-color", "--traceback", "--help"}
        options = {o for a in command.listed for o in a.option_strings if o.startswith("--")} - shared
        assert options <= set(re.findall(r"--[\w-]+", part)), (name, options)


# ---- completion


def completed(tmp_path: Path, *words: str) -> set[str]:
    """The completions of bash for the last word of a command line."""
    script = tmp_path / "nacre.bash"
    script.write_text(completion.bash(commands()))
    asked = f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _nacre; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", asked, "bash", *words], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert not done.stderr
    return set(done.stdout.split())


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("")
    assert completed(tmp_path, "nacre", "comp") == {"compile", "completion"}
    assert completed(tmp_path, "nacre", "train", "--e") == {"--epochs", "--eager"}
    assert "digits" in completed(tmp_path, "nacre", "train", "")
    assert completed(tmp_path, "nacre", "compile", "--kind", "s") == {"shared"}
    assert completed(tmp_path, "nacre", "explain", "mo") == {"model.py"}
    assert completed(tmp_path, "nacre", "help", "env") == {"environment"}
    assert completed(tmp_path, "nacre", "bench", "--json", "mo") == {"model.py"}
    assert completed(tmp_path, "nacre", "nothing", "") == set()


def part(shell: str, script: str, name: str) -> str:
    """The part of a script for one command."""
    lines = script.splitlines()
    if shell == "fish":
        return "\n".join(line for line in lines if f"-n '__fish_seen_subcommand_from {name}'" in line)
    begin = next(k for k, line in enumerate(lines) if line.startswith(f"    {name})"))
    end = begin if shell == "zsh" else lines.index("      ;;", begin)
    return "\n".join(lines[begin : end + 1])


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_scripts_list_the_options_of_each_command(shell: str) -> None:
    script = completion.SHELLS[shell](commands())
    assert all(word in script for word in (("-l help", "-l version") if shell == "fish" else ("--help", "--version")))
    for name, command in commands().items():
        said = part(shell, script, name)
        for option in command.options():
            short = option.lstrip("-")
            form = rf"-{'l' if option.startswith('--') else 's'} {short}" if shell == "fish" else option
            assert re.search(rf"(?<![\w-]){form}(?![\w-])", said), (name, option)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_scripts_have_every_command_and_option(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in commands().items():
        assert name in script
        for option in command.options():
            assert option in script or f"-l {option[2:]}" in script or f"-s {option[1:]}" in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", path], check=True, env={**os.environ})
