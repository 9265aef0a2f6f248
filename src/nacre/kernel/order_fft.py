"""An executable definition of the Fourier transform's bits: its plan, and every operation in order.

A transform of n complex numbers is a sequence of passes, one for each factor (radix) r of n, by Stockham's algorithm.
Before a pass, s transforms of length n/s are interleaved.  With m = n/(s·r), the pass computes for all p < m and q < s

    y[q + s·(r·p + k)] = w(n/s)^(p·k) · Σ_j w(r)^(j·k) · x[q + s·(p + m·j)]

where w(n) = exp(−2πi/n).  The sums over j are `butterfly`, the products with roots are `turned`.  The last pass, with
m = 1, has no such products.  Roots are correctly rounded constants.  The inverse transform exchanges real and imaginary
parts before and after the passes.

A length with a prime factor that is not in `PRIMES` is transformed by Bluestein's algorithm.  With b[j] = exp(πi·j²/n),
the conjugate of b[j] multiplies the numbers before and after a cyclic convolution with b.  The convolution multiplies
transforms of length `passes_length`; the one of b, with the factor 1/`passes_length`, is a constant.

A transform of real numbers of even length takes them as n/2 complex numbers, whose transform `split` separates;
`merged` is the way back.  An odd length takes zeros as imaginary parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from nacre.base.records import dataclass
from nacre.kernel.roots_of_unity import root, roots
from nacre.kernel.softfloat import fma

PRIMES: Final = (
    113,
    109,
    107,
    103,
    101,
    97,
    89,
    83,
    79,
    73,
    71,
    67,
    61,
    59,
    53,
    47,
    43,
    41,
    37,
    31,
    29,
    23,
    19,
    17,
    13,
    11,
    7,
    5,
    3,
)
PADDING: Final = 16  # elements behind each row of a table, which vectors may read

Array = npt.NDArray[Any]
T = TypeVar("T")
Complex = tuple[T, T]  # real and imaginary part


class FourierArithmetic(Protocol[T]):
    """The operations of the passes, on arrays or on values of generated code."""

    def add(self, a: T, b: T) -> T:
        """a + b."""
        ...

    def sub(self, a: T, b: T) -> T:
        """a − b."""
        ...

    def mul(self, a: T, b: T) -> T:
        """a · b."""
        ...

    def fma(self, a: T, b: T, c: T) -> T:
        """a · b + c, rounded once."""
        ...

    def neg(self, a: T) -> T:
        """−a."""
        ...

    def number(self, value: float) -> T:
        """A constant of the transform's dtype."""
        ...

    def root(self, n: int, k: int) -> Complex[T]:
        """cos(2πk/n) and sin(2πk/n)."""
        ...


# ---- the plan


@dataclass(frozen=True)
class Pass:
    """One pass: its radix r, the m and s of its definition, and the place of its roots in the table.

    The real part of the root for p and k is at `start` + p·`step` + 2·(k − 1)·`apart`; the imaginary one is `apart`
    behind.
    """

    radix: int
    m: int
    s: int
    start: int
    step: int
    apart: int

    @property
    def roots(self) -> int:
        """The numbers of the table that belong to the pass."""
        return 2 * (self.radix - 1) * self.m if self.m > 1 else 0


@dataclass(frozen=True)
class FourierPlan:
    """How a complex transform of a length is computed; a function of the length alone.

    `chirp` and `filter` are the places of Bluestein's constants in the table, `halves` that of the roots of 2n for real
    numbers.  Each has the real parts first, then `PADDING` elements behind them, then the imaginary parts.
    """

    n: int
    passes_length: int
    passes: tuple[Pass, ...]
    chirp: int
    filter: int
    halves: int
    size: int

    @property
    def is_convolution(self) -> bool:
        """Whether it is Bluestein's algorithm."""
        return self.passes_length != self.n

    @property
    def radices(self) -> tuple[int, ...]:
        """The radices in order."""
        return tuple(p.radix for p in self.passes)


