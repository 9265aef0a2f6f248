"""Programs whose bits are compared between machines: the rows of the table, alone, among others and differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

import nacre as nc
from nacre.base.dtypes import float32
from nacre.base.types import TensorType
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import derived
from nacre.ir.graph import Graph
from nacre.ops import view
from nacre.trace.value import Value
from ops import rows_pointwise
from ops.row import Row
from ops.samples import Array, generator
from ops.table import ROWS
from same_bits import dtypes, operands, surrounded

ALL = 1 << 16


@dataclass(frozen=True)
class Case:
    """A graph and operands for it."""

    label: str
    graph: Graph
    inputs: Sequence[Array]


def case(
    label: str,
    f: Callable[..., Any],
    inputs: Sequence[Array],
    types: Sequence[TensorType] | None = None,
) -> Case:
    """The graph of f, which gives one value or a tuple of them, for operands like these or of more general types."""

    def flat(*xs: Any) -> list[Any]:
        results = f(*xs)
        return list(results) if isinstance(results, tuple) else [results]

    types = types or [from_numpy(x).type for x in inputs]
    return Case(label, derived(flat, types, "program"), inputs)


def alone(rows: Sequence[Row] = ROWS) -> Iterator[Case]:
    """Each row's operation on all its samples."""
    for row in rows:
        for dtype in row.dtypes:
            for arrays in row.inputs(dtype, generator(crc32(row.name.encode()))):
                yield case(named(row, dtype, arrays), row.apply, arrays)


def of_all_bits(rows: Sequence[Row] = rows_pointwise.ROWS) -> Iterator[Case]:
    """Each pointwise operation on floats of all kinds: every one of 16 bits, as many random ones of 32 and 64."""
    rng = generator(11)
    for row in rows:
        for dtype in row.dtypes:
            if dtype.is_float:
                arrays = [of_bits(x, k, rng) for k, x in enumerate(operands(row, dtype))]
                yield case(named(row, dtype, arrays), row.apply, arrays)


def of_bits(like: Array, place: int, rng: np.random.Generator) -> Array:
    """Numbers of an array's type, but more: all there are of 16 bits at the first place, else random bits."""
    shape = (1,) * (like.ndim - 1) + (ALL,)
    if like.dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(like.dtype)
    if like.dtype.itemsize == 2 and place == 0:
        return np.arange(ALL, dtype=np.uint16).view(like.dtype).reshape(shape)
    return rng.integers(0, 2 ** (8 * like.dtype.itemsize), shape, f"u{like.dtype.itemsize}").view(like.dtype)


def among_others(rows: Sequence[Row] = ROWS) -> Iterator[Case]:
    """Each row's operation between pointwise ones."""
    for row in rows:
        few = (*dtypes(row, False), float32)
        for dtype in [d for d in row.dtypes if d in few]:
            arrays = operands(row, dtype)
            yield case(f"{named(row, dtype, arrays)} among others", surrounded(row.apply), arrays)


def of_views(rows: Sequence[Row] = ROWS) -> Iterator[Case]:
    """Each row's operation on operands that lie apart in memory, from the last to the first, their axes exchanged."""
    for row in rows:
        for dtype in dtypes(row, False):
            arrays = operands(row, dtype)
            memory = [np.repeat(np.flip(x.T), 2, axis=-1) if x.ndim else x for x in arrays]

            def apply(*xs: Value, row: Row = row) -> Value:
                return row.apply(*map(found, xs))

            yield case(f"{named(row, dtype, arrays)} of views", apply, memory)


def found(whole: Value) -> Value:
    """The view of what `of_views` has put into memory."""
    shape = whole.type.shape
    if not shape:
        return whole
    steps = (1,) * (len(shape) - 1) + (2,)
    inner = view.flip(view.slice_(whole, (0,) * len(shape), shape, steps), tuple(range(len(shape))))
    return view.permute(inner, tuple(reversed(range(len(shape)))))


def derivatives(rows: Sequence[Row] = ROWS) -> Iterator[Case]:
    """The cotangents of each row's active operands."""
    for row in rows:
        if not row.active or float32 not in row.dtypes:
            continue
        arrays = operands(row, float32)

        def pulled(*xs: Any, row: Row = row) -> Any:
            def f(*active: Any) -> Any:
                given = dict(zip(row.active, active, strict=True))
                return row.apply(*(given.get(k, x) for k, x in enumerate(xs)))

            y, pullback = nc.vjp(f, *(xs[k] for k in row.active))
            return pullback(y)

        yield case(f"{named(row, float32, arrays)} differentiated", pulled, arrays)


def named(row: Row, dtype: Any, arrays: Sequence[Array]) -> str:
    return f"{row.name} of {dtype.name} {[x.shape for x in arrays]}"


def difference(program: Case, found: Sequence[bytes]) -> str | None:
    """Where another machine's results are not this one's, bit for bit but for which NaN it is."""
    here = EXECUTOR.execute(program.graph, [from_numpy(x) for x in program.inputs])
    for k, (value, data) in enumerate(zip(here, found, strict=True)):
        mine = to_numpy(value)
        other = np.frombuffer(data, mine.dtype).reshape(mine.shape)
        places = np.argwhere(bits(mine) != bits(other))
        if len(places):
            shown = [(p.tolist(), mine[tuple(p)], other[tuple(p)]) for p in places[:3]]
            return f"{program.label}: result {k}: {len(places)} of {mine.size}: (place, here, there) {shown}"
    return None


def bits(x: Array) -> Array:
    """The bits of x as integers, the same ones for every NaN."""
    found = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)
    if x.dtype.kind in "biu":
        return found
    with np.errstate(invalid="ignore"):  # NaNs that signal
        return np.where(np.isnan(x), np.iinfo(found.dtype).max, found)
