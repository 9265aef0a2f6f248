"""How the elements of a product are stored, widened, accumulated and rounded."""

from __future__ import annotations

from dataclasses import replace

from nacre.base.dtypes import REAL, DType, bfloat16, float32
from nacre.base.errors import DTypeError
from nacre.base.records import dataclass
from nacre.codegen.bfloat_pairs import multiply_halves, multiply_pairs, round_to_bfloat
from nacre.native.isa import Isa
from nacre.native.llvm_types import FLOATS, bits_of, lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function


@dataclass(frozen=True)
class Numbers:
    """The arithmetic of one element type on one instruction set.

    Factors are `dtype` in memory; products are accumulated as the LLVM scalar `wide`: float for float16, bfloat16 and
    float32, double for float64, i32 for integers up to 32 bits and i64 for the longest.  If the other factor needs a
    wider accumulator, both use that.  Packed factors are `wide` too, or 32-bit groups of neighbours in k
    (`packed_dot`).
    """

    isa: Isa
    dtype: DType
    wide: str
    group: int = 1  # numbers in an element of packed factors
    unpacks: bool = False  # whether groups are multiplied number by number

    @property
    def stored(self) -> str:
        return self.dtype.memory

    @property
    def widens(self) -> bool:
        """Whether packing converts factors to another type."""
        return self.stored != self.wide

    @property
    def rounds(self) -> bool:
        """Whether products and sums are floating point."""
        return self.wide in FLOATS

    @property
    def flushes(self) -> bool:
        """Whether the packed dot instruction flushes subnormal numbers to zero."""
        return self.group > 1 and self.rounds

    @property
    def offsets(self) -> bool:
        """Whether the numbers in groups of A are offset by 128, because the instruction needs one unsigned side."""
        return self.group == 4

    @property
    def lanes(self) -> int:
        return self.isa.lanes(self.wide)

    @property
    def vector(self) -> str:
        return self.isa.vector(self.wide)

    @property
    def bytes(self) -> int:
        """Bytes of one accumulated element."""
        return bits_of(self.wide) // 8

    @property
    def stored_bytes(self) -> int:
        return bits_of(self.stored) // 8

    @property
    def neutral(self) -> float | int:
        """The neutral element of addition."""
        return -0.0 if self.rounds else 0

    def part(self, name: str) -> str:
        """The symbol of a function that products of this type share; unique in a linked program."""
        wide = "" if self.wide == numbers(self.isa, self.dtype).wide else f"{self.wide}_"
        groups = "" if self.group == 1 else f"by{self.group}_{'apart_' if self.unpacks else ''}"
        return f"nacre_{self.isa.name}_{self.dtype.short}_{wide}{groups}{name}"

    def widen(self, f: Function, value: Val) -> Val:
        """Convert a stored value to the accumulator's type; always exact."""
        source = scalar_of(value.ty)
        if source == self.wide:
            return value
        if source == "bfloat":
            lanes = lanes_of(value.ty)
            raw = f.cast("zext", f.bitcast(value, vec("i16", lanes)), "i32")
            return f.bitcast(f.shl(raw, f.const(raw.ty, 16)), vec("float", lanes))
        if source == "half":
            return f.cast("fpext", value, self.wide)
        if self.wide == "float":
            return f.cast("sitofp" if self.dtype.is_signed else "uitofp", value, self.wide)
        return f.cast("sext" if self.dtype.is_signed else "zext", value, self.wide)

    def narrow(self, f: Function, value: Val, scalar: str) -> Val:
        """Round an accumulated value once to the LLVM scalar type; integers wrap."""
        if scalar == self.wide:
            return value
        if scalar == "bfloat":
            return round_to_bfloat(f, value)
        if scalar == "half":
            return f.cast("fptrunc", value, "half")
        shrinks = bits_of(scalar) < bits_of(self.wide)
        return f.cast("trunc" if shrinks else "sext" if self.dtype.is_signed else "zext", value, scalar)

    def multiply_add(self, f: Function, a: Val, b: Val, c: Val) -> Val:
        """a·b + c: rounded once for floating point, wrapping for integers."""
        return f.fma(a, b, c) if self.rounds else f.add(f.mul(a, b), c)

    def multiply_add_groups(self, f: Function, a: Val, b: Val, c: Val) -> Val:
        """The same for elements of packed factors, which may be groups of several numbers."""
        if self.group == 1:
            return self.multiply_add(f, a, b, c)
        if self.unpacks:
            return multiply_halves(f, a, b, c)
        if self.rounds:
            return multiply_pairs(f, self.isa, a, b, c)
        if self.group == 4:
            unsigned, signed = (a, b) if self.dtype.is_signed else (b, a)
            return f.call(f"llvm.{self.isa.fours}", self.vector, [c, unsigned, signed])
        pairs = [f.bitcast(pair, vec("i16", 2 * self.lanes)) for pair in (a, b)]
        return f.add(c, f.call(f"llvm.{self.isa.pairs}", self.vector, pairs))

    def add(self, f: Function, a: Val, b: Val) -> Val:
        return f.fadd(a, b) if self.rounds else f.add(a, b)


