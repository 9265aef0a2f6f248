"""How Sphinx makes the site; `build.py` runs it."""

from __future__ import annotations

from typing import Any

import nacre
from public import sources, spaces

project = "Nacre"
author = "the authors of Nacre"
version = release = nacre.__version__
extensions = ["myst_parser", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Nacre {nacre.__version__}"
html_copy_source = False
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100
python_display_short_literal_types = True
viewcode_line_numbers = True


def setup(app: Any) -> None:
    """Tell where the source of a name is: names of packages are loaded late, from other modules."""
    homes = sources(spaces())

    def home(_: Any, module: str, name: str) -> str | None:
        return homes.get((module, name.partition(".")[0]))

    app.connect("viewcode-follow-imported", home)
