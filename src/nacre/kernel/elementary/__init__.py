"""Every scalar operation of the kernel IR, defined to the bit by instructions that every machine has.

    y = apply(emitter, "tanh", [x], float32)          # x: an operand of the emitter
    h = convert(emitter, y, float32, bfloat16)

`instructions` lists the instructions of definitions; an `Emitter` receives them.  `codegen.emitter` writes LLVM text,
`arrays` evaluates NumPy arrays, and `expansion` lists the instructions.  The elementary functions are within 2 ulp;
float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nacre.base.dtypes import DType, bool_
from nacre.base.errors import DTypeError
from nacre.base.lazy import LateModule
from nacre.kernel.ast import SPECIAL
from nacre.kernel.elementary import basic, error_function, exponential, logarithm, trigonometry
from nacre.kernel.elementary.conversion import convert, fma_of_halves, narrow, widen
from nacre.kernel.elementary.emitter import Emitter, Value, bits_of, held
from nacre.kernel.elementary.remainder import remainder
from nacre.kernel.elementary.value import Real, Truth, Whole, fma

if TYPE_CHECKING:
    from nacre.kernel.special import functions as special
else:
    special = LateModule("nacre.kernel.special.functions")  # few programs have special functions

__all__ = ["apply", "bitcast", "convert", "supports"]

REAL: dict[str, Callable[..., Real]] = {
    "add": Real.__add__,
    "sub": Real.__sub__,
    "mul": Real.__mul__,
    "div": Real.__truediv__,
    "rem": remainder,
    "fma": fma,
    "minimum": basic.minimum,
    "maximum": basic.maximum,
    "sign": basic.sign,
    "sqrt": basic.sqrt,
    "rsqrt": basic.rsqrt,
    "floor": partial(Real.unary, name="floor"),
    "ceil": partial(Real.unary, name="ceil"),
    "trunc": partial(Real.unary, name="ftrunc"),
    "round": partial(Real.unary, name="roundeven"),
    "exp": exponential.exp,
    "exp_falling": exponential.exp_falling,  # for arguments up to 0
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "pow": logarithm.power,
    "cbrt": logarithm.cbrt,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "asin": trigonometry.asin,
    "acos": trigonometry.acos,
    "atan": trigonometry.atan,
    "atan2": trigonometry.atan2,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
}

COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(predicate: str) -> Callable[[Real, Real], Truth]:
    return lambda x, y: x.compare(predicate, y)


def _itself(x: Whole, dtype: DType) -> Whole:
    return x


REAL_TEST: dict[str, Callable[..., Truth]] = {
    "isnan": Real.is_nan,
    "isinf": basic.is_inf,
    "isfinite": basic.is_finite,
    **{op: _comparison("une" if op == "ne" else "o" + op) for op in COMPARE},
}

INTEGER: dict[str, Callable[..., Whole]] = {
    "add": lambda x, y, dtype: x + y,
    "sub": lambda x, y, dtype: x - y,
    "mul": lambda x, y, dtype: x * y,
    "div": basic.integer_divide,
    "idiv": basic.integer_divide,
    "rem": basic.integer_remainder,
    "minimum": basic.integer_minimum,
    "maximum": basic.integer_maximum,
    "neg": basic.integer_negative,
    "abs": basic.integer_abs,
    "sign": basic.integer_sign,
    "and": lambda x, y, dtype: x & y,
    "or": lambda x, y, dtype: x | y,
    "xor": lambda x, y, dtype: x ^ y,
    "not": lambda x, dtype: x ^ -1,
    "shl": basic.shift_left,
    "shr": basic.shift_right,
    "fma": lambda x, y, z, dtype: x * y + z,
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _itself),
}

TRUTH: dict[str, Callable[..., Truth]] = {
    "and": Truth.__and__,
    "or": Truth.__or__,
    "xor": Truth.__xor__,
    "not": Truth.__invert__,
    "minimum": Truth.__and__,
    "maximum": Truth.__or__,
    "eq": lambda x, y: ~(x ^ y),
    "ne": Truth.__xor__,
    "lt": lambda x, y: ~x & y,
    "le": lambda x, y: ~x | y,
    "gt": lambda x, y: x & ~y,
    "ge": lambda x, y: x | ~y,
}

SIGN_BIT = ("neg", "abs", "copysign")


def supports(op: str, dtype: DType) -> bool:
    """Whether `apply` has the operation for operands of the dtype.

    It has none for complex numbers, which kernels take apart before (`kernel.complex`), and only `select` for dtypes
    that are only stored.
    """
    if dtype.is_complex:
        return False
    if op == "select":
        return True
    if dtype.is_storage:
        return False
    if dtype.is_bool:
        return op in TRUTH
    if dtype.is_integer:
        return op in INTEGER or op in COMPARE
    return op in REAL or op in REAL_TEST or op in SIGN_BIT or op in SPECIAL


def apply(emitter: Emitter, op: str, args: Sequence[Value], dtype: DType) -> Value:
    """The operation `op` on operands of one dtype (for `select`, that of the two choices after a condition).

    Comparisons and tests give conditions, other operations the operands' type.  `cast` and `bitcast` are the functions
    `convert` and `bitcast`, because they have two dtypes.

    Raises DTypeError if the operation does not support the dtype.
    """
    if not supports(op, dtype):
        raise DTypeError(f"{op}: the operation does not exist for {dtype.name}; convert the operands")
    if op == "select":
        return emitter.emit(op, args, held(dtype), held(dtype))
    if dtype.is_bool:
        return TRUTH[op](*(Truth(emitter, a) for a in args)).v
    if dtype.is_integer:
        return apply_to_integers(emitter, op, args, dtype)
    return apply_to_floats(emitter, op, args, dtype)


def apply_to_integers(emitter: Emitter, op: str, args: Sequence[Value], dtype: DType) -> Value:
    """The operation `op` on integer values of a dtype."""
    if op in COMPARE:
        sign = "" if op in ("eq", "ne") else "s" if dtype.is_signed else "u"
        return emitter.emit(sign + op, args, held(dtype), bool_)
    return INTEGER[op](*(Whole(emitter, a, held(dtype)) for a in args), dtype).v


def apply_to_floats(emitter: Emitter, op: str, args: Sequence[Value], dtype: DType) -> Value:
    """The operation `op` on float values of a dtype."""
    if op in SIGN_BIT:
        whole = bits_of(dtype)
        bits = [Whole(emitter, emitter.emit("bitcast", (a,), dtype, whole), whole) for a in args]
        return basic.change_sign_bit(op, bits, dtype.bits).as_real(dtype).v
    if op == "fma" and dtype.bits == 16:
        return fma_of_halves(emitter, list(args), dtype)
    reals = [widen(emitter, a, dtype) for a in args]
    if op in REAL_TEST:
        return REAL_TEST[op](*reals).v
    functions = special.FUNCTIONS if op in SPECIAL else REAL
    return narrow(functions[op](*reals), dtype)


def bitcast(emitter: Emitter, x: Value, source: DType, target: DType) -> Value:
    """The bits of x as another dtype of the same width.

    Raises DTypeError if the widths differ.
    """
    if source.bits != target.bits:
        raise DTypeError(
            f"bitcast: dtypes must have one width; got {source.name} and {target.name}; use cast to convert the value"
        )
    return emitter.emit("bitcast", (x,), held(source), held(target))
