"""Equations along a run of axes: which part of the operands a part of the result needs.

A run is a group of adjacent axes of a value, taken as one axis.  An equation goes along a run of its result if elements
at a position of the run need only the operands' elements at the same position of their runs, and operands that are read
whole.  Then a stretch of the run can be computed from stretches of the operands.  No reduction crosses the run, so
every element and every sum keeps its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.dims import Size, product
from nacre.base.types import Shape, TensorType
from nacre.compile.fusion.fuse import is_pointwise
from nacre.compile.passes.layout import dot_axes
from nacre.ir.graph import Equation
from nacre.ir.primitive import Element, Primitive, Reduce
from nacre.kernel.ast import Expr, Index, Load, children

Run = tuple[int, int]  # the first axis, and the one behind the last; neither end is an axis of size 1
Needs = tuple[Run | None, ...]  # for each operand the run of which the same stretch is read; None: it is read whole

PRODUCTS = frozenset(("dot", "widened_dot"))


def needs(e: Equation, run: Run) -> Needs | None:
    """The operands' runs for a run of the (one) result; None if the equation does not go along it."""
    if isinstance(e.primitive.lowering, Reduce):
        kept = [k for k in range(e.inputs[0].type.rank) if k not in e.params["axes"]]
        return _one(_neighbours(kept[slice(*run)]))
    rule = _NEEDS.get(e.primitive.name)
    if rule is not None:
        return rule(e, run)
    return (run,) * len(e.inputs) if e.inputs and plain(e) else None


def follow(e: Equation, operand: int, run: Run) -> Run | None:
    """The run of the result for a run of an operand; None if there is none, or if e is a product."""
    x, y, params = e.inputs[operand].type, e.outputs[0].type, e.params
    found: Run | None = run
    if isinstance(e.primitive.lowering, Reduce):
        before = sum(a < run[0] for a in params["axes"])
        found = run[0] - before, run[1] - before
    elif e.primitive.name == "broadcast":
        found = _neighbours(params["axes"][slice(*run)])
    elif e.primitive.name == "permute":
        found = _neighbours([params["axes"].index(a) for a in range(*run)])
    elif e.primitive.name == "reshape":
        found = _same_place(x.shape, run, y.shape)
    elif e.primitive.name in PRODUCTS or e.primitive.name == "take":
        return None
    wanted = None if found is None or found[1] > y.rank else needs(e, found)
    return found if wanted is not None and wanted[operand] == run else None


def trimmed(shape: Shape, run: Run) -> Run | None:
    """A run without axes of size 1 at its ends; None if it is then empty."""
    axes = [k for k in range(*run) if shape[k] != 1]
    return (axes[0], axes[-1] + 1) if axes else None


def stretch(shape: Shape, run: Run, length: Size) -> Shape:
    """A shape with one axis of a length in the place of a run."""
    return *shape[: run[0]], length, *shape[run[1] :]


def stretched(e: Equation, run: Run, length: int) -> dict[str, Any]:
    """The parameters of an equation that computes a stretch of its result's run."""
    params = dict(e.params)
    if "shape" in params:
        params["shape"] = stretch(e.outputs[0].type.shape, run, length)
    wanted = needs(e, run)
    assert wanted is not None
    if e.primitive.name in PRODUCTS:
        params["contract"] = tuple(
            tuple(axes if held is None else _moved(axes, held))
            for axes, held in zip(params["contract"], wanted, strict=True)
        )
    elif "axes" in params:
        held = run if e.primitive.name == "broadcast" else wanted[0]
        assert held is not None
        params["axes"] = _moved(params["axes"], held)
    elif "axis" in params and e.primitive.name != "take":
        (params["axis"],) = _moved((params["axis"],), run)
    return params


def plain(e: Equation) -> bool:
    """Whether each element of the result is the same function of the operands' elements at every position."""
    if e.params:
        return "shape" not in e.params and is_pointwise(e) and not _tells_places(e)
    known = _plain.get(e.primitive)
    if known is None:
        known = _plain[e.primitive] = is_pointwise(e) and not _tells_places(e)
    return known


_plain: dict[Primitive, bool] = {}


