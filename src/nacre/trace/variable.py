"""`Variable`: the one mutable thing, a cell that holds a tensor.

Parameters, running statistics, optimiser state, random state and scheduled hyper-parameters are variables.  While
a function is being staged, reading a variable makes it an input of the graph and writing makes it an output that
is updated in place; the staging interpreter keeps those records and hands out what the variable holds meanwhile.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from nacre.base.dtypes import DType
from nacre.base.errors import DTypeError, ShapeError, StateError, TraceError, explain
from nacre.base.locks import forkable
from nacre.base.state import STATE
from nacre.base.types import Shape, TensorType
from nacre.trace.value import Origin, Payload, Value, fresh, is_concrete, make, stripped

_numbers = itertools.count()


class VariableScope(Protocol):
    """A staging interpreter, as variables see it."""

    def read(self, variable: Variable) -> Value:
        """The variable's current value in this scope."""
        ...

    def write(self, variable: Variable, value: Value) -> None:
        """Set the variable's value in this scope."""
        ...

    def read_gradient(self, variable: Variable) -> Value | None:
        """The variable's gradient in this scope; None if it has none."""
        ...

    def write_gradient(self, variable: Variable, value: Value | None) -> None:
        """Set or clear the variable's gradient in this scope."""
        ...


class Leaf(Origin):
    """The node of a value whose gradient is wanted: the end of the tape."""

    __slots__ = ("gradient", "owner")

    def __init__(self, level: int, owner: Variable | None = None) -> None:
        self.level = level
        self.owner = owner  # gradients go there; else they stay in `gradient`
        self.gradient: Value | None = None


def scope() -> VariableScope | None:
    """The innermost staging interpreter, if one is active."""
    if STATE.word:
        for interpreter in reversed(STATE.interpreters):
            if interpreter.dynamic:
                return interpreter
    return None


UPDATES = forkable()  # held while a call updates variables in place
UPDATER = ctypes.c_uint64(0)  # the thread that holds it, for native entries too


class Updating(Payload):
    """What a variable holds while a call overwrites its memory: others wait until the call is done."""

    __slots__ = ("variable",)

    def __init__(self, variable: Variable) -> None:
        self.variable, self.level, self.interpreter = variable, 0, self


def settled(x: Value) -> Value:
    """x itself, or what the variable holds for which x stands, once it has been updated."""
    return x.data.variable.settled() if type(x.data) is Updating else x


def placeholders(variables: Sequence[Variable]) -> list[Value]:
    """What stands in the place of variables' values while they are `hidden`."""
    return [make(v.type, Updating(v)) for v in variables]


def _show(variables: Sequence[Variable], cells: Sequence[Value]) -> None:
    UPDATER.value = 0
    for v, cell in zip(variables, cells, strict=True):
        v.cell = cell


@contextmanager
def hidden(variables: Sequence[Variable], places: Sequence[Value]) -> Generator[list[Value]]:
    """Take what variables hold away from everybody else for the time of an update in place (UPDATES is held)."""
    cells = [v.cell for v in variables]  # no name may hold one of them: references are counted
    UPDATER.value = threading.get_ident()
    try:
        for v, place in zip(variables, places, strict=True):
            v.cell = place
        yield cells
    finally:
        try:
            _show(variables, cells)
        except BaseException:  # an interrupt: nothing may stay hidden
            _show(variables, cells)
            raise


