"""vmap: axes, trees, nesting, and the same bits as a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.errors import ArgumentError, KindError, ShapeError

A = nc.tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out", [0, 1, -1])
def test_axes_in_and_out(axis: int, out: int) -> None:
    found = nc.vmap(lambda x: nc.sin(x), in_axes=axis, out_axes=out)(A).numpy()
    wanted = np.moveaxis(nc.sin(A).numpy(), axis, out)
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes() and found.shape == wanted.shape


def test_trees_of_axes() -> None:
    def f(pair: Any, scale: Any) -> Any:
        return {"sum": pair["a"] + pair["b"], "scaled": pair["a"] * scale}

    args = {"a": A, "b": nc.permute_dims(A, (1, 0, 2))}
    found = nc.vmap(f, in_axes=({"a": 0, "b": 1}, None), out_axes={"sum": 1, "scaled": 0})(args, 2.0)
    np.testing.assert_array_equal(found["sum"].numpy(), np.moveaxis(2 * A.numpy(), 0, 1))
    np.testing.assert_array_equal(found["scaled"].numpy(), 2 * A.numpy())


def test_nests() -> None:
    dots = nc.vmap(nc.vmap(lambda x, y: (x * y).sum(), in_axes=(None, 0)), in_axes=(0, None))
    a, b = A[0], A[1]
    np.testing.assert_allclose(dots(a, b).numpy(), a.numpy() @ b.numpy().T, rtol=1e-6)


def test_modules_have_the_bits_of_single_examples() -> None:
    nc.random.seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2), nn.Softmax(-1))
    batch = A.reshape(6, 4)
    found = nc.vmap(lambda row: net(row[None])[0])(batch)
    for k in range(6):
        assert found[k].numpy().tobytes() == net(batch[k][None])[0].numpy().tobytes()


def test_gradients_per_example() -> None:
    w = nc.tensor([1.0, 2.0, 3.0, 4.0])

    def loss(w: Any, x: Any) -> Any:
        return nc.exp((w * x).sum() * 0.1)

    rows = A.reshape(6, 4)
    found = nc.vmap(nc.grad(loss), in_axes=(None, 0))(w, rows)
    compiled = nc.jit(nc.vmap(nc.grad(loss), in_axes=(None, 0)))(w, rows)
    for k in range(6):
        wanted = nc.grad(loss)(w, rows[k]).numpy().tobytes()
        assert found[k].numpy().tobytes() == wanted == compiled[k].numpy().tobytes()


def test_constants_and_numbers_pass_through() -> None:
    found = nc.vmap(lambda x: (nc.ones(2), x))(A)
    assert found[0].shape == (2, 2)
    with pytest.raises(ArgumentError, match="out_axes"):
        nc.vmap(lambda x: x, out_axes=None)(A)
    assert nc.vmap(lambda x: nc.ones(2), out_axes=None)(A).shape == (2,)


def test_faults() -> None:
    with pytest.raises(ShapeError, match="one size"):
        nc.vmap(lambda x, y: x)(A, A[:1])
    with pytest.raises(ArgumentError, match="none"):
        nc.vmap(lambda x: x, in_axes=None)(A)
    with pytest.raises(ShapeError):
        nc.vmap(lambda x: x, in_axes=3)(A)
    with pytest.raises(ArgumentError, match="in_axes"):
        nc.vmap(lambda x: x, in_axes=(0, 0))(A)
    p = nc.nn.Parameter(A)
    with pytest.raises(KindError, match=r"None for variables.*p\.value"):
        nc.vmap(lambda x, y: x * y, in_axes=(0, 0))(A, p)
    assert nc.vmap(lambda x, y: x * y, in_axes=(0, 0))(A, p.value).shape == A.shape
    for axes in (0, (0, None)):
        assert nc.vmap(lambda x, y: x[None] * y, in_axes=axes)(A, p).shape == (A.shape[0], *A.shape)


def test_what_both_branches_pass_on_is_not_batched() -> None:
    def f(x: Any, y: Any) -> Any:
        return nc.cond(x > 2, lambda x, y: (x * 2, y, x), lambda x, y: (x * 3, y, y), x, y)

    xs, y = A[0, 0] * 7, nc.tensor(1.5)
    found = nc.vmap(f, in_axes=(0, None), out_axes=(0, None, 0))(xs, y)
    assert found[1].tolist() == 1.5 and found[0].tolist() == [0.0, 3.0, 6.0, 6.0]
    assert [v.tolist() for v in found[2:]] == [[1.5, 1.5, 1.5, 3.0]]
    assert nc.grad(lambda y: nc.vmap(f, in_axes=(0, None))(xs, y)[1].sum())(y).item() == 4.0
