"""The machine's measured limits: multiply-adds per second, and bytes per second by the size of the working set.

One kernel keeps the vector registers busy with fused multiply-adds; the others repeatedly read, write and copy memory.
They run like programs, on the same threads.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from functools import reduce

import numpy as np

from nacre.base.records import dataclass
from nacre.native.engine import host_target
from nacre.native.isa import BY_NAME, Isa
from nacre.native.llvm_types import vec
from nacre.native.llvm_values import Val
from nacre.native.pool import pool
from nacre.native.text import Function, ModuleText
from nacre.runtime.buffer import Buffer, allocate
from nacre.runtime.executable import Code, Executable
from nacre.runtime.plan import Launch, Number, Plan, PlannedValue, Pointer

SIZES = (*(16 * 1024 * 8**k for k in range(5)), 1 << 28)  # bytes moved, from the L1 cache's size to memory
MULTIPLIES = 40_000  # rounds of the arithmetic kernel: a fraction of a millisecond
MOVED = 1 << 25  # least bytes that a measurement moves
ENOUGH = 10**9  # a step's cost that makes all threads work

AT_ONCE = 8  # vectors in one round of a copying loop


@dataclass(frozen=True)
class Ceilings:
    """The measured limits: floating-point operations per second by dtype, bytes per second by working set."""

    isa: str
    threads: int
    flops: dict[str, float]
    bandwidths: tuple[tuple[int, float], ...]

    def bandwidth(self, nbytes: float) -> float:
        """Bytes per second for a kernel with a working set of this size, interpolated between the measured sizes."""
        sizes, rates = zip(*self.bandwidths, strict=True)
        return float(np.interp(math.log(max(nbytes, 1)), np.log(sizes), rates))

    @property
    def memory(self) -> float:
        """Bytes per second to and from memory, beyond every cache."""
        return self.bandwidths[-1][1]

    def floor(self, flops: float, nbytes: float, dtype: str = "f32") -> float:
        """The least time in seconds for this amount of arithmetic and memory traffic."""
        return max(flops / self.flops.get(dtype, self.flops["f32"]), nbytes / self.bandwidth(nbytes))


_known: dict[tuple[str, int], Ceilings] = {}


def ceilings() -> Ceilings:
    """This machine's limits for the current number of threads; measured once (about a second), then cached.

    >>> from nacre.inspect.ceilings import ceilings
    >>> limits = ceilings()
    >>> limits.flops["f32"] > 1e9, limits.memory > 1e8
    (True, True)
    """
    return _known.get((host_target().isa, pool().threads)) or measure()


def measure() -> Ceilings:
    """Measure this machine's limits again, and combine them with the highest rates of this process so far."""
    isa, threads = BY_NAME[host_target().isa], pool().threads
    flops = {"f32": _arithmetic(isa, "float", threads), "f64": _arithmetic(isa, "double", threads)}
    rates = [max(_moving(isa, kind, size, threads) for kind in ("read", "write", "copy")) for size in SIZES]
    before = _known.get((isa.name, threads))
    if before is not None:
        flops = {dtype: max(rate, before.flops[dtype]) for dtype, rate in flops.items()}
        rates = [max(rate, old) for rate, (_, old) in zip(rates, before.bandwidths, strict=True)]
    least_first = np.maximum.accumulate(rates[::-1])[::-1]  # a smaller size is at least as fast as a larger one
    found = Ceilings(isa.name, threads, flops, tuple(zip(SIZES, map(float, least_first), strict=True)))
    _known[isa.name, threads] = found
    return found


def _arithmetic(isa: Isa, scalar: str, threads: int) -> float:
    """Floating-point operations per second of fused multiply-adds alone."""
    chains, items = 12 if isa.registers == 16 else 24, 4 * threads
    code = _multiplying(isa, scalar, chains)
    program = _program(code, (Pointer(0), Number(MULTIPLIES)), items, 1, (64 * items,))
    return 2.0 * items * MULTIPLIES * chains * isa.lanes(scalar) / _best(program, [allocate(64 * items)])


