"""The tables of other libraries' names in the pages "Coming from ...": what each name is in Nacre.

`docs/names` has the names that users write, and where the meanings differ.  All else comes from Nacre: a name that is
public there, or the advice that the error about a missing name gives.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import nacre
from nacre.base import hints

FOLDER = Path(__file__).parent / "names"
LIBRARIES = {"numpy": "NumPy", "pytorch": "PyTorch", "jax": "JAX"}
BETWEEN = re.compile(r"(; | and the |, or |, and |, with |, which |, in | and | or | for | of | as | after |, )")
SHORT = (("nacre.nn.", "nn."), ("nacre.optim", "optim"), ("nacre.data", "data"), ("nacre.", "nc."))
SAME = "the same"


class UnknownName(Exception):
    """A name of `docs/names` without a meaning."""


class Part(NamedTuple):
    """Some names of one of a library's modules: where they are looked up, how they are written, and what differs."""

    title: str
    place: str
    call: str
    names: tuple[str, ...]
    differs: dict[str, str]

    def meaning(self, name: str) -> str:
        """What to write for a name, in the page's marks; `SAME` alone where the name means the same."""
        if name in self.differs:
            return self.differs[name]
        if name in public(self.place):
            return SAME
        found = hints.PLACES[self.place].get(name, "") if self.place in hints.PLACES else ""
        if self.place == "Tensor":
            found = found or absent().get(name, "") or hints.PLACES["nacre"].get(name, "")
        if found:
            return marked(found)
        for home in hints.ELSEWHERE:
            if name in public(home):
                return marked(f"{home}.{name}")
        raise UnknownName(f"{self.call.format(name)} must have a meaning in docs/names or base/porting; got none")


def parts(library: str) -> list[Part]:
    """The parts of a library, from its file."""
    read = tomllib.loads((FOLDER / f"{library}.toml").read_text(encoding="utf-8"))
    found: list[Part] = []
    for part in read["part"]:
        differs = {name: text for names, text in part.get("differs", {}).items() for name in names.split()}
        names = tuple(part["names"].split())
        if lost := [*(differs.keys() - set(names)), *(n for n in names if names.count(n) > 1)]:
            raise UnknownName(f"{library}, {part['call']}: names once, and differences of names; got {lost}")
        found.append(Part(part.get("title", ""), part["place"], part["call"], names, differs))
    return found


@cache
def public(place: str) -> set[str]:
    """The public names of a place."""
    if place == "Tensor":
        return set(dir(nacre.Tensor))
    module = import_module("nacre")
    for word in place.split(".")[1:]:
        module = getattr(module, word)
    return set(dir(module))


@cache
def absent() -> dict[str, str]:
    """The methods that tensors lack, and what their errors say."""
    held = {n: found for cls in nacre.Tensor.__mro__ for n, found in vars(cls).items()}
    known = {n: found.known for n, found in held.items() if isinstance(found, hints.Absent)}
    return {n: re.sub(r"^(; write |\. )", "", text) for n, text in known.items()}


def marked(text: str) -> str:
    """Advice as the text of a page: code between backticks, with the short names of Nacre's modules."""
    for long, short in SHORT:
        text = re.sub(rf"{re.escape(long)}(?!\S+ import )", short, text)
    if "`" in text or _is_code(text):
        return text if "`" in text else f"`{text}`"
    return "".join(f"`{p}`" if _is_code(p) else _with_calls(p) for p in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text, divided at words outside of brackets."""
    begin = 0
    for found in BETWEEN.finditer(text):
        before = text[: found.start()]
        if all(before.count(a) <= before.count(b) for a, b in ("()", "[]", "{}")) and found.start() >= begin:
            yield text[begin : found.start()]
            yield found[0]
            begin = found.end()
    yield text[begin:]


def _is_code(text: str) -> bool:
    """Whether a piece of text is an expression or an assignment, and no word."""
    if not re.search(r"[.(\[=*]|^x$| // | % ", text) or text[:1].isupper() or text.endswith("."):
        return False
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    whole = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.BoolOp | ast.Tuple)
    return whole or isinstance(statement, ast.Assign)


def _with_calls(text: str) -> str:
    """Words, with the dotted names among them as code."""
    return re.sub(r"(?<!\w)(?:nc|nn|optim|data|x|itertools|math)\.\w[\w.]*(?:\([^()]*\))?", lambda m: f"`{m[0]}`", text)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def table(library: str) -> str:
    """All names of a library, a table for each part: the names of the same meaning first."""
    text = ""
    for part in parts(library):
        if part.title:
            text += ("\n" if text else "") + f"### {part.title}\n"
        rows: dict[str, list[str]] = {SAME: []}
        for name in part.names:
            rows.setdefault(part.meaning(name), []).append(name)
        text += f"\n| {LIBRARIES[library]} | Nacre |\n|---|---|\n"
        for meaning, names in rows.items():
            written = ", ".join(f"`{part.call.format(name)}`" for name in names)
            text += f"| {written} | {_cell(meaning)} |\n" if names else ""
    return text
