"""Lists that loops of a program append to: a tensor with room for all items, and the number of items.

A list has them while the loop is recorded.  Where the number of iterations is known, the list has its items afterwards.
"""

from __future__ import annotations

import sys
from types import CellType
from typing import Any, Final, NoReturn, cast

import numpy as np

from nacre.base.dims import Size
from nacre.base.dtypes import DType, int64
from nacre.base.errors import ArgumentError, TraceError, explain
from nacre.base.tree import LEAF, Structure
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, number_tensor
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.ops import pointwise, view
from nacre.ops.check import check
from nacre.ops.index import dynamic_update_slice
from nacre.ops.shape import broadcast_p, reshape
from nacre.trace.bind import bind
from nacre.trace.iteration import Stackable
from nacre.trace.value import Value
from nacre.transform.arguments import as_value
from nacre.transform.autograph.cells import MISSING, read

REFUSED: Final = (
    *("len", "iter", "getitem", "setitem", "delitem", "contains", "bool", "add", "radd", "iadd", "mul", "eq", "ne"),
    *("reversed", "hash"),
)
SHOWN: Final = {
    **{"getitem": "an item of it", "iter": "a loop over its items", "contains": "`in`", "bool": "its truth"},
    **{"setitem": "an item assigned", "delitem": "an item deleted", "add": "`+`", "radd": "`+`", "iadd": "`+=`"},
}

FILLED: Final = (
    "@nc.jit\ndef f(x):\n    steps = []\n    for k in range(100):\n        if x.sum() < 1:\n            break\n"
    "        x = x / 2\n        steps.append(x)\n"
)


class Meter:
    """The items that a statement appends to a list: how many, and of which type."""

    def __init__(self, depth: int, before: Any, filled: str) -> None:
        self.depth = depth  # parts around the statement's own parts
        self.filled = filled  # the list and the line that appends to it, for messages
        self.appends: Size = 0
        self.is_conditional = False  # whether the number of appends depends on traced values
        known = before.meter if type(before) is AppendedList else None
        self.type: TensorType | None = known.type if known is not None else None
        self.kind: type | None = known.kind if known is not None else None  # of Python numbers

    def take(self, item: Any) -> Value:
        """An item as a tensor.  Raises ArgumentError unless all items have one type."""
        kind = item.kind if type(item) is StagedNumber else type(item) if type(item) in (int, float) else None
        if kind is None and not isinstance(item, Value):
            raise ArgumentError(
                f"append: in a loop of the program, items must be tensors or numbers; got {type(item).__name__} in "
                f"{self.filled}; append each tensor to a list of its own"
            )
        if kind is None:
            held = as_value(item)
        else:
            held = item.held if type(item) is StagedNumber else number_tensor(cast("Any", item))
        if self.type is None:
            self.type, self.kind = held.type, kind
        if held.type is not self.type or kind is not self.kind:
            raise ArgumentError(
                f"append: the items of a list that a loop of the program fills must have one type; got "
                f"{self.shown(self.type, self.kind)} and {self.shown(held.type, kind)} in {self.filled}; convert or "
                "reshape them, or append them to two lists"
            )
        return held

    @staticmethod
    def shown(wanted: TensorType, kind: type | None) -> str:
        """A type of items, for messages."""
        return f"a tensor of type {wanted}" if kind is None else "an int" if kind is int else "a float"

    def item(self, x: Value) -> Any:
        """A row of the tensor as an item of the list."""
        return StagedNumber(self.kind, x) if self.kind is not None else x


def escaped(text: str) -> str:
    """A text as a part of the text of a check."""
    return text.replace("{", "{{").replace("}", "}}")


