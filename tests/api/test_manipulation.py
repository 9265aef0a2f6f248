"""Rearranging tensors against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

WIDTHS = [(0, 1), (2, 0), (0, 0)]
CASES: list[tuple[str, Any, Any]] = [
    ("reshape", lambda x: nc.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
    ("reshape of a view", lambda x: x.permute(2, 0, 1).reshape(6, 4), lambda x: x.transpose(2, 0, 1).reshape(6, 4)),
    ("flatten", lambda x: x.flatten(1), lambda x: x.reshape(2, 12)),
    ("permute_dims", lambda x: nc.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    ("transpose", lambda x: x.transpose((2, 0, 1)), lambda x: x.transpose((2, 0, 1))),
    ("transpose of numbers", lambda x: x.transpose(1, 2, 0), lambda x: x.transpose(1, 2, 0)),
    ("transpose of all", lambda x: x.transpose(), lambda x: x.transpose()),
    ("matrix_transpose", nc.matrix_transpose, lambda x: x.swapaxes(1, 2)),
    ("swapaxes", lambda x: nc.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, 2)),
    ("moveaxis", lambda x: nc.moveaxis(x, [0, 1], [-1, 0]), lambda x: np.moveaxis(x, [0, 1], [-1, 0])),
    ("expand_dims", lambda x: nc.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    ("squeeze", lambda x: nc.squeeze(x[:1], 0), lambda x: x[0]),
    ("broadcast_to", lambda x: nc.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    ("concat", lambda x: nc.concat([x, x[:, :1]], axis=1), lambda x: np.concatenate([x, x[:, :1]], 1)),
    ("concat flat", lambda x: nc.concat([x, x[0]], axis=None), lambda x: np.concatenate([x, x[0]], None)),
    ("stack", lambda x: nc.stack([x, -x], axis=-1), lambda x: np.stack([x, -x], -1)),
    ("unstack", lambda x: nc.unstack(x, axis=1)[2], lambda x: x[:, 2]),
    ("split", lambda x: nc.split(x, sections=2, axis=2)[1], lambda x: np.split(x, 2, 2)[1]),
    ("split at", lambda x: nc.split(x, [1, 3], axis=2)[1], lambda x: np.split(x, [1, 3], 2)[1]),
    ("flip", nc.flip, np.flip),
    ("flip axis", lambda x: nc.flip(x, axis=1), lambda x: np.flip(x, 1)),
    ("roll", lambda x: nc.roll(x, 5), lambda x: np.roll(x, 5)),
    ("roll axes", lambda x: nc.roll(x, (1, -6), axis=(1, 2)), lambda x: np.roll(x, (1, -6), (1, 2))),
    ("tile", lambda x: nc.tile(x, (2, 1, 2)), lambda x: np.tile(x, (2, 1, 2))),
    ("tile more", lambda x: nc.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    ("repeat", lambda x: nc.repeat(x, 2, axis=1), lambda x: np.repeat(x, 2, 1)),
    ("repeat flat", lambda x: nc.repeat(x, 3), lambda x: np.repeat(x, 3)),
    ("pad", lambda x: nc.pad(x, WIDTHS, 7), lambda x: np.pad(x, WIDTHS, constant_values=7)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_against_numpy(case: tuple[str, Any, Any]) -> None:
    _, ours, theirs = case
    np.testing.assert_array_equal(ours(nc.tensor(X)).numpy(), theirs(X))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_the_gradient_of_a_sum_counts_the_copies(case: tuple[str, Any, Any]) -> None:
    _, ours, theirs = case
    x = nc.tensor(X).requires_grad_()
    ours(x).sum().backward()
    sign = np.vectorize(lambda v: theirs(np.equal(X, v).astype(np.float32)).sum())
    offset = theirs(np.zeros_like(X)).sum()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), sign(X) - offset)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x.reshape(5, -1), "must divide 24"), (lambda x: x.reshape(-1, -1), "at most one size may be -1"),
        (lambda x: x.reshape(3), "must have 24 elements"), (lambda x: nc.squeeze(x, 0), "must have size 1"),
        (lambda x: nc.permute_dims(x, (0, 0, 1)), "each of 3 axes once"), (lambda x: x.sum(axis=3), r"\[-3, 3\)"),
        (lambda x: nc.concat([x, x[0]]), "equal except in axis 0"), (lambda x: nc.stack([x, x[0]]), "equal shapes"),
        (lambda x: nc.broadcast_to(x, (3, 4)), "broadcasts to"), (lambda x: nc.split(x, sections=5), "divide the size"),
        (lambda x: nc.pad(x, [(1, 1)]), "for each of 3 axes"), (lambda x: nc.concat([]), "must not be empty"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(f: Any, message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        f(nc.tensor(X))


def test_empty_tensors() -> None:
    x = nc.zeros((0, 3))
    assert nc.concat([x, x]).shape == (0, 3) and x.T.shape == (3, 0) and x.reshape(0, 5).shape == (0, 5)
    assert x.sum().item() == 0.0 and x[:, 1:].shape == (0, 2)


def test_counts_whose_sum_wraps_need_too_much_memory() -> None:
    for counts in ([2**62] * 4, [2**62] * 4 + [3]):
        with pytest.raises(nc.OutOfMemory):
            nc.repeat(nc.arange(len(counts)), nc.tensor(counts))


@pytest.mark.parametrize("cut", [{"sections": 1}, {"indices": []}], ids=["one section", "no index"])
def test_the_only_part_of_a_split_is_an_object_of_its_own(cut: dict[str, Any]) -> None:
    x = nc.arange(6.0)
    (part,) = nc.split(x, cut.get("indices"), sections=cut.get("sections"))
    part[0] = 100.0
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] and part.tolist()[0] == 100.0
