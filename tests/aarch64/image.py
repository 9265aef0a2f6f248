"""Compiled programs run by an emulated AArch64 machine: one static executable without libc.

The executable holds the kernels of many programs, the native driver, and a start that reads one
block of memory from standard input: operands, constants and the tables that bind plans, at the
addresses that they are written for.  It runs each program and writes all outputs.  There is one
thread; where a plan is for several, it takes all chunks of the work one after the other.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from nacre.native import cache
from nacre.native.engine import cross_target
from nacre.runtime.executable import Code, Executable
from nacre.runtime.plan import Binding, aligned
from nacre.runtime.texts import driver_text
from ops.samples import Array

NEON = cross_target("neon")
EMULATOR = "qemu-aarch64"
TOOLS = "aarch64-linux-gnu-"
NEEDED = (EMULATOR, TOOLS + "as", TOOLS + "ld", TOOLS + "nm")

MEMORY = 0x10_0000_0000  # where the block lies, then the outputs, then the workspace
PART = 0x1000_0000
OUTPUTS, WORKSPACE = MEMORY + PART, MEMORY + 2 * PART
HEADER_WORDS = 2  # programs, bytes of outputs
CALL_WORDS = 3  # of each program: descriptor, bases, workspace

START = f"""
        .global _start, memcpy, memset, pool_functions
_start: ldr     x0, ={MEMORY}           // mmap, private, fixed, anonymous, not reserved
        mov     x1, #{3 * PART}
        mov     x2, #3
        mov     x3, #0x4032
        mov     x4, #-1
        mov     x5, #0
        mov     x8, #222
        svc     #0
        mov     x20, x0
        mov     x21, x0
read:   mov     x0, #0
        mov     x1, x21
        mov     x2, #0x100000
        mov     x8, #63
        svc     #0
        add     x21, x21, x0
        cmp     x0, #0
        b.gt    read
        b.lt    fail
        ldp     x22, x23, [x20], #16    // programs, bytes of outputs
        ldr     x24, ={OUTPUTS}
        mov     x0, x24                 // what is not written is no number by chance
        mov     x1, #0xa5
        mov     x2, x23
        bl      memset
next:   cbz     x22, write
        ldp     x0, x1, [x20], #16
        ldr     x2, [x20], #8
        bl      nacre.run
        sub     x22, x22, #1
        b       next
write:  cbz     x23, done
        mov     x0, #1
        mov     x1, x24
        mov     x2, x23
        mov     x8, #64
        svc     #0
        cmp     x0, #0
        b.le    fail
        add     x24, x24, x0
        sub     x23, x23, x0
        b       write
fail:   mov     x0, #1
        b       exit
done:   mov     x0, #0
exit:   mov     x8, #94
        svc     #0

memcpy: mov     x3, x0
1:      cbz     x2, 2f
        ldrb    w4, [x1], #1
        strb    w4, [x3], #1
        sub     x2, x2, #1
        b       1b
2:      ret

memset: mov     x3, x0
1:      cbz     x2, 2f
        strb    w1, [x3], #1
        sub     x2, x2, #1
        b       1b
2:      ret

enter:                                  // be the first thread of as many as the plan is for
        ret

