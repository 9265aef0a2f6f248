"""Properties of each target machine: vector width, registers, and the attributes of its functions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from nacre.base.records import dataclass
from nacre.native.engine import Target
from nacre.native.text import Function, bits_of, vec


@dataclass(frozen=True)
class Isa:
    """A vector instruction set as the generators see it."""

    name: str
    vector_bits: int
    registers: int
    masks: bool  # cheap masked loads and stores
    pairs: str = ""  # the intrinsic that multiplies 16-bit integers and adds neighbouring products, if there is one
    scales: str = ""  # the intrinsic that multiplies by powers of two, rounding once, if there is one
    ranges: str = ""  # the intrinsic that takes the larger or smaller of two numbers, zeros by their sign, likewise
    fours: str = ""  # that which adds products of four unsigned and signed 8-bit integers to a sum
    halves: str = ""  # that which adds products of two bfloat16 to a float

    def lanes(self, scalar: str) -> int:
        """How many elements of an LLVM scalar type fill one vector register."""
        return self.vector_bits // max(8, bits_of(scalar))

    def vector(self, scalar: str) -> str:
        """The LLVM type of one full register of the scalar type."""
        return vec(scalar, self.lanes(scalar))

    @property
    def attributes(self) -> str:
        """The attributes of a generated function."""
        return f'nounwind "prefer-vector-width"="{self.vector_bits}"'


AVX512 = Isa("avx512", 512, 32, True, "x86.avx512.pmaddw.d.512", "x86.avx512.mask.scalef", "x86.avx512.mask.range")
AVX2 = Isa("avx2", 256, 16, False, "x86.avx2.pmadd.wd")
NEON = Isa("neon", 128, 32, False)

BY_NAME = {isa.name: isa for isa in (AVX512, AVX2, NEON)}


def written_for(f: Function) -> Isa | None:
    """The instruction set whose attributes a function carries."""
    return next((isa for isa in BY_NAME.values() if isa.attributes in f.attributes), None)


# instructions that not every machine of an instruction set has: its name, LLVM's feature, the field, the intrinsic
_OPTIONAL = (
    ("avx512", "avx512vnni", "fours", "x86.avx512.vpdpbusd.512"),
    ("avx512", "avx512bf16", "halves", "x86.avx512bf16.dpbf16ps.512"),
    ("avx2", "avxvnni", "fours", "x86.avx512.vpdpbusd.256"),
)


@cache
def isa_of(target: Target) -> Isa:
    """The instruction set of a target with all that its machine has of it, which changes no bit of a result."""
    features = set(target.features.split(","))
    found = {
        field: intrinsic
        for name, feature, field, intrinsic in _OPTIONAL
        if name == target.isa and f"+{feature}" in features
    }
    return replace(BY_NAME[target.isa], **found)
