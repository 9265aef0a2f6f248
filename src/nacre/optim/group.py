"""`ParameterGroup`: parameters with their hyper-parameters, and the clocks that count their steps."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from nacre.api.operands import as_tensor, constant, spread
from nacre.api.primitives import pointwise
from nacre.base.dtypes import float64, int64
from nacre.base.errors import ArgumentError, TraceError, explain
from nacre.interpret.stage import is_written
from nacre.trace.value import Value, is_concrete, stripped
from nacre.trace.variable import Variable, scope

__all__ = ["ParameterGroup"]

Check = Callable[[Mapping[str, Any]], None]


class Clock:
    """The shared state of parameters that have taken the same steps: the count "step", and values from it."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: dict[str, Variable]) -> None:
        self.numbers = numbers

    def copy(self) -> tuple[Clock, bool]:
        """A copy, also in a trace; and whether it was equal when the trace began."""
        made = Clock({k: Variable(v.settled(), name=k) for k, v in self.numbers.items()})
        moved = [k for k, v in self.numbers.items() if is_written(v)]
        for k in moved:
            made.numbers[k].assign(self.numbers[k].value)
        return made, not moved

    def ticked(self) -> Any:
        """The count plus one."""
        count_cell = self.numbers["step"]
        count = pointwise.add(count_cell.value, constant(1, int64))
        commit(count_cell, count)
        return count


class _Condition(threading.local):
    """The bool scalar on which the steps of a thread's optimisers depend, or None."""

    value: Any = None


_CONDITION = _Condition()


@contextmanager
def committing_if(condition: Any) -> Generator[None]:
    """A block in which optimisers step only if a bool scalar is true, which a compiled function need not know."""
    before, _CONDITION.value = _CONDITION.value, condition
    try:
        yield
    finally:
        _CONDITION.value = before


def commit(cell: Variable, value: Any) -> None:
    """Assign a value to a variable of a step, unless the step's condition is false."""
    condition = _CONDITION.value
    if condition is not None:
        value = pointwise.select(spread(condition, value.type.shape), value, stripped(cell.value))
    cell.assign(value)


class ParameterGroup(dict[str, Any]):
    """Parameters with their hyper-parameters, as a dict; the variable `rate` also holds `lr`.

    You may set entries at any time; they apply from the next step on.  Variables also hold the entries that a schedule
    changes (`varying`).  Each parameter has its own clock, or shares one with parameters that step together.

    Raises ArgumentError for an unknown entry, for a number out of range, and when an entry is removed.  Raises
    TraceError if an entry is set in a function that is being compiled.

    >>> group = optim.SGD([nn.Parameter(1.0)], lr=0.1).param_groups[0]
    >>> group["lr"] = 0.01
    >>> group.rate.value
    Tensor(0.01, f64[])
    """

    def __init__(self, settings: Mapping[str, Any], check: Check | None = None) -> None:
        super().__init__({k: v if k == "params" else plain(v) for k, v in settings.items()})
        self.check = None if check is None else weakref.WeakMethod(check)
        self.rate = Variable(constant(float(self["lr"]), float64), name="lr")
        self.varying: dict[str, Variable] = {}
        self.clocks: dict[Variable, Clock] = {}  # of parameters that have taken a step
        self.settled: Hashable = None  # the settings that match the parameters' state
        self._settings: Hashable = None

    def __setitem__(self, name: str, value: Any) -> None:
        if scope() is not None:
            raise _set_once(name)
        value = value if name == "params" else plain(value)
        check = self.check() if self.check is not None else None
        if check is not None:
            check({**self, name: value})
        super().__setitem__(name, value)
        self._settings = None
        if name == "lr":
            self.rate.assign(as_tensor(value, float64))
        elif name in self.varying:
            self.varying[name].assign(as_tensor(_first(value), float64))

    def vary(self, name: str) -> None:
        """Hold an entry (of a pair, the first) in a variable, so that changing it causes no new compilation."""
        if name not in self.varying:
            self.varying[name] = Variable(constant(float(_first(self[name])), float64), name=name)
            self._settings = None

    def varied(self, name: str) -> dict[str, Any]:
        """The tensors of the entries that are variables, by name."""
        return {name: self.varying[name].value} if name in self.varying else {}

    def update(self, *others: Any, **more: Any) -> None:
        """Set several entries."""
        for name, value in dict(*others, **more).items():
            self[name] = value

    def __ior__(self, other: Any) -> ParameterGroup:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """An entry; it is set if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def _keep(self, *_: Any) -> Any:
        raise ArgumentError("param_groups: entries cannot be removed; set them to another value")

    __delitem__ = pop = popitem = clear = _keep

    @property
    def params(self) -> list[Variable]:
        """The parameters."""
        return self["params"]

    @property
    def settings(self) -> Hashable:
        """The plain hyper-parameters, as a value to compare."""
        if self._settings is None:
            count_cell = ("params", "lr", "initial_lr", *self.varying)
            found = [(k, v) for k, v in self.items() if k not in count_cell]
            rest = [(f"rest of {k}", self[k][1:]) for k in self.varying if isinstance(self[k], tuple)]
            self._settings = tuple(found + rest)
        return self._settings

    def __reduce__(self) -> Any:
        return ParameterGroup, (dict(self),)


def _set_once(name: str) -> TraceError:
    return TraceError(
        explain(
            f"param_groups: entries must be set outside of compiled functions; {name!r} was set while one was traced",
            "@nc.jit\ndef step(x):\n    loss(x).backward(); optimizer.step(); optimizer.zero_grad()\n"
            "    schedule.step()",
            "Hyper-parameters and schedules are Python numbers, so this line would run only once, in the first call.",
            "@nc.jit\ndef step(x):\n    loss(x).backward(); optimizer.step(); optimizer.zero_grad()\n"
            "for x in batches:\n    step(x)\n    schedule.step()",
        )
    )


def plain(value: Any) -> Any:
    """A hyper-parameter as a number or a tuple of numbers; a text or a traced value stays as it is."""
    if (
        isinstance(value, str | bool | int | float)
        or value is None
        or (isinstance(value, Value) and not is_concrete(value))
    ):
        return value
    count_cell = cast("Any", value)
    if hasattr(count_cell, "item") and not getattr(count_cell, "shape", ()):
        return count_cell.item()
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in cast("Sequence[Any]", value))
    return value


def _first(value: Any) -> Any:
    """The first of a pair, or the number itself."""
    return cast("tuple[Any, ...]", value)[0] if isinstance(value, tuple) else value
