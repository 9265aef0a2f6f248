"""Programs cached on disk: the next process reads them whole, or compiles again; the bits are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.types import TensorType
from nacre.compile.program import cache as stored
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.stage import derived, stage
from nacre.ir.graph import Graph
from nacre.native import cache
from nacre.native.engine import host_target
from nacre.runtime.executable import Code, Executable
from nacre.trace.value import Value, make
from same_bits import canonical

PROGRAM = """
import hashlib, sys
import nacre as nc
from nacre import nn, optim
nc.random.seed(3)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
rule = optim.AdamW(net.parameters(), lr=0.01)
x, y = nc.random.normal((6, 1, 8, 8)), nc.arange(6) % 5
@nc.jit
def step(x, y):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    rule.step()
    rule.zero_grad()
    return loss
for _ in range(3):
    step(x, y)
wide = nc.jit(lambda a: (a @ a.T).sum(axis=0) * 2, dynamic_shapes={"a": {0: nc.Dim("n", max=64)}})
found = [*(p.numpy() for p in net.state_dict().values()), wide(x[:, 0, 0]).numpy(), wide(x[:4, 0, 0]).numpy()]
print(hashlib.sha256(b"".join(a.tobytes() for a in found)).hexdigest(), "nacre.compile.pipeline" in sys.modules)
"""
FIRST_OPERATION = """
import sys
import nacre as nc
print(nc.full((3, 5), 0.25).tolist() == [[0.25] * 5] * 3, "nacre.compile.pipeline" in sys.modules)
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of this process's own."""
    monkeypatch.setattr(cache, "_shared", cache.ObjectCache(cache.DiskCache(tmp_path)))
    stored._disk.cache_clear()
    yield tmp_path / "programs"
    stored._disk.cache_clear()


def is_kept(code: Code) -> bool:
    """Whether the object code of a kernel is cached under its keys."""
    return all(u.key for u in code.units)


def process(folder: Path, program: str = PROGRAM) -> list[str]:
    made = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "NACRE_CACHE_DIR": str(folder), "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.split()


def graph_of(f: Any, *operands: Value) -> Graph:
    return stage(lambda *xs: [f(*xs)], [x.type for x in operands]).graph


def results(executable: Executable, *operands: Value) -> list[bytes]:
    buffers = executable.run([x.content.address for x in operands], {})
    return [canonical(make(t, b)) for t, b in zip(executable.output_types, buffers, strict=True)]


def file_of(graph: Graph) -> Path:
    name = stored._name(graph, None, host_target())
    assert name is not None
    return Path(stored._disk().path(name))


def test_a_second_process_needs_no_compiler_and_has_the_same_bits(tmp_path: Path) -> None:
    (cold, compiled), (warm, again) = process(tmp_path), process(tmp_path)
    assert (cold, compiled, again) == (warm, "True", "False")


def test_the_first_operation_of_a_process_is_stored(tmp_path: Path) -> None:
    """The import of the compiler registers kernels, which must not count as a change meanwhile."""
    assert [process(tmp_path, FIRST_OPERATION) for _ in range(2)] == [["True", "True"], ["True", "False"]]


def test_programs_are_read_back_unchanged(shelf: Path) -> None:
    table = nc.asarray(np.arange(12, dtype=np.float32))
    x = nc.random.normal((12, 12))
    captured = stage(lambda a: [(a @ a + table) * nc.sum(a, axis=1, keepdims=True)], [x.type])
    operands = [x, *captured.captures]
    made = stored.program(captured.graph)
    wanted = results(made, *operands)
    read = stored.program(captured.graph)
    assert all(is_kept(c) for c in read.codes) and not any(is_kept(c) for c in made.codes)
    assert stored._plain(read.plan) == stored._plain(made.plan)
    assert (read.input_types, read.output_types) == (made.input_types, made.output_types)
    assert results(read, *operands) == wanted


