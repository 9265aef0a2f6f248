"""The entry of a program with variables: it reads their values, runs the program, and stores new values.

All of it runs under the interpreter lock, which a long program releases while it runs.  So no thread sees some
variables with new values and others with old ones.  All steps that may fail come before the program, except the
allocation of its memory, which comes before its first kernel: a call that raises has changed nothing.  Variables whose
memory the program overwrites have placeholders meanwhile (see `hidden` in `trace/variable`), if no other object refers
to their values.  Other calls go to the fallback, which is Python.

Record, in 64-bit words:

* the program's record (see `codegen/entry/call`), arguments, plain operands (arguments and captures), results;
* addresses of tables: the sources of operands after the arguments (captures, and slots of variables), and the slots for
  outputs after the results;
* addresses of tables that begin with their length: hidden values (pairs: operand, placeholder), slots to set to None,
  and slots that must be unchanged (triples: slot, object, whether it must be the value);
* functions: whether all other conditions hold (or 0), and the conversion of the tuple of results to the answer (0: the
  only result is the answer, None: the tuple is);
* the fallback, and the functions that acquire and release the lock of updates.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.entry.perform_text import PERFORM
from nacre.native.interpreter import slot_offset
from nacre.trace.value import Value
from nacre.trace.variable import UPDATER, UPDATES, Variable

Slot = tuple[Variable, str]  # a variable and the name of one of its slots


@dataclass(frozen=True)
class ProgramVariables:
    """The variables and captures of a program, in the order of its operands and outputs."""

    captures: Sequence[Value] = ()
    read: Sequence[Slot] = ()
    written: Sequence[Slot] = ()
    cleared: Sequence[Slot] = ()  # set to None at the end
    kept: Sequence[tuple[Slot, object, bool]] = ()  # a slot, True, False or None, and whether it must have that value
    hidden: Mapping[int, Value] = field(default_factory=dict[int, Value])  # placeholders, by the number in `read`


TEXT = """
declare ptr @nacre_packed(ptr, ptr, ptr)
declare void @nacre_keep(ptr, ptr, ptr, ptr, i1)
declare void @nacre_hold(ptr, i64, i1)
declare i64 @nacre_interrupted(ptr)
declare ptr @nacre_tensor(ptr, ptr, ptr)
declare i64 @PyThread_get_thread_ident()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
@nacre_updater = external global i64

