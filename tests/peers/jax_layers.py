"""The functions of networks by JAX's own operations, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy
Array = Any

softmax = jax.nn.softmax
log_softmax = jax.nn.log_softmax
relu = jax.nn.relu
elu = jax.nn.elu
celu = jax.nn.celu
selu = jax.nn.selu
silu = jax.nn.silu
mish = jax.nn.mish
sigmoid = jax.nn.sigmoid
softplus = jax.nn.softplus
logsigmoid = jax.nn.log_sigmoid
leaky_relu = jax.nn.leaky_relu
hardswish = jax.nn.hard_swish
softsign = jax.nn.soft_sign
glu = jax.nn.glu


def gelu(x: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def linear(x: Array, weight: Array, bias: Array) -> Array:
    return x @ weight.T + bias


def embedding(indices: Array, weight: Array) -> Array:
    return weight[indices]


def _spatial(x: Array, sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    """One size for each axis of an image behind the batch and the channels."""
    return (sizes,) * (x.ndim - 2) if isinstance(sizes, int) else sizes


def _conv(x: Array, weight: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
          groups: int = 1) -> Array:  # fmt: skip
    out = jax.lax.conv_general_dilated(
        x, weight, _spatial(x, stride), [(p, p) for p in _spatial(x, padding)],
        rhs_dilation=_spatial(x, dilation), feature_group_count=groups,
    )  # fmt: skip
    return out if bias is None else out + bias.reshape((1, -1) + (1,) * (x.ndim - 2))


def _conv_transpose(x: Array, weight: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0,
                    output_padding: Any = 0, groups: int = 1) -> Array:  # fmt: skip
    """A convolution of the image with zeros between its elements; the kernel is flipped, its channels are swapped."""
    kernel = jnp.flip(weight, tuple(range(2, weight.ndim)))
    kernel = (
        kernel.reshape((groups, -1, *kernel.shape[1:]))
        .swapaxes(1, 2)
        .reshape((-1, weight.shape[0] // groups, *kernel.shape[2:]))
    )
    extents, more = kernel.shape[2:], _spatial(x, output_padding)
    edges = [(k - 1 - p, k - 1 - p + o) for k, p, o in zip(extents, _spatial(x, padding), more, strict=True)]
    out = jax.lax.conv_general_dilated(
        x, kernel, (1,) * len(extents), edges, lhs_dilation=_spatial(x, stride), feature_group_count=groups
    )
    return out if bias is None else out + bias.reshape((1, -1) + (1,) * len(extents))


conv1d = conv2d = conv3d = _conv
conv_transpose1d = conv_transpose2d = _conv_transpose


def _window(x: Array, start: float, f: Any, size: Any, stride: Any, padding: Any) -> Array:
    edges = ((0, 0), (0, 0), *((p, p) for p in _spatial(x, padding)))
    sizes, strides = (1, 1, *_spatial(x, size)), (1, 1, *_spatial(x, size if stride is None else stride))
    return jax.lax.reduce_window(x, start, f, sizes, strides, edges)


def _max_pool(x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Array:
    return _window(x, -np.inf, jax.lax.max, kernel_size, stride, padding)


def _avg_pool(x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Array:
    return _window(x, 0.0, jax.lax.add, kernel_size, stride, padding) / np.prod(_spatial(x, kernel_size))


def _lp_pool(x: Array, norm_type: float, kernel_size: Any, stride: Any = None) -> Array:
    return _window(x**norm_type, 0.0, jax.lax.add, kernel_size, stride, 0) ** (1 / norm_type)


max_pool1d = max_pool2d = _max_pool
avg_pool1d = avg_pool2d = _avg_pool
lp_pool2d = _lp_pool


def adaptive_avg_pool2d(x: Array, output_size: tuple[int, int]) -> Array:
    return _avg_pool(x, tuple(n // m for n, m in zip(x.shape[2:], output_size, strict=True)))


def _normalised(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    return (x - jnp.mean(x, axes, keepdims=True)) / jnp.sqrt(jnp.var(x, axes, keepdims=True) + eps)


def layer_norm(x: Array, normalized_shape: tuple[int, ...], weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    return _normalised(x, tuple(range(-len(normalized_shape), 0)), eps) * weight + bias


def rms_norm(x: Array, normalized_shape: tuple[int, ...], weight: Array, eps: float = 1e-5) -> Array:
    axes = tuple(range(-len(normalized_shape), 0))
    return x * jax.lax.rsqrt(jnp.mean(x * x, axes, keepdims=True) + eps) * weight


def _channels(x: Array, v: Array) -> Array:
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


def batch_norm(x: Array, mean: Array | None, var: Array | None, weight: Array, bias: Array,
               training: bool = False, eps: float = 1e-5) -> Array:  # fmt: skip
    axes = (0, *range(2, x.ndim))
    if training:
        y = _normalised(x, axes, eps)
    else:
        y = (x - _channels(x, mean)) / jnp.sqrt(_channels(x, var) + eps)
    return y * _channels(x, weight) + _channels(x, bias)


def group_norm(x: Array, num_groups: int, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    y = _normalised(x.reshape((x.shape[0], num_groups, -1)), (2,), eps).reshape(x.shape)
    return y * _channels(x, weight) + _channels(x, bias)


def instance_norm(x: Array, eps: float = 1e-5) -> Array:
    return _normalised(x, tuple(range(2, x.ndim)), eps)


def scaled_dot_product_attention(q: Array, k: Array, v: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None) -> Array:  # fmt: skip
    """Attention by its definition: `jax.nn.dot_product_attention` computes its softmax in float32."""
    assert not dropout_p
    scores = q @ jnp.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        scores = jnp.where(attn_mask, scores, -jnp.inf) if attn_mask.dtype == bool else scores + attn_mask
    return softmax(scores, -1) @ v


def dropout(x: Array, p: float, training: bool) -> Array:
    assert not training
    return x


def normalize(x: Array) -> Array:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def cosine_similarity(x: Array, y: Array) -> Array:
    return jnp.sum(x * y, 1) / (jnp.linalg.norm(x, axis=1) * jnp.linalg.norm(y, axis=1))


def pixel_shuffle(x: Array, factor: int) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape((n, c // factor**2, factor, factor, h, w)).transpose((0, 1, 4, 2, 5, 3))
    return parts.reshape((n, c // factor**2, h * factor, w * factor))


def pad(x: Array, width: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Array:
    ends = [(0, 0)] * (x.ndim - len(width) // 2) + list(zip(width[::2], width[1::2], strict=True))[::-1]
    names = {"constant": "constant", "reflect": "reflect", "circular": "wrap", "replicate": "edge"}
    return jnp.pad(x, ends, names[mode], **({"constant_values": value} if mode == "constant" else {}))


def interpolate(x: Array, size: tuple[int, ...], mode: str) -> Array:
    return jax.image.resize(x, (*x.shape[:2], *size), mode)


def bilinear(x: Array, y: Array, weight: Array, bias: Array) -> Array:
    return jnp.einsum("bi,oij,bj->bo", x, weight, y) + bias


def nll_loss(x: Array, target: Array, weight: Array | None = None, ignore_index: int = -100) -> Array:
    each = (jnp.ones(x.shape[1]) if weight is None else weight)[target] * (target != ignore_index)
    return -jnp.sum(jnp.take_along_axis(x, target[:, None], 1)[:, 0] * each) / jnp.sum(each)


def cross_entropy(x: Array, target: Array, weight: Array | None = None, ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Array:  # fmt: skip
    logs = log_softmax(x, 1)
    if jnp.issubdtype(target.dtype, jnp.floating):
        return -jnp.mean(jnp.sum(logs * target, 1))
    smooth = -jnp.mean(jnp.sum(logs, 1)) / x.shape[1] if label_smoothing else 0.0
    return (1 - label_smoothing) * nll_loss(logs, target, weight, ignore_index) + label_smoothing * smooth


def binary_cross_entropy(x: Array, y: Array) -> Array:
    return -jnp.mean(y * jnp.log(x) + (1 - y) * jnp.log1p(-x))


def binary_cross_entropy_with_logits(x: Array, y: Array, pos_weight: Array) -> Array:
    return -jnp.mean(pos_weight * y * logsigmoid(x) + (1 - y) * logsigmoid(-x))


def mse_loss(x: Array, y: Array) -> Array:
    return jnp.mean((x - y) ** 2)


def l1_loss(x: Array, y: Array) -> Array:
    return jnp.mean(jnp.abs(x - y))


def huber_loss(x: Array, y: Array, delta: float = 1.0) -> Array:
    e = jnp.abs(x - y)
    return jnp.mean(jnp.where(e < delta, e * e / 2, delta * (e - delta / 2)))


def smooth_l1_loss(x: Array, y: Array, beta: float = 1.0) -> Array:
    return huber_loss(x, y, beta) / beta


def kl_div(x: Array, y: Array, reduction: str) -> Array:
    return jnp.sum(y * (jnp.log(y) - x)) / x.shape[0]


def gaussian_nll_loss(x: Array, y: Array, var: Array) -> Array:
    return jnp.mean((jnp.log(var) + (x - y) ** 2 / var) / 2)


def poisson_nll_loss(x: Array, y: Array) -> Array:
    return jnp.mean(jnp.exp(x) - y * x)


def triplet_margin_loss(a: Array, p: Array, n: Array) -> Array:
    near, far = (jnp.linalg.norm(a - x + 1e-6, axis=1) for x in (p, n))
    return jnp.mean(jnp.maximum(near - far + 1.0, 0.0))


def _ctc(logs: Array, labels: Array, frames: int, blank: int) -> Array:
    """Minus the logarithm of the sum over all alignments, by the forward variables of one example, in log space."""
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    skips = np.r_[False, False, (states[2:] != blank) & (states[2:] != states[:-2])]
    never = -1e30

    def step(alpha: Array, row: Array) -> tuple[Array, None]:
        one = jnp.concatenate((jnp.full(1, never), alpha[:-1]))
        two = jnp.where(skips, jnp.concatenate((jnp.full(2, never), alpha[:-2])), never)
        return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + row[states], None

    first = jnp.where(np.arange(len(states)) < 2, logs[0, states], never)
    alpha, _ = jax.lax.scan(step, first, logs[1:frames])
    return -jnp.logaddexp(alpha[-1], alpha[-2])


def ctc_loss(logs: Array, targets: Array, frames: Any, lengths: Any, blank: int = 0) -> Array:
    each = [
        _ctc(logs[:, i], np.asarray(targets)[i, :n], t, blank) / n
        for i, (t, n) in enumerate(zip(frames, lengths, strict=True))
    ]
    return jnp.mean(jnp.stack(each))


def rnn_cell(x: Array, h: Array, w: Array, u: Array, b: Array, c: Array) -> Array:
    return jnp.tanh(x @ w.T + b + h @ u.T + c)


def lstm_cell(x: Array, h: Array, s: Array, w: Array, u: Array, b: Array, c: Array) -> tuple[Array, Array]:
    i, f, g, o = jnp.split(x @ w.T + b + h @ u.T + c, 4, -1)
    s = sigmoid(f) * s + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(s), s


def gru_cell(x: Array, h: Array, w: Array, u: Array, b: Array, c: Array) -> Array:
    (r, z, n), (p, q, m) = jnp.split(x @ w.T + b, 3, -1), jnp.split(h @ u.T + c, 3, -1)
    z = sigmoid(z + q)
    return (1 - z) * jnp.tanh(n + sigmoid(r + p) * m) + z * h
