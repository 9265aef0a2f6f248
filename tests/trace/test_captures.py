"""Compiled code sees changes of captures as eager code does, and lists its constants."""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical

X = nc.tensor([1.0, 2.0, 3.0])
Case = Callable[[Any], tuple[Callable[..., Any], Callable[[], Any]]]


@dataclass
class Settings:
    """An object whose attributes functions read."""

    scale: Any
    more: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    """One that cannot change."""

    scale: Any


class Pair(NamedTuple):
    """A tuple with names."""

    scale: Any
    shift: Any


# ---- ways to read a captured value: each makes (function, setter)


def cell(v: Any) -> Any:
    def f(x: Any) -> Any:
        return x * v

    def put(new: Any) -> None:
        nonlocal v
        v = new

    return f, put


def inner_cell(v: Any) -> Any:
    def factor() -> Any:
        return v

    def f(x: Any) -> Any:
        return x * factor()

    def put(new: Any) -> None:
        nonlocal v
        v = new

    return f, put


def inner_function(v: Any) -> Any:
    def f(x: Any) -> Any:
        return nc.stack([x * v for _ in range(2)])

    def put(new: Any) -> None:
        nonlocal v
        v = new

    return f, put


def namespace(source: str, v: Any) -> tuple[dict[str, Any], Any]:
    names: dict[str, Any] = {"nc": nc, "v": v}
    exec(source, names)
    return names, names["f"]


def global_name(v: Any) -> Any:
    names, f = namespace("def f(x): return x * v", v)
    return f, functools.partial(names.__setitem__, "v")


def global_of_a_helper(v: Any) -> Any:
    names, f = namespace("def helper(): return v\ndef f(x): return x * helper()", v)
    return f, functools.partial(names.__setitem__, "v")


def global_of_a_method(v: Any) -> Any:
    names, f = namespace("class A:\n    def get(self): return v\na = A()\ndef f(x): return x * a.get()", v)
    return f, functools.partial(names.__setitem__, "v")


def global_of_a_partial(v: Any) -> Any:
    names, f = namespace("def f(k, x): return x * v * k", v)
    return functools.partial(f, 2), functools.partial(names.__setitem__, "v")


def name_in_a_module(v: Any) -> Any:
    module = types.ModuleType("settings_of_a_test")
    module.__file__ = __file__
    module.v = v  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        return x * module.v

    return f, functools.partial(setattr, module, "v")


def item_of_a_dict(v: Any) -> Any:
    held = {"scale": v, "other": 1}
    return lambda x: x * held["scale"], functools.partial(held.__setitem__, "scale")


def item_of_a_list(v: Any) -> Any:
    held = [1, v]
    return lambda x: x * held[1], functools.partial(held.__setitem__, 1)


def deep_item(v: Any) -> Any:
    held = {"a": [{"b": v}]}
    return lambda x: x * held["a"][0]["b"], functools.partial(held["a"][0].__setitem__, "b")


def new_container(v: Any) -> Any:
    held = {"a": (1, v)}
    return lambda x: x * held["a"][1], lambda new: held.__setitem__("a", (1, new))


def named_tuple(v: Any) -> Any:
    held = Pair(v, 2)

    def f(x: Any) -> Any:
        return x * held.scale + held.shift

    def put(new: Any) -> None:
        nonlocal held
        held = Pair(new, 2)

    return f, put


def attribute_of_a_dataclass(v: Any) -> Any:
    held = Settings(v)
    return lambda x: x * held.scale, functools.partial(setattr, held, "scale")


def attribute_in_a_dataclass(v: Any) -> Any:
    held = Settings(1, Settings(v))
    return lambda x: x * held.more.scale, functools.partial(setattr, held.more, "scale")


def frozen_dataclass(v: Any) -> Any:
    held = {"a": Frozen(v)}
    return lambda x: x * held["a"].scale, lambda new: held.__setitem__("a", Frozen(new))


def attribute_of_a_module(v: Any) -> Any:
    class Scale(nn.Module):
        def __init__(self) -> None:
            self.scale = v

        def forward(self, x: Any) -> Any:
            return x * self.scale

    module = Scale()
    return lambda x: module(x), functools.partial(setattr, module, "scale")


def attribute_that_is_only_read(v: Any) -> Any:
    module = nn.Linear(2, 2)
    module.scale = v
    return lambda x: x * module.scale, functools.partial(setattr, module, "scale")


