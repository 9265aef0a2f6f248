"""Numbers with operators over a backend's instructions, so that a function reads like mathematics.

A `Backend` is the LLVM text builder or NumPy arrays: what is written here once is compiled by the
one and evaluated by the other, to the same bits.  A `Real` is a lane (or vector) of float32 or
float64, a `Whole` of integers, a `Truth` of conditions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any, Protocol, TypeVar

from nacre.base.records import dataclass
from nacre.native.llvm_types import bits_of, lanes_of, scalar_of, vec
from nacre.native.text import Function, Val, literal

Value = Any  # a backend's operand; it has a `ty`, an LLVM type


class Backend(Protocol):
    """The instructions that elementary functions are written in."""

    def const(self, ty: str, value: float | int | bool) -> Value:
        """A constant of the LLVM type `ty`, in all lanes."""

    def add(self, a: Value, b: Value) -> Value:
        """a + b of integers, wrapping."""

    def sub(self, a: Value, b: Value) -> Value:
        """a - b of integers, wrapping."""

    def mul(self, a: Value, b: Value) -> Value:
        """a * b of integers, wrapping."""

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """The LLVM integer instruction `op` (sdiv, urem, ...) of two values."""

    def and_(self, a: Value, b: Value) -> Value:
        """Bitwise and."""

    def or_(self, a: Value, b: Value) -> Value:
        """Bitwise or."""

    def xor(self, a: Value, b: Value) -> Value:
        """Bitwise exclusive or."""

    def shl(self, a: Value, b: Value) -> Value:
        """Shift left."""

    def lshr(self, a: Value, b: Value) -> Value:
        """Shift right, zeros coming in."""

    def ashr(self, a: Value, b: Value) -> Value:
        """Shift right, copies of the sign coming in."""

    def fadd(self, a: Value, b: Value) -> Value:
        """a + b of floats, rounded once."""

    def fsub(self, a: Value, b: Value) -> Value:
        """a - b of floats, rounded once."""

    def fmul(self, a: Value, b: Value) -> Value:
        """a * b of floats, rounded once."""

    def fdiv(self, a: Value, b: Value) -> Value:
        """a / b of floats, rounded once."""

    def fneg(self, a: Value) -> Value:
        """-a of floats."""

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c of floats, rounded once."""

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Whether a `predicate` b of integers, i1 per lane."""

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Whether a `predicate` b of floats, i1 per lane."""

    def select(self, cond: Value, yes: Value, no: Value) -> Value:
        """`yes` where the condition holds, else `no`."""

    def cast(self, op: str, a: Value, scalar: str) -> Value:
        """The LLVM conversion `op` (zext, fptrunc, ...) to lanes of type `scalar`."""

    def bitcast(self, a: Value, ty: str) -> Value:
        """The bits read as a type of the same width."""

    def intrinsic(self, name: str, ret: str, args: Sequence[Value], *, overload: Sequence[str] | None = None) -> Value:
        """The LLVM intrinsic `name`, which returns type `ret`."""


@dataclass(frozen=True)
class Format:
    """A binary floating-point format, and the tricks its layout allows."""

    scalar: str
    bits: int
    fraction: int  # stored bits of the significand
    bias: int
    magic: float  # 1.5 · 2^fraction: adding it rounds to an integer, held in the low bits

    @property
    def magic_bits(self) -> int:
        """The bit pattern of `magic`."""
        return self.bits_of(self.magic)

    def bits_of(self, x: float) -> int:
        """The bit pattern of x rounded to this format."""
        if self.scalar == "float":
            return int(struct.unpack("<I", struct.pack("<f", x))[0])
        return int(struct.unpack("<Q", struct.pack("<d", x))[0])


