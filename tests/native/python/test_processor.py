"""What depends on the processor and on the target: the stack, control registers, instructions, and attributes."""

from __future__ import annotations

import ctypes

import pytest

from nacre.native.engine import cross_target, emit_assembly, host_target
from nacre.native.isa import BY_NAME, X86_64
from nacre.native.python.declarations import native
from nacre.native.python.intrinsics import (
    cpuid,
    pause,
    set_float_control,
    stack_array,
    target_is,
    xgetbv,
)
from nacre.native.python.module import module
from nacre.native.python.types import embed, f64, ptr, struct, u32, u64
from native.python.compiled import compiled

X86, ARM = cross_target("avx2"), cross_target("neon")
HOST_IS_X86 = BY_NAME[host_target().isa].machine is X86_64


@struct
class Pair:
    first: u64
    second: u32


@native
def sum_of_arrays(n: u64) -> u64:
    numbers, pairs = stack_array(u64, n), stack_array(embed[Pair], n, 64)
    fixed = stack_array(Pair, 3)
    for k in range(n):
        numbers[k] = k
        pairs[k].first = k * 10
        pairs[k].second = 100
    for k in range(u64(3)):
        fixed[k] = pairs[k]
    total = u64(0)
    for k in range(n):
        total += numbers[k] + pairs[k].first + u64(pairs[k].second)
    return total + fixed[2].first


def test_arrays_on_the_stack() -> None:
    (made,) = compiled(sum_of_arrays)
    assert [made(n) for n in (3, 50)] == [sum(11 * k + 100 for k in range(n)) + 20 for n in (3, 50)]
    text = module([sum_of_arrays])
    assert "= alloca i64, i64 %n.in, align 8" in text and "= alloca [16 x i8], i64 %n.in, align 64" in text
    assert "= alloca ptr, i64 3, align 8" in text


@native
def set_default() -> None:
    set_float_control(8064 if target_is("x86_64") else 0)


@native
def quotient_in(control: u64, a: f64, b: f64) -> f64:
    set_float_control(control)
    found = a / b
    set_default()
    return found


def test_the_control_of_floating_point() -> None:
    (quotient,) = compiled(quotient_in)
    plain, up = (8064, 8064 | 0x4000) if HOST_IS_X86 else (0, 1 << 22)  # rounding up
    assert quotient(plain, 1.0, 3.0) == 1 / 3 < quotient(up, 1.0, 3.0)
    x86, arm = module([set_default], target=X86), module([set_default], target=ARM)
    assert "8064" in x86 and "ldmxcsr" in emit_assembly(x86, X86)
    assert "8064" not in arm and "msr" in emit_assembly(arm, ARM)


@native
def waits() -> None:
    pause()


def test_pause_is_one_instruction() -> None:
    assert "\tpause\n" in emit_assembly(module([waits], target=X86), X86)
    assert "\tyield\n" in emit_assembly(module([waits], target=ARM), ARM)


@native
def features(leaf: u32, registers: ptr[u32]) -> u64:
    if target_is("x86_64"):
        a, b, c, d = cpuid(leaf, 0)
        registers[0] = a
        registers[1] = b
        registers[2] = c
        registers[3] = d
        return xgetbv(0)
    return 0


@pytest.mark.skipif(not HOST_IS_X86, reason="the instructions are those of x86-64")
def test_the_processor_is_asked() -> None:
    (made,) = compiled(features)
    words = (ctypes.c_uint32 * 4)()
    assert made(0, words) & 6 == 6  # the system saves the registers of AVX2
    assert words[0] >= 7
    assert bytes(ctypes.string_at(ctypes.addressof(words) + 4, 12)) in (b"GenuntelineI", b"AuthcAMDenti")


def test_other_processors_are_left_out() -> None:
    assert "asm" not in module([features], target=ARM)


@native(noinline=True)
def helper(x: u64) -> u64:
    return x + 1


@native(baseline=True)
def first(x: u64) -> u64:
    return helper(x)


def test_attributes_of_functions() -> None:
    x86, arm = module([first], target=X86), module([first], target=ARM)
    assert "define internal i64 @test_processor.helper(i64 %x.in) nounwind noinline {" in x86
    assert 'define i64 @first(i64 %x.in) nounwind "target-cpu"="x86-64" "target-features"="+sse2" {' in x86
    assert "define i64 @first(i64 %x.in) nounwind {" in arm
    assert compiled(first)[0](3) == 4
