"""The machine code of many programs is what was recorded: a sample each time, all of them in the slow set."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from machine_code import renamed
from machine_code.digests import TARGETS, differences, digests, normalised, recorded
from machine_code.programs import Program, programs

ALL = list(programs())
EVERY = 40  # of the programs, one is looked at each time
PARTS = 24


def check(chosen: list[Program]) -> None:
    kept = recorded()
    found = {p.name: told for p in chosen if (told := differences(digests(p), kept[p.name]))}
    assert not found


def test_programs_are_those_recorded() -> None:
    names = [p.name for p in ALL]
    assert len(set(names)) == len(names)
    assert set(names) == set(recorded())


def test_names_do_not_matter() -> None:
    text = "; m\ndefine void @f(ptr %a) {\nstart:\n  %x = load i8, ptr %a\n  br label %start\n}\ndeclare i1 @llvm.abs"
    other = text.replace("@f", "@g").replace("%a", "%b.0").replace("start", "s").replace("; m", "; n")
    assert normalised(text) == normalised(other) != normalised(text.replace("i8", "i16"))
    assert "@llvm.abs" in normalised(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(4))
def test_a_sample(first: int) -> None:
    check(ALL[first * EVERY // 4 :: EVERY])


@pytest.mark.exhaustive(6)
@pytest.mark.parametrize("part", range(PARTS))
def test_all(part: int) -> None:
    check(ALL[part::PARTS])


def check_renamed(*words: str) -> None:
    """The programs whose names hold one of the words have the recorded texts whatever primitives are called."""
    script = [sys.executable, renamed.__file__, *words]
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "NACRE_CACHE_DIR": ""}
    found = json.loads(subprocess.run(script, capture_output=True, text=True, check=True, env=environment).stdout)
    kept = recorded()
    assert found
    assert found == {name: {isa: kept[name][isa] for isa in TARGETS} for name in found}


@pytest.mark.slow
def test_small_workloads_do_not_depend_on_the_names_of_primitives() -> None:
    check_renamed(*(p.name for p in ALL if p.name.startswith("workload") and p.name.endswith("tiny")))


@pytest.mark.slow
def test_workloads_do_not_depend_on_the_names_of_primitives() -> None:
    check_renamed("workload")
