"""Random programs in the style of users, as text: products, views, reductions and pointwise operations.

Axes have few sizes, mostly equal ones, so that shapes alone do not identify them; most lines read recent values.  A
line is used if it runs, so no rule of the functions is repeated here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import nacre as nc
from nacre.base.errors import Error
from nacre.interpret.evaluate import from_numpy
from nacre.nn import functional as F

NAMES: dict[str, Any] = {"nc": nc, "F": F, "np": np}
SIZES = (2, 3, 4, 5, 8, 17)
DTYPES = (nc.float32, nc.float32, nc.float32, nc.float64, nc.bfloat16, nc.float16)
LARGEST = 20_000  # elements of a value
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30, 1e-40)


@dataclass(frozen=True)
class Written:
    """A function's text, and its operands' shapes and dtypes."""

    seed: int
    operands: tuple[tuple[tuple[int, ...], Any], ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f"x{k}" for k in range(len(self.operands)))
        types = "".join(f"# x{k}: {list(shape)} {dtype}\n" for k, (shape, dtype) in enumerate(self.operands))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"{types}def f({names}):\n{body}    return ({', '.join(self.results)},)\n"

    @property
    def function(self) -> Callable[..., tuple[Any, ...]]:
        """The function itself."""
        names = dict(NAMES)
        exec(str(self), names)
        return names["f"]

    def values(self, number: int = 0) -> list[Any]:
        """Operands of small quarters, in some of them rare numbers."""
        return [
            from_numpy(_numbers(self.seed * 100 + number * 10 + k, shape, dtype))
            for k, (shape, dtype) in enumerate(self.operands)
        ]


def _numbers(seed: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if not dtype.is_float:
        return rng.integers(0, 2 if dtype is nc.bool else 9, shape).astype(dtype.numpy)
    x = np.round(rng.normal(size=shape) * 4) / 4 * rng.choice([1, -1, 0.1], shape)
    if x.size and rng.random() < 0.15:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = rng.choice(SPECIAL, 2)
    with np.errstate(over="ignore"):
        return x.astype(dtype.numpy)


def written(seed: int, lines: Sequence[int] = (3, 4, 5, 6, 8)) -> Written:
    """A program of some lines."""
    chance = random.Random(seed)
    sizes = [chance.choice(SIZES) for _ in range(chance.choice((1, 1, 2)))]
    sizes += [1] * (chance.random() < 0.25) + [0] * (chance.random() < 0.05)
    dtype = chance.choice(DTYPES)
    operands: list[tuple[tuple[int, ...], Any]] = []
    for _ in range(chance.choice((2, 3))):
        shape = tuple(chance.choice(sizes) for _ in range(chance.choice((1, 2, 2, 2, 3, 3, 4))))
        shape = shape if prod(shape) <= LARGEST else shape[:2]
        operands.append((shape, dtype if chance.random() < 0.85 else chance.choice((*DTYPES, nc.int32, nc.bool))))
    empty = Written(seed, tuple(operands), (), ())
    known = {f"x{k}": x for k, x in enumerate(empty.values())}
    writer = _Writer(chance, known, sizes)
    count = chance.choice(lines)
    for _ in range(20 * count):
        if len(writer.lines) == count:
            break
        writer.line()
    results = [list(known)[-1], *chance.choices(list(known), k=chance.choice((0, 0, 1, 1, 2)))]
    chance.shuffle(results)
    return Written(seed, tuple(operands), tuple(writer.lines), tuple(results))


def _meet(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes broadcast."""
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


