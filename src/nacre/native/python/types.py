"""The types of native Python, and structures with named fields at fixed offsets.

A type checker sees `u64` as `int`, `f32` as `float`, and a structure's class as itself.  When the program runs, they
are the descriptions below.  A call of a number's type converts a Python number, so a native function that uses numbers
alone also runs as plain Python::

    @struct
    class Block:
        next: Block                               # a reference, as always in Python: a pointer, or null
        words: Annotated[array[u64], 8]           # eight words inside of the structure
        name: ptr[u8]

    size_of(Block), offset_of(Block, "name")      # (80, 72)
"""

from __future__ import annotations

import struct as packing
import sys
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
)

from nacre.base.cached_property import cached_property
from nacre.base.errors import CompileError

T = TypeVar("T")
WORD: Final = 8  # bytes of a pointer


class _Described:
    """A type with the values that make it; types of the same values are equal.

    These are no dataclasses, because every process imports this file and a dataclass takes longer to make.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))


class IntKind(_Described):
    """An integer of a number of bits; its arithmetic wraps around."""

    def __init__(self, bits: int, signed: bool) -> None:
        self.bits, self.signed = bits, signed

    @property
    def llvm(self) -> str:
        """LLVM's name of the type."""
        return f"i{self.bits}"

    @property
    def nbytes(self) -> int:
        """The size and alignment in memory."""
        return self.bits // 8

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low = -(1 << (self.bits - 1)) if self.signed else 0
        return low, low + (1 << self.bits) - 1

    def __call__(self, value: float) -> int:
        """A Python number as this type holds it: rounded to zero and within bounds from a float, else wrapped."""
        low, high = self.bounds
        if isinstance(value, float):
            return 0 if value != value else low if value <= low else high if value >= high else int(value)
        return (int(value) - low) % (1 << self.bits) + low

    def __str__(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.bits}"


class FloatKind(_Described):
    """A floating-point number of 32 or 64 bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    @property
    def llvm(self) -> str:
        """LLVM's name of the type."""
        return "float" if self.bits == 32 else "double"

    @property
    def nbytes(self) -> int:
        """The size and alignment in memory."""
        return self.bits // 8

    def __call__(self, value: float) -> float:
        """A Python number, rounded to this type."""
        return packing.unpack("<f", packing.pack("<f", value))[0] if self.bits == 32 else float(value)

    def __str__(self) -> str:
        return f"f{self.bits}"


class BoolKind(_Described):
    """True or False: one bit in a register, a byte of 0 or 1 in memory."""

    llvm = "i1"
    nbytes = 1

    def __str__(self) -> str:
        return "bool"


class VoidKind(_Described):
    """The result of a function that returns nothing."""

    llvm = "void"
    nbytes = 0

    def __str__(self) -> str:
        return "None"


class PointerKind(_Described):
    """A pointer to elements, or a reference to a structure."""

    llvm = "ptr"
    nbytes = WORD

    def __init__(self, element: Kind) -> None:
        self.element = element

    def __call__(self, *_: object) -> Any:
        """Only so that `typing` accepts it as a type."""
        raise CompileError(f"{self}: a pointer must be made in native code; got a call in Python; use `cast` there")

    def __str__(self) -> str:
        return str(self.element) if isinstance(self.element, StructKind) else f"ptr[{self.element}]"


class FunctionKind(_Described):
    """A pointer to a function."""

    llvm = "ptr"
    nbytes = WORD

    def __init__(self, parameters: tuple[Kind, ...], result: Kind) -> None:
        self.parameters, self.result = parameters, result

    def __str__(self) -> str:
        return f"Callable[[{', '.join(map(str, self.parameters))}], {self.result}]"


class ArrayKind(_Described):
    """Elements in a row, inside of a structure."""

    llvm = "ptr"  # of its first element

    def __init__(self, element: Kind, count: int) -> None:
        self.element, self.count = element, count

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self.element.nbytes * self.count

    def __str__(self) -> str:
        return f"Annotated[array[{self.element}], {self.count}]"


class TupleKind(_Described):
    """Several results of an inlined function."""

    llvm = "void"
    nbytes = 0

    def __init__(self, items: tuple[Kind, ...]) -> None:
        self.items = items

    def __str__(self) -> str:
        return f"tuple[{', '.join(map(str, self.items))}]"


class Field(_Described):
    """A field of a structure: its type and its place."""

    def __init__(self, kind: Kind, offset: int) -> None:
        self.kind, self.offset = kind, offset


class StructKind:
    """A structure as C lays it out: each field at a multiple of its alignment."""

    llvm = "ptr"  # to it

    def __init__(self, owner: type[Any], names: dict[str, Any], base: StructKind | None) -> None:
        self.owner, self.names, self.base = owner, names, base

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields in order; those of the base class are the first."""
        found = dict(self.base.fields) if self.base is not None else {}
        end = self.base.nbytes if self.base is not None else 0
        for name, written in self.owner.__annotations__.items():
            known = {self.owner.__name__: self.owner}
            try:
                kind = kind_of(eval(written, self.names, known) if isinstance(written, str) else written)
            except (CompileError, NameError, TypeError) as fault:
                raise CompileError(f"{self}.{name}: {fault}") from None
            end = _round_up(end, alignment(kind))
            found[name] = Field(kind, end)
            end += kind.nbytes
        return found

    @cached_property
    def nbytes(self) -> int:
        """The size with the padding at its end."""
        last = max(self.fields.values(), key=lambda f: f.offset + f.kind.nbytes, default=Field(VOID, 0))
        return _round_up(last.offset + last.kind.nbytes, alignment(self))

    def extends(self, other: Kind) -> bool:
        """Whether this structure begins with another one."""
        return self is other or (self.base is not None and self.base.extends(other))

    def __str__(self) -> str:
        return self.owner.__name__


Kind: TypeAlias = (
    IntKind | FloatKind | BoolKind | VoidKind | PointerKind | FunctionKind | ArrayKind | TupleKind | StructKind
)
BOOL: Final = BoolKind()
VOID: Final = VoidKind()


def alignment(kind: Kind) -> int:
    """The alignment of a type in memory."""
    if isinstance(kind, StructKind):
        return max((alignment(f.kind) for f in kind.fields.values()), default=1)
    return alignment(kind.element) if isinstance(kind, ArrayKind) else max(1, kind.nbytes)


def _round_up(n: int, to: int) -> int:
    return -(-n // to) * to


def memory_type(kind: Kind) -> str:
    """LLVM's type of a value in memory."""
    return "i8" if kind == BOOL else kind.llvm


