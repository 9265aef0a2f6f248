"""Rows stored in results: the same bits, one scratch row less, and only in memory without other contents."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.run_loops import check, numbers
from kernel.marks import marked
from nacre.base.dtypes import float32
from nacre.kernel.ast import Alloc, Kernel, statements
from nacre.kernel.interpret import run
from nacre.kernel.row_storage import kept_in_results
from nacre.kernel.text import parse
from nacre.kernel.verify import verify

SHARES = """\
kernel s(x: f32[N, M], z: f32[N, M]) -> (y: f32[N, M]{strides}, w: f32[N, M]):
  for i in N:
    alloc r: f32[M]
    alloc s: f32[]
    for j in M:
      let e = exp(x[i, j])
      r[j] = e
      accumulate sum s <- e
    let t = s[]
    for k in M:
{last}
"""
PLAIN = "      w[i, k] = mul(r[k], x[i, k])\n      y[i, k] = mul(r[k], t)"


def kernel(last: str = PLAIN, strides: str = "") -> Kernel:
    return marked(parse(SHARES.format(last=last, strides=strides)))


def rows(k: Kernel) -> int:
    return sum(isinstance(s, Alloc) and s.buffer.shape != () for s in statements(k.body))


@pytest.mark.parametrize(("n", "m"), [(3, 5), (2, 300), (1, 0), (0, 4)])
def test_the_same_bits(n: int, m: int) -> None:
    before = kernel()
    after = kept_in_results(before, frozenset())
    verify(after)
    assert rows(before) == 1 and rows(after) == 0
    inputs, sizes = [numbers((n, m), float32, k) for k in (1, 2)], {"N": n, "M": m}
    wanted = run(before, inputs, sizes)
    for x, y in zip(check(after, inputs, sizes, [1]), wanted, strict=True):
        assert np.array_equal(x, y, equal_nan=True)


def test_rows_are_not_stored_in_spared_results() -> None:
    assert kept_in_results(kernel(), frozenset("y")) == kernel()
    assert rows(kept_in_results(kernel(), frozenset("w"))) == 0


@pytest.mark.parametrize(
    "last",
    [
        "      y[i, k] = mul(r[k], t)\n      w[i, k] = r[k]\n      w[i, k] = t",  # stored twice
        "      y[i, k] = mul(r[k], t)\n      w[k, k] = r[k]",  # at another index
        "      y[i, k] = mul(r[k], t)\n      w[i, sub(4, k)] = r[k]",
        "      if lt(r[k], t):\n        w[i, k] = r[k]\n      y[i, k] = add(r[k], w[i, "
        "k])",  # under a condition, and read
    ],
)
def test_rows_stay_in_scratch_with_other_last_passes(last: str) -> None:
    assert kept_in_results(kernel(last), frozenset()) == kernel(last)


ALONE = """\
kernel s(x: f32[8], z: f32[8]) -> (y: f32[8]):
  {head}
  alloc r: f32[8]
  for i in 8:
    r[i] = x[i]
  for k in 8:
    {last}
    y[k] = e
{tail}"""
USED_LATER = {
    "reversed": ("pass", "let e = r[7 - k]", ""),
    "one before": ("pass", "let e = add(r[k], r[maximum(k - 1, 0)])", ""),
    "one element": ("pass", "let e = add(r[k], r[0])", ""),
    "a loaded index": ("pass", "let e = r[maximum(minimum(cast[i64](z[k]), 7), 0)]", ""),
    "an inner load": ("pass", "let e = mul(r[k], r[maximum(minimum(cast[i64](r[k]), 7), 0)])", ""),
    "stored at another index": ("pass", "let e = r[k]\n    r[7 - k] = 1.0:f32", ""),
    "stored behind": ("pass", "let e = r[k]", "  for q in 8:\n    r[q] = 0.0:f32\n"),
    "stored in a while": ("pass", "let e = r[k]", "  while lt(x[0], 0.0:f32):\n    r[0] = 2.0:f32\n"),
    "another row of its name": ("for q in 4:\n    alloc r: f32[2]\n    r[1] = x[q]", "let e = r[k]", ""),
}


@pytest.mark.parametrize("name", USED_LATER)
def test_rows_whose_elements_are_used_later_stay_in_scratch(name: str) -> None:
    head, last, tail = USED_LATER[name]
    found = parse(ALONE.format(head=head, last=last, tail=tail))
    verify(found)
    assert kept_in_results(found, frozenset()) == found


def test_rows_may_be_read_anywhere_before_their_last_loop() -> None:
    middle = "for q in 8:\n    r[7 - q] = add(r[7 - q], x[q])"
    found = parse(ALONE.format(head="pass", last="let e = r[k]", tail="").replace("  for k", f"  {middle}\n  for k"))
    after = kept_in_results(found, frozenset())
    verify(after)
    inputs = [numbers((8,), float32, k) for k in (1, 2)]
    assert rows(found) == 1 and rows(after) == 0
    assert np.array_equal(check(after, inputs, {}, [1])[0], run(found, inputs, {})[0])


def test_rows_that_are_not_contiguous_stay_in_scratch() -> None:
    strided = kernel(strides=" strides [1, N]")
    assert kept_in_results(strided, frozenset("w")) == strided
