"""The kernel that is lowered once for clusters of one form is the one that each of them would get."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

import nacre as nc
from compile.programs import Program, programs
from nacre.compile.fusion.fuse import fuse
from nacre.compile.lowering import cache, lower
from nacre.compile.passes.simplify import simplify
from nacre.interpret.stage import stage


@given(program=programs(most=15))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_cluster_is_lowered_to_its_own_kernel(program: Program) -> None:
    def twice(*xs: Any) -> list[Any]:
        half = len(xs) // 2
        return [*program(*xs[:half]), *program(*xs[half:])]

    types = [x.type for x in program.operands()]
    fusion = fuse(simplify(stage(twice, types * 2).graph))
    clusters = [n for n in fusion.nodes if not n.opaque]
    for node in clusters:
        assert cache.lower(fusion, node, "kernel") == lower.lower(fusion, node, "kernel")
        groups = [(k,) for k in range(len(node.domain or ()))]
        assert cache.lower_over(fusion, node, "kernel", groups) == lower.lower_over(fusion, node, "kernel", groups)


def test_layers_share_their_forms() -> None:
    def layers(*weights: Any) -> Any:
        x = weights[0]
        for w in weights:
            x = nc.tanh(x @ w + 1.0)
        return x

    fusion = fuse(simplify(nc.jit(layers).trace(*[nc.ones((8, 8))] * 6)))
    for node in fusion.nodes:
        if not node.opaque:
            cache.lower(fusion, node, "kernel")
    assert len(fusion.lowered) == 1
