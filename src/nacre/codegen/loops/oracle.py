"""The kernel interpreter with the scalar operations of compiled code, evaluated on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.base.dtypes import DType
from nacre.codegen import vecmath
from nacre.kernel import interpret
from nacre.kernel.ast import Kernel
from nacre.kernel.softfloat import Arrays

Array = npt.NDArray[Any]
ARRAYS = Arrays()


def operate(op: str, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """An operation of `kernel.ast.OPERATIONS` on arrays, to the bit as compiled code does it."""
    lanes = [ARRAYS.lanes(a) for a in args]
    if op == "cast":
        result = vecmath.convert(ARRAYS, lanes[0], source, dtype)
    elif op == "bitcast":
        result = vecmath.bitcast(ARRAYS, lanes[0], source, dtype)
    else:
        result = vecmath.apply(ARRAYS, op, lanes, source)
    return np.asarray(result.array).view(dtype.numpy)


def run(kernel: Kernel, inputs: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    """The outputs of a kernel, to the bit, whatever the machine; see `kernel.interpret.run`."""
    return interpret.run(kernel, inputs, sizes, operate)
