"""The entry of a program: it checks its arguments, runs the program, and wraps results.  Native code.

Record, in 64-bit words:

* inputs, outputs, descriptor, whether Ctrl-C may end it early, fallback, tensor class, buffer class;
* whether to release the interpreter lock, address of the number of active interpreters;
* how to treat nodes (ignore them, call the fallback, or the address of a Recording's table);
* the table of packed inputs (or 0, see `codegen/entry/prepacked`);
* for each input its type and, if it may be a view, the bytes of its elements (0: it must be dense);
* for each output its type, its bytes, and the input whose buffer it reuses (or -1).
"""

from __future__ import annotations

HEADER_WORDS = 11
PACKED_WORD = 10
SMALL_WORKSPACE = 8192  # bytes of workspace on the stack

# The blocks of a function that run a program: a buffer for each output, packed inputs, the arena, then the program.
# The function's block before them jumps to `perform`.  They end in `performed`, or in `failed` after a lack of memory
# or Ctrl-C.  They are inlined in each function, because a call would cost an eager operation a twentieth of its time.
PERFORM = """output:                                           ; a buffer for each output
  %o = phi i64 [ 0, %perform ], [ %o.next, %output.good ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %output.new, label %work

output.new:
  %result.index = mul i64 %o, 3
  %result.bytes.index = add i64 %result.index, 1
  %result.bytes.at = getelementptr i64, ptr %results, i64 %result.bytes.index
  %result.bytes = load i64, ptr %result.bytes.at
  %donor.index = add i64 %result.index, 2
  %donor.at = getelementptr i64, ptr %results, i64 %donor.index
  %donor = load i64, ptr %donor.at
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %output.old, label %output.fresh

output.old:                                       ; the output takes over an input's buffer
  %old.at = getelementptr ptr, ptr %read, i64 %donor
  %old = load ptr, ptr %old.at
  call void @Py_IncRef(ptr %old)
  call void @nacre_buffer_renew(ptr %old)
  br label %output.good

output.fresh:
  %fresh = call ptr @nacre_buffer_new(i64 %result.bytes)
  %no.memory = icmp eq ptr %fresh, null
  br i1 %no.memory, label %undo, label %output.good

output.good:
  %new = phi ptr [ %old, %output.old ], [ %fresh, %output.fresh ]
  %made.at = getelementptr ptr, ptr %made, i64 %o
  store ptr %new, ptr %made.at
  %new.memory.at = getelementptr i8, ptr %new, i64 16
  %new.memory = load ptr, ptr %new.memory.at
  %out.index = add i64 %inputs, %o
  %out.at = getelementptr ptr, ptr %bases, i64 %out.index
  store ptr %new.memory, ptr %out.at
  %o.next = add i64 %o, 1
  br label %output

work:                                             ; packed inputs, the arena, then the program
  %about.at = getelementptr ptr, ptr %record, i64 {packed}
  %about = load ptr, ptr %about.at
  %after.outputs = getelementptr ptr, ptr %bases, i64 %values
  %packed.at = getelementptr ptr, ptr %after.outputs, i64 1
  store ptr null, ptr %packed.at
  %packs = icmp ne ptr %about, null
  br i1 %packs, label %pack, label %start

pack:
  %found = call ptr @nacre_packed(ptr %about, ptr %read, ptr %bases)
  %is.found = icmp ne ptr %found, null
  br i1 %is.found, label %packed, label %start

packed:
  %found.memory.at = getelementptr i8, ptr %found, i64 16
  %found.memory = load ptr, ptr %found.memory.at
  store ptr %found.memory, ptr %packed.at
  br label %start

start:
  %block = phi ptr [ null, %work ], [ null, %pack ], [ %found, %packed ]
  %is.small = icmp sle i64 %bytes, {small}
  %is.quick = icmp eq i64 %release, 0
  %is.held = and i1 %is.small, %is.quick
  br i1 %is.held, label %run.small, label %arena

run.small:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %small.workspace)
  br label %ran

arena:
  %arena.buffer = call ptr @nacre_buffer_new(i64 %bytes)
  %no.arena = icmp eq ptr %arena.buffer, null
  br i1 %no.arena, label %unpacked, label %arena.good

arena.good:
  %arena.at = getelementptr i8, ptr %arena.buffer, i64 16
  %workspace = load ptr, ptr %arena.at
  %frees = icmp ne i64 %release, 0
  br i1 %frees, label %run.free, label %run.held

run.free:                                         ; without the interpreter lock: arguments may be given other memory
  call void @nacre_hold(ptr %read, i64 %inputs, i1 true)
  %stoppable.at = getelementptr i64, ptr %record, i64 3
  %stoppable = load i64, ptr %stoppable.at
  %is.stoppable = icmp ne i64 %stoppable, 0
  %check = select i1 %is.stoppable, ptr @nacre_interrupted, ptr null
  %saved = call ptr @PyEval_SaveThread()
  %thread.place = getelementptr ptr, ptr %question, i64 2
  store ptr %saved, ptr %thread.place
  %started = call i32 @clock_gettime(i32 {clock}, ptr %question)
  %stopped = call i64 @nacre_run_unless(ptr %descriptor, ptr %bases, ptr %workspace, ptr %check, ptr %question)
  call void @PyEval_RestoreThread(ptr %saved)
  %whole = icmp eq i64 %stopped, 0
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 %whole)
  call void @nacre_hold(ptr %read, i64 %inputs, i1 false)
  call void @Py_DecRef(ptr %arena.buffer)
  br i1 %whole, label %performed, label %undo       ; an exception is set where it was interrupted

unpacked:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 false)
  br label %undo

run.held:
  call void @nacre_run(ptr %descriptor, ptr %bases, ptr %workspace)
  call void @Py_DecRef(ptr %arena.buffer)
  br label %ran

ran:
  call void @nacre_keep(ptr %about, ptr %read, ptr %bases, ptr %block, i1 true)
  br label %performed

undo:                                             ; memory ran out, or Ctrl-C: release the new buffers
  %u = phi i64 [ %o, %output.fresh ], [ %outputs, %unpacked ], [ %outputs, %run.free ], [ %u.next, %undo.one ]
  %u.more = icmp sgt i64 %u, 0
  br i1 %u.more, label %undo.one, label %failed

undo.one:
  %u.next = sub i64 %u, 1
  %u.at = getelementptr ptr, ptr %made, i64 %u.next
  %u.buffer = load ptr, ptr %u.at
  call void @Py_DecRef(ptr %u.buffer)
  br label %undo
"""

