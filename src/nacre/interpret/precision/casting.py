"""How `bind` converts operands inside of `autocast`, in front of every interpreter.

A conversion is an equation of its own, recorded, staged and batched as any other one.  Then the operation is bound
without autocast: interpreters, rules and pullbacks convert nothing more, so a gradient has its operand's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

from nacre.base.dtypes import FLOATS, PROMOTION, DType, bfloat16, float16, float32
from nacre.base.state import STATE, without_autocast
from nacre.interpret.precision.policy import AS_GIVEN, rule_of
from nacre.ir.primitive import LOW, SINGLE, Primitive
from nacre.ops.pointwise import cast
from nacre.trace.bind import Result, bind, register_casting
from nacre.trace.value import Value

HALVES = frozenset((float16, bfloat16))
ROUNDED = HALVES | {float32}  # the dtypes that products convert to the low one


@cache
def target(primitive: Primitive, dtypes: tuple[DType, ...], low: DType) -> DType | None:
    """The dtype that an operation's floating-point operands of these dtypes are converted to; None if to none."""
    rule = rule_of(primitive)
    floats = {d for d in dtypes if d in FLOATS}
    if rule == LOW and floats.issuperset(dtypes):
        return low if ROUNDED.issuperset(floats) and floats != {low} else None
    if rule == AS_GIVEN or not floats:
        return None
    if rule == SINGLE and HALVES.issuperset(floats):
        return float32
    return None if len(floats) == 1 else reduce(lambda a, b: PROMOTION[a, b], floats)


def casting(primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
    """Apply a primitive to operands that are converted for the dtype of autocast."""
    wanted = target(primitive, tuple([x.type.dtype for x in inputs]), STATE.autocast)

    def applied() -> Result:
        """The operation on converted operands."""
        given = inputs if wanted is None else [cast(x, wanted) if x.type.dtype in FLOATS else x for x in inputs]
        return bind(primitive, *given, **params)

    return without_autocast(applied)


register_casting(casting)
