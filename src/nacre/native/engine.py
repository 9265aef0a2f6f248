"""LLVM text to object code to addresses: the only place where llvmlite is imported.

llvmlite is imported by the first call that needs it, so that importing this module costs nothing::

    target = host_target()
    library = load(compile_text(text, target))
    address = library.address("kernel")     # valid while `library` lives
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import platform
import re
import threading
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from nacre.base.errors import ArgumentError, CompileError, DeviceError
from nacre.base.locks import once
from nacre.base.records import dataclass
from nacre.native import crew

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


@once
def binding() -> Any:
    """The llvmlite binding, initialised for the host."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


@cache
def version() -> str:
    """What decides the bytes of an object besides its text and target."""
    llvmlite = importlib.import_module("llvmlite")
    llvm = ".".join(map(str, binding().llvm_version_info))
    return f"llvmlite {llvmlite.__version__}, LLVM {llvm}, optimisation {OPTIMISATION}, pic small"


def host_target(isa: str | None = None) -> Target:
    """The target of this machine: `isa`, else NACRE_ISA, else the best that the machine has.

    Raises ArgumentError for an unknown name, DeviceError where the machine lacks the instructions.
    """
    return _host_target(isa or os.environ.get("NACRE_ISA", "").strip().lower() or None)


@cache
def _host_target(isa: str | None) -> Target:
    if isa not in (None, "avx512", "avx2", "neon"):
        raise ArgumentError("host_target: the instruction set is avx512, avx2 or neon; "
                            f"it is {isa!r}; correct the argument or NACRE_ISA")
    llvm = binding()
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    features = dict(llvm.get_host_cpu_features())
    if platform.machine().lower() in ("aarch64", "arm64"):
        return Target(_require(isa or "neon", ["neon"], cpu), triple, cpu, _flatten(features))
    able = [name for name, needs in (("avx512", AVX512_NEEDS + AVX2_NEEDS), ("avx2", AVX2_NEEDS))
            if all(features.get(need) for need in needs)]
    isa = _require(isa or (able[0] if able else "avx2"), able, cpu)
    if isa == "avx2":
        features = {k: on and not k.startswith(BEYOND_AVX2) for k, on in features.items()}
    return Target(isa, triple, cpu, _flatten(features))


def _require(isa: str, able: Iterable[str], cpu: str) -> str:
    if isa not in able:
        raise DeviceError(f"host_target: code for {isa} is asked for; this machine ({cpu}) has "
                          f"{', '.join(able) or 'none of avx512, avx2 and neon'}; "
                          "set NACRE_ISA to one that it has, or use a machine with AVX2 and FMA")
    return isa


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def cross_target(isa: str) -> Target:
    """A portable target for code that is looked at or shipped rather than run here."""
    linux = {
        "avx512": Target("avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", ""),
        "avx2": Target("avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", ""),
        "neon": Target("neon", "aarch64-unknown-linux-gnu", "generic", "+fp-armv8,+neon"),
    }
    if isa not in linux:
        raise ArgumentError(f"cross_target: the instruction set is one of {', '.join(linux)}; "
                            f"it is {isa!r}; choose one of these")
    return linux[isa]


class _Machines(threading.local):
    """Target machines of one thread: LLVM's are not to be shared between threads."""

    def __init__(self) -> None:
        self.made: dict[Target, tuple[Any, str]] = {}

    def get(self, target: Target) -> tuple[Any, str]:
        """The machine and the module header (triple and data layout) of a target."""
        found = self.made.get(target)
        if found is None:
            machine = _new_machine(target)
            head = (f'target datalayout = "{machine.target_data}" '
                    f'target triple = "{target.triple}" ')
            found = self.made[target] = machine, head
        return found


def _new_machine(target: Target) -> Any:
    # Position-independent small-model code with JITLink: constants are addressed relative to the
    # instruction pointer, one object's sections lie together, and far symbols go through stubs.
    llvm = binding()
    if target.triple != llvm.get_process_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=OPTIMISATION, reloc="pic", codemodel="small")


_machines = _Machines()


def _parse(text: str, head: str, context: Any) -> Any:
    """The verified module of a text, in a context."""
    try:
        # The header shares the text's first line, so that line numbers are those of the text.
        module = binding().parse_assembly(head + text, context)
        module.verify()
    except RuntimeError as fault:
        raise CompileError(_explain(text, str(fault))) from None
    return module


def _explain(text: str, fault: str) -> str:
    """The parser's or verifier's complaint with the lines around it."""
    lines = text.splitlines()
    found = re.search(r"<string>:(\d+):", fault)
    where = int(found[1]) - 1 if found else _line_of(lines, fault)
    shown = "" if where is None else "\n" + "\n".join(
        f"{'>' if n == where else ' '} {n + 1:5} | {lines[n]}"
        for n in range(max(0, where - 4), min(len(lines), where + 3)))
    complaint = fault.removeprefix("LLVM IR parsing error\n").strip()
    return ("compile: generated code must be valid LLVM text; LLVM refused it; "
            f"this is a fault of Nacre, please report it\n{complaint}{shown}")


def _line_of(lines: list[str], fault: str) -> int | None:
    """The line of the first instruction that a verifier message quotes."""
    for quoted in fault.splitlines():
        head = re.match(r"\s+(%[\w.]+ = \w+|store .*|call .*|br .*|ret .*)", quoted)
        for n, line in enumerate(lines if head else ()):
            if head and head[1] in line:
                return n
    return None


