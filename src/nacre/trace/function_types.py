"""How type checkers see functions of functions: parameters, results, and the options of `jit`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, TypeVarTuple

from nacre.base.dims import Dim
from nacre.trace.value import Value

P = ParamSpec("P")  # the parameters of a function
Q = ParamSpec("Q")  # those behind the first one
Ts = TypeVarTuple("Ts")  # its positional arguments
R = TypeVar("R")  # its result
S = TypeVar("S")  # the state of a loop
X = TypeVar("X")  # what a loop goes over
T = TypeVar("T", bound=Value | dict[Any, Any] | list[Any] | tuple[Any, ...])  # an argument that its gradient is like
V = TypeVar("V", bound=Value)  # a tensor that is the argument and the result

RESULT = TypeVar("RESULT", covariant=True)


class Computation(Protocol[P, RESULT]):
    """A module, which is called with the arguments of its `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> RESULT: ...


class Options(TypedDict, total=False):
    """The keywords of `jit`."""

    dynamic_shapes: Mapping[str, Mapping[int, Dim]] | None
    donate: Sequence[str]
    dynamic: bool
    autograph: bool
    detect_anomalies: bool | str | Collection[str]
    memory_budget: int | str | None
