"""Prepacked weights of deployed programs: the bits of the function run here, and each weight once in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, same
from nacre import deploy, nn
from nacre.compile.pipeline import compile_graph
from nacre.deploy.ahead import prepacked
from nacre.deploy.fold import folded
from nacre.formats.program import freeze
from nacre.interpret.evaluate import to_numpy
from nacre.native.engine import cross_target, host_target, isa_of
from nacre.nn import functional as F
from nacre.trace.value import make


def rand(*shape: int, seed: int = 0) -> nc.Tensor:
    return nc.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


SIZES = (24, 20, 3, 3), (264, 256, 3, 3), (48, 20, 3, 3), (300, 700, 1, 1)
SMALL, LARGE, GROUPED, WIDE = (rand(*s, seed=1) for s in SIZES)
BIAS = rand(264)
PROGRAMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "small": (lambda x: F.relu(F.conv2d(x, SMALL, padding=1)), (2, 20, 9, 7)),
    "large": (lambda x: F.relu(F.conv2d(x, LARGE, BIAS, padding=1)), (2, 256, 7, 7)),
    "grouped": (lambda x: F.conv2d(x, GROUPED, groups=2), (2, 40, 9, 7)),
    "one tap": (lambda x: F.conv2d(x, WIDE), (1, 700, 5, 5)),
    "transposed": (lambda x: F.conv_transpose2d(x, LARGE, stride=2, padding=1), (1, 264, 6, 5)),
    "transposed, one tap": (lambda x: F.conv_transpose2d(x, WIDE), (1, 300, 6, 5)),
    "in several places": (lambda x: F.conv2d(F.conv2d(x, LARGE[:256], padding=1), LARGE[:256]), (1, 256, 6, 6)),
    "in a branch": (
        lambda x: nc.cond(nc.sum(x) > 0, lambda x: F.conv2d(x, LARGE), lambda x: -F.conv2d(x, LARGE), x),
        (1, 256, 4, 4),
    ),
}


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits(name: str, mode: str, tmp_path: Path) -> None:
    f, shape = PROGRAMS[name]
    with nc.numerics(mode):
        made = Library(deploy.compile(f, [nc.zeros(shape)], tmp_path / "libf.so", "shared"))
        for seed in range(2):
            x = rand(*shape, seed=seed)
            for threads in (1, 3):
                made.threads(threads)
                assert same(made(x.numpy())[0], f(x).numpy())


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_every_batch_and_a_half_type(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return F.conv2d(F.relu(x), LARGE, padding=1)

    sizes = {"x": {0: nc.Dim("batch", min=0, max=8)}}
    made = Library(deploy.compile(f, [nc.zeros((2, 256, 4, 4))], tmp_path / "libf.so", "shared", dynamic_shapes=sizes))
    for n in (0, 3, 1):
        x = rand(n, 256, 4, 4)
        assert same(made(x.numpy(), batch=n)[0], f(x).numpy())
    half = nc.astype(LARGE, nc.float16)
    x = nc.astype(rand(1, 256, 4, 4), nc.float16)
    made = Library(deploy.compile(lambda x: F.conv2d(x, half), [x], tmp_path / "libh.so", "shared"))
    assert same(made(x.numpy())[0], F.conv2d(x, half).numpy())


@pytest.mark.parametrize("isa", ["host", "neon"])
@pytest.mark.parametrize("name", ["small", "large", "one tap"])
def test_a_weight_is_stored_once_and_nothing_is_packed_at_run_time(name: str, isa: str) -> None:
    f, shape = PROGRAMS[name]
    target = host_target() if isa == "host" else cross_target(isa)
    program = freeze(f, nc.zeros(shape))
    before = compile_graph(program.closed, target=target).executable
    after = prepacked(before)
    assert len(after.plan.steps) == 1 and len(before.plan.steps) <= 2, isa_of(target).name
    held = sum(a.nbytes for a in after.constants)
    assert held < 2.2 * sum(a.nbytes for a in before.constants)  # channels are rounded up to vectors and blocks
    if len(before.plan.steps) == 2:
        assert len(after.codes) < len(before.codes)


def test_constants_that_are_read_directly_stay() -> None:
    program = freeze(lambda x: (F.conv2d(x, LARGE), LARGE + 0.0), nc.zeros((1, 256, 4, 4)))
    before = compile_graph(program.closed).executable
    after = prepacked(before)
    assert sum(a.nbytes for a in after.constants) >= 2 * LARGE.nbytes


def normalised() -> nn.Module:
    """A convolution with a normalisation whose statistics are not the initial ones."""
    nc.random.seed(1)
    model = nn.Sequential(nn.Conv2d(8, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2))
    for seed in range(2):
        model(rand(4, 8, 9, 9, seed=seed))
    return model.eval()


def labels(f: Any, shape: tuple[int, ...]) -> list[str]:
    return [s.label for s in compile_graph(folded(freeze(f, nc.zeros(shape)).closed)).stages]


def test_constant_expressions_are_folded() -> None:
    assert not any("rsqrt" in s for s in labels(normalised(), (1, 8, 9, 9)))
    weight = rand(64, 32)
    assert labels(lambda x: x @ (weight / nc.sqrt(nc.sum(weight * weight, axis=0))), (4, 64)) == ["contract"]


def test_larger_results_than_their_constants_are_not_folded() -> None:
    half = nc.astype(rand(64, 1), nc.bfloat16)
    program = freeze(lambda x: x * nc.exp(nc.astype(half, nc.float32) + nc.arange(0.0, 640.0)), nc.zeros((64, 640)))
    graph = folded(program.closed)
    assert all(e.primitive.name in {q.primitive.name for q in graph.equations} for e in program.closed.equations)


OF_SIZES: dict[str, Callable[[Any], Any]] = {
    "a share": lambda x: F.batch_norm(x, None, None, training=True),
    "a count": lambda x: x * nc.sqrt(BIAS[:4] * BIAS[:4] + x.shape[0]),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_expressions_of_symbolic_sizes_are_not_folded(name: str) -> None:
    f, sizes = OF_SIZES[name], {"x": {0: nc.Dim("batch", min=1, max=8)}}
    program = freeze(f, nc.zeros((2, 3, 4, 4)), dynamic_shapes=sizes)
    executable = prepacked(compile_graph(folded(program.closed)).executable)
    for n in (1, 5):
        x = rand(n, 3, 4, 4)
        (found,) = executable.run([x.content.address], {"batch": n})
        assert same(to_numpy(make(x.type, found)), f(x).numpy())


def test_images_of_any_size_with_packed_filters() -> None:
    w = rand(9, 3, 3, 3)
    sizes = {"x": {2: nc.Dim("height", min=2, max=60), 3: nc.Dim("width", min=2, max=60)}}
    program = freeze(lambda x: F.conv2d(x, w, padding=1), nc.zeros((2, 3, 4, 5)), dynamic_shapes=sizes)
    before = compile_graph(program.closed).executable
    executable = prepacked(before)
    assert len(executable.plan.steps) == len(before.plan.steps) - 1
    for height, width in ((4, 5), (31, 44)):
        x = rand(2, 3, height, width)
        (found,) = executable.run([x.content.address], {"height": height, "width": width})
        wanted = F.conv2d(x, w, padding=1)
        assert same(to_numpy(make(wanted.type, found)), wanted.numpy())


def test_constants_that_are_results() -> None:
    graph = folded(freeze(lambda x: (x + BIAS, BIAS * 2.0, nc.exp(BIAS) * 2.0 + x), nc.zeros((264,))).closed)
    graph.verify()
    assert [e.primitive.name for e in graph.equations].count("exp") == 0


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_same_bits_of_what_was_computed_before(tmp_path: Path) -> None:
    model = normalised()
    made = Library(deploy.compile(model, [nc.zeros((2, 8, 9, 9))], tmp_path / "libf.so", "shared"))
    x = rand(2, 8, 9, 9)
    assert same(made(x.numpy())[0], model(x).numpy())