def test_constants_sizes_and_dtypes_are_stored(shelf: Path) -> None:
    literal = np.array([[1, 2], [3, -4]], np.int32)
    n = nc.Dim("n", min=1, max=99)
    rows = TensorType((n, 2, 2), nc.int32)
    graph = derived(lambda a: [a + from_numpy(literal), nc.astype(a, nc.bfloat16)], [rows], "g")
    made, read = stored.program(graph), stored.program(graph)
    assert read.output_types == made.output_types and read.output_types[1].dtype is nc.bfloat16
    assert [c.tobytes() for c in read.constants] == [c.tobytes() for c in made.constants] != []
    assert read.plan == made.plan


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "no object"])
def test_damaged_programs_are_compiled_again(shelf: Path, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = nc.random.normal((5, 7))
    graph = graph_of(lambda a: nc.exp(a) - 1, x)
    wanted = results(stored.program(graph), x)
    file = file_of(graph)
    data = bytearray(file.read_bytes())
    if harm == "no object":
        for object_ in shelf.parent.glob("*.o"):
            object_.unlink()
        monkeypatch.setattr(cache, "_shared", cache.ObjectCache(cache.DiskCache(shelf.parent)))
    else:
        data[-3] ^= 1
        file.write_bytes({"cut": bytes(data[:40]), "flipped": bytes(data), "empty": b""}[harm])
    again = stored.program(graph)
    assert not any(is_kept(c) for c in again.codes)
    assert results(again, x) == wanted
    assert all(is_kept(c) for c in stored.program(graph).codes)


@pytest.mark.parametrize("text", [b"{}", b'{"codes": 3}', b"[]", b'{"codes":[],"plan":{"":"os:system","of":["true"]}}'])
def test_strange_contents_are_refused(shelf: Path, text: bytes) -> None:
    x = nc.random.normal((5, 7))
    graph = graph_of(lambda a: nc.exp(a) - 2, x)
    stored._disk().write(bytes.fromhex(file_of(graph).stem), len(text).to_bytes(8, "little") + text)
    assert not any(is_kept(c) for c in stored.program(graph).codes)


def test_layout_numerics_and_target_are_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    x = nc.random.normal((5, 7))
    graph, host = graph_of(lambda a: nc.exp(a) - 3, x), host_target()
    names = [stored._name(graph, None, host), stored._name(graph, [(7, 1)], host), stored._name(graph, [(1, 5)], host)]
    with nc.numerics("fast"):
        names.append(stored._name(graph, None, host))
    if host.isa == "avx512":
        names.append(stored._name(graph, None, host_target("avx2")))
    names.append(stored._name(graph_of(lambda a: nc.exp(a) - 4, x), None, host))
    assert len(set(names)) == len(names)
    elsewhere = graph_of(lambda a: nc.exp(a) - 3, x)  # the same, from another line
    assert stored._name(elsewhere, None, host) == names[0]


def test_programs_with_large_constants_are_not_cached(shelf: Path) -> None:
    big = np.zeros(stored.LARGEST // 4 + 1, np.float32)
    big[3] = 2.0
    graph = derived(lambda a: [a + from_numpy(big)], [TensorType((), nc.float32)], "g")
    assert not any(is_kept(c) for c in stored.program(graph).codes)
    assert stored._name(graph, None, host_target()) is None


def test_without_a_cache_no_program_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_shared", cache.ObjectCache(cache.DiskCache(None)))
    stored._disk.cache_clear()
    x = nc.random.normal((3, 3))
    try:
        assert not any(is_kept(c) for _ in range(2) for c in stored.program(graph_of(lambda a: a @ a, x)).codes)
    finally:
        stored._disk.cache_clear()


OUTSIDE = """
import sys
import nacre as nc
from nacre.ir.primitive import Element, Primitive, primitive_named
from nacre.kernel.ast import apply
from nacre.trace.bind import bind

def rule(index, operands, types, result):
    x = operands[0](index)
    return apply(sys.argv[1], x, x)

if sys.argv[2] == "own":
    scaled = Primitive("outside_scaled", lambda x: x, Element(rule))
else:
    nc.sin
    scaled = primitive_named("sin")
    object.__setattr__(scaled, "lowering", Element(rule))
print(nc.jit(lambda x: bind(scaled, x))(nc.tensor([3.0])).tolist())
"""


@pytest.mark.parametrize("kind", ["own", "lowering"])
def test_a_program_does_not_outlive_a_primitive_from_outside(tmp_path: Path, kind: str) -> None:
    found: list[str] = []
    for operation in ("add", "mul"):
        made = subprocess.run(
            [sys.executable, "-c", OUTSIDE, operation, kind],
            capture_output=True,
            text=True,
            check=True,
            env={"NACRE_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))},
        )
        found.append(made.stdout.strip())
    assert found == ["[6.0]", "[9.0]"]
