"""Losses of probabilities and variances: numbers out of range raise, eagerly and in compiled functions."""

from __future__ import annotations

import math
from typing import Any

import pytest

import nacre as nc

F = nc.nn.functional


def outcome(run: Any, f: Any, *args: Any) -> Any:
    """The result as a number, or the text of the error."""
    try:
        return float(run(f)(*args))
    except nc.ArgumentError as error:
        return str(error)


@pytest.mark.parametrize("run", [lambda f: f, nc.jit])
@pytest.mark.parametrize("dtype", [nc.float16, nc.float32, nc.float64])
def test_probabilities_are_in_range(run: Any, dtype: Any) -> None:
    good = nc.tensor([[0.0, 1.0], [0.5, 0.25]], dtype=dtype)
    assert math.isfinite(outcome(run, F.binary_cross_entropy, good, good))
    for wrong in (-0.5, 2.0, math.nan, math.inf):
        bad = nc.tensor([[0.0, 1.0], [wrong, wrong]], dtype=dtype)
        found = outcome(run, F.binary_cross_entropy, bad, good)
        assert "binary_cross_entropy: inputs must be probabilities in [0, 1]" in found and "position 2;" in found
        found = outcome(run, F.binary_cross_entropy, good, bad)
        assert "binary_cross_entropy: targets must be probabilities in [0, 1]" in found and "position 2;" in found


def test_gradients_of_probabilities_out_of_range_raise() -> None:
    for run in (lambda f: f, nc.jit):
        with pytest.raises(nc.ArgumentError, match="inputs must be probabilities"):
            run(nc.grad(lambda x: F.binary_cross_entropy(x, [1.0, 0.0])))(nc.tensor([0.5, 1.5]))
    with pytest.raises(nc.ArgumentError, match="inputs must be probabilities"):
        nc.vmap(lambda x: F.binary_cross_entropy(x, nc.tensor([1.0, 0.0])))(nc.tensor([[0.5, 0.5], [0.5, 1.5]]))


@pytest.mark.parametrize("run", [lambda f: f, nc.jit])
def test_variances_are_not_negative(run: Any) -> None:
    x = nc.tensor([1.0, 2.0])
    assert math.isfinite(outcome(run, F.gaussian_nll_loss, x, x, nc.tensor([0.0, 1.0])))
    assert math.isnan(outcome(run, F.gaussian_nll_loss, x, x, nc.tensor([math.nan, 1.0])))
    found = outcome(run, F.gaussian_nll_loss, x, x, nc.tensor([1.0, -1.0]))
    assert "gaussian_nll_loss: variances must not be negative" in found and "position 1;" in found
