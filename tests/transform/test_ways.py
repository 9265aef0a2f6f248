"""A jitted call has two ways, native and Python: what each needs, and which one answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.trace.variable import Variable
from nacre.transform import direct, ownership
from nacre.transform.concrete import ConcreteFunction
from nacre.transform.jit import Jitted

X = nc.tensor([1.0, 2.0, 3.0])

Made = list[str]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The native functions that are made for jitted functions."""
    found: Made = []

    def counted(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: (found.append(name), make(*args, **kwargs))[1]

    for module in (direct, ownership):
        monkeypatch.setattr(module, "entry", counted("program", module.entry))
    monkeypatch.setattr(direct, "step_entry", counted("step", direct.step_entry))
    return found


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions whose calls took the Python way."""
    names: list[str] = []
    in_python = Jitted._in_python

    def noted(self: Jitted, concrete: ConcreteFunction, *values: Any) -> Any:
        names.append(self.name)
        return in_python(self, concrete, *values)

    monkeypatch.setattr(Jitted, "_in_python", noted)
    return names


def counter() -> tuple[Variable, Any]:
    total = Variable(nc.zeros(3))

    @nc.jit
    def count(x: nc.Tensor) -> nc.Tensor:
        total.assign(total.value + x)
        return total.value * 2

    return total, count


def test_a_function_of_tensors_has_one_native_function(made: Made, python: list[str]) -> None:
    f = nc.jit(lambda x: x * 2 + 1)
    for _ in range(3):
        assert f(X).tolist() == [3.0, 5.0, 7.0]
    assert made == ["program"] and python == []
    (concrete,) = f.concrete_functions
    assert f.only is concrete.native and concrete.flat and concrete.in_place is None


def test_a_function_of_variables_has_a_program_and_one_native_function_around_it(made: Made, python: list[str]) -> None:
    total, count = counter()
    for k in range(1, 4):
        assert count(X).tolist() == [2.0 * k, 4.0 * k, 6.0 * k]
    assert made == ["program", "step"] and python == []
    (concrete,) = count.concrete_functions
    assert concrete.in_place is not None and concrete.in_place.variables == (total,)


def test_structured_arguments_have_the_native_way_behind_their_signature(made: Made, python: list[str]) -> None:
    f = nc.jit(lambda state: {"x": state["x"] + 1, "y": state["y"]})
    for _ in range(3):
        assert f({"x": X, "y": X})["x"].tolist() == [2.0, 3.0, 4.0]
    assert made == ["program", "step"] and python == [] and f.only is None


def test_donated_arguments_have_the_python_way_alone(made: Made, python: list[str]) -> None:
    f = nc.jit(lambda x, y: x + y, donate=("x",))
    for _ in range(3):
        x = X * 1.0
        place = x.content.address
        assert f(x, X).content.address == place
        with pytest.raises(nc.StateError, match="donated"):
            _ = x + 1
    assert made == ["program"] and python == ["<lambda>"] * 3
    (concrete,) = f.concrete_functions
    assert concrete.native is None and concrete.overwritten == {0: 0}


def test_one_decision_serves_calls_and_the_memory_that_is_reported() -> None:
    total, count = counter()
    (concrete,) = [count.concrete(X)]
    assert concrete.in_place is not None
    before = concrete.in_place
    assert count.memory(X).outputs == 12 and count.prepare(X).in_place == dict(before.overwritten)
    assert concrete.in_place is before and concrete.overwritten == dict(before.overwritten)
    count(X)
    place = total.cell.content.address
    count(X)
    assert total.cell.content.address == place


def test_sizes_of_a_call_overwrite_nothing_and_are_reported_so() -> None:
    total = Variable(nc.zeros(3))

    def count(x: nc.Tensor) -> nc.Tensor:
        total.assign(total.value + nc.sum(x))
        return nc.sum(x)

    f = nc.jit(count, dynamic_shapes={"x": {0: nc.Dim("n", max=8)}})
    assert f(X).item() == 6.0 and f(X[:2]).item() == 3.0 and total.value.tolist() == [9.0] * 3
    assert f.concrete(X).overwritten == {} and f.memory(X).outputs == 4 + 12


def test_a_shared_value_takes_the_python_way_and_keeps_its_numbers(python: list[str]) -> None:
    total, count = counter()
    count(X), count(X)
    held = total.value
    assert python == []
    assert count(X).tolist() == [6.0, 12.0, 18.0] and held.tolist() == [2.0, 4.0, 6.0]
    assert python == ["count"]


def test_arrays_and_views_are_made_plain_for_the_native_way(python: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    f = nc.jit(lambda x: x * 2)
    f(X)
    monkeypatch.setattr(Jitted, "slow", None)
    for x in (X.numpy(), nc.tensor([1.0, 9.0, 2.0, 9.0, 3.0])[::2]):
        assert f(x).tolist() == [2.0, 4.0, 6.0]
    assert python == []


def test_values_with_nodes_are_plain_where_nothing_is_recorded() -> None:
    total, count = counter()
    p = nc.tensor([1.0, 2.0, 3.0]).requires_grad_()
    with nc.no_grad():
        for k in range(1, 4):
            y = count(p)
            assert y.node is None and y.tolist() == [2.0 * k, 4.0 * k, 6.0 * k]
    assert total.value.node is None


def test_a_change_of_an_argument_that_is_a_view_reaches_the_callers_tensor(python: list[str]) -> None:
    @nc.jit
    def write(x: nc.Tensor) -> None:
        x[0] = 9.0

    for _ in range(2):
        x = nc.tensor([[1.0, 2.0], [3.0, 4.0]]).T
        write(x)
        assert np.array_equal(x, [[9.0, 9.0], [2.0, 4.0]])
    assert len(python) == 2


class Restless(nn.Module):
    """A module whose own attribute differs after each trace."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(nc.ones(3))
        self.seen = 0

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        y = x * self.weight * (1 + 0 * self.seen)
        self.__dict__["seen"] = self.seen + 1
        return y


def test_a_function_whose_guards_never_hold_still_answers() -> None:
    model = Restless()
    f = nc.jit(lambda x: model(x))
    with nc.no_grad():
        for _ in range(3):
            assert f(X).tolist() == X.tolist()
