"""The canonical order of every reduction, as plain NumPy: the definition for kernels, interpreter and tests.

`sum` and `prod` are the aligned pairwise tree over consecutive indices: element 2i is combined with 2i+1, and so on
until one element is left.  A last element without a partner is passed to the next level.  An absent element (an
iteration whose `If` is false) counts as the identity: -0.0 for a sum, which leaves every number unchanged, and 1 for a
product.  The empty sum is +0.0.

A tree may therefore be split at any multiple of a power of two.  Each block of `BLOCK` elements is reduced alone, and
`merges` gives the number of finished blocks to combine when another one arrives.

`max`, `min`, `any`, `all`, and integers' `sum` and `prod` give the same bits in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.base.dtypes import DType
from nacre.base.errors import CompileError

BLOCK = 256  # elements of a row that are reduced at a time; the bits do not depend on it
NO_INDEX = (1 << 63) - 1  # the result of argmax and argmin of no elements

Number = float | int | bool


def in_any_order(op: str, dtype: DType) -> bool:
    """Whether every order of a reduction gives the same bits."""
    return op not in ("sum", "prod") or not dtype.is_inexact


def identity(op: str, dtype: DType) -> Any:
    """The value of an absent element."""
    match op:
        case "sum":
            return complex(-0.0, -0.0) if dtype.is_complex else -0.0 if dtype.is_float else 0
        case "prod":
            return 1
        case "any":
            return False
        case "all":
            return True
        case "max" | "argmax":
            return least(dtype)
        case "min" | "argmin":
            return greatest(dtype)
        case _:
            raise CompileError(f"reduction: unknown reduction {op!r}")


def empty(op: str, dtype: DType) -> Any:
    """The reduction of no elements."""
    return 0.0 if op == "sum" and dtype.is_inexact else identity(op, dtype)


def least(dtype: DType) -> Number:
    """The least number of the dtype; −∞ for floating-point numbers."""
    if dtype.is_float:
        return float("-inf")
    if dtype.is_bool:
        return False
    return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def greatest(dtype: DType) -> Number:
    """The greatest number of the dtype; ∞ for floating-point numbers."""
    if dtype.is_float:
        return float("inf")
    if dtype.is_bool:
        return True
    return (1 << (dtype.bits - 1)) - 1 if dtype.is_signed else (1 << dtype.bits) - 1


def merges(block: int) -> int:
    """The number of finished blocks that are combined with this block, latest first (as a binary counter carries)."""
    return ((block + 1) & -(block + 1)).bit_length() - 1


def tree(values: np.ndarray, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """The aligned pairwise tree over the first axis, which has at least one element.

    >>> tree(np.array(["a", "b", "c", "d", "e"], object), lambda x, y: "(" + x + y + ")")
    '(((ab)(cd))e)'
    """
    while len(values) > 1:
        pairs = combine(values[0 : len(values) - 1 : 2], values[1::2])
        values = np.concatenate([pairs, values[-1:]]) if len(values) % 2 else pairs
    return values[0]