def attribute_of_an_object(v: Any) -> Any:
    held = types.SimpleNamespace(settings=types.SimpleNamespace(scale=v))
    return lambda x: x * held.settings.scale, functools.partial(setattr, held.settings, "scale")


def attribute_of_a_class(v: Any) -> Any:
    class Settings:
        scale = v

    return lambda x: x * Settings.scale, functools.partial(setattr, Settings, "scale")


def attribute_that_hides_that_of_the_class(v: Any) -> Any:
    class Settings:
        scale = v

    held = Settings()
    return lambda x: x * held.scale, functools.partial(setattr, held, "scale")


def attribute_in_a_slot(v: Any) -> Any:
    class Settings:
        __slots__ = ("scale",)

    held = Settings()
    held.scale = v
    return lambda x: x * held.scale, functools.partial(setattr, held, "scale")


def list_in_a_module(v: Any) -> Any:
    class Scale(nn.Module):
        def __init__(self) -> None:
            self.scales = [1, v]

        def forward(self, x: Any) -> Any:
            return x * self.scales[1]

    module = Scale()
    return lambda x: module(x), functools.partial(module.scales.__setitem__, 1)


class Scaled:
    """A class with a method to compile."""

    def __init__(self, v: Any) -> None:
        self.scale = v

    def factor(self) -> Any:
        return self.scale

    def __call__(self, x: Any) -> Any:
        return x * self.factor()

    def method(self, x: Any) -> Any:
        return x * self.scale


def attribute_of_self(v: Any) -> Any:
    held = Scaled(v)
    return held.method, functools.partial(setattr, held, "scale")


def attribute_of_what_is_called(v: Any) -> Any:
    held = Scaled(v)
    return lambda x: held(x), functools.partial(setattr, held, "scale")


def transformed(v: Any) -> Any:
    def loss(x: Any) -> Any:
        return nc.sum(x * x * v)

    def put(new: Any) -> None:
        nonlocal v
        v = new

    return nc.grad(loss), put


def in_a_loop(v: Any) -> Any:
    def f(x: Any) -> Any:
        return nc.fori_loop(0, 3, lambda k, y: y * v, x)

    def put(new: Any) -> None:
        nonlocal v
        v = new

    return f, put


def of_an_inner_function(v: Any) -> Any:
    f, put = cell(v)
    inner = nc.jit(f)
    return lambda x: inner(x) + 1, put


WAYS = (
    *(cell, inner_cell, inner_function, global_name, global_of_a_helper, global_of_a_method, global_of_a_partial),
    *(name_in_a_module, item_of_a_dict, item_of_a_list, deep_item, new_container, named_tuple),
    *(attribute_of_a_dataclass, attribute_in_a_dataclass, frozen_dataclass, attribute_of_a_module, transformed),
    *(attribute_that_is_only_read, attribute_of_an_object, attribute_of_self, attribute_of_what_is_called),
    *(attribute_of_a_class, attribute_that_hides_that_of_the_class, attribute_in_a_slot, list_in_a_module),
    *(in_a_loop, of_an_inner_function),
)
VALUES: dict[str, tuple[Any, Any]] = {
    "float": (2.0, 3.0),
    "a sign of zero": (0.0, -0.0),
    "int": (2, 5),
    "bool": (True, False),
    "int to float": (2, 2.0),
    "tensor": (nc.tensor([1.0, 2.0, 3.0]), nc.tensor([4.0, 5.0, 6.0])),
    "scalar tensor": (nc.tensor(2.0), nc.tensor(3.0)),
    "another shape": (nc.tensor([1.0, 2.0, 3.0]), nc.tensor([[4.0], [5.0]])),
    "array": (np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0, 5.0, 6.0], np.float32)),
    "scalar array": (np.array(2.0, np.float32), np.array(3.0, np.float32)),
    "another dtype": (np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0, 5.0, 6.0])),
    "a number of NumPy": (np.float32(2.0), np.float32(3.0)),
}


