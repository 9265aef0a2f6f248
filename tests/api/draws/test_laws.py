"""Numbers of every distribution follow its law, in all dtypes and modes; no two of them are made of the same bits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import nacre as nc
from api.draws.laws import CONTINUOUS, COUNTS, chi_squared, deviations, distance, drawn
from nacre.native.pool import pool

R = nc.random
EVERY = CONTINUOUS | COUNTS
FEW, MANY = 20_000, 10_000_000
MODES = sorted(set(EVERY) - {"first of permutations"})  # which is a batch itself


@pytest.mark.parametrize("dtype", [nc.float32, nc.float64], ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_laws(name: str, dtype: nc.DType) -> None:
    subject = CONTINUOUS[name]
    numbers = drawn(subject, FEW, dtype, first=5)
    assert distance(numbers, subject.law) < 1.9
    assert all(abs(size) < 4 for _, size in deviations(numbers, subject.law))


@pytest.mark.parametrize("name", COUNTS)
def test_laws_of_counts(name: str) -> None:
    subject = COUNTS[name]
    numbers = drawn(subject, FEW, nc.int64, first=5)
    assert chi_squared(numbers, subject.law) < 3.5
    assert all(abs(size) < 4 for _, size in deviations(numbers, subject.law))


@pytest.mark.exhaustive(6)
@pytest.mark.parametrize("name", EVERY)
def test_laws_of_ten_million_numbers(name: str) -> None:
    """Deviations that one set of draws in ten thousand would have."""
    subject, continuous = EVERY[name], name in CONTINUOUS
    numbers = drawn(subject, MANY, nc.float64 if continuous else nc.int64)
    if continuous:
        assert distance(numbers, subject.law) < 2.2
    else:
        assert chi_squared(numbers, subject.law) < 3.8
    assert all(abs(size) < 4.5 for _, size in deviations(numbers, subject.law))


@pytest.mark.parametrize("name", MODES)
def test_every_mode_gives_the_same_numbers(name: str) -> None:
    f = EVERY[name].draw
    keys = nc.stack(R.split(R.key(3), 4))
    rows = nc.stack([f((7,), key=k) for k in keys])
    assert nc.jit(lambda k: f((7,), key=k))(keys[0]).numpy().tobytes() == rows[0].numpy().tobytes()
    assert nc.vmap(lambda k: f((7,), key=k))(keys).numpy().tobytes() == rows.numpy().tobytes()
    if name in CONTINUOUS:
        assert len(np.unique(rows.numpy())) == rows.size


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("name", MODES)
def test_any_number_of_threads_gives_the_same_numbers(name: str) -> None:
    f = EVERY[name].draw
    found: list[bytes] = []
    for threads in (1, 2):
        pool().set_threads(threads)
        found.append(f((3001,), key=R.key(4)).numpy().tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [name for name, subject in CONTINUOUS.items() if subject.rounded])
def test_half_types_are_rounded_from_float32(name: str) -> None:
    short, wide = (CONTINUOUS[name].draw((50,), dtype=d, key=R.key(1)) for d in (nc.float16, nc.float32))
    assert short.dtype is nc.float16 and nc.array_equal(short, wide.astype(nc.float16))


# ---- all numbers differ


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("shape", [(200_000,), (2, 100_000), (400, 500), (50, 40, 100), (1, 200_000, 1)])
def test_no_two_numbers_of_a_key_are_the_same(shape: Any) -> None:
    """The 64 bits of each place differ, whatever the shape and the number of threads, and depend on the place alone."""
    flat = R.bits((200_000,), nc.uint64, key=R.key(8)).numpy()
    for threads in (1, 2):
        pool().set_threads(threads)
        found = R.bits(shape, nc.uint64, key=R.key(8)).numpy().ravel()
        assert len(np.unique(found)) == found.size and (found == flat).all()


def test_no_two_numbers_of_a_batch_are_the_same() -> None:
    keys = R.bits((300, 2), key=R.key(1))
    found = nc.vmap(lambda k: R.bits((40, 20), nc.uint64, key=k))(keys).numpy()
    assert len(np.unique(found)) == found.size
    pairs = nc.vmap(lambda k: nc.stack(R.split(k, 7)))(keys).numpy().reshape(-1, 2)
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 2100
    uniform = nc.vmap(lambda k: R.uniform((50,), dtype=nc.float64, key=k))(keys).numpy()
    assert len(np.unique(uniform)) == uniform.size


def test_no_two_threads_draw_the_same_numbers() -> None:
    """Threads of Python share the generator, which gives each call a key of its own."""
    with ThreadPoolExecutor(8) as threads:
        parts = list(threads.map(lambda _: R.bits((500,), nc.uint64).numpy(), range(64)))
    found = np.concatenate(parts)
    assert len(np.unique(found)) == found.size
