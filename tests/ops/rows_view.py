"""Rows of rearrangements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nacre.base.dtypes import DType
from nacre.ops import view
from ops import references as ref
from ops import samples
from ops.row import Row, normal, shaped
from ops.samples import Arrays


def _permute(axes: Sequence[int], shape: Sequence[int]) -> Row:
    name = f"permute-{''.join(map(str, axes))}"
    return Row(
        name,
        lambda x: view.permute(x, axes),
        lambda x: np.transpose(x, axes),
        shaped(shape),
        active=(0,),
        smooth=normal(shape),
    )


def _reshape(shape: tuple[int, ...], target: tuple[int, ...]) -> Row:
    name = f"reshape-{'x'.join(map(str, shape))}-{'x'.join(map(str, target))}"
    return Row(
        name,
        lambda x: view.reshape(x, target),
        lambda x: x.reshape(target),
        shaped(shape),
        active=(0,),
        smooth=normal(shape),
    )


def _broadcast(shape: tuple[int, ...], target: tuple[int, ...], axes: tuple[int, ...]) -> Row:
    between = [1] * len(target)
    for n, a in zip(shape, axes, strict=True):
        between[a] = n
    name = f"broadcast-{'x'.join(map(str, shape))}-{'x'.join(map(str, target))}"
    return Row(
        name,
        lambda x: view.broadcast(x, target, axes),
        lambda x: np.broadcast_to(x.reshape(between), target),
        shaped(shape),
        active=(0,),
        smooth=normal(shape),
    )


def _slice(starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Row:
    at = tuple(map(slice, starts, stops, steps))
    name = f"slice-{'-'.join(f'{a}:{b}:{c}' for a, b, c in zip(starts, stops, steps, strict=True))}"
    return Row(
        name,
        lambda x: view.slice_(x, starts, stops, steps),
        lambda x: x[at],
        shaped((6, 7)),
        active=(0,),
        smooth=normal((6, 7)),
    )


def _flip(axes: tuple[int, ...]) -> Row:
    return Row(
        f"flip-{axes}",
        lambda x: view.flip(x, axes),
        lambda x: np.flip(x, axes),
        shaped((4, 5)),
        active=(0,),
        smooth=normal((4, 5)),
    )


def _pad(shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]) -> Row:
    return Row(
        f"pad-{shape}-{low}-{high}-{interior}",
        lambda x, v: view.pad(x, v, low, high, interior),
        lambda x, v: ref.padded(x, v, low, high, interior),
        shaped(shape, ()),
        active=(0, 1),
        smooth=normal(shape, ()),
    )


def _concatenate(axis: int, *shapes: tuple[int, ...]) -> Row:
    def some(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [tuple(samples.random(dtype, s, rng) for s in shapes)]

    return Row(
        f"concatenate-{axis}-{len(shapes)}",
        lambda *xs: view.concatenate(xs, axis),
        lambda *xs: np.concatenate(xs, axis),
        some,
        active=tuple(range(len(shapes))),
        smooth=normal(*shapes),
    )


ROWS = [
    _permute((1, 0), (3, 5)),
    _permute((2, 0, 1), (2, 3, 4)),
    _permute((0, 2, 1, 3), (2, 3, 4, 5)),
    _reshape((12,), (3, 4)),
    _reshape((3, 4), (12,)),
    _reshape((2, 3, 4), (6, 2, 2)),
    _reshape((2, 3, 4), (4, 6)),
    _reshape((1, 6, 1), (2, 1, 3)),
    _reshape((1,), ()),
    _reshape((0, 3), (3, 0, 2)),
    _broadcast((), (2, 3), ()),
    _broadcast((3,), (2, 3), (1,)),
    _broadcast((3,), (3, 2), (0,)),
    _broadcast((3, 1), (2, 3, 4), (1, 2)),
    _broadcast((1,), (0,), (0,)),
    _slice((1, 0), (5, 7), (1, 1)),
    _slice((0, 1), (6, 7), (2, 3)),
    _slice((3, 2), (3, 6), (1, 1)),
    _slice((5, 0), (6, 7), (4, 7)),
    _flip((0,)),
    _flip((0, 1)),
    _pad((3, 4), (1, 0), (0, 2), (0, 0)),
    _pad((3, 4), (0, 2), (1, 0), (2, 1)),
    _pad((0, 4), (1, 0), (2, 0), (0, 0)),
    _pad((), (), (), ()),
    _concatenate(0, (2, 3), (4, 3)),
    _concatenate(1, (2, 3), (2, 0), (2, 1), (2, 5)),
    _concatenate(0, *[(1,)] * 9),
]
