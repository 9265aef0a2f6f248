"""Reading .npy files, as LLVM text: a parser that trusts no byte, with system calls and without stdio.

A record describes a value: its name, its type as text, two spellings of its dtype, the bytes of an element, its rank,
and where its axes begin among all axes.  `program.read_header` opens a file and reads its axes; `program.read_data`
reads its elements.  Both print an error message and return the exit status.
"""

from __future__ import annotations

from nacre.deploy.strings import string
from nacre.native.text import ModuleText

DEEPEST = 32  # limit of a header's axes
LONGEST = 65536  # limit of a header's bytes
READ = 0x80000  # of open: close-on-exec
SPELLED = 40  # characters of a dtype that a message shows

MESSAGES: dict[str, str | bytes] = {
    "magic": b"\x93NUMPY",
    "key.descr": "descr",
    "key.order": "fortran_order",
    "key.shape": "shape",
    "true": "True",
    "false": "False",
    "dash": "-",
    "failed": "%s: %s: %m\n",
    "wrong": "%s: %s: %s\n",
    "other": "%s: %s: the array must be %s; it is %.*s[",
    "first": "%lld",
    "later": ", %lld",
    "close": "]\n",
    "malformed": "the file must be a .npy file (format 1 to 3) of one plain array; it is malformed",
    "fortran": "the array must be in C order; it is in Fortran order; save np.ascontiguousarray of it",
    "short": "the file must hold the array of its header; the file is too short",
    "long": "the file must hold the array of its header; the file is too long",
    "memory": "there is not enough memory for its array",
}

