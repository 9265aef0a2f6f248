"""Every public name is documented with an example that runs; the pages of the reference say what docstrings say."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
from nacre import data, deploy, nn, optim, train

WEBSITE = Path(__file__).parents[1] / "docs" / "website"
sys.path.insert(0, str(WEBSITE))
public: Any = import_module("public")
reference: Any = import_module("reference")
build: Any = import_module("build")
sys.path.remove(str(WEBSITE))

SPACES = public.spaces()
NAMES = {name: held for space in SPACES for part in space.parts for name, held in part.objects()}
CODE = {name: held for name, held in NAMES.items() if inspect.isroutine(held) or isinstance(held, type)}
RETURNED = {name for names in public.RETURNED.values() for name in names} | {  # made by what has an example
    "nacre.deploy.Deployed", "nacre.train.Checkpoint", *(f"nacre.inspect.{name}" for name in (
        "explain.Explanation", "profile.Profile", "profile.Row", "timing.Times", "ceilings.Ceilings", "machine.Check",
        "machine.Kept"))}
MODULES = sorted({"nacre", "nacre.deploy", "nacre.inspect.plot", *(
    module for module in public.sources(SPACES).values() if module.startswith("nacre."))})
GIVEN = {"nc": nc, "nn": nn, "optim": optim, "data": data, "deploy": deploy, "train": train, "F": nn.functional}


def has_example(held: Any) -> bool:
    return ">>> " in (held.__doc__ or "")


@pytest.mark.parametrize("name", sorted(CODE))
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    held = CODE[name]
    doc = vars(held).get("__doc__") if isinstance(held, type) else held.__doc__
    assert doc and not doc.startswith(f"{held.__name__}("), f"{name} needs a docstring of its own"
    spared = name in RETURNED or (isinstance(held, type) and issubclass(held, BaseException))
    assert spared or has_example(held), f"{name} needs an example in its docstring"


@pytest.mark.parametrize("name", sorted(n for n, held in CODE.items() if isinstance(held, type)))
def test_public_methods_have_docstrings(name: str) -> None:
    lacking = [word for word, member in public.members(CODE[name]).items() if not member.__doc__]
    assert not lacking, f"{name}: {lacking} need docstrings"


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "nacre.data.arrow":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(import_module(name), extraglobs=GIVEN, optionflags=doctest.ELLIPSIS)
    assert failed == 0


# ---- the pages


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
        "Raises {py:obj}`ShapeError <nacre.ShapeError>`.")


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
    assert list(public.members(nn.Linear)) == ["forward"]
    assert "load_state_dict" in public.members(nn.Module)
    assert "forward" in public.members(nn.Conv2d)  # from an underscored class


def test_every_page_is_in_the_contents() -> None:
    listed = {page for pages in build.CONTENTS.values() for page in pages}
    assert {page.stem for page in WEBSITE.parent.glob("*.md")} <= listed


def test_every_name_has_one_place(tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in reference.written(tmp_path) if path.parent != tmp_path)
    found = re.findall(r"^::::::\{py:\w+\} (\w+).*\n:module: (\S+)$", text, re.MULTILINE)
    assert sorted(f"{module}.{last}" for last, module in found) == sorted(NAMES)


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    for needed in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(needed)
    assert build.build(tmp_path / "site") == 0
    assert (tmp_path / "site" / "reference" / "nn" / "layers.html").exists()
    source = tmp_path / "site-source"
    (source / "tutorial.md").write_text("# Wrong\n\n[A link to nothing](nowhere.md)\n")
    wrong = str(tmp_path / "wrong")
    line = [sys.executable, "-m", "sphinx", "-q", "-W", "--conf-dir", str(WEBSITE), str(source), wrong]
    told = subprocess.run(line, capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": f"{WEBSITE}:{WEBSITE.parents[1] / 'src'}", "PATH": ""})
    assert told.returncode != 0 and "nowhere.md" in told.stderr


