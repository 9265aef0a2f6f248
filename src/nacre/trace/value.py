"""`Value`: what every tensor is made of, and the one place where the public class is registered.

A value's `content` is a `Buffer` when it has numbers (then `layout` is None for dense row-major from the start of
the buffer, else a `Layout`), or a `Payload` of the interpreter that the value belongs to.  `node` is the tape's
record of how it came to be, or None.  Values are immutable; views share buffers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, TypeVar

from nacre.base.dtypes import DType
from nacre.base.errors import StateError, explain
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

    __slots__ = ("__weakref__", "content", "layout", "node", "type")
    type: TensorType
    content: Any  # Buffer | Payload; `data` is its public name, which cannot be assigned
    layout: Layout | None
    node: Any  # Origin | None

    @property
    def data(self) -> Any:
        """What holds the numbers.  Raises StateError where it is assigned: type and layout describe this one."""
        return self.content

    @data.setter
    def data(self, given: Any) -> None:
        raise StateError(explain(
            f"data: a tensor whose memory stays is required; got another {type(given).__name__} to hold",
            "y.data = value", "A tensor's memory belongs to its shape and dtype.  The `data` of parameters and buffers "
            "of modules can be assigned.",
            "y = value       # the name stands for another tensor\ny[...] = value  # the same tensor, other numbers"))

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.type.dtype


V = TypeVar("V", bound=Value)
PUBLIC: Final = "nacre.api"  # the package that registers the class of values, with all that its methods need
_public: list[type[Value]] = []


def register_public(cls: type[Value]) -> None:
    """Make `cls` the class of all values (the public Tensor)."""
    _public[:] = [cls]


def public_class() -> type[Value]:
    """The class of values, loaded with its methods by whoever makes the first one."""
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
    """The same value as an object of its own: what `y[i] = v` does to it does not concern others."""
    cls = type(x)
    y = cls.__new__(cls)
    y.type, y.content, y.layout, y.node = x.type, x.content, x.layout, x.node
    return y


def stripped(x: Value) -> Value:
    """The same value without its node."""
    return x if x.node is None else make(x.type, x.content, x.layout)


def give_up(x: Value, function: str) -> None:
    """Take a value's numbers away: it was donated to a call."""
    x.content, x.layout, x.node = GivenUp(function), None, None


def layout_of(x: Value) -> Layout:
    """Where a concrete value's elements lie, dense ones included."""
    return x.layout or Layout(0, row_major(x.type.shape))  # type: ignore[arg-type]


def is_concrete(x: Value) -> bool:
    """Whether the value has numbers."""
    return not isinstance(x.content, Payload)
