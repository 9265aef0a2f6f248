# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Elementwise primitives: arithmetic, elementary functions, comparison, logic, conversion and constants.

A definition is one line: the kernel IR's operation, the dtypes it accepts, and its derivative.  Partial
derivatives are functions of the result y and the operands, written with the functions of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log as _log
from math import nan, pi
from math import sqrt as _sqrt
from typing import Any

from nacre.base.conversion import Number, fits, number
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
    DType,
    DTypeSet,
    bool_,
    int64,
)
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.types import Shape, TensorType
from nacre.ir.axes import AxisRule, Needs, Run
from nacre.ir.facts import Facts, same_type, times_one
from nacre.ir.graph import Atom, Equation
from nacre.ir.primitive import (
    BatchRule,
    Constant,
    Derivative,
    Element,
    Jvp,
    Linear,
    Multilinear,
    Operand,
    Pointwise,
    Primitive,
)
from nacre.kernel.ast import OPERATIONS, Apply, Const, Expr, apply, size_expr
from nacre.kernel.ast import cast as convert
from nacre.ops.rules import require_axis, require_kind, require_same, require_shape
from nacre.ops.shape import line_up
from nacre.trace.bind import bind
from nacre.trace.value import Value

Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]
Ternary = Callable[[Value, Value, Value], Value]

CONSTANT = Constant()
DIVISION_COST, ELEMENTARY_COST = 8, 20  # instructions, roughly

# ---- construction of pointwise primitives


def _batch(primitive: Callable[[], Primitive]) -> BatchRule:
    def rule(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Value, int]:
        """Align the batch axes and apply the operation once."""
        lined, place = line_up(inputs, axes)
        return bind(primitive(), *lined, **params), place

    return rule


def _type_rule(name: str, accepted: DTypeSet) -> Callable[..., TensorType]:
    to_bool = OPERATIONS[name][1] in ("compare", "test")
    count = OPERATIONS[name][0]

    def rule(*types: TensorType) -> TensorType:
        """The operands' common type, or bool of its shape for predicates."""
        if len(types) != count:
            raise ArgumentError(f"{name}: the operation takes {count} operands; got {len(types)}")
        x = require_same(name, types)
        require_kind(name, x, accepted)
        return x.with_dtype(bool_) if to_bool else x

    return rule


def _element(name: str) -> Callable[..., Expr]:
    def rule(index: tuple[Expr, ...], operands: tuple[Operand, ...], types: Any, result: TensorType) -> Expr:
        """The operation on the operands' elements at the index."""
        return apply(name, *(operand(index) for operand in operands))

    return rule


def _primitive(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1, **traits: Any) -> Primitive:
    element = Element(_element(name), cost=cost, op=name)
    primitive = Primitive(name, _type_rule(name, accepted), element, derivative, _batch(lambda: primitive), **traits)
    return primitive


def _of_one(primitive: Primitive) -> Unary:
    return lambda x: bind(primitive, x)


def _of_two(primitive: Primitive) -> Binary:
    return lambda x, y: bind(primitive, x, y)


def _unary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1) -> Unary:
    return _of_one(_primitive(name, accepted, derivative, cost))


def _binary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1, **traits: Any) -> Binary:
    return _of_two(_primitive(name, accepted, derivative, cost, **traits))


def _ternary(name: str, accepted: DTypeSet, derivative: Derivative, cost: int = 1) -> Ternary:
    primitive = _primitive(name, accepted, derivative, cost)
    return lambda x, y, z: bind(primitive, x, y, z)


def _elementary(name: str, partial: Callable[[Value, Value], Value]) -> Unary:
    return _unary(name, FLOATING, Pointwise((partial,)), ELEMENTARY_COST)


# ---- constants


def fill(value: Number, shape: Shape, dtype: DType) -> Value:
    """A tensor of one number."""
    value = number(value, dtype, "fill")
    if dtype.is_float:
        if value == 0 and str(value) == "-0.0":  # parameters are compared by ==, which does not distinguish it from 0
            return neg(fill(0.0, shape, dtype))
        value = nan if value != value else value  # one object, because NaN is not == NaN
    return bind(fill_p, value=value, shape=tuple(shape), dtype=dtype)


def _fill_type(value: Number, shape: Shape, dtype: DType) -> TensorType:
    kind = dtype.python
    if type(value) is not kind or (dtype.is_integer and not fits(value, dtype)):
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
    return bind(iota_p, shape=tuple(shape), axis=axis, dtype=dtype)


