"""The caller's wait for late workers in a region, and its back-off under contention, as LLVM text.

A worker may lose its processor to another program in the middle of a chunk, and delay the caller.  A caller that has
waited longer than its spin limit reads the late worker's clock.  The time that the worker did not run is lost.  Regions
then run on the caller alone for a while: first for the lost time, then for twice as long at each early repetition.
Shared regions then test whether the machine is still busy; their cost is a small part of the caller's time alone.
"""

from __future__ import annotations

SHORTEST = 250_000  # nanoseconds of lost time below which nothing changes: waking up takes time on an idle machine, too
SOON = 8  # times the lost time within which a repetition counts
LONGEST = 64  # times the lost time: limit of the caller's time alone

TEXT = """
@alone = internal global i64 0
@resumed = internal global i64 0
@times = internal global i64 1

declare i32 @clock_gettime(i32, ptr)

; Nanoseconds of a clock; 0 where there is none such.
define internal i64 @time(i32 %clock) nounwind {
  %now = alloca [2 x i64], align 8
  store i64 0, ptr %now
  %rest.p = getelementptr i64, ptr %now, i64 1
  store i64 0, ptr %rest.p
  %r = call i32 @clock_gettime(i32 %clock, ptr %now)
  %seconds = load i64, ptr %now
  %rest = load i64, ptr %rest.p
  %large = mul i64 %seconds, 1000000000
  %time = add i64 %large, %rest
  ret i64 %time
}

; A worker that has begun a chunk and not reported it done; 0 if there is none.
define internal i64 @late() nounwind {
entry:
  %highest = load i64, ptr getelementptr (i8, ptr @batch, i64 24)
  br label %look
look:
  %t = phi i64 [ %highest, %entry ], [ %t.next, %another ]
  %any = icmp sgt i64 %t, 0
  br i1 %any, label %ask, label %end
ask:
  %inside.p = getelementptr [16 x i32], ptr @inside, i64 %t
  %inside = load atomic i32, ptr %inside.p acquire, align 4
  %is.late = icmp ne i32 %inside, 0
  br i1 %is.late, label %end, label %another
another:
  %t.next = sub i64 %t, 1
  br label %look
end:
  ret i64 %t
}

; The time that a worker has run.
define internal i64 @run(i64 %thread) nounwind {
  %task.p = getelementptr i32, ptr @tasks, i64 %thread
  %task = load atomic i32, ptr %task.p acquire, align 4
  %other = xor i32 %task, -1
  %shifted = shl i32 %other, 3
  %clock = or i32 %shifted, 6
  %time = call i64 @time(i32 %clock)
  ret i64 %time
}

; Sleep until workers have done this number of chunks, and measure how long a late worker was not
; running: between two reports of chunks, the watched worker has work.
define internal void @await(i64 %left) nounwind noinline {
entry:
  store atomic i32 1, ptr @joining seq_cst, align 4
  %began = call i64 @time(i32 1)
  br label %wait
wait:
  %now = phi i64 [ %began, %entry ], [ %told, %watch ], [ %now, %sleep ]
  %lost = phi i64 [ 0, %entry ], [ %lost.next, %watch ], [ %lost, %sleep ]
  %finished = load atomic i64, ptr @done seq_cst, align 8
  %low = trunc i64 %finished to i32
  %all = icmp eq i64 %finished, %left
  br i1 %all, label %judge, label %find
find:
  %watched = call i64 @late()
  %known = icmp sgt i64 %watched, 0
  br i1 %known, label %watch, label %sleep
sleep:
  call void @sleep(ptr @done, i32 %low)
  br label %wait
watch:
  %start = call i64 @time(i32 1)
  %ran.before = call i64 @run(i64 %watched)
  call void @sleep(ptr @done, i32 %low)
  %ran.after = call i64 @run(i64 %watched)
  %told = call i64 @time(i32 1)
  %waited = sub i64 %told, %start
  %ran = sub i64 %ran.after, %ran.before
  %idle = sub i64 %waited, %ran
  %lost.next = add i64 %lost, %idle
  br label %wait
judge:
  store atomic i32 0, ptr @joining monotonic, align 4
  %much = icmp sgt i64 %lost, {shortest}
  br i1 %much, label %retreat, label %end
retreat:
  %resumed = load i64, ptr @resumed
  %between = sub i64 %began, %resumed
  %often = mul i64 %lost, {soon}
  %again = icmp slt i64 %between, %often
  %times = load i64, ptr @times
  %twice = shl i64 %times, 1
  %large = icmp sgt i64 %twice, {longest}
  %more = select i1 %large, i64 {longest}, i64 %twice
  %chosen = select i1 %again, i64 %more, i64 1
  store i64 %chosen, ptr @times
  %stay = mul i64 %lost, %chosen
  %until = add i64 %now, %stay
  store i64 %until, ptr @alone
  store i64 %until, ptr @resumed
  br label %end
end:
  ret void
}
"""


def backoff_text() -> str:
    """The LLVM text of `time` and `await`."""
    numbers = {"shortest": SHORTEST, "soon": SOON, "longest": LONGEST}
    text = TEXT
    for name, value in numbers.items():
        text = text.replace("{" + name + "}", str(value))
    return text
