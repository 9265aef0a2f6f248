"""`x.at[key].set(value)` and others: new tensors that differ from x at the places of a key, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.elementwise.arithmetic import add, divide, maximum, minimum, multiply, subtract
from nacre.api.indexing import NEW_AXIS, WHOLE, are_adjacent, basic, fitted, index, index_update, parse, with_axis
from nacre.api.operands import TensorLike, as_tensor, filled, scalar, spread
from nacre.api.placement.combining import combined_slices
from nacre.api.placement.modes import read, updated
from nacre.api.primitives import pointwise, view
from nacre.api.taking import as_update, with_elements
from nacre.api.tensor import Tensor
from nacre.base.dims import product
from nacre.base.dtypes import int64
from nacre.base.hints import mark_absent
from nacre.base.porting.methods import INDEX_UPDATE
from nacre.base.types import broadcast_shapes
from nacre.trace.value import Value

__all__ = ["IndexUpdate"]


class IndexUpdate:
    """The elements of a tensor at a key; each method returns a new tensor.  The keys and errors are those of `x[key]`.

    The value broadcasts to the shape of `x[key]`, and has x's dtype or one that promotes with it.  Where a key names a
    place several times, all values are combined there, in their order.

    An index out of range raises AxisError, in a compiled function when it runs.  With `mode="drop"`, its updates are
    left out; with `mode="clip"`, it means the nearest index.  A negative index counts from the end in each mode.
    Raises ArgumentError for another mode.

    >>> x = nc.zeros(3)
    >>> x.at[0].set(5.0)
    Tensor([5., 0., 0.], f32[3])
    >>> x.at[nc.tensor([0, 2, 0])].add(1.0)
    Tensor([2., 0., 1.], f32[3])
    >>> x.at[nc.tensor([1, 7])].set(5.0, mode="drop")
    Tensor([0., 5., 0.], f32[3])
    """

    __slots__ = ("_key", "_x")

    def __init__(self, x: Tensor, key: Any) -> None:
        self._x, self._key = x, key

    def __repr__(self) -> str:
        return f"<places {self._key!r} of a tensor of type {self._x.type}>"

    def get(self, *, mode: str = "raise", fill_value: float | None = None) -> Tensor:
        """x[key].  `mode` and `fill_value` are those of `take`; with "clip" too, a negative index counts from the end.

        >>> nc.tensor([1.0, 2.0]).at[nc.tensor([1, 5])].get(mode="fill", fill_value=0.5)
        Tensor([2. , 0.5], f32[2])
        """
        return read(self._x, self._key, mode, fill_value, index)

    def set(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x with the value at the key: `index_update`.  Of several values at one place, the last one stays."""
        return updated("set", self._x, self._key, mode, lambda x, key: index_update(x, key, value))

    def add(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x with the value added at the key."""
        return _updated("add", self._x, self._key, value, add, "sum", mode)

    def subtract(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x with the value subtracted at the key."""
        held = as_update("at.subtract", as_tensor(self._x), value)
        return _updated("subtract", self._x, self._key, subtract(filled(held, 0), held), add, "sum", mode)

    def multiply(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x multiplied by the value at the key."""
        return _updated("multiply", self._x, self._key, value, multiply, "prod", mode)

    mul = multiply

    def divide(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x divided at the key by the product of the values there; x has a floating-point or complex dtype."""
        ones: Any = filled(as_tensor(self._x), 1)
        return divide(self._x, _updated("divide", ones, self._key, value, multiply, "prod", mode))

    def min(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x with the smaller of its elements and the value at the key."""
        return _updated("min", self._x, self._key, value, minimum, "amin", mode)

    def max(self, value: TensorLike, /, *, mode: str = "raise") -> Tensor:
        """x with the larger of its elements and the value at the key."""
        return _updated("max", self._x, self._key, value, maximum, "amax", mode)


mark_absent(IndexUpdate, INDEX_UPDATE)


def _updated(
    name: str, x: Any, key: Any, value: TensorLike, operation: Callable[[Any, Any], Any], reduction: str, mode: str
) -> Any:
    """x with x[key] combined with a value: by an operation where a place occurs once, else by a reduction."""
    return updated(name, x, key, mode, lambda x, key: _combined_at(name, x, key, value, operation, reduction))


def _combined_at(
    name: str, x: Any, key: Any, value: TensorLike, operation: Callable[[Any, Any], Any], reduction: str
) -> Any:
    """x with a value at a key whose indices are in range, or raise AxisError."""
    given = as_update(f"at.{name}", as_tensor(x), value)
    held, key = with_axis(as_tensor(x), key)
    parsed = parse(key, held.type.shape)
    cut, arrays = basic(held, parsed)
    axes = [k for k, entry in enumerate(arrays) if entry is not None]
    if not axes:
        found = index_update(held, key, operation(cut, fitted(given, cut.type.shape)))
        return found if held is x else view.reshape(found, as_tensor(x).type.shape)
    front = axes[0] if are_adjacent(parsed) else 0
    found = _combined(f"at.{name}", cut, [arrays[k] for k in axes], axes, front, given, reduction)
    around = tuple(None if e is NEW_AXIS else WHOLE if isinstance(e, Value) else e for e in parsed.entries)
    if all(e is None or e is WHOLE for e in around):
        return view.reshape(found, as_tensor(x).type.shape)
    return index_update(held, around, found)


def _combined(
    operation: str, x: Any, arrays: list[Any], axes: list[int], front: int, value: Any, reduction: str
) -> Any:
    """x with a value combined at index arrays of some axes, which are merged into one axis."""
    shape = x.type.shape
    common = broadcast_shapes(*(a.type.shape for a in arrays), operation=operation)
    rest = [k for k in range(len(shape)) if k not in axes]
    order = (*rest[:front], *axes, *rest[front:])
    sizes = [shape[a] for a in axes]
    before, after = ([shape[k] for k in part] for part in (rest[:front], rest[front:]))
    merged = view.reshape(view.permute(x, order), (*before, product(sizes), *after))
    flat = spread(arrays[0], common)
    for size, array in zip(sizes[1:], arrays[1:], strict=True):
        flat = pointwise.add(pointwise.mul(flat, spread(scalar(size, int64), common)), spread(array, common))
    count = product(common)
    updates = view.reshape(fitted(value, (*before, *common, *after)), (*before, count, *after))
    flat = view.reshape(flat, (count,))
    found = combined_slices(operation, with_elements(merged, flat, front), flat, updates, front, reduction)
    moved = view.reshape(found, tuple(shape[k] for k in order))
    return view.permute(moved, tuple(order.index(k) for k in range(len(shape))))
