"""Functions of networks against NumPy in float64: values, and gradients by central differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import nacre as nc
from labels import label
from nacre import nn
from nacre.nn import functional as F

Array = Any


def rand(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def softmax(x: Array, axis: int = -1) -> Array:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def norm(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def entropy(x: Array, t: Array, smoothing: float = 0.0, ignored: int = -100, weight: Array | None = None) -> Array:
    logs = np.log(softmax(x, 1))
    w = np.ones(x.shape[1]) if weight is None else weight
    rows, safe = np.arange(len(t)), np.where(t == ignored, 0, t)
    losses = -(1 - smoothing) * w[safe] * logs[rows, safe] - smoothing * (logs * w).mean(1)
    return (losses * (t != ignored)).sum() / (w[safe] * (t != ignored)).sum()


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, causal: bool = False) -> Array:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf) if causal else scores
    return softmax(scores) @ v


def convolve(x: Array, w: Array, b: Array, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    (o, c, kh, kw), n = w.shape, x.shape[0]
    oh, ow = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(x.shape[2:], (kh, kw), strict=True))
    y = np.zeros((n, o, oh, ow)) + b[:, None, None]
    for g in range(groups):
        out, into = slice(g * o // groups, (g + 1) * o // groups), slice(g * c, (g + 1) * c)
        for i in range(kh):
            for j in range(kw):
                at = x[:, into, i * dilation :, j * dilation :][:, :, : oh * stride : stride, : ow * stride : stride]
                y[:, out] += np.einsum("nchw,oc->nohw", at, w[out, :, i, j])
    return y


def pool(x: Array, size: int, stride: int, pad: int, fill: float, fold: Callable[..., Array]) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return fold(windows, axis=(-1, -2))


T = np.array([1, 0, 3, 2, 1, 1])
X, W, B = rand(4, 6), rand(5, 6), rand(5)
IMAGES, FILTERS, BIAS = rand(2, 4, 7, 6), rand(6, 4, 3, 3), rand(6)
Q, K, V = rand(2, 3, 5, 4), rand(2, 3, 5, 4, seed=1), rand(2, 3, 5, 6)

CASES: list[tuple[str, Callable[..., Any], Callable[..., Array], list[Array]]] = [
    ("relu", F.relu, lambda x: np.maximum(x, 0), [X]),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x), [X]),
    ("elu", F.elu, lambda x: np.where(x > 0, x, np.expm1(x)), [X]),
    ("gelu", F.gelu, lambda x: x * special.ndtr(x), [X]),
    ("gelu tanh", lambda x: F.gelu(x, "tanh"),
     lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), [X]),
    ("silu", F.silu, lambda x: x * special.expit(x), [X]),
    ("softplus", F.softplus, lambda x: np.logaddexp(x, 0), [X]),
    ("tanh", F.tanh, np.tanh, [X]),
    ("sigmoid", F.sigmoid, special.expit, [X]),
    ("softmax", F.softmax, softmax, [X]),
    ("softmax 0", lambda x: F.softmax(x, 0), lambda x: softmax(x, 0), [X]),
    ("log_softmax", F.log_softmax, lambda x: np.log(softmax(x)), [X]),
    ("linear", F.linear, lambda x, w, b: x @ w.T + b, [rand(2, 3, 6), W, B]),
    ("normalize", F.normalize, lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), [X]),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda x, w, b: norm(x, (1,)) * w + b,
     [X, rand(6), rand(6, seed=1)]),
    ("layer_norm 2", lambda x: F.layer_norm(x, (3, 6)), lambda x: norm(x, (1, 2)), [rand(2, 3, 6)]),
    ("rms_norm", lambda x, w: F.rms_norm(x, 6, w, 1e-6),
     lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w,
     [X, rand(6)]),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b),
     lambda x, w, b: norm(x.reshape(2, 2, 2, 7, 6), (2, 3, 4)).reshape(x.shape) * w[:, None, None] + b[:, None, None],
     [IMAGES, rand(4), rand(4, seed=1)]),
    ("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
     lambda x, w, b: norm(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None], [IMAGES, rand(4), rand(4, seed=1)]),
    ("cross_entropy", lambda x: F.cross_entropy(x, nc.tensor(T)), lambda x: entropy(x, T), [rand(6, 4)]),
    ("cross_entropy smooth", lambda x: F.cross_entropy(x, nc.tensor(T), label_smoothing=0.2, ignore_index=3),
     lambda x: entropy(x, T, 0.2, 3), [rand(6, 4)]),
    ("cross_entropy weight", lambda x: F.cross_entropy(x, nc.tensor(T), [1.0, 2.0, 0.5, 3.0], label_smoothing=0.1),
     lambda x: entropy(x, T, 0.1, weight=np.array([1.0, 2.0, 0.5, 3.0])), [rand(6, 4)]),
    ("cross_entropy soft", lambda x, p: F.cross_entropy(x, F.softmax(p)),
     lambda x, p: -(softmax(p) * np.log(softmax(x))).sum(1).mean(), [rand(6, 4), rand(6, 4, seed=1)]),
    ("nll_loss", lambda x: F.nll_loss(x, nc.tensor(T)), lambda x: -x[np.arange(6), T].mean(), [rand(6, 4)]),
    ("mse_loss", F.mse_loss, lambda a, b: ((a - b) ** 2).mean(), [X, rand(4, 6, seed=1)]),
    ("l1_loss", lambda a, b: F.l1_loss(a, b, "sum"), lambda a, b: np.abs(a - b).sum(), [X, rand(4, 6, seed=1)]),
    ("huber_loss", F.huber_loss,
     lambda a, b: np.where(np.abs(a - b) <= 1, 0.5 * (a - b) ** 2, np.abs(a - b) - 0.5).mean(),
     [X, 3 * rand(4, 6, seed=1)]),
    ("bce", F.binary_cross_entropy_with_logits, lambda x, t: (np.logaddexp(0, x) - x * t).mean(),
     [X, rand(4, 6, seed=1)]),
    ("attention", F.scaled_dot_product_attention, attention, [Q, K, V]),
    ("attention mask", F.scaled_dot_product_attention, attention, [Q, K, V, rand(5, 5)]),
    ("attention causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
     lambda q, k, v: attention(q, k, v, causal=True), [Q, K, V]),
    ("conv2d", F.conv2d, convolve, [IMAGES, FILTERS, BIAS]),
    ("conv2d stride", lambda x, w, b: F.conv2d(x, w, b, 2, 1), lambda x, w, b: convolve(x, w, b, 2, 1),
     [IMAGES, FILTERS, BIAS]),
    ("conv2d groups", lambda x, w, b: F.conv2d(x, w, b, 1, 2, 2, 2), lambda x, w, b: convolve(x, w, b, 1, 2, 2, 2),
     [IMAGES, FILTERS[:, :2], BIAS]),
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding="same"),
     lambda x, w, b: convolve(np.pad(x, ((0, 0), (0, 0), (1, 1)))[:, :, None], w[:, :, None], b)[:, :, 0],
     [rand(2, 4, 7), rand(6, 4, 3), BIAS]),
    ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: pool(x, 3, 2, 1, -np.inf, np.max), [IMAGES]),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: pool(x, 3, 2, 1, 0.0, np.mean), [IMAGES]),
    ("avg_pool2d counted", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
     lambda x: pool(x, 3, 2, 1, 0.0, np.sum) / pool(np.ones_like(x), 3, 2, 1, 0.0, np.sum), [IMAGES]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_values(case: Any) -> None:
    _, ours, reference, inputs = case
    for dtype, tolerance in ((np.float32, 4e-6), (np.float64, 1e-12)):
        given = [x.astype(dtype) for x in inputs]
        wanted = np.asarray(reference(*(x.astype(np.float64) for x in given)))
        found = ours(*map(nc.tensor, given)).numpy()
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_gradients(case: Any) -> None:
    _, ours, reference, inputs = case
    tensors = [nc.tensor(x).requires_grad_() for x in inputs]
    out = ours(*tensors)
    seed = rand(*out.shape, seed=7)
    out.backward(nc.tensor(seed))
    for k, (x, t) in enumerate(zip(inputs, tensors, strict=True)):
        direction, step = rand(*x.shape, seed=8), 1e-6
        moved = [[*inputs[:k], x + s * step * direction, *inputs[k + 1 :]] for s in (1, -1)]
        slope = ((reference(*moved[0]) - reference(*moved[1])) * seed).sum() / (2 * step)
        np.testing.assert_allclose((t.grad.numpy() * direction).sum(), slope, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("case", [c for c in CASES if "conv" not in c[0] and "pool" not in c[0]], ids=lambda c: c[0])
def test_compiled_bits_are_the_eager_ones(case: Any) -> None:
    _, ours, _, inputs = case
    given = [nc.tensor(x.astype(np.float32)) for x in inputs]
    np.testing.assert_array_equal(nc.jit(ours)(*given).numpy(), ours(*given).numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "cross_entropy", "attention"])
def test_half_types_compute_in_float32(name: str, dtype: str) -> None:
    _, ours, reference, inputs = next(c for c in CASES if c[0] == name)
    given = [nc.tensor(x).astype(dtype) for x in inputs]
    found = ours(*given)
    wanted = reference(*(x.astype(nc.float64).numpy() for x in given))
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    assert found.dtype is getattr(nc, dtype)
    np.testing.assert_allclose(found.astype(nc.float64).numpy(), wanted, rtol=2 * eps, atol=2 * eps)


# ---- edges


def test_stable_at_large_inputs() -> None:
    big = nc.tensor([[1e4, 0.0, -1e4]])
    np.testing.assert_array_equal(F.softmax(big).numpy(), [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(F.log_softmax(big).numpy(), [[0.0, -1e4, -2e4]])
    assert F.cross_entropy(big, nc.tensor([2])).item() == 2e4
    np.testing.assert_array_equal(F.gelu(big).numpy()[:, :2], [[1e4, 0.0]])
    assert np.isnan(F.relu(nc.tensor([math.nan])).item())


def test_gelu_is_accurate_where_it_nearly_vanishes() -> None:
    x = np.linspace(-5, 0, 1001, dtype=np.float32)
    wanted = x * special.ndtr(x.astype(np.float64))
    np.testing.assert_allclose(F.gelu(nc.tensor(x)).numpy(), wanted, rtol=2e-6)


def test_relu_has_no_slope_at_zero() -> None:
    x = nc.tensor([0.0, -0.0]).requires_grad_()
    F.relu(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0]


def test_dropout() -> None:
    nc.random.seed(0)
    x = nc.ones((100, 100))
    y = F.dropout(x, 0.25).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)} and abs((y == 0).mean() - 0.25) < 0.02
    assert (F.dropout(x, 0.25, training=False).numpy() == 1).all() and not F.dropout(x, 1.0).numpy().any()
    key = nc.random.key(4)
    assert (F.dropout(x, key=key).numpy() == F.dropout(x, key=key).numpy()).all()


def test_embedding_and_one_hot() -> None:
    table = nc.tensor(rand(5, 3)).requires_grad_()
    index = np.array([[1, 2], [1, 4]])
    out = F.embedding(nc.tensor(index), table, padding_idx=2)
    np.testing.assert_array_equal(out.numpy(), table.numpy()[index])
    out.sum().backward()
    assert table.grad is not None
    np.testing.assert_array_equal(table.grad.numpy()[:, 0], [0.0, 2.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(F.one_hot(nc.tensor(index), 5).numpy(), np.eye(5)[index])


LABELS = ["rose", "lily", "rose"]


@pytest.mark.parametrize(
    "labels",
    [LABELS, tuple(LABELS), np.array(LABELS), np.array(LABELS, object), np.array(LABELS, np.bytes_), "rose"],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize(
    "loss",
    [
        F.cross_entropy,
        F.nll_loss,
        F.mse_loss,
        F.multi_margin_loss,
        nn.CrossEntropyLoss(),
        nc.jit(lambda x, y: F.cross_entropy(x, nc.asarray(y))),
    ],
)
def test_the_error_of_class_names_says_how_to_number_them(loss: Any, labels: Any) -> None:
    if isinstance(labels, list) and hasattr(loss, "concrete_functions"):
        pytest.skip("a list of texts is an argument of its own")
    with pytest.raises(nc.DTypeError, match=r"names, y = numpy.unique\(labels, return_inverse=True\)"):
        loss(nc.ones((3, 2)), labels)


def test_the_advice_for_class_names_works() -> None:
    names, y = np.unique(LABELS, return_inverse=True)
    assert names.tolist() == ["lily", "rose"] and F.cross_entropy(nc.ones((3, 2)), y).shape == ()


def test_the_error_of_float_class_numbers_says_what_to_write() -> None:
    with pytest.raises(nc.ShapeError, match=r"target.astype\(nacre.int64\)"):
        F.cross_entropy(nc.ones((3, 2)), nc.tensor([0.0, 1.0, 0.0]))


@pytest.mark.parametrize("index", [-1, 3, -4])
@pytest.mark.parametrize(
    "f",
    [
        lambda i: nn.Embedding(3, 2)(i[0]),
        lambda i: nn.Embedding(3, 2, padding_idx=-1)(i[0].numpy()),
        lambda i: F.embedding(i, nc.ones((3, 2))),
        lambda i: nn.EmbeddingBag(3, 2)(i),
        lambda i: F.embedding_bag(i[0], nc.ones((3, 2)), nc.tensor([0]), padding_idx=1),
    ],
)
def test_indices_out_of_range_of_a_table_are_refused(f: Any, index: int) -> None:
    with pytest.raises(IndexError, match=rf"indices must be in \[0, 3\), the rows of the table; got {index};") as found:
        f(nc.tensor([[1, index]]))
    assert isinstance(found.value, nc.AxisError)


def test_a_padding_index_counts_from_the_end() -> None:
    table = nc.ones((3, 2)).requires_grad_()
    F.embedding(nc.tensor([1, 2]), table, padding_idx=-1).sum().backward()
    assert table.grad is not None and table.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(nc.ArgumentError, match="padding_idx must be in"):
        F.embedding(nc.tensor([1]), table, padding_idx=3)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda: F.multi_margin_loss(nc.ones((2, 3)), nc.tensor([-1, 0])), r"in \[0, 3\); got -1"),
        (lambda: F.multilabel_margin_loss(nc.ones((1, 2)), nc.tensor([[5, 0]])), r"in \[-1, 2\); got 5"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(nc.ones((1, 4)), nc.tensor([-1])), r"in \[0, 6\); got -1"),
    ],
)
def test_classes_out_of_range_are_refused(f: Any, words: str) -> None:
    with pytest.raises(nc.ArgumentError, match=words):
        f()


def test_running_statistics_move() -> None:
    mean, var = nc.Variable(nc.zeros(4)), nc.Variable(nc.ones(4))
    x = IMAGES.astype(np.float32)
    F.batch_norm(nc.tensor(x), mean, var, training=True, momentum=0.3)
    np.testing.assert_allclose(mean.value.numpy(), 0.3 * x.mean((0, 2, 3)), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(var.value.numpy(), 0.7 + 0.3 * x.var((0, 2, 3), ddof=1), rtol=1e-5)
    held = mean.value.numpy().copy()
    y = F.batch_norm(nc.tensor(x), mean, var)
    shape = (1, 4, 1, 1)
    wanted = (x - held.reshape(shape)) / np.sqrt(var.value.numpy().reshape(shape) + 1e-5)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mean.value.numpy(), held)


def test_transposed_convolution_is_the_adjoint() -> None:
    x, w = rand(2, 6, 4, 3), rand(6, 4, 3, 3)
    y = F.conv_transpose2d(nc.tensor(x), nc.tensor(w), stride=2, padding=1, output_padding=1)
    probe = rand(*y.shape, seed=3)
    back = F.conv2d(nc.tensor(probe), nc.tensor(w), stride=2, padding=1)
    np.testing.assert_allclose((y.numpy() * probe).sum(), (back.numpy() * x).sum(), rtol=1e-10)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: F.linear(nc.ones((2, 3)), nc.ones((4, 5))), r"linear: in_features must match .*: 5 and 3 "),
        (lambda: F.cross_entropy(nc.ones((2, 3)), nc.tensor([0, 3])), r"classes must be in \[0, 3\)"),
        (lambda: F.cross_entropy(nc.ones((2, 3)), nc.tensor([0])), "targets must have shape"),
        (lambda: F.gelu(nc.ones(2), "fast"), "approximate"), (lambda: F.softmax(nc.tensor([1, 2])), "softmax"),
        (lambda: F.layer_norm(nc.ones((2, 3)), 4), "must end in"), (lambda: F.dropout(nc.ones(2), 1.5), "probability"),
        (lambda: F.mse_loss(nc.ones(2), nc.ones((2, 1))), "one shape"),
        (lambda: F.max_pool2d(nc.ones(3), 2), "a shape"),
        (lambda: F.conv2d(nc.ones((1, 3, 5, 5)), nc.ones((4, 2, 3, 3))), "groups"),
        (lambda: F.mse_loss(nc.ones(2), nc.ones(2), "max"), "reduction"),
        (lambda: F.batch_norm([[1.0], [2.0]], weight=[1.0, 2.0], training=True), r"must have shape \[1\]"),
        (lambda: F.max_unpool2d(nc.ones((1, 1, 2, 2)), nc.ones((1, 1, 2, 2)), 2), "must be integers"),
        (lambda: F.scaled_dot_product_attention(nc.ones((2, 3)), nc.ones((2, 4)), nc.ones((2, 4))), "queries"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(f: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        f()


def test_samples_at_the_middle_of_pixels_are_the_pixels() -> None:
    x = nc.tensor(rand(2, 3, 4, 5))
    still = nc.tensor(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2))
    for aligned in (False, True):
        grid = F.affine_grid(still, (2, 3, 4, 5), aligned)
        for mode in ("nearest", "bilinear", "bicubic"):
            found = F.grid_sample(x, grid, mode, "border", aligned)
            np.testing.assert_allclose(found.numpy(), x.numpy(), rtol=1e-12, atol=1e-12)


def test_samples_far_outside_and_of_nan() -> None:
    x = nc.tensor(rand(1, 1, 3, 3))
    grid = nc.tensor([[[[-1e30, 5.0], [nc.nan, nc.nan], [nc.inf, 0.0]]]], dtype=nc.float64)
    assert F.grid_sample(x, grid, "nearest").tolist() == [[[[0.0, x[0, 0, 0, 0].item(), 0.0]]]]
    found = F.grid_sample(x, grid, "nearest", "border", True).numpy()[0, 0, 0]
    np.testing.assert_array_equal(found, x.numpy()[0, 0, [2, 0, 1], [0, 0, 2]])


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: F.grid_sample(nc.ones((1, 1, 2, 2)), nc.ones((2, 1, 1, 2))), "input must be"),
        (lambda: F.grid_sample(nc.ones((1, 1, 2, 2)), nc.ones((1, 1, 1, 2), dtype=nc.float64)), "one dtype"),
        (lambda: F.grid_sample(nc.ones((1, 1, 2, 2, 2)), nc.ones((1, 1, 1, 1, 3)), "bicubic"), "mode must be one of"),
        (lambda: F.grid_sample(nc.ones((1, 1, 2, 2)), nc.ones((1, 1, 1, 2)), "nearest", "wrap"), "padding_mode"),
        (lambda: F.grid_sample(nc.ones((1, 1, 0, 2)), nc.ones((1, 1, 1, 2))), "must have pixels"),
        (lambda: F.affine_grid(nc.ones((2, 2, 3)), (1, 1, 2, 2)), "affine_grid: theta must be"),
        (lambda: F.affine_grid(nc.ones((1, 2, 3)), (1, 1, 0, 2)), "sizes must be above 0"),
    ],
    ids=label,
)  # fmt: skip
def test_errors_of_sampling(f: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        f()


def test_one_compiled_sampling_takes_a_range_of_batches() -> None:
    batch = nc.Dim("batch", min=1, max=8)
    sample = nc.jit(lambda x, g: F.grid_sample(x, g), dynamic_shapes={"x": {0: batch}, "g": {0: batch}})
    for n in (1, 3):
        x, g = nc.tensor(rand(n, 2, 3, 4)), nc.tensor(rand(n, 2, 5, 2))
        np.testing.assert_array_equal(sample(x, g).numpy(), F.grid_sample(x, g).numpy())
    assert len(sample.concrete_functions) == 1
    empty = F.grid_sample(nc.ones((0, 2, 3, 4)), nc.ones((0, 2, 5, 2)))
    assert empty.shape == (0, 2, 2, 5)


@pytest.mark.parametrize(
    "name", ["hardswish", "hardsigmoid", "hardtanh", "elu", "celu", "selu", "softplus", "softsign"]
)
def test_activations_are_one_operation_that_saves_its_operand(name: str) -> None:
    x = nc.linspace(-4.0, 4.0, 9).requires_grad_()
    y = getattr(F, name)(x)
    assert list(y.node.parents) == [x.node]
    assert [held.content is x.content for held in y.node.saved] == [True]
