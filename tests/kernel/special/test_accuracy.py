"""The errors of the special functions stay close to the measured ones, which `docs/special.md` lists."""

from __future__ import annotations

import numpy as np
import pytest

from kernel.elementary.ulps import evaluate
from kernel.special.accuracy import SUBJECTS, Subject, worst
from nacre.base.dtypes import DType, bfloat16, float16, float32, float64
from nacre.kernel.ast import SPECIAL
from nacre.kernel.special.functions import FUNCTIONS

BOUNDS = {  # in float64; the others have 8
    "gamma": 12.0, "zeta": 20.0, "gammainc": 2000.0, "gammaincc": 2000.0, "gammainc_slope": 4000.0,
    "gamma_density": 2000.0, "betainc": 1500.0, "beta_density": 1500.0, "digamma": 12.0, "betaln": 12.0,
}  # fmt: skip
NAMES = sorted({s.name for s in SUBJECTS})


def test_every_function_is_measured() -> None:
    assert set(NAMES) == set(FUNCTIONS) == set(SPECIAL)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.name}-{s.least}")
def test_float64(subject: Subject) -> None:
    error, where = worst(subject, float64, 12)
    assert error <= BOUNDS.get(subject.name, 8.0), (subject.name, where)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.name}-{s.least}")
def test_float32_is_rounded_from_float64(subject: Subject) -> None:
    error, where = worst(subject, float32, 12)
    assert error <= 0.501, (subject.name, where)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.name}-{s.least}")
def test_many_points(subject: Subject) -> None:
    error, where = worst(subject, float64, 150, seed=2)
    assert error <= 2 * BOUNDS.get(subject.name, 8.0), (subject.name, where)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv", "i0e", "ndtr"])
def test_half_types_round_the_float32_result_once(name: str, dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        wide = evaluate(name, float32, every.astype(np.float32)).astype(dtype.numpy).astype(np.float32)
        got = evaluate(name, dtype, every).astype(np.float32)
    assert ((got == wide) | (np.isnan(got) & np.isnan(wide))).all()


def test_convergence_for_large_parameters() -> None:
    """At the mean, both tails are about ½, whatever the parameters are."""
    a = 10.0 ** np.arange(1, 7.5, 0.5)
    for found in (evaluate("betainc", float64, a, a, np.full_like(a, 0.5)), evaluate("gammainc", float64, a, a)):
        assert (np.abs(found - 0.5) < 0.2 / np.sqrt(a)).all()
    assert (np.abs(evaluate("betainc", float64, a, a, np.full_like(a, 0.5)) - 0.5) < 1e-11).all()
