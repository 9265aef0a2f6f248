"""The documents' pictures: drawn from the data beside them, for light and dark, shown somewhere, and still true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as tree

import pytest

from project.test_docs import ROOT, load  # type: ignore[import-not-found]

FIGURES = ROOT / "docs" / "figures"
MAKE = load(ROOT / "docs" / "pictures" / "make.py")
PICTURES = sorted(FIGURES.glob("*.svg"))
SPACE = "{http://www.w3.org/2000/svg}"


def data(name: str) -> dict[str, Any]:
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MAKE.names())
def test_a_picture_is_drawn_from_the_data_beside_it(name: str) -> None:
    drawn = MAKE.load(name).draw(data(name))
    assert drawn == (FIGURES / f"{name}.svg").read_text(encoding="utf-8"), f"run.py figures --redraw {name}"


@pytest.mark.parametrize("name", MAKE.names())
def test_what_is_drawn_lies_inside_and_is_named(name: str) -> None:
    root = tree.parse(FIGURES / f"{name}.svg").getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.findtext(f"{SPACE}title") and width <= 600
    for text in root.iter(f"{SPACE}text"):
        size = float(text.attrib.get("font-size", 13))
        x, y, long = float(text.attrib["x"]), float(text.attrib["y"]), 0.5 * size * len(text.text or "")
        left = x - {"start": 0.0, "middle": long / 2, "end": long}[text.attrib.get("text-anchor", "start")]
        assert 0 <= y <= height, text.text
        assert "transform" in text.attrib or (left >= 0 and left + long <= width), text.text


@pytest.mark.parametrize("path", PICTURES, ids=lambda p: p.stem)
def test_a_picture_is_for_light_and_dark(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree.fromstring(text)
    assert "prefers-color-scheme" in text and "http://" not in text.replace("http://www.w3.org/", "")


@pytest.mark.parametrize("name", MAKE.names())
def test_a_picture_is_shown_in_a_page_with_words_for_those_who_do_not_see_it(name: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert re.search(rf"!\[[^\]]{{10,}}\]\(figures/{name}\.svg\)", pages)


def test_times_are_those_of_a_machine_that_is_named() -> None:
    for name in ("roofline", "time_against_size"):
        assert data(name)["machine"]["processor"] in (FIGURES / f"{name}.svg").read_text(encoding="utf-8")


def test_the_decision_boundary_is_that_of_the_tutorial() -> None:
    assert MAKE.written(MAKE.load("spirals").collect()) == (FIGURES / "spirals.json").read_text(encoding="utf-8")


def test_the_stages_of_a_line_are_those_of_today() -> None:
    def above(found: dict[str, Any]) -> list[Any]:  # LLVM decides about the assembly
        return found["stages"][:-1]

    assert above(MAKE.load("pipeline").collect()) == above(data("pipeline"))


def test_the_memory_plan_reuses_places_and_overlaps_nowhere() -> None:
    plan = data("memory_plan")
    assert plan["arena"] < plan["temporaries"]
    for k, a in enumerate(plan["placed"]):
        assert a["offset"] >= 0 and a["offset"] + a["bytes"] <= plan["arena"] and a["first"] <= a["last"]
        for b in plan["placed"][:k]:
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            assert apart or a["last"] < b["first"] or b["last"] < a["first"], (a, b)


@pytest.mark.slow
def test_the_digits_are_those_of_today() -> None:
    for name in ("loss_curves", "digits_filters"):
        assert MAKE.written(MAKE.load(name).collect()) == (FIGURES / f"{name}.json").read_text(encoding="utf-8")


def test_the_gallery_shows_the_text_that_the_gpt_wrote() -> None:
    found = data("chargpt")
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = page.partition("one character at a time:\n\n```text\n")[2].partition("\n```")[0]
    assert len(shown) > 100 and found["text"].startswith(shown)
    assert found["validation_loss"] == found["valid_loss"][-1] < found["trigram_loss"]


def test_the_command_makes_redraws_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAKE.main(["pipeline", "--folder", str(tmp_path)]) == 0
    made = (tmp_path / "pipeline.svg").read_text(encoding="utf-8")
    (tmp_path / "pipeline.svg").write_text("old", encoding="utf-8")
    assert MAKE.main(["pipeline", "--redraw", "--folder", str(tmp_path)]) == 0
    assert (tmp_path / "pipeline.svg").read_text(encoding="utf-8") == made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipeline.json", "pipeline.svg"]
    for words in (["absent"], ["spirals", "--redraw"]):
        with pytest.raises(SystemExit):
            MAKE.main([*words, "--folder", str(tmp_path)])
    assert "the name of a picture is required" in (told := capsys.readouterr().err) and "data in" in told
