"""The C interface of a program: its functions as LLVM text, and the header that declares them.

The core is `core.call(bases, sizes…, workspace, bytes)`.  It checks all arguments and returns a code for each fault.
The public C functions call it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import LIMIT, Symbol
from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.deploy.executable.codes import (
    ALIGNMENT,
    CHECK,
    MEMORY,
    MESSAGE,
    POINTER,
    PROCESSOR,
    SIZE,
    THREADS,
    WORKSPACE,
)
from nacre.deploy.process import outermost
from nacre.deploy.sizes import symbols_of
from nacre.deploy.strings import string
from nacre.deploy.target import CompileTarget
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText
from nacre.runtime.plan import ALIGN

ERRORS = {
    SIZE: ("SIZE", "a size is outside its bounds"),
    POINTER: ("POINTER", "a pointer to an input or output is null"),
    ALIGNMENT: ("ALIGNMENT", "a pointer is not aligned, a value to its elements or the workspace to 64 bytes"),
    WORKSPACE: ("WORKSPACE", "the workspace is smaller than the program needs for these sizes"),
    MEMORY: ("MEMORY", "there is not enough memory for the workspace"),
    PROCESSOR: ("PROCESSOR", "this processor lacks instructions that the program was compiled for"),
    THREADS: ("THREADS", "NACRE_NUM_THREADS, or the number of threads that was set, is not a number from 1 to 256"),
    CHECK: ("CHECK", "a check failed, such as that of an index; the message says which"),
}
MOST_BYTES = 1 << 46  # of a workspace
X86_CONTROL, ARM_CONTROL = 8064, 0  # round to nearest, subnormal numbers enabled, no traps

C_TYPES = {"bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Interface:
    """The names and types of a program's inputs and outputs."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    ceiling: int  # the limit of every size, so that no number of bytes overflows

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The sizes that a call passes, by name."""
        return symbols_of(self.input_types)

    @property
    def public(self) -> tuple[str, ...]:
        """The public C functions."""
        return tuple(f"{self.name}_{f}" for f in ("run", "workspace", "threads", "error"))

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of inputs, then outputs."""
        return (*self.input_types, *self.output_types)


def sizes_parameters(symbols: Sequence[Symbol]) -> dict[str, str]:
    """The parameters of a function that takes the values of symbols."""
    return {f"n.{s.name}": "i64" for s in symbols}


def library_text(about: Interface, aim: CompileTarget, checks: bool = False) -> str:
    """The text of the core and of the public functions; the program's own functions are only declared.

    A program with `checks` writes messages of its own.
    """
    module = ModuleText(f"{about.name} interface")
    numbers = list(sizes_parameters(about.symbols).values())
    module.declare("core.measure", "i64", [*numbers, "i64"])
    message = None
    if checks:
        message = module.variable("core.message", f"[{MESSAGE} x i8]", align=1, linkage="thread_local")
    module.declare("core.start", "i64", ["ptr", "ptr", *numbers, "i64"])
    _call(module, about, aim)
    _run(module, about, aim)
    _workspace(module, about, aim)
    f = module.function(f"{about.name}_threads", "i32", {"threads": "i32"}, attributes=outermost(aim))
    _supported(f)
    f.ret(f.call("nacre.threads", "i32", [f["threads"]]))
    _error(module, about, aim, message)
    return module.text()


# ---- pieces of functions


def _fail(f: Function, wrong: Val, code: int, kind: str = "i32") -> None:
    """Return a code if a condition is wrong (its negative from functions that return sizes)."""
    fault, fine = f.fresh("fault"), f.fresh("fine")
    f.branch(wrong, fault, fine)
    f.label(fault)
    f.ret(Val(str(code if kind == "i32" else -code), kind))
    f.label(fine)


def _ready(f: Function, kind: str = "i32") -> None:
    """Return a code unless the processor fits and the number of threads is known."""
    _supported(f, kind)
    code = f.call("nacre.begin", "i32", [])
    _fail(f, f.icmp("ne", code, 0), THREADS, kind)


