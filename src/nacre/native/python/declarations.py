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
from functools import update_wrapper
from inspect import CO_VARARGS
from typing import Any, Final, ParamSpec, TypeVar, overload

from nacre.base.errors import CompileError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
ATTRIBUTES: Final = ("baseline", "cold", "noinline")


def _stem(names: dict[str, Any]) -> str:
    """The last part of a module's name."""
    return str(names.get("__name__", "native")).rpartition(".")[2].strip("_")


class NativeFunction:
    """A function of native Python: compiled, inlined where it is called, or external."""

    def __init__(self, function: Callable[..., Any], kind: str, symbol: str, attributes: frozenset[str]) -> None:
        update_wrapper(self, function)
        self.function, self.kind, self.symbol, self.attributes = function, kind, symbol or function.__name__, attributes
        self.names, self.code = function.__globals__, function.__code__
        self.variadic = bool(self.code.co_flags & CO_VARARGS)
        self.private_symbol = f"{_stem(self.names)}.{function.__name__}"  # where no other module calls it

    def __str__(self) -> str:
        return f"@{self.kind} {self.symbol}"

    def __call__(self, *args: Any) -> Any:
        """The function as plain Python."""
        return self.function(*args)


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


class Initial:
    """A part of a variable's initial value: an address, the elements of an array, or a text."""

    def __init__(self, kind: str, of: Any) -> None:
        self.kind, self.of = kind, of


class Declaration:
    """A decorator that declares functions of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R]: ...
    @overload
    def __call__(
        self, *, symbol: str = "", noinline: bool = False, baseline: bool = False, cold: bool = False
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def __call__(self, function: Any = None, *, symbol: str = "", **attributes: Any) -> Any:
        """Declare a function, perhaps with a symbol and attributes."""
        if function is None:
            return lambda function: self(function, symbol=symbol, **attributes)  # pyright: ignore
        unknown, known = " ".join(attributes.keys() - set(ATTRIBUTES)), " ".join(ATTRIBUTES)
        if unknown:
            raise CompileError(f"{function.__name__}: attributes must be some of {known}; got {unknown}; remove it")
        return NativeFunction(function, self.kind, symbol, frozenset(k for k, given in attributes.items() if given))


# A function that is compiled.  Its symbol is its name in the object where it is an entry.  A `noinline` one has code of
# its own; a `baseline` one runs on every processor of the architecture; a `cold` one runs seldom, and is compiled with
# less effort.
native: Final = Declaration("native")
inline: Final = Declaration("inline")  # one that is expanded at each call
external: Final = Declaration("external")  # one of the C library or of CPython; `*more` stands for further arguments


def variable(owner: type[T], *, symbol: str | None = None, initial: T | None = None, align: int = 0) -> T:
    """Declare a structure in memory for the whole process; it is zero unless an initial value is given.

    With a `symbol`, other modules and Python find it by that name.
    """
    made: Any = NativeVariable(owner, "native", symbol, initial, align)
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
