"""Transposes of square matrices in registers."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.native.llvm_types import lanes_of
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def transposed(f: Function, rows: Sequence[Val]) -> list[Val]:
    """The transpose of a square, as many vectors as each has lanes: blocks of doubling size are swapped."""
    values, n = list(rows), lanes_of(rows[0].ty)
    step = 1
    while step < n:
        first = [k if not k & step else n + k - step for k in range(n)]
        second = [k + step if not k & step else n + k for k in range(n)]
        for k in range(n):
            if not k & step:
                a, b = values[k], values[k + step]
                values[k], values[k + step] = f.shuffle(a, b, first), f.shuffle(a, b, second)
        step *= 2
    return values
