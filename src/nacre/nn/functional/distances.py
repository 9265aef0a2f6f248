"""Similarity and distance of vectors."""

from __future__ import annotations

from typing import Any

from nacre.api.linalg.norms import vector_norm
from nacre.api.operands import TensorLike, as_tensor, filled, operands
from nacre.api.primitives import pointwise, reduce
from nacre.api.slope import root
from nacre.api.statistical import wide_float
from nacre.api.tensor import Tensor
from nacre.base.errors import DTypeError
from nacre.base.types import normal_axis
from nacre.interpret.precision.functions import autocasting

__all__ = [
    "cosine_similarity",
    "pairwise_distance",
]


def wide_operands(operation: str, *xs: TensorLike) -> list[Any]:
    """Operands of one dtype and shape, in at least float32."""
    found: list[Any] = operands(operation, *xs)
    if not found[0].type.dtype.is_float:
        raise DTypeError(f"{operation}: the dtype must be floating-point; got {found[0].type.dtype.name}")
    return [wide_float(x) for x in found]


def narrowed(result: Any, input: TensorLike) -> Any:
    """A result in the dtype of the input."""
    dtype = as_tensor(input).type.dtype
    return as_tensor(result, dtype) if dtype.is_float else result


@autocasting
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; a length below eps counts as eps.

    x1 and x2 broadcast and have a floating-point dtype.  The result lacks the axis `dim`, 1 by default.  Raises
    DTypeError for other dtypes, ShapeError for shapes that do not fit.

    >>> F.cosine_similarity([[1.0, 0.0]], [[2.0, 2.0]])
    Tensor([0.70710677], f32[1])
    """
    a, b = wide_operands("cosine_similarity", x1, x2)
    axes = (normal_axis(dim, len(a.type.shape), "cosine_similarity"),)
    lengths = (root(reduce.sum_(pointwise.mul(v, v), axes)) for v in (a, b))
    first, second = (pointwise.maximum(n, filled(n, eps)) for n in lengths)
    return narrowed(reduce.sum_(pointwise.mul(a, b), axes) / (first * second), x1)


@autocasting
def pairwise_distance(
    x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 − x2 + eps along the last axis.

    x1 and x2 broadcast and have a floating-point dtype.  The result lacks the last axis, or has size 1 there with
    `keepdim`.  Raises DTypeError for other dtypes.

    >>> F.pairwise_distance([3.0, 0.0], [0.0, 4.0], eps=0.0)
    Tensor(5., f32[])
    """
    a, b = wide_operands("pairwise_distance", x1, x2)
    found = vector_norm(a - b + eps, axis=-1, ord=p)
    return narrowed(found[..., None] if keepdim else found, x1)
