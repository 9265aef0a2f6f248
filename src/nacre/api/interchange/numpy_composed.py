"""NumPy's functions of a tensor that several of Nacre's functions compute."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.arguments import is_whole, shown
from nacre.base.errors import KindError, ShapeError


def _refused(name: str, setting: str, given: object, remedy: str) -> KindError:
    return KindError(
        f"{name}: {setting}= must be left out for a tensor, because Nacre has no such setting; got {shown(given)}; "
        f"{remedy}"
    )


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements in ascending order; with further results, as a tuple, in the order of the parameters.

    The inverse has the shape of the tensor.  With `equal_nan`, all NaN are one element.
    """
    nc = sys.modules["nacre"]
    if axis is not None:
        raise _refused("unique", "axis", axis, "write numpy.unique(x.numpy(), axis=axis)")
    values, indices, inverse, counts = nc.unique_all(ar)
    others = int(nc.sum(values != values)) - 1 if equal_nan and values.dtype.is_inexact else 0
    if others > 0:
        if values.dtype.is_complex:
            raise KindError(
                "unique: complex numbers must not contain several NaN where these are to be one element; got "
                f"{others + 1} of them; write numpy.unique(x, equal_nan=False)"
            )
        last = values.shape[0] - others - 1
        counts = nc.concat([counts[:last], nc.sum(counts[last:], keepdims=True)])
        values, indices, inverse = values[: last + 1], indices[: last + 1], nc.minimum(inverse, last)
    asked = [
        found
        for wanted, found in ((return_index, indices), (return_inverse, inverse), (return_counts, counts))
        if wanted
    ]
    return (values, *asked) if asked else values


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean over axes; with weights, the sum of the products divided by the sum of the weights.

    The weights have the shape of the tensor, or one axis for the one of the mean.  Where one of both has integers, they
    are converted to the dtype of the other.
    """
    nc = sys.modules["nacre"]
    if returned:
        raise _refused("average", "returned", returned, "compute nacre.sum(weights) beside the average")
    if weights is None:
        return nc.mean(a, axis=axis, keepdims=keepdims)
    x, scale = as_tensor(a), as_tensor(weights)
    if x.type.dtype.is_inexact is not scale.type.dtype.is_inexact:
        dtype = (x if x.type.dtype.is_inexact else scale).type.dtype
        x, scale = as_tensor(x, dtype), as_tensor(scale, dtype)
    rank = len(x.type.shape)
    if scale.type.shape != x.type.shape:
        one = is_whole(axis) and -rank <= axis < rank
        if not one or scale.type.shape != x.type.shape[axis % rank :][:1]:
            raise ShapeError(
                "average: the weights must have the shape of the tensor, or one axis for the one of the mean; got "
                f"{scale.type.shape} for shape {x.type.shape} and axis={axis}"
            )
        scale = nc.reshape(scale, [-1 if k == axis % rank else 1 for k in range(rank)])
        scale = nc.broadcast_to(scale, x.type.shape)
    total = nc.sum(nc.multiply(x, scale), axis=axis, keepdims=keepdims)
    return nc.divide(total, nc.sum(scale, axis=axis, keepdims=keepdims))


def _with_axes(shapes: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[..., Any]:
    """NumPy's function that gives one tensor, or a tuple of several, of at least some axes."""

    def with_axes(*arys: Any) -> Any:
        """The tensors with axes of size 1."""
        given = [as_tensor(x) for x in arys]
        made = [sys.modules["nacre"].reshape(x, shapes(x.type.shape)) for x in given]
        return made[0] if len(made) == 1 else tuple(made)

    return with_axes


COMPOSED: Final[dict[Any, Callable[..., Any]]] = {
    np.unique: unique,
    np.average: average,
    np.atleast_1d: _with_axes(lambda shape: shape or (1,)),
    np.atleast_2d: _with_axes(lambda shape: (1,) * (2 - len(shape)) + shape),
    np.atleast_3d: _with_axes(
        lambda shape: (1,) * (2 - len(shape)) + shape + (1,) if len(shape) < 3 else shape,
    ),
}
