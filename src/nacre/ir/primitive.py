"""`Primitive`: everything about an operation in one place, and the registry of them by name.

A primitive states its type rule, its lowering to kernel IR, its derivative (one rule for both modes) and its
batching.  Rules of derivatives and batching are written with primitives' own functions on values, so that they
run under every interpreter: eagerly, staged, differentiated again, batched.

Primitives never broadcast and never promote; the public functions do that before they bind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import Any

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.kernel.ast import Expr, Kernel

Params = Mapping[str, Hashable]
TypeRule = Callable[..., Any]  # (*types, **params) -> TensorType, or a tuple of them if `multiple`

# ---- derivatives: exactly one kind for each primitive


@dataclass(frozen=True, slots=True)
class Constant:
    """The derivative is zero (comparisons, integers, rounding)."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Elementwise: `partials[i](y, *xs, **params)` is ∂y/∂xᵢ, a value of y's shape; None where it is zero."""

    partials: tuple[Callable[..., Any] | None, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """Jointly linear in the operands that have a transpose (add, sum, broadcast, slice, select's branches).

    `transposes[i](g, *xs, **params)` maps the cotangent of the result to that of operand i; None where the
    operand is not differentiated (an index, a condition).  xs are the operands: a value where it is known, a
    `LinearInput` (which has a `.type`) where it is what is being transposed.  With several results, g is a tuple
    in which None stands for a zero cotangent.
    """

    transposes: tuple[Callable[..., Any] | None, ...]


@dataclass(frozen=True, slots=True)
class Multilinear:
    """Linear in each operand separately (mul, dot, convolution); `transposes` as in `Linear`."""

    transposes: tuple[Callable[..., Any] | None, ...]


@dataclass(frozen=True, slots=True)
class Jvp:
    """Any other: `rule(ys, xs, ts, **params) -> tangents`, linear in ts, written with primitives.

    `ys` is the result (a tuple if the primitive has several), `ts[i]` is None where operand i has no tangent.
    """

    rule: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Structural:
    """A primitive with graph parameters, differentiated by `interpret` itself (call, cond, while, scan)."""


Derivative = Constant | Pointwise | Linear | Multilinear | Jvp | Structural


@dataclass(frozen=True, slots=True)
class LinearInput:
    """The operand of a linear equation that is being transposed: it has a type but no value."""

    type: TensorType


# ---- lowerings: how a primitive becomes kernel IR

Operand = Callable[[tuple[Expr, ...]], Expr]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a view's elements lie: offset and strides, in elements of its buffer."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """Each element of the result is an expression over elements of the operands.

    `rule(index, operands, types, result, **params) -> Expr`: index holds one int64 expression for each axis of the
    result, `operands[i](index)` reads operand i, `types` are the operands' types and `result` the result's.
    `view(layout, shape, strides…)`, where there is one, gives the result as a view of the operand's memory:
    `view(layout, type, result, **params) -> Layout | None`.
    """

    rule: Callable[..., Expr]
    view: Callable[..., Layout | None] | None = None
    cost: int = 1  # instructions for an element, roughly


@dataclass(frozen=True, slots=True)
class Reduce:
    """Fold the first operand over `params["axes"]` by one of the kernel IR's reductions, in the canonical order."""

    op: str


@dataclass(frozen=True, slots=True)
class Nest:
    """An explicit kernel: `rule(types, results, **params) -> Kernel`; buffers in operands', then results' order.

    With `onto` the result begins as that operand, in its memory where nobody needs it any more; the kernel does not
    read the operand and stores only what changes.
    """

    rule: Callable[..., Kernel]
    onto: int | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A kernel family written by hand in `codegen` (matrix product, convolution), by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Flow:
    """Control flow over graph parameters; the program does it."""


Lowering = Element | Reduce | Nest | Template | Flow

# batching: (inputs, axes, **params) -> (result(s), axis or axes); axes[i] is None for what is not batched
BatchRule = Callable[..., tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Primitive:
    """An operation.  Compared and hashed by identity; registered under its name."""

    name: str
    type_rule: TypeRule
    lowering: Lowering
    derivative: Derivative = field(default_factory=Constant)
    batch: BatchRule | None = None
    multiple: bool = False  # several results, given as a tuple
    effects: bool = False  # must run even if its results are unused

    def __post_init__(self) -> None:
        if self.name in _registry:
            raise ArgumentError(f"primitive: a new name is required; got {self.name!r}, which exists")
        _registry[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return primitive_named, (self.name,)

    def result_types(self, types: tuple[TensorType, ...], params: Params) -> tuple[TensorType, ...]:
        """The types of the results, always as a tuple; raises what the type rule raises."""
        found = self.type_rule(*types, **params)
        return found if self.multiple else (found,)


_registry: dict[str, Primitive] = {}


def primitive_named(name: str) -> Primitive:
    """The registered primitive of a name."""
    try:
        return _registry[name]
    except KeyError:
        raise ArgumentError(f"primitive: a registered name is required; got {name!r}") from None


def registered() -> Mapping[str, Primitive]:
    """All primitives by name."""
    return _registry
