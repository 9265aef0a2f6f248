"""Layers: linear and bilinear, embeddings, and layers that change the shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nacre.api.creation import zeros
from nacre.api.manipulation import flatten, reshape
from nacre.api.operands import TensorLike, as_tensor, distinct
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axis
from nacre.nn import drawn, functional
from nacre.nn.module import Module, Parameter
from nacre.trace.value import Value

__all__ = [
    "Bilinear",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "Identity",
    "Linear",
    "Unflatten",
]


def uniform_parameter(shape: tuple[int, ...], bound: float, dtype: Any = None) -> Parameter:
    """A parameter of uniform random numbers in [−bound, bound)."""
    return Parameter(drawn.uniform(shape, -bound, bound, dtype) if bound else zeros(shape, dtype))


class Identity(Module):
    """Returns its input, a tensor as a new object.  The arguments are ignored.

    >>> nn.Identity(3, bias=False)(nc.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: TensorLike) -> Any:
        """x."""
        return distinct(x, x) if isinstance(x, Value) else x


class Linear(Module):
    """x · weightᵀ + bias, for x [..., in_features] → [..., out_features].

    weight [out_features, in_features] and bias [out_features] start uniform in ±1/√in_features, as in PyTorch.  Raises
    ShapeError if the last axis of x is not in_features.

    >>> nn.Linear(3, 2)(nc.ones((4, 3))).shape
    (4, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None) -> None:
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        self.weight = uniform_parameter((out_features, in_features), bound, dtype)
        self.bias = uniform_parameter((out_features,), bound, dtype) if bias else None

    def forward(self, x: TensorLike) -> Tensor:
        """[..., in_features] → [..., out_features]."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Merges the axes from start_dim to end_dim into one; by default [N, ...] → [N, product].

    >>> nn.Flatten()(nc.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: TensorLike) -> Tensor:
        """[N, ...] → [N, product] by default."""
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Bilinear(Module):
    """x₁ᵀ · W · x₂ + bias, with one matrix W for each of out_features.

    [..., in1_features] and [..., in2_features] → [..., out_features].  Raises ArgumentError unless in1_features is
    positive, ShapeError for inputs that do not fit.

    >>> nn.Bilinear(2, 3, 4)(nc.ones((5, 2)), nc.ones((5, 3))).shape
    (5, 4)
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        if in1_features < 1:
            raise ArgumentError(f"Bilinear: in1_features must be positive; got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = 1 / math.sqrt(in1_features)
        self.weight = uniform_parameter((out_features, in1_features, in2_features), bound, dtype)
        self.bias = uniform_parameter((out_features,), bound, dtype) if bias else None

    def forward(self, input1: TensorLike, input2: TensorLike) -> Tensor:
        """[..., in1] and [..., in2] → [..., out]."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Unflatten(Module):
    """Splits one axis into several; one of their sizes may be −1.

    [..., n, ...] → [..., *unflattened_size, ...].  Raises ShapeError unless the product of the sizes is n.

    >>> nn.Unflatten(1, (2, -1))(nc.ones((3, 8))).shape
    (3, 2, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: TensorLike) -> Tensor:
        """[..., n, ...] → [..., *unflattened_size, ...]."""
        held: Any = as_tensor(x)
        at = normal_axis(self.dim, held.ndim, "Unflatten")
        known = math.prod(n for n in self.unflattened_size if n != -1)
        parts = tuple(held.shape[at] // known if n == -1 and known else n for n in self.unflattened_size)
        if math.prod(parts) != held.shape[at] or self.unflattened_size.count(-1) > 1:
            raise ShapeError(
                f"Unflatten: the sizes must have the product {held.shape[at]}; got {self.unflattened_size}"
            )
        return reshape(held, (*held.shape[:at], *parts, *held.shape[at + 1 :]))

    def extra_repr(self) -> str:
        """The axis and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


def _table(operation: str, rows: int, width: int, padding: int | None, dtype: Any) -> tuple[Parameter, int | None]:
    """A table of normal random numbers with zeros at the padding, and the index of the padding."""
    if padding is not None and not -rows <= padding < rows:
        raise ArgumentError(f"{operation}: padding_idx must be below {rows}; got {padding}")
    table = drawn.normal((rows, width), 0.0, 1.0, dtype)
    if padding is None:
        return Parameter(table), None
    table[padding % rows] = zeros(width, table.dtype)
    return Parameter(table), padding % rows


class Embedding(Module):
    """The rows of a table [num_embeddings, embedding_dim] at integer indices [...] → [..., embedding_dim].

    The table starts with normal random numbers, and with zeros at `padding_idx`, which is not trained.  Raises
    ArgumentError for a padding_idx out of range, DTypeError for indices that are not integers, and AxisError, an
    IndexError, for an index below 0 or from num_embeddings on.

    >>> nn.Embedding(10, 4)(nc.tensor([1, 2])).shape
    (2, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: Any = None
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight, self.padding_idx = _table("Embedding", num_embeddings, embedding_dim, padding_idx, dtype)

    @classmethod
    def from_pretrained(cls, embeddings: TensorLike, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An embedding with a given table; with `freeze` it is not trained."""
        table = as_tensor(embeddings)
        made = cls(*table.type.shape, padding_idx=padding_idx, dtype=table.type.dtype)
        made.weight = Parameter(table, requires_grad=not freeze)
        return made

    def forward(self, indices: TensorLike) -> Tensor:
        """[...] integers → [..., embedding_dim]."""
        return functional.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of a table over bags of indices.

    Indices [bags, n], or [all] with offsets [bags] → [bags, embedding_dim].  The mode is "mean" by default.  Raises
    ArgumentError or ShapeError for arguments that do not fit, and AxisError for an index out of range.

    >>> nn.EmbeddingBag(10, 4)(nc.tensor([[1, 2, 3], [4, 5, 6]])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.include_last_offset = include_last_offset
        self.weight, self.padding_idx = _table("EmbeddingBag", num_embeddings, embedding_dim, padding_idx, dtype)

    def forward(
        self, input: TensorLike, offsets: TensorLike | None = None, per_sample_weights: TensorLike | None = None
    ) -> Tensor:
        """Indices [bags, n], or [all] with offsets [bags] → [bags, embedding_dim]."""
        return functional.embedding_bag(
            input, self.weight, offsets, self.mode, per_sample_weights, self.include_last_offset, self.padding_idx
        )

    def extra_repr(self) -> str:
        """Sizes and mode."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
