"""Random bits: published vectors, and independence of shape and batch."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.base.dtypes import uint32, uint64
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ops.random import random_bits
from ops.references import threefry

# Random123's known answers for threefry2x32 with 20 rounds: counter, key, result
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_reference_has_the_published_vectors(
    counter: tuple[int, int], key: tuple[int, int], result: tuple[int, int]
) -> None:
    assert threefry(key, counter) == result


def test_first_element_is_the_published_vector() -> None:
    key = from_numpy(np.zeros(2, np.uint32))
    assert to_numpy(random_bits(key, (1,), uint32))[0] == 0x6B200159
    assert to_numpy(random_bits(key, (), uint64)) == 0x99BA4EFE6B200159


def test_an_element_depends_only_on_key_and_position() -> None:
    keys = np.array([[1, 2], [3, 4]], np.uint32)
    whole = to_numpy(random_bits(from_numpy(keys), (6, 5)))
    for k, key in enumerate(keys):
        alone = to_numpy(random_bits(from_numpy(key), (40,)))
        np.testing.assert_array_equal(whole[k].ravel(), alone[:30])
