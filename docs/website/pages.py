"""The pages of the site in order, with short titles, and their texts made ready for Sphinx."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"(^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"(?:<p[^>]*>\s*)?<picture>(?P<inside>.*?)</picture>(?:\s*</p>)?", re.DOTALL)
IMAGE = re.compile(r"(?:<p[^>]*>\s*)?(?P<inside><img\b[^>]*>)(?:\s*</p>)?", re.DOTALL)


class PageError(Exception):
    """A page that is in no list, or a file that a page shows and that is absent."""


@dataclass(frozen=True)
class Page:
    """A page: its name on the site, its title in the contents, and its file in the repository."""

    name: str
    title: str
    file: str = ""

    @property
    def source(self) -> Path:
        """The file that it is made from."""
        return ROOT / (self.file or f"docs/{self.name}.md")


CONTENTS: dict[str, tuple[Page, ...]] = {
    "Getting started": (
        Page("install", "Install"),
        Page("quickstart", "Quick start"),
        Page("tutorial", "Tutorial"),
        Page("gallery", "Examples"),
    ),
    "Coming from": (
        Page("from_pytorch", "PyTorch"),
        Page("from_jax", "JAX"),
        Page("from_numpy", "NumPy"),
    ),
    "How-to guides": (
        Page("saving", "Saving"),
        Page("data", "Data"),
        Page("training", "Training"),
        Page("mixed_precision", "Mixed precision"),
        Page("transforms", "Transforms"),
        Page("transform_examples", "Transforms at work"),
        Page("optimize", "Solve and minimise"),
        Page("graphs", "Graphs"),
        Page("dynamic_shapes", "Dynamic shapes"),
        Page("special", "Special functions"),
        Page("deploy", "Deployment"),
        Page("profiling", "Profiling"),
        Page("doctor", "Numerics doctor"),
        Page("kernels", "Kernels in Python"),
        Page("extending", "Extending"),
        Page("cli", "Command line"),
    ),
    "Concepts": (
        Page("architecture", "Architecture"),
        Page("native_python", "Native Python"),
        Page("numerics", "Numerics"),
        Page("special_points", "Special points"),
        Page("transformations", "Every operation"),
        Page("conformance", "Conformance"),
        Page("performance", "Performance"),
        Page("security", "Security"),
    ),
    "Help": (
        Page("faq", "FAQ and troubleshooting"),
        Page("status", "Status and limits"),
    ),
    "Project": (
        Page("changelog", "Changelog", "CHANGELOG.md"),
        Page("contributing", "Contributing", "CONTRIBUTING.md"),
    ),
}
REFERENCE = "reference/index"


def listed() -> list[Page]:
    """All pages of the contents, in order."""
    return [page for pages in CONTENTS.values() for page in pages]


def unlisted() -> list[str]:
    """The documents that stand in no list of the contents."""
    known = {page.source for page in listed()}
    return sorted(path.name for path in DOCS.glob("*.md") if path not in known)


def present() -> dict[str, list[Page]]:
    """The contents, without the pages whose file is absent and the captions that are then empty."""
    found = {caption: [page for page in pages if page.source.exists()] for caption, pages in CONTENTS.items()}
    return {caption: pages for caption, pages in found.items() if pages}


def trees() -> str:
    """The contents as Sphinx wants them, for the front page."""
    made = [_tree(caption, (f"{page.title} <{page.name}>" for page in pages)) for caption, pages in present().items()]
    return "\n".join([*made, _tree("Reference", (f"All public names <{REFERENCE}>",))])


def _tree(caption: str, lines: Iterator[str] | tuple[str, ...]) -> str:
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(lines) + "\n```\n"


class Links:
    """Makes the links and pictures of a file of the repository fit the site."""

    def __init__(self, file: Path, base: str = "") -> None:
        self.file = file
        self.base = base.rstrip("/")
        self.names = {page.source: page.name for page in listed() if page.source.exists()}
        self.names[ROOT / "README.md"] = "index"

    def ready(self, text: str) -> str:
        """The text with links to pages of the site, and pictures as Sphinx shows them."""
        text = IMAGE.sub(self._picture, PICTURE.sub(self._picture, text))
        held: list[str] = []

        def away(found: re.Match[str]) -> str:
            held.append(found[0])
            return f"\0{len(held) - 1}\0"

        linked = LINK.sub(self._link, CODE.sub(away, text))  # code within the text of a link stays where it is
        return re.sub(r"\0(\d+)\0", lambda found: held[int(found[1])], linked)

    def _link(self, found: re.Match[str]) -> str:
        place = self.place(found["target"])
        return found["text"][1:-1] if place is None else f"{found['text']}({place})"

    def place(self, target: str) -> str | None:
        """Where a link leads on the site; None where the site does not have what it names."""
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"\w+:", target):
            return target
        file = (self.file.parent / path).resolve()
        if file in self.names:
            return f"{self.names[file]}.md{mark}{anchor}"
        if file.is_relative_to(DOCS) and file.suffix not in ("", ".md", ".py"):
            return file.relative_to(DOCS).as_posix()
        if not file.exists() or not file.is_relative_to(ROOT):
            return target  # Sphinx reports it
        return f"{self.base}/{file.relative_to(ROOT).as_posix()}" if self.base else None

    def _picture(self, found: re.Match[str]) -> str:
        """An HTML picture as an image of Sphinx; one with a dark source becomes two, of which the mode shows one."""
        inside = found["inside"]
        image = re.search(r'<img\b[^>]*\bsrc="([^"]+)"', inside)
        if image is None:
            raise PageError(f"{self.file.name}: a picture without an image: {inside.strip()[:60]}")
        alt = re.search(r'<img\b[^>]*\balt="([^"]*)"', inside)
        sources = re.findall(r"<source\b[^>]*>", inside)
        dark = [file[1] for line in sources if "dark" in line and (file := re.search(r'srcset="([^"]+)"', line))]
        kinds = {"only-light": image[1], "only-dark": dark[0]} if dark else {"": image[1]}
        return (
            "\n\n"
            + "\n\n".join(_image(self.place(path) or path, alt[1] if alt else "", kind) for kind, path in kinds.items())
            + "\n\n"
        )


def _image(path: str, alt: str, kind: str) -> str:
    options = f":alt: {alt}\n" * bool(alt) + f":class: {kind}\n" * bool(kind)
    return f"```{{image}} {path}\n{options}```"


def stage(into: Path, base: str = "") -> Iterator[tuple[str, str]]:
    """The name and text of each page, the front page first; copies what they show into a folder."""
    if found := unlisted():
        raise PageError(f"{', '.join(found)}: in docs/, and in no list of docs/website/pages.py; add each to one")
    for folder in sorted(path for path in DOCS.iterdir() if path.is_dir() and path.name not in ("website",)):
        shutil.copytree(folder, into / folder.name, ignore=shutil.ignore_patterns("__pycache__", "*.py", "*.md"))
    readme = ROOT / "README.md"
    yield "index", Links(readme, base).ready(readme.read_text(encoding="utf-8")) + "\n" + trees()
    for page in (page for pages in present().values() for page in pages):
        yield page.name, Links(page.source, base).ready(page.source.read_text(encoding="utf-8"))
