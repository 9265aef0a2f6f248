"""Python's operators on numbers, as operations of kernel IR with the same results as on NumPy's scalars."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from itertools import product
from typing import Any, Final

from nacre.base.conversion import fits
from nacre.base.dims import Size, lower
from nacre.base.dtypes import bool_, float32, float64, int64
from nacre.base.errors import ShapeError
from nacre.kernel.ast import Apply, Const, Expr, Extent, Index, apply, cast
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import (
    TRUTH,
    WEAK_INT,
    Scalar,
    ScalarType,
    common,
    converted,
    is_representable,
    number,
    of_size,
    truth,
)

ARITHMETIC: Final[dict[type, str]] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
BITS: Final[dict[type, str]] = {
    **{ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr"}
}
PYTHON: Final[dict[type, Callable[[Any, Any], Any]]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: lambda a, b: a / b},
    **{
        ast.FloorDiv: lambda a, b: a // b,
        ast.Mod: operator.mod,
        ast.Pow: lambda a, b: a**b,
        ast.BitAnd: lambda a, b: a & b,
    },
    **{ast.BitOr: lambda a, b: a | b, ast.BitXor: lambda a, b: a ^ b},
    **{ast.LShift: lambda a, b: a << b, ast.RShift: lambda a, b: a >> b},
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le},
    **{ast.Gt: operator.gt, ast.GtE: operator.ge},
}
COMPARISONS: Final[dict[type, str]] = {
    **{ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
}
POWER: Final = 16  # exponents of integers that become products


def binary(op: ast.operator, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    """A binary operator."""
    folded = _folded(op, a, b, node)
    if folded is not None:
        return folded
    _require_same(op, a, b, node)
    kind = type(op)
    if kind in ARITHMETIC:
        return _arithmetic(kind, a, b, node)
    if kind in BITS:
        return _bits(BITS[kind], a, b, node)
    if kind is ast.Pow:
        return _power(a, b, node)
    if kind in (ast.FloorDiv, ast.Mod):
        return _floored(kind, a, b, node)
    raise Refused(node, "an operator must be one on numbers", "write loops and sums for a product of matrices")


def _folded(op: ast.operator | ast.cmpop, a: Scalar, b: Scalar, node: ast.AST) -> Scalar | None:
    """The result for two numbers that are known before the kernel runs, or for sizes; None for others."""
    f = PYTHON.get(type(op))
    if f is None:
        return None
    if a.value is not None and b.value is not None:
        try:
            found = f(a.value, b.value)
        except (ArithmeticError, TypeError, ValueError) as fault:
            raise Refused(node, "the numbers must have a result", "change them", str(fault)) from None
        if not isinstance(found, bool | int | float):
            raise Refused(node, "the result must be a real number", "change the numbers", str(found))
        return _known(found, node)
    if a.size is not None and b.size is not None:
        size = _of_sizes(type(op), a.size, b.size)
        return None if size is None else of_size(size)
    return None


def _known(x: bool | int | float, node: ast.AST) -> Scalar:
    """A number of Python.  Raises Refused if it is an integer of more than 64 bits."""
    if not is_representable(x):
        raise Refused(node, "an integer must be an int64 or a uint64", "write a float", str(x))
    return number(x)


def _require_same(op: ast.operator, a: Scalar, b: Scalar, node: ast.AST) -> None:
    """Raise Refused if integers of Python, in the place of which a local has a narrower dtype, have another result."""
    f = PYTHON.get(type(op))
    if f is None or not (a.early or b.early) or isinstance(op, ast.Div):
        return
    dtype = a.dtype if a.early else b.dtype
    for x, y in product(*(v.early or _pythons(v) for v in (a, b))):
        try:
            found = f(x, y)
        except (ArithmeticError, ValueError):
            continue
        if isinstance(found, int) and not fits(found, dtype):
            raise Refused(
                node, f"an integer of Python that a local has must have a result of its later dtype, {dtype.name}",
                f"begin with numpy.{dtype.name}({x if a.early else y}), or a wider one",
                f"`{ast.unparse(node)}` = {found}",
            )  # fmt: skip


def _pythons(x: Scalar) -> list[int]:
    """The integer of Python that a number is, if it is a known one."""
    return [x.whole] if x.type == WEAK_INT and x.whole is not None else []


def _of_sizes(kind: type, a: Size, b: Size) -> Size | None:
    if kind is ast.Add:
        return a + b
    if kind is ast.Sub:
        return a - b
    if kind is ast.Mult:
        return a * b
    if kind is ast.FloorDiv and isinstance(b, int) and b > 0 and lower(a) >= 0:
        try:
            return a // b
        except ShapeError:
            return None
    return None


def _arithmetic(kind: type, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    type = common(a.type, b.type, node)
    if type.dtype.is_bool:
        type = WEAK_INT if a.value is not None or b.value is not None else type
    if kind is ast.Div and not type.dtype.is_float:
        type = ScalarType(float64, type.weak)
    if type.dtype.is_bool:
        raise Refused(node, "arithmetic must have numbers", "write int(x)", "two values of dtype bool")
    x, y = (converted(v, type, node).expr for v in (a, b))
    return Scalar(apply(ARITHMETIC[kind], x, y), type)


def _bits(op: str, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    type = common(a.type, b.type, node)
    if type.dtype.is_float or (type.dtype.is_bool and op in ("shl", "shr")):
        raise Refused(node, "bits must be those of integers", "write int(x)", f"{a.type} and {b.type}")
    x, y = (converted(v, type, node).expr for v in (a, b))
    return Scalar(apply(op, x, y), type)


def _power(a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    type = common(a.type, b.type, node)
    x = converted(a, type, node).expr
    if b.value == 2:
        return Scalar(apply("mul", x, x), type)
    if type.dtype.is_float:
        return Scalar(apply("pow", x, converted(b, type, node).expr), type)
    if isinstance(b.value, int) and 0 <= b.value <= POWER:
        found: Expr = x if b.value else Const(1, type.dtype)
        for _ in range(b.value - 1):
            found = apply("mul", found, x)
        return Scalar(found, type)
    raise Refused(node, f"the exponent of an integer must be a number from 0 to {POWER}", "write float(x) ** n")


def _floored(kind: type, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    """⌊a / b⌋, or the remainder that belongs to it."""
    type = common(a.type, b.type, node)
    if type.dtype.is_bool:
        raise Refused(node, "arithmetic must have numbers", "write int(x)", "two values of dtype bool")
    if type.dtype.is_float:
        wide = type.dtype if type.dtype in (float32, float64) else float32  # as NumPy does for half precision
        floats = (cast(converted(v, type, node).expr, wide) for v in (a, b))
        return Scalar(cast(_floored_float(kind, *floats), type.dtype), type)
    x, y = (converted(v, type, node).expr for v in (a, b))
    quotient, rest = apply("idiv", x, y), apply("rem", x, y)
    if not type.dtype.is_signed or (_never_negative(a) and _never_negative(b)):
        return Scalar(quotient if kind is ast.FloorDiv else rest, type)
    zero = Const(0, type.dtype)
    apart = apply("ne", apply("lt", rest, zero), apply("lt", y, zero))
    inexact = apply("and", apply("ne", rest, zero), apart)
    if kind is ast.FloorDiv:
        return Scalar(apply("select", inexact, apply("sub", quotient, Const(1, type.dtype)), quotient), type)
    return Scalar(apply("select", inexact, apply("add", rest, y), rest), type)


def _floored_float(kind: type, x: Expr, y: Expr) -> Expr:
    """⌊x / y⌋, or the remainder with the sign of y, by the steps that Python and NumPy have for floats."""
    zero, one = Const(0.0, x.dtype), Const(1.0, x.dtype)
    rest = apply("rem", x, y)
    inexact = apply("ne", rest, zero)
    apart = apply("ne", apply("lt", rest, zero), apply("lt", y, zero))
    if kind is ast.Mod:
        found = apply("select", apart, apply("add", rest, y), rest)
        return apply("select", inexact, found, apply("copysign", zero, y))
    quotient = apply("div", apply("sub", x, rest), y)
    less = apply("and", inexact, apart)
    quotient = apply("select", less, apply("sub", quotient, one), quotient)
    floor = apply("floor", quotient)
    above = apply("gt", apply("sub", quotient, floor), Const(0.5, x.dtype))
    floor = apply("select", above, apply("add", floor, one), floor)
    whole = apply("select", apply("ne", quotient, zero), floor, apply("copysign", zero, apply("div", x, y)))
    return apply("select", apply("eq", y, zero), apply("div", x, y), whole)


def _never_negative(x: Scalar) -> bool:
    """Whether a number is known to be at least 0: a size or the index of a loop, and sums and products of these."""
    if x.size is not None:
        return lower(x.size) >= 0

    def known(e: Expr) -> bool:
        """Whether an expression is."""
        match e:
            case Const():
                return e.value >= 0
            case Apply():
                return e.op in ("add", "mul", "idiv", "rem") and all(map(known, e.args))
            case _:
                return isinstance(e, Index | Extent)

    return x.dtype is int64 and known(x.expr)


def compared(op: ast.cmpop, a: Scalar, b: Scalar, node: ast.AST) -> Scalar:
    """A comparison of two numbers."""
    folded = _folded(op, a, b, node)
    if folded is not None:
        return folded
    if type(op) not in COMPARISONS:
        raise Refused(node, "a comparison must be one of numbers", "write == or <")
    kind = common(a.type, b.type, node)
    x, y = (converted(v, kind, node).expr for v in (a, b))
    return Scalar(Apply(COMPARISONS[type(op)], (x, y), bool_), TRUTH)


def unary(op: ast.unaryop, x: Scalar, node: ast.AST) -> Scalar:
    """A unary operator."""
    match op:
        case ast.Not():
            held = truth(x)
            return number(not held.value) if held.value is not None else Scalar(apply("not", held.expr), TRUTH)
        case ast.UAdd() if not x.dtype.is_bool:
            return x
        case ast.USub() if not x.dtype.is_bool:
            if x.value is not None:
                return _known(-x.value, node)
            if x.size is not None:
                return of_size(x.size * -1)
            return Scalar(apply("neg", x.expr), x.type)
        case ast.Invert() if not x.dtype.is_float:
            if x.value is not None and not isinstance(x.value, float) and not x.dtype.is_bool:
                return _known(-1 - x.value, node)
            return Scalar(apply("not", x.expr), x.type)
        case _:
            raise Refused(node, "an operator must fit its number", "convert the number", f"{x.type}")
