"""Element types with their traits, the sets of dtypes in type rules, and the promotion table.

Other modules use the traits of a dtype, such as `is_inexact` and `arithmetic`, never NumPy's letters.  A new dtype
needs a definition in `ALL`, its promotions, and the rules that differ for it; one that is only stored needs an
`Encoding` and a definition in `STORAGE`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from nacre.base.errors import DTypeError, KindError
from nacre.base.records import dataclass

BYTE: Final = 8


class Category(Enum):
    """A category of elements: its word in messages, NumPy's letter, and Python's type."""

    BOOLEAN = "bool", "b", bool
    SIGNED = "signed integer", "i", int
    UNSIGNED = "unsigned integer", "u", int
    FLOATING = "floating-point", "f", float
    COMPLEX = "complex", "c", complex
    STORED_FLOATING = "stored floating-point", "V", float  # no type rule of arithmetic accepts these two
    STORED_INTEGER = "stored integer", "V", int

    def __init__(self, word: str, letter: str, python: type[complex]) -> None:
        self.word = word
        self.letter = letter
        self.python = python
        # the rank in promotion with Python's numbers, which never change a dtype that is only stored
        self.level = (bool, int, float, complex).index(complex if letter == "V" else python)


_bool, _signed, _unsigned, _floating, _complex, _stored_floating, _stored_integer = Category
_ARITHMETIC = (_bool, _signed, _unsigned, _floating, _complex)


@dataclass(frozen=True, eq=False)
class Encoding:
    """How the low bits of a byte encode a number that is only stored; the others are 0, and are not read.

    `number` is the dtype with all of the numbers, in which to compute.  A floating-point code is a sign, if there is
    one, an exponent with a bias, and a fraction.  `greatest`, `infinity` and `nan` are codes without a sign.  The code
    of an integer is its low bits; the fields after `is_signed` are not used.
    """

    number: DType
    is_signed: bool
    fraction: int = 0
    bias: int = 0
    greatest: int = 0
    infinity: int | None = None  # None: larger numbers become NaN, or without NaN the greatest
    nan: int | None = None
    has_signed_zero: bool = True  # without, the code of −0 is that of NaN
    has_zero: bool = True  # without, also without subnormal numbers


@dataclass(frozen=True, eq=False)
class DType:
    """An element type.  There is one object for each; compare them with `is` or `==`.

    `bits` is the size of a value, and `storage_bits` the size of an element in memory.  `numpy` is the dtype of a NumPy
    array of such elements.  `kind` is one of `b` (bool), `i` (signed), `u` (unsigned), `f` (floating point), `c`
    (complex) and `V` (only stored, such as float8).

    >>> nc.float32, str(nc.bfloat16), nc.int8.bits, nc.uint8.is_signed
    (nacre.float32, 'bf16', 8, False)
    >>> nc.bfloat16.arithmetic, nc.bool.storage_bits, nc.int8.is_differentiable
    (nacre.float32, 8, False)
    >>> nc.complex64.real, nc.complex64.components, nc.complex128.bits
    (nacre.float32, 2, 128)
    >>> nc.float8_e4m3fn.is_storage, nc.int4.bits, nc.int4.storage_bits
    (True, 4, 8)
    >>> nc.float64(0.1), nc.int8([1, 2])
    (Tensor(0.1, f64[]), Tensor([1, 2], i8[2]))
    """

    name: str
    short: str
    category: Category
    bits: int
    storage_bits: int  # not always a multiple of 8
    numpy: np.dtype
    llvm: str  # the type of a value in a register
    memory: str  # the type of a value in memory
    component: DType | None  # of complex numbers: the dtype of the real and imaginary parts
    wider: DType | None  # the dtype of computation, if it differs
    encoding: Encoding | None = None  # of dtypes that are only stored

    def __repr__(self) -> str:
        return f"nacre.{self.name}"

    def __str__(self) -> str:
        return self.short

    def __eq__(self, other: object) -> bool:
        """Whether it is this object, or NumPy's dtype or scalar type of the same elements.

        Raises DTypeError for Python's types, whose dtype is another one in NumPy, and for names.  As for NumPy's own
        types, hashes differ: a set or dictionary with NumPy's dtypes holds none of Nacre's.
        """
        if self is other:
            return True
        if isinstance(other, type | np.dtype | str):
            meant = _meant(cast("object", other))
            if isinstance(other, np.dtype) or (isinstance(other, type) and issubclass(other, np.generic)):
                return self is meant
            if meant is not None:
                raise DTypeError(
                    f"dtype: dtypes must be compared with dtypes of Nacre or NumPy; got {self!r} and {other!r}; "
                    f"write {meant!r}"
                )
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __call__(self, *data: Any) -> Any:
        """`nacre.tensor(data, dtype=self)` of one argument, as NumPy's and JAX's types of this name convert."""
        if len(data) != 1:
            raise KindError(
                f"{self.name}: one number, list, array or tensor must be given; got {len(data)}; write "
                f"nacre.{self.name}([1, 2]) for several numbers"
            )
        return CONVERSION[0](data[0], self)

    @property
    def __numpy_dtype__(self) -> np.dtype:
        """NumPy's dtype, for NumPy 2.4 and newer: `np.zeros(3, nc.float32)`."""
        return self.numpy

    def __reduce__(self) -> str | tuple[object, ...]:
        return dtype_named, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory.  Raises DTypeError if elements are not whole bytes."""
        if self.storage_bits % BYTE:
            raise DTypeError(
                f"itemsize: elements must be whole bytes; got {self.name}, of {self.storage_bits} bits; "
                "use the nbytes of the tensor's type"
            )
        return self.storage_bits // BYTE

    @property
    def is_bool(self) -> bool:
        """Whether elements are truth values."""
        return self.category is _bool

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.category is _floating

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers, signed or not; bool is not."""
        return self.category is _signed or self.category is _unsigned

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self.category is _complex

    @property
    def is_inexact(self) -> bool:
        """Whether results are rounded: floating-point and complex numbers."""
        return self.category is _floating or self.category is _complex

    @property
    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        if self.encoding is not None:
            return self.encoding.is_signed
        return self.category is not _unsigned and self.category is not _bool

    @property
    def is_storage(self) -> bool:
        """Whether elements are only stored, moved and converted: no arithmetic accepts them."""
        return self.encoding is not None

    @property
    def has_zero(self) -> bool:
        """Whether zero is one of the numbers, as it is for all dtypes but float8_e8m0fnu."""
        return self.encoding is None or self.encoding.has_zero

    @property
    def number(self) -> DType:
        """The dtype in which to compute with the numbers: float32, int8 or uint8 for a storage dtype, or this one."""
        return self if self.encoding is None else self.encoding.number

    @property
    def is_differentiable(self) -> bool:
        """Whether a tensor may require a gradient."""
        return self.is_inexact

    @property
    def real(self) -> DType:
        """The dtype of the real part: the component's for complex numbers, otherwise this one."""
        return self.component or self

    @property
    def components(self) -> int:
        """The number of real numbers in an element: 2 for complex numbers, otherwise 1."""
        return 1 if self.component is None else 2

    @property
    def paired(self) -> DType:
        """The dtype of complex numbers with parts of this dtype; itself for complex numbers.

        Half types have parts of float32.  Raises DTypeError for integers and bool.
        """
        if self.is_complex:
            return self
        for dtype in COMPLEX:
            if self.is_float and dtype.component is self.arithmetic:
                return dtype
        raise DTypeError(f"complex: the parts must have a floating-point dtype; got {self.name}; convert with `astype`")

    @property
    def arithmetic(self) -> DType:
        """The dtype in which library functions compute; their result is rounded to this one."""
        return self.wider or self

    @property
    def is_widened(self) -> bool:
        """Whether library functions compute in another dtype, as for float16 and bfloat16."""
        return self.wider is not None

    @property
    def python(self) -> type[complex]:
        """Python's type of an element: bool, int, float or complex."""
        return self.category.python

    @property
    def kind(self) -> str:
        """NumPy's letter for the category."""
        return self.category.letter


