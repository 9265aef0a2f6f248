"""The structures of the entries in memory: tensors, tape nodes, and the records behind native functions."""

from __future__ import annotations

from typing import Annotated, Final

from nacre.native.c_library import TimeSpec
from nacre.native.cpython import HAS_OBJECT_HEADERS, PyObject
from nacre.native.python.types import array, embed, i64, ptr, struct, u8, u64
from nacre.runtime.layouts import BufferObject, Descriptor

CELL: Final = 0  # kinds of watched places
NAME: Final = 1
DICT: Final = 2
LIST: Final = 3
ATTRIBUTE: Final = 4
ORDERED: Final = 5
WATCHED: Final = {
    **{"cell": CELL, "name": NAME, "view": NAME, "dict": DICT, "list": LIST, "attribute": ATTRIBUTE},
    "ordered": ORDERED,
}
SMALL_WORKSPACE: Final = 8192  # bytes of workspace on the stack
IGNORED: Final = 0  # what an entry does about nodes: nothing
MOST_PULLED: Final = 15  # saved values of a node whose pullback native code calls
REFUSED: Final = 1  # it calls its fallback; any other number is the address of a table of rules

# CPython lays out the slots of a class in the order of their names, behind those of its base.  `slots` compares these
# structures with the classes.


@struct
class TensorObject(PyObject):
    """A tensor: a `Value`.  `value_type` is its slot `type`."""

    content: BufferObject
    layout: PyObject
    node: PyObject
    value_type: PyObject
    if not HAS_OBJECT_HEADERS:
        weak_references: PyObject


@struct
class LayoutObject(PyObject):
    """The `Layout` of a view."""

    offset: PyObject
    strides: PyObject


@struct
class OriginObject(PyObject):
    """An `Origin`, which is the node of a value."""

    level: PyObject
    if not HAS_OBJECT_HEADERS:
        weak_references: PyObject


@struct
class NodeObject(OriginObject):
    """A `TapeNode`."""

    hooks: PyObject
    number: PyObject
    outer: PyObject
    parents: PyObject
    rule: PyObject
    saved: PyObject
    source: PyObject


@struct
class SmallWorkspace:
    """The workspace of a program that needs little, on the stack."""

    memory: Annotated[array[u8], SMALL_WORKSPACE]


@struct
class InterruptClock(TimeSpec):
    """When a program that runs without the interpreter lock last took it, and the thread's state."""

    thread: ptr[u8]


@struct
class SilentThreads:
    """How many threads do not record, and one of them."""

    count: u64
    thread: u64


@struct
class OperandType:
    """The type that an operand must have, and if it may be a view the bytes of its elements (0: it must be dense)."""

    type: PyObject
    element: i64


@struct
class ResultType:
    """The type of a result, its bytes, and the operand whose buffer it reuses (or -1)."""

    type: PyObject
    nbytes: u64
    donor: i64


@struct
class PackedSource:
    """An input that something is packed of, with the serial of its buffer and its address at the last call."""

    operand: i64
    serial: u64
    address: u64


@struct
class PackedTable:
    """Prepacked inputs of a program: `source_count` sources, and `value_count` offsets behind them."""

    nbytes: u64
    block: BufferObject
    source_count: i64
    value_count: i64
    sources: Annotated[array[embed[PackedSource]], 0]


@struct
class ProgramRecord:
    """A program that Python calls: `inputs` operands, and `outputs` rows of ResultType behind them.

    `interruptible` is whether Ctrl-C may end it early, `releases` whether it releases the interpreter lock, `active`
    the address of the number of active interpreters.  `nodes` says how to treat nodes: IGNORED, REFUSED or the
    address of a Recording's table.  `failure` raises the error of a check, from the address of an Outcome; null without
    checks.
    """

    inputs: i64
    outputs: i64
    descriptor: Descriptor
    interruptible: i64
    fallback: PyObject
    tensor_class: PyObject
    buffer_class: PyObject
    releases: i64
    active: ptr[i64]
    nodes: u64
    packed: PackedTable
    failure: PyObject
    operands: Annotated[array[embed[OperandType]], 0]


