"""Pooling kernels give the bits of the canonical order."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codegen.run_steps import Compiled, assert_same_bits, available
from nacre.codegen.convolution.sequence import ResultPlace, Steps
from nacre.codegen.window import kernel as kernels
from nacre.codegen.window.prologue import Prologue
from nacre.kernel import order_window as order
from nacre.native.isa import AVX2, AVX512, Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function

ISAS = [isa for isa in (AVX512, AVX2) if available(isa.name)]
FORMS = ("max_forward", "max_grad", "sum_forward", "sum_grad")


def check(form: str, w: order.Window, isa: Isa, dtype: str = "float32", chunk: int = 2) -> None:
    """Run one form on data with ties, zeros of both signs and NaN, and compare bits."""
    random = np.random.default_rng(0)
    scalar = {"float32": "float", "float64": "double", "bfloat16": "bfloat"}[dtype]
    x = random.integers(-2, 3, (2, w.channels, w.rows.size, w.columns.size)).astype(dtype)
    x[random.random(x.shape) < 0.1] = -0.0
    x[random.random(x.shape) < 0.02] = np.nan
    dy = random.standard_normal((2, *w.shape)).astype(dtype)
    inputs = {"max_forward": {"x": x}, "max_grad": {"x": x, "dy": dy}, "sum_forward": {"x": x}, "sum_grad": {"dy": dy}}[
        form
    ]
    wide = [a.astype("float32") if dtype == "bfloat16" else a for a in inputs.values()]
    expected = getattr(order, form)(w, *wide).astype(dtype)
    steps: Steps = getattr(kernels, form)(isa, scalar, w)
    out = np.full(expected.shape, 7, dtype)
    compiled, arrays = Compiled(steps, isa.name), {**inputs, steps.steps[-1].writes[0]: out}
    compiled.run(2, arrays, chunk)
    assert_same_bits(out, expected)
    for at_end in (True, False):
        compiled.run_guarded(2, arrays, at_end)
        assert_same_bits(out, expected)


SHAPES = {
    "2×2": order.window(3, 24, 24, (2, 2)),
    "2×2 of odd sizes": order.window(2, 9, 35, (2, 2)),
    "2×2 with a rest of columns": order.window(2, 8, 33, (2, 2)),
    "3×1": order.window(2, 11, 37, (3, 1)),
    "1×2 of one row": order.window(2, 1, 70, (1, 2)),
    "1×1": order.window(2, 3, 19, (1, 1)),
    "3×3 stride 2": order.window(2, 9, 51, (3, 3), stride=(2, 2), padding=((1, 1), (1, 1))),
    "overlapping, dilated": order.window(2, 9, 51, (3, 2), stride=(1, 1), padding=((1, 1), (1, 0)), dilation=(2, 3)),
    "stride 3": order.window(2, 11, 53, (3, 4), stride=(2, 3), padding=((1, 2), (0, 3))),
    "no result": order.window(2, 2, 20, (3, 3)),
    "global": order.window(3, 7, 7, (7, 7)),
}


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_same_bits(name: str, form: str, isa: Isa) -> None:
    check(form, SHAPES[name], isa)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        *((form, "float64") for form in FORMS),
        *((form, "bfloat16") for form in FORMS if form != "max_grad"),
    ],
)
def test_other_types(form: str, dtype: str) -> None:
    check(form, order.window(2, 8, 11, (3, 2), stride=(2, 1)), ISAS[0], dtype)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(FORMS), st.sampled_from(ISAS))
def test_any_parameters(data: st.DataObject, form: str, isa: Isa) -> None:
    kernel, stride, dilation = (data.draw(st.tuples(st.integers(1, m), st.integers(1, m))) for m in (3, 4, 2))
    low = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    height, width = data.draw(st.integers(low[0], 8)), data.draw(st.integers(low[1], 40))
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    check(
        form,
        order.window(
            2, height, width, kernel, stride=stride, dilation=dilation, padding=(data.draw(pair), data.draw(pair))
        ),
        isa,
    )


def doubled(f: Function, place: ResultPlace, lanes: int) -> Val:
    """Twice an operand."""
    source = f.gep(place.operands[0], place.offset, "float")
    value = (
        f.load(source, f"<{lanes} x float>")
        if place.mask is None
        else f.masked_load(source, place.mask, f"<{lanes} x float>")
    )
    return f.fadd(value, value)


def scaled(f: Function, value: Val, place: ResultPlace) -> Val:
    """A value plus that of its channel."""
    shift = f.load(f.gep(place.operands[0], place.channel, "float"), "float")
    return f.fadd(value, f.splat(shift, int(value.ty[1:].split(" ")[0])))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*SHAPES, "several bands"])
def test_work_around_a_window(name: str, form: str, isa: Isa) -> None:
    w = SHAPES.get(name) or order.window(2, 130, 97, (3, 3), stride=(2, 1), padding=((1, 0), (1, 1)))
    random = np.random.default_rng(1)
    image, result = (2, w.channels, w.rows.size, w.columns.size), (2, *w.shape)
    read = result if form in ("max_grad", "sum_grad") else image
    half, shift = random.standard_normal(read).astype(np.float32), random.standard_normal(w.channels).astype(np.float32)
    x = random.integers(-2, 3, image).astype(np.float32)
    inputs = [x, half + half] if form == "max_grad" else [half + half]
    expected = getattr(order, form)(w, *inputs) + shift[:, None, None]
    around = kernels.Fused(Prologue(doubled, ("half",)), scaled, ("shift",))
    steps: Steps = getattr(kernels, form)(isa, "float", w, around)
    out = np.full(expected.shape, 7, np.float32)
    compiled = Compiled(steps, isa.name)
    arrays = {"half": half, "shift": shift, "x": x, steps.steps[-1].writes[0]: out}
    compiled.run(2, arrays, 2)
    assert_same_bits(out, expected)
    for at_end in (True, False):
        compiled.run_guarded(2, arrays, at_end)
        assert_same_bits(out, expected)
