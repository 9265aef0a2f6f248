"""Statistics of times, and charts."""

from __future__ import annotations

import xml.etree.ElementTree as tree

import pytest

from nacre.base.errors import ArgumentError
from nacre.inspect.plot import Chart, Series
from nacre.inspect.timing import WARM, Times, interleaved


def test_statistics() -> None:
    t = Times((4.0, 1.0, 2.0, 3.0, 5.0))
    assert (t.least, t.median) == (1.0, 3.0) and t.spread == pytest.approx(2 / 3)
    assert Times((1.0,)).spread == 0


def test_candidates_are_timed_in_turn() -> None:
    order: list[str] = []
    taken = interleaved({n: lambda n=n: order.append(n) for n in "ab"}, rounds=3, seconds=0)
    assert "".join(order) == "a" * WARM + "b" * WARM + "ab" * 3
    assert [len(t.seconds) for t in taken.values()] == [3, 3]
    with pytest.raises(ArgumentError, match="at least 1"):
        interleaved({}, rounds=0)


def test_a_chart_is_xml_and_keeps_its_points_inside() -> None:
    lines = (Series("a < b", ((1, 0.02), (1000, 5))), Series("p", ((7, 7),), joined=False, tips=("x & y",)))
    root = tree.fromstring(Chart("t", "n", "s", lines).svg())
    space = "{http://www.w3.org/2000/svg}"
    (line,) = root.findall(f"{space}polyline")
    (point,) = root.findall(f"{space}circle")
    assert len(line.attrib["points"].split()) == 2 and point.find(f"{space}title").text == "x & y"  # type: ignore[union-attr]
    assert 0 < float(point.attrib["cx"]) < 860 and 0 < float(point.attrib["cy"]) < 520
