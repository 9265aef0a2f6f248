"""The front page is short, shows what runs show, and contradicts nothing; the project's files agree with each other."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import nacre as nc
from nacre import nn

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 130
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"front_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


REPORT = load(ROOT / "benchmarks" / "report.py")
PICTURE = load(ROOT / "docs" / "demo_picture.py")


# ---- the README


def test_the_front_page_is_short() -> None:
    assert README.count("\n") <= MOST_LINES


def test_status_and_install_come_first() -> None:
    heads = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert heads[0] == "Install" and README.index("**Status: alpha.**") < README.index("## Install")
    assert all(line in README for line in ("python3 run.py demo", "python3 run.py test", "pip install -e"))


@pytest.mark.parametrize("path", ["README.md", "docs/status.md"])
def test_nothing_is_promised_that_the_limits_deny(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for phrase in (r"no C\s+compiler is needed", r"on every\s+machine", r"same bits\s+everywhere", r"\bever\b"):
        assert not re.search(phrase, text), phrase
    assert "under emulation" in re.sub(r"\s+", " ", text)


def test_the_rows_for_pytorch_users_run(tmp_path: Path) -> None:
    table = README.partition("| PyTorch | Nacre |")[2].partition("\n\n")[0]
    cells = [line.split(" | ", 1)[1] for line in table.splitlines() if line.startswith("| `")]
    assert len(cells) == 6
    names: dict[str, Any] = {
        "nc": nc,
        "a": nc.ones((2, 1)),
        "b": nc.zeros((2, 2)),
        "x": nc.ones((2, 3)),
        "f": nc.tanh,
        "model": nn.Linear(2, 2),
        "path": tmp_path / "model.safetensors",
    }
    shapes = [
        getattr(eval(code, names), "shape", None)
        for cell in cells[:5]
        for code in re.findall(r"`([^`]+)`", cell)
        if code != "f"
    ]
    assert shapes == [(2, 3), (2, 3), (1, 2, 3), (1, 2, 3), None, None]
    assert (tmp_path / "model.safetensors").exists()


def test_numbers_of_the_demo_are_those_of_its_run() -> None:
    found = json.loads((FIGURES / "demo.json").read_text(encoding="utf-8"))
    assert found["bits_agree"] is True and not found["not_checked"]
    size = f"{found['executable_bytes'] / 1024:.0f} KiB (code for {found['isa'].upper()})"
    assert size.replace("AVX512", "AVX-512") in README, "README: write the size of docs/figures/demo.json"


# ---- the picture of the demo


def words(picture: str) -> str:
    """The text of an SVG."""
    return "\n".join(
        "".join(text.itertext()).replace("\xa0", " ")
        for text in ET.fromstring(picture).iter()
        if text.tag.endswith("}text")
    )


def test_the_picture_shows_the_run_beside_it() -> None:
    picture = (FIGURES / "demo.svg").read_text(encoding="utf-8")
    found = json.loads((FIGURES / "demo.json").read_text(encoding="utf-8"))
    shown = words(picture)
    assert "nacre demo" in shown and f"{found['accuracy']:.4f}" in shown
    assert all(next(iter(found[kind].values()))[:12] in shown for kind in ("weights", "scores"))


@pytest.mark.parametrize("name", ["demo.svg", "speed.svg"])
def test_pictures_follow_the_page_and_load_nothing(name: str) -> None:
    picture = (FIGURES / name).read_text(encoding="utf-8")
    root = ET.fromstring(picture)
    assert root.get("viewBox") and root.get("role") == "img" and root.get("aria-label")
    assert "@media (prefers-color-scheme: dark)" in picture
    assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in picture and "<script" not in picture


def test_what_a_console_printed_is_drawn() -> None:
    console = Console(record=True, file=StringIO(), width=40, color_system="truecolor", force_terminal=False)
    console.print("[green]✓[/] [bold]a < b[/]\n\nsecond")
    picture = PICTURE.draw(console)
    assert words(picture).split() == ["✓", "a", "<", "b", "second"]
    light, dark = picture.split("@media")
    assert "fill: #1a7f37" in light and "fill: #56d364" in dark and "clip-path" not in picture


@pytest.mark.parametrize("status", [0, 1])
def test_only_a_demo_that_passes_is_drawn(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(given: Any, console: Console) -> int:
        console.print("all bits agree")
        given.json.write_text("{}\n")
        return status

    monkeypatch.setattr(PICTURE.demo, "run", run)
    assert PICTURE.main(["--folder", str(tmp_path), "--epochs", "2"]) == status
    assert sorted(path.name for path in tmp_path.iterdir()) == ([] if status else ["demo.json", "demo.svg"])
    assert status or "nacre demo --epochs 2" in words((tmp_path / "demo.svg").read_text()).replace("\n", "")


# ---- the measured times


def test_the_page_and_the_chart_show_the_kept_times() -> None:
    kept = (FIGURES / "speed.json").read_text(encoding="utf-8")
    data = json.loads(kept)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert REPORT.as_json(data) == kept
    assert REPORT.page(page, data) == page, "run python benchmarks/report.py"
    assert REPORT.chart(*next(iter(data.items()))) == (FIGURES / "speed.svg").read_text(encoding="utf-8")


def test_the_front_page_names_the_processor_and_the_range_of_the_chart() -> None:
    processor, found = next(iter(json.loads((FIGURES / "speed.json").read_text(encoding="utf-8")).items()))
    assert processor.partition(" (")[0].lower() in re.sub(r"\s+", " ", README).lower()
    speeds = {case: found["speeds"][case]["nacre"][1] for case in REPORT.CHART}
    training = [speed for case, speed in speeds.items() if "training" in REPORT.CHART[case]]
    others = [speed for case, speed in speeds.items() if "training" not in REPORT.CHART[case]]
    assert f"training steps {min(training):.2f} to {max(training):.2f} times" in README
    assert f"inference {min(others):.2f} to {max(others):.2f} times" in README


# ---- the project's files


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_projects_pages_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not re.match(r"\w+:", link)]
    assert links and all((ROOT / link).exists() for link in links), links
    assert set(re.findall(r"run\.py (\w+)", text)) <= set(load(ROOT / "run.py").EXTRAS)
    assert name in README


def test_the_citation_has_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([\w-]+): *(.*)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors", "license"} <= set(fields)
    assert fields["version"] == nc.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"Version {nc.__version__}" in changes or f"## [{nc.__version__}]" in changes


def test_no_address_is_invented() -> None:
    allowed = {"https://keepachangelog.com/en/1.1.0/", "https://semver.org/spec/v2.0.0.html"}
    for path in (*(ROOT / name for name in PAGES), ROOT / "README.md", ROOT / "CITATION.cff", ROOT / "pyproject.toml"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s)\"'>]+", text)) <= allowed, path
        assert not re.search(r"[\w.]+@[\w-]+\.\w+", text), path
