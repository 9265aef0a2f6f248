"""The runner of the array API standard's test suite, on a small suite that stands for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance
import nacre as nc

SUITE = """
import pytest

def test_good(): assert True
def test_bad(): assert False
@pytest.mark.parametrize("case", [0, 1])
def test_special(case): assert case < 2
"""
OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--max-examples")
    parser.addoption("--disable-deadline", action="store_true")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the files of the suite that the runner relies on."""
    (tmp_path / "array-api" / "src").mkdir(parents=True)
    (tmp_path / "array_api_tests").mkdir()
    files = {"__init__.py": "", "test_sets.py": SUITE, "test_none.py": ""}
    for name, text in files.items():
        (tmp_path / "array_api_tests" / name).write_text(text)
    (tmp_path / "conftest.py").write_text(OPTIONS)
    return tmp_path


def test_results_are_counted_and_failures_named(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([str(suite), "--examples", "3", "sets"]) == 1
    printed = capsys.readouterr().out
    assert ", 3 examples\n" in printed and "| `sets` | 3 | 1 | 0 |\n" in printed
    assert printed.endswith("failed: sets: test_bad\n")


def test_wrong_arguments(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        ([str(suite), "arrays"], "modules must be of none, sets; got arrays"),
        ([str(suite / "array-api")], "git submodule update --init"),
    ):
        with pytest.raises(SystemExit):
            conformance.main(arguments)
        assert words in capsys.readouterr().err


def test_the_suite_is_told_what_there_is() -> None:
    given = conformance.environment()
    assert given["ARRAY_API_TESTS_MODULE"] == "nacre"
    assert given["ARRAY_API_TESTS_VERSION"] == nc.__array_api_version__
    assert "ARRAY_API_TESTS_SKIP_DTYPES" not in given
