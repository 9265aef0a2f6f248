"""Calls of native entries, each with the objects that it must leave as they were, for tests of memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import nacre as nc
from nacre import nn, optim
from nacre.base import tree
from nacre.interpret.tape import TapeNode
from nacre.trace.value import Layout
from nacre.trace.variable import Variable


@dataclass
class Case:
    """A call, and what it refers to."""

    call: Callable[[], Any]
    watched: Sequence[Any]  # objects whose references are counted
    variables: Sequence[Variable] = ()  # which have other numbers after a call
    prepare: Callable[[], Any] | None = None  # before each call
    each: bool = True  # whether many calls need it before each, too
    start: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def __post_init__(self) -> None:
        self.start = [v.value.numpy().copy() for v in self.variables]

    def begin(self) -> None:
        """Give the variables the numbers of the start, in memory that is only theirs."""
        for v, numbers in zip(self.variables, self.start, strict=True):
            v.hold(nc.tensor(numbers.copy()))
        if self.prepare is not None:
            self.prepare()

    def state(self) -> list[bytes]:
        """The numbers of the variables."""
        return [v.value.numpy().tobytes() for v in self.variables]


def bits(result: Any) -> list[bytes]:
    """The numbers of a result."""
    return [x.numpy().tobytes() if isinstance(x, nc.Tensor) else repr(x).encode() for x in tree.flatten(result)[0]]


def collect() -> None:
    """Free what nothing refers to, and what CPython's caches have: free objects, and names of attributes.

    The cache of attributes has 4,096 places, chosen by the address of the name; NumPy makes a name for each access.
    """
    gc.collect()
    sys._clear_type_cache()


def tensor(*shape: int) -> Any:
    return nc.tensor(np.random.default_rng(sum(shape)).random(shape, np.float32))


def objects(*xs: Any) -> list[Any]:
    """Tensors with what is theirs, and what all calls refer to."""
    parts = [part for x in xs for part in (x, x.type, x.content)]
    return [*parts, nc.Tensor, type(xs[0].content), TapeNode, Layout, None, True]


def one_result() -> Case:
    x = tensor(3, 4)
    return Case(lambda: x + x, objects(x))


def one_large_result() -> Case:
    x = tensor(300, 400)
    return Case(lambda: x + x, objects(x))


def several_results() -> Case:
    x, y = tensor(3, 4), tensor(3, 4)
    f = nc.jit(lambda x, y: (x + y, x * y, (x - y).sum()))
    return Case(lambda: f(x, y), objects(x, y))


def results_in_a_dict() -> Case:
    x = tensor(3, 4)
    f = nc.jit(lambda x: {"a": x + 1, "b": [x * 2, x.sum()]})
    return Case(lambda: f(x), objects(x))


def a_view() -> Case:
    x = tensor(3, 4)
    return Case(lambda: x.T, [*objects(x), x.T.layout])


def a_reshaped_view() -> Case:
    x = tensor(3, 4)
    return Case(lambda: x.reshape((4, 3)), objects(x))


def an_operand_that_is_a_view() -> Case:
    x = tensor(3, 4)
    y = x.T
    return Case(lambda: y * y, [*objects(x, y), y.layout])


def leaf(*shape: int) -> Any:
    x = tensor(*shape)
    x.requires_grad_()
    return x


def a_record() -> Case:
    w = leaf(3, 4)
    return Case(lambda: w * w, [*objects(w), w.node])


def a_record_of_the_result() -> Case:
    w = leaf(3, 4)
    return Case(lambda: nc.exp(w), [*objects(w), w.node])


def a_record_of_a_view() -> Case:
    w = leaf(3, 4)
    return Case(lambda: w.T, [*objects(w), w.node])


def backward() -> Case:
    w = leaf(3, 4)

    def call() -> Any:
        w.grad = None
        (w * w).sum().backward()
        return w.grad

    return Case(call, [*objects(w), w.node])


def a_jitted_call() -> Case:
    x, y = tensor(3, 4), tensor(4, 5)
    f = nc.jit(lambda x, y: nc.tanh(x @ y))
    return Case(lambda: f(x, y), objects(x, y))


def a_long_jitted_call() -> Case:
    """One that has a workspace of its own and releases the interpreter lock."""
    x = tensor(200, 200)
    f = nc.jit(lambda x: nc.cumulative_sum(x @ x, axis=0) @ x)
    return Case(lambda: f(x), objects(x))


def packed_operands() -> Case:
    """One whose weights are packed at every second call, because they change."""
    x, ws = tensor(64, 128), [tensor(128, 256), tensor(128, 256) + 1]
    f = nc.jit(lambda x, w: x @ w)

    def call() -> Any:
        return f(x, ws[0])

    def prepare() -> None:
        f(x, ws[1])
        f(x, ws[0])

    return Case(call, objects(x, *ws), prepare=prepare, each=False)


def a_gradient() -> Case:
    x = tensor(3, 4)
    f = nc.jit(nc.value_and_grad(lambda x: (x * nc.exp(x)).sum()))
    return Case(lambda: f(x), objects(x))


def an_update() -> Case:
    """An update of a variable in its own memory."""
    v, x = Variable(tensor(3, 4)), tensor(3, 4)

    def add(x: Any) -> None:
        v.assign(v.value + x)

    f = nc.jit(add)
    return Case(lambda: f(x), [*objects(x), v], [v])


def an_update_with_results() -> Case:
    v, u, x = Variable(tensor(3, 4)), Variable(tensor(4)), tensor(3, 4)

    def add(x: Any) -> Any:
        v.assign(v.value + x)
        u.assign(u.value * 2 + x.sum(axis=0))
        return x * 3, u.value + 1

    f = nc.jit(add)
    return Case(lambda: f(x), [*objects(x), v, u], [v, u])


def an_update_with_a_dict() -> Case:
    v, x = Variable(tensor(3, 4)), tensor(3, 4)

    def add(x: Any) -> Any:
        v.assign(v.value + x)
        return {"a": x * 3, "b": x.sum()}

    f = nc.jit(add)
    return Case(lambda: f(x), [*objects(x), v], [v])


def a_training_step() -> Case:
    nc.random.seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x, y = tensor(6, 8), tensor(6, 4)

    @nc.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step(x, y)
    variables = step.concrete(x, y).variable_outputs
    return Case(lambda: step(x, y), [*objects(x, y), *variables, model, optimizer], variables)


def a_checked_index() -> Case:
    x, i = tensor(8, 4), nc.tensor(np.array([1, -3]))
    f = nc.jit(lambda x, i: x[i])
    return Case(lambda: f(x, i), objects(x, i))


def a_failed_check() -> Case:
    v, i = Variable(tensor(8, 4)), nc.tensor(np.array([1, 9]))

    def add(i: Any) -> Any:
        v.assign(v.value + 1)
        return v.value[i]

    f = nc.jit(add)

    def call() -> str:
        try:
            return str(f(i))
        except nc.AxisError as error:
            return str(error)

    return Case(call, [*objects(i), v])


def a_host_call() -> Case:
    x = tensor(3, 4)
    f = nc.jit(lambda x: nc.host_call(lambda y: y.numpy() + 1, x.type, x * 2) * 3)
    return Case(lambda: f(x), objects(x))


def a_host_call_in_an_update() -> Case:
    v, x = Variable(tensor(3, 4)), tensor(3, 4)

    def add(x: Any) -> Any:
        y = nc.host_call(lambda y: y.numpy() + 1, x.type, x * 2)
        v.assign(v.value + y)
        return y

    f = nc.jit(add)
    return Case(lambda: f(x), [*objects(x), v], [v])


def a_donated_argument() -> Case:
    x, given = tensor(3, 4), list[Any]()
    f = nc.jit(lambda old, x: old * 2 + x, donate=("old",))

    def prepare() -> None:
        given[:] = [tensor(3, 4)]

    return Case(lambda: f(given.pop(), x), objects(x), prepare=prepare)


def a_change_in_place() -> Case:
    x, given = tensor(4), list[Any]()

    def prepare() -> None:
        given[:] = [tensor(3, 4)]

    def call() -> Any:
        given[0][1] = x
        return given[0]

    return Case(call, objects(x), prepare=prepare)


CASES: Final[Sequence[Callable[[], Case]]] = (
    one_result,
    one_large_result,
    several_results,
    results_in_a_dict,
    a_view,
    a_reshaped_view,
    an_operand_that_is_a_view,
    a_record,
    a_record_of_the_result,
    a_record_of_a_view,
    backward,
    a_jitted_call,
    a_long_jitted_call,
    packed_operands,
    a_gradient,
    an_update,
    an_update_with_results,
    an_update_with_a_dict,
    a_training_step,
    a_checked_index,
    a_failed_check,
    a_host_call,
    a_host_call_in_an_update,
    a_donated_argument,
    a_change_in_place,
)
BY_NAME: Final = {case.__name__: case for case in CASES}
