"""The base class of receivers of instructions, which write LLVM text, compute NumPy arrays or list the steps.

An emitter has every instruction of `instructions`, constants and tables.  It may also branch, loop, know constants, and
have single instructions in place of several; the bits are the same without these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from nacre.base.dtypes import SIGNED, DType
from nacre.base.errors import CompileError
from nacre.kernel.elementary.instructions import INSTRUCTIONS

Value = Any  # an emitter's operand: a text, an array, a register
Writer = Callable[[Any, Sequence[Value], DType, DType], Value]  # (emitter, operands, the first's dtype, the result's)

_HELD = {d.bits: d for d in SIGNED}


def held(dtype: DType) -> DType:
    """The dtype in instructions: for integers and codes the signed one of their width, otherwise the dtype itself."""
    return _HELD[dtype.storage_bits] if dtype.is_integer or dtype.is_storage else dtype


def bits_of(dtype: DType) -> DType:
    """The integer dtype of the same width as a floating-point dtype."""
    return _HELD[dtype.bits]


class Emitter:
    """Receives the instructions of a definition, and defines the representation of operands."""

    table: ClassVar[Mapping[str, Writer]]  # how each of `INSTRUCTIONS` is written

    def __init_subclass__(cls) -> None:
        missing, unknown = INSTRUCTIONS.keys() - cls.table.keys(), cls.table.keys() - INSTRUCTIONS.keys()
        if missing or unknown:
            raise CompileError(
                f"{cls.__name__}: an emitter's table must have every instruction and no other; "
                f"got none of {', '.join(sorted(missing)) or 'no name'}, and beyond them "
                f"{', '.join(sorted(unknown)) or 'no name'}; see nacre.kernel.elementary.instructions"
            )

    def emit(self, name: str, args: Sequence[Value], source: DType, dtype: DType) -> Value:
        """The result of an instruction in a dtype; `source` is the first operand's dtype (select: the second's).

        Raises CompileError for a name that is not one of `INSTRUCTIONS`.
        """
        try:
            write = self.table[name]
        except KeyError:
            raise CompileError(
                f"{type(self).__name__}: the instruction must be one of kernel.elementary.instructions; "
                f"got {name}; add it to the list and to every emitter"
            ) from None
        return write(self, args, source, dtype)

    def constant(self, value: float | int | bool, dtype: DType, like: Value) -> Value:
        """A constant in every lane, with the lanes of the value `like`."""
        raise NotImplementedError

    def lookup(self, name: str, table: Sequence[float], index: Value) -> Value:
        """The float64 numbers table[index] for int64 indices; a table has the same name at each use."""
        raise NotImplementedError

    def rarely(
        self, cond: Value, fast: Sequence[Value], slow: Callable[[], Sequence[Value]], dtypes: Sequence[DType]
    ) -> list[Value]:
        """`slow()` in the lanes where the condition holds, else `fast`; a branch may skip it if it holds in none."""
        return [
            self.emit("select", (cond, s, f), dtype, dtype) for s, f, dtype in zip(slow(), fast, dtypes, strict=True)
        ]

    def repeat(
        self, count: int, values: Sequence[Value], step: Callable[..., Sequence[Value]], dtypes: Sequence[DType]
    ) -> list[Value]:
        """`values` after `count` iterations of `values = step(*values)`; it may be a loop."""
        for _ in range(count):
            values = step(*values)
        return list(values)

    def known(self, x: Value) -> float | None:
        """The number in every lane of a float; None if it is unknown or NaN."""
        return None

    def scaled(self, x: Value, n: Value, dtype: DType) -> Value | None:
        """x · 2^n for whole n, rounded once, as one instruction; None if there is none."""
        return None

    def extreme(self, a: Value, b: Value, dtype: DType, *, smaller: bool) -> Value | None:
        """The larger (or smaller) number, +0 above −0, any number if one is NaN; None without a single instruction."""
        return None

    def pick(self, table: Sequence[float], index: Value) -> Value | None:
        """table[index mod 16] in float32 for int32 indices, without memory; None if that is not possible."""
        return None
