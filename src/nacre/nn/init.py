"""Initialisers: each fills a parameter with numbers, which is not recorded for `backward`, and returns it.

>>> w = nn.Parameter(nc.zeros((3, 4)))
>>> float(nn.init.constant_(w, 2.0).sum())
24.0
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from nacre.api import random
from nacre.api.creation import eye
from nacre.api.operands import TensorLike, as_tensor, filled
from nacre.base.boundary import publish_all
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn import drawn
from nacre.trace.modes import gradients
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

_Filled = TypeVar("_Filled", bound=Variable)


def _fill(variable: _Filled, numbers: Any) -> _Filled:
    """Assign numbers, in the variable's dtype and shape."""
    with gradients(False):
        held = as_tensor(numbers, variable.dtype)
        if held.type.shape != variable.shape:
            raise ShapeError(f"init: the numbers must have shape {list(variable.shape)}; got {held.type}")
        variable.assign(stripped(held))
    return variable


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The gain that preserves the variance through an activation: 1 for linear layers and "sigmoid", 5/3 for "tanh", …

    `param` is the negative slope of "leaky_relu".  Raises ArgumentError for an unknown name.

    >>> nn.init.calculate_gain("relu") ** 2
    2.0000000000000004
    """
    plain = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    plain |= {f"conv{t}{n}d": 1.0 for t in ("", "_transpose") for n in (1, 2, 3)}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in plain:
        known = sorted([*plain, "leaky_relu"])
        raise ArgumentError(f"calculate_gain: nonlinearity must be one of {known}; got {nonlinearity!r}")
    return plain[nonlinearity]


def fans(shape: tuple[Any, ...]) -> tuple[int, int]:
    """(fan_in, fan_out) of weights [out, in, ...]: the inputs of an output, and the outputs of an input.

    Raises ShapeError for fewer than two axes.

    >>> nn.init.fans((8, 3, 5, 5))
    (75, 200)
    """
    if len(shape) < 2:
        raise ShapeError(f"init: a weight must have at least two axes; got shape {list(shape)}")
    field = math.prod(int(n) for n in shape[2:])
    return int(shape[1]) * field, int(shape[0]) * field


def _fan(shape: tuple[Any, ...], mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f'init: mode must be "fan_in" or "fan_out"; got {mode!r}')
    return fans(shape)[mode == "fan_out"]


# ---- fixed numbers


def constant_(tensor: _Filled, val: float) -> _Filled:
    """Fill with one number.

    >>> nn.init.constant_(nn.Parameter(nc.zeros(3)), 0.5).tolist()
    [0.5, 0.5, 0.5]
    """
    return _fill(tensor, filled(stripped(tensor.value), val))


def zeros_(tensor: _Filled) -> _Filled:
    """Fill with zeros.

    >>> nn.init.zeros_(nn.Parameter(nc.ones(3))).tolist()
    [0.0, 0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor: _Filled) -> _Filled:
    """Fill with ones.

    >>> nn.init.ones_(nn.Parameter(nc.zeros(3))).tolist()
    [1.0, 1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def eye_(tensor: _Filled) -> _Filled:
    """Fill a matrix with the identity.

    Raises ShapeError for another rank.

    >>> nn.init.eye_(nn.Parameter(nc.zeros((2, 2)))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if len(tensor.shape) != 2:
        raise ShapeError(f"eye_: a matrix is required; got shape {list(tensor.shape)}")
    return _fill(tensor, eye(*tensor.shape))


def dirac_(tensor: _Filled, groups: int = 1) -> _Filled:
    """Fill the filters of a convolution of 1 to 3 axes so that they return their input channels.

    Channels without a counterpart get zeros.  Raises ShapeError for another rank, or unless the groups divide the
    filters.

    >>> nn.init.dirac_(nn.Parameter(nc.zeros((2, 2, 3)))).tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    shape = tuple(int(n) for n in tensor.shape)
    if len(shape) not in (3, 4, 5) or groups < 1 or shape[0] % groups:
        raise ShapeError(f"dirac_: filters must be [out, in, ...], with out divisible by {groups}; got {shape}")
    numbers = np.zeros(shape)
    each = shape[0] // groups
    for g in range(groups):
        for k in range(min(each, shape[1])):
            numbers[(g * each + k, k, *(n // 2 for n in shape[2:]))] = 1.0
    return _fill(tensor, numbers)


# ---- drawn numbers


def uniform_(tensor: _Filled, a: float = 0.0, b: float = 1.0) -> _Filled:
    """Fill with uniform random numbers in [a, b); those of a complex dtype have such parts.

    >>> w = nn.init.uniform_(nn.Parameter(nc.zeros((300, 100))), -1.0, 1.0)
    >>> nc.min(w).item() >= -1, nc.max(w).item() < 1, abs(nc.mean(w).item()) < 0.02
    (True, True, True)
    """
    return _fill(tensor, drawn.uniform(tensor.shape, a, b, tensor.dtype)) if a != b else constant_(tensor, a)


def normal_(tensor: _Filled, mean: float = 0.0, std: float = 1.0) -> _Filled:
    """Fill with normal random numbers; those of a complex dtype have independent parts of half the variance.

    >>> w = nn.init.normal_(nn.Parameter(nc.zeros((300, 100))), 1.0, 0.5)
    >>> abs(nc.mean(w).item() - 1) < 0.02, abs(nc.std(w).item() - 0.5) < 0.02
    (True, True)
    """
    return _fill(tensor, drawn.normal(tensor.shape, mean, std, tensor.dtype))


LEAST_CHANCE = 1e-9  # least probability that a number falls into the interval
FEW = 0.1  # a probability below which uniform numbers are accepted more often than normal ones
FARTHEST = 10.0  # standard deviations from the mean; the probability of more is below 1e-22
BLOCK = 1 << 14


def trunc_normal_(tensor: _Filled, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> _Filled:
    """Fill with normal random numbers within [a, b]; numbers outside are drawn again.

    Raises ArgumentError for an empty interval, or for one too far from the mean.

    >>> w = nn.init.trunc_normal_(nn.Parameter(nc.zeros((300, 100))), std=2.0, a=-1.0, b=1.0)
    >>> nc.max(nc.abs(w)).item() <= 1
    True
    """
    if not a < b or not std > 0:
        raise ArgumentError(f"trunc_normal_: a must be below b, and std positive; got {a}, {b}, {std}")
    below, above = ((bound - mean) / (std * math.sqrt(2.0)) for bound in (a, b))
    chance = math.erf(above) - math.erf(below)
    if not chance > LEAST_CHANCE:
        raise ArgumentError(f"trunc_normal_: the mean must be near [{a}, {b}]; got {mean} with std {std}")
    drawn = random.normal(tensor.shape, mean, std, tensor.dtype).numpy().copy()
    places = np.flatnonzero(~_within(drawn, a, b))
    while len(places):
        block = _in_tail(mean, std, a, b) if chance < FEW else random.normal((BLOCK,), mean, std, tensor.dtype).numpy()
        found = block.astype(drawn.dtype)
        found = found[_within(found, a, b)]
        if not len(found):
            raise ArgumentError(
                f"trunc_normal_: the interval must contain a number of dtype {tensor.dtype.name}; got [{a}, {b}]"
            )
        drawn.reshape(-1)[places[: len(found)]] = found[: len(places)]
        places = places[len(found) :]
    return _fill(tensor, drawn)


def _within(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """Where x is in [a, b], compared in float64."""
    wide = x.astype(np.float64)
    return (wide >= a) & (wide <= b)


def _in_tail(mean: float, std: float, a: float, b: float) -> np.ndarray:
    """Normal random numbers within [a, b], by rejection of uniform ones."""
    low, high = max(a, mean - FARTHEST * std), min(b, mean + FARTHEST * std)
    even = random.uniform((BLOCK,), low, high, float64).numpy()
    likeliest = min(max(mean, low), high)
    share = np.exp(((likeliest - mean) ** 2 - (even - mean) ** 2) / (2 * std**2))
    return even[random.uniform((BLOCK,), dtype=float64).numpy() < share]


def xavier_uniform_(tensor: _Filled, gain: float = 1.0) -> _Filled:
    """Fill with uniform random numbers of variance gain² · 2 / (fan_in + fan_out) (Glorot and Bengio 2010).

    Raises ShapeError for fewer than two axes.

    >>> w = nn.init.xavier_uniform_(nn.Parameter(nc.zeros((300, 100))))
    >>> abs(nc.var(w).item() - 2 / 400) < 1e-3
    True
    """
    bound = gain * math.sqrt(6.0 / max(1, sum(fans(tensor.shape))))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: _Filled, gain: float = 1.0) -> _Filled:
    """Fill with normal random numbers of variance gain² · 2 / (fan_in + fan_out) (Glorot and Bengio 2010).

    Raises ShapeError for fewer than two axes.

    >>> w = nn.init.xavier_normal_(nn.Parameter(nc.zeros((300, 100))))
    >>> abs(nc.var(w).item() - 2 / 400) < 1e-3
    True
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(1, sum(fans(tensor.shape)))))


