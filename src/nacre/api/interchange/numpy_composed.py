"""NumPy's functions of a tensor that several of Nacre's functions compute."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nacre.api.interchange.numpy_shapes import SHAPED
from nacre.api.operands import as_tensor, distinct, require
from nacre.base.arguments import shown
from nacre.base.dtypes import INEXACT
from nacre.base.errors import KindError

MOST_PLACES: Final = 308  # digits before the point of float64


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


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """The sums of the diagonals over two axes."""
    if out is not None:
        raise _refused("trace", "out", out, "write x = nacre.linalg.trace(x)")
    return as_tensor(a).trace(offset, axis1, axis2, dtype)


def vdot(a: Any, b: Any) -> Any:
    """The sum of the products of the conjugate of a and of b, over all elements."""
    nc = sys.modules["nacre"]
    return nc.vecdot(nc.flatten(as_tensor(a)), nc.flatten(as_tensor(b)))


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariances of variables, divided by the number of observations minus 1, or `ddof`, or 0 with `bias`."""
    if dtype is not None:
        raise _refused("cov", "dtype", dtype, "write x.astype(dtype) first")
    correction = float(not bias) if ddof is None else ddof
    return sys.modules["nacre"].cov(m, y, rowvar=rowvar, correction=correction, fweights=fweights, aweights=aweights)


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


def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    """The quotient rounded down, and the remainder."""
    nc = sys.modules["nacre"]
    return nc.floor_divide(x, y), nc.remainder(x, y)


def rounded(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """The nearest numbers with some digits behind the point: a multiplication, `round` and a division, as in NumPy.

    Places beyond all numbers of the dtype leave them unchanged, or make them zero.
    """
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
    if 10.0 ** min(abs(decimals), MOST_PLACES) > nc.finfo(x.type.dtype).max:
        return distinct(x, x) if decimals > 0 else nc.where(nc.isfinite(x), x * 0.0, x)
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
    np.trace: trace,
    np.vdot: vdot,
    np.cov: cov,
    np.modf: modf,
    np.rint: rint,
    np.divmod: divmod_,
    np.round: rounded,
    np.around: rounded,
    **SHAPED,
    np.linalg.eigh: _of_triangle("eigh"),
    np.linalg.eigvalsh: _of_triangle("eigvalsh"),
}
