"""A training's report: a page with its curves, its verdict, and its epochs as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from nacre.inspect.plot import Chart, Series
from nacre.train.history import VALID, History

STYLE = """body { font-family: sans-serif; max-width: 60em; margin: 2em auto; color: #222; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 0.15em 0.7em; text-align: right; border-bottom: 1px solid #ddd; }
tr.best { background: #eef6ee; }
svg { max-width: 100%; }"""


def charts(history: History) -> dict[str, Chart]:
    """A chart of each measure by epoch, training and validation together where there are both.

    >>> sorted(charts(History([{"epoch": k, "loss": 1.0 / k, "lr": 0.1} for k in (1, 2)])))
    ['loss', 'lr']
    """
    found: dict[str, Chart] = {}
    for name in history.names:
        if name in ("epoch", "step") or (name.startswith(VALID) and name.removeprefix(VALID) in history.names):
            continue
        pairs = ((("training", name), ("validation", VALID + name)) if name in history.compared() else ((name, name),))
        series = [Series(title, tuple(points)) for title, column in pairs if len(points := history.points(column)) > 1]
        if series:
            found[name] = Chart(name, "epoch", name, tuple(series), (False, False))
    return found


def page(history: History, title: str, best: int = -1) -> str:
    """The report as an HTML document that needs nothing else; `best` is the step of the best epoch."""
    names = history.names
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "\n".join(f'<tr{" class=best" if row.get("step") == best else ""}>'
                     + "".join(f"<td>{_text(row.get(name))}</td>" for name in names) + "</tr>" for row in history.rows)
    pictures = "\n".join(chart.svg() for chart in charts(history).values())
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
            f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n<p>{escape(history.verdict())}.</p>\n"
            f"{pictures}\n<table>\n<tr>{head}</tr>\n{rows}\n</table>\n</body></html>\n")


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else escape(str(value))
