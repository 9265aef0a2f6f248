"""Kernels from text: texts that are refused before code runs, and texts that remain possible."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.kernel.ast import OPERATIONS, REDUCTIONS


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


DEEP = "(" * 5000 + "1.0:f32" + ")" * 5000
REFUSED = {
    "": "a kernel must begin with `kernel name",
    "y[0] = 2.0": "expected an integer of dtype i64; got 2.0; write 2.0:f32",
    "y[0] = 2.5:i32": "expected an integer of dtype i32; got 2.5",
    "y[0] = cast[f32](300:u8)": "expected a number of dtype u8 from 0 to 255; got 300",
    "y[0] = cast[f32](-1:u8)": "expected a number of dtype u8 from 0 to 255; got -1",
    "y[0] = cast[f32](99999999999999999999)": "expected a number of dtype i64",
    "y[0] = cast[f32](1:bool)": "expected a number of integer or floating dtype, or true or false",
    f"y[0] = {DEEP}": "expected at most 64 nested brackets",
    f"y[0] = cast[f32](size({DEEP}))": "expected at most 64 nested brackets",
    f"for i in {'-' * 5000}1:\n  pass": "expected at most 64 nested brackets",
    "y[0] = " + " + ".join(["x[0]"] * 150): "operations must be nested at most 100 deep",
    "y[0] = " + " + ".join(["x[0]"] * 5000): "must be nested less deeply",
    "\n".join("  " * k + "if true:" for k in range(100)) + "\n" + "  " * 100 + "pass": "at most 64 nested blocks",
    "for i in n^99999999:\n  pass": "expected an integer from 1 to 16; got '99999999'",
    "for i in ((8)//0):\n  pass": "expected an integer from 1 to",
    "for i in 9223372036854775808:\n  pass": "expected a number of dtype i64",
    "alloc s: f32[9223372036854775807]": "scratch must have at most",
    "alloc s: f32[4] strides [1000000]": "scratch must have no strides; got some of s",
    "for i in n:\n  pass": "sizes of a kernel must be numbers, or Dims of its types, none; got n;",
    "for i in 8:\n  for j in i:\n    pass": "sizes of a kernel must be numbers, or Dims of its types, none; got i;",
    "y[0] = cast[f32](size(n))": "got n;",
    "for i in 8:\n  alloc s: f32[i]": "got i;",
    "alloc s: f32[]\naccumulate total s <- x[0]": "expected a reduction of sum, prod, .*; got 'total'",
    "for i in 8:\n  accumulate sum x <- x[i]": "an accumulator must be scratch; x is an input or an output",
    "parallel for i in 8:\n  y[i, 0] = x[i]": "y must have 1 indices; got 2",
    "parallel for i in 8:\n  y[i] = x[i]\n  y[i, 0] = x[i]": "y must have 1 indices; got 2",
    "fast for i in 8:\n  y[i] = x[i]": "line 2: fast for i in 8:",
    "where n in 3..x\ny[0] = 1.0:f32": "expected bounds such as `where n in 1..64`",
    "let i = 1\nlet i = 2": "names must be distinct; i is in use",
}


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_texts_that_are_no_kernel_are_refused(body: str) -> None:
    given = kernel(body) if body else nc.primitive("outside_nest", result=lambda x: x, nest=lambda types, result: body)
    with pytest.raises(nc.Error, match=REFUSED[body]) as fault:
        given(nc.ones(8))
    assert len(str(fault.value)) < 2000


def test_scratch_in_loops_is_stored_at_their_indices() -> None:
    body = "for i in 8:\n  alloc s: f32[8]\n  s[i] = x[i]\n  y[i] = s[i] + s[rem(i + 1, 8)]"
    assert kernel(body)(nc.arange(8.0)).tolist() == list(range(8))


def test_kernels_of_complex_numbers() -> None:
    turn = nc.primitive(
        "outside_turn",
        result=lambda z: z,
        dtypes=(nc.complex64, nc.complex128),
        nest=lambda types, result: (
            f"""
        kernel turn(z: {types[0]}) -> (y: {result}):
          parallel for i in {result.shape[0]}:
            y[i] = complex(imag(z[i]), modulus(z[i])) * conj(z[i])
        """
        ),
    )
    z = np.array([1 + 2j, 3j, -3 + 4j, 0])
    wanted = (z.imag + 1j * np.abs(z)) * z.conj()
    for dtype in (nc.complex64, nc.complex128):
        x = nc.asarray(z).astype(dtype)
        np.testing.assert_allclose(turn(x).numpy(), wanted, 1e-6)
        assert nc.jit(turn)(x).numpy().tobytes() == turn(x).numpy().tobytes()


SIGNATURES = {
    "(T, T) → T": (2, "same"),
    "(T) → T": (1, "same"),
    "(T, T, T) → T": (3, "same"),
    "(T, T) → bool": (2, "compare"),
    "(T, T) → T, of integers or bool": (2, "logic"),
    "(T) → T, of integers or bool": (1, "logic"),
    "(T, T) → T, of integers": (2, "shift"),
    "(bool, T, T) → T": (3, "select"),
    "(T) → bool, of floats": (1, "test"),
    "(T, T) → C, of floats": (2, "pair"),
    "(C) → T, of complex numbers": (1, "part"),
    "(C) → C, of complex numbers": (1, "same"),
}


def test_the_description_lists_all_operations_and_reductions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "extending.md").read_text(encoding="utf-8")
    section = page.partition("## Kernel IR")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", section, re.MULTILINE)
    listed = {name: SIGNATURES[kind] for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {name: kind for name, kind in OPERATIONS.items() if kind[1] != "cast"}
    assert all(f"`{name}" in section for name, kind in OPERATIONS.items() if kind[1] == "cast")
    assert all(f"`{name}`" in section for name in REDUCTIONS)
