"""Rows of the elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from nacre.base.conversion import rounded
from nacre.base.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    SIGNED,
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from nacre.ops import pointwise as pw
from ops import references as ref
from ops import samples
from ops.row import NUMBERS, ORDERED, Inputs, Row, apart, normal, shaped, uniform
from ops.samples import Arrays

LOGICAL = (bool_, *INTEGERS)
Smooth = Callable[[np.random.Generator], Arrays]
S = (5, 3)  # the shape of smooth operands


def operands(count: int) -> Inputs:
    """Operands of one type with all edge cases."""
    return lambda dtype, rng: samples.pointwise(dtype, count, rng)


def unary(
    name: str,
    apply: Any,
    reference: Any,
    dtypes: Sequence[DType] = FLOATS,
    ulps: float = 0,
    smooth: Smooth | None = None,
) -> Row:
    """A row of an operation on one operand."""
    return Row(name, apply, reference, operands(1), tuple(dtypes), ulps, (0,) if smooth else (), smooth)


def elementary(name: str, apply: Any, reference: Any, smooth: Smooth, ulps: float = 2) -> Row:
    """A row of an elementary function, whose reference is NumPy's function in higher precision."""
    return unary(name, apply, ref.in_more_precision(reference), ulps=ulps, smooth=smooth)


def binary(
    name: str,
    apply: Any,
    reference: Any,
    dtypes: Sequence[DType],
    smooth: Smooth | None = None,
    ulps: float = 0,
    active: tuple[int, ...] = (0, 1),
) -> Row:
    """A row of an operation on two operands of one type."""
    return Row(name, apply, reference, operands(2), tuple(dtypes), ulps, active if smooth else (), smooth)


TWO = normal(S, S)
AWAY = uniform(0.6, 2.4, S)  # from zero, and from whole and half numbers' neighbourhood only by chance
POSITIVE = uniform(0.5, 3.0, S)
INSIDE = uniform(-0.9, 0.9, S)
SIGNED_AWAY = uniform(-2.4, -0.3, S)

ARITHMETIC = [
    binary("add", pw.add, ref.rounded_once(np.add), NUMBERS, TWO),
    binary("sub", pw.sub, ref.rounded_once(np.subtract), NUMBERS, TWO),
    binary("mul", pw.mul, ref.rounded_once(np.multiply), NUMBERS, TWO),
    binary("div", pw.div, ref.rounded_once(np.divide), FLOATS, uniform(0.5, 2.0, S, S)),
    binary("idiv", pw.idiv, ref.divide_integers, INTEGERS),
    binary("rem", pw.rem, ref.remainder, NUMBERS, lambda rng: (rng.uniform(2.1, 2.4, S), rng.uniform(0.95, 1.0, S))),
    Row("fma", pw.fma, ref.fused, operands(3), NUMBERS, 0, (0, 1, 2), normal(S, S, S)),
    unary("neg", pw.neg, np.negative, NUMBERS, smooth=normal(S)),
    unary("abs", pw.abs_, np.abs, NUMBERS, smooth=SIGNED_AWAY),
    unary("sign", pw.sign, ref.sign, NUMBERS, smooth=AWAY),
    unary("floor", pw.floor, ref.rounded_once(np.floor), FLOATS),
    unary("ceil", pw.ceil, ref.rounded_once(np.ceil), FLOATS),
    unary("trunc", pw.trunc, ref.rounded_once(np.trunc), FLOATS),
    unary("round", pw.round_, ref.rounded_once(np.rint), FLOATS),
    binary("minimum", pw.minimum, ref.smaller, ORDERED, apart(S, S)),
    binary("maximum", pw.maximum, ref.larger, ORDERED, apart(S, S)),
    binary(
        "copysign",
        pw.copysign,
        lambda x, s: np.where(np.signbit(s), -np.abs(x), np.abs(x)),
        FLOATS,
        uniform(0.5, 2.0, S, S),
        active=(0,),
    ),
]

