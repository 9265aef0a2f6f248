"""Kernels from text: what is refused with an error of the package before code runs, and what remains possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc


def kernel(body: str, name: str = "outside_nest", dtypes: Any = (nc.float32, nc.int64), **rest: Any) -> Any:
    """A primitive of x, or of x and at, whose kernel has the lines given."""
    lines = "\n".join("  " + line for line in body.strip("\n").splitlines())

    def nest(types: Any, result: Any) -> str:
        inputs = ", ".join(f"{n}: {t}" for n, t in zip(("x", "at"), types, strict=False))
        return f"kernel k({inputs}) -> (y: {result}):\n{lines}\n"

    result = (lambda x, at: x) if "at[" in body else (lambda x: x)
    return nc.primitive(name, result=result, nest=nest, dtypes=dtypes, **rest)


@pytest.mark.parametrize("marks", ["parallel", "vector", "parallel vector"])
def test_loops_that_store_at_loaded_positions_have_no_marks(marks: str) -> None:
    body = "for n in 8:\n  let j = maximum(minimum(at[n], 7), 0)\n  y[j] = add(y[j], x[n])"
    x, at = nc.ones(8), nc.asarray(np.arange(8) % 2)
    assert kernel(body)(x, at).tolist() == [4.0, 4.0] + [0.0] * 6
    with pytest.raises(nc.GraphError, match=f"must be independent; .* of y; remove `{marks.split()[0]}`"):
        kernel(f"{marks} {body}")(x, at)


def test_results_are_the_same_in_place() -> None:
    body = "for i in 3:\n  for j in 8:\n    y[j] = mul(x[j], 2.0:f32)"
    f = nc.jit(lambda x: nc.cumulative_sum(kernel(body)(nc.cumulative_sum(x))))
    assert f(nc.ones(8)).tolist() == [2.0, 6.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0]


def test_scratch_may_be_read_backwards() -> None:
    flip = kernel("alloc s: f32[8]\nfor i in 8:\n  s[i] = x[i]\nfor j in 8:\n  y[j] = s[7 - j]")
    assert flip(nc.arange(8.0)).tolist() == list(range(7, -1, -1))
