"""Tensors without elements: indices into them, and their gradients, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from same_bits import canonical


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """The bits of a result, or the class and text of an error."""
    try:
        return canonical(f(*args))
    except nc.Error as fault:
        return type(fault), str(fault)


PICKS: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, i: nc.take(x, i, axis=0),
    "take of another axis": lambda x, i: nc.take(x, i, axis=1),
    "take of none": lambda x, i: nc.take(x, i[:0], axis=0),
    "take one": lambda x, i: nc.take(x, i[0], axis=0),
    "take constants": lambda x, i: nc.take(x, nc.tensor([0, 1]), axis=0),
    "take a list": lambda x, i: nc.take(x, [0], axis=0),
    "along": lambda x, i: nc.take_along_axis(x, nc.zeros((2, 3), dtype=nc.int64), axis=0),
    "clip": lambda x, i: nc.take(x, i, axis=0, mode="clip"),
    "drop": lambda x, i: nc.take(x, i, axis=0, mode="drop"),
    "index": lambda x, i: x[i],
    "index of one": lambda x, i: x[i[0]],
    "index of another axis": lambda x, i: x[:, i],
    "several indices": lambda x, i: x[i, i],
    "number": lambda x, i: x[0],
    "in a batch": lambda x, i: nc.vmap(lambda j: nc.take(x, j, axis=0))(i),
}


@pytest.mark.parametrize("name", PICKS)
def test_indices_into_nothing_give_the_same_in_every_mode(name: str) -> None:
    x, i = nc.zeros((0, 3)), nc.tensor([0, 2])
    found = outcome(PICKS[name], x, i)
    assert outcome(nc.jit(PICKS[name]), x, i) == found
    if name in ("take", "index", "along", "several indices"):
        assert found == (nc.AxisError, "index: indices for axis 0 must be in [0, 0); got 0")


SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": nc.sum,
    "mean": nc.mean,
    "product": nc.prod,
    "chain": lambda x: nc.sum(nc.exp(x * 2) + x),
    "matrix product": lambda x: nc.sum(x.T @ x),
    "part": lambda x: nc.sum(x[:0] * 2) + nc.sum(x[1:]),
    "max of columns": lambda x: nc.sum(nc.max(x, axis=1)),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("rows", [0, 2])
def test_sums_of_nothing_have_gradients(name: str, rows: int) -> None:
    f = SUMS[name]
    wanted = canonical(nc.grad(f)(nc.ones((rows, 3))))
    for each in (f, nc.jit(f)):
        for create in (False, True):
            x = nc.ones((rows, 3)).requires_grad_()
            each(x).backward(create_graph=create)
            assert canonical(x.grad) == wanted


@pytest.mark.parametrize("f", [lambda x: x * 2, lambda x: nc.sum(x, axis=1), lambda x: nc.sum(x, axis=0)])
def test_an_empty_result_has_the_error_of_several_elements(f: Callable[[Any], Any]) -> None:
    for each in (f, nc.jit(f)):
        with pytest.raises(nc.GradientError, match="must have one element; got shape"):
            each(nc.zeros((0, 3)).requires_grad_()).backward()


def test_a_result_without_a_derivative_is_not_recorded() -> None:
    x = nc.zeros((0, 3)).requires_grad_()
    with pytest.raises(nc.GradientError, match="got none"):
        nc.sum(x.detach()).backward()
    with pytest.raises(nc.GradientError, match="got none"):
        nc.sum(nc.floor(x)).backward()


def test_parameters_that_meet_an_empty_batch_get_zeros() -> None:
    layer = nn.Linear(3, 2)

    def step(x: Any) -> Any:
        (nc.sum(layer(x)) + nc.sum(layer.bias)).backward()
        found = layer.weight.grad, layer.bias.grad
        layer.zero_grad()
        return found

    x = nc.zeros((0, 3))
    weight, bias = step(x)
    assert weight.tolist() == [[0.0] * 3] * 2 and bias.tolist() == [1.0] * 2
    assert list(map(canonical, nc.jit(step)(x))) == [canonical(weight), canonical(bias)]


EXTREMES: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: nc.max(x, axis=0),
    "min": lambda x: nc.min(x.astype(nc.int32)),
    "argmax": lambda x: nc.argmax(x, axis=0),
    "max of a part": lambda x: nc.max(x[: x.shape[0] // 4]),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_nothing_are_refused_in_every_mode(name: str) -> None:
    function = EXTREMES[name]
    ranged = nc.jit(function, dynamic_shapes={"x": {0: nc.Dim("n", max=9)}})
    compiled = nc.jit(function)
    for n in (9, 8, 5, 0):
        x = nc.random.normal((n, 2))
        for f in (function, compiled, ranged):
            if n:
                assert canonical(f(x)) == canonical(function(x))
            else:
                with pytest.raises(nc.ShapeError, match=f"{name.partition(' ')[0]}: x must not be empty; got"):
                    f(x)
    assert len(ranged.concrete_functions) == 1
    if "part" in name:
        with pytest.raises(nc.ShapeError, match="max: x must not be empty; got 0 elements"):
            compiled(nc.ones((3, 2)))
