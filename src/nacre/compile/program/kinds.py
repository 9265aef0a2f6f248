"""Kinds of eager operations: an operation that was compiled for two sizes of its operands serves every size.

The key of an operation has its name or primitive, the types of its operands, and its parameters.  In a kind, the sizes
of at least two are left out.  The first sizes of a kind have an exact program.  The second ones make a program for
symbols: sizes that were equal in all calls share one.  Sizes that the symbols do not fit are compiled exactly.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from nacre.base.arguments import PLAIN
from nacre.base.dims import Dim, Size, evaluate, noted_needs, product
from nacre.base.errors import Error
from nacre.base.locks import Turns
from nacre.base.records import dataclass, written_function
from nacre.base.size_pattern import LEAST, SizePattern
from nacre.base.state import STATE
from nacre.base.types import TensorType, row_major
from nacre.compile.extensions import generation
from nacre.compile.program.cache import program
from nacre.compile.program.sized import OFTEN, Numbers, SizedProgram, counted, view_function
from nacre.interpret.pullback import NoRule, Positions, Rule
from nacre.interpret.tape import active_operands, recorded, rule_of_call
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.trace.value import Payload, Value

SIZES: Final = frozenset(("shape", "size", "length", "low", "high"))  # the parameters that consist of sizes
MOST: Final = 4096  # kinds
UNKNOWN: Final = object()  # a kind that no call belongs to
REFINED: Final = 8  # programs of one kind, each for fewer equal sizes than the one before

Params = Mapping[str, Any]


Strides = tuple["tuple[Size, ...] | None", ...]  # of operands; None for a dense one


@dataclass(frozen=True)
class Written:
    """An operation for symbolic sizes: its graph, or the view that it is, and the rules by which it is recorded."""

    made: Graph | Value
    rule: Callable[[Positions], Rule | None]


# (the operands' types, the parameters, the strides of views) -> the operation, or None if it is not one program
Writer = Callable[[Sequence[TensorType], Params, Strides | None], Written | None]


class SizeSymbols:
    """The sizes of a kind in a program: a symbol for each group of them, or the number that all had.

    `least` are the least numbers of the symbols; a group without one has a number.
    """

    def __init__(self, pattern: SizePattern, least: Mapping[int, int]) -> None:
        self.groups, self.least = pattern.groups, least
        self.count = max(self.groups) + 1
        known = [pattern.first[self.groups.index(g)] for g in range(self.count)]
        self.fixed = {g: known[g] for g in range(self.count) if g not in least}
        self.numbers = self.reader()

    def reader(self) -> Callable[[tuple[int, ...]], Numbers | None]:
        """A function of sizes for the numbers of all groups; it returns None if the sizes do not fit."""
        tests: list[str] = []
        for k, g in enumerate(self.groups):
            at = self.groups.index(g)
            if at < k:
                tests.append(f"m{k} != m{at}")
            elif g in self.fixed:
                tests.append(f"m{k} != {self.fixed[g]}")
            elif self.least[g] > LEAST:
                tests.append(f"m{k} < {self.least[g]}")
        numbers = "".join([f"m{self.groups.index(g)}, " for g in range(self.count)])
        names = "".join([f"m{k}, " for k in range(len(self.groups))])
        answer = f"return None if {' or '.join(tests) or 'False'} else ({numbers})"
        return written_function("read", ["sizes"], [f"{names}= sizes", answer], {})

    def sizes(self) -> Iterator[Size]:
        """The symbols and numbers, in order of the sizes."""
        fixed = self.fixed
        return iter([fixed[g] if g in fixed else Dim.symbol(f"n{g}", min=self.least[g]) for g in self.groups])


class SizedOperation:
    """An operation for all sizes of a pattern."""

    program: SizedProgram | None = None  # none for a view

    def __init__(
        self, written: Written, symbols: SizeSymbols, strides: Strides | None, equal: Sequence[tuple[Size, Size]] = ()
    ) -> None:
        self.written = written
        self.names = [f"n{g}" for g in range(symbols.count)]
        self.numbers = _consistent(symbols.numbers, self.names, equal) if equal else symbols.numbers
        self.calls: dict[Numbers, int] = {}
        self.rules: dict[Positions, Rule | NoRule | None] = {}
        made = written.made
        if isinstance(made, Value):
            self.run = view_function(made, self.names, strides is not None)
            return
        types = made.input_types
        layouts = [s or row_major(t.shape) for s, t in zip(strides or [None] * len(types), types, strict=True)]
        self.program = SizedProgram(program(made, layouts), self.names, strides is not None)  # type: ignore[arg-type]
        self.run = self.program.run

    def rule(self, active: Positions, numbers: Numbers) -> Rule | None:
        """How it is recorded for given sizes where these operands have nodes.

        Raises NoRule if its derivative has no form for symbolic sizes.
        """
        if active not in self.rules:
            try:
                self.rules[active] = self.written.rule(active)
            except Error as fault:
                self.rules[active] = NoRule(str(fault))
        found = self.rules[active]
        if isinstance(found, NoRule):
            raise found
        return None if found is None else found.at(dict(zip(self.names, numbers, strict=True)))

    def is_often(self, numbers: Numbers) -> bool:
        """Count a call; whether there were several with these sizes."""
        return counted(self.calls, numbers) > OFTEN

    def serve(self, inputs: Sequence[Value], numbers: Numbers, nodes: bool) -> Value | None:
        """The only result for plain operands, with a node if operands have nodes, which `nodes` says.

        None where the sizes come often, or the program takes long.
        """
        if self.run is None or self.calls.get(numbers, 0) >= OFTEN:
            return None
        rule: Rule | None = None
        if nodes and (active := active_operands(inputs, 0)):
            try:
                rule = self.rule(active, numbers)
            except NoRule:
                return None
        found = self.run(*numbers, inputs)
        if found is None:
            return None
        counted(self.calls, numbers)
        return found[0] if rule is None else recorded(rule, inputs, found[0])

    def __call__(self, inputs: Sequence[Value], numbers: Numbers) -> Value:
        """The same for a program that may take long; raises NoRule."""
        assert self.program is not None
        rule = rule_of_call(inputs, lambda active: self.rule(active, numbers))
        (y,) = self.program.once(inputs, numbers)
        return y if rule is None else recorded(rule, inputs, y)


def _consistent(
    numbers: Callable[[tuple[int, ...]], Numbers | None], names: Sequence[str], equal: Sequence[tuple[Size, Size]]
) -> Callable[[tuple[int, ...]], Numbers | None]:
    """The same, but None where sizes that operands and parameters share differ: such a call is an error."""
    known: dict[Numbers, bool] = {}

    def read(sizes: tuple[int, ...]) -> Numbers | None:
        """The numbers of all groups."""
        found = numbers(sizes)
        if found is None:
            return None
        if found not in known:
            if len(known) >= MOST:
                known.clear()
            of = dict(zip(names, found, strict=True))
            known[found] = all([evaluate(a, of) == evaluate(b, of) for a, b in equal])
        return found if known[found] else None

    return read


class OperationKind:
    """The calls of one kind so far, and the operation for all sizes, if there is one."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.pattern = SizePattern.of(sizes)
        self.operation: SizedOperation | None = None
        self.made = 0
        self.refused = not sizes  # there is one size alone


