"""`x[key]` and `x[key] = v`: integers, slices, new axes, `...`, integer arrays and boolean masks, as in NumPy.

A key becomes one entry for each axis that it indexes.  Slices and integers are applied first, as a view; integer arrays
then select along their axes.  Boolean masks become integer arrays, so their values must be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from nacre.api.elementwise.one_program import of_key
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    distinct,
    numbers,
    scalar,
    spread,
)
from nacre.api.primitives import picking, pointwise, view
from nacre.api.searching import where
from nacre.api.slices import Span, count, span, within
from nacre.api.taking import as_update, located, with_elements
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_whole, shown
from nacre.base.dims import Dim, Size, lower, product
from nacre.base.dtypes import bool_, int64
from nacre.base.errors import AxisError, DTypeError, KindError, ShapeError, TraceError, UnknownNumber, explain
from nacre.base.records import dataclass
from nacre.base.types import Shape, broadcast_shapes
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.runtime.buffer import require_room
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable

__all__ = ["index", "index_update"]

NEW_AXIS = object()
WHOLE: slice[Any, Any, Any] = slice(None)
PLAIN_PARTS: frozenset[type] = frozenset((int, type(None)))  # of slices


@dataclass
class Key:
    """A parsed key with one entry for each axis: a size, a slice, `NEW_AXIS`, or an integer tensor.

    `dots` is the place among the entries of a `...` without axes, which separates index arrays as in NumPy.
    """

    entries: list[Any]
    dots: int | None = None

    @property
    def arrays(self) -> list[int]:
        """The entries that are integer arrays."""
        return [k for k, entry in enumerate(self.entries) if isinstance(entry, Value)]


def parse(key: Any, shape: Shape, known: bool = False) -> Key:
    """Check a key against a shape and return one entry for each axis; `known` as in `located`."""
    found = opened(key, shape)
    axis = 0
    for k, entry in enumerate(found.entries):
        if entry is NEW_AXIS:
            continue
        if entry is not WHOLE:
            found.entries[k] = checked(entry, shape[axis], axis, known)
        axis += 1
    return found


def opened(key: Any, shape: Shape) -> Key:
    """One entry for each axis, not checked against its size; a mask has one for each of its axes."""
    entries: list[Any] = []
    for part in cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,):
        entries += (part,) if type(part) is int or type(part) is slice else _entries(part)
    dots = [k for k, entry in enumerate(entries) if entry is Ellipsis]
    used = len(entries) - len(dots) - len([entry for entry in entries if entry is NEW_AXIS])
    if len(dots) > 1:
        raise ShapeError("index: a key may have one `...`; got several")
    if used > len(shape):
        raise AxisError(f"index: a key for shape {shape} may have at most {len(shape)} entries; got {used}")
    at = dots[0] if dots else len(entries)
    entries[at : at + 1] = [WHOLE] * (len(shape) - used)
    return Key(entries, at if dots and used == len(shape) else None)


def _is_slice(entry: Any) -> TypeGuard[slice[Any, Any, Any]]:
    return isinstance(entry, slice)


def _entries(part: Any) -> list[Any]:
    """The entries for one part of a key: one, or one for each axis of a mask."""
    if part is None:
        return [NEW_AXIS]
    if part is Ellipsis or _is_slice(part):
        return [part]
    if type(part) is StagedNumber:
        return [part.tensor()]
    if isinstance(part, int | np.integer | Dim) and not isinstance(part, bool):
        return [part if isinstance(part, Dim) else int(cast("int", part))]
    if isinstance(part, Variable | Value | np.ndarray | list | tuple | bool | np.bool_):
        held = as_tensor(part)
        if isinstance(part, list | tuple) and held.type.size == 0:
            held = from_numpy(np.zeros(held.type.shape, np.int64))
        if held.type.dtype is bool_:
            return _mask_entries(held)
        if held.type.dtype.is_integer:
            return [held]
        raise DTypeError(f"index: an index tensor must have an integer or bool dtype; got {held.type}; use astype")
    raise DTypeError(f"index: entries must be integers, slices, None, ... or tensors; got {type(part).__name__}")


@dataclass
class _Mask:
    """One axis of a boolean mask: the selected positions, and the mask's size there."""

    places: Value
    size: int


