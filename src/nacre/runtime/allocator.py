"""The caching allocator under every Buffer, as LLVM text.

Sizes are rounded up to classes, eight to a doubling (steps of 64 bytes below 512).  Blocks up to 32 KiB are cut from
slabs.  Larger blocks are mapped one by one.  Freed ones are cached up to a limit, so that a large temporary does not
cause page faults again and again.  There are no locks: callers hold the interpreter lock.  The text defines these
functions in its module::

    { i64, i64 } @class_of(i64 bytes)              a size's class, and that class's size
    ptr @take(i64 class, i64 size)                 a block, or null at the limit or without memory
    void @give(ptr block, i64 class, i64 size)     free a block
    void @nacre_empty_cache()                      unmap the cached blocks
"""

from __future__ import annotations

import mmap

STATE = ("allocated", "peak", "cached", "limit", "cache_limit", "slabs", "buffers", "mapped")
LARGEST = 1 << 46  # more than any machine has; larger sizes are rejected before they are classed

TEXT = """
; The words of STATE, in its order.
@nacre_memory = global [8 x i64] zeroinitializer, align 64
@free = internal global [320 x ptr] zeroinitializer, align 64
@slab = internal global ptr null
@slab_end = internal global ptr null

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)

; The class of a size in bytes, and the size of that class.
define internal { i64, i64 } @class_of(i64 %bytes) nounwind alwaysinline {
entry:
  %some = call i64 @llvm.umax.i64(i64 %bytes, i64 1)
  %n = sub i64 %some, 1
  %tiny = icmp ult i64 %n, 512
  br i1 %tiny, label %linear, label %steps
linear:
  %step = lshr i64 %n, 6
  %above = add i64 %step, 1
  %small = shl i64 %above, 6
  br label %end
steps:
  %zeros = call i64 @llvm.ctlz.i64(i64 %n, i1 true)
  %e = sub i64 63, %zeros
  %shift = sub i64 %e, 3
  %top = lshr i64 %n, %shift
  %m = and i64 %top, 7
  %doublings = sub i64 %e, 9
  %first = shl i64 %doublings, 3
  %place = add i64 %first, 8
  %number = add i64 %place, %m
  %parts = add i64 %top, 1
  %size = shl i64 %parts, %shift
  br label %end
end:
  %c = phi i64 [ %step, %linear ], [ %number, %steps ]
  %s = phi i64 [ %small, %linear ], [ %size, %steps ]
  %r0 = insertvalue { i64, i64 } poison, i64 %c, 0
  %r1 = insertvalue { i64, i64 } %r0, i64 %s, 1
  ret { i64, i64 } %r1
}

; How many bytes are mapped for a block: large ones have room for a colour (see @map).
define internal i64 @length_of(i64 %size) nounwind alwaysinline {
  %large = icmp uge i64 %size, 1048576
  %room = select i1 %large, i64 4096, i64 0
  %sum = add i64 %size, %room
  %up = add i64 %sum, 65535
  %length = and i64 %up, -65536
  ret i64 %length
}

define internal ptr @pages(i64 %length) nounwind {
  %p = call ptr @mmap(ptr null, i64 %length, i32 3, i32 {anonymous}, i32 -1, i64 0)
  %bad = icmp eq ptr %p, inttoptr (i64 -1 to ptr)
  %r = select i1 %bad, ptr null, ptr %p
  ret ptr %r
}

; Map a block.  From 4 MiB on it is on huge pages.  Large blocks begin at varying places of their
; first page, so that arrays that are walked together do not all fall into the same cache sets.
define internal ptr @map(i64 %size) nounwind noinline {
entry:
  %length = call i64 @length_of(i64 %size)
  %huge = icmp uge i64 %size, 4194304
  br i1 %huge, label %aligned, label %plain
plain:
  %p = call ptr @pages(i64 %length)
  br label %check
aligned:
  %more = add i64 %length, 2097152
  %q = call ptr @pages(i64 %more)
  %none = icmp eq ptr %q, null
  br i1 %none, label %fail, label %cut
cut:
  %start = ptrtoint ptr %q to i64
  %up = add i64 %start, 2097151
  %from = and i64 %up, -2097152
  %base = inttoptr i64 %from to ptr
  %head = sub i64 %from, %start
  %tail = sub i64 2097152, %head
  %end = add i64 %from, %length
  %rest = inttoptr i64 %end to ptr
  %u0 = call i32 @munmap(ptr %q, i64 %head)
  %u1 = call i32 @munmap(ptr %rest, i64 %tail)
  %u2 = call i32 @madvise(ptr %base, i64 %length, i32 {hugepage})
  br label %check
check:
  %block = phi ptr [ %p, %plain ], [ %base, %cut ]
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %fail, label %colour
colour:
  %count.p = getelementptr i64, ptr @nacre_memory, i64 7
  %count = load i64, ptr %count.p
  %next = add i64 %count, 1
  store i64 %next, ptr %count.p
  %large = icmp uge i64 %size, 1048576
  %turn = and i64 %count, 15
  %shade = shl i64 %turn, 8
  %offset = select i1 %large, i64 %shade, i64 0
  %data = getelementptr i8, ptr %block, i64 %offset
  ret ptr %data
fail:
  ret ptr null
}

define internal void @unmap(ptr %data, i64 %size) nounwind {
  %address = ptrtoint ptr %data to i64
  %floor = and i64 %address, -4096
  %base = inttoptr i64 %floor to ptr
  %length = call i64 @length_of(i64 %size)
  %r = call i32 @munmap(ptr %base, i64 %length)
  ret void
}

; Give the freed blocks of all mapped classes back to the system.
define void @nacre_empty_cache() nounwind {
entry:
  br label %classes
classes:
  %c = phi i64 [ 56, %entry ], [ %c.next, %cleared ]
  %head = getelementptr ptr, ptr @free, i64 %c
  %k = sub i64 %c, 8
  %doublings = lshr i64 %k, 3
  %shift = add i64 %doublings, 6
  %m = and i64 %k, 7
  %parts = add i64 %m, 9
  %size = shl i64 %parts, %shift
  br label %blocks
blocks:
  %block = load ptr, ptr %head
  %none = icmp eq ptr %block, null
  br i1 %none, label %cleared, label %drop
drop:
  %next = load ptr, ptr %block
  store ptr %next, ptr %head
  call void @unmap(ptr %block, i64 %size)
  br label %blocks
cleared:
  %c.next = add i64 %c, 1
  %more = icmp ult i64 %c.next, 320
  br i1 %more, label %classes, label %end
end:
  store i64 0, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  ret void
}

; A block that no freed one serves, from a slab or mapped; null where the system has no more.
define internal ptr @fresh(i64 %size) nounwind noinline {
entry:
  %small = icmp ule i64 %size, 32768
  br i1 %small, label %bump, label %large
bump:
  %at = load ptr, ptr @slab
  %end = load ptr, ptr @slab_end
  %at.n = ptrtoint ptr %at to i64
  %end.n = ptrtoint ptr %end to i64
  %left = sub i64 %end.n, %at.n
  %fits = icmp uge i64 %left, %size
  br i1 %fits, label %cut, label %slab
slab:
  %new = call ptr @pages(i64 1048576)
  %none = icmp eq ptr %new, null
  br i1 %none, label %fail, label %use
use:
  %slabs = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 5)
  %slabs.more = add i64 %slabs, 1048576
  store i64 %slabs.more, ptr getelementptr (i64, ptr @nacre_memory, i64 5)
  %new.end = getelementptr i8, ptr %new, i64 1048576
  store ptr %new.end, ptr @slab_end
  br label %cut
cut:
  %block = phi ptr [ %at, %bump ], [ %new, %use ]
  %after = getelementptr i8, ptr %block, i64 %size
  store ptr %after, ptr @slab
  ret ptr %block
large:
  %used = load i64, ptr @nacre_memory
  %kept = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  %limit = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 3)
  %held = add i64 %used, %kept
  %sum = add i64 %held, %size
  %over = icmp sgt i64 %sum, %limit
  br i1 %over, label %flush, label %try
flush:
  call void @nacre_empty_cache()
  br label %try
try:
  %p = call ptr @map(i64 %size)
  %mapped = icmp ne ptr %p, null
  br i1 %mapped, label %done, label %again
again:
  call void @nacre_empty_cache()
  %p2 = call ptr @map(i64 %size)
  ret ptr %p2
done:
  ret ptr %p
fail:
  ret ptr null
}

; A block of a class, counted as in use.
define internal ptr @take(i64 %class, i64 %size) nounwind {
entry:
  %used = load i64, ptr @nacre_memory
  %limit = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 3)
  %sum = add i64 %used, %size
  %over = icmp sgt i64 %sum, %limit
  br i1 %over, label %fail, label %look
look:
  %head = getelementptr ptr, ptr @free, i64 %class
  %known = load ptr, ptr %head
  %none = icmp eq ptr %known, null
  br i1 %none, label %make, label %reuse
reuse:
  %next = load ptr, ptr %known
  store ptr %next, ptr %head
  %mapped = icmp ugt i64 %size, 32768
  %counted = select i1 %mapped, i64 %size, i64 0
  %kept = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  %fewer = sub i64 %kept, %counted
  store i64 %fewer, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  br label %count
make:
  %made = call ptr @fresh(i64 %size)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %fail, label %count
count:
  %block = phi ptr [ %known, %reuse ], [ %made, %make ]
  store i64 %sum, ptr @nacre_memory
  %peak = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 1)
  %higher = call i64 @llvm.smax.i64(i64 %peak, i64 %sum)
  store i64 %higher, ptr getelementptr (i64, ptr @nacre_memory, i64 1)
  ret ptr %block
fail:
  ret ptr null
}

; Cache a block for reuse; if the cache would exceed its limit, all its blocks are unmapped first.
define internal void @give(ptr %block, i64 %class, i64 %size) nounwind {
entry:
  %used = load i64, ptr @nacre_memory
  %fewer = sub i64 %used, %size
  store i64 %fewer, ptr @nacre_memory
  %mapped = icmp ugt i64 %size, 32768
  br i1 %mapped, label %large, label %keep
large:
  %bound = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 4)
  %kept = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  %sum = add i64 %kept, %size
  %over = icmp sgt i64 %sum, %bound
  br i1 %over, label %flush, label %count
flush:
  call void @nacre_empty_cache()
  %alone = icmp sgt i64 %size, %bound
  br i1 %alone, label %drop, label %count
drop:
  call void @unmap(ptr %block, i64 %size)
  ret void
count:
  %total = phi i64 [ %sum, %large ], [ %size, %flush ]
  store i64 %total, ptr getelementptr (i64, ptr @nacre_memory, i64 2)
  br label %keep
keep:
  %head = getelementptr ptr, ptr @free, i64 %class
  %first = load ptr, ptr %head
  store ptr %first, ptr %block
  store ptr %block, ptr %head
  ret void
}
"""


def allocator_text() -> str:
    """The allocator's LLVM text for this system."""
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    huge = getattr(mmap, "MADV_HUGEPAGE", 0)
    return TEXT.replace("{anonymous}", str(anonymous)).replace("{hugepage}", str(huge))
