"""Derivatives at special points: of every differentiable function, against mpmath's limits and PyTorch's values."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import nacre as nc
from surface import FUNCTIONS

sys.path.insert(0, str(Path(__file__).parent))
import write_special_page as page
from special_cases import CASES, DIFFERENT, WITHOUT, Case

SPACES = ("nacre", "nacre.nn.functional")
ALL = [pytest.param(name, case, id=f"{name} {k}") for name, held in CASES.items() for k, case in enumerate(held)]
EVERY = 6  # without --all, one case in this number is compiled
SAMPLE = [pytest.param(p.values[1], id=p.id, marks=[pytest.mark.slow] if k % EVERY else []) for k, p in enumerate(ALL)]


def test_every_function_has_special_points_or_a_reason() -> None:
    public = {name for name in FUNCTIONS if name.rpartition(".")[0] in SPACES}
    assert not public - CASES.keys() - WITHOUT.keys(), "these functions have no points in special_cases.py"
    assert not (CASES.keys() | WITHOUT.keys()) - public and not CASES.keys() & WITHOUT.keys()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_those_of_pytorch_or_have_a_reason(name: str) -> None:
    agree = True
    for case in CASES[name]:
        for mine, other in zip(page.here(case), page.there(case), strict=True):
            for k, (a, b) in enumerate(zip(mine, other, strict=True)):
                agree = agree and bool(page.same(a, b).all())
                assert b is None or (np.isfinite(a) | ~np.isfinite(b)).all(), f"{case.text} at {case.at[k]}: {a}"
                assert agree or name in DIFFERENT, f"{case.text} at {case.at[k]}: {a}, in PyTorch {b}"
    assert agree == (name not in DIFFERENT), f"{name}: nothing differs, against its reason"


def limits(f: Callable[[Any], Any], x: float, order: int) -> list[float]:
    """The derivatives from the left and from the right, as far as they exist."""
    found: list[float] = []
    for side in (-1, 1):
        try:
            value = mp.diff(f, mp.mpf(x), order, direction=side)
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if isinstance(value, mp.mpf) or value.imag == 0:
            found.append(float(mp.re(value)))
    return found


@pytest.mark.parametrize("case", [pytest.param(p.values[1], id=p.id) for p in ALL if p.values[1].exact is not None])
def test_derivatives_are_between_the_limits_of_both_sides(case: Case) -> None:
    """With 1,200 bits, so that a step is negligible compared with any float64."""
    exact: Any = case.exact
    with mp.workprec(1200):
        for order, derivatives in enumerate(page.here(case), 1):
            for k, found in enumerate(derivatives):
                for at, value in zip(zip(*case.at, strict=True), found, strict=True):
                    if not all(map(math.isfinite, at)):
                        continue
                    rest = list(map(mp.mpf, at))

                    def along(x: Any, rest: list[Any] = rest, k: int = k) -> Any:
                        return exact(*rest[:k], x, *rest[k + 1 :])

                    ends = limits(along, at[k], order)
                    if not ends or max(map(abs, ends)) > 1e100:
                        continue  # a pole, or the end of the domain
                    room = 1e-6 * max(1.0, *map(abs, ends))
                    assert min(ends) - room <= value <= max(ends) + room, f"{case.text}, order {order}, at {at}"


@pytest.mark.parametrize("case", SAMPLE)
def test_all_ways_agree(case: Case) -> None:
    """Compiled derivatives have the bits of eager ones, and forward mode agrees with reverse mode up to rounding."""
    xs = page.arrays(case)
    first, second = page.here(case)
    for f, wanted in ((page.gradients(case), first), (page.second(case), second)):
        for a, b in zip(nc.jit(f)(*xs), wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    for k, wanted in enumerate(first):
        for place in np.ndindex(wanted.shape):
            unit = np.zeros(wanted.shape)
            unit[place] = 1.0
            moved = [nc.asarray(unit) if j == k else nc.zeros_like(x) for j, x in enumerate(xs)]
            pushed = nc.jvp(page.function(case), tuple(xs), tuple(moved))[1].item()
            if math.isfinite(wanted[place]) and math.isfinite(pushed):
                assert math.isclose(pushed, wanted[place], rel_tol=1e-9, abs_tol=1e-9), f"{case.text} at {place}"
            elif not case.pointwise and all(np.isfinite(a).all() for a in case.at):
                assert math.isfinite(pushed) == math.isfinite(wanted[place]), f"{case.text} at {place}"


def test_the_page_is_the_output_of_the_script() -> None:
    assert page.PAGE.read_text() == page.page(), "run python tests/public/write_special_page.py"
