"""Curves in the terminal and on a page show the measured values; the verdict interprets them."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as tree

import numpy as np
import pytest
from rich.console import Console

import nacre as nc
from nacre import nn, optim, train
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.inspect.plot import Chart, LinearAxis, Series
from nacre.train.curves import HEIGHT, WIDTH, drawn
from nacre.train.display import Columns, Display, shown
from nacre.train.history import overfits
from nacre.train.metrics import batch_size
from nacre.train.report import Heading, charts, now, page


def history(training: list[float], validation: list[float | None]) -> train.History:
    rows = [
        {"epoch": k, "step": 10 * k, "loss": a} | ({} if b is None else {"valid_loss": b})
        for k, (a, b) in enumerate(zip(training, validation, strict=True), 1)
    ]
    return train.History(rows)


OVERFIT = history([0.9, 0.5, 0.3, 0.1], [0.6, 0.7, 0.8, 0.9])


def test_verdicts() -> None:
    assert OVERFIT.verdict().startswith("overfitting: the validation loss rose from 0.6 after epoch 1 to 0.9")
    assert "still falling" in history([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]).verdict()
    assert "level" in history([3.0, 2.0, 1.9], [3.0, 2.0, 2.01]).verdict()
    assert "too few" in history([3.0], [3.0]).verdict()
    assert "too few" in history([3.0, 2.0], [None, None]).verdict()
    assert "diverges" in history([1.0, 2.0, 3.0], [1.0, 0.5, 3.0]).verdict()


FALLING = [(k, 1 / k) for k in range(1, 9)]
RISES: dict[str, tuple[list[float], bool]] = {
    "over several epochs": ([0.8, 0.6, 0.5, 0.55, 0.6, 0.7, 0.75, 0.8], True),
    "with noise": ([0.8, 0.5, 0.6, 0.55, 0.7, 0.65, 0.8, 0.75], True),
    "over one epoch": ([0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.6], False),
    "over two epochs": ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.6, 0.7], False),
    "by a jump, then level": ([0.9, 0.5, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6], False),
    "and falls again": ([0.9, 0.5, 0.7, 0.9, 0.8, 0.7, 0.6, 0.55], False),
    "by little": ([0.9, 0.5, 0.501, 0.502, 0.503, 0.504, 0.505, 0.506], False),
    "not": ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2], False),
}


@pytest.mark.parametrize(("losses", "wanted"), RISES.values(), ids=RISES)
def test_overfitting_is_a_rise_over_several_epochs(losses: list[float], wanted: bool) -> None:
    validation = [(float(k), v) for k, v in enumerate(losses, 1)]
    assert overfits(FALLING, validation) == wanted
    rising = [(k, v) for (k, _), v in zip(FALLING, reversed([v for _, v in FALLING]), strict=True)]
    assert not overfits(rising, validation)  # the training loss rises too


def test_a_column_has_the_finite_points_of_its_epochs() -> None:
    made = history([1.0, float("nan"), 3.0], [None, 2.0, None])
    assert made.points("loss") == [(1.0, 1.0), (3.0, 3.0)] and made.points("valid_loss") == [(2.0, 2.0)]
    assert made["valid_loss"] == [None, 2.0, None] and made.compared() == ["loss"]


def test_curves_in_the_terminal_fit_their_frame() -> None:
    text = drawn(OVERFIT)
    assert text is not None
    lines = text.plain.splitlines()
    assert lines[0] == "loss: training (blue, 0.1), validation (red, 0.9)" and len(lines) == HEIGHT + 3
    frame = [line[10:] for line in lines[1 : HEIGHT + 1]]
    assert all(len(line) == WIDTH for line in frame)
    dots = {c for line in frame for c in line} - {" "}
    assert dots and all(0x2800 < ord(c) <= 0x28FF for c in dots)
    first, last = ([k for k, line in enumerate(frame) if line[column] != " "] for column in (0, -1))
    assert max(first) < HEIGHT // 2 and min(last) < HEIGHT // 4 and max(last) > 3 * HEIGHT // 4  # they diverge
    assert drawn(history([1.0], [1.0])) is None and drawn(train.History()) is None
    assert drawn(history([1.0, 1.0], [1.0, 1.0])) is not None  # a level line has a frame too


class Reader(HTMLParser):
    """The elements, attributes and cells of a page; it must be well nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open += [] if tag == "meta" else [tag]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def tags(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of every element of a name."""
        return [attributes for tag, attributes in self.found if tag == name]


def told(**options: Any) -> Heading:
    return Heading(**{"name": "first", "date": 0.0, "settings": {"optimizer": "Adam"}, **options})


def test_the_page_is_whole_and_shows_every_measure() -> None:
    text = page(OVERFIT, told(monitor="valid_loss", best=10))
    reader = Reader(text)
    assert len(reader.tags("svg")) == 1 and reader.tags("tr").count({"class": "best"}) == 1
    assert "<title>first: training report</title>" in text and "<h1>first</h1>" in text and "<p>Overfitting" in text
    assert reader.tags("time") == [{"datetime": "1970-01-01T00:00:00Z"}] and "1970-01-01 00:00 UTC" in text
    assert ["loss", "0.1", "0.9", "0.1", "0.9"] in reader.rows  # final, best epoch, lowest, highest
    assert ["valid_loss", "0.9", "0.6", "0.6", "0.9"] in reader.rows
    assert ["optimizer", "Adam"] in reader.rows and ["2", "20", "0.5", "0.7"] in reader.rows
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in reader.tags("meta")
    (chart,) = charts(OVERFIT).values()
    root = tree.fromstring(chart.svg())
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [4, 4]


def test_a_page_without_data_is_complete() -> None:
    reader = Reader(page(train.History(), told(settings={})))
    assert not reader.tags("table") and not reader.tags("svg")


def test_no_name_or_value_becomes_markup() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=y>&'
    rows = [{"epoch": k, "step": k, "loss": 1.0 / k, evil: k / 2, "note": evil} for k in (1, 2)]
    text = page(train.History(rows), told(name=evil, settings={evil: evil}, monitor=evil, best=1))
    reader = Reader(text)
    assert not reader.tags("script") and not reader.tags("img")
    assert [evil, evil] in reader.rows and [evil, "1", "0.5", "0.5", "1"] in reader.rows


def test_a_page_is_for_dark_and_narrow_screens() -> None:
    text = page(OVERFIT, told())
    assert "color-scheme: light dark" in text and text.count("@media (prefers-color-scheme: dark)") == 2
    assert text.count('<div class="wide"><table') == text.count("<table") == 3
    width = re.search(r'<svg[^>]* width="(\d+)"', text)
    assert width is not None and int(width[1]) <= 600 and ".curves svg { width: 100%" in text


def test_a_training_reports_its_name_date_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def ran(out: Path, **options: Any) -> Reader:
        model = nn.Linear(2, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        trainer = train.Trainer(
            model,
            optimizer,
            nn.functional.mse_loss,
            out=out,
            progress=False,
            clip_norm=2.0,
            schedule=optim.StepLR(optimizer, 1),
            **options,
        )
        trainer.fit([(nc.ones((4, 2)), nc.ones((4, 1)))], epochs=2)
        return Reader((out / "report.html").read_text(encoding="utf-8"))

    found = ran(tmp_path / "a run")
    assert ["model", "Linear, 3 parameters"] in found.rows and ["clip norm", "2.0"] in found.rows
    assert ["optimizer", "SGD (lr=0.5, momentum=0.9, dampening=0.0, weight_decay=0.0)"] in found.rows
    assert ["schedules", "StepLR"] in found.rows and ["loss", "mse_loss"] in found.rows
    assert found.tags("time") == [{"datetime": "2023-11-14T22:13:20Z"}]
    assert "<h1>a run</h1>" in (tmp_path / "a run" / "report.html").read_text(encoding="utf-8")
    ran(tmp_path / "b", name="1 < 2")
    assert "<h1>1 &lt; 2</h1>" in (tmp_path / "b" / "report.html").read_text(encoding="utf-8")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ArgumentError, match=r"whole seconds since 1970 .*'yesterday'"):
        ran(tmp_path / "c")
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert abs(now() - time.time()) < 5
    with pytest.raises(KindError, match="name must be a text"):
        ran(tmp_path / "d", name=3)


@pytest.mark.parametrize("values", [(0.12, 0.9), (-3.0, 1.0), (5.0, 5.0), (0.0, 0.0), (1e-9, 3e-9), (-2.0, -1)])
def test_a_linear_axis_holds_its_numbers_in_few_marks(values: tuple[float, float]) -> None:
    axis = LinearAxis.around(values)
    assert all(-1e-6 <= axis.place(v) <= 1 + 1e-6 for v in values)
    places = [axis.place(v) for v, _ in axis.ticks()]
    assert 2 <= len(places) <= 9 and places[0] == 0 and abs(places[-1] - 1) < 1e-9


def test_charts_may_mix_axes() -> None:
    svg = Chart("t", "n", "s", (Series("a", ((0.0, 1.0), (10.0, 1000.0))),), (False, True)).svg()
    tree.fromstring(svg)
    assert ">1,000<" in svg and ">10<" in svg


# ---- displays and metrics


def test_a_console_that_is_no_terminal_gets_a_line_for_each_epoch() -> None:
    console = Console(width=200, force_terminal=False, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    display = Display(console)
    display.begin(2)
    display.epoch_begins(1, None, 0)
    display.step(1, {"loss": (1.0, 1.0)})
    display.epoch({"epoch": 1, "step": 3, "loss": 0.25, "valid_loss": 0.5}, True)
    display.close()
    assert console.export_text() == "epoch       loss  valid_loss\n  1/2     0.2500      0.5000  best\n"
    assert shown({"epoch": 1, "loss": 0.123456}) == "loss 0.1235"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_epochs_are_aligned_and_fit(width: int) -> None:
    row = {
        "epoch": 9,
        "step": 9,
        "loss": 12.34567,
        "accuracy": 1.0,
        "lr": 1e-5,
        "valid_loss": 0.5,
        "valid_accuracy": 0.25,
        "gradient_norm": 3.0,
        "a_metric_of_one": 1e-8,
    }
    columns = Columns(100, width)
    lines = [*columns.lines(row, True), *columns.lines({**row, "epoch": 100, "valid_loss": None}, False)]
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    each = len(lines) // 3
    assert each == {40: 5, 80: 2, 120: 1}[width]
    for head, first, second in zip(lines[:each], lines[each : 2 * each], lines[2 * each :], strict=True):
        ends = [k + 1 for k, c in enumerate(head) if c != " " and head[k + 1 : k + 2] in ("", " ")]
        assert all(
            line[end - 1] != " " and line[end : end + 1] in ("", " ")
            for end in ends[each > 1 :]
            for line in (first.removesuffix("  best"), second)
        )
    assert sum(line.endswith("  best") for line in lines) == 1
    assert len(columns.lines({**row, "new": 1.0}, False)) >= 2 * each  # a new column has a new head


def test_a_terminal_has_a_bar() -> None:
    console = Console(width=120, force_terminal=True, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    display = Display(console)
    display.begin(2)
    for epoch in (1, 2):
        display.epoch_begins(epoch, 4, 1)
        display.step(2, {"loss": (1.0, 2.0)})
    assert "epoch 2/2" in console.export_text(clear=False) or display.progress is not None
    display.close()
    assert display.progress is None


def test_accuracy_counts_exactly() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    classes = np.random.default_rng(1).integers(0, 7, 50)
    right, count = train.accuracy(nc.asarray(scores), nc.asarray(classes))
    assert (right.item(), count) == ((scores.argmax(1) == classes).sum(), 50)
    for k in (1, 3, 7):
        among = (np.argsort(-scores, axis=1)[:, :k] == classes[:, None]).any(1).sum()
        assert train.top(k)(nc.asarray(scores), nc.asarray(classes))[0].item() == among
    planes, places = nc.asarray(scores.reshape(10, 7, 5)), nc.asarray(classes[:50].reshape(10, 5))
    assert train.accuracy(planes, places)[1] == 50
    with pytest.raises(ShapeError, match=r"target \(n, …\)"):
        train.accuracy(nc.ones((4, 3)), nc.ones((3,)))
    with pytest.raises(ArgumentError, match="count must be positive"):
        train.top(0)


def test_sizes_of_batches() -> None:
    assert batch_size((nc.ones((4, 2)), nc.ones(4))) == 4
    assert batch_size({"x": [nc.ones((3, 2))]}) == 3
    assert batch_size((nc.tensor(1.0),)) == 1 and batch_size("text") == 1
