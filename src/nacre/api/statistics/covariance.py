"""Averages with weights, covariances and correlations.  Names follow NumPy."""

from __future__ import annotations

from typing import Any

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.arithmetic import clip, divide, multiply
from nacre.api.linear_algebra import matmul
from nacre.api.manipulation import concat
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    extent,
    filled,
    in_single,
    is_half,
    is_plain,
    meet,
    settled_number,
    spread,
)
from nacre.api.primitives import matrices, parts, pointwise, reduce, view
from nacre.api.statistical import mean, sum
from nacre.api.tensor import Axes, Tensor
from nacre.base.dtypes import INEXACT, REAL
from nacre.base.errors import ShapeError
from nacre.trace.value import Value

__all__ = ["average", "corrcoef", "cov"]


def average(
    x: TensorLike, /, axis: Axes = None, *, weights: TensorLike | None = None, keepdims: bool = False
) -> Tensor:
    """The mean over axes (default: all), or the sum of products with weights, divided by the sum of the weights.

    The weights have the shape of x, or one axis for the one of the mean.  Where one of both has integers, they are
    converted to the dtype of the other; where both have, the mean is float32.  Raises ShapeError for other weights.

    >>> nc.average([1.0, 2.0], weights=[3, 1])
    Tensor(1.25, f32[])
    """
    if weights is None:
        return mean(x, axis=axis, keepdims=keepdims)
    x, weights = _of_one_kind(x, weights)
    (held, scale), _ = meet("average", (x, weights))
    shape, rank = held.type.shape, len(held.type.shape)
    if scale.type.shape != shape:
        at = axis if isinstance(axis, int) else rank
        if not -rank <= at < rank or scale.type.shape != (shape[at],):
            raise ShapeError(
                "average: the weights must have the shape of the tensor, or one axis for the one of the mean; got "
                f"{scale.type.shape} for shape {shape} and axis={axis}"
            )
        scale = view.broadcast(scale, shape, (at % rank,))

    def computed(v: Any, w: Any) -> Any:
        """The quotient of both sums."""
        return divide(sum(multiply(v, w), axis=axis, keepdims=keepdims), sum(w, axis=axis, keepdims=keepdims))

    return in_single(computed, held, scale) if is_half(held) else computed(held, scale)


def _of_one_kind(x: TensorLike, weights: TensorLike) -> list[Any]:
    """Both operands, where integers beside floating-point or complex numbers are converted to the dtype of these."""
    given = [v if is_plain(v) else as_tensor(v) for v in (x, weights)]
    if not any(isinstance(v, Value) and v.type.dtype.is_inexact for v in given):
        given = [as_tensor(v) for v in given]
    dtype = next((v.type.dtype for v in given if isinstance(v, Value) and v.type.dtype.is_inexact), None)
    if dtype is None:
        return given
    return [as_tensor(v, dtype) if isinstance(v, Value) and not v.type.dtype.is_inexact else v for v in given]


def cov(
    x: TensorLike,
    y: TensorLike | None = None,
    /,
    *,
    rowvar: bool = True,
    correction: float = 1.0,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> Tensor:
    """The covariances of variables: the rows of x, and of y if given; their columns without `rowvar`.

    The sums of products are divided by the number of observations − correction.  `fweights` says how often each
    observation counts, `aweights` how much.  The matrix is a single number for one variable.  Raises ShapeError for
    more than two axes, DTypeError for integers.

    >>> nc.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    Tensor([[ 1., -1.],
            [-1.,  1.]], f32[2, 2])
    """
    rows = _variables("cov", x, y, rowvar)
    weights = [w if w is None else as_tensor(w) for w in (fweights, aweights)]
    corrected = settled_number(correction, "cov", "correction")

    def computed(rows: Any) -> Any:
        """The covariances of rows."""
        return _covariance(rows, corrected, *(_weights(w, rows) for w in weights))

    return in_single(computed, rows)


def corrcoef(x: TensorLike, y: TensorLike | None = None, /, *, rowvar: bool = True) -> Tensor:
    """The correlation coefficients of variables: covariances divided by both standard deviations, within [−1, 1].

    The arguments are those of `cov`.

    >>> nc.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    Tensor([[ 1., -1.],
            [-1.,  1.]], f32[2, 2])
    """
    return in_single(_correlation, _variables("corrcoef", x, y, rowvar))


def _variables(operation: str, x: TensorLike, y: TensorLike | None, rowvar: bool) -> Any:
    """A matrix whose rows are the variables."""
    held, dtype = meet(operation, (x,) if y is None else (x, y))
    require(operation, dtype, INEXACT)
    found: list[Any] = []
    for v in held:
        if len(v.type.shape) > 2:
            raise ShapeError(f"{operation}: the tensors must have at most two axes; got {v.type}")
        if len(v.type.shape) < 2:
            v = view.reshape(v, (1, v.type.size))
        elif not rowvar:
            v = view.permute(v, (1, 0))
        found.append(v)
    return found[0] if len(found) == 1 else concat(found, axis=0)


def _weights(weights: Any, rows: Any) -> Any:
    if weights is None:
        return None
    require("cov", weights.type.dtype, REAL)
    if weights.type.shape != rows.type.shape[1:]:
        raise ShapeError(
            f"cov: weights must be a vector with a number for each of {rows.type.shape[1]} observations; got "
            f"{weights.type}"
        )
    return as_tensor(weights, rows.type.dtype.real)


def _covariance(rows: Any, correction: float, fweights: Any = None, aweights: Any = None) -> Any:
    shape = rows.type.shape
    real = rows.type.dtype.real
    weights = [w for w in (fweights, aweights) if w is not None]
    weight = weights[0] if len(weights) == 1 else pointwise.mul(*weights) if weights else None
    if weight is None:
        total = count = extent(shape[1], real)
    else:
        total = count = reduce.sum_(weight, (0,))
    wide = None if weight is None else view.broadcast(as_tensor(weight, rows.type.dtype), shape, (1,))
    sums = reduce.sum_(rows if wide is None else pointwise.mul(rows, wide), (1,))
    mean = pointwise.div(sums, spread(as_tensor(total, rows.type.dtype), sums.type.shape))
    centred = pointwise.sub(rows, view.broadcast(mean, shape, (0,)))
    if correction:
        taken = filled(count, correction)
        if aweights is not None:
            share = pointwise.div(reduce.sum_(pointwise.mul(weight, aweights), (0,)), total)
            taken = pointwise.mul(share, taken)
        count = pointwise.maximum(pointwise.sub(count, taken), filled(count, 0))
    scaled = centred if wide is None else pointwise.mul(centred, wide)
    other = parts.conj(centred) if rows.type.dtype.is_complex else centred
    found = matmul(scaled, view.permute(other, (1, 0)))
    found = pointwise.div(found, spread(as_tensor(count, rows.type.dtype), found.type.shape))
    return view.reshape(found, ()) if shape[0] == 1 else found


def _correlation(rows: Any) -> Any:
    found = _covariance(rows, 1.0)
    if not found.type.shape:
        return pointwise.div(found, found)
    diagonal = matrices.matrices.diagonal(found)
    deviation = pointwise.sqrt(parts.real(diagonal) if rows.type.dtype.is_complex else diagonal)
    deviation = as_tensor(deviation, rows.type.dtype)
    for axis in (0, 1):
        found = pointwise.div(found, view.broadcast(deviation, found.type.shape, (axis,)))
    if rows.type.dtype.is_complex:
        return parts.complex_(clip(parts.real(found), -1, 1), clip(parts.imag(found), -1, 1))
    return clip(found, -1, 1)
