"""`Value`: the base class of tensors, and the registration of the public class.

A value's `content` is a `Buffer` if it has numbers, or a `Payload` of the interpreter that the value belongs to.  With
a buffer, `layout` is None for dense row-major elements from its start, else a `Layout`.  `node` is the tape's record of
the computation, or None.  Values are immutable; views share buffers.

A buffer over the memory of another library is *borrowed*: that library may write to it, and Nacre must not.  Variables
and the tape keep `owned` values.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any, Final, TypeVar

from nacre.base.dtypes import DType
from nacre.base.errors import StateError
from nacre.base.types import Shape, TensorType, row_major
from nacre.ir.primitive import Layout
from nacre.runtime.buffer import allocate

PLACEHOLDERS: Final = 1  # the level of placeholders: above the tape of plain tensors, below every transformation


class Payload:
    """The content of a value without numbers, owned by an interpreter.  `level` orders nested interpreters."""

    __slots__ = ("interpreter", "level")
    level: int
    interpreter: Any  # has process(primitive, inputs, params)


class DonatedValue(Payload):
    """The content of a donated value: a call may have overwritten the numbers."""

    __slots__ = ("function",)

    def __init__(self, function: str) -> None:
        self.function, self.level, self.interpreter = function, 0, self

    def process(self, *equation: Any) -> Any:
        """Raise an error for any operation."""
        raise StateError(
            f"donated tensor: the tensor has no memory any more; it was donated to "
            f"{self.function}; use the result of the call, or leave the parameter out of donate"
        )


class Origin:
    """The `node` of a value: its origin, for reverse mode.  Native code reads the level."""

    __slots__ = ("__weakref__", "level")
    level: int  # 0 for plain tensors; nested transformations have higher ones


class Value:
    """The slots of a tensor.  Native entry points depend on the slots' order."""

    __slots__ = ("__weakref__", "content", "layout", "node", "type")
    type: TensorType
    content: Any  # Buffer | Payload
    layout: Layout | None
    node: Any  # Origin | None

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.type.dtype


V = TypeVar("V", bound=Value)
PUBLIC: Final = "nacre.api"  # the package that registers the class of values and its methods
_public: list[type[Value]] = []


def register_public(cls: type[Value]) -> None:
    """Make `cls` the class of all values (the public Tensor)."""
    _public[:] = [cls]


def public_class() -> type[Value]:
    """The class of values; the first value loads it with its methods."""
    if not _public:
        import_module(PUBLIC)
    return _public[0]


def make(type: TensorType, data: Any, layout: Layout | None = None, node: Any = None) -> Value:
    """A new value of the public class."""
    cls = _public[0] if _public else public_class()
    v = cls.__new__(cls)
    v.type, v.content, v.layout, v.node = type, data, layout, node
    return v


def fresh(x: Value) -> Value:
    """The same value as a new object, so that `y[i] = v` does not change the original."""
    cls = type(x)
    y = cls.__new__(cls)
    y.type, y.content, y.layout, y.node = x.type, x.content, x.layout, x.node
    return y


def stripped(x: Value) -> Value:
    """The same value without its node."""
    return x if x.node is None else make(x.type, x.content, x.layout)


def give_up(x: Value, function: str) -> None:
    """Remove a value's numbers, because it was donated to a call."""
    x.content, x.layout, x.node = DonatedValue(function), None, None


def layout_of(x: Value) -> Layout:
    """The layout of a concrete value's elements, dense ones included."""
    return x.layout or Layout(0, row_major(x.type.shape))  # type: ignore[arg-type]


def is_concrete(x: Value) -> bool:
    """Whether the value has numbers."""
    return not isinstance(x.content, Payload)


def is_borrowed(x: Value) -> bool:
    """Whether the numbers are in memory that another library may write to."""
    return is_concrete(x) and x.content.owner is not None


def owned(x: Value) -> Value:
    """x itself, or for borrowed memory a copy."""
    return copied(x) if is_borrowed(x) else x


def copied(x: Value) -> Value:
    """The numbers in other memory, in whose buffer the elements have the same strides."""
    layout, size = layout_of(x), x.type.dtype.itemsize
    if 0 in x.type.shape:
        return make(x.type, allocate(0), None, x.node)
    moves = [(int(n) - 1) * s for n, s in zip(x.type.shape, layout.strides, strict=True)]
    low = sum(m for m in moves if m < 0)
    nbytes = (sum(m for m in moves if m > 0) + 1 - low) * size
    buffer = allocate(nbytes)
    ctypes.memmove(buffer.address, x.content.address + (layout.offset + low) * size, nbytes)
    return make(x.type, buffer, None if x.layout is None else Layout(-low, layout.strides), x.node)