DECLARATIONS = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @nacre_buffer_new(i64)
declare void @nacre_buffer_renew(ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Clear()
declare i32 @clock_gettime(i32, ptr)
declare void @nacre_run(ptr, ptr, ptr)
declare i64 @nacre_run_unless(ptr, ptr, ptr, ptr, ptr)
declare i64 @PyLong_AsSsize_t(ptr)
@_Py_NoneStruct = external global i8
"""

TEXT = """
define ptr @nacre_entry(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %descriptor.at = getelementptr i64, ptr %record, i64 2
  %descriptor = load ptr, ptr %descriptor.at
  %bytes.at = getelementptr i64, ptr %descriptor, i64 12
  %bytes = load i64, ptr %bytes.at
  %fallback.at = getelementptr i64, ptr %record, i64 4
  %class.at = getelementptr i64, ptr %record, i64 5
  %class = load ptr, ptr %class.at
  %buffer.class.at = getelementptr i64, ptr %record, i64 6
  %buffer.class = load ptr, ptr %buffer.class.at
  %release.at = getelementptr i64, ptr %record, i64 7
  %release = load i64, ptr %release.at
  %active.at = getelementptr i64, ptr %record, i64 8
  %active.place = load ptr, ptr %active.at
  %nodes.at = getelementptr i64, ptr %record, i64 9
  %nodes = load i64, ptr %nodes.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %inputs.words = shl i64 %inputs, 1
  %results = getelementptr i64, ptr %types, i64 %inputs.words
  %values = add i64 %inputs, %outputs
  %room = add i64 %values, 2
  %bases = alloca ptr, i64 %room, align 16
  %made = alloca ptr, i64 %room, align 16
  %read = alloca ptr, i64 %room, align 16
  %question = alloca [3 x i64], align 16
  %small.workspace = alloca [{small} x i8], align 64
  %count.fits = icmp eq i64 %given, %inputs
  %checks.nodes = icmp ne i64 %nodes, 0
  br i1 %count.fits, label %quiet, label %slow

quiet:                                            ; is no interpreter active?
  %active = load i64, ptr %active.place
  %idle = icmp eq i64 %active, 0
  %unchecked = xor i1 %checks.nodes, true
  %go = or i1 %idle, %unchecked
  br i1 %go, label %input, label %slow

input:                                            ; each argument: class, type, buffer, dense; those with nodes
  %i = phi i64 [ 0, %quiet ], [ %i.next, %input.good ]
  %mask = phi i64 [ 0, %quiet ], [ %mask.next, %input.good ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %input.class, label %noded

input.class:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %arg.class.at = getelementptr ptr, ptr %arg, i64 1
  %arg.class = load ptr, ptr %arg.class.at
  %is.tensor = icmp eq ptr %arg.class, %class
  br i1 %is.tensor, label %input.type, label %slow

input.type:
  %arg.type.at = getelementptr i8, ptr %arg, i64 {type}
  %arg.type = load ptr, ptr %arg.type.at
  %expected.index = shl i64 %i, 1
  %expected.at = getelementptr ptr, ptr %types, i64 %expected.index
  %expected = load ptr, ptr %expected.at
  %element.at = getelementptr i64, ptr %expected.at, i64 1
  %element = load i64, ptr %element.at
  %arg.data.at = getelementptr i8, ptr %arg, i64 {data}
  %arg.data = load ptr, ptr %arg.data.at
  %data.class.at = getelementptr ptr, ptr %arg.data, i64 1
  %data.class = load ptr, ptr %data.class.at
  %arg.layout.at = getelementptr i8, ptr %arg, i64 {layout}
  %arg.layout = load ptr, ptr %arg.layout.at
  %same.type = icmp eq ptr %arg.type, %expected
  %is.buffer = icmp eq ptr %data.class, %buffer.class
  %no.layout = icmp eq ptr %arg.layout, @_Py_NoneStruct
  %any.layout = icmp ne i64 %element, 0
  %is.dense = or i1 %no.layout, %any.layout
  %fine.1 = and i1 %same.type, %is.buffer
  %fine = and i1 %fine.1, %is.dense
  br i1 %fine, label %input.node, label %slow

input.node:
  %arg.node.at = getelementptr i8, ptr %arg, i64 {node}
  %arg.node = load ptr, ptr %arg.node.at
  %no.node = icmp eq ptr %arg.node, @_Py_NoneStruct
  %node.fine = or i1 %no.node, %unchecked
  br i1 %node.fine, label %input.start, label %input.noded

input.noded:
  %records = icmp ugt i64 %nodes, 1
  br i1 %records, label %input.level, label %slow

input.level:
  %arg.level.at = getelementptr i8, ptr %arg.node, i64 {level}
  %arg.level = load ptr, ptr %arg.level.at
  %arg.plain = icmp eq ptr %arg.level, @nacre_zero
  %arg.bit = shl i64 1, %i
  br i1 %arg.plain, label %input.start, label %slow

input.start:                                      ; where in its buffer does it begin?
  %bit = phi i64 [ 0, %input.node ], [ %arg.bit, %input.level ]
  %mask.next = or i64 %mask, %bit
  br i1 %no.layout, label %input.good, label %input.view

input.view:
  %first.at = getelementptr i8, ptr %arg.layout, i64 {offset}
  %first = load ptr, ptr %first.at
  %first.number = call i64 @PyLong_AsSsize_t(ptr %first)
  %first.bytes = mul i64 %first.number, %element
  br label %input.good

input.good:
  %arg.offset = phi i64 [ 0, %input.start ], [ %first.bytes, %input.view ]
  %arg.memory.at = getelementptr i8, ptr %arg.data, i64 16
  %arg.memory = load ptr, ptr %arg.memory.at
  %arg.first = getelementptr i8, ptr %arg.memory, i64 %arg.offset
  %base.at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %arg.first, ptr %base.at
  %read.at = getelementptr ptr, ptr %read, i64 %i
  store ptr %arg.data, ptr %read.at
  %i.next = add i64 %i, 1
  br label %input

noded:                                            ; is it recorded, and by which rule?
  %any.node = icmp ne i64 %mask, 0
  br i1 %any.node, label %mode, label %perform

mode:
  %recording = call i64 @nacre_records()
  %silent = icmp eq i64 %recording, 0
  br i1 %silent, label %perform, label %sure

sure:
  %loud = icmp eq i64 %recording, 1
  br i1 %loud, label %rule.look, label %slow

rule.look:
  %table = inttoptr i64 %nodes to ptr
  %rule.at = getelementptr ptr, ptr %table, i64 %mask
  %rule.found = load ptr, ptr %rule.at
  %known = icmp ne ptr %rule.found, null
  br i1 %known, label %perform, label %slow

perform:
  %rule = phi ptr [ null, %noded ], [ null, %mode ], [ %rule.found, %rule.look ]
  br label %output

{perform}
performed:
  %is.one = icmp eq i64 %outputs, 1
  br i1 %is.one, label %one, label %many

one:
  %one.buffer = load ptr, ptr %made
  %one.type = load ptr, ptr %results
  %one.tensor = call ptr @nacre_tensor(ptr %class, ptr %one.type, ptr %one.buffer)
  %is.recorded = icmp ne ptr %rule, null
  %is.made = icmp ne ptr %one.tensor, null
  %to.record = and i1 %is.recorded, %is.made
  br i1 %to.record, label %one.noded, label %one.plain

one.plain:
  ret ptr %one.tensor

one.noded:
  %recorded = call ptr @nacre_record(ptr %rule, ptr %args, i64 %inputs, ptr %one.tensor)
  ret ptr %recorded

many:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %failed, label %fill

fill:
  %w = phi i64 [ 0, %many ], [ %w.next, %fill.good ]
  %w.more = icmp slt i64 %w, %outputs
  br i1 %w.more, label %fill.one, label %filled

fill.one:
  %w.buffer.at = getelementptr ptr, ptr %made, i64 %w
  %w.buffer = load ptr, ptr %w.buffer.at
  %w.index = mul i64 %w, 3
  %w.type.at = getelementptr ptr, ptr %results, i64 %w.index
  %w.type = load ptr, ptr %w.type.at
  %w.tensor = call ptr @nacre_tensor(ptr %class, ptr %w.type, ptr %w.buffer)
  %no.tensor = icmp eq ptr %w.tensor, null
  br i1 %no.tensor, label %failed, label %fill.good

fill.good:
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %w, ptr %w.tensor)
  %w.next = add i64 %w, 1
  br label %fill

filled:
  ret ptr %tuple

failed:
  ret ptr null

slow:
  %fallback = load ptr, ptr %fallback.at
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %given, ptr null)
  ret ptr %answer
}

