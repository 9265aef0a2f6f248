"""Compiled checks raise what eager code raises, in the order of the program, and leave every variable as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.errors import ArgumentError, AxisError, Error
from nacre.native.pool import pool

F = nn.functional
X = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
SIGNED = (nc.int8, nc.int16, nc.int32, nc.int64)
UNSIGNED = (nc.uint8, nc.uint16, nc.uint32, nc.uint64)
LOGITS = nc.tensor(np.random.default_rng(1).random((2, 3), np.float32))


def outcome(f: Callable[..., Any], *args: Any) -> str:
    """The numbers of a result, or the error."""
    try:
        return str(nc.tree.map(lambda x: x.numpy().tolist(), f(*args)))
    except Error as error:
        return f"{type(error).__name__}: {error}"


READS: dict[str, tuple[Callable[[Any], Any], list[int], list[int]]] = {
    "index": (lambda i: X[i], [0, -5], [1, 5]),
    "index below": (lambda i: X[i], [0, 4], [-6, 0]),
    "several": (lambda i: nc.ones((4, 5))[i, i], [3, -4], [3, 4]),
    "take": (lambda i: nc.take(nc.ones((2, 3)), i, axis=1), [2, -3], [0, 3]),
    "along": (lambda i: nc.take_along_axis(X, i), [4, -5], [7, -8]),
    "embedding": (lambda i: F.embedding(i, X[:, None]), [0, 4], [4, -1]),
    "bag": (lambda i: F.embedding_bag(i[None], X[:, None]), [0, 4], [4, 5]),
    "one hot": (lambda i: F.one_hot(i, 3), [0, 2], [0, 3]),
    "cross entropy": (lambda i: F.cross_entropy(LOGITS, i), [0, -100], [3, -1]),
    "log likelihood": (lambda i: F.nll_loss(LOGITS, i), [2, -100], [-100, 3]),
    "margin": (lambda i: F.multi_margin_loss(LOGITS, i), [2, 0], [3, 0]),
}


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
@pytest.mark.parametrize("name", READS)
def test_compiled_code_raises_what_eager_code_raises(name: str, dtype: nc.DType) -> None:
    read, fine, wrong = READS[name]
    compiled = nc.jit(read)
    for numbers in (fine, wrong, fine, wrong, wrong):
        given = nc.tensor(np.array(numbers), dtype=dtype)
        wanted = outcome(read, given)
        assert wanted.startswith(("AxisError", "ArgumentError")) is (numbers is wrong)
        assert outcome(compiled, given) == wanted
    assert len(compiled.concrete_functions) == 1


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_numbers_without_a_sign_are_shown_whole(dtype: nc.DType) -> None:
    most = nc.tensor(np.array([1, np.iinfo(dtype.numpy).max], dtype.numpy))

    def read(i: Any) -> Any:
        return F.embedding(i, X[:, None])

    assert outcome(nc.jit(read), most) == outcome(read, most)
    assert str(np.iinfo(dtype.numpy).max) in outcome(read, most)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=str)
def test_the_first_of_many_indices(dtype: nc.DType) -> None:
    def read(i: Any) -> Any:
        return F.embedding(i, X[:, None]).sum(), X[i].sum()

    compiled, batched = nc.jit(read), nc.jit(nc.vmap(read))
    numbers = (np.arange(600) % 5).astype(dtype.numpy).reshape(20, 30)
    limits = np.iinfo(dtype.numpy)
    for places in ((), ((19, 29),), ((3, 7), (3, 8), (2, 29)), ((0, 0), (19, 1))):
        for wrong in (limits.max, 5, limits.min) if places else (0,):
            array = numbers.copy()
            for place in places:
                array[place] = wrong
            given = nc.tensor(array)
            assert outcome(compiled, given) == outcome(read, given)
            assert outcome(compiled, given.T) == outcome(read, given.T)
            assert ("Error" in outcome(batched, given)) is ("Error" in outcome(read, given))


def test_many_indices_in_branches() -> None:
    f = nc.vmap(lambda p, i: nc.cond(p, lambda i: X[i].sum(), lambda i: X[0], i))
    fine = np.arange(300).reshape(3, 100) % 5
    wrong = fine.copy()
    wrong[1, 60], wrong[2, 70] = 9, -8
    for way in (f, nc.jit(f)):
        assert way(nc.tensor([True, False, False]), nc.tensor(wrong)).tolist() == [200.0, 0.0, 0.0]
        for p, got in (([True, True, True], 9), ([False, False, True], -8)):
            assert outcome(way, nc.tensor(p), nc.tensor(wrong)).endswith(f"got {got}")


def test_shapes_of_indices() -> None:
    read = nc.jit(lambda i: X[i])
    for shape in ((), (1,), (3, 0), (2, 3), (2, 2, 2)):
        numbers = np.zeros(shape, np.int64)
        assert read(nc.tensor(numbers)).shape == shape
        if numbers.size:
            numbers.reshape(-1)[-1] = 5
            numbers.reshape(-1)[0] = 9 if numbers.size > 1 else 5
            assert outcome(read, nc.tensor(numbers)).endswith(f"got {numbers.reshape(-1)[0]}")


def test_indices_that_are_views() -> None:
    numbers = np.arange(12).reshape(3, 4) % 5
    numbers[2, 1], numbers[1, 0] = 8, 6
    read, given = nc.jit(lambda i: X[i.T[:, ::2]]), nc.tensor(numbers)
    assert outcome(read, given) == outcome(lambda i: X[i.T[:, ::2]], given)
    assert outcome(read, given).endswith("got 8")


# ---- order and variables


def test_the_first_check_of_the_program_reports() -> None:
    def both(i: Any, j: Any) -> Any:
        return X[j] + F.embedding(i, X[:, None])[:, 0]

    compiled = nc.jit(both)
    fine, wrong = nc.tensor([1]), nc.tensor([9])
    for i, j in ((fine, fine), (wrong, wrong), (fine, wrong), (wrong, fine)):
        assert outcome(compiled, i, j) == outcome(both, i, j)


def test_host_calls_before_a_check_have_happened() -> None:
    seen = list[float]()

    def note(x: Any) -> Any:
        seen.append(float(x))
        return x

    compiled = nc.jit(lambda i, j: [nc.host_call(note, X[0].type, X[k]) for k in (i, j)])
    for i, j, wanted in ((1, 2, [1.0, 2.0]), (3, 9, [3.0]), (9, 3, [])):
        seen.clear()
        outcome(compiled, nc.tensor(i), nc.tensor(j))
        assert seen == wanted


class Model(nn.Module):
    def __init__(self) -> None:
        self.table, self.last = nn.Embedding(50, 16), nn.Linear(16, 10)

    def forward(self, i: Any) -> Any:
        return self.last(self.table(i))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_training_step_changes_nothing_or_all(threads: int, divided: None) -> None:
    pool().set_threads(threads)
    nc.random.seed(0)
    model = Model()
    optimiser = optim.AdamW(model.parameters(), lr=0.01)

    @nc.jit
    def step(i: Any, y: Any) -> Any:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(i), y)
        loss.backward()
        optimiser.step()
        return loss

    def bits() -> list[bytes]:
        found = nc.tree.flatten([model.state_dict(), optimiser.state_dict()])[0]
        return [np.asarray(x).tobytes() for x in found]

    i, y = nc.tensor(np.arange(32)), nc.tensor(np.arange(32) % 10)
    losses = [float(step(i, y)) for _ in range(3)]
    assert step.concrete_functions[0].executable.plan.donations, "updates happen in place"
    before = bits()
    for wrong in ((i + 30, y), (i, y + 1), (i - 1, y - 1)):
        with pytest.raises((AxisError, ArgumentError)):
            step(*wrong)
        assert bits() == before
    assert float(step(i, y)) < min(losses)
    assert bits() != before


def test_updates_before_a_check_are_undone() -> None:
    v = nc.Variable(nc.zeros(4096))

    @nc.jit
    def update(i: Any) -> Any:
        v.assign(v.value + 1)
        return X[i]

    update(nc.tensor(1))
    with pytest.raises(AxisError):
        update(nc.tensor(7))
    assert (v.value.numpy() == 1).all()
    update(nc.tensor(-5))
    assert (v.value.numpy() == 2).all()


def test_a_donated_argument_stays_behind_an_error() -> None:
    change = nc.jit(lambda x, i: x * 2 + X[i], donate=("x",))
    x = nc.ones(4096)
    with pytest.raises(AxisError):
        change(x, nc.tensor(8))


# ---- transformations


def total(x: Any, i: Any) -> Any:
    return nc.sum(x[i] ** 2)


def recomputed(x: Any, i: Any) -> Any:
    return nc.sum(nc.checkpoint(lambda x: nc.sin(x[i]) ** 2)(x))


@pytest.mark.parametrize("f", [total, recomputed])
def test_derivatives(f: Callable[..., Any]) -> None:
    second = nc.grad(lambda x, i: nc.sum(nc.grad(f)(x, i) ** 2))
    for i in (nc.tensor([1, 1]), nc.tensor([1, 5])):
        for derivative in (nc.grad(f), second):
            assert outcome(nc.jit(derivative), X, i) == outcome(derivative, X, i)
    tangent = nc.jit(lambda x, i: nc.jvp(lambda x: f(x, i), (x,), (x,)))
    assert outcome(tangent, X, nc.tensor([1, 9])).startswith("AxisError")


def test_a_checkpoint_checks_once() -> None:
    f = nc.jit(nc.grad(lambda x, i: nc.sum(nc.checkpoint(lambda x: nc.sin(x[i]) ** 2)(x))))
    assert str(f.trace(X, nc.tensor([1, 2]))).count(" = check[") == 1


def chosen(p: Any, i: Any) -> Any:
    return nc.cond(p, lambda i: X[i], lambda i: nc.cos(X[0]), i)


def nested(p: Any, i: Any) -> Any:
    return nc.cond(p, lambda i: nc.cond(i >= 0, lambda i: X[i], lambda i: X[0] * 2, i), lambda i: X[0], i)


def looped(p: Any, i: Any) -> Any:
    def more(state: Any) -> Any:
        return state[0] < i

    def step(state: Any) -> Any:
        return state[0] + 1, state[1] + X[state[0]]

    return nc.cond(p, lambda: nc.while_loop(more, step, (nc.tensor(0), nc.tensor(0.0)))[1], lambda: nc.tensor(-1.0))


def scanned(p: Any, i: Any) -> Any:
    def summed(i: Any) -> Any:
        return nc.scan(lambda c, k: (c + X[k + i], None), nc.tensor(0.0), nc.arange(3))[0]

    return nc.cond(p, summed, lambda i: X[0], i)


def called(p: Any, i: Any) -> Any:
    inner = nc.jit(lambda i: X[i])
    return nc.cond(p, lambda i: inner(i) + nc.checkpoint(inner)(i), lambda i: X[0], i)


@pytest.mark.parametrize("f", [chosen, nested, looped, scanned, called])
def test_only_examples_that_take_a_branch_are_checked(f: Callable[[Any, Any], Any]) -> None:
    p = nc.tensor([True, False, True])
    each = nc.vmap(f)
    for numbers in ([1, 9, 2], [1, -9, 2], [9, 1, 2], [1, 1, 7], [0, 0, 0]):
        i = nc.tensor(numbers)
        one_by_one = [outcome(f, p[k], i[k]) for k in range(3)]
        error = next((o for o in one_by_one if "Error" in o), None)
        for way in (each, nc.jit(each), nc.vmap(nc.jit(f))):
            found = outcome(way, p, i)
            if error is None:
                assert found == "[" + ", ".join(one_by_one) + "]"
            else:
                assert found.startswith("AxisError: index: indices for axis 0 must be in [-5, 5)")
        assert outcome(nc.jit(f), p[0], i[0]) == one_by_one[0]


def test_an_index_that_no_example_has_of_its_own() -> None:
    f = nc.vmap(lambda p, i: nc.cond(p, lambda: X[i], lambda: X[0]), (0, None))
    for p in ([False, False], [False, True]):
        for i in (2, 8):
            wrong = p[1] and i == 8
            for way in (f, nc.jit(f)):
                assert outcome(way, nc.tensor(p), nc.tensor(i)).startswith("AxisError") is wrong


def test_batches_of_batches() -> None:
    p, fine = nc.tensor([[True, False], [True, True]]), nc.tensor([[1, 9], [2, -5]])
    f = nc.vmap(nc.vmap(chosen))
    assert outcome(nc.jit(f), p, fine) == outcome(f, p, fine) == str([[1.0, 1.0], [2.0, 0.0]])
    wrong = nc.tensor([[1, 9], [2, -9]])
    assert outcome(nc.jit(f), p, wrong) == outcome(f, p, wrong) == outcome(chosen, p[1, 1], wrong[1, 1])


@pytest.mark.parametrize("count", [5, 6])
def test_loops_stop_at_the_round_that_fails(count: int) -> None:
    seen = list[float]()

    def note(x: Any) -> None:
        seen.append(float(x))

    def body(k: Any, total: Any) -> Any:
        nc.host_call(note, None, total)
        return total + X[k]

    outcome(nc.jit(lambda: nc.fori_loop(0, count, body, nc.tensor(0.0))))
    assert seen == [0.0, 0.0, 1.0, 3.0, 6.0] + [10.0] * (count - 5)


def test_the_condition_of_a_loop() -> None:
    f = nc.jit(lambda n: nc.while_loop(lambda k: X[k] < n, lambda k: k + 1, nc.tensor(0)))
    assert int(f(nc.tensor(3.0))) == 3
    assert outcome(f, nc.tensor(100.0)).startswith("AxisError")
    each = nc.jit(nc.vmap(lambda n: nc.while_loop(lambda k: X[k] < n, lambda k: k + 1, nc.tensor(0))))
    assert each(nc.tensor([3.0, 4.0, 0.0])).tolist() == [3, 4, 0]
    assert outcome(each, nc.tensor([3.0, 100.0])).startswith("AxisError")


def test_an_index_that_depends_on_earlier_rounds() -> None:
    follow = nc.jit(lambda next: nc.scan(lambda k, _: (next[k], k), nc.tensor(0), length=4))
    assert follow(nc.tensor([2, 0, 1]))[1].tolist() == [0, 2, 1, 0]
    assert outcome(follow, nc.tensor([2, 0, 7])).endswith("got 7")


def test_symbolic_sizes() -> None:
    read = nc.jit(lambda x, i: x[i] * 2, dynamic_shapes={"x": {0: nc.Dim("n", min=1)}, "i": {0: nc.Dim("m", min=0)}})
    for n in (2, 5):
        for numbers in ([], [n - 1, -n], [0, n], [-n - 1]):
            i = nc.tensor(np.array(numbers, np.int64))
            assert outcome(read, X[:n], i) == outcome(lambda x, i: x[i] * 2, X[:n], i)


def test_captured_indices_are_checked_in_each_call() -> None:
    i = nc.tensor([1, -2])
    read = nc.jit(lambda x: x[i])
    assert read(X).tolist() == [1.0, 3.0]
    i[0] = -1
    assert read(X).tolist() == [4.0, 3.0]
    i[1] = 7
    with pytest.raises(AxisError, match="got 7"):
        read(X)
    array = np.array([0, 1])
    read = nc.jit(lambda x: x[array])
    assert read(X).tolist() == [0.0, 1.0]
    array[0] = -3
    assert read(X).tolist() == [2.0, 1.0]
    array[0] = 12
    with pytest.raises(AxisError, match="got 12"):
        read(X)


@pytest.mark.parametrize("wrong", [9, [9], [[1, -6]]])
def test_known_indices_are_refused_where_they_are_used(wrong: Any) -> None:
    held = nc.tensor(np.array(wrong))
    with pytest.raises(AxisError, match="got"):
        nc.jit(lambda x: x[np.array(wrong)])(X)
    for way in (lambda f: f, nc.jit):
        f = way(lambda p: nc.cond(p, lambda: X[held].sum(), lambda: X[0]))
        assert float(f(nc.tensor(False))) == 0
        with pytest.raises(AxisError, match="got"):
            f(nc.tensor(True))
    assert "check" not in str(nc.jit(lambda x: x[[1, -2]]).trace(X))


def test_unpooling_and_ctc() -> None:
    x = nc.ones((1, 1, 2, 2))
    places = nc.tensor([[[[0, 3], [8, 10]]]])
    f = nc.jit(lambda i: F.max_unpool2d(x, i, 2))
    assert f(places).shape == (1, 1, 4, 4)
    wrong = nc.tensor([[[[0, 3], [8, 16]]]])
    assert outcome(f, wrong) == outcome(lambda i: F.max_unpool2d(x, i, 2), wrong)
    logs = (
        nc.log_softmax(nc.ones((4, 1, 3)), axis=-1) if hasattr(nc, "log_softmax") else F.log_softmax(nc.ones((4, 1, 3)))
    )

    def loss(targets: Any, frames: Any, sizes: Any) -> Any:
        return F.ctc_loss(logs, targets, frames, sizes)

    for given in (([[1, 2]], [4], [2]), ([[1, 3]], [4], [2]), ([[1, 2]], [5], [2]), ([[1, 2]], [4], [3])):
        args = [nc.tensor(np.array(g)) for g in given]
        assert outcome(nc.jit(loss), *args) == outcome(loss, *args)
