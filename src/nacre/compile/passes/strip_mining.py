"""Large products that are only reduced are computed in strips of rows, each reduced while it is in cache.

The product is never stored whole; examples are the scores of a vocabulary under a cross-entropy, or distances to
clusters.  A loop computes a strip of it and all its readers (see `axis_propagation`), with the kernels of the whole.
Each element and each reduction is within one strip, so bits do not change.  Strips of columns are used where columns
are reduced.  A lookup of many table rows for a product with few columns is computed the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import takewhile
from math import prod

from nacre.base.dims import product
from nacre.base.records import dataclass
from nacre.compile.passes.axis_propagation import (
    follow,
    needs,
    plain,
    rule_of,
    stretch,
    stretched,
    strip_type,
)
from nacre.compile.passes.simplify import own_constants, own_outputs
from nacre.ir.axes import Run
from nacre.ir.graph import Atom, Builder, Equation, Graph, Var
from nacre.ir.primitive import Element, Primitive
from nacre.ir.rewrite import without_dead_code
from nacre.ops.control import scan_p
from nacre.ops.shape import permute_p, reshape_p
from nacre.ops.view import concatenate_p, slice_p

LARGE = 16 << 20  # bytes of a product that is not stored whole
NEAR = 4 << 20  # bytes of a strip that stays in caches
SMALL = 8  # a value may be stored whole if the product has at least this many times its bytes
FEWEST = 4  # strips that are worth a loop
WHOLE = 168  # rows of a strip are a multiple of this, which fills tiles of 12, 8 or 6 rows
WIDE = 384  # columns of a strip are a multiple of this: panels of vectors of any width
STREAMED = ((4 << 20, 1), (8 << 20, 2))  # most bytes of the factor that every strip reads → least multiple of `WHOLE`
LONGEST = 3  # the least multiple for a larger factor, which is read from memory each time


def strip_mine(graph: Graph) -> Graph:
    """The graph with loops over strips in place of such products and their readers."""
    known = _Uses(graph)
    products = [e.outputs[0] for e in graph.equations if rule_of(e).factors is not None]
    for v in products:
        e = known.made.get(v)
        if e is None or not all(x.type.static for x in (*e.inputs, v)):
            continue
        rows = {r for x in e.inputs if (r := known.looked_up(x)) is not None and _is_large(r.outputs[0])}
        factors = rule_of(e).factors
        if factors is not None and (rows or _is_large(v)):
            found = next((g for run in factors(e) if (g := _group(known, e, run, rows)) is not None), None)
            known = known if found is None else _Uses(found.rewritten())
    return graph if known.graph is graph else own_outputs(own_constants(known.graph))


def _is_large(v: Var) -> bool:
    return v.type.static and v.type.nbytes >= LARGE  # type: ignore[operator]


class _Uses:
    """A graph, with the equation that computes each value and those that read it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = frozenset(graph.outputs)
        self.made = {v: e for e in graph.equations for v in e.outputs}
        self.readers: dict[Atom, list[int]] = {}
        for k, e in enumerate(graph.equations):
            for x in dict.fromkeys(e.inputs):
                self.readers.setdefault(x, []).append(k)

    def looked_up(self, x: Atom) -> Equation | None:
        """The lookup of table rows that gives a value, perhaps reshaped; None if there is none."""
        e = self.made.get(x) if isinstance(x, Var) else None
        while e is not None and rule_of(e).moves:
            (x,) = e.inputs
            e = self.made.get(x) if isinstance(x, Var) else None
        return e if e is not None and rule_of(e).is_lookup else None


