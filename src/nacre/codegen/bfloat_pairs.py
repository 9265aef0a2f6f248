"""Pairs of bfloat16 in one 32-bit element, and the packed dot instruction that multiplies them and adds to a sum.

The instruction computes two fused multiply-adds, the upper half's first, so the upper half has the earlier number.  A
chain's bits are those of single multiply-adds, except that the instruction flushes subnormal numbers and sums to zero.
All sums are multiples of the product of the factors' last places, so large enough least exponents rule subnormals out
(`are_normal`).  Otherwise kernels multiply both halves apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.native.isa import Isa
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function

MINUS_ZERO = 0x8000  # of bfloat16
INFINITY = 0x7F80
APART = "_apart"  # ends the names of functions that multiply the halves of pairs apart
NORMAL = 142  # least sum of two factors' biased exponents for which no sum of products is subnormal


def multiply_pairs(f: Function, isa: Isa, a: Val, b: Val, c: Val) -> Val:
    """c plus the products of both halves, by the instruction."""
    pairs = [f.bitcast(pair, vec("bfloat", 2 * lanes_of(c.ty))) for pair in (a, b)]
    return f.call(f"llvm.{isa.halves}", c.ty, [c, *pairs])


def multiply_halves(f: Function, a: Val, b: Val, c: Val) -> Val:
    """The same by two multiply-adds, for all numbers."""
    for first, second in zip(halves(f, a), halves(f, b), strict=True):
        c = f.fma(first, second, c)
    return c


def call_exact(f: Function, normal: Val | None, name: str, arguments: Sequence[Val]) -> None:
    """Call a function of products, or where pairs are not `normal`, the one that multiplies their halves apart."""
    if normal is None:  # no pairs
        f.call(name, "void", arguments)
        return
    with f.when(normal):
        f.call(name, "void", arguments)
    with f.when(f.xor(normal, f.const("i1", True))):
        f.call(name + APART, "void", arguments)


def halves(f: Function, pair: Val) -> tuple[Val, Val]:
    """Both bfloat16 of a pair as float32, the upper one first."""
    raw = f.bitcast(pair, vec("i32", lanes_of(pair.ty)))
    upper, lower = f.and_(raw, f.const(raw.ty, -65536)), f.shl(raw, f.const(raw.ty, 16))
    return f.bitcast(upper, pair.ty), f.bitcast(lower, pair.ty)


def pairs_of(f: Function, earlier: Val, later: Val) -> Val:
    """Pairs of two vectors of bfloat16, which are integers."""
    upper, lower = f.cast("zext", earlier, "i32"), f.cast("zext", later, "i32")
    return f.or_(f.shl(upper, f.const(upper.ty, 16)), lower)


def swapped(f: Function, pairs: Val) -> Val:
    """Pairs (i32) whose halves are exchanged: of two neighbours in memory, the earlier one is the lower half."""
    return f.or_(f.shl(pairs, f.const(pairs.ty, 16)), f.lshr(pairs, f.const(pairs.ty, 16)))


def round_to_bfloat(f: Function, value: Val) -> Val:
    """Round to nearest even on the bits; the hardware instruction would flush subnormals."""
    lanes = lanes_of(value.ty)
    raw = f.bitcast(value, vec("i32", lanes))
    ty = raw.ty
    odd = f.and_(f.lshr(raw, f.const(ty, 16)), f.const(ty, 1))
    rounded = f.lshr(f.add(f.add(raw, odd), f.const(ty, 0x7FFF)), f.const(ty, 16))
    quiet = f.or_(f.lshr(raw, f.const(ty, 16)), f.const(ty, 0x40))
    bits = f.select(f.fcmp("uno", value, value), quiet, rounded)
    return f.bitcast(f.cast("trunc", bits, "i16"), vec("bfloat", lanes))


# ---- the least magnitude: the least |x| without zeros, as an integer less one


def no_least(f: Function, lanes: int) -> list[Val]:
    """The least magnitudes in vectors of pairs, before any pair."""
    return [f.const(vec("i16", 2 * lanes), -1)]


def lesser(f: Function, minima: Sequence[Val], packed: Val) -> list[Val]:
    """The least magnitudes after another vector of pairs."""
    if not minima:
        return []
    ty = minima[0].ty
    size = f.and_(f.bitcast(packed, ty), f.const(ty, 0x7FFF))
    return [f.minmax("umin", minima[0], f.add(size, f.const(ty, -1)))]


def least_of(f: Function, minima: Val) -> Val:
    """The least of the magnitudes in a vector, as i64."""
    return f.cast("zext", f.intrinsic("vector.reduce.umin", "i16", [minima], overload=[minima.ty]), "i64")


def are_normal(f: Function, least_a: Val, least_b: Val) -> Val:
    """Whether factors of two least magnitudes have neither subnormal products nor subnormal sums of them."""
    a, b = (f.lshr(least, 7) for least in (least_a, least_b))
    normal = f.and_(f.icmp("ne", a, 0), f.icmp("ne", b, 0))
    return f.and_(normal, f.icmp("sge", f.add(a, b), NORMAL))
