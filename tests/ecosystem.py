"""Run the tests that other packages ship with Nacre as their array library, one package at a time.

    python tests/ecosystem.py PATH ... [-k WORDS]

A PATH is an unpacked source distribution, or a checkout, of array-api-compat, array-api-extra, einops or opt_einsum.
Pytest, numpy, array-api-compat and what the package needs must be installed.  It prints the rows of the table in
docs/conformance.md, and the tests that fail.  Only tests that make a tensor of Nacre are counted.  As a plugin of
pytest, this file puts Nacre among the libraries for which the package's tests are written.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nacre as nc
from outcomes import Outcome, print_table

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = "NACRE_ECOSYSTEM"  # the variable with the package whose tests the plugin changes
USED = "nacre"  # the property, in pytest's report, of a test that made a tensor
PAGE = ROOT / "docs" / "conformance.md"


class Package(NamedTuple):
    """How a package's tests are run: their paths, where its modules are, and what makes them use Nacre."""

    tests: tuple[str, ...]
    modules: str
    prepare: Callable[[], None]
    finish: Callable[[], None] = lambda: None


def read_report(package: str, report: Path) -> Outcome:
    """The outcome of a package from pytest's JUnit file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.xml"
    >>> used = '<properties><property name="nacre" value="1"/></properties>'
    >>> _ = path.write_text(f'<t><testcase name="a">{used}</testcase><testcase name="b"/></t>')
    >>> read_report("einops", path).row
    '| `einops` | 1 | 0 | 0 |'
    """
    mark = f"properties/property[@name='{USED}']"
    cases = [c for c in ElementTree.parse(report).iter("testcase") if c.find(mark) is not None]
    failed: list[str] = []
    for case in cases:
        fault = next((f for f in (case.find("failure"), case.find("error")) if f is not None), None)
        if fault is not None:
            told = (fault.get("message") or "").strip().splitlines()
            failed.append(f"{case.get('name')}: {told[0] if told else 'no message'}")
    skipped = sum(c.find("skipped") is not None for c in cases)
    return Outcome(package, len(cases) - len(failed) - skipped, tuple(failed), skipped)


# ---- the plugin

_running: list[pytest.Item] = []


def note() -> None:
    """Note that the test that runs makes a tensor."""
    if _running and not any(name == USED for name, _ in _running[-1].user_properties):
        _running[-1].user_properties.append((USED, "1"))


def is_tensor(x: object) -> bool:
    """Whether x is one of Nacre's tensors; the function that array-api-compat would have."""
    return isinstance(x, nc.Tensor)


def of_numpy(a: Any) -> Any:
    """An array as a tensor; a test that asks for one is counted."""
    note()
    return nc.asarray(a)


def prepare_compat() -> None:
    """Put Nacre among the libraries; while tests are collected, also among those that have a wrapper, itself."""
    held = import_module("tests._helpers")
    held.wrapped_libraries[:] = ["nacre"]
    held.all_libraries[:] = ["nacre"]
    sys.modules["array_api_compat.nacre"] = nc


def finish_compat() -> None:
    """The collected tests are to treat Nacre as a library without a wrapper."""
    import_module("tests._helpers").wrapped_libraries[:] = []
    common = sys.modules.get("tests.test_common")
    if common is not None:
        vars(common)["is_array_functions"]["nacre"] = "is_tensor"
        vars(common)["is_tensor"] = is_tensor


def prepare_extra() -> None:
    """Make Nacre the only library of the fixture."""
    backend: Any = import_module("array_api_extra._lib._backends").Backend
    member = object.__new__(backend)
    member._name_, member._value_ = "NACRE", "nacre"
    backend._member_map_["NACRE"] = backend._value2member_map_["nacre"] = member
    backend._member_names_[:] = ["NACRE"]