; Acquire or release references to the inputs of a call.
define dso_local void @nacre_hold(ptr %read, i64 %count, i1 %more) nounwind noinline {
entry:
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %one, label %end

one:
  %buffer.at = getelementptr ptr, ptr %read, i64 %k
  %buffer = load ptr, ptr %buffer.at
  br i1 %more, label %hold, label %let.go

hold:
  call void @Py_IncRef(ptr %buffer)
  br label %done

let.go:
  call void @Py_DecRef(ptr %buffer)
  br label %done

done:
  %k.next = add i64 %k, 1
  br label %next

end:
  ret void
}

; Every tenth of a second: take the interpreter lock and let Python handle signals.  1 where that raised.
define dso_local i64 @nacre_interrupted(ptr %question) nounwind {
entry:
  %now = alloca [2 x i64], align 16
  %told = call i32 @clock_gettime(i32 {clock}, ptr %now)
  %now.part.at = getelementptr i64, ptr %now, i64 1
  %last.part.at = getelementptr i64, ptr %question, i64 1
  %now.seconds = load i64, ptr %now
  %now.part = load i64, ptr %now.part.at
  %last.seconds = load i64, ptr %question
  %last.part = load i64, ptr %last.part.at
  %seconds = sub i64 %now.seconds, %last.seconds
  %part = sub i64 %now.part, %last.part
  %scaled = mul i64 %seconds, 1000000000
  %passed = add i64 %scaled, %part
  %due = icmp sgt i64 %passed, 100000000
  br i1 %due, label %ask, label %on

ask:
  store i64 %now.seconds, ptr %question
  store i64 %now.part, ptr %last.part.at
  %thread.place = getelementptr ptr, ptr %question, i64 2
  %thread = load ptr, ptr %thread.place
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %again = call ptr @PyEval_SaveThread()
  store ptr %again, ptr %thread.place
  %stop = icmp ne i32 %raised, 0
  %answer = zext i1 %stop to i64
  ret i64 %answer

on:
  ret i64 0
}

; A tensor around a buffer, whose reference it takes over.
define dso_local ptr @nacre_tensor(ptr %class, ptr %type, ptr %buffer) nounwind {
entry:
  %tensor = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %fail, label %good

good:
  call void @Py_IncRef(ptr %type)
  %type.at = getelementptr i8, ptr %tensor, i64 {type}
  store ptr %type, ptr %type.at
  %data.at = getelementptr i8, ptr %tensor, i64 {data}
  store ptr %buffer, ptr %data.at
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  %layout.at = getelementptr i8, ptr %tensor, i64 {layout}
  store ptr @_Py_NoneStruct, ptr %layout.at
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  %node.at = getelementptr i8, ptr %tensor, i64 {node}
  store ptr @_Py_NoneStruct, ptr %node.at
  ret ptr %tensor

fail:
  call void @Py_DecRef(ptr %buffer)
  ret ptr null
}
""".replace("{perform}", PERFORM)
