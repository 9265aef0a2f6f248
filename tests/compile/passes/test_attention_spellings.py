"""Random implementations of attention, and of near misses, have the bits of their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.api.primitives import pointwise, view
from nacre.native.pool import pool
from same_bits import canonical

F = nn.functional
SCALES = ("mul", "div", "negative", "twice", "none", "queries")
MASKS = ("none", "causal", "rows and columns", "after", "bool", "added", "slope", "cap", "own scores")
FORMS = ("function", "softmax", "late", "early", "division", "logarithm")
AFTER = ("none", "turned", "heads together", "gate", "narrow")
KEPT = ("none", "none", "none", "weights", "scores", "greatest", "sum")


@dataclass(frozen=True)
class Spelling:
    """An attention of heads [B, H, L, E]: its scale, its mask, its division, and the use of its result."""

    batch: tuple[int, int]
    queries: int
    keys: int
    depth: int
    width: int
    dtype: Any
    wide: Any
    scale: str
    masks: tuple[str, ...]
    form: str
    after: str
    kept: str
    special: bool
    seed: int

    def operands(self) -> list[Any]:
        """Queries, keys, values, a boolean mask, an added mask, and a gate."""
        rng = np.random.default_rng(self.seed)
        shapes = [(self.queries, self.depth), (self.keys, self.depth), (self.keys, self.width)]
        found: list[Any] = []
        for shape in shapes:
            x = rng.standard_normal((*self.batch, *shape))
            if self.special and rng.random() < 0.5:
                x.reshape(-1)[rng.integers(0, x.size, 2)] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
            found.append(nc.asarray(x.astype(self.dtype.numpy)))
        rows = (self.queries, self.keys) if rng.random() < 0.5 else (self.batch[0], 1, 1, self.keys)
        added = rng.choice([-np.inf, 0.5, -1.0, 0.0], rows, p=[0.2, 0.3, 0.3, 0.2])
        gate = rng.standard_normal((*self.batch, self.queries, self.width))
        return [
            *found,
            nc.asarray(rng.random(rows) < 0.8),
            nc.asarray(added.astype(np.float32)),
            nc.asarray(gate.astype(np.float32)),
        ]

    def __call__(self, q: Any, k: Any, v: Any, chosen: Any, added: Any, gate: Any) -> tuple[Any, ...]:
        q, k, v = (x.astype(self.wide) for x in (q, k, v))
        if self.form == "function":
            mask = chosen if "bool" in self.masks else added if "added" in self.masks else None
            return (self.ended(F.scaled_dot_product_attention(q, k, v, mask, is_causal="causal" in self.masks), gate),)
        scores = self.scaled(q, k)
        for name in self.masks:
            scores = self.masked(name, scores, chosen, added)
        greatest = nc.max(scores, axis=-1, keepdims=True)
        weights = nc.exp(scores - greatest)
        total = nc.sum(weights, axis=-1, keepdims=True)
        mixed = {
            "softmax": lambda: F.softmax(scores) @ v,
            "late": lambda: (weights @ v) * (1.0 / total),
            "early": lambda: (weights * (1.0 / total)) @ v,
            "division": lambda: (weights @ v) / total,
            "logarithm": lambda: nc.exp(F.log_softmax(scores)) @ v,
        }[self.form]()
        kept = {"weights": weights, "scores": scores, "greatest": greatest, "sum": total}
        return (self.ended(mixed, gate), *([kept[self.kept]] if self.kept in kept else []))

    def scaled(self, q: Any, k: Any) -> Any:
        """Scores."""
        q = q * 0.3 if self.scale == "queries" else q
        scores = q @ k.mT
        return {
            "mul": lambda: scores * 0.25,
            "div": lambda: scores / 1.7,
            "negative": lambda: scores * -0.3,
            "twice": lambda: scores * 0.5 * 0.7,
        }.get(self.scale, lambda: scores)()

    def masked(self, name: str, scores: Any, chosen: Any, added: Any) -> Any:
        """Masked scores."""
        shape = (self.queries, self.keys)

        def plane(compare: Any) -> Any:
            rows, columns = (pointwise.iota(shape, n, nc.int64) for n in (0, 1))
            return view.broadcast(compare(rows, columns), scores.shape, (2, 3))

        rows, columns = nc.arange(self.queries)[:, None], nc.arange(self.keys)[None, :]
        low = -math.inf
        return {
            "causal": lambda: nc.where(plane(pointwise.ge), scores, low),
            "after": lambda: nc.where(plane(pointwise.gt), scores, low),
            "rows and columns": lambda: nc.where(rows >= columns, scores, low),
            "bool": lambda: nc.where(chosen, scores, low),
            "added": lambda: scores + added.astype(scores.dtype),
            "slope": lambda: scores + (columns - rows).astype(scores.dtype) * 0.1,
            "cap": lambda: nc.tanh(scores * 0.1) * 10.0,
            "own scores": lambda: nc.where(scores > -0.5, scores, low),
        }.get(name, lambda: scores)()

    def ended(self, mixed: Any, gate: Any) -> Any:
        """The use of the mixed values."""
        moved = nc.permute_dims(mixed, (0, 2, 1, 3))
        return {
            "turned": lambda: mixed.mT,
            "gate": lambda: mixed * F.sigmoid(gate.astype(mixed.dtype)),
            "heads together": lambda: nc.reshape(moved, (*moved.shape[:2], -1)),
            "narrow": lambda: mixed.astype(nc.bfloat16),
        }.get(self.after, lambda: mixed)()


def random_spelling(seed: int) -> Spelling:
    rng = np.random.default_rng(seed)

    def some(values: Any) -> Any:
        return values[rng.integers(len(values))]

    sizes = [some((1, 3, 8, 9, 16, 17, 33, 70)) for _ in range(4)]
    if rng.random() < 0.3:
        sizes = sizes[:1] * 4
    dtype = some((nc.float32, nc.float32, nc.float32, nc.float64, nc.bfloat16, nc.float16))
    wide = some((nc.float32, nc.float64)) if dtype.bits == 16 else dtype
    near = rng.random() < 0.4  # it only resembles attention
    masks = tuple(dict.fromkeys(some(MASKS if near else MASKS[:6]) for _ in range(some((1, 1, 2)))))
    return Spelling(
        (some((1, 2)), some((1, 3))),
        *sizes,
        dtype,
        wide,
        some(SCALES),
        masks,
        some(FORMS if near else FORMS[:4]),
        some(AFTER),
        some(KEPT) if near else "none",
        rng.random() < 0.2,
        seed,
    )


def check(spelling: Spelling) -> None:
    operands = spelling.operands()

    def loss(*xs: Any) -> Any:
        return sum(nc.tanh(y.astype(nc.float32)).sum() for y in spelling(*xs))

    which = (0, 1, 2) if spelling.seed % 3 else (0, 2, 4)

    def both(*xs: Any) -> tuple[Any, ...]:
        return (*spelling(*xs), *nc.grad(loss, which)(*xs))

    wanted = list(map(canonical, both(*operands)))
    alone, together = nc.jit(spelling), nc.jit(both)
    for threads in (1, 2, 3):
        pool().set_threads(threads)
        assert list(map(canonical, alone(*operands))) == wanted[: -len(which)], (spelling, threads)
        assert list(map(canonical, together(*operands))) == wanted, (spelling, threads)


@pytest.mark.parametrize("first", [0, 8])
def test_spellings(first: int, divided: None) -> None:
    for seed in range(first, first + 8):
        check(random_spelling(seed))


@pytest.mark.exhaustive(20)
@pytest.mark.parametrize("first", range(1000, 1400, 20))
def test_many_spellings(first: int, divided: None) -> None:
    for seed in range(first, first + 20):
        check(random_spelling(seed))
