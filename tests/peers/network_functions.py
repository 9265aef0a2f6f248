"""The functions of networks whose derivatives are compared: layers, attention, cells, losses; f(names, *operands)."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.cases import Case, Shape, interval, normal, probabilities

Array = Any

IMAGE, SIGNAL, VECTORS = (2, 4, 5, 6), (2, 4, 7), (3, 4)
HEADS = ((2, 2, 5, 3),) * 3
MASK = np.tril(np.ones((5, 5), bool), 1) & (np.arange(5) != 1)[None]
CLASSES, TOKENS = np.array([2, 0, 3]), np.array([[1, 4, 1], [0, 2, 4]])
CTC = {
    f"torch {form}": "PyTorch has no transforms of its CTC loss"
    for form in ("gradients", "tangents", "forward over reverse", "reverse over reverse", "hessians")
}


def layer(name: str, *shapes: Shape, title: str = "", draw: Any = normal, apart: Any = None, **named: Any) -> Case:
    """A function of a network with operands of the shapes, and arguments by name."""
    words = " ".join([name, title]).strip()
    return Case(words, lambda xp, *xs: getattr(xp.nn, name)(*xs, **named), shapes, draw, apart or {})


def activation(*names: str, **fields: Any) -> list[Case]:
    return [layer(name, VECTORS, **fields) for name in names]


CONVOLUTIONS = [
    layer("conv1d", SIGNAL, (3, 4, 3), (3,), padding=1),
    layer("conv1d", SIGNAL, (6, 2, 3), title="grouped, dilated", groups=2, dilation=2),
    layer("conv2d", IMAGE, (3, 4, 3, 3), (3,)),
    layer("conv2d", IMAGE, (3, 4, 3, 2), title="strided, padded", stride=(2, 1), padding=(1, 2)),
    layer("conv2d", IMAGE, (8, 2, 3, 3), (8,), title="grouped", groups=2, padding=1),
    layer("conv2d", IMAGE, (4, 1, 3, 3), title="depthwise", groups=4),
    layer("conv2d", IMAGE, (3, 4, 2, 2), title="dilated", dilation=2),
    layer("conv2d", IMAGE, (3, 4, 1, 1), title="of one element", stride=2),
    layer("conv3d", (1, 2, 4, 4, 3), (3, 2, 2, 2, 2), (3,), stride=2, padding=1),
    layer("conv_transpose1d", SIGNAL, (4, 3, 3), (3,), stride=2, padding=1),
    layer("conv_transpose2d", (2, 4, 3, 4), (4, 3, 3, 3), (3,), stride=2, padding=1, output_padding=1),
    layer("conv_transpose2d", (2, 4, 3, 4), (4, 2, 3, 2), title="grouped", groups=2),
]

POOLING = [
    layer("max_pool1d", SIGNAL, kernel_size=3, stride=2),
    layer("max_pool2d", IMAGE, kernel_size=2),
    layer("max_pool2d", IMAGE, title="overlapping", kernel_size=3, stride=2, padding=1),
    layer("avg_pool1d", SIGNAL, kernel_size=3, stride=2),
    layer("avg_pool2d", IMAGE, title="padded", kernel_size=(3, 2), stride=(2, 2), padding=(1, 0)),
    layer("lp_pool2d", IMAGE, draw=interval, norm_type=3.0, kernel_size=2),
    layer("adaptive_avg_pool2d", (2, 3, 6, 4), output_size=(3, 2)),
]

NORMALISATIONS = [
    Case("layer_norm", lambda xp, x, w, b: xp.nn.layer_norm(x, (5,), w, b), ((3, 5), (5,), (5,)), normal),
    Case("layer_norm over two axes", lambda xp, x, w, b: xp.nn.layer_norm(x, (2, 5), w, b),
         ((3, 2, 5), (2, 5), (2, 5)), normal),
    Case("rms_norm", lambda xp, x, w: xp.nn.rms_norm(x, (5,), w, eps=1e-5), ((3, 5), (5,)), normal),
    Case("batch_norm in training", lambda xp, x, w, b: xp.nn.batch_norm(x, None, None, w, b, training=True),
         (IMAGE, (4,), (4,)), normal),
    Case("batch_norm in evaluation", lambda xp, x, w, b: xp.nn.batch_norm(x, *running(xp), w, b),
         (IMAGE, (4,), (4,)), normal),
    Case("group_norm", lambda xp, x, w, b: xp.nn.group_norm(x, 2, w, b), (IMAGE, (4,), (4,)), normal),
    layer("instance_norm", IMAGE),
    layer("normalize", VECTORS),
    layer("cosine_similarity", VECTORS, VECTORS),
]  # fmt: skip


def running(xp: Any) -> tuple[Array, Array]:
    """The statistics of four channels, as each library holds them."""
    return xp.statistic(np.array([0.1, -0.2, 0.3, 0.0])), xp.statistic(np.array([0.5, 1.5, 1.0, 2.0]))


def attend(xp: Any, *qkv: Array, mask: Array | None = None, **named: Any) -> Array:
    made = {} if mask is None else {"attn_mask": xp.constant(mask)}
    return xp.nn.scaled_dot_product_attention(*qkv, **made, **named)


def attention(title: str, shapes: Any = HEADS, **named: Any) -> Case:
    return Case(f"attention {title}".strip(), lambda xp, *qkv: attend(xp, *qkv, **named), shapes, normal)


def self_attention(xp: Any, x: Array, w: Array, out: Array) -> Array:
    """Attention of two heads over a projection of x, as in a transformer."""
    parts = (x @ w.T).reshape((2, 5, 3, 2, 2))
    q, k, v = (xp.swapaxes(parts[:, :, i], 1, 2) for i in range(3))
    return xp.swapaxes(attend(xp, q, k, v, is_causal=True), 1, 2).reshape((2, 5, 4)) @ out.T


ATTENTION = [
    attention(""),
    attention("causal", is_causal=True),
    attention("masked", mask=MASK),
    attention("with a bias", mask=np.linspace(-1, 1, 25).reshape(5, 5)),
    attention("with a scale", scale=0.3, dropout_p=0.0),
    attention("over a longer memory", ((2, 2, 3, 4), (2, 2, 6, 4), (2, 2, 6, 4))),
    Case("attention by a learned bias",
         lambda xp, q, k, v, b: xp.nn.scaled_dot_product_attention(q, k, v, attn_mask=b), (*HEADS, (5, 5)), normal),
    Case("attention of a projection", self_attention, ((2, 5, 4), (12, 4), (4, 4)), normal),
    Case("attention by products and softmax",
         lambda xp, q, k, v: xp.nn.softmax(xp.einsum("bhqd,bhkd->bhqk", q, k), -1) @ v, HEADS, normal),
]  # fmt: skip

ACTIVATIONS = [
    *activation("relu", "elu", "celu", "selu", "silu", "mish", "gelu", "softplus", "logsigmoid",
                "leaky_relu", "hardswish", "softsign"),
    layer("gelu", VECTORS, title="by tanh", approximate="tanh"),
    Case("softmax", lambda xp, x: xp.nn.softmax(x, -1), (VECTORS,), normal),
    Case("softmax along the first axis", lambda xp, x: xp.nn.softmax(x, 0), (VECTORS,), normal),
    Case("log_softmax", lambda xp, x: xp.nn.log_softmax(x, -1), (VECTORS,), normal),
    Case("glu", lambda xp, x: xp.nn.glu(x, -1), (VECTORS,), normal),
    Case("dropout in evaluation", lambda xp, x: xp.nn.dropout(x, 0.5, training=False) ** 2, (VECTORS,), normal),
]  # fmt: skip

FORMS = [
    layer("linear", VECTORS, (2, 4), (2,)),
    layer("bilinear", VECTORS, (3, 2), (5, 4, 2), (5,)),
    Case("embedding", lambda xp, w: xp.nn.embedding(xp.constant(TOKENS), w) ** 2, ((5, 3),), normal),
    Case("pixel_shuffle", lambda xp, x: xp.nn.pixel_shuffle(x, 2) ** 2, ((1, 4, 2, 3),), normal),
    Case("pad by zeros", lambda xp, x: xp.nn.pad(x, (1, 2, 0, 1)) ** 2, (IMAGE,), normal),
    *(Case(f"pad, {mode}", lambda xp, x, mode=mode: xp.nn.pad(x, (1, 2, 2, 1), mode=mode) ** 2, (IMAGE,), normal)
      for mode in ("reflect", "circular", "replicate")),
    *(Case(f"interpolate, {mode}", lambda xp, x, mode=mode: xp.nn.interpolate(x, size=(6, 8), mode=mode) ** 2,
           ((1, 2, 3, 4),), normal) for mode in ("nearest", "bilinear")),
]  # fmt: skip


def unrolled(xp: Any, xs: Array, h: Array, s: Array, *weights: Array) -> tuple[Array, Array]:
    """An LSTM over a short sequence."""
    for i in range(xs.shape[0]):
        h, s = xp.nn.lstm_cell(xs[i], h, s, *weights)
    return h, s


def gates(count: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of a cell's weights, for 2 inputs and 3 states."""
    return (3 * count, 2), (3 * count, 3), (3 * count,), (3 * count,)


