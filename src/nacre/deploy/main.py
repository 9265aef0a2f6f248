"""The outer part of an executable: `main`, its help, and the tables for reading and writing .npy files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from nacre.base.dims import LIMIT, Dim
from nacre.base.dtypes import DType, bfloat16, bool_
from nacre.base.types import TensorType
from nacre.deploy.library import PROCESSOR, Interface, shapes, sizes_parameters
from nacre.deploy.npy import npy_text
from nacre.deploy.npy_write import KINDS_OF_FILES, REGULAR, writer_text
from nacre.deploy.process import THREADS, outermost
from nacre.deploy.sizes import SizeArithmetic, solvers
from nacre.deploy.strings import string
from nacre.deploy.target import CompileTarget
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

DONE, FAILED, MISUSED, UNSUPPORTED = 0, 1, 2, 3
WIDTH = 80  # characters of a line of help

MODES = {"x86_64": 24, "aarch64": 16}  # bytes before st_mode in a struct stat; st_dev and st_ino come first
TOO_LARGE = 25  # SIGXFSZ: a file would grow beyond the limit of the process

RECORD = "{ ptr, ptr, ptr, ptr, i64, i64, i64 }"

MAIN = """
@program.files = internal global [{inputs} x i32] zeroinitializer
@program.bases = internal global [{values} x ptr] zeroinitializer
@program.axes = internal global [{axes} x i64] zeroinitializer
@program.sizes = internal global [{symbols} x i64] zeroinitializer
@program.fault = private constant [8 x i8] c"%s: %s\\0A\\00"

declare ptr @{name}_error(i32)
declare i32 @printf(ptr, ...)
declare i32 @fflush(ptr)
declare i32 @stat(ptr, ptr)
declare ptr @signal(i32, ptr)
@program.text = private constant [3 x i8] c"%s\\00"

define i32 @main(i32 %argc, ptr %argv) {attributes} {{
entry:
  %two = icmp eq i32 %argc, 2
  br i1 %two, label %asked, label %count
asked:
  %word.at = getelementptr ptr, ptr %argv, i64 1
  %word = load ptr, ptr %word.at
  %h0 = call i32 @strcmp(ptr %word, ptr @program.option.help)
  %h1 = call i32 @strcmp(ptr %word, ptr @program.option.h)
  %h2 = mul i32 %h0, %h1
  %helps = icmp eq i32 %h2, 0
  br i1 %helps, label %answer, label %versions
versions:
  %v = call i32 @strcmp(ptr %word, ptr @program.option.version)
  %version = icmp eq i32 %v, 0
  br i1 %version, label %answer, label %count
answer:
  %text = phi ptr [ @program.help, %asked ], [ @program.version, %versions ]
  %length = call i64 @strlen(ptr %text)
  %said = call i1 @npy.write(i32 1, ptr %text, i64 %length)
  %unsaid = xor i1 %said, true
  %status = zext i1 %unsaid to i32
  ret i32 %status
count:
  %right = icmp eq i32 %argc, {arguments}
  br i1 %right, label %processor, label %usage
usage:
  %shown = call i64 @strlen(ptr @program.usage)
  %ignored = call i1 @npy.write(i32 2, ptr @program.usage, i64 %shown)
  ret i32 {misused}
processor:
  %able = call i1 @nacre_supported()
  br i1 %able, label %run, label %unable
unable:
  %refused = call i32 @program.fail(i32 {processor})
  ret i32 %refused
run:
  %result = call i32 @program.run(ptr %argv)
  ret i32 %result
}}

; Print the meaning of an error code; returns the exit status.
define internal i32 @program.fail(i32 %code) {attributes} {{
  %text = call ptr @{name}_error(i32 %code)
  %r = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @program.fault, ptr @program.name, ptr %text)
  %unsupported = icmp eq i32 %code, {processor}
  %misused = icmp eq i32 %code, {threads}
  %one = select i1 %misused, i32 {misused}, i32 {failed}
  %status = select i1 %unsupported, i32 {unsupported}, i32 %one
  ret i32 %status
}}