def _mask_entries(mask: Any) -> list[Any]:
    if not is_concrete(mask):
        raise TraceError(_MASK)
    array = numbers(mask, "index")
    if array.ndim == 0:
        raise ShapeError(
            "index: a mask beside other parts of a key must have at least one axis; got a single bool; write "
            "x[mask] alone, or use nacre.where"
        )
    return [_Mask(from_numpy(places), size) for places, size in zip(np.nonzero(array), array.shape, strict=True)]


_MASK = explain(
    "index: a mask must have known numbers; got a traced mask",
    "@nc.jit\ndef f(x):\n    return x[x > 0].sum()",
    "The size of x[mask] depends on the mask's numbers, which a compiled function does not know in advance.",
    "@nc.jit\ndef f(x):\n    return nc.where(x > 0, x, 0.0).sum()",
)


_SLICE = explain(
    "index: the parts of a slice must be known numbers; got {}; write nc.dynamic_slice",
    "@nc.jit\ndef f(x, i):\n    x[i:i + 3] = 1.0\n    return x[i:i + 3], x[:i].sum()",
    "The size of a slice depends on numbers that only the running program knows.",
    "@nc.jit\ndef f(x, i):      # a start may be traced; it is clamped so that the block is within x\n"
    "    x = nc.dynamic_update_slice(x, nc.ones(3), (i,))\n"
    "    first = nc.where(nc.arange(x.shape[0]) < i, x, 0.0)\n"
    "    return nc.dynamic_slice(x, (i,), (3,)), first.sum()",
)


def checked(entry: Any, size: Size, axis: int, known: bool) -> Any:
    """An entry of a key, which must fit the axis."""
    if _is_slice(entry):
        return _whole_slice(entry)
    if isinstance(entry, _Mask):
        if entry.size not in (size, 0):  # a mask without elements selects none, as in NumPy
            raise AxisError(f"index: the mask for axis {axis} must have size {size}; got {entry.size}")
        return entry.places
    if isinstance(entry, int | Dim):
        return _place(entry, size, axis)
    return located(entry, size, axis, known)


def _whole_slice(entry: slice[Any, Any, Any]) -> slice[Any, Any, Any]:
    """A slice of plain or symbolic numbers; raises KindError for other parts."""
    parts = entry.start, entry.stop, entry.step
    if PLAIN_PARTS.issuperset(map(type, parts)):
        return entry
    for p in parts:
        if type(p) is StagedNumber or (isinstance(p, Value | Variable) and not is_concrete(as_tensor(p))):
            got = "a traced tensor" if isinstance(p, Value | Variable) else "a number that the program computes"
            raise UnknownNumber(_SLICE.format(got), "slice")
        if p is not None and not isinstance(p, bool | np.bool_) and not is_whole(p):
            raise KindError(f"index: the parts of a slice must be integers; got {shown(p)}; write int(n) or n // 2")
    return slice(*(p if p is None or isinstance(p, Dim) else int(p) for p in parts))


def _place(entry: Size, size: Size, axis: int) -> Size:
    try:
        if -size <= entry < size:
            return entry if entry >= 0 else size + entry
    except ShapeError as fault:
        advice = within(entry + 1, size)
        raise AxisError(
            f"index: the index must be valid for every size of axis {axis}; got {entry} for size {size}"
            + (f"; {advice}" if advice else f", which may be {lower(size)}; give the size a larger minimum")
        ) from fault
    raise AxisError(f"index: the index for axis {axis} must be in [{-size}, {size}); got {entry}")


