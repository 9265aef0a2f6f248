"""Run the examples of the documents, and write what they print under them (or, with --check, compare).

In a document all `python` blocks run in order, in one name space.  A `text`, `llvm` or `asm` block right after one
holds what it prints.  `--check` compares all but `asm`, which depends on the version of LLVM.

    python3 run.py docs [--check] [DOCUMENT ...]
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nacre

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```(python|text|llvm|asm)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNCHECKED = "asm"


def examples(text: str) -> Iterator[tuple[re.Match[str], re.Match[str] | None]]:
    """The python blocks, each with the block of what it prints, if one follows at once."""
    found = list(BLOCK.finditer(text))
    for block, after in zip(found, [*found[1:], None], strict=False):
        if block[1] != "python":
            continue
        adjoins = after is not None and after[1] != "python" and not text[block.end() : after.start()].strip()
        yield block, after if adjoins else None


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
    return "".join([*parts, text[at:]])


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
