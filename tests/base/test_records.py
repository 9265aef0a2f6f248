"""Dataclasses behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from nacre.base.records import FEW, dataclass


def declared(make: Any, **options: bool) -> type[Any]:
    """A class with every kind of field, made by the given decorator."""

    class Thing:
        a: int
        b: str = "b"
        c: list[int] = dataclasses.field(default_factory=list)
        d: float = dataclasses.field(default=1.5, compare=False)
        e: int = dataclasses.field(default=7, repr=False)

        def twice(self) -> int:
            return 2 * self.a

    Thing.__doc__ = "A thing."
    return make(**options)(Thing)


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Named(Point):
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name.islower():
            raise ValueError(f"got {self.name}")


@dataclass
class Nothing:
    pass


OPTIONS = [
    {},
    {"frozen": True},
    {"eq": False},
    {"slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_behave_like_standard_dataclasses(options: dict[str, bool]) -> None:
    ours, theirs = (declared(make, **options) for make in (dataclass, dataclasses.dataclass))

    def behaviour(cls: type[Any]) -> list[object]:
        one, other = cls(1, c=[2]), cls(1, "b", [2], 9.0)
        found: list[object] = [repr(one), one == other, one != cls(2), one == 1, one.twice(), hasattr(one, "__dict__")]
        found += [dataclasses.asdict(one), [f.name for f in dataclasses.fields(one)], cls.__match_args__]
        found += [repr(dataclasses.replace(one, a=5)), str(inspect.signature(cls)), cls(1).c is cls(1).c]
        found += [cls.__hash__ is None, repr(copy.deepcopy(one)), copy.deepcopy(one).c is one.c]
        for change in (lambda: setattr(one, "a", 3), lambda: delattr(one, "a"), lambda: cls(), lambda: cls(1, f=2)):
            try:
                change()
                found.append(getattr(one, "a", None))
            except (dataclasses.FrozenInstanceError, TypeError, AttributeError) as e:
                found.append((type(e), str(e).split("__init__")[-1]))
        return found

    assert behaviour(ours) == behaviour(theirs)


def test_hashes() -> None:
    assert hash(Point(1, 2)) == hash(Point(1, 2)) != hash(Point(2, 1))
    assert len({Point(1), Point(1, 0), Named(1, 0, "a"), Named(1, 0, "b")}) == 3
    assert Point(1) != Named(1, 0, "a")
    assert Nothing() == Nothing() and Nothing.__hash__ is None and repr(Nothing()) == "Nothing()"

    @dataclass(frozen=True)
    class Own:
        x: int

        def __hash__(self) -> int:
            return 3

    assert hash(Own(1)) == 3


def test_inheritance_and_post_init() -> None:
    assert Named(1, name="n") == Named(1, 0, "n")
    with pytest.raises(ValueError, match="got N"):
        Named(1, name="N")
    with pytest.raises(dataclasses.FrozenInstanceError, match="'y'"):
        Named(1, name="n").y = 2


def test_copies_and_pickles_of_frozen_classes_with_slots() -> None:
    p = Point(1, 2)
    assert copy.copy(p) == copy.deepcopy(p) == pickle.loads(pickle.dumps(p)) == p


def test_the_repr_of_a_recursive_instance() -> None:
    @dataclass
    class Knot:
        ends: list[Any]

    k = Knot([])
    k.ends.append(k)
    assert repr(k).endswith("Knot(ends=[...])")


def test_init_is_compiled_when_it_is_first_needed() -> None:
    @dataclass
    class Late:
        x: int
        y: int = 2

    class Further(Late):
        def __init__(self) -> None:
            super().__init__(5)

    assert not callable(Late.__dict__["__init__"])
    assert str(inspect.signature(Late)) == "(x: 'int', y: 'int' = 2) -> None"
    assert Late.__dict__["__init__"].__qualname__.endswith("Late.__init__")
    assert Further() == Further() and (Further().x, Late(1)) == (5, Late(x=1))


def test_an_init_that_has_been_replaced_stays() -> None:
    @dataclass
    class Late:
        x: int

    def refused(self: Late, x: int) -> None:
        raise ValueError(x)

    waiting: Any = Late.__dict__["__init__"]
    Late.__init__ = refused  # type: ignore[method-assign]
    waiting.__get__(None, Late)
    with pytest.raises(ValueError, match="3"):
        Late(3)


def test_init_is_compiled_after_a_few_instances() -> None:
    @dataclass(frozen=True)
    class Late:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)

    for n in range(FEW):
        assert (Late(n).x, Late.__dict__["__init__"].calls) == (n, n + 1)
    assert Late(3) == Late(x=3, y=[]) and callable(Late.__dict__["__init__"])


@pytest.mark.parametrize(("given", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"z": 2})], ids=str)
def test_the_first_instance_refuses_wrong_arguments(given: tuple[int, ...], named: dict[str, int]) -> None:
    @dataclass
    class Late:
        x: int
        y: int = 0

    with pytest.raises(TypeError, match="__init__"):
        Late(*given, **named)
