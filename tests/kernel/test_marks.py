"""The marks that tests give to loop nests, which the verifier accepts."""

from __future__ import annotations

import pytest

from kernel.marks import marked
from kernel.sample import softmax
from nacre.kernel.ast import Kernel
from nacre.kernel.text import parse, show
from nacre.kernel.verify import verify

COPY = """\
kernel copy(x: f32[12, M]) -> (y: f32[12, M]):
  for i in 12:
    for j in M:
      y[i, j] = x[i, j]
"""


def heads(kernel: Kernel) -> list[str]:
    return [line.strip() for line in show(kernel).splitlines() if " for " in line or line.strip().startswith("for ")]


def test_softmax() -> None:
    assert heads(marked(softmax())) == ["parallel for i in N:", *["vector for j in M:"] * 3]


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
def test_marked(text: str, expected: list[str]) -> None:
    kernel = marked(parse(text))
    assert heads(kernel) == expected
    verify(kernel)
