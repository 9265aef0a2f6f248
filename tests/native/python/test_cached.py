"""Native text in the cache: written once, again where a source changes; a warm process runs no front end."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nacre
from nacre.native.python import cached

PACKAGE = Path(nacre.__file__).parent
PROGRAM = """
import sys
from nacre.runtime.buffer import allocate
from nacre.runtime.texts import buffer_text
from nacre.native.engine import host_target
assert len(allocate(100)) == 100
front = [m for m in sys.modules if m.startswith("nacre.native.python.") or m in ("nacre.runtime.heaptype", "ast")]
print(*sorted(m.rpartition(".")[2] for m in front))
print(len(buffer_text(host_target())))
"""


def run(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """What a process with this package and cache prints."""
    settings = {**os.environ, "PYTHONPATH": str(path), "NACRE_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=settings, capture_output=True, text=True, check=False)


def modules(path: Path, cache: Path) -> set[str]:
    made = run(path, cache)
    assert made.returncode == 0, made.stderr
    return set(made.stdout.split()[:-1])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    shutil.copytree(PACKAGE, tmp_path / "copy" / "nacre", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


def test_a_warm_process_runs_no_front_end(tmp_path: Path) -> None:
    assert {"statements", "heaptype"} <= modules(PACKAGE.parent, tmp_path)
    assert modules(PACKAGE.parent, tmp_path) <= {"cached", "types", "declarations", "ast"}


def test_a_changed_source_is_read_again(package: Path, tmp_path: Path) -> None:
    changes = ["runtime/allocator.py", "native/cpython.py", "native/python/ssa.py", "native/text.py"]
    assert "heaptype" in modules(package, tmp_path / "cache")
    for name in changes:
        with (package / "nacre" / name).open("a") as file:
            file.write("\n# changed\n")
        assert "heaptype" in modules(package, tmp_path / "cache")
        assert "heaptype" not in modules(package, tmp_path / "cache")


def test_the_list_of_the_front_end_is_complete() -> None:
    folder = PACKAGE / "native" / "python"
    files = {f"nacre.native.python.{p.stem}" for p in folder.glob("[!_]*.py")} - {"nacre.native.python.cached"}
    assert files <= set(cached.FRONT_END)
    assert all((PACKAGE.parent / (name.replace(".", "/") + ".py")).exists() for name in cached.FRONT_END)


def test_a_zip_file_works(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "nacre.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((package / "nacre").rglob("*.py")):
            file.write(path, path.relative_to(package))
    assert "statements" in modules(archive, tmp_path / "cache")
    assert "statements" not in modules(archive, tmp_path / "cache")


def test_an_installation_without_sources_is_refused_by_name(package: Path, tmp_path: Path) -> None:
    compileall.compile_dir(package, quiet=2, legacy=True)
    for path in (package / "nacre").rglob("*.py"):
        path.unlink()
    made = run(package, tmp_path / "cache")
    assert made.returncode != 0
    assert (
        "native functions need their source" in made.stderr and "install the package with its .py files" in made.stderr
    )
