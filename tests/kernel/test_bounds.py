"""Proofs of bounds: which accesses are accepted, which refused, and which buffers are filled with zeros."""

from __future__ import annotations

import pytest

from nacre.base.errors import GraphError
from nacre.kernel.ast import Const, Kernel, Store, statements
from nacre.kernel.bounds import require_inside, with_zeros
from nacre.kernel.parse import parse
from nacre.kernel.text import show
from nacre.kernel.verify import verify


def kernel(body: str, x: str = "f32[n, 8]", y: str = "f32[n]") -> Kernel:
    lines = body.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = "\n".join("  " + line[indent:] for line in lines)
    found = parse(f"kernel k(x: {x}, at: i64[8]) -> (y: {y}):\n{text}")
    verify(found)
    return found


INSIDE = {
    "loops": "for i in n:\n  y[i] = x[i, 7]",
    "reversed": "for i in n:\n  y[size(n) - 1 - i] = x[i, 0]",
    "blocks": "for a in 2:\n  for b in 4:\n    if lt(0, size(n)):\n      y[0] = x[0, a * 4 + b]",
    "guarded": "for i in n:\n  if gt(i, 0):\n    y[i] = x[i - 1, 0]\n  else:\n    y[i] = x[i, 0]",
    "two guards": "for i in n:\n  let j = i + 2\n  if and(lt(j, size(n)), ge(j, 3)):\n    y[j] = x[j - 3, 0]",
    "a negated guard": "for i in n:\n  if not(eq(i, 0)):\n    y[i] = 0.0:f32\n  else:\n    y[i] = x[i, 0]",
    "an else": "for i in n:\n  if lt(i, 1):\n    y[i] = 0.0:f32\n  else:\n    y[i - 1] = x[i - 1, 0]",
    "clamped": "for i in n:\n  let j = maximum(minimum(at[0], 7), 0)\n  y[i] = x[i, j]",
    "a remainder": "for i in n:\n  y[i] = x[i, rem(i, 8)]",
    "a quotient": "for i in n:\n  for j in 8:\n    y[i] = x[i, idiv(j, 2)]",
    "a choice": "for i in n:\n  y[i] = x[i, select(gt(at[0], 2), 3, 4)]",
    "bits": "for i in n:\n  y[i] = x[i, and(at[0], 7)]",
    "a while": "for i in n:\n  while false:\n    y[i] = x[i, 0]",
    "products": "for i in n:\n  for j in 3:\n    y[i] = x[i, 2 * j + 1]",
    "read at": "for i in n:\n  if and(ge(at[3], 0), lt(at[3], 8)):\n    y[i] = x[i, at[3]]",
}
OUTSIDE = {
    "one behind": "for i in n:\n  y[i] = x[i, 8]",
    "one before": "for i in n:\n  y[i] = x[i - 1, 0]",
    "another size": "for i in m:\n  y[i] = 0.0:f32",
    "a longer loop": "for i in 9:\n  y[0] = x[0, i]",
    "an empty buffer": "y[0] = x[0, 0]",
    "a loaded index": "for i in n:\n  y[i] = x[i, at[0]]",
    "half a clamp": "for i in n:\n  y[i] = x[i, minimum(at[0], 7)]",
    "the other guard": "for i in n:\n  if gt(i, 0):\n    y[i] = 0.0:f32\n  else:\n    y[i] = x[i - 1, 0]",
    "a guard of another value": "for i in n:\n  if gt(at[1], 0):\n    y[i] = x[i, at[0]]",
    "a disjunction": "for i in n:\n  if or(gt(i, 0), gt(at[0], 0)):\n    y[i] = x[i - 1, 0]",
    "a remainder of a negative": "for i in n:\n  y[i] = x[i, rem(at[0], 8)]",
    "a product of loops": "for i in 3:\n  for j in 5:\n    y[0] = x[0, i * j]",
    "a division by zero": "for i in n:\n  y[i] = x[i, idiv(i, 0)]",
    "inside an index": "for i in n:\n  y[i] = x[i, maximum(minimum(at[8], 7), 0)]",
    "a condition's load": "for i in n:\n  if gt(at[9], 0):\n    y[i] = 0.0:f32",
}


@pytest.mark.parametrize("name", INSIDE)
def test_accesses_inside_are_accepted(name: str) -> None:
    require_inside(kernel(INSIDE[name]))


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_accesses_are_refused(name: str) -> None:
    with pytest.raises(GraphError, match="an index must provably be from 0 to"):
        require_inside(kernel(OUTSIDE[name]))


COMPLETE = {
    "a loop": "for i in n:\n  y[i] = x[i, 0]",
    "any order": "parallel for i in n:\n  alloc t: f32[8]\n  for j in 8:\n    t[j] = x[i, j]\n  y[i] = t[0]",
    "an accumulator": "for i in n:\n  alloc s: f32[]\n  for j in 8:\n    accumulate sum s <- x[i, j]\n  y[i] = s[]",
    "twice": "for i in n:\n  y[i] = x[i, 0]\nfor j in n:\n  y[j] = x[j, 1]",
}
PARTIAL = {
    "one element": ("for i in n:\n  if lt(i, 1):\n    y[i] = x[i, 0]", 1),
    "under a condition": ("for i in n:\n  if gt(x[i, 0], 0.0:f32):\n    y[i] = x[i, 0]", 1),
    "in a loop that may be empty": ("for i in n:\n  for j in m:\n    y[i] = x[i, 0]", 1),
    "scratch that is read first": ("for i in n:\n  alloc t: f32[8]\n  y[i] = t[0]", 1),
    "scratch in part": ("for i in n:\n  alloc t: f32[8]\n  t[0] = x[i, 0]\n  y[i] = t[1]", 1),
    "nothing": ("pass", 1),
}


@pytest.mark.parametrize("name", COMPLETE)
def test_completely_written_buffers_are_not_zeroed(name: str) -> None:
    found = kernel(COMPLETE[name])
    assert show(with_zeros(found)) == show(found)


@pytest.mark.parametrize("name", PARTIAL)
def test_other_buffers_are_zeroed(name: str) -> None:
    text, count = PARTIAL[name]
    found = with_zeros(kernel(text))
    verify(found)
    zeros = [s for s in statements(found.body) if isinstance(s, Store) and s.value == Const(0.0, s.value.dtype)]
    assert len(zeros) == count


def test_products_come_before_sums() -> None:
    text = "kernel k(x: f32[8]) -> (y: f32[8]):\n  for i in 2:\n    for j in 4:\n      y[i + j*2] = x[j-1 + 2*i]"
    shown = show(parse(text))
    assert "y[i + (j * 2)] = x[(j - 1) + (2 * i)]" in shown and show(parse(shown)) == shown