CELLS = [
    Case("rnn_cell", lambda xp, *xs: xp.nn.rnn_cell(*xs), ((4, 2), (4, 3), *gates(1)), normal),
    Case("gru_cell", lambda xp, *xs: xp.nn.gru_cell(*xs), ((4, 2), (4, 3), *gates(3)), normal),
    Case("lstm_cell", lambda xp, *xs: xp.nn.lstm_cell(*xs), ((4, 2), (4, 3), (4, 3), *gates(4)), normal),
    Case("lstm over a sequence", unrolled, ((3, 4, 2), (4, 3), (4, 3), *gates(4)), normal),
]


def classified(title: str, **named: Any) -> Case:
    """Cross-entropy by classes; arguments by name that are arrays are constants."""

    def f(xp: Any, x: Array) -> Array:
        given = {name: xp.constant(v) if isinstance(v, np.ndarray) else v for name, v in named.items()}
        return xp.nn.cross_entropy(x, xp.constant(CLASSES), **given)

    return Case(f"cross_entropy {title}".strip(), f, (VECTORS,), normal)


def ctc(xp: Any, x: Array) -> Array:
    logs = xp.nn.log_softmax(x, -1)
    return xp.nn.ctc_loss(logs, xp.constant(np.array([[1, 1, 2], [3, 2, 0]])), (6, 5), (3, 2))


