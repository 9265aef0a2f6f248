"""Control flow, and functions with derivatives of their own: primitives whose parameters are graphs.

The inputs of a graph are exactly its operands; values that a user's function captures are passed as operands.
`interpret` registers how the primitives are differentiated and batched, `compile` how they are simplified and written
into programs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from nacre.base.dims import Size, lower
from nacre.base.dtypes import DType, bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, GradientError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.graph import Atom, Builder, Graph, Literal, scalar
from nacre.ir.primitive import Element, Flow, Host, Nest, Primitive, ProcessParameter, Structural, applying
from nacre.ir.rewrite import inline, specialised
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    Kernel,
    Let,
    Load,
    Local,
    Store,
    While,
    apply,
    const,
    number_of,
)
from nacre.ops.pointwise import fill, lt
from nacre.ops.rules import without_derivative
from nacre.trace.bind import bind
from nacre.trace.value import Value

Types = tuple[TensorType, ...]
CONDITION = TensorType((), bool_)
INDEX = TensorType((), int64)


def _shown(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _require_types(what: str, found: Types, wanted: Types) -> None:
    """Raise DTypeError or ShapeError unless the types are the wanted ones."""
    if found == wanted:
        return
    dtypes = [t.dtype for t in found] != [t.dtype for t in wanted] and len(found) == len(wanted)
    error = DTypeError if dtypes else ShapeError
    raise error(f"{what} must have types {_shown(wanted)}; got {_shown(found)}")


def call(graph: Graph, *xs: Value) -> tuple[Value, ...]:
    """The outputs of a graph applied to operands."""
    return bind(call_p, *xs, graph=graph)


def _call_type(*xs: TensorType, graph: Graph) -> Types:
    _require_types("call: operands", xs, graph.input_types)
    return graph.output_types


def cond(pred: Value, then: Graph, orelse: Graph, *xs: Value) -> tuple[Value, ...]:
    """`then(*xs)` if the bool scalar is true, else `orelse(*xs)`; only one of them runs."""
    return bind(cond_p, pred, *xs, then=then, orelse=orelse)


def _require_condition(what: str, found: TensorType) -> None:
    if found is not CONDITION:
        raise DTypeError(f"{what} must have type {CONDITION}; got {found}; compare or reduce first")


def _cond_type(pred: TensorType, *xs: TensorType, then: Graph, orelse: Graph) -> Types:
    _require_condition("cond: the condition", pred)
    _require_types("cond: operands of the first branch", xs, then.input_types)
    _require_types("cond: operands of the second branch", xs, orelse.input_types)
    _require_types("cond: results of the second branch", orelse.output_types, then.output_types)
    return then.output_types


def switch(index: Value, branches: Sequence[Graph], *xs: Value) -> tuple[Value, ...]:
    """`branches[index](*xs)` for an int64 scalar, found by halving; only that one runs.

    An index below 0 means the first branch, one above the last branch means the last.
    """
    if len(branches) == 1:
        return call(branches[0], *xs)
    middle = len(branches) // 2
    below, above = _halved(branches[:middle], 0), _halved(branches[middle:], middle)
    return cond(lt(index, fill(middle, (), int64)), below, above, index, *xs)


def _halved(branches: Sequence[Graph], first: int) -> Graph:
    """A graph of (index, operands) that applies one of the branches, of which the first one has this index."""
    b = Builder(branches[0].name if len(branches) == 1 else "switch")
    index = b.input(INDEX)
    inputs = [b.input(t) for t in branches[0].input_types]
    if len(branches) == 1:
        return b.finish(inline(b, branches[0], inputs))
    middle = len(branches) // 2
    below, above = _halved(branches[:middle], first), _halved(branches[middle:], first + middle)
    (chosen,) = b.add(applying("lt"), (index, scalar(first + middle, INDEX)))
    return b.finish(b.add(cond_p, (chosen, index, *inputs), {"then": below, "orelse": above}))


def while_loop(
    cond: Graph, body: Graph, *carry: Value, bound: Size | None = None, recompute: bool = False
) -> tuple[Value, ...]:
    """The final carry of `carry = body(*carry)`, repeated while `cond(*carry)` is true, at most `bound` times.

    With `recompute`, reverse mode computes the iterations again instead of saving their values.
    """
    ways = {} if bound is None else {"bound": bound}
    if recompute:
        ways["recompute"] = True
    return bind(while_p, *carry, cond=cond, body=body, **ways)


def _while_type(
    *carry: TensorType, cond: Graph, body: Graph, bound: Size | None = None, recompute: bool = False
) -> Types:
    if bound is not None and lower(bound) < 0:
        raise ArgumentError(f"while: the bound must be a number of iterations; got {bound}")
    _require_types("while: operands of the condition", carry, cond.input_types)
    if len(cond.output_types) != 1:
        raise ArgumentError(f"while: the condition must be one value; got {_shown(cond.output_types)}")
    _require_condition("while: the condition", cond.output_types[0])
    _require_types("while: operands of the body", carry, body.input_types)
    _require_types("while: results of the body", body.output_types, carry)
    return carry


def scan(
    body: Graph, carry: Sequence[Value], xs: Sequence[Value], length: Size, reverse: bool = False
) -> tuple[Value, ...]:
    """Fold a body over the leading axis of xs: `(*carry, *ys) = body(*carry, *rows)` for each row.

    Results are the last carry, then each y stacked along a new leading axis.  `reverse` starts at the last row.
    """
    return bind(scan_p, *carry, *xs, body=body, carries=len(carry), length=length, reverse=reverse)


def _scan_type(*operands: TensorType, body: Graph, carries: int, length: Size, reverse: bool) -> Types:
    if not 0 <= carries <= len(operands):
        raise ArgumentError(f"scan: the number of carried operands must be from 0 to {len(operands)}; got {carries}")
    carry, xs = operands[:carries], operands[carries:]
    for x in xs:
        if not x.rank or x.shape[0] != length:
            raise ShapeError(f"scan: the leading axis must have size {length}; got {x}")
    rows = tuple(x.with_shape(x.shape[1:]) for x in xs)
    _require_types("scan: operands of the body", (*carry, *rows), body.input_types)
    _require_types("scan: carried results of the body", body.output_types[:carries], carry)
    stacked = tuple(y.with_shape((length, *y.shape)) for y in body.output_types[carries:])
    return (*carry, *stacked)


# ---- functions with derivatives of their own


class _Comparisons(threading.local):
    """The pairs of rules that this thread compares."""

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()


_comparing = _Comparisons()


class DerivativeRule(ProcessParameter):
    """The derivative of a function, as graphs, for the operands at `places`; `make` gives them when first needed.

    For `custom_jvp` there is one graph, (operands, tangents) → (results, tangents of the results).  The tangents are
    those of the operands at `places`, and of the results that have one.

    For `custom_vjp` there are two: operands → (results, residuals), and (operands, residuals, cotangents) → cotangents
    of the operands at `places`.  Of the operands, the second graph reads only those behind the arguments.  Further
    graphs are like the second one, each for the cotangents of some results only: `some` has their positions.

    For the graphs of `linear_solve`, see there.

    `linear` says that the function is linear in the operands at `places` while the others are fixed.  `refusal` is the
    text of the error for a derivative by another operand, if it is not the usual one.

    The graphs of a rule may have equations with this rule itself.  Rules are equal if their graphs are.
    """

    def __init__(
        self,
        name: str,
        places: tuple[int, ...],
        make: Callable[[], tuple[Graph, ...]] | None = None,
        linear: bool = False,
        some: tuple[tuple[int, ...], ...] = (),
        refusal: str = "",
    ) -> None:
        self.name, self.places, self.make, self.linear = name, places, make, linear
        self.some, self.refusal = some, refusal
        self.made: tuple[Graph, ...] | None = None
        self.changed: dict[object, DerivativeRule] = {}

    @property
    def known_before(self) -> tuple[object, ...]:
        """The properties known without the graphs: rules that differ in these are not equal."""
        return self.name, self.places, self.linear, self.some, self.refusal

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs; GradientError while the rule is being traced."""
        if self.made is None:
            if self.make is None:
                raise GradientError(
                    f"{self.name}: the rule must not differentiate {self.name} itself; write its derivative out"
                )
            self.made = self.make()
        return self.made

    def over(
        self, key: object, places: tuple[int, ...], change: Callable[[tuple[Graph, ...]], tuple[Graph, ...]]
    ) -> DerivativeRule:
        """The rule with changed graphs; a change with one key is made once."""
        found = self.changed.get(key)
        if found is None:
            found = self.changed[key] = DerivativeRule(
                self.name, places, lambda: change(self.graphs), self.linear, self.some, self.refusal
            )
        return found

    def with_sizes(self, sizes: Any) -> DerivativeRule:
        """The rule for other sizes in the place of its symbolic ones."""
        key = "sizes", *sorted(sizes.items())
        return self.over(key, self.places, lambda graphs: tuple(specialised(g, sizes) for g in graphs))

    def __hash__(self) -> int:
        return hash(self.known_before)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DerivativeRule) or self.known_before != other.known_before:
            return False
        pair = id(self), id(other)
        if pair in _comparing.pairs:  # of graphs that have the rules themselves: equal unless another part differs
            return True
        _comparing.pairs.add(pair)
        try:
            return self.graphs == other.graphs
        finally:
            _comparing.pairs.discard(pair)

    def __str__(self) -> str:
        return self.name


