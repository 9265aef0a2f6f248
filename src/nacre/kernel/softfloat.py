# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Arithmetic on NumPy arrays to the bit: fused multiply-add, bfloat16, minimum and maximum.

`Arrays` offers the instruction methods of the LLVM text builder on NumPy arrays, so that a function
written once against those methods can be run here, as an oracle, and compiled there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from nacre.base.conversion import element
from nacre.base.dtypes import FLOATS_BY_LLVM
from nacre.base.records import dataclass

Array = npt.NDArray[Any]
F64 = np.float64

SPLIT = F64(2.0**27 + 1)  # Veltkamp's constant: halves a significand of 53 bits
SAFE_LOW, SAFE_HIGH = 2.0**-900, 2.0**900  # where no intermediate of `fma` under- or overflows


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error, exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a · b and its rounding error, exactly (Dekker), where nothing over- or underflows."""
    p = a * b
    ta, tb = SPLIT * a, SPLIT * b
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64 rounded to odd: if inexact, to the neighbour whose last bit is set."""
    s, e = two_sum(a, b)
    bits = s.view(np.int64)
    away = (s > 0) == (e > 0)  # the exact sum lies farther from zero than s
    neighbour = np.where(away, bits + 1, bits - 1)
    odd = np.where((e != 0) & (bits & 1 == 0), neighbour, bits)
    return odd.view(F64)


def fma(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Array:
    """a · b + c rounded once, for float32 or float64 arrays of one dtype (broadcasting)."""
    x, y, z = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return fma32(x, y, z)
        return fma64(x, y, z)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in float64; a sum rounded to odd there rounds correctly once more."""
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    plain = product + addend
    exact = np.isfinite(product) & np.isfinite(addend) & (plain != 0)
    one = F64(1)
    odd = add_to_odd(np.where(exact, product, one), np.where(exact, addend, one))
    return np.where(exact, odd, plain).astype(np.float32)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm where exponents are moderate, integers elsewhere."""
    finite_product = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite_product & np.isinf(c), c, a * b + c)  # a · b itself may overflow
    size_p, size_c = np.abs(a * b), np.abs(c)
    low = np.minimum(np.abs(a), np.abs(b))
    high = np.maximum(np.abs(a), np.abs(b))
    finite = finite_product & np.isfinite(c)
    trivial = ~finite | (a == 0) | (b == 0)
    safe = (size_p > SAFE_LOW) & (size_p < SAFE_HIGH) & (low > SAFE_LOW) & (high < SAFE_HIGH)
    safe &= (size_c < SAFE_HIGH) & ((size_c > SAFE_LOW) | (c == 0)) & ~trivial
    one = F64(1)
    x, y, z = (np.where(safe, v, one) for v in (a, b, c))
    ph, pl = two_product(x, y)
    uh, ul = two_sum(z, pl)
    th, tl = two_sum(ph, uh)
    result = np.where(safe, th + add_to_odd(tl, ul), plain)
    result = np.atleast_1d(result)
    rest = np.atleast_1d(~safe & ~trivial)
    if rest.any():
        flat = (np.atleast_1d(v)[rest].tolist() for v in (a, b, c))
        result[rest] = [fma_integer(*operands) for operands in zip(*flat, strict=True)]
    return result.reshape(plain.shape)


def fma_integer(a: float, b: float, c: float) -> float:
    """a · b + c for finite Python floats, by integers; a zero result has IEEE's sign."""
    (na, da), (nb, db), (nc, dc) = (v.as_integer_ratio() for v in (a, b, c))
    scale = max((da * db).bit_length(), dc.bit_length()) - 1  # denominators are powers of two
    total = (na * nb << scale - (da * db).bit_length() + 1) + (nc << scale - dc.bit_length() + 1)
    return ldexp_integer(total, -scale) if total else a * b + c


def ldexp_integer(n: int, exponent: int) -> float:
    """n · 2^exponent rounded to nearest, ties to even, with overflow to infinity."""
    sign, n = (-1.0, -n) if n < 0 else (1.0, n)
    drop = max(n.bit_length() - 53, -1074 - exponent)
    if drop > 0:
        kept, rest, half = n >> drop, n & ((1 << drop) - 1), 1 << (drop - 1)
        n, exponent = kept + (rest > half or (rest == half and kept & 1 == 1)), exponent + drop
    try:
        return math.ldexp(sign * n, exponent)
    except OverflowError:
        return sign * math.inf


