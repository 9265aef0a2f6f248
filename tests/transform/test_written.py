"""Random programs in typical user code: the same bits compiled, differentiated, in batches and with variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import GradientError, TraceError
from nacre.compile.fusion import fuse
from nacre.compile.passes import rematerialise, strip_mining
from nacre.interpret.evaluate import from_numpy
from nacre.native.pool import pool
from same_bits import canonical
from transform.written import Written, written

Check = Callable[[Written], None]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the code for large values for small ones, too."""
    for name, value in {
        "LARGE": 1,
        "NEAR": 0,
        "FEWEST": 2,
        "WHOLE": 2,
        "WIDE": 3,
        "SMALL": 1.01,
        "STREAMED": ((1 << 60, 1),),
    }.items():
        monkeypatch.setattr(strip_mining, name, value)
    monkeypatch.setattr(fuse, "LARGE", 64)
    for module in (fuse, rematerialise):
        monkeypatch.setattr(module, "FAR", 2)


def bits(found: Any) -> list[bytes]:
    return list(map(canonical, found))


def compiled(program: Written) -> None:
    f, values = program.function, program.values()
    wanted, g = bits(f(*values)), nc.jit(f)
    for threads in (1, 1, 3):
        pool().set_threads(threads)
        assert bits(g(*values)) == wanted, f"{threads} threads\n{program}"
    assert bits(values) == bits(program.values()), f"operands\n{program}"


def differentiated(program: Written) -> None:
    f, values = program.function, program.values()
    which = tuple(k for k, x in enumerate(values) if x.dtype.is_float)

    def loss(*xs: Any) -> Any:
        found = [nc.sum(nc.tanh(y.astype(nc.float32)) * 0.5) for y in f(*xs) if y.dtype.is_float]
        return sum(found, nc.tensor(0.0))

    if not which:
        return
    wanted = bits(nc.grad(loss, which)(*values))
    assert bits(nc.jit(nc.grad(loss, which))(*values)) == wanted, f"jit of grad\n{program}"
    assert bits(nc.grad(nc.jit(loss), which)(*values)) == wanted, f"grad of jit\n{program}"


def batched(program: Written) -> None:
    f, examples = program.function, [program.values(k) for k in range(3)]
    stacks = [from_numpy(np.stack([x.numpy() for x in xs], 1)) for xs in zip(*examples, strict=True)]
    g = nc.vmap(f, in_axes=(1,) * len(stacks))
    whole = g(*stacks)
    assert bits(nc.jit(g)(*stacks)) == bits(whole), f"jit of vmap\n{program}"
    for k, xs in enumerate(examples):
        assert bits(y.numpy()[k] for y in whole) == bits(f(*xs)), f"vmap\n{program}"


def in_place(program: Written) -> None:
    """Results replace the values of the variables of their type, three times."""
    f, values = program.function, program.values()
    free = list(range(len(values)))
    places: dict[int, int] = {}
    for k, y in enumerate(f(*values)):
        place = next((j for j in free if values[j].type is y.type), None)
        if place is not None:
            free.remove(place)
            places[k] = place

    def rounds(transform: Callable[[Any], Any]) -> list[bytes]:
        cells = [nc.Variable(x) for x in program.values()]

        def step() -> Any:
            found = f(*[c.value for c in cells])
            for k, place in places.items():
                cells[place].assign(found[k])
            return tuple(y for k, y in enumerate(found) if k not in places)

        once = transform(step)
        return [b for _ in range(3) for b in (*bits(once()), *bits(c.value for c in cells))]

    assert rounds(nc.jit) == rounds(lambda step: step), f"variables\n{program}"


CHECKS: dict[str, Check] = {
    "compiled": compiled,
    "differentiated": differentiated,
    "batched": batched,
    "in place": in_place,
}


def check(name: str, first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            CHECKS[name](written(seed))
        except (TraceError, GradientError):
            continue


@pytest.mark.parametrize("name", CHECKS)
def test_programs(name: str, divided: None) -> None:
    check(name, 0, 20)


def test_programs_of_large_values(small: None, divided: None) -> None:
    check("compiled", 1000, 30)


@pytest.mark.exhaustive(4)
@pytest.mark.parametrize("first", range(10_000, 10_400, 100))
@pytest.mark.parametrize("name", CHECKS)
def test_many_programs(name: str, first: int, divided: None) -> None:
    check(name, first, 100)


@pytest.mark.exhaustive(4)
@pytest.mark.parametrize("first", range(20_000, 20_240, 60))
@pytest.mark.parametrize("name", ["compiled", "differentiated"])
def test_many_programs_of_large_values(name: str, first: int, small: None, divided: None) -> None:
    check(name, first, 60)