TEXT = f"""
%Value = type {{ ptr, ptr, ptr, ptr, i64, i64, i64 }}

@npy.bytes = internal global [{LONGEST + 64} x i8] zeroinitializer, align 64
@npy.axes = internal global [{DEEPEST} x i64] zeroinitializer
@npy.rank = internal global i64 0
@npy.descr = internal global ptr null
@npy.descr.length = internal global i64 0

declare i32 @dprintf(i32, ptr, ...)
declare i32 @open(ptr, i32, ...)
declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)
declare i32 @close(i32)
declare i32 @strcmp(ptr, ptr)
declare i64 @strlen(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @aligned_alloc(i64, i64)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; ---- files

; Read until there are so many bytes: how many there were, -1 for a fault.
define internal i64 @npy.read(i32 %file, ptr %to, i64 %bytes) nounwind {{
entry:
  br label %next
next:
  %have = phi i64 [ 0, %entry ], [ %now, %got ]
  %left = sub i64 %bytes, %have
  %more = icmp ne i64 %left, 0
  br i1 %more, label %ask, label %end
ask:
  %place = getelementptr i8, ptr %to, i64 %have
  %n = call i64 @read(i32 %file, ptr %place, i64 %left)
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %got, label %stop
got:
  %now = add i64 %have, %n
  br label %next
stop:
  %fault = icmp slt i64 %n, 0
  %result = select i1 %fault, i64 -1, i64 %have
  ret i64 %result
end:
  ret i64 %have
}}

define internal i1 @npy.write(i32 %file, ptr %from, i64 %bytes) nounwind {{
entry:
  br label %next
next:
  %have = phi i64 [ 0, %entry ], [ %now, %gave ]
  %left = sub i64 %bytes, %have
  %more = icmp ne i64 %left, 0
  br i1 %more, label %give, label %done
give:
  %place = getelementptr i8, ptr %from, i64 %have
  %n = call i64 @write(i32 %file, ptr %place, i64 %left)
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %gave, label %failed
gave:
  %now = add i64 %have, %n
  br label %next
done:
  ret i1 true
failed:
  ret i1 false
}}

; Print the system's message for a file; print a sentence about one; both return an exit status.
define internal i32 @npy.system(ptr %path, i32 %status) nounwind {{
  %r = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @npy.failed, ptr @program.name, ptr %path)
  ret i32 %status
}}

define internal i32 @npy.say(ptr %path, ptr %text, i32 %status) nounwind {{
  %r = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @npy.wrong, ptr @program.name, ptr %path, ptr %text)
  ret i32 %status
}}

; Print the type that is required and the one that the last header had.
define internal i32 @npy.mismatch(ptr %path, ptr %value) nounwind {{
entry:
  %shown.at = getelementptr ptr, ptr %value, i64 1
  %shown = load ptr, ptr %shown.at
  %descr = load ptr, ptr @npy.descr
  %long = load i64, ptr @npy.descr.length
  %brief = icmp ult i64 %long, {SPELLED}
  %bounded = select i1 %brief, i64 %long, i64 {SPELLED}
  %length = trunc i64 %bounded to i32
  %rank = load i64, ptr @npy.rank
  %r0 = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @npy.other, ptr @program.name, ptr %path, ptr %shown,
                                          i32 %length, ptr %descr)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %axis ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %axis, label %end
axis:
  %axis.at = getelementptr i64, ptr @npy.axes, i64 %k
  %n = load i64, ptr %axis.at
  %start = icmp eq i64 %k, 0
  %format = select i1 %start, ptr @npy.first, ptr @npy.later
  %r1 = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr %format, i64 %n)
  %k.next = add i64 %k, 1
  br label %next
end:
  %r2 = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @npy.close)
  ret i32 2
}}

; ---- the header: a Python dictionary.  The state of the parser is where it is and where the text ends.

; The next character that is no space, 0 at the end.
define internal i8 @npy.peek(ptr %state) nounwind {{
entry:
  %end.at = getelementptr ptr, ptr %state, i64 1
  %end = load ptr, ptr %end.at
  br label %next
next:
  %at = load ptr, ptr %state
  %over = icmp uge ptr %at, %end
  br i1 %over, label %none, label %look
look:
  %c = load i8, ptr %at
  %space = icmp eq i8 %c, 32
  %line = icmp eq i8 %c, 10
  %blank = or i1 %space, %line
  br i1 %blank, label %skip, label %found
skip:
  %after = getelementptr i8, ptr %at, i64 1
  store ptr %after, ptr %state
  br label %next
found:
  ret i8 %c
none:
  ret i8 0
}}

; Step over a character if it is next.
define internal i1 @npy.take(ptr %state, i8 %wanted) nounwind {{
entry:
  %c = call i8 @npy.peek(ptr %state)
  %same = icmp eq i8 %c, %wanted
  br i1 %same, label %step, label %end
step:
  %at = load ptr, ptr %state
  %after = getelementptr i8, ptr %at, i64 1
  store ptr %after, ptr %state
  br label %end
end:
  ret i1 %same
}}

; Step over a word if it is next.
define internal i1 @npy.word(ptr %state, ptr %word, i64 %length) nounwind {{
entry:
  %c = call i8 @npy.peek(ptr %state)
  %at = load ptr, ptr %state
  %end.at = getelementptr ptr, ptr %state, i64 1
  %end = load ptr, ptr %end.at
  %after = getelementptr i8, ptr %at, i64 %length
  %fits = icmp ule ptr %after, %end
  br i1 %fits, label %compare, label %no
compare:
  %order = call i32 @memcmp(ptr %at, ptr %word, i64 %length)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %step, label %no
step:
  store ptr %after, ptr %state
  ret i1 true
no:
  ret i1 false
}}

; A string in quotes, of printable characters without escapes: where it begins is stored; its length, or -1.
define internal i64 @npy.string(ptr %state, ptr %begin) nounwind {{
entry:
  %quote = call i8 @npy.peek(ptr %state)
  %single = icmp eq i8 %quote, 39
  %double = icmp eq i8 %quote, 34
  %quoted = or i1 %single, %double
  br i1 %quoted, label %open, label %no
open:
  %at = load ptr, ptr %state
  %end.at = getelementptr ptr, ptr %state, i64 1
  %end = load ptr, ptr %end.at
  %start = getelementptr i8, ptr %at, i64 1
  store ptr %start, ptr %begin
  br label %next
next:
  %length = phi i64 [ 0, %open ], [ %length.next, %other ]
  %place = getelementptr i8, ptr %start, i64 %length
  %over = icmp uge ptr %place, %end
  br i1 %over, label %no, label %look
look:
  %c = load i8, ptr %place
  %closes = icmp eq i8 %c, %quote
  br i1 %closes, label %close, label %other
other:
  %length.next = add i64 %length, 1
  %escape = icmp eq i8 %c, 92
  %above = sub i8 %c, 32
  %control = icmp ugt i8 %above, 94
  %strange = or i1 %escape, %control
  br i1 %strange, label %no, label %next
close:
  %after = getelementptr i8, ptr %place, i64 1
  store ptr %after, ptr %state
  ret i64 %length
no:
  ret i64 -1
}}

; A whole number below 2^48 as Python spells it, without zeros before another digit; or -1.
define internal i64 @npy.number(ptr %state) nounwind {{
entry:
  %first = call i8 @npy.peek(ptr %state)
  br label %next
next:
  %c = phi i8 [ %first, %entry ], [ %c.next, %digit ]
  %value = phi i64 [ -1, %entry ], [ %sum, %digit ]
  %from = sub i8 %c, 48
  %is.digit = icmp ult i8 %from, 10
  br i1 %is.digit, label %digit, label %end
digit:
  %begun = icmp slt i64 %value, 0
  %held = select i1 %begun, i64 0, i64 %value
  %tens = mul i64 %held, 10
  %wide = zext i8 %from to i64
  %sum = add i64 %tens, %wide
  %at = load ptr, ptr %state
  %after = getelementptr i8, ptr %at, i64 1
  store ptr %after, ptr %state
  %end.at = getelementptr ptr, ptr %state, i64 1
  %limit = load ptr, ptr %end.at
  %inside = icmp ult ptr %after, %limit
  %from.where = select i1 %inside, ptr %after, ptr @npy.close
  %c.next = load i8, ptr %from.where
  %small = icmp ult i64 %sum, 281474976710656
  %zero = icmp eq i64 %value, 0
  %some = icmp ne i64 %sum, 0
  %padded = and i1 %zero, %some
  %plain = xor i1 %padded, true
  %fine = and i1 %small, %plain
  br i1 %fine, label %next, label %large
end:
  ret i64 %value
large:
  ret i64 -1
}}

; The axes of a tuple, stored with their number.
define internal i1 @npy.shape(ptr %state) nounwind {{
entry:
  %open = call i1 @npy.take(ptr %state, i8 40)
  br i1 %open, label %next, label %no
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %comma ]
  %closes = call i1 @npy.take(ptr %state, i8 41)
  br i1 %closes, label %end, label %axis
axis:
  %n = call i64 @npy.number(ptr %state)
  %negative = icmp slt i64 %n, 0
  %many = icmp sge i64 %k, {DEEPEST}
  %bad = or i1 %negative, %many
  br i1 %bad, label %no, label %keep
keep:
  %place = getelementptr i64, ptr @npy.axes, i64 %k
  store i64 %n, ptr %place
  %k.next = add i64 %k, 1
  %more = call i1 @npy.take(ptr %state, i8 44)
  br i1 %more, label %comma, label %last
comma:
  br label %next
last:
  %done = call i1 @npy.take(ptr %state, i8 41)
  %single = icmp eq i64 %k.next, 1                ; (3) is a number, not a tuple
  %number = xor i1 %single, true
  %fine = and i1 %done, %number
  store i64 %k.next, ptr @npy.rank
  ret i1 %fine
end:
  store i64 %k, ptr @npy.rank
  ret i1 true
no:
  ret i1 false
}}

; The whole dictionary, each key once: 0 it is malformed, 1 in C order, 2 in Fortran's.
define internal i32 @npy.dictionary(ptr %state) nounwind {{
entry:
  %start = alloca ptr, align 8
  %open = call i1 @npy.take(ptr %state, i8 123)
  br i1 %open, label %next, label %no
next:
  %seen = phi i32 [ 0, %entry ], [ %seen.next, %item ]
  %order = phi i32 [ 1, %entry ], [ %order.next, %item ]
  %closes = call i1 @npy.take(ptr %state, i8 125)
  br i1 %closes, label %end, label %key
key:
  %length = call i64 @npy.string(ptr %state, ptr %start)
  %colon = call i1 @npy.take(ptr %state, i8 58)
  %name = load ptr, ptr %start
  %five = icmp eq i64 %length, 5
  %named.five = and i1 %five, %colon
  br i1 %named.five, label %short, label %long
short:
  %as.descr = call i32 @memcmp(ptr %name, ptr @npy.key.descr, i64 5)
  %is.descr = icmp eq i32 %as.descr, 0
  br i1 %is.descr, label %descr, label %perhaps
perhaps:
  %as.shape = call i32 @memcmp(ptr %name, ptr @npy.key.shape, i64 5)
  %is.shape = icmp eq i32 %as.shape, 0
  br i1 %is.shape, label %shape, label %no
long:
  %thirteen = icmp eq i64 %length, 13
  %named.thirteen = and i1 %thirteen, %colon
  br i1 %named.thirteen, label %compare, label %no
compare:
  %as.order = call i32 @memcmp(ptr %name, ptr @npy.key.order, i64 13)
  %is.order = icmp eq i32 %as.order, 0
  br i1 %is.order, label %word, label %no
descr:
  %descr.length = call i64 @npy.string(ptr %state, ptr %start)
  %descr.at = load ptr, ptr %start
  %described = icmp sge i64 %descr.length, 0
  br i1 %described, label %known, label %no
known:
  store ptr %descr.at, ptr @npy.descr
  store i64 %descr.length, ptr @npy.descr.length
  br label %value
shape:
  %shaped = call i1 @npy.shape(ptr %state)
  br i1 %shaped, label %value, label %no
word:
  %is.false = call i1 @npy.word(ptr %state, ptr @npy.false, i64 5)
  br i1 %is.false, label %value, label %other
other:
  %is.true = call i1 @npy.word(ptr %state, ptr @npy.true, i64 4)
  br i1 %is.true, label %value, label %no
value:
  %bit = phi i32 [ 1, %known ], [ 2, %shape ], [ 4, %word ], [ 4, %other ]
  %order.next = phi i32 [ %order, %known ], [ %order, %shape ], [ 1, %word ], [ 2, %other ]
  %twice = and i32 %seen, %bit
  %seen.next = or i32 %seen, %bit
  %once = icmp eq i32 %twice, 0
  br i1 %once, label %item, label %no
item:
  %comma = call i1 @npy.take(ptr %state, i8 44)
  br i1 %comma, label %next, label %last
last:
  %done = call i1 @npy.take(ptr %state, i8 125)
  br i1 %done, label %end, label %no
end:
  %all = phi i32 [ %seen, %next ], [ %seen.next, %last ]
  %result = phi i32 [ %order, %next ], [ %order.next, %last ]
  %rest = call i8 @npy.peek(ptr %state)
  %at = load ptr, ptr %state
  %end.at = getelementptr ptr, ptr %state, i64 1
  %finish = load ptr, ptr %end.at
  %finished = icmp eq ptr %at, %finish
  %complete = icmp eq i32 %all, 7
  %fine = and i1 %finished, %complete
  %answer = select i1 %fine, i32 %result, i32 0
  ret i32 %answer
no:
  ret i32 0
}}

; Whether the dtype of the last header is spelled like one of the record's.
define internal i1 @npy.same_dtype(ptr %value) nounwind {{
entry:
  %found = load ptr, ptr @npy.descr
  %length = load i64, ptr @npy.descr.length
  br label %next
next:
  %k = phi i64 [ 2, %entry ], [ %k.next, %again ]
  %more = icmp slt i64 %k, 4
  br i1 %more, label %try, label %no
try:
  %spelling.at = getelementptr ptr, ptr %value, i64 %k
  %spelling = load ptr, ptr %spelling.at
  %wanted = call i64 @strlen(ptr %spelling)
  %as.long = icmp eq i64 %wanted, %length
  br i1 %as.long, label %compare, label %again
compare:
  %order = call i32 @memcmp(ptr %spelling, ptr %found, i64 %length)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %yes, label %again
again:
  %k.next = add i64 %k, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}

; Open a file, "-" being standard input, and take its header: 0 and the axes, or an exit status.
define internal i32 @npy.open(ptr %path, ptr %value, ptr %file.at, ptr %axes) nounwind {{
entry:
  %state = alloca [2 x ptr], align 16
  %dash = call i32 @strcmp(ptr %path, ptr @npy.dash)
  %standard = icmp eq i32 %dash, 0
  br i1 %standard, label %begin, label %open
open:
  %opened = call i32 (ptr, i32, ...) @open(ptr %path, i32 {READ})
  %fault = icmp slt i32 %opened, 0
  br i1 %fault, label %system, label %begin
begin:
  %file = phi i32 [ 0, %entry ], [ %opened, %open ]
  store i32 %file, ptr %file.at
  %first = call i64 @npy.read(i32 %file, ptr @npy.bytes, i64 10)
  %unreadable = icmp slt i64 %first, 0
  br i1 %unreadable, label %system, label %magic
magic:
  %ten = icmp eq i64 %first, 10
  %order = call i32 @memcmp(ptr @npy.bytes, ptr @npy.magic, i64 6)
  %marked = icmp eq i32 %order, 0
  %version = load i8, ptr getelementptr (i8, ptr @npy.bytes, i64 6)
  %before = sub i8 %version, 1
  %known = icmp ult i8 %before, 3
  %a = and i1 %ten, %marked
  %b = and i1 %a, %known
  br i1 %b, label %length, label %malformed
length:
  %low = load i16, ptr getelementptr (i8, ptr @npy.bytes, i64 8), align 1
  %low.wide = zext i16 %low to i64
  %old = icmp eq i8 %version, 1
  br i1 %old, label %header, label %longer
longer:
  %second = call i64 @npy.read(i32 %file, ptr getelementptr (i8, ptr @npy.bytes, i64 10), i64 2)
  %two = icmp eq i64 %second, 2
  %whole = load i32, ptr getelementptr (i8, ptr @npy.bytes, i64 8), align 1
  %whole.wide = zext i32 %whole to i64
  br i1 %two, label %header, label %malformed
header:
  %bytes = phi i64 [ %low.wide, %length ], [ %whole.wide, %longer ]
  %fits = icmp ule i64 %bytes, {LONGEST}
  br i1 %fits, label %text, label %malformed
text:
  %got = call i64 @npy.read(i32 %file, ptr @npy.bytes, i64 %bytes)
  %complete = icmp eq i64 %got, %bytes
  br i1 %complete, label %parse, label %malformed
parse:
  store ptr @npy.bytes, ptr %state
  %end = getelementptr i8, ptr @npy.bytes, i64 %bytes
  %end.at = getelementptr ptr, ptr %state, i64 1
  store ptr %end, ptr %end.at
  %layout = call i32 @npy.dictionary(ptr %state)
  %rank = load i64, ptr @npy.rank
  %bad = icmp eq i32 %layout, 0
  br i1 %bad, label %malformed, label %type
type:
  %rank.at = getelementptr i64, ptr %value, i64 5
  %wanted = load i64, ptr %rank.at
  %same.rank = icmp eq i64 %rank, %wanted
  %same.dtype = call i1 @npy.same_dtype(ptr %value)
  %same = and i1 %same.rank, %same.dtype
  br i1 %same, label %ordered, label %mismatch
ordered:
  %turned = icmp eq i32 %layout, 2
  %several = icmp sgt i64 %rank, 1
  %scattered = and i1 %turned, %several
  br i1 %scattered, label %fortran, label %keep
keep:
  %first.at = getelementptr i64, ptr %value, i64 6
  %place = load i64, ptr %first.at
  %to = getelementptr i64, ptr %axes, i64 %place
  br label %next
next:
  %k = phi i64 [ 0, %keep ], [ %k.next, %axis ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %axis, label %done
axis:
  %from.at = getelementptr i64, ptr @npy.axes, i64 %k
  %n = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr %to, i64 %k
  store i64 %n, ptr %to.at
  %k.next = add i64 %k, 1
  br label %next
done:
  ret i32 0
system:
  %r0 = call i32 @npy.system(ptr %path, i32 2)
  ret i32 %r0
malformed:
  %r1 = call i32 @npy.say(ptr %path, ptr @npy.malformed, i32 2)
  ret i32 %r1
mismatch:
  %r2 = call i32 @npy.mismatch(ptr %path, ptr %value)
  ret i32 %r2
fortran:
  %r3 = call i32 @npy.say(ptr %path, ptr @npy.fortran, i32 2)
  ret i32 %r3
}}

; ---- elements

; The bytes of a value with these axes, -1 where they are too many.
define internal i64 @npy.size(ptr %value, ptr %axes) nounwind {{
entry:
  %item.at = getelementptr i64, ptr %value, i64 4
  %item = load i64, ptr %item.at
  %rank.at = getelementptr i64, ptr %value, i64 5
  %rank = load i64, ptr %rank.at
  %first.at = getelementptr i64, ptr %value, i64 6
  %first = load i64, ptr %first.at
  %own = getelementptr i64, ptr %axes, i64 %first
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %fine ]
  %bytes = phi i64 [ %item, %entry ], [ %more.bytes, %fine ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %axis, label %end
axis:
  %n.at = getelementptr i64, ptr %own, i64 %k
  %n = load i64, ptr %n.at
  %both = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %bytes, i64 %n)
  %more.bytes = extractvalue {{ i64, i1 }} %both, 0
  %over = extractvalue {{ i64, i1 }} %both, 1
  %huge = icmp ugt i64 %more.bytes, 70368744177664
  %bad = or i1 %over, %huge
  br i1 %bad, label %large, label %fine
fine:
  %k.next = add i64 %k, 1
  br label %next
end:
  ret i64 %bytes
large:
  ret i64 -1
}}

; Memory for a value, null where there is none.
define internal ptr @npy.room(i64 %bytes) nounwind {{
entry:
  %negative = icmp slt i64 %bytes, 0
  br i1 %negative, label %none, label %some
some:
  %padded = add i64 %bytes, 127
  %aligned = and i64 %padded, -64
  %made = call ptr @aligned_alloc(i64 64, i64 %aligned)
  ret ptr %made
none:
  ret ptr null
}}

; Read a value's elements, to the end of the file: 0 and where they are, or an exit status.
define internal i32 @npy.load(ptr %path, ptr %value, i32 %file, ptr %axes, ptr %base) nounwind {{
entry:
  %bytes = call i64 @npy.size(ptr %value, ptr %axes)
  %room = call ptr @npy.room(i64 %bytes)
  store ptr %room, ptr %base
  %none = icmp eq ptr %room, null
  br i1 %none, label %memory, label %read
read:
  %got = call i64 @npy.read(i32 %file, ptr %room, i64 %bytes)
  %fault = icmp slt i64 %got, 0
  br i1 %fault, label %system, label %whole
whole:
  %enough = icmp eq i64 %got, %bytes
  br i1 %enough, label %rest, label %short
rest:
  %after = getelementptr i8, ptr %room, i64 %bytes
  %beyond = call i64 @npy.read(i32 %file, ptr %after, i64 1)
  %ended = icmp eq i64 %beyond, 0
  br i1 %ended, label %done, label %long
done:
  %closed = call i32 @close(i32 %file)
  ret i32 0
memory:
  %r0 = call i32 @npy.say(ptr %path, ptr @npy.memory, i32 1)
  ret i32 %r0
system:
  %r1 = call i32 @npy.system(ptr %path, i32 2)
  ret i32 %r1
short:
  %r2 = call i32 @npy.say(ptr %path, ptr @npy.short, i32 2)
  ret i32 %r2
long:
  %r3 = call i32 @npy.say(ptr %path, ptr @npy.long, i32 2)
  ret i32 %r3
}}
"""


def npy_text() -> str:
    """The text of the reader, with its messages."""
    module = ModuleText("npy")
    for name, text in MESSAGES.items():
        string(module, f"npy.{name}", text)
    return module.text() + TEXT
