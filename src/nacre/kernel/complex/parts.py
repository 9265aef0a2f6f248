"""Complex numbers in kernels as pairs of real ones: buffers get an axis of two, expressions become two expressions.

A kernel is written with complex buffers and operations, and code is generated for the kernel made from it here, which
has only real ones.  An element in memory is the real part, then the imaginary part.  Accumulators and scratch numbers
become two.  Both parts of an element are computed before either is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from nacre.base.dtypes import DType
from nacre.base.errors import CompileError
from nacre.base.identity_cache import cached_by_identity
from nacre.base.lazy import LateModule
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    apply,
    cast,
    const,
    expressions,
    statements,
)
from nacre.kernel.complex.pairs import LetBlock, Pair
from nacre.kernel.rewrite import map_expression

if TYPE_CHECKING:
    from nacre.kernel.complex import functions
else:
    functions = LateModule("nacre.kernel.complex.functions")  # few programs have complex numbers

PARTS = ("re", "im")


@cached_by_identity
def in_parts(kernel: Kernel) -> Kernel:
    """The kernel over real buffers only; itself if it has no complex numbers."""
    if not has_complex(kernel):
        return kernel
    return _Parts(kernel).kernel()


def has_complex(kernel: Kernel) -> bool:
    """Whether any buffer or operation of the kernel is complex."""
    buffers = [*kernel.buffers, *(s.buffer for s in statements(kernel.body) if isinstance(s, Alloc))]
    if any(b.dtype.is_complex for b in buffers):
        return True
    todo = [e for s in statements(kernel.body) for e in expressions(s)]
    seen: set[int] = set()
    while todo:
        e = todo.pop()
        if e.dtype.is_complex:
            return True
        if isinstance(e, Apply) and id(e) not in seen:
            seen.add(id(e))
            todo += e.args
    return False


def _names(kernel: Kernel) -> Iterator[str]:
    """Names that the kernel does not use."""
    taken = {b.name for b in kernel.buffers}
    for s in statements(kernel.body):
        match s:
            case Let() | For():
                taken.add(s.name if isinstance(s, Let) else s.index)
            case Alloc():
                taken.add(s.buffer.name)
            case _:
                pass
    return (name for n in count() if (name := f"p{n}") not in taken)


def _inlined(e: Expr, lets: Sequence[Let]) -> Expr:
    """An expression with the values of names in their places."""
    values: dict[str, Expr] = {}

    def visit(x: Expr) -> Expr:
        """The value of a name."""
        return values.get(x.name, x) if isinstance(x, Local) else x

    for s in lets:
        values[s.name] = map_expression(s.value, visit)
    return map_expression(e, visit)


class _Parts:
    """Rewrites one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.whole = kernel
        self.names = _names(kernel)
        self.locals: dict[str, Pair] = {}
        self.scalars: dict[str, tuple[str, str]] = {}  # scratch of one complex number, by the names of its two
        self.steps = LetBlock(self.names)
        self.known: dict[int, tuple[Expr, Pair | Expr]] = {}

    def kernel(self) -> Kernel:
        """The kernel in parts."""
        inputs, outputs = (tuple(map(_buffer, each)) for each in (self.whole.inputs, self.whole.outputs))
        return Kernel(self.whole.name, inputs, outputs, self.block(self.whole.body))

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A block in parts; values that are used several times are bound in front of the statement that uses them."""
        outer = self.steps, self.known
        made: list[Stmt] = []
        for s in body:
            steps = self.steps = LetBlock(self.names)
            self.known = {}
            found = self.statement(s)
            made += steps.statements
            made += found
        self.steps, self.known = outer
        return tuple(made)

    def statement(self, s: Stmt) -> list[Stmt]:
        """A statement in parts; the steps before it are in `steps`."""
        match s:
            case For():
                return [replace(s, body=self.block(s.body))]
            case If():
                condition = self.real(s.condition)
                return [replace(s, condition=condition, body=self.block(s.body), orelse=self.block(s.orelse))]
            case While():
                return [replace(s, condition=self.condition(s.condition), body=self.block(s.body))]
            case Alloc():
                return self.alloc(s)
            case Let():
                return self.let(s)
            case Store():
                return self.store(s)
            case Accumulate():
                return self.accumulate(s)

    def alloc(self, s: Alloc) -> list[Stmt]:
        """Scratch: one complex number is two real ones, an array has another axis."""
        b = s.buffer
        if b.dtype.component is None:
            return [s]
        if b.shape:
            return [Alloc(_buffer(b))]
        names = self.scalars[b.name] = (f"{b.name}_re", f"{b.name}_im")
        return [Alloc(Buffer(name, b.dtype.component, ())) for name in names]

    def let(self, s: Let) -> list[Stmt]:
        """A name for each part."""
        value = self.value(s.value)
        if not isinstance(value, Pair):
            return [Let(s.name, value)]
        self.locals[s.name] = Pair(*map(self.steps.let, value))
        return []

    def store(self, s: Store) -> list[Stmt]:
        """Stores of both parts, behind the computation of both."""
        index, value = tuple(map(self.real, s.index)), self.value(s.value)
        if not isinstance(value, Pair):
            return [replace(s, index=index, value=value)]
        parts = [self.steps.let(part) for part in value]
        if s.buffer in self.scalars:
            return [Store(name, (), part) for name, part in zip(self.scalars[s.buffer], parts, strict=True)]
        return [Store(s.buffer, (*index, const(k)), part) for k, part in enumerate(parts)]

    def accumulate(self, s: Accumulate) -> list[Stmt]:
        """A sum of complex numbers is a sum of each part."""
        values = [self.value(v) for v in s.values]
        if not isinstance(values[0], Pair):
            return [replace(s, values=tuple(v for v in values if not isinstance(v, Pair)))]
        names = self.scalars[s.accumulators[0]]
        return [Accumulate(s.op, (name,), (part,)) for name, part in zip(names, values[0], strict=True)]

    # ---- expressions

    def condition(self, e: Expr) -> Expr:
        """The condition of a loop, which is evaluated again and again, without names before the loop."""
        outer, self.steps = self.steps, LetBlock(self.names)
        found = _inlined(self.real(e), self.steps.statements)
        self.steps = outer
        return found

    def real(self, e: Expr) -> Expr:
        """A real expression in parts."""
        found = self.value(e)
        assert not isinstance(found, Pair)
        return found

    def value(self, e: Expr) -> Pair | Expr:
        """An expression in parts: a pair if it is complex."""
        known = self.known.get(id(e))
        if known is None:
            known = self.known[id(e)] = e, self._value(e)
        return known[1]

    def _value(self, e: Expr) -> Pair | Expr:
        match e:
            case Load():
                return self.load(e)
            case Local() if e.dtype.is_complex:
                return self.locals[e.name]
            case Const() if e.dtype.component is not None:
                number = complex(e.value)
                return Pair(*(Const(part, e.dtype.component) for part in (number.real, number.imag)))
            case Apply():
                return self.apply(e, [self.value(a) for a in e.args])
            case _:
                return e

    def load(self, e: Load) -> Pair | Expr:
        """An element, or both parts of one."""
        index = tuple(map(self.real, e.index))
        part = e.dtype.component
        if part is None:
            return replace(e, index=index)
        if e.buffer in self.scalars:
            return Pair(*(Load(name, (), part) for name in self.scalars[e.buffer]))
        return Pair(*(Load(e.buffer, (*index, const(k)), part) for k in range(2)))

    def apply(self, e: Apply, args: list[Pair | Expr]) -> Pair | Expr:
        """An operation on parts."""
        if e.op == "complex":
            return Pair(*args)  # type: ignore[arg-type]
        if e.op == "cast":
            return _converted(args[0], e.dtype)
        if e.op == "select" and e.dtype.is_complex:
            condition, yes, no = args
            held = self.steps.let(condition)  # type: ignore[arg-type]
            return Pair(*(apply("select", held, a, b) for a, b in zip(yes, no, strict=True)))  # type: ignore[arg-type]
        if not any(isinstance(a, Pair) for a in args):
            return replace(e, args=tuple(args))  # type: ignore[arg-type]
        shared = [Pair(*map(self.steps.let, a)) if isinstance(a, Pair) else a for a in args]
        if e.op not in functions.FUNCTIONS:
            raise CompileError(f"kernel: complex numbers have no operation {e.op}; use others, or take their parts")
        return functions.FUNCTIONS[e.op](self.steps, *shared)


def _converted(x: Pair | Expr, dtype: DType) -> Pair | Expr:
    """A number converted to a dtype; only complex numbers have two parts."""
    if dtype.component is None:
        return cast(x, dtype)  # type: ignore[arg-type]
    if isinstance(x, Pair):
        return Pair(*(cast(part, dtype.component) for part in x))
    return Pair(cast(x, dtype.component), Const(0.0, dtype.component))


def _buffer(b: Buffer) -> Buffer:
    """The buffer of both parts of a complex one."""
    if b.dtype.component is None:
        return b
    strides = None if b.strides is None else (*(s * 2 for s in b.strides), 1)
    return Buffer(b.name, b.dtype.component, (*b.shape, 2), strides)
