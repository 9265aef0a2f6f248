"""The parallel runtime: regions that all threads of the pool run, as LLVM text.

Everything specific to Linux (futex, affinity) is in this file; on other systems the same functions run on the caller
alone.  Generated code calls::

    i64  @nacre_pool_enter(i64 most)              acquire the pool: returns the threads, at most `most`
    void @nacre_pool_share(ptr fn, ptr arg, i64 chunks)
                                                  fn(arg, i64 chunk, i64 thread) once for each chunk
    void @nacre_pool_leave()                      release the pool
    i64  @nacre_pool_threads()                    the largest number of threads
    void @nacre_pool_run(ptr fn, ptr arg, i64 chunks)    the three calls in one

If `enter` returns 1, the pool is not available and the caller works alone: inside a region, while another Python thread
has the pool, or while the machine is busy.

No thread waits for an absent one.  The caller opens a batch of chunks, takes chunks like the workers, and at the end
waits only for chunks that a worker has begun.  `nacre.native.contention_backoff` has its wait, and the conditions under
which it continues alone.
"""

from __future__ import annotations

from nacre.native.contention_backoff import backoff_text
from nacre.native.isa import AARCH64, BY_NAME, X86_64

MAX_THREADS = 256
PROCESSORS = 1024  # size of an affinity mask
SPINS = 5000  # rounds of pause before a waiting thread sleeps

