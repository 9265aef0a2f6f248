"""Batches of branches and loops: what an example does not take has no part in derivatives, even where it is infinite.

Operands that are batched have the derivatives of a loop over examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.ir.parse import parse

F64 = nc.float64
XS = nc.tensor([0.0, 4.0, -1.0, 0.25], dtype=F64)
INDICES = nc.tensor([0, 2, 1, 0])
Function = Callable[..., Any]


def root(x: Any) -> Any:
    return nc.cond(x > 0, nc.sqrt, lambda x: x * x, x)


def chosen(x: Any) -> Any:
    """A switch of three branches, each of which is infinite or NaN for numbers of the others."""
    k = nc.where(x > 0, 2, nc.where(x < 0, 1, 0))
    return nc.switch(k, [lambda x: nc.sin(x) * 2, lambda x: nc.log(-x), lambda x: x**-0.5], x)


def nested(x: Any) -> Any:
    return nc.cond(x < 0, lambda x: nc.sqrt(-x), lambda x: nc.cond(x > 1, lambda x: nc.sqrt(x - 1), nc.cos, x), x)


def loop(x: Any) -> Any:
    """Iterations whose derivative is infinite where they end."""
    return nc.while_loop(lambda x: x > 0.5, lambda x: nc.sqrt(x - 0.5), x, max_iterations=5)


def loop_in_a_branch(x: Any) -> Any:
    return nc.cond(x > 0.5, lambda x: loop(nc.sqrt(x - 0.5)), lambda x: x * x, x)


def branch_in_a_loop(x: Any) -> Any:
    def body(s: Any) -> Any:
        y, k = s
        return nc.cond(y > 0, lambda y: nc.sqrt(y) * 0.5, lambda y: y + x * y, y), k + 1

    return nc.while_loop(lambda s: s[1] < 3, body, (x, nc.tensor(0)), max_iterations=4)[0]


def branch_in_a_scan(x: Any) -> Any:
    return nc.scan(lambda c, _: (nc.cond(c > 0, nc.sqrt, lambda c: c + c * c, c), c), x, length=3)[0]


CASES = (root, chosen, nested, loop, loop_in_a_branch, branch_in_a_loop, branch_in_a_scan)


def summed(f: Function) -> Function:
    return lambda xs: nc.vmap(f)(xs).sum()


def equal(found: Any, wanted: Any) -> None:
    assert np.isfinite(wanted.numpy()).all()
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_a_gradient_of_a_batch_is_that_of_its_examples(f: Function) -> None:
    wanted = nc.stack([nc.grad(f)(x) for x in XS])
    total = summed(f)
    found = nc.grad(total)(XS)
    equal(found, wanted)
    for way in (nc.jit(nc.grad(total)), nc.grad(nc.jit(total)), nc.grad(nc.checkpoint(total))):
        assert way(XS).numpy().tobytes() == found.numpy().tobytes()
    x = nc.tensor(XS.numpy()).requires_grad_()
    total(x).backward()
    assert x.grad.numpy().tobytes() == found.numpy().tobytes()
    for part in (XS[:1], XS[1:2], XS[2:3]):  # one side is not taken at all
        equal(nc.grad(total)(part), nc.stack([nc.grad(f)(x) for x in part]))


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_second_derivatives_of_a_batch_are_those_of_its_examples(f: Function) -> None:
    wanted = nc.stack([nc.grad(nc.grad(f))(x) for x in XS])
    total = summed(f)
    for outer, inner in ((nc.jacfwd, nc.grad), (nc.jacrev, nc.grad), (nc.jacrev, nc.jacfwd)):
        equal(outer(inner(total))(XS), nc.eye(len(XS), dtype=F64) * wanted)
    equal(nc.vmap(nc.grad(nc.grad(f)))(XS), wanted)


def test_batches_of_batches() -> None:
    def f(x: Any, y: Any) -> Any:
        return nc.cond(x > y, lambda x, y: nc.sqrt(x - y), lambda x, y: nc.cond(y > 2, nc.log, nc.sin, y) * x, x, y)

    ys = nc.tensor([-1.0, 0.0, 1.0, 4.0, 5.0], dtype=F64)
    for lanes in (((0, None), (None, 0)), ((None, 0), (0, None))):
        both = nc.vmap(nc.vmap(f, lanes[0]), lanes[1])
        found = nc.grad(lambda x, y, both=both: both(x, y).sum(), argnums=(0, 1))(XS, ys)
        for k, other in ((0, 1), (1, 0)):
            each = [[nc.grad(f, argnums=k)(x, y) for y in ys] for x in XS]
            equal(found[k], nc.stack([nc.stack(row) for row in each]).sum(axis=other))


def test_operands_for_all_examples() -> None:
    def f(x: Any, w: Any) -> Any:
        return nc.cond(x > 0, lambda x, w: nc.sqrt(x) * w, lambda x, w: nc.sqrt(w) + x / w, x, w)

    total = nc.grad(lambda x, w: nc.vmap(f, (0, None))(x, w).sum(), argnums=(0, 1))
    w = nc.tensor(2.0, dtype=F64)
    for found, k in zip(total(XS, w), (0, 1), strict=True):
        each = nc.stack([nc.grad(f, argnums=k)(x, w) for x in XS])
        equal(found, each if k == 0 else each.sum())
    positive, zero = nc.tensor([4.0, 1.0], dtype=F64), nc.tensor(0.0, dtype=F64)
    slopes = total(positive, zero)  # no example takes the second branch, which is infinite there
    assert slopes[0].tolist() == [0.0, 0.0] and slopes[1].tolist() == 3.0


def test_an_infinite_derivative_that_is_taken_stays_with_its_example() -> None:
    def f(x: Any) -> Any:
        return nc.cond(x >= 0, nc.sqrt, lambda x: x * x, x)

    for way in (nc.grad(summed(f)), nc.jit(nc.grad(summed(f))), nc.vmap(nc.grad(f))):
        assert way(XS).tolist() == [np.inf, 0.25, -2.0, 1.0]


def test_symbolic_sizes_of_a_batch() -> None:
    slope = nc.jit(nc.grad(summed(chosen)), dynamic_shapes={"xs": {0: nc.Dim("n", min=0, max=9)}})
    for n in (4, 2, 1, 0):
        assert slope(XS[:n]).numpy().tobytes() == nc.grad(summed(chosen))(XS[:n]).numpy().tobytes()
    assert len(slope.concrete_functions) == 1


def test_complex_numbers_in_branches() -> None:
    def f(x: Any) -> Any:
        return nc.abs(nc.cond(x > 0, lambda x: nc.exp(1j * x) * nc.sqrt(x), lambda x: x + 0j, x)) ** 2

    equal(nc.grad(summed(f))(XS), nc.stack([nc.grad(f)(x) for x in XS]))


def test_checks_in_branches_count_where_they_are_taken() -> None:
    table = nc.tensor([1.0, 2.0], dtype=F64)

    def f(x: Any, k: Any) -> Any:
        return nc.cond(x > 0, lambda x: nc.sqrt(x) * table[k], lambda x: x * x, x)

    total = nc.grad(lambda x, k: nc.vmap(f)(x, k).sum())
    equal(total(XS, nc.tensor([7, 1, 7, 0])), nc.tensor([0.0, 0.5, -2.0, 1.0], dtype=F64))
    with pytest.raises(nc.Error, match="got 7"):
        total(XS, nc.tensor([0, 7, 0, 0]))


def test_the_graph_of_a_batch_prints_and_parses() -> None:
    for f in (nc.vmap(root), nc.grad(summed(root))):
        graph = nc.jit(f).trace(XS)
        assert parse(str(graph)) == graph and graph.verify() is graph
    assert "= masked(" in str(nc.jit(nc.vmap(root)).trace(XS))
    linear = nc.vmap(lambda x: nc.cond(x > 0, lambda x: x + x, lambda x: -x, x))
    assert "= masked(" not in str(nc.jit(linear).trace(XS))