define ptr @nacre_step(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %step = call ptr @PyLong_AsVoidPtr(ptr %self)
  %record = load ptr, ptr %step
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %active.at = getelementptr i64, ptr %record, i64 8
  %active.place = load ptr, ptr %active.at
  %arguments.at = getelementptr i64, ptr %step, i64 1
  %arguments = load i64, ptr %arguments.at
  %hidden.at = getelementptr ptr, ptr %step, i64 6
  %hidden = load ptr, ptr %hidden.at
  %hides.many = load i64, ptr %hidden
  %hides = icmp ne i64 %hides.many, 0
  %cleared.at = getelementptr ptr, ptr %step, i64 7
  %cleared = load ptr, ptr %cleared.at
  %clears = load i64, ptr %cleared
  %holds.at = getelementptr ptr, ptr %step, i64 9
  %holds = load ptr, ptr %holds.at
  %values = add i64 %inputs, %outputs
  %room = add i64 %values, 2
  %both = shl i64 %outputs, 1
  %olds.many = add i64 %both, %clears
  %bases = alloca ptr, i64 %room, align 16
  %made = alloca ptr, i64 %room, align 16
  %read = alloca ptr, i64 %room, align 16
  %operands = alloca ptr, i64 %room, align 16
  %tensors = alloca ptr, i64 %room, align 16
  %olds = alloca ptr, i64 %olds.many, align 16
  %error = alloca [3 x ptr], align 16
  %no = alloca ptr, align 16
  store ptr @_Py_FalseStruct, ptr %no
  %fits = icmp eq i64 %given, %arguments
  %active = load i64, ptr %active.place
  %idle = icmp eq i64 %active, 0
  %go = and i1 %fits, %idle
  br i1 %go, label %guards, label %slow

guards:                                           ; is all that was read while tracing as it was?
  %none.to.ask = icmp eq ptr %holds, null
  br i1 %none.to.ask, label %tensor, label %ask

ask:
  %held = call i64 @nacre_answer(ptr %holds, ptr %args, i64 0)
  switch i64 %held, label %slow [ i64 1, label %tensor
                                  i64 -1, label %failed ]

tensor:                                           ; the tensors of the outputs
  %ready = call i1 @nacre_tensors(ptr %record, ptr %tensors)
  br i1 %ready, label %lock, label %dropped

lock:
  br i1 %hides, label %acquire, label %gather

acquire:
  %acquire.at = getelementptr ptr, ptr %step, i64 12
  %acquire.function = load ptr, ptr %acquire.at
  %taken = call i64 @nacre_answer(ptr %acquire.function, ptr %no, i64 1)
  switch i64 %taken, label %busy [ i64 1, label %gather
                                   i64 -1, label %dropped ]

gather:
  %plain = call i1 @nacre_gather(ptr %step, ptr %args, ptr %operands, ptr %read, ptr %bases)
  br i1 %plain, label %hide, label %misfit

hide:
  call void @nacre_hold(ptr %operands, i64 %inputs, i1 true)
  %alone = call i1 @nacre_hide(ptr %step, ptr %operands)
  br i1 %alone, label %perform, label %shared

perform:
  %performed = call i1 @nacre_perform(ptr %record, ptr %read, ptr %bases, ptr %made)
  br i1 %performed, label %put, label %undo

put:                                              ; nothing fails from here on but the answer
  call void @nacre_put(ptr %step, ptr %operands, ptr %tensors, ptr %made, ptr %olds)
  call void @nacre_unlock(ptr %step)
  call void @nacre_hold(ptr %operands, i64 %inputs, i1 false)
  call void @nacre_hold(ptr %olds, i64 %olds.many, i1 false)
  %result = call ptr @nacre_results(ptr %step, ptr %tensors)
  ret ptr %result

undo:                                             ; memory ran out, or Ctrl-C: as if nothing had been
  %error.1 = getelementptr ptr, ptr %error, i64 1
  %error.2 = getelementptr ptr, ptr %error, i64 2
  call void @PyErr_Fetch(ptr %error, ptr %error.1, ptr %error.2)
  call void @nacre_show(ptr %step, ptr %operands)
  call void @nacre_unlock(ptr %step)
  call void @nacre_hold(ptr %operands, i64 %inputs, i1 false)
  call void @nacre_hold(ptr %tensors, i64 %outputs, i1 false)
  %error.kind = load ptr, ptr %error
  %error.value = load ptr, ptr %error.1
  %error.trace = load ptr, ptr %error.2
  call void @PyErr_Restore(ptr %error.kind, ptr %error.value, ptr %error.trace)
  ret ptr null

dropped:
  call void @nacre_hold(ptr %tensors, i64 %outputs, i1 false)
  br label %failed

failed:
  ret ptr null

shared:                                           ; another object refers to memory that would be overwritten
  call void @nacre_show(ptr %step, ptr %operands)
  call void @nacre_hold(ptr %operands, i64 %inputs, i1 false)
  br label %misfit

misfit:
  call void @nacre_unlock(ptr %step)
  br label %busy

busy:
  call void @nacre_hold(ptr %tensors, i64 %outputs, i1 false)
  br label %slow

slow:
  %fallback.at = getelementptr ptr, ptr %step, i64 11
  %fallback = load ptr, ptr %fallback.at
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %given, ptr null)
  ret ptr %answer
}

