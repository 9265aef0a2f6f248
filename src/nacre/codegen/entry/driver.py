"""The driver: one native function that runs a plan's table of steps on all threads of the pool.

A step is a row of eight words (see `runtime/plan.bind`): kernel, first argument, extent, grain, barrier, idle, host.
The steps between two barriers are an epoch; they are independent of each other.  The caller counts the chunks of an
epoch's steps, shares them with the pool, and starts the next epoch when they are done.  A thread that takes a chunk
finds the chunk's step.  A caller without workers runs each step whole.  An idle step is a copy that has no work if its
two addresses are equal.  Before each of its chunks the caller may test whether to stop.  Then the rest of the epoch is
taken without work, and no other epoch begins.

A host step calls a Python function (see `runtime/host_call`).  It has a barrier before and behind it, and the caller
runs it.  Its scratch memory begins with whether the function raised an exception, which ends the run.

A row without a kernel controls the flow (see `runtime/flow`).  Only the caller runs it, while no chunk is running.  Its
words: none, the place of a loop's rounds or of a cell's address, trips, target, barrier, kind, and two more.  ENTER:
whether the caller runs the loop alone.  TURN and LEAVE: the address and number of the loop's moves; LEAVE has whether
the loop ran alone instead of trips.  A move is three words: the place of an address among the arguments, the increment
after even rounds, and the increment after odd ones.

The comments `<begin>` and `<end>` mark the places where `stamped_driver` inserts a clock.
"""

from __future__ import annotations

from nacre.runtime.flow import Kind
from nacre.runtime.plan import STEP_WORDS

