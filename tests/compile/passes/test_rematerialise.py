"""Large values that are read late are recomputed there: the same bits, in less memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import nacre as nc
from codegen.run_steps import assert_same_bits
from compile.programs import Program, programs
from compile.test_pipeline import check_fused_is_eager, graph_of
from nacre.compile.fusion import fuse
from nacre.compile.passes import rematerialise as module_of_pass
from nacre.compile.passes.rematerialise import rematerialise
from nacre.compile.passes.simplify import simplify

ROWS, WIDTH, LAYERS = 512, 640, 8


@pytest.fixture
def near() -> Any:
    """All values count as large, and a distance of three equations as far."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (fuse, module_of_pass):
            patch.setattr(module, "FAR", 3)
        patch.setattr(fuse, "LARGE", 0)
        yield


def loss(x: Any, weights: list[Any]) -> Any:
    for w in weights:
        x = x + nc.nn.functional.gelu(x @ w, approximate="tanh") @ w.T
    return nc.sum(x * x)


def given_values() -> tuple[Any, list[Any]]:
    return nc.random.normal((ROWS, WIDTH)), [nc.random.normal((WIDTH, WIDTH)) * 0.03 for _ in range(LAYERS)]


def test_a_derivative_stores_two_values_of_each_activation() -> None:
    x, weights = given_values()
    gradients = nc.jit(nc.grad(loss, argnums=1))
    compiled = gradients.concrete(x, weights).compiled
    bound = compiled.executable.bound({})
    assert bound.arena_bytes < ROWS * WIDTH * 4 * (3 * LAYERS + 8)  # the sum, the product and its sigmoid
    names = [e.primitive.name for e in compiled.simplified.equations]
    assert names.count("mul") > [e.primitive.name for e in simplify(compiled.graph).equations].count("mul")
    eager = nc.grad(loss, argnums=1)(x, weights)
    for a, b in zip(gradients(x, weights), eager, strict=True):
        assert_same_bits(a.numpy(), b.numpy())


@given(program=programs())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_program_has_the_same_bits(program: Program, near: None) -> None:
    rematerialise(simplify(graph_of(program))).verify()
    check_fused_is_eager(program)