; The mode of the file that a path leads to, 0 where there is none.
define internal i32 @program.mode(ptr %path) nounwind {{
entry:
  %about = alloca [64 x i64], align 16
  %fault = call i32 @stat(ptr %path, ptr %about)
  %found = icmp eq i32 %fault, 0
  br i1 %found, label %there, label %none
there:
  %mode.at = getelementptr i8, ptr %about, i64 {mode}
  %mode = load i32, ptr %mode.at
  ret i32 %mode
none:
  ret i32 0
}}

; Whether two paths lead to one regular file, or have one name where there is no file yet; "-" leads to none.
define internal i1 @program.same(ptr %a, ptr %b) nounwind {{
entry:
  %one = alloca [64 x i64], align 16
  %two = alloca [64 x i64], align 16
  %dash.a = call i32 @strcmp(ptr %a, ptr @npy.dash)
  %dash.b = call i32 @strcmp(ptr %b, ptr @npy.dash)
  %dashes = mul i32 %dash.a, %dash.b
  %standard = icmp eq i32 %dashes, 0
  br i1 %standard, label %no, label %look
look:
  %fault.a = call i32 @stat(ptr %a, ptr %one)
  %fault.b = call i32 @stat(ptr %b, ptr %two)
  %faults = or i32 %fault.a, %fault.b
  %both = icmp eq i32 %faults, 0
  br i1 %both, label %files, label %names
files:
  %device.a = load i64, ptr %one
  %device.b = load i64, ptr %two
  %same.device = icmp eq i64 %device.a, %device.b
  %inode.a.at = getelementptr i64, ptr %one, i64 1
  %inode.a = load i64, ptr %inode.a.at
  %inode.b.at = getelementptr i64, ptr %two, i64 1
  %inode.b = load i64, ptr %inode.b.at
  %same.inode = icmp eq i64 %inode.a, %inode.b
  %mode.at = getelementptr i8, ptr %one, i64 {mode}
  %mode = load i32, ptr %mode.at
  %kind = and i32 %mode, {kinds}
  %regular = icmp eq i32 %kind, {regular}
  %same = and i1 %same.device, %same.inode
  %result = and i1 %same, %regular
  ret i1 %result
names:
  %order = call i32 @strcmp(ptr %a, ptr %b)
  %named = icmp eq i32 %order, 0
  ret i1 %named
no:
  ret i1 false
}}

; Whether each output is a file of its own; else the message is printed.
define internal i1 @program.apart(ptr %argv) nounwind {{
entry:
  br label %output
output:
  %o = phi i64 [ {inputs}, %entry ], [ %o.next, %own ]
  %o.next = add i64 %o, 1
  %o.more = icmp slt i64 %o, {values}
  br i1 %o.more, label %begin, label %yes
begin:
  %path.at = getelementptr ptr, ptr %argv, i64 %o.next
  %path = load ptr, ptr %path.at
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k.next, %compare ]
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k, %o
  br i1 %k.more, label %compare, label %own
compare:
  %other.at = getelementptr ptr, ptr %argv, i64 %k.next
  %other = load ptr, ptr %other.at
  %same = call i1 @program.same(ptr %path, ptr %other)
  br i1 %same, label %no, label %next
own:
  br label %output
yes:
  ret i1 true
no:
  %said = call i32 @npy.say(ptr %path, ptr @program.shared, i32 {misused})
  ret i1 false
}}

