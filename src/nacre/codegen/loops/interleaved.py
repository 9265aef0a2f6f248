"""Accesses of every second element, as of the parts of complex numbers: whole vectors, whose lanes are divided.

Lanes that read every second element would need an address each.  Instead, where the elements are pairs, both parts of
all lanes are loaded at once, and the loads of either part share them; two stores of both parts are one.
"""

from __future__ import annotations

from nacre.kernel.ast import Buffer, Const, Expr, Store
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def part_of(buffer: Buffer, index: tuple[Expr, ...]) -> int | None:
    """Which of two adjacent elements an index of a buffer names, at its last axis; None for other accesses."""
    last = index[-1] if index else None
    if not isinstance(last, Const) or buffer.shape[-1:] != (2,):
        return None
    return int(last.value) if buffer.strides is None or buffer.strides[-1] == 1 else None


def are_both(a: Store, b: Store) -> bool:
    """Whether two statements store the first and the second of two adjacent elements."""
    if a.buffer != b.buffer or not a.index:
        return False
    first, second = a.index[-1], b.index[-1]
    return (
        a.index[:-1] == b.index[:-1]
        and isinstance(first, Const)
        and isinstance(second, Const)
        and (first.value, second.value) == (0, 1)
    )


def every_second(f: Function, both: Val, part: int) -> Val:
    """The lanes of one part from those of both."""
    return f.shuffle(both, both, range(part, lanes_of(both.ty), 2))


def interleaved(f: Function, first: Val, second: Val) -> Val:
    """The lanes of two vectors in turn."""
    lanes = lanes_of(first.ty)
    return f.shuffle(
        first, second, [k for pair in zip(range(lanes), range(lanes, 2 * lanes), strict=True) for k in pair]
    )


def load_both(f: Function, pointer: Val, scalar: str, lanes: int, mask: Val | None) -> Val:
    """Both parts of each lane; 0 where the mask does not hold."""
    ty = vec(scalar, 2 * lanes)
    if mask is None:
        return f.load(pointer, ty)
    return f.masked_load(pointer, interleaved(f, mask, mask), ty, Val("zeroinitializer", ty))


def load_sparse(f: Function, pointer: Val, scalar: str, lanes: int) -> Val:
    """Every second element, as many as lanes, by two vectors that overlap: none is read behind the last lane's."""
    first = f.load(pointer, vec(scalar, lanes))
    last = f.load(f.gep(pointer, lanes - 1, scalar), vec(scalar, lanes))
    return f.shuffle(first, last, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])


def store_both(f: Function, first: Val, second: Val, pointer: Val, mask: Val | None) -> None:
    """Store both parts of each lane for which the mask holds."""
    both = interleaved(f, first, second)
    if mask is None:
        f.store(both, pointer)
    else:
        f.masked_store(both, pointer, interleaved(f, mask, mask))
