"""Functions of `math` and NumPy that are operators, or few operations of kernel IR."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.ast import Const, apply, cast
from nacre.kernel.python import operators
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import TRUTH, WEAK_FLOAT, Scalar, ScalarType, common, converted, number, truth

Call = Callable[[Sequence[Scalar], ast.AST], Scalar]


def _counted(f: Callable[..., Scalar], count: int) -> Call:
    def checked(args: Sequence[Scalar], node: ast.AST) -> Scalar:
        """The function of as many numbers as it has."""
        if len(args) != count:
            raise Refused(node, f"the function must have {count} arguments", "pass as many", f"{len(args)}")
        return f(*args, node)

    return checked


def _operator(op: ast.operator) -> Call:
    def applied(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
        """The operator on two numbers."""
        return operators.binary(op, strong(a), b, node)

    return _counted(applied, 2)


def _comparison(op: ast.cmpop) -> Call:
    def applied(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
        """The comparison of two numbers."""
        return operators.compared(op, a, b, node)

    return _counted(applied, 2)


def _unary(op: ast.unaryop) -> Call:
    def applied(x: Scalar, node: ast.AST) -> Scalar:
        """The operator on a number."""
        return operators.unary(op, x, node)

    return _counted(applied, 1)


def strong(x: Scalar) -> Scalar:
    """A number that is not folded as one of Python, because NumPy's functions give NumPy's numbers."""
    return Scalar(x.expr, x.type, None, None, x.early)


def _logical(op: str) -> Call:
    def applied(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
        """An operation on the truth of two numbers."""
        return Scalar(apply(op, truth(a).expr, truth(b).expr), TRUTH)

    return _counted(applied, 2)


def _remainder(home: ScalarType | None) -> Call:
    def applied(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
        """C's remainder, with the sign of the first number."""
        type = home or common(a.type, b.type, node)
        if type.dtype.is_bool:
            raise Refused(node, "arithmetic must have numbers", "write int(x)", "two values of dtype bool")
        wide = _wide(type.dtype)
        x, y = (cast(converted(v, type, node).expr, wide) for v in (a, b))
        return Scalar(cast(apply("rem", x, y), type.dtype), type)

    return _counted(applied, 2)


def _wide(dtype: DType) -> DType:
    return float32 if dtype.is_float and dtype not in (float32, float64) else dtype


