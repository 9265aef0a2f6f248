"""`Variable`: the only mutable object, a cell that holds a tensor.

Parameters, running statistics, optimiser state, random state and scheduled hyper-parameters are variables.  While a
function is staged, reading a variable makes it an input of the graph, and writing makes it an output that is updated in
place.  The staging interpreter keeps these records and provides the variable's current value.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakValueDictionary

from nacre.base.arguments import require_flag
from nacre.base.dtypes import DType
from nacre.base.errors import TRACED, DTypeError, StateError, TraceError, explain
from nacre.base.locks import forkable
from nacre.base.state import STATE
from nacre.base.types import Shape, TensorType, unlike
from nacre.trace.hooks import GradientHooks
from nacre.trace.value import PLACEHOLDERS, Origin, Payload, Value, fresh, is_concrete, make, owned, stripped

_numbers = itertools.count()
_live: WeakValueDictionary[int, Variable] = WeakValueDictionary()  # by their numbers


class VariableScope(Protocol):
    """The interface of a staging interpreter for variables."""

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
    """The node of a value that accumulates a gradient: the end of the tape."""

    __slots__ = ("gradient", "hooks", "owner")

    def __init__(self, level: int, owner: Variable | None = None) -> None:
        self.level = level
        self.hooks: GradientHooks | None = None  # those of an owner are the owner's
        self.owner = owner  # receives the gradients; otherwise `gradient` does
        self.gradient: Value | None = None


def scope() -> VariableScope | None:
    """The innermost staging interpreter, if one is active."""
    if STATE.word:
        for interpreter in reversed(STATE.interpreters):
            if interpreter.dynamic:
                return interpreter
    return None


UPDATES = forkable()  # locked while a call updates variables in place
UPDATER = ctypes.c_uint64(0)  # the thread that has locked it, for native entries too


class UpdateInProgress(Payload):
    """The content of a variable while a call overwrites its memory: other threads wait until the call is done."""

    __slots__ = ("variable",)

    def __init__(self, variable: Variable) -> None:
        self.variable, self.level, self.interpreter = variable, 0, self


def settled(x: Value) -> Value:
    """x itself; for a placeholder, the variable's value after the update."""
    return x.content.variable.settled() if type(x.content) is UpdateInProgress else x


def placeholders(variables: Sequence[Variable]) -> list[Value]:
    """The placeholders for variables' values while they are `hidden`."""
    return [make(v.type, UpdateInProgress(v)) for v in variables]


def _show(variables: Sequence[Variable], cells: Sequence[Value]) -> None:
    UPDATER.value = 0
    for v, cell in zip(variables, cells, strict=True):
        v.cell = cell


