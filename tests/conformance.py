"""Run the test suite of the array API standard against this package, one module of the suite at a time.

    python3 run.py conformance PATH [--examples N] [MODULE ...]

PATH is a checkout of https://github.com/data-apis/array-api-tests with its submodule.  A MODULE is one of its files, as
`set_functions` for array_api_tests/test_set_functions.py.  It prints the rows of the table in docs/conformance.md, and
the tests that fail.  As a plugin of pytest, this file leaves values out of the suite's own report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import nacre as nc
from outcomes import Outcome, print_table

ROOT = Path(__file__).resolve().parents[1]


def read_report(module: str, report: Path) -> Outcome:
    """The outcome of a module from pytest's JUnit file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.xml"
    >>> _ = path.write_text('<t><testcase name="a"/><testcase name="b"><failure/></testcase></t>')
    >>> read_report("sets", path).row
    '| `sets` | 1 | 1 | 0 |'
    """
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [c.get("name", "") for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    return Outcome(module, len(cases) - len(failed) - skipped, tuple(failed), skipped)


def environment() -> dict[str, str]:
    """The variables for the suite: this package and the standard's version."""
    paths = [str(ROOT / "src"), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "ARRAY_API_TESTS_MODULE": "nacre",
        "ARRAY_API_TESTS_VERSION": nc.__array_api_version__,
    }


def run_module(suite: Path, module: str, examples: int) -> Outcome:
    """Run one module of the suite in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "conformance", "--disable-deadline"]
        file = f"array_api_tests/test_{module}.py"
        line = [sys.executable, "-m", "pytest", *options, f"--max-examples={examples}", f"--junitxml={report}", file]
        ran = subprocess.run(line, cwd=suite, env=environment(), capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(f"conformance: the suite must run; got for {module}:\n{ran.stdout}{ran.stderr}")
        return read_report(module, report)


def pytest_configure() -> None:
    """Write no values into the suite's own report, for which it compares dtypes with Python's types."""
    reporting = sys.modules.get("reporting")
    if reporting is not None:
        vars(reporting)["to_json_serializable"] = str


def main(arguments: Sequence[str]) -> int:
    """Run the modules that are named, or all; the status is 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="conformance", description="Run the array API standard's test suite.")
    parser.add_argument("path", type=Path, help="a checkout of array-api-tests")
    parser.add_argument("modules", nargs="*", help="modules of the suite, as set_functions")
    parser.add_argument("--examples", type=int, default=20, help="the most examples of a test (default: 20)")
    given = parser.parse_intermixed_args(arguments)
    suite: Path = given.path.resolve()
    if not (suite / "array-api" / "src").is_dir():
        parser.error(f"{suite} must be a checkout of array-api-tests; run `git submodule update --init` in it")
    known = sorted(p.stem.removeprefix("test_") for p in (suite / "array_api_tests").glob("test_*.py"))
    unknown = [m for m in given.modules if m not in known]
    if unknown:
        parser.error(f"modules must be of {', '.join(known)}; got {', '.join(unknown)}")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=suite, capture_output=True, text=True, check=False).stdout
    print(f"array-api-tests {commit.strip() or 'of unknown commit'}, {given.examples} examples")
    return print_table("module", [partial(run_module, suite, m, given.examples) for m in given.modules or known])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
