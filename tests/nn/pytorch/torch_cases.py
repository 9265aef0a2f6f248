"""Expressions that PyTorch and Nacre both evaluate: with `nn`, `F` and inputs with random numbers by their names.

A case is a line of text; `x`, `y`, `w` … are tensors named in its inputs.  The inputs are in a small language:
`f 2 3` are normally distributed numbers and `u 2 3` numbers in (0, 1), both differentiated; `c 2 3` are like `u`,
`s 2 3` are −1 or 1, `i5 2 3` integers below 5, `b 2 3` bools, not differentiated; `= …` is the Python value itself.
The same module is imported by the script that writes the expected values and by the test that compares with them.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

Inputs = Mapping[str, Any]


def draw(name: str, text: str) -> Any:
    """The numbers of an input's description, which are the same everywhere."""
    kind, *shape = text.split()
    if kind == "=":
        return ast.literal_eval(text[1:].strip())
    rng = np.random.default_rng(zlib.crc32(f"{name} {text}".encode()))
    size = tuple(map(int, shape))
    if kind.startswith("i"):
        return rng.integers(0, int(kind[1:]), size)
    return {
        "f": lambda: rng.normal(size=size),
        "u": lambda: rng.uniform(0.05, 0.95, size),
        "c": lambda: rng.uniform(0.05, 0.95, size),
        "s": lambda: rng.choice([-1.0, 1.0], size),
        "b": lambda: rng.random(size) < 0.4,
    }[kind]()


