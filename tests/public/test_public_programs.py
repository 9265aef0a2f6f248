"""Random programs of public functions: the same bits eagerly and compiled, and NumPy's numbers at every step."""

from __future__ import annotations

from dataclasses import replace

import pytest

import nacre as nc
from public.numpy_steps import OPERATIONS
from public.public_programs import (
    LENGTH,
    PublicProgram,
    difference,
    random_public_program,
    shrunk,
    text,
    values_of,
)
from same_bits import canonical

TOGETHER = 25  # programs of one test
USUAL = 24


def fault(program: PublicProgram, seed: int) -> str:
    """How compiled results differ from eager ones, or eager ones from NumPy's; empty where they do not."""
    operands = program.operands(seed)
    for operation, xs, c, y in values_of(program, operands):
        if told := difference(operation, xs, c, y):
            return f"{operation.name} of {', '.join(str(x.type) for x in xs)}, {c}: {told}"
    eager = list(map(canonical, program(*operands)))
    compiled = list(map(canonical, nc.jit(program.__call__)(*operands)))
    return "" if eager == compiled else f"compiled results {[a == b for a, b in zip(eager, compiled, strict=True)]}"


def check(seed: int) -> None:
    """Run a program; one that fails is shown without the steps that do not matter."""
    program = random_public_program(seed)
    if told := fault(program, seed):
        least = shrunk(program, lambda less: fault(less, seed))
        raise AssertionError(f"program {seed}: {told}\n{text(least, seed)}\n{fault(least, seed)}")


@pytest.mark.parametrize("first", range(0, USUAL, 6))
def test_programs_have_the_same_bits_compiled_and_numpys_numbers(first: int) -> None:
    for seed in range(first, first + 6):
        check(seed)


@pytest.mark.exhaustive(10)
@pytest.mark.parametrize("first", range(USUAL, USUAL + 5000, TOGETHER))
def test_thousands_of_programs(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        check(seed)


def test_programs_have_the_steps_that_they_promise() -> None:
    programs = [random_public_program(seed) for seed in range(8)]
    assert all(len(list(values_of(p, p.operands(k)))) == LENGTH for k, p in enumerate(programs))
    assert len({OPERATIONS[step[0]].name for p in programs for step in p.steps}) > 40


def test_a_program_that_fails_shrinks_to_the_steps_that_matter() -> None:
    program = random_public_program(1)
    wanted = {program.steps[3], program.steps[11]}
    least = shrunk(program, lambda less: "lost" if wanted <= set(less.steps) else "")
    assert set(least.steps) == wanted
    assert "v5" in text(replace(program, steps=program.steps[:1]), 1)
