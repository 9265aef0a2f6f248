"""Kernels in Python compute what the function computes in plain Python on NumPy arrays, and what the oracle does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.types import TensorType
from nacre.kernel import interpret

RNG = np.random.default_rng(7)
Case = tuple[Callable[..., Any], tuple[Any, ...], Any, dict[str, Any]]
CASES: dict[str, Case] = {}
SCALE = 0.75


def case(*inputs: Any, out: Any, **others: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def added(f: Callable[..., Any]) -> Callable[..., Any]:
        CASES[f.__name__] = f, inputs, out, others
        return f

    return added


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int64) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


def half(x: Any) -> Any:
    return x * 0.5


def clipped(x: Any, low: Any, high: Any) -> Any:
    if x < low:
        return low
    if x > high:
        return high
    return x


def both(x: Any) -> Any:
    y = x
    for k in range(3):
        y = y * 0.5 + k
    return y, x + 1


@case(numbers(7), numbers(7), out=lambda x, y: x)
def scaled_sum(x, y, out):
    for i in nc.prange(x.shape[0]):
        out[i] = 2 * x[i] + y[i] / 3.0 - SCALE


@case(numbers(4, 5, dtype=np.float64), out=lambda x: ((x.shape[1], x.shape[0]), x.dtype))
def transposed(x, out):
    n, m = x.shape
    for i in nc.prange(n):
        for j in range(m):
            out[j, i] = x[i][j]


@case(whole(9), out=lambda x: x)
def floors(x, out):
    for i in range(len(x)):
        out[i] = x[i] // 4 * 100 + x[i] % 4 + (i - 5) // 3 + (i - 5) % 3 + i // 2 + i % 2


@case(whole(9, dtype=np.int32), whole(9, low=1, dtype=np.int8), out=lambda x, y: (x.shape, np.int64))
def bits(x, y, out):
    for i in range(x.size):
        out[i] = ((x[i] & 12) | (y[i] ^ 3)) + (~x[i]) + (int(y[i]) << 2) - (x[i] >> 1)


@case(numbers(12), out=lambda x: ((3,), x.dtype))
def running(x, out):
    total, largest = 0, -math.inf
    place = -1
    for i in range(x.shape[0]):
        total += x[i]
        if x[i] > largest:
            largest = x[i]
            place = i
    out[0] = total
    out[1] = largest
    out[2] = place


@case(numbers(12), out=lambda x: (x.shape, np.int64))
def early(x, out):
    for i in nc.prange(x.shape[0]):
        steps = 0
        y = x[i]
        while True:
            y = y * 2
            steps += 1
            if y > 100 or y < -100:
                break
            if steps == 7:
                break
            if steps % 2 == 1:
                continue
            y += 0.25
        out[i] = steps


@case(whole(6, 6, low=0, high=3), out=lambda x: (x.shape[:1], np.int64))
def first_zero(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = -1
        for j in range(x.shape[1]):
            if x[i, j] == 2:
                continue
            if x[i, j] == 0:
                out[i] = j
                break


@case(numbers(5, 5, dtype=np.float64), out=lambda a: a)
def lower_triangle(a, out):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j - 1, -1, -1):
                s -= out[i, k] * a[k, j]
            out[i, j] = s


@case(numbers(8), out=lambda x: x)
def wrapped(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i - 3] + x[-1] - x[-i]


@case(numbers(6), whole(5, low=-6, high=6), out=lambda x, at: (at.shape, x.dtype))
def taken(x, at, out):
    for i in nc.prange(at.shape[0]):
        out[i] = x[at[i]]


@case(whole(40, low=0, high=5), out=lambda x: ((5,), np.int64))
def histogram(x, out):
    for i in range(x.shape[0]):
        out[x[i]] += 1


@case(numbers(9), out=lambda x: x, sharp=True, rounds=2)
def with_parameters(x, out, *, sharp=False, rounds=1, mode="a"):
    for i in nc.prange(x.shape[0]):
        y = x[i]
        for _k in range(rounds):
            y = y * y if sharp else half(y)
        if mode == "a":
            y += 1
        out[i] = y


@case(numbers(9), out=lambda x: [x, (x.shape, np.bool_)])
def two_outputs(x, y, positive):
    for i in nc.prange(x.shape[0]):
        positive[i] = x[i] > 0 and not x[i] > 1
        y[i] = clipped(x[i], -0.5, 0.5) if -1 < x[i] <= 1 else 7


@case(numbers(9), out=lambda x: x)
def of_tuples(x, out):
    for i in nc.prange(x.shape[0]):
        a, b = both(x[i])
        a, b = b, a
        out[i] = a - b


@case(numbers(5, 6), out=lambda x: [(x.shape[:1], x.dtype), (x.shape[1:], x.dtype)][:1])
def row_sums(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = nc.pairwise_sum(x[i, k] * x[i, k] for k in range(x.shape[1]))


@case(numbers(3), np.float32(0.5), out=lambda x, a: ((), x.dtype))
def of_rank_zero(x, a, out):
    s = 0.0
    for i in range(x.shape[0]):
        s += a * x[i]
    out[()] = s


@case(numbers(10, dtype=np.float64), out=lambda x: x)
def elementary(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = math.floor(x[i]) + abs(x[i]) + math.sqrt(x[i] * x[i]) + np.sign(x[i]) + round(x[i]) + int(x[i] * 3)


@case(numbers(10), out=lambda x: x)
def extremes(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = max(0, x[i], min(x[i], -0.25)) + np.minimum(x[i], 0.125) + np.float32(i)


@case(numbers(9), out=lambda x: x)
def short_circuit(x, out):
    n = x.shape[0]
    for i in nc.prange(n):
        k = i
        while k < n and x[k] < 0.5:
            k += 1
        out[i] = x[k] if k < n else -1


@case(numbers(11), out=lambda x: x)
def stepped(x, out):
    for i in nc.prange(1, x.shape[0], 3):
        out[i] = x[i - 1]
    # the others stay zero


@case(numbers(6, dtype=np.float16), out=lambda x: x)
def of_halves(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = x[i] * 1.5 + 0.1


@case(whole(8, low=0, high=255, dtype=np.uint8), out=lambda x: (x.shape, np.float64))
def bytes_to_floats(x, out):
    for i in nc.prange(x.shape[0]):
        if x[i]:
            out[i] = x[i] / 255
        elif i > 3:
            out[i] = -1.0


@case(numbers(7), out=lambda x: x)
def nested_ends(x, out):
    for i in range(x.shape[0]):
        if x[i] > 0:
            if x[i] > 1:
                continue
            out[i] = 1
        else:
            if x[i] < -1:
                break
        out[i] += 2


@case(np.array([0, 0.5, np.nan, 0, -3]), np.array([0, 2.0, 0, 7, 0]), out=lambda x, y: [x, x, x, x])
def operands(x, y, a, b, c, d):
    for i in nc.prange(x.shape[0]):
        a[i] = x[i] or 5.0
        b[i] = x[i] and y[i]
        c[i] = (x[i] and y[i]) or x[i] + 1
        d[i] = (y[i] or x[i] > 0) if not (x[i] and y[i]) else (x[i] > 0 and 3)


@case(whole(7), whole(7), out=lambda x, y: x)
def operands_of_conditions(x, y, out):
    for i in range(len(x)):
        n = x[i]
        steps = 0
        while (n and steps < 5) or not (n or steps):
            n -= 1
            steps += 1
        out[i] = steps + 100 * (n or y[i] or 9)


@case(np.array([2**62 - 1, -(2**62) + 1, 7]), out=lambda x: [x, x, x])
def rounded(x, a, b, c):
    for i in nc.prange(x.shape[0]):
        a[i] = round(x[i])
        b[i] = math.floor(x[i]) - math.ceil(int(x[i]) - 1)
        c[i] = math.trunc(int(x[i])) + x[i] ** 0


@case(np.array([2**62 - 1, 3], np.uint64), out=lambda x: x)
def rounded_without_sign(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = round(x[i])


@case(np.ones(0), out=lambda x: x)
def unreached(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = x[0] + x[-2]


@case(np.ones(4), np.ones(0), out=lambda x, y: ((x.size * y.size,), x.dtype))
def no_inner_round(x, y, out):
    for i in nc.prange(x.shape[0]):
        for j in range(y.shape[0]):
            out[i * y.shape[0] + j] = x[i] * y[j]


# ---- counters, returns, helpers


@case(np.array([1.0, 1, 2, 1]), out=lambda x: x)
def searched(x, out):
    i = 0
    for i in range(len(x)):
        if x[i] > 1:
            break
    out[0] = i
    for i in range(2):
        out[1] += i
    out[2] = i


@case(np.zeros(30), out=lambda x: x)
def sieve(x, out):
    for i in range(len(x)):
        out[i] = 1
    i = 2
    while i * i < len(x):
        for j in range(i * i, len(x)):
            if j % i == 0:
                out[j] = 0
        i += 1


@case(np.zeros(3), out=lambda x: x)
def changed_counter(x, out):
    for i in range(len(x)):
        out[i] += 1
        i = 2
        out[i] += i


@case(np.array([-1.0, 2, 3]), out=lambda x: x)
def bare_returns(x, out):
    out[0] = 1
    if len(x) == 2:
        return
    if x[0] > 1:
        out[1] = 7
        return
    elif x[1] > 1:
        out[1] = 8
    else:
        return
    out[2] = 9
    return


def swap(x, i, j, *, factor=2.0):
    t = x[i]
    if t > 100:
        return
    x[i] = x[j] * factor
    x[j] = t


affine = lambda a, b=3: a * a + b  # noqa: E731


def first_above(x, limit):
    for k in range(x.shape[0]):
        if x[k] > limit:
            return k
    return -1


def nearest_square(n):
    k = 0
    while True:
        for _step in range(3):
            if k * k >= n:
                return k * k
            k += 1
        if k > 100:
            return 0
    return -1


@case(numbers(9), out=lambda x: (x.shape, np.int64))
def returns_of_helpers_in_loops(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = first_above(x, x[i] * 2) + 10 * nearest_square(i * 3)


@case(numbers(4, 5), out=lambda x: x)
def returns_in_loops(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 1.5:
                return
            out[i, j] = x[i, j]
        k = 0
        while k < 5:
            if x[i, k] < -1.75:
                return
            k += 1
        out[i, 0] = k
    out[0, 0] = 7


@case(numbers(4), out=lambda x: x)
def uses_helpers(x, out):
    for i in range(len(x)):
        out[i] = x[i] + i
    swap(out, 0, 1)
    swap(out, 1, j=2, factor=10)
    out[2] = affine(out[2]) - affine(out[0], b=1)


@case(numbers(9), out=lambda x: x)
def interleaved(x, out):
    for i in nc.prange(len(x) // 2):
        out[2 * i] = x[i]
        out[2 * i + 1] = -x[i]


# ---- numbers of NumPy, and of Python in locals

ROOT, HALF, THREE, OFFSET = np.sqrt(2.0), np.float32(0.5), np.int64(3), np.uint64(0xCBF29CE484222325)
PRIME = 0x9E3779B97F4A7C15


@case(numbers(100), out=lambda x: [((), nc.float64), x, ((4,), np.int64)], scale=np.sqrt(3.0))
def constants_of_numpy(x, a, b, c, *, scale):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * ROOT + scale
        b[i] = x[i] * HALF + x[THREE]
    a[()] = s
    for i in range(THREE):
        c[i] = i * THREE + x.shape[np.int64(0)]


@case(whole(20, low=0, dtype=np.uint64), out=lambda x: x)
def hashed(x, out):
    h = np.uint64(0xCBF29CE484222325)
    for i in range(len(x)):
        h = (h ^ x[i]) * np.uint64(0x100000001B3)
        out[i] = (h ^ PRIME) | OFFSET


@case(np.array([1, 2, 3], np.int8), out=lambda x: ((6,), np.int64))
def wider_before(x, out):
    a = 100
    out[0] = a * a
    a += x[0]
    out[1] = a
    s = 0
    for i in range(3):
        s = s * 3 + x[i]
        out[2 + i] = s


@pytest.mark.parametrize("name", CASES)
def test_same_as_plain_python(name: str) -> None:
    f, inputs, out, others = CASES[name]
    k = nc.kernel(f, out=out)
    found = k(*inputs, **others)
    found = found if isinstance(found, tuple) else (found,)
    wanted = [np.zeros(y.shape, y.dtype.numpy) for y in found]
    with np.errstate(over="ignore"):
        f(*inputs, *wanted, **others)
    for y, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y.numpy(), w)
    jitted = nc.jit(lambda *xs: k(*xs, **others))(*map(nc.asarray, inputs))
    for y, w in zip(jitted if isinstance(jitted, tuple) else (jitted,), wanted, strict=True):
        np.testing.assert_array_equal(y.numpy(), w)


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_and_debug_mode_agree(name: str) -> None:
    f, inputs, out, others = CASES[name]
    k, debug = nc.kernel(f, out=out), nc.kernel(f, out=out, debug=True)
    found, checked = (y if isinstance(y, tuple) else (y,) for y in (k(*inputs, **others), debug(*inputs, **others)))
    params = k.primitive_params(**others)
    types = tuple(TensorType(np.shape(x), nc.asarray(x).dtype) for x in inputs)
    kernel = k.primitive.lowering.rule(types, tuple(y.type for y in found), **params)
    oracle = interpret.run(kernel, [np.asarray(x) for x in inputs], {})
    for y, c, w in zip(found, checked, oracle, strict=True):
        np.testing.assert_array_equal(y.numpy(), w)
        np.testing.assert_array_equal(c.numpy(), w)


def test_functions_of_libraries() -> None:
    x = np.abs(numbers(50))

    @nc.kernel(out=lambda x: [x] * 4)
    def several(x, a, b, c, d):
        for i in nc.prange(x.shape[0]):
            a[i] = np.exp(x[i])
            b[i] = nc.log1p(x[i])
            c[i] = math.tanh(x[i])
            d[i] = np.arctan2(x[i], 2.0)

    found = several(x)
    for y, w in zip(found, (nc.exp(x), nc.log1p(x), np.tanh(x), np.arctan2(x, np.float32(2))), strict=True):
        np.testing.assert_allclose(y.numpy(), np.asarray(w), rtol=3e-7)
    np.testing.assert_array_equal(found[0].numpy(), nc.exp(x).numpy())
