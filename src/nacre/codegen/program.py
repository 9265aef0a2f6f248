"""The driver: one native function that walks a plan's table of steps on all threads of a region.

A step is a row of eight words (see `runtime/plan.bind`): kernel, first argument, extent, grain, barrier, idle, and in
loops the place of its counter's base.
Each thread of the team that the plan was bound for walks the whole table (a pool that has grown since brings no more).
It takes chunks of a step's extent from the step's counter until none is left, and waits for the others only where the
row says so, because a later step needs what this one computes.  An idle step is a copy that has nothing to do where
its two addresses are the same.  Before each of its chunks the caller may ask whether to stop; then the rest of the
table is walked without work.

A row without a kernel turns the way (see `runtime/flow`); all threads take the same one.  Its words: none, the place
of a loop's rounds or of a cell's address, trips, target, barrier, kind, and two more.  ENTER: whether one thread runs
the loop alone, and the row behind it, to which the others go.  TURN and LEAVE: the address and number of the loop's
moves; LEAVE has whether the loop was run alone in place of trips.  A move is three words: the place of an address among
the arguments, what is added to it after even rounds, and after odd ones.  So that threads need not wait for each other
when addresses move, each has its own copy of the arguments where there are loops; rounds and the bases of counters are
among them.  A counter is not set back between rounds: each thread knows where it stands after a step, since all of a
step's rounds are taken and each thread asks once in vain.  Whether to stop is agreed on at the barriers before rows
that turn: the caller writes it before the barrier, to one of two places in turn, so that nobody goes on alone.

The stamped driver is the same with a clock: each thread notes for each step when it arrives, begins and ends (see
`inspect/profile`).  Its table is the last word of the descriptor.
"""

from __future__ import annotations

import time

from nacre.runtime.flow import Kind
from nacre.runtime.plan import DESCRIPTOR_WORDS, STEP_WORDS

STAMPS_WORD = 15  # of the descriptor: the address of the stamps, int64[threads, steps, STAMPS]
ARGUMENTS_WORD = 16  # of the descriptor: bytes from a thread's arguments to the next one's; 0 where all share them
STAMPS = 3  # nanoseconds at which a thread arrives at a step, begins it, and ends it

