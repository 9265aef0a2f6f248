"""Rows of reading and adding at computed indices, and of random bits."""

from __future__ import annotations

import numpy as np

from nacre.base.dtypes import ALL, UNSIGNED, DType
from nacre.ops import index, random
from nacre.trace.value import Value
from ops import references as ref
from ops import samples
from ops.row import NUMBERS, Inputs, Row
from ops.samples import Array, Arrays

Shape = tuple[int, ...]


def _taken(shape: Shape, at: Shape, axis: int) -> Shape:
    return (*shape[:axis], *at, *shape[axis + 1 :])


def _take(shape: Shape, at: Shape, axis: int, index_dtype: str = "int64") -> list[Row]:
    result = _taken(shape, at, axis)

    def reads(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(dtype, shape, rng), samples.indices(at, shape[axis], rng, index_dtype))]

    def adds(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        ((x, k),) = reads(dtype, rng)
        return [(x, k, samples.random(dtype, result, rng))]

    name = f"{shape}-{at}-{axis}-{index_dtype}"
    return [
        Row(
            f"take-{name}",
            lambda x, k: index.take(x, k, axis),
            lambda x, k: ref.taken(x, k, axis),
            reads,
            ALL,
            0,
            (0,),
            lambda rng: (rng.normal(size=shape), rng.integers(0, shape[axis], at)),
        ),
        Row(
            f"take_add-{name}",
            lambda x, k, u: index.take_add(x, k, u, axis),
            lambda x, k, u: ref.slices_added(x, k, u, axis),
            adds,
            NUMBERS,
            0,
            (0, 2),
            lambda rng: (
                rng.normal(size=shape),
                rng.integers(0, shape[axis], at),
                rng.normal(size=result),
            ),
        ),
    ]


def _gather(shape: Shape, count: int, axis: int, index_dtype: str = "int64") -> list[Row]:
    at = (*shape[:axis], count, *shape[axis + 1 :])

    def reads(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(dtype, shape, rng), samples.indices(at, shape[axis], rng, index_dtype))]

    def adds(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(*reads(dtype, rng)[0], samples.random(dtype, at, rng))]

    def read(x: Array, k: Array) -> Array:
        return np.take_along_axis(x, np.clip(k, 0, shape[axis] - 1).astype(np.int64), axis)

    name = f"{shape}-{count}-{axis}-{index_dtype}"
    return [
        Row(
            f"gather-{name}",
            lambda x, k: index.gather(x, k, axis),
            read,
            reads,
            ALL,
            0,
            (0,),
            lambda rng: (rng.normal(size=shape), rng.integers(0, shape[axis], at)),
        ),
        Row(
            f"scatter_add-{name}",
            lambda x, k, u: index.scatter_add(x, k, u, axis),
            lambda x, k, u: ref.added_along(x, k, u, axis),
            adds,
            NUMBERS,
            0,
            (0, 2),
            lambda rng: (
                rng.normal(size=shape),
                rng.integers(0, shape[axis], at),
                rng.normal(size=at),
            ),
        ),
    ]


def _region(starts: tuple[Array, ...], shape: Shape, sizes: Shape) -> tuple[slice, ...]:
    begin = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + m) for b, m in zip(begin, sizes, strict=True))


def _updated(x: Array, update: Array, *starts: Array) -> Array:
    y = x.copy()
    y[_region(starts, x.shape, update.shape)] = update
    return y


def _starts(*places: int) -> Arrays:
    return tuple(np.array(p, np.int64) for p in places)


