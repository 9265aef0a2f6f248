"""Complex operations as compiled code: the bits of the interpreter, on special values and random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.run_loops import check
from kernel.complex.evaluation import around, grid, spread
from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.ast import Buffer, Expr, For, Index, Kernel, Load, Store
from nacre.kernel.complex.functions import FUNCTIONS
from nacre.kernel.complex.pairs import LetBlock, Pair

BINARY = ("mul", "div", "pow")
OPS = ("mul", "div", "modulus", "sqrt", "exp2", "expm1", "log", "pow", "cosh", "tanh", "acos", "atanh")


def kernel_of(op: str, dtype: DType, count: int) -> Kernel:
    """A kernel that applies an operation to real and imaginary parts in buffers of their own."""
    block, operands = LetBlock(), 2 if op in BINARY else 1
    inputs = tuple(Buffer(f"x{k}", dtype, (count,)) for k in range(2 * operands))
    loads = [Load(b.name, (Index("i"),), dtype) for b in inputs]
    found = FUNCTIONS[op](block, *(Pair(*loads[2 * k : 2 * k + 2]) for k in range(operands)))
    parts: tuple[Expr, ...] = found if isinstance(found, Pair) else (found,)
    outputs = tuple(Buffer(f"y{k}", part.dtype, (count,)) for k, part in enumerate(parts))
    stores = tuple(Store(b.name, (Index("i"),), part) for b, part in zip(outputs, parts, strict=True))
    return Kernel(op, inputs, outputs, (For("i", count, (*block.statements, *stores), parallel=True, vector=True),))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_compiled_definitions_have_the_same_bits(op: str, dtype: DType) -> None:
    special = grid(0.0, -0.0, 1.0, -1.0, 3.5, 1e38, np.inf, -np.inf, np.nan, dtype=dtype)
    z = np.concatenate([special, around(50, dtype, 1), spread(50, dtype, 2)])
    numbers = [z, np.random.default_rng(3).permutation(z)] if op in BINARY else [z]
    parts = [p.copy() for x in numbers for p in (x.real, x.imag)]
    check(kernel_of(op, dtype, z.size), parts)
