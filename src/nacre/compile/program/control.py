"""Control flow in a program: loops and branches become nodes of the plan, their bodies launches within them.

A body is compiled as a separate graph.  The loop decides where its inputs and outputs are stored:

    loop-invariant operands           at their place outside the loop
    rows of xs, and of ys             in the whole tensor, at an address that advances with each iteration
    carries                           in two places that alternate, or updated in place (see `compile/buffers/reuse`)

Nothing is stacked, sliced or copied between iterations.  Launches of a body that do not depend on the iteration run
once, before the loop.  So does the transpose of an invariant matrix for products in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from nacre.base.dims import Size, product
from nacre.base.types import Shape, TensorType, row_major
from nacre.codegen.gemm.plan import FEW
from nacre.compile.buffers.reuse import Carry
from nacre.compile.fusion.fuse import large
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.lower import copy_kernel
from nacre.compile.passes.loop_simplification import unchanged
from nacre.compile.program.launches import LaunchWriter
from nacre.compile.program.values import ValueNumbers
from nacre.ir.axes import permutation
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import RuleKind, register_rule
from nacre.ops import control
from nacre.ops.dot import is_plain_product
from nacre.runtime.flow import Branch, Loop, Node, launches
from nacre.runtime.plan import PlannedValue, holder

MANY_ROUNDS = 8  # iterations of a loop from which on a matrix is transposed before the loop
MANY_ROWS = 128  # rows of a product from which on packing a large matrix costs little, in any layout
Place = tuple[int, tuple[Size, ...]]  # the number of a value, and the strides with which it is read


class GraphWriter(Protocol):
    """A writer for one graph of a program; the bodies of its loops and branches have their own writers."""

    @property
    def fusion(self) -> Fusion:
        """The graph, fused."""
        ...

    @property
    def values(self) -> ValueNumbers:
        """The numbers of the graph's values."""
        ...

    @property
    def launches(self) -> LaunchWriter:
        """The writer of the graph's launches."""
        ...

    @property
    def simplify_body(self) -> Callable[[Graph], Graph]:
        """The graph passes for bodies."""
        ...

    def within(self, graph: Graph, places: Mapping[Var, Place], sure: bool) -> GraphWriter:
        """A writer for a simplified graph whose inputs have the given places; nothing of it is written yet.

        `sure`: the graph runs at least once whenever the code around it runs.
        """
        ...

    def write(self) -> None:
        """Write the launches of the graph."""
        ...


WRITTEN: Final[RuleKind[Callable[[GraphWriter, Equation], None]]] = RuleKind("writing of control flow into a plan")


def write_flow(p: GraphWriter, e: Equation) -> None:
    """Write a loop or branch into the plan."""
    WRITTEN.required(e.primitive)(p, e)


# ---- places of values


def _view(p: GraphWriter, x: Atom) -> View:
    return p.fusion.views[x]


def _part(p: GraphWriter, x: Atom, axes: int, offset: Size = 0, stride: Size = 0, loop: int = -1) -> int:
    """A part of x with its last axes, from an element on, that advances by a stride with each iteration of a loop."""
    view, width = _view(p, x), x.type.dtype.itemsize
    base, first = p.values.number(view.base), (view.offset + offset) * width
    if first == 0 and loop < 0:
        return base
    rank = x.type.rank - axes
    nbytes = _covered(x.type.shape[rank:], view.strides[rank:]) * width
    return p.values.new(PlannedValue("part", nbytes, of=base, offset=first, stride=stride * width, loop=loop))


def _covered(shape: Shape, strides: Sequence[Size]) -> Size:
    """The number of elements from the first one of a view to its last one; of all of them for symbolic sizes."""
    pairs = [(n, s) for n, s in zip(shape, strides, strict=True) if isinstance(n, int) and isinstance(s, int)]
    if len(pairs) < len(shape) or any(n == 0 or s < 0 for n, s in pairs):
        return product(shape)
    return 1 + sum((n - 1) * s for n, s in pairs)


def _as_given(p: GraphWriter, x: Atom) -> Place:
    """The place of an operand that is read whole."""
    return _part(p, x, x.type.rank), _view(p, x).strides


def _rows(p: GraphWriter, x: Atom, length: Size, reverse: bool, loop: int) -> Place:
    """The place of the row of an operand or result in each iteration."""
    step, *strides = _view(p, x).strides
    first, move = ((length - 1) * step, -1 * step) if reverse else (0, step)
    return _part(p, x, x.type.rank - 1, first, move, loop), tuple(strides)


