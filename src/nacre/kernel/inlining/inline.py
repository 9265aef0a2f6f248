"""Pointwise code inlined into a kernel: inputs are computed where they are read, and results made of stored values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from nacre.base.records import dataclass
from nacre.kernel.affine import names
from nacre.kernel.ast import (
    Alloc,
    Apply,
    Expr,
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
    expressions,
    statements,
)
from nacre.kernel.dependence import loads
from nacre.kernel.rewrite import map_body, map_expression

Fresh = Callable[[str], str]


@dataclass(frozen=True)
class ElementCode:
    """The straight-line code of a pointwise kernel for one index, and the value of each of its outputs."""

    indices: tuple[str, ...]
    lets: tuple[Let, ...]
    values: Mapping[str, Expr]

    @staticmethod
    def of(kernel: Kernel) -> ElementCode | None:
        """The code of a kernel; None unless it is a nest around straight-line code that stores each output once."""
        body, indices = kernel.body, list[str]()
        while len(body) == 1 and isinstance(body[0], For):
            indices.append(body[0].index)
            body = body[0].body
        lets = tuple(s for s in body if isinstance(s, Let))
        stores = [s for s in body if isinstance(s, Store)]
        own = tuple(map(Index, indices))
        once = len({s.buffer for s in stores}) == len(stores) == len(kernel.outputs)
        if len(lets) + len(stores) < len(body) or not once or any(s.index != own for s in stores):
            return None
        return ElementCode(tuple(indices), lets, {s.buffer: s.value for s in stores})

    def needed(self, outputs: Set[str]) -> tuple[Let, ...]:
        """The names on which the values of some outputs depend."""
        wanted: set[str] = set()
        remembered: dict[int, frozenset[str]] = {}
        for output in outputs:
            wanted |= names(self.values[output], remembered)
        kept: list[Let] = []
        for s in reversed(self.lets):
            if s.name in wanted:
                kept.insert(0, s)
                wanted |= names(s.value, remembered)
        return tuple(kept)

    def reads_own(self, buffer: str) -> bool:
        """Whether the code loads a buffer at its own index only."""
        own = tuple(map(Index, self.indices))
        stores = [Store(output, own, value) for output, value in self.values.items()]
        return all(e.index == own for e in loads((*self.lets, *stores)) if e.buffer == buffer)

    def with_buffers(self, new: Mapping[str, str]) -> ElementCode:
        """The code with other names for some of its inputs and outputs."""

        def load(e: Expr) -> Expr:
            """A load under the new name of its buffer."""
            return replace(e, buffer=new.get(e.buffer, e.buffer)) if isinstance(e, Load) else e

        lets = tuple(Let(s.name, map_expression(s.value, load)) for s in self.lets)
        values = {new.get(name, name): map_expression(value, load) for name, value in self.values.items()}
        return ElementCode(self.indices, lets, values)

    def at(
        self, index: Sequence[Expr], outputs: Set[str], given: Mapping[str, Expr], fresh: Fresh
    ) -> tuple[list[Let], dict[str, Expr]]:
        """The code of some outputs at an index, with values for loads of some inputs, under new names."""
        place = dict(zip(self.indices, index, strict=True))
        known: dict[str, Expr] = {}

        def visit(e: Expr) -> Expr:
            """A part of the code at the index."""
            match e:
                case Index():
                    return place.get(e.name, e)
                case Local():
                    return known[e.name]
                case Load():
                    return given.get(e.buffer, e)
                case _:
                    return e

        lets: list[Let] = []
        for s in self.needed(outputs):
            lets.append(Let(fresh(s.name), map_expression(s.value, visit)))
            known[s.name] = Local(lets[-1].name, s.value.dtype)
        return lets, {output: map_expression(self.values[output], visit) for output in sorted(outputs)}


class FreshNames:
    """New names for a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.taken = {b.name for b in kernel.buffers}
        for s in statements(kernel.body):
            match s:
                case Let():
                    self.taken.add(s.name)
                case Alloc():
                    self.taken.add(s.buffer.name)
                case For():
                    self.taken.add(s.index)
                case _:
                    pass

    def __call__(self, stem: str) -> str:
        """A name that begins with a stem."""
        name, count = stem, 1
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name


