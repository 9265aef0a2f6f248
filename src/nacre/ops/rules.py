"""Functions that the rules of several families share: checks with error messages, and alignment of batch axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import maxsize
from typing import Any, Final, NoReturn, cast

from nacre.base.dtypes import DType, DTypeSet
from nacre.base.errors import DTypeError, GradientError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Jvp, RuleKind

# (operands, parameters) → the results, computed by blocks; None if the operands are one block
BLOCKS: Final[RuleKind[Callable[..., Any]]] = RuleKind("division of matrices into blocks")


def without_derivative(operation: str, reason: str, remedy: str) -> Jvp:
    """The derivative of an operation that has none: GradientError for each tangent."""

    def refuse(*values: Any, **params: Any) -> NoReturn:
        """Raise the error."""
        raise GradientError(f"{operation}: the derivative does not exist; {reason}; {remedy}")

    return Jvp(refuse)


def require_kind(operation: str, x: TensorType, accepted: DTypeSet) -> None:
    """Raise DTypeError unless the dtype is one of those accepted."""
    if x.dtype not in accepted:
        remedy = "take the abs, or a part" if x.dtype.is_complex else "convert with `astype`"
        if x.dtype.is_storage:
            remedy = f"write x.astype(nacre.{x.dtype.number.name}), because numbers of its dtype are only stored"
        raise DTypeError(f"{operation}: the dtype must be {accepted.words}; got {x}; {remedy}")


def require_dtype(operation: str, what: str, x: TensorType, dtype: DType) -> None:
    """Raise DTypeError unless x, described by `what`, has the dtype."""
    if x.dtype is not dtype:
        raise DTypeError(f"{operation}: {what} must have dtype {dtype.name}; got {x}; convert it with `astype`")


def require_same(operation: str, types: Sequence[TensorType]) -> TensorType:
    """The common type of all operands; raises ShapeError or DTypeError if their types differ."""
    first = types[0]
    for t in types[1:]:
        if t is not first:
            error = ShapeError if t.dtype is first.dtype else DTypeError
            shown = ", ".join(map(str, types))
            raise error(
                f"{operation}: operands must have one type; got {shown}; the public functions broadcast and promote"
            )
    return first


def require_shape(operation: str, what: str, found: Shape, wanted: Shape) -> None:
    """Raise ShapeError unless `what` has the wanted shape."""
    if found != wanted:
        raise ShapeError(f"{operation}: {what} must have shape {show(wanted)}; got {show(found)}")


def require_axes(operation: str, axes: Sequence[int], rank: int) -> None:
    """Raise ShapeError unless axes are increasing, distinct and within [0, rank)."""
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < rank for a in axes):
        raise ShapeError(f"{operation}: axes must be increasing and in [0, {rank}); got {tuple(axes)}")


def require_some_axes(operation: str, axes: Sequence[int], rank: int) -> None:
    """Raise ShapeError unless axes are increasing, distinct, within [0, rank), and at least one."""
    require_axes(operation, axes, rank)
    if not axes:
        raise ShapeError(f"{operation}: there must be an axis to reduce; got none")


def require_axis(operation: str, axis: int, x: TensorType) -> None:
    """Raise ShapeError unless x has the axis."""
    if not 0 <= axis < x.rank:
        raise ShapeError(f"{operation}: the axis of {x} must be in [0, {x.rank}); got {axis}")


def show(shape: Shape) -> str:
    """A shape in the notation of types."""
    return f"[{', '.join(map(str, shape))}]"


def without(sequence: Shape, axes: Sequence[int]) -> Shape:
    """The remaining sizes after axes are removed."""
    return tuple(s for k, s in enumerate(sequence) if k not in axes)


class _ByPosition:
    """An infinite sequence whose items are computed."""

    def __init__(self, item: Callable[[int], Any]) -> None:
        self.item = item

    def __getitem__(self, position: int) -> Any:
        return self.item(position)

    def __len__(self) -> int:
        return maxsize


def by_position(transpose: Callable[[int], Any]) -> tuple[Any, ...]:
    """The transposes of a primitive with any number of operands, indexed like a tuple."""
    return cast("tuple[Any, ...]", _ByPosition(transpose))
