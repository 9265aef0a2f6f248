"""The same bits in eager and compiled code, in batches, by vmap, and with one thread or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from api.linalg.modes import check_every_mode, check_large_batch
from nacre.kernel import order_linalg as order
from tensor_bits import bits

pytestmark = pytest.mark.sampled(3)

RNG = np.random.default_rng(3)


def _definite(x: Any) -> Any:
    return nc.matmul(x, x.mT) + nc.eye(x.shape[-1], dtype=x.dtype)


FUNCTIONS: dict[str, Any] = {
    "cholesky": lambda x: nc.linalg.cholesky(_definite(x)),
    "lu": lambda x: nc.linalg.lu(x),
    "qr": lambda x: nc.linalg.qr(x),
    "solve": lambda x: nc.linalg.solve(x, x[..., :3]),
    "solve_triangular": lambda x: nc.linalg.solve_triangular(_definite(x), x[..., :3]),
    "slogdet": lambda x: nc.linalg.slogdet(x),
    "expm": lambda x: nc.linalg.expm(x),
}


@pytest.mark.parametrize("n", [5, 70])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_mode(f: Any, n: int) -> None:
    x = nc.tensor(RNG.normal(size=(3, n, n)).astype(np.float32))
    check_every_mode(f, x)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_large_batches_of_small_matrices(f: Any) -> None:
    """Matrices as lanes of vectors have the bits of single ones, also behind the last whole vector."""
    x = nc.tensor(RNG.normal(size=(2, 19, 4, 4)))
    check_large_batch(f, x)


def test_sizes_that_vary_have_variants_of_their_own() -> None:
    f = nc.jit(lambda x: nc.linalg.inv(x) + 1)
    for n in (3, 4, 5):
        x = nc.tensor(RNG.normal(size=(n, n)))
        assert bits(f(x)) == bits(nc.linalg.inv(x) + 1)
    batched = nc.jit(nc.linalg.inv)
    for count in (2, 3, 4):
        x = nc.tensor(RNG.normal(size=(count, 3, 3)))
        assert bits(batched(x)) == bits(nc.linalg.inv(x))


def test_the_place_where_matrices_are_divided() -> None:
    assert [order.split(n) for n in (65, 128, 129, 256, 257, 1000)] == [64, 64, 128, 128, 256, 512]
    assert [order.split(n, order.PANEL) for n in (33, 65, 1000)] == [32, 64, 512]
    assert order.is_lu_block(1000, 32) and order.is_lu_block(64, 64) and not order.is_lu_block(65, 33)
