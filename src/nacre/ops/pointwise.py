# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Elementwise primitives: arithmetic, elementary functions, comparison, logic, conversion and constants.

A definition is one line: the kernel IR's operation, the dtypes it accepts, and its derivative.  Partial
derivatives are functions of the result y and the operands, written with the functions of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log as _log
from math import nan, pi
from math import sqrt as _sqrt
from typing import Any

from nacre.base.conversion import Number, element, fits, number
from nacre.base.dims import Size
from nacre.base.dtypes import (
    ANY,
    BITWISE,
    FLOATING,
    INEXACT,
    INTEGRAL,
    NUMERIC,
    ORDERED,
    REAL,
    STORED,
    STORED_FLOATS,
    DType,
    bool_,
    int64,
)
from nacre.base.errors import DTypeError
from nacre.base.types import Shape, TensorType
from nacre.ir.axes import AxisRule, Needs, Run
from nacre.ir.facts import Facts, same_type, times_one
from nacre.ir.graph import Atom, Equation
from nacre.ir.primitive import (
    SINGLE,
    Derivative,
    Element,
    Jvp,
    Linear,
    Multilinear,
    Pointwise,
    Primitive,
)
from nacre.kernel.ast import Apply, Const, size_expr
from nacre.kernel.ast import cast as convert
from nacre.ops.elementwise import (
    CONSTANT,
    DIVISION_COST,
    ELEMENTARY_COST,
    binary,
    element_of,
    elementary,
    lined_up,
    of_one,
    of_two,
    pointwise_primitive,
    ternary,
    unary,
)
from nacre.ops.parts import PAIRED, complex_, conj, from_real, real
from nacre.ops.rules import require_axis, require_kind, require_same, require_shape, without_derivative
from nacre.trace.bind import bind
from nacre.trace.value import Value

# ---- constants


def fill(value: Number, shape: Shape, dtype: DType) -> Value:
    """A tensor of one number."""
    value = number(value, dtype, "fill")
    if dtype.component is not None:
        parts = complex(value)
        return complex_(fill(parts.real, shape, dtype.component), fill(parts.imag, shape, dtype.component))
    if dtype.is_float:
        if value == 0 and str(value) == "-0.0":  # parameters are compared by ==, which does not distinguish it from 0
            return neg(fill(0.0, shape, dtype))
        value = nan if value != value else value  # one object, because NaN is not == NaN
    elif dtype in STORED:
        return _stored(value, shape, dtype)
    return bind(fill_p, value=value, shape=tuple(shape), dtype=dtype)


def _stored(value: Number, shape: Shape, dtype: DType) -> Value:
    """A tensor of one number of a storage dtype, as which the number is rounded once."""
    return cast(fill(element(value, dtype).astype(dtype.number.numpy).item(), shape, dtype.number), dtype)


def _fill_type(value: Number, shape: Shape, dtype: DType) -> TensorType:
    kind = dtype.python
    if dtype in STORED or type(value) is not kind or (dtype.is_integer and not fits(value, dtype)):
        raise DTypeError(f"fill: the value must be a {kind.__name__} that fits {dtype.name}; got {value!r}")
    return TensorType(shape, dtype)


def _filled(e: Equation, run: Run) -> Needs | None:
    """All slices of a run are equal, except along the axis whose index the elements are."""
    return None if "axis" in e.params and run[0] <= e.params["axis"] < run[1] else ()


fill_p = Primitive(
    "fill",
    _fill_type,
    Element(lambda index, operands, types, result, value, shape, dtype: Const(value, dtype)),
    axes=AxisRule(_filled, is_free=True),
    is_one=lambda e, facts: e.params["value"] == 1,
)


def full_like(x: Value, value: Number) -> Value:
    """A tensor of one number with the type of x."""
    return fill(value, x.type.shape, x.type.dtype)


def zeros_like(x: Any) -> Value:
    """Zeros of the type of x, which is a value or a `LinearInput`."""
    return fill(0, x.type.shape, x.type.dtype)


def iota(shape: Shape, axis: int, dtype: DType) -> Value:
    """The index along an axis (0, 1, 2 …) at every element."""
    if dtype.component is not None:
        return from_real(iota(shape, axis, dtype.component))
    return bind(iota_p, shape=tuple(shape), axis=axis, dtype=dtype)


def _iota_type(shape: Shape, axis: int, dtype: DType) -> TensorType:
    result = TensorType(shape, dtype)
    require_kind("iota", result, REAL)
    require_axis("iota", axis, result)
    return result


iota_p = Primitive(
    "iota",
    _iota_type,
    Element(lambda index, operands, types, result, shape, axis, dtype: convert(index[axis], dtype)),
    axes=AxisRule(_filled, is_free=True),
)


def dimension(size: Size) -> Value:
    """A size, symbolic or not, as an int64 number at run time."""
    return bind(dimension_p, size=size)


