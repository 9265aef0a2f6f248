"""The scalar operations of the kernel IR as LLVM instructions, for one lane or many."""

from __future__ import annotations

from nacre.base.conversion import element
from nacre.base.dtypes import DType
from nacre.codegen.emitter import LlvmEmitter
from nacre.kernel import elementary
from nacre.native.llvm_types import lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val, literal
from nacre.native.text import Function

CHEAP = frozenset(
    (
        *("add", "sub", "mul", "div", "fma", "minimum", "maximum", "neg", "abs", "sign", "copysign", "sqrt"),
        *(
            "floor",
            "ceil",
            "trunc",
            "round",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "and",
            "or",
            "xor",
            "not",
            "shl",
            "shr",
        ),
        *("select", "cast", "bitcast", "isnan", "isinf", "isfinite"),
    )
)  # operations of a few instructions


def register(dtype: DType) -> str:
    """The LLVM type of a number in a register; 16-bit floats are integers, which every target can move."""
    return f"i{dtype.storage_bits}" if dtype.is_widened else dtype.llvm


def memory(dtype: DType) -> str:
    """The LLVM type of a number in memory."""
    return dtype.memory if dtype.is_bool else register(dtype)


def constant(f: Function, dtype: DType, value: float | int | bool, lanes: int = 1) -> Val:
    """A number in every lane."""
    if dtype.is_storage:
        value = int.from_bytes(element(value, dtype).tobytes())
    elif register(dtype) != dtype.llvm:
        value = int(literal(dtype.llvm, value)[3:], 16)
    return f.const(vec(register(dtype), lanes), value)


def operate(f: Function, op: str, args: list[Val], source: DType, dtype: DType) -> Val:
    """Apply an operation of `kernel.ast.OPERATIONS`.

    Args:
        args: values of one lane count; `source` is the dtype of the first (of the second for `select`).
        dtype: the result's dtype.
    """
    if op == "select":
        return f.select(args[0], args[1], args[2])
    emitter = LlvmEmitter(f)
    args = [f.bitcast(a, vec(source.llvm, lanes_of(a.ty))) for a in args]
    if op == "cast":
        result = elementary.convert(emitter, args[0], source, dtype)
    elif op == "bitcast":
        result = elementary.bitcast(emitter, args[0], source, dtype)
    else:
        result = elementary.apply(emitter, op, args, source)
    if scalar_of(result.ty) in ("half", "bfloat"):
        return f.bitcast(result, vec("i16", lanes_of(result.ty)))
    return result