class Kinds:
    """The kinds of operations that were called."""

    def __init__(self) -> None:
        self.known: dict[object, OperationKind] = {}
        self.turns = Turns()  # one thread makes an operation that several need at the same time

    def forget(self) -> None:
        """Drop all kinds."""
        self.turns.clear(self.known)

    def served(self, key: Sequence[object], inputs: Sequence[Value]) -> Value | None:
        """The answer of an operation that is known for all sizes; None where it does not serve the call.

        The call is one outside of interpreters, in the exact mode.
        """
        nodes = views = False
        for x in inputs:
            if isinstance(x.content, Payload):
                return None
            views = views or x.layout is not None
            nodes = nodes or x.node is not None
        named, sizes = kind_of(key, strides_of(inputs) if views else None)
        kind = self.known.get(named)
        if kind is None or kind.operation is None or sizes == kind.pattern.first:
            return None
        numbers = kind.operation.numbers(sizes)
        return None if numbers is None else kind.operation.serve(inputs, numbers, nodes and STATE.gradients)

    def find(
        self, key: Sequence[object], write: Writer, strides: Strides | None = None
    ) -> tuple[SizedOperation, Numbers] | None:
        """The operation for all sizes that serves the call of a key, and the numbers of its symbols.

        None where the call is to be compiled for its own sizes.  `strides` are those of operands that are views.
        """
        named, sizes = kind_of(key, strides)
        kind = self.known.get(named)
        if kind is None:
            if named is not UNKNOWN and all([part.static for part in key if type(part) is TensorType]):
                if len(self.known) >= MOST:
                    self.known.clear()
                self.known[named] = OperationKind(sizes)
            return None
        if kind.refused or sizes == kind.pattern.first:
            return None
        numbers = None if kind.operation is None else kind.operation.numbers(sizes)
        if numbers is None and kind.made < REFINED:
            self.turns.take(named, lambda: self.refine(kind, sizes, key, write, strides))
            numbers = None if kind.operation is None else kind.operation.numbers(sizes)
        return None if kind.operation is None or numbers is None else (kind.operation, numbers)

    def refine(
        self, kind: OperationKind, sizes: tuple[int, ...], key: Sequence[object], write: Writer, strides: Strides | None
    ) -> None:
        """Make an operation that serves these sizes, too, unless another thread has made it."""
        if kind.refused or (kind.operation is not None and kind.operation.numbers(sizes) is not None):
            return
        pattern, began = kind.pattern.joined(sizes), generation()
        kind.made += 1
        for symbols in _choices(pattern, sizes):
            made = _made(key, strides, symbols, write)
            if made is not None and began == generation():
                kind.pattern, kind.operation = pattern, made
                return
        kind.refused = kind.refused or kind.operation is None


