"""The recipes of docs/extending.md that change the package: count the files that each touches, or carry them out.

python docs/recipes.py          a table of the recipes and the files that they touch
python docs/recipes.py --run    apply each recipe to a copy of the package, and run its check there
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "extending.md"
BLOCK = re.compile(r"^```py\n# (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"(src/[\w/]+\.py)(?:, (at the end|behind: .*|in the place of: .*))?")
PREPARED = "import nacre as nc\n"


class RecipeError(Exception):
    """A block of the page does not fit the files."""


@dataclass(frozen=True)
class Edit:
    """A block of text that goes into a file: a new one, its end, or behind or in the place of a line."""

    file: str
    place: str
    text: str

    def apply(self, root: Path) -> None:
        """Change the file under a folder."""
        path = root / self.file
        if not self.place:
            if path.exists():
                raise RecipeError(f"{self.file}: a block without a place must make a new file; got one that exists")
            path.write_text(self.text, encoding="utf-8")
            return
        text = path.read_text(encoding="utf-8")
        if self.place == "at the end":
            path.write_text(f"{text}\n\n{self.text}", encoding="utf-8")
            return
        how, _, line = self.place.partition(": ")
        found = [m for m in re.finditer(rf"^{re.escape(line)}.*\n", text, re.MULTILINE)]
        if len(found) != 1:
            raise RecipeError(f"{self.file}: {line!r} must begin one line; found {len(found)}")
        at = found[0].end() if how == "behind" else found[0].start()
        path.write_text(text[:at] + self.text + text[found[0].end() :], encoding="utf-8")


@dataclass(frozen=True)
class Recipe:
    """A section of the page: its changes, and the code that shows that they work."""

    title: str
    edits: tuple[Edit, ...]
    check: str

    @property
    def files(self) -> list[str]:
        """The files that it touches, in order."""
        return list(dict.fromkeys(e.file for e in self.edits))

    def carry_out(self, folder: Path) -> None:
        """Apply the changes to a copy of the package, and run the check and the examples of what was added."""
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for edit in self.edits:
            edit.apply(folder)
        examples = "".join(re.findall(r"^ *>>> (.*\n)", "".join(e.text for e in self.edits), re.MULTILINE))
        code = PREPARED + "from nacre import nn\n" + self.check + examples
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=folder)


def recipes(text: str) -> list[Recipe]:
    """The recipes of a page, in order.  A first line says where a block goes, or `check`."""
    found: list[Recipe] = []
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, edits, check = section.splitlines()[0], list[Edit](), ""
        for first, body in BLOCK.findall(section):
            if first == "check":
                check += body
                continue
            place = PLACE.fullmatch(first)
            if place is None:
                raise RecipeError(f"{title}: the first line of a block must say where it goes; got {first!r}")
            edits.append(Edit(place[1], place[2] or "", body))
        found.append(Recipe(title, tuple(edits), check))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table, and carry the recipes out if that is asked for."""
    for recipe in recipes(PAGE.read_text(encoding="utf-8")):
        print(f"{recipe.title:<22}{len(recipe.files)}  {', '.join(recipe.files)}")
        if "--run" in arguments:
            with tempfile.TemporaryDirectory() as folder:
                recipe.carry_out(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