class _Unlocked:
    """LLVM's functions without llvmlite's global lock, so that threads compile side by side.

    It is safe because each module has a context and a target machine of its own.  Only those that take long let go of
    the interpreter lock: a thread that waits for it again may wait for long.
    """

    def __init__(self) -> None:
        name = binding().ffi.lib._name
        long, short = ctypes.CDLL(name), ctypes.PyDLL(name)
        at, number, fault = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)
        self.context = _typed(short.LLVMPY_ContextCreate, at)
        self.parse = _typed(long.LLVMPY_ParseAssembly, at, at, ctypes.c_char_p, fault)
        self.verify = _typed(long.LLVMPY_VerifyModule, ctypes.c_bool, at, fault)
        self.emit = _typed(long.LLVMPY_TargetMachineEmitToMemory, at, at, at, number, fault)
        self.start = _typed(short.LLVMPY_GetBufferStart, at, at)
        self.size = _typed(short.LLVMPY_GetBufferSize, ctypes.c_size_t, at)
        self.drop_memory = _typed(short.LLVMPY_DisposeMemoryBuffer, None, at)
        self.drop_module = _typed(long.LLVMPY_DisposeModule, None, at)
        self.drop_context = _typed(long.LLVMPY_ContextDispose, None, at)
        self.drop_string = _typed(short.LLVMPY_DisposeString, None, at)

    def told(self, fault: ctypes.c_void_p) -> str:
        """A complaint of LLVM's, which is given back."""
        if not fault.value:
            return ""
        text = ctypes.string_at(fault.value).decode(errors="replace")
        self.drop_string(fault)
        return text


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


_unlocked = cache(_Unlocked)


def _emit(text: str, target: Target, as_object: bool) -> bytes:
    machine, head = _machines.get(target)
    llvm = _unlocked()
    context, fault = llvm.context(), ctypes.c_void_p()
    module = llvm.parse(context, (head + text).encode(), fault)
    try:
        if not module or llvm.verify(module, fault):
            raise CompileError(_explain(text, llvm.told(fault)))
        return _emit_module(llvm, module, machine, target, as_object)
    finally:
        if module:
            llvm.drop_module(module)
        llvm.drop_context(context)


def _emit_module(llvm: _Unlocked, module: Any, machine: Any, target: Target, as_object: bool) -> bytes:
    fault = ctypes.c_void_p()
    memory = llvm.emit(machine, module, int(as_object), fault)
    if not memory:
        raise CompileError(f"compile: code for {target.isa} ({target.cpu}) is wanted; "
                           f"LLVM said: {llvm.told(fault)}; please report it")
    try:
        return ctypes.string_at(llvm.start(memory), llvm.size(memory))
    finally:
        llvm.drop_memory(memory)


def compile_together(texts: Iterable[str], target: Target, public: Collection[str]) -> bytes:
    """One object of many modules' texts, in which only the functions in `public` keep their names for others.

    Raises CompileError, showing the line, where a text is not valid.
    """
    machine, head = _machines.get(target)
    context = binding().create_context()
    whole = _parse("", head, context)
    try:
        for text in texts:
            whole.link_in(_parse(text, head, context))
        for f in whole.functions:
            if not f.is_declaration and f.name not in public:
                f.linkage = "internal"
        return _emit_module(_unlocked(), whole, machine, target, as_object=True)
    finally:
        whole.close()
        context.close()


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

    def __init__(self, name: str, tracker: Any) -> None:
        self.name = name
        self.needs: Library | None = None  # another one that its code calls
        self._tracker = tracker
        self._addresses: dict[str, int] = {}
        self._lookups: list[Any] = []  # a lookup that is dropped would unload the library

    def address(self, name: str) -> int:
        """The address of a function or variable that the object defines.

        Raises CompileError where it defines no such name or needs one that is nowhere.
        """
        known = self._addresses.get(name)
        if known is None:
            try:
                with crew.under_way():
                    found = _linker().lookup(self.name, name)
            except RuntimeError as fault:
                raise CompileError(f"load: the object must define @{name} and find all that it "
                                   f"calls; {str(fault).strip()}; pass what is missing (LLVM "
                                   "names it on standard error) in `symbols`") from None
            self._lookups.append(found)
            known = self._addresses[name] = found[name]
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
def _linker() -> Any:
    """The process's linker, never torn down: code in it may run until the process is gone."""
    llvm = binding()
    # Errors are not suppressed: LLVM names an unresolved symbol only on standard error.
    linker = llvm.create_lljit_compiler(_new_machine(host_target()), use_jit_link=True)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
    return linker


def load(image: bytes, symbols: Mapping[str, int] | None = None) -> Library:
    """Load object code; what it calls is found in `symbols` (name to address), then the process.

    Each library has a name space of its own, so that many may define the same names.
    """
    # The linker itself would take another machine's code.
    machine = int.from_bytes(image[18:20], "little")
    if image[:4] == b"\x7fELF" and machine != ELF_MACHINES.get(platform.machine(), machine):
        raise CompileError(f"load: code of this machine ({platform.machine()}) is required; the "
                           f"object is for ELF machine {machine}; compile it for host_target()")
    builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, address in (symbols or {}).items():
        builder.import_symbol(name, address)
    library = f"nacre.{next(_numbers)}"
    try:
        return Library(library, builder.link(_linker(), library))
    except RuntimeError as fault:
        raise CompileError(f"load: object code of this machine is required; {str(fault).strip()}; "
                           "please report it") from None