def radices(n: int) -> list[int] | None:
    """The radices of a length, in the order of its passes; None if a prime factor is too large."""
    found: list[int] = []
    for prime in PRIMES:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    if n != 1 << twos:
        return None
    few = {0: [], 1: [2], 2: [4], 4: [4, 4]}
    eights = [] if twos in few else [8] * (twos // 3 - (twos % 3 == 1))
    rest = few[twos - 3 * len(eights)]
    return [*eights, *(r for r in rest if r == 4), *found, *(r for r in rest if r == 2)]


@lru_cache(maxsize=1024)
def plan(n: int) -> FourierPlan:
    """The plan of a complex transform of length n."""
    found, length = radices(n), n
    if found is None:
        length = _convolution_length(2 * n - 1)
        found = radices(length)
        assert found is not None
    passes: list[Pass] = []
    s, start = 1, 0
    for r in found:
        m = length // (s * r)
        step, apart = (1, m) if s == 1 else (2 * (r - 1), 1)
        passes.append(Pass(r, m, s, start, step, apart))
        start += passes[-1].roots
        s *= r
    chirp = start + PADDING
    filter = chirp + (2 * (n + PADDING) if length != n else 0)
    halves = filter + (2 * (length + PADDING) if length != n else 0)
    return FourierPlan(n, length, tuple(passes), chirp, filter, halves, halves + 2 * (n + 1 + PADDING))


def _convolution_length(least: int) -> int:
    """The smallest power of two, or that times 3, 5 or 9, which is not below a length; eights are preferred."""
    return min(odd << max(0, -(-least // odd) - 1).bit_length() for odd in (1, 3, 5, 9))


# ---- the table


@lru_cache(maxsize=32)
def table(n: int, dtype: Any) -> Array:
    """The constants of the plan of a length."""
    p = plan(n)
    found = np.zeros(p.size, dtype)
    length = p.passes_length
    cos, sin = roots(length, np.arange(length), dtype)
    for each in p.passes:
        if each.m > 1:
            at = np.arange(each.m)[:, None] * np.arange(1, each.radix) * each.s
            pairs = np.stack([cos[at], -sin[at] + 0.0], 2)
            order = (1, 2, 0) if each.s == 1 else (0, 1, 2)
            found[each.start : each.start + each.roots] = pairs.transpose(order).ravel()
    _write(found, p.halves, *_conjugate(roots(2 * n, np.arange(n + 1), dtype)))
    if p.is_convolution:
        _write(found, p.chirp, *_chirp(n, dtype))
        _write(found, p.filter, *(x.astype(dtype) for x in _filter(p)))
    found.flags.writeable = False
    return found


def _write(table: Array, start: int, re: Array, im: Array) -> None:
    table[start : start + re.size] = re
    start += re.size + PADDING
    table[start : start + im.size] = im


def _conjugate(x: tuple[Array, Array]) -> tuple[Array, Array]:
    return x[0], -x[1] + 0.0


def _chirp(n: int, dtype: Any) -> tuple[Array, Array]:
    """exp(−πi·j²/n)."""
    j = np.arange(n, dtype=np.int64)
    return _conjugate(roots(2 * n, j * j % (2 * n), dtype))


def _filter(p: FourierPlan) -> tuple[Array, Array]:
    """The transform of exp(πi·j²/n) over the length, computed in float64 with operations that each round once."""
    n, length = p.n, p.passes_length
    re, im = _chirp(n, np.float64)
    whole = np.zeros((2, length))
    for x, y in ((re, whole[0]), (-im, whole[1])):
        y[:n] = x
        y[length - n + 1 :] = x[:0:-1]
    cos, sin = _conjugate(roots(length, np.arange(length), np.float64))
    k = _Arrays(np.float64, fused=False)
    found = whole[0], whole[1]
    for each in p.passes:
        at = np.arange(each.m)[:, None] * np.arange(1, each.radix) * each.s
        found = _run(k, each, found, (cos[at], sin[at]))
    return found[0] / length, found[1] / length


# ---- arithmetic that all executions share


def times(k: FourierArithmetic[T], a: Complex[T], w: Complex[T]) -> Complex[T]:
    """a · w."""
    return k.fma(a[0], w[0], k.neg(k.mul(a[1], w[1]))), k.fma(a[0], w[1], k.mul(a[1], w[0]))


def turned(k: FourierArithmetic[T], y: Sequence[Complex[T]], w: Sequence[Complex[T]]) -> list[Complex[T]]:
    """The products of a butterfly's results with their roots; the first result has none."""
    return [y[0], *(times(k, a, b) for a, b in zip(y[1:], w, strict=True))]


def plus(k: FourierArithmetic[T], a: Complex[T], b: Complex[T]) -> Complex[T]:
    """a + b."""
    return k.add(a[0], b[0]), k.add(a[1], b[1])


def minus(k: FourierArithmetic[T], a: Complex[T], b: Complex[T]) -> Complex[T]:
    """a − b."""
    return k.sub(a[0], b[0]), k.sub(a[1], b[1])


def butterfly(k: FourierArithmetic[T], x: Sequence[Complex[T]]) -> list[Complex[T]]:
    """The transform of 2, 4 or 8 numbers, or of an odd prime number of them."""
    match len(x):
        case 2:
            return [plus(k, x[0], x[1]), minus(k, x[0], x[1])]
        case 4:
            return _of_four(k, x)
        case 8:
            pairs = zip(even_of_eight(k, x), odd_of_eight(k, x), strict=True)
            return [y for pair in pairs for y in pair]
        case _:
            return _of_odd(k, x)


def _of_four(k: FourierArithmetic[T], x: Sequence[Complex[T]]) -> list[Complex[T]]:
    a, b = plus(k, x[0], x[2]), minus(k, x[0], x[2])
    c, d = plus(k, x[1], x[3]), minus(k, x[1], x[3])
    return _quarters(k, (a, b, c, d))


def _quarters(k: FourierArithmetic[T], x: tuple[Complex[T], Complex[T], Complex[T], Complex[T]]) -> list[Complex[T]]:
    """a + c, b − i·d, a − c, b + i·d."""
    a, b, c, d = x
    first, second = (k.add(b[0], d[1]), k.sub(b[1], d[0])), (k.sub(b[0], d[1]), k.add(b[1], d[0]))
    return [plus(k, a, c), first, minus(k, a, c), second]


def even_of_eight(k: FourierArithmetic[T], x: Sequence[Complex[T]]) -> list[Complex[T]]:
    """The numbers 0, 2, 4 and 6 of the transform of eight."""
    return _of_four(k, [plus(k, x[j], x[j + 4]) for j in range(4)])


def odd_of_eight(k: FourierArithmetic[T], x: Sequence[Complex[T]]) -> list[Complex[T]]:
    """The numbers 1, 3, 5 and 7 of the transform of eight."""
    half = k.root(8, 1)[0]
    (r0, i0), (r1, i1), (r2, i2), (r3, i3) = (minus(k, x[j], x[j + 4]) for j in range(4))
    a, b = (k.add(r0, i2), k.sub(i0, r2)), (k.sub(r0, i2), k.add(i0, r2))
    u = k.mul(k.add(r1, i1), half), k.mul(k.sub(i1, r1), half)
    v = k.mul(k.sub(i3, r3), half), k.mul(k.add(r3, i3), k.neg(half))
    c, d = plus(k, u, v), minus(k, u, v)
    return _quarters(k, (a, b, c, d))


def _of_odd(k: FourierArithmetic[T], x: Sequence[Complex[T]]) -> list[Complex[T]]:
    """Sums and differences of the numbers j and n − j, times cosines and sines, in chains over ascending j."""
    n, half = len(x), len(x) // 2
    sums = [plus(k, x[j], x[n - j]) for j in range(1, half + 1)]
    differences = [minus(k, x[j], x[n - j]) for j in range(1, half + 1)]
    first = x[0]
    for a in sums:
        first = plus(k, first, a)
    found = [first] + [first] * (n - 1)
    for i in range(1, half + 1):
        even, odd = x[0], None
        for j, (a, b) in enumerate(zip(sums, differences, strict=True), 1):
            c, s = k.root(n, i * j % n)
            even = k.fma(a[0], c, even[0]), k.fma(a[1], c, even[1])
            odd = (k.mul(b[0], s), k.mul(b[1], s)) if odd is None else (k.fma(b[0], s, odd[0]), k.fma(b[1], s, odd[1]))
        assert odd is not None
        found[i] = k.add(even[0], odd[1]), k.sub(even[1], odd[0])
        found[n - i] = k.sub(even[0], odd[1]), k.add(even[1], odd[0])
    return found


def split(k: FourierArithmetic[T], a: Complex[T], b: Complex[T], w: Complex[T]) -> Complex[T]:
    """A number of the transform of real numbers from those at i and n/2 − i of the half transform, and w(n)^i."""
    half = k.number(0.5)
    even = k.mul(k.add(a[0], b[0]), half), k.mul(k.sub(a[1], b[1]), half)
    odd = k.mul(k.add(a[1], b[1]), half), k.mul(k.sub(b[0], a[0]), half)
    return plus(k, even, times(k, odd, w))


def merged(k: FourierArithmetic[T], a: Complex[T], b: Complex[T], w: Complex[T]) -> Complex[T]:
    """The inverse of `split` without its factors: a number of twice the half transform."""
    total = k.add(a[0], b[0]), k.sub(a[1], b[1])
    rest = times(k, (k.sub(a[0], b[0]), k.add(a[1], b[1])), (w[0], k.neg(w[1])))
    return k.sub(total[0], rest[1]), k.add(total[1], rest[0])


# ---- the reference


class _Arrays:
    """FourierArithmetic on arrays."""

    def __init__(self, dtype: Any, fused: bool = True) -> None:
        self.dtype, self.fused = np.dtype(dtype), fused

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def sub(self, a: Array, b: Array) -> Array:
        return a - b

    def mul(self, a: Array, b: Array) -> Array:
        return a * b

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        return fma(a, b, c) if self.fused else a * b + c

    def neg(self, a: Array) -> Array:
        return -a

    def number(self, value: float) -> Array:
        return self.dtype.type(value)

    def root(self, n: int, k: int) -> Complex[Array]:
        return root(n, k, self.dtype)


def _run(k: FourierArithmetic[Array], each: Pass, x: Complex[Array], w: Complex[Array]) -> Complex[Array]:
    """One pass over arrays [..., n]; w are its roots [m, r − 1]."""
    r, m, s = each.radix, each.m, each.s
    parts = [part.reshape(*part.shape[:-1], r, m, s) for part in x]
    y = butterfly(k, [(parts[0][..., j, :, :], parts[1][..., j, :, :]) for j in range(r)])
    if m > 1:
        y = turned(k, y, [(w[0][:, i, None], w[1][:, i, None]) for i in range(r - 1)])
    re, im = (np.stack([pair[part] for pair in y], -2).reshape(x[0].shape) for part in range(2))
    return re, im


def _row(found: Array, start: int, count: int) -> Complex[Array]:
    """The real and imaginary parts of constants in a table."""
    behind = start + count + PADDING
    return found[start : start + count], found[behind : behind + count]


def _passes(p: FourierPlan, x: Complex[Array]) -> Complex[Array]:
    k, constants = _Arrays(x[0].dtype), table(p.n, x[0].dtype)
    for each in p.passes:
        w = constants[each.start : each.start + each.roots]
        if each.m > 1:
            w = w.reshape(each.radix - 1, 2, each.m).transpose(2, 0, 1) if each.s == 1 else w.reshape(each.m, -1, 2)
            x = _run(k, each, x, (w[..., 0], w[..., 1]))
        else:
            x = _run(k, each, x, (w, w))
    return x


def _transform(x: Complex[Array]) -> Complex[Array]:
    """The forward transform of arrays [..., n]."""
    p, k = plan(x[0].shape[-1]), _Arrays(x[0].dtype)
    if not p.is_convolution:
        return _passes(p, x)
    constants = table(p.n, x[0].dtype)
    chirp = _row(constants, p.chirp, p.n)
    wide = np.zeros((2, *x[0].shape[:-1], p.passes_length), x[0].dtype)
    wide[0][..., : p.n], wide[1][..., : p.n] = times(k, x, chirp)
    product = times(k, _passes(p, (wide[0], wide[1])), _row(constants, p.filter, p.passes_length))
    im, re = _passes(p, (product[1], product[0]))
    return times(k, (re[..., : p.n], im[..., : p.n]), chirp)


def fft(x: Array, inverse: bool) -> Array:
    """The transform of pairs [..., n, 2]."""
    with np.errstate(all="ignore"):
        first, second = (1, 0) if inverse else (0, 1)
        found = _transform((x[..., first], x[..., second]))
        return np.stack([found[first], found[second]], -1)


def rfft(x: Array) -> Array:
    """The first n//2 + 1 pairs of the transform of real numbers [..., n]."""
    n = x.shape[-1]
    with np.errstate(all="ignore"):
        if n % 2:
            re, im = _transform((x, np.zeros_like(x)))
            found = np.stack([re, im], -1)[..., : n // 2 + 1, :]
            found[..., 0, 1] = 0
            return found
        re, im = _transform((x[..., ::2], x[..., 1::2]))
        re, im = (np.concatenate([part, part[..., :1]], -1) for part in (re, im))
        w = _row(table(n // 2, x.dtype), plan(n // 2).halves, n // 2 + 1)
        return np.stack(split(_Arrays(x.dtype), (re, im), (re[..., ::-1], im[..., ::-1]), w), -1)


def irfft(x: Array, n: int) -> Array:
    """The inverse of `rfft`, times n, for the n real numbers of pairs [..., n//2 + 1, 2]."""
    x = x.copy()
    x[..., 0, 1] = 0
    with np.errstate(all="ignore"):
        if n % 2:
            rest = x[..., :0:-1, :] * np.array([1, -1], x.dtype)
            return fft(np.concatenate([x, rest], -2), True)[..., 0]
        x[..., -1, 1] = 0
        re, im = x[..., 0], x[..., 1]
        w = _row(table(n // 2, x.dtype), plan(n // 2).halves, n // 2 + 1)
        pairs = np.stack(merged(_Arrays(x.dtype), (re, im), (re[..., ::-1], im[..., ::-1]), w), -1)[..., :-1, :]
        return fft(pairs, True).reshape(*x.shape[:-2], n)