def _choices(pattern: SizePattern, sizes: tuple[int, ...]) -> Iterator[SizeSymbols]:
    """Symbols to try: for all sizes; for those that have changed; the same, for no smaller ones."""
    every = dict.fromkeys(pattern.groups, LEAST)
    yield SizeSymbols(pattern, every)
    changed = {pattern.groups[k] for k in pattern.varied}
    if len(changed) < len(every):
        yield SizeSymbols(pattern, dict.fromkeys(changed, LEAST))
    least = {pattern.groups[k]: min(sizes[k], pattern.first[k]) for k in pattern.varied}
    yield SizeSymbols(pattern, least)


def _made(key: Sequence[object], strides: Strides | None, symbols: SizeSymbols, write: Writer) -> SizedOperation | None:
    """An operation with symbols; None if it has no form for them, or the exact one raises an error, too."""
    try:
        with noted_needs() as needs:
            types, params, layouts, equal = _symbolic(key, strides, symbols.sizes())
            written = write(types, params, layouts)
            made = None if written is None else SizedOperation(written, symbols, layouts, equal)
    except (Error, ArithmeticError, LookupError, TypeError, ValueError):  # of rules that need numbers
        return None
    return None if needs else made


def kind_of(key: Sequence[Any], strides: Strides | None = None) -> tuple[object, tuple[int, ...]]:
    """The kind of a call, and the sizes that it leaves out; UNKNOWN where a size is no plain number."""
    parts: list[object] = [STATE.numerics]
    sizes: tuple[int, ...] = ()
    each: tuple[Any, ...]
    primitive = key[0] if isinstance(key[0], Primitive) else None
    free = None if primitive is None else primitive.free_sizes
    for part in key:
        if type(part) is TensorType:
            if free is None:
                parts.append(part.kind)
                sizes += part.sizes
            else:
                parts.append((part.dtype, len(part.shape)))
        elif not _is_parameter(part) or (part[0] not in SIZES if free is None else part[0] not in free.names):
            parts.append(part)
        elif free is None:
            name, value = part
            each = value if type(value) is tuple else (value,)
            if not PLAIN.issuperset(map(type, each)) or min(each, default=0) < 0:
                return UNKNOWN, ()
            parts.append((name, tuple([n if n < LEAST else -1 for n in each])))
            sizes += tuple([n for n in each if n >= LEAST])
    if free is not None:
        each = free.of(*_types_and_parameters(key))
        if not PLAIN.issuperset(map(type, each)) or min(each, default=0) < 0:
            return UNKNOWN, ()
        parts.append(tuple([n if n < LEAST else -1 for n in each]))
        sizes = tuple([n for n in each if n >= LEAST])
    if primitive is not None and primitive.numbers is not None:
        parts.append(primitive.numbers(*_types_and_parameters(key)))
    for layout in strides or ():
        parts.append(_marks(layout))
        sizes += tuple([abs(n) for n in layout or () if abs(n) >= LEAST])  # type: ignore[arg-type]
    return tuple(parts), sizes


