"""Constants become scalar operands, so that kernels that differ only in constants share code.

Zeros, ones and small powers of two stay constants, because code for them is better.  So do infinities, NaN, and
integers that index, shift, divide, or are small.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import frexp, isfinite

import numpy as np

from nacre.base.conversion import element
from nacre.base.types import TensorType
from nacre.ir.graph import Literal
from nacre.kernel.ast import Alloc, Apply, Buffer, Const, Expr, Kernel, Load, statements
from nacre.kernel.rewrite import map_body

SMALL = 64  # integers up to this size stay constants
NEAR = 4  # powers of two with an exponent up to this size stay constants
DIVISIONS = frozenset(("idiv", "rem"))


def split_constants(kernel: Kernel) -> tuple[Kernel, tuple[Const, ...]]:
    """The kernel with scalar inputs, which follow its own, in place of its constants; and those constants."""
    taken = {b.name for b in kernel.buffers} | {s.buffer.name for s in statements(kernel.body) if isinstance(s, Alloc)}
    names = (name for n in count() if (name := f"k{n}") not in taken)
    loads: dict[Const, Load] = {}
    numbers: dict[str, Const] = {}

    def visit(e: Expr) -> Expr:
        """A constant as a load; divisors are put back, because division by a known number costs less."""
        if isinstance(e, Const) and not stays(e):
            if e not in loads:
                loads[e] = Load(next(names), (), e.dtype)
                numbers[loads[e].buffer] = e
            return loads[e]
        if isinstance(e, Apply) and e.op in DIVISIONS and isinstance(e.args[1], Load):
            return replace(e, args=(e.args[0], numbers.get(e.args[1].buffer, e.args[1])))
        return e

    body = map_body(kernel.body, visit)
    scalars = tuple(Buffer(load.buffer, c.dtype, (), ()) for c, load in loads.items())
    return replace(kernel, inputs=(*kernel.inputs, *scalars), body=body), tuple(loads)


def stays(c: Const) -> bool:
    """Whether a constant stays in the kernel, which is better if it is known there."""
    if c.dtype.is_float:
        fraction, exponent = frexp(c.value)
        return not isfinite(c.value) or c.value == 0 or (abs(fraction) == 0.5 and abs(exponent) <= NEAR)
    return not c.dtype.is_integer or c.dtype.bits == 64 or abs(c.value) <= SMALL


def literal(c: Const) -> Literal:
    """The constant as a literal of a graph."""
    with np.errstate(over="ignore"):
        return Literal(element(c.value, c.dtype), TensorType((), c.dtype))