class _Writer:
    """A program being written: the values by name."""

    def __init__(self, chance: random.Random, known: dict[str, Any], sizes: Sequence[int]) -> None:
        self.chance, self.known, self.sizes = chance, known, sizes
        self.lines: list[str] = []
        self.of: list[Callable[[], str]] = [
            k
            for k, often in (
                (self.pointwise, 4),
                (self.together, 6),
                (self.moved, 6),
                (self.cut, 4),
                (self.joined, 3),
                (self.spread, 2),
                (self.reshaped, 3),
                (self.picked, 2),
                (self.changed, 2),
                (self.product, 6),
                (self.contracted, 4),
                (self.reduced, 6),
                (self.along, 3),
                (self.repeated, 1),
            )
            for _ in range(often)
        ]

    def line(self) -> None:
        """Append a line that runs, if the next one does."""
        name = f"v{len(self.lines)}"
        try:
            text = f"{name} = {self.chance.choice(self.of)()}"
            names = {**NAMES, **self.known}
            exec(text, names)
        except (Error, ValueError, IndexError, ZeroDivisionError):  # also for a choice from an empty list
            return
        y = names[name]
        if isinstance(y, nc.Tensor) and prod(y.shape) <= LARGEST and len(y.shape) <= 5:
            self.known[name] = y
            self.lines.append(text)

    # ---- choices

    def one(self, *choices: Any) -> Any:
        """A random choice."""
        return self.chance.choice(choices)

    def any(self, fits: Callable[[Any], bool] = lambda x: x.dtype is not nc.bool) -> str:
        """A name, most often a recent one."""
        names = [n for n, x in self.known.items() if fits(x)]
        late = min(int(self.chance.expovariate(0.8)), len(names) - 1)
        return names[-1 - late] if self.chance.random() < 0.8 else self.chance.choice(names)

    def shape(self, x: str) -> tuple[int, ...]:
        """The shape of a name's value."""
        return self.known[x].shape

    def axis(self, x: str) -> int:
        """An axis of a value."""
        return self.chance.randrange(len(self.shape(x)))

    def axes(self, x: str) -> tuple[int, ...]:
        """Some axes of a value, in order."""
        rank = len(self.shape(x))
        return tuple(sorted(self.chance.sample(range(rank), self.chance.randint(1, rank))))

    # ---- lines

    def pointwise(self) -> str:
        x = self.any()
        return self.one(
            f"-{x}",
            f"nc.exp(nc.minimum({x}, 3.0))",
            f"{x} * 0.5 - 1",
            f"nc.tanh({x})",
            f"F.relu({x})",
            f"nc.where({x} > 0, {x}, 1)",
            f"{x}.astype(nc.float32)",
            f"{x}.astype(nc.float64)",
            f"F.gelu({x})",
            f"{x}.detach()",
        )

    def together(self) -> str:
        x = self.any()
        y = self.any(lambda y: _meet(y.shape, self.shape(x)))
        x, y = self.one((x, y), (y, x))
        return self.one(
            f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"nc.maximum({x}, {y})", f"nc.where({x} > {y}, {x}, {y})"
        )

    def moved(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        order = list(range(len(self.shape(x))))
        self.chance.shuffle(order)
        return self.one(
            f"nc.flip({x}, axis={self.axes(x)})",
            f"nc.permute_dims({x}, {tuple(order)})",
            f"nc.roll({x}, {self.one(-1, 1, 2)}, axis={self.axis(x)})",
        )

    def cut(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        keys = [
            self.one(":", ":", "::-1", "::2", "1:", ":-1", "-1", "None, :", f":{n // 2 + 1}") for n in self.shape(x)
        ]
        return f"{x}[{', '.join(keys)}]"

    def joined(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        y = self.any(lambda y: y.shape == self.shape(x) and y.dtype is self.known[x].dtype)
        ends = [(self.one(0, 0, 1), self.one(0, 0, 2)) for _ in self.shape(x)]
        return self.one(
            f"nc.concat([{x}, {y}], axis={self.axis(x)})",
            f"nc.stack([{x}, {y}], axis={self.axis(x)})",
            f"nc.pad({x}, {ends}, {self.one(0, 1)})",
        )

    def spread(self) -> str:
        x, n = self.any(lambda x: len(x.shape) < 4), self.chance.choice(self.sizes)
        at = self.chance.randint(0, len(self.shape(x)))
        wide = (*self.shape(x)[:at], n, *self.shape(x)[at:])
        return f"nc.broadcast_to(nc.expand_dims({x}, {at}), {wide})"

    def reshaped(self) -> str:
        x = self.any()
        shape = self.shape(x)
        k = self.chance.randrange(len(shape))
        part = self.one(*(n for n in range(1, shape[k] + 1) if shape[k] % n == 0))
        merged = (*shape[:k], prod(shape[k : k + 2]), *shape[k + 2 :])
        split = (*shape[:k], part, shape[k] // part, *shape[k + 1 :])
        return f"nc.reshape({x}, {self.one(merged, split, shape[::-1])})"

    def picked(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        k = self.axis(x)
        n = self.shape(x)[k]
        places = [self.chance.randrange(n) for _ in range(self.one(1, n, n, 5))]
        return self.one(
            f"nc.take({x}, nc.tensor({places}), axis={k})",
            f"nc.take_along_axis({x}, nc.argmax({x}, axis={k}, keepdims=True), axis={k})",
            f"nc.{self.one('triu', 'tril')}({x}, k={self.one(-1, 0, 1)})",
            f"nc.dynamic_slice({x}, {[self.one(0, 1) for _ in self.shape(x)]}, {self.shape(x)})",
        )

    def changed(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        key = self.one("0", "1:", "::2", "..., -1", "..., ::-1")
        return f"{x} * 1; v{len(self.lines)}[{key}] {self.one('=', '+=', '*=')} {self.one('0', f'{x}[{key}] * 2')}"

    def product(self) -> str:
        x, y = self.any(lambda x: len(x.shape) > 1), self.any(lambda x: len(x.shape) > 0)
        y = self.one(x, y)
        wide = self.one("", "", "", "", ", dtype=nc.float32", ", dtype=nc.int32")
        return f"nc.matmul({x}{self.one('', '.mT')}, {y}{self.one('', '.mT') if len(self.shape(y)) > 1 else ''}{wide})"

    def contracted(self) -> str:
        x, y = self.any(), self.any()
        y = self.one(x, y)
        pairs = [(i, j) for i, m in enumerate(self.shape(x)) for j, n in enumerate(self.shape(y)) if m == n]
        i, j = self.chance.choice(pairs)
        rest = [p for p in pairs if p[0] != i and p[1] != j]
        both = self.chance.choice(rest) if rest and self.chance.random() < 0.4 else None
        axes = ([i], [j]) if both is None else ([i, both[0]], [j, both[1]])
        return f"nc.tensordot({x}, {y}, axes={axes})"

    def reduced(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        name = self.one("sum", "sum", "max", "min", "prod", "mean", "logsumexp", "var")
        return f"nc.{name}({x}, axis={self.axes(x)}{self.one('', ', keepdims=True')})"

    def along(self) -> str:
        x = self.any(lambda x: len(x.shape) > 0)
        k = self.axis(x)
        return self.one(
            f"nc.cumulative_sum({x}, axis={k})",
            f"nc.sort({x}, axis={k})",
            f"nc.argmax({x}, axis={k})",
            f"F.softmax({x}, {k})",
            f"F.log_softmax({x}, {k})",
            f"F.softmax({x} @ {x}.mT * 0.5) @ {x}",
            f"{x} - nc.max({x}, axis={k}, keepdims=True)",
        )

    def repeated(self) -> str:
        x = self.any(lambda x: len(x.shape) > 1 and x.dtype.is_float)
        step = self.one(
            f"nc.maximum(nc.flip(h, axis=0), {x}) * 0.5",
            f"nc.tanh(h @ {x})",
            f"nc.tanh({x} @ h)",
            "nc.roll(h, 1, axis=0)",
        )
        return self.one(
            f"nc.fori_loop(0, {self.one(1, 3)}, lambda _, h: {step}, {x})",
            f"nc.scan(lambda h, z: (nc.tanh(h + z), h * z), {x}[0], {x})[{self.one(0, 1)}]",
            f"nc.cond(nc.sum({x}) > 0, lambda z: nc.flip(z, axis=0), lambda z: z * 2, {x})",
        )
