"""Points at which derivatives go wrong, for every differentiable function of the public namespace.

A case is an expression that Nacre and PyTorch both evaluate, with `N`, the namespace of tensors, `F`, that of
`nn.functional`, and float64 arrays `x`, `y`, `z`, which are differentiated.  Expressions that differ by name alone are
evaluated through `NAMES` by the script that writes PyTorch's values.  A pointwise case has a reference in mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mpmath import mp

INF = float("inf")
TINY = 5e-324
Reference = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """An expression, the arrays at which it is evaluated, and its elements by mpmath if it is elementwise."""

    text: str
    at: tuple[Any, ...]
    exact: Reference | None = None
    pointwise: bool = True

    @property
    def name(self) -> str:
        """A word for the case, for files and messages."""
        return f"{self.text} at {self.at}"


def weights(case: Case, size: int) -> list[float]:
    """The weights of a case's results, and of its derivatives, in their sums."""
    return [1.0 if case.pointwise else 1.0 + 0.5 * k for k in range(size)]


def unary(text: str, points: Sequence[float], exact: Reference | None = None) -> list[Case]:
    """Cases of a function of one number at some points."""
    return [Case(text, (list(points),), exact)]


def binary(text: str, points: Sequence[tuple[float, float]], exact: Reference | None = None) -> list[Case]:
    """Cases of a function of two numbers at some pairs."""
    return [Case(text, ([p[0] for p in points], [p[1] for p in points]), exact)]


def whole(text: str, *arrays: Any) -> Case:
    """Cases of a function of whole arrays."""
    return Case(text, arrays, pointwise=False)


ZERO = (0.0, -0.0, TINY, -TINY, 0.5, -0.5)
ENDS = (INF, -INF)


def _soft(x: Any) -> Any:
    return mp.log1p(mp.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _elu(x: Any) -> Any:
    return x if x > 0 else mp.expm1(x)


def _remainder(x: Any, y: Any) -> Any:
    return x - y * mp.floor(x / y)


def _relu6(x: Any) -> Any:
    return min(max(x, mp.mpf(0)), mp.mpf(6))


def _selu(x: Any) -> Any:
    scale, alpha = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")
    return scale * (x if x > 0 else alpha * mp.expm1(x))


_PAIRS = ((0.0, 0.0), (1.0, 1.0), (-2.0, -2.0), (0.0, 3.0), (3.0, 0.0), (1.0, -1.0), (1.0, 2.0))
_ROWS = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, -1.0, 2.0]]
_GONE = [[-INF, -INF], [-INF, 1.0], [0.0, 0.0]]
_BINARY_TARGETS = "0.0 * x + N.where(x > 0.2, 1.0, 0.0)"
_IMAGE = [[[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [2.0, -1.0, 0.0, -0.0], [2.0, 3.0, -0.0, 0.0]]]]
_LINE = [[[0.0, 0.0, 1.0, 1.0, -2.0, -2.0]]]
_VOLUME = [[[[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [-1.0, 1.0]]]]]

