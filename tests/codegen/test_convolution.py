"""Convolution kernels give the bits of the canonical order, however they are tiled or split."""

from __future__ import annotations

from functools import cache

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codegen.run_steps import Compiled, assert_packed_alike, assert_same_bits, available
from nacre.base.errors import ArgumentError
from nacre.codegen.convolution import kernel as convolve
from nacre.codegen.convolution.sequence import ResultPlace
from nacre.kernel import order_convolution as order
from nacre.native.engine import compile_text, cross_target
from nacre.native.isa import AVX2, AVX512, BY_NAME, Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function

FORMS = {"forward": ("x", "w", "y"), "input_grad": ("dy", "w", "dx"), "weight_grad": ("x", "dy", "dw")}
SCALARS = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat"}
ISAS = [isa for isa in (AVX512, AVX2) if available(isa.name)]


def tensors(conv: order.Convolution, batch: int, dtype: str, seed: int) -> dict[str, np.ndarray]:
    """Random inputs, and outputs full of NaN."""
    random = np.random.default_rng(seed)
    image = (batch, conv.channels, conv.rows.size, conv.columns.size)
    result = (batch, conv.filters, conv.rows.out, conv.columns.out)
    made = {
        name: random.standard_normal(shape).astype(dtype)
        for name, shape in (("x", image), ("w", conv.weight_shape), ("dy", result))
    }
    holes = {
        name: np.full(shape, np.nan, dtype) for name, shape in (("y", result), ("dx", image), ("dw", conv.weight_shape))
    }
    return made | holes


@cache
def expected(form: str, conv: order.Convolution, batch: int, dtype: str) -> np.ndarray:
    """The canonical result for `tensors`; half types are rounded at the end."""
    arrays = tensors(conv, batch, dtype, 0)
    wide = dtype if dtype in ("float32", "float64") else "float32"
    a, b, _ = FORMS[form]
    return getattr(order, form)(conv, arrays[a].astype(wide), arrays[b].astype(wide)).astype(dtype)


def check(
    form: str, conv: order.Convolution, batch: int, isa: Isa, *, dtype: str = "float32", chunk: int | None = None
) -> None:
    """Compile one form, run it in chunks and between guard pages, and compare the bits."""
    arrays = tensors(conv, batch, dtype, 0)
    a, b, out = FORMS[form]
    compiled = Compiled(getattr(convolve, form)(isa, SCALARS[dtype], conv), isa.name)
    compiled.run(batch, arrays, chunk)
    assert_same_bits(arrays[out], expected(form, conv, batch, dtype))
    for at_end in (True, False):
        arrays[out].fill(np.nan)
        compiled.run_guarded(batch, {n: arrays[n] for n in (a, b, out)}, at_end)
        assert_same_bits(arrays[out], expected(form, conv, batch, dtype))
    assert_packed_alike(compiled, batch, arrays, out, expected(form, conv, batch, dtype))


def square(
    channels: int, size: int, filters: int, kernel: int, *, stride: int = 1, pad: int = 0, groups: int = 1
) -> order.Convolution:
    return order.convolution(
        channels,
        size,
        size,
        filters,
        (kernel, kernel),
        stride=(stride, stride),
        padding=((pad, pad), (pad, pad)),
        groups=groups,
    )


