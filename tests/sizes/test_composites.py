"""Functions of several primitives that are one eager operation: for each of many sizes, the bits of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.nn import functional as F
from same_bits import canonical

SIZES = ((3, 4), (5, 8), (6, 9), (2, 3), (7, 33), (5, 8), (1, 4), (4, 1), (0, 3), (9, 17))
RANDOM = np.random.default_rng(3)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: nc.mean(x, axis=1),
    "mean of all": lambda x: nc.mean(x),
    "mean with axes kept": lambda x: nc.mean(x, axis=0, keepdims=True),
    "where": lambda x: nc.where(x > 0, x, x * 2),
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, "tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "softmax": F.softmax,
    "softmax along columns": lambda x: F.softmax(x, 0),
    "log_softmax": F.log_softmax,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "layer_norm of all": lambda x: F.layer_norm(x, x.shape),
    "layer_norm with weights": lambda x: F.layer_norm(x, x.shape[1:], x[0] if len(x) else None, nc.ones(x.shape[1])),
    "layer_norm with a bias": lambda x: F.layer_norm(x, x.shape[1:], None, nc.ones(x.shape[1]), 0.5),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
    "rms_norm with weights": lambda x: F.rms_norm(x, x.shape[1:], nc.ones(x.shape[1]), 0.25),
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x, is_causal=True, scale=0.5),
    "masked attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x, nc.ones((len(x), len(x)), dtype=nc.bool)),
    "matmul": lambda x: x @ x.mT,
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT,
    "slices": lambda x: x[::2, 1:],
    "a view of a view": lambda x: x.mT[:, 1:].mT,
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("dtype", [nc.float32, nc.bfloat16], ids=str)
@pytest.mark.parametrize("seen", VIEWS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_size_has_the_bits_of_a_program_for_it_alone(name: str, seen: str, dtype: Any) -> None:
    function, view = FUNCTIONS[name], VIEWS[seen]
    exact = nc.jit(lambda x: function(x), dynamic=False)
    for shape in SIZES:
        x = view(nc.tensor(RANDOM.standard_normal(shape).astype(np.float32), dtype=dtype))
        assert canonical(function(x)) == canonical(exact(x)), shape


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_each_size_have_the_bits_of_compiled_ones(name: str) -> None:
    function = FUNCTIONS[name]

    def gradients(x: Any) -> Any:
        y = function(x)
        return nc.vjp(function, x)[1](y)[0]

    exact = nc.jit(gradients, dynamic=False)
    for shape in SIZES:
        numbers = RANDOM.standard_normal(shape).astype(np.float32)
        x = nc.tensor(numbers).requires_grad_()
        y = function(x)
        y.backward(y.detach())
        assert canonical(x.grad) == canonical(exact(nc.tensor(numbers))), shape
