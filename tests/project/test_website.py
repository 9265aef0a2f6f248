"""The site: its contents, its reference by topic, the checker of its links, and its pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from nacre import nn
from surface import NAMES

WEBSITE = Path(__file__).parents[2] / "docs" / "website"
sys.path.insert(0, str(WEBSITE))
public: Any = import_module("public_names")
reference: Any = import_module("reference")
build: Any = import_module("build")
pages: Any = import_module("pages")
links: Any = import_module("links")
notes: Any = import_module("notes")
topics: Any = import_module("topics")
screenshots: Any = import_module("screenshots")
cells: Any = import_module("cells")
sys.path.remove(str(WEBSITE))

SPACES = public.spaces()


# ---- what docstrings become


@pytest.fixture(scope="module")
def names() -> Any:
    return reference.Names(SPACES)


@pytest.mark.parametrize(
    ("written", "scope", "full"),
    [
        ("nn.Linear", "nacre.sum", "nacre.nn.Linear"),
        ("Linear", "nacre.nn.Bilinear", "nacre.nn.Linear"),
        ("nc.jit", "nacre.grad", "nacre.jit"),
        ("item()", "nacre.Tensor", "nacre.Tensor.item"),
        ("functional.relu", "nacre.nn.ReLU", "nacre.nn.functional.relu"),
        ("random.normal", "nacre.sum", "nacre.random.normal"),
        ("x + 1", "nacre.sum", None),
        ("axis", "nacre.sum", None),
        ("sum", "nacre.sum", None),  # no page links to itself
    ],
)
def test_what_docstrings_name_is_found(names: Any, written: str, scope: str, full: str | None) -> None:
    assert names.find(written, scope) == full


def test_prose_says_what_the_docstring_says(names: Any) -> None:
    assert reference.prose("a * b_c [N] <x> `a*b`", "nacre.sum", names) == r"a \* b\_c \[N\] \<x\> `a*b`"
    assert reference.prose("Raises ShapeError.", "nacre.sum", names) == (
        "Raises {py:obj}`ShapeError <nacre.ShapeError>`."
    )


def test_examples_become_blocks(names: Any) -> None:
    made = reference.markdown("One.\n\n    Two.\n    >>> f(1)\n    2\n\n    Three.", "nacre.sum", names)
    assert made == "One.\n\nTwo.\n\n```pycon\n>>> f(1)\n2\n```\n\nThree."


def test_guides_link_outside_of_their_code(names: Any) -> None:
    made = reference.guide("See `nc.jit`, `x.y`.\n\n```python\n`nc.jit`\n```\n", names)
    assert made == "See {py:obj}`nc.jit <nacre.jit>`, `x.y`.\n\n```python\n`nc.jit`\n```\n"


def test_signatures_are_as_written() -> None:
    def f(x: int, /, y: bool = True, *rest: Any, g: Any = len) -> list[int]:
        return [x, y, *rest, g]

    assert reference.signature(f) == "(x: int, /, y: ~builtins.bool = True, *rest: Any, g: Any = len) -> list[int]"
    assert reference.signature(nn.Flatten) == "(start_dim: int = 1, end_dim: int = -1)"


def test_members_leave_out_what_public_bases_have() -> None:
    assert list(public.members(nn.Linear)) == ["reset_parameters", "forward"]
    assert {"load_state_dict", "register_forward_hook"} <= public.members(nn.Module).keys()
    assert "forward" in public.members(nn.Conv2d)  # from an underscored class


def test_refusals_are_no_methods() -> None:
    members = public.members(NAMES["nacre.Tensor"])
    assert "sum" in members and "add_" not in members
    assert public.is_property(public.members(NAMES["nacre.Graph"])["closed"])


# ---- the contents


def test_every_document_is_in_the_contents() -> None:
    assert pages.unlisted() == [], "add each to a list of docs/website/pages.py"
    names = [page.name for page in pages.listed()]
    assert len(names) == len(set(names))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository instead of this one."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, value in {"ROOT": tmp_path, "DOCS": docs}.items():
        monkeypatch.setattr(pages, name, value)
    (tmp_path / "README.md").write_text("# Nacre\n")
    return tmp_path


def test_a_document_in_no_list_is_named(repository: Path) -> None:
    (repository / "docs" / "stray.md").write_text("# Stray\n")
    with pytest.raises(pages.PageError, match=r"stray\.md.*pages\.py"):
        list(pages.stage(repository / "into"))


def test_absent_pages_and_empty_captions_are_left_out(repository: Path) -> None:
    (repository / "docs" / "faq.md").write_text("# FAQ\n")
    assert {caption: [page.name for page in held] for caption, held in pages.present().items()} == {"Help": ["faq"]}
    assert "FAQ and troubleshooting <faq>" in pages.trees()


def test_links_fit_the_site(repository: Path) -> None:
    for name in ("docs/saving.md", "CHANGELOG.md", "LICENSE", "docs/figures/a.svg"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("")
    readme = pages.Links(repository / "README.md")
    assert readme.ready("[Save](docs/saving.md#files), [`x`](CHANGELOG.md)") == (
        "[Save](saving.md#files), [`x`](changelog.md)"
    )
    assert readme.ready("![a](docs/figures/a.svg) [one](https://a.b/c) [two](#here)") == (
        "![a](figures/a.svg) [one](https://a.b/c) [two](#here)"
    )
    assert readme.ready("[the licence](LICENSE)") == "the licence"  # the site does not have it
    assert pages.Links(repository / "README.md", "https://a.b/").ready("[x](LICENSE)") == "[x](https://a.b/LICENSE)"
    assert readme.ready("[x](nowhere.md)") == "[x](nowhere.md)"  # the strict build reports it
    assert readme.ready("`[x](LICENSE)`\n\n```text\n[x](LICENSE)\n```\n") == (
        "`[x](LICENSE)`\n\n```text\n[x](LICENSE)\n```\n"
    )
    assert pages.Links(repository / "docs" / "saving.md").ready("[x](../CHANGELOG.md)") == "[x](changelog.md)"


def test_pictures_of_two_modes_become_two_images(repository: Path) -> None:
    (repository / "docs" / "figures").mkdir()
    for name in ("dark", "light"):
        (repository / "docs" / "figures" / f"{name}.svg").write_text("")
    made = pages.Links(repository / "README.md").ready(
        '<p align="center">\n<picture>\n<source media="(prefers-color-scheme: dark)" srcset="docs/figures/dark.svg">\n'
        '<img src="docs/figures/light.svg" alt="A picture" width="9">\n</picture>\n</p>\n'
    )
    assert made.strip() == (
        "```{image} figures/light.svg\n:alt: A picture\n:class: only-light\n```\n\n"
        "```{image} figures/dark.svg\n:alt: A picture\n:class: only-dark\n```"
    )


# ---- the reference by topic


def test_every_public_name_stands_in_one_topic() -> None:
    topics.checked()


def test_a_name_without_a_topic_is_named() -> None:
    topic = topics.Topic("one", "One", "", {"nacre": "sum mean sum"})
    with pytest.raises(
        topics.TopicError,
        match=(r"topics\.py.*nacre\.max: in no topic; nacre\.sum: in several topics; nacre\.mean: not public"),
    ):
        topics.check(["nacre.sum", "nacre.max"], [topic])


def test_every_name_has_one_place(tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in reference.written(tmp_path))
    found = re.findall(r"^::::::\{py:\w+\} (\w+).*\n:module: (\S+)$", text, re.MULTILINE)
    assert sorted(f"{module}.{last}" for last, module in found) == sorted(NAMES)


# ---- parameters


def test_every_public_parameter_is_described_once() -> None:
    held = notes.Notes(reference.PARAMETERS)
    lacking = [
        f"{name}({p.name})" for name, _, given in public.callables(SPACES) for p in given if not held.find(name, p.name)
    ]
    assert not lacking, f"describe them in docs/website/parameters/: {', '.join(lacking)}"
    assert not held.unused(), "no public function has these parameters; remove them from docs/website/parameters/"


def test_the_closest_section_describes_a_parameter(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '["*"]\nx = "any"\ny = "any"\n["nacre.nn.* nacre.sum"]\nx = "some"\n'
        '["nacre.nn.Conv*"]\nx = "few"\n["nacre.sum"]\nx = "one"\n'
    )
    held = notes.Notes(tmp_path)
    found = [held.find(name, "x") for name in ("nacre.max", "nacre.nn.Linear", "nacre.nn.Conv1d", "nacre.sum")]
    assert found == ["any", "some", "few", "one"] and held.find("nacre.nn.Conv1d", "y") == "any"
    assert held.find("nacre.sum", "z") is None and held.unused() == []


def test_parameters_are_listed_with_defaults() -> None:
    names = reference.Names(SPACES)
    text = reference.entry("nacre.eye", NAMES["nacre.eye"], names, notes.Notes(reference.PARAMETERS))
    assert ":param k: The diagonal: 0 is the main one, positive numbers lie above it.  Default: `0`." in text
    text = reference.entry(
        "nacre.optim.Schedule", NAMES["nacre.optim.Schedule"], names, notes.Notes(reference.PARAMETERS)
    )
    assert ":param optimizer:" in text and ":param epoch:" in text and ":param self:" not in text


# ---- the checker of links


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="b.html#here">b</a>', None),
        ('<a href="https://a.b/nowhere">away</a>', None),
        ('<img src="a.svg" alt="">', None),
        ('<a href="c.html">c</a>', "a.html:1: c.html is not there"),
        ('<p>\n<a href="b.html#there">b</a>', "a.html:2: b.html#there: no such anchor"),
        ('<a href="#there">here</a>', "a.html:1: #there: no such anchor"),
        ('<img src="b.svg" alt="">', "a.html:1: b.svg is not there"),
        ('<img src="a.svg">', "a.html:1: an image without a text for readers who do not see it"),
        ('<a href="../other/a.html">out</a>', "a.html:1: ../other/a.html leads out of the site"),
    ],
)
def test_links_anchors_and_images_are_checked(tmp_path: Path, html: str, fault: str | None) -> None:
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.svg").write_text("<svg/>")
    assert links.check(tmp_path) == ([] if fault is None else [fault])


# ---- pictures of the site


def test_a_browser_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(screenshots.shutil, "which", lambda _: None)
    monkeypatch.setattr(screenshots.util, "find_spec", lambda _: None)
    monkeypatch.delenv("NACRE_BROWSER", raising=False)
    assert build.main(["--screenshots", "folder"]) == 1
    assert "apt-get install chromium" in capsys.readouterr().err
    monkeypatch.setenv("NACRE_BROWSER", "absent")
    with pytest.raises(screenshots.BrowserError, match="'absent'"):
        screenshots.find_browser()


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(pages.PageError, match="other files"):
        build.empty(tmp_path)
    (tmp_path / "objects.inv").write_text("")
    build.empty(tmp_path)
    assert not tmp_path.exists()


# ---- the whole


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    for needed in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(needed)
    assert build.build(tmp_path / "site") == 0
    assert (tmp_path / "site" / "reference" / "linear_layers.html").exists()
    source = tmp_path / "site-source"
    (source / "tutorial.md").write_text("# Wrong\n\n[A link to nothing](nowhere.md)\n")
    wrong = str(tmp_path / "wrong")
    line = [sys.executable, "-m", "sphinx", "-q", "-W", "--conf-dir", str(WEBSITE), str(source), wrong]
    told = subprocess.run(
        line,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{WEBSITE}:{WEBSITE.parents[1] / 'src'}", "PATH": ""},
    )
    assert told.returncode != 0 and "nowhere.md" in told.stderr


# ---- tables on narrow screens


def table(*heads: str, row: str = "<td>1</td><td>2</td><td>3</td>") -> str:
    head = "".join(f'<th class="head"><p>{text}</p></th>' for text in heads)
    return f'<table class="docutils align-default"><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>'


def test_cells_of_wide_tables_have_the_headings_of_their_columns() -> None:
    made = cells.label_cells(table("", "<code>a</code> &amp; b", 'say "c"'))
    assert made.startswith('<table class="docutils align-default stacked">')
    assert '<td data-label="">1</td><td data-label="a &amp; b">2</td><td data-label="say &quot;c&quot;">3</td>' in made
    assert "<th data-label" not in made


@pytest.mark.parametrize(
    "body",
    [
        "<p>no table</p>",
        table("a", "b", row="<td>1</td><td>2</td>"),
        table("a", "b", "c", row='<td colspan="2">1</td><td>3</td>'),
        '<table class="docutils"><tbody><tr><td>1</td><td>2</td><td>3</td></tr></tbody></table>',
    ],
)
def test_other_tables_stay_as_they_are(body: str) -> None:
    assert cells.label_cells(body) == body
