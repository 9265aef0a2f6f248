"""Element types, their properties, and the promotion table."""

from __future__ import annotations

from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from nacre.base.errors import DTypeError
from nacre.base.records import dataclass


@dataclass(frozen=True, eq=False)
class DType:
    """An element type.  There is one object for each; compare them with `is` or `==`.

    `kind` is one of `b` (bool), `i` (signed), `u` (unsigned), `f` (floating point).

    >>> nc.float32, str(nc.bfloat16), nc.int8.bits, nc.uint8.is_signed
    (nacre.float32, 'bf16', 8, False)
    """

    name: str
    short: str
    kind: str
    bits: int
    numpy: np.dtype
    llvm: str  # the type of a value in a register
    memory: str  # the type of a value in memory

    def __repr__(self) -> str:
        return f"nacre.{self.name}"

    def __str__(self) -> str:
        return self.short

    def __eq__(self, other: object) -> bool:
        """Whether it is this object; raises DTypeError for NumPy's and Python's types and for names of dtypes.

        Equal objects must have equal hashes, and NumPy's own types do not, so none of them could be equal.
        """
        if self is other:
            return True
        if isinstance(other, type | np.dtype | str):
            meant = _meant(cast("object", other))
            if meant is not None:
                raise DTypeError(
                    f"dtype: Nacre's dtypes must be compared with each other; got {self!r} and {other!r}; "
                    f"write {meant!r}"
                )
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __reduce__(self) -> str | tuple[object, ...]:
        return dtype_named, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers, signed or not; bool is not."""
        return self.kind in "iu"

    @property
    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return self.kind in "if"


def _integer(kind: str, bits: int) -> DType:
    name = f"{'u' if kind == 'u' else ''}int{bits}"
    return DType(name, f"{kind}{bits}", kind, bits, np.dtype(name), f"i{bits}", f"i{bits}")


bool_: Final = DType("bool", "bool", "b", 1, np.dtype(np.bool_), "i1", "i8")
int8: Final = _integer("i", 8)
int16: Final = _integer("i", 16)
int32: Final = _integer("i", 32)
int64: Final = _integer("i", 64)
uint8: Final = _integer("u", 8)
uint16: Final = _integer("u", 16)
uint32: Final = _integer("u", 32)
uint64: Final = _integer("u", 64)
float16: Final = DType("float16", "f16", "f", 16, np.dtype(np.float16), "half", "half")
bfloat16: Final = DType("bfloat16", "bf16", "f", 16, np.dtype(ml_dtypes.bfloat16), "bfloat", "bfloat")
float32: Final = DType("float32", "f32", "f", 32, np.dtype(np.float32), "float", "float")
float64: Final = DType("float64", "f64", "f", 64, np.dtype(np.float64), "double", "double")

SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
INTEGERS: Final = SIGNED + UNSIGNED
FLOATS: Final = (float16, bfloat16, float32, float64)
ALL: Final = (bool_, *INTEGERS, *FLOATS)
FLOATING: Final = {d.llvm: d for d in FLOATS}  # by LLVM's names

_by_name: Final = {d.name: d for d in ALL} | {d.short: d for d in ALL}
_by_numpy: Final = {d.numpy: d for d in ALL}


def dtype_named(name: str) -> DType:
    """The dtype with a name (`float32`) or short name (`f32`)."""
    try:
        return _by_name[name]
    except KeyError:
        known = ", ".join(d.name for d in ALL)
        raise DTypeError(f"dtype: the name must be one of {known}; got {name!r}") from None


def _meant(other: object) -> DType | None:
    """The dtype that another library's type or a name stands for; None where there is none."""
    if isinstance(other, str):
        return _by_name.get(other)
    kind = cast("Any", other)
    if isinstance(other, type) and not issubclass(kind, np.generic) and kind not in (bool, int, float):
        return None
    try:
        return as_dtype(other)
    except DTypeError:
        return None


def as_dtype(value: object) -> DType:
    """A dtype from a DType, a name, a NumPy dtype, or one of Python's bool, int, float."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return dtype_named(value)
    if isinstance(value, type) and value in (bool, int, float):
        return {bool: bool_, int: int64, float: float32}[value]
    try:
        return _by_numpy[np.dtype(value)]  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError):
        known = ", ".join(d.name for d in ALL)
        raise DTypeError(f"dtype: the value must be one of {known}; got {value!r}") from None


def _promotion() -> dict[tuple[DType, DType], DType]:
    table = {(d, d): d for d in ALL}

    def both(a: DType, b: DType, c: DType) -> None:
        """Enter the promotion of a pair in both orders."""
        table[a, b] = table[b, a] = c

    for group in (SIGNED, UNSIGNED, (float16, float32, float64), (bfloat16, float32, float64)):
        for k, a in enumerate(group):
            for b in group[k:]:
                both(a, b, b)
    both(float16, bfloat16, float32)
    for u in UNSIGNED[:3]:
        for s in SIGNED:
            wider = max(s.bits, 2 * u.bits)
            both(u, s, next(d for d in SIGNED if d.bits == wider))
    return table


PROMOTION: Final = _promotion()


def promote(*dtypes: DType) -> DType:
    """The dtype to which operands of the given dtypes are promoted.

    Within one kind, the wider dtype is taken.  Signed with unsigned gives the next wider signed dtype; float16 with
    bfloat16 gives float32.  Kinds are not promoted to each other, nor is uint64 with a signed dtype.

    Raises DTypeError for such a pair.
    """
    result = dtypes[0]
    for d in dtypes[1:]:
        if d is not result:
            try:
                result = PROMOTION[result, d]
            except KeyError:
                wider = d if d.is_float or (result.name == "bool" and not d.is_float) else result
                raise DTypeError(
                    f"promotion: dtypes must be of one kind; got {result.name} and {d.name}; "
                    f"convert one of them, as in `x.astype(nacre.{wider.name})`"
                ) from None
    return result
