"""Softmax and its relatives as modules."""

from __future__ import annotations

from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import Tensor
from nacre.base.errors import ShapeError
from nacre.nn.functional import softmaxes
from nacre.nn.modules.base import ModuleWithSettings

__all__ = [
    "LogSoftmax",
    "Softmax",
    "Softmax2d",
    "Softmin",
]


class Softmax(ModuleWithSettings):
    """exp(x) / Σ exp(x) along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softmax()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.00637746, 0.04712342, 0.94649917], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return softmaxes.softmax(x, self.dim)


class Softmax2d(ModuleWithSettings):
    """Softmax over the channels of images [N, C, H, W] or [C, H, W].

    For inputs with a floating-point dtype; the output has their shape and dtype.  Raises ShapeError for another rank.

    >>> nn.Softmax2d()(nc.zeros((1, 4, 2, 2)))[0, :, 0, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        held = as_tensor(x)
        if held.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: images must be [N, C, H, W] or [C, H, W]; got {held.type}")
        return softmaxes.softmax(held, -3)


class Softmin(ModuleWithSettings):
    """Softmax of −x along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softmin()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.8756006 , 0.11849965, 0.00589975], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return softmaxes.softmin(x, self.dim)


class LogSoftmax(ModuleWithSettings):
    """The logarithm of softmax along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.LogSoftmax()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-5.054985  , -3.0549853 , -0.05498521], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return softmaxes.log_softmax(x, self.dim)
