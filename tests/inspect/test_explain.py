"""Every stage of a function as text, for this machine and for others."""

from __future__ import annotations

import pytest

import nacre as nc
from nacre.base.errors import ArgumentError
from nacre.inspect.explain import Explanation, explain


@pytest.fixture(scope="module")
def told() -> Explanation:
    def f(x: nc.Tensor) -> nc.Tensor:
        return nc.sum(nc.exp(x) * 2, axis=1)

    return explain(f, nc.ones((6, 40)))


def test_stages(told: Explanation) -> None:
    assert told.graph.startswith("graph f(a: f32[6, 40])")
    assert "exp" in told.clusters and "reducing axes [1]" in told.clusters
    assert len(told.stages) == 1
    assert "accumulate sum" in told.kernel(0)
    assert "where n0 = " in told.general(0)
    assert "output0 (24 bytes)" in told.plan
    assert "arena: 0 bytes" in told.plan


def test_text_for_other_machines(told: Explanation) -> None:
    assert "zmm" in told.assembly(0, "avx512")
    avx2 = told.assembly(0, "avx2")
    assert "ymm" in avx2 and "zmm" not in avx2
    assert "<4 x float>" in told.llvm(0, "neon")


def test_wrong_questions(told: Explanation) -> None:
    with pytest.raises(ArgumentError, match="step must be from 0 to 0"):
        told.kernel(1)
    with pytest.raises(ArgumentError, match="isa must be one of"):
        told.llvm(0, "vax")


def test_explaining_does_not_run() -> None:
    f = nc.jit(lambda x: x + 1)
    explain(f, nc.ones(3))
    assert [c.calls for c in f.concrete_functions] == [0]


def test_symbolic_sizes() -> None:
    f = nc.jit(lambda x: x * 2 + 1, dynamic_shapes={"x": {0: nc.Dim("batch", max=64)}})
    shown = explain(f, nc.ones((5, 3))).plan
    assert "batch" in shown


def test_the_plan_shows_updates_in_place() -> None:
    cell = nc.Variable(nc.ones(1000))

    @nc.jit
    def grow(x: nc.Tensor) -> nc.Tensor:
        cell.assign(cell.value * 2)
        return nc.sum(x)

    assert "over input" in explain(grow, nc.ones(3)).plan