def kaiming_uniform_(
    tensor: _Filled, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> _Filled:
    """Fill with uniform random numbers of variance gain² / fan (He et al. 2015).

    Raises ShapeError for fewer than two axes, ArgumentError for another mode or nonlinearity.

    >>> w = nn.init.kaiming_uniform_(nn.Parameter(nc.zeros((300, 100))), nonlinearity="relu")
    >>> abs(nc.var(w).item() - 2 / 100) < 1e-3
    True
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / max(1, _fan(tensor.shape, mode)))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: _Filled, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> _Filled:
    """Fill with normal random numbers of variance gain² / fan (He et al. 2015).

    Raises ShapeError for fewer than two axes, ArgumentError for another mode or nonlinearity.

    >>> w = nn.init.kaiming_normal_(nn.Parameter(nc.zeros((300, 100))), mode="fan_out", nonlinearity="relu")
    >>> abs(nc.var(w).item() - 2 / 300) < 1e-3
    True
    """
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(max(1, _fan(tensor.shape, mode))))


def orthogonal_(tensor: _Filled, gain: float = 1.0) -> _Filled:
    """Fill with a matrix of orthonormal rows or columns, times the gain; further axes are merged (Saxe et al. 2014).

    LAPACK factors the matrix, so its bits depend on the machine.  Raises ShapeError for fewer than two axes.

    >>> w = nn.init.orthogonal_(nn.Parameter(nc.zeros((2, 3))))
    >>> nc.max(nc.abs(w @ w.T - nc.eye(2))).item() < 1e-6
    True
    """
    rows, columns = int(tensor.shape[0]), math.prod(int(n) for n in tensor.shape[1:])
    if len(tensor.shape) < 2:
        raise ShapeError(f"orthogonal_: a weight must have at least two axes; got shape {list(tensor.shape)}")
    drawn = random.normal((max(rows, columns), min(rows, columns)), dtype="float64").numpy()
    q, r = np.linalg.qr(drawn)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tuple(map(int, tensor.shape))))


def sparse_(tensor: _Filled, sparsity: float, std: float = 0.01) -> _Filled:
    """Fill with normal random numbers, except for a share of zeros in each column (Martens 2010).

    Raises ArgumentError unless the tensor is a matrix and the share in [0, 1].

    >>> w = nn.init.sparse_(nn.Parameter(nc.zeros((10, 3))), 0.5)
    >>> nc.sum(w.value == 0, axis=0).tolist()
    [5, 5, 5]
    """
    if len(tensor.shape) != 2 or not 0.0 <= sparsity <= 1.0:
        raise ArgumentError(
            f"sparse_: the tensor must be a matrix and the share in [0, 1]; got {tensor.shape}, {sparsity}"
        )
    numbers = random.normal(tensor.shape, 0.0, std).numpy().copy()
    order = np.argsort(random.uniform(tensor.shape).numpy(), axis=0, kind="stable")
    zeros = math.ceil(sparsity * numbers.shape[0])
    np.put_along_axis(numbers, order[:zeros], 0.0, axis=0)
    return _fill(tensor, numbers)


def copy_(tensor: _Filled, numbers: TensorLike) -> _Filled:
    """Fill with given numbers of the same shape.

    Raises ShapeError for numbers of another shape.

    >>> nn.init.copy_(nn.Parameter(nc.zeros(2)), [3.0, 4.0]).tolist()
    [3.0, 4.0]
    """
    return _fill(tensor, numbers)


publish_all(__name__)
