"""The machine's measured limits: multiply-adds per second, and bytes per second by the size of the working set.

One kernel keeps the vector registers busy with fused multiply-adds; the others repeatedly read, write and copy memory.
They run like programs, on the same threads.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.entry.driver import driver_text
from nacre.native.engine import host_target
from nacre.native.isa import BY_NAME, Isa
from nacre.native.pool import pool
from nacre.runtime.buffer import Buffer, allocate
from nacre.runtime.executable import Code, Executable
from nacre.runtime.plan import Launch, Number, Plan, PlannedValue, Pointer

SIZES = (*(16 * 1024 * 8**k for k in range(5)), 1 << 28)  # bytes moved, from the L1 cache's size to memory
MULTIPLIES = 40_000  # rounds of the arithmetic kernel: a fraction of a millisecond
MOVED = 1 << 25  # least bytes that a measurement moves
ENOUGH = 10**9  # a step's cost that makes all threads work

# acc <- acc * x + y, in enough independent chains to hide an instruction's latency
ARITHMETIC = """
declare <{lanes} x {scalar}> @llvm.fma.v{lanes}f{bits}(<{lanes} x {scalar}>, <{lanes} x {scalar}>, <{lanes} x {scalar}>)
define void @multiply(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {attributes} {{
entry:
  %out.base = load ptr, ptr %args
  %rounds.at = getelementptr i64, ptr %args, i64 1
  %rounds = load i64, ptr %rounds.at
  %out.offset = mul i64 %lo, 64
  %out = getelementptr i8, ptr %out.base, i64 %out.offset
  %x = load <{lanes} x {scalar}>, ptr %out, align 8
  %items = sub i64 %hi, %lo
  %total = mul i64 %items, %rounds
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  {phis}
  %more = icmp slt i64 %i, %total
  br i1 %more, label %body, label %end
body:
  {steps}
  %next = add i64 %i, 1
  br label %head
end:
  {sums}
  store <{lanes} x {scalar}> %sum, ptr %out, align 8
  ret void
}}
"""

# each item reads (writes, copies) its slice of memory several times
MOVING = """
define void @move(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {attributes} {{
entry:
  %from = load ptr, ptr %args
  %to.at = getelementptr i64, ptr %args, i64 1
  %to = load ptr, ptr %to.at
  %slice.at = getelementptr i64, ptr %args, i64 2
  %slice = load i64, ptr %slice.at
  %times.at = getelementptr i64, ptr %args, i64 3
  %times = load i64, ptr %times.at
  %start = mul i64 %lo, %slice
  %stop = mul i64 %hi, %slice
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r.next, %rounded ]
  {outer}
  %again = icmp slt i64 %r, %times
  br i1 %again, label %head, label %end
head:
  %i = phi i64 [ %start, %round ], [ %next, %body ]
  {inner}
  %more = icmp slt i64 %i, %stop
  br i1 %more, label %body, label %rounded
body:
  {work}
  %next = add i64 %i, {step}
  br label %head
rounded:
  %r.next = add i64 %r, 1
  br label %round
end:
  {result}
  ret void
}}
!0 = !{{ i32 1 }}
"""
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
    flops = {"f32": _arithmetic(isa, "float", 32, threads), "f64": _arithmetic(isa, "double", 64, threads)}
    rates = [max(_moving(isa, kind, size, threads) for kind in ("read", "write", "copy")) for size in SIZES]
    before = _known.get((isa.name, threads))
    if before is not None:
        flops = {dtype: max(rate, before.flops[dtype]) for dtype, rate in flops.items()}
        rates = [max(rate, old) for rate, (_, old) in zip(rates, before.bandwidths, strict=True)]
    least_first = np.maximum.accumulate(rates[::-1])[::-1]  # a smaller size is at least as fast as a larger one
    found = Ceilings(isa.name, threads, flops, tuple(zip(SIZES, map(float, least_first), strict=True)))
    _known[isa.name, threads] = found
    return found


def _arithmetic(isa: Isa, scalar: str, bits: int, threads: int) -> float:
    """Floating-point operations per second of fused multiply-adds alone."""
    lanes, chains = isa.lanes(scalar), 12 if isa.registers == 16 else 24
    ty = f"<{lanes} x {scalar}>"
    phis = [f"%a{k} = phi {ty} [ %x, %entry ], [ %b{k}, %body ]" for k in range(chains)]
    steps = [f"%b{k} = call {ty} @llvm.fma.v{lanes}f{bits}({ty} %a{k}, {ty} %x, {ty} %x)" for k in range(chains)]
    sums = [f"%s{k} = fadd {ty} %{'x' if k == 0 else f's{k - 1}'}, %a{k}" for k in range(chains)]
    sums[-1] = sums[-1].replace(f"%s{chains - 1} =", "%sum =")
    text = ARITHMETIC.format(
        lanes=lanes,
        scalar=scalar,
        bits=bits,
        attributes=isa.attributes,
        phis="\n  ".join(phis),
        steps="\n  ".join(steps),
        sums="\n  ".join(sums),
    )
    items = 4 * threads
    program = _program(Code(text, "multiply"), (Pointer(0), Number(MULTIPLIES)), items, 1, (64 * items,))
    return 2.0 * items * MULTIPLIES * chains * lanes / _best(program, [allocate(64 * items)])


def _moving(isa: Isa, kind: str, size: int, threads: int) -> float:
    """Bytes a second of reading, writing or copying, where `size` bytes move in all, again and again."""
    lanes = isa.lanes("float")
    ty, width = f"<{lanes} x float>", lanes * 4
    parts: dict[str, list[str]] = {name: [] for name in ("outer", "inner", "work", "result")}
    for k in range(AT_ONCE):
        parts["work"].append(f"%o{k} = add i64 %i, {k * width}")
        if kind != "write":
            parts["work"] += [f"%p{k} = getelementptr i8, ptr %from, i64 %o{k}", f"%v{k} = load {ty}, ptr %p{k}"]
        if kind != "read":
            value = f"%v{k}" if kind == "copy" else "zeroinitializer"
            aside = ", !nontemporal !0" if size == SIZES[-1] else ""  # memory beyond the caches is not read first
            parts["work"] += [f"%q{k} = getelementptr i8, ptr %to, i64 %o{k}", f"store {ty} {value}, ptr %q{k}{aside}"]
        else:
            parts["outer"].append(f"%c{k} = phi {ty} [ zeroinitializer, %entry ], [ %d{k}, %rounded ]")
            parts["inner"].append(f"%d{k} = phi {ty} [ %c{k}, %round ], [ %e{k}, %body ]")
            parts["work"].append(f"%e{k} = fadd {ty} %d{k}, %v{k}")
            parts["result"].append(f"%s{k} = fadd {ty} %{'c0' if k == 0 else f's{k - 1}'}, %c{k}")
    if kind == "read":
        parts["result"].append(f"store {ty} %s{AT_ONCE - 1}, ptr %scratch")
    step = AT_ONCE * width
    text = MOVING.format(attributes=isa.attributes, step=step, **{k: "\n  ".join(v) for k, v in parts.items()})
    footprint = size // 2 if kind == "copy" else size
    slice_ = max(step, footprint // threads // step * step)
    times = max(1, MOVED // size)
    slots = Pointer(0), Pointer(1), Number(slice_), Number(times)
    nbytes = slice_ * threads
    program = _program(Code(text, "move"), slots, threads, 1, (nbytes, nbytes))
    buffers = [allocate(nbytes) for _ in range(2)]
    for b in buffers:
        ctypes.memset(b.address, 0, nbytes)
    return times * nbytes * (2 if kind == "copy" else 1) / _best(program, buffers)


def _program(
    code: Code, slots: tuple[Pointer | Number, ...], extent: int, grain: int, buffers: Sequence[int]
) -> Executable:
    """An executable of one launch, whose buffers are all inputs."""
    launch = Launch(0, code.name, slots, extent, ENOUGH, 64, (), tuple(range(len(buffers))), grain)
    values = tuple(PlannedValue("input", n) for n in buffers)
    plan = Plan(values, (launch,), len(buffers), 0, (0,))
    return Executable((code,), plan, (), (), (), driver_text(), host_target())


def _best(program: Executable, buffers: Sequence[Buffer], rounds: int = 7) -> float:
    """The least seconds of some runs."""
    least = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        program.run([b.address for b in buffers], {})
        least = min(least, time.perf_counter() - start)
    return least
