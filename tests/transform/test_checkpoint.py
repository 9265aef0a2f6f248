"""checkpoint: the same bits, with fewer saved values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.compile.passes.simplify import simplify
from nacre.trace.variable import Variable

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)


def block(x: Any) -> Any:
    return nc.sin(nc.exp(nc.tanh(x)) * x)


def plain(x: Any) -> Any:
    return block(block(x)).sum()


def kept(x: Any) -> Any:
    again = nc.checkpoint(block)
    return again(again(x)).sum()


def test_the_same_bits() -> None:
    wanted = nc.grad(plain)(X).numpy().tobytes()
    for g in (nc.grad(kept), nc.jit(nc.grad(kept)), nc.grad(nc.jit(kept))):
        assert g(X).numpy().tobytes() == wanted
    assert nc.vmap(nc.grad(kept))(nc.stack([X, X]))[1].numpy().tobytes() == wanted
    np.testing.assert_allclose(nc.hessian(kept)(X).numpy(), nc.hessian(plain)(X).numpy(), rtol=1e-12)


def test_only_inputs_are_saved() -> None:
    x = nc.tensor([0.5, -1.0]).requires_grad_()
    y = nc.checkpoint(block)(x)
    assert [v.shape for v in y.node.node.saved] == [(2,)]
    y.sum().backward()
    other = nc.tensor([0.5, -1.0]).requires_grad_()
    block(other).sum().backward()
    assert x.grad.numpy().tobytes() == other.grad.numpy().tobytes()


def test_a_backward_pass_recomputes_a_checkpointed_block() -> None:
    names = [e.primitive.name for e in nc.jit(nc.grad(lambda x: nc.checkpoint(block)(x).sum())).trace(X).equations]
    assert names.count("call") == 1 and names.count("exp") == 1 and "fence" in names


def test_captured_variables_get_gradients_and_writes_stay() -> None:
    w, n = Variable(X, requires_grad=True), Variable(nc.tensor(0))

    def f(x: Any, scale: float = 1.0) -> Any:
        n.assign(n.value + 1)
        return (nc.exp(w.value) * x * scale).sum()

    nc.checkpoint(f)(X, scale=2.0).backward()
    np.testing.assert_allclose(w.gradient.numpy(), 2 * np.exp(X.numpy()) * X.numpy(), rtol=1e-14)
    assert int(n.value) == 1


WITHIN: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "checkpoint": lambda f, x: nc.checkpoint(f)(x),
    "cond": lambda f, x: nc.cond(nc.sum(x) > 0, f, f, x),
    "scan": lambda f, x: nc.scan(lambda c, y: (c, f(y)), nc.tensor(0.0), nc.stack([x])),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_backward_inside_tells_which_gradient_is_missing(name: str) -> None:
    model, x = nn.Linear(2, 2, bias=False), nc.ones((1, 2))

    def f(x: Any) -> Any:
        nc.sum(model(x)).backward()
        return x

    def cleared(x: Any) -> Any:
        model.zero_grad()
        return x

    with pytest.raises(nc.GradientError, match=r"of weight must be .* it is None; .*`p\.grad = nc\.zeros_like\(p\)`"):
        WITHIN[name](f, x)
    model.weight.grad = nc.zeros_like(model.weight)
    WITHIN[name](f, x)
    assert model.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(nc.GradientError, match=r"of weight must stay .* is set to None inside"):
        WITHIN[name](cleared, x)


def wide(x: Any) -> Any:
    return nc.sin(nc.name(nc.exp(x @ MATRIX), "grown")) @ MATRIX


MATRIX = nc.tensor([[0.5, -0.25, 1.0], [0.125, 0.75, -0.5], [1.0, 0.5, 0.25]], dtype=nc.float64)
ROWS = nc.stack([X, X * 0.5])
POLICIES: dict[str, Any] = {"nothing": "nothing", "products": "products", "names": ["grown"]}
COMPUTED = {"nothing": (8, 3), "products": (7, 3), "names": (7, 2)}  # products and exponentials of two blocks


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_keep_the_bits(policy: str) -> None:
    again = nc.checkpoint(wide, save=POLICIES[policy])

    def f(x: Any) -> Any:
        return nc.sum(again(again(x)))

    def plain(x: Any) -> Any:
        return nc.sum(wide(wide(x)))

    wanted = nc.grad(plain)(ROWS).numpy().tobytes()
    for g in (nc.grad(f), nc.jit(nc.grad(f)), nc.grad(nc.jit(f))):
        assert g(ROWS).numpy().tobytes() == wanted
    both = nc.vmap(nc.grad(f))(nc.stack([ROWS, ROWS]))
    assert both[1].numpy().tobytes() == nc.vmap(nc.grad(plain))(nc.stack([ROWS, ROWS]))[1].numpy().tobytes()
    assert nc.jvp(f, (ROWS,), (ROWS,))[1].numpy().tobytes() == nc.jvp(plain, (ROWS,), (ROWS,))[1].numpy().tobytes()
    np.testing.assert_allclose(nc.hessian(f)(ROWS).numpy(), nc.hessian(plain)(ROWS).numpy(), rtol=1e-10)


@pytest.mark.parametrize("policy", POLICIES)
def test_compiled_code_computes_again_what_is_not_saved(policy: str) -> None:
    again = nc.checkpoint(wide, save=POLICIES[policy])
    graph = simplify(nc.jit(nc.grad(lambda x: nc.sum(again(again(x))))).trace(ROWS))
    names = [e.primitive.name for e in graph.equations]
    assert (names.count("dot"), names.count("exp")) == COMPUTED[policy]


def test_eager_code_saves_what_the_policy_says() -> None:
    x = ROWS.detach().requires_grad_()
    shapes = {name: sorted(v.shape for v in _saved(nc.checkpoint(wide, save=p)(x))) for name, p in POLICIES.items()}
    assert shapes == {"nothing": [(2, 3), (3, 3)], "products": [(2, 3), (3, 3)], "names": [(2, 3), (3, 3)]}
    saved = {
        name: {v.numpy().tobytes() for v in _saved(nc.checkpoint(wide, save=p)(x))} for name, p in POLICIES.items()
    }
    assert (x @ MATRIX).numpy().tobytes() in saved["products"]
    assert nc.exp(x @ MATRIX).numpy().tobytes() in saved["names"]


def _saved(y: Any) -> Any:
    return y.node.node.saved


@pytest.mark.parametrize("save", ["grown", "everything"])
def test_a_policy_is_one_of_two_words_or_names(save: str) -> None:
    with pytest.raises(
        nc.ArgumentError, match=r'must be "nothing", "products" or a list of names; got .*write save=\['
    ):
        nc.checkpoint(wide, save=save)
    with pytest.raises(nc.Error, match="a list of names; got 3"):
        nc.checkpoint(wide, save=3)  # type: ignore[arg-type]


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(nc.ArgumentError, match=r"that wide gives by nc\.name; got 'shrunk'; it gives 'grown'"):
        nc.checkpoint(wide, save=["shrunk"])(ROWS)
