"""The structures that describe a program to the native code of its executable.

The compiler writes a program's description as constants (`deploy/main`), and the native code reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from nacre.native.python.types import embed, i32, i64, ptr, struct, u8, u32, u64


@struct
class ArrayDescription:
    """An input or output: its type as text, two spellings of its dtype (the one for writing first), and its sizes.

    Its axes begin at `first_axis` among those of all arrays, inputs before outputs.
    """

    type: ptr[u8]
    dtype: ptr[u8]
    other_dtype: ptr[u8]
    item_bytes: u64
    rank: u64
    first_axis: u64


@struct
class SizeRule:
    """How an axis of an input determines a size: axis = factor · size + offset, with `low` ≤ size ≤ `high`."""

    axis: u64
    input: u64
    factor: i64
    offset: i64
    low: i64
    high: i64


@struct
class ProgramDescription:
    """A program: its texts, arrays and sizes, memory for a run, and its functions.

    `file_axes` are those that the inputs' files have, and `axes` those of all arrays for the sizes.  `write_axes`
    computes them from the sizes, `call` runs the program, and `error` is the sentence of an error code.
    """

    name: ptr[u8]
    usage: ptr[u8]
    help: ptr[u8]
    version: ptr[u8]
    inputs: u64
    arrays: u64
    sizes: u64
    about: ptr[embed[ArrayDescription]]
    rules: ptr[embed[SizeRule]]
    files: ptr[i32]
    bases: ptr[ptr[u8]]
    file_axes: ptr[i64]
    axes: ptr[i64]
    size_values: ptr[i64]
    write_axes: Callable[[ptr[i64], ptr[i64]], None]
    call: Callable[[ptr[ptr[u8]], ptr[i64]], i32]
    error: Callable[[i32], ptr[u8]]


@struct
class FeatureBits:
    """Bits that a register must have after cpuid of a leaf; the registers are eax, ebx, ecx and edx."""

    leaf: u32
    subleaf: u32
    register: u32
    bits: u32


@struct
class Requirements:
    """What code needs of an x86-64 processor, and the registers that the system must save, as bits of XCR0."""

    features: ptr[embed[FeatureBits]]
    count: u64
    saved_state: u64
