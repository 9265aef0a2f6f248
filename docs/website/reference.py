"""The pages of the reference, as Markdown, from signatures and docstrings.

Docstrings are plain sentences with `code` between backquotes, lists, and examples that begin with `>>>`.  A public name
between backquotes becomes a link, and so does the name of an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from notes import Notes
from public_names import METHODS, Space, is_called, is_made, is_property, members, other_names, parameters, spaces
from topics import Group, Topic, checked

import nacre

PARAMETERS = Path(__file__).resolve().parent / "parameters"
SHORT = {space.module: space.short for space in spaces()}

CODE = re.compile(r"(`[^`]+`)")
SPECIAL = re.compile(r"([\\*_\[\]<>#$|~{}])")  # what Markdown would take for something else
DOTTED = re.compile(r"`\w+(\.\w+)+(\(\))?`")
ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Memory|Extra)\b")


class Names:
    """What can be linked to: names in full, found by what docstrings write."""

    def __init__(self, all_spaces: tuple[Space, ...]) -> None:
        self.short = {space.short: space.module for space in all_spaces}
        self.known: set[str] = set()
        for part in (part for space in all_spaces for part in space.parts):
            for name, held in part.objects():
                self.known.add(name)
                self.known |= {f"{name}.{member}" for member in members(held)} if isinstance(held, type) else set()
        self.spaces = sorted(self.short.values(), key=len, reverse=True)

    def find(self, written: str, scope: str) -> str | None:
        """The full name of what stands between backquotes in the docstring of `scope`, if it is public."""
        word = written.removesuffix("()")
        if not re.fullmatch(r"[\w.]+", word):
            return None
        tried = [f"{scope}.{word}", f"{scope.rpartition('.')[0]}.{word}", f"nacre.{word}", word]
        tried += [
            f"{module}{word.removeprefix(short)}"
            for short, module in self.short.items()
            if word.startswith(f"{short}.")
        ]
        own = [f"{module}.{word}" for module in self.spaces if scope.startswith(f"{module}.")]
        return next((name for name in (*tried, *own) if name in self.known and name != scope), None)


def prose(text: str, scope: str, names: Names) -> str:
    """Sentences of a docstring as Markdown, with links."""
    return "".join(
        _linked(piece, scope, names)
        if piece.startswith("`") and len(piece) > 1
        else ERROR.sub(lambda m: _error(m[0], scope, names), SPECIAL.sub(r"\\\1", piece))
        for piece in CODE.split(text)
    )


def _linked(code: str, scope: str, names: Names) -> str:
    target = names.find(code[1:-1], scope)
    return code if target is None else f"{{py:obj}}`{code[1:-1]} <{target}>`"


def _error(word: str, scope: str, names: Names) -> str:
    target = names.find(word, scope)
    return word if target is None else f"{{py:obj}}`{word} <{target}>`"


def guide(text: str, names: Names) -> str:
    """A page of Markdown with links from public names between backquotes, outside of its blocks of code."""
    pieces = re.split(r"^(```.*?^```)$", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece
        if piece.startswith("```")
        else "".join(_linked(part, "nacre", names) if DOTTED.fullmatch(part) else part for part in CODE.split(piece))
        for piece in pieces
    )


def markdown(doc: str, scope: str, names: Names) -> str:
    """A docstring as Markdown: its examples in blocks, the rest as prose."""
    made: list[str] = []
    for block in re.split(r"\n[ \t]*\n", inspect.cleandoc(doc)):
        before, example = _divided(block)
        if before:
            made.append(prose(before, scope, names))
        if example:
            made.append(f"```pycon\n{example}\n```")
    return "\n\n".join(made)


def _divided(block: str) -> tuple[str, str]:
    """What stands before the example of a block, and the example without its margin."""
    lines = block.splitlines()
    at = next((k for k, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
    example = inspect.cleandoc("\n" + "\n".join(lines[at:])) if at < len(lines) else ""
    return "\n".join(lines[:at]), example


class _Written:
    """An annotation or a default that prints as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(held: Any, drop_first: bool = False) -> str:
    """The signature of a function or class, as it is written in the source; a class gives itself."""
    try:
        found = inspect.signature(held)
    except (TypeError, ValueError):
        return "()"
    kept = list(found.parameters.values())[int(drop_first) :]
    given = found.empty if isinstance(held, type) else _text(found.return_annotation)
    return str(found.replace(parameters=[_plain(p) for p in kept], return_annotation=given))


def _plain(p: inspect.Parameter) -> inspect.Parameter:
    default: Any = p.default
    if default is not p.empty and (is_called(default) or re.search(r"[<>]", repr(default))):
        default = _Written(getattr(default, "__name__", None) or str(default))
    return p.replace(annotation=_text(p.annotation), default=default)