def _spans(key: Key, shape: Shape) -> list[Span]:
    """The start, stop and step for each axis; index arrays select the whole axis."""
    spans: list[Span] = []
    for entry in key.entries:
        if entry is NEW_AXIS:
            continue
        size = shape[len(spans)]
        if entry is WHOLE or isinstance(entry, Value):
            spans.append((0, size, 1, False))
        else:
            spans.append(span(entry, size) if _is_slice(entry) else (entry, entry + 1, 1, False))
    return spans


def basic(x: Any, key: Key) -> tuple[Any, list[Any]]:
    """Apply integers, slices and new axes.  Returns the array entries by axis; their axes stay whole."""
    shape = x.type.shape
    spans = _spans(key, shape)
    result: list[Size] = []
    arrays: list[Any] = []
    flips: list[int] = []
    axis = 0
    for entry in key.entries:
        if entry is NEW_AXIS:
            result.append(1)
            arrays.append(None)
            continue
        start, stop, step, flip = spans[axis]
        if flip:
            flips.append(axis)
        if _is_slice(entry):
            result.append(count(start, stop, step))
            arrays.append(None)
        elif isinstance(entry, Value):
            result.append(stop)
            arrays.append(entry)
        axis += 1
    if spans:
        starts, stops, steps, _ = zip(*spans, strict=True)
        x = view.slice_(x, starts, stops, steps)
    if flips:
        x = view.flip(x, flips)
    sizes = tuple(result)
    return (x if x.type.shape == sizes else view.reshape(x, sizes)), arrays


@of_key
def index(x: TensorLike, key: Any, /) -> Tensor:
    """x[key].

    A negative index counts from the end.  A mask of shape (), or a bool, gives x with a new first axis, of size 1 or 0.
    Raises AxisError, an IndexError, for indices out of range, DTypeError for other kinds of keys, and TraceError for a
    traced mask.

    >>> nc.index([10, 20, 30], [2, 0])
    Tensor([30, 10], i64[2])
    """
    held, key = with_axis(as_tensor(x), key)
    parsed = parse(key, held.type.shape)
    cut, arrays = basic(held, parsed)
    axes = [k for k, entry in enumerate(arrays) if entry is not None]
    if not axes:
        return distinct(cut, held)
    together = are_adjacent(parsed)
    if len(axes) == 1 and together:
        (at,) = axes
        return picking.take(with_elements(cut, arrays[at], at), arrays[at], at)
    return _pick(cut, [arrays[k] for k in axes], axes, together)


def with_axis(x: Any, key: Any) -> tuple[Any, Any]:
    """x with a new first axis, and a mask of it, where the key is a single bool; else both as they are."""
    if isinstance(key, bool | np.bool_ | np.ndarray | Variable | Value) and not getattr(cast("Any", key), "ndim", 0):
        mask = as_tensor(key)
        if mask.type.dtype is bool_ and not mask.type.shape:
            return view.reshape(x, (1, *x.type.shape)), view.reshape(mask, (1,))
    return x, cast("Any", key)


def are_adjacent(key: Key) -> bool:
    """Whether nothing separates the array and integer entries, so that the selected axes stay in place."""
    places = [k for k, e in enumerate(key.entries) if e is not NEW_AXIS and not isinstance(e, slice)]
    separated = key.dots is not None and places[0] < key.dots <= places[-1]
    return not separated and places == list(range(places[0], places[-1] + 1))


def _pick(x: Any, arrays: Sequence[Any], axes: Sequence[int], together: bool) -> Any:
    """Select by several index arrays: their axes are merged into one, and their indices into one."""
    shape = x.type.shape
    common = broadcast_shapes(*(a.type.shape for a in arrays), operation="index")
    front = axes[0] if together else 0
    rest = [k for k in range(len(shape)) if k not in axes]
    order = (*rest[:front], *axes, *rest[front:])
    moved = view.permute(x, order)
    sizes = [shape[a] for a in axes]
    merged = (*(shape[k] for k in rest[:front]), product(sizes), *(shape[k] for k in rest[front:]))
    flat = spread(arrays[0], common)
    for size, array in zip(sizes[1:], arrays[1:], strict=True):
        wide = spread(scalar(size, int64), common)
        flat = pointwise.add(pointwise.mul(flat, wide), spread(array, common))
    return picking.take(with_elements(view.reshape(moved, merged), flat, front), flat, front)


