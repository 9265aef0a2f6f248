"""The verifier of kernel IR: names, types, index counts, accumulators, independent iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from nacre.base.dtypes import BITWISE, DType, bool_, int64
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
    expressions,
    statements,
)
from nacre.kernel.dependence import memory_obstacle, obstacle
from nacre.kernel.order import in_any_order
from nacre.kernel.text import lines, show_expression

AROUND = 3  # lines shown before and after a fault
LONGEST = 1000  # operations in a line that is shown


def verify(kernel: Kernel, gathers: bool = True) -> None:
    """Check a kernel.

    Raises GraphError that describes the fault and shows the lines around it.  With `gathers`, the kernel's author knows
    that iterations of marked loops that store at loaded positions are independent.
    """
    checker = _Checker(kernel, gathers)
    try:
        checker.kernel()
    except _Fault as fault:
        raise GraphError(f"kernel {kernel.name}: {fault}{_excerpt(kernel, checker.current)}") from None
    except RecursionError:
        raise GraphError(f"kernel {kernel.name}: blocks and expressions must be nested less deeply") from None


class _Fault(Exception):
    """A rule that the kernel breaks."""


def _excerpt(kernel: Kernel, statement: Stmt | None) -> str:
    """Lines around a statement, on lines of their own; none if shared expressions make the text long."""
    sizes: dict[int, int] = {}
    for s in statements(kernel.body):
        if sum(_size(e, sizes) for e in expressions(s)) > LONGEST:
            return ""
    shown = list(lines(kernel))
    at = next((n for n, (_, s) in enumerate(shown) if s is statement), 0)
    low, high = max(0, at - AROUND), at + AROUND + 1
    return "".join(f"\n{'>' if n == at else ' '} {text}" for n, (text, _) in enumerate(shown[low:high], low))


def _size(e: Expr, known: dict[int, int]) -> int:
    """The number of operations in the text of an expression."""
    if id(e) not in known:
        known[id(e)] = 1 + sum(_size(c, known) for c in children(e))
    return known[id(e)]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _Fault(message)


@dataclass
class _Checker:
    """Walks a kernel and tracks the names in scope."""

    whole: Kernel
    gathers: bool
    current: Stmt | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    extents: dict[str, object] = field(default_factory=dict[str, object])
    locals: dict[str, Expr] = field(default_factory=dict[str, Expr])
    folded: dict[str, int] = field(default_factory=dict[str, int])  # the number of uses of each accumulator
    loops: list[For] = field(default_factory=list[For])
    depth: dict[str, int] = field(default_factory=dict[str, int])  # the number of loops around each Alloc
    checked: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def kernel(self) -> None:
        """Check the buffers, then the body."""
        names = [b.name for b in self.whole.buffers]
        _require(len(set(names)) == len(names), f"buffer names must be distinct; got {', '.join(names)}")
        for b in self.whole.buffers:
            self.buffer(b)
        for s in statements(self.whole.body):
            if isinstance(s, Accumulate):
                self.current = s
                for a in s.accumulators:
                    _require(a not in names, f"an accumulator must be scratch; {a} is an input or an output")
                    self.folded[a] = self.folded.get(a, 0) + 1
        self.block(self.whole.body)

    def buffer(self, b: Buffer) -> None:
        """Check one buffer and declare it."""
        _require(
            b.strides is None or len(b.strides) == len(b.shape),
            f"{b.name} must have a stride for each of its {len(b.shape)} axes",
        )
        self.buffers[b.name] = b

    def block(self, body: Sequence[Stmt]) -> None:
        """Check statements in order; their declarations end with the block."""
        before = dict(self.buffers), dict(self.locals)
        for s in body:
            self.current = s
            self.checked.clear()
            self.statement(s)
        self.buffers, self.locals = before

    def statement(self, s: Stmt) -> None:
        """Check one statement and declare the names that it defines."""
        match s:
            case Let():
                self.free(s.name)
                self.value(s.value)
                self.locals[s.name] = s.value
            case Store():
                self.access(s.buffer, s.index, self.value(s.value))
                inputs = {b.name for b in self.whole.inputs}
                _require(s.buffer not in inputs, f"a store must write an output or scratch; {s.buffer} is an input")
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
                _require(self.value(s.condition) is bool_, "a condition must have dtype bool")
                self.block(s.body)
                self.block(s.orelse if isinstance(s, If) else ())

    def free(self, name: str) -> None:
        """Require a name that is not in use."""
        taken = name in self.locals or name in self.buffers or name in self.extents
        _require(not taken, f"names must be distinct; {name} is in use")

    def loop(self, s: For) -> None:
        """Check a loop: its index, its extent, its marks and its body."""
        self.free(s.index)
        _require(not isinstance(s.extent, int) or s.extent >= 0, f"an extent must be at least 0; got {s.extent}")
        self.extents[s.index] = s.extent
        self.loops.append(s)
        self.block(s.body)
        self.loops.pop()
        del self.extents[s.index]
        if s.parallel or s.vector:
            self.current = s
            self.marked(s)

    def marked(self, s: For) -> None:
        """Check that iterations of a loop with a mark are independent."""
        scope = Scope({t.index: t.extent for t in self.loops}, dict(self.locals))
        why = obstacle(s, scope) if s.parallel else memory_obstacle(s, scope)  # lanes may accumulate
        mark = "parallel" if s.parallel else "vector"
        _require(
            why is None or (self.gathers and self._gathers(s)),
            f"iterations of a {mark} loop must be independent; {why}; remove `{mark}`",
        )

    def _gathers(self, s: For) -> bool:
        """Whether a loop stores at loaded positions; only the kernel's author knows whether they are independent."""
        lets = {t.name: t.value for t in statements(s.body) if isinstance(t, Let)}

        def loaded(e: Expr) -> bool:
            """Whether the expression contains a load, or the name of one."""
            if isinstance(e, Local) and e.name in lets:
                return loaded(lets[e.name])
            return isinstance(e, Load) or any(map(loaded, children(e)))

        return any(isinstance(t, Store) and any(map(loaded, t.index)) for t in statements(s.body))

    def accumulate(self, s: Accumulate) -> None:
        """Check that values and accumulators fit the reduction."""
        _require(s.op in REDUCTIONS, f"unknown reduction {s.op}")
        count = REDUCTIONS[s.op]
        fits = len(s.accumulators) == len(s.values) == count
        _require(fits, f"{s.op} must have {count} accumulators and {count} values")
        types = [self.value(v) for v in s.values]
        for a, t in zip(s.accumulators, types, strict=True):
            _require(
                a in self.buffers and a in self.depth, f"an accumulator must be allocated in an outer scope; got {a}"
            )
            b = self.buffers[a]
            _require(
                b.shape == () and b.dtype is t,
                f"the accumulator must have type {t.short}[]; got {b.dtype.short}[{', '.join(map(str, b.shape))}] {a}",
            )
            _require(self.folded[a] == 1, f"an accumulator must have one Accumulate; {a} has {self.folded[a]}")
            around = len(self.loops) - self.depth[a]
            _require(around >= 1, f"a loop must separate the Alloc and the Accumulate of {a}")
            _require(
                around == 1 or in_any_order(s.op, b.dtype),
                f"{s.op} must be directly in the one loop of its accumulator; {a} has {around} loops",
            )
        if count == 2:
            _require(types[1] is int64, f"the index of {s.op} must have dtype int64; got {types[1].short}")

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
                _require(e.name in self.extents, f"an index must belong to an enclosing loop; got {e.name}")
            case Local():
                _require(e.name in self.locals, f"a name must be defined before its use; got {e.name}")
                _require(
                    self.locals[e.name].dtype is e.dtype,
                    f"{e.name} must have dtype {self.locals[e.name].dtype.short}; got {e.dtype.short}",
                )
            case Load():
                self.access(e.buffer, e.index, e.dtype)
                if e.buffer in self.folded:
                    inside = len(self.loops) > self.depth.get(e.buffer, 0) and any(
                        isinstance(s, Accumulate) and e.buffer in s.accumulators
                        for s in statements(self.loops[self.depth[e.buffer]].body)
                    )
                    _require(not inside, f"accumulator {e.buffer} must be loaded after its loop")
            case Apply():
                _require(e.op in OPERATIONS, f"unknown operation {e.op}")
                self.operation(e, [self.value(a) for a in e.args])
            case Extent():
                pass
            case _:
                pass

    def access(self, buffer: str, index: Sequence[Expr], dtype: DType) -> None:
        """Check that an access names a known buffer, with its rank and dtype."""
        _require(buffer in self.buffers, f"unknown buffer {buffer}")
        b = self.buffers[buffer]
        _require(len(index) == len(b.shape), f"{buffer} must have {len(b.shape)} indices; got {len(index)}")
        _require(b.dtype is dtype, f"elements of {buffer} must be {b.dtype.short}; got {dtype.short}")
        for i in index:
            _require(self.value(i) is int64, f"indices must be int64; got {show_expression(i)}: {i.dtype.short}")

    def operation(self, e: Apply, types: Sequence[DType]) -> None:
        """Check the operand count and dtypes of an operation."""
        count, kind = OPERATIONS[e.op]
        shown = f"{e.op}({', '.join(t.short for t in types)}) -> {e.dtype.short}"
        _require(len(types) == count, f"{e.op} must have {count} operands; got {shown}")
        first = types[0]
        same = all(t is first for t in types)
        fits = {
            "same": same and e.dtype is first and not first.is_storage,
            "compare": same and e.dtype is bool_ and not first.is_storage,
            "logic": same and e.dtype is first and first in BITWISE,
            "shift": same and e.dtype is first and first.is_integer,
            "select": first is bool_ and all(t is e.dtype for t in types[1:]),
            "cast": e.op == "cast" or first.bits == e.dtype.bits,
            "test": first.is_inexact and e.dtype is bool_,
            "pair": same and e.dtype.component is first,
            "part": e.dtype is first.component,
        }
        _require(fits[kind], f"operand dtypes of {e.op} do not match; got {shown}")