FLOAT = Format("float", 32, 23, 127, 1.5 * 2.0**23)
DOUBLE = Format("double", 64, 52, 1023, 1.5 * 2.0**52)
FORMATS = {"float": FLOAT, "double": DOUBLE}


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A condition on each lane."""

    b: Backend
    v: Value

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.b, self.b.and_(self.v, other.v))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.b, self.b.or_(self.v, other.v))

    def __xor__(self, other: Truth) -> Truth:
        return Truth(self.b, self.b.xor(self.v, other.v))

    def __invert__(self) -> Truth:
        return Truth(self.b, self.b.xor(self.v, self.b.const(self.v.ty, True)))


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Integers; comparisons and `>>` are signed, arithmetic wraps."""

    b: Backend
    v: Value

    def like(self, x: Whole | int) -> Value:
        """An integer value, or a Python int as a constant of this value's type."""
        return x.v if isinstance(x, Whole) else self.b.const(self.v.ty, x)

    def __add__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.add(self.v, self.like(o)))

    def __sub__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.sub(self.v, self.like(o)))

    def __mul__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.mul(self.v, self.like(o)))

    def __and__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.and_(self.v, self.like(o)))

    def __or__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.or_(self.v, self.like(o)))

    def __xor__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.xor(self.v, self.like(o)))

    def __lshift__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.shl(self.v, self.like(o)))

    def __rshift__(self, o: Whole | int) -> Whole:
        return Whole(self.b, self.b.ashr(self.v, self.like(o)))

    def lshr(self, o: Whole | int) -> Whole:
        """A logical shift right."""
        return Whole(self.b, self.b.lshr(self.v, self.like(o)))

    def compare(self, predicate: str, o: Whole | int) -> Truth:
        """Whether this `predicate` o, an LLVM icmp predicate."""
        return Truth(self.b, self.b.icmp(predicate, self.v, self.like(o)))

    def __lt__(self, o: Whole | int) -> Truth:
        return self.compare("slt", o)

    def __gt__(self, o: Whole | int) -> Truth:
        return self.compare("sgt", o)

    def equals(self, o: Whole | int) -> Truth:
        """Whether the integers are equal, per lane."""
        return self.compare("eq", o)

    def as_real(self, scalar: str) -> Real:
        """These bits as a floating-point number."""
        return Real(self.b, self.b.bitcast(self.v, vec(scalar, lanes_of(self.v.ty))))

    def cast(self, op: str, scalar: str) -> Whole:
        """`op` one of trunc, zext, sext."""
        return Whole(self.b, self.b.cast(op, self.v, scalar))


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """Floating-point numbers; comparisons are false for NaN."""

    b: Backend
    v: Value

    @property
    def format(self) -> Format:
        """The floating-point format of the lanes."""
        return FORMATS[scalar_of(self.v.ty)]

    def like(self, x: Real | float) -> Value:
        """A float value, or a Python float as a constant of this value's type."""
        return x.v if isinstance(x, Real) else self.b.const(self.v.ty, x)

    def constant(self, x: float) -> Real:
        """The number x in this one's type."""
        return Real(self.b, self.like(x))

    def __add__(self, o: Real | float) -> Real:
        return Real(self.b, self.b.fadd(self.v, self.like(o)))

    def __radd__(self, o: float) -> Real:
        return Real(self.b, self.b.fadd(self.like(o), self.v))

    def __sub__(self, o: Real | float) -> Real:
        return Real(self.b, self.b.fsub(self.v, self.like(o)))

    def __rsub__(self, o: float) -> Real:
        return Real(self.b, self.b.fsub(self.like(o), self.v))

    def __mul__(self, o: Real | float) -> Real:
        return Real(self.b, self.b.fmul(self.v, self.like(o)))

    def __rmul__(self, o: float) -> Real:
        return Real(self.b, self.b.fmul(self.like(o), self.v))

    def __truediv__(self, o: Real | float) -> Real:
        return Real(self.b, self.b.fdiv(self.v, self.like(o)))

    def __rtruediv__(self, o: float) -> Real:
        return Real(self.b, self.b.fdiv(self.like(o), self.v))

    def __neg__(self) -> Real:
        return Real(self.b, self.b.fneg(self.v))

    def __abs__(self) -> Real:
        return self.unary("fabs")

    def compare(self, predicate: str, o: Real | float) -> Truth:
        """Whether this `predicate` o, an LLVM fcmp predicate."""
        return Truth(self.b, self.b.fcmp(predicate, self.v, self.like(o)))

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
        """One of the exact intrinsics fabs, sqrt, floor, ceil, trunc, roundeven."""
        return Real(self.b, self.b.intrinsic(name, self.v.ty, [self.v]))

    def with_sign_of(self, o: Real) -> Real:
        """This magnitude with the sign of o."""
        return Real(self.b, self.b.intrinsic("copysign", self.v.ty, [self.v, o.v]))

    def as_whole(self) -> Whole:
        """The bit pattern."""
        ty = vec(f"i{bits_of(self.v.ty)}", lanes_of(self.v.ty))
        return Whole(self.b, self.b.bitcast(self.v, ty))

    def cast(self, op: str, scalar: str) -> Real:
        """`op` one of fptrunc, fpext."""
        return Real(self.b, self.b.cast(op, self.v, scalar))


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a · b + c, rounded once."""
    return Real(a.b, a.b.fma(a.v, a.like(b), a.like(c)))


Number = TypeVar("Number", Real, Whole)


def where(cond: Truth, yes: Number | float, no: Number | float) -> Number:
    """`yes` in the lanes where the condition holds, else `no`; at most one is a plain number."""
    model: Any = no if isinstance(yes, (int, float)) else yes
    return type(model)(cond.b, cond.b.select(cond.v, model.like(yes), model.like(no)))


def at_most(x: Real, bound: float) -> Real:
    """The smaller of x and a bound; NaN stays NaN."""
    return where(x > bound, bound, x)


def at_least(x: Real, bound: float) -> Real:
    """The larger of x and a bound; NaN stays NaN."""
    return where(x < bound, bound, x)


def known(x: Real) -> float | None:
    """The number that generated code has in every lane; None where that is not a constant, or NaN."""
    text = x.v.text if isinstance(x.v, Val) else ""
    found = re.fullmatch(r"<?(?:\w+ )?0x([0-9A-F]{16})(?:, \w+ 0x\1)*>?", text)
    value: float = struct.unpack(">d", bytes.fromhex(found[1]))[0] if found else nan
    return None if isnan(value) else value


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c0 + x (c1 + x (c2 + …)) by Horner's rule, an fma for each step."""
    *rest, last = coefficients
    result = x.constant(last)
    for c in reversed(rest):
        result = fma(result, x, c)
    return result