def _results(child: GraphWriter, places: Sequence[int]) -> None:
    """Make a graph write its outputs to the given places."""
    for a, place in zip(child.fusion.graph.outputs, places, strict=True):
        child.values.numbers[a] = place


# ---- loops


def _transpose_matrices(
    p: GraphWriter, e: Equation, body: Graph, fixed: Iterable[int], places: dict[Var, Place]
) -> None:
    """Launch transpositions of loop-invariant matrices that products in the body sum along their rows."""
    for k in fixed:
        v, x = body.inputs[k], e.inputs[k]
        if x.type.rank != 2 or _view(p, x).strides[1] != 1 or not _read_across(body, v):
            continue
        transposed, strides = TensorType(x.type.shape[::-1], x.type.dtype), _view(p, x).strides
        copied = Var(transposed)
        view = View(_view(p, x).base, _view(p, x).offset, strides[::-1])
        kernel = copy_kernel(transposed, view.strides, transposed.dtype, "copy")
        p.launches.nest(kernel, [view], [p.values.number(copied)], 2, "copy", [e])
        places[v] = p.values.number(copied), row_major(transposed.shape)[::-1]


def _read_across(body: Graph, v: Var) -> bool:
    """Whether all readers of a matrix are products of many rows that sum along its rows."""
    found = False
    todo: list[tuple[Var, int]] = [(v, 1)]  # a matrix, and which of its axes is contiguous
    while todo:
        x, axis = todo.pop()
        if x in body.outputs:
            return False
        for e in (e for e in body.equations if x in e.inputs):
            axes = permutation(e)
            if axes is not None:
                todo.append((e.outputs[0], axes.index(axis)))
                continue
            if not is_plain_product(e) or e.inputs.count(x) != 1 or e.params["batch"][0]:
                return False
            at = e.inputs.index(x)
            other = e.inputs[1 - at].type.shape
            rows = product([n for k, n in enumerate(other) if k not in e.params["contract"][1 - at]])
            if tuple(e.params["contract"][at]) != (axis,) or not isinstance(rows, int) or rows <= FEW:
                return False
            if large(v) and rows >= MANY_ROWS:
                return False
            found = True
    return found


class _Carries:
    """The carries of a loop: which of them change, and their places."""

    def __init__(self, p: GraphWriter, e: Equation, count: int, number: int) -> None:
        self.p, self.number = p, number
        self.fixed = unchanged(e)
        self.moving = [k for k in range(count) if k not in self.fixed]
        self.given: dict[int, int] = {}
        self.made: list[int] = []
        for k in self.moving:
            x, type = e.inputs[k], e.outputs[k].type
            self.given[k] = p.values.new(PlannedValue("temporary", type.nbytes))
            self.made.append(p.values.new(PlannedValue("temporary", type.nbytes)))
            kernel = copy_kernel(type, _view(p, x).strides, type.dtype, "copy")
            p.launches.nest(kernel, [_view(p, x)], [self.given[k]], 2, "copy", [e], idle=True)
        self.places: list[Place] = [
            _as_given(p, e.inputs[k]) if k in self.fixed else (self.given[k], row_major(e.inputs[k].type.shape))
            for k in range(count)
        ]

    def end(self, child: GraphWriter, inputs: Sequence[Var], e: Equation) -> list[Node]:
        """Launch copies of the carries to the loop's results after the last iteration; returns their nodes."""
        before = len(child.launches.tree)
        for k, made in zip(self.moving, self.made, strict=True):
            type, result = e.outputs[k].type, self.p.values.number(e.outputs[k])
            strides = row_major(type.shape)
            kernel = copy_kernel(type, strides, type.dtype, "copy")
            child.launches.nest(kernel, [View(inputs[k], 0, strides)], [result], 2, "copy", [e], idle=True)
            self.p.launches.carries.append(Carry(self.number, self.given[k], made, result))
        ending = child.launches.tree[before:]
        del child.launches.tree[before:]
        return ending


