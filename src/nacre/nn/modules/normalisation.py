"""Normalisations as modules: over features, groups, instances and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nacre.api.creation import full, zeros
from nacre.api.operands import TensorLike, as_tensor, constant
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.dtypes import float32, float64, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functional import normalisation
from nacre.nn.module import Buffer, Module, Parameter, settings

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


def _fill(*variables: tuple[Parameter | Buffer | None, float]) -> None:
    """Set the elements of each variable to a number."""
    for held, value in variables:
        if held is not None:
            held.assign(full(held.shape, value, held.dtype))


class LayerNorm(Module):
    """(x − mean) / √(variance + eps) · weight + bias over the last axes, which have normalized_shape.

    Input and output are [..., *normalized_shape]; weight starts as 1, bias as 0.  Raises ShapeError for another shape.

    >>> nn.LayerNorm(4)(nc.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = whole_numbers(normalized_shape, type(self).__name__, "normalized_shape")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(zeros(self.normalized_shape, dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(self.normalized_shape, dtype)) if elementwise_affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the parameters to their first values: the weight to 1, the bias to 0."""
        _fill((self.weight, 1.0), (self.bias, 0.0))

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return normalisation.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and constants."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """x / √(mean(x²) + eps) · weight over the last axes, which have normalized_shape.

    The default eps is that of the dtype; weight starts as 1.  Raises ShapeError for another shape.

    >>> nn.RMSNorm(4)(nc.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = whole_numbers(normalized_shape, type(self).__name__, "normalized_shape")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(zeros(self.normalized_shape, dtype)) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the parameters to their first values: the weight to 1, the bias to 0."""
        _fill((self.weight, 1.0))

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return normalisation.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape and constant."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalisation over groups of channels, for inputs [N, num_channels, ...].

    weight starts as 1, bias as 0.  Raises ArgumentError or ShapeError unless num_groups divides the channels.

    >>> nn.GroupNorm(2, 4)(nc.ones((2, 4, 3, 3))).shape
    (2, 4, 3, 3)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = None
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: num_groups must divide num_channels; got {num_channels} and {num_groups}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter(zeros(num_channels, dtype)) if affine else None
        self.bias = Parameter(zeros(num_channels, dtype)) if affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the parameters to their first values: the weight to 1, the bias to 0."""
        _fill((self.weight, 1.0), (self.bias, 0.0))

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return normalisation.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Groups and channels."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class LocalResponseNorm(Module):
    """x / (k + alpha · mean(x²))^beta, with the mean over `size` neighbouring channels of [N, C, L, …].

    >>> nn.LocalResponseNorm(3)(nc.ones((2, 4, 3))).shape
    (2, 4, 3)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return normalisation.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The constants."""
        return settings(self)


# ---- with running statistics


class _Running(Module):
    """Scale and shift for each channel, and running statistics; a class may have either, both or none."""

    ranks: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        dtype: Any,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(zeros(num_features, dtype)) if affine else None
        self.bias = Parameter(zeros(num_features, dtype)) if affine else None
        self.running_mean = Buffer(zeros(num_features, dtype)) if track_running_stats else None
        self.running_var = Buffer(zeros(num_features, dtype)) if track_running_stats else None
        self.num_batches_tracked = Buffer(constant(0, int64)) if track_running_stats else None
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the count of batches to 0.

        >>> m = nn.BatchNorm1d(1); _ = m(nc.tensor([[1.0], [3.0]])); m.reset_running_stats(); m.running_mean.tolist()
        [0.0]
        """
        _fill((self.running_mean, 0.0), (self.running_var, 1.0), (self.num_batches_tracked, 0))

    def reset_parameters(self) -> None:
        """Set parameters and running statistics to their first values: the weight to 1, the bias to 0."""
        self.reset_running_stats()
        _fill((self.weight, 1.0), (self.bias, 0.0))

    def _checked(self, x: TensorLike) -> Any:
        held: Any = as_tensor(x)
        if held.ndim not in self.ranks:
            raise ShapeError(f"{type(self).__name__}: the rank must be {self.ranks}; got {held.type}")
        return held

    def _share(self) -> Any:
        """The momentum; without one, 1 over the number of batches so far, which it counts."""
        momentum: Any = self.momentum
        if self.training and self.num_batches_tracked is not None:
            count = self.num_batches_tracked.data + 1
            self.num_batches_tracked.assign(count)
            if momentum is None:
                wide = self.running_mean is not None and self.running_mean.dtype is float64
                momentum = 1.0 / count.astype(float64 if wide else float32)
        return momentum

    def extra_repr(self) -> str:
        """Features and constants."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    """The common part of batch normalisations of all ranks."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape; training moves the running statistics."""
        held, share = self._checked(x), self._share()
        return normalisation.batch_norm(
            held, self.running_mean, self.running_var, self.weight, self.bias, self.training, share, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L]; see `BatchNorm2d`.

    >>> nn.BatchNorm1d(3)(nc.ones((2, 3))).shape
    (2, 3)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images [N, C, H, W].

    weight and running_var start as 1, bias and running_mean as 0.  With momentum None, the running statistics are the
    plain mean over all batches.  Raises ShapeError for another rank, and in training for one value per channel.

    >>> nn.BatchNorm2d(3)(nc.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes [N, C, D, H, W]; see `BatchNorm2d`.

    >>> nn.BatchNorm3d(3)(nc.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (5,)


class _InstanceNorm(_Running):
    """The common part of instance normalisations of all ranks; without N a tensor is one instance."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape; training moves the running statistics, if there are any."""
        held = self._checked(x)
        whole = held if held.ndim == self.ranks[1] else held[None]
        momentum = 0.0 if self.momentum is None else self.momentum
        y = normalisation.instance_norm(
            whole, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, momentum, self.eps,
        )  # fmt: skip
        return y if held.ndim == self.ranks[1] else y[0]


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of signals [N, C, L] or [C, L].

    By default it has neither weight and bias (`affine`) nor running statistics.  Raises ShapeError for another rank.

    >>> nn.InstanceNorm1d(3)(nc.ones((2, 3, 8))).shape
    (2, 3, 8)
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of images [N, C, H, W] or [C, H, W].

    By default it has neither weight and bias (`affine`) nor running statistics.  Raises ShapeError for another rank.

    >>> nn.InstanceNorm2d(3)(nc.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of volumes [N, C, D, H, W] or [C, D, H, W].

    By default it has neither weight and bias (`affine`) nor running statistics.  Raises ShapeError for another rank.

    >>> nn.InstanceNorm3d(3)(nc.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (4, 5)
