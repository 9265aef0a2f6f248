"""From LLVM text to object code to addresses.

The first call that needs LLVM loads it, so importing this module is free::

    target = host_target()
    library = load(compile_text(text, target))
    address = library.address("kernel")     # valid while `library` lives
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import platform
import re
import threading
from collections.abc import Collection, Generator, Iterable, Mapping
from functools import cache

from nacre.base.errors import ArgumentError, CompileError, DeviceError
from nacre.base.locks import once
from nacre.base.records import dataclass
from nacre.native import compile_workers, llvm

OPTIMISATION = 2  # of code generation; no pass pipeline runs, so what is written is what runs
AVX2_NEEDS = ("avx2", "fma", "f16c", "bmi2")
AVX512_NEEDS = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
BEYOND_AVX2 = ("avx512", "avx10", "amx", "evex512", "prefer-256-bit")


@dataclass(frozen=True)
class Target:
    """What code is made for: a vector instruction set, and LLVM's triple, CPU and features."""

    isa: str
    triple: str
    cpu: str
    features: str


@cache
def version() -> str:
    """What decides the bytes of an object besides its text and target."""
    return f"{llvm.version()}, optimisation {OPTIMISATION}, pic small"


def host_target(isa: str | None = None) -> Target:
    """The target of this machine: `isa`, else NACRE_ISA, else the best that the machine has.

    Raises ArgumentError for an unknown name, DeviceError where the machine lacks the instructions.
    """
    return _host_target(isa or os.environ.get("NACRE_ISA", "").strip().lower() or None)


@cache
def _host_target(isa: str | None) -> Target:
    if isa not in (None, "avx512", "avx2", "neon"):
        raise ArgumentError(
            f"host_target: isa must be avx512, avx2 or neon; got {isa!r}; correct the argument or NACRE_ISA"
        )
    triple, cpu, features = llvm.process_triple(), llvm.host_cpu(), llvm.host_features()
    if platform.machine().lower() in ("aarch64", "arm64"):
        return Target(_require(isa or "neon", ["neon"], cpu), triple, cpu, _flatten(features))
    able = [
        name
        for name, needs in (("avx512", AVX512_NEEDS + AVX2_NEEDS), ("avx2", AVX2_NEEDS))
        if all(features.get(need) for need in needs)
    ]
    isa = _require(isa or (able[0] if able else "avx2"), able, cpu)
    if isa == "avx2":
        features = {k: on and not k.startswith(BEYOND_AVX2) for k, on in features.items()}
    return Target(isa, triple, cpu, _flatten(features))


def _require(isa: str, able: Iterable[str], cpu: str) -> str:
    if isa not in able:
        raise DeviceError(
            f"host_target: the machine must support {isa}; this one ({cpu}) supports "
            f"{', '.join(able) or 'none of avx512, avx2 and neon'}; "
            "set NACRE_ISA to a supported one, or use a machine with AVX2 and FMA"
        )
    return isa


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def cross_target(isa: str) -> Target:
    """A portable target for code that is inspected or shipped instead of run here."""
    linux = {
        "avx512": Target("avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", ""),
        "avx2": Target("avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", ""),
        "neon": Target("neon", "aarch64-unknown-linux-gnu", "generic", "+fp-armv8,+neon"),
    }
    if isa not in linux:
        raise ArgumentError(f"cross_target: isa must be one of {', '.join(linux)}; got {isa!r}; choose one of these")
    return linux[isa]


class _Machines(threading.local):
    """Machines of one thread: LLVM's are not to be shared between threads."""

    def __init__(self) -> None:
        self.made: dict[Target, llvm.Machine] = {}

    def get(self, target: Target) -> llvm.Machine:
        """The machine of a target."""
        found = self.made.get(target)
        if found is None:
            found = self.made[target] = _new_machine(target)
        return found


def _new_machine(target: Target) -> llvm.Machine:
    return llvm.Machine(target.triple, target.cpu, target.features, OPTIMISATION)


_machines = _Machines()


def _explain(text: str, fault: str) -> str:
    """The parser's or verifier's complaint with the lines around it."""
    lines = text.splitlines()
    found = re.search(r"<string>:(\d+):", fault)
    where = int(found[1]) - 1 if found else _line_of(lines, fault)
    shown = (
        ""
        if where is None
        else "\n"
        + "\n".join(
            f"{'>' if n == where else ' '} {n + 1:5} | {lines[n]}"
            for n in range(max(0, where - 4), min(len(lines), where + 3))
        )
    )
    complaint = fault.removeprefix("LLVM IR parsing error\n").strip()
    return (
        "compile: generated code must be valid LLVM text; LLVM refused it; "
        f"this is a fault of Nacre, please report it\n{complaint}{shown}"
    )