SHAPES = {
    "first layer": (square(1, 12, 32, 3), 3),
    "tiles of 14 and restarts": (square(33, 15, 40, 3, pad=1), 2),
    "7×7 stride 2": (square(3, 33, 8, 7, stride=2, pad=3), 1),
    "1×1, chains of 16 blocks": (square(300, 4, 17, 1), 2),
    "1×1 stride 2": (square(18, 9, 20, 1, stride=2), 2),
    "groups": (square(12, 8, 20, 3, pad=1, groups=2), 2),
    "depthwise": (square(5, 37, 5, 3, pad=1, groups=5), 2),
    "depthwise stride 2": (square(3, 37, 6, 3, stride=2, pad=1, groups=3), 2),
    "depthwise stride 3": (square(3, 37, 3, 5, stride=3, pad=2, groups=3), 2),
    "planes that alias": (square(6, 32, 7, 3, pad=1), 1),
    "many panels": (square(20, 5, 70, 3, pad=1), 2),
    "few rows, many panels": (square(20, 5, 260, 3, pad=1), 2),
    "no channels, few rows": (square(0, 3, 260, 1), 2),
    "weights beyond the cache": (square(160, 4, 128, 3, pad=1), 2),
    "weights beyond the cache, used once": (square(160, 4, 128, 3, pad=1), 1),
    "a panel beyond the cache": (square(110, 8, 33, 7), 1),
    "padding wider than the kernel": (square(2, 3, 3, 2, pad=3), 2),
    "few channels": (square(19, 37, 3, 3, pad=1), 2),
    "few channels of long chains": (square(300, 6, 2, 1), 1),
    "few channels, from many": (square(3, 41, 35, 5, stride=2, pad=2), 1),
    "few channels, stride 3": (order.convolution(4, 9, 64, 36, (3, 3), stride=(1, 3), groups=2), 2),
    "three vectors of channels": (square(35, 9, 40, 3, pad=1), 2),
    "no channels": (square(0, 5, 20, 3), 2),
    "no filters": (square(20, 5, 0, 3), 2),
    "no result": (square(20, 2, 20, 3), 2),
    "no result, few channels": (square(2, 2, 2, 3), 2),
    "no result of a wide plane": (order.convolution(6, 2, 30, 2, (3, 3), groups=2), 2),
    "one pixel": (square(17, 1, 3, 1), 3),
    "wide kernel": (order.convolution(2, 4, 40, 3, (1, 17), padding=((0, 0), (8, 8))), 1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_same_bits(name: str, form: str, isa: Isa) -> None:
    conv, batch = SHAPES[name]
    check(form, conv, batch, isa, chunk=3)


@st.composite
def convolutions(draw: st.DrawFn) -> order.Convolution:
    """Any small convolution."""
    groups = draw(st.integers(1, 3))
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    kernel, stride, dilation = (draw(st.tuples(st.integers(1, m), st.integers(1, m))) for m in (3, 3, 2))
    low = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    height, width = draw(st.integers(low[0], 9)), draw(st.integers(low[1], 34))
    return order.convolution(
        groups * draw(st.integers(1, 18)),
        height,
        width,
        groups * draw(st.integers(1, 18)),
        kernel,
        stride=stride,
        padding=(draw(pair), draw(pair)),
        dilation=dilation,
        groups=groups,
    )


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(convolutions(), st.sampled_from(list(FORMS)), st.sampled_from(ISAS), st.integers(1, 3))
def test_any_parameters(conv: order.Convolution, form: str, isa: Isa, batch: int) -> None:
    check(form, conv, batch, isa, chunk=2)


@pytest.mark.parametrize("form", FORMS)
def test_float64(form: str) -> None:
    check(form, square(17, 6, 11, 3, pad=1), 1, ISAS[-1], dtype="float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_half_types_round_once(form: str, dtype: str) -> None:
    check(form, square(17, 6, 5, 3, pad=1), 2, ISAS[-1], dtype=dtype, chunk=1)


def test_half_types_take_no_epilogue() -> None:
    with pytest.raises(ArgumentError, match="float16"):
        convolve.forward(ISAS[0], "half", square(1, 4, 1, 3), epilogue=lambda f, v, p: v)


@pytest.mark.parametrize("form", FORMS)
def test_absent_taps_are_not_multiplied(form: str) -> None:
    conv = square(3, 6, 4, 3, stride=2, pad=1)
    arrays = tensors(conv, 2, "float32", 3)
    for name in ("x", "w", "dy"):
        flat = arrays[name].ravel()
        flat[::7], flat[3::11], flat[5::13] = np.inf, np.nan, -0.0
    a, b, out = FORMS[form]
    Compiled(getattr(convolve, form)(ISAS[0], "float", conv), ISAS[0].name).run(2, arrays)
    with np.errstate(invalid="ignore"):
        assert_same_bits(arrays[out], getattr(order, form)(conv, arrays[a], arrays[b]))


@pytest.mark.parametrize("form", FORMS)
def test_batch_size_is_read_at_run_time(form: str) -> None:
    conv = square(2, 6, 3, 3)
    compiled = Compiled(getattr(convolve, form)(ISAS[0], "float", conv), ISAS[0].name)
    a, b, out = FORMS[form]
    for batch in (0, 1, 5):
        arrays = tensors(conv, batch, "float32", batch)
        compiled.run(batch, arrays)
        assert_same_bits(arrays[out], getattr(order, form)(conv, arrays[a], arrays[b]))


@pytest.mark.parametrize(
    "conv",
    [square(20, 7, 18, 3, pad=1), square(3, 20, 3, 3, groups=3), square(18, 20, 3, 3)],
    ids=["tiles", "planes", "narrow"],
)
def test_epilogue(conv: order.Convolution) -> None:
    def relu_of_bias(f: Function, value: Val, place: ResultPlace) -> Val:
        bias = f.load(f.gep(place.operands[0], place.channel, "float"), "float")
        total = f.fadd(value, f.splat(bias, int(value.ty[1:].split()[0])))
        return f.select(f.fcmp("ogt", total, f.zero(total.ty)), total, f.zero(total.ty))

    isa = ISAS[0]
    arrays = tensors(conv, 2, "float32", 1)
    arrays["bias"] = np.linspace(-1, 1, conv.filters, dtype=np.float32)
    steps = convolve.forward(isa, "float", conv, epilogue=relu_of_bias, operands=("bias",))
    Compiled(steps, isa.name).run(2, arrays, 1)
    plain = order.forward(conv, arrays["x"], arrays["w"]) + arrays["bias"][:, None, None]
    assert_same_bits(arrays["y"], np.where(plain > 0, plain, np.float32(0)))


class Residual:
    """An epilogue that adds an operand of the result's layout, and declares that."""

    along = ("residual",)

    def __call__(self, f: Function, value: Val, place: ResultPlace) -> Val:
        at = f.gep(place.operands[0], place.offset, "float")
        other = f.load(at, value.ty) if place.mask is None else f.masked_load(at, place.mask, value.ty)
        return f.fadd(value, other)


@pytest.mark.parametrize("conv", [square(20, 7, 18, 3, pad=1), square(160, 4, 127, 3, pad=1)], ids=["inner", "outer"])
def test_epilogue_with_an_operand_of_the_results_layout(conv: order.Convolution) -> None:
    isa = ISAS[0]
    arrays = tensors(conv, 2, "float32", 1)
    arrays["residual"] = arrays["dy"].copy()
    compiled = Compiled(convolve.forward(isa, "float", conv, epilogue=Residual(), operands=Residual.along), isa.name)
    expected = order.forward(conv, arrays["x"], arrays["w"]) + arrays["residual"]
    for at_end in (True, False):  # prefetches may go beyond the buffers
        arrays["y"].fill(np.nan)
        compiled.run_guarded(2, {n: arrays[n] for n in ("x", "w", "y", "residual")}, at_end)
        assert_same_bits(arrays["y"], expected)


@pytest.mark.parametrize("form", FORMS)
def test_compiles_for_aarch64(form: str) -> None:
    for conv in (square(3, 8, 5, 3, pad=1), square(3, 9, 3, 3, stride=2, groups=3)):
        for step in getattr(convolve, form)(BY_NAME["neon"], "float", conv).steps:
            assert len(compile_text(step.text, cross_target("neon"))) > 0


def test_convolutions_share_the_functions_that_their_kernels_call() -> None:
    sizes = [square(c, 14, 2 * c, 1) for c in (24, 40)]
    packs = {convolve.forward(AVX512, "float", conv).steps[0].text for conv in sizes}
    assert len(packs) == 1
    first, second = (set(convolve.weight_grad(AVX512, "float", conv).steps[0].units) for conv in sizes)
    assert any("transpose" in unit.shared for unit in first & second)
