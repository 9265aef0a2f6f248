"""Sizes, counts and shares that cannot be meant are refused where they are given, before memory or time is taken."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from itertools import repeat
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
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
    """A parameter with a gradient that was set by hand."""
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
def test_what_cannot_be_meant(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(nc.Error, match=re.escape(message)) as raised:
        call()
    assert isinstance(raised.value, kind)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("size", [10**7, 2**63 - 1])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_interpolate_asks_for_memory_first(size: int, mode: str) -> None:
    with pytest.raises(nc.OutOfMemory):
        F.interpolate(IMAGE, size=(size, size), mode=mode)


def test_huge_tensors_are_iterated_over_one_after_the_other() -> None:
    first = next(iter(nc.broadcast_to(nc.ones(2), (2**40, 2))))
    assert first.tolist() == [1.0, 1.0]
    assert [x.tolist() for x in nc.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


class Endless:
    """Numbers without an end, of a length that says nothing."""

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
