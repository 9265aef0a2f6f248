"""Parameters of operations from outside: their names and defaults, and values that == does not confuse.

Compiled code is found by parameters, which are compared with ==.  So True, 1 and 1.0, and 0.0 and -0.0, become
values that differ.  The rules of a definition get plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Final, cast

import numpy as np

from nacre.base.arguments import shown
from nacre.base.dims import Dim
from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError, KindError
from nacre.base.records import dataclass

RESERVED: Final = frozenset(("primitive", "types", "result", "results", "y"))


class ExactFloat(float):
    """A float that equals only another one of the same text: zeros have signs, and NaN equals NaN."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is ExactFloat and repr(self) == repr(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(repr(self))


class ExactBool(int):
    """True or False that does not equal 1 or 0."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is ExactBool and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return "True" if self else "False"


def exact(value: object, operation: str, word: str) -> Any:
    """A parameter as a value that == does not confuse with another; raises KindError for other kinds of values."""
    if value is None or type(value) is str or isinstance(value, DType | Dim | ExactFloat | ExactBool):
        return value
    if type(value) is tuple:
        return tuple(exact(v, operation, word) for v in cast("tuple[Any, ...]", value))
    if isinstance(value, bool | np.bool_):
        return ExactBool(bool(cast("object", value)))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | np.integer):
        return int(cast("int", value))
    if isinstance(value, float | np.floating):
        return ExactFloat(cast("float", value))
    raise KindError(
        f"{operation}: parameters must be numbers, strings, dtypes or tuples; got {word}={shown(value)}; "
        "pass tensors as operands"
    )


def plain(value: Any) -> Any:
    """The value that a rule gets for a parameter."""
    if type(value) is tuple:
        return tuple(map(plain, cast("tuple[Any, ...]", value)))
    return float(value) if type(value) is ExactFloat else bool(value) if type(value) is ExactBool else value


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a rule gets for parameters, by name.

    >>> plain_params({"by": ExactFloat(2.0), "axes": (0, ExactBool(1))})
    {'by': 2.0, 'axes': (0, True)}
    """
    return {name: plain(value) for name, value in params.items()}


@dataclass(frozen=True)
class Declared:
    """The parameters of a definition: the default of each name, or `Parameter.empty`."""

    operation: str
    defaults: Mapping[str, Any]
    free: bool  # whether others are accepted, too

    def arranged(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters in the order of the definition, as exact values.  Raises KindError for wrong ones."""
        wrong = given.keys() - self.defaults.keys()
        missing = [n for n, value in self.defaults.items() if value is Parameter.empty and n not in given]
        if (wrong and not self.free) or missing:
            raise KindError(
                f"{self.operation}: the parameters must be {', '.join(sorted(self.defaults)) or 'none'}; got "
                f"{', '.join(given) or 'none'}; pass each that has no default by its name"
            )
        require_free_names(self.operation, wrong)
        names = [*self.defaults, *sorted(wrong)]
        held = {name: given[name] if name in given else self.defaults[name] for name in names}
        return {name: exact(value, self.operation, name) for name, value in held.items()}


def declared(operation: str, listed: list[Parameter]) -> Declared:
    """The parameters that a rule's signature declares; their defaults and names are checked."""
    keywords = {p.name: p.default for p in listed if p.kind is p.KEYWORD_ONLY}
    require_free_names(operation, keywords.keys())
    for name, value in keywords.items():
        if value is not Parameter.empty:
            exact(value, operation, name)
    return Declared(operation, keywords, any(p.kind is p.VAR_KEYWORD for p in listed))


def require_free_names(operation: str, names: Any) -> None:
    """Raise ArgumentError for a parameter whose name an argument of a rule has."""
    taken = sorted(RESERVED.intersection(names))
    if taken:
        raise ArgumentError(
            f"{operation}: the name of a parameter must not be one of {', '.join(sorted(RESERVED))}, which rules use; "
            f"got {taken[0]}; give it another name"
        )
