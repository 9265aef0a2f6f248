"""Writing .npy files atomically, as LLVM text: to a temporary name, which is changed at the end.

The records are those of `deploy/npy`, whose functions it calls.  `program.mode` returns the mode of a file.
"""

from __future__ import annotations

from nacre.deploy.strings import string
from nacre.native.text import ModuleText

WRITE, PERMISSIONS = 0x80241, 0o666  # of open: close-on-exec, write, create, truncate
CLOSED = 0x80000  # of mkostemp: close-on-exec
KINDS_OF_FILES, REGULAR = 0o170000, 0o100000  # S_IFMT, S_IFREG
UNPERMITTED, DENIED, TOO_LONG = 1, 13, 36  # EPERM, EACCES, ENAMETOOLONG

FORMATS = {
    "head": "{'descr': '%s', 'fortran_order': False, 'shape': (",
    "tail": "), }",
    "beside.name": "%s.XXXXXX",
}

TEXT = f"""
@npy.part = internal global ptr null

declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @mkostemp(ptr, i32)
declare i32 @fchmod(i32, i32)
declare i32 @umask(i32)
declare i32 @access(ptr, i32)
declare ptr @realpath(ptr, ptr)
declare i32 @rename(ptr, ptr)
declare i32 @unlink(ptr)
declare ptr @malloc(i64)
declare ptr @__errno_location()

; Write the header of a value into the buffer: its bytes, a multiple of 64.
define internal i64 @npy.header(ptr %value, ptr %axes) nounwind {{
entry:
  %rank.at = getelementptr i64, ptr %value, i64 5
  %rank = load i64, ptr %rank.at
  %first.at = getelementptr i64, ptr %value, i64 6
  %first = load i64, ptr %first.at
  %own = getelementptr i64, ptr %axes, i64 %first
  %spelling.at = getelementptr ptr, ptr %value, i64 2
  %spelling = load ptr, ptr %spelling.at
  call void @llvm.memset.p0.i64(ptr @npy.bytes, i8 32, i64 4096, i1 false)
  %text = getelementptr i8, ptr @npy.bytes, i64 10
  %n0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 256, ptr @npy.head, ptr %spelling)
  %begun = sext i32 %n0 to i64
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %axis ]
  %length = phi i64 [ %begun, %entry ], [ %longer, %axis ]
  %place = getelementptr i8, ptr %text, i64 %length
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %axis, label %close
axis:
  %n.at = getelementptr i64, ptr %own, i64 %k
  %n = load i64, ptr %n.at
  %start = icmp eq i64 %k, 0
  %format = select i1 %start, ptr @npy.first, ptr @npy.later
  %n1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %place, i64 64, ptr %format, i64 %n)
  %n1.wide = sext i32 %n1 to i64
  %longer = add i64 %length, %n1.wide
  %k.next = add i64 %k, 1
  br label %next
close:
  %single = icmp eq i64 %rank, 1
  %lonely = zext i1 %single to i64
  store i8 44, ptr %place
  %tail = getelementptr i8, ptr %place, i64 %lonely
  %n2 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %tail, i64 8, ptr @npy.tail)
  %end = getelementptr i8, ptr %tail, i64 4
  store i8 32, ptr %end
  %so.far = add i64 %length, %lonely
  %with.tail = add i64 %so.far, {10 + 4 + 1 + 63}
  %total = and i64 %with.tail, -64
  %newline.index = sub i64 %total, 1
  %newline = getelementptr i8, ptr @npy.bytes, i64 %newline.index
  store i8 10, ptr %newline
  %magic = load <6 x i8>, ptr @npy.magic, align 1
  store <6 x i8> %magic, ptr @npy.bytes, align 1
  store i16 1, ptr getelementptr (i8, ptr @npy.bytes, i64 6), align 1
  %counted = sub i64 %total, 10
  %count = trunc i64 %counted to i16
  store i16 %count, ptr getelementptr (i8, ptr @npy.bytes, i64 8), align 1
  ret i64 %total
}}

; Make a file next to a path, with the mode of the old file there if there is one: its number, or -1 for a fault.
; Its name is stored.
define internal i32 @npy.beside(ptr %path, i32 %mode) nounwind {{
entry:
  %length = call i64 @strlen(ptr %path)
  %bytes = add i64 %length, 8
  %name = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %name, null
  br i1 %none, label %no, label %make
make:
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %name, i64 %bytes, ptr @npy.beside.name, ptr %path)
  %file = call i32 @mkostemp(ptr %name, i32 {CLOSED})
  %fault = icmp slt i32 %file, 0
  br i1 %fault, label %no, label %permit
permit:
  store ptr %name, ptr @npy.part
  %mask = call i32 @umask(i32 0)
  %back = call i32 @umask(i32 %mask)
  %open = xor i32 %mask, -1
  %usual = and i32 %open, {PERMISSIONS}
  %kept = and i32 %mode, {0o777}
  %fresh = icmp eq i32 %mode, 0
  %bits = select i1 %fresh, i32 %usual, i32 %kept
  %changed = call i32 @fchmod(i32 %file, i32 %bits)
  ret i32 %file
no:
  ret i32 -1
}}

; Write a value to a file, "-" being standard output: 0, or an exit status.  A regular file appears whole: it is written
; under another name and then renamed, except where only the file may be written and not its folder.
define internal i32 @npy.save(ptr %path, ptr %value, ptr %axes, ptr %base) nounwind {{
entry:
  %dash = call i32 @strcmp(ptr %path, ptr @npy.dash)
  %standard = icmp eq i32 %dash, 0
  br i1 %standard, label %begin, label %look
look:
  %mode = call i32 @program.mode(ptr %path)
  %kind = and i32 %mode, {KINDS_OF_FILES}
  %regular = icmp eq i32 %kind, {REGULAR}
  %fresh = icmp eq i32 %mode, 0
  %replaced = or i1 %regular, %fresh
  br i1 %replaced, label %resolve, label %place
resolve:
  %real = call ptr @realpath(ptr %path, ptr null)
  %unreal = icmp eq ptr %real, null
  %to = select i1 %unreal, ptr %path, ptr %real
  %access = call i32 @access(ptr %to, i32 2)
  %unwritable = icmp ne i32 %access, 0
  %refused = and i1 %regular, %unwritable
  br i1 %refused, label %place, label %beside
beside:
  %made = call i32 @npy.beside(ptr %to, i32 %mode)
  %unmade = icmp slt i32 %made, 0
  br i1 %unmade, label %why, label %begin
why:
  %error.at = call ptr @__errno_location()
  %error = load i32, ptr %error.at
  %unpermitted = icmp eq i32 %error, {UNPERMITTED}
  %denied = icmp eq i32 %error, {DENIED}
  %long = icmp eq i32 %error, {TOO_LONG}
  %either = or i1 %unpermitted, %denied
  %any = or i1 %either, %long
  br i1 %any, label %place, label %failed
place:
  %opened = call i32 (ptr, i32, ...) @open(ptr %path, i32 {WRITE}, i32 {PERMISSIONS})
  %fault = icmp slt i32 %opened, 0
  br i1 %fault, label %failed, label %begin
begin:
  %file = phi i32 [ 1, %entry ], [ %made, %beside ], [ %opened, %place ]
  %goal = phi ptr [ null, %entry ], [ %to, %beside ], [ null, %place ]
  %direct = icmp eq ptr %goal, null
  %head = call i64 @npy.header(ptr %value, ptr %axes)
  %headed = call i1 @npy.write(i32 %file, ptr @npy.bytes, i64 %head)
  br i1 %headed, label %data, label %abandon
data:
  %bytes = call i64 @npy.size(ptr %value, ptr %axes)
  %written = call i1 @npy.write(i32 %file, ptr %base, i64 %bytes)
  br i1 %written, label %close, label %abandon
close:
  %closed = call i32 @close(i32 %file)
  %well = icmp eq i32 %closed, 0
  br i1 %well, label %finish, label %abandon
finish:
  br i1 %direct, label %done, label %rename
rename:
  %part = load ptr, ptr @npy.part
  %moved = call i32 @rename(ptr %part, ptr %goal)
  %there = icmp eq i32 %moved, 0
  br i1 %there, label %done, label %abandon
done:
  ret i32 0
abandon:
  br i1 %direct, label %failed, label %remove
remove:
  %cause.at = call ptr @__errno_location()
  %cause = load i32, ptr %cause.at
  %left = load ptr, ptr @npy.part
  %removed = call i32 @unlink(ptr %left)
  store i32 %cause, ptr %cause.at
  br label %failed
failed:
  %r = call i32 @npy.system(ptr %path, i32 1)
  ret i32 %r
}}
"""


def writer_text() -> str:
    """The text of the writer, with its formats."""
    module = ModuleText("npy writer")
    for name, text in FORMATS.items():
        string(module, f"npy.{name}", text)
    return module.text() + TEXT
