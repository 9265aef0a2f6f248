"""How Sphinx makes the site; `build.py` runs it."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

from cells import label_cells
from docutils import nodes
from public_names import sources, spaces

import nacre

BASE = os.environ.get("NACRE_SITE_SOURCE", "").rstrip("/")  # where the repository's files are shown, if anywhere
ROOT = Path(__file__).resolve().parents[2]
BACK = re.compile(
    r'(?P<before><div class="viewcode-block" id="(?P<id>[^"]+)">\n)'
    r'<a class="viewcode-back" [^>]*>.*?</a>'
)

project = "Nacre"
author = "the authors of Nacre"
project_copyright = author
version = release = nacre.__version__
extensions = ["myst_parser", "sphinx_copybutton", "sphinx.ext.linkcode" if BASE else "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 3
smartquotes_action = "qe"  # not dashes: options begin with two
html_theme = "furo"
html_title = f"Nacre {nacre.__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_theme_options = {"light_logo": "logo-light.svg", "dark_logo": "logo-dark.svg"}
html_copy_source = False
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80
python_display_short_literal_types = True
viewcode_line_numbers = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text):not(.highlight-llvm):not(.highlight-asm) > div.highlight > pre"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The address of the lines in which a name is defined."""
    module = sources(spaces()).get((info["module"], info["fullname"].partition(".")[0]))
    held: Any = importlib.import_module(module) if domain == "py" and module else None
    for word in info["fullname"].split("."):
        held = getattr(held, word, None)
    held = inspect.unwrap(getattr(held, "fget", None) or held) if held else held
    try:
        file, (lines, first) = Path(inspect.getsourcefile(held) or ""), inspect.getsourcelines(held)
    except (TypeError, OSError):
        return None
    return f"{BASE}/{file.resolve().relative_to(ROOT).as_posix()}#L{first}-L{first + len(lines) - 1}"


def follows_the_mode(picture: Path) -> bool:
    """Whether a picture has colours of its own for dark pages."""
    return picture.suffix == ".svg" and "prefers-color-scheme" in picture.read_text(encoding="utf-8")


def mark_pictures(app: Any, tree: nodes.document) -> None:
    """Put pictures that are drawn for white paper on white, in dark pages too."""
    for image in tree.findall(nodes.image):
        file = Path(app.srcdir) / image["uri"]
        shown_in_one = {"only-light", "only-dark"} & set(image["classes"])
        if file.is_file() and not shown_in_one and not follows_the_mode(file):
            image["classes"].append("on-paper")
        if file.suffix == ".svg" and file.is_file() and "monospace" in file.read_text(encoding="utf-8"):
            image["classes"].append("of-text")  # too small to read where a whole line fits a phone


def mend_dashes(_: Any, tree: nodes.document) -> None:
    """Put a dash between a parameter and its description; Sphinx writes two hyphens."""
    for text in tree.findall(lambda node: isinstance(node, nodes.Text) and str(node) == " -- "):
        text.parent.replace(text, nodes.Text(" – "))


def mend_returns(app: Any, page: str, _: str, context: dict[str, Any], __: Any) -> None:
    """Make links from a source lead back to the reference: viewcode knows one namespace for each module."""
    module = page.removeprefix("_modules/").replace("/", ".")
    known = app.env.get_domain("py").objects
    spaces_of = [(space, name) for (space, name), home in sources(spaces()).items() if home == module]

    def mend(found: re.Match[str]) -> str:
        holder = found["id"].partition(".")[0]
        full = next(
            (
                f"{space}.{found['id']}"
                for space, last in spaces_of
                if last == holder and f"{space}.{found['id']}" in known
            ),
            None,
        )
        if full is None:
            return found["before"]
        place = app.builder.get_relative_uri(page, known[full].docname)
        return f'{found["before"]}<a class="viewcode-back" href="{place}#{full}">[docs]</a>'

    if page.startswith("_modules/"):
        context["body"] = BACK.sub(mend, context["body"])


def mend_tables(_: Any, __: str, ___: str, context: dict[str, Any], ____: Any) -> None:
    """Give the cells of wide tables the headings of their columns."""
    if "body" in context:
        context["body"] = label_cells(context["body"])


def setup(app: Any) -> None:
    """Tell where the source of a name is: names of packages are loaded late, from other modules."""
    homes = sources(spaces())

    def home(_: Any, module: str, name: str) -> str | None:
        return homes.get((module, name.partition(".")[0]))

    if not BASE:
        app.connect("viewcode-follow-imported", home)
        app.connect("html-page-context", mend_returns)
    app.connect("doctree-read", mark_pictures)
    app.connect("doctree-read", mend_dashes)
    app.connect("html-page-context", mend_tables)
