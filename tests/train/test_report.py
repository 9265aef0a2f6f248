"""Curves in the terminal and on a page show what was measured; the verdict says what they mean."""

from __future__ import annotations

from xml.etree import ElementTree as tree

import numpy as np
import pytest
from rich.console import Console

import nacre as nc
from nacre import train
from nacre.base.errors import ArgumentError, ShapeError
from nacre.inspect.plot import Chart, LinearAxis, Series
from nacre.train.curves import HEIGHT, WIDTH, drawn
from nacre.train.display import Display, shown
from nacre.train.metrics import batch_size
from nacre.train.report import charts, page


def history(training: list[float], validation: list[float | None]) -> train.History:
    rows = [{"epoch": k, "step": 10 * k, "loss": a} | ({} if b is None else {"valid_loss": b})
            for k, (a, b) in enumerate(zip(training, validation, strict=True), 1)]
    return train.History(rows)


OVERFIT = history([0.9, 0.5, 0.3, 0.1], [0.8, 0.6, 0.7, 0.9])


def test_verdicts() -> None:
    assert OVERFIT.verdict().startswith("overfitting: the validation loss was lowest after epoch 2 (0.6)")
    assert "still falling" in history([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]).verdict()
    assert "level" in history([3.0, 2.0, 1.9], [3.0, 2.0, 2.01]).verdict()
    assert "too few" in history([3.0], [3.0]).verdict()
    assert "too few" in history([3.0, 2.0], [None, None]).verdict()
    assert "level" in history([1.0, 2.0, 3.0], [1.0, 0.5, 3.0]).verdict()  # training got worse too: it diverges


def test_a_column_has_the_finite_points_of_its_epochs() -> None:
    made = history([1.0, float("nan"), 3.0], [None, 2.0, None])
    assert made.points("loss") == [(1.0, 1.0), (3.0, 3.0)] and made.points("valid_loss") == [(2.0, 2.0)]
    assert made["valid_loss"] == [None, 2.0, None] and made.compared() == ["loss"]


def test_curves_in_the_terminal_fit_their_frame() -> None:
    text = drawn(OVERFIT)
    assert text is not None
    lines = text.plain.splitlines()
    assert lines[0] == "loss: training (blue, 0.1), validation (red, 0.9)" and len(lines) == HEIGHT + 3
    frame = [line[10:] for line in lines[1:HEIGHT + 1]]
    assert all(len(line) == WIDTH for line in frame)
    dots = {c for line in frame for c in line} - {" "}
    assert dots and all(0x2800 < ord(c) <= 0x28FF for c in dots)
    first, last = ([k for k, line in enumerate(frame) if line[column] != " "] for column in (0, -1))
    assert max(first) < HEIGHT // 2 and min(last) < HEIGHT // 4 and max(last) > 3 * HEIGHT // 4  # they part
    assert drawn(history([1.0], [1.0])) is None and drawn(train.History()) is None
    assert drawn(history([1.0, 1.0], [1.0, 1.0])) is not None  # a level line has a frame too


def test_the_page_is_whole_and_shows_every_measure() -> None:
    text = page(OVERFIT, "a < b", best=20)
    assert text.count("<svg") == 1 and text.count('<tr class=best') == 1 and text.count("<tr") == 5
    assert "<title>a &lt; b</title>" in text and "overfitting" in text
    assert page(train.History(), "empty").endswith("</html>\n")
    (chart,) = charts(OVERFIT).values()
    root = tree.fromstring(chart.svg())
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [4, 4]


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


# ---- what is shown, and metrics


def test_a_console_that_is_no_terminal_gets_a_line_for_each_epoch() -> None:
    console = Console(width=200, force_terminal=False, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    display = Display(console)
    display.begin(2)
    display.epoch_begins(1, None, 0)
    display.step(1, {"loss": (1.0, 1.0)})
    display.epoch({"epoch": 1, "step": 3, "loss": 0.25, "valid_loss": 0.5}, True)
    display.close()
    assert console.export_text() == "epoch 1/2  loss 0.25  | validation loss 0.5  best so far\n"
    assert shown({"epoch": 1, "loss": 0.123456}) == "loss 0.1235"


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
