"""Native entries: plain tensors in, tensors out; anything unusual goes to Python; nothing leaks."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import OutOfMemory
from nacre.codegen.entry import entry, slot_offset
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage
from nacre.runtime import buffer
from nacre.runtime.executable import Executable
from nacre.trace.bind import inside
from nacre.trace.value import Value, make
from nacre.trace.variable import Leaf

X, Y = nc.tensor([1.0, -2.0, 3.0]), nc.tensor([0.5, 0.25, -1.0])


def executable(f: Any, *xs: Any) -> Executable:
    return compile_graph(stage(lambda *ys: list(f(*ys)), [x.type for x in xs]).graph).executable


def refused(*args: Any) -> Any:
    return "fallback", args


ADD = executable(lambda x, y: [x + y], X, Y)


def test_slots_lie_where_python_says() -> None:
    assert len({slot_offset(name) for name in ("type", "data", "layout", "node")}) == 4
    assert all(slot_offset(name) >= 16 for name in ("type", "data", "layout", "node"))


def test_one_result_several_and_none() -> None:
    z = entry(ADD, refused)(X, Y)
    assert type(z) is nc.Tensor and z.tolist() == (X + Y).tolist()
    assert z.layout is None and z.node is None and z.type is X.type
    both = entry(executable(lambda x: [x * 2, x.sum()], X), refused)(X)
    assert type(both) is tuple and [y.tolist() for y in both] == [(X * 2).tolist(), 2.0]
    assert entry(executable(lambda x: [], X), refused)(X) == ()
    assert entry(executable(lambda: [nc.ones((2,)) + 0]), refused)().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("args", [
    (X,), (X, Y, Y), (X, Y.astype(nc.float64)), (X, nc.ones((4,))), (X, Y[::-1]), (X, 1.0), (X, None), (X, Y.numpy()),
    (X, make(Y.type, Y.data, None, Leaf(0))), (),
], ids=range(10))
def test_what_does_not_fit_goes_to_the_fallback(args: tuple[Any, ...]) -> None:
    found, given = entry(ADD, refused)(*args)
    assert found == "fallback" and len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True))


def test_other_classes_go_to_the_fallback() -> None:
    class Mine(nc.Tensor):
        pass

    mine = Mine.__new__(Mine)
    mine.type, mine.data, mine.layout, mine.node = X.type, X.data, None, None
    plain = Value()
    plain.type, plain.data, plain.layout, plain.node = X.type, X.data, None, None
    for x in (mine, plain):
        assert entry(ADD, refused)(x, Y)[0] == "fallback"


def test_nodes_pass_where_they_are_not_looked_at() -> None:
    tracked = make(X.type, X.data, None, Leaf(0))
    made = entry(ADD, refused, False)(tracked, Y)
    assert made.tolist() == (X + Y).tolist() and made.node is None


def test_an_active_interpreter_goes_to_the_fallback() -> None:
    class Interpreter:
        level, dynamic = 1, False

        def process(self, primitive: Any, inputs: Any, params: Any) -> Any:
            raise AssertionError

    call = entry(ADD, refused)
    assert inside(Interpreter(), lambda: call(X, Y))[0] == "fallback"
    unchecked = entry(ADD, refused, False)
    assert inside(Interpreter(), lambda: unchecked(X, Y)).tolist() == (X + Y).tolist()
    assert call(X, Y).tolist() == (X + Y).tolist()


def test_faults_of_the_fallback_come_through() -> None:
    def fail(*args: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        entry(ADD, fail)(X)


def test_references_are_balanced() -> None:
    x, y = nc.tensor([1.0, 2.0, 3.0]), nc.tensor([1.0, 2.0, 3.0])
    several = entry(executable(lambda x, y: [x + y, (x * y).sum()], x, y), refused)
    one = entry(ADD, refused)
    one(x, y), several(x, y), one(x)
    watched = [x, y, x.data, y.data, x.type, None, nc.Tensor]

    def count() -> list[int]:
        gc.collect()
        return [sys.getrefcount(w) for w in watched]

    before, memory = count(), buffer.statistics().buffers
    for _ in range(1000):
        one(x, y), several(x, y), one(x)
    after = count()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)
    assert buffer.statistics().buffers == memory


def test_exhausted_memory_gives_everything_back() -> None:
    x = nc.ones((100_000,))
    call = entry(executable(lambda x: [x + k for k in range(6)], x), refused)
    call(x)
    before = buffer.statistics()
    try:
        for room in (100_000, 500_000, 1_000_000, 2_000_000):
            buffer.memory_limit(before.allocated + room)
            with pytest.raises(OutOfMemory):
                call(x)
            assert buffer.statistics().allocated == before.allocated
    finally:
        buffer.memory_limit(None)
    assert len(call(x)) == 6


def test_large_workspaces_and_released_lock() -> None:
    rng = np.random.default_rng(0)
    x = nc.tensor(rng.random((300, 300), np.float32))
    f = executable(lambda x: [nc.cumulative_sum(x @ x, axis=0) @ x], x)
    assert f.bound({}).work > 400_000 and f.bound({}).workspace_bytes > 8192
    found = entry(f, refused)(x)
    np.testing.assert_array_equal(found.numpy(), (nc.cumulative_sum(x @ x, axis=0) @ x).numpy())


def test_results_may_take_over_an_operand() -> None:
    f = executable(lambda x, y: [x + y], X, Y)
    call = entry(f, refused, True, {0: 0})
    x = X + 0
    z = call(x, Y)
    assert z.data is x.data and z.tolist() == (X + Y).tolist()


def test_entries_follow_a_change_of_threads() -> None:
    x = nc.tensor(np.random.default_rng(0).random((200, 200), np.float32))
    call = entry(executable(lambda x: [x @ x], x), refused)
    wanted, before = call(x).numpy(), nc.get_threads()
    try:
        for count in (1, 3, 2):
            nc.set_threads(count)
            np.testing.assert_array_equal(call(x).numpy(), wanted)
    finally:
        nc.set_threads(before)
