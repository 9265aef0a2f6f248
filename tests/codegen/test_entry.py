"""Native entries: plain tensors in, tensors out; anything unusual goes to Python; nothing leaks."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base import state
from nacre.base.errors import OutOfMemory
from nacre.codegen.entry.points import entry, view_entry
from nacre.codegen.entry.recording import Recording
from nacre.codegen.entry.slots import SLOTS, different_slots
from nacre.compile.pipeline import compile_graph
from nacre.interpret.pullback import rule_for
from nacre.interpret.reverse import fused_rule
from nacre.interpret.stage import stage
from nacre.interpret.tape import TapeNode
from nacre.ir.primitive import primitive_named
from nacre.runtime import buffer
from nacre.runtime.executable import Executable
from nacre.trace.bind import inside
from nacre.trace.modes import gradients
from nacre.trace.value import Value, make
from nacre.trace.variable import Leaf

X, Y = nc.tensor([1.0, -2.0, 3.0]), nc.tensor([0.5, 0.25, -1.0])


def executable(f: Any, *xs: Any) -> Executable:
    return compile_graph(stage(lambda *ys: list(f(*ys)), [x.type for x in xs]).graph).executable


def refused(*args: Any) -> Any:
    return "fallback", args


ADD = executable(lambda x, y: [x + y], X, Y)


def test_slots_are_where_native_code_reads_them() -> None:
    assert [different_slots(structure, cls) for structure, cls in SLOTS] == [[]] * len(SLOTS)


def test_one_result_several_and_none() -> None:
    z = entry(ADD, refused)(X, Y)
    assert type(z) is nc.Tensor and z.tolist() == (X + Y).tolist()
    assert z.layout is None and z.node is None and z.type is X.type
    both = entry(executable(lambda x: [x * 2, x.sum()], X), refused)(X)
    assert type(both) is tuple and [y.tolist() for y in both] == [(X * 2).tolist(), 2.0]
    assert entry(executable(lambda x: [], X), refused)(X) == ()
    assert entry(executable(lambda: [nc.ones((2,)) + 0]), refused)().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "args",
    [
        (X,),
        (X, Y, Y),
        (X, Y.astype(nc.float64)),
        (X, nc.ones((4,))),
        (X, Y[::-1]),
        (X, 1.0),
        (X, None),
        (X, Y.numpy()),
        (X, make(Y.type, Y.content, None, Leaf(0))),
        (),
    ],
    ids=range(10),
)
def test_unsupported_calls_go_to_the_fallback(args: tuple[Any, ...]) -> None:
    found, given = entry(ADD, refused)(*args)
    assert found == "fallback" and len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True))


def test_other_classes_go_to_the_fallback() -> None:
    class Mine(nc.Tensor):
        pass

    mine = Mine.__new__(Mine)
    mine.type, mine.content, mine.layout, mine.node = X.type, X.content, None, None
    plain = Value()
    plain.type, plain.content, plain.layout, plain.node = X.type, X.content, None, None
    for x in (mine, plain):
        assert entry(ADD, refused)(x, Y)[0] == "fallback"


def test_nodes_are_allowed_where_they_are_ignored() -> None:
    tracked = make(X.type, X.content, None, Leaf(0))
    made = entry(ADD, refused, False)(tracked, Y)
    assert made.tolist() == (X + Y).tolist() and made.node is None


def test_an_active_interpreter_goes_to_the_fallback() -> None:
    class Interpreter:
        level, dynamic = 1, False

        def process(self, primitive: Any, inputs: Any, params: Any) -> Any:
            raise AssertionError

    call = entry(ADD, refused)
    assert inside(Interpreter(), lambda: call(X, Y))[0] == "fallback"
    assert inside(Interpreter(), lambda: entry(ADD, refused, False)(X, Y)).tolist() == (X + Y).tolist()
    assert call(X, Y).tolist() == (X + Y).tolist()


def test_errors_of_the_fallback_are_raised() -> None:
    def fail(*args: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        entry(ADD, fail)(X)


def test_reference_counts_are_balanced() -> None:
    x, y = nc.tensor([1.0, 2.0, 3.0]), nc.tensor([1.0, 2.0, 3.0])
    several = entry(executable(lambda x, y: [x + y, (x * y).sum()], x, y), refused)
    one = entry(ADD, refused)
    one(x, y), several(x, y), one(x)
    watched = [x, y, x.content, y.content, x.type, None, nc.Tensor]

    def count() -> list[int]:
        gc.collect()
        return [sys.getrefcount(w) for w in watched]

    before, memory = count(), buffer.statistics().buffers
    for _ in range(1000):
        one(x, y), several(x, y), one(x)
    after = count()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)
    assert buffer.statistics().buffers == memory


def test_exhausted_memory_frees_everything() -> None:
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


def test_results_may_reuse_the_memory_of_an_operand() -> None:
    f = executable(lambda x, y: [x + y], X, Y)
    call = entry(f, refused, True, {0: 0})
    x = X + 0
    z = call(x, Y)
    assert z.content is x.content and z.tolist() == (X + Y).tolist()


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


# ---- views


def test_a_view_is_the_same_memory_with_another_layout() -> None:
    x = nc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    turned = x.T
    call = view_entry(x.type, turned, refused)
    y = call(x)
    assert y.content is x.content and y.layout is turned.layout and y.type is turned.type and y.node is None
    assert y.tolist() == turned.tolist()
    for odd in (
        turned,
        x.astype(nc.float64),
        nc.ones((3,)),
        1.0,
        x.numpy(),
        make(x.type, x.content, None, Leaf(0)),
        make(x.type, None),
        None,
    ):
        assert call(odd)[0] == "fallback"
    assert call(x, x)[0] == "fallback" and call()[0] == "fallback"


def test_operands_may_be_views_whose_strides_are_compiled() -> None:
    x = nc.tensor(np.arange(24.0).reshape(4, 6))
    kinds = [x[1:3, ::2], x[2:4, ::2], x[0:2, 1::2]]
    strides = [kinds[0].layout.strides, (3, 1)]
    graph = stage(lambda a, b: [a * 10 + b], [kinds[0].type] * 2).graph
    call = entry(compile_graph(graph, strides).executable, refused, strided=True)
    b = nc.tensor(np.arange(6.0).reshape(2, 3))
    for view in kinds:
        np.testing.assert_array_equal(call(view, b).numpy(), view.numpy() * 10 + b.numpy())


# ---- recording


def tracked(*numbers: float, level: int = 0) -> Any:
    x = nc.tensor(numbers)
    x.node = Leaf(level)
    return x


def recording(f: Any, rule: Any) -> tuple[Any, Recording]:
    made = Recording(2, rule)
    return entry(executable(f, X, Y), made.fallback(refused), made), made


RULES = {
    "keeps nothing": lambda x, y: [x + y],
    "keeps operands": lambda x, y: [x * y],
    "keeps one": lambda x, y: [x * nc.exp(y)],
}


@pytest.mark.parametrize("f", RULES.values(), ids=RULES)
def test_nodes_are_those_of_the_tape(f: Any) -> None:
    graph = stage(lambda x, y: list(f(x, y)), [X.type, Y.type]).graph
    call, _ = recording(f, lambda active: fused_rule(graph, active))
    a, b = tracked(1.0, 2.0, 3.0), tracked(-1.0, 0.5, 2.0)
    for xs in ((a, Y), (X, b), (a, b), (a, a)):
        if xs[0] is not xs[1]:
            assert call(*xs)[0] == "fallback"  # which learns the rule
        one, two = call(*xs), call(*xs)
        rule = one.node.rule
        assert one.node.level == 0 and one.node.number < two.node.number and type(one.node.number) is int
        assert list(one.node.parents) == [x.node for x in xs if x.node is not None]
        assert list(one.node.saved) == [xs[k] for k in rule.saved]
        assert rule is two.node.rule and rule.active == tuple(k for k, x in enumerate(xs) if x.node is not None)
        assert not one.node.released and one.tolist() == f(X * 0 + xs[0].detach(), xs[1].detach())[0].tolist()
        for x in (a, b):
            x.grad = None
        one.sum().backward()
        found = [x.grad.tolist() for x in xs if x.node is not None]
        for x in (a, b):
            x.grad = None
        f(*xs)[0].sum().backward()
        assert found == [x.grad.tolist() for x in xs if x.node is not None]
    assert call(X, Y).node is None


def test_a_saved_result_has_no_node() -> None:
    made = Recording(1, lambda active: rule_for(primitive_named("exp"), {}, (X.type,), active))
    call = entry(executable(lambda x: [nc.exp(x)], X), made.fallback(refused), made)
    x = tracked(0.0, 1.0, 2.0)
    call(x)
    y = call(x)
    (kept,) = y.node.saved
    assert kept is not y and kept.content is y.content and kept.node is None and kept.layout is None
    watch = weakref.ref(y.node)
    del y, kept
    assert watch() is None  # no cycle


def test_operations_that_are_not_recorded() -> None:
    asked: list[Any] = []
    call, _ = recording(lambda x, y: [x + y], lambda active: asked.append(active))
    x = tracked(1.0, 2.0, 3.0)
    assert call(x, Y)[0] == "fallback" and asked == [(0,)]
    assert call(x, Y).node is None and asked == [(0,)]  # a rule of None: no result depends on it
    with gradients(False):
        assert call(Y, x).node is None
        with gradients(True):
            assert call(Y, x)[0] == "fallback" and asked == [(0,), (1,)]
    above = tracked(1.0, 2.0, 3.0, level=1)
    assert call(above, Y)[0] == "fallback" and call(x, above)[0] == "fallback" and len(asked) == 2
    assert inside(Quiet(), lambda: call(X, Y))[0] == "fallback"


class Quiet:
    level, dynamic = 1, False

    def process(self, *args: Any) -> Any:
        raise AssertionError


def test_each_thread_has_its_own_recording() -> None:
    graph = stage(lambda x, y: [x + y], [X.type, Y.type]).graph
    call, _ = recording(lambda x, y: [x + y], lambda active: fused_rule(graph, active))
    x = tracked(1.0, 2.0, 3.0)
    call(x, Y)
    faults: list[object] = []
    begin = threading.Barrier(4)

    def work(recorded: bool) -> None:
        begin.wait(20)
        for _ in range(300):
            with gradients(recorded):
                for _ in range(5):
                    y = call(x, Y)
                    if type(y) is nc.Tensor and (y.node is not None) is not recorded:  # otherwise Python decides
                        faults.append(y)

    threads = [threading.Thread(target=work, args=(k % 2 == 0,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults and list(state.SILENT) == [0, 0]


def test_reference_counts_of_records_are_balanced() -> None:
    graph = stage(lambda x, y: [x * y], [X.type, Y.type]).graph
    call, _ = recording(lambda x, y: [x * y], lambda active: fused_rule(graph, active))
    exp = Recording(1, lambda active: rule_for(primitive_named("exp"), {}, (X.type,), active))
    keeps = entry(executable(lambda x: [nc.exp(x)], X), exp.fallback(refused), exp)
    flip = view_entry(X.type, X[::-1], refused)
    x = tracked(1.0, 2.0, 3.0)
    for f in (lambda: call(x, Y), lambda: keeps(x), lambda: flip(X)):
        f()
    rule = call(x, Y).node.rule
    layout = flip(X).layout
    watched = [x, Y, X, x.content, x.node, rule, TapeNode, layout, X.type, nc.Tensor, None]

    def count() -> list[int]:
        gc.collect()
        return [sys.getrefcount(w) for w in watched]

    before, memory = count(), buffer.statistics().buffers
    for _ in range(1000):
        call(x, Y), keeps(x), flip(X)
    after = count()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (before, after)
    assert buffer.statistics().buffers == memory