def same(a: Any, b: Any) -> None:
    assert a.type is b.type and canonical(a) == canonical(b)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_new_value_is_seen(way: Case, values: tuple[Any, Any]) -> None:
    if way is transformed and isinstance(values[0], nc.Tensor | np.ndarray) and values[1].shape == (2, 1):
        pytest.skip("a gradient has the shape of its argument")
    f, put = way(values[0])  # type: ignore[misc]
    compiled = nc.jit(f)
    for new in (None, values[1], values[0], values[1]):
        if new is not None:
            put(new)  # type: ignore[call-arg]
        if way is in_a_loop and values[1] is not None and getattr(new, "shape", None) == (2, 1):
            continue  # a carry keeps its type
        try:
            wanted = f(X)
        except nc.Error as fault:
            with pytest.raises(type(fault)):
                compiled(X)
            continue
        same(compiled(X), wanted)
        same(compiled(X), wanted)
    assert len(compiled.concrete_functions) <= 2


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("array", [False, True])
def test_a_change_in_place_is_seen_without_a_new_variant(way: Case, array: bool) -> None:
    held: Any = np.array([1.0, 2.0, 3.0], np.float32) if array else nc.tensor([1.0, 2.0, 3.0])
    f, _ = way(held)
    compiled = nc.jit(f)
    for k in range(3):
        same(compiled(X), f(X))
        held[k] = 7.0 + k
    same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 1


@pytest.mark.parametrize(
    ("source", "remove"),
    [
        ("def f(x): return x * v", "del v"),
        ("held = {'v': v}\ndef f(x): return x * held['v']", "del held['v']"),
        ("held = [v]\ndef f(x): return x * held[0]", "held.pop()"),
        ("class A: pass\nheld = A()\nheld.v = v\ndef f(x): return x * held.v", "del held.v"),
        ("def helper(): return v\ndef f(x): return x * helper()", "del helper"),
    ],
)
def test_what_is_removed_is_missed(source: str, remove: str) -> None:
    names, f = namespace(source, 2.0)
    compiled = nc.jit(f)
    same(compiled(X), f(X))
    exec(remove, names)
    with pytest.raises((NameError, KeyError, IndexError, AttributeError)) as missed:
        f(X)
    with pytest.raises(missed.type):
        compiled(X)


def test_the_order_of_a_dict_is_seen() -> None:
    held = {"a": 1e8, "b": 1.0, "c": -1e8}

    def f(x: Any) -> Any:
        for factor in held.values():
            x = x + factor
        return x

    compiled = nc.jit(f)
    same(compiled(X), f(X))
    held["b"] = held.pop("b")
    same(compiled(X), f(X))


def test_captures_that_were_one_object_are_told_apart_later() -> None:
    names, f = namespace("w = v\ndef f(x): return x * v - w", nc.tensor([1.0, 2.0, 3.0]))
    compiled = nc.jit(f)
    same(compiled(X), f(X))
    names["w"] = nc.tensor([5.0, 5.0, 5.0])
    same(compiled(X), f(X))
    names["v"] = names["w"]
    same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 2


def test_captures_that_the_code_only_adds_to_are_not_watched() -> None:
    seen: list[Any] = []
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        seen.append(x.type)
        return x * 2

    compiled = nc.jit(f)
    for k in range(3):
        compiled(X)
        seen.append(k)
    count = 7
    compiled(X)
    assert len(compiled.concrete_functions) == 1 and count == 7


def test_large_containers_are_watched_by_identity() -> None:
    held = [float(k) for k in range(100)]
    f = nc.jit(lambda x: x * held[0])
    same(f(X), X * 0.0)
    held = [2.0, *held[1:]]
    same(f(X), X * 2.0)


def test_a_helper_may_be_another_function() -> None:
    names, f = namespace("def helper(x): return x * 2\ndef f(x): return helper(x) + 1", None)
    compiled = nc.jit(f)
    same(compiled(X), f(X))
    exec("def helper(x): return x * 3", names)
    same(compiled(X), f(X))


def test_closures_of_one_code_are_told_apart() -> None:
    def scaled(v: Any) -> Any:
        def scale(x: Any) -> Any:
            return x * v

        def put(new: Any) -> None:
            nonlocal v
            v = new

        return scale, put

    parts = [scaled(float(k)) for k in range(2, 5)]

    class Chain(nn.Module):
        def forward(self, x: Any) -> Any:
            for scale, _ in parts:
                x = scale(x)
            return x

    f = Chain()
    compiled = nc.jit(f)
    for k, (_, put) in enumerate(parts):
        same(compiled(X), f(X))
        put(10.0 + k)
    same(compiled(X), f(X))


def test_reasons_name_the_capture() -> None:
    names, f = namespace("def f(x): return x * v", 2.0)
    compiled = nc.jit(f)
    compiled(X)
    names["v"] = 3.0
    compiled(X)
    assert compiled.concrete_functions[1].reason == "v is 3.0, was 2.0"


