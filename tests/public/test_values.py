"""Elementwise functions return the exact result, rounded, at special values and at ties, in every dtype and mode.

Floating-point references are mpmath's at finite numbers, and NumPy's float64 where an operand is a zero, an infinity
or a NaN; integer references are Python's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mpmath import mp, mpf

import nacre as nc
from nacre.base.dtypes import FLOATS, INTEGERS, DType
from nacre.kernel import softfloat
from surface import FUNCTIONS

HERE = {  # without those that nacre.special has, too
    n.removeprefix("nacre."): f
    for n, f in FUNCTIONS.items()
    if f.__module__.startswith("nacre.api.elementwise.") and not n.startswith("nacre.special.")
}


def _floor_divide(x: Any, y: Any) -> Any:
    return mp.floor(x / y)


def _floor_divide_specials(x: Any, y: Any) -> Any:
    """NumPy's floor_divide, except that ∞ over a finite number is ∞, as in the array API standard."""
    return np.where(np.isinf(x) & np.isfinite(y), np.divide(x, y), np.floor_divide(x, y))


def _remainder(x: Any, y: Any) -> Any:
    return x - y * mp.floor(x / y)


def _fmod(x: Any, y: Any) -> Any:
    return mp.sign(x) * (abs(x) - abs(y) * mp.floor(abs(x) / abs(y)))


