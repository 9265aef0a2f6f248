"""The end of a matrix product: block sums join, and finished rows pass through the epilogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.base.dtypes import DType
from nacre.base.errors import CompileError
from nacre.codegen.contract_numbers import Edge, Numbers, edge, load_edge, store_edge
from nacre.native.text import Function, Module, Val, bits_of, scalar_of, vec

Epilogue = Callable[[Function, Val, list[Val]], list[Val]]
"""Called with the finished sums of `lanes` consecutive columns of a row, and each operand's vector in its
memory type; returns one vector for each output, in the output's memory type."""

LEVELS = ("outer", "inner")  # of the batch
KINDS = {
    "row": LEVELS,  # one value for each column n, contiguous
    "full": (*LEVELS, "m"),  # one value for each element; columns contiguous
    "column": (*LEVELS, "m"),  # one value for each row m
    "scalar": (),  # one value
}


@dataclass(frozen=True)
class Operand:
    """What an epilogue reads beside the sums: `kind` is one of "row", "full", "column", "scalar"."""

    kind: str
    dtype: DType


@dataclass(frozen=True)
class Ending:
    """What happens to finished sums: the operands read, the outputs written, and the function between."""

    operands: tuple[Operand, ...]
    outputs: tuple[DType, ...]
    epilogue: Epilogue | None

    def in_place(self, numbers: Numbers) -> bool:
        """Whether the first output can hold the sums of a part of the k."""
        return self.outputs[0].memory == numbers.wide


@dataclass(frozen=True)
class Slots:
    """The names of a kernel's argument slots in order, and how to read them."""

    names: tuple[str, ...]

    def load(self, f: Function, name: str) -> Val:
        """Read a slot through the parameter `args`; names of pointers begin with a capital."""
        ty = "ptr" if name[0].isupper() else "i64"
        return f.load(f.gep(f["args"], self.names.index(name), "i64"), ty)

    def matrix(self, f: Function, name: str, scalar: str) -> Val:
        """Where a buffer's matrix at the parameters `outer` and `inner` begins."""
        steps = [f.mul(f[level], self.load(f, f"{name.lower()}.{level}")) for level in LEVELS]
        return f.gep(self.load(f, name), f.add(*steps), scalar)


