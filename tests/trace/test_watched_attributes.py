"""Compiled functions see attributes as eager code does: absent ones, replaced methods, and those behind descriptors."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.trace import reads

X = nc.ones(2)


class Thing:
    """An object with a method, a static method and a property."""

    def twice(self, x: Any) -> Any:
        return x * 2

    fixed = staticmethod(lambda x: x * 2)

    @property
    def two(self) -> float:
        return 2.0


class Below(Thing):
    def twice(self, x: Any) -> Any:
        return super().twice(x)


class Level:
    """A descriptor with an attribute."""

    k = 2.0

    def __get__(self, owner: Any, cls: Any) -> float:
        return self.k


class Equal:
    """All instances are equal."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 0


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Doubling(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


def _handled(o: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        try:
            return x * o.k
        except AttributeError:
            return x

    return f


def _suppressed(o: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        with contextlib.suppress(AttributeError):
            return x * o.k
        return x

    return f


def _sees(f: Callable[[Any], Any], change: Callable[[], object]) -> None:
    """After a change a compiled function gives what the function itself gives, and that is another result."""
    compiled = nc.jit(f)
    before = compiled(X).tolist()
    assert before == f(X).tolist()
    change()
    assert compiled(X).tolist() == f(X).tolist() != before


PRESENT: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "getattr": lambda o: lambda x: x * getattr(o, "k", 7.0),
    "hasattr": lambda o: lambda x: x * 2 if hasattr(o, "k") else x,
    "except": _handled,
    "suppress": _suppressed,
}


@pytest.mark.parametrize("kind", PRESENT)
def test_an_absent_attribute_that_appears_or_goes_is_seen(kind: str) -> None:
    o = SimpleNamespace()
    _sees(PRESENT[kind](o), lambda: setattr(o, "k", 3.0))
    _sees(PRESENT[kind](o), lambda: delattr(o, "k"))


@pytest.mark.parametrize("kind", ["getattr", "vars", "attrgetter"])
def test_an_attribute_named_in_a_text_is_seen(kind: str) -> None:
    o = SimpleNamespace(k=2.0)
    of = {
        "getattr": lambda x: x * getattr(o, "k"),  # noqa: B009 - the subject of the test
        "vars": lambda x: x * vars(o)["k"],
        "attrgetter": lambda x: x * operator.attrgetter("k")(o),
    }
    _sees(of[kind], lambda: setattr(o, "k", 3.0))


def test_an_attribute_with_a_default_within_a_module_is_seen() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = SimpleNamespace(k=2.0)

        def forward(self, x: Any) -> Any:
            return x * getattr(self.settings, "k", 1.0)

    model = Scaled()
    _sees(lambda x: model(x), lambda: setattr(model.settings, "k", 3.0))


def test_replaced_methods_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    thing, below, model = Thing(), Below(), Doubling()
    _sees(lambda x: thing.twice(x), lambda: monkeypatch.setattr(thing, "twice", lambda x: x * 3, raising=False))
    _sees(lambda x: below.twice(x), lambda: monkeypatch.setattr(Thing, "twice", lambda self, x: x * 5))
    _sees(lambda x: thing.fixed(x), lambda: monkeypatch.setattr(Thing, "fixed", staticmethod(lambda x: x * 3)))
    _sees(lambda x: x * thing.two, lambda: monkeypatch.setattr(Thing, "two", property(lambda self: 5.0)))
    _sees(lambda x: model(x), lambda: monkeypatch.setattr(Doubling, "forward", lambda self, x: x * 3))


def test_attributes_of_functions_and_descriptors_are_seen() -> None:
    def scaled(x: Any) -> Any:
        return x * scaled.k  # pyright: ignore[reportFunctionMemberAccess]

    class Holder:
        level = Level()

    scaled.k = 2.0  # pyright: ignore[reportFunctionMemberAccess]
    holder = Holder()
    _sees(lambda x: scaled(x), lambda: setattr(scaled, "k", 3.0))
    _sees(lambda x: x * holder.level, lambda: setattr(vars(Holder)["level"], "k", 3.0))


def test_equal_objects_are_not_the_same_object() -> None:
    held = SimpleNamespace(it=Equal(2.0), number=Liar(2))
    _sees(lambda x: x * held.it.k, lambda: setattr(held, "it", Equal(3.0)))
    _sees(lambda x: x * int(held.number), lambda: setattr(held, "number", Liar(3)))
    f = nc.jit(lambda x, c: x * c.k)
    assert [f(X, Equal(k)).tolist() for k in (2.0, 3.0)] == [[2.0, 2.0], [3.0, 3.0]]
    assert f(X, held.it).tolist() == f(X, held.it).tolist() == [3.0, 3.0]


def test_objects_are_not_searched_again_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a function with variables of another one, which may be another function each time that it runs."""
    searched: list[Any] = []
    search = reads.attributes
    monkeypatch.setattr(reads, "attributes", lambda *given: searched.append(given[0]) or search(*given))

    def searches(count: int) -> int:
        searched.clear()
        settings = SimpleNamespace(factor=2.0)

        @nc.jit
        def f(x: nc.Tensor) -> nc.Tensor:
            for _ in range(count):
                x = x * settings.factor
            return x

        assert f(nc.ones(2)).tolist() == [2.0**count] * 2
        return len(searched)

    assert 0 < searches(4) == searches(20)
