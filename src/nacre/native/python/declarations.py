"""What a module of native Python declares: functions, functions of other libraries, and variables.

A type checker sees a decorated function unchanged, and a call from Python runs it as plain Python::

    @inline
    def square(x: u64) -> u64:
        return x * x


    @native
    def area(side: u64) -> u64:
        return square(side)


    counts = variable(Counts)                     # a structure, zero at first
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class NativeFunction:
    """A function of native Python: compiled, inlined where it is called, or external."""

    def __init__(self, function: Callable[..., Any], kind: str, symbol: str | None, *attributes: str) -> None:
        update_wrapper(self, function)
        self.function, self.kind, self.symbol, self.attributes = function, kind, symbol or function.__name__, attributes

    def __call__(self, *args: Any) -> Any:
        """The function as plain Python."""
        return self.function(*args)

    @property
    def names(self) -> dict[str, Any]:
        """The global names of its module."""
        return self.function.__globals__

    @property
    def private_symbol(self) -> str:
        """Its symbol where no other module calls it."""
        return f"{_stem(self.names)}.{self.function.__name__}"


class NativeVariable:
    """A variable of the native module: a structure in memory for the whole process."""

    def __init__(self, owner: type[Any], kind: str, symbol: str | None, initial: Any, align: int) -> None:
        self.owner, self.kind, self.symbol, self.initial, self.align = owner, kind, symbol, initial, align
        self.names: dict[str, Any] = sys._getframe(2).f_globals  # pyright: ignore[reportPrivateUsage]

    def find_symbol(self) -> str:
        """Its symbol: the declared one, else the module and the variable's name there."""
        if self.symbol is not None:
            return self.symbol
        name = next((k for k, v in self.names.items() if v is self), "variable")
        return f"{_stem(self.names)}.{name}"


class Null:
    """The pointer to nothing, of every pointer type."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "null"


null: Any = Null()


def _stem(names: dict[str, Any]) -> str:
    """The last part of a module's name."""
    return str(names.get("__name__", "native")).rpartition(".")[2].strip("_")


class Initial:
    """A part of a variable's initial value: an address, the elements of an array, or a text."""

    def __init__(self, kind: str, of: Any) -> None:
        self.kind, self.of = kind, of


@overload
def native(function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def native(
    *, symbol: str | None = None, visible: bool = False, noinline: bool = False, baseline: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def native(
    function: Callable[..., Any] | None = None,
    *,
    symbol: str | None = None,
    visible: bool = False,
    noinline: bool = False,
    baseline: bool = False,
) -> Any:
    """Declare a function of native Python; `symbol` is its name in the object where it is an entry.

    A `visible` function has its symbol, for other objects too, wherever it is needed.  A `noinline` one has code of its
    own.  A `baseline` one runs on every processor of the target's architecture.

    >>> @native
    ... def next_number(x: int) -> int:
    ...     return x + 1
    >>> next_number(2)
    3
    """
    given = {"visible": visible, "noinline": noinline, "baseline": baseline}
    attributes = [name for name, on in given.items() if on]
    if function is None:
        return lambda function: NativeFunction(function, "native", symbol, *attributes)  # pyright: ignore
    return NativeFunction(function, "native", symbol, *attributes)


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a function that is expanded at each call."""
    made: Any = NativeFunction(function, "inline", None)
    return made


@overload
def external(function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def external(*, symbol: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def external(function: Callable[..., Any] | None = None, *, symbol: str | None = None) -> Any:
    """Declare a function of the C library or of CPython, whose body is `...`; `*more` stands for further arguments."""
    if function is None:
        return partial(NativeFunction, kind="external", symbol=symbol)
    return NativeFunction(function, "external", symbol)


def variable(
    owner: type[T], *, symbol: str | None = None, initial: T | None = None, thread_local: bool = False, align: int = 0
) -> T:
    """Declare a structure in memory for the whole process; it is zero unless an initial value is given.

    With a `symbol`, other modules and Python find it by that name.  A thread-local variable has a value for each
    thread.  It is for objects of a system linker alone: the linker within the process does not load it.
    """
    made: Any = NativeVariable(owner, "thread_local" if thread_local else "", symbol, initial, align)
    return made


def external_variable(owner: type[T], symbol: str) -> T:
    """Declare a structure that another library defines."""
    made: Any = NativeVariable(owner, "external", symbol, None, 0)
    return made


def address(of: object) -> Any:
    """The address of a native function or variable, in an initial value."""
    return Initial("address", of)


def row(*elements: object) -> Any:
    """The elements of an array, in an initial value; the rest is zero."""
    return Initial("row", elements)


def text(written: str) -> Any:
    """The address of a constant text that ends in a zero byte, in an initial value."""
    return Initial("text", written.encode() + b"\0")