def _integer(category: Category, bits: int) -> DType:
    name, letter = f"int{bits}", category.letter
    name = name if category is _signed else f"u{name}"
    return DType(name, f"{letter}{bits}", category, bits, bits, np.dtype(name), f"i{bits}", f"i{bits}", None, None)


def _float(name: str, short: str, numpy: np.dtype, llvm: str, wider: DType | None = None) -> DType:
    bits = numpy.itemsize * BYTE
    return DType(name, short, _floating, bits, bits, numpy, llvm, llvm, None, wider)


def _complex_number(component: DType) -> DType:
    """The dtype of pairs (real part, imaginary part)."""
    name, bits = f"complex{2 * component.bits}", 2 * component.bits
    llvm = f"[2 x {component.llvm}]"
    return DType(name, f"c{bits}", _complex, bits, bits, np.dtype(name), llvm, llvm, component, None)


def _stored(name: str, short: str, category: Category, encoding: Encoding, bits: int = BYTE) -> DType:
    """A dtype whose elements are only stored, one in each byte."""
    numpy = np.dtype(getattr(ml_dtypes, name))
    return DType(name, short, category, bits, BYTE, numpy, "i8", "i8", None, None, encoding)


def _stored_integer_of(number: DType, bits: int) -> DType:
    name, short = (text.replace("8", str(bits)) for text in (number.name, number.short))
    return _stored(name, short, _stored_integer, Encoding(number, number.is_signed), bits)


