"""DLPack both ways with PyTorch and JAX."""

from __future__ import annotations

import pytest

import nacre as nc


def test_torch_takes_and_gives_tensors() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.float16, torch.uint8):
        t = torch.ones((2, 3), dtype=dtype)
        x = nc.from_dlpack(t.T)
        assert x.shape == (3, 2) and x.dtype.name == str(dtype).removeprefix("torch.")
        back = torch.from_dlpack(nc.tensor(x))
        assert back.dtype is dtype and torch.equal(back, t.T)
    t = torch.zeros(3)
    x = nc.from_dlpack(t)
    t[1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]


def test_jax_takes_and_gives_tensors() -> None:
    jax = pytest.importorskip("jax")
    x = nc.from_dlpack(jax.numpy.arange(6.0).reshape(2, 3))
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert jax.numpy.from_dlpack(x * 2).tolist() == (x * 2).tolist()