def test_nothing_is_kept_alive() -> None:
    def used() -> weakref.ref[Any]:
        held = nc.ones(1000)
        nc.jit(lambda x: x * held.sum())(X)
        return weakref.ref(held)

    gone = used()
    gc.collect()
    assert gone() is None


def test_threads_see_old_or_new_captures() -> None:
    names, f = namespace("def f(x): return x * v - v * x + v", nc.full((3,), 0.0))
    compiled = nc.jit(f)
    compiled(X)
    wrong: list[Any] = []
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            found = compiled(X).tolist()
            if len(set(found)) != 1:
                wrong.append(found)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for k in range(300):
        names["v"] = nc.full((3,), float(k))
        latest = compiled(X).tolist()
        if latest != [float(k)] * 3:
            wrong.append((k, latest))
    done.set()
    for t in threads:
        t.join()
    assert not wrong and len(compiled.concrete_functions) == 1


def test_many_variants_warn_and_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nacre.transform.jit.MOST", 10)
    names, f = namespace("def f(x): return x * float(v)", 0.0)
    compiled = nc.jit(f)
    with pytest.warns(UserWarning, match=r"f was compiled 8 times.*v is 7\.0, was 6\.0"):
        for k in range(15):
            names["v"] = float(k)
            same(compiled(X), f(X))
            same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 10 and compiled.dropped == 5
    names["v"] = 14.0
    compiled(X)
    names["v"] = 0.0
    same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 10 and compiled.dropped == 6


def test_constants_are_listed_with_their_lines() -> None:
    held, names = nc.tensor([5.0, 6.0, 7.0]), namespace("def f(x): return x * v", 4.0)[1]

    def f(x: Any) -> Any:
        y = names(x) + np.arange(3, dtype=np.float32)
        return nc.fori_loop(0, 2, lambda k, z: z * 8.0, y) + held

    compiled = nc.jit(f)
    compiled(X)
    found = compiled.concrete_functions[0].constants
    values = [c.value.tolist() for c in found]
    assert 4.0 in values and [0.0, 1.0, 2.0] in values and 8.0 in values and [5.0, 6.0, 7.0] not in values
    assert all("test_captures.py" in c.line or "<string>" in c.line for c in found if c.value.tolist() in (4.0, 8.0))


def test_settings_of_an_optimiser_are_seen() -> None:
    opt = nc.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.5)
    compiled = nc.jit(lambda x: x * opt.param_groups[0]["lr"])
    same(compiled(X), X * 0.5)
    opt.param_groups[0]["lr"] = 0.25
    same(compiled(X), X * 0.25)


# ---- numbers that change from call to call


def number_function(body: str, v: Any) -> tuple[Any, Any, Any]:
    names, f = namespace(f"def f(x): return {body}", v)
    return names, f, nc.jit(f)


BODIES = ("x * v", "v + x", "x - v", "v - x", "x / v", "v / x", "x * (v * 2 + 0.1) - (1 - v) / 3", "-v * x")
FLOATS = (1.0, 2.0, 3.3, 0.1, -0.0, 7.7, float("inf"), float("nan"), 1e300, 5e-324)


@pytest.mark.parametrize("dtype", [nc.float64, nc.float32, nc.float16, nc.bfloat16, nc.int32])
@pytest.mark.parametrize(
    "body", ["x * v", "v + x", "x - v", "v - x", "x / v", "v / x", "x * (v * 2 + 0.1) - (1 - v) / 3", "-v * x"]
)
def test_a_float_becomes_an_input(body: str, dtype: Any) -> None:
    names, f, compiled = number_function(body, 1.0)
    x = nc.tensor([1.0, 2.0, 3.0], dtype=dtype)
    for v in FLOATS:
        names["v"] = v
        same(compiled(x), f(x))
        same(compiled(x), f(x))
    assert len(compiled.concrete_functions) == 3
    assert compiled.concrete_functions[2].reason.endswith("v is an input from now on")


@pytest.mark.parametrize("dtype", [nc.float64, nc.float32, nc.float16, nc.bfloat16, nc.int8, nc.uint64])
@pytest.mark.parametrize("body", ["x * v", "v + x", "x - v", "v - x", "x / v"])
def test_a_whole_number_becomes_an_input(body: str, dtype: Any) -> None:
    names, f, compiled = number_function(body, 1)
    x = nc.tensor([1, 2, 3], dtype=dtype)
    for v in (1, 2, 3, 100, 127, 128, -129, 1 << 40, (1 << 53) + 1, (1 << 62) + 1, 1 << 64, True, 2.5, 3):
        names["v"] = v
        try:
            wanted = f(x)
        except nc.Error as fault:
            with pytest.raises(type(fault), match="must fit"):
                compiled(x)
            continue
        same(compiled(x), wanted)
        same(compiled(x), wanted)