# @work offers chunks in one word: the next chunk in the upper 28 bits, the number of chunks in the 28 bits below, and
# in the last 8 the highest thread that may take one.  A thread takes a chunk by replacing the whole word, and reads the
# function and argument afterwards.  Its chunk belongs to the open batch in any case, because that batch cannot close
# before the chunk is done.
LINUX = """
@work = internal global i64 0, align 128
@done = internal global i64 0, align 128
@batch = internal global { ptr, ptr, i64, i64 } zeroinitializer, align 128
@bell = internal global i32 0, align 128
@sleepers = internal global i32 0, align 128
@joining = internal global i32 0, align 128
@season = internal global i32 0, align 128
@busy = internal global i32 0, align 128
@started = internal global i64 1
@wanted = internal global i64 1
@allowed = internal global [128 x i8] zeroinitializer
@tasks = internal global [256 x i32] zeroinitializer
@inside = internal global [256 x [16 x i32]] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i64 @syscall(i64, ...)
{declarations}

; Sleep while the word at an address has this value; wake all who sleep there.
define internal void @sleep(ptr %address, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %address, i32 128, i32 %value, ptr null)
  ret void
}

define internal void @wake(ptr %address) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %address, i32 129, i32 2147483647)
  ret void
}

; Take a chunk that a thread may have: its number, or -1.
define internal i64 @take(i64 %thread) nounwind {
entry:
  %first = load atomic i64, ptr @work seq_cst, align 8
  br label %look
look:
  %word = phi i64 [ %first, %entry ], [ %found, %try ]
  %next = lshr i64 %word, 36
  %shifted = lshr i64 %word, 8
  %limit = and i64 %shifted, 268435455
  %highest = and i64 %word, 255
  %left = icmp ult i64 %next, %limit
  %may = icmp ule i64 %thread, %highest
  %both = and i1 %left, %may
  br i1 %both, label %try, label %none
try:
  %less = add i64 %word, 68719476736
  %swapped = cmpxchg ptr @work, i64 %word, i64 %less seq_cst seq_cst
  %found = extractvalue { i64, i1 } %swapped, 0
  %taken = extractvalue { i64, i1 } %swapped, 1
  br i1 %taken, label %mine, label %look
mine:
  ret i64 %next
none:
  ret i64 -1
}

; Do a chunk of the batch that is open.
define internal void @do(i64 %chunk, i64 %thread) nounwind {
  %fn = load ptr, ptr @batch
  %arg = load ptr, ptr getelementptr (i8, ptr @batch, i64 8)
  %base = load i64, ptr getelementptr (i8, ptr @batch, i64 16)
  %number = add i64 %base, %chunk
  call void %fn(ptr %arg, i64 %number, i64 %thread)
  ret void
}

; A worker does chunks while there are any, and then says how many it has done.
define internal ptr @worker(ptr %argument) nounwind {
entry:
  %control = alloca i32
  %thread = ptrtoint ptr %argument to i64
  %task.n = call i64 (i64, ...) @syscall(i64 {gettid})
  %task = trunc i64 %task.n to i32
  %a = call i32 @sched_setaffinity(i32 0, i64 128, ptr @allowed)
  %task.p = getelementptr i32, ptr @tasks, i64 %thread
  store atomic i32 %task, ptr %task.p release, align 4
  %inside = getelementptr [16 x i32], ptr @inside, i64 %thread
  {default_control}
  br label %look
look:
  %rested = phi i64 [ 0, %entry ], [ %more.rested, %pause ], [ 0, %sleep ], [ 0, %awake ],
                    [ 0, %tell ], [ 0, %call ], [ 0, %spare ], [ 0, %leave ]
  %first = call i64 @take(i64 %thread)
  %nothing = icmp slt i64 %first, 0
  br i1 %nothing, label %idle, label %begin
idle:
  %all = load atomic i64, ptr @wanted monotonic, align 8
  %surplus = icmp sge i64 %thread, %all
  br i1 %surplus, label %spare, label %rest
spare:                                            ; no bell is for this thread until there are more again
  %season = load atomic i32, ptr @season seq_cst, align 4
  %all.now = load atomic i64, ptr @wanted seq_cst, align 8
  %still = icmp sge i64 %thread, %all.now
  br i1 %still, label %leave, label %look
leave:
  call void @sleep(ptr @season, i32 %season)
  br label %look
rest:
  %patient = icmp slt i64 %rested, {spins}
  br i1 %patient, label %pause, label %tired
pause:
  {pause}
  %more.rested = add i64 %rested, 1
  br label %look
tired:
  %in = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %heard = load atomic i32, ptr @bell seq_cst, align 4
  %word = load atomic i64, ptr @work seq_cst, align 8
  %next = lshr i64 %word, 36
  %shifted = lshr i64 %word, 8
  %limit = and i64 %shifted, 268435455
  %offered = icmp ult i64 %next, %limit
  %highest = and i64 %word, 255
  %may = icmp ule i64 %thread, %highest
  %wanted = and i1 %offered, %may
  br i1 %wanted, label %awake, label %sleep
awake:
  %out.0 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
sleep:
  call void @sleep(ptr @bell, i32 %heard)
  %out.1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
begin:
  store atomic i32 1, ptr %inside monotonic, align 4
  br label %work
work:
  %chunk = phi i64 [ %first, %begin ], [ %another, %work ]
  %count = phi i64 [ 1, %begin ], [ %count.next, %work ]
  call void @do(i64 %chunk, i64 %thread)
  %count.next = add i64 %count, 1
  %another = call i64 @take(i64 %thread)
  %more = icmp sge i64 %another, 0
  br i1 %more, label %work, label %tell
tell:
  store atomic i32 0, ptr %inside monotonic, align 4
  %before = atomicrmw add ptr @done, i64 %count seq_cst
  %awaited = load atomic i32, ptr @joining seq_cst, align 4
  %sleeping = icmp ne i32 %awaited, 0
  br i1 %sleeping, label %call, label %look
call:
  call void @wake(ptr @done)
  br label %look
}

; Start threads until there are %wanted; they inherit a mask that blocks every signal.
define internal void @start(i64 %wanted) nounwind noinline {
entry:
  %all = alloca [128 x i8], align 8
  %before = alloca [128 x i8], align 8
  %attributes = alloca [128 x i8], align 8
  %handle = alloca i64
  %f = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  %i = call i32 @pthread_attr_init(ptr %attributes)
  %d = call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 1)
  br label %next
next:
  %have = load i64, ptr @started
  %more = icmp slt i64 %have, %wanted
  br i1 %more, label %create, label %end
create:
  %argument = inttoptr i64 %have to ptr
  %task.p = getelementptr i32, ptr @tasks, i64 %have
  store atomic i32 0, ptr %task.p monotonic, align 4
  %inside.p = getelementptr [16 x i32], ptr @inside, i64 %have
  store atomic i32 0, ptr %inside.p monotonic, align 4
  %fault = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr @worker, ptr %argument)
  %well = icmp eq i32 %fault, 0
  br i1 %well, label %count, label %end
count:
  %now = add i64 %have, 1
  store i64 %now, ptr @started
  br label %next
end:
  %x = call i32 @pthread_attr_destroy(ptr %attributes)
  %r = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  ret void
}

define i64 @nacre_pool_enter(i64 %most) nounwind {
entry:
  %all = load atomic i64, ptr @wanted monotonic, align 8
  %bounded = icmp slt i64 %most, %all
  %wanted = select i1 %bounded, i64 %most, i64 %all
  %several = icmp sgt i64 %wanted, 1
  br i1 %several, label %take, label %alone
take:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %taken, 1
  br i1 %free, label %time, label %alone
alone:
  ret i64 1
time:
  %until = load i64, ptr @alone
  %now.alone = icmp ne i64 %until, 0
  br i1 %now.alone, label %ask, label %check
ask:
  %now = call i64 @time(i32 1)
  %still = icmp slt i64 %now, %until
  br i1 %still, label %refuse, label %together
refuse:
  store atomic i32 0, ptr @busy release, align 4
  ret i64 1
together:
  store i64 0, ptr @alone
  br label %check
check:
  %had = load i64, ptr @started
  %enough = icmp sge i64 %had, %wanted
  br i1 %enough, label %enter, label %grow
grow:
  call void @start(i64 %wanted)
  br label %enter
enter:
  %have = load i64, ptr @started
  %fewer = icmp slt i64 %have, %wanted
  %threads = select i1 %fewer, i64 %have, i64 %wanted
  %highest = sub i64 %threads, 1
  store i64 %highest, ptr getelementptr (i8, ptr @batch, i64 24)
  %single = icmp eq i64 %threads, 1
  br i1 %single, label %refuse, label %in
in:
  ret i64 %threads
}

define void @nacre_pool_leave() nounwind {
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

define void @nacre_pool_share(ptr %fn, ptr %arg, i64 %chunks) nounwind {
entry:
  store ptr %fn, ptr @batch
  store ptr %arg, ptr getelementptr (i8, ptr @batch, i64 8)
  %highest = load i64, ptr getelementptr (i8, ptr @batch, i64 24)
  br label %open
open:                                             ; as many chunks as a word can count
  %base = phi i64 [ 0, %entry ], [ %base.next, %close ]
  %rest = sub i64 %chunks, %base
  %over = icmp sgt i64 %rest, 134217728
  %limit = select i1 %over, i64 134217728, i64 %rest
  %some = icmp sgt i64 %limit, 1
  br i1 %some, label %offer, label %few
few:
  %one = icmp eq i64 %limit, 1
  br i1 %one, label %single, label %end
single:                                           ; nothing to share
  call void %fn(ptr %arg, i64 %base, i64 0)
  ret void
offer:
  store i64 %base, ptr getelementptr (i8, ptr @batch, i64 16)
  store atomic i64 0, ptr @done monotonic, align 8
  %shifted = shl i64 %limit, 8
  %word = or i64 %shifted, %highest
  %was = atomicrmw xchg ptr @work, i64 %word seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %ring, label %work
ring:
  %rung = atomicrmw add ptr @bell, i32 1 seq_cst
  call void @wake(ptr @bell)
  br label %work
work:
  %left = phi i64 [ %limit, %offer ], [ %limit, %ring ], [ %left.next, %chunk ]
  %taken = call i64 @take(i64 0)
  %none = icmp slt i64 %taken, 0
  br i1 %none, label %join, label %chunk
chunk:
  call void @do(i64 %taken, i64 0)
  %left.next = sub i64 %left, 1
  br label %work
join:                                             ; workers have begun the remaining chunks
  %count = phi i64 [ 0, %work ], [ %count.next, %pause ]
  %finished = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %finished, %left
  br i1 %all, label %close, label %still
still:
  %patient = icmp slt i64 %count, {spins}
  br i1 %patient, label %pause, label %long
pause:
  {pause}
  %count.next = add i64 %count, 1
  br label %join
long:
  call void @await(i64 %left)
  br label %close
close:
  %base.next = add i64 %base, %limit
  %ended = icmp sge i64 %base.next, %chunks
  br i1 %ended, label %end, label %open
end:
  ret void
}

define void @nacre_pool_run(ptr %fn, ptr %arg, i64 %chunks) nounwind {
entry:
  %threads = call i64 @nacre_pool_enter(i64 {most})
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %share, label %next
share:
  call void @nacre_pool_share(ptr %fn, ptr %arg, i64 %chunks)
  call void @nacre_pool_leave()
  ret void
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %chunk ]
  %more = icmp slt i64 %k, %chunks
  br i1 %more, label %chunk, label %end
chunk:
  call void %fn(ptr %arg, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}

; In a forked child the workers are gone; the next region starts new ones.
define void @nacre_pool_forked() nounwind {
  store i64 0, ptr @work
  store i64 0, ptr @done
  store i32 0, ptr @joining
  store i32 0, ptr @sleepers
  store i32 0, ptr @busy
  store i64 0, ptr @alone
  store i64 1, ptr @started
  ret void
}

define i64 @nacre_pool_threads() nounwind {
  %n = load atomic i64, ptr @wanted monotonic, align 8
  ret i64 %n
}

; So many threads from now on, which may run on the processors of this mask.
define void @nacre_pool_set(i64 %threads, ptr %mask) nounwind {
entry:
  call void @llvm.memcpy.p0.p0.i64(ptr @allowed, ptr %mask, i64 128, i1 false)
  store atomic i64 %threads, ptr @wanted seq_cst, align 8
  %begun = atomicrmw add ptr @season, i32 1 seq_cst
  call void @wake(ptr @season)
  %rung = atomicrmw add ptr @bell, i32 1 seq_cst
  call void @wake(ptr @bell)
  %have = load i64, ptr @started
  br label %next
next:
  %t = phi i64 [ 1, %entry ], [ %t.next, %move ]
  %more = icmp slt i64 %t, %have
  br i1 %more, label %known, label %end
known:
  %task.p = getelementptr i32, ptr @tasks, i64 %t
  %task = load atomic i32, ptr %task.p acquire, align 4
  %runs = icmp ne i32 %task, 0
  br i1 %runs, label %tell, label %move
tell:
  %r = call i32 @sched_setaffinity(i32 %task, i64 128, ptr %mask)
  br label %move
move:
  %t.next = add i64 %t, 1
  br label %next
end:
  ret void
}

define i64 @nacre_pool_started() nounwind {
  %n = load i64, ptr @started
  ret i64 %n
}
"""