; Run a program on its inputs.  Whether it was done: memory may run out, and Ctrl-C may come.
define internal i1 @nacre_perform(ptr %record, ptr %read, ptr %bases, ptr %made) nounwind {
entry:
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %descriptor.at = getelementptr i64, ptr %record, i64 2
  %descriptor = load ptr, ptr %descriptor.at
  %bytes.at = getelementptr i64, ptr %descriptor, i64 12
  %bytes = load i64, ptr %bytes.at
  %release.at = getelementptr i64, ptr %record, i64 7
  %release = load i64, ptr %release.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %inputs.words = shl i64 %inputs, 1
  %results = getelementptr i64, ptr %types, i64 %inputs.words
  %values = add i64 %inputs, %outputs
  %question = alloca [3 x i64], align 16
  %small.workspace = alloca [{small} x i8], align 64
  br label %perform

perform:
  br label %output

{perform}
performed:
  ret i1 true

failed:
  ret i1 false
}

; What a function answers: 1 for True, -1 where it raised, else 0.
define internal i64 @nacre_answer(ptr %function, ptr %args, i64 %count) nounwind {
entry:
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %fail, label %good

good:
  %yes = icmp eq ptr %answer, @_Py_TrueStruct
  call void @Py_DecRef(ptr %answer)
  %number = zext i1 %yes to i64
  ret i64 %number

fail:
  ret i64 -1
}

; A tensor, as yet without memory, for each output that does not take over an input's; null for the others.
define internal i1 @nacre_tensors(ptr %record, ptr %tensors) nounwind {
entry:
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %class.at = getelementptr i64, ptr %record, i64 5
  %class = load ptr, ptr %class.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %inputs.words = shl i64 %inputs, 1
  %results = getelementptr i64, ptr %types, i64 %inputs.words
  %bytes = shl i64 %outputs, 3
  call void @llvm.memset.p0.i64(ptr %tensors, i8 0, i64 %bytes, i1 false)
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ]
  %more = icmp slt i64 %k, %outputs
  br i1 %more, label %one, label %end

one:
  %about.index = mul i64 %k, 3
  %about = getelementptr i64, ptr %results, i64 %about.index
  %type = load ptr, ptr %about
  %donor.at = getelementptr i64, ptr %about, i64 2
  %donor = load i64, ptr %donor.at
  %donated = icmp sge i64 %donor, 0
  br i1 %donated, label %done, label %new

new:
  %tensor = call ptr @nacre_tensor(ptr %class, ptr %type, ptr null)
  %tensor.at = getelementptr ptr, ptr %tensors, i64 %k
  store ptr %tensor, ptr %tensor.at
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %fail, label %done

done:
  %k.next = add i64 %k, 1
  br label %next

end:
  ret i1 true

fail:
  ret i1 false
}

; The operands, their buffers and addresses.  False where one is not a dense tensor of its type, an argument or capture
; has a node, or a slot is not as it was.
define internal i1 @nacre_gather(ptr %step, ptr %args, ptr %operands, ptr %read, ptr %bases) nounwind {
entry:
  %record = load ptr, ptr %step
  %inputs = load i64, ptr %record
  %class.at = getelementptr i64, ptr %record, i64 5
  %class = load ptr, ptr %class.at
  %buffer.class.at = getelementptr i64, ptr %record, i64 6
  %buffer.class = load ptr, ptr %buffer.class.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %arguments.at = getelementptr i64, ptr %step, i64 1
  %arguments = load i64, ptr %arguments.at
  %plain.at = getelementptr i64, ptr %step, i64 2
  %plain = load i64, ptr %plain.at
  %sources.at = getelementptr ptr, ptr %step, i64 4
  %sources = load ptr, ptr %sources.at
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %good ]
  %more = icmp slt i64 %i, %inputs
  br i1 %more, label %operand, label %slots

operand:
  %is.argument = icmp slt i64 %i, %arguments
  %is.plain = icmp slt i64 %i, %plain
  br i1 %is.argument, label %argument, label %other

argument:
  %given.at = getelementptr ptr, ptr %args, i64 %i
  %given = load ptr, ptr %given.at
  br label %class.look

other:
  %source.index = sub i64 %i, %arguments
  %source.at = getelementptr ptr, ptr %sources, i64 %source.index
  %source = load ptr, ptr %source.at
  br i1 %is.plain, label %class.look, label %variable

variable:
  %held = load ptr, ptr %source
  %unset = icmp eq ptr %held, null
  br i1 %unset, label %misfit, label %class.look

