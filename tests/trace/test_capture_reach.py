"""Compiled code sees attributes of objects in containers, views of arrays, ordered dicts and supplied attributes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical

X = nc.tensor([1.0, 2.0, 3.0])
Case = tuple[Callable[..., Any], Any]  # a function, and an object whose attribute k it reads


class Knob:
    """An object with an attribute."""

    def __init__(self, k: Any) -> None:
        self.k = k

    def factor(self) -> Any:
        return self.k

    def applied(self, x: Any) -> Any:
        return x * self.k


class Rack:
    """An object with others in a list."""

    def __init__(self) -> None:
        self.items = [Knob(2.0), Knob(3.0)]

    def __getitem__(self, place: int) -> Knob:
        return self.items[place]

    def first(self, x: Any) -> Any:
        return x * self.items[0].k

    def every(self, x: Any) -> Any:
        for item in self.items:
            x = x * item.k
        return x


class Block(nn.Module):
    """A module that is not called itself."""

    def __init__(self) -> None:
        self.lin = nn.Linear(3, 3)
        self.k = 2.0


class Blocks(nn.Module):
    """A module that reads attributes of those in its list."""

    def __init__(self) -> None:
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + block.k * block.lin(x)
        return x


@dataclass
class Holder:
    """A dataclass with an object in a field."""

    held: Any


def helper(knob: Any, x: Any) -> Any:
    return x * knob.k


def cases() -> dict[str, Case]:
    knob, rack, model = Knob(2.0), Rack(), Blocks()
    listed, tupled, named, deep = [knob], (knob,), {"p": knob}, {"a": [[knob]]}
    nested, holder, ordered = [Knob([knob])], Holder(knob), OrderedDict(p=knob)
    row, modules = nn.Sequential(Block(), nn.Linear(3, 3)), nn.ModuleDict({"a": Block()})
    functions = [lambda: knob.k]

    def by_a_local_name(x: Any) -> Any:
        found = listed[0]
        return x * found.k

    return {
        "list": (lambda x: x * listed[0].k, knob),
        "tuple": (lambda x: x * tupled[0].k, knob),
        "dict": (lambda x: x * named["p"].k, knob),
        "ordered dict": (lambda x: x * ordered["p"].k, knob),
        "three deep": (lambda x: x * deep["a"][0][0].k, knob),
        "field": (lambda x: x * holder.held.k, knob),
        "list of an object in a list": (lambda x: x * nested[0].k[0].k, knob),
        "local name": (by_a_local_name, knob),
        "helper": (lambda x: helper(listed[0], x), knob),
        "method": (lambda x: listed[0].applied(x), knob),
        "method without operations": (lambda x: x * listed[0].factor(), knob),
        "function in a list": (lambda x: x * functions[0](), knob),
        "list of self": (rack.first, rack.items[0]),
        "loop": (rack.every, rack.items[1]),
        "items by a special method": (lambda x: x * rack[0].k, rack.items[0]),
        "module": (model, model.blocks[0]),
        "captured module": (lambda x: model(x), model.blocks[1]),
        "item of a module": (lambda x: x * row[0].k, row[0]),
        "entry of a module": (lambda x: x * modules["a"].k, modules["a"]),
    }


VALUES: dict[str, tuple[Any, Any]] = {
    "float": (2.0, 3.0),
    "tensor": (nc.tensor([1.0, 2.0, 3.0]), nc.tensor([4.0, 5.0, 6.0])),
    "array": (np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0, 5.0, 6.0], np.float32)),
}


def same(a: Any, b: Any) -> None:
    assert a.type is b.type and canonical(a) == canonical(b)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", cases())
def test_attributes_of_objects_in_containers_are_seen(way: str, values: tuple[Any, Any]) -> None:
    f, owner = cases()[way]
    owner.k = values[0]
    compiled = nc.jit(f)
    for new in (values[0], values[1], values[0], values[1]):
        owner.k = new
        same(compiled(X), f(X))
        same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == (2 if isinstance(values[0], float) else 1)


def test_an_attribute_by_getattr_with_its_name() -> None:
    knobs = [Knob(2.0)]
    f = nc.jit(lambda x: x * getattr(knobs[0], "k"))  # noqa: B009 - a text in the code
    same(f(X), X * 2.0)
    knobs[0].k = 3.0
    same(f(X), X * 3.0)


def test_attributes_of_classes_in_containers_are_seen() -> None:
    class Settings:
        k = 2.0

    objects, classes = [Settings()], {"a": Settings}
    f = nc.jit(lambda x: x * objects[0].k + classes["a"].k)
    same(f(X), X * 2.0 + 2.0)
    Settings.k = 5.0
    same(f(X), X * 5.0 + 5.0)


def test_reasons_name_the_item() -> None:
    named = {"p": [Knob(2.0)]}
    f = nc.jit(lambda x: x * named["p"][0].k)
    f(X)
    named["p"][0].k = 3.0
    f(X)
    assert f.concrete_functions[1].reason == "named['p'][0].k is 3.0, was 2.0"


def test_attributes_that_the_code_does_not_name_are_not_watched() -> None:
    knobs = [Knob(2.0), Knob(3.0)]
    f = nc.jit(lambda x: x * len(knobs))
    f(X)
    knobs[0].k = 7.0
    f(X)
    assert len(f.concrete_functions) == 1


def test_functions_in_containers_that_never_run_assign_nothing() -> None:
    v = 2.0

    def put(new: Any) -> None:
        nonlocal v
        v = new

    table = {"get": lambda: v, "put": put}
    f = nc.jit(lambda x: x * table["get"]())
    same(f(X), X * 2.0)
    put(3.0)
    same(f(X), X * 3.0)


# ---- views of arrays

VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda a: a[:1],
    "reversed": lambda a: a[::-1],
    "transposed": lambda a: a.T,
    "reshaped": lambda a: a.reshape(3, 1),
    "scalar": lambda a: a[1:2].reshape(()),
    "view of a view": lambda a: a[1:][:1],
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 1)[:, 0],
    "broadcast": lambda a: np.broadcast_to(a[:1], (3,)),
    "itself, too": lambda a: a[:1] * nc.asarray(a),
}


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_a_captured_array_is_read_in_place(view: str, part: bool) -> None:
    whole = np.arange(1.0, 8.0, dtype=np.float32)
    array, of = whole[2:5] if part else whole[:3].copy(), VIEWS[view]

    def f(x: Any) -> Any:
        return x * of(array)

    compiled = nc.jit(f)
    for k in range(3):
        same(compiled(X), f(X))
        same(compiled(X), f(X))
        array[:] = 7.0 + k
    assert len(compiled.concrete_functions) == 1
    for new in (np.array([4.0, 5.0, 6.0], np.float32), np.array([4.0, 5.0, 7.0], np.float32)):
        array = new
        same(compiled(X), f(X))
        array[:2] = 9.0
        same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 3
    assert compiled.concrete_functions[2].reason == "array is another array than that of a view"


def test_views_of_arrays_in_containers() -> None:
    held = {"a": [np.array([1.0, 2.0, 3.0], np.float32)]}
    f = lambda x: x * held["a"][0][:1] + held["a"][0]  # noqa: E731
    compiled = nc.jit(f)
    same(compiled(X), f(X))
    held["a"][0][0] = 5.0
    same(compiled(X), f(X))
    held["a"][0] = np.array([6.0, 7.0, 8.0], np.float32)
    same(compiled(X), f(X))
    held["a"][0][0] = 9.0
    same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 2


def test_a_view_in_a_compiled_function_that_another_one_calls() -> None:
    array = np.array([1.0, 2.0, 3.0], np.float32)
    inner = nc.jit(lambda x: x * array[:1])
    outer = nc.jit(lambda x: inner(x) + 1.0)
    for _ in range(2):
        same(outer(X), X * float(array[0]) + 1.0)
        array[0] = 5.0
    array = np.array([6.0, 2.0, 3.0], np.float32)
    for _ in range(2):
        same(outer(X), X * float(array[0]) + 1.0)
        array[0] = 8.0


def test_what_numpy_computes_is_a_listed_constant() -> None:
    array = np.array([1.0, 2.0, 3.0], np.float32)
    f = nc.jit(lambda x: x * np.exp(array) + (array + 1.0) * array.sum() - array[1] + float(array[2]))
    f(X)
    listed = [c.value.tolist() for c in f.concrete_functions[0].constants]
    for value in (np.exp(array).tolist(), 2.0, 3.0, ((array + 1.0) * array.sum()).tolist()):
        assert value in listed
    g = nc.jit(lambda x: x * nc.exp(nc.asarray(array)))
    g(X)
    array[0] = 4.0
    same(g(X), X * nc.exp(nc.asarray(array)))


# ---- ordered dicts


def test_entries_of_an_ordered_dict_are_seen() -> None:
    held = OrderedDict(a=1e8, b=1.0, c=-1e8)

    def f(x: Any) -> Any:
        for value in held.values():
            x = x + value
        return x

    compiled = nc.jit(f)
    same(compiled(X), f(X))
    same(compiled(X), f(X))
    for change in (
        lambda: held.__setitem__("b", 2.0),
        lambda: held.move_to_end("a"),
        lambda: held.move_to_end("c", last=False),
        lambda: held.__setitem__("d", 5.0),
        lambda: held.pop("a"),
    ):
        change()
        same(compiled(X), f(X))
        same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 6


def test_tensors_in_an_ordered_dict_are_inputs() -> None:
    held = OrderedDict(a=nc.tensor([1.0, 2.0, 3.0]), b=nc.tensor(2.0))
    compiled = nc.jit(lambda x: x * held["a"] + held["b"])
    for k in range(3):
        same(compiled(X), X * held["a"] + held["b"])
        held["a"], held["b"] = nc.full((3,), float(k)), nc.tensor(3.0 * k)
    assert len(compiled.concrete_functions) == 1


# ---- attributes that `__getattr__` supplies


class Supplier:
    """An object that supplies attributes."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["values"][name]


class Lazy:
    """One that also remembers them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = 2.0
        return 2.0


def test_an_attribute_that_is_set_after_it_was_supplied() -> None:
    supplier = Supplier({"k": 2.0})
    f = nc.jit(lambda x: x * supplier.k)
    same(f(X), X * 2.0)
    same(f(X), X * 2.0)
    assert len(f.concrete_functions) == 1
    supplier.values["k"] = 3.0
    same(f(X), X * 3.0)
    supplier.k = 5.0
    same(f(X), X * 5.0)
    assert f.concrete_functions[2].reason == "supplier.k is 5.0, was not set"
    del supplier.k
    same(f(X), X * 3.0)


def test_an_attribute_that_is_remembered_when_it_is_supplied() -> None:
    lazy = Lazy()
    f = nc.jit(lambda x: x * lazy.k)
    for _ in range(2):
        same(f(X), X * 2.0)
    assert len(f.concrete_functions) == 1
    vars(lazy)["k"] = 4.0
    same(f(X), X * 4.0)
