"""Hand-written kernels and nests of the same primitive give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
import pytest

import nacre as nc
from codegen.run_steps import assert_same_bits
from nacre.compile.pipeline import compile_graph
from nacre.interpret.evaluate import to_numpy
from nacre.nn import functional
from nacre.ops import window
from nacre.trace.value import Value, make

LABELS = "max", "max_grad", "sum", "sum_grad"
PADDED = {"size": (3, 3), "stride": (2, 1), "padding": ((1, 1), (1, 0))}
WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "tiles": ((3, 2, 6, 8), {"size": (2, 2), "stride": (2, 2)}),
    "one image": ((1, 3, 9, 35), {"size": (2, 2), "stride": (2, 2)}),
    "no image": ((0, 2, 6, 6), {"size": (2, 2), "stride": (2, 2)}),
    "overlapping": ((2, 2, 7, 40), PADDED),
    "dilated": ((2, 1, 11, 21), {**PADDED, "dilation": (2, 3)}),
    "outside": ((1, 2, 4, 5), {"size": (2, 2), "padding": ((3, 0), (0, 3))}),
    "one column": ((2, 2, 6, 5), {"size": (5, 5), "stride": (1, 5)}),
    "whole": ((2, 2, 5, 5), {"size": (5, 5), "stride": (5, 5)}),
    "wide": ((1, 2, 9, 30), {"size": (2, 9), "stride": (1, 9)}),
}


def _launches(f: Callable[..., Value], operands: list[Any]) -> tuple[np.ndarray, bool]:
    """The results of a new compilation of f, and whether a nest computed them."""
    graph = nc.jit(f).concrete(*operands).graph
    compiled = compile_graph(graph)
    (buffer,) = compiled.executable.run([x.content.address for x in operands], {})
    own = [s for s in compiled.stages if "window_" in s.label]  # perhaps with conversions before and behind it
    return to_numpy(make(graph.output_types[0], buffer)), any(s.kernel is not None for s in own)


def _case(label: str, shape: tuple[int, ...], params: dict[str, Any], dtype: str) -> tuple[Any, list[Any]]:
    """A form of a window, and operands with ties, zeros of both signs and NaN."""
    random = np.random.default_rng(0)
    x = random.integers(-2, 3, shape).astype(dtype)
    x[random.random(shape) < 0.1] = -0.0
    x[random.random(shape) < 0.03] = np.nan
    image = nc.asarray(x)
    if label.startswith("sum"):
        params = {k: v for k, v in params.items() if k != "dilation"}
    counted = (window.window_sum if label.startswith("sum") else window.window_max)(image, **params)
    g = nc.asarray(random.standard_normal(counted.type.shape).astype(dtype))
    forms: dict[str, tuple[Any, list[Any]]] = {
        "max": (lambda a: window.window_max(a, **params), [image]),
        "max_grad": (lambda h, a: window.window_max_grad(h, a, **params), [g, image]),
        "sum": (lambda a: window.window_sum(a, **params), [image]),
        "sum_grad": (lambda h: window.window_sum_grad(h, shape, **params), [g]),
    }
    return forms[label]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, label: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, operands = _case(label, *WINDOWS[name], dtype)
    native, by_nest = _launches(f, operands)
    assert by_nest == (name in ("wide", "whole") or (name == "one column" and label != "sum_grad"))
    for primitive in (window.window_max_p, window.window_max_grad_p, window.window_sum_p, window.window_sum_grad_p):
        monkeypatch.setitem(vars(primitive), "kernels", [])
    nest, by_nest = _launches(f, operands)
    assert by_nest
    assert_same_bits(native, nest)


@pytest.mark.parametrize("label", LABELS)
def test_integers_are_computed_by_nests(label: str) -> None:
    f, operands = _case(label, (2, 2, 6, 8), PADDED, "float32")
    whole = [nc.asarray(np.nan_to_num(x.numpy()).astype(np.int32)) for x in operands]
    assert _launches(f, whole)[1]


def test_strided_images() -> None:
    x = nc.asarray(np.random.default_rng(1).standard_normal((2, 6, 3, 8)).astype(np.float32))
    f = nc.jit(lambda a: window.window_max(nc.permute_dims(a, (0, 2, 1, 3)), (2, 2), (2, 2)))
    dense = nc.asarray(np.ascontiguousarray(x.numpy().transpose(0, 2, 1, 3)))
    assert_same_bits(f(x).numpy(), window.window_max(dense, (2, 2), (2, 2)).numpy())


def test_any_number_of_images() -> None:
    batch = nc.Dim("batch", max=64)
    f = nc.jit(lambda a: window.window_max(a, **PADDED), dynamic_shapes={"a": {0: batch}})
    x = np.random.default_rng(2).standard_normal((5, 2, 7, 9)).astype(np.float32)
    for count in (1, 3, 5):
        want = window.window_max(nc.asarray(x[:count]), **PADDED)
        assert_same_bits(f(nc.asarray(x[:count])).numpy(), want.numpy())
    assert len(f.concrete_functions) == 1


def test_heads_are_read_in_place() -> None:
    random = np.random.default_rng(3)
    qkv = nc.asarray(random.standard_normal((2, 5, 3, 4, 6)).astype(np.float32))
    bias = nc.asarray(random.standard_normal((2, 1, 5, 5)).astype(np.float32))

    def heads(x: Value, k: int) -> Any:
        return nc.permute_dims(nc.asarray(x)[:, :, k], (0, 2, 1, 3))

    def scores(x: Value, b: Value) -> Any:
        return heads(x, 0) @ nc.permute_dims(heads(x, 1), (0, 1, 3, 2)) * 0.5 + b

    compiled = nc.jit(scores).concrete(qkv, bias).compiled
    assert [s.label for s in compiled.stages] == ["contract+mul+add"]
    q, k = (nc.asarray(np.ascontiguousarray(heads(qkv, i).numpy())) for i in (0, 1))
    apart = [[(q[i, h] @ k[i, h].T * 0.5 + bias[i, 0]).numpy() for h in range(4)] for i in range(2)]
    assert_same_bits(nc.jit(scores)(qkv, bias).numpy(), np.array(apart))


def test_half_types_whose_image_and_result_are_as_large() -> None:
    random = np.random.default_rng(0)
    x, w = (
        nc.astype(nc.asarray(random.normal(size=s).astype(np.float32)), nc.bfloat16)
        for s in ((2, 16, 12, 12), (16, 16, 3, 3))
    )
    wide = [nc.astype(v, nc.float32) for v in (x, w)]
    wanted = nc.astype(functional.conv2d(*wide, padding=1), nc.bfloat16)
    assert bool(nc.all(functional.conv2d(x, w, padding=1) == wanted))
    found = nc.astype(functional.avg_pool2d(x, 3, 1, 1), nc.float32)
    np.testing.assert_allclose(found.numpy(), functional.avg_pool2d(wide[0], 3, 1, 1).numpy(), 0.02, 0.01)
