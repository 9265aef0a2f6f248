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


INSIDE |= {
    "the other order of a guard": "for i in n:\n  if and(ge(at[0], 1), lt(at[0] - 1, 8)):\n    y[i] = x[i, at[0] - 1]",
    "twice a guarded value": "for i in n:\n  if and(ge(at[0], 0), lt(at[0], 4)):\n    y[i] = x[i, at[0] * 2]",
    "a product of positions": "for i in n:\n  for j in 3:\n    for k in 4:\n      y[i] = x[i, j * k]",
    "a value that scratch had": "alloc s: i64[1]\ns[0] = at[0]\nfor i in n:\n  let j = s[0]\n"
    "  if and(ge(j, 0), lt(j, 8)):\n    s[0] = 99\n    y[i] = x[i, j]",
    "a name that is no sum": "for i in n:\n  let j = maximum(minimum(y[i], 0.0:f32), 0.0:f32)\n  y[i] = x[i, 0]",
    "the greater of a position and a smaller size": "for i in n:\n  y[maximum(i, size(n) - 2)] = x[i, 0]",
    "the smaller of a size and a number": "for i in n:\n  y[i] = x[i, minimum(size(n), 7)]",
}
# a sum or product that may leave int64, or a condition on memory that is stored to, proves nothing
OUTSIDE |= {
    "a sum that wraps": "for i in n:\n  y[i] = x[i, minimum(maximum(at[0], 0) + 9223372036854775807, 7)]",
    "a product that wraps": "for i in n:\n  y[i] = x[i, minimum(maximum(at[0], 0) * 3, 7)]",
    "a square that wraps": "for i in n:\n  y[i] = x[i, minimum(maximum(at[0], 0) * maximum(at[0], 0), 7)]",
    "a negative that wraps": "for i in n:\n  y[i] = x[i, minimum(neg(minimum(at[0], 0)), 7)]",
    "a difference that wraps": "for i in n:\n  y[i] = x[i, minimum(0 - minimum(at[0], 0), 7)]",
    "a part of a sum that wraps": "for i in n:\n  y[i] = x[i, (9223372036854775807 + i) - 9223372036854775807]",
    "a name that wraps": "for i in 8:\n  let j = i * 4611686018427387905\n  y[0] = x[0, minimum(j, 7)]",
    "a quotient of what wraps": "for i in 8:\n  y[0] = x[0, minimum(idiv(i * 4611686018427387904, 8), 7)]",
    "a constant that wraps": "for i in n:\n  y[i] = x[i, 9223372036854775807 + 9223372036854775807 + 2]",
    "a condition on a sum": "for i in n:\n  let j = at[0]\n  if and(ge(j, 0), lt(j + 1, 8)):\n    y[i] = x[i, j]",
    "a condition on a product": "for i in n:\n  let j = at[0]\n  if and(ge(j, 0), lt(j * 2, 8)):\n    y[i] = x[i, j]",
    "a condition on a difference": "for i in n:\n  let j = at[0]\n  if and(lt(j, 8), ge(j - 1, 0)):\n"
    "    y[i] = x[i, j]",
    "a condition on a wrapped position": "for i in 8:\n  if lt(i * 4611687118427387905, 8):\n"
    "    y[0] = x[0, i * 4611687118427387905]",
    "a condition on scratch": "alloc s: i64[1]\ns[0] = 3\nif and(ge(s[0], 0), lt(s[0], 8)):\n  s[0] = 99\n"
    "  for i in n:\n    y[i] = x[i, s[0]]",
    "a named condition on scratch": "alloc s: i64[1]\ns[0] = 3\nlet c = and(ge(s[0], 0), lt(s[0], 8))\ns[0] = 99\n"
    "if c:\n  for i in n:\n    y[i] = x[i, s[0]]",
    "a condition on an element at a stored place": "alloc s: i64[1]\ns[0] = 3\n"
    "let j = maximum(minimum(s[0], 7), 0)\nfor i in n:\n"
    "  if and(ge(at[maximum(minimum(s[0], 7), 0)], 0), lt(at[maximum(minimum(s[0], 7), 0)], 8)):\n    s[0] = j + 1\n"
    "    y[i] = x[i, at[maximum(minimum(s[0], 7), 0)]]",
    "the greater of a position and a size": "for i in n:\n  y[maximum(i, size(n))] = x[i, 0]",
    "the smaller of a position and another size": "for i in n:\n  y[minimum(2 * i, size(n))] = x[i, 0]",
    "a product of sizes that wraps": "for i in n:\n  for j in n:\n    for k in n:\n"
    "      y[i] = x[i, minimum(i * size(n) * size(n), 7)]",
}


