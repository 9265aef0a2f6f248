# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""How elementwise primitives are made: of an operation of the kernel IR, the dtypes it accepts, and a derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.dtypes import INEXACT, DTypeSet, bool_
from nacre.base.errors import ArgumentError
from nacre.base.types import TensorType
from nacre.ir.primitive import BatchRule, Constant, Derivative, Element, Operand, Pointwise, Primitive
from nacre.kernel.ast import OPERATIONS, Expr, apply
from nacre.ops.rules import require_kind, require_same
from nacre.ops.shape import line_up
from nacre.trace.bind import bind
from nacre.trace.value import Value

Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]
Ternary = Callable[[Value, Value, Value], Value]

CONSTANT = Constant()
DIVISION_COST, ELEMENTARY_COST = 8, 20  # instructions, roughly


def lined_up(primitive: Callable[[], Primitive]) -> BatchRule:
    """The batching rule of an elementwise primitive."""

    def rule(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Value, int]:
        """Align the batch axes and apply the operation once."""
        lined, place = line_up(inputs, axes)
        return bind(primitive(), *lined, **params), place

    return rule


def type_rule_of(name: str, op: str, accepted: DTypeSet) -> Callable[..., TensorType]:
    """The type rule of a primitive that applies an operation of the kernel IR to elements."""
    count, kind = OPERATIONS[op]
    to_dtype = {
        **dict.fromkeys(("compare", "test"), lambda d: bool_),
        "pair": lambda d: d.paired,
        "part": lambda d: d.real,
    }.get(kind)

    def rule(*types: TensorType) -> TensorType:
        """The operands' common type; of its shape, bool for predicates, and another dtype for parts and pairs."""
        if len(types) != count:
            raise ArgumentError(f"{name}: the operation takes {count} operands; got {len(types)}")
        x = require_same(name, types)
        require_kind(name, x, accepted)
        return x if to_dtype is None else x.with_dtype(to_dtype(x.dtype))

    return rule


def element_of(name: str) -> Callable[..., Expr]:
    """The lowering rule of an operation of the kernel IR."""

    def rule(index: tuple[Expr, ...], operands: tuple[Operand, ...], types: Any, result: TensorType) -> Expr:
        """The operation on the operands' elements at the index."""
        return apply(name, *(operand(index) for operand in operands))

    return rule


def pointwise_primitive(
    name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1, op: str | None = None, **traits: Any
) -> Primitive:
    """A primitive that applies an operation of the kernel IR to elements, by default that of its name."""
    op = op or name
    element = Element(element_of(op), cost=cost, op=op)
    primitive = Primitive(
        name, type_rule_of(name, op, accepted), element, derivative, lined_up(lambda: primitive), **traits
    )
    return primitive


def of_one(primitive: Primitive) -> Unary:
    """The function of a primitive of one operand."""
    return lambda x: bind(primitive, x)


def of_two(primitive: Primitive) -> Binary:
    """The function of a primitive of two operands."""
    return lambda x, y: bind(primitive, x, y)


def of_three(primitive: Primitive) -> Ternary:
    """The function of a primitive of three operands."""
    return lambda x, y, z: bind(primitive, x, y, z)


def unary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1, **traits: Any) -> Unary:
    """The function of a new primitive of one operand."""
    return of_one(pointwise_primitive(name, accepted, derivative, cost, **traits))


def binary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1, **traits: Any) -> Binary:
    """The function of a new primitive of two operands."""
    return of_two(pointwise_primitive(name, accepted, derivative, cost, **traits))


def ternary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1) -> Ternary:
    """The function of a new primitive of three operands."""
    return of_three(pointwise_primitive(name, accepted, derivative, cost))


def elementary(
    name: str, partial: Callable[[Value, Value], Value], accepted: DTypeSet = INEXACT, **traits: Any
) -> Unary:
    """The function of a new elementary function, with its derivative from the result and the operand."""
    return unary(name, accepted, Pointwise((partial,)), ELEMENTARY_COST, **traits)
