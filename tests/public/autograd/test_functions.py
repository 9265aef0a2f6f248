"""`autograd.Function`: what is freed, what is refused, and programs that differ from PyTorch's on purpose."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.interpret.tape import TapeNode


class Exp(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = nc.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y


def leaf(data: Any) -> nc.Tensor:
    return nc.tensor(data).requires_grad_()


def test_the_values_and_gradients_of_an_operation() -> None:
    x, z = leaf([0.5, -1.0]), leaf([0.5, -1.0])
    y = Exp.apply(x) * 3
    nc.exp(z).sum().backward(nc.tensor(3.0))
    y.sum().backward()
    assert x.grad is not None and z.grad is not None and x.grad.tolist() == z.grad.tolist()


def test_saved_tensors_are_freed_by_the_backward_pass() -> None:
    x = leaf([0.5, -1.0])
    y = Exp.apply(x)
    node = y.node.node
    assert isinstance(node, TapeNode) and node.saved is not None and len(node.saved) == 1
    y.sum().backward()
    assert node.saved is None
    with pytest.raises(nc.StateError, match="retain_graph"):
        y.sum().backward()


def test_a_call_that_is_not_differentiated_is_freed() -> None:
    x = leaf([0.5])
    node = weakref.ref(Exp.apply(x).node.node)
    assert node() is None


def test_parameters_are_arguments() -> None:
    p = nn.Parameter([0.0, 1.0])
    Exp.apply(p).sum().backward()
    assert p.grad is not None and p.grad.tolist() == nc.exp(p.detach()).tolist()


def test_every_derivative_of_exp() -> None:
    x = leaf(0.5)
    y = Exp.apply(x)
    for _ in range(4):
        (y,) = nc.autograd.grad(y, x, create_graph=True)
    assert y.item() == nc.exp(x).item()


class Twice(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any = None) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def returning(found: Any) -> type[nc.autograd.Function]:
    class Wrong(Twice):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return found

    return Wrong


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((), "one gradient for each of the 1 arguments"),
        ((nc.ones(2), nc.ones(2)), "one gradient for each"),
        (nc.ones(3), r"argument 0 must have type f32\[2\], or be None; got f32\[3\]"),
        (nc.ones(2, dtype=nc.float64), r"got f64\[2\]"),
        (1.0, "got a float"),
    ],
)
def test_wrong_gradients_are_refused(found: Any, said: str) -> None:
    y = returning(found).apply(leaf([1.0, 2.0]))
    with pytest.raises(nc.GradientError, match=said):
        y.sum().backward()


def test_a_gradient_of_an_argument_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(nc.GradientError, match="argument 1 must be None, because the argument is no tensor"):
        returning((nc.ones(2), nc.ones(2))).apply(leaf([1.0, 2.0]), 3.0).sum().backward()


def test_wrong_uses_of_the_context_are_refused() -> None:
    class Keeps(Twice):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any = None) -> Any:
            getattr(ctx, factor)(3 if factor == "save_for_backward" else x)

    with pytest.raises(nc.KindError, match=r"ctx\.factor = factor"):
        Keeps.apply(leaf(1.0), "save_for_backward")
    with pytest.raises(nc.StateError, match="return the new value"):
        Keeps.apply(leaf(1.0), "mark_dirty")
    with pytest.raises(nc.KindError, match=r"write Twice\.apply"):
        Twice()
    with pytest.raises(nc.StateError, match="static method forward"):
        nc.autograd.Function.apply(leaf(1.0))


def test_saved_tensors_that_change_are_noticed() -> None:
    class Product(Twice):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any = None) -> Any:
            ctx.save_for_backward(factor)
            return x * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0], None

    factor = nc.tensor([1.0, 2.0])
    y = Product.apply(leaf([1.0, 2.0]), factor)
    factor[0] = 5.0
    with pytest.raises(nc.GradientError, match="must not change before backward"):
        y.sum().backward()


def test_an_operation_without_gradients_is_not_recorded() -> None:
    assert not Exp.apply(nc.tensor(1.0)).requires_grad
    with nc.no_grad():
        assert nc.jit(Exp.apply)(nc.tensor(1.0)).item() == nc.exp(nc.tensor(1.0)).item()
