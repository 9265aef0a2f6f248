"""Every built-in workload, tiny: compiled and eager give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base import tree
from nacre.base.errors import ArgumentError
from nacre.inspect.workloads import WORKLOADS, chosen


@pytest.mark.parametrize("name", WORKLOADS)
def test_compiled_and_eager_have_the_same_bits(name: str) -> None:
    compiled, arguments = WORKLOADS[name].ready(tiny=True)
    eager, _ = WORKLOADS[name].plain(tiny=True)
    for _ in range(2):  # the second training step depends on the first update
        ours, theirs = (tree.flatten(f(*arguments))[0] for f in (compiled, eager))
        assert len(ours) == len(theirs) and all(np.isfinite(x.numpy()).all() for x in ours)
        assert all(np.array_equal(x.numpy(), y.numpy()) for x, y in zip(ours, theirs, strict=True))


def test_names_are_checked() -> None:
    assert [w.name for w in chosen(["softmax", "mlp"])] == ["softmax", "mlp"]
    assert len(chosen([])) == len(WORKLOADS)
    with pytest.raises(ArgumentError, match="softmax"):
        chosen(["sotfmax"])
