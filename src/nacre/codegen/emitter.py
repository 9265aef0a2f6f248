"""Writes the instructions of definitions as LLVM text, for one lane or many."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from math import isnan, nan
from typing import ClassVar

from nacre.base.dtypes import DType
from nacre.codegen import single_instructions
from nacre.kernel.elementary.emitter import Emitter, Writer
from nacre.native.llvm_types import lanes_of, vec
from nacre.native.llvm_values import Val, literal
from nacre.native.text import Function

CONSTANT = re.compile(r"<?(?:\w+ )?0x([0-9A-F]{16})(?:, \w+ 0x\1)*>?")  # the same float in every lane


@cache
def as_many(scalar: str, ty: str) -> str:
    """The type of a vector of scalars with the lanes of another type."""
    return vec(scalar, lanes_of(ty))


def binary(op: str) -> Writer:
    """An LLVM instruction of two operands."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The instruction."""
        return e.f.binary(op, args[0], args[1])

    return write


def integer_comparison(predicate: str) -> Writer:
    """LLVM's comparison of integers."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The instruction."""
        return e.f.icmp(predicate, args[0], args[1])

    return write


def float_comparison(predicate: str) -> Writer:
    """LLVM's comparison of floats."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The instruction."""
        return e.f.fcmp(predicate, args[0], args[1])

    return write


def conversion(op: str) -> Writer:
    """LLVM's conversion to another type."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The instruction."""
        return e.f.cast(op, args[0], dtype.llvm)

    return write


def intrinsic(name: str) -> Writer:
    """LLVM's intrinsic of operands and a result of one type."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The call."""
        return e.f.intrinsic(name, args[0].ty, args)

    return write


def saturating(name: str) -> Writer:
    """LLVM's saturating conversion to integers."""

    def write(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
        """The call."""
        ty = as_many(dtype.llvm, args[0].ty)
        return e.f.intrinsic(name, ty, args, overload=[ty, args[0].ty])

    return write


def negation(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
    """LLVM's negation of a float."""
    return e.f.fneg(args[0])


def selection(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
    """LLVM's select, lane by lane."""
    return e.f.select(args[0], args[1], args[2])


def reinterpretation(e: LlvmEmitter, args: Sequence[Val], source: DType, dtype: DType) -> Val:
    """The bits as another type."""
    return e.f.bitcast(args[0], as_many(dtype.llvm, args[0].ty))


class LlvmEmitter(Emitter):
    """Writes instructions into a function of LLVM text; operands are its values."""

    table: ClassVar = {
        **{op: binary(op) for op in ("fadd", "fsub", "fmul", "fdiv")},
        **{op: binary(op) for op in ("add", "sub", "mul", "sdiv", "udiv", "and", "or", "xor", "shl", "lshr", "ashr")},
        **{p: integer_comparison(p) for p in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")},
        **{p: float_comparison(p) for p in ("oeq", "olt", "ole", "ogt", "oge", "une", "uno")},
        **{name: intrinsic(name) for name in ("fma", "sqrt", "fabs", "copysign", "floor", "ceil", "roundeven")},
        "ftrunc": intrinsic("trunc"),
        **{op: conversion(op) for op in ("trunc", "zext", "sext", "fptrunc", "fpext")},
        **{op: conversion(op) for op in ("sitofp", "uitofp", "fptosi", "fptoui")},
        "fptosi_sat": saturating("fptosi.sat"),
        "fptoui_sat": saturating("fptoui.sat"),
        "fneg": negation,
        "select": selection,
        "bitcast": reinterpretation,
    }

    def __init__(self, f: Function) -> None:
        self.f = f

    def constant(self, value: float | int | bool, dtype: DType, like: Val) -> Val:
        """A constant in the lanes of another value."""
        return self.f.const(as_many(dtype.llvm, like.ty), value)

    def lookup(self, name: str, table: Sequence[float], index: Val) -> Val:
        """Loads from a constant of the module."""
        f = self.f
        text = ", ".join(f"double {literal('double', t)}" for t in table)
        base = f.module.constant(name, f"[{len(table)} x double]", f"[{text}]")
        lanes = lanes_of(index.ty)
        place = f.gep(base, index, "double")
        ty = vec("double", lanes)
        return f.load(place, ty) if lanes == 1 else f.gather(place, f.const(vec("i1", lanes), True), ty)

    def rarely(
        self, cond: Val, fast: Sequence[Val], slow: Callable[[], Sequence[Val]], dtypes: Sequence[DType]
    ) -> list[Val]:
        """A branch skips the slow path if the condition holds in no lane."""
        f, some = self.f, cond
        if lanes_of(cond.ty) > 1:
            some = f.intrinsic("vector.reduce.or", "i1", [cond], overload=[cond.ty])
        stem = f.fresh("rare")
        before = f.block
        f.branch(some, f"{stem}.slow", f"{stem}.done")
        f.label(f"{stem}.slow")
        found = super().rarely(cond, fast, slow, dtypes)
        after = f.block
        f.jump(f"{stem}.done")
        f.label(f"{stem}.done")
        return [f.phi(v.ty, [(v, before), (s, after)]) for s, v in zip(found, fast, strict=True)]

    def repeat(
        self, count: int, values: Sequence[Val], step: Callable[..., Sequence[Val]], dtypes: Sequence[DType]
    ) -> list[Val]:
        """A loop."""
        with self.f.loop("repeat", 0, count, carry=values) as loop:
            loop.next(*step(*loop.carried))
        return loop.results

    def known(self, x: Val) -> float | None:
        """The number of a constant."""
        found = CONSTANT.fullmatch(x.text)
        value: float = struct.unpack(">d", bytes.fromhex(found[1]))[0] if found else nan
        return None if isnan(value) else value

    def scaled(self, x: Val, n: Val, dtype: DType) -> Val | None:
        """x · 2^n, if the machine has an instruction for it."""
        return single_instructions.scaled(self.f, x, n)

    def extreme(self, a: Val, b: Val, dtype: DType, *, smaller: bool) -> Val | None:
        """The larger or smaller number, if the machine has an instruction for it."""
        return single_instructions.larger(self.f, a, b, smaller=smaller)

    def pick(self, table: Sequence[float], index: Val) -> Val | None:
        """An entry of a table in registers."""
        return single_instructions.pick(self.f, table, index)