# ---- updates


def index_update(x: TensorLike, key: Any, value: TensorLike, /) -> Tensor:
    """x with x[key] replaced by a broadcast value.  If an index array names a place twice, the last value is stored.

    Python numbers, also in lists, must fit the dtype of x.  Tensors and arrays are converted as by `astype`.  Integers
    in the key may be traced.  In a jitted function, only the places in the key are written if x is not used later: a
    variable that is read and then assigned, a donated argument, or a temporary value.

    Raises AxisError for an index out of range, in a compiled function when it runs, ShapeError for a value that does
    not fit, TraceError for a traced mask.

    >>> nc.index_update([1, 2, 3], slice(1, None), 0)
    Tensor([1, 0, 0], i64[3])
    """
    held = as_tensor(x)
    given = as_update("index_update", held, value)
    whole = as_tensor(key) if isinstance(key, Value | np.ndarray | list) else None
    if whole is not None and whole.type.dtype is bool_ and not given.type.shape:
        if whole.type.shape != held.type.shape[: len(whole.type.shape)]:
            raise ShapeError(f"index_update: the mask must have shape {held.type.shape}; got {whole.type}")
        wide = view.broadcast(whole, held.type.shape, tuple(range(len(whole.type.shape))))
        return where(wide, given, held)
    longer, key = with_axis(held, key)
    if longer is not held:
        return view.reshape(index_update(longer, key, given), held.type.shape)
    parsed = parse(key, held.type.shape, known=True)
    arrays = [parsed.entries[k] for k in parsed.arrays]
    if all(not a.type.shape for a in arrays) and (not arrays or _steps(parsed, held.type.shape) <= {1}):
        return _block_update(held, parsed, given)
    known = all(map(is_concrete, arrays)) and held.type.static
    return (_scatter_known if known else _scatter_traced)(held, parsed, given)


def _steps(key: Key, shape: Shape) -> set[int]:
    """The steps of a key's slices, negative where they are reversed."""
    return {-step if flipped else step for _, _, step, flipped in _spans(key, shape)}


def fitted(value: Any, shape: Shape) -> Any:
    """The value broadcast to the shape of x[key]; extra leading axes of size 1 are allowed."""
    own = value.type.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    value = value if own == value.type.shape else view.reshape(value, own)
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(reversed(own), reversed(shape), strict=False)):
        raise ShapeError(f"index_update: the value must broadcast to shape {shape}; got shape {value.type.shape}")
    return spread(value, shape)


def _block_update(x: Any, key: Key, value: Any) -> Any:
    """Assignment by slices and integers: the value as one block, or spread by steps and selected by a mask."""
    spans = _spans(key, x.type.shape)
    at = [e for e in key.entries if e is not NEW_AXIS]
    places = {axis: e for axis, e in enumerate(at) if isinstance(e, Value)}
    sizes = tuple(1 if k in places else count(*item[:3]) for k, item in enumerate(spans))
    block = view.reshape(fitted(value, _target(key, sizes)), sizes)
    if flips := [axis for axis, item in enumerate(spans) if item[3]]:
        block = view.flip(block, flips)
    if all(step == 1 for _, _, step, _ in spans):
        starts = [places.get(k, scalar(start, int64)) for k, (start, *_) in enumerate(spans)]
        return picking.dynamic_update_slice(x, block, tuple(starts))

    def spread_out(part: Any) -> Any:
        """A part at its places among zeros, in the shape of x."""
        low, between = tuple(start for start, *_ in spans), tuple(step - 1 for _, _, step, _ in spans)
        wide = view.pad(part, scalar(0, part.type.dtype), low, (0,) * len(low), between)
        high = tuple(n - m for n, m in zip(x.type.shape, wide.type.shape, strict=True))
        return view.pad(wide, scalar(0, part.type.dtype), (0,) * len(low), high)

    chosen = spread_out(pointwise.fill(True, sizes, bool_))
    return pointwise.select(chosen, spread_out(block), x)


