"""Axis propagation: how equations map runs of axes from operands to results, by their primitives' rules (`ir.axes`).

The rules of elementwise primitives and reductions follow from their lowerings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.base.dims import Size
from nacre.base.types import Shape, TensorType
from nacre.compile.fusion.pointwise import is_pointwise
from nacre.ir.axes import AxisRule, Needs, Run, moved, neighbours, one
from nacre.ir.graph import Equation
from nacre.ir.primitive import Element, Primitive, Reduce
from nacre.kernel.ast import Expr, Index, Load, children


def needs(e: Equation, run: Run) -> Needs | None:
    """The operands' runs for a run of the (one) result; None if the equation does not propagate it."""
    if isinstance(e.primitive.lowering, Reduce):
        kept = [k for k in range(e.inputs[0].type.rank) if k not in e.params["axes"]]
        return one(neighbours(kept[slice(*run)]))
    rule = e.primitive.axes
    if rule is not None:
        return rule.needs(e, run)
    return (run,) * len(e.inputs) if e.inputs and plain(e) else None


_ELEMENTWISE = AxisRule(needs)


def rule_of(e: Equation) -> AxisRule:
    """The rule of an equation's primitive; that of elementwise primitives if it has none."""
    return e.primitive.axes or _ELEMENTWISE


def follow(e: Equation, operand: int, run: Run) -> Run | None:
    """The run of the result for a run of an operand; None if there is none."""
    found: Run | None = run
    rule = e.primitive.axes
    if isinstance(e.primitive.lowering, Reduce):
        before = sum(a < run[0] for a in e.params["axes"])
        found = run[0] - before, run[1] - before
    elif rule is not None:
        found = None if rule.follow is None else rule.follow(e, run)
    wanted = None if found is None or found[1] > e.outputs[0].type.rank else needs(e, found)
    return found if wanted is not None and wanted[operand] == run else None


def stretch(shape: Shape, run: Run, length: Size) -> Shape:
    """The shape with a run replaced by one axis of a length."""
    return *shape[: run[0]], length, *shape[run[1] :]


def stretched(e: Equation, run: Run, length: int) -> dict[str, Any]:
    """The parameters of an equation that computes a strip of its result along the run."""
    params = dict(e.params)
    if "shape" in params:
        params["shape"] = stretch(e.outputs[0].type.shape, run, length)
    wanted = needs(e, run)
    assert wanted is not None
    rule = e.primitive.axes
    if rule is not None and rule.strip is not None:
        params.update(rule.strip(e, run, wanted))
    elif "axes" in params:
        operand_run = wanted[0]
        assert operand_run is not None
        params["axes"] = moved(params["axes"], operand_run)
    elif "axis" in params:
        (params["axis"],) = moved((params["axis"],), run)
    return params


def plain(e: Equation) -> bool:
    """Whether each element of the result is the same function of the operands' elements at every position."""
    if e.params:
        return "shape" not in e.params and is_pointwise(e) and not _uses_position(e)
    known = _plain.get(e.primitive)
    if known is None:
        known = _plain[e.primitive] = is_pointwise(e) and not _uses_position(e)
    return known


_plain: dict[Primitive, bool] = {}


def _uses_position(e: Equation) -> bool:
    """Whether an element rule uses its index for anything but reading operands at that index."""
    low, result = e.primitive.lowering, e.outputs[0].type
    assert isinstance(low, Element)

    def reader(k: int) -> Callable[[tuple[Expr, ...]], Expr]:
        return lambda at: Load(f"x{k}", at, e.inputs[k].type.dtype)

    index = tuple(Index(f"i{k}") for k in range(result.rank))
    readers, types = tuple(map(reader, range(len(e.inputs)))), tuple(x.type for x in e.inputs)
    todo = [low.rule(index, readers, types, result, **e.params)]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if isinstance(part, Index):
            return True
        if not isinstance(part, Load) and id(part) not in seen:
            seen.add(id(part))
            todo += children(part)
    return False


def strip_type(type: TensorType, run: Run | None, length: int) -> TensorType:
    """The type of a strip of a value along a run."""
    return type if run is None else type.with_shape(stretch(type.shape, run, length))
