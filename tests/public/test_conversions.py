"""Numbers without a dtype keep their value when they are passed to any public function, or are refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.dtypes import DType
from surface import FUNCTIONS

UNHELD = 10**400  # no dtype can represent it
NAMED: dict[str, list[Any]] = {"axis": [0], "mode": ["sum"], "high": [5]}

# calls with special arguments, because the function checks the parameter after others
CALLS: dict[str, Callable[[Any], Any]] = {
    "where(condition)": lambda v: nc.where(v, 1.0, 2.0),
    "where(x)": lambda v: nc.where([True], v, 2.0),
    "where(y)": lambda v: nc.where([True], 1.0, v),
    "linalg.matrix_rank(rtol)": lambda v: nc.linalg.matrix_rank(nc.ones((1, 2, 2)), rtol=v),
    "linalg.pinv(rtol)": lambda v: nc.linalg.pinv(nc.ones((1, 2, 2)), rtol=v),
    "masked_fill(mask)": lambda v: nc.masked_fill([1.0], v, 2.0),
    "index_fill(index)": lambda v: nc.index_fill(nc.ones(1), 0, v, 2.0),
    "scatter_reduce(x)": lambda v: nc.scatter_reduce(v, 0, [0], nc.ones(1), "sum"),
    "scatter_reduce(index)": lambda v: nc.scatter_reduce(nc.ones(1), 0, v, nc.ones(1), "sum"),
    "scatter_reduce(src)": lambda v: nc.scatter_reduce(nc.ones(1), 0, [0], v, "sum"),
    "split(x)": lambda v: nc.split(v, sections=1),
    "nn.functional.scaled_dot_product_attention(attn_mask)": lambda v: nc.nn.functional.scaled_dot_product_attention(
        *[nc.ones((1, 1))] * 3, attn_mask=v
    ),
    "nn.functional.bilinear(bias)": lambda v: nc.nn.functional.bilinear(
        nc.ones((1, 1)), nc.ones((1, 1)), nc.ones((1, 1, 1)), v
    ),
    "nn.functional.ctc_loss(targets)": lambda v: nc.nn.functional.ctc_loss(
        nc.zeros((1, 1, 2)), v, nc.tensor([1]), nc.tensor([1])
    ),
    "nn.functional.ctc_loss(target_lengths)": lambda v: nc.nn.functional.ctc_loss(
        nc.zeros((1, 1, 2)), nc.tensor([[1]]), nc.tensor([1]), v
    ),
    "nn.functional.conv1d(bias)": lambda v: nc.nn.functional.conv1d(nc.ones((1, 1, 1)), nc.ones((1, 1, 1)), v),
    "nn.functional.conv_transpose1d(bias)": lambda v: nc.nn.functional.conv_transpose1d(
        nc.ones((1, 1, 1)), nc.ones((1, 1, 1)), v
    ),
    "nn.functional.conv3d(bias)": lambda v: nc.nn.functional.conv3d(
        nc.ones((1, 1, 1, 1, 1)), nc.ones((1, 1, 1, 1, 1)), v
    ),
    "nn.functional.conv_transpose3d(bias)": lambda v: nc.nn.functional.conv_transpose3d(
        nc.ones((1, 1, 1, 1, 1)), nc.ones((1, 1, 1, 1, 1)), v
    ),
    "nn.functional.embedding_bag(per_sample_weights)": lambda v: nc.nn.functional.embedding_bag(
        nc.tensor([[0]]), nc.ones((1, 1)), per_sample_weights=v, mode="sum"
    ),
}


def slots() -> list[tuple[str, str]]:
    """Every parameter of a public function whose argument becomes a tensor."""
    return [
        (name.removeprefix("nacre."), p.name)
        for name, f in FUNCTIONS.items()
        if not inspect.isbuiltin(f)
        for p in inspect.signature(f).parameters.values()
        if "TensorLike" in str(p.annotation)
    ]


def candidates(p: inspect.Parameter) -> list[Any]:
    """Possible arguments of a parameter."""
    kind = str(p.annotation)
    if p.name in NAMED:
        return NAMED[p.name]
    if kind.startswith(("Sequence[TensorLike", "list[TensorLike")):
        return [[nc.ones(1)], [nc.tensor(0)]]
    if kind == "_Filled":
        return [nc.nn.Parameter(nc.ones(1))]
    if "TensorLike" in kind or kind == "Any":
        return [nc.ones(1), nc.tensor([0]), nc.ones((1, 1)), nc.tensor([True]), nc.ones((1, 1, 4, 4))]
    if "int" in kind or "Size" in kind:
        return [1]
    return [1.0] if "float" in kind or "Scalar" in kind else ["ij->ij" if "str" in kind else None]


def calls(f: Callable[..., Any], slot: str, value: Any) -> Any:
    """Calls of a function with the value as one parameter and all possible arguments for the others."""
    parameters = inspect.signature(f).parameters
    rest = [p for p in parameters.values() if p.name != slot and p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    for chosen in islice(product(*map(candidates, rest)), 100):
        given = {**{p.name: a for p, a in zip(rest, chosen, strict=True)}, slot: value}
        first = [given.pop(p.name) for p in parameters.values() if p.name in given and p.kind is p.POSITIONAL_ONLY]
        more = [
            a
            for p in parameters.values()
            if p.name in given and p.kind is p.VAR_POSITIONAL
            for a in [given.pop(p.name)]
        ]
        yield lambda first=first, more=more, given=given: f(*first, *more, **given)


@pytest.mark.parametrize("name, slot", slots(), ids=lambda s: s)
def test_a_number_that_no_dtype_represents_is_refused_by_every_parameter(name: str, slot: str) -> None:
    f = FUNCTIONS[f"nacre.{name}"]
    listed = str(inspect.signature(f).parameters[slot].annotation).startswith(("Sequence[TensorLike", "list[Tens"))
    value = [[UNHELD]] if listed else [UNHELD]
    own = CALLS.get(f"{name}({slot})")
    said: set[str] = set()
    for call in [lambda: own(value)] if own else calls(f, slot, value):
        try:
            call()
        except nc.Error as e:
            said.add(str(e))
            if "must fit" in str(e):
                return
        else:
            pytest.fail(f"{name} took {slot}=[10**400]")
    pytest.fail(f"no call reached {slot} of {name}: write one in CALLS; {said}")


INT8 = nc.int8
# Calls whose numbers do not fit int8, of every function that creates elements from Python numbers and a dtype.
MAKERS: dict[str, list[Callable[[], Any]]] = {
    "tensor": [lambda v=v: nc.tensor(v, dtype=INT8) for v in (300, [300], [[1], [-129]], [1.5], [nc.nan], [nc.inf])],
    "asarray": [lambda v=v: nc.asarray(v, dtype=INT8) for v in (300, [300], [2**63], [2**64], [0.5, 2**70])],
    "full": [lambda v=v: nc.full(2, v, dtype=INT8) for v in (300, 1.5, nc.nan, nc.inf, 10**400)],
    "full_like": [lambda v=v: nc.full_like(nc.tensor([1.0]), v, dtype=INT8) for v in (300, nc.nan)],
    "arange": [
        lambda: nc.arange(300, dtype=INT8),
        lambda: nc.arange(-129, 0, dtype=INT8),
        lambda: nc.arange(0.0, 2.0, 0.5, dtype=INT8),
        lambda: nc.arange(2**63 - 2, 2**63 + 2),
    ],
    "linspace": [
        lambda: nc.linspace(0, 300, num=3, dtype=INT8),
        lambda: nc.linspace(0, 1, num=3, dtype=INT8),
        lambda: nc.linspace(0, nc.inf, num=3, dtype=INT8),
    ],
    "random.randint": [
        lambda: nc.random.randint(0, 300, (2,), dtype=INT8),
        lambda: nc.random.randint(-1, 3, (2,), dtype=nc.uint8),
    ],
}
OTHERS = {
    **dict.fromkeys(
        ("zeros", "ones", "zeros_like", "ones_like", "empty", "empty_like", "eye"),
        "zeros and ones, which every dtype holds",
    ),
    "placeholder": "it has no numbers",
    "autocast": "it converts operands of operations, no numbers",
    **dict.fromkeys(
        (
            "astype",
            "sum",
            "prod",
            "cumulative_sum",
            "cumulative_prod",
            "nansum",
            "nanprod",
            "nancumsum",
            "nancumprod",
        ),
        "conversions of what has a dtype; integers wrap",
    ),
    **dict.fromkeys(
        (
            "matmul",
            "einsum",
            "tensordot",
            "vecdot",
            "linalg.matmul",
            "linalg.tensordot",
            "linalg.vecdot",
            "linalg.trace",
        ),
        "conversions of what has a dtype; integers wrap",
    ),
    **dict.fromkeys(("finfo", "iinfo", "isdtype"), "facts of dtypes"),
    **dict.fromkeys(
        ("random.poisson", "random.binomial", "random.multinomial", "random.geometric"), "int64 counts, converted"
    ),
    "bitcast": "the bits, not the numbers",
    **dict.fromkeys(
        (
            "random.bits",
            "random.uniform",
            "random.normal",
            "random.truncated_normal",
            "random.exponential",
            "random.laplace",
            "random.gumbel",
            "random.logistic",
            "random.cauchy",
            "fft.fftfreq",
            "fft.rfftfreq",
        ),
        "a dtype of one kind; numbers are rounded",
    ),
}


def test_every_function_with_a_dtype_has_a_case() -> None:
    found = {
        n.removeprefix("nacre.")
        for n, f in FUNCTIONS.items()
        if not inspect.isbuiltin(f) and "dtype" in inspect.signature(f).parameters
    }
    assert found == MAKERS.keys() | OTHERS.keys()


@pytest.mark.parametrize("name", MAKERS)
def test_numbers_that_do_not_fit_the_dtype_are_refused(name: str) -> None:
    for call in MAKERS[name]:
        with pytest.raises(nc.Error, match=r"must fit|finite"):
            call()


def test_numbers_as_operands_keep_their_value() -> None:
    x = nc.tensor([1, 2], dtype=INT8)
    for call in (
        lambda: x + 300,
        lambda: x == 300,
        lambda: nc.clip(x, 0, 300),
        lambda: nc.pad(x, 1, 300),
        lambda: nc.index_update(x, 0, 300),
        lambda: nc.index_update(x, 0, [300]),
        lambda: nc.where(x > 0, x, 300),
        lambda: x.astype(nc.uint8) + -1,
        lambda: nc.tensor([1]) + [2**63],
        lambda: nc.tensor([1]) == [2**63, -1],
        lambda: nc.tensor([np.uint8(1), 300]),
    ):
        with pytest.raises(nc.DTypeError, match="must fit"):
            call()
    assert (x == [300, 2]).tolist() == [False, True]  # a list of integers is int64
    assert nc.tensor([np.float32(1), 2]).dtype is nc.float32
    assert nc.tensor([nc.tensor(1.0, dtype=nc.float64), 0.1]).tolist() == [1.0, 0.1]
    with pytest.raises(nc.DTypeError, match="one kind"):
        nc.tensor([np.int64(2**53 + 1), np.float64(0.5)])


def test_numbers_that_fit_are_converted_exactly() -> None:
    top = 2**64 - 1
    assert nc.tensor([top, 0], dtype=nc.uint64).tolist() == [top, 0]
    assert nc.tensor([2**53 + 1, 1.0], dtype=nc.int64).tolist() == [2**53 + 1, 1]
    assert nc.arange(top, top - 3, -1, dtype=nc.uint64).tolist() == [top, top - 1, top - 2]
    assert nc.arange(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2]
    assert nc.arange(0, 2.5, dtype=nc.int32).tolist() == [0, 1, 2]
    assert nc.linspace(0, 10, num=3, dtype=INT8).tolist() == [0, 5, 10]
    drawn = nc.random.randint(2**63, 2**63 + 4, (50,), dtype=nc.uint64, key=nc.random.key(1)).numpy()
    assert drawn.min() == 2**63 and drawn.max() == 2**63 + 3


def test_arrays_with_a_dtype_are_converted_as_by_astype() -> None:
    for array, dtype, want in (
        (np.array([300, -1]), nc.int8, [44, -1]),
        (np.array([np.nan, 1e10, -1e10, 2.9]), nc.int32, [0, 2**31 - 1, -(2**31), 2]),
        (np.array([-1.0, np.inf]), nc.uint8, [0, 255]),
    ):
        tensor = nc.asarray(array)
        assert nc.asarray(array, dtype=dtype).tolist() == tensor.astype(dtype).tolist() == want
        assert nc.tensor(tensor, dtype=dtype).tolist() == want
        assert nc.tensor([array], dtype=dtype).tolist() == [want]
        assert nc.tensor(list(array), dtype=dtype).tolist() == want


@pytest.mark.parametrize("dtype", [nc.bfloat16, nc.float16, nc.float32])
def test_numbers_are_rounded_once_by_every_function(dtype: nc.DType) -> None:
    """Just above the middle of two numbers: rounding to float32 first would return the one below."""
    eps = nc.finfo(dtype).eps
    above = 1 + eps / 2 + 2.0**-45
    ways = [
        nc.tensor(above, dtype=dtype),
        nc.tensor([above], dtype=dtype),
        nc.full(1, above, dtype=dtype),
        nc.asarray(np.array([above]), dtype=dtype),
        nc.zeros(1, dtype=dtype) + above,
        nc.jit(lambda x: x + above)(nc.zeros(1, dtype=dtype)),
        nc.linspace(above, 2.0, num=1, dtype=dtype),
        nc.arange(above, above + 0.5, dtype=nc.float64).astype(dtype),
    ]
    assert [w.astype(nc.float64).reshape(()).item() for w in ways] == [1 + eps] * len(ways)
    whole = 2**70 + round(eps * 2**69) + 1  # the same above 2^70, in a Python integer
    assert nc.tensor([whole, 0.5], dtype=dtype).astype(nc.float64)[0].item() in (2.0**70 * (1 + eps), nc.inf)


def test_numbers_past_the_largest_are_infinite() -> None:
    assert nc.full(1, 7e4, dtype=nc.float16).item() == nc.jit(lambda x: x * 7e4)(nc.ones(1, dtype=nc.float16)).item()
    assert nc.tensor([1e39, -1e39]).tolist() == [nc.inf, -nc.inf]


def test_state_that_would_change_is_refused() -> None:
    class Counter(nc.nn.Module):
        def __init__(self) -> None:
            self.seen = nc.nn.Buffer(nc.tensor([0], dtype=INT8))

    for value in ([300], np.array([300]), nc.tensor([1.5]), np.array([np.nan])):
        with pytest.raises(nc.DTypeError, match=r"load_state_dict.*seen.*must fit"):
            Counter().load_state_dict({"seen": value})
    counter = Counter()
    counter.load_state_dict({"seen": np.array([7.0])})
    assert counter.seen.tolist() == [7]


def test_data_preserves_integers() -> None:
    with pytest.raises(nc.DTypeError, match="must fit"):
        nc.data.default_collate([2**63])
    with pytest.raises(nc.DTypeError, match="must fit"):
        nc.data.TensorDataset(nc.arange(3)).batch([0.5])
    with pytest.raises(nc.DTypeError, match="must fit"):
        nc.data.TokenMasking(1, 5)([1.5])


X = nc.tensor([-1.0, 2.0])
FLOATS = {  # functions of a tensor and a number
    "leaky_relu": lambda v: nc.nn.functional.leaky_relu(X, v), "elu": lambda v: nc.nn.functional.elu(X, v),
    "huber_loss": lambda v: nc.nn.functional.huber_loss(X, X * 3, delta=v), "pad": lambda v: nc.pad(X, 1, value=v),
    "full": lambda v: nc.full((2,), v, dtype=nc.float32), "full_like": lambda v: nc.full_like(X, v),
    "layer_norm": lambda v: nc.nn.functional.layer_norm(X, (2,), eps=v), "add": lambda v: X + v,
    "arange": lambda v: nc.arange(v, 3, dtype=nc.float32), "clip": lambda v: nc.clip(X, v),
    "threshold": lambda v: nc.nn.functional.threshold(X, v, v),
    "label_smoothing": lambda v: nc.nn.functional.cross_entropy(X[None], nc.tensor([1]), label_smoothing=v),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.array], ids=lambda k: k.__name__)
def test_numbers_of_numpy_are_numbers(name: str, kind: Callable[[float], Any]) -> None:
    given, wanted = FLOATS[name](kind(0.375)), FLOATS[name](0.375)  # NumPy's first, so that nothing is cached
    assert given.tolist() == wanted.tolist()


def test_a_fill_value_of_rank_0_keeps_its_dtype_and_gradient() -> None:
    assert nc.full((2,), nc.tensor(3.7)).tolist() == [nc.tensor(3.7).item()] * 2
    assert nc.full((2,), np.float16(2.5)).dtype is nc.float16
    assert nc.grad(lambda v: nc.sum(nc.full_like(X, v)))(nc.tensor(3.7)).item() == 2.0
    with pytest.raises(nc.ArgumentError, match="one number"):
        nc.full((2,), nc.ones(3))


TENTHS = [0.1, 0.2, 0.7]
F = nc.nn.functional
LISTS: dict[str, Callable[[Any, Any], Any]] = {  # of a tensor and a list of Python numbers
    "operator": lambda x, v: x + v, "reflected": lambda x, v: v - x, "where": lambda x, v: nc.where(x > 1, x, v),
    "maximum": lambda x, v: nc.maximum(x, v), "clip": lambda x, v: nc.clip(x, v, 2.0), "dot": lambda x, v: x @ v,
    "vecdot": nc.vecdot, "einsum": lambda x, v: nc.einsum("i,i->i", x, v), "np.add": np.add, "np.dot": np.dot,
    "concat": lambda x, v: nc.concat([x, v]), "stack": lambda x, v: nc.stack([x, v]),
    "asarray": lambda x, v: nc.asarray([x, v]), "equal": nc.equal, "isclose": lambda x, v: nc.isclose(x, v, 0.0, 0.0),
    "array_equal": nc.array_equal, "isin": nc.isin, "loss": lambda x, v: F.l1_loss(x, v, reduction="none"),
    "linear": lambda x, v: F.linear(x, [v] if isinstance(v, list) else v[None]),
    "diff": lambda x, v: nc.diff(x, append=v),
    "average": lambda x, v: np.average(x, weights=v), "jit": lambda x, v: nc.jit(lambda y: y * v)(x),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("dtype", [nc.float16, nc.float32, nc.float64, nc.complex128], ids=str)
@pytest.mark.parametrize("given", [TENTHS, [1, 2, 3], [True, False, True]], ids=["floats", "integers", "bools"])
def test_lists_of_numbers_take_the_dtype_of_inexact_tensors(name: str, dtype: DType, given: list[Any]) -> None:
    if dtype.is_complex and name in ("where", "maximum", "clip", "loss", "linear"):
        pytest.skip("functions of real numbers")
    x = nc.tensor([0.1, 1.2, 0.7], dtype=dtype)
    found, wanted = (LISTS[name](x, v) for v in (given, nc.tensor(given, dtype=dtype)))
    assert nc.asarray(found).dtype is nc.asarray(wanted).dtype
    assert nc.asarray(found).tolist() == nc.asarray(wanted).tolist()
