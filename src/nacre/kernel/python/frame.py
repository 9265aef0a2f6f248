"""The state of a translation: the statements so far, the types of locals, and the functions that are translated."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.kernel.ast import OPERATIONS, Alloc, Buffer, Const, Expr, Extent, Index, Let, Load, Local, Stmt, Store
from nacre.kernel.python.reached import SizeCheck, is_of_sizes
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import WEAK_INT, Scalar, ScalarType, Value, joined

WORDS = "let alloc for parallel vector if while else accumulate pass size true false inf nan where kernel strides"
TAKEN = frozenset((*OPERATIONS, *WORDS.split()))  # words of kernel IR


# (a function of a library, numbers, a source of new names, the call) -> names and a value; None for other functions
Library = Callable[[object, Sequence[Scalar], Callable[[str], str], ast.AST], tuple[Sequence[Let], Scalar] | None]


@dataclass(frozen=True)
class FunctionSource:
    """A function that a kernel consists of: its tree, and the function, which has its globals and its closure."""

    node: ast.FunctionDef
    function: Any
    file: str  # without its folder
    used: Mapping[str, ast.Name | ast.Attribute]  # names that it does not assign, with attributes of them
    objects: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what these names have

    def parameters(self) -> tuple[list[str], list[str], dict[str, Any]]:
        """The parameters that have places, those that have only names, and the defaults."""
        a = self.node.args
        places, by_name = [p.arg for p in (*a.posonlyargs, *a.args)], [p.arg for p in a.kwonlyargs]
        given = self.function.__defaults__ or ()
        defaults = dict(zip(places[len(places) - len(given) :], given, strict=True))
        return places, by_name, defaults | (self.function.__kwdefaults__ or {})

    def object(self, node: ast.Name) -> Any:
        """The object that a name of the function's module, of its closure or of Python has."""
        return self.objects[node.id] if node.id in self.objects else self.current(node)

    def current(self, node: ast.expr) -> Any:
        """The object that a name, or an attribute of one, has now.  Raises Refused or AttributeError if it has none."""
        if isinstance(node, ast.Attribute):
            return getattr(self.current(node.value), node.attr)
        assert isinstance(node, ast.Name)
        code = self.function.__code__
        if node.id in code.co_freevars:
            cell: Any = self.function.__closure__[code.co_freevars.index(node.id)]
            try:
                return cell.cell_contents
            except ValueError:
                raise Refused(node, "a name must have a value", "assign it before the kernel runs") from None
        for names in (self.function.__globals__, vars(builtins)):
            if node.id in names:
                return names[node.id]
        raise Refused(node, "a name must be a parameter, a local, or one of the module", "define it, or correct it")


@dataclass
class CallFrame:
    """A function in translation: what its names have at this position."""

    key: tuple[int, ...]  # of the call that it is inlined at; () is the kernel itself
    definition: FunctionSource
    env: dict[str, Value]
    homes: dict[str, ast.stmt | None] = field(default_factory=dict[str, "ast.stmt | None"])  # of locals
    memory: dict[str, str] = field(default_factory=dict[str, str])  # the scratch of locals in scope
    loops: list[ast.stmt] = field(default_factory=list[ast.stmt])