def _supported(f: Function, kind: str = "i32") -> None:
    _fail(f, f.xor(f.call("nacre.supported", "i1", []), Val("true", "i1")), PROCESSOR, kind)


def _bounds(f: Function, about: Interface, kind: str = "i32") -> list[Val]:
    """The sizes of a call, checked against their bounds."""
    for s in about.symbols:
        high = max(s.low, min(s.high, about.ceiling))
        _fail(f, f.icmp("ugt", f.sub(f[f"n.{s.name}"], s.low), high - s.low), SIZE, kind)
    return [f[f"n.{s.name}"] for s in about.symbols]


def _call(module: ModuleText, about: Interface, aim: CompileTarget) -> None:
    parameters = {"bases": "ptr"} | sizes_parameters(about.symbols) | {"workspace": "ptr", "bytes": "i64"}
    f = module.function("core.call", "i32", parameters, attributes=outermost(aim))
    _ready(f)
    sizes = _bounds(f, about)
    for k, t in enumerate(about.types):
        address = f.load(f.gep(f["bases"], k, "ptr"), "i64", 8)
        _fail(f, f.icmp("eq", address, 0), POINTER)
        if t.dtype.real.itemsize > 1:
            _fail(f, f.icmp("ne", f.and_(address, t.dtype.real.itemsize - 1), 0), ALIGNMENT)
    threads = f.call("nacre.pool_threads", "i64", [])
    need = f.call("core.measure", "i64", [*sizes, threads])
    _fail(f, f.icmp("ugt", need, MOST_BYTES), MEMORY)
    address = f.cast("ptrtoint", f["workspace"], "i64")
    own = f.icmp("eq", address, 0)
    f.branch(own, "own", "given")
    f.label("own")
    made = f.call("aligned_alloc", "ptr", [Val(str(ALIGN), "i64"), need])
    _fail(f, f.icmp("eq", made, f.zero("ptr")), MEMORY)
    after = f.block
    f.jump("go")
    f.label("given")
    _fail(f, f.icmp("ne", f.and_(address, ALIGN - 1), 0), ALIGNMENT)
    _fail(f, f.icmp("ult", f["bytes"], need), WORKSPACE)
    before = f.block
    f.jump("go")
    f.label("go")
    workspace = f.phi("ptr", [(made, after), (f["workspace"], before)], "place")
    saved = _control(f, aim)
    stopped = f.call("core.start", "i64", [f["bases"], workspace, *sizes, threads])
    _set_control(f, aim, saved)
    with f.when(own):
        f.call("free", "void", [workspace])
    _fail(f, f.icmp("ne", stopped, 0), CHECK)
    f.ret(Val("0", "i32"))


def _control(f: Function, aim: CompileTarget) -> Val:
    """Set the floating-point control word that results require; returns the caller's."""
    if aim.machine == "aarch64":
        saved = f.call("llvm.aarch64.get.fpcr", "i64", [])
        f.call("llvm.aarch64.set.fpcr", "void", [Val(str(ARM_CONTROL), "i64")])
        return saved
    saved, changed = f.alloca("i32", align=4), f.alloca("i32", align=4)
    f.call("llvm.x86.sse.stmxcsr", "void", [saved])
    f.store(Val(str(X86_CONTROL), "i32"), changed)
    f.call("llvm.x86.sse.ldmxcsr", "void", [changed])
    return saved


def _set_control(f: Function, aim: CompileTarget, saved: Val) -> None:
    name = "llvm.aarch64.set.fpcr" if aim.machine == "aarch64" else "llvm.x86.sse.ldmxcsr"
    f.call(name, "void", [saved])


def _run(module: ModuleText, about: Interface, aim: CompileTarget) -> None:
    """NAME_run: a pointer for each input and output, the sizes, a workspace or null."""
    pointers = {f"value{k}": "ptr" for k in range(len(about.types))}
    numbers = sizes_parameters(about.symbols)
    f = module.function(
        f"{about.name}_run", "i32", pointers | numbers | {"workspace": "ptr", "bytes": "i64"}, attributes=outermost(aim)
    )
    bases = f.alloca("ptr", len(pointers) + 1, 16)
    for k, name in enumerate(pointers):
        f.store(f[name], f.gep(bases, k, "ptr"))
    given = [f[n] for n in (*numbers, "workspace", "bytes")]
    f.ret(f.call("core.call", "i32", [bases, *given]))


