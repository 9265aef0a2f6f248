"""The canonical orders of reductions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.base.dtypes import bool_, float32, int8, uint8
from nacre.base.errors import CompileError
from nacre.kernel import order


def pairs(values: list[float]) -> np.float32:
    """The tree written as a recursion."""
    if len(values) == 1:
        return np.float32(values[0])
    half = 1 << (len(values) - 1).bit_length() - 1
    return pairs(values[:half]) + pairs(values[half:])


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=600))
def test_tree(values: list[float]) -> None:
    assert order.tree(np.array(values, np.float32), np.add) == pairs(values)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=600), st.sampled_from((1, 2, 8, 64, 256)))
def test_tree_of_blocks(values: list[float], block: int) -> None:
    """Blocks that are reduced separately and merged as `merges` says give the whole tree."""
    x = np.array(values, np.float32)
    stack: list[np.float32] = []
    for k in range(-(-len(x) // block)):
        total = order.tree(x[k * block : (k + 1) * block], np.add)
        if len(x) >= (k + 1) * block:
            for _ in range(order.merges(k)):
                total = stack.pop() + total
        stack.append(total)
    while len(stack) > 1:
        last = stack.pop()
        stack[-1] = stack[-1] + last
    assert stack[0] == order.tree(x, np.add)


def test_identities() -> None:
    assert np.signbit(order.identity("sum", float32)) and not np.signbit(order.empty("sum", float32))
    assert order.identity("max", int8) == -128 and order.identity("min", uint8) == 255
    assert order.identity("max", bool_) is False and order.identity("all", bool_) is True
    assert order.identity("min", float32) == np.inf
    assert not order.in_any_order("sum", float32) and order.in_any_order("sum", int8)
    with pytest.raises(CompileError):
        order.identity("mean", float32)
