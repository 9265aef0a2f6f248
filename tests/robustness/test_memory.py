"""Native entries without memory, at each of their allocations, and over many calls: nothing is damaged or stays."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
from nacre.base.errors import OutOfMemory
from nacre.runtime import buffer
from nacre.trace.variable import Variable
from robustness.memory_calls import BY_NAME, bits, tensor

ROOT = Path(__file__).parents[2]
MANY = 1_000_000
FEWER = 20_000
LONG = {"a_long_jitted_call": 100_000}  # calls that take a thousandth of a second each
QUICK = (
    *("one_result", "several_results", "a_view", "a_record", "a_record_of_the_result", "a_jitted_call"),
    *("a_gradient", "an_update", "an_update_with_results", "a_training_step"),
)
WITHOUT_ALLOCATIONS = {"an_update"}

injects = pytest.mark.skipif(importlib.util.find_spec("_testcapi") is None, reason="needs CPython's _testcapi")


def lines_of(script: str, number: int, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The line that a script prints about each case, none of which has faults.

    It runs in its own process, because other tests leave memory.
    """
    made = subprocess.run(
        [sys.executable, "-m", f"robustness.{script}", str(number), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
    )
    lines = [json.loads(line) for line in made.stdout.splitlines() if "begun" not in line]
    found = {line["name"]: line for line in lines}
    assert list(found) == list(names), f"{made.returncode}: {made.stderr[-3000:]}"  # the process has ended before
    assert {name: line["faults"] for name, line in found.items() if line["faults"]} == {}
    return found


@injects
@pytest.mark.parametrize(
    "names", [QUICK[::2], pytest.param(tuple(BY_NAME), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_each_allocation_fails(names: Sequence[str]) -> None:
    lines = lines_of("exhaust", 1, names)
    assert {name for name, line in lines.items() if not line["failures"]} == WITHOUT_ALLOCATIONS & set(names)


@injects
@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 8])
def test_several_allocations_fail(length: int) -> None:
    lines_of("exhaust", length, tuple(BY_NAME))


def test_nothing_stays_of_calls() -> None:
    lines_of("repeat", FEWER, QUICK)


@pytest.mark.exhaustive(4)
@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_stays_of_many_calls(name: str) -> None:
    lines_of("repeat", LONG.get(name, MANY), (name,))


# ---- the allocator of buffers


@pytest.mark.parametrize("update", [False, True])
def test_each_buffer_of_a_program_is_refused(update: bool) -> None:
    v, x = Variable(tensor(300, 300)), tensor(300, 300)

    def several(x: Any) -> Any:
        if update:
            v.assign(v.value + x)
        return x + 1, nc.cumulative_sum(x @ x, axis=0) @ x, x.sum(axis=0)

    f = nc.jit(several)
    f(x)
    wanted = bits(f(x))
    gc.collect()
    before, numbers = buffer.statistics(), bits(v.value)
    refused: set[int] = set()
    try:
        for room in range(0, 4 << 20, 1 << 16):
            buffer.memory_limit(before.allocated + room)
            try:
                made = f(x)
            except OutOfMemory:
                refused.add(room)
                assert bits(v.value) == numbers
            else:
                assert bits(made) == wanted
                break
            gc.collect()
            now = buffer.statistics()
            assert (now.allocated, now.buffers) == (before.allocated, before.buffers)
    finally:
        buffer.memory_limit(None)
    assert len(refused) > 10 and bits(f(x)) == wanted


MAPPINGS = """
import gc, resource
import numpy as np
import nacre as nc
from nacre.base.errors import OutOfMemory
from nacre.runtime import buffer
x = nc.tensor(np.ones((700, 700), np.float32))
f = nc.jit(lambda x: (x + 1, x * 2, nc.cumulative_sum(x @ x, axis=0) @ x))
wanted = [y.numpy().tobytes() for y in f(x)]
gc.collect()
buffer.empty_cache()
before = buffer.statistics()
free = resource.getrlimit(resource.RLIMIT_AS)
refused = 0
for room in range(0, 40 << 20, 1 << 20):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + room, free[1]))
    try:
        made = f(x)
    except OutOfMemory:
        refused += 1
    else:
        assert [y.numpy().tobytes() for y in made] == wanted
        del made
        break
    finally:
        resource.setrlimit(resource.RLIMIT_AS, free)
    gc.collect()
    buffer.empty_cache()
    now = buffer.statistics()
    assert (now.allocated, now.buffers) == (before.allocated, before.buffers)
assert 2 < refused < 39, refused
assert [y.numpy().tobytes() for y in f(x)] == wanted
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_each_mapping_of_a_program_is_refused() -> None:
    path = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    made = subprocess.run([sys.executable, "-c", MAPPINGS], capture_output=True, text=True, check=False, env=path)
    assert made.returncode == 0, made.stderr
