"""The verifier: all of its rules, and valid kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.marks import marked
from kernel.sample import Chance, N, softmax
from nacre.base.dtypes import float32, int64
from nacre.base.errors import GraphError
from nacre.kernel.ast import Apply, Buffer, For, Index, Kernel, Load, Local, Store
from nacre.kernel.text import parse
from nacre.kernel.verify import verify


@given(st.integers(0, 10_000))
def test_valid_kernels_pass(seed: int) -> None:
    kernel = Chance(seed).kernel()
    verify(kernel)
    verify(marked(kernel))


def test_softmax_passes() -> None:
    verify(marked(softmax()))


HEAD = "kernel k(x: f32[N], c: bool[N]) -> (y: f32[N]):\n"


@pytest.mark.parametrize(
    ("body", "why"),
    (
        ("for i in N:\n  x[i] = y[i]", "x is an input"),
        ("for i in N:\n  z[i] = x[i]", "unknown buffer z"),
        ("for i in N:\n  y[i, i] = x[i]", "y must have 1 indices; got 2"),
        ("for i in N:\n  y[i] = c[i]", "elements of y must be f32; got bool"),
        ("for i in N:\n  y[x[i]] = x[i]", "indices must be int64"),
        ("for i in N:\n  y[i] = exp(c[i])", None),
        ("for i in N:\n  y[i] = and(x[i], x[i])", "operand dtypes of and do not match"),
        ("for i in N:\n  y[i] = bitcast[f64](x[i])", "operand dtypes of bitcast do not match"),
        ("for i in N:\n  if x[i]:\n    y[i] = x[i]", "a condition must have dtype bool"),
        ("for i in N:\n  for i in N:\n    y[i] = x[i]", "names must be distinct; i"),
        ("parallel for i in N:\n  y[0] = x[i]", "of a parallel loop must be independent"),
        ("parallel for i in N:\n  y[i] = y[i + 1]", "the same elements of y"),
        ("vector for i in N:\n  y[i] = y[i + 1]", "of a vector loop must be independent"),
        ("vector for i in N:\n  y[idiv(i, 2)] = x[i]", "the same elements of y"),
        ("alloc s: f32[]\nvector for i in N:\n  s[] = add(s[], x[i])\n  y[i] = s[]", "the same elements of s"),
        ("alloc s: f32[]\nparallel for i in N:\n  accumulate sum s <- x[i]", "its rounds accumulate into s"),
        ("alloc s: f32[]\nfor i in N:\n  for j in N:\n    accumulate sum s <- x[j]", "directly in the one loop"),
        ("alloc s: f32[]\nfor i in N:\n  accumulate sum s <- x[i]\n  y[i] = s[]", "after its loop"),
        ("alloc s: f32[]\nfor i in N:\n  accumulate sum s <- x[i]\n  accumulate sum s <- x[i]", "one Accumulate"),
        ("alloc s: f32[]\naccumulate sum s <- x[0]", "a loop must separate"),
        ("alloc s: f64[]\nfor i in N:\n  accumulate sum s <- x[i]", "the accumulator must have type f32"),
        ("alloc s: f32[]\nalloc k: i64[]\nfor i in N:\n  accumulate argmax s, k <- x[i], x[i]", "must have type f32"),
    ),
)
def test_faults(body: str, why: str | None) -> None:
    kernel = parse(HEAD + "\n".join("  " + line for line in body.splitlines()))
    if why is None:
        with pytest.raises(GraphError):
            verify(kernel)
        return
    with pytest.raises(GraphError, match=why) as fault:
        verify(kernel)
    assert "\n> " in str(fault.value)


def test_names_that_the_parser_cannot_write() -> None:
    y = Buffer("y", float32, (N,))
    for value in (Local("t", float32), Apply("foo", (), float32), Load("y", (Index("j"),), float32)):
        with pytest.raises(GraphError):
            verify(Kernel("k", (), (y,), (For("i", N, (Store("y", (Index("i"),), value),)),)))
    with pytest.raises(GraphError, match="names must be distinct"):
        verify(Kernel("k", (y,), (y,), ()))
    with pytest.raises(GraphError, match="must have a stride for each"):
        verify(Kernel("k", (), (Buffer("y", int64, (N,), ()),), ()))