def weight(name: str, shape: tuple[int, ...], is_float: bool) -> np.ndarray:
    """The contents of a module's parameter or buffer of a name in a case."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if not is_float:
        return np.zeros(shape, np.int64)
    numbers = rng.normal(size=shape) * 0.5
    return np.abs(numbers) + 0.5 if name.endswith("running_var") else numbers


def probes(array: np.ndarray) -> list[float]:
    """Two weighted sums that identify an array: arrays that differ by more than rounding have different sums."""
    flat = np.asarray(array, np.float64).ravel()
    signs = np.random.default_rng(flat.size).normal(size=(2, flat.size))
    return [float(v) for v in signs @ flat]


ACTIVATIONS = [
    "F.relu(x)", "F.relu6(x * 4)", "F.leaky_relu(x, 0.2)", "F.elu(x, 0.7)", "F.selu(x)", "F.celu(x, 0.5)", "F.gelu(x)",
    "F.gelu(x, approximate='tanh')", "F.silu(x)", "F.mish(x)", "F.softplus(x)", "F.softplus(x, 3.0, 2.0)",
    "F.softsign(x)", "F.tanh(x)", "F.tanhshrink(x)", "F.sigmoid(x)", "F.logsigmoid(x * 5)", "F.hardtanh(x)",
    "F.hardtanh(x, -0.3, 0.8)", "F.hardsigmoid(x * 3)", "F.hardswish(x * 3)", "F.hardshrink(x)",
    "F.hardshrink(x, lambd=1.0)", "F.softshrink(x, 0.3)", "F.threshold(x, 0.1, 20.0)", "F.rrelu(x)", "F.glu(x, 0)",
    "F.glu(x)", "F.softmax(x, 0)", "F.softmax(x, dim=-1)", "F.softmin(x, dim=1)", "F.log_softmax(x, dim=1)",
    "F.normalize(x)", "F.normalize(x, p=1.0, dim=0)", "F.normalize(x, p=3.0)",
    "nn.ReLU(inplace=True)(x + 0)", "nn.ReLU6()(x)", "nn.LeakyReLU()(x)", "nn.PReLU(6)(x)", "nn.PReLU()(x)",
    "nn.ELU()(x)",
    "nn.CELU(2.0)(x)", "nn.SELU()(x)", "nn.GELU()(x)", "nn.GELU('tanh')(x)", "nn.SiLU()(x)", "nn.Mish()(x)",
    "nn.Softplus()(x)", "nn.Softsign()(x)", "nn.Tanh()(x)", "nn.Tanhshrink()(x)", "nn.Sigmoid()(x)",
    "nn.LogSigmoid()(x)", "nn.Hardtanh()(x)", "nn.Hardsigmoid()(x)", "nn.Hardswish()(x)", "nn.Hardshrink()(x)",
    "nn.Softshrink()(x)", "nn.Threshold(0.1, 0.5)(x)", "nn.GLU()(x)", "nn.Softmax(1)(x)", "nn.Softmin(1)(x)",
    "nn.LogSoftmax(0)(x)", "nn.RReLU().eval()(x)", "nn.Dropout(0.4).eval()(x)", "nn.AlphaDropout(0.4).eval()(x)",
    "nn.Identity()(x)", "nn.Flatten(0)(x)", "nn.Unflatten(1, (2, 3))(x)", "nn.Linear(6, 3)(x)",
    "nn.Linear(6, 3, bias=False)(x)", "nn.LayerNorm(6)(x)", "nn.LayerNorm((4, 6), elementwise_affine=False)(x)",
    "nn.LayerNorm(6, bias=False)(x)", "nn.RMSNorm(6)(x)", "nn.RMSNorm(6, eps=1e-3, elementwise_affine=False)(x)",
    "nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))(x)", "nn.Softmax2d()(x.reshape(2, 3, 4, 1))",
]  # fmt: skip

LOSSES: list[tuple[str, dict[str, str]]] = [
    *((f"F.{name}(x, t{more})", {"x": "f 4 5", "t": "f 4 5"}) for name, more in (
        ("mse_loss", ""), ("l1_loss", ", reduction='sum'"), ("smooth_l1_loss", ""), ("smooth_l1_loss", ", beta=0.3"),
        ("huber_loss", ", delta=0.7"), ("kl_div", ", log_target=True"), ("poisson_nll_loss", ""),
        ("gaussian_nll_loss", ", F.softplus(t[:, :1]), full=True"),
    )),
    *((f"F.{name}(x, t{more})", {"x": "f 4 5", "t": "u 4 5"}) for name, more in (
        ("kl_div", ", reduction='batchmean'"), ("kl_div", ""), ("poisson_nll_loss", ", full=True"),
        ("poisson_nll_loss", ", log_input=False, reduction='none'"), ("binary_cross_entropy_with_logits", ""),
        ("multilabel_soft_margin_loss", ""),
        ("cross_entropy", ", label_smoothing=0.1"),
    )),
    ("F.poisson_nll_loss(x, t * 9, full=True)", {"x": "f 4 5", "t": "u 4 5"}),
    ("F.gaussian_nll_loss(x, t, v)", {"x": "f 4 5", "t": "f 4 5", "v": "u 4 5"}),
    ("F.gaussian_nll_loss(x, t, v)", {"x": "f 4 5", "t": "f 4 5", "v": "u 4"}),
    ("F.binary_cross_entropy(x, t)", {"x": "u 4 5", "t": "u 4 5"}),
    ("F.binary_cross_entropy(x, t, weight=w, reduction='none')", {"x": "u 4 5", "t": "u 4 5", "w": "c 4 5"}),
    ("F.binary_cross_entropy_with_logits(x, t, weight=w, pos_weight=w[0] + 1)",
     {"x": "f 4 5", "t": "u 4 5", "w": "c 4 5"}),
    ("F.hinge_embedding_loss(x, t, 0.5)", {"x": "f 4 5", "t": "s 4 5"}),
    ("F.soft_margin_loss(x, t)", {"x": "f 4 5", "t": "s 4 5"}),
    ("F.margin_ranking_loss(x, y, t, 0.3)", {"x": "f 6", "y": "f 6", "t": "s 6"}),
    ("F.cosine_embedding_loss(x, y, t, 0.1)", {"x": "f 6 3", "y": "f 6 3", "t": "s 6"}),
    ("F.cosine_similarity(x, y)", {"x": "f 6 3", "y": "f 6 3"}),
    ("F.pairwise_distance(x, y)", {"x": "f 6 3", "y": "f 6 3"}),
    ("F.pairwise_distance(x, y, 1.0, keepdim=True)", {"x": "f 6 3", "y": "f 6 3"}),
    ("F.triplet_margin_loss(x, y, z)", {"x": "f 6 3", "y": "f 6 3", "z": "f 6 3"}),
    ("F.triplet_margin_loss(x, y, z, p=3.0, swap=True, margin=0.4)", {"x": "f 6 3", "y": "f 6 3", "z": "f 6 3"}),
    ("F.cross_entropy(x, t)", {"x": "f 6 5", "t": "i5 6"}),
    ("F.cross_entropy(x, t, weight=w, ignore_index=2, label_smoothing=0.2)", {"x": "f 6 5", "t": "i5 6", "w": "c 5"}),
    ("F.cross_entropy(x, t, reduction='sum')", {"x": "f 2 5 3 2", "t": "i5 2 3 2"}),
    ("F.nll_loss(x, t, weight=w)", {"x": "f 6 5", "t": "i5 6", "w": "c 5"}),
    ("F.multi_margin_loss(x, t)", {"x": "f 6 5", "t": "i5 6"}),
    ("F.multi_margin_loss(x, t, p=2, margin=0.7, weight=w)", {"x": "f 6 5", "t": "i5 6", "w": "c 5"}),
    ("F.multilabel_margin_loss(x, t - 1)", {"x": "f 3 4", "t": "i5 3 4"}),
    ("F.ctc_loss(F.log_softmax(x, dim=-1), t + 1, n, m)",
     {"x": "f 12 3 5", "t": "i4 3 4", "n": "= (12, 9, 10)", "m": "= (4, 2, 3)"}),
    ("F.ctc_loss(F.log_softmax(x, dim=-1), t + 1, n, m, reduction='none')",
     {"x": "f 12 3 5", "t": "i4 9", "n": "= (12, 9, 10)", "m": "= (4, 2, 3)"}),
    ("F.ctc_loss(F.log_softmax(x, dim=-1), t, n, m, blank=4, reduction='sum', zero_infinity=True)",
     {"x": "f 5 3 5", "t": "i2 3 4", "n": "= (5, 2, 5)", "m": "= (4, 4, 1)"}),
    *((f"nn.{name}(x, t)", {"x": "f 4 5", "t": "f 4 5"}) for name in (
        "MSELoss()", "L1Loss()", "SmoothL1Loss()", "HuberLoss()", "KLDivLoss(log_target=True)", "PoissonNLLLoss()",
    )),
    *((f"nn.{name}(x, t)", {"x": "u 4 5", "t": "u 4 5"}) for name in (
        "BCELoss()", "BCEWithLogitsLoss()", "MultiLabelSoftMarginLoss()",
    )),
    *((f"nn.{name}(x, t)", {"x": "f 6 5", "t": "i5 6"}) for name in (
        "CrossEntropyLoss(label_smoothing=0.1, ignore_index=1)", "NLLLoss(ignore_index=2)", "MultiMarginLoss()",
    )),
    ("nn.MultiLabelMarginLoss()(x, t - 1)", {"x": "f 3 4", "t": "i5 3 4"}),
    ("nn.GaussianNLLLoss()(x, t, v)", {"x": "f 4 5", "t": "f 4 5", "v": "u 4 5"}),
    ("nn.HingeEmbeddingLoss()(x, t)", {"x": "f 4 5", "t": "s 4 5"}),
    ("nn.SoftMarginLoss()(x, t)", {"x": "f 4 5", "t": "s 4 5"}),
    ("nn.MarginRankingLoss()(x, y, t)", {"x": "f 6", "y": "f 6", "t": "s 6"}),
    ("nn.CosineEmbeddingLoss()(x, y, t)", {"x": "f 6 3", "y": "f 6 3", "t": "s 6"}),
    ("nn.TripletMarginLoss()(x, y, z)", {"x": "f 6 3", "y": "f 6 3", "z": "f 6 3"}),
    ("nn.TripletMarginWithDistanceLoss(margin=2.0, swap=True)(x, y, z)", {"x": "f 6 3", "y": "f 6 3", "z": "f 6 3"}),
    ("nn.CTCLoss()(F.log_softmax(x, dim=-1), t + 1, n, m)",
     {"x": "f 8 2 4", "t": "i3 2 3", "n": "= (8, 7)", "m": "= (3, 2)"}),
    ("nn.CosineSimilarity(dim=0)(x, y)", {"x": "f 6 3", "y": "f 6 3"}),
    ("nn.PairwiseDistance(p=1.5)(x, y)", {"x": "f 6 3", "y": "f 6 3"}),
]  # fmt: skip

SIGNALS, IMAGES, VOLUMES = {"x": "f 2 4 11"}, {"x": "f 2 4 9 7"}, {"x": "f 2 4 5 6 7"}
SPATIAL: list[tuple[str, dict[str, str]]] = [
    *((line, SIGNALS) for line in (
        "nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)(x)", "nn.Conv1d(4, 2, 3, padding='same', dilation=2)(x)",
        "nn.Conv1d(4, 2, 4, padding=2, padding_mode='circular')(x)", "nn.Conv1d(4, 2, 3, bias=False)(x[0])",
        "nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)(x)",
        "nn.ConvTranspose1d(4, 2, 3, stride=3)(x, output_size=[34])",
        "nn.MaxPool1d(3, 2, 1)(x)", "nn.MaxUnpool1d(3)(*nn.MaxPool1d(3, return_indices=True)(x[0]))",
        "nn.MaxPool1d(3, ceil_mode=True)(x)", "nn.AvgPool1d(3, 2, 1)(x)",
        "nn.AvgPool1d(3, ceil_mode=True, count_include_pad=False)(x)", "nn.LPPool1d(2, 3)(x)",
        "nn.AdaptiveAvgPool1d(4)(x)", "nn.AdaptiveMaxPool1d(4)(x)", "nn.AdaptiveAvgPool1d(1)(x)",
        "nn.BatchNorm1d(4)(x)", "nn.BatchNorm1d(4).eval()(x)", "nn.BatchNorm1d(4, affine=False)(x[:, :, 0])",
        "nn.InstanceNorm1d(4)(x)", "nn.InstanceNorm1d(4, affine=True)(x[0])", "nn.GroupNorm(2, 4)(x)",
        "nn.LocalResponseNorm(3)(x)", "nn.ZeroPad1d((1, 2))(x)", "nn.ReflectionPad1d(3)(x)",
        "nn.ReplicationPad1d((2, 0))(x)", "nn.CircularPad1d(2)(x)", "nn.ConstantPad1d(1, 3.5)(x)",
        "F.interpolate(x, size=7)", "F.interpolate(x, size=17, mode='nearest-exact')",
        "F.interpolate(x, scale_factor=1.7, mode='linear')", "F.interpolate(x, size=5, mode='area')",
        "F.pad(x, (-2, 3))", "F.dropout1d(x, 0.5, training=False)",
    )),
    *((line, IMAGES) for line in (
        "nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1, groups=2)(x)",
        "nn.Conv2d(4, 2, 3, padding='same', dilation=2, padding_mode='reflect')(x)",
        "nn.Conv2d(4, 2, 3, padding=(2, 1), padding_mode='replicate')(x)",
        "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=(1, 0), groups=2, dilation=2)(x)",
        "nn.MaxPool2d(3, 2, 1)(x)", "nn.MaxPool2d((2, 3), ceil_mode=True)(x)", "nn.MaxPool2d(2, dilation=2)(x)",
        "nn.MaxPool2d(2, 3, 1, ceil_mode=True)(x)", "nn.AvgPool2d(3, 2, 1)(x)",
        "nn.AvgPool2d(4, 3, 1, ceil_mode=True)(x)",
        "nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)(x)", "nn.AvgPool2d(3, divisor_override=5)(x)",
        "nn.MaxPool2d(3, 2, 1, return_indices=True)(x)",
        "F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)",
        "nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(x[:, :, :8, :6]))",
        "nn.MaxUnpool2d(3)(*nn.MaxPool2d(3, return_indices=True)(x), output_size=(9, 7))",
        "nn.LPPool2d(3.0, 2)(abs(x))", "nn.LPPool2d(2, 4, 3, ceil_mode=True)(x)",
        "nn.AdaptiveAvgPool2d((4, 3))(x)", "nn.AdaptiveAvgPool2d((None, 1))(x)", "nn.AdaptiveMaxPool2d((5, 2))(x)",
        "nn.AdaptiveAvgPool2d((3, 7))(x)", "nn.AdaptiveAvgPool2d((12, 9))(x)",
        "nn.BatchNorm2d(4)(x)", "nn.BatchNorm2d(4).eval()(x)", "nn.InstanceNorm2d(4, affine=True)(x)",
        "nn.InstanceNorm2d(4, track_running_stats=True).eval()(x)", "nn.GroupNorm(4, 4, affine=False)(x)",
        "nn.LocalResponseNorm(2, alpha=0.5, beta=0.6, k=2.0)(x)", "nn.ReflectionPad2d((1, 2, 3, 0))(x)",
        "nn.ReplicationPad2d(2)(x)", "nn.CircularPad2d((1, 0, 2, 2))(x)", "nn.ConstantPad2d((1, -2, 0, 3), 2.0)(x)",
        "nn.ZeroPad2d(1)(x)", "nn.Upsample(scale_factor=2)(x)", "nn.UpsamplingNearest2d(size=(5, 11))(x)",
        "nn.UpsamplingBilinear2d(scale_factor=2)(x)", "nn.Upsample(size=(5, 16), mode='bilinear')(x)",
        "nn.Upsample(scale_factor=(1.5, 0.6), mode='bicubic')(x)",
        "F.interpolate(x, size=(4, 9), mode='bicubic', align_corners=True)",
        "F.interpolate(x, scale_factor=1.3, mode='bilinear', recompute_scale_factor=True)",
        "nn.PixelShuffle(2)(x)", "nn.PixelUnshuffle(3)(x[:, :, :, :6])", "nn.ChannelShuffle(2)(x)",
        "nn.Unfold((2, 3), dilation=(2, 1), padding=1, stride=2)(x)", "nn.Unfold(2)(x[0])",
        "nn.Fold((6, 5), (2, 2), padding=1, stride=2)(nn.Unfold(2, padding=1, stride=2)(x[:, :, :6, :5]))",
        "nn.Dropout2d(0.5).eval()(x)",
    )),
    *((line, VOLUMES) for line in (
        "nn.Conv3d(4, 6, (3, 2, 2), stride=(2, 1, 1), padding=1, groups=2)(x)",
        "nn.ConvTranspose3d(4, 2, 2, stride=2, output_padding=1)(x)",
        "nn.MaxPool3d(2)(x)", "nn.MaxPool3d(3, 2, 1, return_indices=True)(x)",
        "nn.MaxUnpool3d(2)(*nn.MaxPool3d(2, return_indices=True)(x), output_size=(5, 6, 7))",
        "nn.MaxPool3d((2, 3, 2), stride=2, padding=1, ceil_mode=True)(x)",
        "nn.AvgPool3d((2, 3, 2), stride=2, padding=(1, 1, 0))(x)", "nn.LPPool3d(2, 2)(x)",
        "nn.AdaptiveAvgPool3d((2, 4, 3))(x)", "nn.AdaptiveMaxPool3d((2, 4, 3))(x)", "nn.BatchNorm3d(4)(x)",
        "nn.InstanceNorm3d(4)(x)", "nn.ReflectionPad3d(1)(x)", "nn.ReplicationPad3d(1)(x)", "nn.ZeroPad3d(1)(x)",
        "F.interpolate(x, size=(3, 7, 8), mode='trilinear')",
    )),
]  # fmt: skip

SAMPLED = {"x": "f 2 3 4 5", "g": "f 2 6 2 2"}
SAMPLED_3D = {"x": "f 2 3 4 5 3", "g": "f 2 2 3 4 3"}
GRIDS: list[tuple[str, dict[str, str]]] = [
    *((f"F.grid_sample(x, g, mode='{mode}', padding_mode='{padding}', align_corners={aligned})", SAMPLED)
      for mode in ("bilinear", "bicubic") for padding in ("zeros", "border", "reflection")
      for aligned in (False, True)),
    *((f"F.grid_sample(x, g.detach(), mode='nearest', padding_mode='{padding}', align_corners={aligned})", SAMPLED)
      for padding in ("zeros", "border", "reflection") for aligned in (False, True)),
    *((f"F.grid_sample(x, g, '{mode}', '{padding}', {aligned})", SAMPLED_3D)
      for mode, padding, aligned in (("bilinear", "zeros", False), ("bilinear", "border", True),
                                     ("bilinear", "reflection", True), ("bilinear", "reflection", False))),
    ("F.grid_sample(x, g, padding_mode='reflection', align_corners=True)", {"x": "f 1 2 1 5", "g": "f 1 3 3 2"}),
    ("F.affine_grid(t, (2, 3, 4, 5), align_corners=False)", {"t": "f 2 2 3"}),
    ("F.affine_grid(t, (2, 3, 4, 5), align_corners=True)", {"t": "f 2 2 3"}),
    ("F.affine_grid(t, (1, 3, 2, 1, 5), align_corners=False)", {"t": "f 1 3 4"}),
    ("F.grid_sample(x, F.affine_grid(t, (2, 3, 6, 7), align_corners=False), align_corners=False)",
     {"x": "f 2 3 4 5", "t": "f 2 2 3"}),
]  # fmt: skip

TABLES: list[tuple[str, dict[str, str]]] = [
    ("nn.Bilinear(3, 4, 5)(x, y)", {"x": "f 6 3", "y": "f 6 4"}),
    ("nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0)(x, t)", {"x": "f 5 8", "t": "i12 5"}),
    ("nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4], head_bias=True).log_prob(x)", {"x": "f 5 8"}),
    ("nn.Embedding(7, 3)(i)", {"i": "i7 2 4"}),
    ("nn.Embedding(7, 3, padding_idx=2)(i)", {"i": "i7 2 4"}),
    ("nn.EmbeddingBag(7, 3)(i)", {"i": "i7 2 4"}),
    ("nn.EmbeddingBag(7, 3, mode='max')(i)", {"i": "i7 2 4"}),
    ("nn.EmbeddingBag(7, 3, mode='sum')(i, o)", {"i": "i7 9", "o": "= (0, 3, 3, 7)"}),
    ("nn.EmbeddingBag(7, 3, mode='mean', padding_idx=1)(i, o)", {"i": "i7 9", "o": "= (0, 3, 7)"}),
    ("nn.EmbeddingBag(7, 3, mode='sum', include_last_offset=True)(i, o)", {"i": "i7 9", "o": "= (0, 3, 9)"}),
    ("F.embedding_bag(i, w, mode='sum', per_sample_weights=p)", {"i": "i7 2 4", "w": "f 7 3", "p": "f 2 4"}),
]  # fmt: skip

SEQUENCE = {"x": "f 5 2 3"}
PLANES = {"x": "f 4 2 6"}
PAIRS = {"x": "f 4 2 6", "y": "f 5 2 6"}
SEQUENCES: list[tuple[str, dict[str, str]]] = [
    ("nn.RNN(3, 4)(x)", SEQUENCE),
    ("nn.RNN(3, 4, 2, nonlinearity='relu', bidirectional=True)(x)", SEQUENCE),
    ("nn.LSTM(3, 4, num_layers=2)(x)", SEQUENCE),
    ("nn.LSTM(3, 4, batch_first=True, bidirectional=True, proj_size=2)(x)", SEQUENCE),
    ("nn.LSTM(3, 4)(x[:, 0])", SEQUENCE),
    ("nn.GRU(3, 4, 2, bias=False, bidirectional=True)(x)", SEQUENCE),
    ("nn.GRU(3, 4)(x, h)", {"x": "f 5 2 3", "h": "f 1 2 4"}),
    ("nn.LSTM(3, 4, batch_first=True)(x, (h, c))", {"x": "f 2 5 3", "h": "f 1 2 4", "c": "f 1 2 4"}),
    ("nn.RNNCell(3, 4)(x[0])", SEQUENCE),
    ("nn.LSTMCell(3, 4)(x[0], (h, c))", {"x": "f 5 2 3", "h": "f 2 4", "c": "f 2 4"}),
    ("nn.GRUCell(3, 4)(x[0])", SEQUENCE),
    ("nn.MultiheadAttention(6, 2)(x, x, x)", PLANES),
    ("nn.MultiheadAttention(6, 3, batch_first=True)(x, x, x, need_weights=False)", PLANES),
    ("nn.MultiheadAttention(6, 2)(x, y, y, attn_mask=m, average_attn_weights=False)", {**PAIRS, "m": "b 4 5"}),
    ("nn.MultiheadAttention(6, 2, bias=False)(x, y, y, attn_mask=m, need_weights=False)", {**PAIRS, "m": "f 4 4 5"}),
    ("nn.MultiheadAttention(6, 2, add_bias_kv=True)(x, y, y, key_padding_mask=m)", {**PAIRS, "m": "b 2 5"}),
    ("nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True)(x, y, y, m, False)", {**PAIRS, "m": "b 2 5"}),
    ("nn.MultiheadAttention(6, 2, kdim=3, vdim=4)(x, k, v)", {**PLANES, "k": "f 5 2 3", "v": "f 5 2 4"}),
    ("nn.MultiheadAttention(6, 2)(x[:, 0], y[:, 0], y[:, 0])", PAIRS),
    ("nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)(x)", PLANES),
    ("nn.TransformerEncoderLayer(6, 2, 8, 0.0, 'gelu', 1e-3, True, norm_first=True)(x, src_key_padding_mask=m)",
     {**PLANES, "m": "= ((False, True), (False, False), (True, False), (False, False))"}),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, 0.0), 2, nn.LayerNorm(6))(x, m, is_causal=True)",
     {**PLANES, "m": "= ((False, True, True, True), (False, False, True, True), (False, False, False, True), "
      "(False, False, False, False))"}),
    ("nn.TransformerDecoderLayer(6, 2, 8, 0.0)(x, y)", PAIRS),
    ("nn.TransformerDecoderLayer(6, 2, 8, 0.0, norm_first=True, bias=False)(x, y, memory_mask=m)",
     {**PAIRS, "m": "f 4 5"}),
    ("nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 8, 0.0), 2)(x, y)", PAIRS),
    ("nn.Transformer(6, 2, 1, 2, 8, 0.0)(x, y)", PAIRS),
]  # fmt: skip

CASES: list[tuple[str, dict[str, str]]] = [
    *((line, {"x": "f 4 6"}) for line in ACTIVATIONS), *LOSSES, *SPATIAL, *GRIDS, *TABLES, *SEQUENCES,
]  # fmt: skip


def name(case: tuple[str, dict[str, str]]) -> str:
    """The key of a case among the expected values."""
    return f"{case[0]}  #  {', '.join(f'{k}: {v}' for k, v in case[1].items())}"


def leaves(found: Any) -> list[Any]:
    """The tensors of a result, which may be nested tuples, in order."""
    if isinstance(found, tuple | list):
        return [leaf for part in found for leaf in leaves(part)]
    return [] if found is None else [found]


def cotangent(place: int, shape: tuple[int, ...]) -> np.ndarray:
    """The factors of the results before these are summed and differentiated."""
    return np.random.default_rng([place, *shape]).normal(size=shape)
