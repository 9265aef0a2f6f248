"""Library functions of float16 and bfloat16 are those of float32, rounded once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any, Protocol

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.dtypes import DType
from nacre.trace.value import Value
from surface import FUNCTIONS

SHAPES = ((7,), (5, 5), (2, 4, 6), (2, 4, 6, 6), (2, 4, 4, 6, 6))
ELSEWHERE = ("nacre.random.", "nacre.nn.init.", "nacre.data.")
# functions whose result for random operands of these shapes is not a half type, or which need special arguments
NOT_HALF = {
    "astype", "equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "isfinite", "isinf", "isnan",
    "signbit", "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "nn.functional.one_hot",
    "linalg.matrix_rank",  # other dtypes
    "complex", "polar", "view_as_real", "view_as_complex", "linalg.eig", "linalg.eigvals",  # complex ones, of float32
    *(f"fft.{i}{name}" for i in ("", "i") for name in ("fft", "fft2", "fftn", "hfft", "rfft", "rfft2", "rfftn")),
    "can_cast", "isdtype", "isin", "nonzero", "searchsorted", "isclose", "allclose", "array_equal", "argwhere",
    "flatnonzero", "bucketize", "digitize", "nanargmax", "nanargmin",
    "bitcast", "nextafter",  # the result depends on the dtype
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "logical_and", "logical_not", "logical_or", "logical_xor",
    "broadcast_to", "permute_dims", "reshape", "squeeze", "tile", "dynamic_slice", "dynamic_update_slice", "where",
    "nn.pack_padded_sequence", "nn.unpad_sequence", "nn.functional.pad",  # they move numbers
}  # fmt: skip
F = nc.nn.functional


def _from_vector(x: Any) -> Any:
    """Parameters of x's dtype to which a vector is assigned."""
    held = [nn.Parameter(nc.zeros((2, 2), dtype=x.dtype)), nn.Parameter(nc.zeros((2,), dtype=x.dtype))]
    nn.utils.vector_to_parameters(x, held)
    return nn.utils.parameters_to_vector(held)


def _positive_definite(x: Any) -> Any:
    """A symmetric matrix with a large diagonal, of x's numbers as they are."""
    below = nc.tril(x((4, 4)), k=-1)
    return below + below.mT + nc.eye(4, dtype=below.dtype) * 8


