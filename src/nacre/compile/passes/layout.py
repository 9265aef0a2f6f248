"""Layouts: the order of a computed value's axes in memory.

Values are row-major with one exception: a value read only by a permutation, and that only by a reshape that cannot be a
view (such as attention's heads when they are merged).  It is written in the permuted order, so that the reshape becomes
a view and nothing is copied.  Layouts never change bits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from nacre.base.dims import Size
from nacre.base.types import Shape, row_major
from nacre.compile.primitives import attend_p
from nacre.ir.axes import permutation
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Element, Layout, RuleKind, register_rule
from nacre.ops.dot import dot_axes, dot_p, widened_dot_p

# whether the kernels of an equation can write its first result with strides; elementwise kernels support any strides
STRIDED: Final[RuleKind[Callable[[Equation, tuple[Size, ...]], bool]]] = RuleKind("results with strides")


def layouts(graph: Graph) -> dict[Var, tuple[Size, ...]]:
    """The strides of the values that are not row-major."""
    readers: dict[Atom, list[Equation]] = {}
    for e in graph.equations:
        for x in e.inputs:
            readers.setdefault(x, []).append(e)
    outputs = set(graph.outputs)
    found: dict[Var, tuple[Size, ...]] = {}
    for e in graph.equations:
        low = e.primitive.lowering
        if isinstance(low, Element):
            free = low.view is None
        else:
            free = STRIDED.of(e.primitive) is not None
        if not free or e.outputs[0] in outputs:
            continue
        permute = _only(readers, e.outputs[0])
        axes = None if permute is None else permutation(permute)
        if permute is None or axes is None or permute.outputs[0] in outputs:
            continue
        reshape = _only(readers, permute.outputs[0])
        strides = _permuted(permute, axes)
        if reshape is not None and _copies(permute, axes, reshape) and _writes(e, strides):
            found[e.outputs[0]] = strides
    return found


def is_dense(shape: Shape, strides: tuple[Size, ...]) -> bool:
    """Whether strides are row-major, except along axes of one element."""
    return all(n == 1 or s == dense for n, s, dense in zip(shape, strides, row_major(shape), strict=True))


def _writes(e: Equation, strides: tuple[Size, ...]) -> bool:
    """Whether the kernels of an equation can write its result with these strides."""
    strided = STRIDED.of(e.primitive)
    return strided is None or strided(e, strides)


def _product_writes(e: Equation, strides: tuple[Size, ...]) -> bool:
    return any(result_strides(e, strides, split) for split in range(max(1, len(dot_axes(e)[0][0]))))


def _attention_writes(e: Equation, strides: tuple[Size, ...]) -> bool:
    shape, batch = e.outputs[0].type.shape, e.inputs[0].type.rank - 2
    return len(shape) == batch + 2 and any(batch_strides(shape, strides, split, batch) for split in splits(batch))


def _only(readers: dict[Atom, list[Equation]], x: Var) -> Equation | None:
    """The reader of a value that has exactly one."""
    mine = readers.get(x, [])
    return mine[0] if len(mine) == 1 else None


def _copies(permute: Equation, axes: tuple[int, ...], reshape: Equation) -> bool:
    """Whether a reshape of a permuted row-major value is a copy; the permutation must keep the last axis in place."""
    low = reshape.primitive.lowering
    if (
        not reshape.primitive.keeps_order
        or not isinstance(low, Element)
        or low.view is None
        or not axes
        or axes[-1] != len(axes) - 1
    ):
        return False
    dense = row_major(permute.inputs[0].type.shape)
    moved = Layout(0, tuple(dense[k] for k in axes))  # type: ignore[arg-type]
    return low.view(moved, permute.outputs[0].type, reshape.outputs[0].type, **reshape.params) is None


def _permuted(permute: Equation, axes: tuple[int, ...]) -> tuple[Size, ...]:
    """The strides of a value whose permutation is row-major."""
    found = dict(zip(axes, row_major(permute.outputs[0].type.shape), strict=True))
    return tuple(found[k] for k in range(len(found)))


# ---- merged axes


def run(shape: Shape, strides: tuple[Size, ...], axes: tuple[int, ...]) -> tuple[Size, Size] | None:
    """The size and stride of several axes merged into one; None if their strides do not allow that."""
    size: Size = 1
    stride: Size = 0
    if any(shape[k] == 0 for k in axes):
        return 0, 1
    for k in reversed(axes):
        n, s = shape[k], strides[k]
        if n == 1:
            continue
        if size == 1:
            size, stride = n, s
        elif s == stride * size:
            size = size * n
        else:
            return None
    return size, stride


def result_groups(e: Equation, split: int) -> list[tuple[int, ...]]:
    """The axes of a product's result: outer and inner batch, rows, columns."""
    (batch, free, _), _ = dot_axes(e)
    ends = 0, split, len(batch), len(batch) + len(free), e.outputs[0].type.rank
    return [tuple(range(*each)) for each in pairwise(ends)]


def result_strides(e: Equation, strides: tuple[Size, ...], split: int) -> tuple[Size, ...] | None:
    """The strides of outer and inner batch and rows of a result; None if its strides do not allow this merge."""
    runs = [run(e.outputs[0].type.shape, strides, each) for each in result_groups(e, split)]
    found = tuple(r[1] for r in runs if r is not None)
    return found[:3] if len(found) == len(runs) and found[3] in (0, 1) else None


# ---- attention


def splits(batch: int) -> range:
    """The places at which the axes of a batch can be split into two levels."""
    return range(max(1, batch))


def batch_strides(
    shape: Shape, strides: tuple[Size, ...], split: int, batch: int
) -> tuple[Size, Size, tuple[Size, ...]] | None:
    """The strides of outer and inner batch, and of the other axes; None if a tensor's strides do not allow this."""
    levels = [run(shape, strides, tuple(axes)) for axes in (range(split), range(split, batch))]
    if levels[0] is None or levels[1] is None:
        return None
    return levels[0][1], levels[1][1], strides[batch:]


register_rule(dot_p, STRIDED, _product_writes)
register_rule(widened_dot_p, STRIDED, _product_writes)
register_rule(attend_p, STRIDED, _attention_writes)