TENSORS: dict[str, list[Case]] = {
    "abs": unary("N.abs(x)", (*ZERO, *ENDS), abs),
    "add": binary("N.add(x, y)", _PAIRS, lambda x, y: x + y),
    "clip": unary("N.clip(x, -1.0, 1.0)", (0.0, 1.0, -1.0, 2.0, *ENDS)),
    "divide": binary("N.divide(x, y)", ((0.0, 1.0), (0.0, -2.0), (1.0, INF), (0.0, INF)), lambda x, y: x / y),
    "fma": [whole("N.fma(x, y, z)", [0.0, 1.0], [0.0, INF], [0.0, 1.0])],
    "maximum": binary("N.maximum(x, y)", (*_PAIRS, (INF, INF), (-INF, -INF)), max),
    "minimum": binary("N.minimum(x, y)", (*_PAIRS, (INF, INF), (-INF, -INF)), min),
    "multiply": binary("N.multiply(x, y)", _PAIRS, lambda x, y: x * y),
    "negative": unary("N.negative(x)", ZERO, lambda x: -x),
    "positive": unary("N.positive(x)", ZERO, lambda x: x),
    "pow": binary(
        "N.pow(x, y)",
        ((0.0, 2.0), (0.0, 1.0), (0.0, 3.0), (-0.0, 2.0), (1.0, 0.0), (2.0, 0.0), (-2.0, 2.0), (-1.0, 3.0), (0.0, 0.0)),
    ),
    "reciprocal": unary("N.reciprocal(x)", (1.0, -1.0, *ENDS), lambda x: 1 / x),
    "remainder": binary(
        "N.remainder(x, y)", ((4.0, 2.0), (-4.0, 2.0), (4.0, -2.0), (0.0, 3.0), (-0.0, 3.0), (5.0, 3.0), (-5.0, 3.0))
    ),
    "square": unary("N.square(x)", (*ZERO, *ENDS), lambda x: x * x),
    "subtract": binary("N.subtract(x, y)", _PAIRS, lambda x, y: x - y),
    "where": [whole("N.where(x > 0.0, N.sqrt(N.where(x > 0.0, x, N.ones_like(x))), x)", [0.0, 1.0, -1.0])],
    "acos": unary("N.acos(x)", (0.0, -0.0, 0.5, 1.0, -1.0), mp.acos),
    "acosh": unary("N.acosh(x)", (1.0, 2.0, 1e300), mp.acosh),
    "asin": unary("N.asin(x)", (0.0, -0.0, 0.5, 1.0, -1.0), mp.asin),
    "asinh": unary("N.asinh(x)", (*ZERO, 1e300, -1e300), mp.asinh),
    "atan": unary("N.atan(x)", (*ZERO, 1e300, *ENDS), mp.atan),
    "atan2": binary(
        "N.atan2(x, y)",
        ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0), (1e-200, 1e-200), (1e200, 1e200), (0.0, 0.0)),
    ),
    "atanh": unary("N.atanh(x)", (0.0, -0.0, 0.5, 1.0, -1.0), mp.atanh),
    "cbrt": unary("N.cbrt(x)", (0.0, 1.0, -8.0)),
    "copysign": binary("N.copysign(x, y)", ((2.0, 1.0), (-2.0, 1.0), (2.0, -0.0), (0.0, 1.0))),
    "cos": unary("N.cos(x)", (*ZERO, 1e22), mp.cos),
    "cosh": unary("N.cosh(x)", ZERO, mp.cosh),
    "erf": unary("N.erf(x)", (*ZERO, 30.0, *ENDS), mp.erf),
    "erfc": unary("N.erfc(x)", (*ZERO, 30.0, *ENDS), mp.erfc),
    "exp": unary("N.exp(x)", (*ZERO, -1000.0, *ENDS), mp.exp),
    "exp2": unary("N.exp2(x)", (*ZERO, -2000.0, *ENDS), lambda x: mp.mpf(2) ** x),
    "expm1": unary("N.expm1(x)", (*ZERO, -1000.0, *ENDS), mp.expm1),
    "hypot": binary(
        "N.hypot(x, y)",
        ((0.0, 0.0), (0.0, 3.0), (-3.0, 0.0), (1.0, 1.0), (1.0, -1.0), (3.0, 4.0), (1e200, 1e200)),
        mp.hypot,
    ),
    "log": unary("N.log(x)", (0.0, 1.0, INF), mp.log),
    "log10": unary("N.log10(x)", (0.0, 1.0, INF), mp.log10),
    "log1p": unary("N.log1p(x)", (*ZERO, -1.0, INF), mp.log1p),
    "log2": unary("N.log2(x)", (0.0, 1.0, INF), lambda x: mp.log(x, 2)),
    "logaddexp": binary(
        "N.logaddexp(x, y)",
        ((0.0, 0.0), (1.0, 1.0), (1.0, 2.0), (-1000.0, 1000.0), (-INF, 1.0), (1.0, -INF), (-INF, -INF)),
        lambda x, y: max(x, y) + mp.log1p(mp.exp(min(x, y) - max(x, y))),
    ),
    "nan_to_num": unary("N.nan_to_num(x)", (0.0, 1.0, float("nan"), *ENDS)),
    "rsqrt": unary("N.rsqrt(x)", (1.0, 4.0, INF), lambda x: 1 / mp.sqrt(x)),
    "sigmoid": unary("N.sigmoid(x)", (*ZERO, 800.0, -800.0, *ENDS), _sigmoid),
    "sin": unary("N.sin(x)", (*ZERO, 1e22), mp.sin),
    "sinh": unary("N.sinh(x)", ZERO, mp.sinh),
    "sqrt": unary("N.sqrt(x)", (0.0, 1.0, 4.0), mp.sqrt),
    "tan": unary("N.tan(x)", ZERO, mp.tan),
    "tanh": unary("N.tanh(x)", (*ZERO, 800.0, *ENDS), mp.tanh),
    "cumulative_sum": [whole("N.cumulative_sum(x, axis=0)", [0.0, 1.0])],
    "logsumexp": [
        whole("N.logsumexp(x, axis=1)", [[0.0, 0.0], [1.0, -INF], [1000.0, -1000.0]]),
        whole("N.logsumexp(x, axis=1)", [[-INF, -INF]]),
        whole("N.logsumexp(x, axis=1)", [[INF, 1.0]]),
    ],
    "max": [whole("N.max(x, axis=1)", _ROWS)],
    "mean": [whole("N.mean(x, axis=1)", _ROWS)],
    "min": [whole("N.min(x, axis=1)", _ROWS)],
    "prod": [whole("N.prod(x, axis=1)", [[0.0, 2.0, 3.0], [0.0, 0.0, 2.0], [1.0, -1.0, 2.0]])],
    "std": [whole("N.std(x, axis=1, correction=1)", _ROWS), whole("N.std(x, axis=1, correction=0)", _ROWS)],
    "sum": [whole("N.sum(x, axis=1)", _ROWS)],
    "var": [whole("N.var(x, axis=1, correction=1)", _ROWS)],
    "einsum": [whole("N.einsum('i,i->', x, y)", [0.0, 1.0], [0.0, 2.0])],
    "matmul": [whole("N.matmul(x, y)", [[0.0, 1.0]], [[0.0], [2.0]])],
    "outer": [whole("N.outer(x, y)", [0.0, 1.0], [0.0, 2.0])],
    "tensordot": [whole("N.tensordot(x, y, axes=1)", [0.0, 1.0], [0.0, 2.0])],
    "vecdot": [whole("N.vecdot(x, y)", [0.0, 1.0], [0.0, 2.0])],
    "sort": [whole("N.sort(x)", [1.0, 1.0, 0.0, -0.0])],
    "topk": [whole("N.topk(x, 2)[0]", [1.0, 1.0, 1.0, 0.0])],
}

