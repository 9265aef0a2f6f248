"""The runner of other packages' tests, on a small package that stands for one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ecosystem

HELPERS = 'wrapped_libraries = ["numpy"]\nall_libraries = wrapped_libraries + ["sparse"]\n'
TESTS = """
import importlib
import pytest
from ._helpers import all_libraries, wrapped_libraries

@pytest.mark.parametrize("library", all_libraries)
def test_size(library): assert importlib.import_module(library).ones(3).size == 3

@pytest.mark.parametrize("library", wrapped_libraries)
def test_wrapper(library): assert importlib.import_module(f"array_api_compat.{library}").ones(3) is None

@pytest.mark.parametrize("library", all_libraries)
def test_skipped(library): pytest.skip("not here")

def test_without_a_library(): assert wrapped_libraries == []
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the files of array-api-compat on which the runner relies."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "array-api-compat"\n')
    for name, text in {"__init__.py": "", "_helpers.py": HELPERS, "test_some.py": TESTS}.items():
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


def test_only_tests_of_tensors_are_counted(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ecosystem.main([str(package)]) == 1
    printed = capsys.readouterr().out
    assert "| `array-api-compat` | 1 | 1 | 1 |\n" in printed
    assert "failed: array-api-compat: test_wrapper[nacre]: " in printed


def test_tests_are_chosen_by_their_names(package: Path) -> None:
    assert ecosystem.run_package(package, "array-api-compat", "size").row == "| `array-api-compat` | 1 | 0 | 0 |"


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SystemExit, match="must have the source of array-api-compat, array-api-extra, einops, opt_einsum"
    ):
        ecosystem.main([str(tmp_path)])


def test_tests_that_cannot_run_are_an_error(package: Path) -> None:
    (package / "tests" / "test_broken.py").write_text("import no_such_module")
    with pytest.raises(SystemExit, match="no_such_module"):
        ecosystem.run_package(package, "array-api-compat")


def test_the_documented_class_is_found() -> None:
    source = ecosystem.class_of_page()
    assert "class NacreBackend(AbstractBackend):" in source and "framework_name" in source
