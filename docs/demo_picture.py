"""Run `nacre demo` and draw its terminal: `docs/figures/demo.svg`, for light and dark pages, and `demo.json` beside it.

    python3 run.py setup; .venv/bin/python docs/demo_picture.py [--folder docs/figures]

The picture shows what the run prints, its times included, so run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from nacre.cli.demo import command as demo
from nacre.examples import digits
from nacre.native.engine import host_target

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 92  # columns
LIGHT = TerminalTheme(
    (250, 250, 248),
    (36, 41, 47),
    [
        (36, 41, 47),
        (190, 40, 50),
        (26, 127, 55),
        (150, 90, 0),
        (9, 90, 180),
        (130, 60, 170),
        (0, 115, 125),
        (90, 96, 104),
    ],
)
DARK = TerminalTheme(
    (22, 27, 34),
    (214, 220, 227),
    [
        (72, 79, 88),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (177, 186, 196),
    ],
)
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" \
aria-label="output of nacre demo">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
PAGE
{styles}
</style>
<rect class="{unique_id}-page" width="{width}" height="{height}" rx="10"/>
<g class="{unique_id}-matrix" transform="translate({terminal_x}, 24)">
{matrix}
</g>
</svg>
"""
NAME = "demo"


def export(console: Console, theme: TerminalTheme) -> str:
    """What a console printed, in the colours of one theme."""
    page = "#{:02x}{:02x}{:02x}".format(*theme.background_color)
    form = FORMAT.replace("PAGE", f".{NAME}-page {{{{ fill: {page}; stroke: #8b949e55; }}}}")
    return console.export_svg(theme=theme, clear=False, code_format=form, unique_id=NAME)


def draw(console: Console) -> str:
    """What a console printed as one SVG, whose colours follow those of the page around it."""
    light, dark = (export(console, theme) for theme in (LIGHT, DARK))
    found = re.search(r"<style>\n(.*?)</style>", dark, re.DOTALL)
    assert found is not None
    colours = "\n".join(line.strip() for line in found[1].splitlines() if "fill:" in line)
    scheme = f"@media (prefers-color-scheme: dark) {{\n{colours}\n}}\n</style>"
    whole = re.sub(r' clip-path="[^"]*"', "", light.replace("</style>", scheme))  # no line is cut off
    whole = re.sub(r"<text[^>]*>\s*</text>", "\n", whole)
    return "\n".join(line.strip() for line in whole.splitlines() if line.strip()) + "\n"


def play(epochs: int, into: Path) -> tuple[Console, int]:
    """Run the demo; a console that has recorded it, and its exit status."""
    words = "nacre demo" if epochs == digits.EPOCHS else f"nacre demo --epochs {epochs}"
    console = Console(
        record=True, file=io.StringIO(), width=WIDTH, color_system="truecolor", force_terminal=False, highlight=False
    )
    console.print(f"[dim]$[/] [bold]{words}[/]   [dim]# processor: {host_target().cpu}[/]")
    return console, demo.run(argparse.Namespace(json=into, epochs=epochs), console)


def main(arguments: Sequence[str]) -> int:
    """Run the demo and write its picture; nothing is written unless the demo passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "figures", help="where the files are written")
    parser.add_argument("--epochs", type=int, default=digits.EPOCHS, help="passes over the training set")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        data, picture = Path(made) / f"{NAME}.json", Path(made) / f"{NAME}.svg"
        console, status = play(given.epochs, data)
        if status != demo.DONE:
            print(console.export_text(), file=sys.stderr)
            return status
        picture.write_text(draw(console), encoding="utf-8")
        for path in (data, picture):
            os.replace(path, given.folder / path.name)
    print(f"{given.folder / picture.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
