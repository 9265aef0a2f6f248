"""Distinct names: declarations that differ have different names, and the rest of a kernel stays."""

from __future__ import annotations

import pytest

from nacre.base.errors import GraphError
from nacre.kernel.distinct import with_distinct_names
from nacre.kernel.parse import parse
from nacre.kernel.text import show
from nacre.kernel.verify import verify

HEAD = "kernel k(x: f32[8]) -> (y: f32[8]):\n"


def renamed(body: str) -> str:
    found = with_distinct_names(parse(HEAD + body))
    verify(found)
    return show(found).removeprefix(HEAD)


def test_names_with_one_meaning_stay() -> None:
    body = "  for i in 8:\n    let a = x[i]\n    y[i] = a\n  for i in 8:\n    let a = x[i]\n    y[i] = a\n"
    assert renamed(body) == body


def test_loops_with_other_extents_have_other_names() -> None:
    body = "  for i in 8:\n    y[i] = x[i]\n  for i in 4:\n    y[i] = x[i + 1]\n"
    assert renamed(body) == "  for i in 8:\n    y[i] = x[i]\n  for i_2 in 4:\n    y[i_2] = x[i_2 + 1]\n"


def test_names_and_scratch_of_other_blocks_have_other_names() -> None:
    body = (
        "  if true:\n    let a = 1\n    alloc s: f32[2]\n    s[a] = x[a]\n    y[a] = s[a]\n"
        "  else:\n    let a = 2\n    alloc s: f32[3]\n    s[a] = x[a]\n    y[a] = s[a]\n"
    )
    assert "    let a_2 = 2\n    alloc s_2: f32[3]\n    s_2[a_2] = x[a_2]\n    y[a_2] = s_2[a_2]\n" in renamed(body)


def test_a_name_of_a_block_around_is_refused() -> None:
    with pytest.raises(GraphError, match="names must be distinct; a is in use"):
        renamed("  let a = 1\n  let a = 2\n  y[a] = x[a]\n")


@pytest.mark.parametrize(
    "body",
    [
        "  parallel for i in 4:\n    if true:\n      let j = 0\n      y[i + j] = x[i]\n"
        "    else:\n      let j = 1\n      y[i + j] = x[i]\n",
        "  parallel for i in 2:\n    for j in 4:\n      y[i * 4 + j] = x[j]\n    for j in 2:\n"
        "      y[i * 4 + j] = x[j]\n    for k in 5:\n      y[i * 3 + k] = x[k]\n",
        "  parallel for i in 4:\n    for j in 4:\n      y[i * 2 + j] = x[j]\n    for j in 2:\n"
        "      y[i * 2 + j] = x[j]\n",
    ],
)
def test_iterations_are_compared_under_distinct_names(body: str) -> None:
    with pytest.raises(GraphError, match="iterations of a parallel loop must be independent"):
        renamed(body)
