"""Control flow over tensors: `cond`, `switch` and loops with ordinary functions and trees.

The functions are staged to graphs, inside and outside `jit`, so there is one code path.  Their captured values, and the
variables that they read and write, become operands and results of the primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, overload

from nacre.base import tree
from nacre.base.arguments import shown, whole_number
from nacre.base.dims import Dim, Size
from nacre.base.dims import lower as lowest
from nacre.base.dtypes import bool_, int64
from nacre.base.errors import ArgumentError, DTypeError, KindError, ShapeError, TraceError
from nacre.base.state import STATE
from nacre.base.types import TensorType, unlike
from nacre.interpret.closures.environment import Environment
from nacre.interpret.precision.functions import in_dtypes, widest
from nacre.ir.graph import Graph, Var
from nacre.ops import control
from nacre.ops.check import check
from nacre.ops.pointwise import add, cast, lt
from nacre.trace.function_types import R, S, Ts, X
from nacre.trace.value import Value
from nacre.transform.arguments import as_value
from nacre.transform.closure_conversion import Function, Operands, stage_function

__all__ = [
    "cond",
    "fori_loop",
    "scan",
    "switch",
    "while_loop",
]


def require_equal(
    operation: str,
    what: str,
    found: Sequence[TensorType],
    wanted: Sequence[TensorType],
    structures: tuple[tree.Structure, tree.Structure],
) -> None:
    if structures[0] != structures[1]:
        raise ArgumentError(f"{operation}: {what} must have structure {structures[1]}; got {structures[0]}")
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a is not b:
            raise unlike(f"{operation}: {what} at leaf {k}", b, a)


def cond(pred: Any, then: Callable[[*Ts], R], orelse: Callable[[*Ts], R], *operands: *Ts) -> R:
    """`then(*operands)` if the bool scalar `pred` is true, else `orelse(*operands)`; only the chosen one runs.

    Both must return trees of one structure with equal types; otherwise ArgumentError, ShapeError or DTypeError is
    raised.

    >>> import nacre as nc
    >>> x = nc.tensor(-2.0)
    >>> nc.cond(x < 0, lambda x: -x, lambda x: x, x)
    Tensor(2., f32[])
    """
    chosen = as_value(pred, "cond")
    if chosen.type.dtype is not bool_ or chosen.type.shape != ():
        raise DTypeError(
            f"cond: the predicate must be a bool scalar; got type {chosen.type}; compare, and reduce with "
            "any() or all()"
        )
    named = {"the first branch": then, "the second branch": orelse}
    return _branch("cond", named, operands, lambda graphs, xs: control.cond(chosen, graphs[0], graphs[1], *xs))


def switch(index: Any, branches: Sequence[Callable[[*Ts], R]], *operands: *Ts) -> R:
    """`branches[index](*operands)`; only the chosen one runs.  The index is an integer scalar, from 0.

    All branches must return trees of one structure with equal types; otherwise ArgumentError, ShapeError or DTypeError
    is raised.  An index outside of [0, len(branches)) raises AxisError, in compiled code too; it does not count from
    the end, and it is not clamped.

    >>> import nacre as nc
    >>> x = nc.tensor(2.0)
    >>> nc.switch(nc.tensor(1), [nc.sin, lambda x: x * x, nc.exp], x)
    Tensor(4., f32[])
    """
    chosen, branches = as_value(index, "switch"), list(branches)
    count = len(branches)
    if chosen.type.shape != () or not chosen.type.dtype.is_integer:
        raise DTypeError(
            f"switch: the index must be an integer scalar; got {chosen.type}; for two branches and a bool, write cond"
        )
    if not count:
        raise ArgumentError("switch: at least one branch must be given; got none")
    for k, f in enumerate(branches):
        if not callable(f):
            raise KindError(f"switch: branches must be a list of functions; got {shown(f)} at {k}")
    check(chosen, 0, count, "axis", "switch: the index must be in [{low}, {high}); got {got}")
    named = {f"branch {k}": f for k, f in enumerate(branches)}
    place = cast(chosen, int64)
    return _branch("switch", named, operands, lambda graphs, xs: control.switch(place, graphs, *xs))


def _branch(
    operation: str,
    branches: Mapping[str, Function],
    operands: Sequence[Any],
    choose: Callable[[list[Graph], list[Value]], tuple[Value, ...]],
) -> Any:
    """The result of one of several functions, by name; `choose` binds their graphs to the primitive."""
    given = Operands(operation, list(operands))
    staged = [stage_function(operation, _star(f), [given], given.types, keep=True) for f in branches.values()]
    changed = sorted({k for b in staged for k in b.changed})
    if STATE.autocast is not None:
        met = widest([b.types for b in staged])
        staged = [
            b
            if met is None or tuple(b.types) == met
            else stage_function(operation, in_dtypes(_star(f), met), [given], given.types, keep=True)
            for f, b in zip(branches.values(), staged, strict=True)
        ]
    first, traces = staged[0], [b.with_changed(changed) for b in staged]
    for name, b in zip(branches, staged, strict=True):
        structures = b.structures[0], first.structures[0]
        require_equal(operation, f"the result of {name}", b.types, first.types, structures)
    around = Environment(operation, traces)
    found = choose([around.graph(t) for t in traces], [*given.unaliased(changed), *around.operands()])
    around.put_back(found[traces[0].results :])
    given.put_back(changed, found[first.results : traces[0].results])
    return tree.unflatten(first.structures[0], found[: first.results])


def _star(f: Function) -> Function:
    def starred(items: Sequence[Any]) -> Any:
        """The function on the items as arguments."""
        return f(*items)

    starred.__name__ = getattr(f, "__name__", "branch")
    return starred


@overload
def while_loop(
    condition: Function, body: Function, init: complex, max_iterations: Size | None = None, reverse: str | None = None
) -> Any: ...
@overload
def while_loop(
    condition: Callable[[S], Any],
    body: Callable[[S], S],
    init: S,
    max_iterations: Size | None = None,
    reverse: str | None = None,
) -> S: ...
def while_loop(
    condition: Function, body: Function, init: Any, max_iterations: Size | None = None, reverse: str | None = None
) -> Any:
    """Repeats `carry = body(carry)` from `init` while `condition(carry)` is true, and returns the last carry.

    With `max_iterations`, the loop ends after that number of iterations, also if the condition is still true.  Such a
    loop is differentiable in both modes.  For reverse mode it saves values in memory for `max_iterations`, which is
    known before it runs, and computes only the iterations that happened.

    With `reverse="recompute"`, reverse mode works for any number of iterations, and saves 24 carries at most.  It
    computes n iterations about log₂(n) / 2 more times (n = 2²⁴ at most; beyond, more often).  Without either, forward
    mode works, and reverse mode raises GradientError.

    The structure and types of the carry must not change.  Raises ArgumentError if the body changes no value that the
    condition reads, and there is no `max_iterations`, and for another `reverse`.

    >>> import nacre as nc
    >>> nc.while_loop(lambda x: x < 100, lambda x: x * 2, nc.tensor(3.0))
    Tensor(192., f32[])
    >>> nc.grad(lambda x: nc.while_loop(lambda x: x < 100, lambda x: x * 2, x, max_iterations=50))(nc.tensor(3.0))
    Tensor(64., f32[])
    >>> nc.grad(lambda x: nc.while_loop(lambda x: x < 100, lambda x: x * 2, x, reverse="recompute"))(nc.tensor(3.0))
    Tensor(64., f32[])
    """
    bound, recompute = _most(max_iterations, "while_loop"), _is_recompute(reverse, "while_loop")
    given = Operands("while_loop", init, numbers=True)
    test = stage_function("while_loop", condition, [given], given.types)
    step = stage_function("while_loop", in_dtypes(body, given.types), [given], given.types)
    if test.trace.variable_outputs or any(r.gradient_written for r in test.trace.variables):
        raise TraceError("while_loop: the condition must not assign variables; assign in the body")
    t = step.trace
    require_equal("while_loop", "the carry", step.types, given.types, (step.structures[0], given.structure))
    around = Environment("while_loop", (test.trace, t))
    graphs: list[Graph] = []
    for traced, whole in ((test.trace, False), (t, True)):
        more = around.inputs(traced)
        results = traced.graph.outputs[: traced.results]
        if whole:
            results += tuple(around.outputs(traced, more))
        inputs = (*traced.graph.inputs[: traced.arguments], *more)
        graphs.append(Graph(inputs, traced.graph.equations, results, traced.graph.name))
    if bound is None:
        _require_progress(*graphs)
    found = control.while_loop(
        graphs[0], graphs[1], *given.values, *around.operands(), bound=bound, recompute=recompute
    )
    around.put_back(around.changed(found[t.results :]))
    return given.filled(found[: t.results])


def _most(max_iterations: Any, operation: str) -> Size | None:
    """The most iterations of a loop, or None; raises KindError or ArgumentError unless it is a size."""
    if max_iterations is None:
        return None
    most = whole_number(max_iterations, operation, "max_iterations")
    if lowest(most) < 0:
        raise ArgumentError(f"{operation}: max_iterations must be at least 0; got {max_iterations}")
    return most


def _is_recompute(reverse: Any, operation: str) -> bool:
    """Whether reverse mode computes iterations again; raises ArgumentError for a way that does not exist."""
    if reverse not in (None, "recompute"):
        raise ArgumentError(f'{operation}: reverse must be "recompute" or None; got {shown(reverse)}')
    return reverse is not None


def _require_progress(test: Graph, body: Graph) -> None:
    """Raise ArgumentError if the body changes no value that the condition reads: the loop would not end."""
    if test.calls_host:
        return
    read = {v for v in test.outputs if isinstance(v, Var)}
    for e in reversed(test.equations):
        if not read.isdisjoint(e.outputs):
            read.update(v for v in e.inputs if isinstance(v, Var))
    places = [k for k, v in enumerate(test.inputs) if v in read]
    if all(body.outputs[k] is body.inputs[k] for k in places):
        raise ArgumentError(
            "while_loop: the body must change a value that the condition reads, or the loop never ends; "
            "return the new carry from the body, or use cond for a single decision"
        )


@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body: Callable[[Any, Any], Any],
    init: complex,
    max_iterations: Size | None = None,
    reverse: str | None = None,
) -> Any: ...
@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body: Callable[[Any, S], S],
    init: S,
    max_iterations: Size | None = None,
    reverse: str | None = None,
) -> S: ...
def fori_loop(
    lower: Any,
    upper: Any,
    body: Function,
    init: Any,
    max_iterations: Size | None = None,
    reverse: str | None = None,
) -> Any:
    """Repeats `carry = body(k, carry)` for k from `lower` to `upper` − 1; k is an int64 scalar.

    The structure and types of the carry must not change.  With Python ints or symbolic sizes as bounds it is a `scan`
    and has derivatives in both modes.  With tensors, or with `reverse="recompute"`, it is a `while_loop`.  This has a
    reverse mode with `max_iterations`, after which it ends, or with `reverse="recompute"`.

    >>> import nacre as nc
    >>> nc.fori_loop(1, 6, lambda k, product: product * k, nc.tensor(1))
    Tensor(120, i64[])
    """
    most, recompute = _most(max_iterations, "fori_loop"), _is_recompute(reverse, "fori_loop")
    if isinstance(lower, Integral | Dim) and isinstance(upper, Integral | Dim) and not recompute:
        lower, upper = (n if isinstance(n, Dim) else int(n) for n in (lower, upper))
        first, rounds = as_value(lower, "fori_loop"), upper - lower
        if most is not None and rounds > most:
            rounds = most

        def step(state: Any, _: Any) -> Any:
            """One iteration of the body."""
            return (add(state[0], as_value(1, "fori_loop")), body(*state)), None

        return scan(step, (first, init), length=0 if rounds < 0 else rounds)[0][1]
    bounds = [_bound(x) for x in (lower, upper)]

    def more(state: Any) -> Any:
        """Whether an iteration is left."""
        return lt(state[0], state[1])

    def again(state: Any) -> Any:
        """One iteration of the body."""
        k, end, carry = state
        return add(k, as_value(1, "fori_loop")), end, body(k, carry)

    return while_loop(more, again, (*bounds, init), most, reverse)[2]


def _bound(x: Any) -> Any:
    found = as_value(x, "fori_loop")
    if found.type.shape != () or not found.type.dtype.is_integer:
        raise DTypeError(f"fori_loop: bounds must be integer scalars; got {found.type}; convert it")
    return cast(found, int64)


@overload
def scan(
    f: Callable[[S, X], tuple[S, R]], init: S, xs: X, length: Size | None = None, reverse: bool = False
) -> tuple[S, R]: ...
@overload
def scan(
    f: Function, init: Any, xs: Any = None, length: Size | None = None, reverse: bool = False
) -> tuple[Any, Any]: ...
def scan(f: Function, init: Any, xs: Any = None, length: Size | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """Folds f over the leading axis of xs: `carry, y = f(carry, x)`.  Returns the last carry and the stacked ys.

    `xs` is a tree of tensors with equal leading sizes.  Without it, `length` is the number of calls of f, with x =
    None.  The structure and types of the carry must not change.  Differentiable in both modes.  Raises KindError for a
    variable in xs; write its `value`.

    >>> import nacre as nc
    >>> xs = nc.tensor([1.0, 2.0, 3.0])
    >>> total, sums = nc.scan(lambda c, x: (c + x, c + x), nc.tensor(0.0), xs)
    >>> sums.tolist()
    [1.0, 3.0, 6.0]
    """
    return fold("scan", f, init, xs, length, reverse)


def fold(
    operation: str, f: Function, init: Any, xs: Any, length: Size | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """The scan of a public function of the given name, which its errors begin with."""
    carry, rows = Operands(operation, init, numbers=True), Operands(operation, xs, rows=True)
    rounds = leading_size(operation, rows.values, length)
    types = carry.types + [t.with_shape(t.shape[1:]) for t in rows.types]
    step = stage_function(operation, in_dtypes(f, carry.types, True), [carry, rows], types, pair=True)
    t, n = step.trace, len(carry.values)
    structures = step.structures[0], carry.structure
    require_equal(operation, "the carry", step.types[: step.counts[0]], carry.types, structures)
    around = Environment(operation, (t,))
    more = around.inputs(t)
    graph = Graph(
        (*t.graph.inputs[:n], *more, *t.graph.inputs[n : t.arguments]),
        t.graph.equations,
        (*t.graph.outputs[:n], *around.outputs(t, more), *t.graph.outputs[n : t.results]),
        t.graph.name,
    )
    found = control.scan(graph, [*carry.values, *around.operands()], rows.values, rounds, reverse)
    around.put_back(around.changed(found[n : n + len(more)]))
    return carry.filled(found[:n]), tree.unflatten(step.structures[1], found[n + len(more) :])


def leading_size(operation: str, xs: Sequence[Value], length: Size | None = None) -> Size:
    """The one leading size of tensors, which `length` must be if it is given."""
    sizes: list[Size] = [] if length is None else [length]
    for x in xs:
        if not x.type.shape:
            raise ShapeError(f"{operation}: xs must have a leading axis; got type {x.type}")
        sizes.append(x.type.shape[0])
    if not sizes:
        raise ArgumentError(f"{operation}: either xs or length must be given; got neither")
    if any(s != sizes[0] for s in sizes):
        raise ShapeError(f"{operation}: xs must have one leading size; got {', '.join(map(str, sizes))}")
    return sizes[0]
