"""Random programs of public functions over all dtypes, step by step beside NumPy, and how one that fails shrinks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import nacre as nc
from compile.programs import LARGEST, SIZES, Chosen, Program, meet
from nacre.interpret.evaluate import from_numpy
from ops import samples
from public.numpy_steps import DTYPES, OPERATIONS, Operation, wide

LENGTH = 20
ELEMENTARY = 16  # units in the last place by which an elementary function of NumPy's and Nacre's may differ, in float64
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PublicProgram(Program):
    """A program of `OPERATIONS` over operands of several dtypes."""

    dtypes: tuple[Any, ...] = ()
    special: bool = False  # whether infinities and NaN are among the numbers

    def chosen(self, known: Sequence[Any], step: Chosen) -> tuple[Operation, list[int]] | None:
        """The operation of a step and the positions of its operands; None where none fits."""
        kind, a, b, _ = step
        operation = OPERATIONS[kind % len(OPERATIONS)]
        fits = [i for i, x in enumerate(known) if x.dtype.kind in operation.kinds and operation.allowed(x.shape)]
        if not fits:
            return None
        found = [fits[-1 - a % len(fits)]]
        x = known[found[0]]
        for other in operation.others:
            beside = [known[i].shape for i in found[1:]]
            fits = [i for i, y in enumerate(known) if _suits(other, x, y) and all(meet(s, y.shape) for s in beside)]
            if not fits:
                return None
            found.append(fits[-1 - b % len(fits)])
        return operation, found

    def apply(self, known: Sequence[Any], step: Chosen) -> Any:
        """The value of a step; None where none of its operands fit."""
        chosen = self.chosen(known, step)
        return None if chosen is None else chosen[0].run(nc, [known[i] for i in chosen[1]], step[3])

    def operands(self, seed: int = 0) -> list[Any]:
        """Small random numbers, and for integers those of the whole range; some of them special."""
        rng = np.random.default_rng(seed)
        return [from_numpy(self._numbers(s, d, rng)) for s, d in zip(self.shapes, self.dtypes, strict=True)]

    def _numbers(self, shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
        if dtype.is_integer and rng.random() < 0.5:
            return np.asarray(rng.integers(0, 9, shape)).astype(dtype.numpy)
        made = samples.random(dtype, shape, rng, scale=2.0)
        if dtype.is_inexact:
            made = np.where(rng.random(shape) < 0.3, np.round(made.astype(wide(dtype)) * 2) / 2, made)
            if self.special:
                made = np.where(rng.random(shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), made)
        return np.asarray(made).astype(dtype.numpy)


def _suits(other: str, x: Any, y: Any) -> bool:
    """Whether y may be beside x, as an operand of a kind."""
    if other == "=":
        return y.dtype == x.dtype and meet(x.shape, y.shape)
    if other == "b":
        return y.dtype.kind == "b" and meet(x.shape, y.shape)
    return y.dtype.kind in "iu" and len(y.shape) < 3


def random_public_program(seed: int) -> PublicProgram:
    """A program of `LENGTH` operations over two matrices, a row, a column, and a number."""
    chance = random.Random(seed)
    n, m = (chance.choice(SIZES if chance.random() < 0.1 else SIZES[1:]) for _ in range(2))
    pair = [chance.choice(DTYPES) for _ in range(3)]
    dtypes = tuple(chance.choice(pair) for _ in range(5))
    program = PublicProgram(((n, m), (n, m), (m,), (n, 1), ()), (), None, True, dtypes, chance.random() < 0.2)
    known = list(program.operands(seed))
    steps: list[Chosen] = []
    while len(steps) < LENGTH:

        def number() -> int:
            return chance.choice((chance.randint(0, 2), chance.randint(0, 63)))

        step = chance.randrange(len(OPERATIONS)), number(), number(), chance.randint(0, 63)
        value = program.apply(known, step)
        if value is not None and value.type.size <= LARGEST:
            known.append(value)
            steps.append(step)
    return replace(program, steps=tuple(steps))


def values_of(program: PublicProgram, operands: Sequence[Any]) -> Iterator[tuple[Operation, list[Any], int, Any]]:
    """Each step of an eager run: the operation, its operands, its number, and its result."""
    known = list(operands)
    for step in program.steps:
        chosen = program.chosen(known, step)
        if chosen is None:
            continue
        operation, places = chosen
        xs = [known[i] for i in places]
        y = operation.run(nc, xs, step[3])
        yield operation, xs, step[3], y
        if y.type.size <= LARGEST:
            known.append(y)


def difference(operation: Operation, xs: Sequence[Any], c: int, y: Any) -> str:
    """How a result differs from NumPy's for the same operands by more than its bound; empty where it does not."""
    arrays = [x.numpy().astype(wide(x.dtype)) for x in xs]
    with np.errstate(all="ignore"):
        wanted = np.asarray(operation.run(np, arrays, c))
        scale = None if operation.scale is None else np.abs(np.asarray(operation.scale(np, arrays, c)))
    found = y.numpy()
    if wanted.shape != found.shape:
        return f"shape {wanted.shape} required; got {found.shape}"
    if not y.dtype.is_inexact:
        same = wanted.dtype == found.dtype and np.array_equal(wanted, found)
        return "" if same else f"{wanted.dtype} {wanted.tolist()} required; got {found.dtype} {found.tolist()}"
    if (wanted.dtype.kind == "c") != y.dtype.is_complex or wanted.dtype.kind not in "fc":
        return f"{wanted.dtype} required; got {y.dtype}"
    length = max([1, *(max(x.shape, default=1) for x in xs)])
    wrong = _apart(y, found.astype(wide(y.dtype)), wanted, scale, length, operation.name)
    return f"{wanted[wrong].tolist()} required; got {found[wrong].tolist()}" if np.any(wrong) else ""