def ending_slots(ending: Ending) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The slots of pointers and of strides that outputs and operands need."""
    outputs = [f"Output{k}" for k in range(len(ending.outputs))]
    operands = [f"Operand{k}" for k in range(len(ending.operands))]
    strides = [f"output{k}.{axis}" for k in range(len(outputs)) for axis in KINDS["full"]]
    strides += [
        f"operand{k}.{axis}"
        for k, operand in enumerate(ending.operands)
        for axis in KINDS[operand.kind]
    ]
    return (*outputs, *operands), tuple(strides)


@dataclass(frozen=True)
class Source:
    """An operand or output in one row: where the row begins, its vector type, and how it is read."""

    start: Val
    ty: str
    kind: str


def emit_merge(module: Module, numbers: Numbers, ending: Ending, slots: Slots) -> None:
    """@merge(args, from, from_row, home, home_row, outer, inner, m, n, rows, columns, add, last).

    Takes raw sums of rows × columns elements at (outer, inner, m, n) from a tile.  `add` adds those kept
    at `home` before them; `last` sends the result through the epilogue to the outputs, otherwise it
    stays at `home`.  from_row and home_row are in bytes.
    """
    params = {
        "args": "ptr", "from": "ptr", "from_row": "i64", "home": "ptr", "home_row": "i64",
        "outer": "i64", "inner": "i64", "m": "i64", "n": "i64", "rows": "i64", "columns": "i64",
        "add": "i64", "last": "i64",
    }  # fmt: skip
    f = module.function(
        "merge", "void", params, linkage="internal", attributes=numbers.isa.attributes
    )
    adding = f.icmp("ne", f["add"], 0)
    operands = [_matrix(f, slots, f"Operand{k}", o.kind, o.dtype)
                for k, o in enumerate(ending.operands)]  # fmt: skip
    results = [_matrix(f, slots, f"Output{k}", "full", d) for k, d in enumerate(ending.outputs)]
    with f.loop("r", 0, f["rows"], carry=[f["from"], f["home"]]) as loop:
        source, home = loop.carried
        m = f.add(f["m"], loop.index)
        inputs, outputs = ([_row(f, each, numbers, m) for each in buffers]
                           for buffers in (operands, results))  # fmt: skip
        row = _Row(numbers, ending, source, home, inputs, outputs, adding)
        for start, end, partial in _spans(f, numbers):
            with f.loop("j", start, end, numbers.lanes) as inner:
                _merge_vector(f, row, inner.index, partial)
        loop.next(f.gep(source, f["from_row"]), f.gep(home, f["home_row"]))
    f.ret()


@dataclass(frozen=True)
class _Row:
    numbers: Numbers
    ending: Ending
    source: Val
    home: Val
    inputs: Sequence[Source]
    outputs: Sequence[Source]
    adding: Val


def _spans(f: Function, numbers: Numbers) -> list[tuple[Val, Val, bool]]:
    """Whole vectors and the rest apart where masks are dear; everything masked where they are not."""
    columns = f["columns"]
    if numbers.isa.masks:
        return [(f.i64(0), columns, True)]
    whole = f.and_(columns, -numbers.lanes)
    return [(f.i64(0), whole, False), (whole, columns, True)]


def _merge_vector(f: Function, row: _Row, j: Val, partial: bool) -> None:
    numbers = row.numbers
    count = f.sub(f["columns"], j)
    lanes = edge(f, numbers.isa, count, numbers.vector) if partial else None
    place = f.gep(row.home, j, numbers.wide)
    value = f.load(f.gep(row.source, j, numbers.wide), numbers.vector)
    value = f.select(
        row.adding, numbers.add(f, load_edge(f, place, numbers.vector, lanes), value), value
    )
    if row.ending.epilogue is None and row.ending.in_place(numbers):
        store_edge(f, value, place, lanes)
        return
    with f.when(f.icmp("eq", f["last"], 0)):
        store_edge(f, value, place, lanes)
    with f.when(f.icmp("ne", f["last"], 0)):
        _finish_vector(f, row, j, count if partial else None, value)


def _finish_vector(f: Function, row: _Row, j: Val, count: Val | None, value: Val) -> None:
    """Read the operands at column j, call the epilogue, and write the outputs."""
    numbers, edges = row.numbers, dict[int, Edge]()

    def lanes(ty: str) -> Edge | None:
        if count is None:
            return None
        if bits_of(ty) not in edges:
            edges[bits_of(ty)] = edge(f, numbers.isa, count, ty)
        return edges[bits_of(ty)]

    loads: list[Val] = []
    for source in row.inputs:
        if source.kind in ("row", "full"):
            place = f.gep(source.start, j, scalar_of(source.ty))
            loads.append(load_edge(f, place, source.ty, lanes(source.ty)))
        else:
            loads.append(f.splat(f.load(source.start, scalar_of(source.ty)), numbers.lanes))
    if row.ending.epilogue is None:
        results = [numbers.narrow(f, value, d.memory) for d in row.ending.outputs]
    else:
        results = row.ending.epilogue(f, value, loads)
    for result, output in zip(results, row.outputs, strict=True):
        if result.ty != output.ty:
            raise CompileError(f"contract epilogue: a {output.ty} is required; got a {result.ty}")
        store_edge(f, result, f.gep(output.start, j, scalar_of(output.ty)), lanes(output.ty))


@dataclass(frozen=True)
class _Matrix:
    """An operand or output at one place of the batch: where column n begins, and the stride of rows."""

    start: Val
    step: Val | None
    dtype: DType
    kind: str


def _matrix(f: Function, slots: Slots, name: str, kind: str, dtype: DType) -> _Matrix:
    start = slots.matrix(f, name, dtype.memory) if kind != "scalar" else slots.load(f, name)
    if kind in ("row", "full"):
        start = f.gep(start, f["n"], dtype.memory)
    step = slots.load(f, f"{name.lower()}.m") if "m" in KINDS[kind] else None
    return _Matrix(start, step, dtype, kind)


def _row(f: Function, matrix: _Matrix, numbers: Numbers, m: Val) -> Source:
    """Where the row m of an operand or output begins at column n."""
    start, scalar = matrix.start, matrix.dtype.memory
    if matrix.step is not None:
        start = f.gep(start, f.mul(m, matrix.step), scalar)
    return Source(start, vec(scalar, numbers.lanes), matrix.kind)