class _Inside(_Described):
    """A structure itself, not a reference to it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind


class _Row(_Described):
    """The element of an array whose length stands beside it."""

    def __init__(self, element: Kind) -> None:
        self.element = element

    def __call__(self, *_: object) -> Any:
        """Only so that `typing` accepts it as a type."""
        raise CompileError("array: an array must be a field; got a call in Python; use `stack` in native code")


if TYPE_CHECKING:
    i8: TypeAlias = int
    i16: TypeAlias = int
    i32: TypeAlias = int
    i64: TypeAlias = int
    u8: TypeAlias = int
    u16: TypeAlias = int
    u32: TypeAlias = int
    u64: TypeAlias = int
    f32: TypeAlias = float
    f64: TypeAlias = float
    embed = Annotated[T, "the structure itself, not a reference to it"]
    cstring: TypeAlias = "ptr[u8] | bytes"

    class ptr(Generic[T]):
        """A pointer to elements."""

        def __getitem__(self, index: int) -> T: ...
        def __setitem__(self, index: int, value: T) -> None: ...
        def __int__(self) -> int: ...

    class array(ptr[T]):
        """Elements inside of a structure: `Annotated[array[u64], 8]`."""

else:
    i8, i16, i32, i64 = (IntKind(bits, True) for bits in (8, 16, 32, 64))
    u8, u16, u32, u64 = (IntKind(bits, False) for bits in (8, 16, 32, 64))
    f32, f64 = FloatKind(32), FloatKind(64)

    class ptr:
        """`ptr[u8]` is a pointer to bytes, `ptr[Block]` one to references."""

        def __class_getitem__(cls, element):
            return PointerKind(kind_of(element))

    cstring = PointerKind(u8)

    class array:
        """`Annotated[array[u64], 8]` is an array inside of a structure."""

        def __class_getitem__(cls, element):
            return _Row(kind_of(element))

    class embed:
        """`embed[Block]` is the structure itself, where `Block` is a reference to one."""

        def __class_getitem__(cls, owner):
            return _Inside(struct_of(owner))


@dataclass_transform()
def struct(cls: type[T]) -> type[T]:
    """Declare a structure by a class with annotations; a subclass begins with the fields of its base.

    Instances are only the initial values of variables.
    """
    known = [b.__dict__["__native__"] for b in cls.__bases__ if "__native__" in b.__dict__]
    names = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
    kind = StructKind(cls, names, known[0] if known else None)
    cls.__native__ = kind  # pyright: ignore[reportAttributeAccessIssue]
    cls.__init__ = _keep_values
    return cls


def _keep_values(self: Any, **values: object) -> None:
    self.__dict__.update(values)


def struct_of(owner: type[Any]) -> StructKind:
    """The description of a structure's class."""
    found = owner.__dict__.get("__native__")
    if not isinstance(found, StructKind):
        raise CompileError(f"struct: the class must be declared with @struct; got {owner!r}; decorate it")
    return found


def offset_of(owner: type[Any], field: str) -> int:
    """The offset of a field in bytes."""
    fields = struct_of(owner).fields
    if field not in fields:
        raise CompileError(
            f"offset_of: {owner.__name__} must have the field; got {field!r}; use one of {', '.join(fields)}"
        )
    return fields[field].offset


def size_of(owner: Any) -> int:
    """The size of a structure or number in bytes."""
    found = kind_of(owner)
    return (found.element if isinstance(found, PointerKind) and owner is not found else found).nbytes


def fields_of(owner: type[Any]) -> tuple[str, ...]:
    """The names of a structure's fields in order."""
    return tuple(struct_of(owner).fields)


def kind_of(written: Any) -> Kind:
    """The type that an evaluated annotation stands for.

    Raises CompileError for annotations that have no native type.
    """
    if written is None or written is type(None):
        return VOID
    if written is bool:
        return BOOL
    if isinstance(written, type) and isinstance(written.__dict__.get("__native__"), StructKind):
        return PointerKind(struct_of(written))
    if isinstance(written, _Inside):
        return written.kind
    if isinstance(written, Kind):
        return written
    origin: Any = get_origin(written)
    arguments: tuple[Any, ...] = getattr(written, "__args__", ())
    if origin is Annotated and isinstance(arguments[0], _Row):
        return ArrayKind(arguments[0].element, int(get_args(written)[1]))
    if origin is tuple:
        return TupleKind(tuple(map(kind_of, arguments)))
    if origin is Callable:
        return FunctionKind(tuple(map(kind_of, arguments[:-1])), kind_of(arguments[-1]))
    raise CompileError(
        f"type: an annotation must be a native type; got {written!r}; use i8 to i64, u8 to u64, f32, f64, bool, "
        "ptr[…], a class with @struct, or Callable[[…], …]"
    )
