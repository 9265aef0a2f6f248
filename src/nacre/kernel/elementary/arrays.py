# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""The emitter of the reference interpreter: it evaluates definitions on NumPy arrays, to the bit.

Operands are arrays; integers are stored as signed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nacre.base.conversion import element
from nacre.base.dtypes import STORED, DType
from nacre.kernel.elementary.emitter import Emitter, Writer
from nacre.kernel.softfloat import fma

Array = npt.NDArray[Any]


def unsigned(array: Array) -> Array:
    """The same bits as unsigned integers."""
    return array.view(np.dtype(f"uint{8 * array.dtype.itemsize}"))


def by_numpy(function: Callable[..., Any]) -> Writer:
    """A function of arrays as an instruction."""

    def write(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
        """The function's result in the instruction's dtype."""
        with np.errstate(all="ignore"):
            return np.asarray(function(*args)).astype(dtype.numpy, copy=False)

    return write


def of_unsigned(function: Callable[..., Any]) -> Writer:
    """A function of unsigned integers as an instruction on signed integers with the same bits."""
    return by_numpy(lambda a, b: function(unsigned(a), unsigned(b)))


def quotient(x: Array, y: Array) -> Array:
    """x / y toward zero."""
    return (x - np.fmod(x, y)) // y


def converted(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """A number in another dtype: signed integers and floats."""
    with np.errstate(all="ignore"):
        return args[0].astype(dtype.numpy)


def from_unsigned(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """An unsigned integer, or a condition, in another dtype."""
    x = args[0] if args[0].dtype == np.bool_ else unsigned(args[0])
    return x.astype(dtype.numpy)


def to_unsigned(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """A float as the bits of an unsigned integer."""
    with np.errstate(all="ignore"):
        return args[0].astype(np.uint64).astype(np.dtype(f"uint{dtype.bits}")).view(dtype.numpy)


def saturated(*, signed: bool) -> Writer:
    """Floating point to integers toward zero; numbers out of range give the nearest bound, NaN gives 0."""

    def write(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
        """The integers, as bits."""
        bits, kind = dtype.bits, np.int64 if signed else np.uint64
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        with np.errstate(all="ignore"):
            x = args[0].astype(np.float64)
            inside = (x > low - 1.0 if bits < 64 else x >= low) & (x < float(high + 1))
            whole = np.where(inside, x, 0).astype(kind)
        ends = np.where(np.isnan(x), kind(0), np.where(x < 0, kind(low), kind(high)))
        narrow = np.where(inside, whole, ends).astype(np.dtype(f"{'' if signed else 'u'}int{bits}"))
        return narrow.view(dtype.numpy)

    return write


def reinterpreted(emitter: Emitter, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """The bits read as a dtype of the same width."""
    return np.ascontiguousarray(args[0]).view(dtype.numpy).reshape(args[0].shape)


class Arrays(Emitter):
    """Evaluates instructions on NumPy arrays."""

    table: ClassVar = {
        "fadd": by_numpy(np.add),
        "fsub": by_numpy(np.subtract),
        "fmul": by_numpy(np.multiply),
        "fdiv": by_numpy(np.divide),
        "fma": by_numpy(fma),
        "sqrt": by_numpy(np.sqrt),
        "fneg": by_numpy(np.negative),
        "fabs": by_numpy(np.abs),
        "copysign": by_numpy(np.copysign),
        "floor": by_numpy(np.floor),
        "ceil": by_numpy(np.ceil),
        "ftrunc": by_numpy(np.trunc),
        "roundeven": by_numpy(np.rint),
        "oeq": by_numpy(np.equal),
        "olt": by_numpy(np.less),
        "ole": by_numpy(np.less_equal),
        "ogt": by_numpy(np.greater),
        "oge": by_numpy(np.greater_equal),
        "une": by_numpy(np.not_equal),
        "uno": by_numpy(lambda a, b: np.isnan(a) | np.isnan(b)),
        "add": by_numpy(np.add),
        "sub": by_numpy(np.subtract),
        "mul": by_numpy(np.multiply),
        "sdiv": by_numpy(quotient),
        "udiv": of_unsigned(quotient),
        "and": by_numpy(np.bitwise_and),
        "or": by_numpy(np.bitwise_or),
        "xor": by_numpy(np.bitwise_xor),
        "shl": by_numpy(np.left_shift),
        "lshr": of_unsigned(np.right_shift),
        "ashr": by_numpy(np.right_shift),
        "eq": by_numpy(np.equal),
        "ne": by_numpy(np.not_equal),
        "slt": by_numpy(np.less),
        "sle": by_numpy(np.less_equal),
        "sgt": by_numpy(np.greater),
        "sge": by_numpy(np.greater_equal),
        "ult": of_unsigned(np.less),
        "ule": of_unsigned(np.less_equal),
        "ugt": of_unsigned(np.greater),
        "uge": of_unsigned(np.greater_equal),
        "select": by_numpy(np.where),
        "trunc": converted,
        "zext": from_unsigned,
        "sext": converted,
        "fptrunc": converted,
        "fpext": converted,
        "sitofp": converted,
        "uitofp": from_unsigned,
        "fptosi": converted,
        "fptoui": to_unsigned,
        "fptosi_sat": saturated(signed=True),
        "fptoui_sat": saturated(signed=False),
        "bitcast": reinterpreted,
    }

    def operand(self, array: npt.ArrayLike) -> Array:
        """An operand from an array of bool, integers or floating point."""
        a = np.asarray(array)
        bits = issubclass(a.dtype.type, np.unsignedinteger) or STORED.holds(a.dtype)
        return a.view(np.dtype(f"int{8 * a.dtype.itemsize}")) if bits else a

    def constant(self, value: float | int | bool, dtype: DType, like: Array) -> Array:
        """A number that broadcasts; bit patterns may be unsigned."""
        if dtype.is_float:
            return np.asarray(element(float(value), dtype))
        if dtype.is_integer:
            half = 1 << dtype.bits - 1
            value = (int(value) + half) % (2 * half) - half
        return np.asarray(value).astype(dtype.numpy)

    def lookup(self, name: str, table: Sequence[float], index: Array) -> Array:
        """The numbers table[index]."""
        return np.asarray(table, np.float64)[index]