def with_derivative(primitive: Primitive, graph: Graph, rule: DerivativeRule, *xs: Value) -> tuple[Value, ...]:
    """The outputs of a graph, with the derivative of a rule; the primitive is `custom_jvp_p` or `custom_vjp_p`."""
    return bind(primitive, *xs, graph=graph, rule=rule)


def _custom_type(*xs: TensorType, graph: Graph, rule: DerivativeRule) -> Types:
    _require_types(f"{rule.name}: operands", xs, graph.input_types)
    return graph.output_types


custom_jvp_p, custom_vjp_p = (
    Primitive(name, _custom_type, Flow(), Structural(), multiple=True, expansion=lambda params: params["graph"])
    for name in ("custom_jvp", "custom_vjp")
)


def linear_solve(graph: Graph, rule: DerivativeRule, *xs: Value) -> tuple[Value, ...]:
    """The solution x of A·x = b, and further results of the solver, which is a graph; b is at `rule.places[0]`.

    The other operands are those of A.  The rule has four graphs with the same operands: v → A·v and v → Aᵀ·v, with v in
    the place of b, and b → x for A and for Aᵀ, which derivatives use.
    """
    return bind(linear_solve_p, *xs, graph=graph, rule=rule)


linear_solve_p = Primitive(
    "linear_solve", _custom_type, Flow(), Structural(), multiple=True, expansion=lambda params: params["graph"]
)


