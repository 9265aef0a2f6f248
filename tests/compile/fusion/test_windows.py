"""Clusters before and after a window have the same bits as alone, and are one launch with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.pipeline import compile_graph
from nacre.compile.program.executor import CompilingExecutor
from nacre.nn import functional as F


def rand(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return nc.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def launches(f: Any, operands: list[Any]) -> tuple[list[np.ndarray], list[str]]:
    """The results of a new compilation of f, and the labels of its launches."""
    graph = nc.jit(f).concrete(*operands).graph
    results = CompilingExecutor().execute(graph, operands)
    return [nc.Tensor.numpy(y) for y in results], [s.label for s in compile_graph(graph).stages]


def check(f: Any, operands: list[Any]) -> list[str]:
    """The labels of a function's launches; their results have the bits of single operations."""
    found, labels = launches(f, operands)
    wanted = f(*operands)
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert a.tobytes() == b.numpy().tobytes()
    return labels


def norm(x: Any, scale: Any, shift: Any) -> Any:
    shape = (1, -1, 1, 1)
    return x * nc.reshape(scale, shape) + nc.reshape(shift, shape)


X, S, T = rand(2, 5, 37, 29), rand(5, seed=1), rand(5, seed=2)
FORMS: dict[str, Any] = {
    "max 2×2": lambda x: F.max_pool2d(x, 2),
    "max 3×3 of margins": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max that overlap": lambda x: F.max_pool2d(x, (4, 3), (1, 2), (2, 0)),
    "max of spread taps": lambda x: F.max_pool2d(x, 3, 3, 1, dilation=2),
    "mean 2×2": lambda x: F.avg_pool2d(x, 2),
    "mean 3×3 of margins": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean that overlap": lambda x: F.avg_pool2d(x, (5, 3), (1, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMS)
def test_clusters_before_and_after(name: str, dtype: Any) -> None:
    pool = FORMS[name]
    operands = [nc.asarray(v.numpy().astype(dtype)) for v in (X, S, T)]
    assert len(check(lambda x, s, t: pool(F.relu(norm(x, s, t))), operands)) == 1
    assert len(check(lambda x, s, t: F.relu(norm(pool(x), s, t)), operands)) == 1
    assert len(check(lambda x, s, t: F.gelu(pool(nc.exp(x) * 2.0)) + pool(x), operands)) == 2


@pytest.mark.parametrize("name", FORMS)
def test_derivatives(name: str) -> None:
    pool = FORMS[name]

    def loss(x: Any, s: Any) -> Any:
        y = pool(F.relu(x * nc.reshape(s, (1, -1, 1, 1))))
        return nc.sum(y * y * y)

    def f(x: Any, s: Any) -> Any:
        return nc.grad(loss)(x, s)

    labels = check(f, [X, S])
    assert any("window" in s and "_grad+" in s for s in labels), labels


def test_planes_of_several_blocks_of_rows() -> None:
    x = rand(1, 2, 300, 141)
    for pool in FORMS.values():
        assert len(check(lambda x, pool=pool: pool(F.relu(x * 2.0)) - 1.0, [x])) == 1


def test_signals_and_volumes() -> None:
    signal, volume = rand(3, 4, 50), rand(2, 3, 6, 8, 9)
    assert len(check(lambda x: F.relu(F.max_pool1d(F.relu(x * 2.0), 3, 2) + 1.0), [signal])) == 1
    assert len(check(lambda x: F.relu(F.avg_pool1d(F.relu(x * 2.0), 2) + 1.0), [signal])) == 1
    assert len(check(lambda x: F.relu(F.max_pool3d(F.relu(x * 2.0), 2) + 1.0), [volume])) == 2
    assert len(check(lambda x: F.relu(F.max_pool2d(F.relu(x * 2.0), 2) + 1.0), [rand(3, 8, 9)])) == 1


def test_operands_with_one_number_for_each_image_channel_or_plane() -> None:
    for shape in ((2, 1, 1, 1), (2, 5, 1, 1), (37, 29)):
        assert len(check(lambda x, s: F.max_pool2d(x * s, 2), [X, rand(*shape)])) == 1
    for shape in ((2, 1, 1, 1), (2, 5, 1, 1), (18, 14)):
        assert len(check(lambda x, s: F.max_pool2d(x, 2) * s, [X, rand(*shape)])) == 1
    mean = nc.jit(lambda x: F.relu(F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)))
    assert bool(nc.all(mean(X) == F.relu(F.avg_pool2d(X, 3, 1, 1, count_include_pad=False))))


