"""DLPack both ways with PyTorch and JAX: dtypes, strides, empty arrays, shared memory, who may write, who frees."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.dtypes import ALL, STORED_FLOATS
from nacre.runtime.buffer import statistics
from peers.libraries import jax, torch

SHAPES: list[tuple[int, ...]] = [(), (0, 3), (2, 3), (2, 1, 3)]
BY_TORCH = [d for d in ALL if hasattr(torch, d.name)]
BY_JAX = [d for d in ALL if hasattr(jax.numpy, d.name)]


def by_torch(x: Any) -> Any:
    """The numbers of a tensor of PyTorch, which has no bfloat16 of NumPy."""
    return (x.double() if x.dtype is torch.bfloat16 else x).numpy()


def wide(x: nc.Tensor) -> Any:
    return (x.astype(nc.float64) if x.dtype is nc.bfloat16 else x).numpy()


@pytest.mark.parametrize("dtype", BY_TORCH, ids=str)
def test_torch_and_every_dtype(dtype: Any) -> None:
    for shape in SHAPES:
        theirs = torch.ones(shape, dtype=getattr(torch, dtype.name))
        ours = nc.from_dlpack(theirs)
        assert ours.dtype is dtype and ours.shape == shape and np.array_equal(wide(ours), by_torch(theirs))
        back = torch.from_dlpack(nc.ones(shape, dtype=dtype))
        assert back.dtype is theirs.dtype and torch.equal(back, theirs)


@pytest.mark.parametrize("dtype", BY_JAX, ids=str)
def test_jax_and_every_dtype(dtype: Any) -> None:
    for shape in SHAPES:
        theirs = jax.numpy.ones(shape, dtype=dtype.name if dtype is not nc.bool else bool)
        ours = nc.from_dlpack(theirs)
        assert ours.dtype is dtype and ours.shape == shape and np.array_equal(ours.numpy(), np.asarray(theirs))
        back = jax.numpy.from_dlpack(nc.ones(shape, dtype=dtype))
        assert back.dtype == theirs.dtype and back.shape == shape and bool((back == theirs).all())


@pytest.mark.parametrize("dtype", [d for d in STORED_FLOATS if hasattr(torch, d.name)], ids=str)
def test_torch_and_float8(dtype: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16)
    theirs = torch.tensor(codes).view(getattr(torch, dtype.name))
    ours = nc.from_dlpack(theirs.T)
    assert ours.dtype is dtype and np.array_equal(ours.numpy().view(np.uint8), codes.T)
    back = torch.from_dlpack(nc.asarray(codes.view(dtype.numpy)))
    assert back.dtype is theirs.dtype and torch.equal(back.view(torch.uint8), theirs.view(torch.uint8))
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers = numbers[numbers > 0] if not dtype.has_zero else numbers
    saturate = dtype is nc.float8_e4m3fn  # PyTorch's conversion to this one always does
    found = nc.asarray(numbers).astype(dtype, saturate=saturate).astype(nc.float32).numpy()
    wanted = torch.tensor(numbers).to(theirs.dtype).float().numpy()
    assert np.array_equal(found, wanted, equal_nan=True)


VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x.T,
    lambda x: x[::2, 1:],
    lambda x: x[1],
    lambda x: x[:, 3],
    lambda x: x[:, :0],
    lambda x: x.T[::3],
]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_strides_go_both_ways(view: int, dtype: str) -> None:
    numbers = (np.arange(20.0).reshape(4, 5) + (1j if dtype == "complex64" else 0)).astype(dtype)
    wanted = VIEWS[view](numbers)
    theirs = VIEWS[view](torch.asarray(numbers.copy()))
    ours = nc.from_dlpack(theirs)
    assert np.array_equal(ours.numpy(), wanted) and np.array_equal((ours + 1).numpy(), wanted + 1)
    assert ours.size == 0 or np.shares_memory(ours.numpy(), theirs.numpy())
    given = VIEWS[view](nc.asarray(numbers))
    assert np.array_equal(torch.from_dlpack(given).numpy(), wanted)
    assert np.array_equal(np.asarray(jax.numpy.from_dlpack(given)), wanted)


def test_lazy_conjugates_of_torch_are_refused() -> None:
    z = torch.asarray(np.array([1 + 2j, 3 - 1j]))
    with pytest.raises(nc.ExchangeError, match="conjugate bit"):
        nc.from_dlpack(torch.conj(z))
    assert nc.from_dlpack(torch.conj(z).resolve_conj()).tolist() == [1 - 2j, 3 + 1j]


def test_imports_are_borrowed_and_copies_are_not() -> None:
    theirs = torch.zeros(3)
    shared, copied = nc.from_dlpack(theirs), nc.from_dlpack(theirs, copy=True)
    compiled = nc.jit(lambda: shared + 0)
    assert compiled().tolist() == [0.0, 0.0, 0.0]
    theirs[1] = 5.0
    assert shared.tolist() == compiled().tolist() == [0.0, 5.0, 0.0] and copied.tolist() == [0.0, 0.0, 0.0]
    shared[0] = 7.0  # a tensor's value is replaced, and no foreign memory is written
    assert theirs.tolist() == [0.0, 5.0, 0.0]


def test_memory_of_jax_is_read_only() -> None:
    theirs = jax.numpy.arange(3.0)
    ours = nc.from_dlpack(theirs)
    ours[0] = 7.0
    assert ours.tolist() == [7.0, 1.0, 2.0] and theirs.tolist() == [0.0, 1.0, 2.0]
    doubled = nc.jit(lambda x: x * 2, donate=("x",))
    assert doubled(nc.from_dlpack(theirs)).tolist() == [0.0, 2.0, 4.0] and theirs.tolist() == [0.0, 1.0, 2.0]


def test_capsules_of_torch_have_a_version_where_it_is_asked_for() -> None:
    asked: list[dict[str, Any]] = []

    class Spied:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack_device__(self) -> Any:
            return self.x.__dlpack_device__()

        def __dlpack__(self, **request: Any) -> Any:
            asked.append(request)
            made = self.x.__dlpack__(**request)
            assert "dltensor_versioned" in repr(made)
            return made

    for x in (torch.ones(2), jax.numpy.ones(2), nc.ones(2)):
        if not isinstance(x, jax.Array):  # JAX makes capsules of the first form
            assert nc.from_dlpack(Spied(x)).tolist() == [1.0, 1.0]
            assert asked[-1]["max_version"][0] >= 1


def test_exports_live_as_long_as_their_readers() -> None:
    for read in (torch.from_dlpack, jax.numpy.from_dlpack):
        gc.collect()
        before = statistics().buffers
        x = nc.arange(1000.0)
        y = read(x)
        del x
        gc.collect()
        assert float(y.sum()) == 499500.0
        del y
        gc.collect()
        assert statistics().buffers == before


def test_imports_keep_their_owner_alive() -> None:
    theirs = torch.arange(1000.0)
    storage = weakref.ref(theirs.untyped_storage())
    x = nc.from_dlpack(theirs)[10:]
    expected = theirs.sum().item() - 45
    del theirs
    gc.collect()
    assert float(x.sum()) == expected
    del x
    gc.collect()
    assert storage() is None


def test_no_gradient_is_lost_in_silence() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(nc.Error, match=r"grad"):
        nc.from_dlpack(leaf)
    for read in (torch.from_dlpack, jax.numpy.from_dlpack):
        with pytest.raises(nc.GradientError, match=r"x\.detach\(\)"):
            read(nc.ones(2).requires_grad_())
    assert nc.from_dlpack(leaf.detach()).tolist() == [1.0, 1.0]