class.look:
  %x = phi ptr [ %given, %argument ], [ %source, %other ], [ %held, %variable ]
  %x.class.at = getelementptr ptr, ptr %x, i64 1
  %x.class = load ptr, ptr %x.class.at
  %is.tensor = icmp eq ptr %x.class, %class
  br i1 %is.tensor, label %type.look, label %misfit

type.look:
  %x.type.at = getelementptr i8, ptr %x, i64 {type}
  %x.type = load ptr, ptr %x.type.at
  %expected.index = shl i64 %i, 1
  %expected.at = getelementptr ptr, ptr %types, i64 %expected.index
  %expected = load ptr, ptr %expected.at
  %same.type = icmp eq ptr %x.type, %expected
  br i1 %same.type, label %data.look, label %misfit

data.look:
  %x.data.at = getelementptr i8, ptr %x, i64 {data}
  %x.data = load ptr, ptr %x.data.at
  %data.class.at = getelementptr ptr, ptr %x.data, i64 1
  %data.class = load ptr, ptr %data.class.at
  %x.layout.at = getelementptr i8, ptr %x, i64 {layout}
  %x.layout = load ptr, ptr %x.layout.at
  %x.node.at = getelementptr i8, ptr %x, i64 {node}
  %x.node = load ptr, ptr %x.node.at
  %is.buffer = icmp eq ptr %data.class, %buffer.class
  %is.dense = icmp eq ptr %x.layout, @_Py_NoneStruct
  %no.node = icmp eq ptr %x.node, @_Py_NoneStruct
  %is.variable = xor i1 %is.plain, true
  %node.fine = or i1 %no.node, %is.variable
  %fine.1 = and i1 %is.buffer, %is.dense
  %fine = and i1 %fine.1, %node.fine
  br i1 %fine, label %good, label %misfit

good:
  %operand.at = getelementptr ptr, ptr %operands, i64 %i
  store ptr %x, ptr %operand.at
  %read.at = getelementptr ptr, ptr %read, i64 %i
  store ptr %x.data, ptr %read.at
  %memory.at = getelementptr i8, ptr %x.data, i64 16
  %memory = load ptr, ptr %memory.at
  %base.at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %memory, ptr %base.at
  %i.next = add i64 %i, 1
  br label %next

slots:                                            ; are their values unchanged?
  %kept.at = getelementptr ptr, ptr %step, i64 8
  %kept = load ptr, ptr %kept.at
  %kept.many = load i64, ptr %kept
  br label %slot.next

slot.next:
  %n = phi i64 [ 0, %slots ], [ %n.next, %slot ]
  %n.more = icmp slt i64 %n, %kept.many
  br i1 %n.more, label %slot, label %end

slot:
  %triple.index = mul i64 %n, 3
  %triple = getelementptr i64, ptr %kept, i64 %triple.index
  %slot.at = getelementptr i64, ptr %triple, i64 1
  %slot.place = load ptr, ptr %slot.at
  %object.at = getelementptr i64, ptr %triple, i64 2
  %object = load ptr, ptr %object.at
  %was.at = getelementptr i64, ptr %triple, i64 3
  %was = load i64, ptr %was.at
  %now = load ptr, ptr %slot.place
  %is.that = icmp eq ptr %now, %object
  %is = zext i1 %is.that to i64
  %as.it.was = icmp eq i64 %is, %was
  %n.next = add i64 %n, 1
  br i1 %as.it.was, label %slot.next, label %misfit

end:
  ret i1 true

misfit:
  ret i1 false
}

