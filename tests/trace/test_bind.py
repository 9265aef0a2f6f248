"""`bind` passes an equation to the innermost interpreter concerned."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from nacre.base.errors import StateError
from nacre.base.state import STATE
from nacre.interpret.evaluate import from_numpy
from nacre.ir.primitive import primitive_named
from nacre.trace import bind as binding
from nacre.trace.bind import ACTIVE, bind, executor, inside, next_level, register_executor
from nacre.trace.modes import gradients
from nacre.trace.value import Payload, Value, make
from nacre.trace.variable import Leaf


class Recorder:
    """An interpreter that records the equations it receives."""

    def __init__(self, dynamic: bool = False) -> None:
        self.level, self.dynamic = next_level(), dynamic
        self.asked: list[str] = []

    def process(self, primitive: Any, inputs: Any, params: Any) -> Any:
        self.asked.append(primitive.name)
        return inputs[0]

    def value(self, x: Value) -> Value:
        held = Payload()
        held.level, held.interpreter = self.level, self
        return make(x.type, held)


X = from_numpy(np.ones(3, np.float32))


def test_plain_values_are_evaluated() -> None:
    y = bind(primitive_named("add"), X, X)
    assert y.content is not X.content and STATE.word == 0


def test_the_innermost_interpreter_of_the_operands_decides() -> None:
    outer = Recorder()

    def nested() -> Recorder:
        inner = Recorder()

        def apply() -> None:
            bind(primitive_named("add"), outer.value(X), X)
            bind(primitive_named("mul"), outer.value(X), inner.value(X))
            bind(primitive_named("sub"), X, X)

        inside(inner, apply)
        return inner

    inner = inside(outer, nested)
    assert (outer.asked, inner.asked) == (["add"], ["mul"])


def test_staging_takes_everything_up_to_its_level() -> None:
    below = Recorder()

    def staged() -> Recorder:
        bind(primitive_named("add"), X, X)
        bind(primitive_named("mul"), below.value(X), X)
        above = Recorder()
        inside(above, lambda: bind(primitive_named("sub"), above.value(X), X))
        return above

    def nested() -> tuple[Recorder, Recorder]:
        staging = Recorder(dynamic=True)
        return staging, inside(staging, staged)

    staging, above = inside(below, nested)
    assert staging.asked == ["add", "mul"] and below.asked == [] and above.asked == ["sub"]


def test_nodes_count_only_while_gradients_are_recorded() -> None:
    tracked = make(X.type, X.content, None, Leaf(0))
    assert bind(primitive_named("add"), tracked, X).node is not None
    with gradients(False):
        assert bind(primitive_named("add"), tracked, X).node is None


def test_errors_restore_the_stack_of_interpreters() -> None:
    def fail() -> None:
        assert (len(STATE.interpreters), STATE.word, ACTIVE.value) == (2, 2, 2)
        raise KeyError

    with pytest.raises(KeyError):
        inside(Recorder(), lambda: inside(Recorder(), fail))
    assert (STATE.interpreters, STATE.word, ACTIVE.value) == ([], 0, 0)


def test_interpreters_of_all_threads_are_counted() -> None:
    entered, leave = threading.Barrier(9), threading.Event()

    def work() -> None:
        inside(Recorder(), lambda: (entered.wait(20), leave.wait(20)))
        for _ in range(300):
            inside(Recorder(), lambda: inside(Recorder(), lambda: None))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    entered.wait(20)
    assert ACTIVE.value == 8 and STATE.word == 0
    leave.set()
    for t in threads:
        t.join()
    assert ACTIVE.value == 0


def test_an_executor_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    held = executor()
    monkeypatch.setattr(binding, "PARTS", binding._Parts())
    with pytest.raises(StateError, match="import nacre"):
        executor()
    register_executor(held)
    assert executor() is held
