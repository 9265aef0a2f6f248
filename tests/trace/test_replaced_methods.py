"""Compiled functions see methods, rules and classes that are replaced."""

from __future__ import annotations

from typing import Any

import nacre as nc
from nacre import nn

ONE = nc.tensor(1.0)


class Scale:
    factor = 2.0

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor


class Inner(Scale):
    pass


class Tenfold:
    def __init__(self, value: float) -> None:
        self.value = value

    def __get__(self, held: Any, owner: Any) -> float:
        return self.value * 10


class Holder:
    value = Tenfold(2.0)


def test_a_class_method_that_is_replaced() -> None:
    held, before = Inner(), vars(Scale)["of_class"]
    functions = [
        nc.jit(lambda x: Scale.of_class(x)),
        nc.jit(lambda x: Inner.of_class(x)),
        nc.jit(lambda x: held.of_class(x)),
    ]
    try:
        assert [f(ONE).item() for f in functions] == [2.0] * 3
        Scale.of_class = classmethod(lambda cls, x: x * 50)  # type: ignore[assignment]
        assert [f(ONE).item() for f in functions] == [50.0] * 3
        assert [f(ONE).item() for f in functions] == [50.0] * 3
        assert [len(f.concrete_functions) for f in functions] == [2] * 3
        assert "of_class" in functions[0].concrete_functions[-1].reason
    finally:
        Scale.of_class = before  # type: ignore[assignment]
    assert [f(ONE).item() for f in functions] == [2.0] * 3


def test_a_descriptor_that_is_replaced() -> None:
    held, before = Holder(), vars(Holder)["value"]
    f = nc.jit(lambda x: x * held.value)
    try:
        assert f(ONE).item() == 20.0
        Holder.value = Tenfold(3.0)
        assert f(ONE).item() == 30.0
    finally:
        Holder.value = before


class Double(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class Triple(Double):
    def forward(self, x: Any) -> Any:
        return x * 3


def test_another_class_of_a_module() -> None:
    module = Double()
    f = nc.jit(lambda x: module(x))
    assert f(ONE).item() == 2.0
    module.__class__ = Triple
    assert f(ONE).item() == module(ONE).item() == 3.0
    assert "class" in f.concrete_functions[-1].reason
    module.__class__ = Double
    assert f(ONE).item() == 2.0 and len(f.concrete_functions) == 2


def test_a_rule_that_is_set_again() -> None:
    square = nc.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    cube = nc.custom_jvp(lambda x: x * x * x)
    cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))
    slopes = [nc.jit(nc.grad(square)), nc.jit(nc.grad(lambda x: cube(x)))]
    assert [f(ONE).item() for f in slopes] == [2.0, 3.0]
    square.defvjp(lambda x: (x * x, x), lambda x, g: (20 * x * g,))
    cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 30 * tangents[0]))
    assert [f(ONE).item() for f in slopes] == [20.0, 30.0]


class Square(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 5


def test_a_backward_that_is_replaced() -> None:
    f, before = nc.jit(nc.grad(lambda x: Square.apply(x))), vars(Square)["backward"]
    try:
        assert f(ONE).item() == 5.0
        Square.backward = staticmethod(lambda ctx, g: g * 7)  # type: ignore[assignment]
        assert f(ONE).item() == 7.0
    finally:
        Square.backward = before