def _workspace(module: ModuleText, about: Interface, aim: CompileTarget) -> None:
    """NAME_workspace: the bytes that a call with these sizes needs, or a negative error code."""
    f = module.function(f"{about.name}_workspace", "i64", sizes_parameters(about.symbols), attributes=outermost(aim))
    _ready(f, "i64")
    sizes = _bounds(f, about, "i64")
    f.ret(f.call("core.measure", "i64", [*sizes, f.call("nacre.pool_threads", "i64", [])]))


def _error(module: ModuleText, about: Interface, aim: CompileTarget, message: Val | None) -> None:
    """NAME_error: a sentence for an error code; `message` has that of a check, once one has failed in the thread."""
    f = module.function(f"{about.name}_error", "ptr", {"code": "i32"}, attributes=outermost(aim))
    found = string(module, "error.other", "no such error code")
    for code, text in {0: "no error", **{c: t for c, (_, t) in ERRORS.items()}}.items():
        known = string(module, f"error.{code}", text)
        if code == CHECK and message is not None:
            known = f.select(f.icmp("ne", f.load(message, "i8", 1), 0), message, known)
        found = f.select(f.icmp("eq", f["code"], code), known, found)
    f.ret(found)


# ---- the header


def header(about: Interface, version: str) -> str:
    """The C header of a library or object."""
    upper = about.name.upper()
    sizes = [f"int64_t {s.name}" for s in about.symbols]
    pointers = [f"const {_c_type(t.dtype)} *{n}" for n, t in zip(about.input_names, about.input_types, strict=True)]
    pointers += [f"{_c_type(t.dtype)} *{n}" for n, t in zip(about.output_names, about.output_types, strict=True)]
    arguments = ", ".join([*pointers, *sizes, "void *workspace", "int64_t workspace_bytes"])
    values = [
        f"   {n}: {t}, {'in' if k < len(about.input_names) else 'out'}"
        for k, (n, t) in enumerate(zip((*about.input_names, *about.output_names), about.types, strict=True))
    ]
    bounds = [
        f"   {s.name} is at least {s.low}{'' if s.high >= LIMIT else f' and at most {s.high}'}" for s in about.symbols
    ]
    codes = [f"  {upper}_{name} = {code}, /* {text} */" for code, (name, text) in ERRORS.items()]
    return "\n".join(
        [
            f"/* {about.name}: compiled ahead of time by Nacre {version}.",
            *values,
            *bounds,
            "   Arrays are dense, in row-major order, aligned to their elements (64 bytes are fastest);",
            "   outputs must not overlap anything.  Half types and dtypes for storage are given by their bits,",
            "   bool is 0 or 1.",
            "   A complex element is two numbers, the real and the imaginary part. */",
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"enum {{ {upper}_OK = 0,",
            *codes,
            "};",
            "",
            "/* Run the program; returns 0 or an error code.  Any number of threads may call it at the same time.",
            f"   The workspace is {about.name}_workspace(...) bytes, aligned to 64, for one call at a time; with NULL,",
            "   malloc allocates it. */",
            f"int32_t {about.name}_run({arguments});",
            "",
            "/* The bytes of the workspace for these sizes, or an error code as a negative number. */",
            f"int64_t {about.name}_workspace({', '.join(sizes) or 'void'});",
            "",
            "/* Set the number of threads of the following calls, 1 to 256.  The default is "
            "NACRE_NUM_THREADS, else one",
            "   for each processor.  No call may be running.  Results have the same bits for any number. */",
            f"int32_t {about.name}_threads(int32_t threads);",
            "",
            "/* The message of an error code; that of a failed check is of the calling thread's last call. */",
            f"const char *{about.name}_error(int32_t code);",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _c_type(dtype: DType) -> str:
    """The C type of an element; of complex numbers, that of a part."""
    return "uint8_t" if dtype.is_storage else C_TYPES.get(dtype.real.name, f"{dtype.name}_t")