def masked(graph: Graph, safe: Graph, *xs: Value) -> tuple[Value, ...]:
    """The outputs of a graph over a batch, of which only those of some examples are read.

    `safe` has the same outputs for these examples.  To its derivatives the others contribute nothing, even where their
    own derivatives are infinite.  Reverse mode differentiates `safe`.
    """
    return bind(masked_p, *xs, graph=graph, safe=safe)


def _masked_type(*xs: TensorType, graph: Graph, safe: Graph) -> Types:
    _require_types("masked: operands", xs, graph.input_types)
    _require_types("masked: operands of the safe graph", safe.input_types, graph.input_types)
    _require_types("masked: results of the safe graph", safe.output_types, graph.output_types)
    return graph.output_types


def _refused_type(given: TensorType, shape: Shape, dtype: DType, text: str) -> TensorType:
    return TensorType(shape, dtype)


def _refuse(*given: Any, text: str, **type: Any) -> NoReturn:
    raise GradientError(text)


def _refused_of_a_batch(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Value, None]:
    return bind(refused_p, *inputs, **params), None


# a cotangent that does not exist: an error where something needs it
refused_p = Primitive("refused", _refused_type, Host(_refuse), batch=_refused_of_a_batch)
call_p = Primitive("call", _call_type, Flow(), Structural(), multiple=True, expansion=lambda params: params["graph"])
masked_p = Primitive(
    "masked", _masked_type, Flow(), Structural(), multiple=True, expansion=lambda params: params["graph"]
)
cond_p = Primitive("cond", _cond_type, Flow(), Structural(), multiple=True)
while_p = Primitive("while", _while_type, Flow(), Structural(), multiple=True)
scan_p = Primitive("scan", _scan_type, Flow(), Structural(), multiple=True)


# ---- loops over scalars, which the compiler makes


def scalar_loop(cond: Graph, body: Graph, rounds: int, *operands: Value) -> tuple[Value, ...]:
    """The carry after `carry = body(*carry, *rest)`: once, and then while `cond(*carry, *rest)` is true.

    The operands are scalars: the carry, and the rest.  The loop ends after `rounds` iterations.
    """
    return bind(scalar_loop_p, *operands, cond=cond, body=body, rounds=rounds)


def is_scalar_graph(graph: Graph) -> bool:
    """Whether all values of a graph are real scalars, and each is an expression over others."""
    atoms: list[Atom] = [*graph.inputs, *graph.outputs]
    for e in graph.equations:
        if not isinstance(e.primitive.lowering, Element):
            return False
        atoms += [*e.inputs, *e.outputs]
    return all(a.type.shape == () and a.type.dtype.component is None for a in atoms)


