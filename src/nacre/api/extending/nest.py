"""Kernels from text in kernel IR: they are checked for accesses outside of a buffer and for unwritten elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.arguments import shown
from nacre.base.dims import LIMIT, Dim
from nacre.base.errors import KindError, ShapeError
from nacre.base.types import TensorType
from nacre.kernel.ast import Kernel
from nacre.kernel.bounds import require_inside, with_zeros
from nacre.kernel.distinct import with_distinct_names
from nacre.kernel.parse import parse
from nacre.kernel.verify import verify


def kernel_of_text(name: str, text: Any, types: Sequence[TensorType], results: Sequence[TensorType]) -> Kernel:
    """The kernel of a text, checked against the types of its operands and results.

    Elements that the text does not provably write are zero.
    """
    if not isinstance(text, str):
        raise KindError(f"{name}: a kernel must be a text of kernel IR; got {shown(text)}; return a str")
    head, _, rest = text.strip().partition("\n")
    symbols = {s for t in (*types, *results) for size in t.shape if isinstance(size, Dim) for s in size.symbols()}
    bounds = [f"  where {s.name} in {s.low}..{s.high}" for s in symbols if (s.low, s.high) != (0, LIMIT)]
    kernel = parse("\n".join([head, *sorted(bounds), rest]))
    for word, buffers, wanted in (("inputs", kernel.inputs, types), ("outputs", kernel.outputs, results)):
        found = [TensorType(b.shape, b.dtype) for b in buffers]
        if found != list(wanted) or any(b.strides is not None for b in buffers):
            needed, got = (", ".join(map(str, each)) for each in (wanted, found))
            raise ShapeError(
                f"{name}: the {word} of the kernel must be dense, with types {needed}; got {got}; "
                "write the types into the text"
            )
    kernel = with_distinct_names(kernel)
    verify(kernel, gathers=False)
    require_inside(kernel)
    complete = with_zeros(kernel)
    verify(complete)
    return complete
