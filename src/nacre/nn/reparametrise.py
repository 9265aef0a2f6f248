"""Computed weights: weight normalisation and spectral normalisation.

A module with a normalised weight gets a new class, derived from its old one.  In this class the weight's name is a
property, which computes the weight whenever it is read, also in traces and for `nc.grad` of the module.  State dicts
have the names of PyTorch's `torch.nn.utils`: `weight_g` and `weight_v`; `weight_orig`, `weight_u` and `weight_v`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from nacre.api.elementwise.arithmetic import maximum
from nacre.api.elementwise.transcendental import sqrt
from nacre.api.manipulation import permute_dims
from nacre.api.operands import as_tensor
from nacre.api.random import normal
from nacre.api.statistical import sum as sum_
from nacre.base.errors import ArgumentError, StateError
from nacre.nn.module import Module
from nacre.nn.modules.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from nacre.nn.parameter import Buffer, Parameter
from nacre.trace.modes import gradients
from nacre.trace.value import stripped

M = TypeVar("M", bound=Module)
Norms = tuple[tuple[str, str], ...]  # names of weights, and the normalisation of each
WEIGHT, SPECTRAL = "weight norm", "spectral norm"


# ---- classes with computed weights


@functools.cache
def _derived(base: type[Module], norms: Norms) -> type[Module]:
    """The derived class of modules with computed weights."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; in training, spectral norms take a step first."""
        for name, kind in norms:
            if kind == SPECTRAL and self.training:
                _iterate(self, name)
        return base.forward(self, *args, **kwargs)

    def reduce(self: Module) -> Any:
        return _restored, (base, norms), self.__getstate__()

    values = {name: property(functools.partial(COMPUTED[kind], name=name)) for name, kind in norms}
    return type(base.__name__, (base,), {
        "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
        "forward": forward, "__reduce__": reduce, "plain_class": base, "norms": norms, **values,
    })  # fmt: skip


def _restored(base: type[Module], norms: Norms) -> Module:
    kind = _derived(base, norms)
    return kind.__new__(kind)


def _settings(module: Any, name: str) -> Any:
    """The settings of a computed weight."""
    return getattr(module, f"{name} settings")


def _norms(module: Module) -> Norms:
    return getattr(type(module), "norms", ())


def _change_class(module: Module, norms: Norms) -> None:
    base: type[Module] = getattr(type(module), "plain_class", type(module))
    object.__setattr__(module, "__class__", _derived(base, norms) if norms else base)


def _taken(operation: str, module: Module, name: str) -> Parameter:
    """The parameter with a name, which is removed from the module."""
    held = vars(module).get(name)
    if not isinstance(held, Parameter):
        found = [k for k, v in vars(module).items() if isinstance(v, Parameter)]
        raise ArgumentError(
            f"{operation}: {name!r} is not the name of a parameter of the module; there are "
            f"{', '.join(found) or 'none'}"
        )
    delattr(module, name)
    return held


def _removed(operation: str, module: M, name: str, kind: str, names: tuple[str, ...]) -> M:
    """A module whose weight is a parameter again, with its current value."""
    if (name, kind) not in _norms(module):
        raise StateError(
            f"{operation}: the module must have a {kind} of {name!r}; got {type(module).__name__} without one"
        )
    with gradients(False):
        value = stripped(getattr(module, name))
    for word in (*names, f"{name} settings"):
        delattr(module, word)
    _change_class(module, tuple(n for n in _norms(module) if n != (name, kind)))
    setattr(module, name, Parameter(value))
    return module


# ---- weight normalisation


def _length(v: Any, dim: int | None) -> Any:
    """The norms of the slices along an axis, with axes of size 1; of all numbers if dim is None."""
    if dim is None or dim == -1:
        return sqrt(sum_(v * v))
    return sqrt(sum_(v * v, axis=tuple(k for k in range(v.ndim) if k != dim), keepdims=True))


