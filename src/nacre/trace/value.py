"""`Value`: what every tensor is made of, and the one place where the public class is registered.

A value's `data` is a `Buffer` when it has numbers (then `layout` is None for dense row-major from the start of
the buffer, else a `Layout`), or a `Payload` of the interpreter that the value belongs to.  `node` is the tape's
record of how it came to be, or None.  Values are immutable; views share buffers.
"""

from __future__ import annotations

from typing import Any, TypeVar

from nacre.base.dtypes import DType
from nacre.base.errors import StateError
from nacre.base.types import Shape, TensorType, row_major
from nacre.ir.primitive import Layout


class Payload:
    """What an interpreter knows of a value instead of numbers.  `level` orders nested interpreters."""

    __slots__ = ("interpreter", "level")
    level: int
    interpreter: Any  # has process(primitive, inputs, params)


class GivenUp(Payload):
    """Instead of numbers: the value was donated to a call, which may have overwritten them."""

    __slots__ = ("function",)

    def __init__(self, function: str) -> None:
        self.function, self.level, self.interpreter = function, 0, self

    def process(self, *equation: Any) -> Any:
        """Refuse any operation."""
        raise StateError(f"donated tensor: a tensor that still has its memory is required; this one was given up to "
                         f"{self.function} by donate; use what the call returned, or leave the parameter out of donate")


class Origin:
    """Where a value came from, for reverse mode: what a value's `node` is.  Native code reads the level."""

    __slots__ = ("__weakref__", "level")
    level: int  # 0 for plain tensors; nested transformations have higher ones


class Value:
    """The slots of a tensor.  The slots' order is known to the native entry points."""

    __slots__ = ("__weakref__", "data", "layout", "node", "type")
    type: TensorType
    data: Any  # Buffer | Payload
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
_public: list[type[Value]] = [Value]


def register_public(cls: type[Value]) -> None:
    """Make `cls` the class of all values made from now on (the public Tensor)."""
    _public[0] = cls


def public_class() -> type[Value]:
    """The class of values."""
    return _public[0]


def make(type: TensorType, data: Any, layout: Layout | None = None, node: Any = None) -> Value:
    """A new value of the public class."""
    v = _public[0].__new__(_public[0])
    v.type, v.data, v.layout, v.node = type, data, layout, node
    return v


def fresh(x: Value) -> Value:
    """The same value as an object of its own: what `y[i] = v` does to it does not concern others."""
    cls = type(x)
    y = cls.__new__(cls)
    y.type, y.data, y.layout, y.node = x.type, x.data, x.layout, x.node
    return y


def stripped(x: Value) -> Value:
    """The same value without its node."""
    return x if x.node is None else make(x.type, x.data, x.layout)


def give_up(x: Value, function: str) -> None:
    """Take a value's numbers away: it was donated to a call."""
    x.data, x.layout, x.node = GivenUp(function), None, None


def layout_of(x: Value) -> Layout:
    """Where a concrete value's elements lie, dense ones included."""
    return x.layout or Layout(0, row_major(x.type.shape))  # type: ignore[arg-type]


def is_concrete(x: Value) -> bool:
    """Whether the value has numbers."""
    return not isinstance(x.data, Payload)
