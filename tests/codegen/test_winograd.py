"""Winograd kernels give the bits of their order, for every division of the work."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.run_steps import Compiled, assert_packed_alike, assert_same_bits, available
from nacre.codegen.convolution.sequence import ResultPlace, Steps
from nacre.codegen.convolution.winograd import winograd
from nacre.codegen.convolution.winograd_plan import WinogradPlan
from nacre.codegen.convolution.winograd_weight import winograd_weight
from nacre.kernel import order_winograd as order
from nacre.kernel.order_convolution import Convolution, convolution
from nacre.native.engine import compile_text, cross_target
from nacre.native.isa import AVX2, AVX512, BY_NAME, Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function

ISAS = [isa for isa in (AVX512, AVX2) if available(isa.name)]
FORMS = {"forward": ("x", "w", "y"), "input_grad": ("dy", "w", "dx"), "weight_grad": ("x", "dy", "dw")}
SCALARS = {"float32": "float", "float64": "double"}


def square(channels: int, size: int, filters: int, pad: int = 1, groups: int = 1) -> Convolution:
    return convolution(channels, size, size, filters, (3, 3), padding=((pad, pad), (pad, pad)), groups=groups)


SHAPES = {
    "bands": (square(20, 18, 18), 2),
    "one tile": (square(5, 4, 3, 0), 3),
    "groups": (square(12, 8, 20, groups=2), 2),
    "panels, many images": (square(160, 7, 200), 3),
    "panels, chains": (square(300, 5, 120), 3),
    "panels, bands": (square(130, 33, 125), 1),
    "few tiles, chains": (square(300, 7, 120), 1),
    "one tile of many channels": (square(300, 4, 120), 1),
    "blocks of many tiles and of one": (square(144, 3, 64), 65),
    "padding wider than the window": (square(6, 3, 5, 4), 2),
    "one row": (convolution(8, 3, 40, 4, (3, 3), padding=((0, 0), (1, 0))), 2),
    "one column": (convolution(8, 9, 3, 4, (3, 3)), 2),
    "many images": (square(9, 6, 5), 19),
    "no channels": (square(0, 5, 7), 1),
    "no filters": (square(7, 5, 0), 1),
    "no image": (square(7, 5, 3), 0),
}


def steps(form: str, isa: Isa, dtype: str, conv: Convolution) -> Steps:
    if form == "forward":
        return winograd(isa, SCALARS[dtype], order.forward_sides(conv), "x", "y")
    if form == "input_grad":
        return winograd(isa, SCALARS[dtype], order.gradient_sides(conv), "dy", "dx")
    return winograd_weight(isa, SCALARS[dtype], order.forward_sides(conv))


def check(form: str, conv: Convolution, batch: int, isa: Isa, dtype: str = "float32") -> None:
    random = np.random.default_rng(0)
    image = (batch, conv.channels, conv.rows.size, conv.columns.size)
    result = (batch, conv.filters, conv.rows.out, conv.columns.out)
    shapes = {"x": image, "dx": image, "y": result, "dy": result, "w": conv.weight_shape, "dw": conv.weight_shape}
    *inputs, out = FORMS[form]
    arrays = {name: random.standard_normal(shapes[name]).astype(dtype) for name in inputs}
    wanted = getattr(order, form)(conv, *arrays.values())
    arrays[out] = np.full(shapes[out], np.nan, dtype)
    compiled = Compiled(steps(form, isa, dtype, conv), isa.name)
    compiled.run(batch, arrays, 3)
    assert_same_bits(arrays[out], wanted)
    for at_end in (True, False):
        for keeps in (False, True)[: 1 + bool(compiled.steps.packed)]:
            arrays[out].fill(np.nan)
            compiled.run_guarded(batch, arrays, at_end, keeps)
            assert_same_bits(arrays[out], wanted)
    assert_packed_alike(compiled, batch, arrays, out, wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_same_bits(name: str, form: str, isa: Isa) -> None:
    conv, batch = SHAPES[name]
    check(form, conv, batch, isa)


@pytest.mark.parametrize("form", FORMS)
def test_float64(form: str) -> None:
    check(form, square(9, 6, 5), 2, ISAS[0], "float64")


def test_both_divisions_of_the_work_occur() -> None:
    plans = [WinogradPlan(order.forward_sides(conv), 16, 32, 4) for conv, _ in SHAPES.values()]
    assert {plan.by_row_panel for plan in plans} == {True, False}


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_register_tiles_fill_every_block(lanes: int) -> None:
    for size in (1, 4, 7, 8, 14, 28, 33, 56, 130):
        for channels in (16, 64, 256):
            plan = WinogradPlan(
                order.forward_sides(square(channels, size, channels)), lanes, 32 if lanes != 8 else 16, 4
            )
            down, across = plan.sides.tiles
            last = down - (plan.row_panels - 1) * plan.row_panel
            assert 0 < last <= plan.row_panel and plan.block <= max(64, across)
            for tiles in {n * across * k for n in (plan.row_panel, last) for k in range(1, plan.images + 1)}:
                for n in plan.rows:
                    tiles -= tiles // n * n
                assert tiles == 0


@pytest.mark.parametrize("channels", [20, 170])
def test_epilogue(channels: int) -> None:
    def relu_of_bias(f: Function, value: Val, place: ResultPlace) -> Val:
        bias = f.load(f.gep(place.operands[0], place.channel, "float"), "float")
        total = f.fadd(value, f.splat(bias, int(value.ty[1:].split()[0])))
        return f.select(f.fcmp("ogt", total, f.zero(total.ty)), total, f.zero(total.ty))

    isa, conv, random = ISAS[0], square(channels, 9, channels), np.random.default_rng(1)
    arrays = {
        "x": random.standard_normal((2, channels, 9, 9)).astype(np.float32),
        "w": random.standard_normal(conv.weight_shape).astype(np.float32),
        "y": np.zeros((2, channels, 9, 9), np.float32),
        "bias": np.linspace(-1, 1, channels, dtype=np.float32),
    }
    made = winograd(isa, "float", order.forward_sides(conv), "x", "y", relu_of_bias, ("bias",))
    Compiled(made, isa.name).run(2, arrays, 1)
    plain = order.forward(conv, arrays["x"], arrays["w"]) + arrays["bias"][:, None, None]
    assert_same_bits(arrays["y"], np.where(plain > 0, plain, np.float32(0)))


@pytest.mark.parametrize("channels", [8, 200])
def test_compiles_for_aarch64(channels: int) -> None:
    for form in FORMS:
        for step in steps(form, BY_NAME["neon"], "float32", square(channels, 8, channels)).steps:
            assert len(compile_text(step.text, cross_target("neon"))) > 0
