"""The functions that a kernel may call: those of Python, `math`, NumPy and Nacre on numbers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from nacre.base.dtypes import DType, as_dtype, float64, int64
from nacre.base.errors import DTypeError
from nacre.kernel.ast import Const, apply, cast
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import (
    TRUTH,
    WEAK_FLOAT,
    WEAK_INT,
    Scalar,
    ScalarType,
    common,
    converted,
    number,
)
from nacre.kernel.python.ufuncs import OF_MATH as UFUNCS_OF_MATH
from nacre.kernel.python.ufuncs import OF_NUMPY, Call, simple

_SAME = "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh cbrt floor ceil trunc"
_ARC = {"arc" + f: "a" + f for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")} | {"arctan2": "atan2"}
UNARY: Final = {  # names of functions of one number, and the operation of kernel IR
    **{name: name for name in _SAME.split()},
    **{name: name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "gamma")},
    **{name: op for name, op in _ARC.items() if name != "arctan2"},
    **{"fabs": "abs", "abs": "abs", "absolute": "abs", "sign": "sign", "rint": "round", "round": "round"},
    **{name: name for name in ("sigmoid", "rsqrt", "digamma", "erfinv", "ndtr", "isnan", "isinf", "isfinite")},
}
BINARY: Final = {  # the same, of two numbers
    **{"minimum": "minimum", "maximum": "maximum", "arctan2": "atan2", "atan2": "atan2"},
    **{"copysign": "copysign", "pow": "pow", "power": "pow"},
}
COMPOSED: Final = {  # functions that are Nacre's of the same name
    "numpy": ("hypot", "isclose", "logaddexp", "nextafter", "reciprocal", "sinc"),
    "math": ("hypot", "nextafter"),
}
TESTS: Final = ("isnan", "isinf", "isfinite")
WHOLE: Final = ("floor", "ceil", "trunc", "round", "sign", "abs", "minimum", "maximum")  # also of integers
OF_MATH: Final = {n for n in (*UNARY, *BINARY) if hasattr(math, n)}
NUMPY_ALONE: Final = frozenset(("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2", "pow", "abs"))


def _named(object: Any) -> tuple[str, str] | None:
    """The library and the name of a function of a library that a kernel may call; None for others."""
    name = getattr(object, "__name__", "")
    home = "numpy" if isinstance(object, np.ufunc) else str(getattr(object, "__module__", "")).partition(".")[0]
    if home == "math" and name in OF_MATH:
        return home, name
    if home == "numpy" and name in (*UNARY, *BINARY) and isinstance(object, np.ufunc):
        return home, name
    if home == "nacre" and name in (*UNARY, *BINARY):
        return home, name
    return None


def called(home: str, name: str, args: Sequence[Scalar], node: ast.AST) -> Scalar:
    """A function of `math`, NumPy or Nacre applied to numbers.

    Those of `math` compute in float64 and give Python numbers, as in Python.  Others compute in the operands' dtype.
    """
    op, count = (UNARY[name], 1) if name in UNARY else (BINARY[name], 2)
    if len(args) != count:
        raise Refused(node, f"{home}.{name} must have {count} arguments", "pass as many", f"{len(args)}")
    type = args[0].type if count == 1 else common(args[0].type, args[1].type, node)
    if home == "math":
        if all(a.value is not None for a in args):
            return _of_python(getattr(math, name), args, node)
        if name in ("floor", "ceil", "trunc"):
            x = args[0]  # NumPy's integers become floats there, as in Python
            return _whole(op, x if x.type == WEAK_INT else converted(x, WEAK_FLOAT, node), node)
        type = ScalarType(float64)
    elif not type.dtype.is_float and not (op in WHOLE and type.dtype.is_integer):
        type = ScalarType(float64)
    e = apply(op, *(converted(a, type, node).expr for a in args))
    if op in TESTS:
        return Scalar(e, TRUTH)
    if home == "math":
        return Scalar(e, WEAK_FLOAT)
    return Scalar(e, ScalarType(type.dtype, type.weak and type.dtype is int64))


def _of_python(f: Callable[..., Any], args: Sequence[Scalar], node: ast.AST) -> Scalar:
    try:
        return number(f(*(a.value for a in args)))
    except (ArithmeticError, ValueError) as fault:
        raise Refused(node, "the function must be defined for these numbers", "pass others", str(fault)) from None


# ---- Python's functions


def _absolute(args: Sequence[Scalar], node: ast.AST) -> Scalar:
    (x,) = args
    return Scalar(apply("abs", x.expr), x.type)


def _chosen(op: str) -> Call:
    def choose(args: Sequence[Scalar], node: ast.AST) -> Scalar:
        """The first of two arguments unless the second is beyond it, as Python compares."""
        if len(args) < 2:
            raise Refused(node, "min and max must have two or more numbers", "write max(a, b)")
        type = common(args[0].type, args[1].type, node)
        a, b = (converted(v, type, node).expr for v in args)
        return Scalar(apply("select", apply(op, b, a), b, a), type)

    return choose


def _rounded(args: Sequence[Scalar], node: ast.AST) -> Scalar:
    if len(args) != 1:
        raise Refused(node, "round must have one number", "write round(x * 100) / 100 for two digits")
    (x,) = args
    return _whole("round", x, node)


def _whole(op: str, x: Scalar, node: ast.AST) -> Scalar:
    """A number rounded by an operation, as a Python int; an integer has no other value."""
    if not x.dtype.is_float:
        return converted(x, WEAK_INT, node)
    return Scalar(cast(apply(op, converted(x, WEAK_FLOAT, node).expr), int64), WEAK_INT)


def _made(type: ScalarType) -> Call:
    def convert(args: Sequence[Scalar], node: ast.AST) -> Scalar:
        """The number as another type."""
        if len(args) != 1:
            raise Refused(node, "a conversion must have one number", "pass one")
        (x,) = args
        if x.value is not None and type.weak:
            return number(int(x.value) if type == WEAK_INT else float(x.value))
        if type.dtype.is_bool and not x.dtype.is_bool:
            return Scalar(apply("ne", x.expr, Const(0, x.dtype)), TRUTH)
        found = converted(x, type, node)
        return found if type.weak or type.dtype.is_bool else Scalar(found.expr, type)

    return convert


PYTHON: Final[dict[Any, Call]] = {
    abs: _absolute,
    min: _chosen("lt"),
    max: _chosen("gt"),
    round: _rounded,
    int: _made(WEAK_INT),
    float: _made(WEAK_FLOAT),
    bool: _made(TRUTH),
}


def listed(object: Any) -> str:
    """The functions of the library of a function that kernels know, for messages; no text for other objects."""
    for home in (np, math):
        if getattr(home, getattr(object, "__name__", ""), None) is object:
            known = (*UNARY, *BINARY, *(OF_NUMPY if home is np else UFUNCS_OF_MATH), *COMPOSED[home.__name__])
            names = sorted({n for n in known if hasattr(home, n)})
            return f"; of {home.__name__}, kernels have {', '.join(names)}"
    return ""


def function_of(object: Any) -> Call | None:
    """The function of numbers, or the conversion to a NumPy dtype, that an object is; None for others."""
    if isinstance(object, type | type(abs)) and object in PYTHON:
        return PYTHON[object]
    dtype, named = _dtype_of(object), _named(object)
    if dtype is not None:
        return _made(ScalarType(dtype))
    own = simple(object)
    if own is not None:
        return own
    return None if named is None else partial(called, *named)


def _dtype_of(object: Any) -> DType | None:
    """The dtype that a scalar type is, as `numpy.float32`, or that its name has; None for others."""
    if not isinstance(object, type | str):
        return None
    try:
        found = as_dtype(object)
    except DTypeError:
        return None
    return None if found.is_complex or found.is_storage else found
