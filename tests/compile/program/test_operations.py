"""The cache of eager operations: one program and one entry for the types of a call, made at the first call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.types import TensorType
from nacre.compile.program import operations
from nacre.compile.program.executor import OPERATIONS
from nacre.compile.program.first_settings import MOST
from nacre.interpret.evaluate import from_numpy
from nacre.ops.pointwise import add, add_p
from nacre.ops.shape import reshape
from nacre.trace.bind import NATIVE, numerics

X = nc.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
B = nc.tensor([1.0, 2.0, 3.0])
ONES = nc.ones((3, 2))
HALF = nc.ones(3, dtype=nc.float16)

Made = list[str]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The names of the programs that eager operations build, from an empty cache on."""
    names: Made = []
    program = operations.program

    def counted(graph: Any, *layouts: Any) -> Any:
        names.append(graph.name)
        return program(graph, *layouts)

    monkeypatch.setattr(operations, "program", counted)
    OPERATIONS.forget()
    return names


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, b: x + x,
    "function": lambda x, b: nc.multiply(x, x),
    "broadcasting": lambda x, b: x - b,
    "promotion": lambda x, b: x + HALF,
    "many equations": lambda x, b: x // x,
    "no function of its own": lambda x, b: nc.remainder(x, b),
    "product": lambda x, b: x @ b,
    "one operand": lambda x, b: nc.tanh(x),
    "power": lambda x, b: x**x,
    "reduction": lambda x, b: nc.max(x, axis=1),
    "without operands": lambda x, b: nc.full((3, 5), 2.5),
    "comparison": lambda x, b: x < b,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("tracked", [False, True])
def test_the_first_call_of_types_builds_their_program_and_no_later_one(name: str, tracked: bool, made: Made) -> None:
    x, b = (copy(X).requires_grad_(), copy(B).requires_grad_()) if tracked else (X, B)
    made.clear()
    first = CALLS[name](x, b)
    assert len(made) == 1
    again = [CALLS[name](x, b) for _ in range(3)]
    assert len(made) == 1
    for y in again:
        assert np.array_equal(y.detach(), first.detach(), equal_nan=True)


def test_views_and_several_results_build_no_more_than_their_programs(made: Made) -> None:
    for _ in range(3):
        x = X.reshape(3, 2)
        _ = x.T, x[1:], nc.broadcast_to(B, (4, 3))
    assert made == []
    for _ in range(3):
        nc.sort(B)
    assert len(made) == len(set(made))


def test_an_operator_a_function_and_a_primitive_share_one_entry(made: Made) -> None:
    t = X.type
    _ = X + X, nc.add(X, X), add(X, X)
    assert made == ["add"]
    assert NATIVE["add", t, t] is NATIVE[add_p, t, t]
    assert [k for k in OPERATIONS.known if isinstance(k, tuple) and k[0] is add_p] == [(add_p, t, t)]


def test_each_pair_of_types_has_one_entry(made: Made) -> None:
    of = nc.ones(3), nc.ones(4), HALF, nc.ones(())
    for _ in range(2):
        for x in of:
            for y in of:
                if x.shape == y.shape or not y.shape:
                    _ = x + y, nc.add(x, y)
    keys = [k for k in NATIVE if isinstance(k, tuple) and k[0] == "add"]
    pairs = {(x.type, y.type) for x in of for y in of if x.shape == y.shape or not y.shape}
    assert len(keys) == len(pairs) and {k[1:] for k in keys} == pairs


def test_interpreters_use_the_program_of_an_eager_call(made: Made) -> None:
    expected = nc.tanh(X)
    assert made == ["tanh"]
    many = nc.vmap(lambda n: nc.tanh(X) * n)(nc.ones(2))
    assert np.array_equal(many[0], expected) and made.count("tanh") == 1
    _, slope = nc.value_and_grad(lambda x: nc.sum(nc.tanh(x)))(X)
    assert slope.shape == X.shape and made.count("tanh") == 1


def test_an_eager_call_uses_the_program_of_an_interpreter(made: Made) -> None:
    nc.vmap(lambda n: nc.tanh(X) * n)(nc.ones(2))
    assert made.count("tanh") == 1
    assert np.allclose(nc.tanh(X), np.tanh(X.numpy()))
    assert made.count("tanh") == 1


def test_types_that_come_as_views_build_only_their_strides(made: Made) -> None:
    x, y = ONES.T, X
    for _ in range(3):
        assert np.array_equal(x + y, X.numpy() + 1)
    assert made == ["add"]
    for _ in range(3):
        assert np.array_equal(X + y, X.numpy() * 2)
        assert np.array_equal(x + y, X.numpy() + 1)
    assert made == ["add", "add"]
    assert NATIVE["add", X.type, X.type] is NATIVE[add_p, X.type, X.type]


def test_broadcast_views_of_tensors_with_nodes_have_gradients(made: Made) -> None:
    for _ in range(3):
        p, b = X.T.requires_grad_(), nc.ones(2).requires_grad_()
        nc.sum((p + b) * p).backward()
        assert np.array_equal(p.grad, 2 * X.T.numpy() + 1) and np.array_equal(b.grad, X.numpy().sum(1))


