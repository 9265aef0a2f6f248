"""Sizes, counts and positions at the limits of functions: negative, zero, and too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.nn import functional as F

X = nc.zeros((1, 3, 3))


@pytest.mark.parametrize("call", [
    lambda: nc.eye(-2), lambda: nc.eye(2, -1), lambda: nc.tile([1, 2], (-1,)), lambda: nc.repeat([1, 2], -1),
    lambda: nc.zeros(-1), lambda: nc.linspace(0, 1, num=-1), lambda: nc.arange(0, 1, 0), lambda: nc.arange(nc.inf),
    lambda: nc.arange(0, nc.nan), lambda: nc.arange(0.0, 1e308, 1e-308),
])  # fmt: skip
def test_invalid_counts_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(nc.ArgumentError, match=r"must (not )?be .*; got"):
        call()


def test_slices_of_empty_tensors() -> None:
    assert [p.shape for p in nc.unstack(nc.zeros((3, 0)))] == [(0,)] * 3
    assert [p.shape for p in nc.unstack(nc.zeros((3, 0)), axis=1)] == []
    assert nc.repeat([1, 2], 0).shape == (0,) and nc.tile([1, 2], (0,)).shape == (0,)


@pytest.mark.parametrize("k", [-(2**70), -(2**63), -3, -2, 0, 2, 3, 2**63 - 1, 2**70])
def test_diagonals_beyond_the_matrix(k: int) -> None:
    near = max(-9, min(k, 9))
    np.testing.assert_array_equal(nc.eye(2, 3, k=k).numpy(), np.eye(2, 3, near))
    np.testing.assert_array_equal(nc.tril(nc.ones((2, 3)), k=k).numpy(), np.tril(np.ones((2, 3)), near))
    np.testing.assert_array_equal(nc.triu(nc.ones((2, 3)), k=k).numpy(), np.triu(np.ones((2, 3)), near))


def test_sign_of_zeros() -> None:
    found = nc.sign([-0.0, 0.0, -2.0]).numpy()
    assert found.tolist() == [0, 0, -1] and not np.signbit(found[:2]).any()


def test_powers_of_integers_whose_square_wraps_to_one() -> None:
    assert nc.pow(nc.tensor([-127, 127, -1, 1, 2], dtype=nc.int8), nc.tensor([-2] * 5, dtype=nc.int8)).tolist() == [
        0, 0, 1, 1, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda: nc.zeros(2**62), lambda: nc.zeros((2**40, 2**40)), lambda: nc.zeros(2**70), lambda: nc.arange(2**60),
    lambda: nc.eye(2**40), lambda: nc.linspace(0, 1, num=2**50), lambda: nc.linspace(0, 1, num=2**62),
    lambda: nc.tile([1, 2], (2**62,)), lambda: nc.repeat([1, 2], 2**63), lambda: nc.pad([1], 2**62),
    lambda: nc.random.normal((2**60,)), lambda: nc.zeros((0, 2**62, 2**62)).tolist(),
    lambda: nc.reshape(nc.broadcast_to(nc.arange(5), (2**62, 5)), (-1,)),
    lambda: nc.broadcast_to(nc.arange(5), (2**62, 5)).numpy(), lambda: repr(nc.zeros((0, 2**62, 2**62))),
])  # fmt: skip
def test_sizes_beyond_any_machine_are_refused_at_once(call: Callable[[], Any]) -> None:
    with pytest.raises(nc.OutOfMemory):
        call()


def test_counts_of_shifts_and_keys() -> None:
    with pytest.raises(nc.ArgumentError, match="roll: shift must be one number"):
        nc.roll(nc.zeros((2, 2)), (1, 2), axis=(0,))
    with pytest.raises(nc.ArgumentError, match=r"split: .* must"):
        nc.random.split(nc.random.key(0), -1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.one_hot(nc.tensor([0]), True),
        lambda: nc.linspace(0, 1, True),
        lambda: nc.split(X, sections=True),
        lambda: nc.triu(X, k=True),
        lambda: nc.tril(X, k=True),
        lambda: nc.eye(2, k=True),
        lambda: F.adaptive_avg_pool1d(X, True),
        lambda: nc.tensordot(X, X, axes=True),
        lambda: nc.topk(X, True),
    ],
)
def test_bools_are_not_counts(call: Callable[[], Any]) -> None:
    with pytest.raises(nc.Error, match="integer"):
        call()