def _normalised(module: Any, name: str) -> Any:
    v = as_tensor(getattr(module, f"{name}_v"))
    (dim,) = _settings(module, name)
    return v * (as_tensor(getattr(module, f"{name}_g")) / _length(v, dim))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Compute a weight as g · v / |v|: its length and direction are trained separately (Salimans and Kingma 2016).

    The norm is over all axes except `dim`, and over all axes if it is None or −1.  `weight_g` and `weight_v` replace
    the parameter `weight`, at the end of the module's parameters.  Returns the module.  Raises ArgumentError for a name
    that is no parameter, or a dim out of range.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> {k: v.shape for k, v in layer.state_dict().items()}
    {'bias': (2,), 'weight_g': (2, 1), 'weight_v': (2, 3)}
    """
    axes = vars(module)[name].ndim if isinstance(vars(module).get(name), Parameter) else 0
    if dim is not None and axes and not -1 <= dim < axes:
        raise ArgumentError(f"weight_norm: dim must be None or below {axes}; got {dim}")
    held = _taken("weight_norm", module, name)
    with gradients(False):
        length = stripped(_length(as_tensor(held), dim))
    setattr(module, f"{name} settings", (dim,))
    setattr(module, f"{name}_g", Parameter(length))
    setattr(module, f"{name}_v", Parameter(stripped(held.value)))
    _change_class(module, (*_norms(module), (name, WEIGHT)))
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Turn a weight of `weight_norm` into a parameter again.  Returns the module.

    Raises StateError if the module has none of this name.

    >>> list(nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed("remove_weight_norm", module, name, WEIGHT, (f"{name}_g", f"{name}_v"))


# ---- spectral normalisation


def _matrix(module: Any, name: str) -> Any:
    """The weight with one axis in front, as a matrix."""
    w, dim = as_tensor(getattr(module, f"{name}_orig")), _settings(module, name)[0]
    front = permute_dims(w, (dim, *(k for k in range(w.ndim) if k != dim))) if dim else w
    return front.reshape(w.shape[dim], -1)


def _unit(x: Any, eps: float) -> Any:
    return x / maximum(sqrt(sum_(x * x)), eps)


def _iterate(module: Any, name: str) -> None:
    """Take steps of the power method."""
    _, steps, eps = _settings(module, name)
    held_u, held_v = getattr(module, f"{name}_u"), getattr(module, f"{name}_v")
    if not isinstance(held_u, Buffer):  # a module rebuilt with values, as by `nc.grad`
        return
    with gradients(False):
        w: Any = stripped(_matrix(module, name))
        u, v = held_u.value, held_v.value
        for _ in range(steps):
            v = _unit(w.T @ u, eps)
            u = _unit(w @ v, eps)
        held_u.assign(stripped(u))
        held_v.assign(stripped(v))


def _scaled(module: Any, name: str) -> Any:
    u, v = (stripped(as_tensor(getattr(module, f"{name}_{k}"))) for k in "uv")
    return as_tensor(getattr(module, f"{name}_orig")) / sum_(u * (_matrix(module, name) @ v))


COMPUTED: dict[str, Callable[..., Any]] = {WEIGHT: _normalised, SPECTRAL: _scaled}


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value (Miyato et al. 2018).  Returns the module.

    The weight counts as a matrix with the axis `dim` in front; the default is 0, and 1 for transposed convolutions.
    The power method takes `n_power_iterations` steps in each training call.  The parameter `weight_orig` and the
    buffers `weight_u` and `weight_v` replace the parameter `weight`.  Raises ArgumentError for a name that is no
    parameter, or settings out of range.

    >>> nc.random.seed(0); layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> for _ in range(50): _ = layer(nc.ones((1, 3)))
    >>> w = layer.weight; a, b, d = ((w @ w.T).flatten()[k].item() for k in (0, 1, 3))  # the largest root of its square
    >>> round((a + d + ((a - d) ** 2 + 4 * b * b) ** 0.5) / 2, 4), list(layer.state_dict())
    (1.0, ['bias', 'weight_orig', 'weight_u', 'weight_v'])
    """
    if n_power_iterations < 1:
        raise ArgumentError(f"spectral_norm: n_power_iterations must be positive; got {n_power_iterations}")
    front = int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d)) if dim is None else dim
    held = vars(module).get(name)
    if isinstance(held, Parameter) and not 0 <= front < held.ndim:
        raise ArgumentError(f"spectral_norm: dim must be below {held.ndim}; got {front}")
    p = _taken("spectral_norm", module, name)
    rows = int(p.shape[front])
    setattr(module, f"{name} settings", (front, n_power_iterations, eps))
    setattr(module, f"{name}_orig", p)
    for word, size in (("u", rows), ("v", math.prod(int(n) for n in p.shape) // max(1, rows))):
        drawn: Any = normal((size,), dtype=p.dtype)
        setattr(module, f"{name}_{word}", Buffer(stripped(_unit(drawn, eps))))
    _change_class(module, (*_norms(module), (name, SPECTRAL)))
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Turn a weight of `spectral_norm` into a parameter again.  Returns the module.

    Raises StateError if the module has none of this name.

    >>> list(nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    return _removed("remove_spectral_norm", module, name, SPECTRAL, (f"{name}_orig", f"{name}_u", f"{name}_v"))
