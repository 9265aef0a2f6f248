"""Regions that all threads run together, and barriers inside them, as LLVM text.

All that is Linux's (futex, affinity) is in this file; on other systems the same names run on the
caller alone.  Generated code calls::

    void @nacre_pool_run(ptr fn, ptr arg)     fn(arg, i64 thread, i64 threads) on all threads
    void @nacre_barrier(ptr state, i64 n)     wait for all n threads of the region
    i64  @nacre_pool_threads()                how many threads a region gets at most

A barrier's state is BARRIER_BYTES of zeros that belong to the running program.  A region inside a
region, or while another Python thread has the pool, runs on its caller alone.
"""

from __future__ import annotations

BARRIER_BYTES = 128
MAX_THREADS = 256
PROCESSORS = 1024  # how many an affinity mask here names
SPINS = 2000  # rounds of pause before the processor is offered to others
YIELDS = 200  # offers before a thread that waits sleeps

# @word publishes a region in one atomic 64-bit store: how many threads take part in the upper 16
# bits, the region's number in the lower 48.  A worker that does not take part can therefore never
# mistake one region's numbers for another's.  Idle workers sleep on the lower half.
LINUX = """
@word = internal global i64 0, align 128
@region = internal global { ptr, ptr } zeroinitializer, align 128
@done = internal global i64 0, align 128
@joining = internal global i32 0, align 128
@sleepers = internal global i32 0, align 128
@busy = internal global i32 0, align 128
@started = internal global i64 1, align 128
@wanted = internal global i64 1
@pinning = internal global i32 0
@processors = internal global [256 x i32] zeroinitializer
@allowed = internal global [128 x i8] zeroinitializer
@tasks = internal global [256 x i32] zeroinitializer
@places = internal global [256 x i32] zeroinitializer
@settled = internal global i32 -1

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
{declarations}

; Rest a little: pause at first, then offer the processor to others.
define internal i64 @rest(i64 %n) nounwind {
  %early = icmp slt i64 %n, {spins}
  br i1 %early, label %pause, label %offer
pause:
  {pause}
  br label %end
offer:
  %ignored = call i32 @sched_yield()
  br label %end
end:
  %next = add i64 %n, 1
  ret i64 %next
}

; Sleep while the word at an address has this value; wake all who sleep there.
define internal void @sleep(ptr %address, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %address, i32 128, i32 %value, ptr null)
  ret void
}

define internal void @wake(ptr %address) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %address, i32 129, i32 2147483647)
  ret void
}

; Let a thread run on one processor, or on all that are allowed (-1).
define internal void @pin(i32 %task, i32 %processor) nounwind {
  %mask = alloca [128 x i8], align 8
  %free = icmp slt i32 %processor, 0
  br i1 %free, label %all, label %one
all:
  %r0 = call i32 @sched_setaffinity(i32 %task, i64 128, ptr @allowed)
  ret void
one:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %byte = lshr i32 %processor, 3
  %low = and i32 %processor, 7
  %bit = shl i32 1, %low
  %value = trunc i32 %bit to i8
  %place = getelementptr i8, ptr %mask, i32 %byte
  store i8 %value, ptr %place
  %r1 = call i32 @sched_setaffinity(i32 %task, i64 128, ptr %mask)
  ret void
}

; The caller may be anywhere: the worker whose processor it is on goes to the first one instead.
define internal void @place(i32 %here, i64 %threads) nounwind noinline {
entry:
  %on = load i32, ptr @pinning
  %pinned = icmp ne i32 %on, 0
  %first = load i32, ptr @processors
  %have = load i64, ptr @started
  br label %next
next:
  %t = phi i64 [ 1, %entry ], [ %t.next, %placed ]
  %complete = phi i1 [ true, %entry ], [ %so.far, %placed ]
  %more = icmp slt i64 %t, %have
  br i1 %more, label %look, label %end
look:
  %own.p = getelementptr i32, ptr @processors, i64 %t
  %own = load i32, ptr %own.p
  %clash = icmp eq i32 %own, %here
  %single = select i1 %clash, i32 %first, i32 %own
  %part = icmp slt i64 %t, %threads
  %settles = and i1 %pinned, %part
  %want = select i1 %settles, i32 %single, i32 -1
  %now.p = getelementptr i32, ptr @places, i64 %t
  %now = load i32, ptr %now.p
  %task.p = getelementptr i32, ptr @tasks, i64 %t
  %task = load atomic i32, ptr %task.p monotonic, align 4
  %known = icmp ne i32 %task, 0
  %moves = icmp ne i32 %now, %want
  %go = and i1 %known, %moves
  br i1 %go, label %move, label %placed
move:
  call void @pin(i32 %task, i32 %want)
  store i32 %want, ptr %now.p
  br label %placed
placed:
  %so.far = and i1 %complete, %known
  %t.next = add i64 %t, 1
  br label %next
end:
  %settled = select i1 %complete, i32 %here, i32 -1
  store i32 %settled, ptr @settled
  ret void
}

; A worker waits for a new word; where it counts this thread in, it runs the region.
define internal ptr @worker(ptr %argument) nounwind {
entry:
  %control = alloca i32
  %thread = ptrtoint ptr %argument to i64
  %task.n = call i64 (i64, ...) @syscall(i64 {gettid})
  %task = trunc i64 %task.n to i32
  %task.p = getelementptr i32, ptr @tasks, i64 %thread
  store atomic i32 %task, ptr %task.p monotonic, align 4
  {default_control}
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %seen, %spin ], [ %seen, %sleep ],
                  [ %new, %look ], [ %new, %work ], [ %new, %tell ]
  %count = phi i64 [ 0, %entry ], [ %rested, %spin ], [ 0, %sleep ],
                   [ 0, %look ], [ 0, %work ], [ 0, %tell ]
  %new = load atomic i64, ptr @word seq_cst, align 8
  %same = icmp eq i64 %new, %seen
  br i1 %same, label %idle, label %look
idle:
  %patient = icmp slt i64 %count, {patience}
  br i1 %patient, label %spin, label %sleep
spin:
  %rested = call i64 @rest(i64 %count)
  br label %wait
sleep:
  %in = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %low = trunc i64 %seen to i32
  call void @sleep(ptr @word, i32 %low)
  %out = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %wait
look:
  %threads = lshr i64 %new, 48
  %mine = icmp ult i64 %thread, %threads
  br i1 %mine, label %work, label %wait
work:
  %fn = load ptr, ptr @region
  %arg = load ptr, ptr getelementptr (i8, ptr @region, i64 8)
  call void %fn(ptr %arg, i64 %thread, i64 %threads)
  %finished = atomicrmw add ptr @done, i64 1 seq_cst
  %awaited = load atomic i32, ptr @joining seq_cst, align 4
  %sleeping = icmp ne i32 %awaited, 0
  br i1 %sleeping, label %tell, label %wait
tell:
  call void @wake(ptr @done)
  br label %wait
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
  %place.p = getelementptr i32, ptr @places, i64 %have
  store i32 -1, ptr %place.p
  store i32 -1, ptr @settled
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

define void @nacre_pool_run(ptr %fn, ptr %arg) nounwind {
entry:
  %wanted = load atomic i64, ptr @wanted monotonic, align 8
  %several = icmp sgt i64 %wanted, 1
  br i1 %several, label %take, label %alone
take:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %taken, 1
  br i1 %free, label %check, label %alone
alone:
  call void %fn(ptr %arg, i64 0, i64 1)
  ret void
check:
  %had = load i64, ptr @started
  %enough = icmp sge i64 %had, %wanted
  br i1 %enough, label %publish, label %grow
grow:
  call void @start(i64 %wanted)
  br label %publish
publish:
  %have = load i64, ptr @started
  %fewer = icmp slt i64 %have, %wanted
  %threads = select i1 %fewer, i64 %have, i64 %wanted
  %on = load i32, ptr @pinning
  %pinned = icmp ne i32 %on, 0
  br i1 %pinned, label %ask, label %compare
ask:
  %processor = call i32 @sched_getcpu()
  br label %compare
compare:
  %here = phi i32 [ -2, %publish ], [ %processor, %ask ]
  %there = load i32, ptr @settled
  %settled = icmp eq i32 %here, %there
  br i1 %settled, label %tell, label %settle
settle:
  call void @place(i32 %here, i64 %threads)
  br label %tell
tell:
  store ptr %fn, ptr @region
  store ptr %arg, ptr getelementptr (i8, ptr @region, i64 8)
  store atomic i64 0, ptr @done monotonic, align 8
  %old = load i64, ptr @word
  %number = add i64 %old, 1
  %kept = and i64 %number, 281474976710655
  %upper = shl i64 %threads, 48
  %new = or i64 %kept, %upper
  %was = atomicrmw xchg ptr @word, i64 %new seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %share
wake:
  call void @wake(ptr @word)
  br label %share
share:
  call void %fn(ptr %arg, i64 0, i64 %threads)
  %others = sub i64 %threads, 1
  br label %join
join:
  %count = phi i64 [ 0, %share ], [ %rested, %spin ], [ %count, %sleep ]
  %finished = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %finished, %others
  br i1 %all, label %end, label %still
still:
  %patient = icmp slt i64 %count, {patience}
  br i1 %patient, label %spin, label %sleep
spin:
  %rested = call i64 @rest(i64 %count)
  br label %join
sleep:
  %low = trunc i64 %finished to i32
  store atomic i32 1, ptr @joining seq_cst, align 4
  call void @sleep(ptr @done, i32 %low)
  store atomic i32 0, ptr @joining monotonic, align 4
  br label %join
end:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; The last to arrive clears the count and opens the gate.  The state: the count; in a line of its
; own the gate's number, then how many sleep there.
define void @nacre_barrier(ptr %state, i64 %n) nounwind {
entry:
  %single = icmp sle i64 %n, 1
  br i1 %single, label %end, label %arrive
arrive:
  %gate = getelementptr i8, ptr %state, i64 64
  %sleepers = getelementptr i8, ptr %state, i64 72
  %before = load atomic i64, ptr %gate acquire, align 8
  %earlier = atomicrmw add ptr %state, i64 1 acq_rel
  %here = add i64 %earlier, 1
  %last = icmp eq i64 %here, %n
  br i1 %last, label %open, label %wait
open:
  store atomic i64 0, ptr %state monotonic, align 8
  %next = add i64 %before, 1
  %was = atomicrmw xchg ptr %gate, i64 %next seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %call, label %end
call:
  call void @wake(ptr %gate)
  br label %end
wait:
  %count = phi i64 [ 0, %arrive ], [ %rested, %spin ], [ %count, %sleep ]
  %now = load atomic i64, ptr %gate acquire, align 8
  %same = icmp eq i64 %now, %before
  br i1 %same, label %still, label %end
still:
  %patient = icmp slt i64 %count, {patience}
  br i1 %patient, label %spin, label %sleep
spin:
  %rested = call i64 @rest(i64 %count)
  br label %wait
sleep:
  %low = trunc i64 %before to i32
  %in = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @sleep(ptr %gate, i32 %low)
  %out = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %wait
end:
  ret void
}

; In a forked child the workers are gone; the next region starts new ones.
define void @nacre_pool_forked() nounwind {
  store i64 0, ptr @word
  store i64 0, ptr @done
  store i32 0, ptr @joining
  store i32 0, ptr @sleepers
  store i32 0, ptr @busy
  store i64 1, ptr @started
  ret void
}

define i64 @nacre_pool_threads() nounwind {
  %n = load atomic i64, ptr @wanted monotonic, align 8
  ret i64 %n
}

define void @nacre_pool_set(i64 %threads, i32 %pin, ptr %list, ptr %mask) nounwind {
  call void @llvm.memcpy.p0.p0.i64(ptr @processors, ptr %list, i64 1024, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr @allowed, ptr %mask, i64 128, i1 false)
  store i32 %pin, ptr @pinning
  store i32 -1, ptr @settled
  store atomic i64 %threads, ptr @wanted release, align 8
  ret void
}

define i64 @nacre_pool_started() nounwind {
  %n = load i64, ptr @started
  ret i64 %n
}
"""

ELSEWHERE = """
define void @nacre_pool_run(ptr %fn, ptr %arg) nounwind {
  call void %fn(ptr %arg, i64 0, i64 1)
  ret void
}
define void @nacre_barrier(ptr %state, i64 %n) nounwind {
  ret void
}
define void @nacre_pool_forked() nounwind {
  ret void
}
define i64 @nacre_pool_threads() nounwind {
  ret i64 1
}
define void @nacre_pool_set(i64 %threads, i32 %pin, ptr %list, ptr %mask) nounwind {
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


def pool_text(isa: str, linux: bool = True) -> str:
    """The pool's LLVM text for an instruction set."""
    if not linux:
        return ELSEWHERE
    machine = ARM if isa == "neon" else X86
    patience = {"spins": str(SPINS), "patience": str(SPINS + YIELDS)}
    text = LINUX
    for name, value in (machine | patience).items():
        text = text.replace("{" + name + "}", value)
    return text
