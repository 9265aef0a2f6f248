"""Layout of images: where it pays, channels are stored in blocks of 16 between convolutions.

Convolution kernels compute with channels in vector lanes.  With channels in planes, kernels transpose images when they
read and write them.  In blocks, [N, C/16, H, W, 16], no transpose is needed.  A value in blocks has five axes;
pointwise equations stay the same, and values that depend on channels alone become [C/16, 16].  Convolutions and window
maxima have forms that read and write blocks.  They exist only in the compiler: differentiation and batching come
before.

A chain of pointwise operations stays in blocked layout when that saves more transposes than it costs at its ends.  The
order of sums does not depend on layout, so bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from nacre.base.dtypes import float32
from nacre.base.records import dataclass
from nacre.base.types import Shape, TensorType
from nacre.codegen.convolution.sequence import WIDEST_WINDOW
from nacre.compile.fusion.pointwise import is_pointwise
from nacre.compile.primitives import BLOCK, convolve_blocked_p, in_blocks, window_max_blocked_p, winograd_blocked_p
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Primitive, Reduce, RuleKind, register_rule
from nacre.ops.convolution import convolve_p
from nacre.ops.identity import copy_p
from nacre.ops.pointwise import fill_p
from nacre.ops.shape import broadcast_p, permute_p, reshape_p
from nacre.ops.window import window_max_p
from nacre.ops.winograd import winograd_p

# in units of the transposition of one element that a kernel reads or writes: the saving of a convolution for each
# element that it reads from blocks or writes to them, and the cost of a separate pass through memory
READ_BY_WINOGRAD: Final = 1.0
READ_BY_WINDOWS: Final = 0.0  # pixels are read one by one in either layout
READ_BY_POINTS: Final = -1.0  # neighbours, each of which is read once, are adjacent in planes
WRITTEN: Final = 1.0
CONVERTED: Final = 4.0

TO_BLOCKS, TO_PLANES = (0, 1, 3, 4, 2), (0, 1, 4, 2, 3)


@dataclass(frozen=True)
class BlockedForm:
    """The primitive that computes the same on images in blocks, and the equations for which it has kernels.

    `saved(e)` is the saving for each element that it reads from blocks.  Without it, source and result have the same
    layout.
    """

    primitive: Primitive
    fits: Callable[[Equation], bool]
    saved: Callable[[Equation], float] | None = None


@dataclass(frozen=True)
class MadeForm:
    """Images that any layout suits: the equations that create them, and how these are written in blocks."""

    fits: Callable[[Equation], bool]
    write: Callable[[_Writer, Equation], None]


BLOCKED: Final[RuleKind[BlockedForm]] = RuleKind("form in blocks")
MADE: Final[RuleKind[MadeForm]] = RuleKind("made in blocks")


# ---- values that may be in blocks


def is_image(a: Atom) -> bool:
    """Whether a value has channels that make whole blocks."""
    if a.type.rank != 4:
        return False
    _, channels, *plane = a.type.shape
    known = isinstance(channels, int) and all(isinstance(n, int) and n > 0 for n in plane)
    return known and channels > 0 and channels % BLOCK == 0


def _is_dense(e: Equation) -> bool:
    """Whether a convolution has a kernel for blocks: without groups, and with whole blocks of filters."""
    if e.outputs[0].type.dtype is not float32 or e.params["groups"] != 1:
        return False
    known = all(isinstance(n, int) and n > 0 for x in e.inputs for n in x.type.shape[1:])
    return known and is_image(e.outputs[0])


def _saved_by_winograd(e: Equation) -> float:
    return READ_BY_WINOGRAD


def _saved_by_direct(e: Equation) -> float:
    points = e.inputs[1].type.shape[2:] == (1, 1) and tuple(e.params["stride"]) == (1, 1)
    return READ_BY_POINTS if points else READ_BY_WINDOWS


def _converting(e: Equation) -> BlockedForm | None:
    """The form of an equation that may read one layout and write another, that is, of a convolution."""
    form = BLOCKED.of(e.primitive)
    return form if form is not None and form.saved is not None and form.fits(e) else None


def _same_layout(e: Equation) -> BlockedForm | None:
    """The form of an equation that reads and writes the same layout, and is not elementwise."""
    form = BLOCKED.of(e.primitive)
    return form if form is not None and form.saved is None and form.fits(e) else None


def _is_narrow(e: Equation) -> bool:
    """Whether a maximum of windows has a kernel for blocks."""
    return (
        e.inputs[0].type.dtype is float32
        and is_image(e.inputs[0])
        and is_image(e.outputs[0])
        and max(e.params["size"][1], e.params["stride"][1]) <= WIDEST_WINDOW
    )


def _is_pointwise(e: Equation) -> bool:
    """Whether an equation is elementwise, with images as its only operands."""
    return bool(e.inputs) and is_pointwise(e) and "shape" not in e.params and all(map(is_image, e.inputs))


def _is_reduction(e: Equation) -> bool:
    """Whether a reduction is over planes."""
    return isinstance(e.primitive.lowering, Reduce) and is_image(e.inputs[0]) and tuple(e.params["axes"]) == (2, 3)


def _split_channels(e: Equation) -> tuple[Shape, tuple[int, ...]] | None:
    """The shape and axes with which a broadcast in blocks reads its operand in place; None if there are none."""
    x, axes = e.inputs[0].type.shape, tuple(e.params["axes"])
    if 1 not in axes or x[axes.index(1)] == 1:
        return x, axes
    at = axes.index(1)
    if any(n != 1 for n in x[at + 1 :]):
        return None
    return (*x[:at], x[at] // BLOCK, *x[at + 1 :], BLOCK), (*axes, 4)


def _made(e: Equation) -> MadeForm | None:
    """The form of images that any layout suits: those that repeat one number, or one for each channel."""
    form = MADE.of(e.primitive)
    return form if form is not None and is_image(e.outputs[0]) and form.fits(e) else None


class _Groups:
    """Groups of values that share a layout, and the saving by blocks in each."""

    def __init__(self, graph: Graph) -> None:
        self.leader: dict[Atom, Atom] = {}
        self.saved: dict[Atom, float] = {}
        self.read: set[Atom] = set()  # values that other equations read in planes
        self.written: set[Atom] = {a for a in graph.inputs if is_image(a)}  # and those that they write
        for e in graph.equations:
            self.visit(e)
        self.read.update(a for a in graph.outputs if is_image(a))
        self.worth: dict[Atom, float] = {}
        for a in (*self.leader, *self.saved, *self.read, *self.written):
            self.worth.setdefault(self.find(a), 0.0)
        for a, saved in self.saved.items():
            self.worth[self.find(a)] += saved * _elements(a)
        for a in (*self.read, *self.written):
            self.worth[self.find(a)] -= CONVERTED * _elements(a)

    def visit(self, e: Equation) -> None:
        """Record the layouts of an equation's operands and results that it needs, and its savings."""
        form = _converting(e)
        if form is not None and form.saved is not None:
            x, w, y = *e.inputs, e.outputs[0]
            if is_image(x):
                self.saved[x] = self.saved.get(x, 0.0) + form.saved(e)
            self.saved[y] = self.saved.get(y, 0.0) + WRITTEN
            self.read.update(filter(is_image, (w,)))
        elif _same_layout(e) is not None or _is_pointwise(e):
            for a in (*e.inputs, *e.outputs):
                self.join(e.outputs[0], a)
                if not isinstance(a, Var):
                    self.written.add(a)
        else:
            if not _is_reduction(e):
                self.read.update(filter(is_image, e.inputs))
            if _made(e) is None:
                self.written.update(filter(is_image, e.outputs))

    def find(self, a: Atom) -> Atom:
        """The representative of the group of a."""
        while (above := self.leader.get(a, a)) is not a:
            self.leader[a] = self.leader.get(above, above)
            a = above
        return a

    def join(self, a: Atom, b: Atom) -> None:
        """Merge the groups of two values."""
        self.leader[self.find(a)] = self.find(b)
        self.leader.setdefault(self.find(b), self.find(b))

    def blocked(self, a: Atom) -> bool:
        """Whether a value is to be stored in blocks."""
        return is_image(a) and self.worth.get(self.find(a), 0.0) > 0


