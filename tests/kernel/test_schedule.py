"""Schedules: what they do, what they refuse, and the default choice."""

from __future__ import annotations

import numpy as np
import pytest

from kernel.sample import softmax
from nacre.base.errors import GraphError
from nacre.kernel import interpret
from nacre.kernel.ast import Kernel
from nacre.kernel.check import verify
from nacre.kernel.schedule import Schedule, apply, default
from nacre.kernel.text import parse, show

COPY = """\
kernel copy(x: f32[12, M]) -> (y: f32[12, M]):
  for i in 12:
    for j in M:
      y[i, j] = x[i, j]
"""


def heads(kernel: Kernel) -> list[str]:
    return [line.strip() for line in show(kernel).splitlines() if " for " in line or line.strip().startswith("for ")]


def test_steps() -> None:
    schedule = Schedule(
        interchange=(("i", "j"),), tile=(("i", 4),), parallel=("j",), vectorise=("i",), unroll=(("i_block", 3),)
    )
    kernel = apply(parse(COPY), schedule)
    verify(kernel)
    assert heads(kernel) == ["parallel for j in M:", "for i_block in 3 unroll 3:", "vector for i in 4:"]
    assert "y[(i_block * 4) + i, j] = x[(i_block * 4) + i, j]" in show(kernel)
    x = np.arange(60, dtype=np.float32).reshape(12, 5)
    (found,) = interpret.run(kernel, [x], {"M": 5})
    assert np.array_equal(found, x)


@pytest.mark.parametrize(
    ("schedule", "why"),
    (
        (Schedule(parallel=("k",)), "the kernel has no loop k; its loops are i, j"),
        (Schedule(interchange=(("j", "i"),)), "the whole body"),
        (Schedule(tile=(("i", 5),)), "5 does not divide 12"),
        (Schedule(tile=(("j", 2),)), "2 does not divide M"),
        (Schedule(unroll=(("i", 0),)), "a positive number of rounds"),
    ),
)
def test_refusals_on_a_copy(schedule: Schedule, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        apply(parse(COPY), schedule)


@pytest.mark.parametrize(
    ("text", "schedule", "why"),
    (
        (
            "  alloc s: f32[]\n  for i in N:\n    accumulate sum s <- x[i]\n",
            Schedule(parallel=("i",)),
            "accumulate into",
        ),
        (
            "  alloc s: f32[]\n  for i in N:\n    accumulate sum s <- x[i]\n",
            Schedule(tile=(("i", 1),)),
            "accumulate into",
        ),
        (
            "  alloc s: f32[]\n  for i in N:\n    s[] = add(s[], x[i])\n    y[i] = s[]\n",
            Schedule(vectorise=("i",)),
            "the scalar s is carried",
        ),
        ("  for i in N:\n    y[i] = y[i + 1]\n", Schedule(parallel=("i",)), "the same elements of y"),
        ("  for i in N:\n    y[i] = y[i + 1]\n", Schedule(vectorise=("i",)), "the same elements of y"),
        ("  for i in N:\n    y[idiv(i, 2)] = x[i]\n", Schedule(parallel=("i",)), "the same elements of y"),
        ("  for i in N:\n    y[0] = x[i]\n", Schedule(vectorise=("i",)), "the same element of y"),
        (
            "  for i in N:\n    alloc a: f32[]\n    a[] = x[i]\n    while lt(a[], 1.0:f32):\n      a[] = "
            "add(a[], 1.0:f32)\n"
            "    y[i] = a[]\n",
            Schedule(vectorise=("i",)),
            "leave a while",
        ),
    ),
)
def test_refusals(text: str, schedule: Schedule, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        apply(parse("kernel k(x: f32[N]) -> (y: f32[N]):\n" + text), schedule)


def test_default_of_softmax() -> None:
    assert heads(default(softmax())) == ["parallel for i in N:", *["vector for j in M:"] * 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        (COPY, ["parallel for i in 12:", "parallel vector for j in M:"]),
        (
            "kernel t(x: f32[N, M] strides [1, N]) -> (y: f32[N, M] strides [1, N]):\n  for i in N:\n    for j in M:\n"
            "      y[i, j] = x[i, j]\n",
            ["parallel for j in M:", "parallel vector for i in N:"],
        ),
        (
            "kernel c(x: f32[N, M]) -> (y: f32[M]):\n  for j in M:\n    alloc s: f32[]\n    for i in N:\n"
            "      accumulate sum s <- x[i, j]\n    y[j] = s[]\n",
            ["parallel vector for j in M:", "for i in N:"],
        ),
        (
            "kernel s(x: f32[N]) -> (y: f32[]):\n  alloc s: f32[]\n  for i in N:\n    accumulate sum s <- x[i]\n"
            "  y[] = s[]\n",
            ["vector for i in N:"],
        ),
        (
            "kernel scan(x: f32[N]) -> (y: f32[N]):\n  alloc s: f32[]\n  for i in N:\n    s[] = add(s[], x[i])\n"
            "    y[i] = s[]\n",
            ["for i in N:"],
        ),
        (
            "kernel scatter(p: i64[N], v: f32[N, M]) -> (y: f32[9, M]):\n  for j in M:\n    for i in N:\n"
            "      y[p[i], j] = add(y[p[i], j], v[i, j])\n",
            ["parallel vector for j in M:", "for i in N:"],
        ),
    ),
    ids=("copy", "transposed", "columns", "sum", "scan", "scatter"),
)
def test_default(text: str, expected: list[str]) -> None:
    kernel = default(parse(text))
    assert heads(kernel) == expected
    verify(kernel)