LOSSES = [
    classified(""),
    classified("weighted", weight=np.array([0.5, 1.0, 2.0, 1.5])),
    classified("smoothed", label_smoothing=0.1),
    classified("without a class", ignore_index=2),
    Case("cross_entropy by probabilities", lambda xp, x: xp.nn.cross_entropy(x, xp.constant(PROBABLE)), (VECTORS,),
         normal),
    Case("nll_loss", lambda xp, x: xp.nn.nll_loss(xp.nn.log_softmax(x, 1), xp.constant(CLASSES)), (VECTORS,), normal),
    layer("binary_cross_entropy", VECTORS, VECTORS, draw=interval),
    Case("binary_cross_entropy_with_logits",
         lambda xp, x, y, w: xp.nn.binary_cross_entropy_with_logits(x, y, pos_weight=w),
         (VECTORS, VECTORS, (4,)), interval),
    layer("mse_loss", VECTORS, VECTORS),
    layer("l1_loss", VECTORS, VECTORS),
    layer("huber_loss", VECTORS, VECTORS, delta=0.7,
          apart={"torch forward over reverse": "PyTorch has no forward mode of the gradient of its huber_loss"}),
    layer("smooth_l1_loss", VECTORS, VECTORS, beta=0.7),
    layer("kl_div", VECTORS, VECTORS, draw=probabilities, reduction="batchmean"),
    layer("gaussian_nll_loss", VECTORS, VECTORS, VECTORS, draw=interval),
    layer("poisson_nll_loss", VECTORS, VECTORS, draw=interval),
    layer("triplet_margin_loss", VECTORS, VECTORS, VECTORS),
    Case("ctc_loss", ctc, ((6, 2, 4),), normal, CTC),
]  # fmt: skip
PROBABLE = probabilities(np.random.default_rng(3), VECTORS)

CASES = (*CONVOLUTIONS, *POOLING, *NORMALISATIONS, *ATTENTION, *ACTIVATIONS, *FORMS, *CELLS, *LOSSES)
