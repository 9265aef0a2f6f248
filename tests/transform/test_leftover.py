"""Values that a function stores while it is traced are returned whole, or refused at the line."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

import nacre as nc
from nacre import nn


@dataclass
class Point:
    x: Any
    name: str = "point"


@dataclass(frozen=True, slots=True)
class Scaled:
    x: Any
    twice: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.x * 2)


@dataclass
class Weights:
    w: nn.Parameter
    b: nc.Tensor


X = nc.tensor([1.0, 2.0])


# ---- dataclasses


@pytest.mark.parametrize("times", [1, 3])
def test_compiled_functions_return_dataclasses(times: int) -> None:
    f = nc.jit(lambda x: (Point(x * 2, "out"), Scaled(x + 1), [Point(Point(x))]))
    for _ in range(times):
        point, scaled, (outer,) = f(X)
    assert point.name == "out" and (point.x + 1).tolist() == [3.0, 5.0]
    assert scaled.x.tolist() == [2.0, 3.0] and scaled.twice.tolist() == [4.0, 6.0]
    assert outer.x.x.tolist() == [1.0, 2.0]


def test_compiled_functions_accept_dataclasses() -> None:
    f = nc.jit(lambda p: p.x * (2 if p.name == "point" else 3))
    assert f(Point(X)).tolist() == [2.0, 4.0] and f(Point(X, "other")).tolist() == [3.0, 6.0]
    assert f(Point(X + 1)).tolist() == [4.0, 6.0] and len(f.concrete_functions) == 2
    assert nc.jit(lambda s: s.x + s.twice)(Scaled(X)).tolist() == [3.0, 6.0]


def test_derivatives_with_respect_to_dataclasses() -> None:
    scaled = nc.grad(lambda s: nc.sum(s.x**2 + s.twice))(Scaled(X))
    assert isinstance(scaled, Scaled) and scaled.x.tolist() == [2.0, 4.0] and scaled.twice.tolist() == [1.0, 1.0]
    weights = Weights(nn.Parameter(X), X)
    found = nc.jit(nc.grad(lambda v: nc.sum(v.w**2 * v.b)))(weights)
    assert found.w.tolist() == [2.0, 8.0] and found.b.tolist() == [1.0, 4.0]


def test_dataclasses_in_batches_and_loops() -> None:
    assert nc.vmap(lambda s: Scaled(s.twice))(Scaled(X)).x.tolist() == [2.0, 4.0]
    last, all_of_them = nc.scan(lambda s, x: (Scaled(s.x + x), s), Scaled(nc.tensor(0.0)), X)
    assert last.x.item() == 3.0 and all_of_them.twice.tolist() == [0.0, 2.0]
    assert nc.fori_loop(0, 3, lambda _, s: Scaled(s.twice), Scaled(nc.tensor(1.0))).x.item() == 8.0


# ---- results that hide tensors


class Output:
    def __init__(self, y: Any) -> None:
        self.y = y


class Slotted:
    __slots__ = ("y",)

    def __init__(self, y: Any) -> None:
        self.y = y


@pytest.mark.parametrize("wrap", [
    Output, Slotted, lambda y: OrderedDict(y=y), lambda y: deque([y]), lambda y: lambda: y,
    lambda y: functools.partial(print, y), lambda y: Output([y]), lambda y: {"a": (1, Output({"b": y}))},
])  # fmt: skip
def test_results_that_hide_tensors_are_refused(wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(nc.TraceError, match=r"that holds a traced tensor of type f32\[2\]"):
        nc.jit(lambda x: wrap(x * 2))(X)
    assert nc.jit(lambda x: (x * 2, wrap(3)))(X)[0].tolist() == [2.0, 4.0]


# ---- stored values


class Auxiliary(nn.Module):
    """A layer that stores a value for later, as in code ported from another library."""

    def __init__(self, clean: bool) -> None:
        self.clean, self.last = clean, None

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        self.last = {"sum": x.sum()}
        y = x * self.last["sum"]
        if self.clean:
            self.last = None
        return y


@pytest.mark.parametrize("nested", [False, True])
def test_an_attribute_with_a_traced_tensor_is_named(nested: bool) -> None:
    layer = Auxiliary(clean=False)
    f = nc.jit(lambda x: nc.jit(layer)(x) if nested else layer(x))
    with pytest.raises(nc.TraceError, match=r"got Auxiliary\.last, set at .*test_leftover\.py:\d+ \(forward\)"):
        f(X)
    assert layer.last is None
    assert layer(X).tolist() == [3.0, 6.0] and layer.last["sum"].item() == 3.0


def test_an_attribute_may_hold_a_traced_tensor_meanwhile() -> None:
    f = nc.jit(Auxiliary(clean=True))
    assert [f(X).tolist() for _ in range(3)] == [[3.0, 6.0]] * 3
    assert len(f.concrete_functions) == 1


_seen: Any = None


def test_names_that_refer_to_a_traced_tensor_are_reported() -> None:
    kept: list[Any] = []

    def to_a_list(x: nc.Tensor) -> nc.Tensor:
        kept.append(x * 2)
        return x

    def to_a_global(x: nc.Tensor) -> nc.Tensor:
        global _seen
        _seen = x + 1
        return x

    with pytest.raises(nc.TraceError, match="got kept, which holds"):
        nc.jit(to_a_list)(X)
    with pytest.raises(nc.TraceError, match="got _seen, which holds"):
        nc.jit(to_a_global)(X)
    with pytest.raises(nc.TraceError, match=r"left over from to_a_list.*made at .*test_leftover\.py:\d+"):
        kept[0] + 1


# ---- arguments that are changed


@pytest.mark.parametrize("change", [
    lambda d: d.update(a=d["a"] + 1), lambda d: d.pop("a"), lambda d: d["inner"].append(d["a"]),
    lambda d: setattr(d["point"], "x", d["a"] * 2), lambda d: d["inner"].__setitem__(0, d["a"] * 2),
])  # fmt: skip
def test_changes_to_containers_are_not_lost(change: Callable[[Any], Any]) -> None:
    def f(d: Any) -> Any:
        change(d)
        return X

    with pytest.raises(nc.TraceError, match="arguments must not be changed"):
        nc.jit(f)({"a": X, "inner": [X], "point": Point(X)})


def test_a_changed_container_may_be_returned() -> None:
    @nc.jit
    def f(state: dict[str, Any], x: nc.Tensor) -> Any:
        state["sum"] = state["sum"] + x
        return x, state

    state = {"sum": X}
    for _ in range(2):
        _, state = f(state, X)
    assert state["sum"].tolist() == [3.0, 6.0]


# ---- objects with traced tensors after the end of a trace


class Store:
    kept: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}


STORE = Store()


def remember(x: Any) -> None:
    STORE.values["x"] = x


class Keeping(nn.Module):
    seen: ClassVar[deque[Any]] = deque()

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.hist: list[Any] = []
        self.named: dict[str, list[Any]] = {"x": []}
        self.store = Store()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        if self.where == "list":
            self.hist.append(y)
        elif self.where == "dict of lists":
            self.named["x"].append(y)
        elif self.where == "object":
            self.store.values["y"] = y
        elif self.where == "class":
            self.seen.append(y)
        elif self.where == "class of an object":
            Store.kept.append(y)
        elif self.where == "function":
            remember(y)
        elif self.where == "inner function":
            (lambda: STORE.values.update(y=y))()
        return y


PLACES = {
    "list": "Keeping.hist",
    "dict of lists": "Keeping.named",
    "object": "Keeping.store",
    "class": "class Keeping",
    "class of an object": "Store|Keeping.store",
    "function": "STORE",
    "inner function": "STORE",
}


@pytest.fixture
def emptied() -> Iterator[None]:
    yield
    Store.kept.clear()
    STORE.values.clear()
    Keeping.seen.clear()


@pytest.mark.usefixtures("emptied")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", ["module", "called", "argument", "inside", "method"])
def test_traced_tensors_in_modules_are_refused(where: str, how: str) -> None:
    model, x = Keeping(where), nc.ones((1, 2))
    outer = nn.Sequential(nn.Identity(), model)
    with pytest.raises(nc.TraceError, match=PLACES[where]):
        if how == "module":
            nc.jit(model)(x)
        elif how == "called":
            nc.jit(lambda x: model(x) * 2)(x)
        elif how == "argument":
            nc.jit(lambda m, x: m(x))(model, x)
        elif how == "inside":
            nc.jit(lambda x: outer(x) + 1)(x)
        else:
            nc.jit(model.forward)(x)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_traced_tensors_in_hooks_are_refused(kind: str) -> None:
    model, store = nn.Sequential(nn.Linear(2, 2)), dict[str, Any]()

    def hook(module: Any, args: Any, result: Any = None) -> None:
        store["h"] = args[0]

    layer = model[0]
    layer.register_forward_pre_hook(hook) if kind == "before" else layer.register_forward_hook(hook)
    with pytest.raises(nc.TraceError, match="store"):
        nc.jit(model)(nc.ones((1, 2)))


def test_concrete_values_may_remain() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shapes: list[Any] = []
            self.tables = [nc.ones((2,)), nc.zeros((2,))]

        def forward(self, x: Any) -> Any:
            self.shapes.append(x.shape)
            return x * self.tables[0]

    model = Counting()
    inner = nc.jit(model)
    assert nc.jit(lambda x: inner(x * 2) + model(x))(X).tolist() == [3.0, 6.0]