CALLS: dict[str, Callable[[Any], Any]] = {
    "linalg.cholesky": lambda x: nc.linalg.cholesky(_positive_definite(x)),
    "linalg.cross": lambda x: nc.linalg.cross(x((4, 3)), x((4, 3))),
    "split": lambda x: nc.split(x((4, 3)), sections=2),
    "masked_fill": lambda x: nc.masked_fill(x((4, 3)), nc.eye(4, 3, dtype=nc.bool), 0.5),
    "bincount": lambda x: nc.bincount(nc.tensor([0, 2, 2, 1, 2]), weights=x((5,))),
    "index_add": lambda x: nc.index_add(x((3, 4)), 0, [2, 0, 2, 2], x((4, 4)), alpha=x(())),
    "index_copy": lambda x: nc.index_copy(x((3, 4)), 0, [2, 0], x((2, 4))),
    "index_fill": lambda x: nc.index_fill(x((3, 4)), 0, [2, 0], x(())),
    "scatter_reduce": lambda x: [
        nc.scatter_reduce(x((3, 4)), 0, [[2, 0, 1, 1]] * 5, x((5, 4)), reduce, include_self=own)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
    "sparse.csr": lambda x: nc.sparse.csr(x((5,)), [0, 1, 2, 0, 1], [0, 3, 5], (2, 3)) @ x((3,)),
    "sparse.from_dense": lambda x: nc.sparse.from_dense(x((4, 5))) @ x((5, 2)),
    "full": lambda x: nc.full((2, 3), x(())),
    "full_like": lambda x: nc.full_like(x((2, 3)), x(())),
    "nn.functional.affine_grid": lambda x: F.affine_grid(x((2, 2, 3)), (2, 1, 4, 5)),
    "nn.functional.binary_cross_entropy": lambda x: F.binary_cross_entropy(x((3, 4)) / 8, x((3, 4)) / 8),
    "nn.functional.bilinear": lambda x: F.bilinear(x((3, 4)), x((3, 5)), x((2, 4, 5)), x((2,))),
    "nn.functional.ctc_loss": lambda x: F.ctc_loss(
        -x((5, 2, 4)), nc.tensor([[1, 2], [3, 1]]), nc.tensor([5, 4]), nc.tensor([2, 1])
    ),
    "nn.functional.layer_norm": lambda x: F.layer_norm(x((3, 6)), (6,), x((6,)), x((6,))),
    "nn.functional.rms_norm": lambda x: F.rms_norm(x((3, 6)), (6,), x((6,)), eps=1e-5),
    "nn.utils.vector_to_parameters": lambda x: _from_vector(x((6,))),
    "nn.functional.fold": lambda x: F.fold(x((1, 4, 4)), 3, 2),
    "nn.functional.interpolate": lambda x: F.interpolate(x((1, 2, 5, 5)), size=(7, 8), mode="bilinear"),
}
NAMES = [
    n.removeprefix("nacre.")
    for n, f in FUNCTIONS.items()
    if not n.startswith(ELSEWHERE)
    and not inspect.isbuiltin(f)
    and any("TensorLike" in str(p.annotation) for p in inspect.signature(f).parameters.values())
]


class Maker:
    """Random operands, the same for each dtype: numbers of a half type, in that type or as float32."""

    def __init__(self, half: DType, dtype: DType, signed: bool = False) -> None:
        self.half, self.dtype, self.signed, self.rng = half, dtype, signed, np.random.default_rng(5)

    def __call__(self, shape: tuple[int, ...]) -> Any:
        numbers = self.rng.normal(size=shape) * 1.2
        numbers = numbers if self.signed else np.abs(numbers)
        return nc.asarray(numbers).astype(self.half).astype(self.dtype)


def kinds(p: inspect.Parameter) -> list[Any]:
    """Possible arguments of a parameter, as functions of a constructor and a shape."""
    kind = str(p.annotation)
    if kind.startswith(("Sequence[TensorLike", "list[")):
        return [lambda x, s: [x(s), x(s)]]
    if "TensorLike" in kind or kind == "Any":
        return [
            lambda x, s: x(s),
            lambda x, s: nc.zeros(s[:1], dtype=nc.int64),
            lambda x, s: nc.ones(s, dtype=bool),
            lambda x, s: nc.zeros(s, dtype=nc.int64),
            lambda x, s: x((4, 4, *(3,) * (len(s) - 2))),
        ]
    if "int" in kind or "Size" in kind or "Axes" in kind:
        return [lambda x, s: 2, lambda x, s: 1, lambda x, s: 3]
    value = 0.7 if "float" in kind or "Scalar" in kind else "ij->ij" if "str" in kind else None
    return [lambda x, s: value]


def calls(f: Callable[..., Any], shape: tuple[int, ...]) -> Iterator[Callable[[Maker], Any]]:
    """Calls of a function with possible arguments for each of its parameters."""
    known = inspect.signature(f).parameters.values()
    wanted = [p for p in known if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    for chosen in islice(product(*map(kinds, wanted)), 30):

        def call(x: Maker, chosen: Any = chosen, **more: Any) -> Any:
            given = [(p, make(x, shape)) for p, make in zip(wanted, chosen, strict=True)]
            return f(
                *(v for p, v in given if p.kind is not p.KEYWORD_ONLY),
                **{p.name: v for p, v in given if p.kind is p.KEYWORD_ONLY},
                **more,
            )

        yield call


def leaves(result: Any) -> list[Any]:
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [result] if isinstance(result, Value) else []


def same(call: Callable[[Maker], Any], half: DType, signed: bool = False) -> bool:
    """Whether a call returns half types at all; fails where they are not those of float32, rounded once."""
    try:
        nc.random.seed(3)
        narrow = leaves(call(Maker(half, half, signed)))
        nc.random.seed(3)
        wide = leaves(call(Maker(half, nc.float32, signed)))
    except (nc.Error, TypeError):
        return False
    found = [(x, y) for x, y in zip(narrow, wide, strict=True) if x.dtype is half]
    for x, y in found:
        a, b = x.numpy().view(np.uint16), y.astype(half).numpy().view(np.uint16)
        differ = (a != b) & ~np.isnan(x.numpy().astype(np.float32))
        assert not differ.any(), f"{differ.sum()} of {differ.size} numbers are not rounded once"
    return bool(found)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if k % 8 == 3 or n in ("hypot", "logaddexp", "vecdot") else pytest.mark.slow)
        for k, n in enumerate(NAMES)
        if n not in NOT_HALF
    ],
)
@pytest.mark.parametrize("half", [nc.float16, nc.bfloat16], ids=str)
def test_half_types_are_rounded_once(name: str, half: DType, request: pytest.FixtureRequest) -> None:
    few = not request.config.getoption("--all")
    f = FUNCTIONS[f"nacre.{name}"]
    own = [CALLS[name]] if name in CALLS else [c for s in SHAPES for c in calls(f, s)]
    reached = 0
    for call in own:
        reached += same(call, half)
        if reached == 2 and few:
            break
    assert reached, f"no call of {name} gave {half.name}: write one in CALLS"