def round_to_bfloat16(x: npt.ArrayLike) -> Array:
    """float32 to the nearest bfloat16, ties to even, as its 16 bits; a NaN stays a (quiet) NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)


def minimum(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """IEEE 754-2019 minimum: a NaN wins, and −0 is less than +0."""
    x, y = np.asarray(a), np.asarray(b)
    smaller = np.where((x < y) | ((x == y) & np.signbit(x)), x, y)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, smaller))


def maximum(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """IEEE 754-2019 maximum: a NaN wins, and +0 is greater than −0."""
    x, y = np.asarray(a), np.asarray(b)
    larger = np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, larger))


# ---- the instruction methods of the LLVM text builder, on arrays

NUMPY: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    "half": np.dtype(np.float16),
    "bfloat": np.dtype(ml_dtypes.bfloat16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip

UNARY: dict[str, Callable[[Array], Array]] = {
    "fabs": np.abs, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.rint,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """An array with the LLVM type of one of its elements; integers are held as signed ones."""

    array: Array
    ty: str


def unsigned(array: Array) -> Array:
    """The same bits as unsigned integers."""
    return array.view(np.dtype(f"uint{8 * array.dtype.itemsize}"))


class Arrays:
    """Evaluates instructions on NumPy arrays; the methods are those of `native.text.Function`."""

    def lanes(self, array: npt.ArrayLike) -> Lanes:
        """An operand from an array of bool, integers or floating point."""
        a = np.asarray(array)
        if issubclass(a.dtype.type, np.unsignedinteger):
            a = a.view(np.dtype(f"int{8 * a.dtype.itemsize}"))
        return Lanes(a, next(name for name, dtype in NUMPY.items() if dtype == a.dtype))

    def const(self, ty: str, value: float | int | bool) -> Lanes:
        """A constant of the LLVM type `ty`; bit patterns may be given unsigned."""
        dtype = NUMPY[ty]
        if issubclass(dtype.type, np.signedinteger):  # bit patterns may be given unsigned
            half = 1 << (8 * dtype.itemsize - 1)
            value = (int(value) + half) % (2 * half) - half
        if ty in FLOATS_BY_LLVM:
            return Lanes(element(float(value), FLOATS_BY_LLVM[ty]), ty)
        return Lanes(np.asarray(value).astype(dtype), ty)

    def apply(self, function: Callable[..., Any], *args: Lanes, ty: str | None = None) -> Lanes:
        """A NumPy function of operands, its result in the given type (default: the first's)."""
        ty = ty or args[0].ty
        with np.errstate(all="ignore"):
            return Lanes(np.asarray(function(*(a.array for a in args))).astype(NUMPY[ty]), ty)

    def binary(self, op: str, a: Lanes, b: Lanes) -> Lanes:
        """Integer division and remainder (`sdiv udiv srem urem`), truncating."""
        signed = op[0] == "s"

        def divide(x: Array, y: Array) -> Array:
            """The quotient truncated towards zero, or its remainder with the dividend's sign."""
            x, y = (x, y) if signed else (unsigned(x), unsigned(y))
            remainder = np.fmod(x, y)
            return remainder if op.endswith("rem") else (x - remainder) // y

        return self.apply(divide, a, b)

    def add(self, a: Lanes, b: Lanes) -> Lanes:
        """a + b of integers, wrapping."""
        return self.apply(np.add, a, b)

    def sub(self, a: Lanes, b: Lanes) -> Lanes:
        """a - b of integers, wrapping."""
        return self.apply(np.subtract, a, b)

    def mul(self, a: Lanes, b: Lanes) -> Lanes:
        """a * b of integers, wrapping."""
        return self.apply(np.multiply, a, b)

    def and_(self, a: Lanes, b: Lanes) -> Lanes:
        """Bitwise and."""
        return self.apply(np.bitwise_and, a, b)

    def or_(self, a: Lanes, b: Lanes) -> Lanes:
        """Bitwise or."""
        return self.apply(np.bitwise_or, a, b)

    def xor(self, a: Lanes, b: Lanes) -> Lanes:
        """Bitwise exclusive or."""
        return self.apply(np.bitwise_xor, a, b)

    def shl(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift left."""
        return self.apply(np.left_shift, a, b)

    def ashr(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift right, copies of the sign coming in."""
        return self.apply(np.right_shift, a, b)

    def lshr(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift right, zeros coming in."""
        return self.apply(lambda x, y: np.right_shift(unsigned(x), unsigned(y)), a, b)

    def fadd(self, a: Lanes, b: Lanes) -> Lanes:
        """a + b of floats, rounded once."""
        return self.apply(np.add, a, b)

    def fsub(self, a: Lanes, b: Lanes) -> Lanes:
        """a - b of floats, rounded once."""
        return self.apply(np.subtract, a, b)

    def fmul(self, a: Lanes, b: Lanes) -> Lanes:
        """a * b of floats, rounded once."""
        return self.apply(np.multiply, a, b)

    def fdiv(self, a: Lanes, b: Lanes) -> Lanes:
        """a / b of floats, rounded once."""
        return self.apply(np.divide, a, b)

    def fneg(self, a: Lanes) -> Lanes:
        """-a of floats."""
        return self.apply(np.negative, a)

    def fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """a * b + c of floats, rounded once."""
        return self.apply(fma, a, b, c)

    def icmp(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        """Whether a `predicate` b of integers."""
        compare = COMPARE[predicate.lstrip("su")]
        if predicate[0] == "u":
            return self.apply(lambda x, y: compare(unsigned(x), unsigned(y)), a, b, ty="i1")
        return self.apply(compare, a, b, ty="i1")

    def fcmp(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        """Predicates begin with o (false for NaN) or u (true for NaN)."""

        def unordered(x: Array, y: Array) -> Array:
            """Whether either is NaN."""
            return np.isnan(x) | np.isnan(y)

        if predicate in ("uno", "ord"):
            return self.apply(lambda x, y: unordered(x, y) == (predicate == "uno"), a, b, ty="i1")
        compare = COMPARE[predicate[1:]]
        if predicate[0] == "u":
            return self.apply(lambda x, y: compare(x, y) | unordered(x, y), a, b, ty="i1")
        return self.apply(lambda x, y: compare(x, y) & ~unordered(x, y), a, b, ty="i1")

    def select(self, cond: Lanes, yes: Lanes, no: Lanes) -> Lanes:
        """`yes` where the condition holds, else `no`."""
        return Lanes(np.where(cond.array, yes.array, no.array), yes.ty)

    def cast(self, op: str, a: Lanes, scalar: str) -> Lanes:
        """`op` one of trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp."""
        if a.ty == scalar:
            return a
        x, dtype = a.array, NUMPY[scalar]
        if op in ("zext", "uitofp") and a.ty != "i1":
            x = unsigned(x)
        elif op in ("sext", "sitofp") and a.ty == "i1":
            x = -x.astype(np.int8)
        with np.errstate(all="ignore"):
            if op in ("trunc", "zext", "fptoui") and issubclass(dtype.type, np.signedinteger):
                wide = x.astype(np.uint64 if op == "fptoui" else x.dtype)
                return Lanes(wide.astype(np.dtype(f"uint{8 * dtype.itemsize}")).view(dtype), scalar)
            return Lanes(x.astype(dtype), scalar)

    def bitcast(self, a: Lanes, ty: str) -> Lanes:
        """The bits read as a type of the same width."""
        return Lanes(np.ascontiguousarray(a.array).view(NUMPY[ty]).reshape(a.array.shape), ty)

    def intrinsic(self, name: str, ret: str, args: Sequence[Lanes], *, overload: Sequence[str] | None = None) -> Lanes:
        """fabs sqrt floor ceil trunc roundeven copysign, fma, and saturating fptosi and fptoui."""
        if name in UNARY:
            return self.apply(UNARY[name], args[0])
        if name == "copysign":
            return self.apply(np.copysign, *args)
        if name == "fma":
            return self.fma(*args)
        if name in ("fptosi.sat", "fptoui.sat"):
            return self.saturate(args[0], ret, signed=name == "fptosi.sat")
        raise KeyError(name)

    def saturate(self, a: Lanes, scalar: str, *, signed: bool) -> Lanes:
        """Floating point to integers toward zero; out of range gives the nearest end, NaN 0."""
        bits = 8 * NUMPY[scalar].itemsize
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        with np.errstate(all="ignore"):
            x = a.array.astype(F64)
        inside = (x > low - 1.0 if bits < 64 else x >= low) & (x < float(high + 1))
        with np.errstate(all="ignore"):
            kind = np.int64 if signed else np.uint64
            whole = np.where(inside, x, 0).astype(kind)
        ends = np.where(np.isnan(x), kind(0), np.where(x < 0, kind(low), kind(high)))
        result = np.where(inside, whole, ends)
        narrow = result.astype(np.dtype(f"{'' if signed else 'u'}int{bits}"))
        return Lanes(narrow.view(NUMPY[scalar]), scalar)

    def lookup(self, table: Sequence[float], index: Lanes) -> Lanes:
        """The doubles table[index]."""
        return Lanes(np.asarray(table, F64)[index.array], "double")
