"""`TemplateStep`: one launch of a kernel that a generator writes, over values that have no numbers yet."""

from __future__ import annotations

from collections.abc import Callable

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import Fill
from nacre.compile.fusion.materialisation import View
from nacre.ir.graph import Var
from nacre.runtime.executable import Code
from nacre.runtime.plan import Cut


@dataclass(frozen=True)
class Scratch:
    """A temporary that a template's steps pass to each other, by a name that is theirs alone."""

    name: str
    nbytes: Size
    of: View | None = None  # the operand from which `fill` may compute it
    fill: Fill | None = None


@dataclass(frozen=True)
class PrepackedOperand:
    """Memory in which an operand may stay packed from call to call."""

    of: View
    nbytes: int
    fill: Fill | None = None  # computes it from a constant when a program is built, if that is possible


Place = View | Var | Scratch | PrepackedOperand  # an operand's view, a result, a temporary, an operand packed
ArgSlot = tuple[Place, Size] | Size  # an address with an offset in bytes, or a number


@dataclass(frozen=True)
class TemplateStep:
    """One launch of a template, before values have numbers."""

    code: Code
    slots: tuple[ArgSlot, ...]
    extent: Size
    cost: Size
    scratch: Size
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    flops: Size
    cut: Callable[[tuple[int, ...], int], Cut] | None = None
    cut_sizes: tuple[Size, ...] = ()
    grain: Size = 1
    over: tuple[tuple[Place, Place], ...] = ()  # pairs (read, written) that may share memory
