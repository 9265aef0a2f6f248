"""The loop emitter is composed of parts: none of them inherits from another, and a kernel has one of each."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

import nacre.codegen.loops as room
from nacre.codegen.loops.expressions import MemoryHints, Values
from nacre.codegen.loops.kernel import Writer, generate
from nacre.codegen.loops.non_temporal import NonTemporalStores
from nacre.kernel.ast import Kernel
from nacre.kernel.parse import parse
from nacre.native.isa import BY_NAME
from nacre.native.text import ModuleText


def test_parts_do_not_inherit_from_each_other() -> None:
    modules = [import_module(f"{room.__name__}.{m.name}") for m in iter_modules(room.__path__)]
    classes = [c for m in modules for _, c in inspect.getmembers(m, inspect.isclass) if c.__module__ == m.__name__]
    from_other_files = {c: b for c in classes for b in c.__bases__ if b.__module__.startswith(room.__name__)}
    assert {c: b for c, b in from_other_files.items() if b.__module__ != c.__module__} == {
        NonTemporalStores: MemoryHints  # its interface for expressions
    }


def test_the_parts_of_a_kernel_share_its_values() -> None:
    f = ModuleText("m").function("k", "void", {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"})
    writer = Writer(f, BY_NAME["avx2"], Kernel("k", (), (), ()))
    statements = writer.statements
    parts = (statements, statements.stores, statements.invariants, statements.reductions, statements.scans)
    assert all(part.values is writer.values for part in (*parts, writer.tiles))
    assert isinstance(writer.values, Values) and writer.values.hints is statements.stores
    assert isinstance(statements.stores, NonTemporalStores) and isinstance(statements.stores, MemoryHints)


ROWS = """
kernel k(x: f32[n, c, m] strides [a, m, 1]) -> (y: f32[c] strides [1]):
  parallel for i in c:
    alloc s: f32[]
    for j in n:
      alloc r: f32[]
      vector for l in m:
        accumulate sum r <- x[j, i, l]
      accumulate sum s <- r[]
    y[i] = s[]
"""


def test_the_code_of_a_sum_of_rows_is_written_once_in_a_loop_around_it() -> None:
    made = generate(parse(ROWS.strip()), BY_NAME["avx512"])
    assert made.text.count("\nblock.0.head:") == 1 and "\nblock.1.head:" not in made.text


def test_kernels_share_the_function_for_a_part_of_a_block() -> None:
    other = ROWS.replace("x[j, i, l]", "mul(x[j, i, l], 3.0:f32)")
    units = [generate(parse(text.strip()), BY_NAME["avx512"]).units for text in (ROWS, other)]
    (first, one), (second, two) = units
    assert first == second and first.shared == one.names == two.names and one.text != two.text
