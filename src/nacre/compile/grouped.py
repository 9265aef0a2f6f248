"""The primitives of products in which each group of rows has a matrix of its own; only the compiler creates them.

Rows are sorted by group: those from starts[g] to starts[g + 1] belong to group g.
"""

from __future__ import annotations

from typing import Any, Final

from nacre.base.dtypes import FLOATING, int64
from nacre.base.errors import ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import Nest, Primitive, Template
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    apply,
    const,
    index_add,
    index_mul,
)
from nacre.ops.reduce import loops
from nacre.ops.rules import require_dtype, require_kind, require_shape

TOGETHER: Final = 4  # updates that are added to a row while it is in registers
BESIDE: Final = 4  # rows for which an update's other factor is read once

# ---- products of rows and their group's matrix


def _dot_type(x: TensorType, w: TensorType, starts: TensorType, axis: int) -> TensorType:
    require_kind("grouped_dot", x, FLOATING)
    require_dtype("grouped_dot", "matrices", w, x.dtype)
    require_dtype("grouped_dot", "starts", starts, int64)
    if x.rank != 2 or w.rank != 3 or axis not in (1, 2) or x.shape[1] != w.shape[axis]:
        raise ShapeError(f"grouped_dot: rows and matrices must have equal sizes to sum over; got {x}, {w}, axis {axis}")
    require_shape("grouped_dot", "starts", starts.shape, (w.shape[0] + 1,))
    return x.with_shape((x.shape[0], w.shape[3 - axis]))


grouped_dot_p = Primitive("grouped_dot", _dot_type, Template("grouped_dot", late="grouped"))

# ---- sums of outer products for each group: the gradient of its matrix


def _outer_type(y: TensorType, starts: TensorType, left: TensorType, right: TensorType) -> TensorType:
    require_kind("grouped_outer", y, FLOATING)
    require_dtype("grouped_outer", "starts", starts, int64)
    if y.rank != 3 or left.rank != 2 or right.rank != 2 or left.shape[0] != right.shape[0]:
        raise ShapeError(f"grouped_outer: matrices and two factors with equal rows are required; got {left}, {right}")
    for name, x, axis in (("left", left, 1), ("right", right, 2)):
        require_dtype("grouped_outer", f"the {name} factor", x, y.dtype)
        require_shape("grouped_outer", f"the {name} factor", x.shape[1:], y.shape[axis : axis + 1])
    require_shape("grouped_outer", "starts", starts.shape, (y.shape[0] + 1,))
    return y


def _outer_kernel(types: tuple[TensorType, ...], results: Any) -> Kernel:
    """Each product is rounded, and then added, in the order of the rows: the order of `take_add`."""
    y = types[0]
    group, block, column = Index("g"), Index("r"), Index("c")
    height = next(n for n in (BESIDE, 1) if y.shape[1] % n == 0)
    rows = [index_add(index_mul(block, const(height)), const(k)) for k in range(height)]
    at, end = Load("at", (), int64), Local("end", int64)

    def updates(count: int) -> While:
        """Add `count` updates at a time, until fewer are left."""
        first = Local(f"first{count}", int64)
        times = [index_add(first, const(k)) for k in range(count)]
        factors = [[Local(f"f{count}_{k}_{j}", y.dtype) for k in range(count)] for j in range(height)]
        read = [
            Let(factors[j][k].name, Load("left", (t, row), y.dtype))
            for j, row in enumerate(rows)
            for k, t in enumerate(times)
        ]
        others = [Local(f"x{count}_{k}", y.dtype) for k in range(count)]
        added: list[Stmt] = [
            Let(x.name, Load("right", (t, column), y.dtype)) for x, t in zip(others, times, strict=True)
        ]
        for row, mine in zip(rows, factors, strict=True):
            total: Expr = Load("y", (group, row, column), y.dtype)
            for factor, x in zip(mine, others, strict=True):
                total = apply("add", total, apply("mul", factor, x))
            added.append(Store("y", (group, row, column), total))
        loop = For("c", y.shape[2], tuple(added), vector=True)
        body = (Let(first.name, at), *read, loop, Store("at", (), index_add(first, const(count))))
        return While(apply("le", index_add(at, const(count)), end), body)

    body = (
        Alloc(Buffer("at", int64, ())),
        Store("at", (), Load("starts", (group,), int64)),
        Let("end", Load("starts", (index_add(group, const(1)),), int64)),
        updates(TOGETHER),
        updates(1),
    )
    nest = loops([group, block], [y.shape[0], y.shape[1] // height], body, lanes=False)
    inputs = tuple(Buffer(n, t.dtype, t.shape) for n, t in zip(("starts", "left", "right"), types[1:], strict=True))
    return Kernel("grouped_outer", inputs, (Buffer("y", y.dtype, y.shape),), nest)


grouped_outer_p = Primitive("grouped_outer", _outer_type, Nest(_outer_kernel, onto=0))