def strides_of(inputs: Sequence[Value]) -> Strides:
    """The strides of operands, some of which are views."""
    return tuple([x.layout and x.layout.strides for x in inputs])


def _marks(layout: tuple[Any, ...] | None) -> tuple[object, ...] | None:
    """What a kind has of strides: those that are 0, 1 or -1, and the signs of the others."""
    return None if layout is None else tuple([n if abs(n) < LEAST else "+" if n > 0 else "-" for n in layout])


def _symbolic(
    key: Sequence[object], strides: Strides | None, symbols: Iterator[Size]
) -> tuple[list[TensorType], dict[str, Any], Strides | None, list[tuple[Size, Size]]]:
    """The types and parameters of a key, and strides, with symbols for sizes; and sizes that are equal in a call."""

    def free(n: Any) -> Any:
        """A symbol for a size, unless that belongs to the kind."""
        return next(symbols) if type(n) is int and n >= LEAST else n

    def signed(n: Any) -> Any:
        """The same for a stride, which may be negative."""
        return -free(-n) if n < 0 else free(n)

    primitive = key[0] if isinstance(key[0], Primitive) else None
    types, params = _types_and_parameters(key)
    equal: list[tuple[Size, Size]] = []
    if primitive is not None and primitive.free_sizes is not None:
        types, sized = primitive.free_sizes.made(
            types, params, tuple(map(free, primitive.free_sizes.of(types, params)))
        )
        params |= sized
    else:
        types = [t.with_shape([free(n) for n in t.shape]) for t in types]
        for name in [name for name in params if name in SIZES]:
            value = params[name]
            params[name] = free(value) if type(value) is int else tuple([free(n) for n in value])
    if primitive is not None and primitive.keeps_order and "shape" in params:
        own, params["shape"] = params["shape"], _with_elements(types[0], params["shape"])
        equal += [(a, b) for a, b in zip(own, params["shape"], strict=True) if a is not b]
    if primitive is not None and primitive.fitted is not None:
        given, types = types, list(primitive.fitted(types, params))
        for own, fitted in zip(given, types, strict=True):
            equal += [(a, b) for a, b in zip(own.shape, fitted.shape, strict=True) if a is not b]
    return types, params, strides and tuple([each and tuple(map(signed, each)) for each in strides]), equal


def _types_and_parameters(key: Sequence[Any]) -> tuple[list[TensorType], dict[str, Any]]:
    """The operands' types in a key, and the parameters by name."""
    return [part for part in key if type(part) is TensorType], dict([part for part in key if _is_parameter(part)])


def _is_parameter(part: Any) -> bool:
    """Whether a part of a key is a parameter, a name and a value; parts of public functions may be other tuples."""
    return type(part) is tuple and len(part) == 2 and type(part[0]) is str


def _with_elements(type: TensorType, shape: Sequence[Size]) -> tuple[Size, ...]:
    """A shape in which the only symbol that the type does not have is the one that gives it the type's elements.

    So a reshape has a form for all sizes although its parameter is a product of them.
    """
    own = {s for n in type.shape if isinstance(n, Dim) for s in n.symbols()}
    free = [k for k, n in enumerate(shape) if isinstance(n, Dim) and not n.symbols() <= own]
    if len(free) != 1:
        return tuple(shape)
    (at,) = free
    rest = product([n for k, n in enumerate(shape) if k != at])
    return tuple([type.size // rest if k == at else n for k, n in enumerate(shape)])
