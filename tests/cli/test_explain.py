"""`nacre explain`: the function of a file, for arguments of given types; and error messages in sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nacre as nc
from nacre.base.errors import ArgumentError
from nacre.cli import main, source
from nacre.compile.pipeline import PASSES

SOURCE = """
import nacre as nc
from nacre import nn

model = nn.Sequential(nn.Linear(6, 4), nn.GELU())

def affine(x, w):
    return nc.tanh(x @ w) + 1

def summed(x):
    return nc.scan(lambda total, row: (total + row, total * 2), nc.zeros(3), x)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return str(path)


def test_default_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--no-color"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "== graph ==",
        "graph affine(",
        "tanh(",
        "model.py:8",
        "== simplified ==",
        "== clusters ==",
        "== kernels ==",
        "# step 0: contract",
        "operations, ",
        "== work ==",
        "op/byte",
        "== plan ==",
        "arena",
        "memory of a call: ",
    ):
        assert part in shown
    assert "== llvm ==" not in shown


def test_all_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--show", "all"]) == 0
    shown = capsys.readouterr().out
    assert "define void @" in shown and ".text" in shown


AFTER = {
    "simplification": "graph affine(",
    "checks": "graph affine(",
    "attention-fusion": "graph affine(",
    "strip-mining": "graph affine(",
    "scalar-loops": "graph affine(",
    "rematerialisation": "graph affine(",
    "winograd-parts": "graph affine(",
    "matrix-blocks": "graph affine(",
    "half-factors": "graph affine(",
    "grouped-products": "graph affine(",
    "nchwc-layout": "graph affine(",
    "fusion": "1  dot",
    "lowering": "(template contract",
    "row-storage": "(template contract",
    "symbolic-shapes": "(template contract",
    "complex-parts": "(template contract",
    "buffer-assignment": "arena: ",
    "scheduling": "arena: ",
    "linking": "define void @",
}


@pytest.mark.parametrize("name", [p.name for p in PASSES])
def test_after_each_pass(file: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--after", name]) == 0
    shown = capsys.readouterr().out
    assert f"== after {name} ==" in shown and AFTER[name] in shown and "== graph ==" not in shown


def test_kernels_after_kernel_passes(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    passes = ["--after", "lowering", "--after", "symbolic-shapes"]
    assert main.main(["explain", f"{file}:summed", "f32[9, 3]", *passes, "--show", "clusters", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert list(parts) == ["clusters", "after lowering", "after symbolic-shapes"]
    assert "for c0 in 3:" in parts["after lowering"] and "where n0 = 3" in parts["after symbolic-shapes"]


def test_an_unknown_pass(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--after", "fusin"]) != 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "simplification, checks, attention-fusion, " in shown and "did you mean fusion" in shown
    explained = nc.jit(nc.exp).explain(nc.ones(3))
    with pytest.raises(ArgumentError, match="explain: after must be one of simplification, "):
        explained.after("fusin")


def test_as_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--show", "plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["parts"]) == ["plan"] and told["function"] == "affine"
    assert told["flops"] == sum(s["flops"] for s in told["steps"]) >= 2 * 4 * 3 * 2
    assert told["memory"]["inputs"] == 4 * (4 * 3 + 3 * 2) and told["memory"]["peak"] >= told["memory"]["inputs"]


def test_a_model_for_any_batch(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:model", "f32[batch:512, 6]", "--show", "graph", "--show", "work"]) == 0
    shown = capsys.readouterr().out
    assert "f32[batch, 6]" in shown and "frozen" not in shown and "main.py" not in shown


def test_numbers_are_shown_with_the_sizes_for_which_they_are_valid(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = ("kernels", "general", "llvm", "assembly", "work", "plan")
    parts = [word for name in ("graph", *counted) for word in ("--show", name)]
    for types, count in (("f32[batch:512, 6]", len(counted)), ("f32[2, 6]", 0)):
        assert main.main(["explain", f"{file}:model", types, *parts]) == 0
        assert capsys.readouterr().out.count("for batch = 2; the code is for all sizes") == count


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("f32[batch, 4]", "f32[batch:512, 4]"),
        ("f32[4, n<=64]", "f32[4, n:512]"),
        ("f32[n:, 4]", "f32[n:512, 4]"),
        ("f32[a:b]", "f32[a:512]"),
    ],
)
def test_a_symbolic_size_needs_a_maximum(text: str, meant: str) -> None:
    with pytest.raises(ArgumentError, match="compile: a size with a name needs a maximum") as raised:
        source.argument(text, "compile")
    assert str(raised.value).endswith(f"write such as {meant}")


def test_a_loop_counts_with_all_its_iterations(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:summed", "f32[9, 3]", "--show", "plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["flops"] == 9 * 3 * 2 and "9 times" in told["parts"]["plan"]


@pytest.mark.parametrize("place", ["model.py", ":f", "absent.py:f"])
def test_a_wrong_place(place: str) -> None:
    with pytest.raises(ArgumentError, match="explain: "):
        source.load(place, "explain")


def test_an_unknown_name(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:linear"]) == 2
    assert "the file has affine, model, summed" in capsys.readouterr().err


def test_too_many_types(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", *["f32[2]"] * 3]) == 2
    assert "explain: types: 2 (x, w) needed; got f32[2], f32[2], f32[2]; leave out" in capsys.readouterr().err


def test_types() -> None:
    made, axes = source.argument(" bf16[2,3] ", "explain")
    assert str(made.type) == "bf16[2, 3]" and axes == {}
    assert str(source.argument("i64[]", "explain")[0].type) == "i64[]"
    x, axes = source.argument("f32[batch:512, 1, n:4:9]", "explain")
    assert x.shape == (2, 1, 4) and {k: n.bounds() for k, n in axes.items()} == {0: (1, 512), 2: (4, 9)}
    assert source.argument("bool[b:1]", "explain")[0].shape == (1,)
    for wrong in ("f32", "float[2]", "f32[2", "f32[-1]", "f32[1:2]"):
        with pytest.raises(ArgumentError, match="explain: a type such as"):
            source.argument(wrong, "explain")
