"""States of trainings from other writers: each is refused with the reason, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
from nacre import data, nn, optim, train


def fitted(out: Path, epochs: int) -> train.Trainer:
    nc.random.seed(0)
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    trainer = train.Trainer(model, optimizer, nn.functional.mse_loss, out=out, jit=False, progress=False)
    loader = data.DataLoader(data.TensorDataset(nc.ones((4, 2)), nc.zeros((4, 1))), batch_size=2)
    trainer.fit(loader, epochs=epochs, resume=True)
    return trainer


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "batches a text": lambda s: s.update(batches="x"),
    "no epochs": lambda s: s.pop("epochs"),
    "epochs true": lambda s: s.update(epochs=True),
    "absurd updates": lambda s: s.update(updates=10**30),
    "negative batches": lambda s: s.update(batches=-1),
    "rows named by numbers": lambda s: s.update(history=[{1: 2, "epoch": 1, "step": 2}]),
    "rows without epoch": lambda s: s["history"][0].pop("epoch"),
    "more rows": lambda s: s.update(history=s["history"] * 2),
    "no rows": lambda s: s.update(history=5),
    "means of texts": lambda s: s.update(means={"loss": ("a", "b")}),
    "rates of texts": lambda s: s.update(rates={"lr": "x"}),
    "watch": lambda s: s["watch"].update(bad="x"),
    "watched step": lambda s: s["watch"].update(best_step=10**30),
    "position without bytes": lambda s: s["writers"].update({"JsonLines 0": {}}),
    "position of a text": lambda s: s["writers"].update({"JsonLines 0": "x"}),
    "position with negative bytes": lambda s: s["writers"].update({"JsonLines 0": {"bytes": -1}}),
    "position without columns": lambda s: s["writers"]["Csv 0"].pop("columns"),
    "columns of numbers": lambda s: s["writers"]["Csv 0"].update(columns=[1]),
    "gradients of a text": lambda s: s["model"].update(gradients={"weight": "x"}),
    "gradient of another shape": lambda s: s["model"].update(gradients={"weight": nc.ones(7)}),
    "groups": lambda s: s["optimizer"].update(param_groups=[[]]),
    "random a text": lambda s: s.update(random="x"),
    "settings": lambda s: s.update(settings=5),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_other_state_is_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    fitted(tmp_path, 1)
    kept = train.Checkpoints(tmp_path / "checkpoints")
    found = kept.latest()
    assert found is not None
    state = dict(found.state)
    change(state)
    kept.save(found.step, found.model, state)
    with pytest.raises(nc.StateError, match=r"form of this version|must h|required"):
        fitted(tmp_path, 2)


@pytest.mark.parametrize("rows", [[1], [{1: 2}], [{"loss": 1.0}], [{"epoch": "x"}], [{"epoch": 10**400}], ["x"]])
def test_invalid_rows(rows: Any) -> None:
    with pytest.raises(nc.Error, match="History: each row must be a dict"):
        train.History(rows)


def test_values_of_rows_that_no_curve_has() -> None:
    history = train.History([{"epoch": 1, "loss": "x"}, {"epoch": 2, "loss": 10**400}, {"epoch": 3, "loss": 0.5}])
    assert history.points("loss") == [(3.0, 0.5)]


@pytest.mark.parametrize("text", ["x", "[]", "{}", "1", "[" * 100_000, '{"kind": "epoch"}\n5'])
def test_lines_that_are_not_a_log(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(nc.Error, match="read_json_lines: each line must be a JSON object"):
        train.read_json_lines(path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "absent", ".", "n" * 300])
def test_logs_that_cannot_be_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(nc.Error, match="read_json_lines: cannot read"):
        train.read_json_lines(name)
    if name != "absent":
        with pytest.raises(nc.Error, match="cannot write the log"):
            train.JsonLines(name).begin(None)


@pytest.mark.parametrize("part", [{"epoch": "x"}, {"batch": None}, {"items": -1}, {"batch": 10**30}, {"epoch": 0.5}])
def test_invalid_places_of_loaders(part: dict[str, Any]) -> None:
    loader = data.DataLoader(data.TensorDataset(nc.ones((4, 2))), batch_size=2)
    before = loader.state_dict()
    with pytest.raises(nc.StateError, match="must be a whole number of 0 or more"):
        loader.load_state_dict({**before, **part})
    assert loader.state_dict() == before


def test_more_items_than_a_stream_has_end_at_once() -> None:
    class Stream(data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(4))

    loader = data.DataLoader(Stream(), batch_size=2)
    loader.load_state_dict({**loader.state_dict(), "batch": 1, "items": 1 << 62})
    assert list(loader) == []
