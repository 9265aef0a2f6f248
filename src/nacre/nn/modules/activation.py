"""Activations and dropout as modules.

`inplace` is accepted where PyTorch accepts it, and has no effect: a tensor's value never changes.
"""

from __future__ import annotations

from typing import Any

from nacre.api.creation import full
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import Tensor
from nacre.base.errors import ShapeError
from nacre.nn.functional import activation, class_losses, dropouts
from nacre.nn.module import Module, Parameter, settings


class _Activation(Module):
    """A function of a tensor, shown with its settings."""

    def extra_repr(self) -> str:
        """The settings."""
        return settings(self)


class ReLU(_Activation):
    """max(x, 0).

    For inputs of any shape with integers or floating-point numbers; the output has their shape and dtype.

    >>> nn.ReLU()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [0.0, 0.0, 3.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.relu(x)


class ReLU6(_Activation):
    """x limited to [0, 6].

    For inputs of any shape with integers or floating-point numbers; the output has their shape and dtype.

    >>> nn.ReLU6()(nc.tensor([-2.0, 3.0, 9.0])).tolist()
    [0.0, 3.0, 6.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.relu6(x)


class LeakyReLU(_Activation):
    """x above 0, negative_slope · x elsewhere.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.LeakyReLU(0.5)(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-1.0, 0.0, 3.0]
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.leaky_relu(x, self.negative_slope)


class PReLU(_Activation):
    """x above 0, weight · x elsewhere; training learns one weight, or one for each channel (axis 1).

    For inputs with a floating-point dtype, [N, num_parameters, ...] or of any shape for one weight.  Every weight
    starts at `init`.  Raises ShapeError if the channels do not match.

    >>> nn.PReLU()(nc.tensor([-4.0, 1.0]))
    Tensor([-1.,  1.], f32[2], requires_grad=True)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        self.num_parameters = num_parameters
        self.weight = Parameter(full((num_parameters,), init, dtype))

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.prelu(x, self.weight)


class RReLU(_Activation):
    """x above 0, a · x elsewhere; in training a is drawn from [lower, upper), in evaluation it is their mean.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.  Raises ArgumentError if
    lower is above upper.

    >>> nn.RReLU(0.25, 0.75).eval()(nc.tensor([-2.0, 3.0])).tolist()
    [-1.0, 3.0]
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        self.lower, self.upper = lower, upper

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.rrelu(x, self.lower, self.upper, self.training)


class ELU(_Activation):
    """x above 0, alpha · (eˣ − 1) elsewhere.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.ELU()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.86466473,  0.        ,  3.        ], f32[3])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.elu(x, self.alpha)


class CELU(_Activation):
    """x above 0, alpha · (e^(x/alpha) − 1) elsewhere.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.  Raises ArgumentError for
    an alpha of 0.

    >>> nn.CELU(alpha=2.0)(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-1.2642411,  0.       ,  3.       ], f32[3])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.celu(x, self.alpha)


class SELU(_Activation):
    """The scaled exponential linear unit of self-normalising networks.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.SELU()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-1.5201665,  0.       ,  3.152103 ], f32[3])
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.selu(x)


class GELU(_Activation):
    """x · Φ(x); approximate="tanh" uses the formula with tanh instead.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.  Raises ArgumentError for
    another approximation.

    >>> nn.GELU()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.04550027,  0.        ,  2.9959502 ], f32[3])
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.gelu(x, self.approximate)


class SiLU(_Activation):
    """x · sigmoid(x).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.SiLU()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.23840584,  0.        ,  2.8577223 ], f32[3])
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.silu(x)


class Mish(_Activation):
    """x · tanh(log(1 + eˣ)).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Mish()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.25250146,  0.        ,  2.986535  ], f32[3])
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.mish(x)


class Softplus(_Activation):
    """log(1 + e^(beta · x)) / beta; x itself where beta · x is above the threshold.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softplus()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.126928 , 0.6931472, 3.0485873], f32[3])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.softplus(x, self.beta, self.threshold)


class Softsign(_Activation):
    """x / (1 + |x|).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softsign()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-0.6666666865348816, 0.0, 0.75]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.softsign(x)


class Tanh(_Activation):
    """The hyperbolic tangent.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Tanh()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.9640276,  0.       ,  0.9950547], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.tanh(x)


class Tanhshrink(_Activation):
    """x − tanh(x).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Tanhshrink()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-1.0359724,  0.       ,  2.0049453], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.tanhshrink(x)


class Sigmoid(_Activation):
    """1 / (1 + e⁻ˣ).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Sigmoid()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.11920292, 0.5       , 0.95257413], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.sigmoid(x)


class LogSigmoid(_Activation):
    """The logarithm of the sigmoid.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.LogSigmoid()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-2.126928  , -0.6931472 , -0.04858735], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.logsigmoid(x)


class Hardtanh(_Activation):
    """x limited to [min_val, max_val].

    For inputs of any shape with integers or floating-point numbers; the output has their shape and dtype.  Raises
    ArgumentError if min_val is above max_val.

    >>> nn.Hardtanh()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.hardtanh(x, self.min_val, self.max_val)


class Hardsigmoid(_Activation):
    """x/6 + 1/2 limited to [0, 1].

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Hardsigmoid()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [0.1666666716337204, 0.5, 1.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.hardsigmoid(x)


class Hardswish(_Activation):
    """x · hardsigmoid(x).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Hardswish()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-0.3333333432674408, 0.0, 3.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.hardswish(x)


class Hardshrink(_Activation):
    """x where |x| is above lambd, else 0.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Hardshrink()(nc.tensor([-2.0, 0.25, 3.0])).tolist()
    [-2.0, 0.0, 3.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.hardshrink(x, self.lambd)


class Softshrink(_Activation):
    """x moved towards 0 by lambd; 0 where |x| is at most lambd.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.  Raises ArgumentError for
    a negative lambd.

    >>> nn.Softshrink()(nc.tensor([-2.0, 0.25, 3.0])).tolist()
    [-1.5, 0.0, 2.5]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.softshrink(x, self.lambd)


class Threshold(_Activation):
    """x where it is above a threshold, a fixed value elsewhere.

    For inputs of any shape with integers or floating-point numbers; the output has their shape and dtype.

    >>> nn.Threshold(0.5, -1.0)(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-1.0, -1.0, 3.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold, self.value = threshold, value

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.threshold(x, self.threshold, self.value)


class GLU(_Activation):
    """a · sigmoid(b) for the halves a and b along an axis, which has half the size in the output.

    For inputs with a floating-point dtype.  Raises ShapeError for an odd size along the axis.

    >>> nn.GLU()(nc.tensor([2.0, 4.0, 0.0, 0.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """Half the size along the axis."""
        return activation.glu(x, self.dim)


class Softmax(_Activation):
    """exp(x) / Σ exp(x) along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softmax()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.00637746, 0.04712342, 0.94649917], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return activation.softmax(x, self.dim)


class Softmax2d(_Activation):
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
        return activation.softmax(held, -3)


class Softmin(_Activation):
    """Softmax of −x along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softmin()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.8756006 , 0.11849965, 0.00589975], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return activation.softmin(x, self.dim)


class LogSoftmax(_Activation):
    """The logarithm of softmax along an axis, the last one by default.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.LogSoftmax()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-5.054985  , -3.0549853 , -0.05498521], f32[3])
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return class_losses.log_softmax(x, self.dim)


# ---- dropout


class _Dropping(_Activation):
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
