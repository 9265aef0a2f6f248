"""The order of gradient accumulation: the same bits with and without checkpoint and jit, eager and compiled.

Programs are random: operations on the values so far, and regions.  A region is a function of some values that captures
others; it may get one value twice, return its operands, and contain regions.  Wrapping a region must not change a bit
of a gradient.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import nacre as nc
from nacre import nn

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
BINARY = (nc.add, nc.multiply, nc.subtract, lambda x, y: nc.tanh(x) * y, lambda x, y: x / (2 + y * y))
UNARY = (nc.exp, nc.tanh, nc.sin, lambda x: x**3, lambda x: x * 0.7, nn.functional.gelu, lambda x: x - nc.mean(x),
         nn.functional.softmax)  # fmt: skip
INPUTS, SIZE = 3, 7


class Region:
    """A function of the values at some places, which captures all others; it has several results."""

    def __init__(self, choose: random.Random, count: int, depth: int) -> None:
        self.arguments = [choose.randrange(count) for _ in range(choose.randint(1, 3))]
        self.body = program(choose, count + len(self.arguments), depth)
        made = count + len(self.arguments) + sum(r.results if isinstance(r, Region) else 1 for r in self.body)
        self.chosen = [choose.randrange(count, made) for _ in range(choose.randint(1, 3))]

    @property
    def results(self) -> int:
        return len(self.chosen)

    def run(self, values: Sequence[Any], wrap: Wrap) -> list[Any]:
        def function(*arguments: Any) -> tuple[Any, ...]:
            inner = run(self.body, [*values, *arguments], wrap)
            return tuple(inner[k] for k in self.chosen)

        return list(wrap(function)(*(values[k] for k in self.arguments)))


class Operation:
    def __init__(self, choose: random.Random, count: int) -> None:
        self.unary = choose.random() < 0.4
        self.function = choose.randrange(len(UNARY if self.unary else BINARY))
        self.operands = [choose.randrange(count), choose.randrange(count)]

    def run(self, values: Sequence[Any]) -> Any:
        x, y = (values[k] for k in self.operands)
        return 0.5 * UNARY[self.function](nc.tanh(x)) if self.unary else BINARY[self.function](nc.sin(x), y)


def program(choose: random.Random, count: int, depth: int) -> list[Operation | Region]:
    found: list[Operation | Region] = []
    for _ in range(choose.randint(2, 5)):
        if depth and choose.random() < 0.5:
            region = Region(choose, count, depth - 1)
            found.append(region)
            count += region.results
        else:
            found.append(Operation(choose, count))
            count += 1
    return found


def run(steps: Sequence[Operation | Region], values: Sequence[Any], wrap: Wrap) -> list[Any]:
    held = list(values)
    for step in steps:
        held += step.run(held, wrap) if isinstance(step, Region) else [step.run(held)]
    return held


def objective(seed: int, wrap: Wrap) -> Callable[..., Any]:
    choose = random.Random(seed)
    steps = program(choose, INPUTS, 2)

    def loss(*xs: Any) -> Any:
        found = run(steps, xs, wrap)
        return sum((nc.sum(v * w) for v, w in zip(found, (1.0, 0.3, -0.7) * 99)), nc.tensor(0.0))

    return loss


# ---- ways to a gradient


def inputs(seed: int) -> list[Any]:
    nc.random.seed(seed)
    return [nc.random.normal((SIZE,)) for _ in range(INPUTS)]


def by_grad(f: Any, xs: Sequence[Any]) -> list[Any]:
    return list(nc.grad(f, argnums=tuple(range(INPUTS)))(*xs))


def by_compiled_grad(f: Any, xs: Sequence[Any]) -> list[Any]:
    return list(nc.jit(nc.grad(f, argnums=tuple(range(INPUTS))))(*xs))


def by_grad_of_compiled(f: Any, xs: Sequence[Any]) -> list[Any]:
    return by_grad(nc.jit(f), xs)


def by_backward(f: Any, xs: Sequence[Any]) -> list[Any]:
    held = [x.detach().requires_grad_() for x in xs]
    f(*held).backward()
    return [x.grad for x in held]


def by_variables(f: Any, xs: Sequence[Any]) -> list[Any]:
    held = [nn.Parameter(x) for x in xs]
    f(*(p.value for p in held)).backward()
    return [p.grad for p in held]


def by_compiled_backward(f: Any, xs: Sequence[Any]) -> list[Any]:
    held = [nn.Parameter(x) for x in xs]
    nc.jit(lambda: f(*(p.value for p in held)).backward())()
    return [p.grad for p in held]


def by_vmap(f: Any, xs: Sequence[Any]) -> list[Any]:
    batches = [nc.stack([x, x]) for x in xs]
    return [g[1] for g in nc.vmap(nc.grad(f, argnums=tuple(range(INPUTS))))(*batches)]


def forward_of_reverse(f: Any, xs: Sequence[Any]) -> list[Any]:
    return list(nc.jvp(nc.grad(f, argnums=tuple(range(INPUTS))), tuple(xs), tuple(reversed(xs)))[1])


def compiled_forward_of_reverse(f: Any, xs: Sequence[Any]) -> list[Any]:
    return list(nc.jit(lambda *xs: forward_of_reverse(f, xs))(*xs))


def forward(f: Any, xs: Sequence[Any]) -> list[Any]:
    return [nc.jvp(f, tuple(xs), tuple(reversed(xs)))[1]]


def compiled_forward(f: Any, xs: Sequence[Any]) -> list[Any]:
    return [nc.jit(lambda *xs: nc.jvp(f, xs, tuple(reversed(xs)))[1])(*xs)]


def within_scan(f: Any, xs: Sequence[Any]) -> list[Any]:
    def rounds(*xs: Any) -> Any:
        return nc.scan(lambda c, x: (nc.tanh(c + 0.01 * f(*x)), None), nc.tensor(0.0), [nc.stack([x, -x]) for x in xs])[
            0
        ]

    return by_grad(rounds, xs)


def within_captured_scan(f: Any, xs: Sequence[Any]) -> list[Any]:
    def rounds(*xs: Any) -> Any:
        return nc.scan(lambda c, _: (nc.tanh(c + 0.01 * f(*xs)), None), nc.tensor(0.0), length=2)[0]

    return by_grad(rounds, xs)


def within_cond(f: Any, xs: Sequence[Any]) -> list[Any]:
    def either(*xs: Any) -> Any:
        return nc.cond(nc.sum(xs[0]) < 1e9, lambda: f(*xs) + nc.sum(xs[0] * xs[1]), lambda: nc.sum(xs[0]))

    return by_grad(either, xs)


PLAIN = [by_grad, by_compiled_grad, by_grad_of_compiled, by_backward, by_variables, by_compiled_backward, by_vmap]
FORWARD = [forward, compiled_forward]
FORWARD_OF_REVERSE = [forward_of_reverse, compiled_forward_of_reverse]
WITHIN = [within_scan, within_captured_scan, within_cond]


def plain(f: Any) -> Any:
    return f


def mixed(seed: int) -> Wrap:
    choose = random.Random(seed)
    return lambda f: choose.choice([plain, nc.checkpoint, nc.jit])(f)


def equal(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(found, wanted, strict=True))


def check(seed: int) -> None:
    xs = inputs(seed)
    choose = random.Random(seed)
    first = objective(seed, plain)
    wraps = {"plain": plain, "checkpoint": nc.checkpoint, "jit": nc.jit, "mixed": mixed(seed)}
    for family in (PLAIN, FORWARD, FORWARD_OF_REVERSE):
        wanted = family[0](first, xs)
        for name, wrap in wraps.items():
            for way in [family[0], choose.choice(family)]:
                assert equal(way(objective(seed, wrap), xs), wanted), (seed, way.__name__, name)
    for way in WITHIN:  # the outer transformation is the same: a scan sums the iterations' gradients in its own order
        wanted = way(first, xs)
        for name, wrap in list(wraps.items())[1:]:
            assert equal(way(objective(seed, wrap), xs), wanted), (seed, way.__name__, name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_wrapping_a_region_does_not_change_the_bits(seed: int) -> None:
    check(seed)


@pytest.mark.exhaustive(4)
@pytest.mark.parametrize("seed", range(100, 140))
def test_wrapping_a_region_does_not_change_the_bits_of_many_programs(seed: int) -> None:
    check(seed)


def second_order(f: Any, xs: Sequence[Any]) -> list[Any]:
    def inner(*xs: Any) -> Any:
        found = nc.grad(f, argnums=tuple(range(INPUTS)))(*xs)
        return sum((nc.sum(g * v) for g, v in zip(found, (1.0, 0.3, -0.7))), nc.tensor(0.0))

    return by_grad(inner, xs)


@pytest.mark.parametrize("seed", range(200, 203))
def test_reverse_over_reverse_through_compiled_functions(seed: int) -> None:
    xs = inputs(seed)
    wanted = second_order(objective(seed, plain), xs)
    assert equal(second_order(objective(seed, nc.jit), xs), wanted)
    assert equal(nc.jit(lambda *xs: second_order(objective(seed, plain), xs))(*xs), wanted)
    for a, b in zip(second_order(objective(seed, nc.checkpoint), xs), wanted, strict=True):
        assert a.numpy() == pytest.approx(b.numpy(), rel=1e-4, abs=1e-4)  # computed again, and differentiated again


@pytest.mark.parametrize("power", [nc.square, lambda x: x**2, lambda x: x**3, lambda x: 2.0 - x])
def test_a_repeated_operation_has_the_same_gradient(power: Any) -> None:
    (x, *_) = inputs(5)

    def f(x: Any) -> Any:
        return nc.sum(nc.exp(x) * x + power(x) * nc.sin(x))

    wanted = nc.jit(nc.grad(f))(x)
    for _ in range(4):
        held = x.detach().requires_grad_()
        f(held).backward()
        assert equal([held.grad], [wanted]) and equal([nc.grad(f)(x)], [wanted])


def test_one_value_passed_twice_and_operands_returned() -> None:
    x, y, _ = inputs(7)

    def twice(a: Any, b: Any) -> Any:
        return a, nc.tanh(a) * b, nc.sin(b) * a, b

    def loss(wrap: Wrap) -> Any:
        def f(x: Any) -> Any:
            a, b, c, d = wrap(twice)(x, x)
            return nc.sum(a * nc.exp(x) + b * y + c * a + d * x + nc.sin(d))

        return f

    wanted = nc.grad(loss(plain))(x)
    for wrap in (nc.jit, nc.checkpoint, lambda f: nc.jit(nc.checkpoint(f)), lambda f: nc.checkpoint(nc.jit(f))):
        assert equal([nc.grad(loss(wrap))(x), nc.jit(nc.grad(loss(wrap)))(x)], [wanted, wanted])