def _scalar_loop_type(*operands: TensorType, cond: Graph, body: Graph, rounds: int) -> Types:
    _require_types("scalar_loop: operands of the condition", operands, cond.input_types)
    _require_types("scalar_loop: the condition", cond.output_types, (CONDITION,))
    _require_types("scalar_loop: operands of the body", operands, body.input_types)
    _require_types("scalar_loop: results", body.output_types, operands[: len(body.outputs)])
    if not is_scalar_graph(cond) or not is_scalar_graph(body):
        raise ArgumentError("scalar_loop: the condition and the body must compute real scalars, element by element")
    return body.output_types


def _scalar_loop_kernel(types: Types, results: Types, cond: Graph, body: Graph, rounds: int) -> Kernel:
    """Registers for the carry, the number of iterations left, and whether the loop continues."""
    m = len(results)
    operands = tuple(Buffer(f"x{k}", t.dtype, ()) for k, t in enumerate(types))
    outputs = tuple(Buffer(f"y{k}", t.dtype, ()) for k, t in enumerate(results))
    registers = [Buffer(f"c{k}", t.dtype, ()) for k, t in enumerate(results)]
    registers += [Buffer("count", int64, ()), Buffer("more", bool_, ())]
    carry: list[Expr] = [Load(r.name, (), r.dtype) for r in registers[:m]]
    rest: list[Expr] = [Local(f"r{k}", b.dtype) for k, b in enumerate(operands[m:])]
    stepped, new = as_lets(body, [*carry, *rest], "b{}".format)
    moved = [Let(f"n{k}", x) for k, x in enumerate(new)]
    values: list[Expr] = [Local(f"n{k}", x.dtype) for k, x in enumerate(new)]
    tested, (holds,) = as_lets(cond, [*values, *rest], "t{}".format)
    following = apply("sub", Load("count", (), int64), const(1))
    iteration = (
        *stepped,
        *moved,
        *tested,
        Let("following", following),
        Let("holds", holds),
        *(Store(f"c{k}", (), x) for k, x in enumerate(values)),
        Store("count", (), Local("following", int64)),
        Store("more", (), Local("holds", bool_)),
    )
    statements = (
        *(Alloc(r) for r in registers),
        *(Let(f"r{k}", Load(b.name, (), b.dtype)) for k, b in enumerate(operands[m:])),
        *(Store(f"c{k}", (), Load(b.name, (), b.dtype)) for k, b in enumerate(operands[:m])),
        Store("count", (), const(rounds)),
        Store("more", (), const(True, bool_)),
        While(apply("and", Load("more", (), bool_), apply("ne", Load("count", (), int64), const(0))), iteration),
        *(Store(f"y{k}", (), x) for k, x in enumerate(carry)),
    )
    return Kernel("loop", operands, outputs, statements)


def as_lets(graph: Graph, inputs: Sequence[Expr], name: Callable[[int], str]) -> tuple[list[Let], list[Expr]]:
    """A graph of scalars as numbered names, on expressions for its inputs, and the expressions of its outputs."""
    known: dict[Atom, Expr] = dict(zip(graph.inputs, inputs, strict=True))
    lets: list[Let] = []

    def value(a: Atom) -> Expr:
        """The expression of an atom."""
        return number_of(a.array.item(), a.type.dtype) if isinstance(a, Literal) else known[a]

    for k, e in enumerate(graph.equations):
        operands = tuple(partial(_constantly, value(a)) for a in e.inputs)
        types, (y,) = tuple(a.type for a in e.inputs), e.outputs
        assert isinstance(e.primitive.lowering, Element)
        lets.append(Let(name(k), e.primitive.lowering.rule((), operands, types, y.type, **e.params)))
        known[y] = Local(lets[-1].name, y.type.dtype)
    return lets, [value(a) for a in graph.outputs]


def _constantly(x: Expr, index: tuple[Expr, ...]) -> Expr:
    """A scalar operand, read at an index, which has no axes."""
    return x


scalar_loop_p = Primitive(
    "scalar_loop",
    _scalar_loop_type,
    Nest(_scalar_loop_kernel),
    without_derivative(
        "scalar_loop", "compilation makes this loop of a differentiated one", "differentiate while_loop, or scan"
    ),
    multiple=True,
)
