"""Loops and branches ahead of time: the bits of the same function run here, on any threads, for every size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, same
from nacre import deploy, nn
from nacre.compile.passes import strip_mining

pytestmark = pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")

RNG = np.random.default_rng(11)
ROUNDS = nc.Dim("rounds", min=0, max=40)
ROWS = nc.Dim("rows", min=1, max=70)


def matrix(*shape: int) -> Any:
    return nc.tensor(RNG.normal(size=shape).astype(np.float32) / 8)


W = matrix(64, 64)


def normalised(x: Any) -> tuple[Any, Any]:
    """Halve a matrix until it is small, and count; then one of two branches."""

    def halve(state: Any) -> Any:
        return nc.tanh(state[0] @ W) * 0.9, state[1] + 1

    x, rounds = nc.while_loop(lambda s: (s[0] * s[0]).sum() > 0.5, halve, (x, nc.tensor(0)))
    return nc.cond(rounds > 3, lambda y: y @ W, lambda y: nc.exp(y) - 1.0, x), rounds


def nested(xs: Any) -> tuple[Any, Any]:
    """A loop in a loop, with a branch on a value of a row."""

    def outer(total: Any, x: Any) -> Any:
        def inner(held: Any, _: Any) -> Any:
            held = nc.tanh(held @ W + x)
            return held, held.sum()

        total, sums = nc.scan(inner, total, length=3)
        return nc.cond(x[0, 0] > 0, lambda t: t * 2.0, lambda t: t - 1.0, total), sums

    return nc.scan(outer, xs.sum(axis=0) * 0.0, xs, reverse=True)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_while_and_cond(tmp_path: Path, threads: int) -> None:
    made = Library(
        deploy.compile(
            normalised, [nc.ones((2, 64))], tmp_path / "libsmall.so", "shared", dynamic_shapes={"x": {0: ROWS}}
        )
    )
    assert made.threads(threads) == 0
    for rows, scale in ((1, 0.01), (3, 1.0), (70, 5.0)):
        x = RNG.normal(size=(rows, 64)).astype(np.float32) * np.float32(scale)
        for found, wanted in zip(made(x, rows=rows), normalised(nc.asarray(x)), strict=True):
            assert same(found, wanted.numpy())


def test_loops_in_loops_of_symbolic_length(tmp_path: Path) -> None:
    made = Library(
        deploy.compile(
            nested,
            [nc.ones((2, 5, 64))],
            tmp_path / "libnested.so",
            "shared",
            dynamic_shapes={"xs": {0: ROUNDS, 1: ROWS}},
        )
    )
    for threads in (1, 2, 5):
        assert made.threads(threads) == 0
        for rounds, rows in ((0, 3), (1, 1), (2, 70), (7, 33)):
            xs = RNG.normal(size=(rounds, rows, 64)).astype(np.float32)
            wanted = nc.jit(nested)(nc.asarray(xs))
            for found, value in zip(made(xs, rounds=rounds, rows=rows), wanted, strict=True):
                assert same(found, value.numpy())


def test_recurrent_networks(tmp_path: Path) -> None:
    nc.random.seed(5)
    net = nn.LSTM(24, 96, num_layers=2, bidirectional=True).eval()

    def outputs(x: Any) -> Any:
        return net(x)[0]

    made = Library(
        deploy.compile(
            outputs, [nc.ones((2, 3, 24))], tmp_path / "liblstm.so", "shared", dynamic_shapes={"x": {0: ROUNDS}}
        )
    )
    for rounds in (1, 2, 40):
        x = RNG.normal(size=(rounds, 3, 24)).astype(np.float32)
        assert same(made(x, rounds=rounds)[0], net(nc.asarray(x))[0].numpy())


def test_strip_mined_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_mining, "LARGE", 1000)
    monkeypatch.setattr(strip_mining, "NEAR", 0)
    w, many = matrix(7, 900), RNG.normal(size=(800, 7)).astype(np.float32)

    def loss(x: Any) -> Any:
        z = x @ w
        return nc.log(nc.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)), z.argmax(axis=1)

    made = Library(deploy.compile(loss, [nc.asarray(many)], tmp_path / "libbands.so", "shared"))
    assert made.threads(2) == 0
    for found, wanted in zip(made(many), loss(nc.asarray(many)), strict=True):
        assert same(found, wanted.numpy())
