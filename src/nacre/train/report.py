"""The report of a training: a page with its settings, results, curves, verdict, and epochs as a table."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, cast

from nacre import __version__
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.inspect.plot import Chart, Series
from nacre.train.history import VALID, History

FIXED_DATE = "SOURCE_DATE_EPOCH"  # environment variable for a date in seconds, for reproducible pages
COUNTS = ("epoch", "step")  # columns that are not measures
STYLE = """:root { color-scheme: light dark; --ground: #fff; --ink: #1f2328; --faint: #5b6570; --line: #d9dee4;
  --best: #e6f4ea; }
@media (prefers-color-scheme: dark) { :root { --ground: #131519; --ink: #e4e6ea; --faint: #9aa4af; --line: #343a44;
  --best: #17351f; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72em; margin: 0 auto; padding: 1em; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere; }
h1 { margin: 0.4em 0 0; } h2 { font-size: 1.15em; margin: 1.6em 0 0.4em; } .faint { color: var(--faint); margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
td, th { padding: 0.2em 0.6em; text-align: right; border-bottom: 1px solid var(--line); vertical-align: bottom; }
th:first-child, .settings td { text-align: left; } table:not(.settings) td { white-space: nowrap; }
tr.best { background: var(--best); }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26em), 1fr)); gap: 1em; }
.curves svg { width: 100%; height: auto; }"""


@dataclass(frozen=True)
class Heading:
    """The heading of a report: its name, the date in seconds since 1970, and settings.

    `best` is the step of the best epoch by `monitor`, or -1.
    """

    name: str
    date: float
    settings: Mapping[str, str]
    monitor: str = "loss"
    best: int = -1


def now() -> float:
    """The date of a report: now, or what the environment's SOURCE_DATE_EPOCH says.

    Raises ArgumentError if that is not a number of seconds that a date can have.
    """
    given = os.environ.get(FIXED_DATE)
    if given is None:
        return time.time()
    if not (given.isascii() and given.isdigit() and len(given) <= 11):
        raise ArgumentError(f"Trainer: whole seconds since 1970 are required in {FIXED_DATE}; got {given!r:.40}")
    return float(given)


def settings(
    model: Any,
    optimizer: Any,
    loss: Any,
    schedules: Sequence[Any],
    plain: Mapping[str, Any],
    chosen: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The settings of a training as texts by name; plain ones that are None, 1 or empty are left out.

    `chosen` are the optimiser's settings, by default those that it was made with.

    >>> model = nn.Linear(4, 2)
    >>> settings(model, optim.SGD(model.parameters(), lr=0.1), nn.functional.mse_loss, [], {"clip_norm": None})["loss"]
    'mse_loss'
    """
    count = sum(p.value.size for p in model.parameters())
    given: Mapping[str, Any] = getattr(optimizer, "defaults", {}) if chosen is None else chosen
    options = ", ".join(f"{k}={v}" for k, v in given.items() if v is not None and v is not False)
    found = {
        "model": f"{type(model).__name__}, {count:,} parameters",
        "optimizer": type(optimizer).__name__ + (f" ({options})" if options else ""),
        "loss": "" if loss is None else getattr(loss, "__name__", type(loss).__name__),
        "schedules": ", ".join(type(s).__name__ for s in schedules),
    }
    found |= {k.replace("_", " "): str(v) for k, v in plain.items() if v not in (None, 1)}
    return {k: v for k, v in found.items() if v} | {"Nacre": __version__}


def charts(history: History) -> dict[str, Chart]:
    """A chart of each measure by epoch, training and validation together where there are both.

    >>> sorted(charts(History([{"epoch": k, "loss": 1.0 / k, "lr": 0.1} for k in (1, 2)])))
    ['loss', 'lr']
    """
    found: dict[str, Chart] = {}
    for name in history.names:
        if name in COUNTS or (name.startswith(VALID) and name.removeprefix(VALID) in history.names):
            continue
        pairs = (("training", name), ("validation", VALID + name)) if name in history.compared() else ((name, name),)
        series = [Series(title, tuple(points)) for title, column in pairs if len(points := history.points(column)) > 1]
        if series:
            found[name] = Chart(name, "epoch", name, tuple(series), (False, False))
    return found


def page(history: History, heading: Heading) -> str:
    """The report as an HTML document that needs nothing else, for wide and narrow screens, light and dark."""
    date = time.gmtime(heading.date)
    pictures = "\n".join(chart.svg() for chart in charts(history).values())
    parts = [
        f"<h1>{escape(heading.name)}</h1>",
        f'<p class="faint">Last updated <time datetime="{time.strftime("%Y-%m-%dT%H:%M:%SZ", date)}">'
        f"{time.strftime('%Y-%m-%d %H:%M', date)} UTC</time></p>",
        f"<p>{escape(_sentence(history.verdict()))}</p>",
        *_section("Results", _results(history, heading)),
        *_section("Curves", f'<div class="curves">\n{pictures}\n</div>' if pictures else ""),
        *_section("Settings", _table([], [[k, v] for k, v in heading.settings.items()], "settings")),
        *_section("Epochs", _epochs(history, heading.best)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(heading.name)}: training report</title>\n<style>{STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _section(title: str, content: str) -> list[str]:
    """A section, unless it is empty."""
    return [f"<h2>{title}</h2>", content] if content else []


def _results(history: History, heading: Heading) -> str:
    """For each measure: the last value, that of the best epoch, the lowest and the highest."""
    best = next((row for row in history.rows if row.get("step") == heading.best), dict[str, Any]())
    rows: list[list[Any]] = []
    for name in history.names:
        values = [v for _, v in history.points(name)]
        if name not in COUNTS and values:
            rows.append([name, values[-1], best.get(name), min(values), max(values)])
    if not rows:
        return ""
    chosen = f"best epoch ({best['epoch']})" if best else "best epoch"
    note = f'<p class="faint">The best epoch is chosen by {escape(heading.monitor)}.</p>\n' if best else ""
    return note + _table(["measure", f"final epoch ({history.rows[-1]['epoch']})", chosen, "lowest", "highest"], rows)


def _epochs(history: History, best: int) -> str:
    """Every row of the history; the best one is marked."""
    marked = next((k for k, row in enumerate(history.rows) if row.get("step") == best), -1)
    return _table(history.names, [[row.get(name) for name in history.names] for row in history.rows], best=marked)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], kind: str = "", best: int = -1) -> str:
    """A table that scrolls where it is wider than the screen; empty for no rows."""
    if not rows:
        return ""
    lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"] if head else []
    for k, row in enumerate(rows):
        cells = [
            f"<th>{_text(row[0])}</th>" if kind or isinstance(row[0], str) else f"<td>{_text(row[0])}</td>",
            *(f"<td>{_text(value)}</td>" for value in row[1:]),
        ]
        lines.append(f"<tr{' class=best' if k == best else ''}>{''.join(cells)}</tr>")
    chosen = f' class="{kind}"' if kind else ""
    return f'<div class="wide"><table{chosen}>\n' + "\n".join(lines) + "\n</table></div>"


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else escape(str(cast("object", value)))
