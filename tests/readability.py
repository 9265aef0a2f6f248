"""Sentences of the documents and docstrings that are too long, or use turns of phrase that the project has given up.

    python tests/readability.py [FILE …]      lists them, of all documents and docstrings by default
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 35  # words in a sentence
ENDS = re.compile(r"(?<=[.!?])[)\"”]*\s+(?=[(\"“`]?[A-Z`\d])")
WORD = re.compile(r"[^\W\d_][\w’'-]*")
CODE = re.compile(r"`[^`]*`")
GIVEN_UP = {  # and what to write
    r"\bgo(es)? on with\b": "continue, resume",
    r"\bgone on with\b": "resumed",
    r"\bgoes on\b": "continues",
    r"\bof one's own\b": "your own, custom",
    r"\bof (its|their|his) own making\b": "its own",
    r"\bwhat is \w+, that is\b": "one clause",
    r"\bare so, but\b": "say which checks were skipped",
    r"\bas (it|they) (was|were) given\b": "the original",
    r"\bis told\b": "reads, receives",
    r"\bnothing but\b": "only",
    r"\bsuch that are\b": "those",
    r"\bbut for (its|the|those|a|what)\b": "except",
    r"\bneeds be\b": "must",
    r"\bby hand of\b": "by",
    r"\bwhosever\b": "whose",
}


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The prose of a Markdown text, by the line where each paragraph begins: no code, tables, headings or notes."""
    held, begun, fenced = list[str](), 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
            bare = ""
        elif fenced or bare.startswith(("|", "#", "<", "!", ">>>", "...", ":::")):
            bare = ""
        starts = re.match(r"([-*+]|\d+\.)\s+|\[\^\w+\]:\s+", bare)
        if (not bare or starts) and held:
            yield begun, " ".join(held)
            held = []
        if bare:
            begun = begun if held else number
            held.append(bare[starts.end():] if starts else bare)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The prose of a module's docstrings, by line; examples are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            where = node.body[0].lineno
            prose = re.sub(r"(?m)^( *>>> .*(\n(?!\s*\n).*)*|    .*)$", "", text)
            for line, paragraph in paragraphs(prose):
                yield where + line - 1, paragraph


def faults(found: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Where sentences are too long or use what is given up, and what is wrong."""
    for line, paragraph in found:
        prose = re.sub(r"\]\([^)]*\)", "]", paragraph)
        for sentence in ENDS.split(prose):
            count = len(WORD.findall(CODE.sub("x", sentence)))
            if count > MOST:
                yield line, f"{count} words: {sentence[:90]}…"
        for phrase, instead in GIVEN_UP.items():
            if said := re.search(phrase, CODE.sub("x", prose), re.IGNORECASE):
                yield line, f"“{said[0]}”: write {instead}"


def files() -> list[Path]:
    """All documents, and all modules of the package."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")),
            *sorted((ROOT / "src" / "nacre").rglob("*.py"))]


def check(paths: Iterable[Path]) -> list[str]:
    """What is wrong, as FILE:LINE: fault."""
    return [f"{path.relative_to(ROOT)}:{line}: {fault}" for path in paths
            for line, fault in faults(docstrings(path) if path.suffix == ".py" else
                                      paragraphs(path.read_text(encoding="utf-8")))]


if __name__ == "__main__":
    found = check([Path(name).resolve() for name in sys.argv[1:]] or files())
    print("\n".join(found))
    sys.exit(bool(found))
