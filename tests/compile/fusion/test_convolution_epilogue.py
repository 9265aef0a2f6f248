"""Clusters that are fused with a convolution have the same bits as alone, and are one launch with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.pipeline import compile_graph
from nacre.compile.program.executor import CompilingExecutor
from nacre.nn import functional as F


def rand(*shape: int, seed: int = 0) -> Any:
    return nc.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def launches(f: Any, operands: list[Any]) -> tuple[list[np.ndarray], list[str]]:
    """The results of a new compilation of f, and the labels of its launches."""
    graph = nc.jit(f).concrete(*operands).graph
    results = CompilingExecutor().execute(graph, operands)
    return [nc.Tensor.numpy(y) for y in results], [s.label for s in compile_graph(graph).stages]


def norm(x: Any, scale: Any, shift: Any) -> Any:
    shape = (1, -1, 1, 1)
    return x * nc.reshape(scale, shape) + nc.reshape(shift, shape)


X, W, R, S, T = rand(2, 20, 9, 7), rand(24, 20, 3, 3, seed=1), rand(2, 24, 9, 7, seed=2), rand(24), rand(24, seed=3)
ENDINGS: dict[str, Any] = {
    "relu": lambda x, w, r, s, t: F.relu(F.conv2d(x, w, padding=1)),
    "normalised": lambda x, w, r, s, t: F.relu(norm(F.conv2d(x, w, padding=1), s, t)),
    "residual": lambda x, w, r, s, t: F.relu(norm(F.conv2d(x, w, padding=1), s, t) + r),
    "gelu of a bias": lambda x, w, r, s, t: F.gelu(F.conv2d(x, w, s, padding=1)),
    "a mask": lambda x, w, r, s, t: nc.where(r > 0, F.conv2d(x, w, padding=1), 0.5),
    "narrow": lambda x, w, r, s, t: F.relu(F.conv2d(x[:, :3], w[:3, :3], s[:3], padding=1)),
    "depthwise": lambda x, w, r, s, t: F.relu(F.conv2d(x, w[:20, :1], s[:20], padding=1, groups=20)),
    "transposed": lambda x, w, r, s, t: F.relu(F.conv_transpose2d(r, w, s[:20], padding=1)),
    "one channel": lambda x, w, r, s, t: F.relu(norm(F.conv2d(x, w[:1]), s[:1], t[:1])),
}


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("name", ENDINGS)
def test_bits(name: str, mode: str) -> None:
    f, operands = ENDINGS[name], [X, W, R, S, T]
    with nc.numerics(mode):
        wanted = f(*operands).numpy()
        (found,), labels = launches(f, operands)
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
        assert labels[-1].startswith(("convolve+", "convolve_input_grad+", "winograd+", "winograd_input_grad+")), labels


@pytest.mark.parametrize("size", [7, 16])
def test_all_results_are_written_at_once(size: int) -> None:
    def f(x: Any, w: Any, bias: Any) -> Any:
        y = F.conv2d(x, w)
        z = y + nc.reshape(bias, (1, -1, 1, 1))
        return F.relu(z), z > 0, z, F.max_pool2d(y, 2)

    operands = [rand(3, 20, size, size), W, S]
    for mode in ("exact", "fast"):
        with nc.numerics(mode):
            found, labels = launches(f, operands)
            for a, b in zip(found, f(*operands), strict=True):
                np.testing.assert_array_equal(a, b.numpy())
            assert labels[-2].startswith(("convolve+", "winograd+")) and labels[-1] == "window_max", labels


def test_a_cluster_without_a_result_of_the_convolutions_type() -> None:
    (found,), labels = launches(lambda x, w: F.conv2d(x, w) > 0, [X, W])
    np.testing.assert_array_equal(found, F.conv2d(X, W).numpy() > 0)
    assert "convolve" in labels


def test_an_empty_result() -> None:
    (found,), _ = launches(lambda x, w: F.relu(F.conv2d(x, w)), [rand(0, 20, 9, 7), W])
    assert found.shape == (0, 24, 7, 5)
    (found,), _ = launches(lambda x, w: F.relu(F.conv2d(x, w[:0])), [X, W])
    assert found.shape == (2, 0, 7, 5)


@pytest.mark.parametrize("shape", [(2, 1, 1, 1), (2, 24, 1, 1), (1, 1, 7, 5), (7, 5)])
@pytest.mark.parametrize("images", [1, 2])
def test_operands_with_one_number_for_each_image_channel_or_plane(shape: tuple[int, ...], images: int) -> None:
    def f(x: Any, w: Any, scale: Any) -> Any:
        return F.conv2d(x, w) * scale

    x, scale = X[:images], rand(*shape)[: max(images, shape[0] if shape[0] > 2 else 1)]
    (found,), labels = launches(f, [x, W, scale])
    np.testing.assert_array_equal(found, f(x, W, scale).numpy())
    assert labels[-1] == "convolve+mul"


def test_an_operand_with_one_number_for_each_row_is_not_fused() -> None:
    def f(x: Any, w: Any, scale: Any) -> Any:
        return F.conv2d(x, w) * scale

    (found,), labels = launches(f, [X, W, rand(7, 1)])
    np.testing.assert_array_equal(found, f(X, W, rand(7, 1)).numpy())
    assert "convolve" in labels


def test_epilogues_of_half_types_are_separate_launches() -> None:
    half = [nc.astype(v, nc.bfloat16) for v in (X, W)]
    (found,), labels = launches(lambda x, w: F.relu(F.conv2d(x, w)), half)
    assert "convolve" in labels and (found.astype(np.float32) >= 0).all()


def test_one_program_for_every_batch() -> None:
    f = nc.jit(lambda x, w, s: F.relu(F.conv2d(x, w, s)), dynamic_shapes={"x": {0: nc.Dim("n", max=8)}})
    for n in (1, 2, 5):
        x = rand(n, 20, 6, 6)
        np.testing.assert_array_equal(f(x, W, S).numpy(), F.relu(F.conv2d(x, W, S)).numpy())
    assert len(f.concrete_functions) == 1


@pytest.mark.parametrize("name", ["two layers", *ENDINGS])
def test_bits_in_autocast(name: str) -> None:
    """Convolutions that read bfloat16 write it too, also through epilogues of other types."""

    def two_layers(x: Any, w: Any, r: Any, s: Any, t: Any) -> Any:
        """Two convolutions, the first with a bias and an activation."""
        return F.conv2d(F.relu(F.conv2d(x, w, s, padding=1)), nc.permute_dims(w, (1, 0, 2, 3)), t[:20])

    f, operands = nc.autocast(nc.bfloat16)(ENDINGS.get(name, two_layers)), [X, W, R, S, T]

    def whole(*operands: Any) -> Any:
        """The value and the gradients."""
        value, gradients = nc.value_and_grad(lambda *xs: nc.sum(f(*xs) ** 2), (0, 1, 3))(*operands)
        return value, *gradients

    found, labels = launches(whole, operands)
    for got, wanted in zip(found, whole(*operands), strict=True):
        np.testing.assert_array_equal(got, wanted.numpy())
    if name == "two layers":
        for kind in ("widened_convolve+add+cast+le+select", "widened_convolve_input_grad+cast+select"):
            assert any(s.startswith(kind) for s in labels), labels
