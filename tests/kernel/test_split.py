"""A reduction in two kernels gives the bits of one kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_loops import ISAS, canonical, execute, numbers
from kernel.marks import marked
from nacre.base.dtypes import DType, float32, float64, int32
from nacre.kernel.ast import Kernel
from nacre.kernel.interpret import run
from nacre.kernel.split import split
from nacre.kernel.text import parse
from nacre.kernel.verify import verify

SUM = """\
kernel s(x: {t}[N]) -> (y: {t}[], z: {t}[]):
  alloc s: {t}[]
  alloc m: {t}[]
  for i in N:
    let v = mul(x[i], x[i])
    accumulate {op} s <- v
    accumulate max m <- v
  y[] = s[]
  z[] = m[]
"""
COLUMNS = """\
kernel c(x: f32[N, 5]) -> (y: f32[5]):
  for j in 5:
    alloc s: f32[]
    for i in N:
      accumulate sum s <- x[i, j]
    y[j] = neg(s[])
"""
PLACE = """\
kernel a(x: {t}[N]) -> (y: i64[]):
  alloc m: {t}[]
  alloc at: i64[]
  for i in N:
    accumulate {op} m, at <- x[i], i
  y[] = at[]
"""


def halves(text: str) -> tuple[Kernel, tuple[Kernel, Kernel]]:
    whole = marked(parse(text))
    found = split(whole, 8)
    assert found is not None
    for k in found:
        verify(k)
    return whole, found


def same_bits(text: str, x: np.ndarray) -> None:
    whole, (blocks, rest) = halves(text)
    sizes = {"N": len(x)}
    expected = run(whole, [x], sizes)
    found = run(rest, [x, *run(blocks, [x], sizes)], sizes)
    for isa in ISAS:
        compiled = execute(rest, isa, [x, *execute(blocks, isa, [x], sizes, [1, 3])], sizes)
        for a, b, c in zip(expected, found, compiled, strict=True):
            assert (canonical(a) == canonical(b)).all() and (canonical(a) == canonical(c)).all()


@given(n=st.integers(0, 70), dtype=st.sampled_from((float32, float64, int32)), op=st.sampled_from(("sum", "prod")))
@settings(max_examples=30, deadline=None)
def test_rows(n: int, dtype: DType, op: str) -> None:
    same_bits(SUM.format(t=dtype.short, op=op), numbers((n,), dtype, n, special=n % 2 == 1))


@given(
    n=st.integers(0, 200), dtype=st.sampled_from((float32, float64, int32)), op=st.sampled_from(("argmax", "argmin"))
)
@settings(max_examples=30, deadline=None)
def test_places(n: int, dtype: DType, op: str) -> None:
    text = PLACE.format(t=dtype.short, op=op)
    same_bits(text, numbers((n,), dtype, n, special=n % 2 == 1))
    least = -math.inf if dtype.is_float else -(1 << 31)
    same_bits(text, np.full(n, least if op == "argmax" else -least - (not dtype.is_float), dtype.numpy))


@given(n=st.integers(0, 40))
@settings(max_examples=15, deadline=None)
def test_columns(n: int) -> None:
    same_bits(COLUMNS, numbers((n, 5), float32, n))


def test_negative_zeros_are_preserved() -> None:
    same_bits(COLUMNS, np.full((16, 5), -0.0, np.float32))
    same_bits(COLUMNS, np.full((3, 5), -0.0, np.float32))


@pytest.mark.parametrize(
    "text",
    (
        "kernel k(x: f32[N]) -> (y: f32[N]):\n  parallel for i in N:\n    y[i] = x[i]\n",
        "kernel k(x: f32[9]) -> (y: f32[]):\n  alloc s: f32[]\n  for i in 9:\n    accumulate sum s <- "
        "x[i]\n  y[] = s[]\n",
    ),
)
def test_other_kernels_are_not_split(text: str) -> None:
    assert split(parse(text), 8) is None
