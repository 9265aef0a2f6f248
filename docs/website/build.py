"""Build the documents and the reference into a site: `build/site/index.html`.

Warnings are errors.  After the build, every link, anchor and image inside the site is checked.

    python3 run.py site [--into FOLDER] [--source ADDRESS] [--links] [--screenshots FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import links
import pages
import reference
import screenshots
from public_names import spaces

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def stage(into: Path, base: str = "") -> None:
    """Put the pages, and what they show, into a folder as Sphinx wants them."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    names = reference.Names(spaces())
    for name, text in pages.stage(into, base):
        (into / f"{name}.md").write_text(reference.guide(text, names), encoding="utf-8")
    for _ in reference.written(into / "reference"):
        pass


def empty(into: Path) -> None:
    """Remove an older site from a folder; refuse one that holds something else."""
    if into.exists() and any(into.iterdir()):
        if not (into / "objects.inv").exists():
            raise pages.PageError(f"{into}: an empty folder or an older site is required; this holds other files")
        shutil.rmtree(into)


def build(into: Path, builder: str = "html", base: str = "") -> int:
    """Build the site into a folder; the exit status of Sphinx, or 1 where a link inside the site leads nowhere."""
    if builder == "html":
        empty(into)
    source = into.parent / f"{into.name}-source"
    stage(source, base)
    line = [
        sys.executable,
        "-m",
        "sphinx",
        "--builder",
        builder,
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--conf-dir",
        str(HERE),
        str(source),
        str(into),
    ]
    found = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    status = subprocess.call(line, env={**os.environ, "PYTHONPATH": found, "NACRE_SITE_SOURCE": base})
    if status or builder != "html":
        return status
    faults = links.check(into)
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return int(bool(faults))


def main(arguments: Sequence[str]) -> int:
    """Build the site, and what is asked for beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site", help="where the site is written")
    parser.add_argument(
        "--source",
        metavar="ADDRESS",
        default="",
        help="where the repository's files are shown, up to the branch; the site shows them by default",
    )
    parser.add_argument("--links", action="store_true", help="also ask the network where links out of the site lead")
    parser.add_argument(
        "--screenshots",
        type=Path,
        metavar="FOLDER",
        help="also take ten pages at desktop and phone width, light and dark; requires Chromium",
    )
    given = parser.parse_args(arguments)
    into = given.into.resolve()
    try:
        browser = screenshots.find_browser() if given.screenshots else ""
        status = build(into, base=given.source)
        if not status and given.links:
            status = build(into.parent / f"{into.name}-links", "linkcheck", given.source)
        if not status and given.screenshots:
            status = screenshots.take(browser, into, given.screenshots.resolve())
    except (pages.PageError, screenshots.BrowserError) as fault:
        print(f"site: {fault}", file=sys.stderr)
        return 1
    if not status:
        print(f"site: {into / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
