"""Trees: nested tuples, lists, dicts, named tuples, dataclasses and modules, with tensors or other objects as leaves.

The arguments and results of `jit`, `grad`, `vmap` and control flow are trees; these functions work on them.  None is a
tree without leaves.  Leaves come in the order of the containers: dict entries and module variables in the order in
which they were set, dataclass fields as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base import tree
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.tree import Structure
from nacre.trace.variable import Variable

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]


def map(f: Callable[..., Any], first: Any, /, *rest: Any) -> Any:
    """The tree with f applied to each leaf; with several trees, f of their leaves at each place.

    A parameter that modules share has one result.  Raises ArgumentError if the trees have different structures, and
    for a variable at several places of other containers.

    >>> nc.tree.map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
    {'a': 11, 'b': [22, 33]}
    """
    if not callable(f):
        raise DTypeError(
            f"tree.map: the first argument must be a function; got {type(f).__name__}; write tree.map(f, tree)"
        )
    leaves, structure = tree.flatten(first)
    seen: set[int] = set()
    for place, at in enumerate(tree.first_places(structure)):
        if at == place and isinstance(leaves[place], Variable) and id(leaves[place]) in seen:
            raise ArgumentError(
                "tree.map: a variable must be at one place, or at several places of one module; got one at several "
                "places of another container, where the result would not be shared; write `p.value` for it"
            )
        seen.add(id(leaves[place]))
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

    A parameter that modules share has its first leaf at all of its places.
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
    given = list(leaves)
    if len(given) == structure.leaves:
        given = tree.mapped_once(structure, given, lambda leaf: leaf)
    return tree.unflatten(structure, given)


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
