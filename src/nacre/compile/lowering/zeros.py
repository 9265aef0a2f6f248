"""Kernels that store zeros in the elements of a result that another kernel may leave."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Size
from nacre.kernel.ast import Buffer, For, Index, Kernel, Stmt, Store, index_add, size_expr, zero_of
from nacre.kernel.bounds import stored_box, written_first
from nacre.kernel.dependence import loaded
from nacre.kernel.inlining.accesses import stored_once


def zeros_before(kernel: Kernel, b: Buffer) -> Kernel | None:
    """The kernel that stores zeros before another one runs; None if that one stores each element of the result."""
    if written_first(kernel.body, b) or (b.name not in loaded(kernel.body) and stored_once(kernel, {b.name})):
        return None
    box = stored_box(kernel, b)
    found = zero_kernel(b) if box is None else border_kernel(b, box)
    return found if found.body else None


def zero_kernel(b: Buffer) -> Kernel:
    """A kernel that stores zero in each element of a result."""
    index = tuple(Index(f"c{k}") for k in range(len(b.shape)))
    body: tuple[Stmt, ...] = (Store(b.name, index, zero_of(b.dtype)),)
    for k in reversed(range(len(b.shape))):
        body = (For(f"c{k}", b.shape[k], body, parallel=True, vector=k == len(b.shape) - 1),)
    return Kernel("zeros", (), (b,), body)


def border_kernel(b: Buffer, box: Sequence[tuple[Size, Size]]) -> Kernel:
    """A kernel that stores zero in the elements of a result that are outside of a box."""
    body: list[Stmt] = []
    for axis, (low, high) in enumerate(box):
        for part, start, extent in ((0, 0, low), (1, high, b.shape[axis] - high)):
            names = [f"c{axis}_{part}_{k}" for k in range(len(b.shape))]
            places = [index_add(size_expr(start), Index(n)) if k == axis else Index(n) for k, n in enumerate(names)]
            strip: Stmt = Store(b.name, tuple(places), zero_of(b.dtype))
            for k in reversed(range(len(b.shape))):
                strip = For(names[k], extent if k == axis else b.shape[k], (strip,))
            if extent != 0:
                body.append(strip)
    return Kernel("zeros", (), (b,), tuple(body))
