"""Activations as modules.

`inplace` is accepted where PyTorch accepts it, and has no effect: a tensor's value never changes.
"""

from __future__ import annotations

from typing import Any

from nacre.api.creation import full
from nacre.api.operands import TensorLike, filled
from nacre.api.tensor import Tensor
from nacre.nn.functional import activation
from nacre.nn.module import Parameter
from nacre.nn.modules.base import ModuleWithSettings

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class ReLU(ModuleWithSettings):
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


class ReLU6(ModuleWithSettings):
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


class LeakyReLU(ModuleWithSettings):
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


class PReLU(ModuleWithSettings):
    """x above 0, weight · x elsewhere; training learns one weight, or one for each channel (axis 1).

    For inputs with a floating-point dtype, [N, num_parameters, ...] or of any shape for one weight.  Every weight
    starts at `init`.  Raises ShapeError if the channels do not match.

    >>> nn.PReLU()(nc.tensor([-4.0, 1.0]))
    Tensor([-1.,  1.], f32[2], requires_grad=True)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        self.num_parameters, self._init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, dtype))

    def reset_parameters(self) -> None:
        """Set every weight to its first value."""
        self.weight.assign(filled(self.weight.data, self._init))

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.prelu(x, self.weight)


class RReLU(ModuleWithSettings):
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


class ELU(ModuleWithSettings):
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


class CELU(ModuleWithSettings):
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


class SELU(ModuleWithSettings):
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


class GELU(ModuleWithSettings):
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


class SiLU(ModuleWithSettings):
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


class Mish(ModuleWithSettings):
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


class Softplus(ModuleWithSettings):
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


class Softsign(ModuleWithSettings):
    """x / (1 + |x|).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Softsign()(nc.tensor([-2.0, 0.0, 3.0])).tolist()
    [-0.6666666865348816, 0.0, 0.75]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.softsign(x)


class Tanh(ModuleWithSettings):
    """The hyperbolic tangent.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Tanh()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-0.9640276,  0.       ,  0.9950547], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.tanh(x)


class Tanhshrink(ModuleWithSettings):
    """x − tanh(x).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Tanhshrink()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-1.0359724,  0.       ,  2.0049453], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.tanhshrink(x)


class Sigmoid(ModuleWithSettings):
    """1 / (1 + e⁻ˣ).

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.Sigmoid()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([0.11920292, 0.5       , 0.95257413], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.sigmoid(x)


class LogSigmoid(ModuleWithSettings):
    """The logarithm of the sigmoid.

    For inputs of any shape with a floating-point dtype; the output has their shape and dtype.

    >>> nn.LogSigmoid()(nc.tensor([-2.0, 0.0, 3.0]))
    Tensor([-2.126928  , -0.6931472 , -0.04858735], f32[3])
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Elementwise."""
        return activation.logsigmoid(x)


class Hardtanh(ModuleWithSettings):
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


class Hardsigmoid(ModuleWithSettings):
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


class Hardswish(ModuleWithSettings):
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


class Hardshrink(ModuleWithSettings):
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


class Softshrink(ModuleWithSettings):
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


class Threshold(ModuleWithSettings):
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


class GLU(ModuleWithSettings):
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
