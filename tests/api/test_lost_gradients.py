"""Numbers passed to Python and NumPy in a function under `grad` are refused, unless no gradient is lost."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

LEAVING: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.numpy(),
    "array": np.array,
    "asarray": np.asarray,
    "array of elements": lambda x: np.array([x[0], x[1]]),
    "float64": lambda x: np.float64(x[0]),
    "float": lambda x: float(x[0]),
    "list of floats": lambda x: [float(y) for y in x],
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "math": lambda x: math.sin(x[0]),
    "complex": lambda x: complex(x[0]),
    "sum of Python": lambda x: math.fsum(x),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "json": lambda x: json.dumps(x.tolist()),
}
HARMLESS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "repr": repr,
    "format": lambda x: f"{x[0]:.3f} {x}",
    "bool": lambda x: bool(x[0] > 0),
    "truth": lambda x: bool(x[0]),
    "int": lambda x: int(x[0]),
    "position": lambda x: int(nc.argmax(x)),
    "index": lambda x: [10, 20][nc.argmax(x)],
    "detached": lambda x: float(x.detach()[0]),
    "detached array": lambda x: x.detach().numpy(),
    "shape": lambda x: x.shape,
    "ufunc": np.sin,
    "list of elements": lambda x: np.stack(list(x)),
    "copy": copy.copy,
    "integers": lambda x: x.astype("int32").numpy(),
}


def no_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function without recording."""

    def call(x: Any) -> Any:
        with nc.no_grad():
            return f(x)

    return call


WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad": nc.grad,
    "value_and_grad": nc.value_and_grad,
    "vjp": lambda f: lambda x: nc.vjp(f, x),
    "jacrev": nc.jacrev,
    "a tree": lambda f: lambda x: nc.grad(lambda t: f(t["x"]))({"x": x}),
    "a parameter": lambda f: lambda x: nc.grad(f)(nn.Parameter(x)),
    "grad of grad": lambda f: nc.grad(lambda x: nc.sum(nc.grad(f)(x))),
    "grad within backward": lambda f: lambda x: nc.sum(nc.grad(f)(x.requires_grad_())).backward(),
}


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("way", WAYS)
def test_uses_that_would_lose_a_gradient_are_refused(way: str, name: str) -> None:
    def f(x: Any) -> Any:
        LEAVING[name](x * 2.0)
        return nc.sum(x * x)

    with pytest.raises(nc.GradientError):
        WAYS[way](f)(nc.tensor([1.0, 2.0]))


@pytest.mark.parametrize("name", [*HARMLESS, *LEAVING])
@pytest.mark.parametrize("way", WAYS)
def test_uses_that_lose_no_gradient_are_computed(way: str, name: str) -> None:
    use = HARMLESS.get(name) or no_grad(LEAVING[name])

    def f(x: Any) -> Any:
        use(x * 2.0)
        return nc.sum(x * x)

    WAYS[way](f)(nc.tensor([1.0, 2.0]))


@pytest.mark.parametrize("name", LEAVING)
def test_numbers_of_tensors_that_do_not_depend_on_the_argument_are_read(name: str) -> None:
    held = nc.tensor([0.5, 0.25])

    def f(x: Any) -> Any:
        LEAVING[name](held * 2.0)
        return nc.sum(x * x)

    assert nc.grad(f)(nc.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_the_message_says_how_to_detach() -> None:
    with pytest.raises(nc.GradientError, match=r"float: the tensor must not depend(.|\n)*x\.detach\(\)"):
        nc.grad(lambda x: float(x) * x)(nc.tensor(2.0))


def test_lists_of_tensors_keep_their_gradients() -> None:
    assert nc.grad(lambda x: nc.sum(nc.tensor([x[0], x[1]]) * x))(nc.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