def _dynamic(shape: Shape, sizes: Shape, *places: Shape) -> list[Row]:
    def reads(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(dtype, shape, rng), *_starts(*p)) for p in places]

    def writes(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        update = samples.random(dtype, sizes, rng)
        return [(samples.random(dtype, shape, rng), update, *_starts(*p)) for p in places]

    return [
        Row(
            f"dynamic_slice-{shape}-{sizes}",
            lambda x, *s: index.dynamic_slice(x, s, sizes),
            lambda x, *s: x[_region(s, shape, sizes)],
            reads,
            ALL,
            0,
            (0,),
            lambda rng: (rng.normal(size=shape), *_starts(*places[0])),
        ),
        Row(
            f"dynamic_update_slice-{shape}-{sizes}",
            lambda x, u, *s: index.dynamic_update_slice(x, u, s),
            _updated,
            writes,
            ALL,
            0,
            (0, 1),
            lambda rng: (rng.normal(size=shape), rng.normal(size=sizes), *_starts(*places[0])),
        ),
    ]


def _scatter(shape: Shape, axes: tuple[int, ...], count: int) -> Row:
    rest = tuple(n for k, n in enumerate(shape) if k not in axes)

    def places(rng: np.random.Generator) -> Arrays:
        """Several updates of one place, of which the last one stays."""
        found = [rng.integers(0, shape[a], count) for a in axes]
        for k in found:
            k[count // 2 :] = k[: count - count // 2]
        return tuple(found)

    def writes(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(dtype, shape, rng), samples.random(dtype, (count, *rest), rng), *places(rng))]

    def reference(x: Array, u: Array, *indices: Array) -> Array:
        found = x.copy()
        for p in range(count):
            each = dict(zip(axes, (k[p] for k in indices), strict=True))
            found[tuple(each.get(k, slice(None)) for k in range(x.ndim))] = u[p]
        return found

    return Row(
        f"scatter-{shape}-{axes}-{count}",
        lambda x, u, *k: index.scatter(x, u, k, axes),
        reference,
        writes,
        ALL,
        0,
        (0, 1),
        lambda rng: (rng.normal(size=shape), rng.normal(size=(count, *rest)), *places(rng)),
    )


def _scatter_reduce(shape: Shape, count: int, axis: int, operation: str) -> Row:
    """Updates of one place, and some out of range, which are ignored."""
    at = (*shape[:axis], count, *shape[axis + 1 :])
    combine = {"mul": np.multiply, "maximum": ref.larger, "minimum": ref.smaller}[operation]

    def places(rng: np.random.Generator) -> Array:
        return rng.integers(-1, shape[axis] + 1, at)

    def writes(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(dtype, shape, rng), places(rng), samples.random(dtype, at, rng))]

    def reference(x: Array, k: Array, u: Array) -> Array:
        found = ref.single(x).copy()
        for p in np.ndindex(*at):
            if 0 <= k[p] < shape[axis]:
                q = (*p[:axis], int(k[p]), *p[axis + 1 :])
                found[q] = combine(found[q], ref.single(u)[p])
        return found.astype(x.dtype)

    def smooth(rng: np.random.Generator) -> Arrays:
        values = rng.permutation(int(np.prod(shape)) + int(np.prod(at))) * 0.1 + 0.5
        x, u = values[: int(np.prod(shape))].reshape(shape), values[int(np.prod(shape)) :].reshape(at)
        return x, places(rng), u

    return Row(
        f"scatter_reduce-{operation}-{shape}-{count}-{axis}",
        lambda x, k, u: index.scatter_reduce(x, k, u, axis, operation),
        reference,
        writes,
        NUMBERS,
        0,
        (0, 2),
        smooth,
    )


def _keys(count: int) -> Inputs:
    def make(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        fixed = [(0, 0), (2**32 - 1, 2**32 - 1), (0x13198A2E, 0x03707344)]
        return [(np.array(k, np.uint32),) for k in fixed] + [(samples.random(UNSIGNED[2], (2,), rng),)]

    return make


def _bits(dtype: DType) -> Row:
    def reference(key: Array) -> Array:
        return ref.random_words(key, 35, dtype).reshape(5, 7)

    def apply(key: Value) -> Value:
        return random.random_bits(key, (5, 7), dtype)

    return Row(f"random_bits-{dtype.short}", apply, reference, _keys(4), (UNSIGNED[2],))


ROWS = [
    *_take((6, 5), (4,), 0),
    *_take((6, 5), (4, 2), 1),
    *_take((3, 6, 40), (9,), 1, "int32"),
    *_take((7,), (), 0, "uint8"),
    *_take((7,), (20,), 0, "uint64"),
    *_take((4, 3), (0,), 0),
    *_gather((6, 5), 4, 0),
    *_gather((6, 5), 9, 1, "int32"),
    *_gather((3, 6, 20), 8, 1, "uint16"),
    *_gather((7,), 30, 0),
    *_dynamic((6, 7), (2, 3), (1, 2), (-3, 100), (4, 4)),
    *_dynamic((5,), (5,), (0,), (3,)),
    *_dynamic((5, 3), (0, 2), (2, 1)),
    *_dynamic((), (), ()),
    _scatter((6, 5), (0,), 4),
    _scatter((3, 4, 5, 20), (0, 2), 8),
    _scatter((5, 7), (1,), 1),
    _scatter((4, 6), (0, 1), 9),
    *(_scatter_reduce((3, 5), 7, 1, operation) for operation in ("mul", "maximum", "minimum")),
    *(_scatter_reduce((4, 3, 2), 6, 0, operation) for operation in ("mul", "maximum", "minimum")),
    *map(_bits, UNSIGNED),
]