def _tells_places(e: Equation) -> bool:
    """Whether an element rule uses its index for anything but to read there."""
    low, result = e.primitive.lowering, e.outputs[0].type
    assert isinstance(low, Element)

    def reader(k: int) -> Callable[[tuple[Expr, ...]], Expr]:
        return lambda at: Load(f"x{k}", at, e.inputs[k].type.dtype)

    index = tuple(Index(f"i{k}") for k in range(result.rank))
    readers, types = tuple(map(reader, range(len(e.inputs)))), tuple(x.type for x in e.inputs)
    todo = [low.rule(index, readers, types, result, **e.params)]
    while todo:
        part = todo.pop()
        if isinstance(part, Index):
            return True
        if not isinstance(part, Load):
            todo += children(part)
    return False


# ---- the rules of those that are not plain


def _one(run: Run | None) -> Needs | None:
    return None if run is None else (run,)


def _neighbours(axes: Sequence[int]) -> Run | None:
    """Axes as a run, if they are neighbours in order."""
    ends = axes[0], axes[-1] + 1
    return ends if tuple(axes) == tuple(range(*ends)) else None


def _same_place(shape: Shape, run: Run, other: Shape) -> Run | None:
    """The run of a reshaped value that has the same elements at the same places."""
    before, length = product(shape[: run[0]]), product(shape[slice(*run)])
    for start in range(len(other)):
        if product(other[:start]) == before and other[start] != 1:
            for stop in range(start + 1, len(other) + 1):
                if product(other[start:stop]) == length:
                    return start, stop
    return None


def _moved(axes: Sequence[int], run: Run) -> tuple[int, ...]:
    """Axes of a value when its run has become one axis, each once."""
    first, last = run
    return tuple(dict.fromkeys(min(a, first) if a < last else a - (last - first) + 1 for a in axes))


def _broadcast(e: Equation, run: Run) -> Needs | None:
    x, axes = e.inputs[0].type, e.params["axes"]
    within = [k for k, a in enumerate(axes) if run[0] <= a < run[1]]
    if not within or (run[1] - run[0] == 1 and x.shape[within[0]] == 1):
        return (None,)
    found = within[0], within[-1] + 1
    whole = x.shape[slice(*found)] == e.outputs[0].type.shape[slice(*run)]
    return (found,) if whole else None


def _permute(e: Equation, run: Run) -> Needs | None:
    return _one(_neighbours(e.params["axes"][slice(*run)]))


def _reshape(e: Equation, run: Run) -> Needs | None:
    return _one(_same_place(e.outputs[0].type.shape, run, e.inputs[0].type.shape))


def _filled(e: Equation, run: Run) -> Needs | None:
    return None if "axis" in e.params and run[0] <= e.params["axis"] < run[1] else ()


def _take(e: Equation, run: Run) -> Needs | None:
    axis, indices = e.params["axis"], e.inputs[1].type
    within = axis <= run[0] and run[1] <= axis + indices.rank
    return (None, (run[0] - axis, run[1] - axis)) if within else None


def _gather(e: Equation, run: Run) -> Needs | None:
    return None if run[0] <= e.params["axis"] < run[1] else (run, run)


def _product(e: Equation, run: Run) -> Needs | None:
    """Free axes of one factor; batches and both at once are left."""
    (batch, left, _), (_, right, _) = dot_axes(e)
    if batch:
        return None
    if run[1] <= len(left):
        held = _neighbours(left[slice(*run)])
        return None if held is None else (held, None)
    if run[0] < len(left):
        return None
    held = _neighbours(right[run[0] - len(left) : run[1] - len(left)])
    return None if held is None else (None, held)


_NEEDS: Mapping[str, Callable[[Equation, Run], Needs | None]] = {
    "broadcast": _broadcast, "permute": _permute, "reshape": _reshape, "fill": _filled, "iota": _filled,
    "take": _take, "gather": _gather, **dict.fromkeys(PRODUCTS, _product),
}  # fmt: skip


def sides(e: Equation) -> list[Run]:
    """The runs of a product's result that are the free axes of one factor."""
    (batch, left, _), (_, right, _) = dot_axes(e)
    ends = (0, len(left)), (len(left), len(left) + len(right))
    shape = e.outputs[0].type.shape
    return [] if batch else [found for each in ends if (found := trimmed(shape, each)) is not None]


def strip_type(type: TensorType, run: Run | None, length: int) -> TensorType:
    """The type of a stretch of a value."""
    return type if run is None else type.with_shape(stretch(type.shape, run, length))
