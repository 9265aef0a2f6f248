"""The demo's data and training: a fixed split, seeded starts, the same bits eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.api.settings import get_threads, set_threads
from nacre.base.errors import MissingExtra
from nacre.cli import demo, digits
from nacre.inspect import machine

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def data() -> digits.Digits:
    return digits.load()


def test_split(data: digits.Digits) -> None:
    assert data.train_images.shape == (1437, 1, 8, 8) and data.test_images.shape == (360, 1, 8, 8)
    assert data.train_images.dtype == np.float32 and 0 == data.train_images.min() < data.train_images.max() == 1
    assert set(data.train_classes) == set(data.test_classes) == set(range(10))


def test_batches_cover_an_epoch_once_and_differ_between_epochs(data: digits.Digits) -> None:
    first, again, second = ([y.numpy() for _, y in data.batches(k)] for k in (0, 0, 1))
    assert len(first) == data.steps == 22
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, second))


def test_eager_and_compiled_training_give_the_same_weights(data: digits.Digits) -> None:
    eager, compiled = (digits.train(data, 1, compiled=way) for way in (False, True))
    assert eager.weights() == compiled.weights() != digits.Training(False).weights()


@pytest.mark.slow
def test_whole_trainings_give_one_hash_in_every_mode(data: digits.Digits) -> None:
    found = {digits.train(data, compiled=way).weights() for way in (False, True)}
    before = get_threads()
    try:
        for threads in (1, 2, 5):
            set_threads(threads)
            found.add(digits.train(data).weights())
    finally:
        set_threads(before)
    other = machine.other_isa()
    if other is not None:
        found.add(demo.elsewhere(other, digits.EPOCHS))
    assert len(found) == 1


def test_missing_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(digits, "import_module", fail)
    with pytest.raises(MissingExtra, match=r"nacre\[demo\]"):
        digits.load()
