"""What all tests share: the executor is in place, and compilations are verified.

With --all slow tests run too, all parameters of those that are sampled otherwise, and random ones take new numbers.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

import nacre.compile.program.executor  # noqa: F401  (operations need it)
from nacre.native.pool import pool
from nacre.runtime import plan


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the slow tests too")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("NACRE_VERIFY", "1")
    config.addinivalue_line("markers", "slow: takes long; run by --all only")
    config.addinivalue_line("markers", "sampled(n): of its parameters every n-th is run, and all of them by --all")
    settings.register_profile("patient", deadline=None)  # no test asserts on time
    settings.register_profile("the same each time", settings.get_profile("patient"), derandomize=True)
    settings.load_profile("patient" if config.getoption("--all") else "the same each time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="slow: run with --all")
    met = Counter[str]()
    for item in items:
        sampled, name = item.get_closest_marker("sampled"), item.nodeid.partition("[")[0]
        if "slow" in item.keywords:
            item.add_marker(skip)
        elif sampled is not None:
            if met[name] % sampled.args[0]:
                item.add_marker(skip)
            met[name] += 1


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
    for name in ("ALONE_COST", "SHARE_COST", "CHUNK_COST"):
        monkeypatch.setattr(plan, name, 1)
    count = pool().threads
    yield
    pool().set_threads(count)