# The context of a running call, on the caller's stack:
#   0 descriptor, 1 arguments, 2 for each step the chunks of its epoch up to its end, 3 scratch, 4 whether to stop (a
#   function or null), 5 its argument, 6 stopped, 7 the first step of the epoch
TEXT = f"""
declare i64 @nacre_pool_enter(i64)
declare void @nacre_pool_share(ptr, ptr, i64)
declare void @nacre_pool_leave()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)

; Rounds of a step, from one to another.
define internal void @rounds(ptr %context, i64 %k, i64 %low, i64 %high, i64 %thread) nounwind {{
  %descriptor = load ptr, ptr %context
  %args.at = getelementptr i64, ptr %context, i64 1
  %args = load ptr, ptr %args.at
  %scratch.at = getelementptr i64, ptr %context, i64 3
  %scratch.base = load ptr, ptr %scratch.at
  %steps.at = getelementptr i64, ptr %descriptor, i64 4
  %steps = load ptr, ptr %steps.at
  %stride.at = getelementptr i64, ptr %descriptor, i64 10
  %stride = load i64, ptr %stride.at
  %row.index = mul i64 %k, {STEP_WORDS}
  %row = getelementptr i64, ptr %steps, i64 %row.index
  %kernel = load ptr, ptr %row
  %first.at = getelementptr i64, ptr %row, i64 1
  %first = load i64, ptr %first.at
  %arg = getelementptr i64, ptr %args, i64 %first
  %scratch.offset = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %scratch.base, i64 %scratch.offset
  ; <begin>
  call void %kernel(ptr %arg, i64 %low, i64 %high, ptr %scratch)
  ; <end>
  ret void
}}

; How many rounds a step has: none, for a copy of something to its own place.
define internal i64 @extent(ptr %context, ptr %row) nounwind {{
  %args.at = getelementptr i64, ptr %context, i64 1
  %args = load ptr, ptr %args.at
  %first.at = getelementptr i64, ptr %row, i64 1
  %first = load i64, ptr %first.at
  %arg = getelementptr i64, ptr %args, i64 %first
  %given.at = getelementptr i64, ptr %row, i64 2
  %given = load i64, ptr %given.at
  %idle.at = getelementptr i64, ptr %row, i64 5
  %idle = load i64, ptr %idle.at
  %from = load i64, ptr %arg
  %to.at = getelementptr i64, ptr %arg, i64 1
  %to = load i64, ptr %to.at
  %in.place = icmp eq i64 %from, %to
  %copies = icmp ne i64 %idle, 0
  %nothing = and i1 %copies, %in.place
  %none = icmp slt i64 %given, 1
  %neither = or i1 %nothing, %none
  %extent = select i1 %neither, i64 0, i64 %given
  ret i64 %extent
}}

; Whether to stop: asks, where the caller has something to ask.
define internal i1 @stops(ptr %context) nounwind {{
entry:
  %check.at = getelementptr i64, ptr %context, i64 4
  %check = load ptr, ptr %check.at
  %checkable = icmp ne ptr %check, null
  br i1 %checkable, label %ask, label %on
ask:
  %question.at = getelementptr i64, ptr %context, i64 5
  %question = load ptr, ptr %question.at
  %answer = call i64 %check(ptr %question)
  %stopped.at = getelementptr i64, ptr %context, i64 6
  store atomic i64 %answer, ptr %stopped.at monotonic, align 8
  %stop = icmp ne i64 %answer, 0
  ret i1 %stop
on:
  ret i1 false
}}

; A chunk of the epoch, on any thread.
define internal void @chunk(ptr %context, i64 %chunk, i64 %thread) nounwind {{
entry:
  %stopped.at = getelementptr i64, ptr %context, i64 6
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %on = icmp eq i64 %stopped, 0
  br i1 %on, label %go, label %end

go:
  %caller = icmp eq i64 %thread, 0
  br i1 %caller, label %ask, label %look

ask:
  %stop = call i1 @stops(ptr %context)
  br i1 %stop, label %end, label %look

look:
  %descriptor = load ptr, ptr %context
  %steps.at = getelementptr i64, ptr %descriptor, i64 4
  %steps = load ptr, ptr %steps.at
  %ends.at = getelementptr i64, ptr %context, i64 2
  %ends = load ptr, ptr %ends.at
  %first.at = getelementptr i64, ptr %context, i64 7
  %first = load i64, ptr %first.at
  br label %find

find:
  %k = phi i64 [ %first, %look ], [ %k.next, %past ]
  %before = phi i64 [ 0, %look ], [ %after, %past ]
  %after.at = getelementptr i64, ptr %ends, i64 %k
  %after = load i64, ptr %after.at
  %here = icmp slt i64 %chunk, %after
  br i1 %here, label %found, label %past

past:
  %k.next = add i64 %k, 1
  br label %find

found:
  %row.index = mul i64 %k, {STEP_WORDS}
  %row = getelementptr i64, ptr %steps, i64 %row.index
  %extent.at = getelementptr i64, ptr %row, i64 2
  %extent = load i64, ptr %extent.at
  %grain.at = getelementptr i64, ptr %row, i64 3
  %grain = load i64, ptr %grain.at
  %number = sub i64 %chunk, %before
  %low = mul i64 %number, %grain
  %left = sub i64 %extent, %low
  %over = icmp sgt i64 %grain, %left
  %count = select i1 %over, i64 %left, i64 %grain
  %high = add i64 %low, %count
  call void @rounds(ptr %context, i64 %k, i64 %low, i64 %high, i64 %thread)
  br label %end

end:
  ret void
}}

; The caller's way through the table: epochs on all threads of the pool, or each step whole where it is alone.
define internal void @walk(ptr %context, i1 %several) nounwind {{
entry:
  %descriptor = load ptr, ptr %context
  %args.at = getelementptr i64, ptr %context, i64 1
  %args = load ptr, ptr %args.at
  %steps.at = getelementptr i64, ptr %descriptor, i64 4
  %steps = load ptr, ptr %steps.at
  %count.at = getelementptr i64, ptr %descriptor, i64 5
  %count = load i64, ptr %count.at
  %ends.at = getelementptr i64, ptr %context, i64 2
  %ends = load ptr, ptr %ends.at
  %stopped.at = getelementptr i64, ptr %context, i64 6
  %first.at = getelementptr i64, ptr %context, i64 7
  br label %head

head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ], [ %l.next, %share ], [ %to, %turned ]
  %many = phi i1 [ %several, %entry ], [ %many, %done ], [ %many, %share ], [ %together, %turned ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %step, label %end

step:
  %k.next = add i64 %k, 1
  %row.index = mul i64 %k, {STEP_WORDS}
  %row = getelementptr i64, ptr %steps, i64 %row.index
  %kernel = load ptr, ptr %row
  %launches = icmp ne ptr %kernel, null
  br i1 %launches, label %launch, label %control

launch:
  %host.at = getelementptr i64, ptr %row, i64 6
  %host = load i64, ptr %host.at
  %hosted = icmp ne i64 %host, 0
  %by.caller = xor i1 %hosted, true
  %shared = and i1 %many, %by.caller
  br i1 %shared, label %open, label %alone

alone:
  %extent = call i64 @extent(ptr %context, ptr %row)
  %any = icmp sgt i64 %extent, 0
  br i1 %any, label %ask, label %done

ask:
  %stop = call i1 @stops(ptr %context)
  br i1 %stop, label %end, label %whole

whole:
  call void @rounds(ptr %context, i64 %k, i64 0, i64 %extent, i64 0)
  br i1 %hosted, label %answered, label %done

answered:                                         ; did the host raise an exception?
  %outcome.at = getelementptr i64, ptr %context, i64 3
  %outcome.place = load ptr, ptr %outcome.at
  %outcome = load i64, ptr %outcome.place
  store atomic i64 %outcome, ptr %stopped.at monotonic, align 8
  %raised = icmp ne i64 %outcome, 0
  br i1 %raised, label %end, label %done

done:
  br label %head

open:                                             ; an epoch: launches up to a barrier, or to a row that turns
  store i64 %k, ptr %first.at
  br label %count.one

count.one:
  %l = phi i64 [ %k, %open ], [ %l.next, %follow ]
  %chunks = phi i64 [ 0, %open ], [ %chunks.next, %follow ]
  %l.index = mul i64 %l, {STEP_WORDS}
  %l.row = getelementptr i64, ptr %steps, i64 %l.index
  %l.extent = call i64 @extent(ptr %context, ptr %l.row)
  %grain.at = getelementptr i64, ptr %l.row, i64 3
  %grain.given = load i64, ptr %grain.at
  %grain = call i64 @llvm.smax.i64(i64 %grain.given, i64 1)
  %above = add i64 %l.extent, %grain
  %full = sub i64 %above, 1
  %pieces = udiv i64 %full, %grain
  %chunks.next = add i64 %chunks, %pieces
  %end.at = getelementptr i64, ptr %ends, i64 %l
  store i64 %chunks.next, ptr %end.at
  %l.next = add i64 %l, 1
  %last = icmp sge i64 %l.next, %count
  br i1 %last, label %share, label %look

look:
  %row.next = getelementptr i64, ptr %l.row, i64 {STEP_WORDS}
  %kernel.next = load ptr, ptr %row.next
  %turns = icmp eq ptr %kernel.next, null
  br i1 %turns, label %share, label %follow.maybe

follow.maybe:
  %barrier.at = getelementptr i64, ptr %row.next, i64 4
  %barrier = load i64, ptr %barrier.at
  %ends.here = icmp ne i64 %barrier, 0
  br i1 %ends.here, label %share, label %follow

follow:
  br label %count.one

share:
  call void @nacre_pool_share(ptr @chunk, ptr %context, i64 %chunks.next)
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %on = icmp eq i64 %stopped, 0
  br i1 %on, label %head, label %end

control:                                          ; a row that turns the way
  %first.word.at = getelementptr i64, ptr %row, i64 1
  %first.word = load i64, ptr %first.word.at
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
  %place = getelementptr i64, ptr %args, i64 %first.word
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
  %side = select i1 %holds, i64 %k.next, i64 %target
  br label %turned

enter:
  store i64 0, ptr %place
  %any.round = icmp sgt i64 %number, 0
  %inside = select i1 %any.round, i64 %k.next, i64 %target
  %divides = icmp eq i64 %sixth, 0
  %entered.many = and i1 %many, %divides
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
  %moved.to = select i1 %round.more, i64 %target, i64 %k.next
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
  %b = phi i64 [ 0, %leave ], [ %b.next, %leave.one ]
  %b.more = icmp slt i64 %b, %seventh
  br i1 %b.more, label %leave.one, label %turned

leave.one:
  %b.index = mul i64 %b, 3
  %b.row = getelementptr i64, ptr %back, i64 %b.index
  %b.place = load i64, ptr %b.row
  %b.even.at = getelementptr i64, ptr %b.row, i64 1
  %b.even = load i64, ptr %b.even.at
  %b.odd.at = getelementptr i64, ptr %b.row, i64 2
  %b.odd = load i64, ptr %b.odd.at
  %b.evens = mul i64 %b.even, %even.rounds
  %b.odds = mul i64 %b.odd, %odd.rounds
  %b.whole = add i64 %b.evens, %b.odds
  %b.word = getelementptr i64, ptr %args, i64 %b.place
  %b.old = load i64, ptr %b.word
  %b.new = sub i64 %b.old, %b.whole
  store i64 %b.new, ptr %b.word
  %b.next = add i64 %b, 1
  br label %leave.next

turned:
  %to = phi i64 [ %target, %jump ], [ %side, %branch ], [ %inside, %enter ], [ %moved.to, %moved ],
                [ %k.next, %leave.next ]
  %together = phi i1 [ %many, %jump ], [ %many, %branch ], [ %entered.many, %enter ], [ %many, %moved ],
                     [ %left.many, %leave.next ]
  br label %head

end:
  ret void
}}

; Run a bound plan: bases are the addresses of inputs and outputs, an unused one, and that of packed inputs (or null);
; workspace is the arena and the tables behind it.
define void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace) nounwind {{
  %stopped = call i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr null, ptr null)
  ret void
}}

; The same, until i64 check(question) is not 0; returns that.
define i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr %check, ptr %question) nounwind {{
entry:
  %context = alloca [8 x i64], align 64
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
  %ends.at = getelementptr i64, ptr %descriptor, i64 7
  %ends.offset = load i64, ptr %ends.at
  %scratch.at = getelementptr i64, ptr %descriptor, i64 9
  %scratch.offset = load i64, ptr %scratch.at
  %team.at = getelementptr i64, ptr %descriptor, i64 14
  %team = load i64, ptr %team.at
  %shared.at = getelementptr i64, ptr %descriptor, i64 13
  %shared = load i64, ptr %shared.at
  %args = getelementptr i8, ptr %workspace, i64 %args.offset
  %ends = getelementptr i8, ptr %workspace, i64 %ends.offset
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
  %moved = getelementptr i8, ptr %base, i64 %offset
  %absent = icmp eq ptr %base, null
  %address = select i1 %absent, ptr null, ptr %moved
  %slot.at = getelementptr ptr, ptr %args, i64 %slot
  store ptr %address, ptr %slot.at
  %f.next = add i64 %f, 1
  br label %fix

fixed:
  store ptr %descriptor, ptr %context
  %context.args = getelementptr ptr, ptr %context, i64 1
  store ptr %args, ptr %context.args
  %context.ends = getelementptr ptr, ptr %context, i64 2
  store ptr %ends, ptr %context.ends
  %context.scratch = getelementptr ptr, ptr %context, i64 3
  store ptr %scratch, ptr %context.scratch
  %context.check = getelementptr ptr, ptr %context, i64 4
  store ptr %check, ptr %context.check
  %context.question = getelementptr ptr, ptr %context, i64 5
  store ptr %question, ptr %context.question
  %context.stopped = getelementptr i64, ptr %context, i64 6
  store i64 0, ptr %context.stopped
  %parallel = icmp sgt i64 %team, 1
  br i1 %parallel, label %enter, label %single

enter:
  %threads = call i64 @nacre_pool_enter(i64 %team)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %share, label %single

share:
  call void @walk(ptr %context, i1 true)
  call void @nacre_pool_leave()
  br label %end

single:
  call void @walk(ptr %context, i1 false)
  br label %end

end:
  %stopped = load i64, ptr %context.stopped
  ret i64 %stopped
}}
"""


def driver_text() -> str:
    """The LLVM text of the driver; the same for every program."""
    return TEXT