def test_several_results_and_masks() -> None:
    mask = X > 0

    def f(x: Any, m: Any) -> Any:
        y = F.max_pool2d(nc.where(m, x, 0.5), 2)
        z = y + 1.0
        return F.relu(z), z > 0, y, z

    assert len(check(f, [X, mask])) == 1


def test_values_with_other_readers_are_stored() -> None:
    def f(x: Any) -> Any:
        y = F.relu(x * 2.0)
        return F.max_pool2d(y, 2), F.avg_pool2d(y, 3)

    assert len(check(f, [X])) == 3
    assert len(check(lambda x: (y := F.relu(x * 2.0), F.max_pool2d(y, 2)), [X])) == 2


def test_operands_with_another_layout_are_not_fused() -> None:
    assert len(check(lambda x, s: F.max_pool2d(x * s, 2), [X, rand(37, 1)])) == 2
    assert len(check(lambda x: F.max_pool2d(nc.permute_dims(x, (0, 1, 3, 2)) * 2.0, 2), [X])) >= 2
    assert len(check(lambda x: F.max_pool2d((x * 2.0)[:, :, 3:], 2), [X])) >= 2


def test_other_types_and_wide_windows() -> None:
    for half in (nc.astype(X, nc.bfloat16), nc.astype(X, nc.float16)):
        for size, stride in ((2, None), (3, 2)):
            assert len(check(lambda x, n=size, s=stride: F.max_pool2d(F.relu(x * 2.0), n, s) + 1.0, [half])) == 1
            assert len(check(lambda x, n=size, s=stride: F.avg_pool2d(F.relu(x * 2.0), n, s) + 1.0, [half])) == 1
    check(lambda x: F.max_pool2d(x * 2, 2) + 1, [nc.astype(X * 10.0, nc.int32)])
    check(lambda x: F.max_pool2d(F.relu(x * 2.0), (1, 20)) + 1.0, [X])
    check(lambda x: F.max_pool2d(F.relu(x * 2.0), (37, 8), 8) + 1.0, [X])


def test_one_program_for_every_batch() -> None:
    f = nc.jit(
        lambda x, s, t: F.relu(F.max_pool2d(F.relu(norm(x, s, t)), 3, 2, 1) - 0.5),
        dynamic_shapes={"x": {0: nc.Dim("n", min=0, max=8)}},
    )
    for n in (0, 1, 2, 5):
        x = rand(n, 5, 20, 20)
        wanted = F.relu(F.max_pool2d(F.relu(norm(x, S, T)), 3, 2, 1) - 0.5)
        np.testing.assert_array_equal(f(x, S, T).numpy(), wanted.numpy())
    assert len(f.concrete_functions) == 1


def test_a_bias_gradient_reads_the_windows_epilogue() -> None:
    x, w, b = rand(2, 8, 16, 16), rand(8, 8, 3, 3, seed=1), rand(8, seed=2)

    def loss(w: Any, b: Any, x: Any) -> Any:
        return nc.sum(F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2) ** 2)

    def f(x: Any, w: Any, b: Any) -> Any:
        return nc.grad(loss, argnums=(0, 1))(w, b, x)

    labels = check(f, [x, w, b])
    assert "window_max_grad+select" in labels and "sum" in labels, labels
