"""Flatten and rebuild nested containers: tuples, lists, dicts, named tuples, None, and registered classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass

Flatten = Callable[[Any], tuple[Sequence[Any], Hashable]]
Rebuild = Callable[[Hashable, Sequence[Any]], Any]

_registered: dict[type, tuple[Flatten, Rebuild]] = {}


def register(cls: type, flatten: Flatten, rebuild: Rebuild) -> None:
    """Treat instances of `cls` as containers: `flatten(obj) -> (children, data)`, `rebuild(data, children)`."""
    _registered[cls] = flatten, rebuild


@dataclass(frozen=True)
class Structure:
    """The shape of a container: its kind, its data (keys, class …), its children.  Leaves are `LEAF`."""

    kind: type | None
    data: Hashable = None
    children: tuple[Structure, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return 1 if self.kind is None else sum(c.leaves for c in self.children)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        name = "" if self.kind in (tuple, list, dict) else self.kind.__name__
        return f"{name}({', '.join(map(str, self.children))})"


LEAF = Structure(None)


def _open(tree: Any) -> tuple[type, Sequence[Any], Hashable] | None:
    node: object = tree
    kind = type(node)
    if node is None:
        return type(None), (), None
    if kind is tuple or kind is list:
        return kind, tree, None
    if kind is dict:
        return dict, list(tree.values()), tuple(tree)
    if kind in _registered:
        children, data = _registered[kind][0](tree)
        return kind, children, data
    if isinstance(node, tuple) and hasattr(kind, "_fields"):
        return kind, tree, None
    for base in kind.__mro__[1:]:
        if base in _registered:
            children, data = _registered[base][0](tree)
            return base, children, data
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure that `unflatten` rebuilds them into."""
    opened = _open(tree)
    if opened is None:
        return [tree], LEAF
    kind, children, data = opened
    leaves: list[Any] = []
    structures: list[Structure] = []
    for child in children:
        more, structure = flatten(child)
        leaves += more
        structures.append(structure)
    return leaves, Structure(kind, data, tuple(structures))


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The container of the given structure and leaves."""
    if len(leaves) != structure.leaves:
        raise ArgumentError(f"unflatten: {structure.leaves} leaves are required; got {len(leaves)}")
    return _rebuild(structure, iter(leaves))


def replaced(tree: Any, leaves: Iterator[Any], rebuilt: list[Any]) -> Any:
    """A tree with other leaves, in order.

    Containers that get a leaf of another identity, lists and dicts are built anew and added to `rebuilt`; others
    stay the objects they are.
    """
    opened = _open(tree)
    if opened is None:
        return next(leaves)
    kind, children, data = opened
    held = [replaced(child, leaves, rebuilt) for child in children]
    if kind not in (list, dict) and all(new is old for new, old in zip(held, children, strict=True)):
        return tree
    made = _rebuild(Structure(kind, data, (LEAF,) * len(held)), iter(held))
    rebuilt.append(made)
    return made


def _rebuild(structure: Structure, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    children = [_rebuild(c, leaves) for c in structure.children]
    if kind is type(None):
        return None
    if kind is tuple:
        return tuple(children)
    if kind is list:
        return children
    if kind is dict:
        return dict(zip(structure.data, children, strict=True))  # type: ignore[arg-type]
    if kind in _registered:
        return _registered[kind][1](structure.data, children)
    return kind(*children)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply f to the leaves of trees of one structure."""
    leaves, structure = flatten(tree)
    others: list[list[Any]] = []
    for other in rest:
        more, found = flatten(other)
        if found != structure:
            raise ArgumentError(f"tree_map: trees of one structure are required; got {structure} and {found}")
        others.append(more)
    return unflatten(structure, [f(*args) for args in zip(leaves, *others, strict=True)])
