"""Files of an earlier Nacre can be read, and give the same bits."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

import nacre as nc
from formats.written_before import bits, recorded, tunable, unpack, went_on
from nacre.cli.main import main
from nacre.ir.parse import parse
from nacre.ir.text import print_graph
from nacre.native import cache
from nacre.native.engine import host_target
from nacre.runtime import tunables

KEPT = recorded()


@pytest.mark.parametrize("name", sorted(KEPT["programs"]))
def test_programs(name: str, tmp_path: Path) -> None:
    kept = KEPT["programs"][name]
    path = tmp_path / "program.safetensors"
    path.write_bytes(base64.b64decode(kept["file"]))
    program = nc.load_program(path)
    inputs = unpack(kept["inputs"], tmp_path / "inputs")
    given = [nc.tensor(np.load(file)) for file in sorted(inputs.iterdir())]
    assert bits(program(*given)) == kept["results"]
    nc.save_program(program, tmp_path / "again.safetensors")
    assert bits(nc.load_program(tmp_path / "again.safetensors")(*given)) == kept["results"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "vision"])
def test_executables_take_the_inputs(name: str, tmp_path: Path) -> None:
    kept = KEPT["programs"][name]
    path, executable, result = (tmp_path / n for n in ("program.safetensors", "program", "result.npy"))
    path.write_bytes(base64.b64decode(kept["file"]))
    inputs = unpack(kept["inputs"], tmp_path / "inputs")
    assert main(["compile", str(path), "-o", str(executable)]) == 0
    assert main(["run", str(executable), *map(str, sorted(inputs.iterdir())), "-o", str(result)]) == 0
    assert bits(nc.tensor(np.load(result))) == kept["results"]


def test_a_training_resumes(tmp_path: Path) -> None:
    kept = KEPT["training"]
    assert went_on(unpack(kept["files"], tmp_path / "training")) == kept["model"]


def test_tuned_choices_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = host_target()
    names = KEPT["tuned"]["names"]
    (tmp_path / tunables.FILE).write_text(json.dumps({f"{target.cpu} {target.isa}": {name: [7, 9] for name in names}}))
    monkeypatch.setattr(cache.shared().disk, "directory", str(tmp_path))
    tunables.best.cache_clear()
    try:
        assert all(tunables.choose(name, [1, (7, 9)]) == (7, 9) for name in names)
    finally:
        tunables.best.cache_clear()
    if target.isa == KEPT["tuned"]["isa"]:
        assert tunable() == names


@pytest.mark.parametrize("name", sorted(KEPT["graphs"]))
def test_texts_of_graphs(name: str) -> None:
    graph = parse(KEPT["graphs"][name])
    assert print_graph(graph) == KEPT["graphs"][name]
    assert name in {e.primitive.name for e in graph.equations}