class AppendedList(Stackable):
    """A list that a loop of the program fills, or has filled."""

    def __init__(self, meter: Meter, held: Value | None, count: Any) -> None:
        self.meter, self.held, self.count = meter, held, count  # without a tensor while appends are counted
        self.is_open = True  # whether the loop that fills it is being recorded
        self.is_full = False  # whether the number of items is the tensor's size

    @property
    def structure(self) -> Structure:
        """Its structure as a value that programs carry."""
        return Structure(AppendedList, None, (LEAF,) * len(self.leaves))

    @property
    def leaves(self) -> list[Any]:
        """What a program carries: the tensor and the number."""
        return [self.count] if self.held is None else [self.held, self.count]

    def filled(self, leaves: list[Any]) -> AppendedList:
        """The list with other leaves."""
        made = AppendedList(self.meter, leaves[0] if len(leaves) > 1 else None, leaves[-1])
        made.is_open, made.is_full = self.is_open, self.is_full
        return made

    def appended(self, item: Any) -> AppendedList:
        """The list with one more item."""
        if not self.is_open:
            self.refuse("append", "another append")
        x = self.meter.take(item)
        self.meter.appends = self.meter.appends + 1
        if self.held is None:
            return self.filled([self.count + 1])
        block = reshape(x, (1, *x.type.shape))
        zero = zero_of(int64)
        held = dynamic_update_slice(self.held, block, (position(self.count), *([zero] * len(x.type.shape))))
        return self.filled([held, self.count + 1])

    def stacked(self, size: Any) -> Value:
        """The items as one tensor; with `size`, of this number of rows, with zeros behind the items."""
        if self.held is None or self.is_open:
            self.refuse("stack", "nc.stack in the loop that fills it")
        held = self.held
        if self.meter.kind is not None:
            held = pointwise.cast(held, StagedNumber(self.meter.kind, held).tensor().type.dtype)
        if size is None:
            if not self.is_full:
                self.refuse("stack", "nc.stack without a size")
            return held
        if not self.is_full:
            filled = escaped(self.meter.filled)
            text = f"stack: the list must have at most {size} items; got {{got}} in {filled}; write a larger size"
            none = f"stack: the list of tensors must not be empty; got {{got}} items in {filled}; begin it with an item"
            check(position(self.count), 0, size + 1, "argument", text)
            check(position(self.count), 1, size + 1, "argument", none)
        room = held.type.shape[0]
        if isinstance(room, int) and room < size:
            return _padded(held, size - room)
        return view.slice_axis(held, 0, 0, size)

    def refuse(self, operation: str, what: str) -> NoReturn:
        """Raise TraceError: the list cannot be used in this way."""
        raise TraceError(
            explain(
                f"{operation}: a list that a loop of the program fills, with a number of items that depends on traced "
                f"values, can only be stacked behind the loop; got {what}, of {self.meter.filled}",
                f"{FILLED}    return steps[-1]",
                "The number of items is not known before the program runs.  The list is a tensor with room for all of\n"
                "  them.  `nc.stack(steps, size=100)` has zeros behind the items, `len(steps)` is their number, and\n"
                "  `append` belongs in the function that has the loop.",
                f"{FILLED}    return nc.stack(steps, size=100), len(steps), x",
            )
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(name, f"`{name}`")


def _refusal(name: str) -> Any:
    def method(self: AppendedList, *_: Any) -> NoReturn:
        """Raise TraceError."""
        self.refuse(name, SHOWN.get(name, f"`{name}`"))

    return method


for _name in REFUSED:
    setattr(AppendedList, f"__{_name}__", _refusal(_name))


def position(count: Any) -> Value:
    """A number of items as a scalar tensor."""
    return count.held if type(count) is StagedNumber else pointwise.fill(count, (), int64)


def zero_of(wanted: DType) -> Value:
    """Zero as a scalar."""
    return from_numpy(np.zeros((), wanted.numpy))


def room(items: list[Any], meter: Meter, size: Size) -> Value:
    """A tensor with room for a number of items, of which the first ones are known."""
    given = [meter.take(item) for item in items]
    assert meter.type is not None
    shape = (size, *meter.type.shape)
    held = bind(broadcast_p, zero_of(meter.type.dtype), shape=shape, axes=())
    zero = zero_of(int64)
    for k, x in enumerate(given):
        starts = (pointwise.fill(k, (), int64), *([zero] * len(x.type.shape)))
        held = dynamic_update_slice(held, reshape(x, (1, *x.type.shape)), starts)
    return held


def enlarged(filled: AppendedList, more: Size) -> Value:
    """The tensor of a list with room for more items."""
    assert filled.held is not None
    return _padded(filled.held, more)


def _padded(held: Value, more: Size) -> Value:
    none = (0,) * held.type.rank
    return view.pad(held, zero_of(held.type.dtype), none, (more, *none[1:]), none)


def _owners(cell: CellType) -> int:
    """How many references there are to the content of a cell."""
    content = read(cell)
    return sys.getrefcount(content)


def has_one_name(cell: CellType) -> bool:
    """Whether only a variable has its value."""
    return read(cell) is MISSING or _owners(cell) <= _owners(CellType([]))
