"""Powers of two with integer exponents, which an addition has rounded, and products with them."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.kernel.elementary.value import Real, Whole, fma


@dataclass(frozen=True, slots=True, eq=False)
class Exponent:
    """An integer exponent: as a number, and in the low bits of `bits`, which add twice the format's bias to it.

    Higher bits of `bits` are lost when it is shifted to a float's exponent.
    """

    number: Real
    bits: Whole

    def power(self, less: int = 0) -> Real:
        """2^(exponent − less), if it is a normal number."""
        fmt = self.number.format
        return ((self.bits - (fmt.bias + less)) << fmt.fraction).as_real(fmt.dtype)

    def times(self, x: Real, less: int = 0) -> Real:
        """x · 2^(exponent − less) for exponents up to twice the format's; subnormals are rounded once."""
        n = self.number - float(less) if less else self.number
        at_once = x.emitter.scaled(x.v, n.v, x.dtype)
        if at_once is not None:
            return Real(x.emitter, at_once, x.dtype)
        fmt, bits = x.format, self.bits - less if less else self.bits
        half = bits.lshr(1)
        first, second = ((b << fmt.fraction).as_real(fmt.dtype) for b in (half, bits - half))
        return x * first * second


def nearest_exponent(x: Real, scale: float) -> Exponent:
    """The integer nearest to x · scale (which is small)."""
    fmt = x.format
    magic = fmt.magic + 2 * fmt.bias
    shifted = fma(x, scale, magic)
    return Exponent(shifted - magic, shifted.as_whole())
