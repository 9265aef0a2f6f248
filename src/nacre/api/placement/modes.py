"""What an index out of range means to `x.at[key]`: a tensor with room for it, and a key within that tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.indexing import NEW_AXIS, checked, opened, with_axis
from nacre.api.manipulation import cut
from nacre.api.operands import as_tensor, constant, extent, filled, spread
from nacre.api.primitives import pointwise, view
from nacre.api.taking import as_signed, clipped, or_behind, require_mode
from nacre.base.conversion import element
from nacre.base.dims import Dim, Size
from nacre.interpret.evaluate import from_numpy
from nacre.trace.value import Value

UPDATES = ("raise", "clip", "drop")


def read(x: Any, key: Any, mode: str, fill_value: float | None, index: Callable[[Any, Any], Any]) -> Any:
    """x[key], with zeros or a number in place of what an index out of range selects."""
    require_mode("at.get", mode, fill_value)
    if mode == "raise":
        return index(x, key)
    held = as_tensor(x)
    missing = mode == "drop" or (fill_value is None and not held.type.dtype.is_float)
    number = 0 if missing else float("nan") if fill_value is None else fill_value
    longer, inner, _ = _with_room(held, key, mode, from_numpy(element(number, held.type.dtype, "at.get")))
    return index(longer, inner)


def updated(name: str, x: Any, key: Any, mode: str, update: Callable[[Any, Any], Any]) -> Any:
    """The result of an update of x at a key, without those whose index is out of range in the mode "drop"."""
    require_mode(f"at.{name}", mode, allowed=UPDATES)
    if mode == "raise":
        return update(x, key)
    held = as_tensor(x)
    longer, inner, axes = _with_room(held, key, mode, constant(0, held.type.dtype))
    found = update(longer, inner)
    for axis in axes:
        found = cut(found, axis, 0, held.type.shape[axis])
    return found


def _with_room(x: Any, key: Any, mode: str, filler: Any) -> tuple[Any, Any, list[int]]:
    """x with one more element along each axis that has an index, a key without indices out of range, and these axes.

    A negative index counts from the end.  With "clip", one out of range becomes the nearest one, and x stays as it is.
    """
    if with_axis(x, key)[0] is not x:
        return x, key, []
    shape = x.type.shape
    found = opened(key, shape)
    parts: list[Any] = []
    axes: list[int] = []
    axis = 0
    for entry in found.entries:
        if entry is NEW_AXIS:
            parts.append(None)
            continue
        part = entry
        if not isinstance(entry, int | Dim | Value):
            part = checked(entry, shape[axis], axis, False)
        elif mode == "clip":
            part = clipped(_from_end(entry, shape[axis]), shape[axis])
        else:
            part = or_behind(_from_end(entry, shape[axis]), shape[axis])
            axes.append(axis)
        parts.append(part)
        axis += 1
    if found.dots is not None:
        parts.insert(found.dots, Ellipsis)
    none = (0,) * len(shape)
    room = tuple(int(k in axes) for k in range(len(shape)))
    return (view.pad(x, filler, none, room, none) if axes else x), tuple(parts), axes


def _from_end(entry: Any, size: Size) -> Any:
    """Indices as int64, of which negative ones have been counted from the end."""
    wide = as_signed(extent(entry) if isinstance(entry, int | Dim) else entry)
    end = spread(extent(size), wide.type.shape)
    return pointwise.select(pointwise.lt(wide, filled(wide, 0)), pointwise.add(wide, end), wide)
