"""The correspondence of axes between results and operands, and equations that can be split along runs of axes.

Primitives that only permute axes and repeat elements along axes have a map of axes.

A run is a group of adjacent axes of a value, taken as one axis.  An equation can be split along a run of its result on
one condition: elements at a position of the run need only the operands' elements at the same position of their runs.
Other operands are read whole.  Then a slice of the run can be computed from slices of the operands.  No reduction
crosses the run, so the bits of every element and every sum are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.dims import product
from nacre.base.records import dataclass
from nacre.base.types import Shape

Run = tuple[int, int]  # the first axis, and the one after the last; neither end is an axis of size 1
Needs = tuple[Run | None, ...]  # for each operand, the run of which the same slice is read; None if it is read whole

# for each axis of an operand, the axis of the result with the same index; None if only its first element is read
AxisMap = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class AxisRule:
    """How equations of a primitive are split along a run; elementwise primitives and reductions need no rule.

    `needs(e, run)` gives the operands' runs for a run of the result, or None if e cannot be split along it.
    `follow(e, run)` gives the result's run for a run of the first operand, or None.  Without `follow` there is none.
    `strip(e, run, wanted)` gives the parameters that change if the run becomes one shorter axis and the operands' runs,
    `wanted`, do too.  Parameters named `shape`, `axes` and `axis` change without it.
    `factors(e)` gives the runs of a product's result that are the free axes of one factor.
    """

    needs: Callable[[Any, Run], Needs | None]
    follow: Callable[[Any, Run], Run | None] | None = None
    strip: Callable[[Any, Run, Needs], Mapping[str, Any]] | None = None
    factors: Callable[[Any], list[Run]] | None = None
    moves: bool = False  # elements are only moved to other indices
    is_free: bool = False  # computing an element costs no more than reading it
    is_lookup: bool = False  # rows of the first operand are read at the indices in the second one


def own_axes(e: Any) -> AxisMap:
    """The map of axes of an equation whose result has the operand's elements at the same indices."""
    return tuple(range(e.outputs[0].type.rank))


def axis_map(e: Any) -> AxisMap | None:
    """The map of axes of an equation; None if its primitive has none."""
    return None if e.primitive.axis_map is None else e.primitive.axis_map(e)


def permutation(e: Any) -> tuple[int, ...] | None:
    """For each axis of the result, the operand's axis, if an equation only permutes axes; otherwise None."""
    found = axis_map(e)
    if found is None or None in found or len(found) != e.outputs[0].type.rank or found == tuple(range(len(found))):
        return None
    return tuple(map(found.index, range(len(found))))


def spreads(e: Any) -> bool:
    """Whether an equation repeats the operand's elements along axes of the result, and does no more."""
    found = axis_map(e)
    return found is not None and (None in found or len(found) < e.outputs[0].type.rank)


def one(run: Run | None) -> Needs | None:
    """The operands' runs of an equation with one operand."""
    return None if run is None else (run,)


def neighbours(axes: Sequence[int]) -> Run | None:
    """The run of axes that are adjacent and ascending; None for other axes."""
    ends = axes[0], axes[-1] + 1
    return ends if tuple(axes) == tuple(range(*ends)) else None


def same_place(shape: Shape, run: Run, other: Shape) -> Run | None:
    """The run of a reshaped value that has the same elements at the same positions."""
    before, length = product(shape[: run[0]]), product(shape[slice(*run)])
    for start in range(len(other)):
        if product(other[:start]) == before and other[start] != 1:
            for stop in range(start + 1, len(other) + 1):
                if product(other[start:stop]) == length:
                    return start, stop
    return None


def trimmed(shape: Shape, run: Run) -> Run | None:
    """A run without axes of size 1 at its ends; None if it is then empty."""
    axes = [k for k in range(*run) if shape[k] != 1]
    return (axes[0], axes[-1] + 1) if axes else None


def moved(axes: Sequence[int], run: Run) -> tuple[int, ...]:
    """The axes of a value after its run has become one axis, without duplicates."""
    first, last = run
    return tuple(dict.fromkeys(min(a, first) if a < last else a - (last - first) + 1 for a in axes))