def test_a_number_has_a_program_from_its_second_call_on(made: Made) -> None:
    for rate in (0.5, 0.25, 0.125):
        assert np.array_equal(X * rate, X.numpy() * rate)
    assert made == ["mul"] and not [k for k in NATIVE if isinstance(k, tuple) and 0.5 in k]
    for _ in range(3):
        assert np.array_equal(X * 0.5, X.numpy() / 2) and np.array_equal(0.5 - X, 0.5 - X.numpy())
    assert ("multiply", X.type, float, 0.5) in NATIVE and ("subtract", float, 0.5, X.type) in NATIVE
    assert len(made) == 4  # the product and difference with any number, then those with this one


CHANGING: dict[str, Callable[[int], Any]] = {
    "operator": lambda k: X * (0.5 + k),
    "right operand": lambda k: (0.5 + k) - X,
    "power": lambda k: X**k,
    "setting": lambda k: nc.std(X, correction=1.0 / (k + 1)),
    "place": lambda k: B[k % 3] * (k + 1.5),
}


@pytest.mark.parametrize("name", CHANGING)
def test_settings_that_keep_changing_make_a_bounded_number_of_programs(name: str, made: Made) -> None:
    call = CHANGING[name]
    first = [call(k).numpy() for k in range(MOST + 36)]
    for _ in range(2):
        assert all(np.array_equal(call(k).numpy(), y) for k, y in enumerate(first))
    assert len(made) <= 2 * MOST + 6  # of the function, and of the one that it calls


def test_modes_of_numerics_have_entries_of_their_own(made: Made) -> None:
    total = nc.sum(X)
    with numerics("fast"):
        for _ in range(3):
            assert nc.sum(X).item() == total.item()
    assert made == ["sum", "sum"]
    kinds = [k[-1] for k in OPERATIONS.known if isinstance(k, tuple) and k[0].name == "sum"]
    assert len(kinds) == 2 and kinds.count("fast") == 1


def test_threads_that_need_an_entry_build_it_once(made: Made) -> None:
    begin = threading.Barrier(6)
    found: list[Any] = []

    def work() -> None:
        begin.wait()
        found.append((X - B).tolist())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [(X.numpy() - B.numpy()).tolist()] * 6
    assert len([k for k in NATIVE if k == ("subtract", X.type, B.type)]) == 1
    nc.subtract(X, B)
    assert made.count("operator") == 1


def test_a_shape_that_does_not_fit_is_refused_whatever_came_before(made: Made) -> None:
    for sizes in ((3, 2), (3, 4), (3, 3), (4, 2)):
        assert reshape(from_numpy(np.ones(sizes)), (sizes[0] * sizes[1],)).type.shape == (sizes[0] * sizes[1],)
        with pytest.raises(nc.ShapeError, match=r"reshape: .* must have 6 elements"):
            reshape(from_numpy(np.ones((2, 3))), (4,))


@pytest.mark.parametrize("tracked", [False, True])
def test_a_function_is_its_program_while_another_thread_traces(tracked: bool, made: Made) -> None:
    begun, done = threading.Event(), threading.Event()

    @nc.jit
    def traced(x: Any) -> Any:
        begun.set()
        done.wait()
        return x

    x = copy(X).requires_grad_(tracked)
    alone = nc.nn.functional.relu(x), nc.nn.functional.softmax(x)
    count = len(made)
    thread = threading.Thread(target=traced, args=(B,))
    thread.start()
    begun.wait()
    try:
        beside = nc.nn.functional.relu(x), nc.nn.functional.softmax(x)
        if tracked:
            beside[0].sum().backward()
    finally:
        done.set()
        thread.join()
    assert [y.tolist() for y in beside] == [y.tolist() for y in alone]
    assert [name for name in made[count:] if name in ("le", "select", "exp")] == []
    if tracked:
        assert x.grad.tolist() == [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("call", [lambda x, y: x + y, nc.add, lambda x, y: x @ y, lambda x, y: x // y])
def test_an_error_is_the_same_in_each_call(call: Callable[[Any, Any], Any], made: Made) -> None:
    texts: set[str] = set()
    other = nc.tensor(np.ones(5, np.float32))
    for _ in range(3):
        with pytest.raises(nc.ShapeError) as raised:
            call(X, other)
        assert raised.value.__context__ is None
        texts.add(str(raised.value))
    assert len(texts) == 1 and made == []


def test_types_without_their_own_program_still_have_a_target(made: Made) -> None:
    for _ in range(3):
        y = nc.positive(X)
        assert y is not X and np.array_equal(y, X)
    assert made == [] and ("positive", X.type) in NATIVE


def test_a_new_generation_begins_without_entries() -> None:
    _ = X + X, nc.sum(X), X.T + X.T, X * 2, X * 2
    assert NATIVE and OPERATIONS.known and OPERATIONS.numbers
    kept: TensorType = X.type
    OPERATIONS.forget()
    assert not NATIVE and not OPERATIONS.known and not OPERATIONS.numbers
    assert (X + X).type is kept