@struct
class ViewRecord:
    """An operation that is a view: its operand's type, and the result's type and layout."""

    operand_type: PyObject
    result_type: PyObject
    result_layout: PyObject
    fallback: PyObject
    tensor_class: PyObject
    buffer_class: PyObject
    active: ptr[i64]
    nodes: u64


@struct
class NodeRule:
    """How a call is recorded: the rule (or null: no node), and the numbers of parents and saved values.

    `keeps_result` is whether the result is one of the saved values.  `places` are those of the parents among the
    operands, then those of the saved values (operands, and after them the result).
    """

    rule: PyObject
    parent_count: i64
    saved_count: i64
    keeps_result: i64
    places: Annotated[array[i64], 0]


@struct
class PulledOperand:
    """An operand that receives a cotangent: its place among the parents, and the cotangent's among the results.

    Where nothing is computed, that is the place among the saved values and the cotangent of the node.
    """

    parent: i64
    source: i64


@struct
class PullRecord:
    """A pullback of a node with one result: a native function, or null where nothing is computed.

    `mode` is the number of the mode for which the function is.  With `apart`, the parents must all be different.
    With `dense`, no value may be a view.  `order` are the places of the arguments among saved values and cotangent.
    """

    mode: u64
    function: PyObject
    saved: i64
    apart: i64
    dense: i64
    results: i64
    given: i64
    order: Annotated[array[i64], MOST_PULLED + 1]
    count: i64
    operands: Annotated[array[embed[PulledOperand]], 0]


@struct
class SweepState:
    """What a sweep works on: dicts and a list of `interpret.backward.Sweep`, and its method `put`.

    `keeps` is whether nodes stay as they are.  `mode` is that of the thread.  `adder` adds cotangents of the type
    `added`; both are null at first.
    """

    pending: PyObject
    queue: PyObject
    ends: PyObject
    put: PyObject
    keeps: bool
    mode: u64
    added: PyObject
    adder: PyObject


@struct
class PulledValues:
    """The saved values and the cotangent of one node."""

    values: Annotated[array[TensorObject], MOST_PULLED + 1]


@struct
class VariableObject(PyObject):
    """A `Variable`."""

    cell: TensorObject
    gradient_cell: PyObject
    hooks: PyObject
    leaf: PyObject
    name: PyObject
    number: PyObject
    wants_gradient: PyObject


@struct
class Slot:
    """A slot of a variable."""

    value: PyObject


@struct
class HiddenValue:
    """A value that a step overwrites: its place among the operands, and what the variable has meanwhile."""

    operand: i64
    placeholder: PyObject


@struct
class KeptSlot:
    """A slot that must have an object (`has_it` is 1), or must not have it (0)."""

    slot: Slot
    object: PyObject
    has_it: i64


@struct
class WatchedPlace:
    """A place that must have the same objects as before: `count` of them, or of pairs of a dict's keys and values.

    `kind` is one of the numbers of `WATCHED`.  `key` is a name in globals or attributes, and `position` its place in
    their dict at the last call, or -1 for a key that is another object there.
    """

    kind: i64
    owner: PyObject
    key: PyObject
    objects: ptr[PyObject]
    count: i64
    position: i64


@struct
class StepRecord:
    """A program that reads and writes variables: its own record, and the places of its variables.

    The operands are `arguments` arguments of the call, then captures, from `plain` on values of variables.  `sources`
    are the captures, then the slots of the values.  The outputs are `results` results of the call, then values for the
    slots `written`.  The slots `cleared` become None.  The places `watched` have the objects that they had.

    `holds` says whether all other conditions hold, or is null.  `finish` converts the tuple of results to the answer;
    null: the only result is the answer, None: the tuple is.  `acquire` and `release` are those of the lock of updates.
    """

    program: ProgramRecord
    arguments: i64
    plain: i64
    results: i64
    sources: ptr[Slot]
    written: ptr[Slot]
    hidden: ptr[embed[HiddenValue]]
    hidden_count: i64
    cleared: ptr[Slot]
    cleared_count: i64
    kept: ptr[embed[KeptSlot]]
    kept_count: i64
    watched: ptr[embed[WatchedPlace]]
    watched_count: i64
    holds: PyObject
    finish: PyObject
    fallback: PyObject
    acquire: PyObject
    release: PyObject


@struct
class UpdatingThread:
    """The thread that updates variables in place, or 0."""

    thread: u64