def _line_of(lines: list[str], fault: str) -> int | None:
    """The line of the first instruction that a verifier message quotes."""
    for quoted in fault.splitlines():
        head = re.match(r"\s+(%[\w.]+ = \w+|store .*|call .*|br .*|ret .*)", quoted)
        for n, line in enumerate(lines if head else ()):
            if head and head[1] in line:
                return n
    return None


def _emit(text: str, target: Target, as_object: bool) -> bytes:
    machine = _machines.get(target)
    # The head shares the text's first line, so that line numbers are those of the text.
    with _understood(text), llvm.VerifiedModule(machine.head + text) as module:
        return _emit_module(module, machine, target, as_object)


@contextlib.contextmanager
def _understood(text: str) -> Generator[None]:
    """A block in which LLVM reads a text: a complaint shows the line."""
    try:
        yield
    except llvm.LLVMError as fault:
        raise CompileError(_explain(text, str(fault))) from None


def _emit_module(module: llvm.VerifiedModule, machine: llvm.Machine, target: Target, as_object: bool) -> bytes:
    try:
        return machine.emit(module, as_object)
    except llvm.LLVMError as fault:
        raise CompileError(
            f"compile: LLVM failed for {target.isa} ({target.cpu}); it says: {fault}; please report it"
        ) from None


def compile_together(texts: Iterable[str], target: Target, public: Collection[str]) -> bytes:
    """One object of many modules' texts, in which only the functions in `public` keep their names for others.

    Raises CompileError, showing the line, where a text is not valid.
    """
    machine = _machines.get(target)
    with llvm.VerifiedModule(machine.head) as whole:
        for text in texts:
            with _understood(text):
                whole.take_in(machine.head + text)
        whole.hide(frozenset(public))
        return _emit_module(whole, machine, target, as_object=True)


def compile_text(text: str, target: Target) -> bytes:
    """Object code of a module's LLVM text; threads may compile at the same time.

    Raises CompileError, showing the line, where the text is not valid.
    """
    return _emit(text, target, as_object=True)


def emit_assembly(text: str, target: Target) -> str:
    """Assembly of a module's LLVM text, to look at; the target may be another machine's."""
    return _emit(text, target, as_object=False).decode()


class Library:
    """Object code in memory; the addresses it gives hold while it is kept alive."""

    def __init__(self, name: str, held: llvm.LibraryClaim) -> None:
        self.name = name
        self.needs: Library | None = None  # another one that its code calls
        self._held = [held]  # one that is dropped would unload the library
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """The address of a function or variable that the object defines.

        Raises CompileError where it defines no such name or needs one that is nowhere.
        """
        known = self._addresses.get(name)
        if known is None:
            try:
                with compile_workers.under_way():
                    known, held = _linker().find(self.name, name)
            except llvm.LLVMError as fault:
                raise CompileError(
                    f"load: the object must define @{name} and all symbols that it "
                    f"calls; {str(fault).strip()}; pass the missing ones (LLVM "
                    "names it on standard error) in `symbols`"
                ) from None
            self._held.append(held)
            self._addresses[name] = known
        return known

    def keep(self) -> Library:
        """Never unload this library, even at interpreter exit; returns it.

        For code that threads or live objects may still run while the interpreter goes down.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        return self


_numbers = itertools.count()
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


@once
def _linker() -> llvm.Linker:
    """The process's linker."""
    return llvm.Linker(_new_machine(host_target()))


def load(image: bytes, symbols: Mapping[str, int] | None = None) -> Library:
    """Load object code; what it calls is found in `symbols` (name to address), then the process.

    Each library has a name space of its own, so that many may define the same names.
    """
    # The linker itself would take another machine's code.
    machine = int.from_bytes(image[18:20], "little")
    if image[:4] == b"\x7fELF" and machine != ELF_MACHINES.get(platform.machine(), machine):
        raise CompileError(
            f"load: the code must be for this machine ({platform.machine()}); the "
            f"object is for ELF machine {machine}; compile it for host_target()"
        )
    library = f"nacre.{next(_numbers)}"
    try:
        return Library(library, _linker().link(library, image, symbols or {}))
    except llvm.LLVMError as fault:
        raise CompileError(
            f"load: the object must be code for this machine; {str(fault).strip()}; please report it"
        ) from None
