"""Other objects with the numbers of a captured tensor: copies, detached ones, and results that are the operand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

SAME: dict[str, Callable[[Any], Any]] = {
    "tensor": nc.tensor,
    "asarray": nc.asarray,
    "asarray-copy": lambda x: nc.asarray(x, copy=True),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "detach": lambda x: x.detach(),
    "astype": lambda x: x.astype(x.dtype),
    "reshape": lambda x: x.reshape(x.shape),
    "positive": lambda x: +x,
    "broadcast_to": lambda x: nc.broadcast_to(x, x.shape),
    "all": lambda x: x[...],
    "real": nc.real,
    "permute_dims": lambda x: nc.permute_dims(x, tuple(range(x.ndim))),
    "flip": lambda x: nc.flip(x, axis=()),
    "from_dlpack": nc.from_dlpack,
    "stack": lambda x: nc.stack([x, x])[0],
    "list": lambda x: nc.tensor([x, x])[0],
}


@pytest.mark.parametrize("shape", [(), (4,), (2, 2)], ids=str)
@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_compiled_code_reads_the_tensor_at_each_call(f: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    x = nc.ones(shape)
    compiled = nc.jit(lambda v: f(x) + v)
    for number in (1.0, 9.0, -2.0):
        x[...] = number
        np.testing.assert_array_equal(compiled(nc.tensor(1.0)).numpy(), np.full(shape, number + 1))
    assert len(compiled.concrete_functions) == 1


def test_tensors_that_share_their_numbers_are_different_inputs() -> None:
    x = nc.ones(2)
    y = nc.tensor(x)
    compiled = nc.jit(lambda v: 10 * x + nc.tensor(y) + v)
    assert compiled(nc.tensor(0.0)).tolist() == [11, 11]
    x[0] = 9
    assert compiled(nc.tensor(0.0)).tolist() == [91, 11]
    y[1] = 5
    assert compiled(nc.tensor(0.0)).tolist() == [91, 15]
    assert y.tolist() == [1, 5]


def test_numbers_that_python_reads_from_another_object() -> None:
    x = nc.tensor(2.0)
    compiled = nc.jit(lambda v: v * float(x.detach()))
    assert compiled(nc.tensor(3.0)).item() == 6
    x[...] = 4.0
    assert compiled(nc.tensor(3.0)).item() == 12


def test_indices_from_another_object_are_checked_at_each_call() -> None:
    places = nc.tensor([0, 1])
    compiled = nc.jit(lambda v: v[nc.tensor(places)])
    assert compiled(nc.arange(3.0)).tolist() == [0, 1]
    places[0] = 2
    assert compiled(nc.arange(3.0)).tolist() == [2, 1]
    places[0] = 7
    with pytest.raises(IndexError, match="7"):
        compiled(nc.arange(3.0))


def test_a_detached_object_has_no_gradient() -> None:
    w = nc.tensor([2.0, 3.0]).requires_grad_()
    compiled = nc.jit(lambda v: nc.sum(w.detach() * w * v))
    compiled(nc.tensor([1.0, 10.0])).backward()
    assert w.grad.tolist() == [2.0, 30.0]


@pytest.mark.parametrize("make", [nc.tensor, nc.asarray, lambda a: nc.asarray(a, copy=True)])
def test_a_tensor_made_of_a_captured_array_can_be_written(make: Callable[[Any], Any]) -> None:
    array = np.arange(4.0)

    def f(v: Any) -> Any:
        x = make(array)
        x[0] = v
        return x, make(array)

    compiled = nc.jit(f)
    for first in (0.0, 5.0):
        array[1] = first
        for g in (f, compiled):
            written, other = g(nc.tensor(7.0))
            assert written.tolist() == [7, first, 2, 3] and other.tolist() == [0, first, 2, 3]
    assert array[0] == 0 and len(compiled.concrete_functions) == 1


def test_the_captured_tensor_itself_cannot_be_written() -> None:
    x = nc.arange(4.0)

    def f(v: Any) -> Any:
        y = nc.asarray(x)  # the same object
        y[0] = v
        return y

    with pytest.raises(nc.TraceError, match="x must be an argument of f, or created inside it"):
        nc.jit(f)(nc.tensor(7.0))
    assert x.tolist() == [0, 1, 2, 3]