; Give variables placeholders for overwritten values.  Returns whether only the call refers to each, once.
define internal i1 @nacre_hide(ptr %step, ptr %operands) nounwind {
entry:
  %arguments.at = getelementptr i64, ptr %step, i64 1
  %arguments = load i64, ptr %arguments.at
  %sources.at = getelementptr ptr, ptr %step, i64 4
  %sources = load ptr, ptr %sources.at
  %hidden.at = getelementptr ptr, ptr %step, i64 6
  %hidden = load ptr, ptr %hidden.at
  %many = load i64, ptr %hidden
  %hides = icmp ne i64 %many, 0
  br i1 %hides, label %begin, label %end

begin:
  %self = call i64 @PyThread_get_thread_ident()
  store i64 %self, ptr @nacre_updater
  br label %next

next:
  %k = phi i64 [ 0, %begin ], [ %k.next, %one ]
  %alone = phi i1 [ true, %begin ], [ %alone.next, %one ]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %one, label %end

one:
  %pair.index = shl i64 %k, 1
  %pair = getelementptr i64, ptr %hidden, i64 %pair.index
  %operand.index.at = getelementptr i64, ptr %pair, i64 1
  %operand.index = load i64, ptr %operand.index.at
  %placeholder.at = getelementptr ptr, ptr %pair, i64 2
  %placeholder = load ptr, ptr %placeholder.at
  %source.index = sub i64 %operand.index, %arguments
  %slot.at = getelementptr ptr, ptr %sources, i64 %source.index
  %slot = load ptr, ptr %slot.at
  %cell.at = getelementptr ptr, ptr %operands, i64 %operand.index
  %cell = load ptr, ptr %cell.at
  call void @Py_IncRef(ptr %placeholder)
  store ptr %placeholder, ptr %slot
  call void @Py_DecRef(ptr %cell)
  %data.at = getelementptr i8, ptr %cell, i64 {data}
  %data = load ptr, ptr %data.at
  %weak.at = getelementptr i8, ptr %cell, i64 {weak}
  %weak = load ptr, ptr %weak.at
  %cell.count = load i32, ptr %cell
  %data.count = load i32, ptr %data
  %cell.alone = icmp eq i32 %cell.count, 1
  %data.alone = icmp eq i32 %data.count, 1
  %not.weak = icmp eq ptr %weak, null
  %alone.1 = and i1 %cell.alone, %data.alone
  %alone.2 = and i1 %alone.1, %not.weak
  %alone.next = and i1 %alone, %alone.2
  %k.next = add i64 %k, 1
  br label %next

end:
  %sole = phi i1 [ true, %entry ], [ %alone, %next ]
  ret i1 %sole
}

; Restore the hidden values of variables.
define internal void @nacre_show(ptr %step, ptr %operands) nounwind {
entry:
  %arguments.at = getelementptr i64, ptr %step, i64 1
  %arguments = load i64, ptr %arguments.at
  %sources.at = getelementptr ptr, ptr %step, i64 4
  %sources = load ptr, ptr %sources.at
  %hidden.at = getelementptr ptr, ptr %step, i64 6
  %hidden = load ptr, ptr %hidden.at
  %many = load i64, ptr %hidden
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %one, label %end

one:
  %pair.index = shl i64 %k, 1
  %pair = getelementptr i64, ptr %hidden, i64 %pair.index
  %operand.index.at = getelementptr i64, ptr %pair, i64 1
  %operand.index = load i64, ptr %operand.index.at
  %source.index = sub i64 %operand.index, %arguments
  %slot.at = getelementptr ptr, ptr %sources, i64 %source.index
  %slot = load ptr, ptr %slot.at
  %cell.at = getelementptr ptr, ptr %operands, i64 %operand.index
  %cell = load ptr, ptr %cell.at
  %old = load ptr, ptr %slot
  call void @Py_IncRef(ptr %cell)
  store ptr %cell, ptr %slot
  call void @Py_DecRef(ptr %old)
  %k.next = add i64 %k, 1
  br label %next

end:
  ret void
}

