"""The structures of the entries in memory: tensors, tape nodes, and the records behind native functions."""

from __future__ import annotations

from nacre.native.cpython import PyObject
from nacre.native.python.types import i64, ptr, struct, u64
from nacre.runtime.layouts import BufferObject, Descriptor


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
    """Prepacked inputs of a program: `source_count` rows of PackedSource and `value_count` offsets follow it."""

    nbytes: u64
    block: BufferObject
    source_count: i64
    value_count: i64


@struct
class ProgramRecord:
    """A program that Python calls: `inputs` rows of OperandType and `outputs` rows of ResultType follow it.

    `interruptible` is whether Ctrl-C may end it early, `releases` whether it releases the interpreter lock, `active`
    the address of the number of active interpreters.  `nodes` says how to treat nodes: 0 ignores them, 1 calls the
    fallback, else it is the address of a Recording's table.
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

    `keeps_result` is whether the result is one of the saved values.  The places of the parents among the operands
    follow, then those of the saved values (operands, and after them the result).
    """

    rule: PyObject
    parent_count: i64
    saved_count: i64
    keeps_result: i64
