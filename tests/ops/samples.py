"""Numbers for tests of operations: the edge cases of every dtype, and seeded random ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from nacre.base.dtypes import DType

Array = npt.NDArray[Any]
Arrays = tuple[Array, ...]


def generator(seed: int = 0) -> np.random.Generator:
    """A seeded generator; tests print the seed through their parameters."""
    return np.random.default_rng(seed)


def edges(dtype: DType) -> Array:
    """Zeros, ones, infinities, NaN, subnormal and extreme numbers of a dtype."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        near = [
            0,
            1,
            2,
            3,
            7,
            dtype.bits - 1,
            dtype.bits,
            info.max,
            info.max - 1,
            info.min,
            info.min + 1,
        ]
        return np.array([*near, *([-1, -2, -7] if dtype.is_signed else [])], dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    positive = [
        0,
        0.25,
        0.5,
        1,
        1.5,
        2.5,
        3,
        10,
        float(info.smallest_subnormal),
        float(info.tiny),
        float(info.max),
    ]
    signed = [s * float(v) for v in positive for s in (1, -1)]
    return np.array([*signed, np.inf, -np.inf, np.nan], np.float64).astype(dtype.numpy)


def random(dtype: DType, shape: Sequence[int], rng: np.random.Generator, scale: float = 1.0) -> Array:
    """Random numbers of a dtype: normal for floats and parts of complex numbers, the whole range for integers."""
    shape = tuple(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
    if dtype.is_complex:
        return np.asarray((rng.normal(size=shape) + 1j * rng.normal(size=shape)) * scale).astype(dtype.numpy)
    return np.asarray(rng.normal(size=shape) * scale).astype(dtype.numpy)


def wide(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Floats over all magnitudes, log-uniform with both signs."""
    info = ml_dtypes.finfo(dtype.numpy)
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)) - 0.01
    return (np.exp2(rng.uniform(low, high, count)) * rng.choice([-1.0, 1.0], count)).astype(dtype.numpy)


def crossed(values: Sequence[Array]) -> Arrays:
    """Every combination of one element of each array, as arrays of equal length."""
    columns = list(zip(*product(*values), strict=True))
    return tuple(np.array(c, v.dtype) for c, v in zip(columns, values, strict=True))


def pointwise(dtype: DType, operands: int, rng: np.random.Generator) -> list[Arrays]:
    """Operands of one type: edge cases in all combinations, random ones, rank 0 and empty ones."""
    few = edges(dtype) if operands < 3 else edges(dtype)[::3]
    found = [crossed([few] * operands)]
    for shape in ((1000,), (3, 7, 5), (), (0,), (2, 0, 3)):
        found.append(tuple(random(dtype, shape, rng, 3.0) for _ in range(operands)))
    if dtype.is_float:
        found.append(tuple(wide(dtype, 300, rng) for _ in range(operands)))
    return found


def indices(shape: Sequence[int], size: int, rng: np.random.Generator, dtype: str = "int64") -> Array:
    """Indices, a few of which are out of range."""
    low = 0 if dtype.startswith("u") else -2
    return rng.integers(low, size + 2, tuple(shape)).astype(dtype)