ELSEWHERE = """
define i64 @nacre_pool_enter(i64 %most) nounwind {
  ret i64 1
}
define void @nacre_pool_leave() nounwind {
  ret void
}
define void @nacre_pool_share(ptr %fn, ptr %arg, i64 %chunks) nounwind {
  call void @nacre_pool_run(ptr %fn, ptr %arg, i64 %chunks)
  ret void
}
define void @nacre_pool_run(ptr %fn, ptr %arg, i64 %chunks) nounwind {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %chunk ]
  %more = icmp slt i64 %k, %chunks
  br i1 %more, label %chunk, label %end
chunk:
  call void %fn(ptr %arg, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}
define void @nacre_pool_forked() nounwind {
  ret void
}
define i64 @nacre_pool_threads() nounwind {
  ret i64 1
}
define void @nacre_pool_set(i64 %threads, ptr %mask) nounwind {
  ret void
}
define i64 @nacre_pool_started() nounwind {
  ret i64 1
}
"""

X86 = {
    "pause": "call void @llvm.x86.sse2.pause()",
    "default_control": """store i32 8064, ptr %control
  call void @llvm.x86.sse.ldmxcsr(ptr %control)""",
    "declarations": """declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.ldmxcsr(ptr)""",
    "futex": "202",
    "gettid": "186",
}
ARM = {
    "pause": "call void @llvm.aarch64.hint(i32 1)",
    "default_control": "call void @llvm.aarch64.set.fpcr(i64 0)",
    "declarations": """declare void @llvm.aarch64.hint(i32)
declare void @llvm.aarch64.set.fpcr(i64)""",
    "futex": "98",
    "gettid": "178",
}
MACHINE_CODE = {X86_64: X86, AARCH64: ARM}
NUMBERS = {"spins": SPINS, "most": MAX_THREADS}


def pool_text(isa: str, linux: bool = True) -> str:
    """The pool's LLVM text for an instruction set."""
    if not linux:
        return ELSEWHERE
    text = LINUX + backoff_text()
    for name, value in {**MACHINE_CODE[BY_NAME[isa].machine], **NUMBERS}.items():
        text = text.replace("{" + name + "}", str(value))
    return text