def _iota_type(shape: Shape, axis: int, dtype: DType) -> TensorType:
    result = TensorType(shape, dtype)
    require_kind("iota", result, NUMERIC)
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

    Floats round to nearest even.  Floats converted to integers saturate, and NaN gives 0.  Integers wrap.
    """
    if x.type.dtype is dtype:
        return x
    return bind(truncate_p if x.type.dtype.is_inexact and not dtype.is_inexact else cast_p, x, dtype=dtype)


def _cast(name: str, derivative: Derivative) -> Primitive:
    primitive = Primitive(
        name,
        lambda x, dtype: x.with_dtype(dtype),
        Element(lambda index, operands, types, result, dtype: convert(operands[0](index), dtype)),
        derivative,
        _batch(lambda: primitive),
        simplify=same_type,
        converts=True,
    )
    return primitive


cast_p = _cast("cast", Linear((lambda g, x, dtype: cast(g, x.type.dtype),)))
truncate_p = _cast("truncate", CONSTANT)  # from floats to integers or bool, whose derivative is zero


def bitcast(x: Value, dtype: DType) -> Value:
    """The same bits read as another dtype of equal width."""
    return x if x.type.dtype is dtype else bind(bitcast_p, x, dtype=dtype)


def _bitcast_type(x: TensorType, dtype: DType) -> TensorType:
    if x.dtype.bits != dtype.bits:
        raise DTypeError(f"bitcast: the dtype for {x} must have {x.dtype.bits} bits; got {dtype.name}")
    return x.with_dtype(dtype)


bitcast_p = Primitive(
    "bitcast",
    _bitcast_type,
    Element(lambda index, operands, types, result, dtype: Apply("bitcast", (operands[0](index),), dtype)),
    CONSTANT,
    _batch(lambda: bitcast_p),
)

# ---- arithmetic

add_p = _primitive("add", NUMERIC, Linear((lambda g, x, y: g, lambda g, x, y: g), alone=(lambda t: t, lambda t: t)))
add = _of_two(add_p)
sub = _binary(
    "sub", NUMERIC, Linear((lambda g, x, y: g, lambda g, x, y: neg(g)), alone=(lambda t: t, lambda t: neg(t)))
)
neg = _unary("neg", NUMERIC, Linear((lambda g, x: neg(g),)))


def _factor(e: Equation, facts: Facts) -> Atom | Equation:
    """The other factor of a product with ones."""
    found = times_one(e, facts)
    return e.inputs[1] if found is e and facts.is_one(e.inputs[0]) else found


mul = _binary("mul", NUMERIC, Multilinear((lambda g, x, y: mul(g, y), lambda g, x, y: mul(x, g))), simplify=_factor)
div = _binary(
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
idiv = _binary("idiv", INTEGRAL, CONSTANT, DIVISION_COST)
rem = _binary(  # with the sign of x; exact for floats, too
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


fma = _ternary("fma", NUMERIC, Jvp(_fma_tangent))

# ---- signs, rounding, extrema

abs_ = _unary("abs", REAL, Pointwise((lambda y, x: sign(x),)))
sign = _unary("sign", REAL, CONSTANT)
floor = _unary("floor", REAL, CONSTANT)
ceil = _unary("ceil", REAL, CONSTANT)
trunc = _unary("trunc", REAL, CONSTANT)
round_ = _unary("round", REAL, CONSTANT)
copysign = _binary(
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


minimum = _binary("minimum", ORDERED, Pointwise((lambda m, x, y: _wins(x, y), lambda m, x, y: _wins(y, x))))
maximum = _binary("maximum", ORDERED, Pointwise((lambda m, x, y: _wins(y, x), lambda m, x, y: _wins(x, y))))

# ---- powers and roots

sqrt = _unary("sqrt", FLOATING, Pointwise((lambda y, x: div(full_like(y, 0.5), y),)), DIVISION_COST)
rsqrt = _unary("rsqrt", FLOATING, Pointwise((lambda y, x: scale(mul(y, mul(y, y)), -0.5),)), 2 * DIVISION_COST)
cbrt = _elementary("cbrt", lambda y, x: reciprocal(scale(mul(y, y), 3)))


def _by_base(y: Value, x: Value, n: Value) -> Value:
    """n·x^(n-1), and 0 for n = 0 and every x."""
    zero = zeros_like(n)
    return mul(n, pow_(x, select(eq(n, zero), zero, sub(n, full_like(n, 1)))))


def _by_exponent(y: Value, x: Value, n: Value) -> Value:
    """y·log x, and its limit 0 for x = 0, n >= 0."""
    zero = zeros_like(x)
    limit = and_(eq(x, zero), ge(n, zero))
    return mul(y, log(select(limit, full_like(x, 1), x)))


pow_ = _binary("pow", FLOATING, Pointwise((_by_base, _by_exponent)), 2 * ELEMENTARY_COST)

# ---- exponentials and logarithms

exp_p = _primitive("exp", FLOATING, Pointwise((lambda y, x: y,)), ELEMENTARY_COST)
exp = _of_one(exp_p)
exp2 = _elementary("exp2", lambda y, x: scale(y, _log(2)))
expm1 = _elementary("expm1", lambda y, x: exp(x))
log = _elementary("log", lambda y, x: reciprocal(x))
log2 = _elementary("log2", lambda y, x: reciprocal(scale(x, _log(2))))
log10 = _elementary("log10", lambda y, x: reciprocal(scale(x, _log(10))))
log1p = _elementary("log1p", lambda y, x: reciprocal(_one_plus(x)))
sigmoid = _elementary("sigmoid", lambda y, x: mul(y, sigmoid(neg(x))))


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

sin = _elementary("sin", lambda y, x: cos(x))
cos = _elementary("cos", lambda y, x: neg(sin(x)))
tan = _elementary("tan", lambda y, x: _square_plus_one(y))
asin = _elementary("asin", lambda y, x: rsqrt(_one_minus_square(x)))
acos = _elementary("acos", lambda y, x: neg(rsqrt(_one_minus_square(x))))
atan = _elementary("atan", lambda y, x: reciprocal(_square_plus_one(x)))
sinh = _elementary("sinh", lambda y, x: cosh(x))
cosh = _elementary("cosh", lambda y, x: sinh(x))
tanh = _elementary("tanh", lambda y, x: _one_minus_square(y))
asinh = _elementary("asinh", lambda y, x: rsqrt(_square_plus_one(x)))
acosh = _elementary("acosh", lambda y, x: mul(rsqrt(sub(x, full_like(x, 1))), rsqrt(_one_plus(x))))
atanh = _elementary("atanh", lambda y, x: reciprocal(_one_minus_square(x)))


def _over_squared_length(part: Value, x: Value, y: Value) -> Value:
    """part / (x² + y²), scaled to avoid overflow and underflow, and 0 at the origin."""
    size, zero, one = maximum(abs_(x), abs_(y)), zeros_like(x), full_like(x, 1)
    origin = eq(size, zero)
    size = select(origin, one, size)
    length = select(origin, one, fma(x, div(x, size), mul(y, div(y, size))))
    return select(origin, zero, div(div(part, size), length))


atan2 = _binary(
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

erf = _elementary("erf", lambda y, x: _erf_derivative(x))
erfc = _elementary("erfc", lambda y, x: neg(_erf_derivative(x)))


def _erf_derivative(x: Value) -> Value:
    """2/√π · exp(-x²)."""
    return scale(exp(neg(mul(x, x))), 2 / _sqrt(pi))


# ---- comparison, logic, choice

eq = _binary("eq", ANY, CONSTANT)
ne = _binary("ne", ANY, CONSTANT)
lt = _binary("lt", ORDERED, CONSTANT)
le_p = _primitive("le", ORDERED, CONSTANT)
le = _of_two(le_p)
gt = _binary("gt", ORDERED, CONSTANT)
ge = _binary("ge", ORDERED, CONSTANT)
isnan = _unary("isnan", INEXACT, CONSTANT)
isinf = _unary("isinf", INEXACT, CONSTANT)
isfinite = _unary("isfinite", INEXACT, CONSTANT)
and_ = _binary("and", BITWISE, CONSTANT)
or_ = _binary("or", BITWISE, CONSTANT)
xor = _binary("xor", BITWISE, CONSTANT)
not_ = _unary("not", BITWISE, CONSTANT)
shl = _binary("shl", INTEGRAL, CONSTANT)
shr = _binary("shr", INTEGRAL, CONSTANT)


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
    Element(_element("select"), op="select"),
    Linear(
        (
            None,
            lambda g, c, x, y: select(c, g, zeros_like(g)),
            lambda g, c, x, y: select(c, zeros_like(g), g),
        )
    ),
    _batch(lambda: select_p),
)
