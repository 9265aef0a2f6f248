"""Numbers with operators over an emitter's instructions, so that a function reads like mathematics.

A function written once is compiled by one emitter and evaluated by another, with the same bits.  A `Real` is a lane (or
vector) of float32 or float64, a `Whole` of integers, a `Truth` of conditions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nacre.base.dtypes import DType, bool_, float32, float64, int64
from nacre.base.records import dataclass
from nacre.kernel.elementary.emitter import Emitter, Value, bits_of, held

PICKED = 16  # entries of a table that lanes index


@dataclass(frozen=True)
class Format:
    """A binary floating-point format, and the tricks its layout allows."""

    dtype: DType
    fraction: int  # stored bits of the significand
    bias: int
    magic: float  # 1.5 · 2^fraction: adding it rounds to an integer, which is in the low bits

    @property
    def bits(self) -> int:
        """The number of bits."""
        return self.dtype.bits

    @property
    def magic_bits(self) -> int:
        """The bit pattern of `magic`."""
        return self.pattern(self.magic)

    def pattern(self, x: float) -> int:
        """The bit pattern of x rounded to this format."""
        if self.dtype is float32:
            return int(struct.unpack("<I", struct.pack("<f", x))[0])
        return int(struct.unpack("<Q", struct.pack("<d", x))[0])


FLOAT = Format(float32, 23, 127, 1.5 * 2.0**23)
DOUBLE = Format(float64, 52, 1023, 1.5 * 2.0**52)
FORMATS = {float32: FLOAT, float64: DOUBLE}


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A condition on each lane."""

    emitter: Emitter
    v: Value

    def with_other(self, name: str, other: Value) -> Truth:
        """The result of an instruction on this and another condition."""
        return Truth(self.emitter, self.emitter.emit(name, (self.v, other), bool_, bool_))

    def __and__(self, other: Truth) -> Truth:
        return self.with_other("and", other.v)

    def __or__(self, other: Truth) -> Truth:
        return self.with_other("or", other.v)

    def __xor__(self, other: Truth) -> Truth:
        return self.with_other("xor", other.v)

    def __invert__(self) -> Truth:
        return self.with_other("xor", self.emitter.constant(True, bool_, self.v))


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Integers; comparisons and `>>` are signed, arithmetic wraps."""

    emitter: Emitter
    v: Value
    dtype: DType  # the signed dtype of the same width

    def like(self, x: Whole | int) -> Value:
        """An integer operand, or a Python int as a constant of this value's type."""
        return x.v if isinstance(x, Whole) else self.emitter.constant(x, self.dtype, self.v)

    def constant(self, x: int) -> Whole:
        """The number x in this one's type."""
        return Whole(self.emitter, self.like(x), self.dtype)

    def with_other(self, name: str, o: Whole | int) -> Whole:
        """The result of an instruction on this and another integer."""
        return Whole(self.emitter, self.emitter.emit(name, (self.v, self.like(o)), self.dtype, self.dtype), self.dtype)

    def __add__(self, o: Whole | int) -> Whole:
        return self.with_other("add", o)

    def __sub__(self, o: Whole | int) -> Whole:
        return self.with_other("sub", o)

    def __mul__(self, o: Whole | int) -> Whole:
        return self.with_other("mul", o)

    def __and__(self, o: Whole | int) -> Whole:
        return self.with_other("and", o)

    def __or__(self, o: Whole | int) -> Whole:
        return self.with_other("or", o)

    def __xor__(self, o: Whole | int) -> Whole:
        return self.with_other("xor", o)

    def __lshift__(self, o: Whole | int) -> Whole:
        return self.with_other("shl", o)

    def __rshift__(self, o: Whole | int) -> Whole:
        return self.with_other("ashr", o)

    def lshr(self, o: Whole | int) -> Whole:
        """A logical shift right."""
        return self.with_other("lshr", o)

    def compare(self, predicate: str, o: Whole | int) -> Truth:
        """Whether this `predicate` o, a comparison instruction of integers."""
        return Truth(self.emitter, self.emitter.emit(predicate, (self.v, self.like(o)), self.dtype, bool_))

    def __lt__(self, o: Whole | int) -> Truth:
        return self.compare("slt", o)

    def __gt__(self, o: Whole | int) -> Truth:
        return self.compare("sgt", o)

    def equals(self, o: Whole | int) -> Truth:
        """Whether the integers are equal, per lane."""
        return self.compare("eq", o)

    def as_real(self, dtype: DType) -> Real:
        """These bits as a floating-point number."""
        return Real(self.emitter, self.emitter.emit("bitcast", (self.v,), self.dtype, dtype), dtype)

    def cast(self, name: str, dtype: DType) -> Whole:
        """`name` one of trunc, zext, sext."""
        dtype = held(dtype)
        if dtype is self.dtype:
            return self
        return Whole(self.emitter, self.emitter.emit(name, (self.v,), self.dtype, dtype), dtype)

    def to_real(self, name: str, dtype: DType) -> Real:
        """`name` one of sitofp, uitofp."""
        return Real(self.emitter, self.emitter.emit(name, (self.v,), self.dtype, dtype), dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """Floating-point numbers; comparisons are false for NaN."""

    emitter: Emitter
    v: Value
    dtype: DType

    @property
    def format(self) -> Format:
        """The floating-point format of the lanes."""
        return FORMATS[self.dtype]

    def like(self, x: Real | float) -> Value:
        """A float operand, or a Python float as a constant of this value's type."""
        return x.v if isinstance(x, Real) else self.emitter.constant(x, self.dtype, self.v)

    def constant(self, x: float) -> Real:
        """The number x in this one's type."""
        return Real(self.emitter, self.like(x), self.dtype)

    def apply(self, name: str, *operands: Value) -> Real:
        """The result of an instruction on operands of this type."""
        return Real(self.emitter, self.emitter.emit(name, operands, self.dtype, self.dtype), self.dtype)

    def __add__(self, o: Real | float) -> Real:
        return self.apply("fadd", self.v, self.like(o))

    def __radd__(self, o: float) -> Real:
        return self.apply("fadd", self.like(o), self.v)

    def __sub__(self, o: Real | float) -> Real:
        return self.apply("fsub", self.v, self.like(o))

    def __rsub__(self, o: float) -> Real:
        return self.apply("fsub", self.like(o), self.v)

    def __mul__(self, o: Real | float) -> Real:
        return self.apply("fmul", self.v, self.like(o))

    def __rmul__(self, o: float) -> Real:
        return self.apply("fmul", self.like(o), self.v)

    def __truediv__(self, o: Real | float) -> Real:
        return self.apply("fdiv", self.v, self.like(o))

    def __rtruediv__(self, o: float) -> Real:
        return self.apply("fdiv", self.like(o), self.v)

    def __neg__(self) -> Real:
        return self.apply("fneg", self.v)

    def __abs__(self) -> Real:
        return self.apply("fabs", self.v)

    def compare(self, predicate: str, o: Real | float) -> Truth:
        """Whether this `predicate` o, a comparison instruction of floats."""
        return Truth(self.emitter, self.emitter.emit(predicate, (self.v, self.like(o)), self.dtype, bool_))

    def __lt__(self, o: Real | float) -> Truth:
        return self.compare("olt", o)

    def __le__(self, o: Real | float) -> Truth:
        return self.compare("ole", o)

    def __gt__(self, o: Real | float) -> Truth:
        return self.compare("ogt", o)

    def __ge__(self, o: Real | float) -> Truth:
        return self.compare("oge", o)

    def equals(self, o: Real | float) -> Truth:
        """Whether the floats are equal, per lane; false for NaN."""
        return self.compare("oeq", o)

    def is_nan(self) -> Truth:
        """Whether this is NaN, per lane."""
        return self.compare("uno", self)

    def is_negative(self) -> Truth:
        """Whether the sign bit is set (so also for −0)."""
        return self.as_whole() < 0

    def unary(self, name: str) -> Real:
        """One of the instructions fabs, sqrt, floor, ceil, ftrunc, roundeven."""
        return self.apply(name, self.v)

    def with_sign_of(self, o: Real) -> Real:
        """This magnitude with the sign of o."""
        return self.apply("copysign", self.v, o.v)

    def as_whole(self) -> Whole:
        """The bit pattern."""
        dtype = bits_of(self.dtype)
        return Whole(self.emitter, self.emitter.emit("bitcast", (self.v,), self.dtype, dtype), dtype)

    def cast(self, name: str, dtype: DType) -> Real:
        """`name` one of fptrunc, fpext."""
        return Real(self.emitter, self.emitter.emit(name, (self.v,), self.dtype, dtype), dtype)

    def to_whole(self, name: str, dtype: DType) -> Whole:
        """`name` one of fptosi, fptoui, fptosi_sat, fptoui_sat."""
        dtype = held(dtype)
        return Whole(self.emitter, self.emitter.emit(name, (self.v,), self.dtype, dtype), dtype)


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a · b + c, rounded once."""
    return a.apply("fma", a.v, a.like(b), a.like(c))


Number = TypeVar("Number", Real, Whole)


def where(cond: Truth, yes: Number | float, no: Number | float) -> Number:
    """`yes` in the lanes where the condition holds, else `no`; at most one is a plain number."""
    model: Any = no if isinstance(yes, (int, float)) else yes
    operands = (cond.v, model.like(yes), model.like(no))
    return type(model)(cond.emitter, cond.emitter.emit("select", operands, model.dtype, model.dtype), model.dtype)


def at_most(x: Real, bound: float) -> Real:
    """The smaller of x and a bound; NaN stays NaN."""
    return where(x > bound, bound, x)


def at_least(x: Real, bound: float) -> Real:
    """The larger of x and a bound; NaN stays NaN."""
    return where(x < bound, bound, x)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c0 + x (c1 + x (c2 + …)) by Horner's rule, an fma for each step."""
    *rest, last = coefficients
    result = x.constant(last)
    for c in reversed(rest):
        result = fma(result, x, c)
    return result


def power_of_two(k: Whole, fmt: Format) -> Real:
    """2^k, if it is a normal number."""
    return ((k + fmt.bias) << fmt.fraction).as_real(fmt.dtype)


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b and its rounding error, if |a| ≥ |b| (Dekker)."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Real, b: Real) -> tuple[Real, Real]:
    """a · b and its rounding error."""
    p = a * b
    return p, fma(a, b, -p)


def rarely(cond: Truth, fast: Sequence[Any], slow: Callable[[], Sequence[Any]]) -> list[Any]:
    """`slow()` in the lanes where the condition holds, else `fast`; in compiled code, a branch skips it."""

    def found() -> list[Value]:
        """The operands of the slow path."""
        return [s.v for s in slow()]

    values = cond.emitter.rarely(cond.v, [f.v for f in fast], found, [f.dtype for f in fast])
    return [type(f)(f.emitter, v, f.dtype) for f, v in zip(fast, values, strict=True)]


def repeat(count: int, values: Sequence[Real], step: Callable[..., Sequence[Real]]) -> list[Real]:
    """`values` after `count` iterations of `values = step(*values)`; in compiled code, a loop."""
    emitter, dtypes = values[0].emitter, [x.dtype for x in values]

    def round_of(*operands: Value) -> list[Value]:
        """The operands after an iteration."""
        return [x.v for x in step(*(Real(emitter, v, d) for v, d in zip(operands, dtypes, strict=True)))]

    found = emitter.repeat(count, [x.v for x in values], round_of, dtypes)
    return [Real(emitter, v, d) for v, d in zip(found, dtypes, strict=True)]


def lookup(name: str, table: Sequence[float], index: Whole) -> Real:
    """The float64 numbers table[index] for int64 indices."""
    return Real(index.emitter, index.emitter.lookup(name, table, index.v), float64)


def pick(name: str, table: Sequence[float], index: Whole) -> Real:
    """table[index mod 16] in float32 for int32 indices."""
    at_once = index.emitter.pick(table, index.v)
    if at_once is not None:
        return Real(index.emitter, at_once, float32)
    return lookup(name, table, (index & PICKED - 1).cast("zext", int64)).cast("fptrunc", float32)