# The context of a running call, in its workspace's frame on the caller's stack:
#   descriptor, arguments, counters, barrier, scratch, whether to stop (a function or null), its argument, stopped,
#   and twice what was agreed on about stopping
TEXT = f"""
declare void @nacre_barrier(ptr, i64)
declare void @nacre_pool_run(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Walk the table: every thread of the region runs this.
define void @nacre_walk(ptr %context, i64 %thread, i64 %present) nounwind {{
entry:
  %descriptor = load ptr, ptr %context
  %team.at = getelementptr i64, ptr %descriptor, i64 14
  %team = load i64, ptr %team.at
  %fewer = icmp slt i64 %present, %team
  %threads = select i1 %fewer, i64 %present, i64 %team
  %spare = icmp sge i64 %thread, %threads
  br i1 %spare, label %end, label %begin

begin:
  %args.at = getelementptr i64, ptr %context, i64 1
  %args.base = load ptr, ptr %args.at
  %args.stride.at = getelementptr i64, ptr %descriptor, i64 {ARGUMENTS_WORD}
  %args.stride = load i64, ptr %args.stride.at
  %args.offset = mul i64 %thread, %args.stride
  %args = getelementptr i8, ptr %args.base, i64 %args.offset
  %counters.at = getelementptr i64, ptr %context, i64 2
  %counters = load ptr, ptr %counters.at
  %barrier.at = getelementptr i64, ptr %context, i64 3
  %barrier = load ptr, ptr %barrier.at
  %scratch.at = getelementptr i64, ptr %context, i64 4
  %scratch.base = load ptr, ptr %scratch.at
  %steps.at = getelementptr i64, ptr %descriptor, i64 4
  %steps = load ptr, ptr %steps.at
  %count.at = getelementptr i64, ptr %descriptor, i64 5
  %count = load i64, ptr %count.at
  %stride.at = getelementptr i64, ptr %descriptor, i64 10
  %stride = load i64, ptr %stride.at
  %scratch.offset = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %scratch.base, i64 %scratch.offset
  %check.at = getelementptr i64, ptr %context, i64 5
  %check = load ptr, ptr %check.at
  %question.at = getelementptr i64, ptr %context, i64 6
  %question = load ptr, ptr %question.at
  %stopped.at = getelementptr i64, ptr %context, i64 7
  %caller = icmp eq i64 %thread, 0
  %checkable = icmp ne ptr %check, null
  %asks = and i1 %caller, %checkable
  %several = icmp sgt i64 %threads, 1
  %agreed = getelementptr i64, ptr %context, i64 8
  ; <prepare>
  br label %head

; the row, whether threads run it together, the place to agree at, and the row behind the loop that is run alone
head:
  %k = phi i64 [ 0, %begin ], [ %following, %done ], [ %to, %turned ], [ %past, %alone.halt ]
  %many = phi i1 [ %several, %begin ], [ %many, %done ], [ %together, %turned ], [ true, %alone.halt ]
  %turn = phi i64 [ 0, %begin ], [ %turn, %done ], [ %turn.next, %turned ], [ %turn, %alone.halt ]
  %past = phi i64 [ 0, %begin ], [ %past, %done ], [ %past.next, %turned ], [ %past, %alone.halt ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %step, label %end

step:
  %row.index = mul i64 %k, {STEP_WORDS}
  %row = getelementptr i64, ptr %steps, i64 %row.index
  %kernel = load ptr, ptr %row
  %first.at = getelementptr i64, ptr %row, i64 1
  %first = load i64, ptr %first.at
  %sync.at = getelementptr i64, ptr %row, i64 4
  %sync = load i64, ptr %sync.at
  %launches = icmp ne ptr %kernel, null
  br i1 %launches, label %launch, label %control

launch:
  %extent.at = getelementptr i64, ptr %row, i64 2
  %extent.given = load i64, ptr %extent.at
  %grain.at = getelementptr i64, ptr %row, i64 3
  %grain = load i64, ptr %grain.at
  %arg = getelementptr i64, ptr %args, i64 %first
  %idle.at = getelementptr i64, ptr %row, i64 5
  %idle = load i64, ptr %idle.at
  %from = load i64, ptr %arg
  %onto.at = getelementptr i64, ptr %arg, i64 1
  %onto = load i64, ptr %onto.at
  %in.place = icmp eq i64 %from, %onto
  %copies = icmp ne i64 %idle, 0
  %nothing = and i1 %copies, %in.place
  %extent = select i1 %nothing, i64 0, i64 %extent.given
  ; <arrive>
  br i1 %many, label %joint, label %alone

alone:
  ; <begin>
  %any = icmp sgt i64 %extent, 0
  br i1 %any, label %alone.check, label %done

alone.check:
  br i1 %asks, label %alone.ask, label %whole

alone.ask:
  %alone.stop = call i64 %check(ptr %question)
  store i64 %alone.stop, ptr %stopped.at
  %alone.on = icmp eq i64 %alone.stop, 0
  br i1 %alone.on, label %whole, label %alone.stopped

alone.stopped:
  br i1 %several, label %alone.halt, label %end

alone.halt:                                       ; the others wait behind the loop
  br label %head

whole:
  call void %kernel(ptr %arg, i64 0, i64 %extent, ptr %scratch)
  br label %done

joint:
  %wait = icmp ne i64 %sync, 0
  br i1 %wait, label %meet, label %share

meet:
  call void @nacre_barrier(ptr %barrier, i64 %threads)
  br label %share

share:
  ; <begin>
  %counter.offset = shl i64 %k, 6
  %counter = getelementptr i8, ptr %counters, i64 %counter.offset
  %base.place.at = getelementptr i64, ptr %row, i64 6
  %base.place = load i64, ptr %base.place.at
  %once = icmp eq i64 %base.place, 0
  br i1 %once, label %take, label %again

again:                                            ; in a loop: where the counter stood after the last round
  %base.at = getelementptr i64, ptr %args, i64 %base.place
  %base.held = load i64, ptr %base.at
  br label %take

take:
  %base = phi i64 [ 0, %share ], [ %base.held, %again ], [ %base, %chunk ]
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %on = icmp eq i64 %stopped, 0
  br i1 %on, label %next, label %done

next:
  %taken = atomicrmw add ptr %counter, i64 %grain monotonic
  %low = sub i64 %taken, %base
  %left = icmp slt i64 %low, %extent
  br i1 %left, label %chunk.check, label %finished

finished:
  br i1 %once, label %done, label %note

note:                                             ; chunks that were taken, and one in vain by each thread
  %extent.full = add i64 %extent, %grain
  %extent.over = sub i64 %extent.full, 1
  %chunks = udiv i64 %extent.over, %grain
  %asked = add i64 %chunks, %threads
  %span = mul i64 %asked, %grain
  %base.next = add i64 %base, %span
  %base.again = getelementptr i64, ptr %args, i64 %base.place
  store i64 %base.next, ptr %base.again
  br label %done

chunk.check:
  br i1 %asks, label %chunk.ask, label %chunk

chunk.ask:
  %stop = call i64 %check(ptr %question)
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %chunk, label %halt

halt:
  store atomic i64 %stop, ptr %stopped.at monotonic, align 8
  br label %done

chunk:
  %far = add i64 %low, %grain
  %over = icmp sgt i64 %far, %extent
  %high = select i1 %over, i64 %extent, i64 %far
  call void %kernel(ptr %arg, i64 %low, i64 %high, ptr %scratch)
  br label %take

done:
  ; <end>
  %following = add i64 %k, 1
  br label %head

control:                                          ; a row that turns the way
  %number.at = getelementptr i64, ptr %row, i64 2
  %number = load i64, ptr %number.at
  %target.at = getelementptr i64, ptr %row, i64 3
  %target = load i64, ptr %target.at
  %kind.at = getelementptr i64, ptr %row, i64 5
  %kind = load i64, ptr %kind.at
  %sixth.at = getelementptr i64, ptr %row, i64 6
  %sixth = load i64, ptr %sixth.at
  %seventh.at = getelementptr i64, ptr %row, i64 7
  %seventh = load i64, ptr %seventh.at
  %place = getelementptr i64, ptr %args, i64 %first
  %after = add i64 %k, 1
  %waits = icmp ne i64 %sync, 0
  %agrees = and i1 %waits, %many
  br i1 %agrees, label %agree, label %go.on

agree:
  %agreed.at = getelementptr i64, ptr %agreed, i64 %turn
  br i1 %caller, label %tell, label %gather

tell:
  %stopped.now = load atomic i64, ptr %stopped.at monotonic, align 8
  store atomic i64 %stopped.now, ptr %agreed.at monotonic, align 8
  br label %gather

gather:
  call void @nacre_barrier(ptr %barrier, i64 %threads)
  %told = load atomic i64, ptr %agreed.at monotonic, align 8
  %turn.other = xor i64 %turn, 1
  %goes.on = icmp eq i64 %told, 0
  br i1 %goes.on, label %go.on, label %end

go.on:
  %turn.next = phi i64 [ %turn, %control ], [ %turn.other, %gather ]
  switch i64 %kind, label %jump [ i64 {Kind.ENTER}, label %enter
                                  i64 {Kind.TURN}, label %move
                                  i64 {Kind.LEAVE}, label %leave
                                  i64 {Kind.BRANCH}, label %branch ]

jump:
  br label %turned

branch:
  %cell = load ptr, ptr %place
  %held = load i8, ptr %cell
  %holds = icmp ne i8 %held, 0
  %side = select i1 %holds, i64 %after, i64 %target
  br label %turned

enter:
  store i64 0, ptr %place
  %any.round = icmp sgt i64 %number, 0
  %inside = select i1 %any.round, i64 %after, i64 %target
  %alone.wanted = icmp ne i64 %sixth, 0
  %splits = and i1 %alone.wanted, %many
  %not.caller = xor i1 %caller, true
  %passes = and i1 %splits, %not.caller
  %entered = select i1 %passes, i64 %seventh, i64 %inside
  %goes.alone = and i1 %splits, %caller
  %entered.past = select i1 %goes.alone, i64 %seventh, i64 %past
  %keeps = xor i1 %goes.alone, true
  %entered.many = and i1 %many, %keeps
  br label %turned

move:                                             ; addresses for the next round
  %round = load i64, ptr %place
  %odd = and i64 %round, 1
  %move.column = add i64 %odd, 1
  %moves = inttoptr i64 %sixth to ptr
  br label %move.next

move.next:
  %m = phi i64 [ 0, %move ], [ %m.next, %move.one ]
  %m.more = icmp slt i64 %m, %seventh
  br i1 %m.more, label %move.one, label %moved

move.one:
  %m.index = mul i64 %m, 3
  %m.row = getelementptr i64, ptr %moves, i64 %m.index
  %m.place = load i64, ptr %m.row
  %m.step.at = getelementptr i64, ptr %m.row, i64 %move.column
  %m.step = load i64, ptr %m.step.at
  %m.word = getelementptr i64, ptr %args, i64 %m.place
  %m.old = load i64, ptr %m.word
  %m.new = add i64 %m.old, %m.step
  store i64 %m.new, ptr %m.word
  %m.next = add i64 %m, 1
  br label %move.next

moved:
  %round.next = add i64 %round, 1
  store i64 %round.next, ptr %place
  %round.more = icmp slt i64 %round.next, %number
  %moved.to = select i1 %round.more, i64 %target, i64 %after
  br label %turned

leave:                                            ; addresses as they were before the first round
  %rounds = load i64, ptr %place
  %odd.rounds = lshr i64 %rounds, 1
  %even.rounds = sub i64 %rounds, %odd.rounds
  %back = inttoptr i64 %sixth to ptr
  %was.alone = icmp ne i64 %number, 0
  %ends.alone = and i1 %was.alone, %several
  %left.many = or i1 %many, %ends.alone
  br label %leave.next

leave.next:
  %l = phi i64 [ 0, %leave ], [ %l.next, %leave.one ]
  %l.more = icmp slt i64 %l, %seventh
  br i1 %l.more, label %leave.one, label %turned

leave.one:
  %l.index = mul i64 %l, 3
  %l.row = getelementptr i64, ptr %back, i64 %l.index
  %l.place = load i64, ptr %l.row
  %l.even.at = getelementptr i64, ptr %l.row, i64 1
  %l.even = load i64, ptr %l.even.at
  %l.odd.at = getelementptr i64, ptr %l.row, i64 2
  %l.odd = load i64, ptr %l.odd.at
  %l.evens = mul i64 %l.even, %even.rounds
  %l.odds = mul i64 %l.odd, %odd.rounds
  %l.whole = add i64 %l.evens, %l.odds
  %l.word = getelementptr i64, ptr %args, i64 %l.place
  %l.old = load i64, ptr %l.word
  %l.new = sub i64 %l.old, %l.whole
  store i64 %l.new, ptr %l.word
  %l.next = add i64 %l, 1
  br label %leave.next

turned:
  %to = phi i64 [ %target, %jump ], [ %side, %branch ], [ %entered, %enter ], [ %moved.to, %moved ],
                [ %after, %leave.next ]
  %together = phi i1 [ %many, %jump ], [ %many, %branch ], [ %entered.many, %enter ], [ %many, %moved ],
                     [ %left.many, %leave.next ]
  %past.next = phi i64 [ %past, %jump ], [ %past, %branch ], [ %entered.past, %enter ], [ %past, %moved ],
                       [ %past, %leave.next ]
  br label %head

end:
  ret void
}}

; Run a bound plan: bases are the addresses of inputs and outputs, workspace holds the arena and what follows it.
define void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace) nounwind {{
  %stopped = call i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr null, ptr null)
  ret void
}}

; The same, until i64 check(question) is not 0; returns that.
define i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr %check, ptr %question) nounwind {{
entry:
  %context = alloca [16 x i64], align 64
  %template = load ptr, ptr %descriptor
  %words.at = getelementptr i64, ptr %descriptor, i64 1
  %words = load i64, ptr %words.at
  %fixups.at = getelementptr i64, ptr %descriptor, i64 2
  %fixups = load ptr, ptr %fixups.at
  %fixes.at = getelementptr i64, ptr %descriptor, i64 3
  %fixes = load i64, ptr %fixes.at
  %steps.at = getelementptr i64, ptr %descriptor, i64 5
  %steps = load i64, ptr %steps.at
  %args.at = getelementptr i64, ptr %descriptor, i64 6
  %args.offset = load i64, ptr %args.at
  %counters.at = getelementptr i64, ptr %descriptor, i64 7
  %counters.offset = load i64, ptr %counters.at
  %barrier.at = getelementptr i64, ptr %descriptor, i64 8
  %barrier.offset = load i64, ptr %barrier.at
  %scratch.at = getelementptr i64, ptr %descriptor, i64 9
  %scratch.offset = load i64, ptr %scratch.at
  %pool.at = getelementptr i64, ptr %descriptor, i64 11
  %pool = load i64, ptr %pool.at
  %shared.at = getelementptr i64, ptr %descriptor, i64 13
  %shared = load i64, ptr %shared.at
  %team.at = getelementptr i64, ptr %descriptor, i64 14
  %team = load i64, ptr %team.at
  %copy.at = getelementptr i64, ptr %descriptor, i64 {ARGUMENTS_WORD}
  %copy.bytes = load i64, ptr %copy.at
  %args = getelementptr i8, ptr %workspace, i64 %args.offset
  %counters = getelementptr i8, ptr %workspace, i64 %counters.offset
  %barrier = getelementptr i8, ptr %workspace, i64 %barrier.offset
  %scratch = getelementptr i8, ptr %workspace, i64 %scratch.offset
  %words.bytes = shl i64 %words, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %args, ptr %template, i64 %words.bytes, i1 false)
  br label %fix

fix:
  %f = phi i64 [ 0, %entry ], [ %f.next, %fix.one ]
  %fix.more = icmp slt i64 %f, %fixes
  br i1 %fix.more, label %fix.one, label %fixed

fix.one:
  %fix.index = mul i64 %f, 3
  %fix.row = getelementptr i64, ptr %fixups, i64 %fix.index
  %slot = load i64, ptr %fix.row
  %base.at = getelementptr i64, ptr %fix.row, i64 1
  %base.index = load i64, ptr %base.at
  %offset.at = getelementptr i64, ptr %fix.row, i64 2
  %offset = load i64, ptr %offset.at
  %in.arena = icmp eq i64 %base.index, %shared
  %base.place = getelementptr ptr, ptr %bases, i64 %base.index
  %base.from = select i1 %in.arena, ptr %bases, ptr %base.place
  %base.loaded = load ptr, ptr %base.from
  %base = select i1 %in.arena, ptr %workspace, ptr %base.loaded
  %address = getelementptr i8, ptr %base, i64 %offset
  %slot.at = getelementptr ptr, ptr %args, i64 %slot
  store ptr %address, ptr %slot.at
  %f.next = add i64 %f, 1
  br label %fix

fixed:                                            ; each thread's copy of the arguments, where they have their own
  %copied = icmp eq i64 %copy.bytes, 0
  br i1 %copied, label %ready, label %copy

copy:
  %c = phi i64 [ 1, %fixed ], [ %c.next, %copy.one ]
  %c.more = icmp slt i64 %c, %team
  br i1 %c.more, label %copy.one, label %ready

copy.one:
  %c.offset = mul i64 %c, %copy.bytes
  %c.args = getelementptr i8, ptr %args, i64 %c.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %c.args, ptr %args, i64 %words.bytes, i1 false)
  %c.next = add i64 %c, 1
  br label %copy

ready:
  store ptr %descriptor, ptr %context
  %context.args = getelementptr ptr, ptr %context, i64 1
  store ptr %args, ptr %context.args
  %context.counters = getelementptr ptr, ptr %context, i64 2
  store ptr %counters, ptr %context.counters
  %context.barrier = getelementptr ptr, ptr %context, i64 3
  store ptr %barrier, ptr %context.barrier
  %context.scratch = getelementptr ptr, ptr %context, i64 4
  store ptr %scratch, ptr %context.scratch
  %context.check = getelementptr ptr, ptr %context, i64 5
  store ptr %check, ptr %context.check
  %context.question = getelementptr ptr, ptr %context, i64 6
  store ptr %question, ptr %context.question
  %context.stopped = getelementptr i64, ptr %context, i64 7
  store i64 0, ptr %context.stopped
  %parallel = icmp ne i64 %pool, 0
  br i1 %parallel, label %together, label %alone

together:
  %counters.bytes = sub i64 %scratch.offset, %counters.offset
  call void @llvm.memset.p0.i64(ptr %counters, i8 0, i64 %counters.bytes, i1 false)
  call void @nacre_pool_run(ptr @nacre_walk, ptr %context)
  br label %end

alone:
  call void @nacre_walk(ptr %context, i64 0, i64 1)
  br label %end

end:
  %stopped = load i64, ptr %context.stopped
  ret i64 %stopped
}}
"""