bool_: Final = DType("bool", "bool", _bool, 1, 8, np.dtype(np.bool_), "i1", "i8", None, None)
int8: Final = _integer(_signed, 8)
int16: Final = _integer(_signed, 16)
int32: Final = _integer(_signed, 32)
int64: Final = _integer(_signed, 64)
uint8: Final = _integer(_unsigned, 8)
uint16: Final = _integer(_unsigned, 16)
uint32: Final = _integer(_unsigned, 32)
uint64: Final = _integer(_unsigned, 64)
float32: Final = _float("float32", "f32", np.dtype(np.float32), "float")
float64: Final = _float("float64", "f64", np.dtype(np.float64), "double")
float16: Final = _float("float16", "f16", np.dtype(np.float16), "half", float32)
bfloat16: Final = _float("bfloat16", "bf16", np.dtype(ml_dtypes.bfloat16), "bfloat", float32)
complex64: Final = _complex_number(float32)
complex128: Final = _complex_number(float64)

# OCP's 8-bit formats (E4M3FN, E5M2), those without negative zero (FNUZ), and OCP's formats of MX blocks (E8M0, E2M1)
float8_e4m3fn: Final = _stored(
    "float8_e4m3fn", "f8e4m3fn", _stored_floating, Encoding(float32, True, 3, 7, greatest=0x7E, nan=0x7F)
)
float8_e4m3fnuz: Final = _stored(
    *("float8_e4m3fnuz", "f8e4m3fnuz", _stored_floating),
    Encoding(float32, True, 3, 8, greatest=0x7F, nan=0x80, has_signed_zero=False),
)
float8_e5m2: Final = _stored(
    *("float8_e5m2", "f8e5m2", _stored_floating),
    Encoding(float32, True, 2, 15, greatest=0x7B, infinity=0x7C, nan=0x7E),
)
float8_e5m2fnuz: Final = _stored(
    *("float8_e5m2fnuz", "f8e5m2fnuz", _stored_floating),
    Encoding(float32, True, 2, 16, greatest=0x7F, nan=0x80, has_signed_zero=False),
)
float8_e8m0fnu: Final = _stored(
    *("float8_e8m0fnu", "f8e8m0fnu", _stored_floating),
    Encoding(float32, False, 0, 127, greatest=0xFE, nan=0xFF, has_zero=False),
)
float4_e2m1fn: Final = _stored(
    "float4_e2m1fn", "f4e2m1fn", _stored_floating, Encoding(float32, True, 1, 1, greatest=0x7), bits=4
)
int4: Final = _stored_integer_of(int8, 4)
uint4: Final = _stored_integer_of(uint8, 4)
int2: Final = _stored_integer_of(int8, 2)
uint2: Final = _stored_integer_of(uint8, 2)

SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
INTEGERS: Final = SIGNED + UNSIGNED
FLOATS: Final = (float16, bfloat16, float32, float64)
COMPLEX: Final = (complex64, complex128)
ALL: Final = (bool_, *INTEGERS, *FLOATS, *COMPLEX)  # that compute
FLOAT8: Final = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
STORED_FLOATS: Final = (*FLOAT8, float4_e2m1fn)
STORED_INTEGERS: Final = (int4, uint4, int2, uint2)
STORAGE: Final = STORED_FLOATS + STORED_INTEGERS
NAMED: Final = ALL + STORAGE
FLOATS_BY_LLVM: Final = {d.llvm: d for d in FLOATS}

