"""The recipes of docs/extending.md: each touches few files, and works in a copy of the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "docs" / "recipes.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["recipes"] = made
    spec.loader.exec_module(made)
    return made


RECIPES = load()
FOUND: dict[str, Any] = {r.title: r for r in RECIPES.recipes(RECIPES.PAGE.read_text(encoding="utf-8"))}
MOST = {  # files that a recipe may touch
    "A scalar operation": 2,
    "A fused kernel": 2,  # its own, and the line that loads it
    "An instruction set": 1,
    "A dtype": 1,
    "A public function": 1,
    "A layer": 2,
}


def test_every_recipe_has_a_limit() -> None:
    assert FOUND.keys() == MOST.keys()


@pytest.mark.parametrize("title", MOST)
def test_a_recipe_touches_few_files(title: str) -> None:
    assert len(FOUND[title].files) <= MOST[title]


@pytest.mark.parametrize("title", MOST)
def test_a_recipe_works(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path / "cache"))
    assert FOUND[title].check
    FOUND[title].carry_out(tmp_path)


def test_a_block_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\nx = 2\n")
    for place, words in (("", "must make a new file"), ("behind: x = ", "must begin one line; found 2")):
        with pytest.raises(RECIPES.RecipeError, match=words):
            RECIPES.Edit("src/a.py", place, "y = 3\n").apply(tmp_path)
    with pytest.raises(RECIPES.RecipeError, match="must say where it goes; got 'somewhere'"):
        RECIPES.recipes("### A\n\n```py\n# somewhere\nx = 1\n```\n")
