"""LLVM through the C functions of llvmlite's shared library, without llvmlite's Python classes.

Those classes would cost every process about 20 ms before its first kernel, and share one lock for all of LLVM.  Here
each module has its own context, and each machine belongs to one thread, so that threads may compile at once::

    machine = Machine(process_triple(), host_cpu(), "", 2)
    with VerifiedModule(machine.head + text) as module:
        image = machine.emit(module, as_object=True)
"""

# The gain: 13 ms of processor time until LLVM is ready, against 36 ms with `llvmlite.binding` (the least of 12 fresh
# processes each, taking turns, on an AMD EPYC under load), and threads that compile at once.

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from nacre.base.errors import MissingExtra
from nacre.base.locks import once, renewed

REQUIRED = "llvmlite>=0.45,<0.51"  # as in pyproject.toml; the oldest and the newest version were tried
AT, NUMBER, TEXT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
OUT = ctypes.POINTER(AT)
INTERNAL = 8  # the linkage of functions that only their own module may call
OPTIMISED = "; optimised"  # the first line of a text on which LLVM's passes run
NEST = "; nest"  # how a text of a loop nest begins
LEVEL = 2  # of the passes, as -O2
OBJECT_IMAGE, PROCESS = 2, 3  # kinds of linker inputs: object code; the symbols of a library, "" for the process


class LLVMError(Exception):
    """LLVM's error message for an invalid text, target or object."""


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("value", TEXT), ("size", SIZE))


class _Symbol(ctypes.Structure):
    _fields_ = (("name", TEXT), ("address", ctypes.c_uint64))


class _Functions:
    """LLVM's functions, with their types.

    Only the slow ones release the interpreter lock, because a thread may wait long to acquire it again.
    """

    def __init__(self) -> None:
        name, handle = _shared_library()
        long, short = _Exports(ctypes.CDLL(name, handle=handle)), _Exports(ctypes.PyDLL(name, handle=handle))
        element, symbol = ctypes.POINTER(_Element), ctypes.POINTER(_Symbol)
        # modules
        self.new_context = _typed(short.LLVMPY_ContextCreate, AT)
        self.drop_context = _typed(short.LLVMPY_ContextDispose, None, AT)
        self.parse = _typed(long.LLVMPY_ParseAssembly, AT, AT, TEXT, OUT)
        self.verify = _typed(long.LLVMPY_VerifyModule, ctypes.c_bool, AT, OUT)
        self.link_modules = _typed(long.LLVMPY_LinkModules, NUMBER, AT, AT, OUT)
        self.drop_module = _typed(long.LLVMPY_DisposeModule, None, AT)
        self.functions = _typed(short.LLVMPY_ModuleFunctionsIter, AT, AT)
        self.next_function = _typed(short.LLVMPY_FunctionsIterNext, AT, AT)
        self.drop_functions = _typed(short.LLVMPY_DisposeFunctionsIter, None, AT)
        self.declared = _typed(short.LLVMPY_IsDeclaration, NUMBER, AT)
        self.name_of = _typed(short.LLVMPY_GetValueName, TEXT, AT)
        self.set_linkage = _typed(short.LLVMPY_SetLinkage, None, AT, NUMBER)
        # targets
        self.process_triple = _typed(short.LLVMPY_GetProcessTriple, None, OUT)
        self.host_cpu = _typed(short.LLVMPY_GetHostCPUName, None, OUT)
        self.host_features = _typed(short.LLVMPY_GetHostCPUFeatures, NUMBER, OUT)
        self.target = _typed(short.LLVMPY_GetTargetFromTriple, AT, TEXT, OUT)
        self.new_machine = _typed(
            short.LLVMPY_CreateTargetMachine, AT, AT, TEXT, TEXT, TEXT, NUMBER, TEXT, TEXT, NUMBER, NUMBER, TEXT
        )
        self.drop_machine = _typed(short.LLVMPY_DisposeTargetMachine, None, AT)
        self.new_layout = _typed(short.LLVMPY_CreateTargetMachineData, AT, AT)
        self.layout_text = _typed(short.LLVMPY_CopyStringRepOfTargetData, None, AT, OUT)
        self.drop_layout = _typed(short.LLVMPY_DisposeTargetData, None, AT)
        self.emit = _typed(long.LLVMPY_TargetMachineEmitToMemory, AT, AT, AT, NUMBER, OUT)
        self.start = _typed(short.LLVMPY_GetBufferStart, AT, AT)
        self.size = _typed(short.LLVMPY_GetBufferSize, SIZE, AT)
        self.drop_buffer = _typed(short.LLVMPY_DisposeMemoryBuffer, None, AT)
        # passes
        self.new_tuning = _typed(short.LLVMPY_CreatePipelineTuningOptions, AT)
        self.drop_tuning = _typed(short.LLVMPY_DisposePipelineTuningOptions, None, AT)
        self.new_passes = _typed(short.LLVMPY_CreatePassBuilder, AT, AT, AT)
        self.drop_passes = _typed(short.LLVMPY_DisposePassBuilder, None, AT)
        self.pipeline = _typed(short.LLVMPY_buildPerModuleDefaultPipeline, AT, AT, NUMBER)
        self.drop_pipeline = _typed(short.LLVMPY_DisposeNewModulePassManger, None, AT)
        self.run_passes = _typed(long.LLVMPY_RunNewModulePassManager, None, AT, AT, AT)
        # the linker
        self.new_linker = _typed(short.LLVMPY_CreateLLJITCompiler, AT, AT, ctypes.c_bool, ctypes.c_bool, OUT)
        self.link = _typed(long.LLVMPY_LLJIT_Link, AT, AT, TEXT, element, SIZE, symbol, SIZE, symbol, SIZE, OUT)
        self.find = _typed(long.LLVMPY_LLJITLookup, AT, AT, TEXT, TEXT, ctypes.POINTER(ctypes.c_uint64), OUT)
        self.drop_claim = _typed(short.LLVMPY_LLJIT_Dylib_Tracker_Dispose, ctypes.c_bool, AT, OUT)
        # the shared library itself
        self.drop_text = _typed(short.LLVMPY_DisposeString, None, AT)
        self.version = _typed(short.LLVMPY_GetVersionInfo, ctypes.c_uint)
        self.initialise = [
            _typed(getattr(short, f"LLVMPY_Initialize{what}"), None)
            for what in ("NativeTarget", "NativeAsmPrinter", "NativeAsmParser")
        ]
        self.initialise_all = [
            _typed(getattr(short, f"LLVMPY_InitializeAll{what}"), None)
            for what in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters")
        ]


