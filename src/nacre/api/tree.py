"""Trees: nested tuples, lists, dicts, named tuples, dataclasses and modules, with tensors or other objects as leaves.

The arguments and results of `jit`, `grad`, `vmap` and control flow are trees; these functions work on them.  None is a
tree without leaves.  Leaves come in the order of the containers: dict entries and module variables in the order in
which they were set, dataclass fields as declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from nacre.base import tree
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.tree import Structure
from nacre.trace.variable import Variable

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]


def map(f: Callable[..., Any], first: Any, /, *rest: Any) -> Any:
    """The tree with f applied to each leaf; with several trees, f of their leaves at each place.

    Raises ArgumentError if the trees have different structures, and for a variable at several places, as a shared
    parameter of a module: the result would hold two tensors, which are no longer one.

    >>> nc.tree.map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
    {'a': 11, 'b': [22, 33]}
    """
    if not callable(f):
        raise DTypeError(
            f"tree.map: the first argument must be a function; got {type(f).__name__}; write tree.map(f, tree)"
        )
    variables = Counter(id(x) for x in tree.flatten(first)[0] if isinstance(x, Variable))
    if variables and variables.most_common(1)[0][1] > 1:
        raise ArgumentError(
            "tree.map: a variable must be at one place of the first tree; got one at several, which the result would "
            "not share; write `for p, g in zip(model.parameters(), gradient.parameters()): p.assign(...)`"
        )
    return tree.tree_map(f, first, *rest)


def flatten(x: Any, /) -> tuple[list[Any], Structure]:
    """The leaves of a tree in order, and its structure, which `unflatten` fills again.

    >>> leaves, structure = nc.tree.flatten({"a": 1, "b": (2, None)})
    >>> leaves, nc.tree.unflatten(structure, ["x", "y"])
    ([1, 2], {'a': 'x', 'b': ('y', None)})
    """
    return tree.flatten(x)


def unflatten(structure: Structure, leaves: Sequence[Any], /) -> Any:
    """The tree of a structure, from `flatten` or `structure`, with the given leaves in order.

    Raises ArgumentError if the number of leaves is wrong.

    >>> nc.tree.unflatten(nc.tree.structure([0, (0, 0)]), nc.arange(3).tolist())
    [0, (1, 2)]
    """
    if not isinstance(structure, Structure):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DTypeError(
            f"tree.unflatten: the first argument must be a structure; got {type(structure).__name__}; "
            "write "
            "tree.unflatten(structure, leaves)"
        )
    return tree.unflatten(structure, list(leaves))


def leaves(x: Any, /) -> list[Any]:
    """The leaves of a tree in order.

    >>> nc.tree.leaves([1, {"a": (2, 3)}, None])
    [1, 2, 3]
    >>> [p.shape for p in nc.tree.leaves(nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return tree.flatten(x)[0]


def structure(x: Any, /) -> Structure:
    """The structure of a tree: the tree without its leaves.  Structures compare, hash and print.

    >>> print(nc.tree.structure([1, (2, None)]))
    (*, (*, NoneType()))
    >>> nc.tree.structure({"a": 1}) == nc.tree.structure({"a": 2})
    True
    """
    return tree.flatten(x)[1]
