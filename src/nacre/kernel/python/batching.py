"""A kernel for a batch: a parallel loop around it, whose index comes first in the arrays that have the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.base.dims import Size
from nacre.kernel.ast import Buffer, Expr, For, Index, Kernel, Load
from nacre.kernel.rewrite import map_body


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

    body = map_body(kernel.body, visit, lambda s: (Index(index), *s.index) if s.buffer in wider else s.index)
    return Kernel(kernel.name, inputs, outputs, (For(index, size, body, parallel=True),))


def _wider(b: Buffer, size: Size) -> Buffer:
    return replace(b, shape=(size, *b.shape))
