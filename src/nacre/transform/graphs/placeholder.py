"""Placeholders: inputs of a graph that is written by hand, and the interpreter that records operations on them.

Each result refers to the equation that computes it, and so to all equations that it needs.  A graph is collected from
its outputs; what no graph needs is freed with the last reference to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import numpy as np

from nacre.base.arguments import is_whole, shown
from nacre.base.dims import LIMIT, Dim, Size, Symbol
from nacre.base.dtypes import as_dtype, float32
from nacre.base.errors import ArgumentError, KindError, ShapeError, TraceError, explain
from nacre.base.records import dataclass
from nacre.base.types import TensorType, row_major
from nacre.interpret.called import user_line
from nacre.interpret.evaluate import to_numpy
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var, has_effects
from nacre.ir.primitive import Layout, Primitive
from nacre.ops.shape import broadcast_p
from nacre.trace.bind import register_definition
from nacre.trace.value import PLACEHOLDERS, Payload, Value, layout_of, make, stripped
from nacre.trace.variable import Leaf, Variable, live_variables

__all__ = ["placeholder"]

_numbers = itertools.count(1)


class DefinedValue(Payload):
    """A placeholder, or a result of operations on placeholders."""

    __slots__ = ("__weakref__", "effects", "made", "name", "source", "var")

    def __init__(self, type: TensorType, made: DefinedEquation | None, source: str, name: str = "") -> None:
        self.level, self.interpreter = PLACEHOLDERS, DEFINITION
        self.var = Var(type)
        self.made = made  # None for a placeholder
        self.source, self.name = source, name
        self.effects: list[DefinedEquation] = []  # equations with an effect that read it

    def __str__(self) -> str:
        return f"{self.name or 'a placeholder'} ({self.var.type}, made at {self.source or 'no line of your own'})"


Operand = DefinedValue | Value


@dataclass(frozen=True, eq=False)
class DefinedEquation:
    """An equation on placeholders, on results of others, and on tensors from outside."""

    number: int
    primitive: Primitive
    operands: tuple[Operand, ...]
    params: Mapping[str, Any]
    outputs: tuple[Var, ...]
    source: str

    def read(self) -> Iterator[DefinedValue]:
        """The values that it reads which have no numbers yet."""
        return (x for x in self.operands if isinstance(x, DefinedValue))


class Definition:
    """The interpreter of placeholders.  It computes nothing, and is never active."""

    dynamic = False
    ended = False
    level = PLACEHOLDERS
    name = "a graph that is being defined"

    def __init__(self) -> None:
        self.symbols = set[Symbol]()  # in the sizes of placeholders

    def takes(self, params: Mapping[str, Any]) -> bool:
        """Whether parameters have a size of a placeholder."""
        return any(not self.symbols.isdisjoint(n.symbols()) for p in params.values() for n in _dims(p))

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """The results of an equation, without numbers."""
        types: Any = primitive.result_types(tuple(x.type for x in inputs), params)
        source = user_line()
        outputs = tuple(map(Var, types))
        e = DefinedEquation(next(_numbers), primitive, tuple(map(_operand, inputs)), params, outputs, source)
        if has_effects(primitive, params):
            for x in e.read():
                x.effects.append(e)
        results = tuple(_result(e, v) for v in outputs)
        return results if primitive.multiple else results[0]


DEFINITION: Final = Definition()


def _dims(p: object) -> Iterator[Dim]:
    """The symbolic sizes in a parameter."""
    if type(p) is Dim:
        yield p
    elif isinstance(p, tuple):
        for part in cast("tuple[object, ...]", p):
            yield from _dims(part)


def _result(e: DefinedEquation, v: Var) -> Value:
    found = DefinedValue(v.type, e, e.source)
    found.var = v
    return make(v.type, found)


def _operand(x: Value) -> Operand:
    data = x.content
    if isinstance(data, DefinedValue):
        return data
    if isinstance(data, Payload):
        return _foreign("an operation on placeholders", x)
    return make(x.type, data, x.layout, x.node)


def _foreign(operation: str, x: Value) -> NoReturn:
    """Raise TraceError for a value of a transformation."""
    left = getattr(x.content.interpreter, "name", "a transformation")
    raise TraceError(f"{operation}: values must be placeholders or tensors; got one of type {x.type} left by {left}")


# ---- placeholders


def placeholder(shape: Any, dtype: Any = float32, *, name: str = "") -> Any:
    """An input of a graph that is written by hand: a tensor without numbers, on which all operations work.

    `shape` has numbers, `nc.Dim`s, and None for a size that a call chooses.  Each None is a size of its own; sizes that
    must be equal share a Dim.  `nc.Graph.build` makes the graph of outputs that were computed from placeholders.

    Raises KindError for a shape or a name of another kind, ShapeError for negative sizes, DTypeError for no dtype.

    >>> x = nc.placeholder((None, 3), name="x")
    >>> graph = nc.Graph.build(x, nc.sum(x * 2, axis=1))
    >>> graph(nc.ones((2, 3))).tolist()
    [6.0, 6.0]
    """
    if not isinstance(cast("object", name), str):
        raise KindError(f"placeholder: the name must be a string; got {shown(name)}")
    given: Any = [shape] if is_whole(shape) else shape
    if not isinstance(given, tuple | list):
        raise KindError(
            f"placeholder: the shape must be a tuple of sizes; got {shown(shape)}; write (None, 3) for rows of three"
        )
    sizes = [_size(n, axis, name) for axis, n in enumerate(cast("Sequence[Any]", given))]
    type = TensorType(sizes, as_dtype(dtype))
    if not type.static:
        DEFINITION.symbols.update(s for n in _dims(type.shape) for s in n.symbols())
        register_definition(DEFINITION)
    return make(type, DefinedValue(type, None, user_line(), name))


def _size(n: Any, axis: int, name: str) -> Size:
    """A size of a placeholder; a new symbol for None."""
    if n is None:
        return Dim.symbol(f"{name}_{axis}" if name.isidentifier() else f"n{next(_numbers)}")
    if not is_whole(n):
        raise KindError(f"placeholder: the size of axis {axis} must be a number, a Dim or None; got {shown(n)}")
    if isinstance(n, Dim):
        return n
    if not 0 <= int(n) <= LIMIT:
        bound = "at least 0" if int(n) < 0 else f"at most {LIMIT}"
        raise ShapeError(f"placeholder: the size of axis {axis} must be {bound}; got {n}; write None for any size")
    return int(n)


# ---- graphs


@dataclass(frozen=True)
class DefinedGraph:
    """A graph whose inputs are placeholders, and then tensors from outside with their names."""

    graph: Graph
    inputs: tuple[str, ...]
    captures: Sequence[tuple[str, Value]]
    names: Mapping[str, Var]


def defined(
    operation: str, inputs: Mapping[str, Value], outputs: Mapping[str, Value], name: str, *, spare: bool = False
) -> DefinedGraph:
    """The graph of outputs that were computed from inputs.  Raises ArgumentError where they do not fit together.

    With `spare`, an input without use is no fault.
    """
    given = {n: _defined(operation, f"input {n!r}", x) for n, x in inputs.items()}
    wanted = {n: _defined(operation, f"output {n!r}", x) for n, x in outputs.items()}
    _require_one_meaning(operation, given.values())
    known = {x.var for x in given.values()}
    if len(known) < len(given):
        raise ArgumentError(f"{operation}: each input must be listed once; got one twice among {', '.join(given)}")
    needed, reached = _needed(operation, known, wanted)
    unused = [n for n, x in given.items() if x.var not in reached]
    if unused and not spare:
        raise ArgumentError(
            f"{operation}: the outputs must be computed from all inputs; none is computed from {unused[0]} "
            f"({given[unused[0]].var.type}); leave it out of the inputs"
        )
    _require_sizes(operation, [*given.values()], needed)
    captures = _Captures()
    for e in needed:
        captures.add(e)
    names = _names(operation, [*given.values(), *reached.values()], {n: x.var for n, x in given.items()})
    graph = Graph(
        (*(x.var for x in given.values()), *captures.found),
        tuple(captures.equations),
        tuple(x.var for x in wanted.values()),
        name,
    )
    return DefinedGraph(graph, tuple(given), [*captures.found.values()], names)


def _defined(operation: str, what: str, x: Any) -> DefinedValue:
    data = x.content if isinstance(x, Value) else None
    if isinstance(data, DefinedValue):
        return data
    if isinstance(data, Payload):
        _foreign(operation, x)
    got = f"a tensor of type {x.type} with numbers" if isinstance(x, Value) else shown(x)
    raise ArgumentError(
        f"{operation}: {what} must be a placeholder, or computed from one; got {got}; write "
        'x = nc.placeholder((None, 3), name="x") and compute with x'
    )


def _require_one_meaning(operation: str, inputs: Iterable[DefinedValue]) -> None:
    """Raise ArgumentError for two sizes of one name with different bounds."""
    known: dict[str, tuple[int, int]] = {}
    for size in (n for x in inputs for n in x.var.type.shape if isinstance(n, Dim)):
        for s in size.symbols():
            if known.setdefault(s.name, s.bounds()) != s.bounds():
                raise ArgumentError(
                    f"{operation}: a size must have the same bounds in all placeholders; {s.name} has two; use one Dim"
                )


def _needed(
    operation: str, known: set[Var], wanted: Mapping[str, DefinedValue]
) -> tuple[list[DefinedEquation], dict[Var, DefinedValue]]:
    """The equations that outputs need, in order, and the values that these read or that are outputs.

    Equations with an effect are needed where all that they read is computed: eager code would have run them too.
    """
    found: dict[int, DefinedEquation] = {}
    reached: dict[Var, DefinedValue] = {}
    queue = [(x, n) for n, x in wanted.items()]
    while queue:
        x, output = queue.pop()
        if x.var not in reached:
            reached[x.var] = x
            if x.made is None and x.var not in known:
                raise ArgumentError(
                    f"{operation}: every placeholder that output {output!r} needs must be an input; it needs {x}; add "
                    "it to the inputs"
                )
            if x.made is not None and x.var not in known and x.made.number not in found:
                found[x.made.number] = x.made
                queue += [(y, output) for y in x.made.read()]
        if not queue:
            queue += [(y, output) for y in _effects(known, found, reached)]
    return [found[k] for k in sorted(found)], reached


def _effects(
    known: set[Var], found: dict[int, DefinedEquation], reached: Mapping[Var, DefinedValue]
) -> Iterator[DefinedValue]:
    """Add the equations with an effect on values that are computed; yields what these read that nothing else did."""
    computed = known | {v for e in found.values() for v in e.outputs}
    for e in {e.number: e for x in [*reached.values()] for e in x.effects}.values():
        if e.number not in found and all(x.var in computed for x in e.read()):
            found[e.number] = e
            yield from e.read()


class _Captures:
    """The tensors from outside that equations read: inputs of the graph, each once."""

    def __init__(self) -> None:
        self.known: dict[object, tuple[Atom, Value]] = {}
        self.variables = {id(v.cell.content): v for v in live_variables()}
        self.found: dict[Var, tuple[str, Value]] = {}  # names, which may be empty, and values
        self.equations: list[Equation] = []

    def add(self, e: DefinedEquation) -> None:
        """Append an equation of the graph, behind those of tensors that repeat others or a number."""
        atoms = tuple([self._atom(x, e.source) for x in e.operands])
        self.equations.append(Equation(e.primitive, atoms, e.params, e.outputs, e.source))

    def _atom(self, x: Operand, source: str) -> Atom:
        if isinstance(x, DefinedValue):
            return x.var
        key = (id(x.content), x.layout, x.type)
        if key not in self.known:
            self.known[key] = self._captured(x, source), x  # x lives as long as its identity is a key
        return self.known[key][0]

    def _captured(self, x: Value, source: str) -> Atom:
        """The value of a tensor: an input, the result of a broadcast of one, or a number or a broadcast of it."""
        base, axes = _unbroadcast(x)
        variable = self._variable(base, x.node)
        number = _number(base) if variable is None and x.node is None else None
        if base.type is x.type and number is None:
            v = Var(x.type)
            self.found[v] = "" if variable is None else _name(variable, base), stripped(x)
            return v
        if number is not None and not x.type.shape:
            return number
        atom = self._atom(base, source) if number is None else number
        v = Var(x.type)
        params = {"shape": x.type.shape, "axes": axes if number is None else ()}
        self.equations.append(Equation(broadcast_p, (atom,), params, (v,), source))
        return v

    def _variable(self, base: Value, node: Any) -> Variable | None:
        """The variable whose memory a tensor has, or whose value it was when it was read."""
        found = self.variables.get(id(base.content))
        if found is not None and found.cell.content is base.content:
            return found
        return node.owner if isinstance(node, Leaf) else None


def _unbroadcast(x: Value) -> tuple[Value, tuple[int, ...]]:
    """The tensor that a view repeats along axes, and the other axes; x itself for other tensors."""
    layout = layout_of(x)
    axes = tuple(k for k, stride in enumerate(layout.strides) if stride)
    if len(axes) == x.type.rank or 0 in x.type.shape:
        return x, tuple(range(x.type.rank))
    type = x.type.with_shape([x.type.shape[k] for k in axes])
    strides = tuple(layout.strides[k] for k in axes)
    dense = not layout.offset and strides == row_major(type.shape)
    return make(type, x.content, None if dense else Layout(layout.offset, strides), x.node), axes


def _name(variable: Variable, base: Value) -> str:
    """The name of a variable for a tensor that has its whole value; empty for a part of it."""
    return variable.name if variable.type is base.type and variable.cell.layout == base.layout else ""


def _number(x: Value) -> Literal | None:
    """The number that every element of a tensor has, as a constant."""
    array = to_numpy(x).reshape(-1)
    if not array.size or array[0].tobytes() != array[-1].tobytes():
        return None
    rows = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
    if (rows != rows[0]).any():
        return None
    return Literal(array[:1].reshape(()).copy(), TensorType((), x.type.dtype))


def _require_sizes(operation: str, inputs: Sequence[DefinedValue], equations: Sequence[DefinedEquation]) -> None:
    """Raise ArgumentError for a symbolic size that no input has."""
    known = {s for x in inputs for n in x.var.type.shape if type(n) is Dim for s in n.symbols()}
    for e in equations:
        for s in (s for v in e.outputs for n in _dims(v.type.shape) for s in n.symbols()):
            if s not in known:
                raise ArgumentError(
                    f"{operation}: each size must be in the shape of an input; {s} is not, but {e.primitive.name} at "
                    f"{e.source} needs it; add the placeholder that has it to the inputs"
                )


def _names(operation: str, values: Iterable[DefinedValue], inputs: Mapping[str, Var]) -> dict[str, Var]:
    """The values that have names of their own, without the inputs; ArgumentError for a name of two values."""
    found: dict[str, DefinedValue] = {}
    for x in values:
        if x.name and x.made is not None and x.var not in inputs.values():
            other = found.setdefault(x.name, x)
            if other is not x or x.name in inputs:
                raise twice(operation, x.name, (other.source, x.source))
    return {n: x.var for n, x in found.items()}


def twice(operation: str, name: str, places: Iterable[str]) -> ArgumentError:
    """The error for a name of two values."""
    at = " and ".join(dict.fromkeys(p for p in places if p))
    return ArgumentError(
        f"{operation}: a name must belong to one value; {name!r} belongs to two"
        + f" ({at})" * bool(at)
        + "; give each value once, under a name of its own"
    )


# ---- a placeholder where numbers are needed


def require_no_placeholder(operation: str, values: Iterable[Value]) -> None:
    """Raise TraceError for a placeholder that a traced function reads from outside."""
    for x in values:
        if isinstance(x.content, DefinedValue):
            raise TraceError(
                explain(
                    f"{operation}: a placeholder has numbers in calls of its graph alone; got {x.content}",
                    'x = nc.placeholder((3,), name="x")\nnc.Graph.trace(lambda y: y + x, nc.ones(3))',
                    "A function that is traced has its own inputs; a placeholder belongs to the graph that "
                    "nc.Graph.build makes.",
                    'x = nc.placeholder((3,), name="x")\ny = nc.placeholder((3,), name="y")\n'
                    "nc.Graph.build([x, y], x + y)",
                )
            )
