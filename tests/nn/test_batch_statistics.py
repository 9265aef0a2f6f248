"""Running statistics of batch and instance normalisation: their dtype, empty batches, and batches of one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn

F = nn.functional


@pytest.mark.parametrize("compiled", [False, True])
def test_plain_means_in_float64(compiled: bool) -> None:
    layer = nn.BatchNorm1d(2, momentum=None, dtype=nc.float64)
    batches = np.random.default_rng(0).standard_normal((7, 5, 2))
    step = nc.jit(lambda x: layer(x)) if compiled else layer
    for batch in batches:
        step(nc.asarray(batch))
    assert layer.running_mean is not None and layer.running_var is not None
    np.testing.assert_allclose(layer.running_mean.numpy(), batches.mean(1).mean(0), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(layer.running_var.numpy(), batches.var(1, ddof=1).mean(0), rtol=1e-14)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_an_empty_batch_does_not_change_the_statistics(momentum: float | None) -> None:
    for layer, shape in (
        (nn.BatchNorm2d(3, momentum=momentum), (0, 3, 4, 4)),
        (nn.InstanceNorm2d(3, momentum=momentum, track_running_stats=True), (0, 3, 4, 4)),
    ):
        held: Any = layer
        assert held(nc.zeros(shape)).shape == shape
        assert (held.running_mean.numpy() == 0).all() and (held.running_var.numpy() == 1).all()


def test_one_value_has_no_variance() -> None:
    layer = nn.BatchNorm1d(3)
    with pytest.raises(nc.ShapeError, match="more than one value per channel"):
        layer(nc.ones((1, 3)))
    with pytest.raises(nc.ShapeError, match="more than one value per channel"):
        F.batch_norm(nc.ones((1, 3, 1)), training=True)
    layer.eval()
    assert layer(nc.ones((1, 3))).shape == (1, 3)


def test_running_statistics_begin_again() -> None:
    m = nc.nn.BatchNorm1d(2)
    fresh = {k: v.tolist() for k, v in m.state_dict().items()}
    m(nc.tensor([[1.0, 2.0], [3.0, 7.0]]))
    assert {k: v.tolist() for k, v in m.state_dict().items()} != fresh
    m.reset_running_stats()
    assert {k: v.tolist() for k, v in m.state_dict().items()} == fresh
    nc.nn.BatchNorm1d(2, track_running_stats=False).reset_running_stats()