def _where(condition: Scalar, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    """One of two numbers; both are computed."""
    type = common(a.type, b.type, node)
    x, y = (converted(v, type, node).expr for v in (a, b))
    return Scalar(apply("select", truth(condition).expr, x, y), type)


def _clip(x: Scalar, low: Scalar, high: Scalar, node: ast.AST) -> Scalar:
    """A number that is not less than one bound, then not greater than another."""
    type = reduce(partial(common, node=node), (low.type, high.type), x.type)
    a, b, c = (converted(v, type, node).expr for v in (x, low, high))
    return Scalar(apply("minimum", apply("maximum", a, b), c), type)


def _extremum(op: str) -> Call:
    def applied(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
        """The least or greatest number, or the one that is a number if the other is NaN."""
        type = common(a.type, b.type, node)
        x, y = (converted(v, type, node).expr for v in (a, b))
        found = apply(op, x, y)
        if type.dtype.is_float:
            found = apply("select", apply("isnan", x), y, apply("select", apply("isnan", y), x, found))
        return Scalar(found, type)

    return _counted(applied, 2)


def _square(x: Scalar, node: ast.AST) -> Scalar:
    return operators.binary(ast.Mult(), strong(x), x, node)


def _signbit(x: Scalar, node: ast.AST) -> Scalar:
    """Whether a floating-point number, zeros included, has a sign."""
    type = x.type if x.dtype.is_float else ScalarType(float64)
    e = converted(x, type, node).expr
    return Scalar(apply("lt", apply("copysign", Const(1.0, type.dtype), e), Const(0.0, type.dtype)), TRUTH)


def _scaled(numerator: float, denominator: float, home: ScalarType | None) -> Call:
    def applied(x: Scalar, node: ast.AST) -> Scalar:
        """A number times a quotient, which is computed in its dtype."""
        type = home or (x.type if x.dtype.is_float else ScalarType(float64))
        wide = _wide(type.dtype)
        kind = np.dtype(wide.numpy).type
        held = Const(float(kind(numerator) / kind(denominator)), wide)
        e = apply("mul", cast(converted(x, type, node).expr, wide), held)
        return Scalar(cast(e, type.dtype), type)

    return _counted(applied, 1)


def _isclose(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    """Whether Python's floats differ by at most a billionth of one of them."""
    x, y = (converted(v, WEAK_FLOAT, node).expr for v in (a, b))
    tolerance, apart = Const(1e-9, float64), apply("abs", apply("sub", y, x))
    near = apply("or", *(apply("le", apart, apply("abs", apply("mul", tolerance, v))) for v in (y, x)))
    finite = apply("not", apply("or", apply("isinf", x), apply("isinf", y)))
    return Scalar(apply("or", apply("eq", x, y), apply("and", finite, near)), TRUTH)


def _rounded(args: Sequence[Scalar], node: ast.AST) -> Scalar:
    """A number with as many decimals as a known integer says, by default 0, by the steps that NumPy has."""
    decimals = 0 if len(args) == 1 else args[1].whole if len(args) == 2 else None
    x = args[0]
    if decimals is None or (x.dtype.is_integer and decimals < 0):
        raise Refused(node, "round must have a float, and a number of decimals", "write numpy.round(x, 2)")
    if x.dtype.is_integer:
        return strong(x)
    type = x.type if x.dtype.is_float else ScalarType(float64)
    e, factor = converted(x, type, node).expr, Const(10.0 ** abs(decimals), type.dtype)
    if decimals == 0:
        return Scalar(apply("round", e), ScalarType(type.dtype))
    ways = ("mul", "div") if decimals > 0 else ("div", "mul")
    return Scalar(apply(ways[1], apply("round", apply(ways[0], e, factor)), factor), ScalarType(type.dtype))


OPERATORS: Final = {
    **{"add": ast.Add(), "subtract": ast.Sub(), "multiply": ast.Mult(), "divide": ast.Div()},
    **{"floor_divide": ast.FloorDiv(), "remainder": ast.Mod()},
    **{"bitwise_and": ast.BitAnd(), "bitwise_or": ast.BitOr(), "bitwise_xor": ast.BitXor()},
    **{"left_shift": ast.LShift(), "right_shift": ast.RShift()},
}
COMPARISONS: Final = {
    **{"equal": ast.Eq(), "not_equal": ast.NotEq(), "less": ast.Lt(), "less_equal": ast.LtE()},
    **{"greater": ast.Gt(), "greater_equal": ast.GtE()},
}
OF_NUMPY: Final[dict[str, Call]] = {
    **{name: _operator(op) for name, op in OPERATORS.items()},
    **{name: _comparison(op) for name, op in COMPARISONS.items()},
    **{"negative": _unary(ast.USub()), "positive": _unary(ast.UAdd()), "invert": _unary(ast.Invert())},
    **{"logical_and": _logical("and"), "logical_or": _logical("or"), "logical_xor": _logical("xor")},
    **{"logical_not": _unary(ast.Not()), "fmod": _remainder(None), "fmin": _extremum("minimum")},
    **{"fmax": _extremum("maximum"), "square": _counted(_square, 1), "signbit": _counted(_signbit, 1)},
    "round": _rounded,
    **{"where": _counted(_where, 3), "clip": _counted(_clip, 3)},
    **{name: _scaled(math.pi, 180.0, None) for name in ("radians", "deg2rad")},
    **{name: _scaled(180.0, math.pi, None) for name in ("degrees", "rad2deg")},
}
OF_MATH: Final[dict[str, Call]] = {
    "fmod": _remainder(WEAK_FLOAT),
    "isclose": _counted(_isclose, 2),
    "radians": _scaled(math.pi, 180.0, WEAK_FLOAT),
    "degrees": _scaled(180.0, math.pi, WEAK_FLOAT),
}


def simple(object: Any) -> Call | None:
    """The function that an object of `math` or NumPy is; None for others."""
    for home, known in ((np, OF_NUMPY), (math, OF_MATH)):
        name = getattr(object, "__name__", "")
        if name in known and getattr(home, name, None) is object:
            return partial(_of_python, object, known[name]) if home is math else known[name]
    return None


def _of_python(f: Callable[..., Any], call: Call, args: Sequence[Scalar], node: ast.AST) -> Scalar:
    """A function of `math`, which is called for numbers that are known."""
    if not all(a.value is not None for a in args):
        return call(args, node)
    try:
        return number(f(*(a.value for a in args)))
    except (ArithmeticError, ValueError, TypeError) as fault:
        raise Refused(node, "the function must be defined for these numbers", "pass others", str(fault)) from None