; Read the inputs' headers, then their elements; run; write the outputs.
; A write beyond a limit is an error like others.
define internal i32 @program.run(ptr %argv) nounwind {{
entry:
  %before = call ptr @signal(i32 {large}, ptr inttoptr (i64 1 to ptr))
  %apart = call i1 @program.apart(ptr %argv)
  br i1 %apart, label %headers, label %refused
refused:
  ret i32 {misused}
headers:
  br label %header
header:
  %i = phi i64 [ 0, %headers ], [ %i.next, %opened ]
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i, {inputs}
  br i1 %i.more, label %open, label %solve
open:
  %path.at = getelementptr ptr, ptr %argv, i64 %i.next
  %path = load ptr, ptr %path.at
  %value = getelementptr %Value, ptr @program.values, i64 %i
  %file.at = getelementptr i32, ptr @program.files, i64 %i
  %open.status = call i32 @npy.open(ptr %path, ptr %value, ptr %file.at, ptr @program.axes)
  %open.well = icmp eq i32 %open.status, 0
  br i1 %open.well, label %opened, label %stop
opened:
  br label %header
solve:
  %wrong = call i64 @program.solve(ptr @program.axes, ptr @program.sizes)
  %solved = icmp slt i64 %wrong, 0
  br i1 %solved, label %element, label %mismatch
mismatch:
  %wrong.argument = add i64 %wrong, 1
  %wrong.at = getelementptr ptr, ptr %argv, i64 %wrong.argument
  %wrong.path = load ptr, ptr %wrong.at
  %wrong.value = getelementptr %Value, ptr @program.values, i64 %wrong
  call void @program.recall(ptr %wrong.value)
  %wrong.status = call i32 @npy.mismatch(ptr %wrong.path, ptr %wrong.value)
  ret i32 %wrong.status
element:
  %e = phi i64 [ 0, %solve ], [ %e.next, %loaded ]
  %e.next = add i64 %e, 1
  %e.more = icmp slt i64 %e, {inputs}
  br i1 %e.more, label %load, label %outputs
load:
  %e.path.at = getelementptr ptr, ptr %argv, i64 %e.next
  %e.path = load ptr, ptr %e.path.at
  %e.value = getelementptr %Value, ptr @program.values, i64 %e
  %e.file.at = getelementptr i32, ptr @program.files, i64 %e
  %e.file = load i32, ptr %e.file.at
  %e.base = getelementptr ptr, ptr @program.bases, i64 %e
  %load.status = call i32 @npy.load(ptr %e.path, ptr %e.value, i32 %e.file, ptr @program.axes, ptr %e.base)
  %load.well = icmp eq i32 %load.status, 0
  br i1 %load.well, label %loaded, label %stop
loaded:
  br label %element
outputs:
  call void @program.shapes(ptr @program.sizes)
  br label %room
room:
  %o = phi i64 [ {inputs}, %outputs ], [ %o.next, %roomy ]
  %o.more = icmp slt i64 %o, {values}
  br i1 %o.more, label %make, label %compute
make:
  %o.value = getelementptr %Value, ptr @program.values, i64 %o
  %o.bytes = call i64 @npy.size(ptr %o.value, ptr @program.axes)
  %o.room = call ptr @npy.room(i64 %o.bytes)
  %o.base = getelementptr ptr, ptr @program.bases, i64 %o
  store ptr %o.room, ptr %o.base
  %o.none = icmp eq ptr %o.room, null
  %o.next = add i64 %o, 1
  br i1 %o.none, label %memory, label %roomy
roomy:
  br label %room
memory:
  %m.path.at = getelementptr ptr, ptr %argv, i64 %o.next
  %m.path = load ptr, ptr %m.path.at
  %m.status = call i32 @npy.say(ptr %m.path, ptr @npy.memory, i32 {failed})
  ret i32 %m.status
compute:
  %code = call i32 @program.call(ptr @program.bases, ptr @program.sizes)
  %ran = icmp eq i32 %code, 0
  br i1 %ran, label %result, label %fault
fault:
  %fault.status = call i32 @program.fail(i32 %code)
  ret i32 %fault.status
result:
  %w = phi i64 [ {inputs}, %compute ], [ %w.next, %saved ]
  %w.more = icmp slt i64 %w, {values}
  br i1 %w.more, label %save, label %end
save:
  %w.next = add i64 %w, 1
  %w.path.at = getelementptr ptr, ptr %argv, i64 %w.next
  %w.path = load ptr, ptr %w.path.at
  %w.value = getelementptr %Value, ptr @program.values, i64 %w
  %w.base.at = getelementptr ptr, ptr @program.bases, i64 %w
  %w.base = load ptr, ptr %w.base.at
  %save.status = call i32 @npy.save(ptr %w.path, ptr %w.value, ptr @program.axes, ptr %w.base)
  %save.well = icmp eq i32 %save.status, 0
  br i1 %save.well, label %saved, label %stop
saved:
  br label %result
stop:
  %stopped = phi i32 [ %open.status, %open ], [ %load.status, %load ], [ %save.status, %save ]
  ret i32 %stopped
end:
  ret i32 {done}
}}

