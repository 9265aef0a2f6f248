"""Implausible sizes, counts and shares are refused when they are passed, before they take memory or time."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import repeat
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.boundary import public
from nacre.nn import functional as F

X = nc.ones(6)
IMAGE = nc.ones((1, 1, 4, 4))
NAN = float("nan")


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A memory limit, for the time of a test."""
    nc.set_memory_limit(1 << 28)
    yield
    nc.set_memory_limit(None)


def grad_of(value: Any) -> None:
    """A parameter with an assigned gradient."""
    nn.Parameter(X).grad = value


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: X.reshape(2.9, 3), TypeError, "reshape: sizes must be integers; got 2.9"),  # type: ignore[arg-type]
        (lambda: X.reshape("2", "3"), TypeError, "got '2'"), (lambda: nc.zeros((2.7, 3)), TypeError, "got 2.7"),  # type: ignore[arg-type]
        (lambda: nc.zeros("3"), TypeError, "got '3'"), (lambda: nc.zeros(True), TypeError, "got True"),  # type: ignore[arg-type]
        (lambda: nc.eye(2.7), TypeError, "got 2.7"),  # type: ignore[arg-type]
        (lambda: nc.broadcast_to(nc.ones(1), (2.7, 3)), TypeError, "got 2.7"),  # type: ignore[arg-type]
        (lambda: nc.random.bernoulli(1.5), ValueError, "p must be in [0, 1]; got 1.5"),
        (lambda: nc.random.bernoulli([0.5, NAN]), ValueError, "got nan"),
        (lambda: nc.std(X, correction=NAN), ValueError, "correction must be finite; got nan"),
        (lambda: F.one_hot(nc.tensor([0.5, 1.0])), TypeError, "one_hot: integers are required; got f32[2]"),
        (lambda: int(nc.tensor(NAN)), ValueError, "int: the number must be finite; got nan"),
        (lambda: grad_of(3), TypeError, "grad: the gradient must be a tensor or None; got 3"),
        (lambda: nn.Parameter(X).requires_grad_("no"), TypeError, "must be True or False; got 'no'"),
        (lambda: setattr(nn.Parameter(X), "requires_grad", 2), TypeError, "must be True or False; got 2"),
        (lambda: setattr(X, "requires_grad", "no"), TypeError, "must be True or False; got 'no'"),
        (lambda: nn.Linear(2, 2).requires_grad_("no"), TypeError, "must be True or False; got 'no'"),
        (lambda: nc.repeat(X, nc.ones(2)), TypeError, "repeat: repeats must be integers"),
        (lambda: nc.roll(X, 1.5), TypeError, "roll: shift must be integers; got 1.5"),
        (lambda: nc.pad(X, ((1.5, 2),)), TypeError, "pad: width must be integers; got 1.5"),
        (lambda: nc.pad(nc.ones((2, 2)), (1, 2)), ValueError, "pad: width must have a (before, after) pair"),
        (lambda: F.pad(X, (1.5, 2)), TypeError, "pad: pad must be integers; got 1.5"),
        (lambda: F.conv2d(IMAGE, IMAGE, padding=(1.5, 1)), TypeError, "padding must be integers; got 1.5"),
        (lambda: F.affine_grid(nc.ones((1, 2, 3)), (1, 1, 2.5, 2)), TypeError, "size must be integers; got 2.5"),
        (lambda: nc.tensordot(IMAGE, IMAGE, axes=((0, 0), (1, 1))), ValueError, "tensordot: axes must be distinct"),
        (lambda: nc.tensordot(IMAGE, IMAGE, axes=((0, 1),)), ValueError, "axes must be a number, or two lists"),
        (lambda: nn.Transformer.generate_square_subsequent_mask(2, nc.int32), TypeError, "the dtype must be"),
        (lambda: F.lp_pool2d(IMAGE, 0, 2), ValueError, "lp_pool2d: norm_type must not be 0"),
        (lambda: nc.random.split(nc.random.key(0), 10**6), ValueError, "count must be between 0 and 65536"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5], div_value=0), ValueError, "div_value must be above 0"),
        (lambda: F.unfold(IMAGE, 2, padding=-1), ValueError, "unfold: padding must be 0 or more"),
        (lambda: F.fold(nc.ones((1, 4, 4)), 3, 2, padding=-1), ValueError, "fold: padding must be 0 or more"),
        (lambda: nc.broadcast_to(nc.ones(()), (2**63,)), MemoryError, "must fit the machine's address space"),
        (lambda: nc.broadcast_to(nc.ones(()), (2**50,)).tolist(), MemoryError, "tolist: too little memory for 1,125,"),
        (lambda: pickle.dumps(nc.broadcast_to(nc.ones(()), (2**50,))), MemoryError, "pickle: too little memory for"),
    ],
)  # fmt: skip
def test_implausible_arguments_are_refused(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(nc.Error, match=re.escape(message)) as raised:
        call()
    assert isinstance(raised.value, kind)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("size", [10**7, 2**63 - 1])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_interpolate_checks_memory_first(size: int, mode: str) -> None:
    with pytest.raises(nc.OutOfMemory):
        F.interpolate(IMAGE, size=(size, size), mode=mode)


def test_iteration_over_huge_tensors_takes_one_element_at_a_time() -> None:
    first = next(iter(nc.broadcast_to(nc.ones(2), (2**40, 2))))
    assert first.tolist() == [1.0, 1.0]
    assert [x.tolist() for x in nc.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


class Endless:
    """An endless sequence of numbers with a meaningless length."""

    def __iter__(self) -> Iterator[int]:
        return repeat(1)

    def __len__(self) -> int:
        return 2**62


@pytest.mark.parametrize("call", [
    lambda v: F.avg_pool1d(nc.ones((1, 1, 5)), v), lambda v: F.max_pool2d(IMAGE, v), lambda v: F.unfold(IMAGE, v),
    lambda v: F.interpolate(IMAGE, v), lambda v: nc.ones(v), lambda v: nc.reshape(X, v), lambda v: nc.sum(X, axis=v),
    lambda v: nc.broadcast_to(X, v), lambda v: F.adaptive_avg_pool2d(IMAGE, v),
    lambda v: F.conv2d(IMAGE, IMAGE, stride=v), lambda v: nc.tile(X, v), lambda v: nc.roll(X, v),
    lambda v: nc.permute_dims(X, v), lambda v: nc.moveaxis(X, v, 0), lambda v: nc.expand_dims(X, v),
    lambda v: nc.pad(X, v), lambda v: F.pad(X, v), nn.LayerNorm, lambda v: nc.tensordot(X, X, axes=(v, v)),
    lambda v: nn.ZeroPad2d(v), lambda v: nc.flip(X, v), lambda v: nc.squeeze(X, v),
])  # fmt: skip
@pytest.mark.parametrize("value", [Endless(), repeat(1)], ids=["endless", "an iterator"])
def test_endless_sizes_are_refused(call: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(nc.Error):
        call(value)


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0, 1e6, -2, 2), (0, 1, 4, float("inf")), (5, 1, -2, 2)])
def test_normal_numbers_in_an_unlikely_interval(mean: float, std: float, a: float, b: float) -> None:
    nc.random.seed(3)
    drawn = np.sort(nn.init.trunc_normal_(nn.Parameter(nc.zeros((4000,))), mean, std, a, b).numpy())
    assert drawn[0] >= a and drawn[-1] <= b
    unit = NormalDist(mean, std)
    low, high = unit.cdf(a), unit.cdf(b)
    shares = np.array([(unit.cdf(float(x)) - low) / (high - low) for x in drawn])
    assert np.abs(shares - np.linspace(0, 1, len(drawn))).max() < 0.05  # Kolmogorov's distance


