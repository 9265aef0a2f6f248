"""The entry of an operation that is a view: a tensor around its operand's buffer with another type and layout.

Record, in 64-bit words: the operand's type, the result's type and layout (an object or None), fallback, tensor class,
buffer class, address of the number of active interpreters, what to do about nodes (see `codegen/entry/points`).
"""

from __future__ import annotations

TEXT = """
define ptr @nacre_view(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %result.type.at = getelementptr ptr, ptr %record, i64 1
  %result.type = load ptr, ptr %result.type.at
  %result.layout.at = getelementptr ptr, ptr %record, i64 2
  %result.layout = load ptr, ptr %result.layout.at
  %fallback.at = getelementptr ptr, ptr %record, i64 3
  %class.at = getelementptr ptr, ptr %record, i64 4
  %class = load ptr, ptr %class.at
  %buffer.class.at = getelementptr ptr, ptr %record, i64 5
  %buffer.class = load ptr, ptr %buffer.class.at
  %active.at = getelementptr ptr, ptr %record, i64 6
  %active.place = load ptr, ptr %active.at
  %nodes.at = getelementptr i64, ptr %record, i64 7
  %nodes = load i64, ptr %nodes.at
  %unchecked = icmp eq i64 %nodes, 0
  %active = load i64, ptr %active.place
  %idle = icmp eq i64 %active, 0
  %go = or i1 %idle, %unchecked
  %one = icmp eq i64 %given, 1
  %try = and i1 %go, %one
  br i1 %try, label %input, label %slow

input:
  %arg = load ptr, ptr %args
  %arg.class.at = getelementptr ptr, ptr %arg, i64 1
  %arg.class = load ptr, ptr %arg.class.at
  %is.tensor = icmp eq ptr %arg.class, %class
  br i1 %is.tensor, label %type, label %slow

type:
  %expected = load ptr, ptr %record
  %arg.type.at = getelementptr i8, ptr %arg, i64 {type}
  %arg.type = load ptr, ptr %arg.type.at
  %arg.data.at = getelementptr i8, ptr %arg, i64 {data}
  %arg.data = load ptr, ptr %arg.data.at
  %data.class.at = getelementptr ptr, ptr %arg.data, i64 1
  %data.class = load ptr, ptr %data.class.at
  %arg.layout.at = getelementptr i8, ptr %arg, i64 {layout}
  %arg.layout = load ptr, ptr %arg.layout.at
  %same.type = icmp eq ptr %arg.type, %expected
  %is.buffer = icmp eq ptr %data.class, %buffer.class
  %is.dense = icmp eq ptr %arg.layout, @_Py_NoneStruct
  %fine.1 = and i1 %same.type, %is.buffer
  %fine = and i1 %fine.1, %is.dense
  br i1 %fine, label %node, label %slow

node:
  %arg.node.at = getelementptr i8, ptr %arg, i64 {node}
  %arg.node = load ptr, ptr %arg.node.at
  %no.node = icmp eq ptr %arg.node, @_Py_NoneStruct
  %node.fine = or i1 %no.node, %unchecked
  br i1 %node.fine, label %make, label %noded

noded:
  %records = icmp ugt i64 %nodes, 1
  br i1 %records, label %level, label %slow

level:
  %arg.level.at = getelementptr i8, ptr %arg.node, i64 {level}
  %arg.level = load ptr, ptr %arg.level.at
  %plain = icmp eq ptr %arg.level, @nacre_zero
  br i1 %plain, label %mode, label %slow

mode:
  %recording = call i64 @nacre_records()
  %silent = icmp eq i64 %recording, 0
  br i1 %silent, label %make, label %sure

sure:
  %loud = icmp eq i64 %recording, 1
  br i1 %loud, label %look, label %slow

look:
  %table = inttoptr i64 %nodes to ptr
  %rule.at = getelementptr ptr, ptr %table, i64 1
  %rule.found = load ptr, ptr %rule.at
  %known = icmp ne ptr %rule.found, null
  br i1 %known, label %make, label %slow

make:
  %rule = phi ptr [ null, %node ], [ null, %mode ], [ %rule.found, %look ]
  call void @Py_IncRef(ptr %arg.data)
  %tensor = call ptr @nacre_tensor(ptr %class, ptr %result.type, ptr %arg.data)
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %failed, label %lay

lay:
  call void @Py_DecRef(ptr @_Py_NoneStruct)
  call void @Py_IncRef(ptr %result.layout)
  %layout.at = getelementptr i8, ptr %tensor, i64 {layout}
  store ptr %result.layout, ptr %layout.at
  %is.recorded = icmp ne ptr %rule, null
  br i1 %is.recorded, label %record.it, label %bare

record.it:
  %recorded = call ptr @nacre_record(ptr %rule, ptr %args, i64 1, ptr %tensor)
  ret ptr %recorded

bare:
  ret ptr %tensor

failed:
  ret ptr null

slow:
  %fallback = load ptr, ptr %fallback.at
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %given, ptr null)
  ret ptr %answer
}
"""