; Put a value's spelling and axes where a message takes them from.
define internal void @program.recall(ptr %value) nounwind {{
entry:
  %spelling.at = getelementptr ptr, ptr %value, i64 2
  %spelling = load ptr, ptr %spelling.at
  %length = call i64 @strlen(ptr %spelling)
  store ptr %spelling, ptr @npy.descr
  store i64 %length, ptr @npy.descr.length
  %rank.at = getelementptr i64, ptr %value, i64 5
  %rank = load i64, ptr %rank.at
  store i64 %rank, ptr @npy.rank
  %first.at = getelementptr i64, ptr %value, i64 6
  %first = load i64, ptr %first.at
  %from = getelementptr i64, ptr @program.axes, i64 %first
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %axis ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %axis, label %end
axis:
  %from.at = getelementptr i64, ptr %from, i64 %k
  %n = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr @npy.axes, i64 %k
  store i64 %n, ptr %to.at
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}}
"""


def main_text(about: Interface, aim: CompileTarget, version: str) -> str:
    """The text of `main` and of everything that it needs to read and write files."""
    module = ModuleText(f"{about.name} main")
    _strings(module, about, aim, version)
    _records(module, about)
    _solve(module, about)
    at = sum(t.rank for t in about.input_types)
    shapes(module, "program.write_shapes", about.output_types, about.symbols)
    f = module.function("program.shapes", "void", {"sizes": "ptr"}, linkage="internal")
    f.call("program.write_shapes", "void", [*_loaded(f, about), f.gep(Val("@program.axes", "ptr"), at, "i64")])
    f.ret()
    f = module.function("program.call", "i32", {"bases": "ptr", "sizes": "ptr"}, linkage="internal")
    module.declare("core.call", "i32", ["ptr", *sizes_parameters(about.symbols).values(), "ptr", "i64"])
    nothing = [Val("null", "ptr"), Val("0", "i64")]
    f.ret(f.call("core.call", "i32", [f["bases"], *_loaded(f, about), *nothing]))
    inputs, values = len(about.input_types), len(about.types)
    written = MAIN.format(
        name=about.name,
        inputs=inputs,
        values=values,
        arguments=values + 1,
        symbols=max(1, len(about.symbols)),
        axes=max(1, sum(t.rank for t in about.types)),
        attributes=outermost(aim),
        done=DONE,
        failed=FAILED,
        misused=MISUSED,
        unsupported=UNSUPPORTED,
        processor=PROCESSOR,
        threads=THREADS,
        mode=MODES[aim.machine],
        kinds=KINDS_OF_FILES,
        regular=REGULAR,
        large=TOO_LARGE,
    )
    return module.text() + npy_text() + writer_text() + "declare i1 @nacre_supported()\n" + written


def _loaded(f: Function, about: Interface) -> list[Val]:
    return [f.load(f.gep(f["sizes"], k, "i64"), "i64") for k in range(len(about.symbols))]


def _spellings(dtype: DType) -> tuple[str, str]:
    """NumPy's spellings of a dtype, the one for writing first."""
    if dtype is bfloat16:
        return "<V2", "|V2"
    if dtype is bool_:
        return "|b1", "|b1"
    order, code = "|" if dtype.itemsize == 1 else "<", dtype.numpy.str[1:]
    return order + code, "=" + code


def _records(module: ModuleText, about: Interface) -> None:
    """The records of all values, in the form that `deploy/npy` describes."""
    rows: list[str] = []
    first = 0
    for k, (name, t) in enumerate(zip((*about.input_names, *about.output_names), about.types, strict=True)):
        one, two = _spellings(t.dtype)
        texts = (string(module, f"program.value{k}.{j}", text) for j, text in enumerate((name, _shown(t), one, two)))
        row = ", ".join([*map(str, texts), f"i64 {t.dtype.itemsize}", f"i64 {t.rank}", f"i64 {first}"])
        rows.append(f"{RECORD} {{ {row} }}")
        first += t.rank
    module.constant("program.values", f"[{len(rows)} x {RECORD}]", f"[{', '.join(rows)}]", 16)


