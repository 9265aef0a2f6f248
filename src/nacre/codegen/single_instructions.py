"""Single instructions of some machines that replace several on others, with the same bits.

They are selected by the function's instruction set.  NumPy arrays, and machines without such an instruction, use the
longer form of `kernel.elementary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.kernel.elementary.value import PICKED
from nacre.native.llvm_types import bits_of, lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def in_registers(f: Function, values: Sequence[Val], lanes: int, step: Callable[..., Val]) -> Val:
    """`step`, which takes registers of the given number of lanes, applied to longer or shorter vectors."""
    count = lanes_of(values[0].ty)
    if count == lanes:
        return step(*values)
    parts = [
        step(*(f.shuffle(v, Val("poison", v.ty), [min(k, count) for k in range(start, start + lanes)]) for v in values))
        for start in range(0, count, lanes)
    ]
    while len(parts) > 1:
        long = 2 * lanes_of(parts[0].ty)
        parts = [f.shuffle(a, b, range(long)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    (joined,) = parts
    return f.shuffle(joined, joined, range(count)) if lanes_of(joined.ty) > count else joined


def in_all_lanes(f: Function, intrinsic: str, a: Val, b: Val, *immediate: Val) -> Val:
    """An AVX-512 instruction of two operands in all lanes, with the default rounding."""
    isa = f.isa
    assert isa is not None
    scalar = scalar_of(a.ty)
    lanes = isa.lanes(scalar)
    name = f"llvm.{intrinsic}.{'ps' if scalar == 'float' else 'pd'}.{isa.vector_bits}"
    rest = [Val("zeroinitializer", vec(scalar, lanes)), Val("-1", f"i{lanes}"), Val("4", "i32")]

    def one(x: Val, y: Val) -> Val:
        """The instruction on one register of each."""
        return f.call(name, x.ty, [x, y, *immediate, *rest])

    return in_registers(f, [a, b], lanes, one)


def scaled(f: Function, x: Val, n: Val) -> Val | None:
    """x · 2^n for whole n, rounded once, as one instruction; None where there is none."""
    isa = f.isa
    if isa is None or not isa.scales or lanes_of(x.ty) == 1:
        return None
    return in_all_lanes(f, isa.scales, x, n)


def larger(f: Function, a: Val, b: Val, *, smaller: bool = False) -> Val | None:
    """The larger (or smaller) number, +0 above −0, any value if one is NaN; None where there is no such instruction."""
    isa = f.isa
    if isa is None or not isa.ranges or lanes_of(a.ty) == 1:
        return None
    return in_all_lanes(f, isa.ranges, a, b, Val("4" if smaller else "5", "i32"))


def pick(f: Function, table: Sequence[float], index: Val) -> Val | None:
    """table[index mod 16] in float32 for 32-bit indices, from registers; None where a machine cannot."""
    isa = f.isa
    if isa is None or lanes_of(index.ty) == 1:
        return None
    step = {"registers": _pick_of_register, "halves": _pick_of_halves, "bytes": _pick_of_bytes}[isa.table_lookup]

    def one(places: Val) -> Val:
        """The entries for one register of places."""
        return step(f, table, places)

    return in_registers(f, [index], isa.lanes("float"), one)


def _pick_of_register(f: Function, table: Sequence[float], index: Val) -> Val:
    return f.call("llvm.x86.avx512.permvar.sf.512", vec("float", PICKED), [f.vector("float", table), index])


def _pick_of_halves(f: Function, table: Sequence[float], index: Val) -> Val:
    half = PICKED // 2
    first, second = (
        f.call("llvm.x86.avx2.permps", vec("float", half), [f.vector("float", part), index])
        for part in (table[:half], table[half:])
    )
    high = f.icmp("slt", f.shl(index, bits_of(index.ty) - half.bit_length()), 0)
    return f.select(high, second, first)


def _pick_of_bytes(f: Function, table: Sequence[float], index: Val) -> Val:
    chars, count = vec("i8", 16), 4
    parts = [f.bitcast(f.vector("float", table[k : k + count]), chars) for k in range(0, PICKED, count)]
    places = f.add(f.mul(f.and_(index, PICKED - 1), 0x04040404), 0x03020100)
    found = f.call("llvm.aarch64.neon.tbl4.v16i8", chars, [*parts, f.bitcast(places, chars)])
    return f.bitcast(found, vec("float", count))
