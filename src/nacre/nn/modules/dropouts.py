"""Dropout as modules: of elements, of channels, and the kind that preserves mean and variance."""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn.functional import dropouts
from nacre.nn.modules.base import ModuleWithSettings

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _Dropping(ModuleWithSettings):
    """The common part of all kinds of dropout: a probability."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p = dropouts.check_probability(type(self).__name__, p)


class Dropout(_Dropping):
    """In training, sets elements to 0 with probability p and scales the others by 1/(1 − p).

    In evaluation the output is the input.  Input and output have the same shape and floating-point dtype.  Raises
    ArgumentError for a probability outside [0, 1], DTypeError for integers.

    >>> drop = nn.Dropout(0.25)
    >>> sorted(set(drop(nc.ones(1000)).tolist()))
    [0.0, 1.3333333730697632]
    >>> drop.eval()(nc.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.dropout(x, self.p, self.training)


class Dropout1d(_Dropping):
    """Dropout of whole channels of [N, C, L] or [C, L].

    The output has the same shape and floating-point dtype.  Raises ArgumentError for a probability outside [0, 1],
    DTypeError for integers, ShapeError for another rank.

    >>> y = nn.Dropout1d(0.5)(nc.ones((2, 8, 3)))
    >>> bool(nc.all(y == y[:, :, :1]))
    True
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.dropout1d(x, self.p, self.training)


class Dropout2d(_Dropping):
    """Dropout of whole channels of [N, C, H, W] or [C, H, W].

    The output has the same shape and floating-point dtype.  Raises ArgumentError for a probability outside [0, 1],
    DTypeError for integers, ShapeError for another rank.

    >>> y = nn.Dropout2d(0.5)(nc.ones((2, 8, 3, 3)))
    >>> bool(nc.all(y == y[:, :, :1, :1]))
    True
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.dropout2d(x, self.p, self.training)


class Dropout3d(_Dropping):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].

    The output has the same shape and floating-point dtype.  Raises ArgumentError for a probability outside [0, 1],
    DTypeError for integers, ShapeError for another rank.

    >>> y = nn.Dropout3d(0.5)(nc.ones((2, 8, 3, 3, 3)))
    >>> bool(nc.all(y == y[:, :, :1, :1, :1]))
    True
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.dropout3d(x, self.p, self.training)


class AlphaDropout(_Dropping):
    """Dropout that preserves a mean of 0 and a variance of 1, for use with `SELU`.

    Input and output have the same shape and floating-point dtype.  Raises ArgumentError for a probability outside [0,
    1], DTypeError for integers.

    >>> y = nn.AlphaDropout(0.5)(nc.random.normal((10000,)))
    >>> abs(nc.mean(y).item()) < 0.1, abs(nc.std(y).item() - 1) < 0.1
    (True, True)
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.alpha_dropout(x, self.p, self.training)


class FeatureAlphaDropout(_Dropping):
    """`AlphaDropout` of whole channels (axis 1).

    Input and output have the same shape and floating-point dtype.  Raises ArgumentError for a probability outside [0,
    1], DTypeError for integers.

    >>> y = nn.FeatureAlphaDropout(0.5)(nc.ones((2, 8, 3)))
    >>> bool(nc.all(y == y[:, :, :1]))
    True
    """

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return dropouts.feature_alpha_dropout(x, self.p, self.training)