; Store the results; old values are released later, because that may call back into Python.
define internal void @nacre_put(ptr %step, ptr %operands, ptr %tensors, ptr %made, ptr %olds) nounwind {
entry:
  %record = load ptr, ptr %step
  %inputs = load i64, ptr %record
  %outputs.at = getelementptr i64, ptr %record, i64 1
  %outputs = load i64, ptr %outputs.at
  %types = getelementptr i64, ptr %record, i64 {header}
  %inputs.words = shl i64 %inputs, 1
  %about = getelementptr i64, ptr %types, i64 %inputs.words
  %results.at = getelementptr i64, ptr %step, i64 3
  %results = load i64, ptr %results.at
  %targets.at = getelementptr ptr, ptr %step, i64 5
  %targets = load ptr, ptr %targets.at
  %cleared.at = getelementptr ptr, ptr %step, i64 7
  %cleared = load ptr, ptr %cleared.at
  %clears = load i64, ptr %cleared
  %both = shl i64 %outputs, 1
  %olds.many = add i64 %both, %clears
  %olds.bytes = shl i64 %olds.many, 3
  call void @llvm.memset.p0.i64(ptr %olds, i8 0, i64 %olds.bytes, i1 false)
  %old.nodes = getelementptr ptr, ptr %olds, i64 %outputs
  %old.cleared = getelementptr ptr, ptr %olds, i64 %both
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ]
  %more = icmp slt i64 %k, %outputs
  br i1 %more, label %one, label %clear

one:
  %tensor.at = getelementptr ptr, ptr %tensors, i64 %k
  %tensor = load ptr, ptr %tensor.at
  %buffer.at = getelementptr ptr, ptr %made, i64 %k
  %buffer = load ptr, ptr %buffer.at
  %in.place = icmp eq ptr %tensor, null
  br i1 %in.place, label %same, label %new

same:                                             ; the variable's tensor, with other numbers and without a node
  %donor.index.1 = mul i64 %k, 3
  %donor.index = add i64 %donor.index.1, 2
  %donor.at = getelementptr i64, ptr %about, i64 %donor.index
  %donor = load i64, ptr %donor.at
  %cell.at = getelementptr ptr, ptr %operands, i64 %donor
  %cell = load ptr, ptr %cell.at
  call void @Py_IncRef(ptr %cell)
  call void @Py_DecRef(ptr %buffer)
  %node.at = getelementptr i8, ptr %cell, i64 {node}
  %node = load ptr, ptr %node.at
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  store ptr @_Py_NoneStruct, ptr %node.at
  %old.node.at = getelementptr ptr, ptr %old.nodes, i64 %k
  store ptr %node, ptr %old.node.at
  br label %place

new:
  %data.at = getelementptr i8, ptr %tensor, i64 {data}
  store ptr %buffer, ptr %data.at
  br label %place

place:
  %value = phi ptr [ %cell, %same ], [ %tensor, %new ]
  %is.result = icmp slt i64 %k, %results
  br i1 %is.result, label %done, label %slot

slot:
  %target.index = sub i64 %k, %results
  %target.at = getelementptr ptr, ptr %targets, i64 %target.index
  %target = load ptr, ptr %target.at
  %old = load ptr, ptr %target
  store ptr %value, ptr %target
  %old.at = getelementptr ptr, ptr %olds, i64 %k
  store ptr %old, ptr %old.at
  br label %done

done:
  %k.next = add i64 %k, 1
  br label %next

clear:
  %c = phi i64 [ 0, %next ], [ %c.next, %clear.one ]
  %c.more = icmp slt i64 %c, %clears
  br i1 %c.more, label %clear.one, label %end

clear.one:
  %c.next = add i64 %c, 1
  %c.at = getelementptr ptr, ptr %cleared, i64 %c.next
  %c.slot = load ptr, ptr %c.at
  %c.old = load ptr, ptr %c.slot
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  store ptr @_Py_NoneStruct, ptr %c.slot
  %c.old.at = getelementptr ptr, ptr %old.cleared, i64 %c
  store ptr %c.old, ptr %c.old.at
  br label %clear

end:
  ret void
}

; The update is done: release its lock, if it was taken.
define internal void @nacre_unlock(ptr %step) nounwind {
entry:
  %hidden.at = getelementptr ptr, ptr %step, i64 6
  %hidden = load ptr, ptr %hidden.at
  %many = load i64, ptr %hidden
  %hides = icmp ne i64 %many, 0
  br i1 %hides, label %release, label %end

release:
  store i64 0, ptr @nacre_updater
  %release.at = getelementptr ptr, ptr %step, i64 13
  %release.function = load ptr, ptr %release.at
  %answer = call i64 @nacre_answer(ptr %release.function, ptr %step, i64 0)
  br label %end

end:
  ret void
}

