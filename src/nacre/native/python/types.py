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

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeAlias, TypeVar, dataclass_transform, get_args

from nacre.base.cached_property import cached_property
from nacre.base.errors import CompileError

T = TypeVar("T")
WORD: Final = 8  # bytes of a pointer


class Kind:
    """A type: LLVM's name of a value, the bytes in memory, and how programs write it; equal ones have equal parts.

    `memory` is LLVM's type in memory, where a structure or array is bytes.
    """

    structure: StructKind | None = None  # what a reference is to

    def __init__(self, llvm: str, nbytes: int, name: str, *parts: object, memory: str = "") -> None:
        self.llvm, self.nbytes, self.name, self.parts, self.memory = llvm, nbytes, name, parts, memory or llvm
        self.alignment = max(1, nbytes)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Kind) and self.name == other.name and self.parts == other.parts)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


class IntKind(Kind):
    """An integer of a number of bits; its arithmetic wraps around."""

    constants = int  # the Python numbers that may stand for one

    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__(f"i{bits}", bits // 8, f"{'i' if signed else 'u'}{bits}")
        self.bits, self.signed = bits, signed
        low = -(1 << (bits - 1)) if signed else 0
        self.bounds = low, low + (1 << bits) - 1

    def __call__(self, value: float) -> int:
        """A Python number as this type holds it: an integer wraps around, a float is rounded to zero within bounds."""
        low, high = self.bounds
        if isinstance(value, float):
            return int(max(low, min(high, value))) if value == value else 0
        return (int(value) - low) % (1 << self.bits) + low


class FloatKind(Kind):
    """A floating-point number of 32 or 64 bits."""

    constants = (int, float)

    def __init__(self, bits: int) -> None:
        super().__init__("float" if bits == 32 else "double", bits // 8, f"f{bits}")
        greatest = float.fromhex("0x1.fffffep127") if bits == 32 else sys.float_info.max
        self.bits, self.bounds = bits, (-greatest, greatest)

    def __call__(self, value: float) -> float:
        """A Python number, rounded to this type."""
        return (ctypes.c_float if self.bits == 32 else ctypes.c_double)(value).value


class BoolKind(Kind):
    """True or False: one bit in a register, a byte of 0 or 1 in memory."""


class PointerKind(Kind):
    """A pointer to elements, or a reference to a structure."""

    def __init__(self, element: Kind) -> None:
        self.element, self.structure = element, element if isinstance(element, StructKind) else None
        super().__init__("ptr", WORD, element.name if self.structure else f"ptr[{element}]", element)

    def __call__(self, *_: object) -> Any:
        """Only so that `typing` accepts it as a type."""
        raise CompileError(f"{self}: a pointer must be made in native code; got a call in Python; use `cast` there")


pointer_to = cache(PointerKind)  # the one description of a pointer to elements of a type


class ElementKind(PointerKind):
    """The element of an array whose length stands beside it."""


class FunctionKind(Kind):
    """A pointer to a function."""

    def __init__(self, kinds: tuple[Kind, ...], result: Kind) -> None:
        super().__init__("ptr", WORD, f"Callable[[{', '.join(map(str, kinds))}], {result}]", kinds, result)
        self.kinds, self.result = kinds, result  # the kinds are those of the parameters


class ArrayKind(Kind):
    """Elements in a row, inside of a structure."""

    def __init__(self, element: Kind, count: int) -> None:
        nbytes, name = element.nbytes * count, f"Annotated[array[{element}], {count}]"
        super().__init__("ptr", nbytes, name, element, memory=f"[{nbytes} x i8]")
        self.element, self.count, self.alignment = element, count, element.alignment


class TupleKind(Kind):
    """Several values: the results of an inlined function or of an instruction."""

    def __init__(self, items: tuple[Kind, ...]) -> None:
        names = ", ".join(map(str, items))
        super().__init__(f"{{ {', '.join(k.llvm for k in items)} }}", 0, f"tuple[{names}]", items)
        self.items = items


class Field:
    """A field of a structure: its type and its place."""

    def __init__(self, kind: Kind, offset: int) -> None:
        self.kind, self.offset = kind, offset


class StructKind(Kind):
    """A structure as C lays it out: each field at a multiple of its alignment."""

    def __init__(self, owner: type[Any], names: dict[str, Any], base: StructKind | None) -> None:
        self.llvm, self.name, self.parts = "ptr", owner.__name__, (owner,)
        self.owner, self.names, self.base = owner, names, base

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields in order; those of the base class are the first."""
        found = dict(self.base.fields) if self.base is not None else {}
        end = self.base.nbytes if self.base is not None else 0
        for name, written in self.owner.__annotations__.items():
            known = {self.owner.__name__: self.owner}
            try:
                kind = kind_named(written, self.names, known)
            except (CompileError, NameError, TypeError) as fault:
                raise CompileError(f"{self}.{name}: {fault}") from None
            end = _round_up(end, kind.alignment)
            found[name] = Field(kind, end)
            end += kind.nbytes
        return found

    @cached_property
    def alignment(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The greatest alignment of a field."""
        return max((f.kind.alignment for f in self.fields.values()), default=1)

    @cached_property
    def nbytes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The size with the padding at its end."""
        end = max((f.offset + f.kind.nbytes for f in self.fields.values()), default=0)
        return _round_up(end, self.alignment)

    @cached_property
    def memory(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Bytes."""
        return f"[{self.nbytes} x i8]"

    def field(self, name: str) -> Field:
        """A field, which must exist."""
        if name not in self.fields:
            raise CompileError(f"{self}.{name}: the field must exist; got none; use one of {', '.join(self.fields)}")
        return self.fields[name]

    def extends(self, other: Kind) -> bool:
        """Whether this structure begins with another one."""
        return self is other or (self.base is not None and self.base.extends(other))


BOOL: Final = BoolKind("i1", 1, "bool", memory="i8")
VOID: Final = Kind("void", 0, "None")


def _round_up(n: int, to: int) -> int:
    return -(-n // to) * to


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
            return pointer_to(kind_of(element))

    cstring = pointer_to(u8)

    class array:
        """`Annotated[array[u64], 8]` is an array inside of a structure."""

        def __class_getitem__(cls, element):
            return ElementKind(kind_of(element))

    class embed:
        """`embed[Block]` is the structure itself, where `Block` is a reference to one."""

        def __class_getitem__(cls, owner):
            return struct_of(owner)


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
    return struct_of(owner).field(field).offset


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
    if written in (None, type(None), bool):
        return BOOL if written is bool else VOID
    if isinstance(written, type) and "__native__" in written.__dict__:
        return pointer_to(struct_of(written))
    if isinstance(written, Kind) and not isinstance(written, ElementKind):
        return written
    origin: Any = getattr(written, "__origin__", None)
    arguments: tuple[Any, ...] = get_args(written)
    if isinstance(origin, ElementKind):  # of Annotated
        return ArrayKind(origin.element, arguments[1])
    if origin is tuple:
        return TupleKind(tuple(map(kind_of, arguments)))
    if origin is Callable:
        return FunctionKind(tuple(map(kind_of, arguments[0])), kind_of(arguments[1]))
    raise CompileError(
        f"type: an annotation must be a native type; got {written!r}; use i8 to i64, u8 to u64, f32, f64, bool, "
        "ptr[…], a class with @struct, or Callable[[…], …]"
    )


def kind_named(written: object, names: dict[str, Any], known: dict[str, Any] | None = None) -> Kind:
    """The type that an annotation or its text stands for, by the names of its module and those that are known."""
    if isinstance(written, str):  # a plain name is only looked up, because `eval` takes longer
        plain = written in names and written not in (known or {})
        written = names[written] if plain else eval(compile(written, "<type>", "eval"), names, known)
    return kind_of(written)
