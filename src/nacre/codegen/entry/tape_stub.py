"""Recording for reverse mode in native code: nodes as of `interpret.tape`, made without Python.

An entry that records has a `Recording`: for each set of operands with nodes, the rule of the operation's pullback.  An
unknown set goes to the entry's fallback, which is Python and adds the rule.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre.base.state import SILENT
from nacre.interpret.pullback import Rule
from nacre.interpret.tape import NUMBERS, TapeNode
from nacre.ir.primitive import Layout
from nacre.trace.value import Origin, Value, is_concrete

MOST = 6  # operands of an operation that native code records

# A rule in 64-bit words: the rule (or 0: the result does not depend on the operands), the number of operands with
# nodes, the number of saved values, whether the result is one of them, the places of these operands, then of the saved
# values (operands, and after them the result).
TEXT = """
declare ptr @PyIter_Next(ptr)
declare i64 @PyThread_get_thread_ident()
@nacre_node_class = external global i8
@nacre_node_numbers = external global i8
@nacre_zero = external global i8
@nacre_silent = external global [2 x i64]

; Does this thread record?  0: no, 1: yes, 2: only Python can tell.
define internal i64 @nacre_records() nounwind {
entry:
  %silent = load i64, ptr @nacre_silent
  %all = icmp eq i64 %silent, 0
  br i1 %all, label %yes, label %some
some:
  %several = icmp ugt i64 %silent, 1
  br i1 %several, label %ask, label %one
one:
  %which.at = getelementptr i64, ptr @nacre_silent, i64 1
  %which = load i64, ptr %which.at
  %own = call i64 @PyThread_get_thread_ident()
  %other = icmp ne i64 %which, %own
  %answer = zext i1 %other to i64
  ret i64 %answer
yes:
  ret i64 1
ask:
  ret i64 2
}

; The tensor, which this takes over, with a node; null with an exception set where there is no memory.
define internal ptr @nacre_record(ptr %rule, ptr %args, i64 %inputs, ptr %tensor) nounwind {
entry:
  %object = load ptr, ptr %rule
  %none = icmp eq ptr %object, null
  br i1 %none, label %bare, label %make

bare:
  ret ptr %tensor

make:                                             ; the node, its number, its parents, its saved values
  %node = call ptr @PyType_GenericAlloc(ptr @nacre_node_class, i64 0)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %fail, label %number

number:
  call void @Py_IncRef(ptr @nacre_zero)
  %level.at = getelementptr i8, ptr %node, i64 {level}
  store ptr @nacre_zero, ptr %level.at
  call void @Py_IncRef(ptr %object)
  %rule.at = getelementptr i8, ptr %node, i64 {rule}
  store ptr %object, ptr %rule.at
  %count = call ptr @PyIter_Next(ptr @nacre_node_numbers)
  %number.at = getelementptr i8, ptr %node, i64 {number}
  store ptr %count, ptr %number.at
  %parents.n.at = getelementptr i64, ptr %rule, i64 1
  %parents.n = load i64, ptr %parents.n.at
  %parents = call ptr @PyTuple_New(i64 %parents.n)
  %parents.at = getelementptr i8, ptr %node, i64 {parents}
  store ptr %parents, ptr %parents.at
  %saved.n.at = getelementptr i64, ptr %rule, i64 2
  %saved.n = load i64, ptr %saved.n.at
  %saved = call ptr @PyTuple_New(i64 %saved.n)
  %saved.at = getelementptr i8, ptr %node, i64 {saved}
  store ptr %saved, ptr %saved.at
  %no.count = icmp eq ptr %count, null
  %no.parents = icmp eq ptr %parents, null
  %no.saved = icmp eq ptr %saved, null
  %no.1 = or i1 %no.count, %no.parents
  %no = or i1 %no.1, %no.saved
  br i1 %no, label %drop, label %fill

fill:
  %parent.places = getelementptr i64, ptr %rule, i64 4
  %saved.places = getelementptr i64, ptr %parent.places, i64 %parents.n
  br label %parent

parent:
  %p = phi i64 [ 0, %fill ], [ %p.next, %parent.one ]
  %p.more = icmp slt i64 %p, %parents.n
  br i1 %p.more, label %parent.one, label %keep

parent.one:
  %p.place.at = getelementptr i64, ptr %parent.places, i64 %p
  %p.place = load i64, ptr %p.place.at
  %p.arg.at = getelementptr ptr, ptr %args, i64 %p.place
  %p.arg = load ptr, ptr %p.arg.at
  %p.node.at = getelementptr i8, ptr %p.arg, i64 {node}
  %p.node = load ptr, ptr %p.node.at
  call void @Py_IncRef(ptr %p.node)
  %p.set = call i32 @PyTuple_SetItem(ptr %parents, i64 %p, ptr %p.node)
  %p.next = add i64 %p, 1
  br label %parent

keep:
  %s = phi i64 [ 0, %parent ], [ %s.next, %keep.one ]
  %s.more = icmp slt i64 %s, %saved.n
  br i1 %s.more, label %keep.one, label %attach

keep.one:
  %s.place.at = getelementptr i64, ptr %saved.places, i64 %s
  %s.place = load i64, ptr %s.place.at
  %s.operand = icmp slt i64 %s.place, %inputs
  %s.index = select i1 %s.operand, i64 %s.place, i64 0
  %s.arg.at = getelementptr ptr, ptr %args, i64 %s.index
  %s.arg = load ptr, ptr %s.arg.at
  %s.value = select i1 %s.operand, ptr %s.arg, ptr %tensor
  call void @Py_IncRef(ptr %s.value)
  %s.set = call i32 @PyTuple_SetItem(ptr %saved, i64 %s, ptr %s.value)
  %s.next = add i64 %s, 1
  br label %keep

attach:
  %kept.at = getelementptr i64, ptr %rule, i64 3
  %kept = load i64, ptr %kept.at
  %is.kept = icmp ne i64 %kept, 0
  br i1 %is.kept, label %another, label %same

same:
  call void @Py_DecRef(ptr @_Py_NoneStruct)
  %node.at = getelementptr i8, ptr %tensor, i64 {node}
  store ptr %node, ptr %node.at
  ret ptr %tensor

another:                                          ; save the tensor without its node, which it would keep alive
  %class.at = getelementptr ptr, ptr %tensor, i64 1
  %class = load ptr, ptr %class.at
  %type.at = getelementptr i8, ptr %tensor, i64 {type}
  %type = load ptr, ptr %type.at
  %data.at = getelementptr i8, ptr %tensor, i64 {data}
  %data = load ptr, ptr %data.at
  call void @Py_IncRef(ptr %data)
  %noded = call ptr @nacre_tensor(ptr %class, ptr %type, ptr %data)
  %no.noded = icmp eq ptr %noded, null
  br i1 %no.noded, label %drop, label %tie

tie:
  %layout.at = getelementptr i8, ptr %tensor, i64 {layout}
  %layout = load ptr, ptr %layout.at
  call void @Py_IncRef(ptr %layout)
  call void @Py_DecRef(ptr @_Py_NoneStruct)
  %noded.layout.at = getelementptr i8, ptr %noded, i64 {layout}
  store ptr %layout, ptr %noded.layout.at
  call void @Py_DecRef(ptr @_Py_NoneStruct)
  %noded.node.at = getelementptr i8, ptr %noded, i64 {node}
  store ptr %node, ptr %noded.node.at
  call void @Py_DecRef(ptr %tensor)
  ret ptr %noded

drop:
  call void @Py_DecRef(ptr %node)
  br label %fail

fail:
  call void @Py_DecRef(ptr %tensor)
  ret ptr null
}
"""


def slot_offset(cls: type, name: str) -> int:
    """The offset of a slot in a class's instances: PyMemberDescrObject → PyMemberDef.offset."""
    descriptor = cls.__dict__[name]
    if type(descriptor) is not types.MemberDescriptorType:
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    member = ctypes.c_void_p.from_address(id(descriptor) + 40).value
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value


