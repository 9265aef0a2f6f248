"""Errors of complex elementary functions by parts, and their branch cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from kernel.complex.evaluation import COMPLEX, Array, around, errors, evaluate, grid, same, spread
from kernel.complex.references import EXACT, GROWING, worst
from nacre.base.dtypes import DType, float32, float64

pytestmark = pytest.mark.sampled(3)

mp = mpmath.mp
FLOATS = [float32, float64]
ONCE = 0.501  # float32: rounded once, from float64
BOUNDS = {
    "sqrt": 2.5, "rsqrt": 3.5, "exp": 3.0, "exp2": 3.5, "log": 2.5, "log2": 3.0, "log10": 3.0, "log1p": 2.5,
    "sinh": 3.5, "cosh": 3.5, "tanh": 6.0, "sin": 3.5, "cos": 3.5, "tan": 6.0,
    "asin": 4.0, "acos": 4.0, "atan": 4.0, "asinh": 4.0, "acosh": 4.0, "atanh": 4.0,
}  # fmt: skip
SINGULAR = {"log": [0], "log2": [0], "log10": [0], "log1p": [-1], "rsqrt": [0], "atanh": [-1, 1], "atan": [-1j, 1j]}
OFFSET = "1e-40"  # from a branch cut


@pytest.mark.parametrize("op", EXACT)
def test_float32(op: str) -> None:
    error, where = worst(op, float32, 12)
    assert error.max() <= ONCE, (op, error, where)


@pytest.mark.parametrize("op", BOUNDS)
def test_float64(op: str) -> None:
    error, where = worst(op, float64, 12)
    assert error.max() <= BOUNDS[op], (op, error, where)


def expm1_term(z: Any) -> Any:
    """The size of the terms of the real part of e^z − 1."""
    return abs(mp.expm1(z.real)) + 2 * mp.sin(z.imag / 2) ** 2


def sigmoid_term(z: Any) -> Any:
    """The size of the terms of the real part of 1 / (1 + e^−z)."""
    return mp.exp(-abs(z.real)) / abs(1 + mp.exp(z)) ** 2 + abs(1 / (1 + mp.exp(-z)))


@pytest.mark.parametrize(("op", "term"), [("expm1", expm1_term), ("sigmoid", sigmoid_term)])
def test_real_parts_whose_terms_cancel(op: str, term: Callable[[Any], Any]) -> None:
    """The error is a few ulps of the terms: at random numbers, and next to the curves on which the part is 0."""
    z = around(200, float64, 21, 2.0)
    cosine = np.cos(z.imag[:100]).clip(0.1)
    z.real[:100] = np.log(cosine) * (1 if op == "sigmoid" else -1)
    with mpmath.workdps(50):
        for v, got in zip(z, evaluate(op, z), strict=True):
            exact = mpmath.mpc(float(v.real), float(v.imag))
            assert abs(float(got.real) - EXACT[op](exact).real) <= 4 * 2.0**-52 * term(exact), v


def beside(z: complex) -> Any:
    """The number at a small distance from the axes, on the side of its zeros' signs."""
    x, y = (mpmath.mpf(OFFSET) * np.copysign(1.0, v) if v == 0 else mpmath.mpf(v) for v in (z.real, z.imag))
    return mpmath.mpc(x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", EXACT)
def test_both_sides_of_branch_cuts(op: str, dtype: DType) -> None:
    """On the axes, the result is the limit from the side of zero's sign; its zeros have the signs of the limit."""
    z = grid(0.0, -0.0, 0.25, -0.25, 1.0, -1.0, 1.5, -1.5, 4.0, -4.0, dtype=dtype)
    z = z[((z.real == 0) | (z.imag == 0)) & ~np.isin(z, SINGULAR.get(op, []))]
    eps = 8 * float(np.finfo(dtype.numpy).eps)
    with mpmath.workdps(150):
        for v, got in zip(z, evaluate(op, z), strict=True):
            want = EXACT[op](beside(complex(v)))
            for g, w in ((got.real, want.real), (got.imag, want.imag)):
                if abs(w) < 1e-15:
                    assert abs(g) < 1e-15 and np.signbit(g) == (w < 0), (v, got)
                else:
                    assert abs(float(g) - w) <= eps * abs(w), (v, got)


# ---- the whole range of numbers

CANCELS = ("expm1", "sigmoid")  # the real part, off the axes
FARTHEST = {float32: 2.0**80, float64: 2.0**40}  # the imaginary parts up to which exp2 has the angle
DIGITS = 1500  # in which 1 is not lost next to the square of a subnormal or of the largest number


def of_all_magnitudes(op: str, dtype: DType, count: int) -> Array:
    """Numbers whose parts go from the smallest to the largest, on the axes, next to them and on the diagonal."""
    info = np.finfo(dtype.numpy)
    least, most = float(info.smallest_subnormal), float(info.max)
    sizes = 2.0 ** np.linspace(np.log2(least), np.log2(most) - 1e-9, count)
    sizes[-1] = most
    one, zero = np.ones(count), np.zeros(count)
    parts = [(sizes, zero), (-sizes, zero), (zero, sizes), (sizes, sizes), (-sizes, sizes)]
    parts += [] if op in CANCELS else [(sizes, one), (-sizes, one), (one, sizes), (sizes, sizes[::-1])]
    z = np.empty(count * len(parts), COMPLEX[dtype])
    z.real, z.imag = (np.concatenate(p) for p in zip(*parts, strict=True))
    return z[z.imag <= FARTHEST[dtype]] if op == "exp2" else z


def above_cuts(op: str) -> Callable[[Any], Any]:
    """The function next to the axes instead of on them, where it may have a branch cut."""
    tiny = mpmath.ldexp(1, -4000)
    if op in GROWING:
        return EXACT[op]
    return lambda z: EXACT[op](mpmath.mpc(z.real or tiny, z.imag or tiny))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", EXACT)
def test_all_magnitudes(op: str, dtype: DType) -> None:
    z = of_all_magnitudes(op, dtype, 12)
    found = errors(op, above_cuts(op), [z], DIGITS).max(1)
    bound = ONCE if dtype is float32 else BOUNDS.get(op, 5.0)
    assert found.max() <= bound, [(v, e) for v, e in zip(z, found, strict=True) if not e <= bound][:8]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_no_infinity_times_zero(dtype: DType) -> None:
    """A zero part stays next to an overflow: cosh(x ± 0i) is cosh x ± 0i sinh x."""
    far = 1500.0 if dtype is float64 else 200.0
    for x in (far, float(np.finfo(dtype.numpy).max)):
        for y in (0.0, -0.0):
            z, turned = (np.array([v], COMPLEX[dtype]) for v in (complex(x, y), complex(y, x)))
            for op in ("cosh", "sinh", "exp", "exp2", "expm1"):
                assert same(evaluate(op, z), np.array([complex(np.inf, y)], z.dtype)).all(), (op, z)
            assert same(evaluate("cosh", -z), np.array([complex(np.inf, y)], z.dtype)).all()
            assert same(evaluate("cos", turned), np.array([complex(np.inf, -y)], z.dtype)).all()
            assert same(evaluate("sin", turned), np.array([complex(y, np.inf)], z.dtype)).all()
            assert same(evaluate("sigmoid", z), np.array([complex(1.0, y)], z.dtype)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_with_imaginary_exponents_have_length_one(dtype: DType) -> None:
    """Where the angle is out of reach too: 2^(iy), and x^(iy) for positive x."""
    info = np.finfo(dtype.numpy)
    most, eps = float(info.max), float(info.eps)
    y = np.append(2.0 ** np.linspace(0, np.log2(most) - 1e-9, 300), most)
    exponents = np.zeros(2 * y.size, COMPLEX[dtype])
    exponents.imag = np.concatenate([y, -y])
    found = [evaluate("exp2", exponents)]
    found += [evaluate("pow", np.full_like(exponents, x), exponents) for x in (1e-30, 2.0, 1e30, most)]
    lengths = np.abs(np.concatenate(found).astype(np.complex128))
    assert np.abs(lengths - 1.0).max() <= 2 * eps


def test_angles_of_binary_exponentials() -> None:
    """The error of the angle is about |y| 2^-107."""
    y = 2.0 ** np.linspace(0, 105, 200)
    got = evaluate("exp2", 1j * y)
    with mpmath.workdps(80):
        for v, g in zip(y, got, strict=True):
            want = mp.exp(mpmath.mpc(0, float(v)) * mp.log(2))
            assert abs(mpmath.mpc(complex(g)) - want) <= 2.0**-51 + float(v) * 2.0**-106


def test_powers_whose_logarithm_overflows() -> None:
    """The products with the logarithm's parts overflow, and their difference is not unknown."""
    z = np.array([1e300 + 1e300j, 1e-300 + 1e-300j])
    w = np.full_like(z, complex(1.7e308, 1.7e308))
    got = evaluate("pow", z, w)
    assert np.isinf(got[0].real) and got[1] == 0
    real = evaluate("pow", np.array([-1.166685224618551e306 + 0j]), np.array([837494074521601 + 0j]))
    assert real[0] == complex(-np.inf, 0.0)  # the sine is 0 to the last bit


@pytest.mark.parametrize("op", ["asin", "acos", "asinh", "acosh"])
def test_inverses_keep_subnormal_numbers(op: str) -> None:
    """Next to 0 a part is that of the number."""
    size = 5e-324 * np.array([1.0, 2.0, 3.0, 7.0])
    z = size + 1j * size[::-1]
    z = np.concatenate([z, 1j * size])
    got = evaluate(op, z)
    if op in ("asin", "asinh"):
        assert same(got, z).all()
    else:
        assert (np.abs(got.imag if op == "acos" else got.real) == z.imag).all()


# ---- powers


def power_errors(z: Array, w: Array) -> Array:
    """The larger error of both parts, in ulps of the result's length."""
    got = evaluate("pow", z, w)
    eps = float(np.finfo(got.real.dtype).eps)
    found: list[float] = []
    with mpmath.workdps(60):
        for a, b, g in zip(z, w, got, strict=True):
            u, v = (mpmath.mpc(float(c.real), float(c.imag)) for c in (a, b))
            want = mp.exp(v * mp.log(u))
            found.append(float(abs(mpmath.mpc(float(g.real), float(g.imag)) - want) / abs(want) / eps))
    return np.array(found)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [1.0, 6.0, 60.0])
def test_powers(size: float, dtype: DType) -> None:
    """The error does not grow with |w log z|, of which float64 has two parts."""
    z, w = around(120, dtype, 31), around(120, dtype, 32, size)
    plain = np.abs((w * np.log(z)).real) < (80 if dtype is float32 else 700)
    assert power_errors(z[plain], w[plain]).max() <= (0.71 if dtype is float32 else 2.0)


def test_powers_of_all_magnitudes() -> None:
    z = spread(120, float64, 36, -1074, 1023)
    w = around(120, float64, 37, 0.9)
    assert power_errors(z, w).max() <= 2.0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_powers(dtype: DType) -> None:
    """Products: the error grows with the exponent, and small whole numbers have exact powers."""
    z = around(200, dtype, 33)
    n = np.random.default_rng(34).integers(-31, 32, 200)
    w = (n + 0j).astype(COMPLEX[dtype])
    assert (power_errors(z, w) <= (0.71 if dtype is float32 else 1.5 + 0.5 * np.abs(n))).all()
    numbers = np.array([1 + 2j, -3 + 1j, 2j, 2 - 1j], COMPLEX[dtype])
    exact = np.ones_like(numbers)
    for k in range(1, 8):
        exact = exact * numbers
        assert (evaluate("pow", numbers, np.full(4, k, COMPLEX[dtype])) == exact).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_zero_and_to_zero(dtype: DType) -> None:
    """As in NumPy: z⁰ is 1 for every z; 0^w is 0 for re w > 0, and NaN otherwise."""
    z = grid(0.0, -0.0, 1.0, -2.0, np.inf, np.nan, dtype=dtype)
    assert (evaluate("pow", z, np.zeros_like(z)) == 1).all()
    w = grid(0.5, 1.0, 3.0, -1.0, 0.0, np.inf, dtype=dtype)
    w = w[w != 0]
    with np.errstate(all="ignore"):
        for zero in (0j, complex(-0.0, 0.0), complex(0.0, -0.0)):
            got, positive = evaluate("pow", np.full_like(w, zero), w), w.real > 0
            assert (got[positive] == 0).all() and np.isnan(got[~positive].real).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_infinity(dtype: DType) -> None:
    z = np.array([np.inf, complex(np.inf, np.inf), -np.inf], COMPLEX[dtype])
    assert np.isinf(evaluate("pow", z, np.full_like(z, 2))).all()
    assert (evaluate("pow", z, np.full_like(z, -1.5)) == 0).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponentials_that_overflow_have_finite_parts(dtype: DType) -> None:
    """e^(re) overflows, but its product with a small sine does not."""
    x, y = (100.0, 1e-10) if dtype is float32 else (720.0, 1e-10)
    z = np.array([complex(x, y)], COMPLEX[dtype])
    assert np.isinf(evaluate("exp", z).real).all()
    assert errors("exp", mp.exp, [z])[0, 1] <= 3.0


def test_logarithms_of_real_powers() -> None:
    """Powers of the base have exact logarithms."""
    n = np.arange(-1000.0, 1001.0, 25)
    assert (evaluate("log2", 2.0**n + 0j) == n).all()
    assert (evaluate("log10", 10.0 ** np.arange(23.0) + 0j) == np.arange(23.0)).all()
    assert np.isfinite(evaluate("log", spread(100, float64, 41, -1074, 1023))).all()