assert DESCRIPTOR_WORDS > STAMPS_WORD

CLOCK = f"""
declare i32 @clock_gettime(i32, ptr)

; Note the time at one of a step's places for stamps.
define internal void @stamp(ptr %stamps, i64 %k, i64 %place) nounwind noinline {{
entry:
  %now = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 1)}, ptr %now)
  %seconds = load i64, ptr %now
  %rest.at = getelementptr i64, ptr %now, i64 1
  %rest = load i64, ptr %rest.at
  %large = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %large, %rest
  %row = mul i64 %k, {STAMPS}
  %index = add i64 %row, %place
  %at = getelementptr i64, ptr %stamps, i64 %index
  store i64 %nanoseconds, ptr %at
  ret void
}}
"""
STAMPED = {
    "prepare": f"""
  %stamps.at = getelementptr i64, ptr %descriptor, i64 {STAMPS_WORD}
  %stamps.base = load ptr, ptr %stamps.at
  %stamps.row = mul i64 %thread, %count
  %stamps.index = mul i64 %stamps.row, {STAMPS}
  %stamps = getelementptr i64, ptr %stamps.base, i64 %stamps.index""",
    **{name: f"call void @stamp(ptr %stamps, i64 %k, i64 {place})"
       for place, name in enumerate(("arrive", "begin", "end"))},
}


def driver_text() -> str:
    """The LLVM text of the driver; the same for every program."""
    return TEXT


def stamped_driver_text() -> str:
    """The LLVM text of the driver that notes the times of steps."""
    text = TEXT + CLOCK
    for place, code in STAMPED.items():
        text = text.replace(f"; <{place}>", code.strip())
    return text
