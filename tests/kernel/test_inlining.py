"""Which elements a kernel stores once, and how often it reads each, by the text of its kernel IR."""

from __future__ import annotations

import pytest

from nacre.kernel.ast import Kernel
from nacre.kernel.inlining.accesses import reads_of_each, stored_once
from nacre.kernel.inlining.inline import ElementCode
from nacre.kernel.parse import parse

STORES = {  # bodies over y: f32[4, 5], and whether each element is stored once
    "for i in 4:\n for j in 5:\n  y[i, j] = 1.0:f32": True,
    "for j in 5:\n for i in 4:\n  y[i, j] = 1.0:f32": True,
    "for i in 4:\n let k = 3 - i\n for j in 5:\n  y[k, 4 - j] = 1.0:f32": True,
    "for i in 4:\n for j in 5:\n  if lt(j, 2):\n   y[i, j] = 1.0:f32\n  else:\n   y[i, j] = 2.0:f32": True,
    "for t in 1:\n for i in 4:\n  for j in 5:\n   y[i, j] = 1.0:f32": True,
    "for t in 2:\n for i in 4:\n  for j in 5:\n   y[i, j] = 1.0:f32": False,
    "for i in 4:\n for j in 5:\n  if lt(j, 2):\n   y[i, j] = 1.0:f32": False,
    "for i in 4:\n for j in 4:\n  y[i, j] = 1.0:f32": False,
    "for i in 4:\n for j in 4:\n  y[i, j + 1] = 1.0:f32": False,
    "for i in 4:\n for j in 5:\n  y[i, j] = 1.0:f32\n  y[i, j] = 2.0:f32": False,
    "for i in 4:\n for j in 5:\n  y[i, j] = 1.0:f32\n for k in 5:\n  y[i, k] = 2.0:f32": False,
    "for i in 4:\n y[i, i] = 1.0:f32": False,
    "for i in 4:\n for j in 5:\n  if lt(j, 2):\n   y[i, j] = 1.0:f32\n  else:\n   y[i, 4 - j] = 2.0:f32": False,
    "for i in 4:\n for j in 5:\n  while lt(x[i, j], 0.0:f32):\n   y[i, j] = 1.0:f32": False,
    "for i in 4:\n for j in 5:\n  y[at[i], j] = 1.0:f32": False,
}
READS = {  # bodies, and the most reads of an element of x: f32[4, 5]
    "for i in 4:\n for j in 5:\n  y[i, j] = x[i, j]": 1,
    "for i in 4:\n for j in 5:\n  y[i, j] = add(x[i, j], x[i, j])": 1,
    "for i in 4:\n for j in 4:\n  y[i, j] = add(x[i, j], x[i, j + 1])": 2,
    "for i in 4:\n for j in 5:\n  if lt(j, 2):\n   y[i, j] = x[i, j]\n  else:\n   y[i, j] = x[3 - i, j]": 1,
    "for i in 4:\n let a = x[i, 0]\n for j in 5:\n  y[i, j] = add(a, x[i, 0])": 1,
    "for i in 4:\n for j in 5:\n  y[i, j] = x[i, 0]": 5,
    "for i in 4:\n for j in 2:\n  for k in 3:\n   y[i, j] = x[i, j + k]": 2,
    "for i in 4:\n y[i, 0] = x[i, i]": 1,
    "for i in 2:\n for j in 2:\n  y[i, j] = x[i, i + j]": None,
    "for i in 2:\n for j in 2:\n  y[i, j] = x[i + j, i + j]": None,
    "for i in 4:\n for j in 5:\n  y[i, j] = x[at[i], j]": None,
    "for i in 4:\n for j in 5:\n  y[i, j] = x[i, minimum(j, 3)]": None,
    "for i in 4:\n while lt(x[i, 0], 0.0:f32):\n  y[i, 0] = 1.0:f32": None,
    "for i in 4:\n y[i, 0] = 1.0:f32": 0,
}


def kernel(body: str) -> Kernel:
    lines = "".join(f"\n  {line.replace(' ', '  ', len(line) - len(line.lstrip()))}" for line in body.split("\n"))
    return parse(f"kernel k(x: f32[4, 5], at: i64[4]) -> (y: f32[4, 5]):{lines}\n")


@pytest.mark.parametrize("body", STORES)
def test_elements_that_are_stored_once(body: str) -> None:
    assert stored_once(kernel(body), {"y"}) == STORES[body]


@pytest.mark.parametrize("body", READS)
def test_reads_of_each_element(body: str) -> None:
    assert reads_of_each(kernel(body), "x") == READS[body]


def test_code_of_an_element_stores_each_output_once_at_its_own_index() -> None:
    code = ElementCode.of(kernel("for i in 4:\n for j in 5:\n  let a = x[i, j]\n  y[i, j] = mul(a, a)"))
    assert code is not None and code.indices == ("i", "j") and code.reads_own("x")
    reversed_code = ElementCode.of(kernel("for i in 4:\n for j in 5:\n  y[i, j] = x[3 - i, j]"))
    assert reversed_code is not None and not reversed_code.reads_own("x")
    assert ElementCode.of(kernel("for i in 4:\n for j in 5:\n  y[3 - i, j] = x[i, j]")) is None