def class_of_page() -> str:
    """The source of the class for einops that docs/conformance.md shows."""
    block = re.search(r"```py\n([^`]*class NacreBackend.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if block is None:
        raise SystemExit(f"ecosystem: {PAGE} must show the class NacreBackend; got none")
    return block[1]


def documented_backend() -> Any:
    """The class for einops that docs/conformance.md shows."""
    names: dict[str, Any] = {}
    exec(class_of_page(), names)
    return names["NacreBackend"]


def prepare_einops() -> None:
    """Make the class that the documentation shows the only backend of the tests."""

    class Backend(documented_backend()):
        """The documented class, with the functions that only tests need."""

        def from_numpy(self, x: Any) -> Any:
            """A tensor; of floating-point numbers, one that records gradients."""
            made = of_numpy(x)
            return made.requires_grad_() if self.is_float_type(made) else made

        def to_numpy(self, x: Any) -> Any:
            """The numbers."""
            return x.detach().numpy()

    def collect(symbolic: bool = False, layers: bool = False) -> list[Any]:
        """The backends of a kind of test."""
        return [] if symbolic or layers else [Backend()]

    tests: Any = import_module("einops.tests")
    tests.collect_test_backends = collect


def finish_einops() -> None:
    """The test of einsum has a list of the backends that have one."""
    tests = sys.modules.get("einops.tests.test_einsum")
    if tests is not None:
        vars(tests)["valid_backends_functional"].append("nacre")


def prepare_opt_einsum() -> None:
    """Make the package's random arrays tensors."""
    testing: Any = import_module("opt_einsum.testing")
    views, arrays = testing.build_views, testing.build_arrays_from_tuples

    def build_views(string: str, dimension_dict: Any = None, array_function: Any = None) -> Any:
        """The arrays for the operands of a string as tensors."""
        made = views(string, dimension_dict, array_function)
        return tuple(of_numpy(a) if hasattr(a, "dtype") else a for a in made)

    def build_arrays_from_tuples(path: Any) -> Any:
        """Arrays of the given shapes as tensors."""
        return [of_numpy(a) for a in arrays(path)]

    testing.build_views, testing.build_arrays_from_tuples = build_views, build_arrays_from_tuples


PACKAGES: dict[str, Package] = {
    "array-api-compat": Package(("tests",), "src", prepare_compat, finish_compat),
    "array-api-extra": Package(("tests/main",), "src", prepare_extra),
    "einops": Package(("einops/tests",), ".", prepare_einops, finish_einops),
    "opt_einsum": Package(("opt_einsum/tests",), ".", prepare_opt_einsum),
}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Change the package's tests before the first of them is imported."""
    PACKAGES[os.environ[CHOSEN]].prepare()


def pytest_collection_finish() -> None:
    """Change what the tests read when they run."""
    PACKAGES[os.environ[CHOSEN]].finish()


@contextmanager
def _noting(item: pytest.Item) -> Iterator[None]:
    _running.append(item)
    given = getattr(item, "callspec", None)
    if given is not None and any(str(getattr(v, "value", v)) == "nacre" for v in given.params.values()):
        note()
    try:
        yield
    finally:
        _running.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Note which tests make tensors: those with Nacre as a parameter, and those that ask for one."""
    with _noting(item):
        return (yield)


# ---- the command


def environment(root: Path, package: str) -> dict[str, str]:
    """The variables for a package's tests: the package, this one, and the names that the tests read."""
    paths = [root / PACKAGES[package].modules, ROOT / "src", ROOT / "tests"]
    given = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([given] if given else [])]),
        "EINOPS_TEST_BACKENDS": "numpy",
        CHOSEN: package,
    }


def run_package(root: Path, package: str, words: str = "") -> Outcome:
    """Run the tests of one package in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "ecosystem", f"--junitxml={report}"]
        choice = ["-k", words] if words else []
        line = [sys.executable, "-m", "pytest", *options, *choice, *PACKAGES[package].tests]
        ran = subprocess.run(
            line, cwd=root, env=environment(root, package), capture_output=True, text=True, check=False
        )
        if ran.returncode not in (0, 1):  # tests passed, or failed
            raise SystemExit(f"ecosystem: the tests must run; got for {package}:\n{ran.stdout}{ran.stderr}")
        return read_report(package, report)


def named(root: Path) -> str:
    """The name of the package in a folder."""
    project = root / "pyproject.toml"
    name = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"] if project.exists() else "none"
    if name not in PACKAGES:
        raise SystemExit(f"ecosystem: {root} must have the source of {', '.join(PACKAGES)}; got {name}")
    return name


def main(arguments: Sequence[str]) -> int:
    """Run the packages' tests; the status is 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="ecosystem", description="Run other packages' tests on Nacre.")
    parser.add_argument("paths", type=Path, nargs="+", help="folders with the source of a package")
    parser.add_argument("-k", dest="words", default="", help="only tests whose names have these words, as in pytest")
    given = parser.parse_args(arguments)
    roots = [path.resolve() for path in given.paths]
    packages = [named(root) for root in roots]
    return print_table("package", [partial(run_package, *each, given.words) for each in zip(roots, packages)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
