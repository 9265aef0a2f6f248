"""The verifier of kernels: names, types, index counts, accumulators, independent rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from nacre.base.dtypes import DType, bool_, int64
from nacre.base.errors import GraphError
from nacre.base.records import dataclass
from nacre.kernel.affine import Scope
from nacre.kernel.ast import (
    OPERATIONS,
    REDUCTIONS,
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Call,
    Expr,
    Extent,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    children,
    statements,
)
from nacre.kernel.dependence import obstacle
from nacre.kernel.order import in_any_order
from nacre.kernel.text import lines, show_expression

AROUND = 3  # lines shown before and after a fault


def verify(kernel: Kernel) -> None:
    """Check a kernel.

    Raises GraphError that says what is wrong and shows the lines around it.
    """
    checker = _Checker(kernel)
    try:
        checker.kernel()
    except _Fault as fault:
        raise GraphError(f"kernel {kernel.name}: {fault}\n{_excerpt(kernel, checker.current)}") from None


class _Fault(Exception):
    """What is required, and what is there."""


def _excerpt(kernel: Kernel, statement: Stmt | None) -> str:
    shown = list(lines(kernel))
    at = next((n for n, (_, s) in enumerate(shown) if s is statement), 0)
    low, high = max(0, at - AROUND), at + AROUND + 1
    return "\n".join(f"{'>' if n == at else ' '} {text}" for n, (text, _) in enumerate(shown[low:high], low))


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _Fault(message)


@dataclass
class _Checker:
    """Walks a kernel with what is in scope."""

    whole: Kernel
    current: Stmt | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    extents: dict[str, object] = field(default_factory=dict[str, object])
    locals: dict[str, Expr] = field(default_factory=dict[str, Expr])
    folded: dict[str, int] = field(default_factory=dict[str, int])  # accumulators and how often they are used
    loops: list[For] = field(default_factory=list[For])
    depth: dict[str, int] = field(default_factory=dict[str, int])  # the number of loops around each Alloc
    checked: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def kernel(self) -> None:
        """Check the buffers, then the body."""
        names = [b.name for b in self.whole.buffers]
        _require(len(set(names)) == len(names), f"buffers of different names are required; got {', '.join(names)}")
        for b in self.whole.buffers:
            self.buffer(b)
        for s in statements(self.whole.body):
            if isinstance(s, Accumulate):
                for a in s.accumulators:
                    self.folded[a] = self.folded.get(a, 0) + 1
        self.block(self.whole.body)

    def buffer(self, b: Buffer) -> None:
        """Check one buffer and declare it."""
        _require(b.strides is None or len(b.strides) == len(b.shape),
                 f"a stride for each of the {len(b.shape)} axes of {b.name} is required")
        self.buffers[b.name] = b

    def block(self, body: Sequence[Stmt]) -> None:
        """Check statements in order; what they declare ends with the block."""
        before = dict(self.buffers), dict(self.locals)
        for s in body:
            self.current = s
            self.checked.clear()
            self.statement(s)
        self.buffers, self.locals = before

    def statement(self, s: Stmt) -> None:
        """Check one statement and declare what it defines."""
        match s:
            case Let():
                self.free(s.name)
                self.value(s.value)
                self.locals[s.name] = s.value
            case Store():
                self.access(s.buffer, s.index, self.value(s.value))
                inputs = {b.name for b in self.whole.inputs}
                _require(s.buffer not in inputs, f"a store to an output or scratch is required; {s.buffer} is an input")
                _require(s.buffer not in self.folded, f"{s.buffer} is an accumulator; only Accumulate may write to it")
            case Accumulate():
                self.accumulate(s)
            case Alloc():
                self.free(s.buffer.name)
                self.buffer(s.buffer)
                self.depth[s.buffer.name] = len(self.loops)
            case For():
                self.loop(s)
            case If() | While():
                _require(self.value(s.condition) is bool_, "a condition of type bool is required")
                self.block(s.body)
                self.block(s.orelse if isinstance(s, If) else ())
            case Call():
                missing = [n for n in (*s.reads, *s.writes) if n not in self.buffers]
                _require(not missing, f"known buffers are required; got {', '.join(missing)}")

    def free(self, name: str) -> None:
        """Require a name that is not in use."""
        taken = name in self.locals or name in self.buffers or name in self.extents
        _require(not taken, f"a name of its own is required; {name} is in use")

    def loop(self, s: For) -> None:
        """Check a loop: its index, its extent, its marks and its body."""
        self.free(s.index)
        _require(not isinstance(s.extent, int) or s.extent >= 0, f"an extent of at least 0 is required; got {s.extent}")
        if s.parallel:
            scope = Scope({t.index: t.extent for t in self.loops}, dict(self.locals))
            why = obstacle(s, scope)
            _require(why is None or self._gathers(s), f"independent rounds are required of a parallel loop; {why}")
        self.extents[s.index] = s.extent
        self.loops.append(s)
        self.block(s.body)
        self.loops.pop()
        del self.extents[s.index]

    def _gathers(self, s: For) -> bool:
        """Whether it stores at places that are loaded, whose independence only the kernel's author knows."""
        def loaded(e: Expr) -> bool:
            """Whether the expression contains a load."""
            return isinstance(e, Load) or any(map(loaded, children(e)))

        return any(isinstance(t, Store) and any(map(loaded, t.index)) for t in statements(s.body))

    def accumulate(self, s: Accumulate) -> None:
        """Check that values and accumulators fit the reduction."""
        _require(s.op in REDUCTIONS, f"a known reduction is required; got {s.op}")
        count = REDUCTIONS[s.op]
        fits = len(s.accumulators) == len(s.values) == count
        _require(fits, f"{s.op} of {count} accumulators and values is required")
        types = [self.value(v) for v in s.values]
        for a, t in zip(s.accumulators, types, strict=True):
            _require(a in self.buffers and a in self.depth, f"an accumulator allocated around is required; got {a}")
            b = self.buffers[a]
            _require(b.shape == () and b.dtype is t, f"an accumulator {t.short}[] is required; got {b.dtype.short}"
                     f"[{', '.join(map(str, b.shape))}] {a}")
            _require(self.folded[a] == 1, f"one Accumulate for each accumulator is required; {a} has {self.folded[a]}")
            around = len(self.loops) - self.depth[a]
            _require(around >= 1, f"a loop between the Alloc and the Accumulate of {a} is required")
            _require(around == 1 or in_any_order(s.op, b.dtype),
                     f"{s.op} directly in the one loop of its accumulator is required; {around} loops are around {a}")
        if count == 2:
            _require(types[1] is int64, f"{s.op} with an int64 index is required; got {types[1].short}")

    # ---- expressions

    def value(self, e: Expr) -> DType:
        """The dtype of an expression, which is checked."""
        if id(e) not in self.checked:
            self.checked[id(e)] = e
            self._value(e)
        return e.dtype

    def _value(self, e: Expr) -> None:
        match e:
            case Index():
                _require(e.name in self.extents, f"the index of a loop around is required; got {e.name}")
            case Local():
                _require(e.name in self.locals, f"a name bound before is required; got {e.name}")
                _require(self.locals[e.name].dtype is e.dtype, f"{e.name} as {self.locals[e.name].dtype.short} is "
                         f"required; got {e.dtype.short}")
            case Load():
                self.access(e.buffer, e.index, e.dtype)
                if e.buffer in self.folded:
                    inside = len(self.loops) > self.depth.get(e.buffer, 0) and any(
                        isinstance(s, Accumulate) and e.buffer in s.accumulators
                        for s in statements(self.loops[self.depth[e.buffer]].body))
                    _require(not inside, f"a load of accumulator {e.buffer} after its loop is required")
            case Apply():
                _require(e.op in OPERATIONS, f"a known operation is required; got {e.op}")
                self.operation(e, [self.value(a) for a in e.args])
            case Extent():
                pass
            case _:
                pass

    def access(self, buffer: str, index: Sequence[Expr], dtype: DType) -> None:
        """Check that an access names a known buffer, with its rank and dtype."""
        _require(buffer in self.buffers, f"a known buffer is required; got {buffer}")
        b = self.buffers[buffer]
        _require(len(index) == len(b.shape), f"{len(b.shape)} indices of {buffer} are required; got {len(index)}")
        _require(b.dtype is dtype, f"{b.dtype.short} elements of {buffer} are required; got {dtype.short}")
        for i in index:
            _require(self.value(i) is int64, f"int64 indices are required; got {show_expression(i)}: {i.dtype.short}")

    def operation(self, e: Apply, types: Sequence[DType]) -> None:
        """Check the operand count and dtypes of an operation."""
        count, kind = OPERATIONS[e.op]
        shown = f"{e.op}({', '.join(t.short for t in types)}) -> {e.dtype.short}"
        _require(len(types) == count, f"{e.op} of {count} operands is required; got {shown}")
        first = types[0]
        same = all(t is first for t in types)
        fits = {
            "same": same and e.dtype is first,
            "compare": same and e.dtype is bool_,
            "logic": same and e.dtype is first and not first.is_float,
            "shift": same and e.dtype is first and first.is_integer,
            "select": first is bool_ and all(t is e.dtype for t in types[1:]),
            "cast": e.op == "cast" or first.bits == e.dtype.bits,
            "test": first.is_float and e.dtype is bool_,
        }
        _require(fits[kind], f"operands of {e.op} that agree are required; got {shown}")


