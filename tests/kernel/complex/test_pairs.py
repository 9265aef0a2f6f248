"""Blocks of `Let` statements, and the kernels that definitions of complex operations make."""

from __future__ import annotations

from itertools import count

import pytest

from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.ast import Apply, Index, Let, Load, Local, apply, const
from nacre.kernel.complex.functions import FUNCTIONS
from nacre.kernel.complex.pairs import LetBlock, Pair

OPERANDS = {"fma": 3, **dict.fromkeys(("add", "sub", "mul", "div", "pow", "eq", "ne"), 2)}


def test_a_block_binds_operations_once() -> None:
    block, x = LetBlock(f"t{k}" for k in count(5)), Local("x", float32)
    for plain in (x, const(1.0, float32), Index("i")):
        assert block.let(plain) is plain
    total = apply("add", x, x)
    assert block.let(total) == block.let(apply("add", x, x)) == Local("t5", float32)
    assert block.statements == [Let("t5", total)]


def test_loads_are_bound_at_each_use() -> None:
    """A store may come between them."""
    block, load = LetBlock(), Load("x", (Index("i"),), float64)
    first, second = block.let(load), block.let(load)
    assert first != second and [s.value for s in block.statements] == [load, load]
    assert block.let(apply("neg", load)) != block.let(apply("neg", load))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_statements_are_single_operations_of_earlier_ones(op: str, dtype: DType) -> None:
    """Kernels stay small: no operation has another as an operand, and results have the dtype of the operands."""
    block = LetBlock()
    names = {f"{p}{k}" for k in range(OPERANDS.get(op, 1)) for p in ("a", "b")}
    operands = [Pair(Local(f"a{k}", dtype), Local(f"b{k}", dtype)) for k in range(OPERANDS.get(op, 1))]
    found = FUNCTIONS[op](block, *operands)
    for s in block.statements:
        assert isinstance(s.value, Apply) and s.name not in names
        assert all(a.name in names for a in s.value.args if isinstance(a, Local))
        assert not any(isinstance(a, Apply | Load) for a in s.value.args)
        names.add(s.name)
    if isinstance(found, Pair):
        assert found.re.dtype is found.im.dtype is dtype
    else:
        assert found.dtype is dtype or found.dtype.is_bool
