"""Make the documents' pictures from real runs: NAME.svg and its data, NAME.json, in docs/figures.

    python3 run.py figures [NAME ...] [--redraw] [--folder DIR]

Without names all are made, except those that show times or take minutes; name these to run them on this machine.
`--redraw` runs nothing and draws from the data that are there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "figures"
OTHERS = ("make", "drawing", "digits", "measured")  # modules that are no pictures


class Picture(Protocol):
    """A module of this folder."""

    BY_NAME: bool  # whether it is made only where it is named: it shows times, or takes minutes

    def collect(self) -> dict[str, Any]:
        """Run what the picture shows."""
        ...

    def draw(self, data: Mapping[str, Any]) -> str:
        """The picture of what was collected, as SVG."""
        ...


def names() -> list[str]:
    """The pictures that there are."""
    return sorted(m.name for m in pkgutil.iter_modules([str(HERE)]) if m.name not in OTHERS)


def load(name: str) -> Picture:
    """A picture by its name."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    return cast(Picture, importlib.import_module(name))


def written(data: Mapping[str, Any]) -> str:
    """Data as JSON, a line for each name."""
    return "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in data.items()) + "\n}\n"


def put(path: Path, text: str) -> None:
    """Write a file at once, or not at all."""
    made = path.with_name(f".{path.name}.writing")
    made.write_text(text, encoding="utf-8")
    os.replace(made, path)


def make(name: str, folder: Path, redraw: bool = False) -> None:
    """Write a picture and its data into a folder."""
    picture, kept = load(name), folder / f"{name}.json"
    if not redraw:
        put(kept, written(picture.collect()))
    put(folder / f"{name}.svg", picture.draw(json.loads(kept.read_text(encoding="utf-8"))))


def main(arguments: Sequence[str]) -> int:
    """Make the pictures that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    parser.add_argument("--redraw", action="store_true", help="draw from the data in the folder; run nothing")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, metavar="DIR", help="where they go (default: docs/figures)"
    )
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(names()))
    if unknown:
        parser.error(f"the name of a picture is required: {', '.join(names())}; got {', '.join(unknown)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or [n for n in names() if given.redraw or not load(n).BY_NAME]:
        if given.redraw and not (given.folder / f"{name}.json").exists():
            parser.error(f"{name}: data in {given.folder / name}.json are required for --redraw; leave it out")
        make(name, given.folder, given.redraw)
        print(f"{name}: {given.folder / name}.svg", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