LINE = nc.ones(3)
EACH = {  # by name, calls in which a huge number makes the result huge
    "arange": nc.arange, "linspace": lambda n: nc.linspace(0, 1, n), "eye": nc.eye, "zeros": nc.zeros, "ones": nc.ones,
    "full": lambda n: nc.full((n,), 2.0) + 1.0, "full of a tensor": lambda n: nc.full((n,), nc.tensor(2.0)) + 1.0,
    "linspace of halves": lambda n: nc.linspace(0, 1, n, dtype=nc.bfloat16), "eye of columns": lambda n: nc.eye(1, n),
    "broadcast_to": lambda n: nc.broadcast_to(nc.ones(()), (n,)) + 1.0,
    "zeros_like": lambda n: nc.zeros_like(nc.broadcast_to(nc.ones(()), (n,))) + 1.0,
    "triu": lambda n: nc.triu(nc.broadcast_to(nc.ones(()), (n, 2))),
    "meshgrid": lambda n: nc.meshgrid(nc.broadcast_to(nc.ones(()), (n,)), LINE)[0] + 1.0,
    "outer": lambda n: nc.outer(nc.broadcast_to(nc.ones(()), (n,)), LINE),
    "tile": lambda n: nc.tile(LINE, (n,)), "repeat": lambda n: nc.repeat(LINE, n), "pad": lambda n: nc.pad(LINE, n),
    "stack": lambda n: nc.stack([nc.broadcast_to(nc.ones(()), (n,))] * 2),
    "one_hot": lambda n: F.one_hot(nc.tensor([0]), n), "normal": nc.random.normal, "uniform": nc.random.uniform,
    "randint": lambda n: nc.random.randint(0, 3, (n,)), "bernoulli": lambda n: nc.random.bernoulli(0.5, (n,)),
    "bits": lambda n: nc.random.bits((n,)), "split": lambda n: nc.random.split(nc.random.key(0), n),
    "scan": lambda n: nc.scan(lambda c, _: (c, c), nc.tensor(0.0), length=n),
    "index_update": lambda n: nc.index_update(nc.broadcast_to(nc.ones(()), (n,)), nc.tensor([0]), nc.ones(1)),
    "mask": nn.Transformer.generate_square_subsequent_mask, "affine_grid": lambda n: F.affine_grid(
        nc.ones((1, 2, 3)), (1, 1, n, n)),
    "adaptive_avg_pool1d": lambda n: F.adaptive_avg_pool1d(nc.ones((1, 1, 7)), n),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(IMAGE, n), "replicate": lambda n: F.pad(
        LINE[None, None], (n, n), mode="replicate"), "margins": lambda n: F.pad(LINE, (n, n)),
    "Linear": lambda n: nn.Linear(n, 2), "Embedding": lambda n: nn.Embedding(n, 2), "LayerNorm": nn.LayerNorm,
    "Conv2d": lambda n: nn.Conv2d(n, 2, 3), "LSTM": lambda n: nn.LSTM(n, 2), "avg_pool1d": lambda n: F.avg_pool1d(
        nc.ones((1, 1, 7)), n), "dynamic_slice": lambda n: nc.dynamic_slice(LINE, (0,), (n,)),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", EACH)
def test_creation_checks_memory_first(name: str) -> None:
    tracemalloc.start()
    try:
        for count in (10**9, 10**12, 2**62, 2**63, 2**100, 10**400):
            with pytest.raises(nc.Error):
                EACH[name](count)
        assert tracemalloc.get_traced_memory()[1] < 1 << 27  # NumPy's arrays count
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("little_memory")
def test_linspace_respects_the_memory_limit() -> None:
    assert nc.linspace(0, 1, 10**6).shape == (10**6,)
    with pytest.raises(nc.OutOfMemory, match=r"are needed; .* in use of a limit of 256.0 MiB"):
        nc.linspace(0, 1, 3 * 10**7)


def test_numpy_out_of_memory_is_an_error_of_the_package() -> None:
    with pytest.raises(nc.OutOfMemory, match=r"ones: too little memory for the arguments; got 36028797018963968"):
        public(np.ones)(2**55)  # type: ignore[arg-type]