def _target(key: Key, sizes: Sequence[Size]) -> Shape:
    """The shape of the slices and new axes of a key, given the sizes of the block on all axes."""
    each = iter(sizes)
    found: list[Size] = []
    for entry in key.entries:
        size = 1 if entry is NEW_AXIS else next(each)
        if entry is NEW_AXIS or isinstance(entry, slice):
            found.append(size)
    return tuple(found)


def _scatter_traced(x: Any, key: Key, value: Any) -> Any:
    """Assignment by index arrays without numbers: the updates are stored one after another."""
    if _steps(key, x.type.shape) - {1}:
        raise TraceError(
            "index_update: beside traced indices, slices must have step 1; got another step; write the places as an "
            "index, as x[i[:, None], nacre.arange(0, n, 2)]"
        )
    spans = _spans(key, x.type.shape)
    at = [e for e in key.entries if e is not NEW_AXIS]
    axes = [k for k, e in enumerate(at) if not isinstance(e, slice)]
    arrays = [e if isinstance(e, Value) else scalar(e, int64) for e in map(at.__getitem__, axes)]
    common = broadcast_shapes(*(a.type.shape for a in arrays), operation="index_update")
    sizes = tuple(count(*item[:3]) for item in spans)
    rest = _target(key, sizes)
    first = next(k for k, e in enumerate(key.entries) if e is not NEW_AXIS and not isinstance(e, slice))
    front = first if are_adjacent(key) else 0
    block = fitted(value, (*rest[:front], *common, *rest[front:]))
    rank, end = len(block.type.shape), front + len(common)
    block = view.permute(block, (*range(front, end), *range(front), *range(end, rank)))
    updates = product(common)
    block = view.reshape(block, (updates, *(n for k, n in enumerate(sizes) if k not in axes)))
    flat = [view.reshape(spread(a, common), (updates,)) for a in arrays]
    starts, stops = zip(
        *((0, n) if k in axes else s[:2] for k, (n, s) in enumerate(zip(x.type.shape, spans, strict=True))), strict=True
    )
    if stops == x.type.shape and not any(starts):
        return picking.scatter(x, block, flat, tuple(axes))
    part = picking.scatter(view.slice_(x, starts, stops, (1,) * len(starts)), block, flat, tuple(axes))
    return picking.dynamic_update_slice(x, part, tuple(scalar(n, int64) for n in starts))


def _scatter_known(x: Any, key: Key, value: Any) -> Any:
    """Assignment by index arrays: each element reads the position of its new value in the flattened value, or none."""
    shape: tuple[int, ...] = x.type.shape
    elements: int = x.type.size
    require_room(elements * 24)
    places = np.arange(elements).reshape(shape)[_again(key)]
    source = np.full(elements, -1, np.int64)
    source[places.reshape(-1)] = np.arange(places.size)
    chosen = source.reshape(shape)
    whole = fitted(value, places.shape)
    if not places.size:
        return x
    values = view.reshape(whole, (places.size,))
    taken = picking.take(values, from_numpy(np.maximum(chosen, 0)), 0)
    return pointwise.select(from_numpy(chosen >= 0), taken, x)


def _again(key: Key) -> tuple[Any, ...]:
    """A key in NumPy's notation."""
    entries = [None if e is NEW_AXIS else numbers(e, "index") if isinstance(e, Value) else e for e in key.entries]
    if key.dots is not None:
        entries.insert(key.dots, ...)
    return tuple(entries)