class _Exports:
    """The functions of a shared library by name; one that is not there is an error with the version to install."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        try:
            return self.library[name]  # a new object each time, with types of its own
        except AttributeError:
            found = importlib.import_module("llvmlite").__version__
            raise MissingExtra(
                f"nacre: llvmlite with the function {name} is required; got llvmlite {found}; run "
                f"`python -m pip install '{REQUIRED}'`"
            ) from None


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


def _shared_library() -> tuple[str, int]:
    """The name and the handle of llvmlite's shared library."""
    package, names = importlib.import_module("llvmlite"), importlib.import_module("llvmlite.utils")
    path = os.path.join(os.path.dirname(str(package.__file__)), "binding", names.get_library_name())
    if not os.path.exists(path):  # packaged in a way that only llvmlite knows
        loaded = importlib.import_module("llvmlite.binding.ffi").lib
        return loaded._name, loaded._handle
    return path, ctypes.CDLL(path)._handle


@once
def _llvm() -> _Functions:
    """LLVM's functions, initialised for the host."""
    functions = _Functions()
    for initialise in functions.initialise:
        initialise()
    return functions


class _Diagnostics:
    """A text that LLVM returns by address: a result or an error message."""

    def __init__(self) -> None:
        self.at = AT()

    def text(self) -> str:
        """The text, which is then freed; call it once."""
        if not self.at.value:
            return ""
        found = ctypes.string_at(self.at.value).decode(errors="replace")
        _llvm().drop_text(self.at)
        self.at = AT()
        return found


def _text_of(function: Any, *arguments: Any) -> str:
    """The text that an LLVM function returns as its last argument."""
    message = _Diagnostics()
    function(*arguments, message.at)
    return message.text()


# ---- versions and the host


def version() -> str:
    """The versions of llvmlite and LLVM, which determine an object besides its text and target."""
    number, parts = _llvm().version(), list[str]()
    while number:
        parts.append(str(number & 0xFF))
        number >>= 8
    return f"llvmlite {importlib.import_module('llvmlite').__version__}, LLVM {'.'.join(reversed(parts))}"


def process_triple() -> str:
    """The triple of the code that this process can run."""
    return _text_of(_llvm().process_triple)


def host_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return _text_of(_llvm().host_cpu)


def host_features() -> Mapping[str, bool]:
    """LLVM's names of this processor's features, and whether each is available; empty if LLVM does not know."""
    named = _text_of(_llvm().host_features).split(",")
    return {feature[1:]: feature[0] == "+" for feature in named if feature}


# ---- modules and machines