class Variable:
    """A cell holding a tensor of a fixed type.

    `value` reads it; `assign` replaces it.  With `requires_grad`, `backward` adds to `gradient`.

    Raises TraceError for a value that is being traced.

    >>> total = nc.Variable(nc.tensor(0.0))
    >>> @nc.jit
    ... def add(x):
    ...     total.assign(total.value + nc.sum(x))
    ...     return total.value
    >>> _ = add(nc.ones(3)), add(nc.ones(4))
    >>> total.value.item()
    7.0
    """

    __slots__ = ("__weakref__", "cell", "gradient_cell", "leaf", "name", "number", "requires_grad")

    def __init__(self, value: Value, *, requires_grad: bool = False, name: str = "") -> None:
        if not is_concrete(value):
            raise _traced(value)
        self.cell = fresh(value)
        self.gradient_cell: Value | None = None
        self.requires_grad = requires_grad
        self.name = name
        self.number = next(_numbers)
        self.leaf: Leaf | None = None

    @property
    def type(self) -> TensorType:
        """The type of the contents."""
        return self.cell.type

    @property
    def shape(self) -> Shape:
        """The shape of the contents."""
        return self.cell.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the contents."""
        return self.cell.type.dtype

    @property
    def value(self) -> Any:
        """The tensor it holds now."""
        inside = scope()
        if inside is not None:
            return inside.read(self)
        held = self.cell
        if type(held.data) is Updating:
            held = self.settled()
        if not self.requires_grad:
            return fresh(held)
        if self.leaf is None:
            self.leaf = Leaf(0, self)
        if held.node is not self.leaf:
            self.cell = held = _with_leaf(held, self.leaf)
        return held

    def assign(self, value: Value) -> None:
        """Hold another tensor of the same type.  Raises ShapeError or DTypeError where the types differ."""
        if value.type is not self.type:
            self._refuse(value)
        inside = scope()
        if inside is not None:
            inside.write(self, value)
        elif is_concrete(value):
            self.cell = fresh(stripped(value))
        else:
            raise _outlived(self, value)

    def settled(self) -> Value:
        """What it holds, after an update in place that another thread is at."""
        held = self.cell
        while type(held.data) is Updating:
            if UPDATER.value == threading.get_ident():
                raise StateError(f"variable {self.name or self.number}: a variable that is not being updated by the "
                                 "same thread is required; read it before or after the call that updates it")
            with UPDATES:
                held = self.cell
        return held

    def hold(self, value: Value) -> None:
        """`assign` of a result of this type that nobody else has, outside of staging."""
        self.cell = value if value.node is None else stripped(value)

    def _refuse(self, value: Value) -> None:
        kind = DTypeError if value.type.dtype is not self.type.dtype else ShapeError
        raise kind(f"variable {self.name or self.number}: a value of type {self.type} is required; got {value.type}")

    @property
    def gradient(self) -> Any:
        """The accumulated gradient, or None."""
        inside = scope()
        return self.gradient_cell if inside is None else inside.read_gradient(self)

    @gradient.setter
    def gradient(self, value: Value | None) -> None:
        """Set or clear the gradient, whose type must be the variable's own."""
        if value is not None and value.type is not self.type:
            self._refuse(value)
        inside = scope()
        if inside is not None:
            inside.write_gradient(self, value)
        elif value is None or is_concrete(value):
            self.gradient_cell = value
        else:
            raise _outlived(self, value)


def _traced(value: Value) -> TraceError:
    return TraceError(
        explain(
            f"variable: a tensor with numbers is required; got one of type {value.type} that is being traced",
            "@nc.jit\ndef f(x):\n    layer = nn.Linear(8, 8)          # makes variables anew in every trace\n"
            "    return layer(x)",
            "A variable keeps its value from call to call, but inside jit, vmap or grad a tensor has no numbers yet.",
            "layer = nn.Linear(8, 8)\n@nc.jit\ndef f(x):\n    return layer(x)",
        )
    )


def _outlived(variable: Variable, value: Value) -> TraceError:
    return TraceError(
        explain(
            f"variable {variable.name or variable.number}: a tensor with numbers is required; got a value of type "
            f"{value.type} inside a transformation",
            "def f(x):\n    total.assign(total.value + x)    # which of the batch's values should it hold?\n"
            "    return x * 2\nnc.vmap(f)(xs)",
            "Inside vmap or jvp a value stands for several numbers; a variable keeps only one when they end.",
            "def f(x):\n    return x * 2, x\nys, xs = nc.vmap(f)(xs)\ntotal.assign(total.value + xs.sum())",
        )
    )


def _with_leaf(held: Value, leaf: Leaf) -> Value:
    cls = type(held)
    v = cls.__new__(cls)
    v.type, v.data, v.layout, v.node = held.type, held.data, held.layout, leaf
    return v
