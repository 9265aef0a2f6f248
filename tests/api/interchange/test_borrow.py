"""Borrowed memory: it shows the owner's changes, nothing writes to it, and variables and the tape copy it."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim


def test_asarray_copies_unless_that_is_forbidden() -> None:
    a = np.arange(6.0).reshape(2, 3)
    copied, again, shared = nc.asarray(a), nc.asarray(a, copy=True), nc.asarray(a, copy=False)
    turned = nc.asarray(a[::-1, 1:], copy=False)
    a[0, 1] = 50.0
    assert copied.tolist() == again.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert shared.tolist() == a.tolist() and turned.tolist() == a[::-1, 1:].tolist()
    numbers = array("f", [1.0, 2.0])
    x, y = nc.asarray(numbers, copy=False), nc.asarray(memoryview(numbers), copy=False)
    numbers[0] = 7.0
    assert x.tolist() == y.tolist() == [7.0, 2.0]


@pytest.mark.parametrize(("given", "kind", "words"), [
    (np.ones(2, ">f4"), nc.ExchangeError, "byte order"),
    (np.zeros(2, [("a", "f4"), ("b", "i1")])["a"], nc.ExchangeError, "distance of whole elements"),
    (np.ones(2, object), nc.DTypeError, "dtype"),
    (np.ma.masked_array([1.0], [1]), nc.DTypeError, "mask"),
    (np.float32(1), nc.ArgumentError, "must be copied"), ([1, 2], nc.ArgumentError, "list must be copied"),
    (1.0, nc.ArgumentError, "float must be copied"), ("text", nc.DTypeError, "got text"),
])  # fmt: skip
def test_memory_that_cannot_be_shared(given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        nc.asarray(given, copy=False)


def test_conversions_are_refused_without_a_copy() -> None:
    with pytest.raises(nc.ArgumentError, match="ndarray of float64 must be copied to become float32"):
        nc.asarray(np.ones(2), dtype=nc.float32, copy=False)
    with pytest.raises(nc.ArgumentError, match=r"f64\[2\] must be copied to become f32\[2\]"):
        nc.asarray(nc.ones(2, dtype=nc.float64), dtype=nc.float32, copy=False)


def test_the_tape_saves_copies() -> None:
    a = np.full((2, 3), 2.0, np.float32)
    x, p = nc.asarray(a, copy=False), nn.Parameter(nc.ones((2, 3)))
    for _ in range(3):
        a[...] = 2.0
        loss = nc.sum(p * x[:, :])
        a[...] = 5.0
        p.grad = None
        loss.backward()
        assert p.grad is not None and p.grad.tolist() == [[2.0] * 3] * 2
    leaf = nc.asarray(a, copy=False).requires_grad_()
    square = nc.sum(leaf * leaf)
    a[...] = 0.0
    square.backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[10.0] * 3] * 2


def test_captures_of_compiled_functions_are_read_at_each_call() -> None:
    a = np.zeros(2)
    x = nc.asarray(a, copy=False)
    added = nc.jit(lambda y: y + x)
    branched = nc.jit(lambda y: y * 2 if float(x.numpy()[0]) > 1 else y * 3)
    y = nc.ones(2, dtype=nc.float64)
    for number, factor in ((0.0, 3.0), (4.0, 2.0), (5.0, 2.0), (0.5, 3.0)):
        a[...] = number
        assert added(y).tolist() == [1 + number] * 2 and branched(y).tolist() == [factor] * 2


def test_nothing_writes_to_borrowed_memory() -> None:
    a = np.ones(1000, np.float32)
    grown = nc.jit(lambda x: x + 1, donate=("x",))
    for _ in range(3):
        assert grown(nc.asarray(a, copy=False)).tolist() == [2.0] * 1000
    v = nc.Variable(nc.asarray(a, copy=False))
    step = nc.jit(lambda: v.assign(v.value + 1))
    put = nc.jit(lambda x: v.assign(x))
    for _ in range(3):
        step()
    for _ in range(3):
        put(nc.asarray(a, copy=False))
        step()
    p = nn.Parameter(nc.asarray(a, copy=False))
    optimiser = optim.SGD([p], lr=0.5)
    p.grad = nc.asarray(a, copy=False)
    optimiser.step()
    p.data = nc.asarray(a, copy=False)
    optimiser.step()
    x = nc.asarray(a, copy=False)
    x[0] = 7.0
    assert x[0].item() == 7.0 and (a == 1.0).all()


def test_buffers_of_tensors_are_read_only() -> None:
    x = nc.tensor([[1, 2], [3, 4]])
    view = x.__buffer__(0)
    assert view.readonly and view.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(BufferError, match="must not be written to"):
        x.__buffer__(1)
    with pytest.raises(nc.ExchangeError, match="bfloat16"):
        nc.ones(2, dtype=nc.bfloat16).__buffer__(0)
    assert not hasattr(x, "__array_interface__")  # x[i] = v gives x other memory, which such an array would not follow