def _dimension_type(size: Size) -> TensorType:
    return TensorType((), int64)


dimension_p = Primitive(
    "dimension",
    _dimension_type,
    Element(lambda index, operands, types, result, size: size_expr(size)),
)

# ---- conversion


def cast(x: Value, dtype: DType) -> Value:
    """Convert to another dtype.

    Floats round to nearest even.  Floats converted to integers saturate, and NaN gives 0.  Integers wrap.  Complex
    numbers are converted to complex dtypes, and to bool as `z != 0`.
    """
    held = x.type.dtype
    if held is dtype:
        return x
    if dtype.is_bool and held.is_complex:
        return ne(x, zeros_like(x))
    if dtype.component is not None and held.component is None:
        return from_real(cast(x, dtype.component))
    if held.is_inexact and not dtype.is_inexact:
        return bind(store_p if dtype in STORED_FLOATS else truncate_p, x, dtype=dtype)
    return bind(cast_p, x, dtype=dtype)


def _cast_type(x: TensorType, dtype: DType) -> TensorType:
    if x.dtype.components != dtype.components:
        remedy = "take its real part" if x.dtype.is_complex else "join it with an imaginary part"
        raise DTypeError(f"cast: real and complex numbers must not be converted; got {x} for {dtype.name}; {remedy}")
    return x.with_dtype(dtype)


def _cast(name: str, derivative: Derivative) -> Primitive:
    primitive = Primitive(
        name,
        _cast_type,
        Element(lambda index, operands, types, result, dtype: convert(operands[0](index), dtype)),
        derivative,
        lined_up(lambda: primitive),
        simplify=same_type,
        converts=True,
    )
    return primitive


cast_p = _cast("cast", Linear((lambda g, x, dtype: cast(g, x.type.dtype),)))
truncate_p = _cast("truncate", CONSTANT)  # from floats to integers or bool, whose derivative is zero
store_p = _cast(  # from floats to stored ones
    "store",
    without_derivative(
        "astype", "gradients are not stored in 8 bits or fewer", "write x.detach().astype(dtype) to store its numbers"
    ),
)


def bitcast(x: Value, dtype: DType) -> Value:
    """The same bits read as another dtype of equal width."""
    return x if x.type.dtype is dtype else bind(bitcast_p, x, dtype=dtype)


def _bitcast_type(x: TensorType, dtype: DType) -> TensorType:
    if x.dtype.bits != dtype.bits or x.dtype.is_complex or dtype.is_complex:
        raise DTypeError(f"bitcast: the dtype for {x} must have {x.dtype.bits} bits; got {dtype.name}")
    return x.with_dtype(dtype)


bitcast_p = Primitive(
    "bitcast",
    _bitcast_type,
    Element(lambda index, operands, types, result, dtype: Apply("bitcast", (operands[0](index),), dtype)),
    CONSTANT,
    lined_up(lambda: bitcast_p),
)

# ---- arithmetic

add_p = pointwise_primitive(
    "add", NUMERIC, Linear((lambda g, x, y: g, lambda g, x, y: g), alone=(lambda t: t, lambda t: t))
)
add = of_two(add_p)
sub = binary("sub", NUMERIC, Linear((lambda g, x, y: g, lambda g, x, y: neg(g)), alone=(lambda t: t, lambda t: neg(t))))
neg = unary("neg", NUMERIC, Linear((lambda g, x: neg(g),)))


def _factor(e: Equation, facts: Facts) -> Atom | Equation:
    """The other factor of a product with ones."""
    found = times_one(e, facts)
    return e.inputs[1] if found is e and facts.is_one(e.inputs[0]) else found


mul = binary("mul", NUMERIC, Multilinear((lambda g, x, y: mul(g, y), lambda g, x, y: mul(x, g))), simplify=_factor)
div = binary(
    "div",
    INEXACT,
    Pointwise(
        (
            lambda q, x, y: reciprocal(y),
            lambda q, x, y: neg(div(q, y)),
        ),
        linear=(0,),
    ),
    DIVISION_COST,
    simplify=times_one,
)
idiv = binary("idiv", INTEGRAL, CONSTANT, DIVISION_COST)
rem = binary(  # with the sign of x; exact for floats, too
    "rem",
    REAL,
    Pointwise((lambda r, x, y: full_like(x, 1), lambda r, x, y: neg(round_(div(sub(x, r), y))))),
    2 * DIVISION_COST,
)


def reciprocal(x: Value) -> Value:
    """1 / x."""
    return div(full_like(x, 1), x)


def scale(x: Value, factor: float) -> Value:
    """x times a number."""
    return mul(x, full_like(x, factor))