# ---- before


def computed_where_read(kernel: Kernel, code: ElementCode, made: Mapping[str, str], fresh: Fresh) -> Kernel:
    """The kernel that computes some of its inputs where it reads them: `made` has the output of the code for each.

    The inputs of the code must be the kernel's, too.  No condition of a `while` reads a computed input.
    """
    body = _Before(code, made, fresh).block(kernel.body, {})
    return replace(kernel, inputs=tuple(b for b in kernel.inputs if b.name not in made), body=body)


@dataclass(frozen=True)
class _Before:
    code: ElementCode
    made: Mapping[str, str]
    fresh: Fresh

    def block(self, body: Sequence[Stmt], known: Mapping[Load, Expr]) -> tuple[Stmt, ...]:
        """A block, in which the values of some loads have names."""
        known, found = dict(known), list[Stmt]()

        def visit(e: Expr) -> Expr:
            """A part of an expression; the code of a computed element comes before the statement."""
            if not isinstance(e, Load) or e.buffer not in self.made:
                return e
            if e not in known:
                output = self.made[e.buffer]
                lets, values = self.code.at(e.index, {output}, {}, self.fresh)
                found.extend(lets)
                value = values[output]
                if isinstance(value, Apply | Load):
                    let = Let(self.fresh(e.buffer), value)
                    found.append(let)
                    value = Local(let.name, e.dtype)
                known[e] = value
            return known[e]

        for s in body:
            own = map_body((_hollow(s),), visit)[0] if expressions(s) else s
            match s:
                case For() | While():
                    own = replace(s, body=self.block(s.body, known))
                case If():
                    assert isinstance(own, If)
                    own = replace(own, body=self.block(s.body, known), orelse=self.block(s.orelse, known))
                case _:
                    pass
            found.append(own)
        return tuple(found)


def _hollow(s: Stmt) -> Stmt:
    """A statement without those inside of it."""
    match s:
        case If():
            return If(s.condition, ())
        case While():
            return While(s.condition, ())
        case _:
            return s


# ---- behind


def computed_where_stored(
    kernel: Kernel, code: ElementCode, sources: Mapping[str, str], kept: Set[str], fresh: Fresh
) -> tuple[Stmt, ...]:
    """The body that stores the code's outputs where it stores outputs of its own, from which they are computed.

    `sources` has the output for each input of the code that is one.  Each is stored once, and all of one index in one
    block.  Those that are not in `kept` are not stored any more.
    """
    return _Behind(code, sources, kept, fresh).block(kernel.body)


@dataclass(frozen=True)
class _Behind:
    code: ElementCode
    sources: Mapping[str, str]
    kept: Set[str]
    fresh: Fresh

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """A block, with the code behind the last store of a source."""
        found: list[Stmt] = []
        values: dict[str, Expr] = {}
        for s in body:
            match s:
                case Store() if s.buffer in self.sources.values():
                    value = s.value
                    if isinstance(value, Apply | Load):
                        let = Let(self.fresh(f"{s.buffer}_value"), value)
                        found.append(let)
                        value = Local(let.name, value.dtype)
                    values[s.buffer] = value
                    if s.buffer in self.kept:
                        found.append(replace(s, value=value))
                    if len(values) == len(set(self.sources.values())):
                        found += self.stores(s.index, values)
                case For() | While():
                    found.append(replace(s, body=self.block(s.body)))
                case If():
                    found.append(replace(s, body=self.block(s.body), orelse=self.block(s.orelse)))
                case _:
                    found.append(s)
        return tuple(found)

    def stores(self, index: tuple[Expr, ...], values: Mapping[str, Expr]) -> list[Stmt]:
        """The code at an index, and the stores of its outputs."""
        given = {name: values[source] for name, source in self.sources.items()}
        lets, made = self.code.at(index, self.code.values.keys(), given, self.fresh)
        return [*lets, *(Store(output, index, value) for output, value in made.items())]
