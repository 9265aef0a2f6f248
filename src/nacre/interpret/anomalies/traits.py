"""What operations may do with numbers that are not finite or too small: make them, pass them on, or hide them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.ir.axes import axis_map
from nacre.ir.graph import Atom, Equation, Literal
from nacre.ir.primitive import Element, Flow, RangeCheck, Reduce, operation


@dataclass(frozen=True)
class Numerics:
    """What an operation of kernel IR, on elements or as a reduction, does with unusual numbers.

    `tame`: the result is finite where the operands are.  `passing`: the operands whose NaN and infinities make the
    result NaN or infinite, too.  `clears`: the result is finite where the operands have negative infinities, as masks
    of scores do.  `chooses`: each element of the result is an element of an operand, so that others do not matter.

    `pole`: the position of an operand, and its numbers at which the result is infinite.  `factors`: the result is zero
    only where one of these operands is, unless numbers are too small, or one of the operands `divisors` is infinite.
    `exponential`: the result is never zero, unless it is too small.  `bounds`: two numbers; where the result is one of
    them, the derivative is zero.
    """

    tame: bool = False
    passing: tuple[int, ...] = ()
    clears: bool = False
    chooses: bool = False
    pole: tuple[int, tuple[float, ...]] = (0, ())
    factors: tuple[int, ...] = ()
    divisors: tuple[int, ...] = ()
    exponential: bool = False
    bounds: tuple[float, ...] = ()


UNKNOWN: Final = Numerics()
TAME: Final = Numerics(tame=True)
PASSING: Final = Numerics(passing=(0,))
HARMLESS: Final = Numerics(tame=True, passing=(0,))
EXPONENTIAL: Final = Numerics(clears=True, exponential=True)
CONVERSION: Final = Numerics(passing=(0,), factors=(0,))
POLE_AT_ZERO: Final = (0, (0.0,))
NUMERICS: Final[Mapping[str, Numerics]] = {
    **dict.fromkeys(("sign", "maximum", "minimum", "copysign", "max", "min"), TAME),
    **dict.fromkeys(("atan", "atan2", "real", "imag", "complex"), TAME),
    **dict.fromkeys(("abs", "neg", "sin", "cos", "asinh", "cbrt"), HARMLESS),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "conj"), HARMLESS),
    **dict.fromkeys(("sqrt", "tan", "asin", "acos", "acosh", "sinh", "cosh", "sum"), PASSING),
    **dict.fromkeys(("log", "log2", "log10"), Numerics(passing=(0,), pole=POLE_AT_ZERO)),
    "log1p": Numerics(passing=(0,), pole=(0, (-1.0,))),
    "atanh": Numerics(passing=(0,), pole=(0, (-1.0, 1.0))),
    **dict.fromkeys(("rsqrt", "pow"), Numerics(pole=POLE_AT_ZERO)),
    "rem": Numerics(pole=(1, (0.0,))),
    **dict.fromkeys(("add", "sub"), Numerics(passing=(0, 1))),
    "fma": Numerics(passing=(0, 1, 2)),
    "mul": Numerics(passing=(0, 1), factors=(0, 1)),
    "div": Numerics(passing=(0,), pole=(1, (0.0,)), factors=(0,), divisors=(1,)),
    "prod": Numerics(passing=(0,), factors=(0,)),
    **dict.fromkeys(("exp", "exp2"), EXPONENTIAL),
    **dict.fromkeys(("tanh", "erf"), Numerics(tame=True, clears=True, bounds=(-1.0, 1.0))),
    "sigmoid": Numerics(tame=True, clears=True, bounds=(0.0, 1.0)),
    "erfc": Numerics(tame=True, clears=True),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), Numerics(clears=True)),
    "select": Numerics(tame=True, chooses=True),
}


def is_float(a: Atom) -> bool:
    """Whether the elements are floats or complex numbers, and there are some."""
    return a.type.dtype.is_differentiable and a.type.size != 0


def is_real_float(type: TensorType) -> bool:
    """Whether the elements are real floats."""
    return type.dtype.is_differentiable and not type.dtype.is_complex


def numerics(e: Equation) -> Numerics:
    """What the operation that an equation applies, or reduces with, does with unusual numbers."""
    return CONVERSION if e.primitive.converts else NUMERICS.get(operation(e.primitive) or "", UNKNOWN)


def _computes(e: Equation) -> bool:
    """Whether an equation applies an operation of kernel IR to elements, reduces with it, or converts them."""
    return e.primitive.converts or operation(e.primitive) is not None


def is_pointwise(e: Equation) -> bool:
    """Whether each element of the result comes from the elements of the operands at its place."""
    low = e.primitive.lowering
    same = all(a.type.shape == e.outputs[0].type.shape for a in e.inputs)
    return isinstance(low, Element) and _computes(e) and same and len(e.outputs) == 1


def moves(e: Equation) -> bool:
    """Whether the elements of the results are elements of the operands, or constants."""
    low = e.primitive.lowering
    return isinstance(low, Element) and not _computes(e)


def may_make(e: Equation) -> bool:
    """Whether an equation on finite floats may have a result that is NaN or infinite."""
    low = e.primitive.lowering
    if isinstance(low, Flow | RangeCheck) or not any(map(is_float, e.outputs)) or not e.inputs:
        return False
    if e.primitive.converts:
        given, made = e.inputs[0].type.dtype, e.outputs[0].type.dtype
        return _largest(given) > _largest(made)
    return not moves(e) and not numerics(e).tame


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
    return numerics(e).passing


def special_numbers(a: Atom) -> bool:
    """Whether a constant has elements that are not finite."""
    return isinstance(a, Literal) and is_float(a) and not bool(np.isfinite(a.array.astype(np.complex128)).all())


def keeps_small(e: Equation) -> bool:
    """Whether a conversion keeps the smallest numbers of its operand."""
    given, made = e.inputs[0].type.dtype, e.outputs[0].type.dtype
    return not (given.is_inexact and made.is_inexact) or _least(given) >= _least(made)


def _least(dtype: DType) -> float:
    return float(cast("Any", ml_dtypes.finfo(dtype.real.numpy)).smallest_subnormal)


def shrinks(e: Equation) -> bool:
    """Whether the result is zero only where a factor is, unless numbers are too small for its dtype."""
    if not numerics(e).factors or not all(is_real_float(a.type) for a in e.inputs):
        return False
    return not e.primitive.converts or not keeps_small(e)


def reduced_axes(e: Equation) -> tuple[int, ...]:
    """The axes of the operand that an equation reduces; none if it is no reduction."""
    return e.params["axes"] if isinstance(e.primitive.lowering, Reduce) else ()
