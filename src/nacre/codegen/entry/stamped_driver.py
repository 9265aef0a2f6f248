"""The stamped driver: the driver of plans with a clock around each chunk.

For each thread and step, it records when the first chunk began, when the last one ended, and how long the thread was
busy (see `inspect/profile`).  The last word of the descriptor is the address of these stamps.
"""

from __future__ import annotations

import time

from nacre.codegen.entry.driver import driver_text
from nacre.runtime.plan import DESCRIPTOR_WORDS

STAMPS_WORD = 15  # of the descriptor: the address of the stamps, int64[threads, steps, STAMPS]
STAMPS = 3  # nanoseconds at which a thread begins a step and ends it, and for which it worked on it
assert DESCRIPTOR_WORDS > STAMPS_WORD

CLOCK = f"""
declare i32 @clock_gettime(i32, ptr)

; The time now.
define internal i64 @time() nounwind noinline {{
  %now = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 1)}, ptr %now)
  %seconds = load i64, ptr %now
  %rest.at = getelementptr i64, ptr %now, i64 1
  %rest = load i64, ptr %rest.at
  %large = mul i64 %seconds, 1000000000
  %time = add i64 %large, %rest
  ret i64 %time
}}

; Note that a thread has been busy with a step since then.
define internal void @stamp(ptr %descriptor, i64 %k, i64 %thread, i64 %since) nounwind noinline {{
  %stamps.at = getelementptr i64, ptr %descriptor, i64 {STAMPS_WORD}
  %stamps = load ptr, ptr %stamps.at
  %count.at = getelementptr i64, ptr %descriptor, i64 5
  %count = load i64, ptr %count.at
  %row = mul i64 %thread, %count
  %place = add i64 %row, %k
  %index = mul i64 %place, {STAMPS}
  %begin.at = getelementptr i64, ptr %stamps, i64 %index
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %busy.at = getelementptr i64, ptr %begin.at, i64 2
  %begin = load i64, ptr %begin.at
  %new = icmp eq i64 %begin, 0
  %first = select i1 %new, i64 %since, i64 %begin
  store i64 %first, ptr %begin.at
  %now = call i64 @time()
  store i64 %now, ptr %end.at
  %spent = sub i64 %now, %since
  %busy = load i64, ptr %busy.at
  %sum = add i64 %busy, %spent
  store i64 %sum, ptr %busy.at
  ret void
}}
"""
STAMPED = {  # marks in the driver's text, and the instructions in their place
    "begin": "%since = call i64 @time()",
    "end": "call void @stamp(ptr %descriptor, i64 %k, i64 %thread, i64 %since)",
}


def stamped_driver_text() -> str:
    """The LLVM text of the driver that records the times of steps."""
    text = driver_text() + CLOCK
    for place, code in STAMPED.items():
        text = text.replace(f"; <{place}>", code)
    return text
