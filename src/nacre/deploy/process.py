"""The requirements of a program on its process, as LLVM text: processor features, and threads.

    i1   @nacre_supported()     whether the processor and the system have what the code was compiled for
    i32  @nacre_begin()         at the first call, the number of threads from the environment; 0, or error THREADS
    i32  @nacre_threads(i32)    set the number of threads; 0, or error THREADS

The first runs on any processor of the machine's kind, so it is compiled for the oldest one.
"""

from __future__ import annotations

from nacre.deploy.target import CompileTarget
from nacre.native.limits import MAX_THREADS
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

BASELINE = '"target-cpu"="x86-64" "target-features"="+sse2"'
THREADS = 7  # the error code of an invalid number of threads

CPUID = (
    'call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}},'
    '~{{dirflag}},~{{fpsr}},~{{flags}}"(i32 {leaf}, i32 {sub})'
)
XGETBV = (
    'call { i32, i32 } asm sideeffect ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)'
)

TEXT = f"""
@nacre.begun = internal global i32 0
@nacre.variable = private constant [18 x i8] c"NACRE_NUM_THREADS\\00"

declare ptr @getenv(ptr)
declare i64 @strtol(ptr, ptr, i32)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_atfork(ptr, ptr, ptr)
declare void @nacre_pool_set(i64, ptr)
declare void @nacre_pool_forked()
declare i64 @llvm.ctpop.i64(i64)

; The processors that this process may run on: their number; their mask is written.
define internal i64 @nacre.allowed(ptr %mask) nounwind {{
entry:
  %found = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %count ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %count ]
  %more = icmp slt i64 %k, 16
  br i1 %more, label %count, label %end
count:
  %word.p = getelementptr i64, ptr %mask, i64 %k
  %word = load i64, ptr %word.p
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %sum.next = add i64 %sum, %bits
  %k.next = add i64 %k, 1
  br label %next
end:
  %none = icmp slt i64 %sum, 1
  %one = select i1 %none, i64 1, i64 %sum
  %many = icmp sgt i64 %one, {MAX_THREADS}
  %bounded = select i1 %many, i64 {MAX_THREADS}, i64 %one
  ret i64 %bounded
}}

define i32 @nacre_threads(i32 %threads) nounwind {{
entry:
  %mask = alloca [16 x i64], align 16
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %allowed = call i64 @nacre.allowed(ptr %mask)
  %wide = sext i32 %threads to i64
  %shifted = sub i64 %wide, 1
  %right = icmp ult i64 %shifted, {MAX_THREADS}
  br i1 %right, label %set, label %wrong
set:
  call void @nacre_pool_set(i64 %wide, ptr %mask)
  %was = atomicrmw xchg ptr @nacre.begun, i32 1 acq_rel
  %first = icmp eq i32 %was, 0
  br i1 %first, label %fork, label %done
fork:
  %ignored = call i32 @pthread_atfork(ptr null, ptr null, ptr @nacre_pool_forked)
  br label %done
done:
  ret i32 0
wrong:
  ret i32 {THREADS}
}}

define i32 @nacre_begin() nounwind {{
entry:
  %end = alloca ptr, align 8
  %mask = alloca [16 x i64], align 16
  %begun = load atomic i32, ptr @nacre.begun acquire, align 4
  %known = icmp ne i32 %begun, 0
  br i1 %known, label %done, label %look
look:
  %given = call ptr @getenv(ptr @nacre.variable)
  %absent = icmp eq ptr %given, null
  br i1 %absent, label %all, label %first
first:
  %start = load i8, ptr %given
  %empty = icmp eq i8 %start, 0
  br i1 %empty, label %all, label %digit
digit:
  %from = sub i8 %start, 48
  %is.digit = icmp ult i8 %from, 10
  br i1 %is.digit, label %number, label %wrong
number:
  %value = call i64 @strtol(ptr %given, ptr %end, i32 10)
  %rest = load ptr, ptr %end
  %last = load i8, ptr %rest
  %whole = icmp eq i8 %last, 0
  %small = icmp sle i64 %value, {MAX_THREADS}
  %fine = and i1 %whole, %small
  br i1 %fine, label %chosen, label %wrong
all:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %allowed = call i64 @nacre.allowed(ptr %mask)
  br label %chosen
chosen:
  %wanted = phi i64 [ %value, %number ], [ %allowed, %all ]
  %narrow = trunc i64 %wanted to i32
  %code = call i32 @nacre_threads(i32 %narrow)
  ret i32 %code
wrong:
  ret i32 {THREADS}
done:
  ret i32 0
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def outermost(aim: CompileTarget) -> str:
    """The attributes of functions that run before the processor's features are known."""
    return f"nounwind {BASELINE}" if aim.machine == "x86_64" else "nounwind"


def supported_text(aim: CompileTarget) -> str:
    """The text of `nacre_supported`: it checks the leaves of cpuid, then the registers that the system saves."""
    module = ModuleText("supported")
    f = module.function("nacre_supported", "i1", {}, attributes=outermost(aim))
    for (leaf, sub, register), mask in sorted(aim.masks.items()):
        _require(f, f.icmp("uge", _cpuid(f, leaf & 0x80000000, 0, 0), _number(leaf)))
        if sub:
            _require(f, f.icmp("uge", _cpuid(f, leaf, 0, 0), sub))
        _require(f, f.icmp("eq", f.and_(_cpuid(f, leaf, sub, register), _number(mask)), _number(mask)))
    if aim.saved_state:
        bits = f.op(f"extractvalue {f.op(XGETBV, '{ i32, i32 }')}, 0", "i32")
        _require(f, f.icmp("eq", f.and_(bits, aim.saved_state), aim.saved_state))
    f.ret(Val("true", "i1"))
    f.label("lacking")
    f.ret(Val("false", "i1"))
    return module.text()


def _cpuid(f: Function, leaf: int, sub: int, register: int) -> Val:
    found = f.op(CPUID.format(leaf=_number(leaf), sub=sub), "{ i32, i32, i32, i32 }")
    return f.op(f"extractvalue {found}, {register}", "i32")


def _require(f: Function, met: Val) -> None:
    following = f.fresh("met")
    f.branch(met, following, "lacking")
    f.label(following)


def _number(bits: int) -> int:
    """32 bits as the signed number that LLVM text uses."""
    return bits - (1 << 32) if bits >> 31 else bits
