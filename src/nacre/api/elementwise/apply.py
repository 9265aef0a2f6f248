"""How an elementwise operation is applied: operands are converted, checked, promoted and broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import copysign, isnan
from typing import Any, Final, cast

from nacre.api.operands import TensorLike, as_tensor, default_float, distinct, operands, require
from nacre.api.tensor import Tensor
from nacre.base.dtypes import INEXACT, NUMERIC, DType, DTypeSet
from nacre.base.state import STATE
from nacre.compile.program.executor import OPERATIONS
from nacre.interpret.precision.functions import on_converted
from nacre.trace.bind import NATIVE

PLAIN: Final = frozenset((type(None), bool, int, str, DType))  # types whose equality is that of their meanings

Operation = Callable[..., Any]

_target = NATIVE.get  # of an operation by its name and types
_first = OPERATIONS.first_function


def unary(op: Operation, operation: str, x: TensorLike, accepted: DTypeSet = NUMERIC) -> Any:
    """Apply a primitive of one operand."""
    if type(x) is Tensor:
        native = _target((operation, x.type))
        if native is not None:
            return native(x)
        return _first((operation, x.type), partial(_unary, op, operation, accepted), (x,))
    return _unary(op, operation, accepted, x)


def _unary(op: Operation, operation: str, accepted: DTypeSet, x: TensorLike) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, accepted)
    return distinct(op(held), held)


def of_float(op: Operation, operation: str, x: TensorLike, accepted: DTypeSet = INEXACT) -> Any:
    """Apply a primitive of one operand to inexact numbers; a Python number that is real has the default dtype."""
    return unary(op, operation, x if type(x) is Tensor else default_float(x), accepted)


def binary(op: Operation, operation: str, x: TensorLike, y: TensorLike, accepted: DTypeSet = NUMERIC) -> Any:
    """Apply a primitive of two operands."""
    if type(x) is Tensor and type(y) is Tensor:
        native = _target((operation, x.type, y.type))
        if native is not None:
            return native(x, y)
        return _first((operation, x.type, y.type), partial(_binary, op, operation, accepted), (x, y))
    return _binary(op, operation, accepted, x, y)


def of_tensors(operation: str, function: Operation, operands: tuple[TensorLike, ...], **settings: Any) -> Any:
    """function(*operands), which for tensors is one operation with a target of its own.

    `settings` are all values that the function uses besides its operands.  Those that are equal and differ in meaning,
    as zeros of two signs, are left to the function itself, and NaN, which is not equal to itself.
    """
    if len(operands) == 2 and not settings:
        x, y = operands
        if type(x) is Tensor and type(y) is Tensor:
            native = _target((operation, x.type, y.type))
            if native is not None:
                return native(x, y)
    parts: list[Any] = [operation]
    for x in operands:
        if type(x) is not Tensor:
            return _autocast(operation, function, settings, *operands)
        parts.append(x.type)
    for name, value in settings.items():
        kind = type(cast("object", value))
        if not is_plain_setting(kind, value):
            return _autocast(operation, function, settings, *operands)
        parts.append((name, value if kind is int else (kind, value)))  # 1, 1.0 and True are equal
    key = tuple(parts)
    native = _target(key)
    if native is not None:
        return native(*operands)
    general = partial(_autocast, operation, function, settings)
    if not settings:
        return _first(key, general, operands)  # type: ignore[arg-type]
    return OPERATIONS.first_setting(key, (*key[: len(operands) + 1], *settings), general, operands)  # type: ignore[arg-type]


def is_plain_setting(kind: type, value: Any) -> bool:
    """Whether equal settings of a type mean the same: a zero may have a sign, and NaN is not equal to itself."""
    if kind is float:
        return not isnan(value) and (value != 0 or copysign(1.0, value) > 0)
    return kind in PLAIN or (kind is tuple and _is_whole(value))


def _is_whole(value: tuple[Any, ...]) -> bool:
    """Whether a tuple has whole numbers and such tuples alone; of others, equal ones may mean different things."""
    return all([type(n) is int or (type(n) is tuple and _is_whole(n)) for n in value])


def _autocast(operation: str, function: Operation, settings: Mapping[str, Any], *operands: TensorLike) -> Any:
    """function(*operands); inside of `autocast`, on operands converted by the operation's rule, and without it."""
    if STATE.autocast is None:
        return function(*operands)
    return on_converted(operation, lambda *given: of_tensors(operation, function, given, **settings), operands)


def _binary(op: Operation, operation: str, accepted: DTypeSet, x: TensorLike, y: TensorLike) -> Any:
    a, b = operands(operation, x, y)
    require(operation, a.type.dtype, accepted)
    return op(a, b)
