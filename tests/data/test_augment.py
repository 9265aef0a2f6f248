"""Augmentations of images and sequences: their results, which the item's number determines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import nacre as nc
from labels import label
from nacre import data
from nacre.data.augment import rotated
from nacre.data.randomness import item_randomness

IMAGE = np.arange(2 * 6 * 5, dtype=np.float32).reshape(2, 6, 5)


def drawn(f: Callable[[Any], Any], x: Any, number: int = 0) -> Any:
    with item_randomness(5, 1, number):
        return f(x)


@pytest.mark.parametrize(
    "f",
    [
        data.RandomHorizontalFlip(), data.RandomVerticalFlip(0.5), data.RandomCrop(3, 1), data.RandomRotation(20.0),
        data.Cutout(2), data.Compose([data.RandomCrop(4), data.RandomHorizontalFlip(), data.Cutout((1, 3), fill=-1.0)]),
    ],
    ids=lambda f: type(f).__name__,
)  # fmt: skip
def test_an_item_is_changed_the_same_way_each_time(f: Callable[[Any], Any]) -> None:
    told = [drawn(f, IMAGE, k) for k in range(8)]
    assert all(np.array_equal(t, drawn(f, IMAGE, k)) for k, t in enumerate(told))
    assert any(not np.array_equal(t, told[0]) for t in told)
    assert IMAGE.ravel().tolist() == list(range(60))


def test_flips_and_crops() -> None:
    np.testing.assert_array_equal(data.RandomHorizontalFlip(1.0)(IMAGE), IMAGE[:, :, ::-1])
    np.testing.assert_array_equal(data.RandomVerticalFlip(1.0)(IMAGE), IMAGE[:, ::-1])
    np.testing.assert_array_equal(data.RandomHorizontalFlip(0.0)(IMAGE), IMAGE)
    np.testing.assert_array_equal(data.CenterCrop((2, 3))(IMAGE), IMAGE[:, 2:4, 1:4])
    part = drawn(data.RandomCrop((4, 3)), IMAGE)
    assert any(np.array_equal(part, IMAGE[:, i : i + 4, j : j + 3]) for i in range(3) for j in range(3))
    assert data.Pad((1, 2), padding_mode="reflect")(IMAGE).shape == (2, 8, 9)


@pytest.mark.parametrize("degrees", [0.0, 90.0, 13.0, -31.0])
def test_rotation(degrees: float) -> None:
    square = np.random.default_rng(0).normal(size=(2, 7, 7))
    wanted = ndimage.rotate(square, degrees, (2, 1), reshape=False, order=1, mode="grid-constant", cval=2.0)
    np.testing.assert_allclose(rotated(square, degrees, 2.0), wanted, atol=1e-9)
    assert rotated(np.full((3, 3), 9, np.uint8), degrees, 9.0).dtype == np.uint8


def test_cutting_out_and_normalising() -> None:
    holes = [(drawn(data.Cutout(2), np.ones((1, 6, 6)), k) == 0).sum() for k in range(50)]
    assert max(holes) == 4 and min(holes) >= 1 and not (data.Cutout(2, p=0.0)(IMAGE) != IMAGE).any()
    np.testing.assert_allclose(data.Normalize([1.0, 2.0], [2.0, 4.0])(IMAGE)[1], (IMAGE[1] - 2) / 4)
    assert data.ToFloat()(np.full((4, 5, 3), 51, np.uint8)).tolist() == [[[np.float32(0.2)] * 5] * 4] * 3
    assert data.OnInput(np.negative)((IMAGE, 3))[1] == 3


def test_mixing() -> None:
    x, t = drawn(data.MixUp(3, 0.5), [(np.full(2, float(k)), k) for k in range(3)])
    np.testing.assert_allclose(t.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(x[:, 0], t @ [0.0, 1.0, 2.0], rtol=1e-6)


def test_sequences() -> None:
    window = drawn(data.RandomWindow(4), np.arange(20))
    assert window.tolist() == list(range(window[0], window[0] + 4))
    assert data.RandomWindow(3)(np.ones((1, 2))).shape == (3, 2)
    tokens = np.random.default_rng(0).integers(5, 100, 20000)
    hidden, targets = drawn(data.TokenMasking(3, 100, 0.2, special=(7,)), tokens)
    chosen = targets != -100
    assert abs(chosen.mean() - 0.2) < 0.01 and not chosen[tokens == 7].any()
    np.testing.assert_array_equal(targets[chosen], tokens[chosen])
    np.testing.assert_array_equal(hidden[~chosen], tokens[~chosen])
    assert abs((hidden[chosen] == 3).mean() - 0.8) < 0.03 and 0.08 < (hidden == tokens)[chosen].mean() < 0.14


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.Cutout(1, p=2.0), "probability"), (lambda: data.CenterCrop(9)(IMAGE), "at least"),
        (lambda: data.Pad(-1), "sizes"), (lambda: data.RandomRotation(-1.0), "degrees"),
        (lambda: data.MixUp(0), "positive"),
        (lambda: data.Normalize([0.0], [0.0]), "must not contain 0"), (lambda: data.RandomWindow(0), "length"),
        (lambda: data.RandomHorizontalFlip()(np.ones(3)), "image"), (lambda: data.ToFloat()(np.ones(3)), "image"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()
