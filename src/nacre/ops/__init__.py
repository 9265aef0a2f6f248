"""The primitives, a family a file; importing the package registers them all by name."""

from nacre.ops import (
    contract,
    control,
    convolve,
    copy,
    detach,
    gather,
    index,
    pointwise,
    random,
    reduce,
    rules,
    shape,
    sort,
    view,
    window,
)

__all__ = [
    "contract",
    "control",
    "convolve",
    "copy",
    "detach",
    "gather",
    "index",
    "pointwise",
    "random",
    "reduce",
    "rules",
    "shape",
    "sort",
    "view",
    "window",
]