ROOTS = [
    unary("sqrt", pw.sqrt, ref.rounded_once(np.sqrt), smooth=POSITIVE),
    elementary("rsqrt", pw.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE),
    elementary("cbrt", pw.cbrt, np.cbrt, SIGNED_AWAY),
    binary("pow", pw.pow_, ref.in_more_precision(np.power), FLOATS, uniform(0.5, 2.0, S, S), ulps=2),
]

EXPONENTIALS = [
    elementary("exp", pw.exp, np.exp, normal(S)),
    elementary("exp2", pw.exp2, np.exp2, normal(S)),
    elementary("expm1", pw.expm1, np.expm1, normal(S)),
    elementary("log", pw.log, np.log, POSITIVE),
    elementary("log2", pw.log2, np.log2, POSITIVE),
    elementary("log10", pw.log10, np.log10, POSITIVE),
    elementary("log1p", pw.log1p, np.log1p, POSITIVE),
    elementary("sigmoid", pw.sigmoid, lambda x: 1 / (1 + np.exp(-x)), normal(S), ulps=2.5),
]

CIRCULAR = [
    elementary("sin", pw.sin, np.sin, normal(S)),
    elementary("cos", pw.cos, np.cos, normal(S)),
    elementary("tan", pw.tan, np.tan, INSIDE),
    elementary("asin", pw.asin, np.arcsin, INSIDE),
    elementary("acos", pw.acos, np.arccos, INSIDE),
    elementary("atan", pw.atan, np.arctan, normal(S)),
    binary(
        "atan2",
        pw.atan2,
        ref.in_more_precision(np.arctan2),
        FLOATS,
        uniform(0.5, 2.0, S, S),
        ulps=2,
    ),
    elementary("sinh", pw.sinh, np.sinh, normal(S)),
    elementary("cosh", pw.cosh, np.cosh, normal(S)),
    elementary("tanh", pw.tanh, np.tanh, normal(S)),
    elementary("asinh", pw.asinh, np.arcsinh, normal(S)),
    elementary("acosh", pw.acosh, np.arccosh, uniform(1.2, 3.0, S)),
    elementary("atanh", pw.atanh, np.arctanh, INSIDE),
]