@pytest.mark.parametrize(
    "body",
    [
        *("x ** v", "x * v if v > 2 else x", "x * int(v)", "x * math.sin(v)", "x * float(f'{v}')", "x * (v ** 2)"),
        *("x * np.float32(v)", "x * np.full(3, v)", "x * round(v)", "x + nc.full((3,), v)", "x * (1.0 / v)"),
        *(
            "x * [1, 2, 3, 4, 5, 6, 7, 8, 9][int(v)]",
            "x * (type(v) is float)",
            "x * v.is_integer()",
            "nc.clip(x, 0.0, v)",
        ),
    ],
)
def test_other_uses_of_a_number_see_it(body: str) -> None:
    names, f, compiled = number_function(body, 1.0)
    exec("import math\nimport numpy as np", names)
    for v in (1.0, 2.0, 3.0, 4.5, 5.0):
        names["v"] = v
        same(compiled(X), f(X))
    assert names["v"] == 5.0 and type(names["v"]) is float


def test_a_number_that_several_functions_read_is_compared() -> None:
    names, f = namespace("def helper(x): return x * v\ndef f(x): return helper(x) * v", 1.0)
    compiled = nc.jit(f)
    for v in (1.0, 2.0, 3.0, 4.0):
        names["v"] = v
        same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 4


def test_a_number_in_a_cell_becomes_an_input_under_transformations() -> None:
    v = 1.0

    def f(x: Any) -> Any:
        return nc.grad(lambda y: nc.sum(y * y * v))(x) + nc.fori_loop(0, 3, lambda k, z: z * v, x)

    compiled = nc.jit(f)
    for v in (1.0, 2.0, 3.0, 4.0, 5.0):  # noqa: B007 - the functions read it
        same(compiled(X), f(X))
    assert len(compiled.concrete_functions) == 3
    same(nc.grad(lambda x: nc.sum(compiled(x)))(X), nc.grad(lambda x: nc.sum(f(x)))(X))


def test_a_constant_number_is_listed_with_the_line_that_needs_it() -> None:
    names, f, compiled = number_function("x ** v", 1.0)
    for v in (1.0, 2.0, 3.0):
        names["v"] = v
        same(compiled(X), f(X))
    assert "v stays a constant: <string>:1 (f) needs the number" in compiled.concrete_functions[2].reason


def test_code_around_a_compiled_function_is_not_read() -> None:
    before = 1.0

    def caller(f: Any) -> Any:
        assert before
        return f(X)

    f = nc.jit(lambda x: nc.sum(x).detach() * 2)
    caller(f)
    assert not f.concrete_functions[0].captures.places


def test_attributes_without_a_dict_of_their_own() -> None:
    class Settings:
        __slots__ = ("held",)

        @property
        def __dict__(self) -> Any:
            return {"held": self.held}

    settings = Settings()
    settings.held = 2.0
    compiled = nc.jit(lambda x: x * settings.held)
    for value in (2.0, 3.0):
        settings.held = value
        same(compiled(X), X * value)


def test_attributes_of_an_argument_are_seen() -> None:
    held = Scaled(2.0)
    compiled = nc.jit(lambda x, settings: x * settings.scale)
    for scale in (2.0, 3.0):
        held.scale = scale
        same(compiled(X, held), X * scale)


def test_a_capture_of_changing_kinds() -> None:
    names, f = namespace("def f(x): return x * v", None)
    compiled = nc.jit(f)
    for v in (
        nc.tensor(2.0),
        np.array(3.0),
        [[1.0, 2.0, 3.0]],
        1.0,
        True,
        2.0,
        3,
        4.0,
        nc.tensor([1.0, 2.0, 3.0]),
        5,
        6.0,
    ):
        names["v"] = v
        same(compiled(X), f(X))


def test_captures_that_change_while_the_function_is_traced() -> None:
    names, f = namespace("def f(x): return x * change() * v", 1.0)

    def change() -> float:
        names["v"] = names["v"] + 1.0
        return 1.0

    names["change"] = change
    compiled = nc.jit(f)
    found = compiled(X)
    same(found, X * 2.0)
    names["change"] = lambda: 1.0
    same(compiled(X), X * names["v"])
