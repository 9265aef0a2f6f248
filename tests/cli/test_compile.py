"""`nacre compile` and `nacre run`: from a file or a saved program to results, and error messages in sentences."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nacre as nc
from deploy.calls import can_link
from nacre.cli.grammar import MISUSED
from nacre.cli.main import DONE, main
from nacre.cli.source import load

SOURCE = """
import nacre as nc
from nacre import nn

nc.random.seed(0)
model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))

def constant():
    return nc.ones(2)

def split(x):
    return {"low": x * 0.5, "high": x * 2}
"""
X = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SOURCE)
    np.save("x.npy", X)
    return tmp_path


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_from_source_to_results(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "model.py:model", "f32[batch:64, 6]", "--no-color"]) == DONE
    told = capfd.readouterr().out
    assert "model: executable for host" in told and "input x        f32[batch, 6]" in told
    assert main(["run", "model", "x.npy", "-o", "y.npy", "--json"]) == DONE
    assert json.loads(capfd.readouterr().out)["outputs"] == [{"file": "y.npy", "type": "f32[3, 3]"}]
    assert main(["run", "model", "none.npy", "-o", "y.npy"]) == MISUSED
    assert capfd.readouterr().err == "model: none.npy: No such file or directory\n"
    program = nc.freeze(load("model.py:model", "compile").eval(), nc.asarray(X))
    nc.save_program(program, "model.safetensors")
    assert main(["run", "model.safetensors", "x.npy", "-o", "z.npy"]) == DONE
    assert np.load("y.npy").tobytes() == np.load("z.npy").tobytes() == program(nc.asarray(X)).numpy().tobytes()
    assert main(["run", "model.safetensors", "x.npy"]) == DONE
    assert "output: f32[3, 3]" in capfd.readouterr().out


def test_objects_as_json(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "model.py:split", "f64[2:5]"]) == MISUSED
    capfd.readouterr()
    options = ["--kind", "object", "--target", "aarch64", "--json"]
    assert main(["compile", "model.py:split", "f64[n:2:5]", *options]) == DONE
    told = json.loads(capfd.readouterr().out)
    assert told["path"] == "split.o" and told["header"] == "split.h" and told["bytes"] == Path("split.o").stat().st_size
    assert told["outputs"] == [{"name": "low", "type": "f64[n]"}, {"name": "high", "type": "f64[n]"}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compile model.py:split", "compile: a TYPE for each argument (x) is required"),
        ("compile model.py:split f32[3] f32[3]", "compile: types: 1 (x) needed; got f32[3], f32[3]; leave out f32[3]"),
        ("compile model.py:split f32[3] --target pdp11", "the target must be one of host"),
        ("compile model.py:split f32[3] -o none/split", "written; got none/split: its folder does not exist"),
        ("compile none.py:f f32[3] -o none/split", "its folder does not exist"),
        ("compile model.py", "write such as model.py:model"),
        ("compile model.py:constant f32[3]", "compile: types: none needed; got f32[3]; leave out f32[3]"),
        ("compile model.py:split float[2,3]", "; write f32[2,3], or f64, f16 or bf16 for another width"),
        ("explain model.py:split double[3]", "; write f64[3], or f32 for another width"),
        ("explain model.py:split flot32[3]", "did you mean float32?"),
        (
            "run p.safetensors x.npy -o none/y.npy",
            "run: --output must name a place that can be written; got none/y.npy",
        ),
        ("run p.safetensors x.npy -o x.npy", "each output must be a file of its own; got x.npy"),
        ("run p.safetensors x.npy -o link.npy", "each output must be a file of its own; got link.npy"),
        ("run p.safetensors x.npy -o p.safetensors", "each output must be a file of its own; got p.safetensors"),
        ("run p.safetensors x.npy -o y.npy -o y.npy", "each output must be a file of its own; got y.npy"),
        ("compile model.py:split f32[3] -o link.py", "must not replace its source"),
        ("compile none.safetensors", "load: cannot read"),
        (
            "compile x.safetensors f32[3]",
            "compile: types: none needed, because a saved program has its own; got f32[3]",
        ),
        ("compile model.py:split f32[3] -o model.py", "must not replace its source"),
        ("compile model.py:split f32[3] --kind shared --static", "static is for executables"),
        ("run none.safetensors x.npy", "none.safetensors does not exist"),
        ("run nofile x.npy -o y.npy", "nofile does not exist"),
        ("run . x.npy -o y.npy", ". is a folder"),
        ("run x.npy x.npy -o y.npy", "an executable of this machine"),
        ("run x.npy x.npy", "a file for each output is required of an executable; got none; write -o before"),
        ("run model.py x.npy -o y.npy", "nacre compile model.py:NAME"),
    ],
)
def test_wrong_lines(folder: Path, line: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    nc.save_program(lambda x: x + 1, "p.safetensors", nc.ones((3, 6)))
    Path("link.npy").symlink_to("x.npy")
    os.link("model.py", "link.py")
    assert main(line.split()) == MISUSED
    assert message in capfd.readouterr().err.replace("nacre run: ", "run: ").replace("nacre compile: ", "compile: ")
    assert np.array_equal(np.load("x.npy"), X)


def test_wrong_inputs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nc.save_program(lambda x: x + 1, "p.safetensors", nc.ones(2))
    Path("bad.npy").write_bytes(b"no array")
    for line, message in (
        ("run p.safetensors bad.npy", "a .npy file is required; bad.npy is not: it begins with b"),
        ("run p.safetensors x.npy", "x must be f32[2]; got f32[3, 6]"),
        ("run p.safetensors", "takes 1 tensors (x)"),
        ("run p.safetensors x.npy -o a.npy -o b.npy", "a file for each output (output)"),
    ):
        assert main(line.split()) == MISUSED
        assert message in capfd.readouterr().err


NINES = "9" * 6000
WRONG: dict[str, tuple[list[str], str]] = {
    "a size of 6000 digits": (["compile", "model.py:split", f"f32[{NINES}]"], "sizes of at most"),
    "a bound of 6000 digits": (["compile", "model.py:split", f"f32[n:{NINES}]"], "sizes of at most"),
    "a size of 18 digits": (["explain", "model.py:split", f"f32[{NINES[:18]}]"], "must fit the machine"),
    "a name of 300 characters": (["compile", "model.py:split", "f32[2]", "-o", "n" * 300], "File name too long"),
    "an object's name of 300": (
        ["compile", "model.py:split", "f32[2]", "-o", "n" * 300, "--kind", "object"],
        "File name too long",
    ),
    "a folder": (["compile", "folder.py:f", "f32[2]"], "a Python file is required"),
    "null bytes": (["compile", "null.py:f", "f32[2]"], "a Python file is required"),
    "no Python": (["explain", "broken.py:f", "f32[2]"], "a Python file is required"),
    "a path with a null byte": (["tune", "a\0b.py:f", "f32[2]"], "a Python file is required"),
    "tune an unknown name": (["tune", "nope"], "tune: the function must be FILE.py:FUNCTION or one of mlp, .* 'nope'"),
    "tune a mistyped workload": (["tune", "softmx"], "did you mean softmax"),
    "explain without types": (["explain", "model.py:split"], "explain: a TYPE for each argument .* none for x"),
    "tune without types": (["tune", "model.py:split"], "tune: a TYPE for each argument .* none for x"),
    "explain a model without types": (["explain", "model.py:model"], "explain: a TYPE for each argument"),
    "not a number of seconds": (["bench", "softmax", "--tiny", "--seconds", "nan"], "not negative"),
    "seconds before now": (["bench", "softmax", "--tiny", "--seconds", "-1"], "not negative"),
    "seconds without end": (["bench", "softmax", "--tiny", "--seconds", "inf"], "not negative"),
    "rows below none": (["bench", "softmax", "--tiny", "--rows", "-1"], "not negative"),
    "no rounds": (["bench", "softmax", "--tiny", "--rounds", "0"], "positive rounds"),
}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=WRONG)
def test_errors_are_reported_in_a_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], line: list[str], words: str
) -> None:
    (folder / "folder.py").mkdir()
    (folder / "folder.py" / "__main__.py").write_text("f = abs")
    (folder / "null.py").write_bytes(b"f = 1\0")
    (folder / "broken.py").write_text("def f(:")
    assert main(line) == MISUSED
    said = capfd.readouterr().err
    assert re.search(words, said) and said.startswith(f"nacre {line[0]}: ") and len(said) < 600, said


def test_a_folder_named_like_an_object_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "cache"
    (place / f"{'0' * 64}.o").mkdir(parents=True)
    (place / f"{'1' * 64}.o").write_bytes(b"code")
    place.chmod(0o700)
    monkeypatch.setenv("NACRE_CACHE_DIR", str(place))
    assert main(["cache", "--clear"]) == DONE
    assert [p.name for p in place.glob("*.o")] == [f"{'0' * 64}.o"], capfd.readouterr().out


def test_a_model_in_training_mode_is_compiled_in_evaluation_mode_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "from nacre import nn\nmodel = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))\n"
        "ready = nn.Linear(2, 2).eval()\n",
        encoding="utf-8",
    )
    for name, said in (("model", True), ("ready", False)):
        assert main(["compile", f"{file}:{name}", "f32[1, 2]", "--kind", "object", "-o", str(tmp_path / "o")]) == 0
        assert ("was in training mode" in " ".join(capsys.readouterr().out.split())) is said
        line = ["compile", f"{file}:{name}", "f32[1, 2]", "--kind", "object", "-o", str(tmp_path / "o"), "--json"]
        assert main(line) == 0
        assert json.loads(capsys.readouterr().out)["switched_to_evaluation"] is said