@contextmanager
def hidden(variables: Sequence[Variable], places: Sequence[Value]) -> Generator[list[Value]]:
    """Hide the values of variables from all other code during an update in place (the caller has locked UPDATES)."""
    cells = [v.cell for v in variables]  # no local name may refer to one, because references are counted
    UPDATER.value = threading.get_ident()
    try:
        for v, place in zip(variables, places, strict=True):
            v.cell = place
        yield cells
    finally:
        try:
            _show(variables, cells)
        except BaseException:  # after an interrupt, show the values again
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

    __slots__ = ("__weakref__", "cell", "gradient_cell", "hooks", "leaf", "name", "number", "wants_gradient")

    def __init__(self, value: Value, *, requires_grad: bool = False, name: str = "") -> None:
        if not is_concrete(value):
            raise _traced(value)
        self.cell = fresh(owned(value))
        self.gradient_cell: Value | None = None
        self.hooks: GradientHooks | None = None
        self.wants_gradient = False
        self.name = name
        self.number = next(_numbers)
        _live[self.number] = self
        self.leaf: Leaf | None = None
        if requires_grad is not False:
            self.requires_grad_(requires_grad)

    @property
    def type(self) -> TensorType:
        """The type of the value."""
        held = STATE.variable_values.get(self) if STATE.word else None
        return (self.cell if held is None else held).type

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.type.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether operations on it are recorded for `backward`; setting it is `requires_grad_`."""
        return self.wants_gradient

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self.requires_grad_(required)

    def requires_grad_(self, required: bool = True) -> Self:
        """Record operations on it for `backward`, or stop recording.  Returns itself."""
        require_flag(required, "requires_grad_")
        if required and not self.dtype.is_differentiable:
            raise DTypeError(f"requires_grad_: dtype must be floating-point; got {self.dtype.name}")
        self.wants_gradient = bool(required)
        if not required:
            self.cell = stripped(self.cell)
        return self

    @property
    def value(self) -> Any:
        """The current tensor."""
        if STATE.word:
            inside = scope()
            if inside is not None:
                return inside.read(self)
            if self in STATE.variable_values:
                held = STATE.variable_values[self]
                return held if self.wants_gradient else fresh(stripped(held))
        held = self.cell
        if type(held.content) is UpdateInProgress:
            held = self.settled()
        if not self.wants_gradient:
            if held.node is not None and held.node is self.leaf:  # recorded when the variable required a gradient
                self.cell = held = stripped(held)
            return fresh(held)
        if self.leaf is None:
            self.leaf = Leaf(0, self)
        if held.node is not self.leaf:
            self.cell = held = _with_leaf(held, self.leaf)
        return held

    def assign(self, value: Value) -> None:
        """Replace the tensor by one of the same type.  Raises ShapeError or DTypeError if the types differ."""
        if value.type is not self.type:
            self._refuse(value)
        inside = scope()
        if inside is not None:
            inside.write(self, value)
        elif is_concrete(value):
            self.cell = fresh(stripped(owned(value)))
            if self in STATE.variable_values:
                STATE.variable_values[self] = _with_leaf(self.cell, STATE.variable_values[self].node)
        else:
            raise _outlived(self, value)

    def settled(self) -> Value:
        """The current value, after any update in place by another thread."""
        held = self.cell
        while type(held.content) is UpdateInProgress:
            if UPDATER.value == threading.get_ident():
                raise StateError(
                    f"variable {self.name or self.number}: the variable is being updated by a call in the "
                    "same thread; read it before or after that call"
                )
            with UPDATES:
                held = self.cell
        return held

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), stripped(self.value), self.wants_gradient, self.name)

    def hold(self, value: Value) -> None:
        """`assign` for a result of this type that no other object refers to, outside of staging."""
        self.cell = value if value.node is None else stripped(value)

    def _refuse(self, value: Value) -> None:
        raise unlike(f"variable {self.name or self.number}: the value", self.type, value.type)

    @property
    def gradient(self) -> Any:
        """The accumulated gradient, or None."""
        inside = scope()
        return self.gradient_cell if inside is None else inside.read_gradient(self)

    @gradient.setter
    def gradient(self, value: Value | None) -> None:
        """Set or clear the gradient, whose type must be the variable's own."""
        if value is not None and value.type is not self.type:
            raise unlike(f"grad: the gradient of variable {self.name or self.number}", self.type, value.type)
        inside = scope()
        if inside is not None:
            inside.write_gradient(self, value)
        elif value is None or is_concrete(value):
            self.gradient_cell = None if value is None else owned(value)
        else:
            raise _outlived(self, value)


V = TypeVar("V", bound=Variable)


def restored(cls: type[V], value: Value, requires_grad: bool, name: str) -> V:
    """A pickled or copied variable, without its gradient."""
    made = cls.__new__(cls)
    Variable.__init__(made, value, requires_grad=requires_grad, name=name)
    return made


def live_variables() -> list[Variable]:
    """All variables of the process."""
    return [v for r in _live.valuerefs() if (v := r()) is not None]


@contextmanager
def standing_in(values: Mapping[Variable, Value]) -> Generator[None]:
    """Let this thread see other values of variables, nodes included; assignments in the block persist.

    Other threads see the original values.
    """
    before = STATE.variable_values
    given = {v: x if x.node is not None else _with_leaf(x, v.leaf or Leaf(0, v)) for v, x in values.items()}
    inner = {**before, **given}
    try:
        STATE.variable_values = dict(inner)
        yield
    finally:
        after, STATE.variable_values = STATE.variable_values, before
        for v in before:
            if after[v].content is not inner[v].content:  # assigned in the block
                before[v] = _with_leaf(after[v], before[v].node)


def _traced(value: Value) -> TraceError:
    return TraceError(
        explain(
            f"variable: the value must have known numbers; got a traced tensor of type {value.type}",
            "@nc.jit\ndef f(x):\n    layer = nn.Linear(8, 8)          # makes variables anew in every trace\n"
            "    return layer(x)",
            f"{TRACED}\n  a computed tensor has no numbers yet, and a variable keeps its value from call to call.",
            "layer = nn.Linear(8, 8)\n@nc.jit\ndef f(x):\n    return layer(x)",
        )
    )


def _outlived(variable: Variable, value: Value) -> TraceError:
    name = variable.name or variable.number
    if value.content.level == PLACEHOLDERS:
        return TraceError(
            f"variable {name}: a graph of placeholders must not change variables; got a value of type {value.type} for "
            "one; call .eval() on the model first, or make the new value an output of the graph"
        )
    return TraceError(
        explain(
            f"variable {name}: the value must have known numbers; got a value of type "
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
    v.type, v.content, v.layout, v.node = held.type, held.content, held.layout, leaf
    return v
