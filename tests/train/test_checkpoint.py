"""Checkpoints: complete or refused; the last and the best remain; damaged ones are renamed with a message."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from nacre import nn, optim, train
from nacre.base.errors import ArgumentError, StateError
from nacre.train import checkpoint
from nacre.train.checkpoint import FILES, MANIFEST, DamagedCheckpoint
from nacre.train.state import packed, unpacked
from train import training  # type: ignore[import-not-found]

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
STATES = st.recursive(PLAIN, lambda s: st.lists(s) | st.tuples(s, s) | st.dictionaries(st.integers() | st.text(), s))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return (
        type(a) is type(b) and a == b and math.copysign(1, a) == math.copysign(1, b)
        if isinstance(a, float)
        else type(a) is type(b) and a == b
    )


@settings(max_examples=60, deadline=None)
@given(STATES)
def test_states_come_back_as_they_were(state: Any) -> None:
    document = json.loads(json.dumps(packed(state, "", {}), allow_nan=False))
    assert same(unpacked(document, {}), state)


def test_tensors_of_a_state_come_back_in_every_dtype() -> None:
    tensors: dict[str, Any] = {}
    state = {0: {"m": nc.tensor([1.5, -0.0]), "t": (nc.tensor(3), np.float16(2))}, "p": nn.Parameter(nc.ones(2)).value}
    found = unpacked(packed(state, "o", tensors), tensors)
    assert sorted(tensors) == ["o.0.m", "o.0.t.0", "o.0.t.1", "o.p"]
    assert found[0]["m"].numpy().tobytes() == state[0]["m"].numpy().tobytes()
    assert found[0]["t"][1].dtype is nc.float16


def test_other_values_than_states_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"got object as x\.1"):
        packed([1, object()], "x", {})
    for document in ({"float": "1"}, {"tensor": "missing"}, {"list": []}, {"a": 1, "b": 2}):
        with pytest.raises(StateError, match="the form of this version"):
            unpacked(document, {})


@pytest.fixture
def kept(tmp_path: Path) -> train.Checkpoints:
    made = train.Checkpoints(tmp_path / "checkpoints", keep=2)
    for step in (1, 2, 3, 4):
        made.save(step, {"w": nc.full((3,), float(step))}, {"epoch": step, "t": (nc.ones(2),)}, best=1)
    return made


def names(kept: train.Checkpoints) -> list[str]:
    return sorted(path.name for path in kept.folder.iterdir())


def test_the_last_and_the_best_checkpoint_remain(kept: train.Checkpoints) -> None:
    assert names(kept) == ["best", "last", "step-00000001", "step-00000003", "step-00000004"]
    best, last = kept.best(), kept.latest()
    assert best is not None and best.step == 1 and last is not None and last.step == 4
    assert last.model["w"].tolist() == [4.0] * 3 and last.state["t"][0].tolist() == [1.0, 1.0]
    kept.save(5, {}, {}, best=5)
    assert names(kept) == ["best", "last", "step-00000004", "step-00000005"]
    assert kept.folder.joinpath("best").resolve().name == "step-00000005"


def damages() -> list[tuple[str, Any]]:
    def flip(path: Path) -> None:
        held = bytearray(path.read_bytes())
        held[len(held) // 2] ^= 1
        path.write_bytes(held)

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-1])

    found = [(f"{f.__name__} {name}", (f, name)) for name in FILES for f in (flip, cut, Path.unlink)]
    return [*found, ("cut manifest", (cut, MANIFEST)), ("no manifest", (Path.unlink, MANIFEST))]


@pytest.mark.parametrize(("damage", "name"), [d for _, d in damages()], ids=[n for n, _ in damages()])
def test_a_damaged_checkpoint_is_refused_or_renamed_with_a_message(
    kept: train.Checkpoints, damage: Any, name: str
) -> None:
    damage(kept.folder / "step-00000004" / name)
    if name == MANIFEST and damage is not Path.unlink:
        (kept.folder / "step-00000004" / name).write_bytes(b'{"format"')
    with pytest.raises(train.DamagedCheckpoint, match="step-00000004 is damaged"):
        kept.latest()
    said: list[str] = []
    found = kept.latest(said.append)
    assert found is not None and found.step == 3
    assert said[0].endswith("takes the checkpoint before it; it is renamed to damaged-step-00000004")
    assert "damaged-step-00000004" in names(kept)
    assert [p.name for p in kept.paths()] == ["step-00000001", "step-00000003"]


def test_other_paths_are_distinguished_from_damage(kept: train.Checkpoints) -> None:
    model, out = nn.Linear(1, 1), kept.folder.parent
    best, refused = kept.folder / "best", "the path must be"
    for path, words in (
        (out, f"the folder of a training; pass {best}"),
        (kept.folder, f"a folder of checkpoints; pass {best}"),
        (best / "model.safetensors", f"a file; pass {best}"),
        (out / "none", "which does not exist"),
        (kept.folder / "step-00000004" / "..", f"; pass {kept.folder / 'step-00000004' / '..' / 'best'}"),
    ):
        with pytest.raises(StateError, match=refused) as said:
            train.restore_model(model, path)
        assert str(said.value).endswith(words) and not isinstance(said.value, DamagedCheckpoint)
        assert isinstance(said.value, FileNotFoundError) == (path.name == "none")
    (out / "empty").mkdir()
    with pytest.raises(StateError, match=r"a folder without checkpoint.json; pass a path such as out/checkpoints/best"):
        train.read(out / "empty")


@pytest.mark.parametrize("name", ["checkpoint.json", "model.safetensors"])
@pytest.mark.parametrize(("number", "kind"), [(errno.EACCES, PermissionError), (errno.EMFILE, nc.DeviceError)])
def test_unreadable_checkpoints_are_not_damaged(
    kept: train.Checkpoints, name: str, number: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = checkpoint.reading

    def refused(path: Path) -> Any:
        if path.name == name:
            raise OSError(number, os.strerror(number), str(path))
        return whole(path)

    monkeypatch.setattr(checkpoint, "reading", refused)
    before, said = names(kept), list[str]()
    with pytest.raises(kind, match=r"^checkpoint: cannot read .*: \w[\w ]+$"):
        kept.latest(said.append)
    assert names(kept) == before and not said


def test_damaged_checkpoints_alone_do_not_restart_a_training(kept: train.Checkpoints) -> None:
    for path in kept.paths():
        (path / "state.json").write_bytes(b"")
    before = names(kept)
    for _ in range(2):
        with pytest.raises(StateError, match="every checkpoint in"):
            kept.latest(lambda text: None)
    assert names(kept) == before
    assert train.Checkpoints(kept.folder / "other").latest() is None


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "another"}])
def test_files_of_other_programs_are_refused_and_unchanged(kept: train.Checkpoints, change: dict[str, Any]) -> None:
    path = kept.folder / "step-00000004" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StateError, match="read it with the Nacre version that wrote it"):
        kept.latest(lambda text: None)
    assert len(kept.paths()) == 3


def test_unfinished_files_of_a_killed_writer_are_removed(kept: train.Checkpoints) -> None:
    (kept.folder / ".writing-step-00000005").mkdir()
    (kept.folder / ".discarded-step-00000002").mkdir()
    (kept.folder / ".writing-best").symlink_to("nowhere")
    (kept.folder / "notes.txt").touch()
    kept.save(5, {}, {})
    assert names(kept) == ["last", "notes.txt", "step-00000004", "step-00000005"]


def test_a_process_killed_while_it_replaces_its_only_checkpoint_leaves_it(tmp_path: Path) -> None:
    kept = train.Checkpoints(tmp_path, keep=1)
    path = kept.save(1, {}, {"epoch": 1})
    path.rename(path.with_name(".replaced-" + path.name))  # before the new folder has arrived
    (tmp_path / ".writing-step-00000001").mkdir()
    kept.sweep()
    found = kept.latest()
    assert found is not None and found.state == {"epoch": 1} and names(kept) == ["last", path.name]
    path.rename(path.with_name(".replaced-" + path.name))
    kept.save(1, {}, {"epoch": 2})  # sweeps too
    (tmp_path / ".replaced-step-00000001").mkdir()  # after the new folder has arrived
    kept.sweep()
    found = kept.latest()
    assert found is not None and found.state == {"epoch": 2} and names(kept) == ["last", path.name]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(nc.DeviceError, match="checkpoint: cannot write"):
        train.Checkpoints(tmp_path / "file").save(1, {}, {})


# ---- with a trainer


def test_a_damaged_last_checkpoint_costs_only_its_steps(tmp_path: Path) -> None:
    def run(out: Path) -> str:
        trainer, loader, validation = training.build(out, keep=3)
        trainer.fit(loader, validation, training.EPOCHS, resume=True)
        return training.digest(out / "checkpoints")

    wanted = run(tmp_path / "whole")
    run(tmp_path / "damaged")
    kept = train.Checkpoints(tmp_path / "damaged" / "checkpoints")
    (kept.paths()[-1] / "model.safetensors").write_bytes(b"nothing")
    run(tmp_path / "damaged")
    shutil.rmtree(next(kept.folder.glob("damaged-*")))
    assert training.digest(kept.folder) == wanted


def test_another_training_is_refused_and_nothing_changed(tmp_path: Path) -> None:
    def trainer(**options: Any) -> train.Trainer:
        nc.random.seed(0)
        model = nn.Linear(6, options.pop("classes", 3), bias=options.pop("bias", True))
        optimizer = options.pop("kind", optim.SGD)(model.parameters(), lr=0.1)
        return train.Trainer(model, optimizer, nn.functional.cross_entropy, out=tmp_path, progress=False, **options)

    batches = [training.rows(8, 1).batch(range(8))]
    batches = [tuple(map(nc.asarray, b)) for b in batches]
    trainer().fit(batches, epochs=1)
    for options, text in (
        ({"classes": 4}, r"weight f32\[3, 6\], now f32\[4, 6\]"),
        ({"bias": False}, "bias"),
        ({"kind": optim.Adam}, "optimizer 'SGD', now 'Adam'"),
        ({"clip_norm": 1.0}, "clip_norm None"),
        ({"accumulate": 2}, "accumulate 1, now 2"),
    ):
        other = trainer(**options)
        before = {k: v.numpy().tobytes() for k, v in other.model.state_dict().items()}
        with pytest.raises(StateError, match=text):
            other.fit(batches, epochs=2, resume=True)
        assert {k: v.numpy().tobytes() for k, v in other.model.state_dict().items()} == before
    fresh = nn.Linear(6, 3)
    train.restore_model(fresh, tmp_path / "checkpoints" / "last")
    assert fresh.weight.tolist() == trainer_weights(tmp_path)


def trainer_weights(out: Path) -> Any:
    return nc.load(out / "checkpoints" / "last" / "model.safetensors")["weight"].tolist()


def test_another_setting_of_a_schedule_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = [tuple(map(nc.asarray, training.rows(8, 1).batch(range(8))))]

    def run(epochs: int) -> None:
        nc.random.seed(0)
        model = nn.Linear(6, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = optim.CosineAnnealingLR(optimizer, epochs)
        train.Trainer(model, optimizer, nn.functional.cross_entropy, schedule=schedule, out=tmp_path).fit(
            batches, epochs=epochs, resume=True
        )

    run(2)
    assert "starting from the beginning" in " ".join(capsys.readouterr().out.split())
    run(3)
    assert "CosineAnnealingLR T_max was 2, is 3" in " ".join(capsys.readouterr().out.split())


def a_run(out: Path, lr: float = 0.1, epochs: int = 1, **settings: Any) -> Any:
    nc.random.seed(0)
    model = nn.Linear(6, 3)
    optimizer = optim.SGD([{"params": [model.weight], "momentum": 0.5}, {"params": [model.bias]}], lr=lr, **settings)
    trainer = train.Trainer(model, optimizer, nn.functional.cross_entropy, out=out, progress=False)
    trainer.fit([tuple(map(nc.asarray, training.rows(8, 1).batch(range(8))))], epochs=epochs, resume=True)
    return trainer


def test_ignored_settings_of_the_optimizer_are_reported_at_a_resume(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a_run(tmp_path)
        a_run(tmp_path, epochs=2)  # with equal settings nothing is said
    with pytest.warns(UserWarning, match="the checkpoint: lr is 0.1, not 0.5; weight_decay is 0.0, not 0.25; to use"):
        trainer = a_run(tmp_path, 0.5, 3, weight_decay=0.25)
    assert [(g["lr"], g["weight_decay"]) for g in trainer.optimizer.param_groups] == [(0.1, 0.0)] * 2
    assert "SGD (lr=0.1, " in (tmp_path / "report.html").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a_run(tmp_path, epochs=4)


def test_a_resume_that_loses_work_warns_without_progress(tmp_path: Path) -> None:
    a_run(tmp_path, epochs=2)
    newest = train.Checkpoints(tmp_path / "checkpoints").paths()[-1]
    (newest / "state.safetensors").unlink()
    with pytest.warns(UserWarning, match="takes the checkpoint before it; it is renamed"):
        a_run(tmp_path, epochs=2)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.warns(UserWarning, match="starting from the beginning"):
        a_run(tmp_path)


def test_other_objects_are_saved_too(tmp_path: Path) -> None:
    class Counter:
        """Counts the epochs that were requested."""

        def __init__(self) -> None:
            self.count = 0

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, saved: Any) -> None:
            self.count = saved["count"]

    def run(counter: Counter, epochs: int) -> None:
        model = nn.Linear(6, 3)
        trainer = train.Trainer(
            model,
            optim.SGD(model.parameters(), lr=0.1),
            nn.functional.cross_entropy,
            out=tmp_path,
            also={"counter": counter},
            progress=False,
        )
        trainer.fit([tuple(map(nc.asarray, training.rows(8, 1).batch(range(8))))], epochs=epochs, resume=True)

    first, second = Counter(), Counter()
    first.count = 7
    run(first, 1)
    run(second, 1)
    assert second.count == 7


def test_an_optimiser_is_restored_to_before_its_first_step() -> None:
    p = nn.Parameter([1.0])
    for kind in (optim.Adam, optim.NAdam):
        optimizer = kind([p], lr=0.1)
        start = optimizer.state_dict()
        first = []
        for _ in range(2):
            p.data = nc.tensor([1.0])
            p.grad = nc.tensor([0.5])
            optimizer.step()
            optimizer.step()
            first.append(p.tolist())
            optimizer.load_state_dict(start)
        assert first[0] == first[1]


def forged(path: Path, document: bytes) -> None:
    """A checkpoint with another state, although all its checksums are right."""
    (path / "state.json").write_bytes(document)
    manifest = json.loads((path / "checkpoint.json").read_text(encoding="utf-8"))
    manifest["files"]["state.json"] = {"bytes": len(document), "sha256": hashlib.sha256(document).hexdigest()}
    (path / "checkpoint.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    "document",
    [
        b"[" * 100_000,
        b'{"step": 1, "state": ' + b'{"tuple": [' * 5000 + b"1" + b"]}" * 5000 + b"}",
        b"[]",
        b"1",
        b'{"step": "x", "state": {"dict": []}}',
        b'{"step": 1, "state": 3}',
        b'{"step": 1, "state": {"dict": [[[], 1]]}}',
        b'{"step": 1, "state": {"tensor": []}}',
        b'{"step": true, "state": {"dict": []}}',
        b"\xff",
        b'{"step": 1e999}',
    ],
)
def test_a_state_of_another_form_is_damage(tmp_path: Path, document: bytes) -> None:
    path = train.Checkpoints(tmp_path).save(1, {"w": nc.ones(2)}, {"epoch": 1})
    forged(path, document)
    with pytest.raises(DamagedCheckpoint):
        train.read(path)


def test_a_checkpoint_whose_file_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("state.json", "checkpoint.json", "model.safetensors"):
        path = train.Checkpoints(tmp_path / name).save(1, {"w": nc.ones(2)}, {"epoch": 1})
        (path / name).unlink()
        os.mkfifo(path / name)
        with pytest.raises(DamagedCheckpoint):
            train.read(path)


def test_a_sound_checkpoint_of_another_form_is_an_error_of_its_own(tmp_path: Path) -> None:
    trainer, loader, validation = training.build(tmp_path)
    trainer.fit(loader, validation, 1)
    path = sorted((tmp_path / "checkpoints").glob("step-*"))[-1]
    document = json.loads((path / "state.json").read_text(encoding="utf-8"))
    document["state"]["dict"] = [pair for pair in document["state"]["dict"] if pair[0] != "watch"]
    forged(path, json.dumps(document).encode())
    with pytest.raises(StateError, match="the form of this version"):
        training.build(tmp_path)[0].fit(loader, validation, 2, resume=True)
