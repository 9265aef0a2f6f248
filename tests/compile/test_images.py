"""Random programs of images have the bits of single operations, on any threads, differentiated and deployed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from compile.images import Images, random_images
from nacre.compile.pipeline import compile_graph
from nacre.deploy.ahead import prepacked
from nacre.deploy.fold import folded
from nacre.formats.program import freeze
from nacre.interpret.evaluate import to_numpy
from nacre.native.pool import pool
from nacre.trace.value import make
from same_bits import canonical

pytestmark = pytest.mark.usefixtures("divided")


def bits(values: Any) -> list[bytes]:
    return list(map(canonical, values))


def check(program: Images, mode: str) -> None:
    with nc.numerics(mode):
        operands = program.operands()
        wanted, jitted = bits(program(*operands)), nc.jit(program)
        for threads in (1, 2, 3, 2):
            pool().set_threads(threads)
            assert bits(jitted(*operands)) == wanted, (program, threads)
        match program.seed % 3:
            case 0:
                check_gradients(program, operands)
            case 1:
                assert deployed(program, operands) == wanted, program
            case _:
                pass


def check_gradients(program: Images, operands: list[Any]) -> None:
    def loss(*xs: Any) -> Any:
        return sum((nc.tanh(y.astype(nc.float32)) * 0.5).sum() for y in program(*xs))

    rng = np.random.default_rng(program.seed)
    chosen = tuple(sorted(map(int, rng.choice(len(operands), min(3, len(operands)), replace=False))))
    found = nc.grad(loss, chosen)
    assert bits(nc.jit(found)(*operands)) == bits(found(*operands)), program


def deployed(program: Images, operands: list[Any]) -> list[bytes]:
    """The results of a deployed program that contains the weights."""
    images, weights = operands[:2], operands[2:]
    frozen = freeze(lambda x, y: program(x, y, *weights), *images)
    executable = prepacked(compile_graph(folded(frozen.closed)).executable)
    held = [np.ascontiguousarray(to_numpy(x)) for x in images]
    buffers = executable.run([x.ctypes.data for x in held], {})
    return bits([make(t, b) for t, b in zip(executable.output_types, buffers, strict=True)])


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("first", [0, 4])
def test_programs_of_images(first: int, mode: str) -> None:
    for seed in range(first, first + 4):
        check(random_images(seed), mode)


@pytest.mark.exhaustive(8)
@pytest.mark.parametrize("first", range(1000, 1160, 20))
def test_many_programs_of_images(first: int) -> None:
    for seed in range(first, first + 20):
        check(random_images(seed), "fast" if seed % 3 == 0 else "exact")
