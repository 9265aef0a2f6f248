"""Convolutions of bfloat16 by packed dot instructions give the bits of single multiply-adds, for all numbers."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codegen.run_steps import Compiled, assert_same_bits, available
from codegen.test_convolution import FORMS, SHAPES, convolutions, square, tensors
from nacre.codegen.convolution import kernel as convolve
from nacre.codegen.convolution.sequence import ResultPlace
from nacre.kernel import order_convolution as order
from nacre.native import engine
from nacre.native.engine import isa_of
from nacre.native.isa import AVX512, Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function

BF16 = np.dtype(ml_dtypes.bfloat16)
ISA: Isa = isa_of(engine.host_target("avx512")) if available("avx512") else AVX512
RESULTS = {"bfloat": BF16, "float": np.dtype(np.float32)}

pytestmark = pytest.mark.skipif(not ISA.halves, reason="this machine does not multiply pairs of bfloat16")
Arrays = dict[str, np.ndarray]


def sums(form: str, conv: order.Convolution, arrays: Arrays) -> np.ndarray:
    """The canonical sums in float32."""
    a, b, _ = FORMS[form]
    with np.errstate(all="ignore"):
        return getattr(order, form)(conv, arrays[a].astype(np.float32), arrays[b].astype(np.float32))


def check(form: str, conv: order.Convolution, batch: int, arrays: Arrays, chunk: int | None = None) -> None:
    """Compare both results with the canonical sums, in chunks and between guard pages."""
    a, b, out = FORMS[form]
    wanted = sums(form, conv, arrays)
    for result, dtype in RESULTS.items():
        compiled = Compiled(getattr(convolve, form)(ISA, "bfloat", conv, result=result), ISA.name)
        held = {a: arrays[a], b: arrays[b], out: np.full(wanted.shape, np.nan, dtype)}
        compiled.run(batch, held, chunk)
        assert_same_bits(held[out], wanted.astype(dtype))
        for at_end in (True, False):
            held[out].fill(np.nan)
            compiled.run_guarded(batch, held, at_end)
            assert_same_bits(held[out], wanted.astype(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_same_bits(name: str, form: str) -> None:
    conv, batch = SHAPES[name]
    check(form, conv, batch, tensors(conv, batch, "bfloat16", 0), chunk=3)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(convolutions(), st.sampled_from(list(FORMS)), st.integers(1, 3))
def test_any_parameters(conv: order.Convolution, form: str, batch: int) -> None:
    check(form, conv, batch, tensors(conv, batch, "bfloat16", 1), chunk=2)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(list(FORMS)), st.integers(-126, 0), st.integers(-126, 0), st.integers(0, 12), st.integers(0, 99))
def test_subnormal_numbers_and_sums(form: str, low_a: int, low_b: int, spread: int, seed: int) -> None:
    """Factors of such small exponents that products, or what remains after cancellation, may be subnormal."""
    conv, random = square(9, 7, 18, 3, pad=1), np.random.default_rng(seed)
    arrays = tensors(conv, 3, "bfloat16", seed)
    for name, low in zip(FORMS[form], (low_a, low_b), strict=False):
        shape = arrays[name].shape
        digits = random.choice([-1, 1], shape) * random.integers(128, 256, shape) / 128
        arrays[name] = np.ldexp(digits, random.integers(low, low + spread + 1, shape)).astype(BF16)
        arrays[name].ravel()[::5] = 0
    check(form, conv, 3, arrays)


@pytest.mark.parametrize("kind", ["image", "other operand", "both"])
@pytest.mark.parametrize("form", FORMS)
def test_absent_taps_and_channels_are_not_multiplied(form: str, kind: str) -> None:
    for conv in (square(3, 7, 20, 3, pad=1), square(4, 6, 17, 3, pad=2)):
        arrays = tensors(conv, 2, "bfloat16", 3)
        for name in {"image": FORMS[form][:1], "other operand": FORMS[form][1:2], "both": FORMS[form][:2]}[kind]:
            flat = arrays[name].ravel()
            flat[::37], flat[3::41], flat[5::13], flat[7::43] = np.inf, np.nan, -0.0, -np.inf
        check(form, conv, 2, arrays)


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_a_chain_of_large_and_tiny_images(scale: float) -> None:
    """The instruction is chosen for each image: one of tiny numbers does not change the others."""
    conv = square(20, 8, 33, 3, pad=1)
    for form in FORMS:
        arrays = tensors(conv, 3, "bfloat16", 4)
        a = FORMS[form][0]
        arrays[a][1] = (arrays[a][1].astype(np.float32) * np.float32(scale) * np.float32(scale)).astype(BF16)
        check(form, conv, 3, arrays)


@pytest.mark.parametrize("result", RESULTS)
def test_an_epilogue_receives_rounded_sums(result: str) -> None:
    conv, kind = square(20, 7, 18, 3, pad=1), RESULTS[result]

    def negated(f: Function, value: Val, place: ResultPlace) -> Val:
        """The numbers with the other sign."""
        if value.ty.endswith("float>"):
            return f.fneg(value)
        return f.xor(value, f.const(value.ty, 0x8000))

    arrays = tensors(conv, 2, "bfloat16", 0)
    wanted = sums("forward", conv, arrays).astype(kind)
    arrays["y"] = np.full(wanted.shape, np.nan, kind)
    Compiled(convolve.forward(ISA, "bfloat", conv, epilogue=negated, result=result), ISA.name).run(2, arrays, 1)
    assert_same_bits(arrays["y"], -wanted)


def test_pairs_are_chosen_by_the_instruction_set() -> None:
    conv = square(20, 7, 18, 3, pad=1)
    for form in FORMS:
        names = [[s.name for s in getattr(convolve, form)(isa, "bfloat", conv).steps] for isa in (ISA, AVX512)]
        assert [any(name.startswith("convert") for name in found) for found in names] == [False, True]


@pytest.mark.parametrize("form", ["forward", "input_grad"])
@pytest.mark.parametrize("name", ["tiles of 14 and restarts", "groups", "1×1, chains of 16 blocks", "many panels"])
def test_numpy_packs_weights_as_the_kernel_does(name: str, form: str) -> None:
    conv, batch = SHAPES[name]
    arrays = tensors(conv, batch, "bfloat16", 5)
    arrays["w"].ravel()[::3] = 0
    compiled = Compiled(getattr(convolve, form)(ISA, "bfloat", conv), ISA.name)
    _, fill = compiled.steps.fills["panels"]
    (function, slots, items, scratch, every), _ = compiled.bind(batch, arrays)
    function(slots.ctypes.data, 0, items, scratch.ctypes.data)
    found, made = fill(arrays["w"]), every["panels"].copy()
    assert found is not None and found.nbytes == made.nbytes
    assert np.array_equal(*(a[-8 * items :].view(np.int64) for a in (made, found)))
    wanted, out = sums(form, conv, arrays).astype(BF16), arrays[FORMS[form][2]]
    compiled.steps = replace(compiled.steps, workspaces={})
    for panels in (made, found):
        out.fill(np.nan)
        every["panels"][:] = panels
        function, slots, items, scratch, _ = compiled.bind(batch, every)[1]
        function(slots.ctypes.data, 0, items, scratch.ctypes.data)
        assert_same_bits(out, wanted)