def numbers(isa: Isa, dtype: DType) -> Numbers:
    """The arithmetic of a dtype's products; DTypeError for bool, which has none."""
    if dtype.is_float:
        return Numbers(isa, dtype, "double" if dtype.bits == 64 else "float")
    if dtype.is_integer:
        return Numbers(isa, dtype, "i64" if dtype.bits == 64 else "i32")
    raise DTypeError(
        f"contract: the dtype must be floating-point or integer; got {dtype.name}; "
        "convert the operands first, as in `x.astype(nacre.int32)`"
    )


def grouped(plain: Numbers) -> Numbers:
    """The same with packed groups, where one packed dot instruction multiplies and adds them."""
    dtype, isa = plain.dtype, plain.isa
    if plain.wide == "float":
        return replace(plain, group=2) if dtype is bfloat16 and isa.halves else plain
    if plain.wide != "i32":
        return plain
    if dtype.bits == 8 and isa.fours:
        return replace(plain, group=4)
    short = dtype.bits <= (16 if dtype.is_signed else 8)
    return replace(plain, group=2) if short and isa.pairs else plain


def widened(isa: Isa, dtype: DType, narrow: DType) -> Numbers:
    """The arithmetic of a narrower dtype's elements as factors of another dtype; DTypeError unless that is exact."""
    if dtype is not float32 or narrow.bits > 16 or narrow not in REAL:
        raise DTypeError(
            f"contract: dtypes must be float32 and one of at most 16 bits that fits it; got {dtype.name} and "
            f"{narrow.name}; convert the operands first"
        )
    return Numbers(isa, narrow, numbers(isa, dtype).wide)


@dataclass(frozen=True)
class Edge:
    """The first `count` lanes of a vector; `mask` where the machine masks the element type."""

    count: Val
    mask: Val | None


def edge(f: Function, isa: Isa, count: Val, ty: str) -> Edge:
    """Prepare to load and store the first `count` (any i64) lanes of a vector type."""
    maskable = isa.masks or bits_of(ty) >= 32
    return Edge(count, f.lane_mask(count, lanes_of(ty)) if maskable else None)


def load_edge(f: Function, pointer: Val, ty: str, lanes: Edge | None) -> Val:
    """Load a vector, or its first lanes; other lanes are undefined, and memory beyond is not read."""
    if lanes is None:
        return f.load(pointer, ty)
    if lanes.mask is not None:
        return _masked_load(f, pointer, ty, lanes.mask)
    whole = f.icmp("sge", lanes.count, lanes_of(ty))
    spare = f.alloca(ty)
    with f.when(f.icmp("slt", lanes.count, lanes_of(ty))):
        _copy(f, pointer, spare, lanes.count, scalar_of(ty))
    return f.load(f.select(whole, pointer, spare), ty)


def store_edge(f: Function, value: Val, pointer: Val, lanes: Edge | None) -> None:
    """Store a vector, or its first lanes only."""
    if lanes is None:
        f.store(value, pointer)
        return
    if lanes.mask is not None:
        _masked_store(f, value, pointer, lanes.mask)
        return
    n = lanes_of(value.ty)
    whole = f.icmp("sge", lanes.count, n)
    spare = f.alloca(value.ty)
    f.store(value, f.select(whole, pointer, spare))
    with f.when(f.icmp("slt", lanes.count, n)):
        _copy(f, spare, pointer, lanes.count, scalar_of(value.ty))


def _masked_load(f: Function, pointer: Val, ty: str, mask: Val) -> Val:
    raw = _maskable(ty)
    return f.bitcast(f.masked_load(pointer, mask, raw), ty)


def _masked_store(f: Function, value: Val, pointer: Val, mask: Val) -> None:
    f.masked_store(f.bitcast(value, _maskable(value.ty)), pointer, mask)


def _maskable(ty: str) -> str:
    """The type as which a vector is masked: integers for half types, as every back end lowers those well."""
    return vec("i16", lanes_of(ty)) if scalar_of(ty) in ("half", "bfloat") else ty


def _copy(f: Function, source: Val, target: Val, count: Val, scalar: str) -> None:
    with f.loop("lane", 0, count) as loop:
        x = f.load(f.gep(source, loop.index, scalar), scalar)
        f.store(x, f.gep(target, loop.index, scalar))
