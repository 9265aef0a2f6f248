"""`permute_rows`: the rows of matrices in an order that has each row once, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import int64
from nacre.base.types import TensorType
from nacre.ir.primitive import Linear, Nest, Primitive
from nacre.kernel.ast import Buffer, Index, Kernel, Let, Load, Local, Store
from nacre.ops.linalg.matrices import batch_of
from nacre.ops.reduce import loops
from nacre.ops.rules import require_dtype, require_shape
from nacre.ops.shape import Source, all_to_front
from nacre.trace.bind import bind
from nacre.trace.value import Value


def permute_rows(x: Value, order: Value, back: bool = False) -> Value:
    """[..., m, n] with row order[..., i] of x as row i; with `back`, row i of x as row order[..., i]."""
    return bind(permute_rows_p, x, order, back=back)


def _type(x: TensorType, order: TensorType, back: bool) -> TensorType:
    require_dtype("permute_rows", "the order", order, int64)
    require_shape("permute_rows", "the order", order.shape, x.shape[:-1])
    return x


def _kernel(types: Sequence[TensorType], results: Any, back: bool) -> Kernel:
    x, order = types
    batch, i, j, there = batch_of(x), Index("i"), Index("j"), Local("there", int64)
    near, far = (*batch, i, j), (*batch, there, j)
    body = (
        Let("there", Load("order", (*batch, i), int64)),
        Store("y", far if back else near, Load("x", near if back else far, x.dtype)),
    )
    inputs = Buffer("x", x.dtype, x.shape), Buffer("order", int64, order.shape)
    return Kernel("permute_rows", inputs, (Buffer("y", x.dtype, x.shape),), loops((*batch, i, j), x.shape, body))


def _transpose(g: Value, x: Source, order: Value, back: bool) -> Value:
    return permute_rows(g, order, not back)


def _batch(inputs: Sequence[Value], axes: Sequence[int | None], back: bool) -> tuple[Value, int]:
    x, order = all_to_front(inputs, axes)
    return permute_rows(x, order, back), 0


permute_rows_p = Primitive("permute_rows", _type, Nest(_kernel), Linear((_transpose, None)), _batch)
