"""From a list of items to one batch: arrays stacked, numbers gathered, containers kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.arguments import shown
from nacre.base.conversion import element, natural_dtype
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable


def default_collate(items: Sequence[Any]) -> Any:
    """A batch from items of one structure: arrays and tensors along a new leading axis, in NumPy.

    Python ints become int64, floats float32; texts, bytes and None stay in lists; tuples, lists, dicts and named
    tuples are kept.  Raises ShapeError, DTypeError or ArgumentError where items differ.

    >>> data.default_collate([(1, "a"), (2, "b")])
    (array([1, 2]), ['a', 'b'])
    """
    try:
        return _collated(items)
    except RecursionError:
        raise ArgumentError(f"collate: items that do not contain themselves are required; got {shown(items)}") from None


def _collated(items: Sequence[Any]) -> Any:
    if not items:
        raise ArgumentError("collate: items are required; got none")
    first: Any = items[0]
    if isinstance(first, Mapping):
        names: list[Any] = list(cast("Mapping[Any, Any]", first))
        _same(items, lambda item: _keys(item) == set(names), f"dicts with keys {names}")
        return {name: _collated([item[name] for item in items]) for name in names}
    if isinstance(first, tuple | list):
        length = len(cast("Sequence[Any]", first))
        _same(items, lambda item: _length(item) == length, f"sequences of {length}")
        return _like(first, [_collated(column) for column in zip(*items, strict=True)])
    if first is None or isinstance(first, str | bytes):
        return list(items)
    return _stacked([_array(item) for item in items])


def _keys(item: Any) -> Any:
    return set(cast("Mapping[Any, Any]", item)) if isinstance(item, Mapping) else None


def _length(item: Any) -> Any:
    return len(cast("Sequence[Any]", item)) if isinstance(item, tuple | list) else None


def _like(sequence: Any, parts: list[Any]) -> Any:
    """The parts in a container of the same kind."""
    if hasattr(sequence, "_fields"):
        return type(sequence)(*parts)
    return tuple(parts) if isinstance(sequence, tuple) else parts


def _same(items: Sequence[Any], fits: Callable[[Any], bool], wanted: str) -> None:
    for k, item in enumerate(items):
        if not fits(item):
            raise ArgumentError(f"collate: {wanted} are required; got {type(item).__name__} as item {k} of the batch")


def _array(item: Any) -> np.ndarray:
    if isinstance(item, Value | Variable):
        return stripped(as_tensor(item)).numpy()  # type: ignore[attr-defined]
    if isinstance(item, bool):
        return np.asarray(item)
    if isinstance(item, int | float):
        return element(item, natural_dtype(item), "collate")
    found = np.asarray(item)
    if found.dtype.kind not in "biufV" and str(found.dtype) != "bfloat16":
        raise DTypeError(
            f"collate: numbers, arrays, texts or containers of them are required; got {type(item).__name__}; give the "
            "loader a collate_fn"
        )
    return found


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    shape, dtype = arrays[0].shape, arrays[0].dtype
    for k, a in enumerate(arrays):
        if a.shape != shape:
            raise ShapeError(
                f"collate: items of one shape are required; got {list(shape)} and, as item {k} of the batch, "
                f"{list(a.shape)}; pad or crop them, or give the loader a collate_fn"
            )
        if a.dtype != dtype:
            raise DTypeError(f"collate: items of one dtype are required; got {dtype} and, as item {k}, {a.dtype}")
    return np.stack(arrays)


def to_tensors(batch: Any) -> Any:
    """The same containers, with tensors in the places of arrays.

    >>> data.to_tensors({"x": data.default_collate([1.0, 2.0])})
    {'x': Tensor([1., 2.], f32[2])}
    """
    try:
        return _as_tensors(batch)
    except RecursionError:
        raise ArgumentError("to_tensors: a batch that does not contain itself is required; "
                            f"got {shown(batch)}") from None


def _as_tensors(batch: Any) -> Any:
    if isinstance(batch, np.ndarray):
        return as_tensor(batch)
    if isinstance(batch, Mapping):
        return {k: _as_tensors(v) for k, v in cast("Mapping[Any, Any]", batch).items()}
    if isinstance(batch, tuple | list):
        return _like(batch, [_as_tensors(v) for v in cast("Sequence[Any]", batch)])
    return batch
