"""Errors for a name that is missing: what to write instead, or the public name that is spelt almost so.

`porting` has the tables of other libraries' names, one for each place where a name is looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from nacre.base.errors import KindError, MissingAttribute
from nacre.base.porting.functions import AUTOGRAD, NACRE, RANDOM
from nacre.base.porting.methods import MODULE, OF_TWO, OPTIMIZER, TENSOR, UFUNC
from nacre.base.porting.networks import DATA, FUNCTIONAL, INIT, NN, OPTIM, UTILS

PLACES: Final = {
    "nacre": NACRE,
    "nacre.nn": NN,
    "nacre.nn.utils": UTILS,
    "nacre.nn.functional": FUNCTIONAL,
    "nacre.nn.init": INIT,
    "nacre.data": DATA,
    "nacre.optim": OPTIM,
    "nacre.random": RANDOM,
    "nacre.autograd": AUTOGRAD,
    "Tensor": TENSOR,
    "Module": MODULE,
    "Optimizer": OPTIMIZER,
}
ELSEWHERE: Final = (  # modules that are searched for a name that another module lacks
    "nacre", "nacre.nn", "nacre.nn.functional", "nacre.optim", "nacre.random", "nacre.data", "nacre.nn.utils",
)  # fmt: skip


def advice(place: str, name: str) -> str:
    """The end of an error about a name that a place lacks; empty if no table has the name.

    >>> advice("nacre", "identity")
    '; write nacre.eye(n)'
    """
    return worded(PLACES.get(place, {}).get(name, ""))


def worded(found: str) -> str:
    """An entry of a table as the end of an error: a sentence, or the code to write."""
    return f". {found}" if found[:1].isupper() else found and f"; write {found}"


def closest(name: str, names: Iterable[str], place: str = "", cutoff: float = 0.75) -> str:
    """The end of an error about a name that is spelt almost as one of `names`; empty if it is near none.

    `cutoff` is the least similarity of the two names, from 0 to 1.

    >>> closest("AdmaW", ["Adam", "AdamW", "SGD"], "nacre.optim.")
    '; did you mean nacre.optim.AdamW?'
    """
    from difflib import get_close_matches  # noqa: PLC0415 - loaded only for a wrong name

    lower = {other.lower(): other for other in names if not other.startswith("_")}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
    return f"; did you mean {place}{lower[found[0]]}?" if found else ""


def public_names(place: str) -> list[str]:
    """The public names of a module, as users call it."""
    first, *rest = place.split(".")
    module = import_module(first)
    for word in rest:
        module = cast("ModuleType", getattr(module, word))
    held = vars(module)
    if "__dir__" in held:
        return [name for name in dir(module) if not name.startswith("_")]
    here = module.__name__
    return [name for name in held if name[0] != "_" and getattr(held[name], "__module__", "").startswith(here)]


class MissingName(MissingAttribute):
    """A module lacks a name.  The advice is looked up when the message is shown: `hasattr` never shows it."""

    def __init__(self, place: str, name: str) -> None:
        super().__init__(place, name, name=name)
        self.place, self.wanted = place, name

    def __str__(self) -> str:
        place, name = self.place, self.wanted
        known = advice(place, name)
        if not known and not name.startswith("_"):
            own = public_names(place)
            homes = [home for home in ELSEWHERE if home != place and name in public_names(home)]
            known = f"; write {homes[0]}.{name}" if homes and f"{name}_" not in own else closest(name, own, f"{place}.")
        return f"module {place!r} has no attribute {name!r}{known}"


def refusal(place: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` that raises MissingName, for the module that users know as `place`."""

    def __getattr__(name: str) -> NoReturn:
        raise MissingName(place, name)

    return __getattr__


class Absent:
    """A descriptor in place of a method that a class lacks.  A `__getattr__` would make every attribute slower."""

    def __init__(self, name: str, known: str) -> None:
        self.name = name
        self.known = known

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise MissingAttribute(f"{owner.__name__!r} object has no attribute {self.name!r}{self.known}", name=self.name)


def mark_absent(cls: type, table: Mapping[str, str]) -> None:
    """Make the names of a table that a class lacks raise errors with the table's advice."""
    for name, found in table.items():
        if not any(name in vars(base) for base in cls.__mro__):
            type.__setattr__(cls, name, Absent(name, worded(found)))


class AbsentMethod:
    """An attribute in place of a method that a function has in NumPy; a function has no `__getattr__` for it."""

    def __init__(self, function: str, name: str) -> None:
        self.place = f"{function}.{name}"
        self.known = method_of_ufunc(function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MissingAttribute(f"{self.place}: functions of Nacre have no methods{worded(self.known)}", name=self.place)


def method_of_ufunc(function: str, name: str) -> str:
    """What to write in place of a method of a function of two operands; empty for other functions.

    >>> method_of_ufunc("add", "reduce")
    'nacre.sum(x, axis=0)'
    """
    table = UFUNC.get(name, {}) if function in OF_TWO.split() else {}
    return table.get(function, table.get("", "").format(name=function))


def mark_methods(function: Any) -> None:
    """Make NumPy's methods of a function of two operands raise errors that say what to write."""
    for name in UFUNC:
        setattr(function, name, AbsentMethod(function.__name__, name))


def listed(given: object) -> list[str]:
    """`dir` of an instance or a class without the names that are marked absent."""
    cls, names = (given, type.__dir__(given)) if isinstance(given, type) else (type(given), object.__dir__(given))
    held = {name: found for base in reversed(cls.__mro__) for name, found in vars(base).items()}
    return [name for name in names if not isinstance(held.get(name), Absent)]


class ListedClass(type):
    """The class of classes whose `dir` lists no names that are marked absent."""

    def __dir__(cls) -> list[str]:
        return listed(cls)


class _NotCalled(ModuleType):
    """A package of Nacre with the name of another library's function."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__.rpartition(".")[2]
        raise KindError(f"{name}: a function is required; got the package {self.__name__}{advice('nacre', name)}")


def refuse_calls(package: str) -> None:
    """Make a call of a package raise an error that says what to write."""
    sys.modules[package].__class__ = _NotCalled
