"""NumPy's functions of a tensor that several of Nacre's functions compute."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nacre.api.interchange.numpy_shapes import SHAPED
from nacre.api.operands import as_tensor, is_plain, require
from nacre.base.arguments import is_whole, shown
from nacre.base.dtypes import INEXACT
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
    x = as_tensor(a)
    scale = as_tensor(weights, x.type.dtype if is_plain(weights) and x.type.dtype.is_inexact else None)
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


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals over two axes, as the last axis."""
    nc = sys.modules["nacre"]
    return nc.linalg.diagonal(nc.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """The sums of the diagonals over two axes."""
    if out is not None:
        raise _refused("trace", "out", out, "write x = nacre.linalg.trace(x)")
    return sys.modules["nacre"].sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def vdot(a: Any, b: Any) -> Any:
    """The sum of the products of the conjugate of a and of b, over all elements."""
    nc = sys.modules["nacre"]
    return nc.vecdot(nc.flatten(as_tensor(a)), nc.flatten(as_tensor(b)))


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: blocks of b times the elements of a."""
    nc = sys.modules["nacre"]
    x, y = as_tensor(a), as_tensor(b)
    rank = max(len(x.type.shape), len(y.type.shape))
    left, right = ((1,) * (rank - len(v.type.shape)) + v.type.shape for v in (x, y))
    spread_left = nc.reshape(x, [n for size in left for n in (size, 1)])
    spread_right = nc.reshape(y, [n for size in right for n in (1, size)])
    return nc.reshape(nc.multiply(spread_left, spread_right), [m * n for m, n in zip(left, right, strict=True)])


def modf(x: Any) -> Any:
    """The fractional and the whole parts, both with the sign of x."""
    nc = sys.modules["nacre"]
    whole = nc.trunc(x)
    rest = nc.where(nc.isinf(x), nc.zeros_like(whole), nc.subtract(x, whole))
    return nc.copysign(rest, x), whole


def rint(x: Any) -> Any:
    """The nearest whole numbers, of floats; integers raise DTypeError, as NumPy makes floats of them."""
    require("rint", as_tensor(x).type.dtype, INEXACT)
    return sys.modules["nacre"].round(x)


def rounded(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """The nearest numbers with some digits behind the point: a multiplication, `round` and a division, as in NumPy."""
    nc = sys.modules["nacre"]
    if out is not None:
        raise _refused("round", "out", out, "write x = nacre.round(x)")
    x = as_tensor(a)
    if decimals == 0 or (decimals > 0 and not x.type.dtype.is_inexact):
        return nc.round(x)
    if not x.type.dtype.is_inexact:
        raise _refused(
            "round", "decimals", decimals, "write x.astype(nacre.float64) first, for places before the point"
        )
    power = 10.0 ** abs(decimals)
    return nc.round(x * power) / power if decimals > 0 else nc.round(x / power) * power


def _of_triangle(name: str) -> Callable[..., Any]:
    """A function of Hermitian matrices of which one triangle is read."""

    def of_triangle(a: Any, UPLO: str = "L") -> Any:
        """Nacre's function, which reads the lower triangle."""
        nc = sys.modules["nacre"]
        if UPLO not in ("L", "U", "l", "u"):
            raise KindError(f"{name}: UPLO must be 'L' or 'U'; got {shown(UPLO)}")
        held = as_tensor(a)
        return getattr(nc.linalg, name)(nc.conj(nc.matrix_transpose(held)) if UPLO in "Uu" else held)

    return of_triangle


COMPOSED: Final[dict[Any, Callable[..., Any]]] = {
    np.unique: unique,
    np.average: average,
    np.diagonal: diagonal,
    np.trace: trace,
    np.vdot: vdot,
    np.kron: kron,
    np.modf: modf,
    np.rint: rint,
    np.round: rounded,
    np.around: rounded,
    **SHAPED,
    np.linalg.eigh: _of_triangle("eigh"),
    np.linalg.eigvalsh: _of_triangle("eigvalsh"),
}
