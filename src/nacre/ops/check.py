"""`check`: integers that must be in a range, in the middle of a program, which ends with an error if one is not.

The check has an effect: it runs in the order of the program, also if nothing else reads the integers.  Later
equations may run before it, so they must be defined for any integers.  A mask chooses which integers count: those of
the examples of a batch that take a side of a branch, for example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import INTEGRAL, bool_
from nacre.base.errors import CHECKED, ArgumentError, DTypeError, ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import Constant, Primitive, RangeCheck
from nacre.ops.reduce import any_
from nacre.ops.rules import require_kind, show
from nacre.ops.shape import front
from nacre.ops.view import broadcast
from nacre.trace.bind import bind
from nacre.trace.value import Value

BARE = ("assertion", "state")  # kinds whose integers are no arguments, so that texts may leave them out


def check(values: Value, low: Size, high: Size, kind: str, text: str, mask: Value | None = None) -> None:
    """End the program unless all values are in [low, high): those where the mask of their leading axes is true.

    The error is of a kind in `CHECKED`.  Its text may have {low}, {high} and {got}, the first wrong value.
    """
    operands = (values,) if mask is None else (values, mask)
    bind(check_p, *operands, low=low, high=high, kind=kind, text=text)


def require_bounds(low: Any, high: Any, kind: Any, text: Any) -> None:
    """Require bounds of 64 bits, a kind of error, and a text with no other names than {low}, {high} and {got}."""
    for n in (low, high):
        if not isinstance(n, Dim) and (type(n) is not int or not -(1 << 63) <= n < 1 << 63):
            raise ArgumentError(f"check: bounds must be integers of 64 bits; got {n!r}")
    if not isinstance(kind, str) or kind not in CHECKED:
        raise ArgumentError(f"check: kind must be one of {sorted(CHECKED)}; got {kind!r}")
    bare = text.replace("{{", "").replace("}}", "") if isinstance(text, str) else text
    for name in ("{low}", "{high}", "{got}") if isinstance(text, str) else ():
        bare = bare.replace(name, "")
    if not isinstance(text, str) or ("{got}" not in text and kind not in BARE) or "{" in bare or "}" in bare:
        raise ArgumentError(f"check: text must have {{got}}, and else only {{low}} and {{high}}; got {text!r}")


def _check_type(
    values: TensorType, *mask: TensorType, low: Size, high: Size, kind: str, text: str
) -> tuple[TensorType, ...]:
    require_kind("check", values, INTEGRAL)
    require_bounds(low, high, kind, text)
    for m in mask:
        if m.dtype is not bool_:
            raise DTypeError(f"check: the mask must have dtype bool; got {m}")
        if values.shape[: m.rank] != m.shape:
            raise ShapeError(f"check: the mask must have the leading sizes of {values}; got {show(m.shape)}")
    return ()


def _check_batch(
    inputs: Sequence[Value], batched: Sequence[int | None], low: Size, high: Size, kind: str, text: str
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    values, mask = inputs[0], inputs[1] if len(inputs) > 1 else None
    if mask is not None and batched[1] is not None:
        mask = front(mask, batched[1])
        if batched[0] is None:
            mask = any_(mask, (0,))
    if batched[0] is not None:
        values = front(values, batched[0])
        if mask is not None and batched[1] is None:
            shape = (values.type.shape[0], *mask.type.shape)
            mask = broadcast(mask, shape, tuple(range(1, len(shape))))
    check(values, low, high, kind, text, mask)
    return (), ()


check_p = Primitive("check", _check_type, RangeCheck(), Constant(), _check_batch, multiple=True, effects=True)