@pytest.mark.parametrize("name", INSIDE)
def test_accesses_inside_are_accepted(name: str) -> None:
    require_inside(kernel(INSIDE[name]))


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_accesses_are_refused(name: str) -> None:
    with pytest.raises(GraphError, match="an index must provably be from 0 to"):
        require_inside(kernel(OUTSIDE[name]))


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("alloc s: f32[n - 5]", "at least 0"),
        ("for i in n - 5:\n  y[i] = 0.0:f32", "at least 0"),
        ("alloc s: f32[((n - 5)//2)]", "at least 0"),
        ("alloc s: f32[-1]", "at least 0"),
        ("for i in n * n:\n  pass", "less than 2"),
    ],
)
def test_extents_are_at_least_zero(body: str, bound: str) -> None:
    with pytest.raises(GraphError, match=f"an extent must be {bound}"):
        require_inside(kernel(body))


def test_extents_of_parameters_are_at_least_zero() -> None:
    with pytest.raises(GraphError, match=r"an extent must be at least 0 for all sizes; got n - 3 of y"):
        require_inside(kernel("pass", y="f32[n - 3]"))
    bounded = parse(
        "kernel k(x: f32[n]) -> (y: f32[n - 3]):\n  where n in 3..99\n  for i in n - 3:\n    y[i] = x[i + 3]"
    )
    require_inside(bounded)


@pytest.mark.parametrize("shape", ["4611686018427387904", "4294967296, 4294967296", "n, n"])
def test_scratch_is_not_too_large(shape: str) -> None:
    with pytest.raises(GraphError, match=r"scratch must have at most 2\^48 elements"):
        require_inside(kernel(f"alloc s: f32[{shape}]"))


def test_products_of_sizes_that_parameters_store_are_known() -> None:
    body = "for i in n:\n  for j in m:\n    y[i * size(m) + j] = x[i, j]"
    require_inside(kernel(body, x="f32[n, m]", y="f32[n*m]"))


@pytest.mark.parametrize(("bounds", "inside"), [("1..9", True), ("0..9", False)])
def test_the_smaller_of_a_position_and_a_size(bounds: str, inside: bool) -> None:
    text = (
        "kernel k(x: f32[n]) -> (y: f32[n]):\n  where n in {}\n  for i in n:\n    y[minimum(2 * i, size(n) - 1)] = x[i]"
    )
    found = parse(text.format(bounds))
    if inside:
        require_inside(found)
        return
    with pytest.raises(GraphError, match="an index must provably be"):
        require_inside(found)


def test_operations_on_indices_are_not_nested_too_deep() -> None:
    names = "".join(f"\nlet a{k + 1} = a{k} + a{k}" for k in range(200))
    with pytest.raises(GraphError, match="nested at most 100 deep, through names of int64"):
        require_inside(kernel(f"let a0 = at[0]{names}\ny[0] = x[0, minimum(a200, 7)]", y="f32[8]"))
    require_inside(kernel(f"let a0 = 0{''.join(names.splitlines(True)[:61])}\nfor i in n:\n  y[i] = x[i, a60]"))


COMPLETE = {
    "a loop": "for i in n:\n  y[i] = x[i, 0]",
    "any order": "parallel for i in n:\n  alloc t: f32[8]\n  for j in 8:\n    t[j] = x[i, j]\n  y[i] = t[0]",
    "an accumulator": "for i in n:\n  alloc s: f32[]\n  for j in 8:\n    accumulate sum s <- x[i, j]\n  y[i] = s[]",
    "twice": "for i in n:\n  y[i] = x[i, 0]\nfor j in n:\n  y[j] = x[j, 1]",
}
PARTIAL = {
    "scratch at a position outside": ("for i in n:\n  alloc t: f32[n]\n  t[i] = x[i, 0]\n  y[i] = t[i]", 1),
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