@dataclass
class _Group:
    """A product, the equations that are cut along a run of its axes, and their connections to the rest of the graph."""

    known: _Uses
    seed: Equation
    run: Run
    bulk: int  # bytes of the product, or of the rows looked up for it
    runs: dict[Var, Run]  # of the values that are computed in strips
    members: list[Equation] = field(default_factory=list[Equation])
    inner: set[Equation] = field(default_factory=set[Equation])  # the members that are computed in strips only
    cut: dict[tuple[Atom, Run], None] = field(default_factory=dict[tuple[Atom, Run], None])  # read in strips
    whole: dict[Var, None] = field(default_factory=dict[Var, None])  # read whole
    results: list[Var] = field(default_factory=list[Var])

    @property
    def graph(self) -> Graph:
        """The whole graph."""
        return self.known.graph

    @property
    def length(self) -> int:
        """The length of the run."""
        return prod(self.seed.outputs[0].type.shape[slice(*self.run)])  # type: ignore[arg-type]

    # ---- which equations

    def small(self, v: Var) -> bool:
        """Whether a value is so much smaller than the product that it may be stored whole."""
        return v.type.static and v.type.nbytes * SMALL <= self.bulk  # type: ignore[operator]

    def grow(self) -> set[Equation] | None:
        """The equations after the product that can be cut along the run; None if another one reads large values."""
        found: set[Equation] = set()
        todo: list[int] = []
        e = self.seed
        while True:
            (v,) = e.outputs
            if v in self.known.outputs and not self.small(v):
                return None
            found.add(e)
            for k in self.known.readers.get(v, ()):
                heappush(todo, k)
            e = self.next(todo, found)
            if e is None:
                return None if todo else found

    def next(self, todo: list[int], found: set[Equation]) -> Equation | None:
        """The next equation, in order, that can be cut; None after the last, or with some left where one cannot be."""
        while todo:
            e = self.graph.equations[todo[0]]
            mine = [k for k, x in enumerate(e.inputs) if isinstance(x, Var) and x in self.runs]
            if e not in found:
                run = self.result_run(e, mine)
                if run is not None:
                    heappop(todo)
                    self.runs[e.outputs[0]] = run
                    return e
                if not all(self.small(e.inputs[k]) for k in mine):  # type: ignore[arg-type]
                    return None
            heappop(todo)
        return None

    def result_run(self, e: Equation, mine: Sequence[int]) -> Run | None:
        """The run of an equation's result that corresponds to those of some operands; None if there is none."""
        runs = [self.runs[e.inputs[k]] for k in mine]  # type: ignore[index]
        run = follow(e, mine[0], runs[0]) if len(e.outputs) == 1 else None
        wanted = None if run is None else needs(e, run)
        return run if wanted is not None and [wanted[k] for k in mine] == runs else None

    def trim(self, found: set[Equation]) -> None:
        """Drop the equations that no large value needs; add those that only strips read."""
        chosen: set[Equation] = set()
        wanted: dict[Atom, Run] = {}
        for e in reversed(self.graph.equations):
            v = e.outputs[0] if len(e.outputs) == 1 else None
            if v is None:
                continue
            if e in found:
                reads = any(x in self.runs and not self.small(x) for x in e.inputs if isinstance(x, Var))
                joins = reads or v in wanted or e is self.seed
            else:
                readers = (self.graph.equations[k] for k in self.known.readers.get(v, ()))
                alone = v not in self.known.outputs and all(r in chosen for r in readers)
                joins = v in wanted and self.takes(e, wanted[v], alone)
            if not joins:
                continue
            run = self.runs[v] = self.runs[v] if e in found else wanted[v]
            chosen.add(e)
            for x, needed in zip(e.inputs, needs(e, run) or (), strict=True):
                if needed is not None:
                    wanted.setdefault(x, needed)
        self.members = [e for e in self.graph.equations if e in chosen]
        self.inner = {e for e in chosen if e in found or not rule_of(e).is_free}
        kept = {e.outputs[0] for e in self.members}
        self.runs = {v: run for v, run in self.runs.items() if v in kept}

    def takes(self, e: Equation, run: Run, alone: bool) -> bool:
        """Whether a value that strips read is computed in them: it costs nothing, or only they read it."""
        if needs(e, run) is None:
            return False
        rule = rule_of(e)
        if rule.is_free:
            return True
        if rule.is_lookup or rule.moves:
            return alone
        return alone and not self.small(e.outputs[0]) and (plain(e) or rule.factors is not None)

    def connect(self) -> bool:
        """Find the values that the members read and return; False if they cannot be computed together."""
        outside: set[Atom] = set(self.graph.outputs)
        for e in self.graph.equations:
            if e not in self.inner:
                outside.update(e.inputs)
        for e in self.members:
            wanted = needs(e, self.runs[e.outputs[0]])
            assert wanted is not None
            for x, needed in zip(e.inputs, wanted, strict=True):
                known = self.runs.get(x) if isinstance(x, Var) else None
                if known is not None:
                    if known != needed:
                        return False
                elif needed is not None:
                    self.cut[x, needed] = None
                elif isinstance(x, Var):
                    self.whole[x] = None
            self.results += [v for v in e.outputs if v in outside and e in self.inner]
        ready = all(map(self.ready, (x for x, _ in self.cut)))
        return ready and bool(self.results) and all(map(self.small, self.results)) and not self.circular()

    def ready(self, x: Atom) -> bool:
        """Whether a value that strips read is in memory anyway, or small: not one that its readers compute."""
        e = self.known.made.get(x) if isinstance(x, Var) and x not in self.known.outputs and not self.small(x) else None
        if e is None:
            return True
        low = e.primitive.lowering
        return not isinstance(low, Element) or (low.view is not None and not rule_of(e).is_free)

    def circular(self) -> bool:
        """Whether the members depend on their own results."""
        behind: set[Atom] = set(self.results)
        for e in self.graph.equations:
            if e not in self.inner and not behind.isdisjoint(e.inputs):
                behind.update(e.outputs)
        return any(x in behind for x in (*self.whole, *(x for x, _ in self.cut)))

    def rows(self) -> int:
        """The length of a strip: it fits in caches, but is long enough that the factor read whole does not dominate."""
        left, _ = needs(self.seed, self.run) or (None, None)
        factor, unit = (self.seed.inputs[0], WIDE) if left is None else (self.seed.inputs[1], WHOLE)
        times = next((n for most, n in STREAMED if factor.type.nbytes <= most), LONGEST)  # type: ignore[operator]
        return max(times, NEAR * self.length // self.bulk // unit) * unit

    # ---- the loop

    def rewritten(self) -> Graph:
        """The graph with a loop over full strips, and the remaining rows after it."""
        builder = Builder(self.graph.name)
        builder.inputs = list(self.graph.inputs)
        before = self.earlier()
        builder.equations = [e for e in self.graph.equations if e in before]
        known = self.computed(builder)
        for e in self.graph.equations:
            if e not in self.inner and e not in before:
                inputs = tuple(_known(known, x) for x in e.inputs)
                builder.equations.append(Equation(e.primitive, inputs, e.params, e.outputs, e.source))
        return without_dead_code(builder.finish([_known(known, x) for x in self.graph.outputs]))

    def earlier(self) -> set[Equation]:
        """The equations that come before the loop: those before all members, and those that members need."""
        needed: set[Atom] = {*self.whole, *(x for x, _ in self.cut)}
        found: set[Equation] = set()
        for e in reversed(self.graph.equations):
            if e not in self.inner and not needed.isdisjoint(e.outputs):
                found.add(e)
                needed.update(e.inputs)
        return found.union(takewhile(lambda e: e not in self.inner, self.graph.equations))

    def computed(self, builder: Builder) -> dict[Atom, Atom]:
        """Write the loop and the remaining rows; returns the values that replace the results."""
        rows, rounds = self.rows(), self.length // self.rows()
        cuts = [_front(builder, x, run) for x, run in self.cut]
        fixed = list(self.whole)
        body = Builder("band")
        wholes = [body.input(v.type) for v in fixed]
        parts = [body.input(c.type.with_shape((rows, *c.type.shape[1:]))) for c in cuts]
        made = self.strip(body, rows, wholes, parts)
        stacks = [_stacked(builder, c, rows, rounds) for c in cuts]
        params = {"body": body.finish([*wholes, *made]), "carries": len(fixed), "length": rounds, "reverse": False}
        loop = builder.add(scan_p, [*fixed, *stacks], params, self.seed.source)
        pieces = [[_reshape(builder, v, (rows * rounds, *v.type.shape[2:]))] for v in loop[len(fixed) :]]
        if rows * rounds < self.length:
            ends = [_slice(builder, c, rows * rounds, self.length) for c in cuts]
            for piece, v in zip(pieces, self.strip(builder, self.length - rows * rounds, fixed, ends), strict=True):
                piece.append(v)
        found: dict[Atom, Atom] = {}
        for v, piece in zip(self.results, pieces, strict=True):
            whole = piece[0] if len(piece) == 1 else _add(builder, concatenate_p, *piece, axis=0)
            found[v] = _back(builder, whole, v, self.runs[v])
        return found

    def strip(self, builder: Builder, rows: int, wholes: Sequence[Atom], parts: Sequence[Atom]) -> list[Var]:
        """Write the members for a strip of the given number of rows; returns its results, their run as first axis."""
        whole: dict[Atom, Atom] = dict(zip(self.whole, wholes, strict=True))
        cut = {key: _to(builder, part, key[1][0]) for key, part in zip(self.cut, parts, strict=True)}
        inside: dict[Atom, Atom] = {}
        for e in self.members:
            run = self.runs[e.outputs[0]]
            inputs: list[Atom] = []
            for x, needed in zip(e.inputs, needs(e, run) or (), strict=True):
                if x in inside:
                    inputs.append(inside[x])
                else:
                    inputs.append(_known(whole, x) if needed is None else cut[x, needed])
            (v,) = builder.add(e.primitive, inputs, stretched(e, run, rows), e.source)
            assert v.type is strip_type(e.outputs[0].type, run, rows)
            inside[e.outputs[0]] = v
        return [_first(builder, inside[v], self.runs[v][0]) for v in self.results]


def _group(known: _Uses, seed: Equation, run: Run, rows: Collection[Equation]) -> _Group | None:
    """The group of a product, whose factors may be `rows` of a table, along a run; None if it is not worth a loop."""
    bulk = max(v.type.nbytes for e in (seed, *rows) for v in e.outputs)  # type: ignore[type-var]
    group = _Group(known, seed, run, bulk, {seed.outputs[0]: run})  # type: ignore[arg-type]
    if group.length < FEWEST * group.rows():
        return None
    found = group.grow()
    if found is None:
        return None
    group.trim(found)
    if not _is_large(seed.outputs[0]) and not any(e in rows for e in group.members):
        return None
    return group if group.connect() else None


# ---- views


def _known(known: Mapping[Atom, Atom], x: Atom) -> Atom:
    return known.get(x, x)


def _add(builder: Builder, primitive: Primitive, *inputs: Atom, **params: object) -> Var:
    (v,) = builder.add(primitive, inputs, params)
    return v


def _reshape(builder: Builder, x: Atom, shape: Sequence[object]) -> Atom:
    return x if tuple(shape) == x.type.shape else _add(builder, reshape_p, x, shape=tuple(shape))


def _slice(builder: Builder, x: Atom, start: int, stop: int) -> Var:
    """A slice of the first axis."""
    others = x.type.shape[1:]
    return _add(
        builder, slice_p, x, starts=(start, *(0 for _ in others)), stops=(stop, *others), steps=(1,) * x.type.rank
    )


def _moved(builder: Builder, x: Atom, source: int, target: int) -> Atom:
    """x with one axis moved."""
    axes = [k for k in range(x.type.rank) if k != source]
    axes.insert(target, source)
    return x if source == target else _add(builder, permute_p, x, axes=tuple(axes))


def _front(builder: Builder, x: Atom, run: Run) -> Atom:
    """x with a run as its first axis."""
    length = product(x.type.shape[slice(*run)])
    return _moved(builder, _reshape(builder, x, stretch(x.type.shape, run, length)), run[0], 0)


def _to(builder: Builder, x: Atom, axis: int) -> Atom:
    return _moved(builder, x, 0, axis)


def _first(builder: Builder, x: Atom, axis: int) -> Var:
    found = _moved(builder, x, axis, 0)
    assert isinstance(found, Var)
    return found


def _stacked(builder: Builder, x: Atom, rows: int, rounds: int) -> Atom:
    """The rows of full strips, stacked by strip."""
    whole = x if x.type.shape[0] == rows * rounds else _slice(builder, x, 0, rows * rounds)
    return _reshape(builder, whole, (rounds, rows, *x.type.shape[1:]))


def _back(builder: Builder, x: Atom, v: Var, run: Run) -> Atom:
    """A result with its original axes."""
    return _reshape(builder, _to(builder, x, run[0]), v.type.shape)
