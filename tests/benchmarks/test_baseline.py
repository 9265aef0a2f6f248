"""The counted work of the built-in workloads has not grown since the baseline was written."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from nacre.examples.workloads import WORKLOADS
from nacre.examples.workloads.networks import NETWORKS
from nacre.examples.workloads.standard import STANDARD

FOLDER = Path(__file__).parents[2] / "benchmarks"


def program(name: str) -> ModuleType:
    """A benchmark's program as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


baseline = program("baseline")


def check(name: str, size: str) -> None:
    faults = list(baseline.grown(baseline.counts(name, size == "tiny"), baseline.load()[size][name]))
    assert not faults, "\n".join([*faults, "if that is meant: python3 run.py bench baseline --write"])


@pytest.mark.parametrize("name", [w.name for w in STANDARD])
def test_tiny_workloads_have_not_grown(name: str) -> None:
    check(name, "tiny")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [w.name for w in NETWORKS])
def test_tiny_networks_have_not_grown(name: str) -> None:
    check(name, "tiny")


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_have_not_grown(name: str) -> None:
    check(name, "full")


def test_growth_is_seen() -> None:
    before = {"flops": 1000, "launches": 10}
    assert not list(baseline.grown({"flops": 1032, "launches": 12}, before))
    (fault,) = baseline.grown({"flops": 1033, "launches": 9}, before)
    assert fault.startswith("flops: 1,000 became 1,033")
