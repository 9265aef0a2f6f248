"""Every operation has the same bits on AVX-512, AVX2, one lane at a time, and in NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from codegen.run_operation import WIDTHS, Compiled, bit_patterns, canonical, interpreted
from nacre.base.dtypes import FLOATS, INTEGERS, DType, bfloat16, bool_, float16, float32, float64
from nacre.base.errors import DeviceError
from nacre.kernel.ast import OPERATIONS
from nacre.kernel.elementary import INTEGER, REAL, REAL_TEST, SIGN_BIT, TRUTH, supports
from nacre.native.engine import host_target

COUNT = 3000
EMITTED = (bool_, *INTEGERS, *FLOATS)  # complex numbers are parts by then
OF_PARTS = {"complex", "real", "imag", "conj", "modulus"}
FLOAT_OPS = [op for op in (*REAL, *REAL_TEST, *SIGN_BIT) if op in OPERATIONS]
INTEGER_OPS = [op for op in INTEGER if op in OPERATIONS] + ["eq", "lt", "ge"]


@cache
def widths() -> list[tuple[str, int]]:
    """The instruction sets that this machine can run."""

    def runs(isa: str) -> bool:
        try:
            host_target(isa)
        except DeviceError:
            return False
        return True

    return [(isa, width) for isa, width in WIDTHS if runs(isa)]


def check(op: str, dtypes: list[DType], target: DType | None = None) -> None:
    rng = np.random.default_rng(7)
    args = [bit_patterns(d, COUNT, rng) for d in dtypes]
    want = interpreted(op, dtypes, args, target)
    for isa, width in widths():
        got = Compiled(op, dtypes, isa, width, target)(args, want.dtype)
        wrong = np.flatnonzero(canonical(got) != canonical(want))
        where = f"{op} of {[a[wrong[0]] for a in args]}" if wrong.size else ""
        assert wrong.size == 0, f"{isa} x{width}: {where}: {got[wrong[0]]}, not {want[wrong[0]]}"


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("op", FLOAT_OPS)
def test_float(op: str, dtype: DType) -> None:
    check(op, [dtype] * OPERATIONS[op][0])


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_exp_of_arguments_up_to_zero(dtype: DType) -> None:
    x = bit_patterns(dtype, COUNT, np.random.default_rng(9))
    x = x[~(x.astype(np.float64) > 0)]
    want = canonical(interpreted("exp", [dtype], [x]))
    for isa, width in widths():
        assert (canonical(Compiled("exp_falling", [dtype], isa, width)([x], x.dtype)) == want).all(), (isa, width)


@pytest.mark.parametrize("width", [2, 4, 32, 64])
@pytest.mark.parametrize("op", ["exp", "tanh", "sinh", "pow", "maximum", "minimum"])
def test_vectors_shorter_and_longer_than_registers(op: str, width: int) -> None:
    for dtype in (float32, float64):
        dtypes = [dtype] * OPERATIONS[op][0]
        args = [bit_patterns(d, COUNT, np.random.default_rng(8)) for d in dtypes]
        want = interpreted(op, dtypes, args)
        for isa in dict(widths()):
            got = Compiled(op, dtypes, isa, width)(args, want.dtype)
            assert (canonical(got) == canonical(want)).all(), (isa, dtype)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "div", "fma", "sqrt", "tanh", "maximum", "neg", "lt"])
def test_half(op: str, dtype: DType) -> None:
    check(op, [dtype] * OPERATIONS[op][0])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", INTEGER_OPS)
def test_integer(op: str, dtype: DType) -> None:
    check(op, [dtype] * OPERATIONS[op][0])


@pytest.mark.parametrize("op", list(TRUTH))
def test_bool(op: str) -> None:
    check(op, [bool_] * OPERATIONS[op][0])


@pytest.mark.parametrize("target", EMITTED, ids=str)
@pytest.mark.parametrize("source", EMITTED, ids=str)
def test_convert(source: DType, target: DType) -> None:
    check("cast", [source], target)


def test_every_operation_of_the_kernel_ir_is_covered() -> None:
    elsewhere = {"cast", "bitcast"} | OF_PARTS
    for op in OPERATIONS.keys() - elsewhere:
        assert any(supports(op, d) for d in EMITTED), op
