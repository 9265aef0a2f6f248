"""What all tests share: the executor is in place, and compilations are verified.

With --all slow tests run too, all parameters of those that are sampled otherwise, and random ones take new numbers.
With --exhaustive only the long tables and the long series of random programs run, each of which --all samples.  They go
on where they stopped, until a source or a test changes.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import nacre.compile.program.executor  # noqa: F401  (operations need it)
from nacre.native.pool import pool
from nacre.runtime import grains, plan

PASSED = "nacre/exhaustive"  # the entry of pytest's cache


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the slow tests too")
    parser.addoption("--exhaustive", action="store_true", help="run the long tables alone, those that have not passed")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("NACRE_VERIFY", "1")
    config.addinivalue_line("markers", "slow: takes long; run by --all only")
    config.addinivalue_line("markers", "sampled(n): of its parameters every n-th is run, and all of them by --all")
    config.addinivalue_line("markers", "exhaustive(n): --all runs every n-th of its parameters, and --exhaustive all")
    if config.getoption("--exhaustive"):
        config.pluginmanager.register(_Progress(config), "exhaustive")
    settings.register_profile("patient", deadline=None)  # no test asserts on time
    settings.register_profile("the same each time", settings.get_profile("patient"), derandomize=True)
    random = config.getoption("--all") or config.getoption("--exhaustive")
    settings.load_profile("patient" if random else "the same each time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    all_of_them, long_ones = config.getoption("--all"), config.getoption("--exhaustive")
    if long_ones:
        config.hook.pytest_deselected(items=[x for x in items if "exhaustive" not in x.keywords])
        items[:] = [x for x in items if "exhaustive" in x.keywords]
        return
    met = Counter[str]()
    for item in items:
        name = item.nodeid.partition("[")[0]
        exhaustive = item.get_closest_marker("exhaustive")
        sampled = exhaustive or (None if all_of_them else item.get_closest_marker("sampled"))
        if (exhaustive or "slow" in item.keywords) and not all_of_them:
            item.add_marker(pytest.mark.skip(reason="slow: run with --all"))
        elif sampled is not None:
            if met[name] % sampled.args[0]:
                how = "--exhaustive" if exhaustive else "--all"
                item.add_marker(pytest.mark.skip(reason=f"of a long table: run with {how}"))
            met[name] += 1


class _Progress:
    """The long tests that have passed with these sources, which are not run again."""

    def __init__(self, config: pytest.Config) -> None:
        root = Path(__file__).parents[1]
        paths = sorted(p for folder in ("src", "tests") for p in (root / folder).rglob("*.py"))
        self.sources = hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()
        self.cache: Any = config.cache
        self.writes = not hasattr(config, "workerinput")  # one process does, that which started the others
        known = self.cache.get(PASSED, {})
        self.passed: list[str] = known.get("passed", []) if known.get("sources") == self.sources else []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        passed = set(self.passed)
        for item in session.items:
            if item.nodeid in passed:
                item.add_marker(pytest.mark.skip(reason="has passed"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.writes and report.when == "call" and report.passed:
            self.passed.append(report.nodeid)
            self.cache.set(PASSED, {"sources": self.sources, "passed": self.passed})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After a file's tests, leave the objects that are there out of later collections, which would take seconds each.

    Most of them are pytest's own: the tests and their reports.
    """
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs that share the smallest work among threads, whose number a test may change."""
    for module, name in ((plan, "ALONE_COST"), (grains, "SHARE_COST"), (grains, "CHUNK_COST")):
        monkeypatch.setattr(module, name, 1)
    count = pool().threads
    yield
    pool().set_threads(count)