def _fma_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value | None]) -> Value:
    (a, b, _), (ta, tb, tc) = xs, ts
    by_a = None if ta is None else mul(ta, b)
    by_b = None if tb is None else mul(a, tb)
    terms = [t for t in (by_a, by_b, tc) if t is not None]
    total = terms[0]
    for t in terms[1:]:
        total = add(total, t)
    return total


fma = ternary("fma", NUMERIC, Jvp(_fma_tangent))

# ---- signs, rounding, extrema

abs_ = unary("abs", REAL, Pointwise((lambda y, x: sign(x),)))
sign = unary("sign", REAL, CONSTANT)


def _direction_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value]) -> Value:
    """The part of the tangent that turns z: (t − y·Re(conj(y)·t)) / |z|."""
    along = from_real(real(mul(conj(y), ts[0])))
    return _over_length(sub(ts[0], mul(y, along)), xs[0])


def _over_length(t: Value, z: Value) -> Value:
    """t / |z|, and 0 at the origin."""
    length, origin = from_real(modulus(z)), eq(z, zeros_like(z))
    return select(origin, zeros_like(t), div(t, select(origin, full_like(length, 1), length)))


def _modulus_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value]) -> Value:
    """The part of the tangent along z."""
    return real(mul(conj(direction(xs[0])), ts[0]))


direction = of_one(  # z/|z| of complex numbers, and 0 at the origin
    pointwise_primitive("direction", PAIRED, Jvp(_direction_tangent), 2 * DIVISION_COST, op="sign")
)
modulus = unary("modulus", PAIRED, Jvp(_modulus_tangent), 2 * DIVISION_COST)  # |z| of complex numbers

floor = unary("floor", REAL, CONSTANT)
ceil = unary("ceil", REAL, CONSTANT)
trunc = unary("trunc", REAL, CONSTANT)
round_ = unary("round", REAL, CONSTANT)
copysign = binary(
    "copysign",
    FLOATING,
    Pointwise(
        (
            lambda y, x, s: mul(copysign(full_like(x, 1), x), copysign(full_like(x, 1), s)),
            None,
        )
    ),
)


def _wins(first: Value, second: Value) -> Value:
    """1 where `first < second`, 1/2 where they are equal, else 0: ties share the gradient."""
    half, one, zero = (full_like(first, v) for v in (0.5, 1, 0))
    return select(eq(first, second), half, select(lt(first, second), one, zero))


minimum = binary("minimum", ORDERED, Pointwise((lambda m, x, y: _wins(x, y), lambda m, x, y: _wins(y, x))))
maximum = binary("maximum", ORDERED, Pointwise((lambda m, x, y: _wins(y, x), lambda m, x, y: _wins(x, y))))

# ---- powers and roots

sqrt = unary("sqrt", INEXACT, Pointwise((lambda y, x: div(full_like(y, 0.5), y),)), DIVISION_COST)
rsqrt = unary(
    "rsqrt", INEXACT, Pointwise((lambda y, x: scale(mul(y, mul(y, y)), -0.5),)), 2 * DIVISION_COST, precision=SINGLE
)
cbrt = elementary("cbrt", lambda y, x: reciprocal(scale(mul(y, y), 3)), FLOATING)


def _by_base(y: Value, x: Value, n: Value) -> Value:
    """n·x^(n-1), and 0 for n = 0 and every x; its derivative by n is right at n = 0 too, unless 1/x is not finite."""
    less, zero = sub(n, full_like(n, 1)), zeros_like(n)
    return mul(n, pow_(x, select(isfinite(reciprocal(x)), less, select(eq(n, zero), zero, less))))


def _by_exponent(y: Value, x: Value, n: Value) -> Value:
    """y·log x, and its limit 0 for x = 0, n >= 0."""
    zero = zeros_like(x)
    limit = eq(x, zero) if n.type.dtype.is_complex else and_(eq(x, zero), ge(n, zero))
    return mul(y, log(select(limit, full_like(x, 1), x)))


pow_ = binary("pow", INEXACT, Pointwise((_by_base, _by_exponent)), 2 * ELEMENTARY_COST, precision=SINGLE)

# ---- exponentials and logarithms

exp_p = pointwise_primitive("exp", INEXACT, Pointwise((lambda y, x: y,)), ELEMENTARY_COST, precision=SINGLE)
exp = of_one(exp_p)
exp2 = elementary("exp2", lambda y, x: scale(y, _log(2)), precision=SINGLE)
expm1 = elementary("expm1", lambda y, x: exp(x), precision=SINGLE)
log = elementary("log", lambda y, x: reciprocal(x), precision=SINGLE)
log2 = elementary("log2", lambda y, x: reciprocal(scale(x, _log(2))), precision=SINGLE)
log10 = elementary("log10", lambda y, x: reciprocal(scale(x, _log(10))), precision=SINGLE)
log1p = elementary("log1p", lambda y, x: reciprocal(_one_plus(x)), precision=SINGLE)
sigmoid = elementary("sigmoid", lambda y, x: mul(y, sigmoid(neg(x))))


