"""Tables on narrow screens: each cell gets the heading of its column, so that the style sheet can stack the cells."""

from __future__ import annotations

import html
import re

STACKED = 3  # columns from which a table becomes a list of cells at phone width
TABLE = re.compile(r'<table class="(?P<classes>docutils[^"]*)">(?P<inside>.*?)</table>', re.DOTALL)
HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)
ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
CELL = re.compile(r"<td\b")
TAG = re.compile(r"<[^>]+>")


def label_cells(body: str) -> str:
    """The HTML of a page, with `data-label` on the cells of its wide tables."""
    return TABLE.sub(_labelled, body)


def _labelled(found: re.Match[str]) -> str:
    head = HEAD.search(found["inside"])
    labels = (
        [
            html.escape(html.unescape(TAG.sub("", cell)).strip(), quote=True)
            for cell in re.findall(r"<th\b.*?</th>", head[0], re.DOTALL)
        ]
        if head
        else []
    )
    if len(labels) < STACKED or "rowspan" in found["inside"] or "colspan" in found["inside"]:
        return found[0]

    def row(text: re.Match[str]) -> str:
        left = iter(labels)
        return CELL.sub(lambda _: f'<td data-label="{next(left, "")}"', text[0])

    return f'<table class="{found["classes"]} stacked">{ROW.sub(row, found["inside"])}</table>'
