"""Layers: linear, activations, dropout, embedding, and modules that hold modules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from nacre.api import random
from nacre.api.creation import zeros
from nacre.api.manipulation import flatten
from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError
from nacre.nn import functional
from nacre.nn.module import Module, Parameter


def uniform_parameter(shape: tuple[int, ...], bound: float, dtype: Any = None) -> Parameter:
    """A parameter drawn evenly from [−bound, bound)."""
    return Parameter(random.uniform(shape, -bound, bound, dtype))


class Identity(Module):
    """Gives back its input."""

    def forward(self, x: TensorLike) -> Any:
        """x."""
        return x


class Linear(Module):
    """x · weightᵀ + bias, for x [..., in_features].

    weight [out, in] and bias [out] start evenly drawn from ±1/√in_features, as PyTorch's.

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


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.relu(x)


class LeakyReLU(Module):
    """x above 0, negative_slope · x elsewhere."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x above 0, alpha · (eˣ − 1) elsewhere."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """Alpha."""
        return f"alpha={self.alpha}"


class GELU(Module):
    """x · Φ(x); approximate="tanh" uses the formula with a sigmoid."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x · sigmoid(x)."""

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.silu(x)


class Softplus(Module):
    """log(1 + eˣ)."""

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.softplus(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + e⁻ˣ)."""

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return functional.sigmoid(x)


class Softmax(Module):
    """exp(x) / Σ exp(x) along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.softmax(x, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class Flatten(Module):
    """Axes start_dim to end_dim merged into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: TensorLike) -> Tensor:
        """[N, ...] → [N, product] by default."""
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Dropout(Module):
    """Sets elements to 0 with probability p and scales the others by 1/(1 − p), while training."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"Dropout: a probability in [0, 1] is required; got {p}")
        self.p = p

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Embedding(Module):
    """Rows of a table [num_embeddings, embedding_dim] at integer indices; the table starts normally distributed.

    >>> nn.Embedding(10, 4)(nc.tensor([1, 2])).shape
    (2, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: Any = None
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"Embedding: a padding_idx below {num_embeddings} is required; got {padding_idx}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        table = random.normal((num_embeddings, embedding_dim), dtype=dtype)
        if self.padding_idx is not None:
            table[self.padding_idx] = zeros(embedding_dim, table.dtype)
        self.weight = Parameter(table)

    def forward(self, indices: TensorLike) -> Tensor:
        """[...] integers → [..., embedding_dim]."""
        return functional.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


# ---- modules of modules


class Sequential(Module):
    """Modules applied one after the other; named "0", "1", … as in PyTorch's state dicts.

    >>> nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))(nc.ones((1, 3))).shape
    (1, 2)
    """

    def __init__(self, *modules: Module) -> None:
        for k, module in enumerate(modules):
            setattr(self, str(k), _checked(module))

    def forward(self, x: Any) -> Any:
        """The last module's result."""
        for module in self.children():
            x = module(x)
        return x

    def append(self, module: Module) -> Sequential:
        """Add a module at the end.  Returns itself."""
        setattr(self, str(len(self)), _checked(module))
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, place: int | slice) -> Any:
        modules = list(self.children())
        return Sequential(*modules[place]) if isinstance(place, slice) else modules[place]


class ModuleList(Module):
    """A list of modules, whose parameters count as those of the module that holds it."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for k, module in enumerate(modules):
            setattr(self, str(k), _checked(module))

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end.  Returns itself."""
        setattr(self, str(len(self)), _checked(module))
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, place: int | slice) -> Any:
        modules = list(self.children())
        return ModuleList(modules[place]) if isinstance(place, slice) else modules[place]


def _checked(module: Any) -> Module:
    if not isinstance(module, Module):
        raise ArgumentError(f"modules: instances of nn.Module are required; got {type(module).__name__}")
    return module