def _moving(isa: Isa, kind: str, size: int, threads: int) -> float:
    """Bytes a second of reading, writing or copying, where `size` bytes move in all, again and again."""
    step = AT_ONCE * isa.lanes("float") * 4
    footprint = size // 2 if kind == "copy" else size
    slice_ = max(step, footprint // threads // step * step)
    times = max(1, MOVED // size)
    slots = Pointer(0), Pointer(1), Number(slice_), Number(times)
    nbytes = slice_ * threads
    # memory beyond the caches is not read before it is written
    program = _program(_moving_code(isa, kind, size == SIZES[-1]), slots, threads, 1, (nbytes, nbytes))
    buffers = [allocate(nbytes) for _ in range(2)]
    for b in buffers:
        ctypes.memset(b.address, 1, nbytes)  # some processors write zeros over zeros without the memory's traffic
    return times * nbytes * (2 if kind == "copy" else 1) / _best(program, buffers)


def _kernel(name: str, isa: Isa) -> Function:
    """The beginning of a kernel, as plans launch it."""
    parameters = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
    return ModuleText(name).function(name, "void", parameters, isa=isa)


def _argument(f: Function, k: int, ty: str) -> Val:
    """An argument of a launch."""
    return f.load(f.gep(f["args"], k, "i64"), ty)


def _multiplying(isa: Isa, scalar: str, chains: int) -> Code:
    """x <- x * y + y, in enough independent chains to hide an instruction's latency."""
    f, ty = _kernel("multiply", isa), vec(scalar, isa.lanes(scalar))
    out = f.gep(_argument(f, 0, "ptr"), f.mul(f["lo"], 64))
    rounds, y = _argument(f, 1, "i64"), f.load(out, ty, align=8)
    with f.loop("i", 0, f.mul(f.sub(f["hi"], f["lo"]), rounds), carry=[y] * chains) as loop:
        loop.next(*(f.fma(x, y, y) for x in loop.carried))
    f.store(reduce(f.fadd, loop.results, y), out, align=8)
    f.ret()
    return Code(f.module.text(), "multiply")


def _moving_code(isa: Isa, kind: str, aside: bool) -> Code:
    """Each item reads, writes or copies its slice of memory several times; `aside` writes past the caches."""
    f, ty = _kernel("move", isa), vec("float", isa.lanes("float"))
    width = isa.lanes("float") * 4
    from_, to, slice_, times = (_argument(f, k, t) for k, t in enumerate(("ptr", "ptr", "i64", "i64")))
    start, stop = f.mul(f["lo"], slice_), f.mul(f["hi"], slice_)
    written = f.load(from_, ty, width)
    sums = [f.zero(ty)] * AT_ONCE if kind == "read" else []
    with f.loop("round", 0, times, carry=sums) as outer:
        with f.loop("i", start, stop, AT_ONCE * width, carry=outer.carried) as inner:
            found = list[Val]()
            for k in range(AT_ONCE):
                at = f.add(inner.index, k * width)
                found.append(written if kind == "write" else f.load(f.gep(from_, at), ty, width))
                if kind != "read":
                    f.store(found[k], f.gep(to, at), width, nontemporal=aside)
            inner.next(*map(f.fadd, inner.carried, found))
        outer.next(*inner.results)
    if kind == "read":
        f.store(reduce(f.fadd, outer.results), f["scratch"], width)
    f.ret()
    return Code(f.module.text(), "move")


def _program(
    code: Code, slots: tuple[Pointer | Number, ...], extent: int, grain: int, buffers: Sequence[int]
) -> Executable:
    """An executable of one launch, whose buffers are all inputs."""
    launch = Launch(0, code.name, slots, extent, ENOUGH, 64, (), tuple(range(len(buffers))), grain)
    values = tuple(PlannedValue("input", n) for n in buffers)
    plan = Plan(values, (launch,), len(buffers), 0, (0,))
    return Executable((code,), plan, (), (), (), host_target())


def _best(program: Executable, buffers: Sequence[Buffer], rounds: int = 7) -> float:
    """The least seconds of some runs."""
    least = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        program.run([b.address for b in buffers], {})
        least = min(least, time.perf_counter() - start)
    return least
