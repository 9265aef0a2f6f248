"""The cases of all primitives: two rows of the table of operations for each, or functions of their own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import scipy.special as sp

import nacre as nc
from nacre import ops
from nacre.base.dtypes import float64, int64
from nacre.ir.primitive import registered
from nacre.ops import dot
from nacre.ops import pointwise as pw
from nacre.ops.identity import copy, fence
from nacre.ops.linalg import cholesky, eigen, householder
from nacre.ops.special import implicit_gamma
from nacre.ops.special.drawn import drawn
from ops.row import Row
from ops.table import ROWS
from transform.completeness.case import DERIVATIVES, Case
from transform.completeness.flow import CASES as FLOW


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(crc32(name.encode()))


def _smooth(row: Row) -> Case:
    """A row with operands for finite differences."""
    assert row.smooth is not None
    arrays = [np.asarray(a) for a in row.smooth(_generator(row.name))]
    fixed = [nc.tensor(a) for a in arrays]

    def f(*xs: Any) -> Any:
        operands: list[Any] = list(fixed)
        for k, x in zip(row.active, xs, strict=True):
            operands[k] = x
        return row.apply(*operands)

    return Case(row.name, f, tuple(arrays[k] for k in row.active))


def _constant(row: Row) -> Case:
    """A row whose derivative is zero, or that has no operands with a derivative."""
    dtype = float64 if float64 in row.dtypes else int64 if int64 in row.dtypes else row.dtypes[-1]
    rng = _generator(row.name)
    groups = [g for g in row.inputs(dtype, rng) if all(a.ndim and a.size for a in g)]
    arrays = min(groups, key=lambda g: sum(a.size for a in g))
    if row.primitive in ("fill", "iota", "dimension"):
        return Case(row.name, lambda x: x * row.apply(*map(nc.tensor, arrays)).astype(float64), (np.array(1.5),))
    if dtype is not float64:
        refused = dict.fromkeys(DERIVATIVES, "inputs must be floating-point; got ")
        return Case(row.name, row.apply, arrays, refused)
    apart = rng.permutation(sum(a.size for a in arrays)) * 0.37 - 1.1
    parts = np.split(apart, np.cumsum([a.size for a in arrays])[:-1])
    return Case(row.name, row.apply, tuple(p.reshape(a.shape) for p, a in zip(parts, arrays, strict=True)))


def _definite(x: Any) -> Any:
    return x @ x.T + 2.0 * nc.eye(3, dtype=nc.float64)


A, B = (_generator(name).normal(size=(3, 3)) for name in "ab")
SHAPE, DRAWN = np.array([0.8, 2.5, 4.0]), np.array([0.3, 2.0, 5.5])
FEW = 64
HALF = ml_dtypes.bfloat16


def _assigned(x: Any) -> Any:
    """sin(x), whose numbers are then those of cos(x)."""
    y = nc.sin(x)
    y.data = nc.cos(x)
    return y * y


def _as_assigned(x: Any) -> Any:
    """The derivatives of `_assigned` at A[0]."""
    at = nc.tensor(A[0])
    y = nc.sin(x) - nc.sin(at) + nc.cos(at)
    return y * y


def _quantiles(shape: Any, moved: Any) -> Any:
    """The numbers of gamma distributions whose probabilities are those of the drawn ones, as far as they have moved."""
    numbers = sp.gammaincinv(shape.numpy(), sp.gammainc(SHAPE, DRAWN))
    return nc.tensor(numbers + moved.numpy() - DRAWN)


TABLED: dict[str, Sequence[Case]] = {
    "cholesky": (Case("cholesky", lambda x: cholesky.cholesky(_definite(x))[0], (A,)),),
    "eigh": (Case("eigh", lambda x: [(y := eigen.eigh(x + x.T))[0], y[1] * y[1]], (A,)),),
    "eigvalsh": (Case("eigvalsh", lambda x: eigen.eigvalsh(x + x.T), (A,)),),
    "eig": (Case("eig", lambda x: [(y := eigen.eig(_definite(x) + x))[0], nc.abs(y[1]) ** 2], (A,)),),
    "eigvals": (Case("eigvals", lambda x: eigen.eigvals(_definite(x) + x), (A,)),),
    "householder": (
        Case("householder", householder.householder, (A,), dict.fromkeys(DERIVATIVES, "^householder: .* qr")),
    ),
    "store": (
        Case(
            *("store", lambda x: x.astype(nc.float8_e5m2).astype(nc.float64), (A,)),
            dict.fromkeys(DERIVATIVES, r"^astype: the derivative does not exist; .*; write x.detach\(\)"),
        ),
    ),
    "widened_dot": (
        Case(
            "widened_dot",
            lambda x, y: dot.widened_dot(x, y, ((1,), (0,)), ((), ()), nc.float32),
            (np.round(A * 2).astype(HALF), np.round(B * 2).astype(HALF)),
            step=1.0,  # differences of a function of second degree are exact
            tolerance=0.02,
        ),
    ),
    "bitcast": (  # integers, which are constant for derivatives
        Case("bitcast", lambda x: pw.bitcast(x, int64), (A[0],), like=lambda x: pw.bitcast(nc.tensor(A[0]), int64)),
    ),
    "copy": (Case("copy", copy, (A[0],)),),
    "fence": (Case("fence", fence, (A[0],)),),
    "detach": (Case("detach", lambda x: x.detach() * nc.sin(x), (A[0],), like=lambda x: nc.tensor(A[0]) * nc.sin(x)),),
    "with_numbers": (Case("with_numbers", _assigned, (A[0],), like=_as_assigned),),
    "implicit_gamma": (
        Case(
            *("implicit_gamma", implicit_gamma, (SHAPE, DRAWN)),
            {"hessian": r"^special\.gammainc: no derivative by a twice is known"},
            like=_quantiles,
        ),
    ),
    "drawn": (
        Case(
            *("drawn", lambda x, rate: drawn("poisson", x, rate), (np.round(DRAWN), SHAPE)),
            dict.fromkeys(DERIVATIVES, r"^random\.poisson: the derivative of counts by a parameter does not exist"),
        ),
    ),
    "check": (Case("check", lambda x: x[nc.tensor([2, 0])], (A[0],)),),
    **FLOW,
}


def _size(row: Row) -> int:
    return sum(x.size for x in _smooth(row).xs)


def cases_of(name: str) -> Sequence[Case]:
    """The cases of a primitive: of its rows with few numbers, or of its smallest rows of real and complex numbers."""
    if name in TABLED:
        return TABLED[name]
    rows = [row for row in ROWS if row.primitive == name]
    smooth = sorted((row for row in rows if row.active and row.smooth is not None), key=_size)
    if not smooth:
        return (_constant(rows[0]),)
    chosen = [smooth[0], *[row for row in smooth if "complex" in row.name][:1]]
    chosen += [row for row in smooth if _size(row) <= FEW]
    return [_smooth(row) for row in dict.fromkeys(chosen)]


def primitives() -> frozenset[str]:
    """All primitives of `nacre.ops`, whatever this process has imported.

    The compiler's own primitives are none of them, because its passes insert them after all transformations.
    """
    for module in walk_packages(ops.__path__, f"{ops.__name__}."):
        import_module(module.name)
    return frozenset(name for name, p in registered().items() if p.type_rule.__module__.startswith("nacre.ops."))


PRIMITIVES = primitives()
OPERATIONS = sorted(PRIMITIVES - FLOW.keys())
CONTROL = tuple(FLOW)
