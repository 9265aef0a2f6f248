"""CTC at its limits: no frames, no labels, impossible targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nacre as nc

F = nc.nn.functional


def losses(frames: list[int], sizes: list[int], time: int = 3, width: int = 2, **more: Any) -> tuple[Any, Any]:
    """The loss of each sequence, where all classes are equally likely, and the derivative."""
    logits = nc.zeros((time, len(frames), 3), dtype=nc.float64)
    targets = nc.asarray(np.tile(np.array([1, 2, 1])[:width], (len(frames), 1)).astype(np.int64))

    def f(x: Any) -> Any:
        return F.ctc_loss(F.log_softmax(x, 2), targets, nc.tensor(frames), nc.tensor(sizes), **more)

    each = f(logits) if "reduction" in more else None
    eager, compiled = (run(nc.grad(lambda x: nc.sum(f(x))))(logits).numpy() for run in (lambda g: g, nc.jit))
    np.testing.assert_array_equal(eager, compiled)
    return None if each is None else each.numpy(), eager


def test_without_frames_only_the_empty_target_is_possible() -> None:
    found, slopes = losses([0, 0, 3], [0, 2, 0], reduction="none")
    assert found[0] == 0.0 and found[1] == math.inf
    assert math.isclose(found[2], 3 * math.log(3), rel_tol=1e-12)
    assert np.isfinite(slopes).all() and not slopes[:, :2].any() and slopes[:, 2].any()


def test_impossible_targets() -> None:
    found, slopes = losses([1, 3], [2, 2], reduction="none")
    assert found[0] == math.inf and math.isfinite(found[1])
    assert np.isfinite(slopes).all() and not slopes[:, 0].any()
    found, slopes = losses([1, 0, 3], [2, 1, 2], reduction="none", zero_infinity=True)
    assert found[0] == found[1] == 0.0 and found[2] > 0 and np.isfinite(slopes).all()
    assert np.isfinite(losses([1, 0, 3], [2, 0, 2], zero_infinity=True)[1]).all()


def test_batches_without_frames_and_labels() -> None:
    found, slopes = losses([0, 0], [0, 1], time=0, reduction="none")
    assert found.tolist() == [0.0, math.inf] and slopes.shape == (0, 2, 3)
    found, slopes = losses([3, 0], [0, 0], width=0, reduction="none")
    assert math.isclose(found[0], 3 * math.log(3), rel_tol=1e-12) and found[1] == 0.0 and np.isfinite(slopes).all()


def test_lengths_out_of_range_are_refused() -> None:
    for frames, sizes in (([4], [1]), ([-1], [1]), ([3], [3]), ([3], [-1])):
        with pytest.raises(nc.ArgumentError, match="lengths must be in"):
            losses(frames, sizes)


def unaligned(labels: list[int], size: int, blank: int = 0, compiled: bool = False) -> float:
    """The loss of one sequence of four frames and three classes."""
    logs = F.log_softmax(nc.reshape(nc.arange(12.0), (4, 1, 3)) % 5.0, 2)

    def f(x: Any, targets: Any, sizes: Any) -> Any:
        return F.ctc_loss(x, targets, nc.tensor([4]), sizes, blank=blank)

    return float((nc.jit(f) if compiled else f)(logs, nc.tensor([labels]), nc.tensor([size])))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("label", [-1, 3, -100, 1 << 40])
def test_labels_are_classes(label: int, compiled: bool) -> None:
    with pytest.raises(nc.ArgumentError, match=rf"ctc_loss: labels must be in \[0, 3\); got {label}; "):
        unaligned([1, label], 2, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("blank", [0, 2])
def test_labels_differ_from_the_blank(blank: int, compiled: bool) -> None:
    with pytest.raises(nc.ArgumentError, match=rf"ctc_loss: labels must differ from the blank; got {blank}; "):
        unaligned([1, blank], 2, blank, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("padding", [-100, -1, 0, 2, 99])
def test_padding_behind_the_target_does_not_count(padding: int, compiled: bool) -> None:
    assert unaligned([1, padding], 1, compiled=compiled) == unaligned([1], 1)
