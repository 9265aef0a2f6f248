"""Numbers in definitions: operators write real operations of the kernel IR, one `Let` for each."""

from __future__ import annotations

from typing import NamedTuple

from nacre.base.dtypes import DType, float64, int64
from nacre.base.records import dataclass
from nacre.kernel.ast import Apply, Expr, apply, cast, const
from nacre.kernel.complex.pairs import LetBlock, Pair


@dataclass(frozen=True, slots=True, eq=False)
class RealTerm:
    """A real number, an integer or a condition, which is a constant or bound by a `Let` of the block."""

    block: LetBlock
    expr: Expr

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.expr.dtype

    def bound(self, value: Expr) -> RealTerm:
        """An expression as a term of the same block."""
        return RealTerm(self.block, self.block.let(value))

    def constant(self, value: float) -> RealTerm:
        """A number of this dtype."""
        return RealTerm(self.block, const(value, self.dtype))

    def number(self, value: float) -> RealTerm:
        """A number of float64."""
        return RealTerm(self.block, const(value, float64))

    def term(self, value: RealTerm | float) -> RealTerm:
        """A number as a term of this dtype; a term itself."""
        return value if isinstance(value, RealTerm) else self.constant(value)

    def call(self, op: str, *others: RealTerm | float) -> RealTerm:
        """An operation of the kernel IR on this term and others."""
        return self.bound(apply(op, self.expr, *(self.term(o).expr for o in others)))

    def to(self, dtype: DType) -> RealTerm:
        """The number converted."""
        return self.bound(cast(self.expr, dtype))

    def bits(self, dtype: DType) -> RealTerm:
        """The bits as another dtype of the same width."""
        return self.bound(Apply("bitcast", (self.expr,), dtype))

    def __add__(self, other: RealTerm | float) -> RealTerm:
        return self.call("add", other)

    def __radd__(self, other: float) -> RealTerm:
        return self.constant(other).call("add", self)

    def __sub__(self, other: RealTerm | float) -> RealTerm:
        return self.call("sub", other)

    def __rsub__(self, other: float) -> RealTerm:
        return self.constant(other).call("sub", self)

    def __mul__(self, other: RealTerm | float) -> RealTerm:
        return self.call("mul", other)

    def __rmul__(self, other: float) -> RealTerm:
        return self.constant(other).call("mul", self)

    def __truediv__(self, other: RealTerm | float) -> RealTerm:
        return self.call("div", other)

    def __rtruediv__(self, other: float) -> RealTerm:
        return self.constant(other).call("div", self)

    def __neg__(self) -> RealTerm:
        return self.call("neg")

    def __abs__(self) -> RealTerm:
        return self.call("abs")

    def __lt__(self, other: RealTerm | float) -> RealTerm:
        return self.call("lt", other)

    def __le__(self, other: RealTerm | float) -> RealTerm:
        return self.call("le", other)

    def __gt__(self, other: RealTerm | float) -> RealTerm:
        return self.call("gt", other)

    def __ge__(self, other: RealTerm | float) -> RealTerm:
        return self.call("ge", other)

    def __and__(self, other: RealTerm | int) -> RealTerm:
        return self.call("and", other)

    def __or__(self, other: RealTerm | int) -> RealTerm:
        return self.call("or", other)

    def __invert__(self) -> RealTerm:
        return self.call("not")

    def __rshift__(self, other: int) -> RealTerm:
        return self.call("shr", other)

    def __lshift__(self, other: int) -> RealTerm:
        return self.call("shl", other)

    def equals(self, other: RealTerm | float) -> RealTerm:
        """Whether the numbers are equal; zeros of different signs are."""
        return self.call("eq", other)

    def is_nan(self) -> RealTerm:
        """Whether it is NaN."""
        return self.call("isnan")

    def is_infinite(self) -> RealTerm:
        """Whether it is an infinity."""
        return self.call("isinf")

    def is_finite(self) -> RealTerm:
        """Whether it is neither an infinity nor NaN."""
        return self.call("isfinite")

    def with_sign_of(self, other: RealTerm) -> RealTerm:
        """This magnitude with the sign of another number; the sign of NaN counts as +."""
        return self.call("copysign", where(other.is_nan(), 0.0, other))


