"""Collation of a list of items to one batch: arrays are stacked, numbers gathered, containers preserved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.arguments import shown
from nacre.base.conversion import NO_NUMBERS, element, natural_dtype
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable


def default_collate(items: Sequence[Any]) -> Any:
    """A batch of items of one structure: arrays and tensors are stacked along a new leading axis, in NumPy.

    Python ints become int64, floats float32.  Texts, bytes and None stay in lists.  Tuples, lists, dicts and named
    tuples are preserved.  Raises ShapeError, DTypeError or ArgumentError if the items differ.

    >>> data.default_collate([(1, "a"), (2, "b")])
    (array([1, 2]), ['a', 'b'])
    """
    try:
        return _collated(items)
    except RecursionError:
        raise ArgumentError(f"collate: items must not contain themselves; got {shown(items)}") from None


def _collated(items: Sequence[Any]) -> Any:
    if not items:
        raise ArgumentError("collate: a batch must have at least one item; got none")
    first: Any = items[0]
    if isinstance(first, Mapping):
        names: list[Any] = list(cast("Mapping[Any, Any]", first))
        _same(items, lambda item: _keys(item) == set(names), f"a dict with keys {names}")
        return {name: _collated([item[name] for item in items]) for name in names}
    if isinstance(first, tuple | list):
        length = len(cast("Sequence[Any]", first))
        _same(items, lambda item: _length(item) == length, f"a sequence of length {length}")
        return _like(first, [_collated(column) for column in zip(*items, strict=True)])
    if first is None or isinstance(first, str | bytes):
        return list(items)
    return _stacked([_array(item) for item in items])


def _keys(item: Any) -> Any:
    return set(cast("Mapping[Any, Any]", item)) if isinstance(item, Mapping) else None


def _length(item: Any) -> Any:
    return len(cast("Sequence[Any]", item)) if isinstance(item, tuple | list) else None


def _like(sequence: Any, parts: list[Any]) -> Any:
    """The parts in a container of the same type."""
    if hasattr(sequence, "_fields"):
        return type(sequence)(*parts)
    return tuple(parts) if isinstance(sequence, tuple) else parts


def _same(items: Sequence[Any], fits: Callable[[Any], bool], wanted: str) -> None:
    for k, item in enumerate(items):
        if not fits(item):
            raise ArgumentError(f"collate: all items must be {wanted}; item {k} of the batch is {type(item).__name__}")


def _array(item: Any) -> np.ndarray:
    if isinstance(item, Value | Variable):
        return stripped(as_tensor(item)).numpy()  # type: ignore[attr-defined]
    if isinstance(item, bool):
        return np.asarray(item)
    if isinstance(item, int | float):
        return element(item, natural_dtype(item), "collate")
    found = np.asarray(item)
    if issubclass(found.dtype.type, NO_NUMBERS):
        raise DTypeError(
            f"collate: items must be numbers, arrays, texts or containers of them; got {type(item).__name__}; pass a "
            "collate_fn to the loader"
        )
    return found


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    shape, dtype = arrays[0].shape, arrays[0].dtype
    for k, a in enumerate(arrays):
        if a.shape != shape:
            raise ShapeError(
                f"collate: items must have one shape; got {list(shape)} and, as item {k} of the batch, "
                f"{list(a.shape)}; pad or crop them, or pass a collate_fn to the loader"
            )
        if a.dtype != dtype:
            raise DTypeError(
                f"collate: items must have one dtype; got {dtype} and, as item {k} of the batch, {a.dtype}"
            )
    return np.stack(arrays)


def to_tensors(batch: Any) -> Any:
    """The same containers with tensors in the place of arrays.

    >>> data.to_tensors({"x": data.default_collate([1.0, 2.0])})
    {'x': Tensor([1., 2.], f32[2])}
    """
    try:
        return _as_tensors(batch)
    except RecursionError:
        raise ArgumentError(f"to_tensors: a batch must not contain itself; got {shown(batch)}") from None


def _as_tensors(batch: Any) -> Any:
    if isinstance(batch, np.ndarray):
        return as_tensor(batch)
    if isinstance(batch, Mapping):
        return {k: _as_tensors(v) for k, v in cast("Mapping[Any, Any]", batch).items()}
    if isinstance(batch, tuple | list):
        return _like(batch, [_as_tensors(v) for v in cast("Sequence[Any]", batch)])
    return batch
