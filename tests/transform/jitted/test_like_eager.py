"""Compiled functions do as eager code does, or say why not: texts, gradient modes, hooks in branches, empty lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim

X = nc.tensor([3.0, 2.0])
MODES: Any = [lambda f: f, nc.jit]  # pyright: ignore[reportUnknownLambdaType]


def by_percent(x: nc.Tensor) -> str:
    return "%.3f" % x[0]  # noqa: UP031 - users write it


def by_str(x: nc.Tensor) -> str:
    return str(x[0])


def by_format(x: nc.Tensor) -> str:
    return f"{x[0]:.3f}"


def by_f_string(x: nc.Tensor) -> str:
    return f"{x[0]}"


WRITTEN = [by_percent, by_str, by_format, by_f_string]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_text_of_a_traced_number_is_refused(written: Callable[[Any], str]) -> None:
    def keyed(x: nc.Tensor) -> dict[str, nc.Tensor]:
        return {written(x): x}

    with pytest.raises(nc.TraceError, match=r"known numbers[^$]*printed when the program runs"):
        nc.jit(keyed)(X)


def test_texts_in_print_and_repr_work(capsys: pytest.CaptureFixture[str]) -> None:
    @nc.jit
    def f(x: nc.Tensor) -> nc.Tensor:
        assert repr(x) == "Tensor(f32[2], traced)"
        print(f"{x[0]} {x[1]:.3f}", x)
        return x

    f(X)
    assert capsys.readouterr().out == "3. 2.000 [3. 2.]\n"


def test_enable_grad_inside_of_no_grad() -> None:
    p = nn.Parameter([1.0, 2.0])

    def f(x: nc.Tensor) -> tuple[nc.Tensor, ...]:
        constant = x * 3
        with nc.enable_grad():
            recorded = x * p * constant
        return constant, recorded, p * x

    found: list[Any] = []
    for g in (f, nc.jit(f)):
        p.grad, x = None, nc.tensor([1.0, 2.0]).requires_grad_()
        with nc.no_grad():
            g(x)
            results = g(x)
        results[1].sum().backward()
        found.append(([r.requires_grad for r in results], x.grad, p.grad))
    assert repr(found[0]) == repr(found[1]) and found[1][0] == [False, True, False]


def test_a_hook_in_a_branch_is_refused_with_the_reason() -> None:
    p = nn.Parameter([1.0, 2.0])

    @nc.jit
    def step(x: nc.Tensor) -> Any:
        loss = nc.tensor(0.0)
        if x[0] > 0:
            h = p * x
            h.register_hook(lambda g: g * 2)
            loss = (h * h).sum()
        loss.backward()
        return p.grad

    with pytest.raises(nc.GradientError, match="a branch, a loop or a compiled function"):
        step(X)


@pytest.mark.parametrize("mode", MODES, ids=["eager", "jit"])
def test_a_list_without_items_is_not_stacked(mode: Any) -> None:
    def halvings(x: nc.Tensor) -> nc.Tensor:
        steps: list[nc.Tensor] = []
        while x.sum() > 1:
            nc.set_loop_options(max_iterations=10)
            x = x / 2
            steps.append(x)
        return nc.stack(steps, size=5)

    with pytest.raises(nc.ArgumentError, match="must not be empty"):
        mode(halvings)(nc.tensor([0.1, 0.2]))


def test_leaves_are_clipped_and_not_optimised() -> None:
    x = nc.tensor([3.0, 4.0]).requires_grad_()
    (x * x).sum().backward()
    assert optim.clip_grad_norm_([x], 1.0).item() == 10 and x.grad is not None
    assert optim.clip_grad_norm_(x, 1.0).item() == pytest.approx(1.0)
    optim.clip_grad_value_([x], 0.1)
    assert x.grad.tolist() == nc.tensor([0.1, 0.1]).tolist()
    with pytest.raises(nc.ArgumentError, match=r"nn\.Parameter\(x\)"):
        optim.Adam([x])  # type: ignore[list-item]
    with pytest.raises(nc.KindError, match="leaves with requires_grad"):
        optim.clip_grad_norm_([x.detach()], 1.0)


def test_only_inputs_of_autograd_grad() -> None:
    x = nc.tensor([3.0, 4.0]).requires_grad_()
    assert nc.autograd.grad((x * x).sum(), x, only_inputs=True)[0].tolist() == [6, 8]
    with pytest.raises(nc.ArgumentError, match="only_inputs must be True"):
        nc.autograd.grad((x * x).sum(), x, only_inputs=False)


def test_a_size_that_is_a_tensor() -> None:
    with pytest.raises(nc.KindError, match=r"write int\(n\)"):
        nc.zeros(nc.tensor(3))  # type: ignore[arg-type]
