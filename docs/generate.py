"""Run the examples of the documents, and write what they print under them (or, with --check, compare).

In a document all `python` blocks run in order, in one name space.  A `text`, `llvm` or `asm` block right after one
holds what it prints.  `--check` compares all but `asm`, which depends on the version of LLVM.

Between `<!-- table: NAME -->` and `<!-- end of table -->` is a table of `TABLES`, from a file of data.

    python3 run.py docs [--check] [DOCUMENT ...]
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foreign_names import LIBRARIES, table

import nacre

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```(python|text|llvm|asm)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?<=^<!-- table: )(\w+)( -->\n).*?(?=^<!-- end of table -->$)", re.MULTILINE | re.DOTALL)
UNCHECKED = "asm"
Chapters = dict[str, dict[str, dict[str, str]]]  # of operations, with a cell for each transformation


def examples(text: str) -> Iterator[tuple[re.Match[str], re.Match[str] | None]]:
    """The python blocks, each with the block of what it prints, if one follows at once."""
    found = list(BLOCK.finditer(text))
    for block, after in zip(found, [*found[1:], None], strict=False):
        if block[1] != "python":
            continue
        adjoins = after is not None and after[1] != "python" and not text[block.end() : after.start()].strip()
        yield block, after if adjoins else None


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _head(*cells: object) -> str:
    return _row(*cells) + "|---" * len(cells) + "|\n"


def _refusals(rows: dict[str, dict[str, str]]) -> Iterator[str]:
    """A line for each error that several operations have in common: the operations, and the transformations."""
    found: dict[tuple[str, ...], list[str]] = {}
    errors: dict[tuple[str, ...], str] = {}
    for name, row in rows.items():
        by_text: dict[str, list[str]] = {}
        for transformation, cell in row.items():
            if cell != "green":
                by_text.setdefault(cell.partition(": ")[2], []).append(transformation)
        for text, transformations in by_text.items():
            key = text.partition("; got ")[0], *transformations
            found.setdefault(key, []).append(f"`{name}`")
            errors.setdefault(key, text.replace("`", "").replace("|", "or"))
    for key, names in found.items():
        yield _row(", ".join(names), ", ".join(key[1:]), f"`{errors[key]}`")


def transformations() -> str:
    """The operations under each transformation, from the runs that are recorded."""
    chapters: Chapters = json.loads((ROOT / "docs" / "transformations.json").read_text(encoding="utf-8"))
    rows = {name: row for chapter in chapters.values() for name, row in chapter.items()}
    cells = [cell for row in rows.values() for cell in row.values()]
    green, red = cells.count("green"), sum(cell.startswith("red") for cell in cells)
    columns = list(next(iter(rows.values())))
    text = f"{len(rows)} operations, {len(cells)} cells: {green} green (✓), "
    text += f"{len(cells) - green - red} not defined (–), {red} red (✗).\n"
    marks = {"green": "✓", "not defined": "–"}
    for title, chapter in chapters.items():
        text += f"\n### {title}\n\n" + _head("operation", *columns)
        for name, row in chapter.items():
            text += _row(f"`{name}`", *(marks.get(cell.partition(":")[0], "✗") for cell in row.values()))
    text += "\n### Not defined\n\n" + _head("operations", "transformations", "error")
    return text + "".join(_refusals(rows))


def _errors(part: str) -> str:
    """The largest errors of functions by dtype, from the runs that are recorded."""
    recorded: dict[str, dict[str, dict[str, float]]] = json.loads(
        (ROOT / "docs" / "accuracy.json").read_text(encoding="utf-8")
    )
    rows = recorded[part]
    complete = recorded["exhaustive"] if part == "elementary" else {}
    columns = [*next(iter(rows.values())), *["all of float32"] * bool(complete)]
    text = _head("function", *columns)
    for name, errors in rows.items():
        function, comma, where = name.partition(",")
        known = (*errors.values(), *complete.get(name, {}).values())
        text += _row(f"`{function}`{comma}{where}", *(f"{e:.2f}" for e in known), *["–"] * (len(columns) - len(known)))
    return text


TABLES: dict[str, Callable[[], str]] = {
    "transformations": transformations,
    "elementary_accuracy": partial(_errors, "elementary"),
    "special_accuracy": partial(_errors, "special"),
    **{library: partial(table, library) for library in LIBRARIES},
}


def with_tables(text: str) -> str:
    """A document with the tables that it names."""
    return TABLE.sub(lambda found: f"{found[1]}{found[2]}\n{TABLES[found[1]]()}\n", text)


def run(code: str, names: dict[str, Any]) -> str:
    """What an example prints."""
    printed = io.StringIO()
    lines = code.splitlines(keepends=True)
    linecache.cache["example.py"] = len(code), None, lines, "example.py"  # native functions are read from there
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example.py", "exec"), names)
    lines = [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]
    return "".join(line + "\n" for line in lines)


def renewed(text: str, names: dict[str, Any] | None = None, keep: Sequence[str] = ()) -> str:
    """A document with what its examples print now, in a new process; blocks of the languages in `keep` stay."""
    nacre.random.seed(0)  # as it is there
    held = {} if names is None else names
    parts: list[str] = []
    at = 0
    for block, output in examples(text):
        printed = run(block[2], held)
        if output is not None and output[1] not in keep:
            parts += [text[at : output.start(2)], printed]
            at = output.end(2)
    return with_tables("".join([*parts, text[at:]]))


def difference(path: Path) -> str:
    """How a document differs from what its examples print, as a diff; empty where it is up to date."""
    text = path.read_text(encoding="utf-8")
    now = renewed(text, keep=(UNCHECKED,))
    return "\n".join(
        difflib.unified_diff(text.splitlines(), now.splitlines(), str(path.name), "printed now", lineterm="")
    )


def main(arguments: Sequence[str]) -> int:
    """Write or check the documents; 1 where a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 where a document is old")
    parser.add_argument("documents", nargs="*", default=DOCUMENTS)
    given = parser.parse_args(arguments)
    status = 0
    for name in given.documents:
        path = ROOT / name
        if given.check:
            found = difference(path)
            print(found or f"{name}: up to date")
            status |= bool(found)
        else:
            path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"{name}: written")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
