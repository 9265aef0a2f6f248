"""`autograd.Function` inside of transformations: the bits of eager code, and errors where a method cannot be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from tensor_bits import bits


class Power(nc.autograd.Function):
    """x³ with a wrong factor, so that the rule is told from the derivative; it saves an argument and its result."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, mode: str = "wrong") -> Any:
        y = x * x * x
        ctx.save_for_backward(x, None, y)
        ctx.factor, ctx.mode = factor, mode
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, nothing, y = ctx.saved_tensors
        assert nothing is None and ctx.mode == "wrong"
        return ctx.factor * g * y / x, None, None


class Halves(nc.autograd.Function):
    """Two results, of which one has no derivative; the context is filled by a method of its own."""

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y, nc.floor(x), nc.argmax(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, of_floor: Any, of_place: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + of_floor, (g * x if ctx.needs_input_grad[1] else None)


class Several(nc.autograd.Function):
    """Results whose missing gradients are None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.parts = [nc.sin(x), {"cos": nc.cos(x)}]  # tensors in attributes
        return nc.sin(x), nc.cos(x), x * x

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        total = None
        for part in (
            None if a is None else a * ctx.parts[1]["cos"],
            None if b is None else b * ctx.parts[0] * 10,
            None if c is None else c * 7,
        ):
            total = part if total is None else (total if part is None else total + part)
        return total


class Masked(nc.autograd.Function):
    """It saves a tensor that is neither an argument nor a result, and returns None for an argument."""

    @staticmethod
    def forward(ctx: Any, x: Any, limit: Any) -> Any:
        inside = (nc.abs(x) < limit).astype(x.dtype)
        ctx.save_for_backward(inside)
        return nc.clip(x, -limit, limit)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0], None


X = nc.tensor(np.linspace(-1.7, 1.9, 6, dtype=np.float32))
OTHER = nc.tensor(np.linspace(0.3, 2.1, 6, dtype=np.float32))
CASES: dict[str, Callable[[Any], Any]] = {
    "a number and a text": lambda x: Power.apply(x, 2.5),
    "several results, one constant": lambda x: sum_of(Halves.apply(x, OTHER)),
    "the same argument twice": lambda x: sum_of(Halves.apply(x, x)),
    "the first of several results": lambda x: Several.apply(x)[0] * 2,
    "two of several results": lambda x: Several.apply(x)[2] * Several.apply(x)[0],
    "all results": lambda x: sum_of(Several.apply(x)),
    "a saved intermediate": lambda x: Masked.apply(x, nc.tensor(1.0)),
    "one behind another": lambda x: Masked.apply(Power.apply(x, 2.0), 1.5) * Power.apply(x, 3.0),
}


def sum_of(parts: Any) -> Any:
    return parts[0] + parts[1] * parts[-1].astype(nc.float32)


def eager(f: Callable[[Any], Any], x: Any) -> Any:
    """The value and the gradient by a backward pass of eager code."""
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    y.sum().backward()
    return y.detach(), leaf.grad


def by_steps(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function as the body of a loop over tensors of one row each."""
    return lambda x: nc.scan(lambda c, row: (c, f(row)), nc.tensor(0.0), nc.expand_dims(x, axis=0))[1][0]


def gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return nc.grad(lambda x: f(x).sum())


MODES: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad": gradient,
    "jit of grad": lambda f: nc.jit(gradient(f)),
    "grad of jit": lambda f: gradient(nc.jit(f)),
    "checkpoint": lambda f: gradient(nc.checkpoint(f)),
    "scan": lambda f: gradient(by_steps(f)),
    "jit of scan": lambda f: nc.jit(gradient(by_steps(f))),
    "cond": lambda f: gradient(lambda x: nc.cond(x.sum() > -100.0, f, lambda x: x, x)),
    "vmap of grad": lambda f: lambda x: nc.vmap(gradient(f))(nc.stack([x, x * 2]))[0],
    "grad of vmap": lambda f: lambda x: gradient(lambda xs: nc.vmap(f)(xs)[0])(nc.stack([x, x * 2]))[0],
    "vjp": lambda f: lambda x: nc.vjp(f, x)[1](nc.ones_like(x))[0],
    "backward of jit": lambda f: lambda x: eager(nc.jit(f), x)[1],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_gradients_have_the_bits_of_eager_code(case: str, mode: str) -> None:
    f = CASES[case]
    assert bits(MODES[mode](f)(X)) == bits(eager(f, X)[1])


@pytest.mark.parametrize("case", CASES)
def test_results_have_the_bits_of_eager_code(case: str) -> None:
    f = CASES[case]
    wanted = bits(f(X))
    batched = nc.vmap(f)(nc.stack([X, X * 2]))
    assert [bits(nc.jit(f)(X)), bits(batched[0]), bits(batched[1])] == [wanted, wanted, bits(f(X * 2))]


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_have_the_bits_of_eager_code(case: str) -> None:
    f = CASES[case]
    x = X.detach().requires_grad_()
    (g,) = nc.autograd.grad(f(x).sum(), x, create_graph=True)
    second = (
        nc.autograd.grad((g * g).sum(), x, allow_unused=True, materialize_grads=True)[0] if g.requires_grad else X * 0
    )

    def twice(y: Any) -> Any:
        return nc.grad(lambda y: (gradient(f)(y) ** 2).sum())(y)

    assert nc.allclose(twice(X), second, rtol=1e-6, atol=1e-6)
    assert bits(nc.jit(twice)(X)) == bits(twice(X)) == bits(nc.grad(lambda y: (nc.jit(gradient(f))(y) ** 2).sum())(X))


@pytest.mark.parametrize("case", CASES)
def test_a_step_that_is_compiled(case: str) -> None:
    p = nn.Parameter(X)
    f = CASES[case]

    def step() -> Any:
        y = f(p.value)
        y.sum().backward()
        return y

    value, slope = eager(f, X)
    compiled = nc.jit(step)
    for count in (1, 2):
        assert bits(compiled()) == bits(value)
        assert p.grad is not None and bits(p.grad) == bits(slope if count == 1 else slope + slope)


class Sine(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return nc.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Cosine.apply(ctx.saved_tensors[0])


class Cosine(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return nc.cos(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -g * Sine.apply(ctx.saved_tensors[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_classes_that_call_each_other_have_every_derivative(compiled: bool) -> None:
    f: Any = Sine.apply
    x = nc.tensor(0.3)
    wanted = [nc.sin(x), nc.cos(x), -nc.sin(x), -nc.cos(x), nc.sin(x)]
    for value in wanted:
        assert (nc.jit(f) if compiled else f)(x).item() == pytest.approx(value.item(), rel=1e-6)
        f = nc.grad(f)


class Order(nc.autograd.Function):
    """A number that grows with each derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any, n: int) -> Any:
        ctx.save_for_backward(x)
        ctx.n = n
        return x * n

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Order.apply(ctx.saved_tensors[0], ctx.n + 1), None


def test_a_rule_without_end_is_traced_as_far_as_it_may_be_needed() -> None:
    def f(x: Any) -> Any:
        return Order.apply(x, 1)

    x = nc.tensor(1.0)
    assert nc.jit(f)(x).item() == 1.0
    assert nc.jit(nc.grad(f))(x).item() == 2.0
    assert nc.jit(nc.grad(nc.grad(f)))(x).item() == nc.grad(nc.grad(f))(x).item() == 3.0


class Dropped(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        mask = (nc.random.uniform(x.shape) < 0.5).astype(x.dtype)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


def test_forward_may_draw_random_numbers() -> None:
    def run(f: Any) -> Any:
        nc.random.seed(3)
        return [bits(f(X)) for _ in range(3)]

    slope = gradient(Dropped.apply)
    assert run(nc.jit(slope)) == run(slope) == run(gradient(nc.jit(Dropped.apply)))
    first, second, third = run(slope)
    assert first != second != third


def test_forward_may_assign_variables() -> None:
    seen = nc.Variable(nc.tensor(0.0))

    class Counted(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.assign(seen.value + x.sum())
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    slope = nc.jit(gradient(Counted.apply))
    for count in (1, 2):
        assert slope(nc.ones(3)).tolist() == [5.0, 5.0, 5.0]
        assert seen.value.item() == 3.0 * count


def test_what_a_method_captures_is_a_constant() -> None:
    w = nn.Parameter(OTHER)

    class Scaled(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * w.value

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * w.value

    def loss(model: Any, x: Any) -> Any:
        return (Scaled.apply(x) * model.value.detach()).sum()

    wanted = nc.grad(loss, argnums=(0, 1))(w, X)
    found = nc.jit(nc.grad(loss, argnums=(0, 1)))(w, X)
    assert [bits(x) for x in found] == [bits(x) for x in wanted]
    assert bits(wanted[0]) == bits(nc.zeros_like(X)) and bits(wanted[1]) == bits(OTHER * OTHER)


def test_eager_grad_runs_the_methods_on_numbers() -> None:
    class Host(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale = 3.0 if x.sum() > 0 else 4.0
            return nc.tensor(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return nc.tensor(g.numpy() * np.float32(ctx.scale))

    assert gradient(Host.apply)(nc.ones(2)).tolist() == [3.0, 3.0]
    assert gradient(Host.apply)(-nc.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(nc.TraceError, match="known numbers"):
        nc.jit(Host.apply)(X)
    with pytest.raises(nc.TraceError, match="known numbers"):
        nc.vmap(Host.apply)(X)


def test_conditions_are_converted() -> None:
    class Chosen(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            if x.sum() > 0:
                y = x * 3
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if g.sum() > 0:
                return g * 7
            return g * 8

    f = nc.jit(gradient(Chosen.apply))
    assert f(nc.ones(2)).tolist() == [7.0, 7.0]
    assert nc.jit(Chosen.apply)(nc.ones(2)).tolist() == [3.0, 3.0]
    assert nc.jit(Chosen.apply)(-nc.ones(2)).tolist() == [-2.0, -2.0]


class Broken(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise NotImplementedError("later")


def test_a_backward_that_is_not_needed_may_fail() -> None:
    assert nc.jit(Broken.apply)(nc.ones(2)).tolist() == [2.0, 2.0]
    assert nc.vmap(Broken.apply)(nc.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="later"):
        nc.jit(gradient(Broken.apply))(X)
    for f in (gradient(nc.jit(Broken.apply)), gradient(by_steps(Broken.apply))):
        with pytest.raises(nc.GradientError, match=r"Broken\.backward: NotImplementedError: later\n\n  at .*test_func"):
            f(X)


class Once(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @nc.autograd.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0]


def test_once_differentiable() -> None:
    f = gradient(Once.apply)
    for first in (f, nc.jit(f), gradient(nc.jit(Once.apply)), nc.vmap(nc.grad(Once.apply))):
        assert first(X).tolist() == (X * 2).tolist()
        with pytest.raises(nc.GradientError, match="once_differentiable computed must not be differentiated again"):
            nc.grad(lambda x, first=first: first(x).sum())(X)


@pytest.mark.parametrize(
    "forward_mode", [lambda f: nc.jacfwd(f), lambda f: lambda x: nc.jvp(f, (x,), (x,)), lambda f: nc.hessian(f)]
)
def test_forward_mode_is_refused(forward_mode: Any) -> None:
    with pytest.raises(nc.GradientError, match=r"forward mode .* through Sine, .* nc\.custom_jvp"):
        forward_mode(lambda x: Sine.apply(x).sum())(X)


def test_wrong_gradients_are_refused_where_they_are_traced() -> None:
    class Wrong(Broken):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.sum()

    with pytest.raises(nc.GradientError, match=r"argument 0 must have type f32\[6\], or be None; got f32\[\]"):
        nc.jit(gradient(Wrong.apply))(X)


def test_methods_that_cannot_be_traced_are_refused() -> None:
    seen = nc.Variable(nc.tensor(0.0))

    class Changes(Broken):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x[0] = 1.0
            return x

    class Assigns(Broken):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.assign(g.sum())
            return g

    class Many(Broken):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return tuple(x * k for k in range(5))

    with pytest.raises(nc.TraceError, match=r"Changes\.apply: .* must not change their arguments"):
        nc.jit(Changes.apply)(X)
    with pytest.raises(nc.TraceError, match=r"Assigns\.apply: .* `backward` must not assign variables"):
        nc.jit(gradient(Assigns.apply))(X)
    with pytest.raises(nc.TraceError, match=r"Many\.apply: .* at most 4 floating-point results"):
        nc.jit(Many.apply)(X)


def test_a_graph_of_placeholders_has_the_rule() -> None:
    p = nc.placeholder((6,), nc.float32, name="p")
    graph = nc.Graph.build([p], [Power.apply(p, 2.5)])
    assert bits(gradient(lambda x: graph(x)[0])(X)) == bits(eager(CASES["a number and a text"], X)[1])


def test_complex_numbers_have_the_convention_of_backward() -> None:
    class Product(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * nc.conj(y), g * nc.conj(x)

    x, y = nc.tensor([1 + 2j, 3 - 1j]), nc.tensor([2 - 1j, 1j])

    def loss(product: Any) -> Callable[[Any], Any]:
        return lambda x: (nc.real(product(x, y)) * nc.tensor([1.0, 2.0])).sum()

    wanted = nc.grad(loss(lambda x, y: x * y))(x)
    for f in (nc.grad(loss(Product.apply)), nc.jit(nc.grad(loss(Product.apply))), nc.grad(nc.jit(loss(Product.apply)))):
        assert f(x).tolist() == wanted.tolist()
