"""Readability check: finds long sentences and banned phrases in pages, docstrings, comments and error messages.

python tests/readability.py [FILE …]      lists the findings; default: all pages and modules
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 35  # words in a sentence
ENDS = re.compile(r"(?<=[.!?])[)\"”]*\s+(?=[(\"“`]?[A-Z`\d])")
WORD = re.compile(r"[^\W\d_][\w’'-]*")
CODE = re.compile(r"`[^`]*`")
TABLE = re.compile(r"\S {3,}\S")  # a line in columns
GIVEN_UP = {  # and what to write instead
    r"\bgo(es)? on with\b": "continue, resume",
    r"\bgone on with\b": "resumed",
    r"\bgoes on\b": "continues",
    r"\bof one's own\b": "your own, custom",
    r"\bof (its|their|his) own making\b": "its own",
    r"\bwhat is \w+, that is\b": "one clause",
    r"\bwhat (is|was) (made|meant|wanted|held|kept|told)\b": "the noun",
    r"\bare so, but\b": "which checks were skipped",
    r"\bas (it|they) (was|were) given\b": "the original",
    r"\bis told\b": "reads, receives",
    r"\bare looked at\b": "are checked",
    r"\bis (asked|taken) for it\b": "an active verb",
    r"\bnothing but\b": "only",
    r"\bsuch that are\b": "those",
    r"\bbut for (its|the|those|a|what|one)\b": "except",
    r"\bneeds be\b": "must",
    r"\bby hand of\b": "by",
    r"\bby itself or\b": "alone or",
    r"\bwhosever\b": "whose",
    r"\bso many\b": "the number",
    r"\bthat is none\b": "invalid",
    r"\bwhat is no\b": "a value that is not",
    r"\bis no (\w+'s|file|integer|number|tensor|axis|leaf|slot|JSON)\b": "is not a",
    r"\bas good as absent\b": "ignored",
    r"\bis another matter\b": "differs",
    r"\bis handed on\b": "is passed on",
    r"\bnobody\b": "no thread, no equation, no other user",
}

PRIVATE = {  # words and phrases that are not the field's, in comments and docstrings of the packages
    r"\bendings?\b": "epilogue",
    r"\b(weav(e|es|ing)|woven)\b": "pipelined",
    r"\bbands?\b": "row panel",
    r"\bcrew\b": "thread pool, workers",
    r"\bhoist(s|ed|ing)?\b": "LICM, moves out of the loop",
    r"\bremak(e|es|ing)\b": "rematerialises",
    r"\bask(s|ed|ing)? for\b|\b(is|are) asked\b": "prefetches, requests",
    r"\bthin (kernels?|products?|blocks?|ones?)\b": "GEMV",
    r"\bwords of (several |two |some )?numbers\b": "packed groups",
    r"\bfolds? (over|of|all)\b": "reduction",
    r"\balike\b": "equal, the same",
    r"\bkept\b": "cached, prepacked, saved, unchanged",
    r"\b(is|are|was|were|be) held\b|\bheld (at|back|by|for|in)\b": "is stored, has",
    r"\b(told|tells?)\b": "reads, returns, says",
    r"\b(lies?|lay|lying|lain)\b": "is stored, is adjacent, is at",
    r"\b(stands?|stood) (at|in|behind|before|where|there|apart)\b": "is stored, is at",
    r"\bas (it|they) (lies?|stands?)\b": "in place",
    r"\blets? go of\b|\bgiv(e|es|en) back\b": "frees, returns",
    r"\bgo(es)? (along|round)\b": "iterates, is carried",
    r"\bin vain\b": "without a result",
    r"\bturns? (of )?the way\b": "control flow",
    r"\band such as\b": "and those that",
    r"\banew\b": "again",
    r"\bside by side\b": "adjacent, in parallel, interleaved",
    r"\bwhat (is|was|are|were|has|had|it|they|comes?|follows|stands|lies|goes|does)\b": "the noun",
    r"\bone of (ours|theirs)\b": "the noun",
    r"\bwhatever (it|they|happen(s|ed)|comes?)\b": "in any case",
    r"\bnumber(s)? that (is|are) none\b": "invalid",
    r"\b(some|no)body\b": "no thread, no user, another process",
}
ROOMS = tuple(sorted(p.parent.name for p in (ROOT / "src" / "nacre").glob("*/__init__.py")))


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The prose of a Markdown text with line numbers.  Skips code, tables, headings and notes."""
    held, begun, fenced = list[str](), 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
            bare = ""
        elif fenced or bare.startswith(("|", "#", "<", "!", ">>>", "...", ":::")):
            bare = ""
        starts = re.match(r"([-*+]|\d+\.)\s+|\[\^\w+\]:\s+", bare)
        if (not bare or starts or TABLE.search(bare)) and held:
            yield begun, " ".join(held)
            held = []
        if bare:
            begun = begun if held else number
            held.append(bare[starts.end() :] if starts else bare)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The prose of a module's docstrings with line numbers.  Skips examples."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            where = node.body[0].lineno
            prose = re.sub(r"(?m)^( *>>> .*(\n(?!\s*\n).*)*|    .*)$", "", text)
            for line, paragraph in paragraphs(prose):
                yield where + line - 1, paragraph


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module with line numbers; lines that follow each other are one.  Skips those for tools."""
    block, begun, last = list[str](), 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"# *(fmt|noqa|type|pyright|pragma)\b", token.string):
            continue
        line, whole = token.start[0], not token.line[: token.start[1]].strip()
        if block and not (whole and line == last + 1):
            yield begun, " ".join(block)
            block = []
        begun, last = begun if block else line, line if whole else 0
        block.append(token.string.lstrip("# "))
    if block:
        yield begun, " ".join(block)


def private(found: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The findings of PRIVATE in paragraphs, with line numbers."""
    for line, paragraph in found:
        for phrase, instead in PRIVATE.items():
            if said := re.search(phrase, CODE.sub("x", paragraph), re.IGNORECASE):
                yield line, f"“{said[0]}”: write {instead}"


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The text of errors that a module raises, with line numbers.  A value in braces counts as one word."""
    for node in ast.walk(tree):
        for part in ast.walk(node.exc) if isinstance(node, ast.Raise) and node.exc else ():
            if isinstance(part, ast.JoinedStr):
                text = "".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in part.values)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                text = part.value
            else:
                continue
            for line in text.splitlines():
                yield part.lineno, line


def faults(found: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The findings in paragraphs, with line numbers."""
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
    """All pages, and all modules of the package."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "src" / "nacre").rglob("*.py")),
    ]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences that a file shows to readers, by paragraph, with line numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from paragraphs(text)
    else:
        tree = ast.parse(text)
        yield from docstrings(tree)
        yield from messages(tree)


def room(path: Path) -> str:
    """The entry of ROOMS that a module belongs to, or an empty text."""
    name = path.relative_to(ROOT).as_posix()
    return next((r for r in ROOMS if name.startswith(f"src/nacre/{r}/")), "")


def internal(path: Path) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a module, by paragraph, with line numbers."""
    text = path.read_text(encoding="utf-8")
    yield from comments(text)
    yield from docstrings(ast.parse(text))


def check(paths: Iterable[Path]) -> list[str]:
    """The findings as `FILE:LINE: finding`."""
    found = list[str]()
    for path in paths:
        of_path = [*faults(prose(path)), *(private(internal(path)) if room(path) else ())]
        found += [f"{path.relative_to(ROOT)}:{line}: {fault}" for line, fault in of_path]
    return found


if __name__ == "__main__":
    found = check([Path(name).resolve() for name in sys.argv[1:]] or files())
    print("\n".join(found))
    sys.exit(bool(found))
