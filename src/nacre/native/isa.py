"""Instruction sets: all that code generation, selection of a target and deployment know of each, in one table.

A new instruction set of a known machine is one definition here, and its place in `INSTRUCTION_SETS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from nacre.base.records import dataclass
from nacre.native.llvm_types import bits_of, vec


@dataclass(frozen=True, eq=False)
class Architecture:
    """A processor architecture: its name in triples, and where its processors report features.

    `cpuid` maps a feature to leaf, subleaf, register (eax, ebx, ecx, edx) and bit.  A machine without it has no
    features that a program has to check.
    """

    name: str
    aliases: tuple[str, ...]  # the other names that systems give it
    cpuid: Mapping[str, tuple[int, int, int, int]]
    indexed: bool = False  # whether an address may be a base, any index times the size of an element, and a constant
    baseline: str = ""  # LLVM's attributes of a function that all of its processors run

    @property
    def triple(self) -> str:
        """LLVM's triple of a Linux system on this machine."""
        return f"{self.name}-unknown-linux-gnu"


X86_64 = Architecture(
    "x86_64",
    ("amd64",),
    {
        "sse3": (1, 0, 2, 0), "ssse3": (1, 0, 2, 9), "fma": (1, 0, 2, 12), "sse4.1": (1, 0, 2, 19),
        "sse4.2": (1, 0, 2, 20), "movbe": (1, 0, 2, 22), "popcnt": (1, 0, 2, 23), "aes": (1, 0, 2, 25),
        "xsave": (1, 0, 2, 27), "avx": (1, 0, 2, 28), "f16c": (1, 0, 2, 29), "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5),
        "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16), "avx512dq": (7, 0, 1, 17), "adx": (7, 0, 1, 19),
        "avx512ifma": (7, 0, 1, 21), "avx512cd": (7, 0, 1, 28), "sha": (7, 0, 1, 29), "avx512bw": (7, 0, 1, 30),
        "avx512vl": (7, 0, 1, 31), "avx512vbmi": (7, 0, 2, 1), "avx512vbmi2": (7, 0, 2, 6), "gfni": (7, 0, 2, 8),
        "vaes": (7, 0, 2, 9), "vpclmulqdq": (7, 0, 2, 10), "avx512vnni": (7, 0, 2, 11), "avx512bitalg": (7, 0, 2, 12),
        "avx512vpopcntdq": (7, 0, 2, 14), "avx512vp2intersect": (7, 0, 3, 8), "avx512fp16": (7, 0, 3, 23),
        "avxvnni": (7, 1, 0, 4), "avx512bf16": (7, 1, 0, 5), "lzcnt": (0x80000001, 0, 2, 5),
    },
    indexed=True,
    baseline='"target-cpu"="x86-64" "target-features"="+sse2"',
)  # fmt: skip
AARCH64 = Architecture("aarch64", ("arm64",), {})
MACHINES = {m.name: m for m in (X86_64, AARCH64)}


def host_machine() -> str:
    """This machine's architecture by the name that its system gives it, in lower case."""
    if hasattr(os, "uname"):
        return os.uname().machine.lower()
    return import_module("platform").machine().lower()  # which is slow to import


@dataclass(frozen=True)
class Isa:
    """A vector instruction set: registers, instructions, the features that it needs, and its portable target."""

    name: str
    machine: Architecture
    vector_bits: int
    registers: int
    masks: bool  # cheap masked loads and stores
    table_lookup: str  # how 16 floats are looked up in registers: by "registers", "halves" or "bytes"
    pairs: str = ""  # the intrinsic that multiplies 16-bit integers and adds neighbouring products, if there is one
    scales: str = ""  # the intrinsic that multiplies by powers of two, rounding once, if there is one
    ranges: str = ""  # the intrinsic that takes the larger or smaller of two numbers, zeros by their sign, if any
    fours: str = ""  # the intrinsic that adds products of four unsigned and signed 8-bit integers to a sum, if any
    halves: str = ""  # the intrinsic that adds products of two bfloat16 to a float, if there is one
    fence: str = ""  # the intrinsic that orders non-temporal stores, where stores do not keep their order
    optional: tuple[tuple[str, str, str], ...] = ()  # LLVM's feature, the field above, the intrinsic where it is there
    needs: tuple[str, ...] = ()  # LLVM's features without which a machine does not have the set
    excludes: tuple[str, ...] = ()  # prefixes of features that LLVM must not use, so that all machines run one code
    cpu: str = "generic"  # LLVM's processor of the portable target
    features: str = ""  # LLVM's features of the portable target
    level: str = ""  # the name of the portable target for `nacre compile`, if it has one of its own
    checks: tuple[str, ...] = ()  # the features that a program for the portable target checks
    saved_state: int = 0  # the registers that the system must save for a thread, as bits of XCR0

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

    def with_features(self, features: str) -> Isa:
        """The set with the optional instructions of a target's features, which change no bit of a result."""
        present = set(features.split(","))
        return replace(self, **{field: name for feature, field, name in self.optional if f"+{feature}" in present})


_AVX2 = ("avx2", "fma", "f16c", "bmi2")
_LEVEL_3 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "movbe", "xsave", "avx", "f16c", "fma", "bmi", "bmi2",
            "avx2", "lzcnt")  # fmt: skip

AVX512 = Isa(
    "avx512",
    X86_64,
    vector_bits=512,
    registers=32,
    masks=True,
    table_lookup="registers",
    pairs="x86.avx512.pmaddw.d.512",
    scales="x86.avx512.mask.scalef",
    ranges="x86.avx512.mask.range",
    fence="x86.sse.sfence",
    optional=(
        ("avx512vnni", "fours", "x86.avx512.vpdpbusd.512"),
        ("avx512bf16", "halves", "x86.avx512bf16.dpbf16ps.512"),
    ),
    needs=("avx512f", "avx512bw", "avx512dq", "avx512vl", *_AVX2),
    cpu="x86-64-v4",
    level="x86-64-v4",
    checks=(*_LEVEL_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    saved_state=0xE6,
)
AVX2 = Isa(
    "avx2",
    X86_64,
    vector_bits=256,
    registers=16,
    masks=False,
    table_lookup="halves",
    pairs="x86.avx2.pmadd.wd",
    fence="x86.sse.sfence",
    optional=(("avxvnni", "fours", "x86.avx512.vpdpbusd.256"),),
    needs=_AVX2,
    excludes=("avx512", "avx10", "amx", "evex512", "prefer-256-bit"),
    cpu="x86-64-v3",
    level="x86-64-v3",
    checks=_LEVEL_3,
    saved_state=0x06,
)
NEON = Isa(
    "neon",
    AARCH64,
    vector_bits=128,
    registers=32,
    masks=False,
    table_lookup="bytes",
    features="+fp-armv8,+neon",
)
INSTRUCTION_SETS = (AVX512, AVX2, NEON)  # the best comes first: a machine uses the first one that it has
BY_NAME = {isa.name: isa for isa in INSTRUCTION_SETS}


def portable(machine: Architecture) -> Isa:
    """The instruction set that programs for any processor of a machine use: the least of those it has."""
    return next(isa for isa in reversed(INSTRUCTION_SETS) if isa.machine is machine)
