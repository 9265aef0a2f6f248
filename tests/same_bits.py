"""What the tests of same bits compare: operations of the table, their operands, and digests of results."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

import nacre as nc
import nacre.api.tensor  # so that values have operators
from compile.programs import Program
from nacre.base.dtypes import DType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.trace.value import Value
from ops.row import Row
from ops.samples import Array, Arrays, generator
from ops.table import ROWS

FEW = 2  # dtypes of a row that are tried unless all are asked for


def dtypes(row: Row, every: bool) -> Sequence[DType]:
    """The dtypes to try: all of a row's, or a few that differ from row to row."""
    if every or len(row.dtypes) <= FEW:
        return row.dtypes
    first = crc32(row.name.encode()) % len(row.dtypes)
    return [row.dtypes[(first + k * len(row.dtypes) // FEW) % len(row.dtypes)] for k in range(FEW)]


def operands(row: Row, dtype: DType, seed: int = 0) -> Arrays:
    """The largest of a row's operands."""
    found = row.inputs(dtype, generator(crc32(row.name.encode()) + seed))
    return max(found, key=lambda arrays: sum(a.size for a in arrays))


def canonical(x: Value | Array) -> bytes:
    """The bits of a result, with one NaN for all."""
    array = np.array(to_numpy(x) if isinstance(x, Value) else x)
    if array.dtype.kind == "c":
        array = np.stack((array.real, array.imag), axis=-1)
    if array.dtype.kind not in "biu":
        array[np.isnan(array.astype(np.float64))] = np.nan
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()


def before(x: Any) -> Any:
    """A value that keeps its bits through operations that fusion takes along."""
    if x.dtype is nc.bool:
        return ~~x
    return x * 1 if x.dtype.is_float else x.conj().conj() if x.dtype.is_complex else x + 0


def after(y: Any) -> Any:
    """Something computed from a result."""
    return ~y if y.dtype is nc.bool else y + y


def surrounded(f: Callable[..., Any]) -> Callable[..., Any]:
    """f between pointwise operations: its result, and what is computed from it."""

    def whole(*xs: Any) -> Any:
        y = f(*map(before, xs))
        return after(y), y

    return whole


def digests(every: bool) -> dict[str, str]:
    """A digest of each row's results: by itself, and compiled between others."""
    found: dict[str, str] = {}
    for row in ROWS:
        digest = hashlib.sha256()
        for dtype in dtypes(row, every):
            values = list(map(from_numpy, operands(row, dtype)))
            digest.update(canonical(row.apply(*values)))
            for y in nc.jit(surrounded(row.apply))(*values):
                digest.update(canonical(y))
        found[row.name] = digest.hexdigest()
    for seed in range(400 if every else 40):
        program = random_program(seed)
        results = nc.jit(program.__call__)(*program.operands(seed))
        found[f"program {seed}"] = hashlib.sha256(b"".join(map(canonical, results))).hexdigest()
    return found


def random_program(seed: int) -> Program:
    """A random program with operands of several vectors."""
    chance = random.Random(seed)
    n, m = (chance.choice((1, 2, 5, 8, 17, 33, 70)) for _ in range(2))

    def number() -> int:
        return chance.choice((chance.randint(0, 3), chance.randint(0, 63)))

    steps = [(chance.randint(0, 7), number(), number(), number()) for _ in range(chance.randint(5, 25))]
    dtype = chance.choice((nc.float32, nc.float64, nc.bfloat16, nc.float16))
    return Program(((n, m), (n, m), (m,), (n, 1)), tuple(steps), dtype, True)


if __name__ == "__main__":
    json.dump(digests("--all" in sys.argv), sys.stdout)
