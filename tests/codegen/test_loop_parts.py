"""The loop emitter is composed of parts: none of them inherits from another, and a kernel has one of each."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

import nacre.codegen.loops as room
from nacre.codegen.loops.expressions import MemoryHints, Values
from nacre.codegen.loops.kernel import Writer
from nacre.codegen.loops.non_temporal import NonTemporalStores
from nacre.kernel.ast import Kernel
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