def _of_numbers(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two numbers that is the other operand where one is NaN."""
    return lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, f(x, y)))


def _log_sum(x: Any, y: Any) -> Any:
    high, low = max(x, y), min(x, y)
    return high + mp.log1p(mp.exp(low - high))


def _cbrt(x: Any) -> Any:
    return mp.cbrt(x) if x >= 0 else -mp.cbrt(-x)


# name: the exact function, the error in units of the last place, and the function at zeros, infinities and NaN
Exact = tuple[Callable[..., Any], float, Callable[..., Any]]
UNARY: dict[str, Exact] = {
    "abs": (abs, 0, np.abs),
    "negative": (operator.neg, 0, np.negative),
    "positive": (lambda x: x, 0, np.positive),
    "square": (lambda x: x * x, 0, np.square),
    "reciprocal": (lambda x: 1 / x, 0, np.reciprocal),
    "sign": (mp.sign, 0, np.sign),
    "floor": (mp.floor, 0, np.floor),
    "ceil": (mp.ceil, 0, np.ceil),
    "trunc": (lambda x: mp.floor(x) if x >= 0 else mp.ceil(x), 0, np.trunc),
    "round": (mp.nint, 0, np.rint),
    "sqrt": (mp.sqrt, 0, np.sqrt),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), 1.5, lambda x: 1 / np.sqrt(x)),
    "exp": (mp.exp, 2, np.exp),
    "exp2": (lambda x: mpf(2) ** x, 2, np.exp2),
    "expm1": (mp.expm1, 2, np.expm1),
    "log": (mp.log, 2, np.log),
    "log2": (lambda x: mp.log(x, 2), 2, np.log2),
    "log10": (mp.log10, 2, np.log10),
    "log1p": (mp.log1p, 2, np.log1p),
    "sin": (mp.sin, 2, np.sin),
    "cos": (mp.cos, 2, np.cos),
    "tan": (mp.tan, 2, np.tan),
    "asin": (mp.asin, 2, np.arcsin),
    "acos": (mp.acos, 2, np.arccos),
    "atan": (mp.atan, 2, np.arctan),
    "sinh": (mp.sinh, 2, np.sinh),
    "cosh": (mp.cosh, 2, np.cosh),
    "tanh": (mp.tanh, 2, np.tanh),
    "asinh": (mp.asinh, 2, np.arcsinh),
    "acosh": (mp.acosh, 2, np.arccosh),
    "atanh": (mp.atanh, 2, np.arctanh),
    "erf": (lambda x: mp.erf(min(max(x, -200), 200)), 2, np.vectorize(math.erf)),
    "erfc": (lambda x: mp.erfc(min(max(x, -200), 200)), 2, np.vectorize(math.erfc)),
    "cbrt": (_cbrt, 2, np.cbrt),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), 2, lambda x: 1 / (1 + np.exp(-x))),
}
BINARY: dict[str, Exact] = {
    "add": (operator.add, 0, np.add),
    "subtract": (operator.sub, 0, np.subtract),
    "multiply": (operator.mul, 0, np.multiply),
    "divide": (operator.truediv, 0, np.divide),
    "floor_divide": (_floor_divide, 0, _floor_divide_specials),
    "remainder": (_remainder, 0, np.remainder),
    "maximum": (max, 0, softfloat.maximum),
    "minimum": (min, 0, softfloat.minimum),
    "fmax": (max, 0, _of_numbers(softfloat.maximum)),
    "fmin": (min, 0, _of_numbers(softfloat.minimum)),
    "fmod": (_fmod, 0, np.fmod),
    "copysign": (lambda x, y: abs(x) if y > 0 else -abs(x), 0, np.copysign),
    "atan2": (mp.atan2, 2, np.arctan2),
    "hypot": (mp.hypot, 2, np.hypot),
    "logaddexp": (_log_sum, 2, np.logaddexp),
    "pow": (operator.pow, 2, np.float_power),
}
TESTS: dict[str, Callable[..., Any]] = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
INTEGER: dict[str, Callable[..., int]] = {
    "abs": abs,
    "negative": operator.neg,
    "positive": operator.pos,
    "square": lambda x: x * x,
    "sign": lambda x: (x > 0) - (x < 0),
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), operator.pos),
    "bitwise_invert": operator.invert,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "maximum": max,
    "minimum": min,
    "fmax": max,
    "fmin": min,
    "fmod": lambda x, y: (abs(x) % abs(y)) * (1 if x >= 0 else -1) if y else 0,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": lambda x, n: x << n if 0 <= n < 64 else 0,
    "bitwise_right_shift": lambda x, n: x >> (n if 0 <= n < 64 else 64),
    "pow": lambda x, n: x ** min(n, 1 << 20) if n >= 0 else (x if n % 2 else 1) if abs(x) == 1 else 0,
}
ELSEWHERE = {
    **dict.fromkeys(
        ("complex", "real", "imag", "conj", "angle", "polar", "view_as_real", "view_as_complex"),
        "tests/api/test_complex_numbers.py, against NumPy",
    ),
    "fma": "tests/ops, against the exact sum", "nan_to_num": "below",
    "clip": "maximum and minimum", "nextafter": "tests/api/test_statistical.py, against NumPy",
    "logical_and": "bools", "logical_or": "bools", "logical_xor": "bools", "logical_not": "bools",
}  # fmt: skip


def test_every_function_has_a_reference() -> None:
    assert HERE.keys() == UNARY.keys() | BINARY.keys() | TESTS.keys() | INTEGER.keys() | ELSEWHERE.keys()


def facts(dtype: DType) -> tuple[int, int]:
    """The digits of a dtype and the exponent of its smallest number."""
    info = ml_dtypes.finfo(dtype.numpy)
    return info.nmant + 1, int(info.minexp) - info.nmant


def values(dtype: DType, few: bool) -> np.ndarray:
    """Zeros, subnormal and extreme numbers, ties, neighbours of them, and numbers of many sizes."""
    digits, _ = facts(dtype)
    info = ml_dtypes.finfo(dtype.numpy)
    eps, least, tiny, most = (float(v) for v in (info.eps, info.smallest_subnormal, info.tiny, info.max))
    sizes = [0.0, least, tiny, eps / 4, 1e-3, 0.5, 1.0, 1 + eps, 1.5, 2.5, 7.0, 2.0**digits - 1, most, math.inf]
    if not few:
        sizes += [3 * least, tiny - least, 2e-5, 0.1, 0.5 - eps / 4, 0.7, 1 - eps / 2, 2.0, 3.0, 10.3, 88.0, 300.0]
        sizes += [2.0 ** (digits - 1) - 0.5, 2.0**digits, most / 2]
    return np.array([s * v for v in sizes for s in (1, -1)] + [math.nan]).astype(dtype.numpy)


def columns(dtype: DType, arity: int) -> list[np.ndarray]:
    """All combinations of values."""
    pool = values(dtype, arity > 1)
    return [np.array(c) for c in zip(*product(pool, repeat=arity), strict=True)]


def unit(exact: Any, dtype: DType) -> Any:
    """The distance of a dtype's numbers near the exact one."""
    digits, lowest = facts(dtype)
    return mpf(2) ** max(int(mp.frexp(exact)[1]) - digits, lowest) if exact else mpf(2) ** lowest


def nearest(exact: Any, dtype: DType) -> float:
    """The exact number rounded once, ties to even."""
    step = unit(exact, dtype)
    rounded = mp.nint(exact / step) * step
    return float(rounded) if abs(rounded) <= float(ml_dtypes.finfo(dtype.numpy).max) else math.copysign(math.inf, exact)


def fault(name: str, got: float, operands: list[float], entry: Exact, dtype: DType) -> str | None:
    """The fault of a result, or None."""
    f, ulps, limit = entry
    with np.errstate(all="ignore"):
        special = float(limit(*map(np.float64, operands)))
    if not math.isfinite(special) or not all(math.isfinite(v) and v for v in operands):
        if math.isnan(special) or special == 0 or math.isinf(special):
            same = got == special and math.copysign(1, got) == math.copysign(1, special)
            right = math.isnan(got) if math.isnan(special) else same
            return None if right else f"{name}{operands} = {got}, not {special}"
        known = not ulps or name == "atan2" or not all(map(math.isfinite, operands))
        exact = mpf(special) if known else f(*map(mpf, operands))
    else:
        exact = f(*map(mpf, operands))
    wanted = nearest(exact, dtype)
    if got == wanted:
        return None
    slack = ulps if dtype.bits > 16 else 0.501  # half types are rounded once, from float32
    if name == "floor_divide" and abs(exact) >= 2 ** facts(dtype)[0]:
        slack = 1
    close = ulps or name == "floor_divide"
    scale = max(abs(exact), *map(abs, operands)) if name == "logaddexp" else exact  # where it cancels
    if close and math.isfinite(got) and abs(mpf(got) - exact) <= slack * unit(scale, dtype):
        return None
    return f"{name}{operands} = {got}, not {wanted}"


def evaluated(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The function's eager result, after a check that `jit` has the same bits."""
    tensors = [nc.asarray(a) for a in arrays]
    found = HERE[name](*tensors).numpy()
    compiled = nc.jit(HERE[name])(*tensors).numpy()
    same = (found == compiled) | ((found != found) & (compiled != compiled))
    assert same.all() and (np.signbit(found) == np.signbit(compiled))[found == found].all()
    return found


def check_floats(name: str, dtype: DType) -> None:
    entry = UNARY.get(name) or BINARY[name]
    arrays = columns(dtype, 1 if name in UNARY else 2)
    found = evaluated(name, arrays).astype(np.float64)
    rows = zip(found.tolist(), *(a.astype(np.float64).tolist() for a in arrays), strict=True)
    with mp.workprec(1200 if name in ("remainder", "fmod", "floor_divide", "pow", "logaddexp") else 400):
        wrong = [said for got, *operands in rows if (said := fault(name, got, operands, entry, dtype))]
    assert not wrong, f"{len(wrong)} of {len(found)} in {dtype.name}: " + "; ".join(wrong[:5])


def check_tests(name: str, dtype: DType) -> None:
    arrays = columns(dtype, 1 if name.startswith("is") or name == "signbit" else 2)
    wide = [a.astype(np.float64) if dtype.is_float else a for a in arrays]
    np.testing.assert_array_equal(evaluated(name, arrays), TESTS[name](*wide))


def check_integers(name: str, dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    ends = (info.max, info.max - 1, info.max // 2, info.min, info.min + 1)
    pool = [v for v in {*ends, 0, 1, 2, 3, 5, 7, 8, 63, 64, -1, -2, -3, -7} if info.min <= v <= info.max]
    arity = INTEGER[name].__code__.co_argcount if hasattr(INTEGER[name], "__code__") else 0
    arity = arity or (1 if name in UNARY or name == "bitwise_invert" else 2)
    rows = list(product(pool, repeat=arity))
    found = evaluated(name, [np.array(c, dtype.numpy) for c in zip(*rows, strict=True)])
    for got, row in zip(found.tolist(), rows, strict=True):
        if "shift" in name and not 0 <= row[1] < dtype.bits:
            wanted = -1 if name == "bitwise_right_shift" and row[0] < 0 else 0
        elif name == "pow" and row[1] > 0:
            wanted = pow(row[0], row[1], 1 << dtype.bits)
        else:
            wanted = INTEGER[name](*row)
        wanted = (wanted - info.min) % (1 << dtype.bits) + info.min
        assert got == wanted, f"{name}{row} = {got}, not {wanted} in {dtype.name}"


ROWS = [
    *((name, d, check_floats) for name in (*UNARY, *BINARY) for d in FLOATS),
    *((name, d, check_tests) for name in TESTS for d in FLOATS),
    *((name, d, check_integers) for name in INTEGER for d in INTEGERS),
]
ALWAYS = ("floor_divide", "remainder", "hypot", "logaddexp", "sign", "round", "divide")  # the others take turns


@pytest.mark.parametrize(
    "name, dtype, check",
    [
        pytest.param(
            name,
            d,
            check,
            id=f"{name}-{d.name}",
            marks=() if (name in ALWAYS and d.is_float) or k % 5 == 0 else pytest.mark.slow,
        )
        for k, (name, d, check) in enumerate(ROWS)
    ],
)
def test_values(name: str, dtype: DType, check: Callable[[str, DType], None]) -> None:
    check(name, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_to_num(dtype: DType) -> None:
    def shown(x: nc.Tensor) -> str:
        return f"{x.type} {x.tolist()}"

    most = float(ml_dtypes.finfo(dtype.numpy).max)
    x = nc.asarray([1.5, -0.0, math.nan, math.inf, -math.inf], dtype=dtype)
    for f in (nc.nan_to_num, nc.jit(nc.nan_to_num)):
        assert shown(f(x)) == f"{x.type} {[1.5, -0.0, 0.0, most, -most]}"
        assert nc.grad(lambda x, f=f: nc.sum(f(x)))(x).tolist() == [1, 1, 0, 0, 0]
    assert shown(nc.nan_to_num(x, 2.0, posinf=3.0, neginf=math.nan)) == f"{x.type} {[1.5, -0.0, 2.0, 3.0, math.nan]}"
    assert shown(nc.nan_to_num(nc.asarray([1, 2]))) == "i64[2] [1, 2]"


def test_the_exact_reference_rounds_once() -> None:
    with mp.workprec(100):
        assert nearest(mpf(1) + mpf(2) ** -8 + mpf(2) ** -60, nc.bfloat16) == 1 + 2.0**-7
    assert nearest(mpf(2) ** -1075, nc.float64) == 0 and nearest(mpf(2) ** 1024, nc.float64) == math.inf
    assert Fraction(nearest(mpf(1) / 3, nc.float32)) == Fraction(11184811, 33554432)