def offsets() -> dict[str, int]:
    """The slots that native code reads and writes, by name."""
    places = {name: slot_offset(Value, name) for name in ("type", "layout", "node")}
    places |= {"data": slot_offset(Value, "content")}
    places |= {"level": slot_offset(Origin, "level"), "offset": slot_offset(Layout, "offset")}
    return places | {name: slot_offset(TapeNode, name) for name in ("number", "parents", "rule", "saved")}


def symbols() -> dict[str, int]:
    """The objects that the text refers to."""
    return {
        "nacre_node_class": id(TapeNode),
        "nacre_node_numbers": id(NUMBERS),
        "nacre_zero": id(0),
        "nacre_silent": ctypes.addressof(SILENT),
    }


class Recording:
    """How an operation with one result is recorded, for each set of operands with nodes.

    `rule_for(active)` derives the rule if these operands have nodes; None if no node is needed.
    """

    def __init__(self, operands: int, rule_for: Callable[[tuple[int, ...]], Rule | None]) -> None:
        self.operands, self.rule_for = operands, rule_for
        self.table = np.zeros(1 << operands, np.int64)
        self.referenced: list[Any] = []

    def learn(self, inputs: Sequence[Value]) -> None:
        """Add the rule for the operands that have nodes in these inputs."""
        mask = 0
        for k, x in enumerate(inputs):
            node = x.node
            if node is not None:
                if node.level:
                    return
                mask |= 1 << k
        if mask and not self.table[mask] and all(map(is_concrete, inputs)):
            active = tuple(k for k in range(self.operands) if mask >> k & 1)
            rule = self.rule_for(active)
            words = [0, 0, 0, 0]
            if rule is not None:
                words = [id(rule), len(active), len(rule.saved), int(rule.keeps_results), *active, *rule.saved]
            written = np.array(words, np.int64)
            self.referenced += [rule, written]
            self.table[mask] = written.ctypes.data

    def fallback(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """The operation on any operands, for an entry with this recording; it learns the rules of new sets."""

        def learning(*inputs: Value) -> Any:
            """Run the operation in Python, and learn the rule."""
            result = general(*inputs)
            self.learn(inputs)
            return result

        return learning
