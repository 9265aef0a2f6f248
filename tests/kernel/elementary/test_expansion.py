"""An expansion is the whole definition: executed step by step, it gives the definition's bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from codegen.run_operation import bit_patterns, canonical, interpreted
from nacre.base.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, int64, uint32, uint64
from nacre.kernel.ast import OPERATIONS
from nacre.kernel.elementary import supports
from nacre.kernel.elementary.arrays import Arrays
from nacre.kernel.elementary.expansion import ConstantOperand, Expansion, ExpansionStep, Operand, Register, expand

ARRAYS = Arrays()
COUNT = 300


def execute(steps: Sequence[ExpansionStep], known: dict[Register, npt.NDArray[np.generic]]) -> None:
    """Execute steps, given the arguments' values by register; results are added to them."""

    def value(operand: Operand) -> npt.NDArray[np.generic]:
        if isinstance(operand, ConstantOperand):
            return ARRAYS.constant(operand.value, operand.dtype, None)
        return known[operand]

    for step in steps:
        if step.name == "rarely":
            execute(step.body, known)
            found = [value(o) for o in step.following]
        elif step.name == "repeat":
            iterations, *found = map(value, step.operands)
            for _ in range(int(iterations)):
                known.update(zip(step.carried, found, strict=True))
                execute(step.body, known)
                found = [value(o) for o in step.following]
        elif step.name == "lookup":
            found = [ARRAYS.lookup("", step.table, value(step.operands[0]))]
        else:
            args = [value(o) for o in step.operands]
            found = [ARRAYS.emit(step.name, args, step.operands[-1].dtype, step.results[0].dtype)]
        known.update(zip(step.results, found, strict=True))


def executed(e: Expansion, args: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
    known = dict(zip(e.arguments, map(ARRAYS.operand, args), strict=True))
    execute(e.steps, known)
    assert isinstance(e.result, Register)
    return known[e.result]


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64, int8, int32, int64, uint32, uint64], ids=str)
def test_steps_give_the_bits_of_the_definition(dtype: DType) -> None:
    rng = np.random.default_rng(11)
    for op, (operands, _) in OPERATIONS.items():
        if op in ("cast", "bitcast", "select") or not supports(op, dtype):
            continue
        args = [bit_patterns(dtype, COUNT, rng) for _ in range(operands)]
        want = interpreted(op, [dtype] * operands, args)
        assert (canonical(executed(expand(op, dtype), args)) == canonical(want)).all(), op