def _text(annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Written(re.sub(r"(?<![\w.])bool\b", "~builtins.bool", text))  # not the dtype


def _directive(kind: str, head: str, module: str, body: str, depth: int, options: str = "") -> str:
    fence = ":" * (6 - depth)
    return f"{fence}{{py:{kind}}} {head}\n:module: {module}\n{options}\n{body}\n{fence}\n"


def _described(name: str, given: Iterable[inspect.Parameter], names: Names, notes: Notes) -> str:
    """The parameters of a function as a list: what each is for, and its default."""
    lines: list[str] = []
    for p in given:
        said = prose(notes.find(name, p.name) or "", name, names)
        default = "" if p.default is p.empty or p.kind is p.VAR_KEYWORD else f"  Default: `{_plain(p).default!r}`."
        star = {p.VAR_POSITIONAL: r"\*", p.VAR_KEYWORD: r"\*\*"}.get(p.kind, "")
        lines.append(f":param {star}{p.name}: {said}{default}")
    return "\n\n" * bool(lines) + "\n".join(lines)


def entry(name: str, held: Any, names: Names, notes: Notes) -> str:
    """What the reference says about a name."""
    module, _, last = name.rpartition(".")
    if isinstance(held, type):
        inner = "\n".join(_member(last, module, word, m, names, notes) for word, m in sorted(members(held).items()))
        kind = "exception" if issubclass(held, BaseException) else "class"
        made = is_made(name, held)
        head = last if made else last + signature(held)
        given = "" if made else _described(name, parameters(held), names, notes)
        more = _as_methods() if held is nacre.Tensor else ""
        return _directive(kind, head, module, f"{markdown(_own_doc(held), name, names)}{more}{given}\n\n{inner}", 0)
    if inspect.isroutine(held):
        doc = markdown(held.__doc__ or "", name, names) + _also(held) + _described(name, parameters(held), names, notes)
        return _directive("function", last + signature(held), module, doc, 0)
    value = f":value: {held!r}\n" if isinstance(held, int | float | tuple) else ""
    doc = _own_doc(held) if value == "" else ""
    return _directive("data", last, module, markdown(doc or "", name, names) + _also(held), 0, value)


def _also(held: Any) -> str:
    """The other names of a function or dtype, as a sentence."""
    also = other_names(held)
    return f"\n\nAlso {', '.join(f'`{_short(name)}`' for name in also)}." if also else ""


def _as_methods() -> str:
    """The functions that are methods of tensors."""
    said: list[str] = []
    for method, function in sorted(METHODS.items()):
        name = function.__name__
        said.append(
            f"{{py:obj}}`{method} <nacre.{name}>`" if method == name else f"`{method}` ({{py:obj}}`nacre.{name}`)"
        )
    return f"\n\nThese functions are methods, too, with the tensor as their first argument: {', '.join(said)}."


def _own_doc(held: Any) -> str:
    """The docstring that a class or value has itself; a data class without one has its signature as such."""
    doc = vars(held).get("__doc__") if isinstance(held, type) else getattr(held, "__doc__", None)
    return doc or ""


def _member(holder: str, module: str, word: str, member: Any, names: Names, notes: Notes) -> str:
    doc = markdown(getattr(member, "__doc__", None) or "", f"{module}.{holder}", names)
    if is_property(member):
        return _directive("property", f"{holder}.{word}", module, doc, 1)
    plain: Callable[..., Any] = getattr(member, "__func__", member)
    kind = "staticmethod" if isinstance(member, staticmethod) else "method"
    doc += _described(f"{module}.{holder}.{word}", parameters(member, kind == "method"), names, notes)
    options = ":classmethod:\n" if isinstance(member, classmethod) else ""
    head = f"{holder}.{word}{signature(plain, kind == 'method')}"
    return _directive(kind, head, module, doc, 1, options)


def page(topic: Topic, names: Names, notes: Notes) -> str:
    """The page of a topic: a table of its names, and each in full."""
    part = topic.part()
    rows = "\n".join(
        f"| {{py:obj}}`{_short(name)} <{name}>` | {_summary(name, held, names)} |" for name, held in part.objects()
    )
    entries = "\n".join(entry(name, held, names, notes) for name, held in part.objects())
    return f"# {part.title}\n\n{part.introduction}\n\n| Name | Purpose |\n|---|---|\n{rows}\n\n{entries}"


def _short(name: str) -> str:
    """A name as examples write it."""
    space = max((s for s in SHORT if name.startswith(f"{s}.")), key=len)
    return SHORT[space] + name.removeprefix(space)


def _summary(name: str, held: Any, names: Names) -> str:
    """The first sentence about a name, or its value."""
    plain = isinstance(held, int | float | tuple | type(None))
    said = f"`{held!r}`" if plain else prose(_sentence(_own_doc(held)), name, names)
    return said.replace("\n", " ").replace("|", "\\|") if plain else said


def _sentence(doc: str) -> str:
    """The first sentence of a docstring, in one line."""
    line = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split("\n>>>")[0].split())
    return re.split(r"(?<=[.!?])  ?(?=[A-Z`])", line)[0]


def written(into: Path) -> Iterator[Path]:
    """Write all pages of the reference into a folder; gives their paths."""
    names = Names(spaces())
    notes = Notes(PARAMETERS)
    groups = checked()
    texts = {"index.md": _index(groups)}
    texts |= {f"{topic.stem}.md": page(topic, names, notes) for group in groups for topic in group.topics}
    into.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (into / name).write_text(text, encoding="utf-8")
        yield into / name


def _index(groups: tuple[Group, ...]) -> str:
    said = (
        "# Reference\n\nAll public names by topic, from their docstrings.  Every example runs in the tests.  "
        "The {ref}`index of names <genindex>` lists them from A to Z.\n"
    )
    for group in groups:
        rows = "\n".join(f"- [{topic.title}]({topic.stem}.md): {topic.introduction}" for topic in group.topics)
        tree = "\n".join(topic.stem for topic in group.topics)
        said += f"\n## {group.title}\n\n{rows}\n\n```{{toctree}}\n:hidden:\n:caption: {group.title}\n\n{tree}\n```\n"
    return said
