"""Definitions use only the listed instructions, and every emitter has all of them."""

from __future__ import annotations

import re

import pytest

from nacre.base.dtypes import ALL, FLOATS, DType, bool_, float16, float32, float64, int32
from nacre.base.errors import CompileError
from nacre.codegen.emitter import LlvmEmitter
from nacre.kernel.ast import OPERATIONS
from nacre.kernel.elementary import REAL, bitcast, convert, supports
from nacre.kernel.elementary.arrays import Arrays
from nacre.kernel.elementary.emitter import Emitter, held
from nacre.kernel.elementary.expansion import Expansion, Register, expand, steps_within
from nacre.kernel.elementary.instructions import INSTRUCTIONS, listing

NAMES = [
    "fadd", "fsub", "fmul", "fdiv", "fma", "sqrt", "fneg", "fabs", "copysign", "floor", "ceil", "ftrunc", "roundeven",
    "oeq", "olt", "ole", "ogt", "oge", "une", "uno",
    "add", "sub", "mul", "sdiv", "udiv", "and", "or", "xor", "shl", "lshr", "ashr",
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
    "select", "trunc", "zext", "sext", "fptrunc", "fpext", "sitofp", "uitofp", "fptosi", "fptoui",
    "fptosi_sat", "fptoui_sat", "bitcast",
]  # fmt: skip
BLOCKS = {"rarely", "repeat", "lookup"}
OPERANDS = {"exp_falling": 1}
SCALARS = [d for d in ALL if not d.is_complex]  # kernels have the parts of complex numbers


def every_expansion() -> list[Expansion]:
    """The expansions of all operations, for all dtypes."""
    found: list[Expansion] = []
    for dtype in SCALARS:
        for op in {**OPERATIONS, **OPERANDS}:
            if op not in ("cast", "bitcast", "select") and supports(op, dtype):
                found.append(expand(op, dtype, OPERANDS.get(op)))
        for target in SCALARS:
            e = Expansion(f"cast to {target}", [dtype])
            e.result = convert(e, e.arguments[0], dtype, target)
            found.append(e)
            if target.bits == dtype.bits:
                e = Expansion(f"bitcast to {target}", [dtype])
                e.result = bitcast(e, e.arguments[0], dtype, target)
                found.append(e)
    return found


EXPANSIONS = every_expansion()
STEPS = [step for e in EXPANSIONS for step in steps_within(e.steps)]


def test_the_list_of_instructions() -> None:
    assert list(INSTRUCTIONS) == NAMES


def test_definitions_use_exactly_these_instructions() -> None:
    assert {step.name for step in STEPS} - BLOCKS == set(INSTRUCTIONS)


def letters(dtype: DType) -> str:
    """The letters of `listing` for a dtype."""
    if dtype is bool_:
        return "bx"
    return "ix" if not dtype.is_float else "hx" if dtype.bits == 16 else "fx"


def test_operands_and_results_have_the_types_of_the_list() -> None:
    for step in STEPS:
        if step.name in BLOCKS:
            continue
        found = [*(o.dtype for o in step.operands), step.results[0].dtype]
        assert len(step.operands) == INSTRUCTIONS[step.name].operands
        forms = [re.findall(r"[fhibx]", form) for form in INSTRUCTIONS[step.name].types.split(",")]
        fits = [all(a in letters(d) for a, d in zip(form, found, strict=True)) for form in forms]
        assert any(fits), (step, forms)


def test_operands_are_earlier_results() -> None:
    for e in EXPANSIONS:
        known = set(e.arguments)
        for step in steps_within(e.steps):
            known.update(step.carried)
        for step in e.steps:
            assert all(o in known for o in step.operands if isinstance(o, Register)), e
            known.update(step.results)


def test_the_listing_has_a_line_for_each_instruction() -> None:
    lines = listing().splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("emitter", [Arrays, LlvmEmitter, Expansion])
def test_emitters_have_all_instructions(emitter: type[Emitter]) -> None:
    assert emitter.table.keys() == INSTRUCTIONS.keys()


def test_an_emitter_without_an_instruction_is_refused_by_name() -> None:
    table = {name: write for name, write in Expansion.table.items() if name != "ashr"}
    with pytest.raises(CompileError, match=r"Short: .* every instruction .* got none of ashr"):
        type("Short", (Emitter,), {"table": table})
    with pytest.raises(CompileError, match=r"Long: .* beyond them cosine"):
        type("Long", (Emitter,), {"table": {**Expansion.table, "cosine": Expansion.table["fabs"]}})


@pytest.mark.parametrize("emitter", [Arrays(), Expansion("f", [float32])])
def test_another_instruction_is_refused_by_name(emitter: Emitter) -> None:
    with pytest.raises(CompileError, match=r"the instruction must be one of .*; got cosine"):
        emitter.emit("cosine", [], float32, float32)


def test_integers_are_stored_as_signed_ones() -> None:
    assert {str(held(d)) for d in SCALARS} == {"bool", "i8", "i16", "i32", "i64", *map(str, FLOATS)}


def test_the_text_of_an_expansion() -> None:
    assert str(expand("sqrt", float16)).splitlines() == [
        "sqrt(x0: f16)",
        "  v0: f32 = fpext x0",
        "  v1: f32 = sqrt v0",
        "  v2: f16 = fptrunc v1",
        "  return v2",
    ]
    assert "= fma v" in str(expand("exp", float32)) and "f64 = lookup of 124 numbers" in str(expand("sin", float64))


def test_blocks_are_steps_with_a_body() -> None:
    rarely = next(s for s in expand("rem", float32).steps if s.name == "rarely")
    repeat = next(s for s in rarely.body if s.name == "repeat")
    assert [str(o) for o in repeat.operands[:1]] == ["14:i64"]
    assert len(repeat.carried) == len(repeat.following) == len(repeat.results) == 2


def test_the_exponential_for_arguments_up_to_zero_is_shorter() -> None:
    assert len(expand("exp_falling", float32, 1).steps) < len(expand("exp", float32).steps)
    assert "exp_falling" in REAL and "exp_falling" not in OPERATIONS


def test_integer_division_needs_no_instruction_that_may_trap() -> None:
    assert not any(s.name in ("sdiv", "udiv") for s in expand("idiv", int32).steps)
