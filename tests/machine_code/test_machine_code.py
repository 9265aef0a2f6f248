"""The machine code of many programs is what was recorded: a sample each time, all of them in the slow set."""

from __future__ import annotations

import pytest

from machine_code.digests import differences, digests, normalised, recorded
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


@pytest.mark.parametrize("first", range(4))
def test_a_sample(first: int) -> None:
    check(ALL[first * EVERY // 4 :: EVERY])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all(part: int) -> None:
    check(ALL[part::PARTS])
