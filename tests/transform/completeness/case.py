"""A case of the table of transformations: a function, its operands, and its refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ops.samples import Array

REVERSE = ("grad", "grad of vmap", "vmap of grad", "hessian", "checkpoint")
DERIVATIVES = ("jvp", *REVERSE)
Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function of tensors, its operands, the step of finite differences, and the errors of refused transformations.

    `refused` has a pattern for the error of each transformation that must raise one.  `like` is a function with the
    derivatives of `f` that finite differences can see, where `f` itself is not one.
    """

    name: str
    f: Function
    xs: tuple[Array, ...]
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    step: float = 1e-5
    tolerance: float = 2e-5
    like: Function | None = None
