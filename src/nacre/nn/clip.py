"""Gradient clipping, by the common norm or by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nacre.api.operands import as_tensor, constant, filled, numbers, spread
from nacre.api.primitives import pointwise, reduce
from nacre.api.tensor import Tensor
from nacre.base.arguments import shown
from nacre.base.dtypes import float32, float64
from nacre.base.errors import ArgumentError, DTypeError, KindError, StateError
from nacre.trace.modes import gradients
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Leaf, Variable

Clipped = Variable | Tensor | Iterable[Variable | Tensor]


def _gradients(operation: str, parameters: Clipped) -> list[tuple[Variable | Leaf, Any]]:
    """The owners of gradients, parameters or leaves, and their gradients without a record."""
    listed: list[Any] = [parameters] if isinstance(parameters, Variable | Value) else list(parameters)
    found: list[tuple[Variable | Leaf, Any]] = []
    for p in listed:
        owner = p if isinstance(p, Variable) else p.node if isinstance(p, Value) else None
        owner = owner.owner or owner if isinstance(owner, Leaf) else owner
        if not isinstance(owner, Variable | Leaf):
            raise KindError(
                f"{operation}: parameters must be parameters of a module, or leaves with requires_grad; got "
                f"{shown(p)}; write model.parameters()"
            )
        if owner.gradient is not None:
            found.append((owner, stripped(owner.gradient)))
    return found


def clip_grad_norm_(
    parameters: Clipped,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients so that their common norm is at most max_norm; returns the norm before.

    The norm is a float32 scalar, or float64 if a gradient is.  `norm_type` is a positive number or infinity; 2 by
    default.  With an infinite max_norm, the gradients are only measured.  With `error_if_nonfinite`, an infinite or NaN
    norm raises StateError; this check needs numbers, so it cannot be compiled.  Raises ArgumentError for another
    norm_type, and for a negative max_norm.

    >>> p = nn.Parameter([0.0, 0.0]); p.grad = nc.tensor([3.0, 4.0])
    >>> optim.clip_grad_norm_([p], 1.0), p.grad
    (Tensor(5., f32[]), Tensor([0.5999999 , 0.79999983], f32[2]))
    """
    if not norm_type > 0:
        raise ArgumentError(f"clip_grad_norm_: norm_type must be positive; got {norm_type}")
    given = _gradients("clip_grad_norm_", parameters)
    if not given:
        return constant(0.0, float32)
    with gradients(False):
        wide = float64 if any(g.type.dtype.real.bits == 64 for _, g in given) else float32
        parts = [_norm_part(as_tensor(_size(g), wide), norm_type) for _, g in given]
        norm = parts[0]
        for part in parts[1:]:
            norm = pointwise.maximum(norm, part) if norm_type == math.inf else pointwise.add(norm, part)
        if norm_type == 2.0:
            norm = pointwise.sqrt(norm)
        elif norm_type not in (1.0, math.inf):
            norm = pointwise.pow_(norm, filled(norm, 1.0 / norm_type))
        if error_if_nonfinite and not math.isfinite(numbers(norm, "clip_grad_norm_").item()):
            raise StateError(f"clip_grad_norm_: the norm must be finite; got {norm.item()}; look at the loss")
        if max_norm == math.inf:
            return norm
        factor = pointwise.div(filled(norm, max_norm), pointwise.add(norm, filled(norm, 1e-6)))
        factor = pointwise.minimum(factor, filled(norm, 1.0))
        for p, g in given:
            p.gradient = pointwise.mul(g, spread(as_tensor(factor, g.type.dtype), g.type.shape))
    return norm


def _size(g: Any) -> Any:
    """Complex numbers by their moduli."""
    return pointwise.modulus(g) if g.type.dtype.is_complex else g


def _norm_part(g: Any, norm_type: float) -> Any:
    axes = tuple(range(len(g.type.shape)))
    if norm_type == 2.0:
        squares = pointwise.mul(g, g)
        return reduce.sum_(squares, axes) if axes else squares
    sizes = pointwise.abs_(g)
    if norm_type not in (1.0, math.inf):
        sizes = pointwise.pow_(sizes, filled(sizes, norm_type))
    fold = reduce.max_ if norm_type == math.inf else reduce.sum_
    return fold(sizes, axes) if axes else sizes


def clip_grad_value_(parameters: Clipped, clip_value: float) -> None:
    """Limit every element of the gradients to ±clip_value.

    Raises ArgumentError for a negative clip_value, and DTypeError for complex gradients.

    >>> p = nn.Parameter([0.0]); p.grad = nc.tensor([3.0])
    >>> optim.clip_grad_value_([p], 1.0); p.grad
    Tensor([1.], f32[1])
    """
    if not clip_value >= 0:
        raise ArgumentError(f"clip_grad_value_: clip_value must not be negative; got {clip_value}")
    with gradients(False):
        given = _gradients("clip_grad_value_", parameters)
        for _, g in given:
            if g.type.dtype.is_complex:
                raise DTypeError(f"clip_grad_value_: gradients must be real; got {g.type}; write clip_grad_norm_")
        for p, g in given:
            p.gradient = pointwise.minimum(pointwise.maximum(g, filled(g, -clip_value)), filled(g, clip_value))