def power_of_two(k: Whole, fmt: Format) -> Real:
    """2^k where that is a normal number."""
    return ((k + fmt.bias) << fmt.fraction).as_real(fmt.scalar)


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b and its rounding error where |a| ≥ |b| (Dekker)."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Real, b: Real) -> tuple[Real, Real]:
    """a · b and its rounding error."""
    p = a * b
    return p, fma(a, b, -p)


def rarely(cond: Truth, fast: Sequence[Any], slow: Callable[[], Sequence[Any]]) -> list[Any]:
    """`slow()` in the lanes where the condition holds, else `fast`; compiled, a branch skips it."""
    b = cond.b
    if not isinstance(b, Function):
        return [where(cond, s, f) for s, f in zip(slow(), fast, strict=True)]
    mask: Val = cond.v
    some = mask
    if lanes_of(mask.ty) > 1:
        some = b.intrinsic("vector.reduce.or", "i1", [mask], overload=[mask.ty])
    stem = b.fresh("rare")
    before = b.block
    b.branch(some, f"{stem}.slow", f"{stem}.done")
    b.label(f"{stem}.slow")
    found = [where(cond, s, f) for s, f in zip(slow(), fast, strict=True)]
    after = b.block
    b.jump(f"{stem}.done")
    b.label(f"{stem}.done")
    return [type(f)(b, b.phi(f.v.ty, [(f.v, before), (s.v, after)])) for s, f in zip(found, fast, strict=True)]


def repeat(count: int, values: Sequence[Real], step: Callable[..., Sequence[Real]]) -> list[Real]:
    """`values` after `count` rounds of `values = step(*values)`; compiled, a loop."""
    b: Any = values[0].b
    if isinstance(b, Function):
        with b.loop("repeat", 0, count, carry=[x.v for x in values]) as loop:
            loop.next(*(x.v for x in step(*(Real(b, v) for v in loop.carried))))
        return [Real(b, v) for v in loop.results]
    for _ in range(count):
        values = step(*values)
    return list(values)


def lookup(name: str, table: Sequence[float], index: Whole) -> Real:
    """The doubles table[index] for an i64 index."""
    b: Any = index.b
    if not isinstance(b, Function):
        return Real(b, b.lookup(table, index.v))
    text = ", ".join(f"double {literal('double', t)}" for t in table)
    base = b.module.constant(name, f"[{len(table)} x double]", f"[{text}]")
    lanes = lanes_of(index.v.ty)
    place = b.op(f"getelementptr double, {base}, {index.v}", vec("ptr", lanes), "p")
    ty = vec("double", lanes)
    if lanes == 1:
        return Real(b, b.load(place, ty))
    return Real(b, b.gather(place, b.const(vec("i1", lanes), True), ty))
