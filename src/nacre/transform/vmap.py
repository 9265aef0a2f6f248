"""`vmap`: turn a function of one example into a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast, get_args

from nacre.base import tree
from nacre.base.arguments import is_whole, shown
from nacre.base.dims import Size
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.types import TensorType, normal_axis
from nacre.interpret.batch import batch, to_axis
from nacre.trace.function_types import P, R
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value, is_tensor, like, name_of, require_results, unaliased
from nacre.transform.leftover import require_changeable

__all__ = ["vmap"]

Randomness = Literal["error", "same", "different"]
MappedAxes = Any  # an int, None, or a tree of them that is a prefix of the arguments' tree


def vmap(
    f: Callable[P, R], in_axes: MappedAxes = 0, out_axes: MappedAxes = 0, randomness: Randomness = "error"
) -> Callable[P, R]:
    """The function that applies f to every example of a batch at once, with the same bits.

    `in_axes` gives the batch axis of each positional argument; None passes the whole argument to every example.
    `out_axes` gives the batch axis of each result.  Either may be one number for all, or a tree that is a prefix of the
    arguments or results.  Variables, plain Python values and keyword arguments are not batched.  Raises ShapeError if
    batch sizes differ, KindError if a tree of axes has one for a variable.

    `randomness` controls random numbers that f draws without a key, as dropout does: "same" draws once for all
    examples, "different" draws for each, and "error" raises StateError.  A key passed to f is an ordinary tensor, with
    or without a batch axis.

    >>> import nacre as nc
    >>> nc.vmap(lambda x: x.sum())(nc.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]
    """

    if randomness not in get_args(Randomness):
        raise ArgumentError(f'vmap: randomness must be "error", "same" or "different"; got {randomness!r}')

    @like(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        """The function applied to every element along the mapped axes."""
        leaves, structure = tree.flatten(list(args))
        spread: Any = [*in_axes] if isinstance(in_axes, tuple | list) else in_axes
        axes = _spread("vmap: in_axes", spread, structure)
        _require_whole(leaves, axes, in_axes)
        places = [k for k, leaf in enumerate(leaves) if is_tensor(leaf) and not isinstance(leaf, Variable)]
        inputs = [as_value(leaves[k], "vmap") for k in places]
        chosen = [
            None if (axis := axes[k]) is None else _batch_axis(axis, x.type)
            for k, x in zip(places, inputs, strict=True)
        ]
        size = _size(inputs, chosen)
        found: list[tree.Structure] = []

        def flat(*values: Value) -> list[Value]:
            """The function on flat values; records the structure of its result."""
            filled, before = list(leaves), [x.content for x in values]
            for k, x in zip(places, values, strict=True):
                filled[k] = x
            results, answer = tree.flatten(f(*tree.replaced(list(args), iter(filled), []), **kwargs))
            found.append(answer)
            require_results("vmap", results)
            changed = [k for k, x, was in zip(places, values, before, strict=True) if x.content is not was]
            require_changeable(name_of(f, "vmap"), leaves, changed, through=False)
            return [as_value(y, "vmap") for y in results]

        ys, where = batch(flat, inputs, chosen, size, randomness)
        targets = _spread("vmap: out_axes", out_axes, found[-1])
        placed = [_placed(y, a, t, size) for y, a, t in zip(ys, where, targets, strict=True)]
        return tree.unflatten(found[-1], unaliased(placed, inputs))

    return batched


def _require_whole(leaves: Sequence[Any], axes: Sequence[int | None], in_axes: MappedAxes) -> None:
    """Raise KindError for a variable with a batch axis of its own, which one number for all arguments is not."""
    if in_axes is None or is_whole(in_axes):
        return
    for x, axis in zip(leaves, axes, strict=True):
        if axis is not None and isinstance(x, Variable):
            raise KindError(
                f"vmap: in_axes must be None for variables, which are not batched; got axis {axis} for {x.name!r} of "
                f"type {x.value.type}; write None, or pass its tensor, p.value"
            )


def _batch_axis(axis: int, type: TensorType) -> int:
    """The axis of a tensor, which must have one; ShapeError or AxisError otherwise."""
    if not type.rank:
        raise ShapeError(
            f"vmap: a tensor with batch axis {axis} must have an axis; got {type}; write None in in_axes to pass it "
            "whole to every example"
        )
    return normal_axis(axis, type.rank, "vmap")


def _spread(what: str, axes: MappedAxes, structure: tree.Structure) -> list[int | None]:
    """One axis for each leaf."""
    given: object = axes
    if axes is None or is_whole(axes):
        return [axes] * structure.leaves
    parts = _parts(given, structure)
    if parts is not None:
        return [a for part, child in zip(parts, structure.children, strict=True) for a in _spread(what, part, child)]
    raise ArgumentError(f"{what}: the value must be {_described(structure)}; got {shown(given)}; {_written(structure)}")


def _parts(axes: object, structure: tree.Structure) -> Sequence[Any] | None:
    """The parts of axes for the children of a container; None where they do not fit it."""
    if isinstance(axes, dict):
        given = cast("dict[Any, Any]", axes)
        keys = cast("Sequence[Any]", structure.data)
        return [given[k] for k in keys] if structure.kind is dict and set(keys) == set(given) else None
    if not isinstance(axes, tuple | list) or structure.kind is None:
        return None
    listed = cast("Sequence[Any]", axes)
    return listed if len(listed) == len(structure.children) else None


def _described(structure: tree.Structure) -> str:
    """The axes that a container accepts, in words."""
    if not structure.children:
        return "an axis or None"
    if structure.kind is dict:
        return f"an axis, None, or a dict of them with the keys {list(cast('Sequence[Any]', structure.data))}"
    return f"an axis, None, or a tuple of {len(structure.children)} of them"


def _written(structure: tree.Structure) -> str:
    """An example of axes for a container."""
    if not structure.children:
        return "write 0 for the first axis"
    keys = cast("Sequence[Any]", structure.data)
    zeros = dict.fromkeys(keys, 0) if structure.kind is dict else (0,) * len(structure.children)
    return f"write 0 for the first axis of all, or {zeros}"


def _size(inputs: Sequence[Value], axes: Sequence[int | None]) -> Size:
    sizes = list(dict.fromkeys(x.type.shape[a] for x, a in zip(inputs, axes, strict=True) if a is not None))
    if not sizes:
        raise ArgumentError("vmap: at least one argument must have a batch axis; got none; see in_axes")
    if len(sizes) > 1:
        shown = ", ".join(f"{x.type} along axis {a}" for x, a in zip(inputs, axes, strict=True) if a is not None)
        raise ShapeError(f"vmap: batch axes must have one size; got {shown}")
    return sizes[0]


def _placed(y: Value, axis: int | None, target: int | None, size: Size) -> Value:
    if target is None:
        if axis is not None:
            raise ArgumentError("vmap: out_axes may be None only for a result that is not batched; got a batched one")
        return y
    rank = y.type.rank + (axis is None)
    return to_axis(y, axis, normal_axis(target, rank, "vmap"), size)
