"""Compiles one operation of `kernel.elementary` and runs it on arrays, for the tests in this folder."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.base.dtypes import DType, bool_
from nacre.codegen.emitter import LlvmEmitter
from nacre.kernel.elementary import apply, convert
from nacre.kernel.elementary.arrays import Arrays
from nacre.native.engine import Library, compile_text, host_target, load
from nacre.native.isa import BY_NAME
from nacre.native.llvm_types import scalar_of, vec
from nacre.native.text import Function, ModuleText, Val

Array = npt.NDArray[Any]
Entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
PADDING = 64  # elements; arrays are padded to whole vectors

WIDTHS = (("avx512", 0), ("avx2", 0), ("avx512", 1))  # 0: a full register of the widest operand


def load_lanes(f: Function, name: str, index: Val, dtype: DType, lanes: int) -> Val:
    x = f.load(f.gep(f[name], index, dtype.memory), vec(dtype.memory, lanes))
    return f.cast("trunc", x, "i1") if dtype.kind == "b" else x


def kernel_text(op: str, dtypes: list[DType], target: DType | None, isa: str, lanes: int) -> str:
    """A loop that applies the operation; `target` is given for a cast."""
    module = ModuleText(op)
    params = {"a": "ptr", "b": "ptr", "c": "ptr", "out": "ptr", "n": "i64"}
    f = module.function("kernel", "void", params, isa=BY_NAME[isa])
    emitter = LlvmEmitter(f)
    with f.loop("i", 0, f["n"], step=lanes) as loop:
        args = [load_lanes(f, name, loop.index, dtype, lanes) for name, dtype in zip("abc", dtypes, strict=False)]
        if target is None:
            y = apply(emitter, op, args, dtypes[-1])
        else:
            y = convert(emitter, args[0], dtypes[0], target)
        y = f.cast("zext", y, "i8") if scalar_of(y.ty) == "i1" else y
        f.store(y, f.gep(f["out"], loop.index, scalar_of(y.ty)))
    f.ret()
    return module.text()


class Compiled:
    """An operation compiled for one instruction set and width."""

    def __init__(self, op: str, dtypes: list[DType], isa: str, width: int, target: DType | None = None) -> None:
        widest = max(d.bits for d in [*dtypes, *([target] if target else [])])
        lanes = width or BY_NAME[isa].vector_bits // max(widest, 32)
        image = compile_text(kernel_text(op, dtypes, target, isa, lanes), host_target(isa))
        self.library: Library = load(image)
        self.entry = Entry(self.library.address("kernel"))

    def __call__(self, args: list[Array], result: np.dtype[Any]) -> Array:
        size = args[0].size
        padded = [np.concatenate([a, np.ones(PADDING, a.dtype)]) for a in args]
        out = np.zeros(size + PADDING, result)
        pointers = [a.ctypes.data for a in padded] + [0] * (3 - len(args))
        self.entry(*pointers, out.ctypes.data, size)
        return out[:size]


def interpreted(op: str, dtypes: list[DType], args: list[Array], target: DType | None = None) -> Array:
    """The same operation on NumPy arrays; integers come back signed, as bits."""
    arrays = Arrays()
    lanes = [arrays.operand(a) for a in args]
    if target is not None:
        return convert(arrays, lanes[0], dtypes[0], target)
    return apply(arrays, op, lanes, dtypes[-1])


def canonical(a: Array) -> Array:
    """The bits of an array, with one NaN for all."""
    if a.dtype == np.bool_:
        return a.view(np.uint8)
    if a.dtype.kind not in "iu":
        with np.errstate(invalid="ignore"):
            a = np.where(a != a, np.asarray(np.nan, a.dtype), a)
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def bit_patterns(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Random elements of a dtype, floating-point ones by their bits, with edge cases among them."""
    if dtype is bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    bits = rng.integers(0, 1 << dtype.bits, count, dtype=np.uint64).astype(f"u{dtype.itemsize}")
    x = bits.view(dtype.numpy)
    if dtype.is_integer:
        edges = [0, 1, 2, 3, 1 << dtype.bits - 1, (1 << dtype.bits) - 1, (1 << dtype.bits - 1) - 1]
        small = np.array(edges, np.uint64).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    else:
        values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40]
        with np.errstate(all="ignore"):
            values += list(rng.uniform(-8, 8, count // 4)) + list(rng.uniform(-80, 80, count // 4))
            small = np.array(values).astype(dtype.numpy)
    return rng.permutation(np.concatenate([small, small, x]))[:count]
