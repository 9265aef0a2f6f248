"""Rearranging, joining and splitting tensors.  Names follow the array API standard, then NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np

from nacre.api.arranging.margins import padded
from nacre.api.arranging.repeat_counts import repeat_counts
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    Scalar,
    TensorLike,
    as_tensor,
    distinct,
    meet,
    scalar,
    shape_of,
    spread,
    whole_sizes,
)
from nacre.api.primitives import picking, view
from nacre.api.slices import clamped
from nacre.api.tensor import Axes, Tensor
from nacre.base.arguments import few, is_whole, whole_number, whole_numbers
from nacre.base.boundary import DIFFERENT
from nacre.base.dims import Dim, Size, lower, product
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.types import Shape, agreeing, normal_axes, normal_axis, show_shape
from nacre.base.types import broadcast_shapes as common_shape
from nacre.interpret.evaluate import from_numpy
from nacre.trace.iteration import Stackable
from nacre.trace.value import Value, is_concrete

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flatten",
    "flip",
    "moveaxis",
    "pad",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "unstack",
]


ROUNDS = 9  # how often a shift is moved by a symbolic size to be within the axis


def _rank(x: Any) -> int:
    return len(x.type.shape)


def _reshaped(shape: Sequence[Any], size: Size, operation: str, given: Shape) -> Shape:
    sizes = list(whole_sizes(shape, operation))
    free = [k for k, s in enumerate(sizes) if s == -1]
    if len(free) > 1 or any([isinstance(s, int) and s < -1 for s in sizes]):
        raise ShapeError(f"{operation}: at most one size may be -1, and others must be at least 0; got {shape}")
    if free:
        rest = product([s for k, s in enumerate(sizes) if k != free[0]])
        if rest == 0 or (isinstance(rest, int) and isinstance(size, int) and size % rest):
            raise ShapeError(f"{operation}: the known sizes must divide {size}; got {shape} for x of shape {given}")
        sizes[free[0]] = size // rest
    if product(sizes) != size:
        raise ShapeError(f"{operation}: the shape must have {size} elements; got {sizes} for x of shape {given}")
    return tuple(sizes)


@one_program(often=True)
def reshape(x: TensorLike, /, shape: Size | Sequence[Size], *, copy: bool | None = None) -> Tensor:
    """The same elements, in row-major order, in another shape.  One size may be −1 and is inferred.

    Tensors do not alias, so `copy` makes no difference: the memory of x is shared where its layout allows.  Raises
    ArgumentError for `copy=False` where the layout does not allow it.

    >>> nc.reshape([1, 2, 3, 4], (2, -1))
    Tensor([[1, 2],
            [3, 4]], i64[2, 2])
    """
    held = as_tensor(x)
    single = isinstance(shape, int | Dim | str) or (not isinstance(shape, tuple | list) and is_whole(shape))
    listed: tuple[Any, ...] = (shape,) if single else few(cast("Any", shape), "reshape")
    sizes = _reshaped(listed, held.type.size, "reshape", held.type.shape)
    made = distinct(held, held) if sizes == held.type.shape else view.reshape(held, sizes)
    if copy is False and is_concrete(held) and made.type.size and made.content is not held.content:
        raise ArgumentError(
            f"reshape: the layout of x, of shape {held.type.shape}, needs a copy to become {sizes}; got copy=False; "
            "pass copy=None"
        )
    return made


@one_program(often=True)
def flatten(x: TensorLike, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Merges axes start_axis to end_axis into one.

    >>> nc.flatten([[1, 2], [3, 4]])
    Tensor([1, 2, 3, 4], i64[4])
    """
    held = as_tensor(x)
    shape = held.type.shape
    if not shape:
        return view.reshape(held, (1,))
    first, last = normal_axis(start_axis, len(shape), "flatten"), normal_axis(end_axis, len(shape), "flatten")
    if first > last:
        raise ShapeError(f"flatten: start_axis must not be after end_axis; got {start_axis} and {end_axis}")
    return reshape(held, (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


@one_program(often=True)
def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis i of the result is axis axes[i] of x.

    >>> nc.permute_dims([[1, 2, 3]], (1, 0)).shape
    (3, 1)
    """
    held = as_tensor(x)
    listed = whole_numbers(axes, "permute_dims", "axes")
    rank = _rank(held)
    order = tuple([normal_axis(a, rank, "permute_dims") for a in listed])
    if len(order) != rank or len(set(order)) != rank:
        raise ShapeError(f"permute_dims: axes must name each of {rank} axes once; got {listed}")
    return distinct(view.permute(held, order), held)


@one_program(often=True)
def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged.

    >>> nc.swapaxes([[1, 2, 3]], 0, 1).shape
    (3, 1)
    """
    held = as_tensor(x)
    order = list(range(_rank(held)))
    a, b = normal_axis(axis1, _rank(held), "swapaxes"), normal_axis(axis2, _rank(held), "swapaxes")
    order[a], order[b] = order[b], order[a]
    return distinct(view.permute(held, tuple(order)), held)


@one_program(often=True)
def moveaxis(x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Axes moved to other positions; the rest keep their order.

    >>> nc.moveaxis(nc.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    held = as_tensor(x)
    rank = _rank(held)
    sources = [normal_axis(a, rank, "moveaxis") for a in whole_numbers(source, "moveaxis", "source")]
    targets = [normal_axis(a, rank, "moveaxis") for a in whole_numbers(destination, "moveaxis", "destination")]
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ShapeError(
            f"moveaxis: source and destination must be distinct axes, equally many; got {source} and {destination}"
        )
    order = [a for a in range(rank) if a not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return distinct(view.permute(held, tuple(order)), held)


@one_program(often=True)
def squeeze(x: TensorLike, /, axis: int | tuple[int, ...]) -> Tensor:
    """x without the given axes, which must have size 1.

    >>> nc.squeeze([[1, 2]], 0)
    Tensor([1, 2], i64[2])
    """
    held = as_tensor(x)
    shape = held.type.shape
    axes = normal_axes(axis, len(shape), "squeeze")
    if any(shape[a] != 1 for a in axes):
        raise ShapeError(f"squeeze: the axes must have size 1; got axes {axes} of shape {shape}")
    return reshape(held, tuple(s for k, s in enumerate(shape) if k not in axes))


@one_program(often=True)
def expand_dims(x: TensorLike, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """x with new axes of size 1 at the given positions of the result.

    >>> nc.expand_dims([1, 2], 0).shape
    (1, 2)
    """
    held = as_tensor(x)
    added = whole_numbers(axis, "expand_dims", "axis")
    rank = _rank(held) + len(added)
    axes = normal_axes(added, rank, "expand_dims")
    sizes = iter(held.type.shape)
    return reshape(held, tuple(1 if k in axes else next(sizes) for k in range(rank)))


@one_program(often=True)
def broadcast_to(x: TensorLike, /, shape: Size | Sequence[Size]) -> Tensor:
    """x repeated to a larger shape by NumPy's rules, without a copy.

    >>> nc.broadcast_to([1, 2], (2, 2))
    Tensor([[1, 2],
            [1, 2]], i64[2, 2])
    """
    held = as_tensor(x)
    sizes = shape_of(shape, "broadcast_to")
    if common_shape(held.type.shape, sizes, operation="broadcast_to") != sizes:
        raise ShapeError(f"broadcast_to: the shape must be one that {held.type} broadcasts to; got {sizes}")
    return distinct(spread(held, sizes), held)


def broadcast_arrays(*xs: TensorLike) -> tuple[Tensor, ...]:
    """Tensors broadcast to their common shape; dtypes are unchanged.

    >>> [x.shape for x in nc.broadcast_arrays([1, 2], [[1], [2]])]
    [(2, 2), (2, 2)]
    """
    held = [as_tensor(x) for x in xs]
    shape = common_shape(*(x.type.shape for x in held), operation="broadcast_arrays")
    return tuple([distinct(spread(x, shape), x) for x in held])


def broadcast_shapes(*shapes: Size | Sequence[Size]) -> tuple[Size, ...]:
    """The shape to which tensors of these shapes broadcast together; () for none.

    Raises ShapeError where sizes differ and none of them is 1.

    >>> nc.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return common_shape(*(shape_of(s, "broadcast_shapes") for s in shapes), operation="broadcast_shapes")


@one_program(None)
def concat(xs: Sequence[TensorLike], /, axis: int | None = 0) -> Tensor:
    """Tensors joined along an existing axis.  With axis None they are flattened first.

    >>> nc.concat([[1, 2], [3]])
    Tensor([1, 2, 3], i64[3])
    """
    given: object = axis
    if isinstance(given, Tensor):
        raise KindError("concat: the tensors as a list are required; got a tensor for axis; write nacre.concat([x, y])")
    if not xs:
        raise ArgumentError("concat: the list of tensors must not be empty; got none")
    met, _ = meet("concat", xs)
    if axis is None:
        met, axis = [view.reshape(x, (x.type.size,)) for x in met], 0
    rank = _rank(met[0])
    if rank == 0:
        raise ShapeError("concat: tensors must have at least one axis; got shape (); use stack")
    at = normal_axis(axis, rank, "concat")
    rest = met[0].type.shape
    for x in met[1:]:
        other = x.type.shape
        if len(other) != rank or any(a != b for k, (a, b) in enumerate(zip(rest, other, strict=True)) if k != at):
            shown = ", ".join(show_shape(m.type.shape) for m in met)
            differing = next(
                ((a, b) for k, (a, b) in enumerate(zip(rest, other, strict=False)) if k != at and a != b), ()
            )
            advice = agreeing(differing, "reshape or slice one of them")
            raise ShapeError(f"concat: shapes must be equal except in axis {at}; got {shown}; {advice}")
    return distinct(met[0], met[0]) if len(met) == 1 else view.concatenate(met, at)


@one_program(None)
def stack(xs: Sequence[TensorLike], /, axis: int = 0, *, size: int | None = None) -> Tensor:
    """Tensors of one shape joined along a new axis.

    With `size`, the new axis is the first one, of this size: zeros follow the tensors.  Raises ArgumentError if there
    are more tensors.  A list that a compiled loop fills may need it (see the page on transformations).

    >>> nc.stack([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]], i64[2, 2])
    >>> nc.stack([[1, 2]], size=2)
    Tensor([[1, 2],
            [0, 0]], i64[2, 2])
    """
    most = None if size is None else _most(size, axis)
    if isinstance(xs, Stackable):
        return moveaxis(xs.stacked(most), 0, axis)
    held, _ = meet("stack", xs)
    if not held:
        raise ArgumentError("stack: the list of tensors must not be empty; got none; begin with one, or nacre.zeros")
    if any(x.type.shape != held[0].type.shape for x in held):
        shown = ", ".join(str(list(x.type.shape)) for x in held)
        raise ShapeError(f"stack: tensors must have equal shapes; got {shown}")
    at = normal_axis(axis, _rank(held[0]) + 1, "stack")
    found = concat([expand_dims(x, at) for x in held], axis=at)
    if most is None:
        return found
    if len(held) > most:
        raise ArgumentError(f"stack: the list must have at most {most} items; got {len(held)}")
    low = (0,) * found.type.rank
    return view.pad(found, scalar(0, found.type.dtype), low, (most - len(held), *low[1:]), low)


def _most(size: Any, axis: int) -> int:
    """The size of the first axis of `stack`."""
    if axis != 0:
        raise ArgumentError(f"stack: with a size, axis must be 0; got {axis}; move the axis behind, with moveaxis")
    most = whole_number(size, "stack", "size")
    if most < 0:
        raise ArgumentError(f"stack: size must be at least 0; got {size}")
    return int(most)


def unstack(x: TensorLike, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without that axis.

    >>> nc.unstack([[1, 2], [3, 4]])[1]
    Tensor([3, 4], i64[2])
    """
    held = as_tensor(x)
    at = normal_axis(axis, _rank(held), "unstack")
    count = int(held.type.shape[at])
    return tuple(squeeze(part, at) for part in split(held, sections=count, axis=at)) if count else ()


def cut(x: Any, axis: int, start: Size, stop: Size) -> Any:
    """The slices of x from start to stop along an axis."""
    shape = x.type.shape
    starts = tuple(start if k == axis else 0 for k in range(len(shape)))
    stops = tuple(stop if k == axis else s for k, s in enumerate(shape))
    return view.slice_(x, starts, stops, (1,) * len(shape))


def split(
    x: TensorLike, indices: Sequence[int] | None = None, /, *, sections: int | None = None, axis: int = 0
) -> tuple[Tensor, ...]:
    """Splits x along an axis before the given indices, or into a number of equal sections.

    A number without a name raises KindError: it is a number of sections in NumPy and a section size in PyTorch.

    >>> nc.split([1, 2, 3, 4], sections=2)[1]
    Tensor([3, 4], i64[2])
    >>> nc.split([1, 2, 3, 4], [1])[1]
    Tensor([2, 3, 4], i64[3])
    """
    if is_whole(indices):
        raise KindError(f"split: sections must be given by name; got the number {indices}; {DIFFERENT['split']}")
    if (indices is None) == (sections is None):
        raise ArgumentError(f"split: either indices or sections must be given; got {indices} and {sections}")
    held = as_tensor(x)
    at = normal_axis(axis, _rank(held), "split")
    size = held.type.shape[at]
    cuts: list[Size]
    if sections is not None:
        sections = whole_number(sections, "split", "sections")
        if sections < 1 or size % sections != 0:
            raise ShapeError(f"split: sections must divide the size {size}; got {sections}")
        step = size // sections
        cuts = [k * step for k in range(sections + 1)]
    else:
        cuts = [0, *(clamped(c, size, 0) for c in indices or ()), size]
    parts = (cut(held, at, a, b if lower(b - a) >= 0 or b > a else a) for a, b in pairwise(cuts))
    return tuple(distinct(part, held) for part in parts)


@one_program(often=True)
def flip(x: TensorLike, /, axis: Axes = None) -> Tensor:
    """The elements in reverse order along axes (default: all).

    >>> nc.flip([1, 2, 3])
    Tensor([3, 2, 1], i64[3])
    """
    held = as_tensor(x)
    axes = normal_axes(axis, _rank(held), "flip")
    return view.flip(held, axes) if axes else distinct(held, held)


@one_program(often=True)
def roll(x: TensorLike, /, shift: int | tuple[int, ...], axis: Axes = None) -> Tensor:
    """Elements shifted along axes; elements beyond the end reappear at the start.  With axis None, x is flattened
    first.

    >>> nc.roll([1, 2, 3], 1)
    Tensor([3, 1, 2], i64[3])
    """
    held = as_tensor(x)
    shifts = whole_numbers(shift, "roll", "shift")
    if axis is None:
        if len(shifts) != 1:
            raise ArgumentError("roll: several shifts need axes; got none")
        return reshape(roll(flatten(held), shifts, axis=0), held.type.shape)
    axes = whole_numbers(axis, "roll", "axis")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: shift must be one number, or one for each of {len(axes)} axes; got {shifts}")
    for a, s in zip(axes, shifts, strict=True):
        at = normal_axis(a, _rank(held), "roll")
        size = held.type.shape[at]
        moved = _wrapped(-s, size)
        if moved != 0:
            held = view.concatenate([cut(held, at, moved, size), cut(held, at, 0, moved)], at)
    return distinct(held, held)


def _wrapped(place: Size, size: Size) -> Size:
    """A place modulo the size of an axis."""
    if not isinstance(place, Dim) and not isinstance(size, Dim):
        return place % size if size else 0
    for _ in range(ROUNDS):
        if place < 0:
            place = place + size
        elif place >= size:
            place = place - size
        else:
            return place
    raise ShapeError(f"roll: the shift must be within {ROUNDS - 1} times the size {size}; got more; shift by less")


@one_program(often=True)
def tile(x: TensorLike, repetitions: Size | Sequence[Size], /) -> Tensor:
    """x repeated as a whole along its axes.

    >>> nc.tile([1, 2], (2,))
    Tensor([1, 2, 1, 2], i64[4])
    """
    held = as_tensor(x)
    counts = whole_numbers(repetitions, "tile", "repetitions")
    rank = max(_rank(held), len(counts))
    if any(n < 0 for n in counts):
        raise ArgumentError(f"tile: repetitions must be at least 0; got {counts}")
    repeats = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - _rank(held)) + held.type.shape
    wide = tuple(n for pair in zip(repeats, shape, strict=True) for n in pair)
    kept = [2 * k + 1 for k in range(rank - _rank(held), rank)]
    copied = view.broadcast(held, wide, tuple(kept))
    return view.reshape(copied, tuple(r * s for r, s in zip(repeats, shape, strict=True)))


@one_program(often=True)
def repeat(x: TensorLike, repeats: int | TensorLike, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated along an axis, all equally often, or each by its own count.

    With axis None, x is flattened first.  Counts for each element need known numbers, because the shape of the result
    depends on them: TraceError is raised for traced ones.  Raises DTypeError for counts that are not integers,
    ShapeError where there is not one for each element, ArgumentError for negative ones.

    >>> nc.repeat([1, 2], 2)
    Tensor([1, 1, 2, 2], i64[4])
    >>> nc.repeat([1, 2], [3, 0])
    Tensor([1, 1, 1], i64[3])
    """
    held = as_tensor(x)
    if axis is None:
        held, axis = flatten(held), 0
    at = normal_axis(axis, _rank(held), "repeat")
    shape = held.type.shape
    if not is_whole(repeats) or isinstance(repeats, Value | np.ndarray):
        counts = repeat_counts(as_tensor(repeats), shape[at])
        if counts.size != 1 or shape[at] == 1:
            return picking.take(held, from_numpy(np.repeat(np.arange(counts.size), counts)), at)
        repeats = int(counts[0])
    count = whole_number(repeats, "repeat", "repeats")
    if count < 0:
        raise ArgumentError(f"repeat: repeats must be at least 0; got {count}")
    wide = (*shape[: at + 1], count, *shape[at + 1 :])
    axes = tuple(k if k <= at else k + 1 for k in range(len(shape)))
    return view.reshape(view.broadcast(held, wide, axes), (*shape[:at], shape[at] * count, *shape[at + 1 :]))


@one_program(often=True)
def pad(x: TensorLike, width: int | Sequence[tuple[int, int]], /, value: Scalar = 0) -> Tensor:
    """x padded with a constant: `width` elements before and after each axis, or a (before, after) pair for each axis.

    A negative number cuts off elements.  Raises ShapeError where more are cut off than there are.

    >>> nc.pad([1, 2], 1)
    Tensor([0, 1, 2, 0], i64[4])
    """
    held = as_tensor(x)
    rank = _rank(held)
    given: Any = width
    pairs = (
        [whole_numbers(given, "pad", "width", 2)] * rank
        if is_whole(given)
        else [whole_numbers(p, "pad", "width") for p in islice(given, rank + 1)]
    )
    if len(pairs) != rank or any(len(p) != 2 for p in pairs):
        raise ShapeError(f"pad: width must have a (before, after) pair for each of {rank} axes; got {width}")
    return distinct(padded(held, pairs, scalar(value, held.type.dtype)), held)
