"""Build the documents and the reference into a site: `build/site/index.html`.

Warnings are errors: a link to nothing, a name that is not there, a page that no contents list.

    python3 run.py site [--into FOLDER] [--links]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import reference

from public import spaces

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONTENTS = {  # captions of the contents, and their pages in order; each page of docs/ stands in one of them
    "Begin": ("install", "quickstart", "tutorial"),
    "Coming from": ("from_pytorch", "from_jax", "from_numpy", "faq"),
    "How to": ("saving", "data", "training", "transforms", "dynamic_shapes", "deploy", "profiling"),
    "How it works": ("architecture", "numerics", "special_points", "performance", "security"),
    "Reference": ("reference/index",),
}


def stage(into: Path) -> None:
    """Put the pages, and what they show, into a folder as Sphinx wants them."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    names = reference.Names(spaces())
    for page in (ROOT / "docs").glob("*.md"):
        text = reference.guide(page.read_text(encoding="utf-8"), names)
        (into / page.name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "figures", into / "figures")
    shutil.copy(ROOT / "LICENSE", into)
    (into / "index.md").write_text(reference.guide(front(), names), encoding="utf-8")
    for _ in reference.written(into / "reference"):
        pass


def front() -> str:
    """The front page: the README, its links as they are on the site, and the contents."""
    text = re.sub(r"\]\(docs/", "](", (ROOT / "README.md").read_text(encoding="utf-8"))
    trees = (f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
             for caption, pages in contents().items())
    return text + "\n" + "\n".join(trees)


def contents() -> dict[str, list[str]]:
    """The contents, of the pages that there are."""
    there = {page.stem for page in (ROOT / "docs").glob("*.md")}
    return {caption: [p for p in pages if p in there or "/" in p] for caption, pages in CONTENTS.items()}


def build(into: Path, builder: str = "html") -> int:
    """Build the site into a folder; the exit status of Sphinx."""
    source = into.parent / f"{into.name}-source"
    stage(source)
    line = [sys.executable, "-m", "sphinx", "--builder", builder, "--fail-on-warning", "--keep-going", "--quiet",
            "--conf-dir", str(HERE), str(source), str(into)]
    found = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.call(line, env={**os.environ, "PYTHONPATH": os.pathsep.join(found)})


def main(arguments: Sequence[str]) -> int:
    """Build the site, or check the links that lead out of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site", help="where the site is written")
    parser.add_argument("--links", action="store_true", help="ask the network where links out of the site lead")
    given = parser.parse_args(arguments)
    status = build(given.into.resolve(), "linkcheck" if given.links else "html")
    if not status:
        print(f"site: {given.into / ('output.txt' if given.links else 'index.html')}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
