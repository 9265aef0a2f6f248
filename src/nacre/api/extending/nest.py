"""Kernels from text in kernel IR: they are checked for accesses outside of a buffer and for unwritten elements."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from nacre.base.arguments import shown
from nacre.base.dims import LIMIT, Dim, Symbol
from nacre.base.errors import GraphError, KindError, ShapeError
from nacre.base.types import TensorType
from nacre.kernel.ast import Alloc, Kernel, statements
from nacre.kernel.bounds import require_inside, with_zeros
from nacre.kernel.distinct import with_distinct_names
from nacre.kernel.parse import parse
from nacre.kernel.text import symbols
from nacre.kernel.verify import verify


def kernel_of_text(name: str, text: Any, types: Sequence[TensorType], results: Sequence[TensorType]) -> Kernel:
    """The kernel of a text, checked against the types of its operands and results.

    Elements that the text does not provably write are zero.
    """
    if not isinstance(text, str):
        raise KindError(f"{name}: a kernel must be a text of kernel IR; got {shown(text)}; return a str")
    try:
        return _checked(name, text, types, results)
    except RecursionError:
        raise GraphError(
            f"{name}: blocks and expressions of a kernel must be nested less deeply; got a text of {len(text)} "
            "characters; bind inner values with `let`"
        ) from None


def _checked(name: str, text: str, types: Sequence[TensorType], results: Sequence[TensorType]) -> Kernel:
    head, _, rest = text.strip().partition("\n")
    known = {s for t in (*types, *results) for size in t.shape if isinstance(size, Dim) for s in size.symbols()}
    bounds = [f"  where {s.name} in {s.low}..{s.high}" for s in known if (s.low, s.high) != (0, LIMIT)]
    kernel = parse("\n".join([head, *sorted(bounds), rest]))
    for word, buffers, wanted in (("inputs", kernel.inputs, types), ("outputs", kernel.outputs, results)):
        found = [TensorType(b.shape, b.dtype) for b in buffers]
        if found != list(wanted) or any(b.strides is not None for b in buffers):
            needed, got = (", ".join(map(str, each)) for each in (wanted, found))
            raise ShapeError(
                f"{name}: the {word} of the kernel must be dense, with types {needed}; got {got}; "
                "write the types into the text"
            )
    _require_known(name, kernel, known)
    kernel = with_distinct_names(kernel)
    verify(kernel, gathers=False)
    require_inside(kernel)
    complete = with_zeros(kernel)
    verify(complete)
    return complete


def _require_known(name: str, kernel: Kernel, known: Set[Symbol]) -> None:
    """Raise GraphError for scratch with strides, and for sizes that no operand and no result has."""
    for s in statements(kernel.body):
        if isinstance(s, Alloc) and s.buffer.strides is not None:
            raise GraphError(f"{name}: scratch must have no strides; got some of {s.buffer.name}; leave them out")
    others = sorted(s.name for s in symbols(kernel) - known)
    if others:
        sizes = ", ".join(sorted(s.name for s in known)) or "none"
        raise GraphError(
            f"{name}: sizes of a kernel must be numbers, or Dims of its types, {sizes}; got {', '.join(others)}; "
            "neither a loop's extent nor a shape takes names of loops or of `let`"
        )
