"""Kernels that read or write images in blocks of channels give the bits of those in planes."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.run_steps import Compiled, assert_same_bits, available
from nacre.codegen.convolution.kernel import forward
from nacre.codegen.convolution.sequence import Blocked, ResultPlace, Steps
from nacre.codegen.convolution.winograd import winograd
from nacre.codegen.window.kernel import blocked_max_forward
from nacre.kernel import order_convolution, order_window, order_winograd
from nacre.kernel.order_convolution import CHANNEL_BLOCK, Convolution, convolution
from nacre.native.engine import compile_text, cross_target
from nacre.native.isa import AVX2, AVX512, BY_NAME, Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function

ISAS = [isa for isa in (AVX512, AVX2) if available(isa.name)]
SIDES = [Blocked(True, True), Blocked(True, False), Blocked(False, True)]
PAD = ((1, 1), (1, 1))


def in_blocks(x: np.ndarray) -> np.ndarray:
    batch, channels, height, width = x.shape
    split = x.reshape(batch, channels // CHANNEL_BLOCK, CHANNEL_BLOCK, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


WINOGRAD = {
    "bands": (convolution(32, 18, 17, 48, (3, 3), padding=PAD), 2),
    "edges": (convolution(16, 5, 9, 16, (3, 3), padding=((0, 2), (2, 0))), 3),
    "panels, many images": (convolution(160, 7, 7, 208, (3, 3), padding=PAD), 3),
    "panels, bands, chains": (convolution(288, 33, 9, 112, (3, 3), padding=PAD), 1),
    "groups": (convolution(64, 8, 6, 32, (3, 3), padding=PAD, groups=2), 2),
    "little": (convolution(16, 1, 1, 32, (3, 3), padding=PAD), 1),
}
DIRECT = {
    "a kernel of 3 × 3": (convolution(32, 18, 17, 48, (3, 3), padding=PAD), 2),
    "steps": (convolution(48, 15, 13, 32, (3, 3), stride=(2, 2), padding=PAD), 3),
    "points": (convolution(64, 9, 16, 96, (1, 1)), 2),
    "points, apart": (convolution(64, 9, 16, 96, (1, 1), stride=(2, 2)), 2),
    "dilation": (convolution(32, 14, 12, 16, (3, 5), dilation=(2, 3), padding=((4, 1), (2, 6))), 1),
    "packed panels": (convolution(272, 16, 16, 160, (3, 3), padding=PAD), 2),
    "groups": (convolution(64, 8, 6, 32, (3, 3), padding=PAD, groups=2), 2),
}


def ending(f: Function, value: Val, place: ResultPlace) -> Val:
    """max(value, 0) + residual + the channel's number."""
    residual, numbers = place.operands
    lanes = f.load(f.gep(numbers, place.channel, "float"), value.ty) if place.blocked else None
    number = lanes or f.splat(f.load(f.gep(numbers, place.channel, "float"), "float"), 16 if "16" in value.ty else 8)
    at = f.gep(residual, place.offset, "float")
    more = f.load(at, value.ty) if place.mask is None else f.masked_load(at, place.mask, value.ty)
    return f.fadd(f.fadd(f.intrinsic("maximum", value.ty, [value, f.zero(value.ty)]), more), number)


def check(
    steps: Steps,
    isa: Isa,
    conv: Convolution,
    batch: int,
    blocked: Blocked,
    wanted: np.ndarray,
    arrays: dict[str, np.ndarray],
) -> None:
    """Compare in memory that faults beyond the arrays."""
    given = {
        name: in_blocks(x) if (name == "x" and blocked.source) or (name == "r" and blocked.result) else x
        for name, x in arrays.items()
    }
    wanted = in_blocks(wanted) if blocked.result else wanted
    given["y"] = np.full(wanted.shape, np.nan, np.float32)
    compiled = Compiled(steps, isa.name)
    compiled.run(batch, given, 3)
    assert_same_bits(given["y"], wanted)
    for at_end in (True, False):
        given["y"].fill(np.nan)
        compiled.run_guarded(batch, given, at_end, False)
        assert_same_bits(given["y"], wanted)


def operands(conv: Convolution, batch: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    result = (batch, conv.filters, conv.rows.out, conv.columns.out)
    shapes = {
        "x": (batch, conv.channels, conv.rows.size, conv.columns.size),
        "w": conv.weight_shape,
        "r": result,
        "n": (conv.filters,),
    }
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def ended(y: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.maximum(y, np.float32(0)) + arrays["r"] + arrays["n"][:, None, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("blocked", SIDES)
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(name: str, blocked: Blocked, isa: Isa) -> None:
    conv, batch = WINOGRAD[name]
    sides, arrays = order_winograd.forward_sides(conv), operands(conv, batch)
    wanted = order_winograd.forward(conv, arrays["x"], arrays["w"])
    plain = {name: arrays[name] for name in ("x", "w")}
    check(winograd(isa, "float", sides, "x", "y", blocked=blocked), isa, conv, batch, blocked, wanted, plain)
    steps = winograd(isa, "float", sides, "x", "y", ending, ("r", "n"), blocked)
    check(steps, isa, conv, batch, blocked, ended(wanted, arrays), arrays)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("blocked", SIDES)
@pytest.mark.parametrize("name", DIRECT)
def test_direct(name: str, blocked: Blocked, isa: Isa) -> None:
    conv, batch = DIRECT[name]
    arrays = operands(conv, batch)
    wanted = order_convolution.forward(conv, arrays["x"], arrays["w"])
    plain = {name: arrays[name] for name in ("x", "w")}
    check(forward(isa, "float", conv, blocked=blocked), isa, conv, batch, blocked, wanted, plain)
    steps = forward(isa, "float", conv, epilogue=ending, operands=("r", "n"), blocked=blocked)
    check(steps, isa, conv, batch, blocked, ended(wanted, arrays), arrays)


WINDOWS = [
    order_window.window(32, 9, 14, (3, 3), stride=(2, 2), padding=PAD),
    order_window.window(16, 7, 7, (2, 2)),
    order_window.window(48, 5, 3, (3, 2), stride=(1, 3), padding=((2, 1), (1, 1)), dilation=(2, 1)),
]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("about", WINDOWS, ids=str)
def test_maxima(about: order_window.Window, isa: Isa) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, about.channels, about.rows.size, about.columns.size)).astype(np.float32)
    x[random.random(x.shape) < 0.02] = np.nan
    wanted = in_blocks(order_window.max_forward(about, x))
    arrays = {"x": in_blocks(x), "y": np.zeros(wanted.shape, np.float32)}
    compiled = Compiled(blocked_max_forward(isa, "float", about), isa.name)
    for at_end in (True, False):
        arrays["y"].fill(-1)
        compiled.run_guarded(2, arrays, at_end, False)
        assert_same_bits(arrays["y"], wanted)


@pytest.mark.parametrize("blocked", SIDES)
def test_kernels_for_aarch64(blocked: Blocked) -> None:
    isa, target = BY_NAME["neon"], cross_target("neon")
    conv = convolution(32, 9, 9, 48, (3, 3), padding=PAD)
    made = [
        winograd(isa, "float", order_winograd.forward_sides(conv), "x", "y", blocked=blocked),
        forward(isa, "float", conv, blocked=blocked),
    ]
    for steps in made:
        for step in steps.steps:
            assert compile_text(step.text, target)