def _scan(p: GraphWriter, e: Equation) -> None:
    body: Graph = e.params["body"]
    count: int = e.params["carries"]
    length, reverse = e.params["length"], bool(e.params["reverse"])
    number = p.launches.next_loop()
    carries = _Carries(p, e, count, number)
    rows = [_rows(p, x, length, reverse, number) for x in e.inputs[count:]]
    places = dict(zip(body.inputs, [*carries.places, *rows], strict=True))
    outputs = [body.outputs[k] for k in (*carries.moving, *range(count, len(body.outputs)))]
    iteration = p.simplify_body(Graph(body.inputs, body.equations, tuple(outputs), body.name))
    if not isinstance(length, int) or length >= MANY_ROUNDS:
        _transpose_matrices(p, e, iteration, carries.fixed, places)
    child = p.within(iteration, places, isinstance(length, int) and length > 0)
    stacked = [_rows(p, y, length, reverse, number)[0] for y in e.outputs[count:]]
    _results(child, [*carries.made, *stacked])
    child.write()
    ending = carries.end(child, body.inputs, e)
    _place(p, carries, Loop(number, length, (), -1, tuple(child.launches.tree), tuple(ending)), stacked)


def _while(p: GraphWriter, e: Equation) -> None:
    body: Graph = e.params["body"]
    test: Graph = e.params["cond"]
    number = p.launches.next_loop()
    carries = _Carries(p, e, len(e.outputs), number)
    cell = p.values.new(PlannedValue("temporary", test.outputs[0].type.nbytes))
    condition = p.within(p.simplify_body(test), dict(zip(test.inputs, carries.places, strict=True)), True)
    _results(condition, [cell])
    condition.write()
    outputs = tuple(body.outputs[k] for k in carries.moving)
    child = p.within(
        p.simplify_body(Graph(body.inputs, body.equations, outputs, body.name)),
        dict(zip(body.inputs, carries.places, strict=True)),
        False,
    )
    _results(child, carries.made)
    child.write()
    ending = carries.end(child, body.inputs, e)
    parts = tuple(condition.launches.tree), cell, tuple(child.launches.tree), tuple(ending)
    _place(
        p,
        carries,
        Loop(number, None, *parts, bound=e.params.get("bound")),
        [cell],
    )


def _place(p: GraphWriter, carries: _Carries, loop: Loop, own: Sequence[int]) -> None:
    """Append a loop to the plan, preceded by its launches that need not be repeated."""
    storage, tree = p.values.storage, p.launches.tree
    within = [*launches((*loop.test, *loop.body, *loop.epilogue))]
    held = {*own, *(v for c in p.launches.carries for v in (c.given, c.made, c.result))}
    writers: dict[int, int] = {}
    for k in within:
        for v in {holder(storage, v) for v in p.launches.steps[k].writes}:
            writers[v] = writers.get(v, 0) + 1
    changing = {*writers, *held}
    once: list[int] = []
    for k in (n for n in (*loop.test, *loop.body) if isinstance(n, int)):
        launch = p.launches.steps[k]
        if launch.host is not None:
            continue
        if any(_moves(storage, v, loop.number) or holder(storage, v) in changing for v in launch.reads):
            continue
        if all(storage[v].kind == "temporary" and v not in held and writers[v] == 1 for v in launch.writes):
            once.append(k)
            changing.difference_update(launch.writes)
    test, body = (tuple(n for n in part if n not in once) for part in (loop.test, loop.body))
    tree += [*once, replace(loop, test=test, body=body)]


def _moves(values: Sequence[PlannedValue], value: int, loop: int) -> bool:
    """Whether the place of a value changes with each iteration of a loop."""
    while values[value].kind == "part":
        if values[value].loop == loop:
            return True
        value = values[value].of
    return False


# ---- branches


def _branch(p: GraphWriter, e: Equation) -> None:
    pred, *operands = e.inputs
    cell, _ = _as_given(p, pred)
    places = [_as_given(p, x) for x in operands]
    results = [p.values.number(v) for v in e.outputs]
    sides: list[tuple[Node, ...]] = []
    for name in ("then", "orelse"):
        graph: Graph = e.params[name]
        child = p.within(p.simplify_body(graph), dict(zip(graph.inputs, places, strict=True)), False)
        _results(child, results)
        child.write()
        sides.append(tuple(child.launches.tree))
    p.launches.tree.append(Branch(cell, *sides))


register_rule(control.cond_p, WRITTEN, _branch)
register_rule(control.while_p, WRITTEN, _while)
register_rule(control.scan_p, WRITTEN, _scan)
