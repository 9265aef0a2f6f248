"""Free choices change no bit; the search stores faster options, which are then used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.cli.main import main
from nacre.codegen.gemm.plan import product_cuts
from nacre.compile.program import tune as tuning
from nacre.compile.program.tune import Choice, tune
from nacre.runtime import grains, tunables
from nacre.runtime import plan as planning
from nacre.runtime.executable import Executable
from nacre.transform.concrete import CallInputs


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test for the options found, and steps that are divided however small they are."""
    path = tmp_path / "tuned.json"
    monkeypatch.setattr(tunables, "_path", lambda: str(path))
    for module, name in ((planning, "ALONE_COST"), (grains, "SHARE_COST"), (grains, "CHUNK_COST")):
        monkeypatch.setattr(module, name, 1)
    tunables.best.cache_clear()
    threads = nc.get_threads()
    yield path
    tunables.best.cache_clear()
    nc.set_threads(threads)


def prepared(f: Callable[..., Any], *shapes: tuple[int, ...]) -> CallInputs:
    random = np.random.default_rng(0)
    return nc.jit(f).prepare(*(nc.asarray(random.standard_normal(s, np.float32)) for s in shapes))


def outputs(p: CallInputs, executable: Executable) -> list[bytes]:
    executable.bounds.clear()
    return [bytes(memoryview(b)) for b in executable.run([x.content.address for x in p.inputs], p.sizes)]


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda a, b: a @ b, ((77, 530), (530, 201))),
        (lambda a, b: nc.maximum(a.T @ b, 0.0), ((300, 64), (300, 97))),
        (lambda a, b: nn.functional.softmax(nn.functional.gelu(a) * b), ((130, 77), (130, 77))),
        (lambda x, w: nn.functional.conv2d(x, w, padding=1), ((3, 20, 15, 15), (24, 20, 3, 3))),
        (lambda x, g: (nc.sum(x * g, axis=0), nc.sum(x)), ((3000, 700), (3000, 700))),
    ],
)
def test_no_option_changes_a_bit(f: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], threads: int) -> None:
    nc.set_threads(threads)
    p = prepared(f, *shapes)
    executable = p.compiled.executable
    usual = outputs(p, executable)
    choices = tuning._choices(executable, {})  # pyright: ignore[reportPrivateUsage]
    assert choices
    for name, (_, options) in choices.items():
        for option in options:
            with tunables.trying({name: option}):
                assert outputs(p, executable) == usual, (name, option)
    executable.bounds.clear()


def test_the_search_stores_and_uses_the_options_that_it_finds(kept: Path) -> None:
    nc.set_threads(2)
    executable = prepared(lambda a, b: nc.exp(a @ b), (96, 64), (64, 200)).compiled.executable
    found = tune(executable, rounds=3)
    assert found and all(len(f.least) == len(f.options) > 1 for f in found)
    assert set(tunables.best()) == {f.name for f in found} and not tune(executable, rounds=1)
    written = json.loads(kept.read_text())
    tunables.best.cache_clear()
    assert tunables.best() == next(iter(written.values()))
    for f in found:
        assert tunables.choose(f.name, f.options) == f.options[f.taken]
    assert tunables.forget() == len(found) and not tunables.best()


def test_a_better_option_is_better_by_a_margin() -> None:
    decide = tuning._decide  # pyright: ignore[reportPrivateUsage]
    assert decide("x", (1, 2), [[1.0, 1.1], [0.98, 1.0]]).taken == 0
    assert decide("x", (1, 2), [[1.0, 1.1], [0.90, 1.0]]).taken == 1
    assert decide("x", (1, 2), [[1.0, 1.1], [0.50, 2.0]]).taken == 0
    assert Choice("x", (1, 2), (1.0, 0.5), (1.0, 0.5), 1).gain == 2.0


def test_damaged_and_outdated_choices_are_ignored(kept: Path) -> None:
    for text in ("{", "[]", '{"x": 3}'):
        kept.write_text(text)
        tunables.best.cache_clear()
        assert tunables.choose("a", ((1, 2), (3, 4))) == (1, 2)
    tunables.keep({"a": (3, 4), "b": (9, 9)})
    assert tunables.choose("a", ((1, 2), (3, 4))) == (3, 4)
    assert tunables.choose("b", ((1, 2), (3, 4))) == (1, 2)


def test_the_models_option_comes_first_and_options_are_valid() -> None:
    for extent, together, threads in ((1, 1, 2), (1000, 16, 3), (7, 7, 4), (100_000, 1, 1)):
        for grain in grains.grains(extent, 100, together, threads):
            assert grain >= 1 and (grain % together == 0 or grain >= extent)


def test_the_environment_requests_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    nc.set_threads(2)
    monkeypatch.setenv("NACRE_TUNE", "1")
    f, x = nc.jit(lambda x: nc.sum(nc.exp(x) * x, axis=1)), nc.ones((321, 45))
    f(x)
    assert tunables.best()
    monkeypatch.setenv("NACRE_TUNE", "0")
    assert not tuning.wanted()


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nc.set_threads(2)
    assert main(["tune", "mlp", "--tiny"]) == 0
    assert "options" in capsys.readouterr().out
    file = tmp_path / "mine.py"
    file.write_text("import nacre as nc\ndef f(a, b):\n    return nc.tanh(a @ b)\n")
    assert main(["tune", f"{file}:f", "f32[64, 64]", "f32[64, 64]"]) == 0
    assert "product" in capsys.readouterr().out
    assert main(["tune", "--forget"]) == 0
    assert "Forgot" in capsys.readouterr().out
    assert main(["tune", "nothing"]) == 2


def test_a_product_has_blockings_to_choose_from() -> None:
    p = prepared(lambda a, b: a @ b, (512, 512), (512, 512))
    step = p.compiled.executable.plan.steps[0]
    tiling = step.cut.args[0]  # type: ignore[union-attr]
    cuts = product_cuts(tiling, tuple(step.cut_sizes), 4)  # type: ignore[arg-type]
    assert len(cuts) > 3 and len(set(cuts)) == len(cuts)
    assert cuts[0] == tunables.choose("not kept", cuts)