def few(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    """Edge cases and a few numbers, for references that are slow."""
    return [(samples.edges(dtype),), (samples.random(dtype, (40,), rng, 3.0),)]


ERROR_FUNCTION = [
    Row("erf", pw.erf, ref.by_mpmath(mpmath.erf), few, FLOATS, 2, (0,), normal(S)),
    Row("erfc", pw.erfc, ref.by_mpmath(mpmath.erfc), few, FLOATS, 2, (0,), normal(S)),
]

COMPARISON = [
    *(
        binary(name, f, reference, ORDERED)
        for name, f, reference in (
            ("eq", pw.eq, np.equal),
            ("ne", pw.ne, np.not_equal),
            ("lt", pw.lt, np.less),
            ("le", pw.le, np.less_equal),
            ("gt", pw.gt, np.greater),
            ("ge", pw.ge, np.greater_equal),
        )
    ),
    unary("isnan", pw.isnan, np.isnan),
    unary("isinf", pw.isinf, np.isinf),
    unary("isfinite", pw.isfinite, np.isfinite),
    binary("and", pw.and_, np.bitwise_and, LOGICAL),
    binary("or", pw.or_, np.bitwise_or, LOGICAL),
    binary("xor", pw.xor, np.bitwise_xor, LOGICAL),
    unary("not", pw.not_, np.invert, LOGICAL),
    binary("shl", pw.shl, ref.shift_left, INTEGERS),
    binary("shr", pw.shr, ref.shift_right, INTEGERS),
]


def choices(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    """Conditions and two branches."""
    return [tuple(samples.random(d, shape, rng) for d in (bool_, dtype, dtype)) for shape in ((40,), (3, 5), (), (0,))]


def smooth_choice(rng: np.random.Generator) -> Arrays:
    return rng.random(S) < 0.5, rng.normal(size=S), rng.normal(size=S)


def conversion(target: DType, dtypes: Sequence[DType]) -> Row:
    """A row of conversions to a dtype; from float64 to half types other libraries round twice."""

    def inputs(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        if target.is_float and target.bits == 16 and dtype.is_integer:
            return [(samples.random(dtype, (50,), rng) % 100,)]
        return samples.pointwise(dtype, 1, rng)

    floats = [d for d in dtypes if d.is_float]
    name = "cast" if target.is_float else "truncate"
    return Row(
        f"{name}-{target.short}",
        lambda x: pw.cast(x, target),
        lambda x: ref.convert(x, target),
        inputs,
        tuple(dtypes),
        float(target.is_float and target.bits == 16),
        (0,) if target is float64 else (),
        normal(S) if target is float64 and floats else None,
    )


def storage(target: DType) -> Row:
    """A row of floats rounded to a storage dtype, whose numbers are read back as float32."""
    return Row(
        f"store-{target.short}",
        lambda x: pw.cast(pw.cast(x, target), float32),
        lambda x: rounded(x.astype(np.float64), target).astype(np.float32),
        operands(1),
        FLOATS,
    )


def same_bits(target: DType, dtypes: Sequence[DType]) -> Row:
    """A row of reinterpretations as a dtype."""
    return Row(
        f"bitcast-{target.short}",
        lambda x: pw.bitcast(x, target),
        lambda x: x.view(target.numpy),
        operands(1),
        tuple(dtypes),
    )


CHOICE = [Row("select", pw.select, np.where, choices, ALL, 0, (1, 2), smooth_choice)]
CONVERSION = [
    conversion(float64, [d for d in ORDERED if d is not float64]),
    conversion(float32, [d for d in ORDERED if d is not float32]),
    conversion(float16, [d for d in ORDERED if d is not float16]),
    conversion(bfloat16, [d for d in ORDERED if d is not bfloat16]),
    *(conversion(d, FLOATS) for d in (bool_, *INTEGERS)),
    Row(
        "cast-integers",
        lambda x: pw.cast(x, int32),
        lambda x: x.astype(np.int32),
        operands(1),
        tuple(d for d in INTEGERS if d is not int32),
    ),
    Row("cast-bool", lambda x: pw.cast(x, bool_), lambda x: x != 0, operands(1), INTEGERS),
    Row(
        "cast-u8",
        lambda x: pw.cast(x, uint8),
        lambda x: x.astype(np.uint8),
        operands(1),
        (bool_, *SIGNED),
    ),
    storage(float8_e4m3fn),
    storage(float8_e5m2),
    storage(float4_e2m1fn),
    same_bits(int32, (float32,)),
    same_bits(float32, (int32,)),
    same_bits(int64, (float64,)),
]


def constant(value: float) -> Row:
    """A row of a tensor of one number."""
    return Row(
        f"fill-{value}",
        lambda x: pw.full_like(x, value),
        lambda x: np.full_like(x, value),
        shaped((3, 4)),
        NUMBERS if value == 3 else FLOATS,
    )


CONSTANTS = [
    *map(constant, (3, 0.1, -0.0, float("nan"), float("inf"))),
    *(
        Row(
            f"iota-{axis}",
            lambda x, axis=axis: pw.iota(x.type.shape, axis, x.type.dtype),
            lambda x, axis=axis: np.broadcast_to(
                np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)]),
                x.shape,
            ).astype(x.dtype),
            shaped((5, 20)),
            NUMBERS,
        )
        for axis in (0, 1)
    ),
    Row(
        "dimension",
        lambda x: pw.dimension(x.type.shape[1]),
        lambda x: np.array(x.shape[1]),
        shaped((5, 20)),
        (float32,),
    ),
]

ROWS = [
    *ARITHMETIC,
    *ROOTS,
    *EXPONENTIALS,
    *CIRCULAR,
    *ERROR_FUNCTION,
    *COMPARISON,
    *CHOICE,
    *CONVERSION,
    *CONSTANTS,
]
