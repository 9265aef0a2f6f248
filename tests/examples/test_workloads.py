"""Every built-in workload, tiny: compiled and eager give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nacre.api import random
from nacre.base import tree
from nacre.base.errors import ArgumentError
from nacre.examples.workloads import WORKLOADS, chosen
from nacre.examples.workloads.networks import NETWORKS
from nacre.examples.workloads.standard import STANDARD


def check(name: str) -> None:
    """Compiled and eager results of two calls: the second training step depends on the first update."""
    compiled, arguments = WORKLOADS[name].ready(tiny=True)
    eager, _ = WORKLOADS[name].plain(tiny=True)

    def results(f: Callable[..., Any], seed: int) -> list[Any]:
        random.seed(seed)  # of dropout
        return tree.flatten(f(*arguments))[0]

    for k in range(2):
        ours, theirs = results(compiled, k), results(eager, k)
        assert len(ours) == len(theirs) and all(np.isfinite(x.numpy()).all() for x in ours)
        assert all(np.array_equal(x.numpy(), y.numpy()) for x, y in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", [w.name for w in STANDARD])
def test_compiled_and_eager_have_the_same_bits(name: str) -> None:
    check(name)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [w.name for w in NETWORKS])
def test_compiled_and_eager_networks_have_the_same_bits(name: str) -> None:
    check(name)


def test_names_are_checked() -> None:
    assert [w.name for w in chosen(["softmax", "mlp"])] == ["softmax", "mlp"]
    assert len(chosen([])) == len(WORKLOADS)
    with pytest.raises(ArgumentError, match="softmax"):
        chosen(["sotfmax"])
