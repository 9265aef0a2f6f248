"""Check the links, anchors and images inside a built site."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HELD = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "srcset", "object": "data"}


class _Reader(HTMLParser):
    """Collects what a page links to or shows, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[tuple[int, str]] = []
        self.anchors: set[str] = set()
        self.nameless: list[int] = []  # lines of images without a text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name") if tag == "a" else None) if name}
        target = given.get(HELD.get(tag, ""))
        if target:
            self.targets.append((self.getpos()[0], target))
        if tag == "img" and "alt" not in given:
            self.nameless.append(self.getpos()[0])


@cache
def _read(page: Path, _changed: int) -> _Reader:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def read(page: Path) -> _Reader:
    """What is in a page; a page is read once."""
    return _read(page, page.stat().st_mtime_ns)


def check(site: Path) -> list[str]:
    """The faults of all pages, as `PAGE:LINE: fault`."""
    site = site.resolve()
    return [
        f"{page.relative_to(site)}:{line}: {fault}"
        for page in sorted(site.rglob("*.html"))
        for line, fault in _faults(page, site)
    ]


def _faults(page: Path, site: Path) -> Iterator[tuple[int, str]]:
    found = read(page)
    for line in found.nameless:
        yield line, "an image without a text for readers who do not see it"
    for line, target in found.targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not file.is_relative_to(site):
            yield line, f"{target} leads out of the site"
        elif not file.is_file():
            yield line, f"{target} is not there"
        elif parts.fragment and file.suffix == ".html" and unquote(parts.fragment) not in read(file).anchors:
            yield line, f"{target}: no such anchor"
