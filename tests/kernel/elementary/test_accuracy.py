"""Elementary functions are within 2 ulp; the bounds here are close to the measured errors."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from kernel.accuracy import recorded
from kernel.elementary.ulps import EXACT, FORMATS, evaluate, every, ulps_of_float32, ulps_of_float64, worst
from nacre.base.dtypes import DType, bfloat16, float16, float32, float64

TIGHTER = {
    "exp": 1.0, "exp2": 1.0, "log": 1.2, "log2": 1.0, "log10": 1.0, "log1p": 1.1, "tan": 1.2,
    "asin": 0.9, "acos": 1.1, "atan": 1.3, "tanh": 1.4, "asinh": 1.1, "acosh": 1.1, "atanh": 1.2,
    "erf": 1.35, "cbrt": 1.0, "pow": 1.1,
}  # fmt: skip


@pytest.mark.parametrize("op", EXACT)
def test_float32(op: str) -> None:
    error, where = worst(op, float32, 20000)
    assert error <= TIGHTER.get(op, 1.75), f"{op}{where}: {error} ulp"


@pytest.mark.parametrize("op", EXACT)
def test_float64(op: str) -> None:
    error, where = worst(op, float64, 300)
    assert error <= TIGHTER.get(op, 1.75), f"{op}{where}: {error} ulp"


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_arguments_next_to_multiples_of_half_pi(op: str) -> None:
    """Arguments with the most cancellation: the worst of all float64 numbers, and neighbours of small multiples."""
    worst_of_all = [16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797]  # in float32, float64
    n = np.arange(1.0, 3000.0)
    near = np.concatenate([n * (np.pi / 2), np.nextafter(n * (np.pi / 2), 0), worst_of_all])
    large = near[:-1] * 2.0 ** (np.arange(near.size - 1) % 900)
    for x in (near, large):
        assert ulps_of_float64(op, [x]).max() < 1.75
        with np.errstate(over="ignore"):
            y = x.astype(np.float32)
        y = y[np.isfinite(y)]
        assert ulps_of_float32(op, [y]).max() < 1.75


@pytest.mark.parametrize("op", ["exp", "exp2", "erfc", "pow", "sigmoid", "sinh", "asin", "atan", "log1p"])
def test_subnormal_results(op: str) -> None:
    """The error of a subnormal result is at most 2 of the smallest numbers, too (they are the unit of `worst`)."""
    x = {
        "exp": np.linspace(-745.2, -708.4, 500), "exp2": np.linspace(-1074.9, -1022, 500),
        "erfc": np.linspace(26.55, 27.25, 500), "sigmoid": np.linspace(-745.2, -708.4, 500),
    }.get(op, 2.0**-1074 * np.arange(1.0, 500.0) ** 3)  # fmt: skip
    args = [np.full(500, 0.5), np.linspace(1022, 1074.5, 500)] if op == "pow" else [x]
    assert ulps_of_float64(op, args).max() < 1.75


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("op", ["exp", "tanh", "log", "sin"])
def test_half_types_round_the_float32_result_once(op: str, dtype: DType) -> None:
    x = every(dtype)
    with np.errstate(all="ignore"):
        wide = evaluate(op, float32, x.astype(np.float32)).astype(dtype.numpy)
        got = evaluate(op, dtype, x)
        got, wide = got.astype(np.float32), wide.astype(np.float32)
    assert ((got == wide) | (np.isnan(got) & np.isnan(wide))).all()


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("op", EXACT)
def test_half_types(op: str, dtype: DType) -> None:
    """At every number of one operand, the error of rounding once, from float32."""
    error, where = worst(op, dtype, 0)
    assert error <= 0.5 + 2.0 ** (FORMATS[dtype][0] - 23), f"{op}{where}: {error} ulp"


@pytest.mark.slow
@pytest.mark.parametrize("op", EXACT)
def test_many_points(op: str) -> None:
    assert worst(op, float32, 1_000_000, seed=2)[0] < 2
    with mpmath.workprec(200):
        assert worst(op, float64, 5_000, seed=2)[0] < 2


def test_the_recorded_errors_are_within_the_promise() -> None:
    """Those of the table in the documents: 2 ulp, and half types are rounded once."""
    for table in (recorded()["elementary"], recorded().get("exhaustive", {})):
        for op, errors in table.items():
            assert op in EXACT
            for dtype, error in errors.items():
                assert error <= (0.51 if dtype in ("float16", "bfloat16") else 2.0), (op, dtype)
    assert set(recorded()["elementary"]) == set(EXACT)