class ComplexTerm(NamedTuple):
    """A complex number: two real terms."""

    re: RealTerm
    im: RealTerm

    @property
    def dtype(self) -> DType:
        """The element type of the parts."""
        return self.re.dtype

    def to(self, dtype: DType) -> ComplexTerm:
        """Both parts converted."""
        return ComplexTerm(self.re.to(dtype), self.im.to(dtype))

    def wide(self) -> ComplexTerm:
        """The same number in float64."""
        return self.to(float64)

    def swapped(self) -> ComplexTerm:
        """im + i re, which is i times the conjugate."""
        return ComplexTerm(self.im, self.re)

    def pair(self) -> Pair:
        """The parts as expressions."""
        return Pair(self.re.expr, self.im.expr)

    def is_zero(self) -> RealTerm:
        """Whether both parts are zeros."""
        return self.re.equals(0.0) & self.im.equals(0.0)

    def is_infinite(self) -> RealTerm:
        """Whether a part is an infinity; the other may be NaN."""
        return self.re.is_infinite() | self.im.is_infinite()

    def is_nan(self) -> RealTerm:
        """Whether a part is NaN."""
        return self.re.is_nan() | self.im.is_nan()


def where(condition: RealTerm, x: RealTerm | float, y: RealTerm | float) -> RealTerm:
    """x where the condition holds, else y; of float64 if neither is a term."""
    like = x if isinstance(x, RealTerm) else y if isinstance(y, RealTerm) else condition.number(x)
    return condition.bound(apply("select", condition.expr, like.term(x).expr, like.term(y).expr))


def choose(condition: RealTerm, x: ComplexTerm, y: ComplexTerm) -> ComplexTerm:
    """x where the condition holds, else y."""
    return ComplexTerm(where(condition, x.re, y.re), where(condition, x.im, y.im))


def fma(a: RealTerm, b: RealTerm | float, c: RealTerm | float) -> RealTerm:
    """a · b + c, rounded once."""
    return a.call("fma", b, c)


def larger(a: RealTerm, b: RealTerm) -> RealTerm:
    """The larger number; NaN if one is NaN."""
    return a.call("maximum", b)


# ---- numbers in two parts


class DoubleDouble(NamedTuple):
    """The sum of a number and its rounding error, or of two such numbers."""

    high: RealTerm
    low: RealTerm


def two_sum(a: RealTerm, b: RealTerm | float) -> DoubleDouble:
    """a + b and its rounding error (Knuth)."""
    b = a.term(b)
    s = a + b
    t = s - a
    return DoubleDouble(s, (a - (s - t)) + (b - t))


def two_product(a: RealTerm, b: RealTerm | float) -> DoubleDouble:
    """a · b and its rounding error."""
    p = a * b
    return DoubleDouble(p, fma(a, b, -p))


def product_sum(a: RealTerm, b: RealTerm, c: RealTerm, d: RealTerm) -> RealTerm:
    """a · b + c · d within 1.5 ulp (Kahan); an exact sum has the sign of zero of the plain expression."""
    p = c * d
    return fma(a, b, p) - fma(-c, d, p)


# ---- powers of two


FRACTION = 52  # bits of float64's fraction
EXPONENT = 0x7FF << FRACTION  # the bits of float64's exponent
BIAS = 1023


def exponent_bits(x: RealTerm) -> RealTerm:
    """The biased exponent of float64 in its place among the bits; subnormal numbers have 1."""
    return (x.bits(int64) & EXPONENT).call("maximum", 1 << FRACTION)


def power_of_two(k: RealTerm) -> RealTerm:
    """2^k for an int64 k from -1022 to 1023."""
    return ((k + BIAS) << FRACTION).bits(float64)
