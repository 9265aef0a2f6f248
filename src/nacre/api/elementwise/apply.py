"""How an elementwise operation is applied: operands are converted, checked, promoted and broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nacre.api.memo import Memo
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    distinct,
    operands,
)
from nacre.api.tensor import Tensor
from nacre.base.dtypes import DType
from nacre.base.errors import DTypeError

Operation = Callable[..., Any]

NUMERIC = "iuf"
REAL = "f"
BITS = "biu"
ALL = "biuf"

_KINDS = {
    NUMERIC: "a numeric dtype",
    REAL: "a floating-point dtype",
    BITS: "a bool or integer dtype",
    "iu": "an integer dtype",
    "b": "dtype bool",
}


def require(operation: str, dtype: DType, kinds: str) -> None:
    """Raise DTypeError unless the dtype is of one of the kinds."""
    if dtype.kind not in kinds:
        remedy = "; convert it, as in `x.astype(nacre.float32)`" if kinds == REAL else ""
        raise DTypeError(f"{operation}: operands must have {_KINDS[kinds]}; got {dtype.name}{remedy}")


_memo = Memo()
_known = _memo.known


def unary(op: Operation, operation: str, x: TensorLike, kinds: str = NUMERIC) -> Any:
    """Apply a primitive of one operand."""
    if type(x) is Tensor:
        native = _known.get((operation, x.type))
        if native is not None:
            return native(x)
        return _memo.first((operation, x.type), partial(_unary, op, operation, kinds), (x,))
    return _unary(op, operation, kinds, x)


def _unary(op: Operation, operation: str, kinds: str, x: TensorLike) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, kinds)
    return distinct(op(held), held)


def binary(op: Operation, operation: str, x: TensorLike, y: TensorLike, kinds: str = NUMERIC) -> Any:
    """Apply a primitive of two operands."""
    if type(x) is Tensor and type(y) is Tensor:
        native = _known.get((operation, x.type, y.type))
        if native is not None:
            return native(x, y)
        return _memo.first((operation, x.type, y.type), partial(_binary, op, operation, kinds), (x, y))
    return _binary(op, operation, kinds, x, y)


def _binary(op: Operation, operation: str, kinds: str, x: TensorLike, y: TensorLike) -> Any:
    a, b = operands(operation, x, y)
    require(operation, a.type.dtype, kinds)
    return op(a, b)