class VerifiedModule:
    """A verified module in a context of its own, within a `with` block.

    Raises LLVMError for an invalid text.
    """

    def __init__(self, text: str) -> None:
        self.context = _llvm().new_context()
        self.at: int | None = None
        try:
            self.at = self._parsed(text)
        except BaseException:
            self.close()
            raise

    def _parsed(self, text: str) -> int:
        llvm, message = _llvm(), _Diagnostics()
        found = llvm.parse(self.context, text.encode(), message.at)
        if not found:
            raise LLVMError(message.text())
        if llvm.verify(found, message.at):
            llvm.drop_module(found)
            raise LLVMError(message.text())
        return found

    def take_in(self, text: str, optimiser: Machine | None = None) -> None:
        """Link another text's definitions; each module may use those of the other."""
        part, message = self._parsed(text), _Diagnostics()
        if optimiser is not None:
            optimiser.optimise(part)
        if _llvm().link_modules(self.at, part, message.at):  # LLVM consumes the part in any case
            raise LLVMError(message.text())

    def hide(self, public: frozenset[str]) -> None:
        """Make all functions internal except these."""
        llvm = _llvm()
        functions = llvm.functions(self.at)
        while function := llvm.next_function(functions):
            if not llvm.declared(function) and llvm.name_of(function).decode() not in public:
                llvm.set_linkage(function, INTERNAL)
        llvm.drop_functions(functions)

    def close(self) -> None:
        """Free the module and its context."""
        if self.at:
            _llvm().drop_module(self.at)
        _llvm().drop_context(self.context)

    def __enter__(self) -> VerifiedModule:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Machine:
    """Compiles for one target, on one thread; `head` is the first part of each of its modules.

    The code is position-independent in the small model: constants are addressed relative to the instruction pointer, an
    object's sections are adjacent, and far symbols are called through stubs.

    Raises LLVMError for a target that LLVM does not have.
    """

    def __init__(self, triple: str, cpu: str, features: str, optimisation: int) -> None:
        llvm, message = _llvm(), _Diagnostics()
        if triple != process_triple():
            for initialise in llvm.initialise_all:
                initialise()
        target = llvm.target(triple.encode(), message.at)
        if not target:
            raise LLVMError(message.text())
        self.at = llvm.new_machine(
            target, triple.encode(), cpu.encode(), features.encode(), optimisation, b"pic", b"small", 0, 0, b""
        )
        if not self.at:
            raise LLVMError(f"LLVM has no target machine for {triple}, {cpu}")
        layout = llvm.new_layout(self.at)
        self.head = f'target datalayout = "{_text_of(llvm.layout_text, layout)}" target triple = "{triple}" '
        llvm.drop_layout(layout)

    def optimise(self, module: int | None) -> None:
        """Run LLVM's passes on a module.  They keep all bits: no instruction has a fast-math flag."""
        llvm = _llvm()
        tuning = llvm.new_tuning()
        passes = llvm.new_passes(self.at, tuning)
        pipeline = llvm.pipeline(passes, LEVEL)
        try:
            llvm.run_passes(pipeline, module, passes)
        finally:
            llvm.drop_pipeline(pipeline)
            llvm.drop_passes(passes)
            llvm.drop_tuning(tuning)

    def emit(self, module: VerifiedModule, as_object: bool) -> bytes:
        """The object code of a module, or its assembly."""
        llvm, message = _llvm(), _Diagnostics()
        memory = llvm.emit(self.at, module.at, int(as_object), message.at)
        if not memory:
            raise LLVMError(message.text())
        try:
            return ctypes.string_at(llvm.start(memory), llvm.size(memory))
        finally:
            llvm.drop_buffer(memory)

    def __del__(self, ends: Any = sys.is_finalizing) -> None:
        if getattr(self, "at", None) and not ends():
            _llvm().drop_machine(self.at)


# ---- the linker


class LibraryClaim:
    """A reference to a linked library: dropping the last one unloads the library."""

    def __init__(self, linker: Linker, at: int) -> None:
        self.linker, self.at = linker, at

    def __del__(self, ends: Any = sys.is_finalizing) -> None:
        if not ends():
            message = _Diagnostics()
            with self.linker.lock():
                _llvm().drop_claim(self.at, message.at)
            message.text()  # free the error message


class Linker:
    """Loads object code into the process; never destroyed, because its code may run until the process ends."""

    def __init__(self, machine: Machine) -> None:
        message = _Diagnostics()
        # Errors are not suppressed: LLVM names an unresolved symbol only on standard error.
        self.at = _llvm().new_linker(machine.at, False, True, message.at)
        if not self.at:
            raise LLVMError(message.text())
        self.lock = renewed()  # the lock of a thread that links; such a thread may drop a claim at any line

    def link(self, name: str, image: bytes, symbols: Mapping[str, int]) -> LibraryClaim:
        """Load object code as a library of a new name; its symbols are looked up in `symbols`, then in the process."""
        parts = (_Element * 2)((OBJECT_IMAGE, image, len(image)), (PROCESS, b"", 0))
        known = (_Symbol * len(symbols))(*((n.encode(), address) for n, address in symbols.items()))
        message = _Diagnostics()
        with self.lock():
            found = _llvm().link(self.at, name.encode(), parts, len(parts), known, len(known), None, 0, message.at)
        if not found:
            raise LLVMError(message.text())
        return LibraryClaim(self, found)

    def find(self, library: str, name: str) -> tuple[int, LibraryClaim]:
        """The address of a symbol that a library defines, and a claim on the library."""
        address, message = ctypes.c_uint64(), _Diagnostics()
        with self.lock():
            found = _llvm().find(self.at, library.encode(), name.encode(), address, message.at)
        if not found:
            raise LLVMError(message.text())
        return address.value, LibraryClaim(self, found)
