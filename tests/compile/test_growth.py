"""The work of compilation grows with the number of equations, not with the number of their pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre.compile.fusion import graph
from nacre.compile.passes import attention_pattern
from nacre.compile.pipeline import compile_graph


def gradient_of_recurrence(steps: int) -> Callable[[Any], Any]:
    """The gradient of an unrolled recurrence."""

    def loss(x: Any) -> Any:
        h = x
        for _ in range(steps):
            h = nc.tanh(h @ x + x)
        return nc.sum(h)

    return nc.grad(loss)


def exponentials(steps: int) -> Callable[[Any], Any]:
    """A chain in which any equation could be the softmax of an attention."""

    def chain(x: Any) -> Any:
        for _ in range(steps):
            x = nc.exp(-x)
        return x

    return chain


@pytest.mark.parametrize(
    ("program", "module", "name"),
    [(gradient_of_recurrence, graph, "current"), (exponentials, attention_pattern, "uses")],
)
def test_work_grows_with_the_equations(
    program: Callable[[int], Callable[[Any], Any]], module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, work = getattr(module, name), [0]

    def counted(*args: Any) -> Any:
        work[0] += len(args[0].equations) if module is attention_pattern else 1
        return function(*args)

    monkeypatch.setattr(module, name, counted)
    counts: list[int] = []
    for steps in (50, 400):
        work[0] = 0
        compile_graph(nc.jit(program(steps)).trace(nc.ones((4, 4))))
        counts.append(work[0])
    assert counts[1] <= 12 * counts[0], counts