def _shown(t: TensorType) -> str:
    """A type and the bounds of its sizes: `f32[batch, 64] (batch from 1 to 512)`."""
    found = sorted({s for n in t.shape if isinstance(n, Dim) for s in n.symbols()}, key=lambda s: s.name)
    bounds = [f"{s.name} from {s.low}{'' if s.high >= LIMIT else f' to {s.high}'}" for s in found]
    return f"{t} ({', '.join(bounds)})" if bounds else str(t)


def _solve(module: ModuleText, about: Interface) -> None:
    """Write `program.solve`: sizes from the inputs' axes; it returns -1, or the number of an input that is wrong."""
    f = module.function("program.solve", "i64", {"axes": "ptr", "sizes": "ptr"}, linkage="internal")
    axes = [f.load(f.gep(f["axes"], k, "i64"), "i64") for k in range(sum(t.rank for t in about.input_types))]
    owner = [k for k, t in enumerate(about.input_types) for _ in t.shape]
    found: dict[str, Val] = {}

    def require(met: Val, place: int) -> None:
        """Continue if a condition holds; else return the input that an axis belongs to."""
        fine, fault = f.fresh("fine"), f.fresh("fault")
        f.branch(met, fine, fault)
        f.label(fault)
        f.ret(Val(str(owner[place]), "i64"))
        f.label(fine)

    known = solvers(about.input_types)
    for s in about.symbols:
        place, factor, rest = known[s]
        left = f.sub(axes[place], rest)
        require(f.icmp("sge", left, 0), place)
        if factor != 1:
            require(f.icmp("eq", f.binary("urem", left, factor), 0), place)
            left = f.binary("udiv", left, factor)
        require(f.icmp("sge", left, s.low), place)
        require(f.icmp("sle", left, s.high), place)
        found[s.name] = left
        f.store(left, f.gep(f["sizes"], len(found) - 1, "i64"))
    a = SizeArithmetic(f, found)
    for place, n in enumerate(n for t in about.input_types for n in t.shape):
        require(f.icmp("eq", axes[place], a.size(n)), place)
    f.ret(Val("-1", "i64"))


def _strings(module: ModuleText, about: Interface, aim: CompileTarget, version: str) -> None:
    files = " ".join(f"{n.upper()}.npy" for n in (*about.input_names, *about.output_names))
    usage = _lines(f"usage: {about.name} {files}", 7)
    texts = {
        "name": about.name,
        "option.help": "--help",
        "option.h": "-h",
        "option.version": "--version",
        "shared": "each output must be a file of its own; this one is an input or another output; name another",
        "usage": usage + f"{about.name}: give {len(about.types)} files; see {about.name} --help\n",
        "version": f"{about.name} (compiled by Nacre {version} for {aim.name}: {aim.target.cpu}, {aim.target.isa})\n",
        "help": usage
        + "\n"
        + "".join(
            [
                *_described("reads", about.input_names, about.input_types),
                *_described("writes", about.output_names, about.output_types),
                "\n",
                *(_lines(text, 2) for text in HELP),
            ]
        ),
    }
    for name, text in texts.items():
        string(module, f"program.{name}", text)


HELP = (
    "A file is NumPy's .npy, in C order; - is standard input or output.",
    "NACRE_NUM_THREADS says how many threads to use; the results have the same bits for any number.",
    f"Exit status: {DONE} done, {FAILED} failed, {MISUSED} wrong arguments or files, "
    f"{UNSUPPORTED} this processor lacks instructions.",
)


def _described(verb: str, names: Sequence[str], types: Sequence[TensorType]) -> list[str]:
    return [_lines(f"{verb:6} {n.upper()}.npy  {_shown(t)}", 7) for n, t in zip(names, types, strict=True)]


def _lines(text: str, hanging: int) -> str:
    """A text as lines that fit a terminal; those after the first are `hanging` blanks in."""
    return (
        textwrap.fill(text, WIDTH, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)
        + "\n"
    )
