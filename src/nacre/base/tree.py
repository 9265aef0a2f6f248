"""Flatten and rebuild nested containers: tuples, lists, dicts, named tuples, dataclasses, None, registered classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NoReturn, TypeVar

from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, MissingKey, StateError
from nacre.base.exact import exact_key
from nacre.base.hints import closest
from nacre.base.records import dataclass

T = TypeVar("T")
R = TypeVar("R")
Flatten = Callable[[Any], tuple[Sequence[Any], Hashable]]
Rebuild = Callable[[Hashable, Sequence[Any]], Any]

DEEP: Final = 100  # containers within containers
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
        """The number of leaves."""
        return 1 if self.kind is None else sum(c.leaves for c in self.children)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        name = "" if self.kind in (tuple, list, dict) else self.kind.__name__
        return f"{name}({', '.join(map(str, self.children))})"


LEAF = Structure(None)
TEXT: Final = frozenset({str})


class Keys(tuple[Any, ...]):
    """The keys of a dict, not all of them plain strings; compared by `exact_key`, unlike 1 == True == 1.0.

    >>> Keys([1]) == Keys([1]), Keys([1]) == Keys([True]), Keys([0.0]) == Keys([-0.0])
    (True, False, False)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and exact_key(tuple(self)) == exact_key(tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(exact_key(tuple(self)))


def keys_of(held: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dict in order, as part of a structure.

    >>> keys_of({"a": 1, "b": 2}), keys_of({1: 1, "b": 2})
    (('a', 'b'), (1, 'b'))
    """
    return tuple(held) if TEXT.issuperset(map(type, held)) else Keys(held)


def _open(tree: Any) -> tuple[type, Sequence[Any], Hashable] | None:
    node: object = tree
    kind = type(node)
    if node is None:
        return type(None), (), None
    if kind is tuple or kind is list:
        return kind, tree, None
    if kind is dict:
        return dict, list(tree.values()), keys_of(tree)
    if isinstance(node, ReadOnlyMapping):
        return dict, list(tree.values()), keys_of(tree.held)
    if kind in _registered:
        children, data = _registered[kind][0](tree)
        return kind, children, data
    if isinstance(node, tuple) and hasattr(kind, "_fields"):
        return kind, tree, None
    for base in kind.__mro__[1:]:
        if base in _registered:
            children, data = _registered[base][0](tree)
            return base, children, data
    if hasattr(kind, "__dataclass_fields__") and not is_own(kind):
        names = _fields(node)
        return kind, [getattr(tree, name) for name in names], names
    return None


def is_own(kind: type) -> bool:
    """Whether a class belongs to this package, whose dataclasses are leaves."""
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _fields(node: Any) -> tuple[str, ...]:
    """The fields of a dataclass instance that are set, including those that are not parameters of `__init__`."""
    return tuple(f.name for f in dataclasses.fields(node) if hasattr(node, f.name))


def _dataclass(kind: Any, names: tuple[str, ...], children: Sequence[Any]) -> Any:
    """An instance with the given fields, created without `__init__`, so that no field is computed again."""
    made: Any = object.__new__(kind)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def opened(tree: Any) -> tuple[list[Any], Hashable] | None:
    """The children of a container and its data (keys, class …); None for a leaf."""
    found = _open(tree)
    return None if found is None else (list(found[1]), (found[0], found[2]))


def _is_deep(tree: Any) -> bool:
    """Whether containers are nested too deeply."""
    waiting = [(tree, 0)]
    while waiting:
        held, depth = waiting.pop()
        found = _open(held)
        if found is not None and depth > DEEP:
            return True
        waiting += [(child, depth + 1) for child in found[1]] if found is not None else []
    return False


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure that `unflatten` rebuilds them into.

    Raises ArgumentError for a container that contains itself.
    """
    try:
        return _flatten(tree)
    except RecursionError:
        if not _is_deep(tree):  # the caller recurses
            raise
        raise ArgumentError(
            "tree: a container must not contain itself or be nested too deeply for Python; "
            f"got such a {type(tree).__name__}"
        ) from None


def _flatten(tree: Any) -> tuple[list[Any], Structure]:
    opened = _open(tree)
    if opened is None:
        return [tree], LEAF
    kind, children, data = opened
    leaves: list[Any] = []
    structures: list[Structure] = []
    for child in children:
        more, structure = _flatten(child)
        leaves += more
        structures.append(structure)
    return leaves, Structure(kind, data, tuple(structures))


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The container of the given structure and leaves."""
    if len(leaves) != structure.leaves:
        raise ArgumentError(f"tree.unflatten: the structure needs {structure.leaves} leaves; got {len(leaves)}")
    return _rebuild(structure, iter(leaves))


def first_places(structure: Structure) -> list[int]:
    """For each leaf its own place, or the place of the first leaf that is the same variable of modules.

    The data of a container may have `identities`: for each child, what identifies it as a variable, or None.
    """
    found: dict[Hashable, int] = {}
    places: list[int] = []

    def visit(s: Structure, identity: Hashable) -> None:
        """Add the places of the leaves of a part."""
        if s.kind is None:
            at = len(places)
            places.append(at if identity is None else found.setdefault(identity, at))
            return
        identities: Sequence[Hashable] = getattr(s.data, "identities", None) or (None,) * len(s.children)
        for child, own in zip(s.children, identities, strict=True):
            visit(child, own)

    visit(structure, None)
    return places


def mapped_once(structure: Structure, items: Iterable[T], f: Callable[[T], R]) -> list[R]:
    """f of the item of each leaf; a variable at several places of modules has one result."""
    results: list[R] = []
    for place, item in zip(first_places(structure), items, strict=True):
        results.append(results[place] if place < len(results) else f(item))
    return results


def leaves_as(structure: Structure, tree: Any, what: str) -> list[Any]:
    """The subtrees at the places of a structure's leaves; dicts are matched by keys.

    None is one of them, and in the place of a container it is None for each leaf.  Raises ArgumentError if the
    structure above the leaves differs otherwise.
    """
    if structure.kind is None:
        return [tree]
    if tree is None:
        return [None] * structure.leaves
    opened = _open(tree)
    if opened is None or opened[0] is not structure.kind or len(opened[1]) != len(structure.children):
        raise ArgumentError(f"{what} must have structure {structure}; got {flatten(tree)[1]}")
    children = opened[1]
    if structure.kind is dict:
        keys: Any = structure.data
        if set(tree) != set(keys):
            raise ArgumentError(f"{what} must have the keys {list(keys)}; got {list(tree)}")
        children = [tree[key] for key in keys]
    return [x for s, child in zip(structure.children, children, strict=True) for x in leaves_as(s, child, what)]


def replaced(tree: Any, leaves: Iterator[Any], rebuilt: list[Any]) -> Any:
    """A tree with other leaves, in order.

    Lists, dicts and containers with a changed leaf are rebuilt and added to `rebuilt`; other containers are unchanged.
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
    if structure.data is not None:
        return _dataclass(kind, structure.data, children)  # type: ignore[arg-type]
    return kind(*children)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply f to the leaves of trees of one structure; once for a variable that modules have at several places."""
    leaves, structure = flatten(tree)
    others: list[list[Any]] = []
    for other in rest:
        more, found = flatten(other)
        if found != structure:
            raise ArgumentError(f"tree.map: trees must have one structure; got {structure} and {found}")
        others.append(more)
    rows = zip(leaves, *others, strict=True)
    return unflatten(structure, mapped_once(structure, rows, lambda args: f(*args)))


# ---- mappings that cannot be changed

CHANGES: Final = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
)  # fmt: skip


class ReadOnlyMapping(Mapping[str, T], Generic[T]):
    """Values by name that only their owner makes; `advice` in errors says what changes them instead.

    >>> sizes = ReadOnlyMapping({"rows": 2}, "sizes", "write Shape(rows=3)")
    >>> sizes["rows"] = 3
    Traceback (most recent call last):
    nacre.base.errors.StateError: sizes: entries cannot be changed; write Shape(rows=3)
    """

    __slots__ = ("advice", "held", "what")

    def __init__(self, held: Mapping[str, T], what: str, advice: str) -> None:
        self.held, self.what, self.advice = dict(held), what, advice

    def lent(self, value: T) -> T:
        """The object of a value that a user gets."""
        return value

    def __getitem__(self, name: str) -> T:
        try:
            return self.lent(self.held[name])
        except KeyError:
            raise MissingKey(
                f"{self.what}: the name must be one of {', '.join(list(self.held)[:20]) or 'none'}; got {shown(name)}"
                f"{closest(str(name), self.held)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __eq__(self, other: object) -> bool:
        mapping: Any = other
        return self.held == (mapping.held if isinstance(other, ReadOnlyMapping) else other)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def copy(self) -> dict[str, T]:
        """A dict of the same values, which can be changed."""
        return dict(self)

    def __repr__(self) -> str:
        return repr(self.held)


def _refusal(name: str) -> Callable[..., NoReturn]:
    """The method of a dict that changes it, which raises StateError."""

    def refuse(self: ReadOnlyMapping[Any], *given: Any, **named: Any) -> NoReturn:
        raise StateError(f"{self.what}: entries cannot be changed; {self.advice}")

    refuse.__name__ = name
    return refuse


for change in CHANGES:
    setattr(ReadOnlyMapping, change, _refusal(change))
