"""What operations may do with numbers that are not finite or too small: make them, pass them on, or hide them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from nacre.base.dtypes import DType
from nacre.base.types import TensorType
from nacre.ir.axes import axis_map
from nacre.ir.graph import Atom, Equation, Literal
from nacre.ir.primitive import Element, Flow, RangeCheck, operation

# operations of kernel IR on elements whose result is finite where the operands are
TAME: Final = frozenset(
    [
        "abs",
        "neg",
        "sign",
        "maximum",
        "minimum",
        "select",
        "copysign",
        "sigmoid",
        "tanh",
        "erf",
        "erfc",
        "sin",
        "cos",
        "atan",
        "atan2",
        "asinh",
        "cbrt",
        "floor",
        "ceil",
        "trunc",
        "round",
        "conj",
        "real",
        "imag",
        "complex",
        "max",
        "min",
    ]
)
# operations by the operands whose NaN and infinities make the result NaN or infinite, too
PASSING: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(["add", "sub", "mul"], (0, 1)),
    **dict.fromkeys(
        [
            "abs",
            "neg",
            "sqrt",
            "cbrt",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "acosh",
            "atanh",
            "sinh",
            "cosh",
            "asinh",
            "floor",
            "ceil",
            "trunc",
            "round",
            "conj",
            "sum",
            "prod",
        ],
        (0,),
    ),
    "div": (0,),
    "fma": (0, 1, 2),
}
# operations with an infinite result at a number, a pole: the operand's position, and the number
POLES: Final[Mapping[str, tuple[int, tuple[float, ...]]]] = {
    "div": (1, (0.0,)),
    "rem": (1, (0.0,)),
    **dict.fromkeys(["rsqrt", "log", "log2", "log10", "pow"], (0, (0.0,))),
    "log1p": (0, (-1.0,)),
    "atanh": (0, (-1.0, 1.0)),
}
# operations whose result is zero only where one of these operands is, unless numbers are too small
FACTORS: Final[Mapping[str, tuple[int, ...]]] = {"mul": (0, 1), "div": (0,), "cast": (0,)}
EXPONENTIALS: Final = frozenset(("exp", "exp2"))  # whose result is never zero, unless it is too small
# operations whose derivative is zero where their result is one of two numbers
BOUNDED: Final[Mapping[str, tuple[float, float]]] = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0)}


def is_float(a: Atom) -> bool:
    """Whether the elements are floats or complex numbers, and there are some."""
    return a.type.dtype.is_differentiable and a.type.size != 0


def is_real_float(type: TensorType) -> bool:
    """Whether the elements are real floats."""
    return type.dtype.is_differentiable and not type.dtype.is_complex


def named(e: Equation) -> str:
    """The operation of kernel IR on elements that an equation applies; "cast" for conversions; "" for others."""
    return operation(e.primitive) or ("cast" if e.primitive.converts else "")


def is_pointwise(e: Equation) -> bool:
    """Whether each element of the result comes from the elements of the operands at its place."""
    low = e.primitive.lowering
    same = all(a.type.shape == e.outputs[0].type.shape for a in e.inputs)
    return isinstance(low, Element) and bool(named(e)) and same and len(e.outputs) == 1


def moves(e: Equation) -> bool:
    """Whether the elements of the results are elements of the operands, or constants."""
    low = e.primitive.lowering
    return isinstance(low, Element) and not named(e)


def may_make(e: Equation) -> bool:
    """Whether an equation on finite floats may have a result that is NaN or infinite."""
    low = e.primitive.lowering
    if isinstance(low, Flow | RangeCheck) or not any(map(is_float, e.outputs)) or not e.inputs:
        return False
    if named(e) == "cast":
        given, made = e.inputs[0].type.dtype, e.outputs[0].type.dtype
        return _largest(given) > _largest(made)
    return not moves(e) and named(e) not in TAME


def _largest(dtype: DType) -> float:
    """The largest number of a dtype."""
    return float(cast("Any", ml_dtypes.finfo(dtype.real.numpy)).max) if dtype.is_inexact else 2.0**dtype.bits


def passing(e: Equation) -> tuple[int, ...]:
    """The operands of which each NaN and infinity makes an element of the first result NaN or infinite."""
    if not e.outputs or not is_float(e.outputs[0]):
        return ()
    if e.primitive.product:
        return (0, 1)
    if moves(e):
        return (0,) if e.inputs and (e.primitive.keeps_order or axis_map(e) is not None) else ()
    return (0,) if named(e) == "cast" else PASSING.get(named(e), ())


def special_numbers(a: Atom) -> bool:
    """Whether a constant has elements that are not finite."""
    return isinstance(a, Literal) and is_float(a) and not bool(np.isfinite(a.array.astype(np.complex128)).all())


def clears(e: Equation) -> bool:
    """Whether the results are finite if the operands have negative infinities, as masks of scores do."""
    return named(e) in ("exp", "exp2", "sigmoid", "tanh", "erf", "erfc", "isnan", "isinf", "isfinite")


def keeps_small(e: Equation) -> bool:
    """Whether a conversion keeps the smallest numbers of its operand."""
    given, made = e.inputs[0].type.dtype, e.outputs[0].type.dtype
    return not (given.is_inexact and made.is_inexact) or _least(given) >= _least(made)


def _least(dtype: DType) -> float:
    return float(cast("Any", ml_dtypes.finfo(dtype.real.numpy)).smallest_subnormal)


def shrinks(e: Equation) -> bool:
    """Whether the result is zero only where a factor is, unless numbers are too small for its dtype."""
    name = named(e)
    if name not in FACTORS or not all(is_real_float(a.type) for a in e.inputs):
        return False
    return name != "cast" or not keeps_small(e)


def chooses(e: Equation) -> bool:
    """Whether each element of the result is an element of an operand, so that others do not matter."""
    return named(e) == "select"
