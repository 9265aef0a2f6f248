"""The wheel and the source package build without a network, and carry the licence, the type marker and all modules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

import nacre

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "*.egg-info", "build", "dist", "runs", ".*_cache", ".hypothesis"
)
OLDEST = 77  # of setuptools: the first with license expressions


def test_the_metadata_is_complete() -> None:
    project = PROJECT["project"]
    assert project["license"] == "Apache-2.0" and project["license-files"] == ["LICENSE"]
    assert "Development Status :: 3 - Alpha" in project["classifiers"] and project["keywords"]
    assert not any(word.startswith("License ::") for word in project["classifiers"])  # the expression says it
    (needed,) = PROJECT["build-system"]["requires"]
    assert needed == f"setuptools>={OLDEST}" and needed in project["optional-dependencies"]["test"]


def test_the_manifest_names_what_exists() -> None:
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        command, *names = line.split()
        assert command in ("include", "graft", "global-exclude")
        assert command == "global-exclude" or all((ROOT / name).exists() for name in names), line


def built(kind: str, source: Path, into: Path) -> Path:
    """A package of a source folder, made by the build backend in a process of its own."""
    line = f"import setuptools.build_meta as backend; print(backend.build_{kind}({str(into)!r}))"
    made = subprocess.run([sys.executable, "-c", line], cwd=source, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    assert "Deprecat" not in made.stderr, made.stderr
    return into / made.stdout.split()[-1]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source package, and the wheel that is built from it."""
    try:
        version = metadata.version("setuptools")
    except metadata.PackageNotFoundError:
        pytest.skip("setuptools is not installed: python3 run.py test installs it")
    if int(version.partition(".")[0]) < OLDEST:
        pytest.skip(f"setuptools {OLDEST} or newer is required; this is {version}")
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    source = built("sdist", folder / "tree", folder)
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    return source, built("wheel", folder / "unpacked" / f"nacre-{nacre.__version__}", folder)


@pytest.mark.slow
def test_the_source_package_has_everything(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    expected = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "run.py",
        ".ci/run",
        "src/nacre/py.typed",
    }
    for folder in ("src", "tests", "docs", "benchmarks"):
        expected |= {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")}
    assert expected <= held, expected - held
    assert not [name for name in held if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.slow
def test_the_wheel_has_the_package_alone(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[1]) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
        notes = f"nacre-{nacre.__version__}.dist-info"
        told = Parser().parsestr(archive.read(f"{notes}/METADATA").decode())
        commands = archive.read(f"{notes}/entry_points.txt").decode()
        licence = archive.read(f"{notes}/licenses/LICENSE").decode()
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "nacre").rglob("*.py")}
    assert {name for name in held if not name.startswith(notes)} == modules | {"nacre/py.typed"}
    assert licence == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("nacre", nacre.__version__, "Apache-2.0")
    assert re.search(r"^nacre = nacre\.cli\.main:main$", commands, re.MULTILINE)


def test_an_installed_package_names_the_users_line(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "site-packages"
    shutil.copytree(ROOT / "src" / "nacre", library / "nacre", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "linked").symlink_to(library)
    script = tmp_path / "mine.py"
    script.write_text(
        "import nacre as nc\n@nc.jit(autograph=False)\ndef f(x):\n    return -x if x > 0 else x\n"
        "try:\n    f(nc.tensor(1.0))\nexcept nc.Error as e:\n    print(nc.__file__, e.__notes__)\n"
    )
    for folder in (library, tmp_path / "linked"):
        done = subprocess.run(
            [sys.executable, script],
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{folder}/nacre/__init__.py ['at {script}:4 (f), as f was traced']\n"
