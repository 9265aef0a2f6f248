"""The records of pullbacks that the native backward pass calls, and the objects that it refers to."""

from __future__ import annotations

import heapq
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

from nacre.codegen.entry.layouts import MOST_PULLED, PulledOperand, PullRecord
from nacre.interpret.pullback import NativePull, Pull, Rule
from nacre.interpret.tape import CHANGED
from nacre.native.python.types import offset_of
from nacre.native.records import pack
from nacre.ops.pointwise import add, add_p
from nacre.runtime import buffer as buffers
from nacre.runtime.tables import memory_of
from nacre.trace.bind import NATIVE
from nacre.trace.variable import Leaf

SWEPT: Final = sys.intern("swept")  # the attribute of a rule


def symbols() -> dict[str, int]:
    """The objects that native code refers to."""
    return {
        "nacre.leaf_class": id(Leaf),
        "nacre.buffer_class": id(buffers.native().type),
        "nacre.heap_push": id(heapq.heappush),
        "nacre.heap_pop": id(heapq.heappop),
        "nacre.changed": id(CHANGED),
        "nacre.native_operations": id(NATIVE),
        "nacre.add_primitive": id(add_p),
        "nacre.add_function": id(add),
        "nacre.swept_name": id(SWEPT),
    }


def native_pull(rule: Rule, pull: Pull, function: Callable[..., Any] | None, mode: int) -> NativePull:
    """The record of a rule's pullback, which a function computes in a mode; None where nothing is computed."""
    sources = range(len(pull.places)) if pull.direct is None else pull.direct
    order = tuple(range(len(rule.saved) + 1)) if pull.single is None else pull.single[1]
    head = bytearray(
        pack(
            PullRecord,
            mode=mode,
            function=0 if function is None else id(function),
            saved=len(rule.saved),
            apart=int(rule.onto is not None and len(rule.active) > 1),
            dense=int(pull.sizes is not None),
            results=len(pull.graph.outputs),
            given=len(order),
            count=len(pull.places),
        )
    )
    struct.pack_into(f"<{len(order)}q", head, offset_of(PullRecord, "order"), *order)
    record = memory_of(
        bytes(head),
        *(pack(PulledOperand, parent=p, source=k) for p, k in zip(pull.places, sources, strict=True)),
    )
    return NativePull(record.ctypes.data, mode, (record, function))


def may_sweep(rule: Rule) -> bool:
    """Whether the native backward pass can process nodes with a rule at all."""
    return not (rule.primitive.multiple or rule.repeats or len(rule.saved) > MOST_PULLED)
