"""Generated code is self-contained on every target: no calls into a library, for any vector width."""

from __future__ import annotations

import re

import pytest

from codegen.run_operation import kernel_text
from nacre.base.dtypes import FLOATS, INTEGERS, DType, bfloat16, float16, float32, float64, int8, int64, uint64
from nacre.kernel.ast import OPERATIONS
from nacre.kernel.elementary import INTEGER, REAL, REAL_TEST, SIGN_BIT
from nacre.native.engine import cross_target, emit_assembly
from nacre.native.isa import BY_NAME

CALL = re.compile(r"^\s+(?:callq?|bl|blr)\s.*$", re.MULTILINE)
BASIC = ("fma", "maximum", "round", "copysign", "div", "isnan", "rem")
ELEMENTARY = ("exp", "sin", "pow", "erfc", "acosh")


def calls(op: str, dtypes: list[DType], isa: str, width: int, target: DType | None = None) -> list[str]:
    widest = max(d.bits for d in [*dtypes, *([target] if target else [])])
    lanes = width or BY_NAME[isa].vector_bits // max(widest, 32)
    text = kernel_text(op, dtypes, target, isa, lanes)
    return CALL.findall(emit_assembly(text, cross_target(isa)))


@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("isa", list(BY_NAME))
def test_basic_operations(isa: str, width: int) -> None:
    for dtype in FLOATS:
        for op in BASIC:
            assert not calls(op, [dtype] * OPERATIONS.get(op, (1,))[0], isa, width), (op, dtype)
    for dtype in (int8, int64, uint64):
        for op in ("idiv", "rem", "shr"):
            assert not calls(op, [dtype] * 2, isa, width), (op, dtype)


@pytest.mark.parametrize("isa", list(BY_NAME))
def test_elementary_functions(isa: str) -> None:
    for dtype in (float32, float64):
        for op in ELEMENTARY:
            assert not calls(op, [dtype] * OPERATIONS[op][0], isa, 0), (op, dtype)


@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("isa", list(BY_NAME))
def test_conversions(isa: str, width: int) -> None:
    for source in FLOATS:
        for target in (float16, bfloat16, float64, int8, int64, uint64):
            if source is not target:
                assert not calls("cast", [source], isa, width, target), (source, target)
                assert not calls("cast", [target], isa, width, source), (target, source)


@pytest.mark.slow
@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("isa", list(BY_NAME))
def test_everything(isa: str, width: int) -> None:
    for dtype in (*INTEGERS, *FLOATS):
        for op in [*REAL, *REAL_TEST, *SIGN_BIT] if dtype.is_float else INTEGER:
            assert not calls(op, [dtype] * OPERATIONS.get(op, (1,))[0], isa, width), (op, dtype)
