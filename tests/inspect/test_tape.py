"""The memory of the tape by owner: each buffer once, and nothing after `backward`."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.base.errors import GradientError, KindError
from nacre.inspect.tape import TapeMemory, source_lines, tape_memory
from nacre.nn.functional import softmax
from nacre.runtime.buffer import statistics
from nacre.trace.bind import ACTIVE

KIB = 1024


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        self.scale = nn.Parameter(nc.ones(4))

    def forward(self, x: Any) -> Any:
        return softmax(self.body(x) * self.scale, -1)


def tensor(n: int = KIB) -> Any:
    return nc.random.normal((n,), key=nc.random.key(1)).requires_grad_()


def test_each_buffer_belongs_to_the_earliest_operation_that_saved_it() -> None:
    x = tensor()
    y = nc.exp(x)
    z = (y * x + y * y).reshape(32, 32).T
    held = tape_memory(nc.sum(nc.sin(z)))
    assert held.by("operation") == {"exp": 4 * KIB, "sin": 4 * KIB}
    assert held.nbytes == 8 * KIB and held.leaves == 4 * KIB
    assert [row.buffers for row in held.rows] == [1, 1]


def test_several_tensors_share_a_tape() -> None:
    x = tensor()
    y = nc.exp(x)
    assert tape_memory(y, nc.tanh(y)).nbytes == tape_memory(nc.tanh(y)).nbytes == 8 * KIB


def test_backward_frees_exactly_these_bytes() -> None:
    x = tensor(16 * KIB)
    x.grad = nc.zeros(16 * KIB) + 0.0

    def freed() -> tuple[int, int]:
        """The bytes that the tape of a loss holds, and those that its backward pass frees."""
        y = x
        for _ in range(20):
            y = nc.sin(nc.exp(-y) * x)
        loss = y.sum()
        del y
        gc.collect()  # tensors that other tests left in cycles
        held, before = tape_memory(loss).nbytes, statistics().allocated
        loss.backward()
        assert tape_memory(loss) == TapeMemory((), 0)
        return held, before - statistics().allocated

    freed()  # caches of constants now have what the passes need
    held, given_back = freed()
    assert held == given_back


def test_lines_are_noted_on_request() -> None:
    x = tensor()
    with source_lines():
        y = nc.tanh(nc.exp(x))
        z = nc.exp(y)
    loss = nc.sum(nc.cos(z))
    lines = tape_memory(loss).by("line")
    begin = test_lines_are_noted_on_request.__code__.co_firstlineno
    first, second = (f"{__file__}:{begin + k} (test_lines_are_noted_on_request)" for k in (3, 4))
    assert {k: n for k, n in lines.items() if n} == {first: 8 * KIB, second: 4 * KIB}
    assert "(test_lines_are_noted_on_request)" in str(tape_memory(loss))


def test_lines_change_no_bit_and_end_with_the_block() -> None:
    x = tensor()
    found: list[Any] = []
    for noted in (False, True, False):
        x.grad = None
        if noted:
            with source_lines():
                loss = nc.sum(softmax(nc.exp(x) * 0.5, -1) * x)
        else:
            loss = nc.sum(softmax(nc.exp(x) * 0.5, -1) * x)
        loss.backward()
        found.append((loss.numpy().tobytes(), x.grad.numpy().tobytes()))
    assert found[0] == found[1] == found[2] and ACTIVE.value == 0


def test_modules_own_what_their_operations_saved() -> None:
    model = Network()
    loss = model(nc.ones((64, 8))).sum()
    held = tape_memory(loss, model=model)
    assert held.by("module")["body.0"] == 64 * 8 * 4
    assert set(held.by("module")) >= {"", "body.0"} and held.nbytes == sum(held.by("module").values())
    assert held.leaves == 4 * (16 * 4 + 4)  # the weight of the last layer, and the scale


def test_a_compiled_call_is_one_operation() -> None:
    model = Network()
    loss = nc.jit(model)(nc.ones((64, 8))).sum()
    (row,) = [row for row in tape_memory(loss, model=model).rows if row.operation == "call"]
    assert row.module == "." and row.nbytes > 64 * 16 * 4


def test_what_has_no_record_is_refused() -> None:
    with pytest.raises(
        GradientError, match=r"tape_memory: tensors must be computed from .* got a tensor of type f32\[3\]"
    ):
        tape_memory(nc.ones(3))
    with pytest.raises(GradientError, match="got a float"):
        tape_memory(1.0)  # type: ignore[arg-type]
    with pytest.raises(KindError, match="owner must be 'operation', 'module' or 'line'; got 'size'"):
        tape_memory(nc.exp(tensor())).by("size")  # type: ignore[arg-type]