CONVERSION: Final[list[Callable[[Any, DType], Any]]] = []  # `nacre.tensor`, of a layer above
PYTHON: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float32, complex: complex64}  # of its numbers

_by_name: Final = {d.name: d for d in NAMED} | {d.short: d for d in NAMED}
_by_numpy: Final = {d.numpy: d for d in NAMED}
_stored_numpy: Final = {d.numpy: d for d in STORAGE}  # of which NumPy takes some for its own floats
_by_letter: Final = {c.letter: c for c in _ARITHMETIC}
_categories: Final = {d.category for d in ALL}


class DTypeSet:
    """The dtypes of some categories, for type rules: `float32 in FLOATING`."""

    def __init__(self, name: str, *categories: Category) -> None:
        self.name = name  # in messages of the public functions
        self.categories = categories
        self.words = " or ".join(c.word for c in categories if c in _categories)  # in messages of type rules

    def __contains__(self, dtype: DType) -> bool:
        return dtype.category in self.categories

    def holds(self, dtype: np.dtype) -> bool:
        """Whether elements of a NumPy array are of one of the categories.  bfloat16 belongs to none here."""
        stored = _stored_numpy.get(dtype)
        return (_by_letter.get(dtype.kind) if stored is None else stored.category) in self.categories

    def __repr__(self) -> str:
        return f"DTypeSet({self.words})"


BOOLEAN: Final = DTypeSet("dtype bool", _bool)
INTEGRAL: Final = DTypeSet("an integer dtype", _signed, _unsigned)
BITWISE: Final = DTypeSet("a bool or integer dtype", _bool, _signed, _unsigned)
FLOATING: Final = DTypeSet("a floating-point dtype", _floating)
INEXACT: Final = DTypeSet("a floating-point or complex dtype", _floating, _complex)
REAL: Final = DTypeSet("a real numeric dtype", _signed, _unsigned, _floating)
NUMERIC: Final = DTypeSet("a numeric dtype", _signed, _unsigned, _floating, _complex)
ORDERED: Final = DTypeSet("a real dtype", _bool, _signed, _unsigned, _floating)
STORED: Final = DTypeSet("a storage dtype", _stored_floating, _stored_integer)
ANY: Final = DTypeSet("a dtype with arithmetic", *_ARITHMETIC)


def dtype_named(name: str) -> DType:
    """The dtype with a name (`float32`) or short name (`f32`)."""
    try:
        return _by_name[name]
    except KeyError:
        known = ", ".join(d.name for d in NAMED)
        raise DTypeError(f"dtype: the name must be one of {known}; got {name!r}") from None


def _meant(other: object) -> DType | None:
    """The dtype that corresponds to another library's type or to a name; None if there is none."""
    if isinstance(other, str):
        return _by_name.get(other)
    kind = cast("Any", other)
    if isinstance(other, type) and not issubclass(kind, np.generic) and kind not in PYTHON:
        return None
    try:
        return as_dtype(other)
    except DTypeError:
        return None


def as_dtype(value: object) -> DType:
    """A dtype from a DType, a name, a NumPy dtype, or one of Python's bool, int, float, complex."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return dtype_named(value)
    if isinstance(value, type) and value in PYTHON:
        return PYTHON[value]
    try:
        return _by_numpy[np.dtype(value)]  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError):
        known = ", ".join(d.name for d in NAMED)
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
    both(complex64, complex128, complex128)
    for number in FLOATS:
        both(number, complex64, complex128 if number is float64 else complex64)
        both(number, complex128, complex128)
    return table


PROMOTION: Final = _promotion()


def promote(*dtypes: DType) -> DType:
    """The dtype to which operands of the given dtypes are promoted.

    Within one kind, the wider dtype is taken.  Signed with unsigned gives the next wider signed dtype; float16 with
    bfloat16 gives float32; a floating-point dtype with a complex one gives the complex dtype that holds both.  Other
    kinds are not promoted to each other, nor is uint64 with a signed dtype.

    Raises DTypeError for such a pair.
    """
    result = dtypes[0]
    for d in dtypes[1:]:
        if d is not result:
            try:
                result = PROMOTION[result, d]
            except KeyError:
                wider = d if d.category.level > result.category.level else result
                raise DTypeError(
                    f"promotion: dtypes must be of one kind; got {result.name} and {d.name}; "
                    f"convert one of them, as in `x.astype(nacre.{wider.number.name})`"
                ) from None
    return result
