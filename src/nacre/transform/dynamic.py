"""Axes whose size may change between calls: validation of `dynamic_shapes`, and the resulting types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from nacre.base.arguments import is_whole, shown
from nacre.base.dims import LIMIT, Dim, Size
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.types import TensorType

DynamicShapes = Mapping[str, Mapping[int, Dim]]
_WRITE = 'write {"x": {0: nc.Dim("batch", max=512)}}'


def checked(
    operation: str, function: str, parameters: Collection[object], given: DynamicShapes | None
) -> dict[str, dict[int, Dim]]:
    """The validated `dynamic_shapes` of a function.  Raises for unknown parameters, invalid axes and values other than
    Dims.

    >>> checked("jit", "f", ("x",), {"x": {0: Dim.symbol("n")}})
    {'x': {0: Dim(n)}}
    """
    for name, axes in _mapping(operation, "dynamic_shapes", given or {}).items():
        if name not in parameters:
            raise ArgumentError(
                f"{operation}: dynamic_shapes must name parameters of {function}; "
                f"got {name!r}; {_WRITE} for the first axis of x"
            )
        for axis, dim in _mapping(operation, f"the axes of {name} in dynamic_shapes", axes).items():
            if not is_whole(axis) or isinstance(axis, Dim):
                raise KindError(
                    f"{operation}: an axis of {name} in dynamic_shapes must be an integer; got {shown(axis)}; {_WRITE}"
                )
            if not isinstance(dim, Dim):
                raise ArgumentError(
                    f"{operation}: the size of axis {axis} of {name} must be a Dim; got {shown(dim)}; "
                    'write nc.Dim("batch", max=512)'
                )
    found = {name: dict(axes) for name, axes in (given or {}).items()}
    _require_one_meaning(operation, found)
    return found


def _require_one_meaning(operation: str, given: Mapping[str, Mapping[int, Dim]]) -> None:
    """Raise ArgumentError for a name of a size that has two different bounds."""
    known: dict[str, tuple[int, int]] = {}
    for dim in (d for axes in given.values() for d in axes.values()):
        for s in dim.symbols():
            bounds = known.setdefault(s.name, s.bounds()), s.bounds()
            if bounds[0] != bounds[1]:
                shown = " and ".join(f"{low} to {'any' if high == LIMIT else high}" for low, high in bounds)
                raise ArgumentError(
                    f"{operation}: a name in dynamic_shapes must have the same bounds everywhere; got {s.name} from "
                    f"{shown}; use one Dim for both, or another name"
                )


def _mapping(operation: str, what: str, value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise KindError(f"{operation}: {what} must be a mapping; got {shown(value)}; {_WRITE}")
    return cast("Mapping[object, object]", value)


def dynamic_type(function: str, name: str, type: TensorType, axes: Mapping[int, Dim] | None) -> TensorType:
    """The type of an argument with Dims for its dynamic axes.  Raises for a size outside their bounds."""
    if not axes:
        return type
    shape: list[Size] = list(type.shape)
    for axis, dim in axes.items():
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"{function}: {name} must have an axis {axis}; got {type}")
        actual = shape[axis]
        low, high = dim.bounds()
        if isinstance(actual, int) and not low <= actual <= high:
            raise ShapeError(
                f"{function}: the size of axis {axis} of {name} ({dim}) must be from {low} to {high}; "
                f"got {actual}; widen the bounds of the Dim"
            )
        shape[axis] = dim
    return TensorType(shape, type.dtype)
