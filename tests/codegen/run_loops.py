"""Compile a kernel, run it by the kernel ABI in chunks, and compare with the interpreter to the bit."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from nacre.base.dims import evaluate
from nacre.base.dtypes import DType
from nacre.base.errors import DeviceError
from nacre.codegen.loops.kernel import Generated, generate
from nacre.kernel import interpret
from nacre.kernel.ast import Kernel
from nacre.native import engine
from nacre.native.isa import BY_NAME

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def machines() -> list[str]:
    """The instruction sets that this machine can run."""
    found = []
    for name in ("avx512", "avx2", "neon"):
        try:
            engine.host_target(name)
        except DeviceError:
            continue
        found.append(name)
    return found


ISAS = machines()


@lru_cache(maxsize=256)
def compiled(
    kernel: Kernel, isa: str, streams: frozenset[str] = frozenset()
) -> tuple[Generated, engine.Library, object]:
    made = generate(kernel, BY_NAME[isa], streams)
    library = engine.load(engine.compile_text(made.text, engine.host_target(isa)))
    return made, library, FUNCTION(library.address(made.name))


def execute(
    kernel: Kernel,
    isa: str,
    inputs: Sequence[np.ndarray],
    sizes: Mapping[str, int],
    cuts: Sequence[int] = (),
    outputs: Sequence[np.ndarray] | None = None,
    streams: frozenset[str] = frozenset(),
) -> list[np.ndarray]:
    """Run compiled code; `cuts` split the work items (each taken modulo their number plus one)."""
    made, _, function = compiled(kernel, isa, streams)
    if outputs is None:
        outputs = [np.zeros([evaluate(s, sizes) for s in b.shape], b.dtype.numpy) for b in kernel.outputs]
    slots = [x.ctypes.data for x in (*inputs, *outputs)] + [evaluate(s, sizes) for s in made.sizes]
    args = (ctypes.c_int64 * len(slots))(*slots)
    items = evaluate(made.extent, sizes)
    size = evaluate(made.scratch, sizes)
    room = np.full(size + 192, 0xAB, np.uint8)
    start = (room.ctypes.data + 63) // 64 * 64
    points = sorted({0, items, *(c % (items + 1) for c in cuts)})
    for lo, hi in pairwise(points):
        function(ctypes.addressof(args), lo, hi, start)
    used = start - room.ctypes.data + size
    assert (room[used:] == 0xAB).all(), "scratch overrun"
    return list(outputs)


def canonical(x: np.ndarray) -> np.ndarray:
    """The bits of an array, with one NaN for all."""
    if x.dtype.kind in "iub" and x.dtype.names is None and x.dtype != np.dtype("V2"):
        return x.view(np.uint8) if x.dtype == np.bool_ else x
    bits = x.view(np.dtype(f"uint{8 * x.dtype.itemsize}")).copy()
    bits[np.isnan(x.astype(np.float64))] = 12345
    return bits


def check(
    kernel: Kernel,
    inputs: Sequence[np.ndarray],
    sizes: Mapping[str, int] | None = None,
    cuts: Sequence[int] = (),
    streams: frozenset[str] = frozenset(),
) -> list[np.ndarray]:
    """Compiled code on every instruction set, whole and in chunks, equals the interpreter."""
    sizes = sizes or {}
    expected = interpret.run(kernel, inputs, sizes)
    for isa in ISAS:
        for split in ((), cuts) if cuts else ((),):
            found = execute(kernel, isa, inputs, sizes, split, streams=streams)
            for b, x, y in zip(kernel.outputs, found, expected, strict=True):
                same = canonical(x) == canonical(y)
                if not same.all():
                    at = tuple(int(i[0]) for i in np.nonzero(~same))
                    pytest.fail(
                        f"{kernel.name} on {isa}, sizes {sizes}, split {split}: {b.name}{list(at)} is "
                        f"{x[at]!r}, not {y[at]!r} ({np.count_nonzero(~same)} of {same.size})"
                    )
    return expected


SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 3e38, 0.5, 1e10)


def numbers(shape: Sequence[int], dtype: DType, seed: int = 0, special: bool = True) -> np.ndarray:
    """Random numbers of a dtype; with `special`, one in eight a zero, an infinity, a NaN, a subnormal …"""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        wild = rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wild, rng.integers(0, 9, shape).astype(dtype.numpy))
    x = rng.standard_normal(shape) * 4
    if special:
        x = np.where(rng.random(shape) < 0.12, rng.choice(SPECIAL, shape), x)
    with np.errstate(over="ignore"):
        return x.astype(dtype.numpy)
