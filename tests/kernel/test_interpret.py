"""The reference interpreter against NumPy, where NumPy has the same results."""

from __future__ import annotations

import numpy as np
import pytest

from kernel.marks import marked
from kernel.sample import softmax
from nacre.base.errors import ArgumentError, GraphError
from nacre.kernel.ast import Kernel
from nacre.kernel.interpret import run
from nacre.kernel.order import tree
from nacre.kernel.text import parse

RNG = np.random.default_rng(0)


def kernel(text: str) -> Kernel:
    return parse(text)


def test_sum_is_the_tree() -> None:
    k = kernel(
        "kernel s(x: f32[N]) -> (y: f32[]):\n  alloc s: f32[]\n  for i in N:\n    accumulate sum s <- x[i]\n"
        "  y[] = s[]\n"
    )
    for n in (0, 1, 2, 100):
        x = RNG.standard_normal(n).astype(np.float32)
        (y,) = run(k, [x], {"N": n})
        assert y == (tree(x, np.add) if n else 0)
    assert not np.signbit(run(k, [np.zeros(0, np.float32)], {"N": 0})[0])


def test_softmax() -> None:
    x = RNG.standard_normal((3, 50)).astype(np.float32)
    for k in (softmax(), marked(softmax())):
        (y,) = run(k, [x], {"N": 3, "M": 50})
        e = np.exp(x - x.max(1, keepdims=True))
        assert np.allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_argmax_takes_the_first() -> None:
    k = kernel(
        "kernel a(x: f32[N]) -> (y: i64[]):\n  alloc s: f32[]\n  alloc k: i64[]\n  for i in N:\n"
        "    accumulate argmax s, k <- x[i], i\n  y[] = k[]\n"
    )
    for values, expected in (([1, 3, 3], 1), ([-np.inf, -np.inf], 0), ([1, np.nan, 9, np.nan], 1), ([-0.0, 0.0], 0)):
        x = np.array(values, np.float32)
        assert run(k, [x], {"N": len(x)})[0] == expected


def test_lanes_and_conditions() -> None:
    k = kernel(
        "kernel c(x: i64[N]) -> (y: i64[N]):\n  parallel for i in N:\n    alloc n: i64[]\n    alloc a: i64[]\n"
        "    a[] = x[i]\n    while gt(a[], 1):\n      n[] = n[] + 1\n      if eq(rem(a[], 2), 0):\n"
        "        a[] = idiv(a[], 2)\n      else:\n        a[] = (a[] * 3) + 1\n    y[i] = n[]\n"
    )
    (y,) = run(k, [np.arange(10)], {"N": 10})
    assert y.tolist() == [0, 0, 1, 7, 2, 5, 8, 16, 3, 19]


def test_faults() -> None:
    k = kernel("kernel o(x: f32[N]) -> (y: f32[N]):\n  for i in N:\n    y[i] = x[i + 1]\n")
    with pytest.raises(GraphError, match=r"an index of x must be in \[0, 3\); got 3"):
        run(k, [np.zeros(3, np.float32)], {"N": 3})
    with pytest.raises(ArgumentError, match=r"x must have shape \(3,\) and dtype float32"):
        run(k, [np.zeros(4, np.float32)], {"N": 3})
