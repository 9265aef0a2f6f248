"""Every reason of a variant has its remedy, and the remedy avoids the variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim
from nacre.transform.remedies import KINDS, remedy_of


def second(f: Any, *calls: tuple[Any, ...]) -> Any:
    """The last variant of a jitted function after some calls."""
    for given in calls:
        f(*given)
    return f.concrete_functions[-1]


def power(x: Any, n: Any = 2) -> Any:
    return x * n


def branching(x: Any) -> Any:
    return x * 2 if x.shape[0] > 4 else x


ONE, TWO = nc.ones(3), nc.ones((3, 2))
CALLS: list[tuple[Callable[..., Any], list[tuple[Any, ...]], str]] = [
    (power, [(ONE,)], ""),
    (power, [(ONE,), (nc.ones(4),)], 'name the axis: dynamic_shapes={"x": {0: nc.Dim("n")}}'),
    (power, [(ONE, 1), (ONE, 2)], "pass n as a tensor: nc.tensor(n)"),
    (power, [(ONE, 2), (ONE, nc.tensor(2.0))], "pass n as a tensor in every call"),
    (power, [(ONE,), (nc.ones(3, nc.float64),)], "convert argument x to one dtype before the call"),
    (power, [(ONE,), (TWO,)], "pass argument x with one number of axes"),
    (branching, [(nc.ones(n),) for n in (3, 5, 6)], "use no number there (nc.where for a branch"),
    (lambda xs: sum(xs), [([ONE],), ([ONE, ONE],)], "pass xs as one tensor, as nc.stack makes it"),
    (lambda *xs: xs[0] * 1, [(ONE,), (ONE, ONE)], "pass the same arguments in the same form in every call"),
    (lambda x, way: x * 1, [(ONE, "a"), (ONE, "b")], "jit one function for each value of way"),
]


@pytest.mark.parametrize(("f", "calls", "wanted"), CALLS, ids=range(len(CALLS)))
def test_arguments(f: Callable[..., Any], calls: list[tuple[Any, ...]], wanted: str) -> None:
    found = second(nc.jit(f), *calls)
    assert (found.remedy == "") == (wanted == "") and found.remedy.startswith(wanted), found.reason


def test_state() -> None:
    model, scale = nn.Sequential(nn.Linear(3, 3), nn.Dropout()), [1.0]
    opt = optim.SGD(model.parameters(), lr=0.1)
    f = nc.jit(lambda x: model(x) * scale[0])
    x = nc.ones((2, 3))
    second(f, (x,))
    model.eval()
    assert second(f, (x,)).remedy == "nothing: training and evaluation are two computations"
    model[1].p = 0.25
    assert second(f, (x,)).remedy == "hold the attribute of Dropout that changes in an nc.Variable"
    scale[0] = "a".count("b")
    assert "an nc.Variable" in second(f, (x,)).remedy
    with nc.no_grad():
        assert second(f, (x,)).remedy == "call it always inside of nc.no_grad(), or always outside"
    with nc.numerics("fast"):
        assert "set nc.numerics before the first call" in second(f, (x,)).remedy

    @nc.jit
    def step(x: Any) -> Any:
        loss = nc.sum(model(x))
        loss.backward()
        return loss

    assert "call zero_grad() behind every step" in second(step, (x,), (x,)).remedy
    opt.zero_grad()


def test_remedies_avoid_the_variant() -> None:
    n = nc.Dim("n")
    named = nc.jit(lambda x: x * 2, dynamic_shapes={"x": {0: n}})
    assert second(named, (ONE,), (nc.ones(4),)).remedy == "" and len(named.concrete_functions) == 1
    tensors = nc.jit(power)
    second(tensors, (ONE, nc.tensor(1.0)), (ONE, nc.tensor(2.0)))
    assert len(tensors.concrete_functions) == 1


def test_every_difference_has_a_remedy() -> None:
    for reason in (
        "weight: dtype is float64, was float32", "v stays a constant: f.py:3 (f) needs the number",
        "array is another array than that of a view", "two captures are no longer one object",
        "axis 0 of argument x stays a number: it is a result of the function",
        "weight.requires_grad is True, was False",
        "state that was read has changed", "2 positional arguments, 1 before",
    ):  # fmt: skip
        assert remedy_of(reason)
    assert remedy_of("v is 4.0, was 3.0; v is an input from now on").startswith("pass v")
    assert len({kind for kind, _ in KINDS}) == len(KINDS)