@dataclass
class KernelWriter:
    """The statements that are written, with the constructs that they come from."""

    definitions: Callable[[object], FunctionSource | None]  # of functions that a kernel calls
    library: Library
    outputs: frozenset[str]
    frame: CallFrame
    name: str  # of the kernel
    types: dict[tuple[object, ...], ScalarType] = field(default_factory=dict[tuple[object, ...], ScalarType])
    early: dict[tuple[object, ...], frozenset[int]] = field(default_factory=dict[tuple[object, ...], frozenset[int]])
    changed: bool = False  # whether a type of a local changed in this pass
    names: dict[str, int] = field(default_factory=dict[str, int])
    body: list[Stmt] = field(default_factory=list[Stmt])
    # the conditions on sizes where a call runs the statements that are written now; None if data decides it, too
    reached: tuple[Expr, ...] | None = ()
    checks: list[SizeCheck] = field(default_factory=list[SizeCheck])
    origins: dict[int, tuple[Stmt, ast.AST]] = field(default_factory=dict[int, tuple[Stmt, ast.AST]])

    def fresh(self, stem: str) -> str:
        """A new name that begins with a stem."""
        stem = f"{stem}_" if stem in TAKEN else stem
        count = self.names[stem] = self.names.get(stem, 0) + 1
        return stem if count == 1 else self.fresh(f"{stem}_{count}")

    def emit(self, s: Stmt, node: ast.AST) -> None:
        """Append a statement."""
        self.body.append(s)
        self.origins[id(s)] = s, node

    def let(self, e: Expr, stem: str, node: ast.AST) -> Expr:
        """A name for an expression, unless it is one already, or a constant."""
        if isinstance(e, Const | Index | Extent | Local):
            return e
        name = self.fresh(stem)
        self.emit(Let(name, e), node)
        return Local(name, e.dtype)

    @contextmanager
    def block(self, runs: Expr | bool = False) -> Generator[list[Stmt]]:
        """Inside, statements are appended to a new block, and assignments are forgotten at the end.

        `runs` says that the block runs at least once if the statements around it do, perhaps under a condition.
        """
        outer, env, memory = self.body, dict(self.frame.env), dict(self.frame.memory)
        frame, reached = self.frame, self.reached
        if runs is False or reached is None or not (runs is True or is_of_sizes(runs)):
            inside = None
        else:
            inside = reached if runs is True else (*reached, runs)
        self.body, self.reached = [], inside
        try:
            yield self.body
        finally:
            self.body, self.reached = outer, reached
            frame.env, frame.memory = env, memory

    def scratch(self, stem: str, dtype: DType, node: ast.AST, value: Expr | None = None) -> str:
        """A new scalar in scratch, perhaps with a value."""
        name = self.fresh(stem)
        self.emit(Alloc(Buffer(name, dtype, ())), node)
        if value is not None:
            self.emit(Store(name, (), value), node)
        return name

    # ---- locals

    def type_of(self, name: str) -> ScalarType | None:
        """The type of a local of the frame, as far as it is known."""
        return self.types.get((self.frame.key, name))

    def takes(self, name: str, value: Scalar, node: ast.AST) -> ScalarType:
        """The type of a local after it gets a value."""
        known, place = self.type_of(name), (self.frame.key, name)
        found = value.type if known is None else joined(known, value.type, name, node)
        if found != known:
            self.types[place] = found
            self.changed = True
        before = self.early.get(place, frozenset())
        if value.type == WEAK_INT and isinstance(value.value, int) and value.value not in before:
            self.early[place] = before | {value.value}
            self.changed = True
        return found

    def declare(self, loop: ast.stmt | None, node: ast.AST) -> None:
        """Declare the locals whose home is a loop, or the function, and whose type is known."""
        for name, home in self.frame.homes.items():
            type = self.type_of(name)
            if home is loop and type is not None:
                self.frame.memory[name] = self.scratch(name, type.dtype, node)

    def forget(self, names: Iterable[str]) -> None:
        """Forget the values of locals that a branch or a loop may have changed."""
        for name in names:
            if isinstance(self.frame.env.get(name), Scalar):
                del self.frame.env[name]

    def read(self, name: str, node: ast.AST, direct: bool = False) -> Scalar | None:
        """The value of a local that has scratch; None without any.  A direct one is the element itself."""
        type, memory = self.type_of(name), self.frame.memory.get(name)
        if type is None or memory is None:
            return None
        e = Load(memory, (), type.dtype)
        if direct:
            return Scalar(e, type)
        early = frozenset[int]() if type.weak else self.early.get((self.frame.key, name), frozenset())
        found = self.frame.env[name] = Scalar(self.let(e, name, node), type, early=early)
        return found
