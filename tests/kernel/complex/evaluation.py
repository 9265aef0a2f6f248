"""Definitions of complex operations evaluated on NumPy arrays, and their errors against mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

from nacre.base.conversion import element
from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.ast import Apply, Const, Expr, Local
from nacre.kernel.complex.functions import FUNCTIONS
from nacre.kernel.complex.pairs import LetBlock, Pair
from nacre.kernel.interpret import operate

Array = npt.NDArray[Any]
COMPLEX = {float32: np.complex64, float64: np.complex128}
PARTS = {np.dtype(np.complex64): float32, np.dtype(np.complex128): float64}
BITS = {float32: 24, float64: 53}
LEAST = {float32: -149, float64: -1074}  # exponents of the smallest numbers


def value(e: Expr, names: dict[str, Array], count: int) -> Array:
    """The value of an expression without loads in every lane."""
    match e:
        case Const():
            return np.full(count, element(e.value, e.dtype), e.dtype.numpy)
        case Local():
            return names[e.name]
        case Apply():
            args = [value(a, names, count) for a in e.args]
            return operate(e.op, args, e.args[1 if e.op == "select" else 0].dtype, e.dtype)
        case _:
            raise TypeError(f"evaluate: operands must be constants and locals; got {e}")


def evaluate(op: str, *args: npt.ArrayLike) -> Array:
    """An operation on complex arrays of one shape and dtype."""
    arrays = [np.atleast_1d(a) for a in args]
    dtype, count = PARTS[arrays[0].dtype], arrays[0].size
    names: dict[str, Array] = {}
    pairs: list[Pair] = []
    for k, a in enumerate(arrays):
        names |= {f"re{k}": a.real.ravel().copy(), f"im{k}": a.imag.ravel().copy()}
        pairs.append(Pair(Local(f"re{k}", dtype), Local(f"im{k}", dtype)))
    block = LetBlock()
    found = FUNCTIONS[op](block, *pairs)
    with np.errstate(all="ignore"):
        for s in block.statements:
            names[s.name] = value(s.value, names, count)
        if not isinstance(found, Pair):
            return value(found, names, count)
        result = np.empty(count, COMPLEX[found.re.dtype])
        result.real, result.imag = (value(part, names, count) for part in found)
    return result


def ulps(got: float, want: Any, dtype: DType) -> float:
    """The error of a finite number in units of the last place of the true value; overflow is an error of its size."""
    if not mpmath.isfinite(want):
        return 0.0 if got == float(want) else float("inf")
    exponent = int(mpmath.frexp(want)[1]) if want else LEAST[dtype]
    unit = mpmath.ldexp(1, max(exponent - BITS[dtype], LEAST[dtype]))
    if not np.isfinite(got):
        top = mpmath.ldexp(1, 128 if dtype is float32 else 1024)
        beyond = not np.isnan(got) and abs(want) >= top - unit and (got > 0) == (want > 0)
        return 0.0 if beyond else float("inf")
    return float(abs(mpmath.mpf(got) - want) / unit)


def errors(op: str, exact: Callable[..., Any], args: Sequence[Array], digits: int = 60) -> Array:
    """The errors of both parts at each point, in ulps; of a real result only the first."""
    got, dtype = evaluate(op, *args), PARTS[args[0].dtype]
    found = np.zeros((got.size, 2))
    with mpmath.workdps(digits):
        for k, point in enumerate(zip(*args, strict=True)):
            want = exact(*(mpmath.mpc(float(z.real), float(z.imag)) for z in point))
            parts = zip((got[k].real, got[k].imag), (mpmath.re(want), mpmath.im(want)), strict=True)
            found[k] = [ulps(float(g), w, dtype) for g, w in parts]
    return found


def spread(count: int, dtype: DType, seed: int, low: float = -140, high: float = 120) -> Array:
    """Random numbers of all magnitudes: the exponents of both parts are uniform from `low` to `high`."""
    random = np.random.default_rng(seed)
    parts = random.choice([-1, 1], (2, count)) * (1 + random.random((2, count)))
    parts = parts * 2.0 ** random.uniform(low, high, (2, count)).round()
    with np.errstate(all="ignore"):
        return (parts[0] + 1j * parts[1]).astype(COMPLEX[dtype])


def around(count: int, dtype: DType, seed: int, size: float = 3.0) -> Array:
    """Random numbers whose parts are uniform in ±size."""
    random = np.random.default_rng(seed)
    parts = random.uniform(-size, size, (2, count))
    return (parts[0] + 1j * parts[1]).astype(COMPLEX[dtype])


def grid(*numbers: float, dtype: DType) -> Array:
    """All complex numbers with parts from a list, with the signs of zeros."""
    re, im = (part.ravel() for part in np.meshgrid(numbers, numbers, indexing="ij"))
    result = np.empty(re.size, COMPLEX[dtype])
    result.real, result.imag = re, im
    return result


def same(got: Array, want: Array) -> Array:
    """Equal by parts, with the signs of zeros; any NaN for NaN."""

    def part(x: Array, y: Array) -> Array:
        return ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))

    return part(got.real, want.real) & part(got.imag, want.imag)
