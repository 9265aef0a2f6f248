"""Rows of complex operations: their operands and results are real numbers, with the parts along a last axis of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre.base.dtypes import complex64, complex128
from nacre.ops import dot, parts, reduce
from nacre.ops import pointwise as pw
from ops import samples
from ops.row import SINGLE, Inputs, Row, normal, shaped
from ops.samples import Array, Arrays

S = (5, 3)  # the shape of complex operands
P = (*S, 2)
LONG = 1e6  # units in the last place: a part may be small beside the other


def joined(x: Array) -> Array:
    """Complex numbers in higher precision from their parts."""
    wide = x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    return wide[..., 0] + 1j * wide[..., 1]


def apart(z: Array, like: Array) -> Array:
    """The parts along a last axis, in a dtype."""
    return np.stack((z.real, z.imag), axis=-1).astype(like.dtype)


def away(shapes: Sequence[Sequence[int]]) -> Callable[[np.random.Generator], Arrays]:
    """Smooth operands: numbers of moderate size, away from the axes, where there are zeros and cuts."""

    def make(rng: np.random.Generator) -> Arrays:
        return tuple(rng.uniform(0.3, 0.9, s) * rng.choice([-1.0, 1.0], s) for s in shapes)

    return make


def of_complex(
    name: str,
    f: Any,
    reference: Any,
    count: int = 1,
    ulps: float = LONG,
    shapes: Sequence[Sequence[int]] = (),
    result: str = "complex",
) -> Row:
    """A row of a function of complex numbers; `result` says whether it is complex, real or a truth value."""
    shapes = shapes or (P,) * count

    def apply(*xs: Any) -> Any:
        y = f(*map(parts.as_complex, xs))
        return parts.as_real(y) if result == "complex" else y

    def expected(*xs: Array) -> Array:
        with np.errstate(all="ignore"):
            y = np.asarray(reference(*map(joined, xs)))
        if result == "truth":
            return y
        return apart(y, xs[0]) if result == "complex" else y.astype(xs[0].dtype)

    active = () if result == "truth" else tuple(range(len(shapes)))
    return Row(name, apply, expected, shaped(*shapes), SINGLE, ulps, active, away(shapes) if active else None)


def sign(z: Array) -> Array:
    """z / |z|."""
    return z / np.abs(z)


PARTS = [
    Row("complex", lambda x, y: parts.as_real(parts.complex_(x, y)), lambda x, y: np.stack((x, y), -1), shaped(S, S),
        SINGLE, 0, (0, 1), normal(S, S)),
    of_complex("real", parts.real, np.real, ulps=0, result="real"),
    of_complex("imag", parts.imag, np.imag, ulps=0, result="real"),
    of_complex("conj", parts.conj, np.conj, ulps=0),
    Row("from_real", lambda x: parts.as_real(parts.from_real(x)), lambda x: np.stack((x, 0 * x), -1) + 0, shaped(S),
        SINGLE, 0, (0,), normal(S)),
    Row("from_imag", lambda x: parts.as_real(parts.from_imag(x)), lambda x: np.stack((0 * x, x), -1) + 0, shaped(S),
        SINGLE, 0, (0,), normal(S)),
    Row("view_as_real", lambda x: parts.as_real(parts.complex_(x, x)), lambda x: np.stack((x, x), -1), shaped(S),
        SINGLE, 0, (0,), normal(S)),
    Row("view_as_complex", lambda x: parts.real(parts.as_complex(x)), lambda x: x[..., 0], shaped(P), SINGLE, 0, (0,),
        normal(P)),
]  # fmt: skip

ARITHMETIC = [
    of_complex("add-complex", pw.add, np.add, 2, 0.5),
    of_complex("sub-complex", pw.sub, np.subtract, 2, 0.5),
    of_complex("mul-complex", pw.mul, np.multiply, 2),
    of_complex("div-complex", pw.div, np.divide, 2),
    of_complex("fma-complex", pw.fma, lambda a, b, c: a * b + c, 3),
    of_complex("neg-complex", pw.neg, np.negative, ulps=0),
    of_complex("modulus", pw.modulus, np.abs, ulps=1, result="real"),
    of_complex("direction", pw.direction, sign, ulps=4),
    of_complex("eq-complex", pw.eq, np.equal, 2, 0, result="truth"),
    of_complex("ne-complex", pw.ne, np.not_equal, 2, 0, result="truth"),
    of_complex("isnan-complex", pw.isnan, np.isnan, ulps=0, result="truth"),
    of_complex("isinf-complex", pw.isinf, np.isinf, ulps=0, result="truth"),
    of_complex("isfinite-complex", pw.isfinite, np.isfinite, ulps=0, result="truth"),
    of_complex("pow-complex", pw.pow_, np.power, 2),
]  # fmt: skip

CASTS = [
    Row(
        f"cast-{target.short}",
        lambda x, target=target: parts.as_real(pw.cast(parts.as_complex(x), target)),
        lambda x, target=target: x.astype(target.real.numpy),
        shaped(P),
        SINGLE,
        0,
        (0,),
        normal(P) if target is complex128 else None,
    )
    for target in (complex64, complex128)
]

ELEMENTARY = [
    of_complex(f"{name}-complex", f, reference)
    for name, f, reference in (
        ("sqrt", pw.sqrt, np.sqrt),
        ("rsqrt", pw.rsqrt, lambda z: 1 / np.sqrt(z)),
        ("exp", pw.exp, np.exp),
        ("exp2", pw.exp2, lambda z: np.exp(z * np.log(np.longdouble(2)))),
        ("expm1", pw.expm1, lambda z: np.exp(z) - 1),
        ("log", pw.log, np.log),
        ("log2", pw.log2, lambda z: np.log(z) / np.log(np.longdouble(2))),
        ("log10", pw.log10, lambda z: np.log(z) / np.log(np.longdouble(10))),
        ("log1p", pw.log1p, lambda z: np.log(1 + z)),
        ("sigmoid", pw.sigmoid, lambda z: 1 / (1 + np.exp(-z))),
        ("sin", pw.sin, np.sin),
        ("cos", pw.cos, np.cos),
        ("tan", pw.tan, np.tan),
        ("asin", pw.asin, np.arcsin),
        ("acos", pw.acos, np.arccos),
        ("atan", pw.atan, np.arctan),
        ("sinh", pw.sinh, np.sinh),
        ("cosh", pw.cosh, np.cosh),
        ("tanh", pw.tanh, np.tanh),
        ("asinh", pw.asinh, np.arcsinh),
        ("acosh", pw.acosh, np.arccosh),
        ("atanh", pw.atanh, np.arctanh),
    )
]


def _along(axis: int) -> Inputs:
    return lambda dtype, rng: [(samples.random(dtype, shape, rng),) for shape in (P, (33, 5, 2), (4, 0, 2))]


def reduced(name: str, f: Any, reference: Any, axis: int) -> Row:
    """A row of a reduction or a scan along an axis."""
    whole = of_complex(name, f, lambda z: reference(z, axis=axis))
    return Row(name, whole.apply, whole.reference, _along(axis), SINGLE, LONG, (0,), away((P,)))


REDUCTIONS = [
    *(reduced(f"sum-complex-{k}", lambda z, k=k: reduce.sum_(z, (k,)), np.sum, k) for k in (0, 1)),
    *(reduced(f"cumsum-complex-{k}", lambda z, k=k: reduce.cumsum(z, k), np.cumsum, k) for k in (0, 1)),
    *(reduced(f"cumprod-complex-{k}", lambda z, k=k: reduce.cumprod(z, k), np.cumprod, k) for k in (0, 1)),
    *(reduced(f"mul-complex-prod-{k}", lambda z, k=k: reduce.prod(z, (k,)), np.prod, k) for k in (0, 1)),
]


def product(name: str, subscripts: str, shapes: Sequence[Sequence[int]], contract: Any, batch: Any = ((), ())) -> Row:
    """A row of a product of complex tensors."""
    return of_complex(
        name,
        lambda a, b: dot.dot(a, b, contract, batch),
        lambda a, b: np.einsum(subscripts, a, b),
        shapes=shapes,
    )


PRODUCTS = [
    product("dot-complex", "ij,jk->ik", ((5, 7, 2), (7, 4, 2)), ((1,), (0,))),
    product("dot-complex-row", "j,jk->k", ((7, 2), (7, 4, 2)), ((0,), (0,))),
    product("dot-complex-column", "ij,j->i", ((5, 7, 2), (7, 2)), ((1,), (0,))),
    product("dot-complex-batch", "bij,bjk->bik", ((3, 5, 6, 2), (3, 6, 4, 2)), ((2,), (1,)), ((0,), (0,))),
    product("dot-complex-two", "ijk,kjl->il", ((4, 3, 2, 2), (2, 3, 5, 2)), ((1, 2), (1, 0))),
]

ROWS = [*PARTS, *ARITHMETIC, *ELEMENTARY, *REDUCTIONS, *PRODUCTS]