@pytest.mark.parametrize("half", [nc.float16, nc.bfloat16], ids=str)
def test_pools_of_odd_windows(half: DType) -> None:
    for call in (
        lambda x: F.avg_pool1d(x((2, 3, 9)), 3),
        lambda x: F.avg_pool2d(x((2, 3, 9, 9)), 3, 2, 1),
        lambda x: F.avg_pool2d(x((2, 3, 8, 8)), 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.lp_pool2d(x((2, 3, 9, 9)), 2, 3),
        lambda x: F.adaptive_avg_pool2d(x((2, 3, 9, 9)), (4, 5)),
    ):
        assert same(call, half)


# ---- settings of the functions of networks: numbers that half types do not have, words, and tensors

NETWORKS = "nacre.nn.functional."
CLASSES = [0, 5, 3, 1, 1]
OPTIONS: dict[str, tuple[Any, ...]] = {
    "reduction": ("none", "sum"), "approximate": ("tanh",), "padding_mode": ("border", "reflection"),
    "mode": ("sum", "max", "bicubic", "nearest", "area"), "training": (True, False), "groups": (2,), "dilation": (2,),
    "align_corners": (True,), "is_causal": (True,), "full": (True,), "log_input": (False,), "swap": (True,),
    "log_target": (True,), "zero_infinity": (True,), "ceil_mode": (True,), "divisor_override": (3,),
}  # fmt: skip
SLOPES: dict[str, Any] = {"lower": 0.1, "upper": 0.7}


class Base(Protocol):
    """A call of a function with settings."""

    def __call__(self, x: Any, **given: Any) -> Any: ...


def _transposed(f: Callable[..., Any], x: Any, image: tuple[int, ...], window: tuple[int, ...], **given: Any) -> Any:
    return f(x((2, 4, *image)), x((4, 6 // given.get("groups", 1), *window)), **given)


def _bags(table: Any, given: dict[str, Any]) -> Any:
    if "per_sample_weights" in given:
        given = {**given, "mode": "sum"}
    return F.embedding_bag(nc.tensor([[0, 2, 1], [3, 3, 1]]), table, **given)


def _resized(image: Any, given: dict[str, Any]) -> Any:
    if "scale_factor" in given:
        given = {k: v for k, v in given.items() if k != "size"}
    return F.interpolate(image, **given)


BASES: dict[str, Base] = {  # where no generated call takes all settings
    "alpha_dropout": lambda x, **given: F.alpha_dropout(x((5, 5)), **{"training": True, **given}),
    "feature_alpha_dropout": lambda x, **given: F.feature_alpha_dropout(x((5, 5, 3)), **{"training": True, **given}),
    "bilinear": lambda x, **given: F.bilinear(x((3, 4)), x((3, 5)), x((6, 4, 5)), **given),
    "binary_cross_entropy": lambda x, **given: F.binary_cross_entropy(x((3, 6)) / 8, x((3, 6)) / 8, **given),
    "conv1d": lambda x, **given: F.conv1d(x((2, 4, 9)), x((6, 4 // given.get("groups", 1), 3)), **given),
    "conv2d": lambda x, **given: F.conv2d(x((2, 4, 6, 7)), x((6, 4 // given.get("groups", 1), 3, 3)), **given),
    "conv3d": lambda x, **given: F.conv3d(x((1, 4, 4, 6, 5)), x((6, 4 // given.get("groups", 1), 2, 3, 2)), **given),
    "conv_transpose1d": lambda x, **given: _transposed(F.conv_transpose1d, x, (5,), (3,), **given),
    "conv_transpose2d": lambda x, **given: _transposed(F.conv_transpose2d, x, (5, 4), (3, 2), **given),
    "conv_transpose3d": lambda x, **given: _transposed(F.conv_transpose3d, x, (5, 4, 3), (3, 2, 3), **given),
    "cross_entropy": lambda x, **given: F.cross_entropy(x((5, 6)), nc.tensor(CLASSES), **given),
    "nll_loss": lambda x, **given: F.nll_loss(x((5, 6)), nc.tensor(CLASSES), **given),
    "multi_margin_loss": lambda x, **given: F.multi_margin_loss(x((5, 6)), nc.tensor(CLASSES), **given),
    "ctc_loss": lambda x, **given: F.ctc_loss(
        -x((5, 2, 4)), nc.tensor([[1, 2], [3, 1]]), nc.tensor([5, 4]), nc.tensor([2, 1]), **given
    ),
    "embedding_bag": lambda x, **given: _bags(x((4, 5)), {"mode": "mean", **given}),
    "affine_grid": lambda x, **given: F.affine_grid(x((2, 2, 3)), (2, 1, 4, 5), **given),
    "fold": lambda x, **given: F.fold(x((1, 8, 16)), 5, 2, **given),
    "grid_sample": lambda x, **given: F.grid_sample(x((2, 3, 5, 4)), x((2, 3, 3, 2)), **given),
    "interpolate": lambda x, **given: _resized(x((1, 2, 5, 5)), {"mode": "bilinear", "size": (7, 8), **given}),
    "layer_norm": lambda x, **given: F.layer_norm(x((3, 6)), (6,), **given),
    "linear": lambda x, **given: F.linear(x((3, 70)), x((6, 70)), **given),
    "rms_norm": lambda x, **given: F.rms_norm(x((3, 6)), (6,), **{"eps": 0.3, **given}),
    "rrelu": lambda x, **given: F.rrelu(x((5, 5)), **(SLOPES | given)),
    "scaled_dot_product_attention": lambda x, **given: F.scaled_dot_product_attention(
        x((2, 5, 6)), x((2, 6, 6)), x((2, 6, 6)), **given
    ),
}
ELSEWHERE_TESTED = {"key", "lengths", "offsets", "running_mean", "running_var", "momentum", "distance_function"}


def varied(f: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Each number, word and tensor that may be set, with a value; a tensor is a shape."""
    for p in inspect.signature(f).parameters.values():
        kind = str(p.annotation)
        if p.default is p.empty or p.name in ELSEWHERE_TESTED:
            continue
        if "TensorLike" in kind:
            yield from ((p.name, shape) for shape in ((6,), (2, 3), (5, 6), (5, 5), (5,), (4,)))
        elif "float" in kind.replace("|", " ").split():
            yield from ((p.name, n) for n in (0.3, 2.3))
        else:
            yield from ((p.name, n) for n in OPTIONS.get(p.name, ()))


def bases(name: str, f: Callable[..., Any], half: DType) -> list[tuple[Callable[..., Any], bool]]:
    """Calls of a function that take settings and give a half type, each with whether its operands have signs."""
    own = BASES.get(name)
    found: list[tuple[Callable[..., Any], bool]] = []
    for signed in (True, False):
        for shape in SHAPES if own is None else ((),):
            options = islice(calls(f, shape), 30) if own is None else (own,)
            found += [(c, signed) for c in options if same(c, half, signed)][:1]
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if k % 8 == 3 or n in ("leaky_relu", "linear", "conv2d") else pytest.mark.slow)
        for k, n in enumerate(x.removeprefix(NETWORKS) for x in FUNCTIONS if x.startswith(NETWORKS))
        if f"nn.functional.{n}" not in NOT_HALF
    ],
)
@pytest.mark.parametrize("half", [nc.float16, nc.bfloat16], ids=str)
def test_settings_are_not_rounded_to_half_types(name: str, half: DType) -> None:
    f = FUNCTIONS[NETWORKS + name]
    found = bases(name, f, half)
    assert found, f"no call of {name} gave {half.name}: write one in BASES"
    reached: dict[str, bool] = {}
    for setting, value in varied(f):
        for base, signed in found:

            def call(x: Maker, base: Any = base, given: Any = (setting, value)) -> Any:
                return base(x, **{given[0]: x(given[1]) if isinstance(given[1], tuple) else given[1]})

            reached[setting] = same(call, half, signed) or reached.get(setting, False)
    missing = [s for s, was in reached.items() if not was and s not in OPTIONS]
    assert not missing, f"no call of {name} with {missing} gave {half.name}: write one in BASES"


BIASED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "linear": (F.linear, [(5, 70), (6, 70), (6,)]),
    "conv1d": (F.conv1d, [(2, 4, 9), (6, 4, 3), (6,)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(2, 16, 6, 7), (16, 16, 3, 3), (16,)]),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, output_padding=1),
        [(2, 4, 5, 4), (4, 6, 3, 2), (6,)],
    ),
}


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("half", [nc.float16, nc.bfloat16], ids=str)
def test_a_bias_is_added_before_rounding_in_every_mode(name: str, half: DType) -> None:
    f, shapes = BIASED[name]
    nc.random.seed(2)
    operands = [nc.random.normal(s).astype(half) for s in shapes]
    wide = f(*(x.astype(nc.float32) for x in operands)).astype(half)
    g = nc.random.normal(wide.shape).astype(half)

    def total(*xs: Any) -> Any:
        return (F.silu(f(*xs)).astype(nc.float32) * g).sum()

    assert same_bits(nc.jit(f)(*operands), wide) and same_bits(f(*operands), wide)
    given = [x.requires_grad_() for x in operands]
    total(*given).backward()
    by_graph = nc.jit(nc.grad(total, argnums=(0, 1, 2)))(*operands)
    exact = nc.grad(total, argnums=(0, 1, 2))(*(x.detach().astype(nc.float64) for x in operands))
    for x, compiled, reference in zip(given, by_graph, exact, strict=True):
        assert x.grad is not None and same_bits(x.grad, compiled) and x.grad.dtype is half
        error = nc.max(nc.abs(compiled.astype(nc.float64) - reference)).item()
        assert error <= 4 * float(nc.finfo(half).eps) * nc.max(nc.abs(reference)).item()


def same_bits(x: Any, y: Any) -> bool:
    return x.dtype is y.dtype and x.numpy().tobytes() == y.numpy().tobytes()
