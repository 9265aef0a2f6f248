"""`host_call`: a Python function of concrete tensors in the middle of a program.

The call has an effect: it runs once wherever it stands, in the order of the program.  `interpret` defines how the
function is called, and that the call has no derivative and no batching rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nacre.base import tree
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.ir.primitive import Host, Primitive, ProcessParameter, Structural

Types = tuple[TensorType, ...]


@dataclass(frozen=True, eq=False)
class HostFunction(ProcessParameter):
    """A function of one host call: its name, the user's line, the form of its arguments, and of its results.

    `leaves` are those of the arguments.  The tensors of a call replace those at `places`; the others are constants.
    Compared by identity, because only its own program may keep the function alive.
    """

    function: Callable[..., Any]
    name: str
    line: str
    arguments: tree.Structure
    leaves: tuple[Any, ...]
    places: tuple[int, ...]
    structure: tree.Structure
    results: Types

    @property
    def place(self) -> str:
        """The user's file and line, or nothing."""
        return self.line.split(" (")[0]

    @property
    def label(self) -> str:
        """The name and the line for tables."""
        return f"{self.name} ({os.path.basename(self.place)})" if self.line else self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.line else self.name


def _host_call_type(*xs: TensorType, function: HostFunction) -> Types:
    return function.results


host_call_p = Primitive("host_call", _host_call_type, Host(), Structural(), multiple=True, effects=True)
