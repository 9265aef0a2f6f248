"""The primitives, one family in each file.  Importing the package registers all of them by name."""

from nacre.ir.primitive import Lowering, Primitive, registered
from nacre.ops import (
    check,
    control,
    convolution,
    dot,
    fft,
    gather,
    host,
    identity,
    index,
    linalg,
    pointwise,
    random,
    reduce,
    rules,
    search,
    shape,
    sort,
    view,
    window,
)

__all__ = [
    "OWN",
    "check",
    "control",
    "convolution",
    "dot",
    "fft",
    "gather",
    "host",
    "identity",
    "index",
    "linalg",
    "pointwise",
    "random",
    "reduce",
    "rules",
    "search",
    "shape",
    "sort",
    "view",
    "window",
]

# primitives that the package defines, with their lowerings; only programs of these are cached between processes
OWN: dict[Primitive, Lowering] = {
    p: p.lowering
    for p in registered().values()
    if all(
        getattr(rule, "__module__", "").startswith("nacre.")
        for rule in (p.type_rule, getattr(p.lowering, "rule", p.type_rule))
    )
}
