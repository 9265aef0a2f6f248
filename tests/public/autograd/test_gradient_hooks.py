"""Hooks of gradients: their order, what they may return, what is freed, and compiled steps with hooks."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.state import STATE


def leaf(data: Any) -> nc.Tensor:
    return nc.tensor(data).requires_grad_()


def test_a_hook_of_one_of_several_results() -> None:
    x = leaf([[2.0, 0.0], [0.0, 3.0]])
    sign, logarithm = nc.linalg.slogdet(x)
    logarithm.register_hook(lambda g: g * 6)
    (logarithm + sign).backward()
    assert x.grad is not None and x.grad.tolist() == [[3.0, 0.0], [0.0, 2.0]]


def test_hooks_of_complex_tensors_get_the_gradient_that_grad_has() -> None:
    z = leaf([1 + 2j, 3 - 1j])
    w = z * (2 + 1j)
    seen: list[Any] = []
    w.register_hook(lambda g: seen.append(g.tolist()))
    w.retain_grad()
    z.register_hook(lambda g: seen.append(g.tolist()))
    (w * nc.conj(w)).real.sum().backward()
    assert w.grad is not None and z.grad is not None
    assert seen == [w.grad.tolist(), z.grad.tolist()]


def test_hooks_are_called_in_functional_derivatives() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        return y.sum()

    assert nc.grad(f)(nc.tensor([1.0, 2.0])).tolist() == [21.0, 41.0]
    assert nc.hessian(f)(nc.tensor([1.0, 2.0])).tolist() == [[20.0, 0.0], [0.0, 20.0]]


def test_operations_of_hooks_are_not_recorded() -> None:
    w, x = leaf(3.0), leaf(2.0)
    modes: list[bool] = []

    def hook(g: Any) -> Any:
        modes.append(nc.is_grad_enabled())
        return g * w

    (x * x).register_hook(hook).remove()
    y = x * x
    y.register_hook(hook)
    y.backward()
    assert modes == [False] and w.grad is None and x.grad is not None
    assert (x.grad.item(), x.grad.requires_grad) == (12.0, False)


def test_a_hook_may_register_hooks() -> None:
    x = leaf(2.0)
    y = x * x
    z = y * y
    z.register_hook(lambda _: y.register_hook(lambda g: g * 3) and None)
    z.backward()
    assert x.grad is not None and x.grad.item() == 96.0


def test_values_with_hooks_are_freed() -> None:
    def made() -> list[Any]:
        x = leaf([1.0])
        y = x * 2
        y.register_hook(lambda g: g * len(y))  # a cycle: y, its node, the hook
        x.register_post_accumulate_grad_hook(lambda p: None)
        return [weakref.ref(x), weakref.ref(y)]

    gone = made()
    gc.collect()
    assert [r() for r in gone] == [None, None]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("x.register_hook(3)", nc.KindError, "must be a function"),
        ("nc.ones(2).register_hook(print)", nc.GradientError, "requires_grad_"),
        ("(x * 2).register_post_accumulate_grad_hook(print)", nc.GradientError, "use register_hook"),
        ("nc.autograd.grad(x * 2, [])", nc.KindError, "got none"),
        ("nc.autograd.grad(x.sum(), 3.0)", nc.KindError, "got a float"),
        ("nc.autograd.grad([x.sum()], x, [None, None])", nc.ArgumentError, "got 2 for 1 outputs"),
        ("nc.autograd.grad(x.sum(), nc.ones(2))", nc.GradientError, "requires none"),
        ("nc.autograd.grad(x.sum(), y)", nc.GradientError, "allow_unused=True"),
        ("x.sum().backward(inputs=[nc.ones(2)])", nc.GradientError, "requires none"),
        ("nc.no_grad(3)", nc.KindError, "only a function can be decorated"),
        ("nc.no_grad()(nn.Linear)", nc.KindError, "decorate its methods"),
        ("nc.set_grad_enabled(2)", nc.KindError, "True or False"),
        ("nc.inference_mode('no')", nc.KindError, "True or False"),
        ("setattr(nc.ones(2), 'grad', nc.ones(2))", nc.GradientError, "x[...] = x - v"),
    ],
)
def test_wrong_uses_say_what_to_write(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        eval(text, {"nc": nc, "nn": nn, "x": leaf([1.0, 2.0]), "y": leaf([1.0, 2.0])})
    assert said in str(raised.value)


def test_a_coroutine_function_is_not_decorated() -> None:
    async def f() -> None: ...

    with pytest.raises(nc.KindError, match="coroutine function"):
        nc.no_grad()(f)


def test_a_generator_gets_values_and_errors_through_the_decorator() -> None:
    @nc.no_grad()
    def f() -> Any:
        seen: list[Any] = []
        while True:
            try:
                seen.append((yield seen, nc.is_grad_enabled()))
            except KeyError:
                return seen

    g = f()
    assert next(g) == ([], False) and nc.is_grad_enabled()
    assert g.send(3) == ([3], False)
    with pytest.raises(StopIteration) as ended:
        g.throw(KeyError())
    assert ended.value.value == [3] and nc.is_grad_enabled()


def test_numerics_decorates_generators_too() -> None:
    @nc.numerics("fast")
    def f() -> Any:
        yield STATE.numerics

    assert list(f()) == ["fast"]


def test_enable_grad_has_no_effect_in_inference_mode() -> None:
    x = leaf(1.0)
    with nc.inference_mode():
        with nc.enable_grad(), nc.set_grad_enabled(True):
            assert not (x * x).requires_grad
        with nc.inference_mode(False):
            assert (x * x).requires_grad
    assert nc.grad(lambda v: v * v)(x).item() == 2.0


# ---- compiled


def layer() -> nn.Linear:
    made = nn.Linear(2, 2)
    made.load_state_dict({"weight": nc.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": nc.tensor([0.5, -0.5])})
    return made


X = [[1.0, -2.0], [0.25, 4.0]]


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_inside_a_compiled_step_are_part_of_it(compiled: bool) -> None:
    model, calls = layer(), []

    def step(x: Any) -> Any:
        h = model(x)
        h.register_hook(lambda g: calls.append(1) or g * 3)
        (h * h).sum().backward()
        return h

    run = nc.jit(step) if compiled else step
    for _ in range(3):
        run(nc.tensor(X))
    plain = layer()
    for _ in range(3):
        h = plain(nc.tensor(X))
        (h * h).backward(nc.full((2, 2), 3.0))
    assert model.weight.grad.tolist() == plain.weight.grad.tolist()  # type: ignore[union-attr]
    assert len(calls) == (len(run.concrete_functions) if isinstance(run, type(nc.jit(step))) else 3)


def test_hooks_of_parameters_in_a_compiled_step() -> None:
    model = layer()

    @nc.jit
    def step(x: Any) -> Any:
        model(x).sum().backward()
        found = model.weight.grad
        model.zero_grad()
        return found

    first = step(nc.tensor(X)).tolist()
    handle = model.weight.register_hook(lambda g: g * 10)
    assert step(nc.tensor(X)).tolist() == [[10 * v for v in row] for row in first]
    handle.remove()
    assert step(nc.tensor(X)).tolist() == first
    reasons = [c.reason for c in step.concrete_functions]
    assert len(reasons) == 2 and "other hooks" in reasons[1]


@pytest.mark.parametrize("compiled", [False, True])
def test_an_optimiser_in_hooks_after_accumulation(compiled: bool) -> None:
    model = layer()
    optimizers = {p: optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(p: Any) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step(x: Any) -> None:
        (model(x) ** 2).sum().backward()

    run = nc.jit(step) if compiled else step
    other = layer()
    optimizer = optim.SGD(other.parameters(), lr=0.1)
    for _ in range(3):
        run(nc.tensor(X))
        (other(nc.tensor(X)) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [p.tolist() for p in model.parameters()] == [p.tolist() for p in other.parameters()]
    assert all(p.grad is None for p in model.parameters())


def test_autograd_grad_in_a_compiled_step() -> None:
    model = layer()

    def penalty(x: Any) -> Any:
        x = (x * 1).requires_grad_()
        (g,) = nc.autograd.grad(nc.tanh(model(x)).sum(), x, create_graph=True)
        ((g * g).sum() - 1).backward()
        found = model.weight.grad
        model.zero_grad()
        return found

    assert nc.jit(penalty)(nc.tensor(X)).tolist() == penalty(nc.tensor(X)).tolist()


@pytest.mark.parametrize("way", ["result", "module"])
def test_a_hook_that_only_a_later_backward_would_reach_is_refused(way: str) -> None:
    model = layer()
    if way == "module":
        model.register_full_backward_hook(lambda *_: None)

    @nc.jit
    def error(x: Any) -> Any:
        h = model(x)
        if way == "result":
            h.register_hook(lambda g: g)
        return h.sum()

    with pytest.raises(nc.GradientError, match="must also contain the backward pass"):
        error(nc.tensor(X))
    with nc.no_grad():
        if way == "module":
            assert error(nc.tensor(X)).item() == model(nc.tensor(X)).sum().item()


def test_a_hook_of_a_parameter_is_not_registered_in_compiled_code() -> None:
    model = layer()

    @nc.jit
    def f(x: Any) -> Any:
        model.weight.register_hook(lambda g: g)
        return model(x)

    with pytest.raises(nc.GradientError, match="outside the function that is compiled"):
        f(nc.tensor(X))


def test_compiled_code_does_not_leave_another_mode() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        nc.set_grad_enabled(False)
        return x * 2

    with pytest.raises(nc.TraceError, match="set_grad_enabled"):
        f(nc.ones(2))
    assert nc.is_grad_enabled()
