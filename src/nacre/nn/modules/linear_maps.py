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


def uniform(shape: tuple[Any, ...], bound: float, dtype: Any = None) -> Tensor:
    """Uniform random numbers in [−bound, bound)."""
    return drawn.uniform(shape, -bound, bound, dtype) if bound else zeros(shape, dtype)


def draw_again(bound: float, *parameters: Parameter | None) -> None:
    """Give parameters uniform random numbers in [−bound, bound)."""
    for p in parameters:
        if p is not None:
            p.assign(uniform(p.shape, bound, p.dtype))


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
        self.weight = Parameter(zeros((out_features, in_features), dtype))
        self.bias = Parameter(zeros(out_features, dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again; the class itself calls this when a layer is made.

        >>> nc.random.seed(0); layer = nn.Linear(3, 2); before = layer.weight.value
        >>> nc.random.seed(0); layer.reset_parameters(); bool(nc.all(layer.weight == before))
        True
        """
        draw_again(1 / math.sqrt(self.in_features) if self.in_features else 0.0, self.weight, self.bias)

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
        self.weight = Parameter(zeros((out_features, in1_features, in2_features), dtype))
        self.bias = Parameter(zeros(out_features, dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again, as when the layer was made."""
        draw_again(1 / math.sqrt(self.in1_features), self.weight, self.bias)

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


class _Table(Module):
    """The common part of embeddings: a table [num_embeddings, embedding_dim], of which one row may be a padding."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, dtype: Any) -> None:
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"{type(self).__name__}: padding_idx must be below {num_embeddings}; got {padding_idx}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(zeros((num_embeddings, embedding_dim), dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table again, as when the layer was made: normal random numbers, and zeros at the padding."""
        table = drawn.normal(self.weight.shape, 0.0, 1.0, self.weight.dtype)
        if self.padding_idx is not None:
            table[self.padding_idx] = zeros(self.embedding_dim, table.dtype)
        self.weight.assign(table)


class Embedding(_Table):
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
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)

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


class EmbeddingBag(_Table):
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
        self.mode, self.include_last_offset = mode, include_last_offset
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)

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
