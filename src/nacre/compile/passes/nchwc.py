"""Layout of images: where it pays, channels are stored in blocks of 16 between convolutions.

Convolution kernels compute with channels in vector lanes.  With channels in planes, kernels transpose images when they
read and write them.  In blocks, [N, C/16, H, W, 16], no transpose is needed.  A value in blocks has five axes;
pointwise equations stay the same, and values that depend on channels alone become [C/16, 16].  Convolutions and window
maxima have forms that read and write blocks.  They exist only in the compiler: differentiation and batching happen
before.

A chain of pointwise operations stays in blocked layout when that saves more transposes than it costs at its ends.  The
order of sums does not depend on layout, so bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from nacre.base.dtypes import float32
from nacre.base.types import Shape, TensorType
from nacre.codegen.window.kernel import WIDEST
from nacre.compile.fusion.fuse import is_pointwise
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Primitive, Reduce, Template
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.ops.convolution import convolve_p
from nacre.ops.copy import copy_p
from nacre.ops.pointwise import fill_p
from nacre.ops.shape import broadcast_p, permute_p, reshape_p
from nacre.ops.window import window_max_p
from nacre.ops.winograd import winograd_p

BLOCK: Final = CHANNEL_BLOCK

# in transpositions of an element on its way in or out of a kernel: what a convolution saves for each that it reads
# from blocks or writes there, and what a pass of its own through memory costs
READ_BY_WINOGRAD: Final = 1.0
READ_BY_WINDOWS: Final = 0.0  # pixels are read one by one in either layout
READ_BY_POINTS: Final = -1.0  # neighbours that are all read once lie together in planes
WRITTEN: Final = 1.0
CONVERTED: Final = 4.0

TO_BLOCKS, TO_PLANES = (0, 1, 3, 4, 2), (0, 1, 4, 2, 3)


def in_blocks(shape: Shape) -> Shape:
    """The shape in blocks of images [N, C, H, W]."""
    images, channels, height, width = shape
    return (images, channels // BLOCK, height, width, BLOCK)


def in_planes(type: TensorType) -> TensorType:
    """The type of images [N, C, H, W], of those that may be in blocks."""
    if type.rank != 5:
        return type
    images, blocks, height, width, block = type.shape
    return type.with_shape((images, blocks * block, height, width))


def _result(result: bool, found: TensorType) -> TensorType:
    return found.with_shape(in_blocks(found.shape)) if result else found


def _convolution_type(of: Primitive) -> Any:
    def rule(x: TensorType, w: TensorType, source: bool, result: bool, **params: Any) -> TensorType:
        """The type of a convolution whose source and result may be in blocks."""
        return _result(result, of.type_rule(in_planes(x) if source else x, w, **params))

    return rule


def _maximum_type(x: TensorType, **params: Any) -> TensorType:
    return _result(True, window_max_p.type_rule(in_planes(x), **params))


convolve_blocked_p = Primitive("convolve_blocked", _convolution_type(convolve_p), Template("convolve_blocked"))
winograd_blocked_p = Primitive("winograd_blocked", _convolution_type(winograd_p), Template("winograd_blocked"))
window_max_blocked_p = Primitive("window_max_blocked", _maximum_type, Template("window_max_blocked"))

CONVOLUTIONS: Final = {convolve_p: convolve_blocked_p, winograd_p: winograd_blocked_p}


# ---- which values may lie in blocks


def is_image(a: Atom) -> bool:
    """Whether a value has channels that make whole blocks."""
    if a.type.rank != 4:
        return False
    _, channels, *plane = a.type.shape
    known = isinstance(channels, int) and all(isinstance(n, int) and n > 0 for n in plane)
    return known and channels > 0 and channels % BLOCK == 0


def _is_convolution(e: Equation) -> bool:
    """Whether a convolution has a kernel for blocks: dense, of enough channels."""
    if e.primitive not in CONVOLUTIONS or e.outputs[0].type.dtype is not float32 or e.params["groups"] != 1:
        return False
    known = all(isinstance(n, int) and n > 0 for x in e.inputs for n in x.type.shape[1:])
    return known and is_image(e.outputs[0])


def _saved_reading(e: Equation) -> float:
    """What a convolution saves for each element that it reads from blocks."""
    if e.primitive is winograd_p:
        return READ_BY_WINOGRAD
    points = e.inputs[1].type.shape[2:] == (1, 1) and tuple(e.params["stride"]) == (1, 1)
    return READ_BY_POINTS if points else READ_BY_WINDOWS


def _is_maximum(e: Equation) -> bool:
    """Whether a maximum of windows has a kernel for blocks."""
    return (
        e.primitive is window_max_p
        and e.inputs[0].type.dtype is float32
        and is_image(e.inputs[0])
        and is_image(e.outputs[0])
        and max(e.params["size"][1], e.params["stride"][1]) <= WIDEST
    )


def _is_pointwise(e: Equation) -> bool:
    """Whether an equation is computed element by element, of images alone."""
    return bool(e.inputs) and is_pointwise(e) and "shape" not in e.params and all(map(is_image, e.inputs))


def _is_reduction(e: Equation) -> bool:
    """Whether a reduction is over planes."""
    return isinstance(e.primitive.lowering, Reduce) and is_image(e.inputs[0]) and tuple(e.params["axes"]) == (2, 3)


def _split_channels(e: Equation) -> tuple[Shape, tuple[int, ...]] | None:
    """The shape and axes by which the operand of a broadcast becomes blocks as it lies; None where it cannot."""
    x, axes = e.inputs[0].type.shape, tuple(e.params["axes"])
    if 1 not in axes or x[axes.index(1)] == 1:
        return x, axes
    at = axes.index(1)
    if any(n != 1 for n in x[at + 1 :]):
        return None
    return (*x[:at], x[at] // BLOCK, *x[at + 1 :], BLOCK), (*axes, 4)


def _is_made(e: Equation) -> bool:
    """Whether images are made in any layout alike: of a number, or of channels."""
    if e.primitive is fill_p:
        return is_image(e.outputs[0])
    return e.primitive is broadcast_p and is_image(e.outputs[0]) and _split_channels(e) is not None


class _Groups:
    """Groups of values that share a layout, and what blocks would save in each."""

    def __init__(self, graph: Graph) -> None:
        self.leader: dict[Atom, Atom] = {}
        self.saved: dict[Atom, float] = {}
        self.read: set[Atom] = set()  # values that others read in planes
        self.written: set[Atom] = {a for a in graph.inputs if is_image(a)}  # and that others write
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
        """Note what an equation says of its operands and results."""
        if _is_convolution(e):
            x, w, y = *e.inputs, e.outputs[0]
            if is_image(x):
                self.saved[x] = self.saved.get(x, 0.0) + _saved_reading(e)
            self.saved[y] = self.saved.get(y, 0.0) + WRITTEN
            self.read.update(filter(is_image, (w,)))
        elif _is_maximum(e) or _is_pointwise(e):
            for a in (*e.inputs, *e.outputs):
                self.join(e.outputs[0], a)
                if not isinstance(a, Var):
                    self.written.add(a)
        else:
            if not _is_reduction(e):
                self.read.update(filter(is_image, e.inputs))
            if not _is_made(e):
                self.written.update(filter(is_image, e.outputs))

    def find(self, a: Atom) -> Atom:
        """The value that stands for the group of a."""
        while (above := self.leader.get(a, a)) is not a:
            self.leader[a] = self.leader.get(above, above)
            a = above
        return a

    def join(self, a: Atom, b: Atom) -> None:
        """Put two values into one group."""
        self.leader[self.find(a)] = self.find(b)
        self.leader.setdefault(self.find(b), self.find(b))

    def blocked(self, a: Atom) -> bool:
        """Whether a value shall lie in blocks."""
        return is_image(a) and self.worth.get(self.find(a), 0.0) > 0


def _elements(a: Atom) -> int:
    """Elements of one image."""
    return prod(a.type.shape[1:])  # type: ignore[arg-type]


# ---- the rewriting


def choose_nchwc(graph: Graph) -> Graph:
    """The graph with values in blocks where that pays."""
    if not any(map(_is_convolution, graph.equations)):
        return graph
    groups = _Groups(graph)
    if all(worth <= 0 for worth in groups.worth.values()):
        return graph
    writer = _Writer(graph, groups)
    for e in graph.equations:
        writer.write(e)
    return Graph(graph.inputs, tuple(writer.equations), graph.outputs, graph.name)


class _Writer:
    """The graph being written anew: values in blocks, and those that are read in planes too."""

    def __init__(self, graph: Graph, groups: _Groups) -> None:
        self.groups, self.outputs = groups, set(graph.outputs)
        self.equations: list[Equation] = []
        self.blocks: dict[Atom, Var] = {}

    def write(self, e: Equation) -> None:
        """Write an equation, with the layouts of its operands and results."""
        blocked = self.groups.blocked
        if _is_convolution(e) and (blocked(e.inputs[0]) or blocked(e.outputs[0])):
            self.convolution(e)
        elif _is_reduction(e) and blocked(e.inputs[0]):
            self.reduction(e)
        elif len(e.outputs) != 1 or not blocked(e.outputs[0]):
            self.equations.append(e)
        elif _is_maximum(e):
            self.add(e, window_max_blocked_p, (self.in_blocks(e.inputs[0]),), e.params)
        elif _is_pointwise(e):
            self.add(e, e.primitive, tuple(map(self.in_blocks, e.inputs)), e.params)
        elif _is_made(e):
            self.made(e)
        else:
            self.equations.append(e)

    def convolution(self, e: Equation) -> None:
        """A convolution that reads or writes blocks."""
        (x, w), (y,) = e.inputs, e.outputs
        source, result = self.groups.blocked(x), self.groups.blocked(y)
        primitive, params = CONVOLUTIONS[e.primitive], {**e.params, "source": source, "result": result}
        inputs = self.in_blocks(x) if source else x, w
        if result:
            self.add(e, primitive, inputs, params)
        else:
            self.equations.append(Equation(primitive, inputs, params, (y,), e.source))

    def add(self, e: Equation, primitive: Primitive, inputs: Sequence[Atom], params: Any) -> None:
        """An equation in the place of e whose result is in blocks, and that in planes if it is read so."""
        y = e.outputs[0]
        type = y.type.with_shape(in_blocks(y.type.shape))
        self.blocks[y] = self.one(e.source, primitive, tuple(inputs), params, type)
        if y in self.groups.read:
            self.planes(e, y)

    def one(self, source: str, primitive: Primitive, inputs: tuple[Atom, ...], params: Any, type: TensorType) -> Var:
        """A new value of an equation."""
        found = Var(type)
        self.equations.append(Equation(primitive, inputs, params, (found,), source))
        return found

    def made(self, e: Equation) -> None:
        """Images of a number, or of channels."""
        shape = in_blocks(e.outputs[0].type.shape)
        if e.primitive is fill_p:
            self.add(e, fill_p, (), {**e.params, "shape": shape})
            return
        split = _split_channels(e)
        assert split is not None
        x = e.inputs[0]
        if split[0] != x.type.shape:
            x = self.one(e.source, reshape_p, (x,), {"shape": split[0]}, x.type.with_shape(split[0]))
        self.add(e, broadcast_p, (x,), {"shape": shape, "axes": split[1]})

    def reduction(self, e: Equation) -> None:
        """A reduction over planes; its result, in blocks, lies as that in planes does."""
        x, y = self.in_blocks(e.inputs[0]), e.outputs[0]
        images, blocks, *_, block = x.type.shape
        found = self.one(e.source, e.primitive, (x,), e.params, y.type.with_shape((images, blocks, block)))
        self.named(e, reshape_p, found, {"shape": y.type.shape}, y)

    def in_blocks(self, a: Atom) -> Var:
        """A value in blocks: as it was written, else brought there."""
        found = self.blocks.get(a)
        if found is None:
            images, blocks, height, width, block = shape = in_blocks(a.type.shape)
            split = (images, blocks, block, height, width)
            apart = self.one("", reshape_p, (a,), {"shape": split}, a.type.with_shape(split))
            moved = self.one("", permute_p, (apart,), {"axes": TO_BLOCKS}, a.type.with_shape(shape))
            found = self.blocks[a] = self.one("", copy_p, (moved,), {}, moved.type)
        return found

    def planes(self, e: Equation, y: Var) -> None:
        """Bring a value from blocks to planes."""
        images, blocks, height, width, block = self.blocks[y].type.shape
        type = y.type.with_shape((images, blocks, block, height, width))
        moved = self.one(e.source, permute_p, (self.blocks[y],), {"axes": TO_PLANES}, type)
        self.named(e, reshape_p, moved, {"shape": y.type.shape}, y)

    def named(self, e: Equation, primitive: Primitive, x: Var, params: Any, y: Var) -> None:
        """A value of the graph by a view of x; a value of its own where it is an output."""
        if y not in self.outputs:
            self.equations.append(Equation(primitive, (x,), params, (y,), e.source))
            return
        seen = self.one(e.source, primitive, (x,), params, y.type)
        self.equations.append(Equation(copy_p, (seen,), {}, (y,), e.source))
