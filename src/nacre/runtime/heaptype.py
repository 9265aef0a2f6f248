"""The Buffer type itself: a CPython heap type as LLVM text, using exported functions only.

Generated code calls `ptr @nacre_buffer_new(i64 nbytes)`, which returns a new reference, or null with an exception set.
It reads an object's fields at the offsets named here.  The interpreter lock is always held.
"""

from __future__ import annotations

from nacre.runtime.allocator import allocator_text

ALIGNMENT = 64
DATA_OFFSET = 16
NBYTES_OFFSET = 24
OWNER_OFFSET = 32
READONLY_OFFSET = 56  # whether foreign memory is read-only, as an i64
SERIAL_OFFSET = 64  # a number that identifies the contents: changed by each overwrite, 0 for foreign memory

TEXT = """
%Slot = type { i32, ptr }
%Method = type { ptr, ptr, i32, ptr }
%Member = type { ptr, i32, i64, i32, ptr }
%Spec = type { ptr, i32, i32, i32, ptr }

@type = internal global ptr null
@reclaim = internal global ptr null
@refuse = internal global ptr null
@baseline = internal global i32 0
@serials = internal global i64 0

declare ptr @_PyObject_New(ptr)
declare void @PyObject_Free(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyType_FromSpec(ptr)
declare ptr @PyLong_FromSsize_t(i64)
declare i64 @PyLong_AsSsize_t(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare i32 @PyBuffer_FillInfo(ptr, ptr, ptr, i64, i32, i32)
declare ptr @PyBool_FromLong(i64)

; A Buffer object over a block (class >= 0) or over foreign memory (class -1, owner taken over).
define internal ptr @object(ptr %data, i64 %nbytes, ptr %owner, i64 %class, i64 %size,
                            i64 %readonly) nounwind {
entry:
  %type = load ptr, ptr @type
  %self = call ptr @_PyObject_New(ptr %type)
  %failed = icmp eq ptr %self, null
  br i1 %failed, label %end, label %fill
fill:
  %p16 = getelementptr i8, ptr %self, i64 16
  store ptr %data, ptr %p16
  %p24 = getelementptr i8, ptr %self, i64 24
  store i64 %nbytes, ptr %p24
  %p32 = getelementptr i8, ptr %self, i64 32
  store ptr %owner, ptr %p32
  %p40 = getelementptr i8, ptr %self, i64 40
  store i64 %class, ptr %p40
  %p48 = getelementptr i8, ptr %self, i64 48
  store i64 %size, ptr %p48
  %p56 = getelementptr i8, ptr %self, i64 56
  store i64 %readonly, ptr %p56
  %ours = icmp sge i64 %class, 0
  %last = load i64, ptr @serials
  %next = add i64 %last, 1
  store i64 %next, ptr @serials
  %serial = select i1 %ours, i64 %next, i64 0
  %p64 = getelementptr i8, ptr %self, i64 64
  store i64 %serial, ptr %p64
  %live = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 6)
  %more = add i64 %live, 1
  store i64 %more, ptr getelementptr (i64, ptr @nacre_memory, i64 6)
  br label %end
end:
  ret ptr %self
}

; Note that our own memory is about to be overwritten.
define void @nacre_buffer_renew(ptr %self) nounwind {
entry:
  %p64 = getelementptr i8, ptr %self, i64 64
  %old = load i64, ptr %p64
  %foreign = icmp eq i64 %old, 0
  br i1 %foreign, label %end, label %ours
ours:
  %last = load i64, ptr @serials
  %next = add i64 %last, 1
  store i64 %next, ptr @serials
  store i64 %next, ptr %p64
  br label %end
end:
  ret void
}

define internal void @dealloc(ptr %self) nounwind {
entry:
  %p16 = getelementptr i8, ptr %self, i64 16
  %data = load ptr, ptr %p16
  %p40 = getelementptr i8, ptr %self, i64 40
  %class = load i64, ptr %p40
  %p48 = getelementptr i8, ptr %self, i64 48
  %size = load i64, ptr %p48
  %live = load i64, ptr getelementptr (i64, ptr @nacre_memory, i64 6)
  %fewer = sub i64 %live, 1
  store i64 %fewer, ptr getelementptr (i64, ptr @nacre_memory, i64 6)
  %foreign = icmp slt i64 %class, 0
  br i1 %foreign, label %release, label %ours
release:
  %p32 = getelementptr i8, ptr %self, i64 32
  %owner = load ptr, ptr %p32
  call void @Py_DecRef(ptr %owner)
  br label %end
ours:
  call void @give(ptr %data, i64 %class, i64 %size)
  br label %end
end:
  %p8 = getelementptr i8, ptr %self, i64 8
  %type = load ptr, ptr %p8
  call void @PyObject_Free(ptr %self)
  call void @Py_DecRef(ptr %type)
  ret void
}

; Call a Python function with a number; whether it returned.
define internal i1 @tell(ptr %function, i64 %n) nounwind noinline {
entry:
  %number = call ptr @PyLong_FromSsize_t(i64 %n)
  %none = icmp eq ptr %number, null
  br i1 %none, label %fail, label %call
call:
  %r = call ptr @PyObject_CallOneArg(ptr %function, ptr %number)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %r, null
  br i1 %raised, label %fail, label %good
good:
  call void @Py_DecRef(ptr %r)
  ret i1 true
fail:
  ret i1 false
}

; Memory ran out: reclaim (Python's cycles may hold some), try again, else raise.
define internal ptr @reclaimed(i64 %nbytes, i64 %class, i64 %size) nounwind noinline {
entry:
  %possible = icmp ult i64 %nbytes, 70368744177664
  br i1 %possible, label %collect, label %refuse
collect:
  %how = load ptr, ptr @reclaim
  %well = call i1 @tell(ptr %how, i64 %nbytes)
  br i1 %well, label %again, label %fail
again:
  %block = call ptr @take(i64 %class, i64 %size)
  %none = icmp eq ptr %block, null
  br i1 %none, label %refuse, label %end
refuse:
  %raise = load ptr, ptr @refuse
  %ignored = call i1 @tell(ptr %raise, i64 %nbytes)
  br label %fail
end:
  ret ptr %block
fail:
  ret ptr null
}

; A new Buffer of uninitialised memory; null with an exception set where there is none.
define ptr @nacre_buffer_new(i64 %nbytes) nounwind {
entry:
  %both = call { i64, i64 } @class_of(i64 %nbytes)
  %class = extractvalue { i64, i64 } %both, 0
  %size = extractvalue { i64, i64 } %both, 1
  %possible = icmp ult i64 %nbytes, 70368744177664
  br i1 %possible, label %try, label %slow
try:
  %quick = call ptr @take(i64 %class, i64 %size)
  %none = icmp eq ptr %quick, null
  br i1 %none, label %slow, label %wrap
slow:
  %late = call ptr @reclaimed(i64 %nbytes, i64 %class, i64 %size)
  %failed = icmp eq ptr %late, null
  br i1 %failed, label %fail, label %wrap
wrap:
  %block = phi ptr [ %quick, %try ], [ %late, %slow ]
  %self = call ptr @object(ptr %block, i64 %nbytes, ptr null, i64 %class, i64 %size, i64 0)
  %objectless = icmp eq ptr %self, null
  br i1 %objectless, label %undo, label %end
undo:
  call void @give(ptr %block, i64 %class, i64 %size)
  br label %fail
end:
  ret ptr %self
fail:
  ret ptr null
}

define internal ptr @allocate(ptr %unused, ptr %number) nounwind {
entry:
  %n = call i64 @PyLong_AsSsize_t(ptr %number)
  %negative = icmp slt i64 %n, 0
  br i1 %negative, label %check, label %go
check:
  %error = call ptr @PyErr_Occurred()
  %set = icmp ne ptr %error, null
  br i1 %set, label %fail, label %refuse
refuse:
  %raise = load ptr, ptr @refuse
  %ignored = call i1 @tell(ptr %raise, i64 %n)
  br label %fail
go:
  %r = call ptr @nacre_buffer_new(i64 %n)
  ret ptr %r
fail:
  ret ptr null
}

; Foreign memory through a memoryview, which holds the export for as long as the Buffer holds it.
define internal ptr @wrap(ptr %unused, ptr %view) nounwind {
entry:
  %info = alloca [10 x i64], align 16
  %r = call i32 @PyObject_GetBuffer(ptr %view, ptr %info, i32 0)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fail, label %go
go:
  %data = load ptr, ptr %info
  %p16 = getelementptr i8, ptr %info, i64 16
  %nbytes = load i64, ptr %p16
  %p32 = getelementptr i8, ptr %info, i64 32
  %readonly = load i32, ptr %p32
  %flag = zext i32 %readonly to i64
  call void @PyBuffer_Release(ptr %info)
  call void @Py_IncRef(ptr %view)
  %self = call ptr @object(ptr %data, i64 %nbytes, ptr %view, i64 -1, i64 %nbytes, i64 %flag)
  %objectless = icmp eq ptr %self, null
  br i1 %objectless, label %undo, label %end
undo:
  call void @Py_DecRef(ptr %view)
  br label %fail
end:
  ret ptr %self
fail:
  ret ptr null
}

define internal i32 @getbuffer(ptr %self, ptr %view, i32 %flags) nounwind {
  %p16 = getelementptr i8, ptr %self, i64 16
  %data = load ptr, ptr %p16
  %p24 = getelementptr i8, ptr %self, i64 24
  %nbytes = load i64, ptr %p24
  %p56 = getelementptr i8, ptr %self, i64 56
  %readonly = load i32, ptr %p56
  %r = call i32 @PyBuffer_FillInfo(ptr %view, ptr %self, ptr %data, i64 %nbytes, i32 %readonly,
                                   i32 %flags)
  ret i32 %r
}

define internal i64 @length(ptr %self) nounwind {
  %p24 = getelementptr i8, ptr %self, i64 24
  %nbytes = load i64, ptr %p24
  ret i64 %nbytes
}

define internal ptr @references(ptr %unused, ptr %object) nounwind {
  %count = load i32, ptr %object
  %wide = zext i32 %count to i64
  %r = call ptr @PyLong_FromSsize_t(i64 %wide)
  ret ptr %r
}

define internal ptr @sole_owner(ptr %unused, ptr %object) nounwind {
  %count = load i32, ptr %object
  %baseline = load i32, ptr @baseline
  %sole = icmp ule i32 %count, %baseline
  %wide = zext i1 %sole to i64
  %r = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %r
}

; The type's specification for Python.  Flags: 256 immutable, 128 not made by calling it.
@members = internal global [5 x %Member] [
  %Member { ptr @s.address, i32 18, i64 16, i32 1, ptr null },
  %Member { ptr @s.nbytes, i32 19, i64 24, i32 1, ptr null },
  %Member { ptr @s.owner, i32 6, i64 32, i32 1, ptr null },
  %Member { ptr @s.readonly, i32 14, i64 56, i32 1, ptr null },
  %Member zeroinitializer ]
@methods = internal global [5 x %Method] [
  %Method { ptr @s.allocate, ptr @allocate, i32 40, ptr null },
  %Method { ptr @s.wrap, ptr @wrap, i32 40, ptr null },
  %Method { ptr @s.references, ptr @references, i32 40, ptr null },
  %Method { ptr @s.sole_owner, ptr @sole_owner, i32 40, ptr null },
  %Method zeroinitializer ]
@slots = internal global [7 x %Slot] [
  %Slot { i32 52, ptr @dealloc }, %Slot { i32 1, ptr @getbuffer }, %Slot { i32 4, ptr @length },
  %Slot { i32 72, ptr @members }, %Slot { i32 64, ptr @methods }, %Slot { i32 56, ptr @s.doc },
  %Slot zeroinitializer ]
@spec = internal global %Spec { ptr @s.name, i32 72, i32 0, i32 384, ptr @slots }

; Make the type, once; the two functions are called where memory runs out.
define ptr @nacre_buffer_create(ptr %reclaim, ptr %refuse) nounwind {
  call void @Py_IncRef(ptr %reclaim)
  call void @Py_IncRef(ptr %refuse)
  store ptr %reclaim, ptr @reclaim
  store ptr %refuse, ptr @refuse
  %type = call ptr @PyType_FromSpec(ptr @spec)
  store ptr %type, ptr @type
  call void @Py_IncRef(ptr %type)
  ret ptr %type
}

define void @nacre_buffer_calibrate(i32 %references) nounwind {
  store i32 %references, ptr @baseline
  ret void
}
"""

STRINGS = {
    "name": "nacre.runtime.buffer.Buffer",
    "doc": "Counted memory, 64-byte aligned unless it is foreign; it exports the buffer protocol.",
    **{
        word: word
        for word in ("address", "nbytes", "owner", "readonly", "allocate", "wrap", "references", "sole_owner")
    },
}


def buffer_text() -> str:
    """The LLVM text of the type and its allocator."""
    strings = "".join(
        f'@s.{name} = internal constant [{len(text) + 1} x i8] c"{text}\\00"\n' for name, text in STRINGS.items()
    )
    return strings + allocator_text() + TEXT