FUNCTIONAL: dict[str, list[Case]] = {
    "celu": [*unary("F.celu(x)", (*ZERO, *ENDS), _elu), *unary("F.celu(x, 0.5)", ZERO)],
    "elu": [*unary("F.elu(x)", (*ZERO, *ENDS), _elu), *unary("F.elu(x, 0.5)", ZERO)],
    "gelu": [
        *unary("F.gelu(x)", (*ZERO, 40.0, -40.0), lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2),
        *unary("F.gelu(x, approximate='tanh')", ZERO),
    ],
    "glu": [whole("F.glu(x)", [0.0, 0.0, 1.0, -800.0])],
    "hardshrink": unary("F.hardshrink(x)", (*ZERO, 1.0)),
    "hardsigmoid": unary("F.hardsigmoid(x)", (0.0, 3.0, -3.0, *ENDS)),
    "hardswish": unary(
        "F.hardswish(x)", (0.0, 3.0, -3.0, 4.0, -4.0), lambda x: x * min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6
    ),
    "hardtanh": unary("F.hardtanh(x)", (0.0, 1.0, -1.0, *ENDS)),
    "leaky_relu": unary("F.leaky_relu(x, 0.1)", (*ZERO, *ENDS)),
    "logsigmoid": unary("F.logsigmoid(x)", (*ZERO, 800.0, -800.0, *ENDS), lambda x: -_soft(-x)),
    "mish": unary("F.mish(x)", (*ZERO, 40.0, -40.0), lambda x: x * mp.tanh(_soft(x))),
    "prelu": [whole("F.prelu(x, y)", [[0.0], [-0.0], [1.0], [-1.0]], [0.25])],
    "relu": unary("F.relu(x)", (*ZERO, *ENDS), lambda x: max(x, mp.mpf(0))),
    "relu6": unary("F.relu6(x)", (0.0, 6.0, 7.0), _relu6),
    "rrelu": unary("F.rrelu(x, 0.25, 0.25)", ZERO),
    "selu": unary("F.selu(x)", (*ZERO, *ENDS), _selu),
    "sigmoid": unary("F.sigmoid(x)", (*ZERO, 800.0, -800.0, *ENDS), _sigmoid),
    "silu": unary("F.silu(x)", (*ZERO, 800.0, -800.0), lambda x: x * _sigmoid(x)),
    "softmax": [whole("F.softmax(x, 1)[:, 0]", _GONE[1:])],
    "softmin": [whole("F.softmin(x, 1)[:, 0]", [[INF, 1.0], [0.0, 0.0]])],
    "softplus": [
        *unary("F.softplus(x)", (*ZERO, 800.0, -800.0, *ENDS), _soft),
        *unary("F.softplus(x, 2.0, 3.0)", (0.0, -0.0, 1.0, -1.0)),
    ],
    "softshrink": unary("F.softshrink(x)", (*ZERO, 1.0)),
    "softsign": unary("F.softsign(x)", ZERO, lambda x: x / (1 + abs(x))),
    "tanh": unary("F.tanh(x)", (*ZERO, 800.0), mp.tanh),
    "tanhshrink": unary("F.tanhshrink(x)", ZERO, lambda x: x - mp.tanh(x)),
    "threshold": unary("F.threshold(x, 0.5, 7.0)", (0.5, 1.0, 0.0)),
    "scaled_dot_product_attention": [
        whole(
            "F.scaled_dot_product_attention(x, y, z, N.tensor([[True, False], [False, False]]))",
            [[0.0, 1.0], [0.0, 2.0]],
            [[0.0, 1.0], [1.0, 1.0]],
            [[1.0, 2.0], [3.0, 5.0]],
        ),
        whole(
            "F.scaled_dot_product_attention(x, y, z)", [[0.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [3.0, 5.0]]
        ),
    ],
    "affine_grid": [whole("F.affine_grid(x, (1, 1, 2, 2), align_corners=False)", [[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])],
    "grid_sample": [whole("F.grid_sample(x, y, align_corners=False)", _IMAGE, [[[[0.1, 0.2], [3.0, 0.3]]]])],
    "bilinear": [whole("F.bilinear(x, y, z)", [[0.0, 1.0]], [[0.0, 2.0]], [[[0.0, 1.0], [1.0, 0.0]]])],
    "embedding": [whole("F.embedding(N.tensor([0, 0, 1]), x, padding_idx=1)", [[0.0, 1.0], [2.0, 3.0]])],
    "embedding_bag": [
        whole("F.embedding_bag(N.tensor([[0, 0], [1, 0]]), x, mode='max')", [[0.0, 1.0], [2.0, 1.5]]),
        whole("F.embedding_bag(N.tensor([0, 1]), x, N.tensor([0, 2]), mode='mean')", [[0.0], [2.0]]),
    ],
    "linear": [whole("F.linear(x, y)", [[0.0, 1.0]], [[0.0, 2.0]])],
    "cross_entropy": [
        whole("F.cross_entropy(x, N.tensor([0, 1, -100]))", [[0.0, 0.0], [900.0, -900.0], [1.0, 2.0]]),
        whole("F.cross_entropy(x, N.tensor([1]))", [[-INF, 1.0]]),
        whole("F.cross_entropy(x, y)", [[0.0, 0.0]], [[0.0, 1.0]]),
    ],
    "log_softmax": [whole("F.log_softmax(x, 1)[:, 1]", [[-INF, 1.0], [0.0, 0.0], [900.0, -900.0]])],
    "nll_loss": [whole("F.nll_loss(x, N.tensor([0, -100]))", [[0.0, -1.0], [-1.0, 0.0]])],
    "ctc_loss": [
        whole(
            "F.ctc_loss(F.log_softmax(x, 2), N.tensor([[1, 1], [1, 2], [0, 0]]), N.tensor([3, 2, 0]), "
            "N.tensor([2, 2, 0]), reduction='sum')",
            [[[0.0] * 3] * 3] * 3,
        ),
        whole(
            "F.ctc_loss(F.log_softmax(x, 2), N.tensor([[1, 1]]), N.tensor([2]), N.tensor([2]), zero_infinity=True)",
            [[[0.0] * 3]] * 2,
        ),
    ],
    "multi_margin_loss": [whole("F.multi_margin_loss(x, N.tensor([0, 1]))", [[1.0, 0.0], [0.0, 0.0]])],
    "multilabel_margin_loss": [whole("F.multilabel_margin_loss(x, N.tensor([[0, -1]]))", [[1.0, 0.0]])],
    "multilabel_soft_margin_loss": [
        whole("F.multilabel_soft_margin_loss(x, N.tensor([[1.0, 0.0, 0.0]]))", [[0.0, -0.0, 800.0]])
    ],
    "batch_norm": [whole("F.batch_norm(x, None, None, training=True)", [[1.0, 0.0], [1.0, 2.0], [1.0, 4.0]])],
    "group_norm": [whole("F.group_norm(x, 1)", [[1.0, 1.0], [0.0, 2.0]])],
    "instance_norm": [whole("F.instance_norm(x)", [[[1.0, 1.0, 1.0], [0.0, 2.0, 3.0]]])],
    "layer_norm": [whole("F.layer_norm(x, (3,))", _ROWS)],
    "local_response_norm": [whole("F.local_response_norm(x, 2)", _LINE)],
    "normalize": [
        whole("F.normalize(x)", _ROWS),
        whole("F.normalize(x, p=1.0)", _ROWS),
        whole("F.normalize(x, p=3.0)", _ROWS),
    ],
    "rms_norm": [whole("F.rms_norm(x, (3,), eps=1e-5)", _ROWS)],
    "binary_cross_entropy": [
        whole(f"F.binary_cross_entropy(x, N.tensor({t}), reduction='sum')", [0.0, 1.0, 1e-200, 0.5])
        for t in ([0.0] * 4, [1.0] * 4, [0.25] * 4)
    ],
    "binary_cross_entropy_with_logits": [
        *[
            whole(f"F.binary_cross_entropy_with_logits(x, N.tensor({t}), reduction='sum')", [0.0, -0.0, 800.0, -800.0])
            for t in ([0.0] * 4, [1.0] * 4)
        ],
        whole(
            "F.binary_cross_entropy_with_logits(x, N.tensor([1.0, 0.0]), pos_weight=N.tensor([3.0, 3.0]))", [0.0, -0.0]
        ),
    ],
    "cosine_embedding_loss": [
        whole(
            "F.cosine_embedding_loss(x, y, N.tensor([1.0, -1.0]))", [[0.0, 0.0], [1.0, 0.0]], [[1.0, 2.0], [0.0, 1.0]]
        )
    ],
    "cosine_similarity": [
        whole("F.cosine_similarity(x, y)", [[0.0, 0.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]),
        whole("F.cosine_similarity(x, y)", [[0.0, 0.0]], [[0.0, 0.0]]),
    ],
    "gaussian_nll_loss": [whole("F.gaussian_nll_loss(x, y, z)", [0.0, 1.0], [0.0, 2.0], [0.0, 1.0])],
    "hinge_embedding_loss": [whole("F.hinge_embedding_loss(x, N.tensor([1.0, -1.0]))", [0.0, 1.0])],
    "huber_loss": [whole("F.huber_loss(x, y, reduction='sum')", [0.0, 1.0, -1.0, 5.0], [0.0] * 4)],
    "kl_div": [whole("F.kl_div(x, y, reduction='sum')", [0.0, -1.0], [0.0, 0.5])],
    "l1_loss": [whole("F.l1_loss(x, y)", [0.0, 1.0], [0.0, 0.0])],
    "margin_ranking_loss": [whole("F.margin_ranking_loss(x, y, N.tensor([1.0, -1.0]))", [0.0, 1.0], [0.0, 1.0])],
    "mse_loss": [whole("F.mse_loss(x, y)", [0.0, 1.0], [0.0, 0.0])],
    "pairwise_distance": [
        whole("F.pairwise_distance(x, y, eps=0.0)", [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [0.0, 0.0]]),
        whole("F.pairwise_distance(x, y, p=1.0, eps=0.0)", [[1.0, 2.0]], [[1.0, 0.0]]),
        whole("F.pairwise_distance(x, y, p=3.0, eps=0.0)", [[1.0, 2.0]], [[1.0, 2.0]]),
    ],
    "poisson_nll_loss": [
        whole("F.poisson_nll_loss(x, y)", [0.0, -800.0], [0.0, 1.0]),
        whole("F.poisson_nll_loss(x, y, log_input=False, full=True)", [0.0, 2.0], [0.0, 1.0]),
    ],
    "smooth_l1_loss": [whole("F.smooth_l1_loss(x, y, reduction='sum')", [0.0, 1.0, -1.0, 5.0], [0.0] * 4)],
    "soft_margin_loss": [
        whole("F.soft_margin_loss(x, N.tensor([1.0, -1.0, 1.0]), reduction='sum')", [0.0, -0.0, -800.0])
    ],
    "triplet_margin_loss": [whole("F.triplet_margin_loss(x, y, z, eps=0.0)", [[0.0, 0.0]], [[0.0, 0.0]], [[0.5, 0.0]])],
    "triplet_margin_with_distance_loss": [
        whole("F.triplet_margin_with_distance_loss(x, y, z)", [[0.0, 0.0]], [[1.0, 0.0]], [[0.5, 0.0]])
    ],
    "max_pool1d": [whole("F.max_pool1d(x, 2)", _LINE)],
    "max_pool2d": [whole("F.max_pool2d(x, 2)", _IMAGE)],
    "max_pool3d": [whole("F.max_pool3d(x, 2)", _VOLUME)],
    "adaptive_max_pool1d": [whole("F.adaptive_max_pool1d(x, 3)", _LINE)],
    "adaptive_max_pool2d": [whole("F.adaptive_max_pool2d(x, 2)", _IMAGE)],
    "adaptive_max_pool3d": [whole("F.adaptive_max_pool3d(x, 1)", _VOLUME)],
    "lp_pool1d": [whole(f"F.lp_pool1d(x, {p}, 2)", [[[0.0, 0.0, 1.0, 1.0, 3.0, 4.0]]]) for p in (1.0, 2.0, 3.0)],
    "lp_pool2d": [whole("F.lp_pool2d(x, 2.0, 2)", _IMAGE)],
    "lp_pool3d": [whole("F.lp_pool3d(x, 2.0, (1, 2, 2))", _VOLUME)],
}

CASES: dict[str, list[Case]] = {
    **{f"nacre.{name}": held for name, held in TENSORS.items()},
    **{f"nacre.nn.functional.{name}": held for name, held in FUNCTIONAL.items()},
}

# ---- functions without special points, and why

_LINEAR = "linear: one derivative everywhere"
_STEPS = "constant almost everywhere, and of derivative 0, also in PyTorch"
_DISCRETE = "its results are integers or bools"
_MADE = "makes a tensor without operands that are differentiated"
_RANDOM = "linear in x for given random numbers"
_TOOL = "a transformation, a setting or a file, not a function of numbers"


def _listed(names: str, why: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), why)


REASONS: dict[str, str] = {
    **_listed(
        "arange empty empty_like eye finfo from_dlpack full full_like iinfo linspace meshgrid ones ones_like "
        "result_type tensor zeros zeros_like",
        _MADE,
    ),
    **_listed(
        "asarray astype tril triu broadcast_arrays broadcast_to concat diff expand_dims flatten flip nextafter "
        "matrix_transpose moveaxis pad permute_dims repeat reshape roll split squeeze stack swapaxes tile "
        "unstack index index_update take take_along_axis take_along_dim dynamic_slice dynamic_update_slice complex "
        "real imag conj view_as_real view_as_complex gather index_select masked_fill masked_select narrow "
        "repeat_interleave atleast_1d atleast_2d atleast_3d hstack vstack dstack column_stack deg2rad rad2deg "
        "diag diagonal diagflat diag_embed block_diag sliding_window_view scatter scatter_add index_add index_copy "
        "index_fill segment_sum segment_mean nansum nanmean nancumsum",
        _LINEAR,
    ),
    **_listed("angle polar", "tests/api/test_complex_numbers.py has their derivatives"),
    **_listed("bitcast ceil floor floor_divide round sign trunc", _STEPS),
    **_listed("unique_all unique_counts unique_inverse unique_values", "they move elements as `sort` does"),
    **_listed("dot inner lerp", "products, whose derivatives tests/public/test_other_names.py has"),
    **_listed(
        "median quantile percentile mode nanmedian nanquantile nanpercentile cummax cummin",
        "they take elements as `sort` does; tests/api/statistics has their derivatives",
    ),
    **_listed("average cov corrcoef interp", "products and quotients; tests/api/statistics has their derivatives"),
    **_listed(
        "scatter_reduce segment_max segment_min segment_prod",
        "tests/api/placement has their derivatives at ties and zeros",
    ),
    **_listed(
        "fmax fmin fmod div logcumsumexp kron nanmax nanmin nanprod nancumprod nanvar nanstd",
        "functions that have points, of numbers that are not NaN, or of several",
    ),
    **_listed("amax amin softmax log_softmax relu", "other ways to call functions that have points"),
    "cumulative_prod": "a polynomial; tests/api/test_statistical.py has its derivatives, at zeros too",
    **_listed(
        "equal greater greater_equal less less_equal not_equal bitwise_and bitwise_invert "
        "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor isfinite isinf isnan logical_and "
        "logical_not logical_or logical_xor signbit all any argmax argmin count_nonzero "
        "argsort nonzero searchsorted isin can_cast isdtype broadcast_shapes argwhere flatnonzero isclose allclose "
        "array_equal bincount digitize bucketize histc histogram histogram2d histogramdd histogram_bin_edges nanargmax "
        "nanargmin",
        _DISCRETE,
    ),
    **_listed(
        "empty_cache enable_grad get_threads is_grad_enabled no_grad numerics set_memory_limit "
        "set_threads Dim grad hessian jacfwd jacrev jvp value_and_grad vjp vmap jit cond fori_loop scan host_call "
        "while_loop checkpoint freeze load save load_program save_program printoptions set_printoptions "
        "primitive register_kernel register_pass associative_scan custom_jvp custom_vjp inference_mode "
        "detect_anomalies is_inference_mode_enabled map name placeholder set_grad_enabled set_loop_options switch "
        "check_grads derivative_graph hvp autocast autocast_policy get_autocast_dtype kernel prange pairwise_sum",
        _TOOL,
    ),
}
FUNCTIONAL_REASONS: dict[str, str] = {
    **_listed(
        "max_unpool1d max_unpool2d max_unpool3d adaptive_avg_pool1d adaptive_avg_pool2d "
        "adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d channel_shuffle fold interpolate pad "
        "pixel_shuffle pixel_unshuffle unfold conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
        "conv_transpose3d",
        _LINEAR,
    ),
    **_listed("alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout", _RANDOM),
    "gumbel_softmax": "softmax of random numbers, which are PyTorch's own there",
    "one_hot": _DISCRETE,
}
WITHOUT: dict[str, str] = {
    **{f"nacre.{name}": why for name, why in REASONS.items()},
    **{f"nacre.nn.functional.{name}": why for name, why in FUNCTIONAL_REASONS.items()},
}

# ---- functions whose derivatives differ from PyTorch's, and why

_LEFT = "At 0, Nacre takes the slope and the second derivative of the exponential.  PyTorch's second derivative is 0."
_NORM = "The slope of a length of 0 counts as 0, so its derivative is 0.  PyTorch computes 0 / 0, which is NaN."
_END = "The slope is infinite, so its own derivative has no value (NaN).  PyTorch gives the limit of the derivative."

DIFFERENT: dict[str, str] = {
    "nacre.pow": "PyTorch's second derivatives at a base of 0 contain 0 · ∞, which is NaN.  In Nacre, terms without a "
    "derivative count as 0.",
    "nacre.acos": _END,
    "nacre.asin": _END,
    "nacre.atanh": _END,
    "nacre.atan2": "The origin has no angle; the derivatives there are 0.  PyTorch's second derivatives "
    "are 0 / 0, which is NaN.  "
    "Squares of tiny numbers underflow in PyTorch.",
    "nacre.cbrt": "The slope at 0 is ∞.  PyTorch has no cbrt.  Its columns are those of sign(x) · "
    "|x|^(1/3), whose slope at 0 "
    "is 0 · ∞, which is NaN.",
    "nacre.copysign": "The sign of a zero counts for the derivative, as it does for the value.  PyTorch's "
    "slope at 0 is 0.",
    "nacre.hypot": "The slope at the origin is 0, the middle of all slopes there.  PyTorch computes 0 / "
    "0, which is NaN.",
    "nacre.logaddexp": "The shares of −∞ are finite: 0 and 1.  PyTorch computes ∞ − ∞ and ∞ / ∞, which are NaN.",
    "nacre.topk": "Of equal numbers, Nacre takes the first ones.  PyTorch takes any.",
    "nacre.nn.functional.celu": _LEFT,
    "nacre.nn.functional.elu": _LEFT,
    "nacre.nn.functional.selu": _LEFT,
    "nacre.nn.functional.normalize": _NORM,
    "nacre.nn.functional.cosine_similarity": _NORM,
    "nacre.nn.functional.pairwise_distance": _NORM,
    "nacre.nn.functional.triplet_margin_loss": _NORM,
    "nacre.nn.functional.binary_cross_entropy": "Nacre differentiates the two logarithms, whose slopes "
    "are limited to 10¹².  PyTorch divides x − t by "
    "x(1 − x), and limits this divisor as a whole.",
    "nacre.nn.functional.gaussian_nll_loss": "A variance below eps counts as eps, which is a constant "
    "with slope 0.  PyTorch gives it the slope at eps.",
    "nacre.nn.functional.huber_loss": "Where the parabola meets the line, Nacre gives the second "
    "derivative of the parabola.  PyTorch gives that "
    "of the line.",
    "nacre.nn.functional.kl_div": "0 · log 0 is 0 and has slope 0.  PyTorch's slope is NaN.",
    "nacre.nn.functional.poisson_nll_loss": "Stirling's term has no part in targets up to 1.  PyTorch "
    "computes 0 · ∞, which is NaN.",
    "nacre.nn.functional.soft_margin_loss": "e^800 does not overflow on the way.  PyTorch computes ∞ / ∞, "
    "which is NaN.",
}