def _one_plus(x: Value) -> Value:
    return add(full_like(x, 1), x)


def _one_minus(x: Value) -> Value:
    return sub(full_like(x, 1), x)


def _square_plus_one(x: Value) -> Value:
    return fma(x, x, full_like(x, 1))


def _one_minus_square(x: Value) -> Value:
    """(1 - x)(1 + x), which does not cancel near 1."""
    return mul(_one_minus(x), _one_plus(x))


# ---- trigonometric and hyperbolic functions and their inverses

sin = elementary("sin", lambda y, x: cos(x))
cos = elementary("cos", lambda y, x: neg(sin(x)))
tan = elementary("tan", lambda y, x: _square_plus_one(y), precision=SINGLE)
asin = elementary("asin", lambda y, x: rsqrt(_one_minus_square(x)), precision=SINGLE)
acos = elementary("acos", lambda y, x: neg(rsqrt(_one_minus_square(x))), precision=SINGLE)
atan = elementary("atan", lambda y, x: reciprocal(_square_plus_one(x)))
sinh = elementary("sinh", lambda y, x: cosh(x), precision=SINGLE)
cosh = elementary("cosh", lambda y, x: sinh(x), precision=SINGLE)
tanh = elementary("tanh", lambda y, x: _one_minus_square(y))
asinh = elementary("asinh", lambda y, x: rsqrt(_square_plus_one(x)))
acosh = elementary("acosh", lambda y, x: mul(rsqrt(sub(x, full_like(x, 1))), rsqrt(_one_plus(x))), precision=SINGLE)
atanh = elementary("atanh", lambda y, x: reciprocal(_one_minus_square(x)), precision=SINGLE)


def _over_squared_length(part: Value, x: Value, y: Value) -> Value:
    """part / (x² + y²), scaled to avoid overflow and underflow, and 0 at the origin."""
    size, zero, one = maximum(abs_(x), abs_(y)), zeros_like(x), full_like(x, 1)
    origin = eq(size, zero)
    size = select(origin, one, size)
    length = select(origin, one, fma(x, div(x, size), mul(y, div(y, size))))
    return select(origin, zero, div(div(part, size), length))


atan2 = binary(
    "atan2",
    FLOATING,
    Pointwise(
        (
            lambda angle, y, x: _over_squared_length(x, x, y),
            lambda angle, y, x: neg(_over_squared_length(y, x, y)),
        )
    ),
    2 * ELEMENTARY_COST,
)

# ---- error function

erf = elementary("erf", lambda y, x: _erf_derivative(x), FLOATING)
erfc = elementary("erfc", lambda y, x: neg(_erf_derivative(x)), FLOATING, precision=SINGLE)


def _erf_derivative(x: Value) -> Value:
    """2/√π · exp(-x²)."""
    return scale(exp(neg(mul(x, x))), 2 / _sqrt(pi))


# ---- comparison, logic, choice

eq = binary("eq", ANY, CONSTANT)
ne = binary("ne", ANY, CONSTANT)
lt = binary("lt", ORDERED, CONSTANT)
le_p = pointwise_primitive("le", ORDERED, CONSTANT)
le = of_two(le_p)
gt = binary("gt", ORDERED, CONSTANT)
ge = binary("ge", ORDERED, CONSTANT)
isnan = unary("isnan", INEXACT, CONSTANT)
isinf = unary("isinf", INEXACT, CONSTANT)
isfinite = unary("isfinite", INEXACT, CONSTANT)
and_ = binary("and", BITWISE, CONSTANT)
or_ = binary("or", BITWISE, CONSTANT)
xor = binary("xor", BITWISE, CONSTANT)
not_ = unary("not", BITWISE, CONSTANT)
shl = binary("shl", INTEGRAL, CONSTANT)
shr = binary("shr", INTEGRAL, CONSTANT)


def select(condition: Value, yes: Value, no: Value) -> Value:
    """`yes` where the condition is true, else `no`; all have one shape."""
    return bind(select_p, condition, yes, no)


def _select_type(condition: TensorType, yes: TensorType, no: TensorType) -> TensorType:
    if condition.dtype is not bool_:
        raise DTypeError(f"select: the condition must have dtype bool; got {condition}; compare with 0 first")
    x = require_same("select", (yes, no))
    require_shape("select", "the condition", condition.shape, x.shape)
    return x


select_p = Primitive(
    "select",
    _select_type,
    Element(element_of("select"), op="select"),
    Linear(
        (
            None,
            lambda g, c, x, y: select(c, g, zeros_like(g)),
            lambda g, c, x, y: select(c, zeros_like(g), g),
        )
    ),
    lined_up(lambda: select_p),
)
