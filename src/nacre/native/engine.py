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
import re
import threading
from collections.abc import Collection, Generator, Iterable, Mapping
from functools import cache

from nacre.base.errors import ArgumentError, CompileError, DeviceError
from nacre.base.locks import once
from nacre.base.records import dataclass
from nacre.native import compile_workers, llvm
from nacre.native.isa import BY_NAME, INSTRUCTION_SETS, Isa, host_machine
from nacre.native.loop_counters import with_hidden_counters

OPTIMISATION = 2  # of code generation; a text is compiled as written, unless it begins with `llvm.OPTIMISED`


@dataclass(frozen=True)
class Target:
    """The target of code: a vector instruction set, and LLVM's triple, CPU and features."""

    isa: str
    triple: str
    cpu: str
    features: str


@cache
def version() -> str:
    """The properties that determine an object besides its text and target."""
    return f"{llvm.version()}, optimisation {OPTIMISATION}, pic small, counters as written"


def host_target(isa: str | None = None) -> Target:
    """The target of this machine: `isa`, else NACRE_ISA, else the best one that the machine supports.

    Raises ArgumentError for an unknown name, DeviceError where the machine lacks the instructions.
    """
    return _host_target(isa or os.environ.get("NACRE_ISA", "").strip().lower() or None)


@cache
def _host_target(name: str | None) -> Target:
    if name is not None and name not in BY_NAME:
        raise ArgumentError(
            f"host_target: isa must be {_either(BY_NAME)}; got {name!r}; correct the argument or NACRE_ISA"
        )
    triple, cpu, features = llvm.process_triple(), llvm.host_cpu(), llvm.host_features()
    here = host_machine()
    able = [
        isa.name
        for isa in INSTRUCTION_SETS
        if here in (isa.machine.name, *isa.machine.aliases) and all(features.get(need) for need in isa.needs)
    ]
    chosen = name or (able[0] if able else "avx2")
    if chosen not in able:
        raise DeviceError(
            f"host_target: the machine must support {chosen}; this one ({cpu}) supports "
            f"{', '.join(able) or 'none of ' + ', '.join(BY_NAME)}; "
            "set NACRE_ISA to a supported one, or use a machine with AVX2 and FMA"
        )
    excluded = BY_NAME[chosen].excludes
    features = {feature: on and not feature.startswith(excluded) for feature, on in features.items()}
    return Target(chosen, triple, cpu, _flatten(features))


def _either(names: Iterable[str]) -> str:
    """Names as a choice in a message."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def cross_target(isa: str) -> Target:
    """A portable target for code that is inspected or shipped instead of run here."""
    found = BY_NAME.get(isa)
    if found is None:
        raise ArgumentError(f"cross_target: isa must be one of {', '.join(BY_NAME)}; got {isa!r}; choose one of these")
    return Target(isa, found.machine.triple, found.cpu, found.features)


@cache
def isa_of(target: Target) -> Isa:
    """The instruction set of a target, with the optional instructions that its machine has."""
    return BY_NAME[target.isa].with_features(target.features)


class _Machines(threading.local):
    """Machines of one thread: LLVM's machines must not be shared between threads."""

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
    """The message of the parser or verifier, with the lines around the fault."""
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


def as_compiled(text: str, target: Target) -> str:
    """The text that LLVM gets: counters of a nest's loops are hidden where the machine's addresses have an index."""
    return with_hidden_counters(text) if isa_of(target).machine.indexed and text.startswith(llvm.NEST) else text


def _emit(text: str, target: Target, as_object: bool) -> bytes:
    machine = _machines.get(target)
    text = as_compiled(text, target)
    # The head shares the text's first line, so that line numbers in messages are those of the text.
    with _understood(text), llvm.VerifiedModule(machine.head + text) as module:
        if text.startswith(llvm.OPTIMISED):
            machine.optimise(module.at)
        return _emit_module(module, machine, target, as_object)


@contextlib.contextmanager
def _understood(text: str) -> Generator[None]:
    """A block in which LLVM reads a text: an error shows the line."""
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
    """One object of many modules' texts; only the functions in `public` remain visible to others.

    Raises CompileError, showing the line, where a text is not valid.
    """
    machine = _machines.get(target)
    with llvm.VerifiedModule(machine.head) as whole:
        for text in texts:
            text = as_compiled(text, target)
            with _understood(text):
                whole.take_in(machine.head + text, machine if text.startswith(llvm.OPTIMISED) else None)
        whole.hide(frozenset(public))
        return _emit_module(whole, machine, target, as_object=True)


def compile_text(text: str, target: Target) -> bytes:
    """Object code of a module's LLVM text; threads may compile at the same time.

    Raises CompileError, showing the line, where the text is not valid.
    """
    return _emit(text, target, as_object=True)


def emit_assembly(text: str, target: Target) -> str:
    """Assembly of a module's LLVM text, for inspection; the target may be another machine's."""
    return _emit(text, target, as_object=False).decode()


class Library:
    """Object code in memory; its addresses are valid while it is alive."""

    def __init__(self, name: str, claim: llvm.LibraryClaim) -> None:
        self.name = name
        self.needs: tuple[Library, ...] = ()  # other libraries that its code calls
        self._claims = [claim]  # dropping the last claim would unload the library
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """The address of a function or variable that the object defines.

        Raises CompileError if it does not define the name, or needs an undefined one.
        """
        known = self._addresses.get(name)
        if known is None:
            try:
                with compile_workers.under_way():
                    known, claim = _linker().find(self.name, name)
            except llvm.LLVMError as fault:
                raise CompileError(
                    f"load: the object must define @{name} and all symbols that it "
                    f"calls; {str(fault).strip()}; pass the missing ones (LLVM "
                    "names it on standard error) in `symbols`"
                ) from None
            self._claims.append(claim)
            self._addresses[name] = known
        return known

    def keep(self) -> Library:
        """Never unload this library, even at interpreter exit; returns it.

        For code that threads or live objects may still run at interpreter exit.
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
    """Load object code; its undefined symbols are looked up in `symbols` (name to address), then in the process.

    Each library has a name space of its own, so that many may define the same names.
    """
    # The linker itself would accept another machine's code.
    machine = int.from_bytes(image[18:20], "little")
    if image[:4] == b"\x7fELF" and machine != ELF_MACHINES.get(host_machine(), machine):
        raise CompileError(
            f"load: the code must be for this machine ({host_machine()}); the "
            f"object is for ELF machine {machine}; compile it for host_target()"
        )
    library = f"nacre.{next(_numbers)}"
    try:
        return Library(library, _linker().link(library, image, symbols or {}))
    except llvm.LLVMError as fault:
        raise CompileError(
            f"load: the object must be code for this machine; {str(fault).strip()}; please report it"
        ) from None