share:                                  // all chunks, one after the other
        stp     x29, x30, [sp, #-48]!
        stp     x25, x26, [sp, #16]
        stp     x27, x28, [sp, #32]
        mov     x25, x0
        mov     x26, x1
        mov     x27, x2
        mov     x28, #0
1:      cmp     x28, x27
        b.ge    2f
        mov     x0, x26
        mov     x1, x28
        mov     x2, #0
        blr     x25
        add     x28, x28, #1
        b       1b
2:      ldp     x27, x28, [sp, #32]
        ldp     x25, x26, [sp, #16]
        ldp     x29, x30, [sp], #48
        ret

leave:  ret

        .data
        .balign 8
pool_functions:
        .quad   enter, share, leave
"""


@dataclass(frozen=True)
class Job:
    """A program compiled for NEON, the operands to run it on, and the threads that its plan is for."""

    executable: Executable
    inputs: Sequence[Array]
    threads: int = 1


def missing() -> list[str]:
    """The tools that are not on this machine."""
    return [name for name in NEEDED if shutil.which(name) is None]


def run(jobs: Sequence[Job], folder: Path) -> list[list[bytes]]:
    """The bytes of each job's outputs; `folder` takes the files that are made on the way."""
    codes = {code: None for job in jobs for code in job.executable.codes}
    addresses, pool = link(codes, folder)
    block = Block(len(jobs), pool)
    for job in jobs:
        block.add(job, [addresses[code] for code in job.executable.codes])
    result = subprocess.run([EMULATOR, folder / "image"], input=block.finish(), capture_output=True)
    if result.returncode:
        raise RuntimeError(f"{EMULATOR}: status {result.returncode}: {result.stderr.decode()}")
    return block.split(result.stdout)


# ---- the executable


def link(codes: Iterable[Code], folder: Path) -> tuple[Mapping[Code, int], int]:
    """Write the executable of the kernels; returns their addresses, and that of the pool's functions."""
    named = {code: distinct(code) for code in codes}
    texts = sorted({code.text for code in named.values()} | {driver_text(NEON)})
    paths = [folder / "start.o"]
    for k, image in enumerate(cache.compile_all(texts, NEON)):
        paths.append(folder / f"{k}.o")
        paths[-1].write_bytes(image)
    (folder / "start.s").write_text(START)
    (folder / "objects").write_text("\n".join(map(str, paths)))
    tool("as", folder / "start.s", "-o", folder / "start.o")
    tool("ld", "-static", f"@{folder / 'objects'}", "-o", folder / "image")
    listed = (line.split() for line in tool("nm", folder / "image").splitlines())
    symbols = {name: int(address, 16) for address, _, name in listed}
    return {code: symbols[renamed.name] for code, renamed in named.items()}, symbols["pool_functions"]


def tool(name: str, *arguments: str | Path) -> str:
    """What one of the binary tools prints."""
    done = subprocess.run([TOOLS + name, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{TOOLS}{name}: {done.stderr}")
    return done.stdout


def distinct(code: Code) -> Code:
    """A kernel whose names no other kernel has."""
    mark = sha256(code.text.encode()).hexdigest()[:16]
    defined = re.findall(r"^define (?!internal|private).*?@([\w.]+)\(", code.text, re.MULTILINE)
    pattern = r"@(" + "|".join(map(re.escape, defined)) + r")(?![\w.])"
    return Code(re.sub(pattern, rf"@\1.{mark}", code.text), f"{code.name}.{mark}")


# ---- the block of memory


class Block:
    """Memory from MEMORY on as the emulated machine reads it, and where the outputs go."""

    def __init__(self, jobs: int, pool: int) -> None:
        self.pool = pool
        self.data = bytearray(aligned(8 * (HEADER_WORDS + CALL_WORDS * jobs)))
        self.calls: list[int] = []
        self.outputs: list[list[tuple[int, int]]] = []  # place and bytes, of each job
        self.output_bytes = 0

    def put(self, data: bytes) -> int:
        """Keep bytes; returns their address."""
        place = len(self.data)
        self.data += data.ljust(aligned(len(data)), b"\0")
        return MEMORY + place

    def words(self, numbers: Iterable[int]) -> int:
        """Keep 64-bit numbers; returns their address."""
        return self.put(np.array([*numbers], np.int64).tobytes())

    def add(self, job: Job, kernels: Sequence[int]) -> None:
        """Write a job's operands, constants and tables."""
        constants = [self.put(c.tobytes()) for c in job.executable.constants]
        sizes = job.executable.sizes([x.shape for x in job.inputs])
        bound = Binding(job.executable.plan, sizes, job.threads).bound(kernels, constants, self.pool)
        descriptor = bound.descriptor.copy()
        for name, table in zip(("arguments", "fixups", "rows"), bound.tables, strict=True):
            descriptor[name] = self.put(table.tobytes())
        inputs = [self.put(x.tobytes()) for x in job.inputs]
        outputs = [self.reserve(n) for n in bound.output_bytes]
        places = [OUTPUTS + place for place in outputs]
        if bound.workspace_bytes > PART:
            raise ValueError(f"a program needs {bound.workspace_bytes} bytes to work in")
        self.calls += [self.put(descriptor.tobytes()), self.words([*inputs, *places, 0]), WORKSPACE]
        self.outputs.append([*zip(outputs, bound.output_bytes, strict=True)])

    def reserve(self, size: int) -> int:
        """Room for an output; returns its place."""
        place = self.output_bytes
        self.output_bytes += aligned(size)
        return place

    def finish(self) -> bytes:
        """The whole block, its header written."""
        header = struct.pack(f"<{HEADER_WORDS + len(self.calls)}q", len(self.outputs), self.output_bytes, *self.calls)
        self.data[: len(header)] = header
        if max(len(self.data), self.output_bytes) > PART:
            raise ValueError("too many programs for one block")
        return bytes(self.data)

    def split(self, written: bytes) -> list[list[bytes]]:
        """The outputs of each job in what the machine wrote."""
        return [[written[k : k + size] for k, size in places] for places in self.outputs]
