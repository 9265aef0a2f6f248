"""Families of primitives that are imported when a name of theirs first occurs."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import ops
from nacre.base.errors import ArgumentError
from nacre.base.types import TensorType
from nacre.compile.extensions import versions
from nacre.ir.parse import parse
from nacre.ir.primitive import Element, Primitive, known_primitive, registered
from nacre.ops import LATE, OWN

NAMES = {name: module for module, names in LATE.items() for name in names.split()}

UNUSED = """
import sys
import nacre.api
from nacre.ir import primitive
late = [name for name in sys.argv[1:] if name in sys.modules]
assert not late, late
print(*sorted(primitive._registry))
"""
BY_TEXT = """
import sys
import nacre as nc
from nacre.ir.parse import parse
from nacre.ops import OWN
graph = parse(sys.stdin.read())
assert all(e.primitive in OWN for e in graph.equations)
print(graph, end="")
"""
LOADED = """
import sys
import nacre as nc
program = nc.load_program("late.nacre")
assert "nacre.ops.linalg" in sys.modules and "nacre.api.linalg" not in sys.modules
found = program(nc.load("late.safetensors")["x"])
nc.save({"y": found}, "found.safetensors")
"""
WARM = """
import sys
import nacre as nc
f = nc.jit(lambda x: nc.linalg.solve(x, nc.fft.rfft(x, n=4).real[:, :2]))
print(f(nc.tensor([[2.0, 1.0], [1.0, 3.0]])).numpy().tobytes().hex(), "nacre.compile.pipeline" in sys.modules)
"""


def process(code: str, *arguments: str, folder: Path | None = None, text: str = "") -> str:
    """What a fresh process prints."""
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "NACRE_CACHE_DIR": str(folder or "")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        input=text,
        cwd=folder,
        env=env,
    ).stdout


def test_declared_names_are_exactly_those_that_the_modules_register() -> None:
    early = set(process(UNUSED, *LATE).split())
    for found in pkgutil.walk_packages(ops.__path__, "nacre.ops."):
        importlib.import_module(found.name)
    ours = {name for name, p in registered().items() if p.type_rule.__module__.startswith("nacre.ops")}
    assert set(NAMES) == ours - early
    for name, module in NAMES.items():
        primitive = registered()[name]
        assert primitive.type_rule.__module__ == module
        assert primitive in vars(sys.modules[module]).values()


def test_late_primitives_are_of_the_package() -> None:
    assert {p.name for p in OWN} >= set(NAMES)
    assert all(OWN[registered()[name]] is registered()[name].lowering for name in NAMES)
    graph = nc.jit(nc.linalg.inv).trace(nc.ones((3, 3)))
    assert versions(graph) == []


@pytest.mark.parametrize("name", ["fft", "cholesky"])
def test_the_text_of_a_graph_names_them_in_a_fresh_process(name: str) -> None:
    text = {
        "fft": "graph f(a: f32[8, 2]):\n  b: f32[8, 2] = fft[inverse=False](a)\n  return b\n",
        "cholesky": str(nc.jit(nc.linalg.cholesky).trace(nc.ones((3, 3)))) + "\n",
    }[name]
    assert f"= {name}" in text
    assert parse(process(BY_TEXT, text=text)) == parse(text)


def test_a_program_that_names_them_runs_in_a_fresh_process(tmp_path: Path) -> None:
    x = nc.tensor(np.array([[4.0, 1.0], [1.0, 3.0]], dtype=np.float32))

    def both(x: nc.Tensor) -> nc.Tensor:
        """A system of equations whose right side is part of a transform."""
        return nc.linalg.solve(x, nc.fft.rfft(x, n=4).real[:, :2])

    program = nc.freeze(both, x)
    nc.save_program(program, tmp_path / "late.nacre")
    nc.save({"x": x}, tmp_path / "late.safetensors")
    process(LOADED, folder=tmp_path)
    found = nc.load(tmp_path / "found.safetensors")["y"]
    assert found.numpy().tobytes() == program(x).numpy().tobytes()


def test_their_programs_are_stored_on_disk(tmp_path: Path) -> None:
    first, second = (process(WARM, folder=tmp_path).split() for _ in range(2))
    assert first == [second[0], "True"] and second[1] == "False"


def test_their_names_belong_to_their_modules() -> None:
    def type_rule(x: TensorType) -> TensorType:
        """The operand's type."""
        return x

    def element(*_: Any) -> Any:
        """Never called."""

    code = "from nacre.ops import LATE; import sys; assert not set(LATE) & set(sys.modules); " + (
        "from nacre.ir.primitive import Element, Primitive; Primitive('svd', lambda x: x, Element(lambda *_: None))"
    )
    with pytest.raises(subprocess.CalledProcessError) as fault:
        process(code)
    assert "the name must be new" in fault.value.stderr
    with pytest.raises(ArgumentError, match="the name must be new"):
        Primitive("svd", type_rule, Element(element))


def test_other_names_are_unknown() -> None:
    assert known_primitive("no_such_primitive") is None
