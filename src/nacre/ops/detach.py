# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""`detach`: the same numbers, through which no derivative goes.

A plain tensor forgets how it came to be, and that is all.  A value of a transformation is another matter: whether its
function is differentiated may be known only later, so the equation tells.  Compiled programs have no trace of it.
"""

from __future__ import annotations

from nacre.ir.primitive import Constant, Element, Primitive
from nacre.trace.bind import bind
from nacre.trace.value import Payload, Value, stripped

detach_p = Primitive(
    "detach",
    type_rule=lambda x: x,
    lowering=Element(lambda index, operands, types, result: operands[0](index),
                     view=lambda layout, x, result: layout),
    derivative=Constant(),
    batch=lambda inputs, axes: (detach(inputs[0]), axes[0]),
)


def detach(x: Value) -> Value:
    """x as a constant of every derivative."""
    held = stripped(x)
    return bind(detach_p, held) if isinstance(held.content, Payload) else held
