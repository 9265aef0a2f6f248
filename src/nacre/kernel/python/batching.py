"""A kernel for a batch: a parallel loop around it, whose index comes first in the arrays that have the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.base.dims import Size
from nacre.kernel.ast import Accumulate, Buffer, Expr, For, If, Index, Kernel, Let, Load, Stmt, Store, While
from nacre.kernel.rewrite import map_expression


def batched(kernel: Kernel, size: Size, mapped: Sequence[bool], index: str) -> Kernel:
    """The kernel for each example of a batch of a size; `mapped` says which inputs have the batch as first axis."""
    inputs = tuple(_wider(b, size) if m else b for b, m in zip(kernel.inputs, mapped, strict=True))
    outputs = tuple(_wider(b, size) for b in kernel.outputs)
    wider = {b.name for b, m in zip(kernel.inputs, mapped, strict=True) if m} | {b.name for b in outputs}

    def visit(e: Expr) -> Expr:
        """A load from an array with the batch, of this example."""
        if isinstance(e, Load) and e.buffer in wider:
            return replace(e, index=(Index(index), *e.index))
        return e

    def moved(e: Expr) -> Expr:
        """An expression of this example."""
        return map_expression(e, visit)

    body = _rewritten(kernel.body, moved, lambda s: (Index(index),) if s.buffer in wider else ())
    return Kernel(kernel.name, inputs, outputs, (For(index, size, body, parallel=True),))


def _wider(b: Buffer, size: Size) -> Buffer:
    return replace(b, shape=(size, *b.shape))


def _rewritten(
    body: Sequence[Stmt], moved: Callable[[Expr], Expr], before: Callable[[Store], tuple[Expr, ...]]
) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for s in body:
        match s:
            case Let():
                found.append(Let(s.name, moved(s.value)))
            case Store():
                found.append(Store(s.buffer, (*before(s), *map(moved, s.index)), moved(s.value)))
            case Accumulate():
                found.append(Accumulate(s.op, s.accumulators, tuple(map(moved, s.values))))
            case For():
                found.append(replace(s, body=_rewritten(s.body, moved, before)))
            case If():
                sides = (_rewritten(b, moved, before) for b in (s.body, s.orelse))
                found.append(If(moved(s.condition), *sides))
            case While():
                found.append(While(moved(s.condition), _rewritten(s.body, moved, before)))
            case _:
                found.append(s)
    return tuple(found)
