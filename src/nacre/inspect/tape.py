"""`tape_memory`: the memory that the tape holds until `backward`, by operation, module and line of the user's code.

>>> import nacre as nc
>>> x = nc.ones(1000).requires_grad_()
>>> with source_lines():
...     loss = nc.sum(nc.exp(x) * x)
>>> held = tape_memory(loss)
>>> held.nbytes, held.leaves, [row.operation for row in held.rows]
(4000, 4000, ['exp'])
>>> loss.backward()
>>> tape_memory(loss).nbytes
0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from nacre.api.tensor import Tensor
from nacre.base.boundary import publish_all
from nacre.base.errors import GradientError, KindError
from nacre.base.records import dataclass
from nacre.interpret.backward import reachable
from nacre.interpret.reverse import FusedRule
from nacre.interpret.tape import TapeNode
from nacre.nn.module import Module
from nacre.runtime.buffer import is_buffer, readable
from nacre.trace.bind import source_lines as noted_lines
from nacre.trace.modes import StateBlock
from nacre.trace.variable import Leaf

__all__ = ["TapeMemory", "TapeRow", "source_lines", "tape_memory"]


@dataclass(frozen=True)
class TapeRow:
    """Saved values that belong together: their operation, module and line, how many buffers, and their bytes.

    >>> import nacre as nc
    >>> from nacre.inspect.tape import tape_memory
    >>> (row,) = tape_memory(nc.exp(nc.ones(1000).requires_grad_())).rows
    >>> row.operation, row.buffers, row.nbytes
    ('exp', 1, 4000)
    """

    operation: str
    module: str  # the path of the module whose parameters the operation reads; empty without any
    line: str  # as `file:line (function)`; empty where it was not noted
    buffers: int
    nbytes: int


@dataclass(frozen=True)
class TapeMemory:
    """What a tape holds: rows, the largest first, and the bytes of leaves, which exist without the tape, too.

    `backward` frees the bytes of the rows, as far as no other tensor has them.

    >>> import nacre as nc
    >>> from nacre.inspect.tape import tape_memory
    >>> held = tape_memory(nc.sum(nc.exp(nc.ones(1000).requires_grad_())))
    >>> held.nbytes, held.leaves
    (4000, 0)
    """

    rows: tuple[TapeRow, ...]
    leaves: int

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(row.nbytes for row in self.rows)

    def by(self, owner: Literal["operation", "module", "line"]) -> dict[str, int]:
        """The bytes of each operation, module or line, the largest first.

        >>> import nacre as nc
        >>> from nacre.inspect.tape import tape_memory
        >>> x = nc.ones(1000).requires_grad_()
        >>> tape_memory(nc.sum(nc.tanh(nc.exp(x)))).by("operation")
        {'exp': 4000, 'tanh': 4000}
        """
        if owner not in ("operation", "module", "line"):
            raise KindError(f"by: owner must be 'operation', 'module' or 'line'; got {owner!r}")
        sums: dict[str, int] = {}
        for row in self.rows:
            name = getattr(row, owner)
            sums[name] = sums.get(name, 0) + row.nbytes
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        lines = [f"{readable(self.nbytes)} until backward, and {readable(self.leaves)} of leaves"]
        for row in self.rows:
            owner = "  ".join(part for part in (row.operation, row.module, row.line) if part)
            lines.append(f"{readable(row.nbytes):>12}  {row.buffers:>4} buffers  {owner}")
        return "\n".join(lines)


def source_lines() -> StateBlock[bool]:
    """A context, or a decorator, in which the tape notes the line of each operation, for `tape_memory`.

    Operations take a few microseconds more in it.

    >>> import nacre as nc
    >>> from nacre.inspect.tape import source_lines, tape_memory
    >>> with source_lines():
    ...     y = nc.exp(nc.ones(3).requires_grad_())
    >>> tape_memory(y).rows[0].line != ""
    True
    """
    return noted_lines()


def tape_memory(*tensors: Tensor, model: Module | None = None) -> TapeMemory:
    """The memory that the tape holds for a `backward` from some tensors, by owner.

    Each buffer counts once, for the earliest operation that saved it.  Values of calls of compiled functions belong to
    the operation `call`.  With a model, an operation belongs to the module whose parameters it reads.  Lines are noted
    inside of `source_lines`.

    Args:
        tensors: results, of any shape and dtype, such as a loss.
        model: names the modules.

    Raises GradientError for a tensor that was not computed from one that requires a gradient.

    >>> import nacre as nc
    >>> from nacre.inspect.tape import tape_memory
    >>> model = nc.nn.Sequential(nc.nn.Linear(8, 16), nc.nn.Tanh(), nc.nn.Linear(16, 1))
    >>> tape_memory(model(nc.ones((4, 8))).sum(), model=model).by("module")
    {'': 256, '0': 128}
    """
    for x in tensors:
        if not isinstance(x, Tensor) or x.node is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            given = f"a tensor of type {x.type}" if isinstance(x, Tensor) else f"a {type(x).__name__}"  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GradientError(
                f"tape_memory: tensors must be computed from a tensor that requires a gradient; got {given}, which has "
                "no record; write tape_memory(loss) before loss.backward(), outside of no_grad()"
            )
    modules: Mapping[Any, str] = dict[Any, str]() if model is None else _modules(model)
    nodes = sorted(reachable([x.node for x in tensors]), key=lambda node: node.number)
    leaves = _leaves(nodes)
    saved_leaves: dict[int, int] = {}  # the bytes of each buffer
    owned: dict[tuple[str, str, str], dict[int, int]] = {}
    seen: set[int] = set()
    for node in nodes:
        owner = _operation(node), _module(node, modules), getattr(node, "source", "")
        for x in node.saved or ():
            if is_buffer(x.content) and x.content.address not in seen:
                at, nbytes = x.content.address, len(x.content)
                seen.add(at)
                (saved_leaves if at in leaves else owned.setdefault(owner, {}))[at] = nbytes
    rows = [TapeRow(*owner, len(sizes), sum(sizes.values())) for owner, sizes in owned.items()]
    return TapeMemory(tuple(sorted(rows, key=lambda row: -row.nbytes)), sum(saved_leaves.values()))


def _leaves(nodes: Sequence[TapeNode]) -> set[int]:
    """The addresses of the buffers of leaves; a view of a leaf may be saved, too."""
    values = [x for node in nodes for x in node.saved or () if isinstance(x.node, Leaf)]
    owners = [p.owner for node in nodes for p in node.parents if isinstance(p, Leaf) and p.owner is not None]
    return {x.content.address for x in [*values, *(v.cell for v in owners)] if is_buffer(x.content)}


def _modules(model: Module) -> Mapping[Any, str]:
    """The paths of modules by their parameters; that of the model itself is empty."""
    return {p: name.rpartition(".")[0] for name, p in model.named_parameters()}


def _module(node: TapeNode, modules: Mapping[Any, str]) -> str:
    """The module whose parameters an operation reads; the innermost one that contains all of them."""
    owners = [p.owner for p in node.parents if isinstance(p, Leaf)]
    paths = [modules[p].split(".") for p in owners if p in modules]
    if not paths:
        return ""
    same = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    return ".".join(same) or "."


def _operation(node: TapeNode) -> str:
    """The name of an operation; those of all equations for a fused one."""
    whole = node.rule.whole
    if isinstance(whole, FusedRule):
        return "+".join(dict.fromkeys(step.rule.primitive.name for step in whole.reverse.steps))
    return node.rule.primitive.name


publish_all(__name__)
