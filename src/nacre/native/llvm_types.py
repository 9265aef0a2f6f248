"""LLVM's scalar and vector types by their text: lanes, elements, bits, and the names that intrinsics give them."""

from __future__ import annotations

from functools import cache

FLOATS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def vec(scalar: str, lanes: int) -> str:
    """The type of `lanes` scalars; one lane is the scalar type itself."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@cache
def lanes_of(ty: str) -> int:
    """The number of lanes of a scalar or vector type."""
    return int(ty[1 : ty.index(" ")]) if ty.startswith("<") else 1


@cache
def scalar_of(ty: str) -> str:
    """The element type of a vector type; a scalar type itself."""
    return ty[ty.index(" x ") + 3 : -1] if ty.startswith("<") else ty


@cache
def bits_of(ty: str) -> int:
    """The number of bits of one element."""
    s = scalar_of(ty)
    return FLOATS[s] if s in FLOATS else 64 if s == "ptr" else int(s[1:])


@cache
def mangle(ty: str) -> str:
    """The suffix by which intrinsics name a type: `v16f32`, `i64`, `p0`."""
    s, n = scalar_of(ty), lanes_of(ty)
    name = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}.get(s, s)
    return name if n == 1 else f"v{n}{name}"