def _apart(y: Any, found: Array, wanted: Array, scale: Array | None, length: int, name: str) -> Array:
    """Where two results differ by more than rounding, in places where neither overflows on the way."""
    info = ml_dtypes.finfo(y.dtype.real.numpy if y.dtype.is_complex else y.dtype.numpy)
    eps, most, tiny = float(info.eps), float(info.max), float(info.tiny)
    units = 4 * length if scale is not None or name in ("prod", "cumulative_prod") else 4
    if y.dtype.is_complex or y.dtype == nc.float64:
        units *= ELEMENTARY / 4
    with np.errstate(all="ignore"):
        size = np.abs(wanted) if scale is None else np.broadcast_to(scale, wanted.shape)
        near = np.abs(found - wanted) <= units * eps * size + units * tiny
        large = np.isfinite(wanted) & (np.abs(wanted) > most * (1 - units * eps))  # rounds to infinity, or just not
        same = near | (np.isnan(found) & np.isnan(wanted)) | (found == wanted) | large
        if y.dtype.is_complex:
            same |= ~np.isfinite(found) & ~np.isfinite(wanted)
        if scale is not None:
            same |= ~(size < most / 4 / length)
    return ~same


def shrunk(program: PublicProgram, fails: Callable[[PublicProgram], str]) -> PublicProgram:
    """The program without the steps that it fails without."""
    again = True
    while again:
        again = False
        for k in reversed(range(len(program.steps))):
            less = replace(program, steps=program.steps[:k] + program.steps[k + 1 :])
            if fails(less):
                program, again = less, True
    return program


def text(program: PublicProgram, seed: int) -> str:
    """The program as statements, with the shapes and dtypes of its values, and a call that makes it again."""
    known = list(program.operands(seed))
    lines = [f"v{i} = tensor({x.tolist()}, {x.dtype.name})" for i, x in enumerate(known)]
    for step in program.steps:
        chosen = program.chosen(known, step)
        value = program.apply(known, step)
        if chosen is not None and value.type.size <= LARGEST:
            called = f"{chosen[0].name}({', '.join(f'v{i}' for i in chosen[1])}; {step[3]})"
            lines.append(f"v{len(known)}: {value.type} = {called}")
            known.append(value)
    return "\n".join([*lines, f"{program!r}.operands({seed})"])
