"""NumPy's functions that arrange elements, for tensors: parts, quarter turns, choices, and axes that NumPy flattens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.arguments import is_whole, shown
from nacre.base.errors import KindError, ShapeError
from nacre.base.types import normal_axis


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The parts between positions along an axis, or a number of parts, of which the first ones may be larger by 1."""
    return _split("array_split", ary, indices_or_sections, axis, False)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The parts between positions along an axis, or a number of equal parts."""
    return _split("split", ary, indices_or_sections, axis, True)


def _split(name: str, x: Any, given: Any, axis: int, equal: bool) -> list[Any]:
    """The parts by Nacre's `split`, to which a number of parts is positions where they may differ."""
    nc = sys.modules["nacre"]
    held = as_tensor(x)
    at = normal_axis(axis, len(held.type.shape), name)
    size = held.type.shape[at]
    if not is_whole(given):
        return list(nc.split(held, list(given), axis=at))
    if given < 1 or (equal and size % given):
        raise ShapeError(
            f"{name}: the number of parts must be at least 1 and divide the size of axis {at}, {size}; got "
            f"{given}; write numpy.array_split for parts that differ by 1"
        )
    least, larger = divmod(size, given)
    return list(nc.split(held, [k * least + min(k, larger) for k in range(1, given)], axis=at))


def _split_along(name: str, axis: int) -> Callable[..., list[Any]]:
    """`split` along one axis."""

    def split_along(ary: Any, indices_or_sections: Any) -> list[Any]:
        """The parts along the axis."""
        vector = name == "hsplit" and len(as_tensor(ary).type.shape) == 1
        return _split(name, ary, indices_or_sections, 0 if vector else axis, True)

    return split_along


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """The tensor after k quarter turns from the first of two axes to the second."""
    nc = sys.modules["nacre"]
    first, second = axes
    turns = k % 4
    if turns == 1:
        return nc.swapaxes(nc.flip(m, axis=second), first, second)
    if turns == 3:
        return nc.flip(nc.swapaxes(m, first, second), axis=second)
    return nc.flip(m, axis=(first, second)) if turns else nc.asarray(m)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The elements of the first choice whose condition holds, or else a default."""
    nc = sys.modules["nacre"]
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(
            f"select: there must be one condition for each choice; got {len(condlist)} and {len(choicelist)}"
        )
    found = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = nc.where(condition, choice, found)
    return found


def squeeze(a: Any, axis: Any = None) -> Any:
    """The tensor without axes of size 1: those given, or all."""
    shape = as_tensor(a).type.shape
    ones = tuple(k for k, n in enumerate(shape) if n == 1)
    return sys.modules["nacre"].squeeze(a, axis=ones if axis is None else axis)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """The products of all pairs of elements, of which each operand is flattened first."""
    nc = sys.modules["nacre"]
    if out is not None:
        raise KindError(f"outer: out= must be left out for a tensor; got {shown(out)}; write z = nacre.outer(x, y)")
    return nc.outer(nc.flatten(as_tensor(a)), nc.flatten(as_tensor(b)))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The cross products of vectors of 3 elements along axes."""
    nc = sys.modules["nacre"]
    places = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    left, right = (nc.moveaxis(as_tensor(x), at, -1) for x, at in zip((a, b), places, strict=False))
    return nc.moveaxis(nc.linalg.cross(left, right), -1, places[2])


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """NumPy's rule for the dtype of the tensor, which allows more than Nacre's promotion."""
    return np.can_cast(as_tensor(from_).type.dtype.numpy, to, cast("Any", casting))


SHAPED: Final[dict[Any, Callable[..., Any]]] = {
    np.array_split: array_split,
    np.split: split,
    np.vsplit: _split_along("vsplit", 0),
    np.hsplit: _split_along("hsplit", 1),
    np.dsplit: _split_along("dsplit", 2),
    np.rot90: rot90,
    np.select: select,
    np.squeeze: squeeze,
    np.outer: outer,
    np.cross: cross,
    np.can_cast: can_cast,
}
