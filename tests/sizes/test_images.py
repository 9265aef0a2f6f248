"""Convolutions and windows over images of any size: one program for all sizes, with the bits of exact programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.codegen.convolution.general import GeneralAxis
from nacre.compile.program.cache import programs_made
from nacre.kernel.order_convolution import Axis
from same_bits import canonical

F = nn.functional

SIZES = [(9, 12), (16, 7), (31, 33), (7, 40), (12, 12), (8, 300)]


def images(n: int, channels: int, *sizes: int, dtype: Any = nc.float32) -> Any:
    values = np.random.default_rng(sum(sizes) + 7 * channels).normal(size=(n, channels, *sizes))
    return nc.tensor(values.astype(np.float32)).astype(dtype)


def bits(results: Any) -> list[bytes]:
    return list(map(canonical, results if isinstance(results, tuple | list) else (results,)))


def dims(rank: int, least: int = 7) -> dict[int, nc.Dim]:
    return {2 + k: nc.Dim(name, min=least, max=512) for k, name in enumerate(("d", "h", "w")[:rank])}


# ---- one program for all sizes


def case(channels: int, filters: int, kernel: int, dtype: Any = nc.float32, **about: Any) -> tuple[Any, ...]:
    return channels, filters, kernel, dtype, about


CASES: dict[str, tuple[Any, ...]] = {
    "usual": case(16, 32, 3, padding=1),
    "of few channels": case(3, 20, 3, padding="same"),
    "to few channels": case(20, 2, 3, padding=1),
    "strided": case(40, 33, 3, stride=2, padding=1),
    "strided far": case(5, 9, 2, stride=3),
    "dilated": case(8, 20, 3, stride=3, dilation=2, padding=1),
    "grouped": case(12, 24, 3, groups=4, dilation=2, padding=2),
    "by channel": case(8, 8, 5, groups=8, padding=2),
    "by channel, valid": case(9, 9, 3, groups=9),
    "by channel, strided": case(9, 9, 3, groups=9, stride=2, padding=1),
    "by channel, wide": case(4, 8, 7, groups=4, padding=6, dilation=2),
    "points": case(70, 20, 1),
    "many channels": case(300, 17, 1, stride=2),
    "wide": case(16, 16, 7, stride=3, padding=3),
    "wider": case(2, 40, 11, padding=5),
    "float64": case(9, 21, 3, nc.float64, padding=1),
    "bfloat16": case(9, 21, 3, nc.bfloat16, padding=1),
    "float16": case(9, 21, 3, nc.float16, stride=2),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_convolutions_have_one_program_with_the_bits_of_exact_ones(name: str) -> None:
    channels, filters, kernel, dtype, about = CASES[name]
    w = images(filters, channels // about.get("groups", 1), kernel, kernel, dtype=dtype)
    turned = {k: v for k, v in about.items() if v != "same"}
    back = nc.reshape(w, (channels, filters // about.get("groups", 1), kernel, kernel))
    functions: list[Callable[[Any], Any]] = [
        lambda x: F.conv2d(x, w, **about),
        lambda x: nc.grad(lambda y: nc.sum(F.conv2d(y, w, **about) ** 2))(x),
        lambda x: nc.grad(lambda v: nc.sum(F.conv2d(x, v, **about) ** 2))(w),
        lambda x: F.conv_transpose2d(x, back, **turned),
    ]
    for f in functions:
        ranged, exact = nc.jit(f, dynamic_shapes={"x": dims(2)}), nc.jit(f, dynamic=False)
        for sizes in SIZES:
            x = images(2, channels, *sizes, dtype=dtype)
            assert bits(ranged(x)) == bits(exact(x)), sizes
        assert len(ranged.concrete_functions) == 1


OTHERS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "conv1d": (1, lambda x: F.conv1d(x, nc.ones((6, 3, 5)), nc.ones(6), stride=2, padding=2)),
    "same": (1, lambda x: F.conv1d(x, nc.ones((6, 3, 4)), padding="same", dilation=2)),
    "conv3d": (3, lambda x: F.conv3d(x, nc.ones((6, 3, 3, 3, 3)), stride=(1, 2, 1), padding=1)),
    "conv_transpose1d": (1, lambda x: F.conv_transpose1d(x, nc.ones((3, 6, 4)), stride=2, padding=1)),
    "conv_transpose3d": (3, lambda x: F.conv_transpose3d(x, nc.ones((3, 6, 2, 2, 2)), stride=2)),
    "output padding": (
        2,
        lambda x: F.conv_transpose2d(x, nc.ones((3, 6, 3, 3)), stride=2, padding=1, output_padding=1),
    ),
    "max": (2, lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max of few": (2, lambda x: F.max_pool2d(x, 2)),
    "max1d": (1, lambda x: F.max_pool1d(x, 3, 1, 1)),
    "max3d": (3, lambda x: F.max_pool3d(x, 2)),
    "mean": (2, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "mean1d": (1, lambda x: F.avg_pool1d(x, 2)),
    "mean3d": (3, lambda x: F.avg_pool3d(x, 2)),
    "up and down": (
        2,
        lambda x: (
            F.conv_transpose2d(F.max_pool2d(x, 2), nc.ones((3, 3, 2, 2)), stride=2)[:, :, :4, :4] + x[:, :, :4, :4]
        ),
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", OTHERS)
def test_signals_volumes_and_windows(name: str) -> None:
    rank, f = OTHERS[name]
    for g in (f, nc.grad(lambda x: nc.sum(f(x) ** 2))):
        ranged, exact = nc.jit(lambda x, g=g: g(x), dynamic_shapes={"x": dims(rank)}), nc.jit(g, dynamic=False)
        for sizes in ((9, 12, 8), (8, 7, 9), (20, 16, 17)):
            x = images(2, 3, *sizes[:rank])
            assert bits(ranged(x)) == bits(exact(x)), sizes
        assert len(ranged.concrete_functions) == 1


@pytest.fixture
def one_thread() -> Iterator[Callable[[], None]]:
    before = nc.get_threads()
    yield lambda: nc.set_threads(1)
    nc.set_threads(before)


def test_threads_and_batches_do_not_matter(one_thread: Callable[[], None]) -> None:
    w = images(24, 16, 3, 3)

    def gradients(x: Any) -> Any:
        return nc.value_and_grad(lambda v: nc.sum(F.conv2d(x, v, padding=1) ** 2))(w)

    batch = {0: nc.Dim("n", max=64), **dims(2)}
    ranged, exact = nc.jit(gradients, dynamic_shapes={"x": batch}), nc.jit(gradients, dynamic=False)
    calls = [images(n, 16, *sizes) for n, sizes in ((1, (8, 300)), (3, (65, 66)), (0, (8, 8)), (9, (7, 7)))]
    wanted = [bits(exact(x)) for x in calls]
    assert [bits(ranged(x)) for x in calls] == wanted
    one_thread()
    assert [bits(ranged(x)) for x in calls] == wanted


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("channels", "filters", "padding", "n"), [(16, 16, 1, 2), (24, 40, 0, 9), (300, 17, 2, 1)])
def test_winograd_has_one_program_for_all_sizes(channels: int, filters: int, padding: int, n: int) -> None:
    w = images(filters, channels, 3, 3)
    functions: list[Callable[[Any], Any]] = [
        lambda x: F.conv2d(x, w, padding=padding),
        lambda x: nc.grad(lambda y: nc.sum(F.conv2d(y, w, padding=padding) ** 2))(x),
        lambda x: nc.grad(lambda v: nc.sum(F.conv2d(x, v, padding=padding) ** 2))(w),
    ]
    with nc.numerics("fast"):
        for f in functions:
            ranged, exact = nc.jit(f, dynamic_shapes={"x": dims(2, 3)}), nc.jit(f, dynamic=False)
            for sizes in ((8, 9), (17, 7), (4, 90), (3, 5)):
                x = images(n, channels, *sizes)
                assert bits(ranged(x)) == bits(exact(x)), sizes
            assert len(ranged.concrete_functions) == 1


# ---- networks


def network() -> Any:
    nc.random.seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Conv2d(24, 24, 3, padding=1, groups=24),
        nn.Conv2d(24, 5, 1),
    )


def training(model: Any, **options: Any) -> Any:
    opt = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(nc.mean(model(x), axis=(2, 3)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return nc.jit(step, **options) if options else step


def test_a_network_is_compiled_once_for_all_sizes() -> None:
    model = network().eval()
    f, exact = nc.jit(lambda x: model(x)), nc.jit(lambda x: model(x), dynamic=False)
    for sizes in SIZES:
        assert bits(f(images(2, 3, *sizes))) == bits(exact(images(2, 3, *sizes))), sizes
    assert [c.symbolic for c in f.concrete_functions] == [False, True]
    assert f.concrete_functions[1].reason == "axis 2 of argument x varied; axis 3 of argument x varied"


def test_training_over_sizes_is_compiled_once() -> None:
    found: list[Sequence[bytes]] = []
    y = nc.tensor([1, 4])
    for options in ({"dynamic_shapes": {"x": dims(2)}}, {"dynamic": False}, {"dynamic": True}, {}):
        model = network()
        step = training(model, **options)
        losses = [canonical(step(images(2, 3, *sizes), y)) for sizes in SIZES]
        found.append([*losses, *bits([p.value if hasattr(p, "value") else p for p in model.parameters()])])
        if "dynamic_shapes" in options:
            assert len(step.concrete_functions) == 1
        elif options.get("dynamic"):
            assert [c.symbolic for c in step.concrete_functions] == [False, True]
    assert all(each == found[0] for each in found)


def test_eager_networks_compile_nothing_for_further_sizes() -> None:
    model = network()
    step = training(model)
    for sizes in [*SIZES, (40, 41), (41, 40), (42, 42), *SIZES]:
        step(images(2, 3, *sizes), nc.tensor([1, 4]))
    before = programs_made()
    for sizes in np.random.default_rng(0).integers(8, 60, (12, 2)).tolist():
        step(images(2, 3, *sizes), nc.tensor([1, 4]))
    assert programs_made() - before <= 2  # some sizes are equal by chance


# ---- limits


def test_errors_name_the_operation_and_the_sizes() -> None:
    w = nc.ones((4, 3, 3, 3))
    small = nc.jit(lambda x: F.conv2d(x, w), dynamic_shapes={"x": dims(2, least=2)})
    with pytest.raises(nc.ShapeError, match=r"convolve: the window must fit every size .* got d, .* as small as 2"):
        small(images(1, 3, 9, 9))
    channels = nc.jit(lambda x: F.conv2d(images(1, 3, 9, 9), x), dynamic_shapes={"x": {0: nc.Dim("c", min=2)}})
    with pytest.raises(nc.ShapeError, match=r"filters and windows must have fixed sizes; .* in place of c"):
        channels(w)


def test_windows_that_do_not_fit_small_images_bound_the_sizes() -> None:
    f = nc.jit(lambda x: F.conv2d(x, nc.ones((4, 3, 5, 5))))
    for n in (9, 12, 7, 30, 5):
        assert f(images(1, 3, n, n)).shape == (1, 4, n - 4, n - 4)
    with pytest.raises(nc.ShapeError, match="must fit the padded axis; got size 4"):
        f(images(1, 3, 4, 4))


@pytest.mark.parametrize("stride", [1, 2, 3, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_taps_without_sizes_are_those_of_every_size(stride: int, dilation: int) -> None:
    for kernel in (1, 2, 3, 5):
        for low in (0, 1, 4):
            for size in (dilation * (kernel - 1) + 1, 17):
                exact = Axis(size, kernel, stride, low, 0, dilation)
                general = GeneralAxis(kernel, stride, low, dilation)
                for backward, count in ((False, exact.out), (True, size)):
                    taps, source = general.taps(backward), exact.out if backward else size
                    for position in range(count):
                        first, number, place = taps.entries[position % taps.phases]
                        place += position // taps.phases * taps.reach
                        all_taps = [(first + j * taps.tap_step, place + j * taps.source_step) for j in range(number)]
                        wanted = exact.hits(position) if backward else exact.taps(position)
                        assert tuple(t for t in all_taps if 0 <= t[1] < source) == wanted


W, W1 = nc.ones((4, 3, 3, 3)), nc.ones((3, 3, 3))
CHAINS: dict[str, tuple[Callable[[Any], Any], int, int]] = {  # a function of images or signals, their axes, the least
    "convolution-pool": (lambda x: F.max_pool2d(F.conv2d(x, W, stride=2, padding=1), 2), 2, 3),
    "pool-pool-pool": (lambda x: F.avg_pool2d(F.max_pool2d(F.max_pool2d(x, 2), 2), 2), 2, 8),
    "convolution-convolution": (lambda x: F.conv1d(F.conv1d(x, W1, stride=2), W1, stride=2), 1, 7),
    "concat-pool": (lambda x: F.max_pool1d(nc.concat([x[:, :, ::2], x[:, :, ::2]], axis=2), 3), 1, 3),
}


@pytest.mark.parametrize("name", CHAINS)
def test_windows_behind_windows_bound_the_sizes(name: str) -> None:
    function, axes, least = CHAINS[name]
    f = nc.jit(function)
    for n in (20, 24, 29, 100, least):
        x = nc.random.normal((1, 3, *range(n, n + axes)))
        assert canonical(f(x)) == canonical(function(x))
    assert len(f.concrete_functions) == 2
    for axis in range(2, 2 + axes):
        assert f"axis {axis} of argument x varied from {least}" in f.concrete_functions[1].reason
    with pytest.raises(nc.ShapeError, match=r"the window must fit the padded axis"):
        f(nc.ones((1, 3, *[least - 1] * axes)))
