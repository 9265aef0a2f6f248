# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Operations that return an operand's numbers: `copy` in new, dense memory, `detach` without a derivative, `fence`.

To detach a plain tensor, only its record is left out.  A value of a transformation needs an equation, because its
function may be differentiated later.  Compiled programs contain no code for it.
"""

from __future__ import annotations

from typing import Any

from nacre.ir.axes import own_axes
from nacre.ir.facts import same_type
from nacre.ir.primitive import Constant, Element, Jvp, Linear, Primitive
from nacre.ops.elementwise import lined_up
from nacre.ops.rules import require_same
from nacre.trace.bind import bind
from nacre.trace.loans import Loan
from nacre.trace.value import Payload, Value, fresh, stripped
from nacre.trace.variable import Variable

# above the cost up to which an element is computed twice, so that the result is always stored
COPY_COST = 5

copy_p = Primitive(
    "copy",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index), cost=COPY_COST),
    derivative=Linear((lambda g, x: g,)),
    batch=lambda inputs, axes: (copy(inputs[0]), axes[0]),
    simplify=same_type,
    axis_map=own_axes,
    keeps_order=True,
)


def copy(x: Value) -> Any:
    """x in new, dense memory."""
    return bind(copy_p, x)


detach_p = Primitive(
    "detach",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index), view=lambda layout, x, result: layout),
    derivative=Constant(),
    batch=lambda inputs, axes: (detach(inputs[0]), axes[0]),
    simplify=same_type,
    axis_map=own_axes,
    keeps_order=True,
)


def detach(x: Value) -> Value:
    """x as a constant for every derivative."""
    held = stripped(x)
    return bind(detach_p, held) if isinstance(held.content, Payload) else held


def lend(owner: Variable | Value) -> Any:
    """The numbers of a variable or tensor without a derivative, through which `x[i] = v` also changes the owner."""
    lent = fresh(detach(owner.value if isinstance(owner, Variable) else owner))
    Loan(lent, owner)
    return lent


with_numbers_p = Primitive(
    "with_numbers",
    type_rule=lambda x, numbers: require_same("with_numbers", (x, numbers)),
    lowering=Element(lambda index, operands, types, result: operands[1](index)),
    derivative=Jvp(lambda y, xs, ts: ts[0]),
    batch=lined_up(lambda: with_numbers_p),
)


def with_numbers(x: Value, numbers: Value) -> Value:
    """The numbers of another value of x's type, with the derivative of x."""
    held = detach(numbers)
    return bind(with_numbers_p, x, held) if isinstance(x.content, Payload) else held


fence_p = Primitive(
    "fence",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index), view=lambda layout, x, result: layout),
    derivative=Linear((lambda g, x: g,)),
    batch=lambda inputs, axes: (fence(inputs[0]), axes[0]),
    axis_map=own_axes,
    keeps_order=True,
)


def fence(x: Value) -> Any:
    """x itself, for a computation that repeats an earlier one: the two are neither merged nor moved together."""
    return bind(fence_p, x)
