"""Axes whose size may change from call to call: what `dynamic_shapes` may say, and the types that it makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from nacre.base.arguments import is_whole, shown
from nacre.base.dims import Dim, Size
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.types import TensorType

DynamicShapes = Mapping[str, Mapping[int, Dim]]
_WRITE = 'write {"x": {0: nc.Dim("batch", max=512)}}'


def checked(operation: str, function: str, parameters: Collection[object], given: DynamicShapes | None
            ) -> dict[str, dict[int, Dim]]:
    """The `dynamic_shapes` of a function; raises for what is no parameter's name, no axis or no Dim.

    >>> checked("jit", "f", ("x",), {"x": {0: Dim.symbol("n")}})
    {'x': {0: Dim(n)}}
    """
    for name, axes in _mapping(operation, "dynamic_shapes", given or {}).items():
        if name not in parameters:
            raise ArgumentError(f"{operation}: names of {function}'s parameters are required in dynamic_shapes; "
                                f"got {name!r}; {_WRITE} for the first axis of x")
        for axis, dim in _mapping(operation, f"the axes of {name} in dynamic_shapes", axes).items():
            if not is_whole(axis) or isinstance(axis, Dim):
                raise KindError(f"{operation}: a whole number is required as an axis of {name} in dynamic_shapes; "
                                f"got {shown(axis)}; {_WRITE}")
            if not isinstance(dim, Dim):
                raise ArgumentError(f"{operation}: a Dim is required for axis {axis} of {name}; got {shown(dim)}; "
                                    'write nc.Dim("batch", max=512)')
    return {name: dict(axes) for name, axes in (given or {}).items()}


def _mapping(operation: str, what: str, value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise KindError(f"{operation}: a mapping is required for {what}; got {shown(value)}; {_WRITE}")
    return cast("Mapping[object, object]", value)


def dynamic_type(function: str, name: str, type: TensorType, axes: Mapping[int, Dim] | None) -> TensorType:
    """The type of an argument with Dims for its dynamic axes; raises for a size outside of their bounds."""
    if not axes:
        return type
    shape: list[Size] = list(type.shape)
    for axis, dim in axes.items():
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"{function}: {name} must have an axis {axis}; got {type}")
        actual = shape[axis]
        low, high = dim.bounds()
        if isinstance(actual, int) and not low <= actual <= high:
            raise ShapeError(f"{function}: a size from {low} to {high} is required in axis {axis} of {name} "
                             f"({dim}); got {actual}; widen the bounds of the Dim")
        shape[axis] = dim
    return TensorType(shape, type.dtype)
