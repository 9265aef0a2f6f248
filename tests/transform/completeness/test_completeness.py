"""Every primitive under every transformation: the cells are those of the page, and none is red."""

from __future__ import annotations

import numpy as np
import pytest

import nacre as nc
from nacre.compile.passes import winograd
from nacre.compile.primitives import attend_grads_p, checks_p, convolve_blocked_p
from nacre.ir.primitive import registered
from transform.completeness.case import Case
from transform.completeness.cases import CONTROL, OPERATIONS, PRIMITIVES, cases_of, primitives
from transform.completeness.checks import GREEN, NOT_DEFINED, TRANSFORMATIONS, cell, cells
from transform.completeness.write import recorded

KNOWN = {name: row for chapter in recorded().values() for name, row in chapter.items()}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*CONTROL, *OPERATIONS])
def test_the_cells_of_an_operation_are_those_of_the_page(name: str) -> None:
    assert cells(cases_of(name)) == KNOWN[name]


def test_the_page_has_all_primitives_and_no_red_cell() -> None:
    assert set(KNOWN) == {*OPERATIONS, *CONTROL} >= PRIMITIVES
    for name, row in KNOWN.items():
        assert list(row) == list(TRANSFORMATIONS), name
        assert all(c == GREEN or c.startswith(f"{NOT_DEFINED}: ") for c in row.values()), name


def test_the_primitives_are_the_same_after_other_modules_were_imported() -> None:
    inserted = {p.name for p in (attend_grads_p, checks_p, convolve_blocked_p, winograd.values_p)}
    assert inserted <= registered().keys() and primitives() == PRIMITIVES and not inserted & PRIMITIVES
    early = {name for name, p in registered().items() if p.type_rule.__module__.startswith("nacre.ops")}
    assert early == PRIMITIVES == {*OPERATIONS, *CONTROL} & registered().keys() - inserted


def test_what_is_wrong_is_red() -> None:
    @nc.custom_jvp
    def wrong(x: nc.Tensor) -> nc.Tensor:
        return nc.sin(x)

    wrong.defjvp(lambda xs, ts: (wrong(*xs), ts[0]))
    case = Case("wrong", wrong, (np.array([0.3, 0.7]),))
    found = {name: cell(case, name) for name in TRANSFORMATIONS}
    red = {name for name, c in found.items() if c.startswith("red: ")}
    assert red == {"grad", "jvp", "hessian"}, found
    assert cell(Case("silent", nc.sin, case.xs, {"grad": "no"}), "grad") == "red: must be refused: no"
    assert cell(Case("other", nc.floor, (np.array([1, 2]),), {"grad": "no"}), "grad").startswith("red: DTypeError: ")