; The answer of a call: its result, the tuple of its results, or a conversion of the tuple.
define internal ptr @nacre_results(ptr %step, ptr %tensors) nounwind {
entry:
  %results.at = getelementptr i64, ptr %step, i64 3
  %results = load i64, ptr %results.at
  %finish.at = getelementptr ptr, ptr %step, i64 10
  %finish = load ptr, ptr %finish.at
  %holder = alloca ptr, align 16
  %is.one = icmp eq ptr %finish, null
  br i1 %is.one, label %one, label %many

one:
  %only = load ptr, ptr %tensors
  ret ptr %only

many:
  %tuple = call ptr @PyTuple_New(i64 %results)
  store ptr %tuple, ptr %holder
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %drop, label %next

next:
  %k = phi i64 [ 0, %many ], [ %k.next, %fill ]
  %more = icmp slt i64 %k, %results
  br i1 %more, label %fill, label %filled

fill:
  %tensor.at = getelementptr ptr, ptr %tensors, i64 %k
  %tensor = load ptr, ptr %tensor.at
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %tensor)
  %k.next = add i64 %k, 1
  br label %next

filled:
  %is.tuple = icmp eq ptr %finish, @_Py_NoneStruct
  br i1 %is.tuple, label %whole, label %make

whole:
  ret ptr %tuple

make:
  %answer = call ptr @PyObject_Vectorcall(ptr %finish, ptr %holder, i64 1, ptr null)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %answer

drop:
  call void @nacre_hold(ptr %tensors, i64 %results, i1 false)
  ret ptr null
}
""".replace("{perform}", PERFORM)


SHARED = ("nacre_packed", "nacre_keep", "nacre_hold", "nacre_interrupted", "nacre_tensor")  # in the other entries


def offsets() -> dict[str, int]:
    """The places that the text refers to, by name."""
    return {"weak": Value.__weakrefoffset__}


def symbols() -> dict[str, int]:
    """The objects that the text refers to."""
    return {"nacre_updater": ctypes.addressof(UPDATER)}


def descriptor(
    program: np.ndarray,
    results: int,
    around: ProgramVariables,
    holds: Callable[[], bool] | None,
    finish: object,
    fallback: Callable[..., Any],
) -> tuple[np.ndarray, tuple[object, ...]]:
    """A record, and the objects that it refers to, which must live as long.

    `program` is the program's record; `finish` is None if the only result is the answer, `tuple` for the tuple of all,
    else a function that converts that tuple to the answer.
    """
    places = {name: slot_offset(Variable, name) for name in ("cell", "gradient_cell", "wants_gradient")}

    def address(slot: Slot) -> int:
        """The address of a variable's slot."""
        return id(slot[0]) + places[slot[1]]

    plain = int(program[0]) - len(around.read)
    hidden = [word for k, place in around.hidden.items() for word in (plain + k, id(place))]
    kept = [word for slot, held, was in around.kept for word in (address(slot), id(held), int(was))]
    tables = [
        np.array(t or [0], np.int64)
        for t in (
            [*map(id, around.captures), *map(address, around.read)],
            [*map(address, around.written)],
            [len(around.hidden), *hidden],
            [len(around.cleared), *map(address, around.cleared)],
            [len(around.kept), *kept],
        )
    ]
    functions = holds, UPDATES.acquire, UPDATES.release
    end = 0 if finish is None else id(None) if finish is tuple else id(finish)
    record = np.array(
        [
            program.ctypes.data,
            plain - len(around.captures),
            plain,
            results,
            *(t.ctypes.data for t in tables),
            0 if holds is None else id(holds),
            end,
            id(fallback),
            id(functions[1]),
            id(functions[2]),
        ],
        np.int64,
    )
    return record, (program, around, *tables, *functions, finish, fallback)
