"""Every way to differentiate, for every kind of operand, within every other, against analytic values.

A way turns a function F of an operand into the function that sums F's derivative over the operand's elements.  Applied
k times to F(w) = sum(w⁵) + sum(w)⁴, the result is sum(p⁽ᵏ⁾(w)) + nᵏ·q⁽ᵏ⁾(sum(w)) for p = x⁵, q = x⁴ and n elements.
This holds for all ways, and for all wrappers of the function in between.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.base import tree
from nacre.base.errors import GradientError
from nacre.trace.variable import Variable

Function = Callable[[Any], Any]
Way = Callable[[Function], Function]
A, B = [0.5, -1.25], [[0.75]]
ELEMENTS = 3


# ---- operands


class Pair(nn.Module):
    def __init__(self) -> None:
        self.inner = nn.Module()
        self.inner.a = nn.Parameter(number(A))
        self.b = nn.Parameter(number(B))


def number(x: Any) -> Any:
    return nc.tensor(x, dtype=nc.float64)


KINDS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: [number(A), number(B)],
    "requires_grad": lambda: [number(A).requires_grad_(), number(B).requires_grad_()],
    "parameters": lambda: (nn.Parameter(number(A)), nn.Parameter(number(B))),
    "module": Pair,
    "dict": lambda: {"m": [Pair()], "none": None},
    "mixed": lambda: {"a": nn.Parameter(number(A)), "b": (number(B).requires_grad_(),)},
}


VARIABLES = ("parameters", "module", "dict")  # kinds without other leaves


def leaves(operand: Any) -> list[Any]:
    return [x.value if isinstance(x, Variable) else x for x in tree.flatten(operand)[0]]


def total(found: Any) -> Any:
    return sum((nc.sum(x) for x in tree.flatten(found)[0]), number(0.0))


def ones(operand: Any) -> Any:
    values, structure = leaves(operand), tree.flatten(operand)[1]
    return tree.unflatten(structure, [nc.ones(x.shape, dtype=x.dtype) for x in values])


def primal(operand: Any) -> Any:
    found = leaves(operand)
    return sum((nc.sum(x**5) for x in found), number(0.0)) + sum((nc.sum(x) for x in found), number(0.0)) ** 4


def expected(order: int) -> float:
    w = [*A, *B[0]]
    fifth = [math.perm(5, order) * x ** (5 - order) for x in w]
    fourth = ELEMENTS**order * math.perm(4, order) * sum(w) ** (4 - order) if order <= 4 else 0.0
    return sum(fifth) + fourth


# ---- ways


def by_backward(create_graph: bool) -> Way:
    def way(f: Function) -> Function:
        def derivative(operand: Any) -> Any:
            held = tree.flatten(operand)[0]
            before = [x.grad for x in held]
            for x in held:
                x.grad = None
            f(operand).backward(create_graph=create_graph)
            found = total([x.grad for x in held])
            for x, g in zip(held, before, strict=True):
                x.grad = g
            return found

        return derivative

    return way


def by_vjp(f: Function) -> Function:
    def derivative(operand: Any) -> Any:
        _, pullback = nc.vjp(f, operand)
        return total(pullback(number(1.0)))

    return derivative


FUNCTIONAL: dict[str, Way] = {
    "grad": lambda f: lambda x: total(nc.grad(f)(x)),
    "value_and_grad": lambda f: lambda x: total(nc.value_and_grad(f)(x)[1]),
    "grad_aux": lambda f: lambda x: total(nc.grad(lambda x: (f(x), 1), has_aux=True)(x)[0]),
    "vjp": by_vjp,
    "jvp": lambda f: lambda x: nc.jvp(f, (x,), (ones(x),))[1],
    "jacfwd": lambda f: lambda x: total(nc.jacfwd(f)(x)),
    "jacrev": lambda f: lambda x: total(nc.jacrev(f)(x)),
    "hessian": lambda f: lambda x: total(nc.hessian(f)(x)),
}
CAPTURED: dict[str, Way] = {  # the function reads captured variables, not its argument
    "grad_captured": lambda f: lambda x: total(nc.grad(lambda _: f(x))(x)),
    "jvp_captured": lambda f: lambda x: nc.jvp(lambda _: f(x), (x,), (ones(x),))[1],
    "jacrev_captured": lambda f: lambda x: total(nc.jacrev(lambda _: f(x))(x)),
}
RECORDED: dict[str, Way] = {"backward": by_backward(False), "backward_graph": by_backward(True)}
FOLLOWING = {**FUNCTIONAL, **CAPTURED}
WAYS = {**FOLLOWING, **RECORDED}

WRAPS: dict[str, Way] = {
    "": lambda f: f,
    "jit": nc.jit,
    "checkpoint": nc.checkpoint,
    "vmap": lambda f: lambda x: nc.sum(nc.vmap(lambda s: s * f(x))(number([0.25, 0.75]))),
    "vmap_operand": lambda f: (
        lambda x: nc.sum(
            nc.vmap(lambda y: f(tree.unflatten(tree.flatten(x)[1], y)) / 2)([nc.stack([y, y]) for y in leaves(x)])
        )
    ),
    "scan": lambda f: lambda x: nc.scan(lambda c, _: (c + f(x) / 2, None), number(0.0), length=2)[0],
    "cond": lambda f: lambda x: nc.cond(nc.tensor(True), lambda: f(x), lambda: f(x) * 0),
    "argument": lambda f: lambda x: f(x),
    "other": lambda f: lambda x: nc.grad(lambda s: s * f(x))(number(1.0)),
}
STAGED = {"jit", "checkpoint", "scan", "cond"}
BATCHED = {"vmap_operand"}


def refused(kind: str, chain: tuple[str, ...]) -> bool:
    """Whether a `backward` in a chain, from the inside out, raises an error.

    It needs leaves: plain tensors are not leaves, and in staged functions only variables are.  Within a way that
    differentiates the operand from outside, it is refused as well, unless it is inside another, staged function.
    """
    for k, name in enumerate(chain):
        around = chain[k + 1 :]
        staged = next((i for i, n in enumerate(around) if n in STAGED), len(around))
        if name in RECORDED and (
            kind == "tensors"
            or (kind in ("requires_grad", "mixed") and staged < len(around))
            or not BATCHED.isdisjoint(around)
            or any(n in FOLLOWING for n in around[:staged])
        ):
            return True
    return False


def differentiated(chain: tuple[str, ...]) -> Function:
    f: Function = primal
    for name in chain:
        f = {**WAYS, **WRAPS}[name](f)
    return f


def check(kind: str, chain: tuple[str, ...]) -> None:
    """Check a chain, unless it captures a tensor, which is a constant, or one that is another value inside a batch."""
    captured = [k for k, name in enumerate(chain) if name in CAPTURED]
    if captured and (kind not in VARIABLES or "vmap_operand" in chain):
        return
    order = sum(2 if name == "hessian" else name in WAYS for name in chain)
    f, operand = differentiated(chain), KINDS[kind]()
    if refused(kind, chain):
        with pytest.raises(GradientError):
            f(operand)
        return
    assert float(f(operand)) == pytest.approx(expected(order), rel=1e-12), (kind, chain)
    assert float(f(operand)) == pytest.approx(expected(order), rel=1e-12), ("again", kind, chain)


INNER = [name for name in WAYS if name != "backward"]  # a derivative that is differentiated again must be recorded


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outer", WAYS)
def test_a_way_within_a_way(outer: str, kind: str) -> None:
    check(kind, (outer,))
    for inner in INNER:
        check(kind, (inner, outer))


def wrapped(seed: int, depth: int) -> tuple[str, tuple[str, ...]]:
    choose = random.Random(seed)
    chain = [choose.choice(list(WRAPS))]
    for k in range(depth):
        ways = list(WAYS) if k + 1 == depth else INNER
        chain += [choose.choice(ways), choose.choice(list(WRAPS))]
    return choose.choice(list(KINDS)), tuple(chain)


@pytest.mark.parametrize("seed", range(50))
def test_a_wrapped_way_within_a_wrapped_way(seed: int) -> None:
    check(*wrapped(seed, 1 + seed % 2))


def test_a_constant_in_the_loop_of_a_reduction_and_behind_it() -> None:
    check(*wrapped(326, 3))


@pytest.mark.exhaustive(5)
@pytest.mark.parametrize("block", range(20))
def test_many_wrapped_ways_three_deep(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        check(*wrapped(seed, 1 + seed % 3))