def _elements(a: Atom) -> int:
    """Elements of one image."""
    return prod(a.type.shape[1:])  # type: ignore[arg-type]


# ---- rewriting


def choose_nchwc(graph: Graph) -> Graph:
    """The graph with values in blocks where that pays."""
    if not any(map(_converting, graph.equations)):
        return graph
    groups = _Groups(graph)
    if all(worth <= 0 for worth in groups.worth.values()):
        return graph
    writer = _Writer(graph, groups)
    for e in graph.equations:
        writer.write(e)
    return Graph(graph.inputs, tuple(writer.equations), graph.outputs, graph.name)


class _Writer:
    """Writes the new graph: values in blocks, and conversions of those that are also read in planes."""

    def __init__(self, graph: Graph, groups: _Groups) -> None:
        self.groups, self.outputs = groups, set(graph.outputs)
        self.equations: list[Equation] = []
        self.blocks: dict[Atom, Var] = {}

    def write(self, e: Equation) -> None:
        """Write an equation, with the layouts of its operands and results."""
        blocked = self.groups.blocked
        converting = _converting(e)
        if converting is not None and (blocked(e.inputs[0]) or blocked(e.outputs[0])):
            self.convolution(e, converting.primitive)
        elif _is_reduction(e) and blocked(e.inputs[0]):
            self.reduction(e)
        elif len(e.outputs) != 1 or not blocked(e.outputs[0]):
            self.equations.append(e)
        elif (same := _same_layout(e)) is not None:
            self.add(e, same.primitive, tuple(map(self.in_blocks, e.inputs)), e.params)
        elif _is_pointwise(e):
            self.add(e, e.primitive, tuple(map(self.in_blocks, e.inputs)), e.params)
        elif (made := _made(e)) is not None:
            made.write(self, e)
        else:
            self.equations.append(e)

    def convolution(self, e: Equation, primitive: Primitive) -> None:
        """A convolution that reads or writes blocks."""
        (x, w), (y,) = e.inputs, e.outputs
        source, result = self.groups.blocked(x), self.groups.blocked(y)
        params = {**e.params, "source": source, "result": result}
        inputs = self.in_blocks(x) if source else x, w
        if result:
            self.add(e, primitive, inputs, params)
        else:
            self.equations.append(Equation(primitive, inputs, params, (y,), e.source))

    def add(self, e: Equation, primitive: Primitive, inputs: Sequence[Atom], params: Any) -> None:
        """Write an equation in place of e with its result in blocks, converted to planes too if it is read there."""
        y = e.outputs[0]
        type = y.type.with_shape(in_blocks(y.type.shape))
        self.blocks[y] = self.one(e.source, primitive, tuple(inputs), params, type)
        if y in self.groups.read:
            self.planes(e, y)

    def one(self, source: str, primitive: Primitive, inputs: tuple[Atom, ...], params: Any, type: TensorType) -> Var:
        """The value of a new equation."""
        found = Var(type)
        self.equations.append(Equation(primitive, inputs, params, (found,), source))
        return found

    def of_number(self, e: Equation) -> None:
        """Images that repeat one number."""
        self.add(e, e.primitive, (), {**e.params, "shape": in_blocks(e.outputs[0].type.shape)})

    def of_channels(self, e: Equation) -> None:
        """Images that repeat one number for each channel."""
        shape, split = in_blocks(e.outputs[0].type.shape), _split_channels(e)
        assert split is not None
        x = e.inputs[0]
        if split[0] != x.type.shape:
            x = self.one(e.source, reshape_p, (x,), {"shape": split[0]}, x.type.with_shape(split[0]))
        self.add(e, e.primitive, (x,), {"shape": shape, "axes": split[1]})

    def reduction(self, e: Equation) -> None:
        """A reduction over planes; its result in blocks has the same order in memory as that in planes."""
        x, y = self.in_blocks(e.inputs[0]), e.outputs[0]
        images, blocks, *_, block = x.type.shape
        found = self.one(e.source, e.primitive, (x,), e.params, y.type.with_shape((images, blocks, block)))
        self.named(e, reshape_p, found, {"shape": y.type.shape}, y)

    def in_blocks(self, a: Atom) -> Var:
        """A value in blocks: as it was written, else converted."""
        found = self.blocks.get(a)
        if found is None:
            images, blocks, height, width, block = shape = in_blocks(a.type.shape)
            split = (images, blocks, block, height, width)
            apart = self.one("", reshape_p, (a,), {"shape": split}, a.type.with_shape(split))
            moved = self.one("", permute_p, (apart,), {"axes": TO_BLOCKS}, a.type.with_shape(shape))
            found = self.blocks[a] = self.one("", copy_p, (moved,), {}, moved.type)
        return found

    def planes(self, e: Equation, y: Var) -> None:
        """Convert a value from blocks to planes."""
        images, blocks, height, width, block = self.blocks[y].type.shape
        type = y.type.with_shape((images, blocks, block, height, width))
        moved = self.one(e.source, permute_p, (self.blocks[y],), {"axes": TO_PLANES}, type)
        self.named(e, reshape_p, moved, {"shape": y.type.shape}, y)

    def named(self, e: Equation, primitive: Primitive, x: Var, params: Any, y: Var) -> None:
        """Define a value of the graph as a view of x; an output is a copy of the view."""
        if y not in self.outputs:
            self.equations.append(Equation(primitive, (x,), params, (y,), e.source))
            return
        seen = self.one(e.source, primitive, (x,), params, y.type)
        self.equations.append(Equation(copy_p, (seen,), {}, (y,), e.source))


register_rule(convolve_p, BLOCKED, BlockedForm(convolve_blocked_p, _is_dense, _saved_by_direct))
register_rule(winograd_p, BLOCKED, BlockedForm(winograd_blocked_p, _is_dense, _saved_by_winograd))
register_rule(window_max_p, BLOCKED, BlockedForm(window_max_blocked_p, _is_narrow))
register_rule(fill_p, MADE, MadeForm(lambda e: True, _Writer.of_number))
register_rule(broadcast_p, MADE, MadeForm(lambda e: _split_channels(e) is not None, _Writer.of_channels))
